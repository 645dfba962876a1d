"""What storage refuses, named for what the caller can do about it."""


class StorageError(Exception):
    """Something storage cannot do now."""


class LogUnavailable(StorageError):
    """The commit log takes no record: nothing was applied, nothing is lost, reads go on."""


class LogFull(LogUnavailable):
    """No room for a next log segment (disk full or read-only); tried again until there is some."""


class LogBroken(LogUnavailable):
    """A write or sync of the log failed: what it holds is unknown until it is read again at a restart."""


class MutationTooLarge(StorageError):
    """The write does not fit into one frame of the commit log."""


class WritesRefused(StorageError):
    """Memory for unflushed writes is used up and flushing fails."""


class Corrupt(StorageError):
    """Files do not hold what was written: refuse to go on rather than lose rows silently."""


class LogCorrupt(Corrupt):
    """Damage in the middle of the commit log, with intact records after it."""


class TabletCorrupt(Corrupt):
    """A tablet's directory lacks files that it must have."""


class CommitRefused(StorageError):
    """A change of a tablet's files certainly did not happen."""


class CommitUnknown(StorageError):
    """A change of a tablet's files may or may not survive a restart; the next change settles it."""


class ForeignFile(StorageError):
    """A file that is to be attached is not of this tablet."""


class SnapshotDamaged(StorageError):
    """What arrived of a snapshot is not what was sent."""


class Dropped(StorageError):
    """The tablet's table is gone."""

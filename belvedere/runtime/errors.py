"""Failures of the world, named for what they are: a closed socket is not a broken disk."""


class DiskError(Exception):
    """Something a disk refused. `path` says where."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{message}: {path}" if path else message)
        self.path = path


class DiskFull(DiskError):
    pass


class ReadOnlyDisk(DiskError):
    pass


class FileMissing(DiskError):
    pass


class FileExists(DiskError):
    pass


class AlreadyLocked(DiskError):
    """Another process holds the lock."""


class DiskBroken(DiskError):
    """An I/O error: what was written since the last successful sync may be lost."""


class NetworkError(Exception):
    """A peer could not be reached, or went away."""


class ConnectionRefused(NetworkError):
    pass


class AddressInUse(NetworkError):
    """Another listener has this address and port."""


class ConnectionClosed(NetworkError):
    pass


class ProcessGone(Exception):
    """A child process ended, or could not be started."""

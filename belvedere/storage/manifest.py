"""The manifest: which files are a tablet's, and up to which commit version they hold its writes.

It is swapped whole: written aside, synced, renamed, the directory synced. Until the rename nothing has
happened, so a failure there is certain; a failure at the rename or the directory's sync leaves it unknown
which of the two manifests a restart will find, and then no file that either may name is deleted.
"""

import crc32c
import msgspec

from belvedere.model.positions import Position
from belvedere.runtime.api import Runtime
from belvedere.runtime.errors import DiskError, FileMissing
from belvedere.storage.errors import CommitRefused, CommitUnknown, TabletCorrupt
from belvedere.storage.sstable_format import SSTableFacts

MANIFEST_FORMAT = 1
MANIFEST_NAME = "manifest.json"


class ManifestFile(msgspec.Struct, frozen=True, omit_defaults=True):
    number: int
    facts: SSTableFacts
    #: The load that brought the file, as long as the views of the table do not show it.
    staged: str = ""
    #: Outputs of one compaction share the number of the first of them; 0: a file of its own.
    run: int = 0


class Manifest(msgspec.Struct, frozen=True):
    format: int
    tablet: int
    table: str
    first_token: int
    last_token: int
    #: Log records of this tablet up to this commit version are in the files, or were truncated.
    flushed_version: int
    #: No commit version up to this one may be given again.
    last_version: int
    #: Numbers below were used for files, also if those are gone.
    next_file: int
    files: tuple[ManifestFile, ...] = ()
    #: Log records of this tablet up to this commit version were truncated, with what they did to views.
    truncated_version: int = 0
    #: Loads whose files were attached, until nobody can attach them once more.
    attached: tuple[str, ...] = ()
    #: Of a replicated tablet: the epoch of `flushed_version`.
    flushed_epoch: int = 0
    #: Of a replicated tablet: what the commit log has of it up to this position is of a former life.
    log_floor: int = 0

    @property
    def flushed(self) -> Position:
        return Position(self.flushed_epoch, self.flushed_version)


class _Envelope(msgspec.Struct):
    crc32c: int
    manifest: msgspec.Raw


def sstable_name(number: int) -> str:
    return f"sst-{number:08d}.parquet"


def sidecar_name(number: int) -> str:
    return f"sst-{number:08d}.json"


async def load_manifest(runtime: Runtime, directory: str) -> Manifest | None:
    """None if the tablet was never here."""
    path = f"{directory}/{MANIFEST_NAME}"
    try:
        data = await runtime.disk.read(path)
    except FileMissing:
        names = await runtime.disk.list(directory)
        if any(name.endswith(".parquet") for name in names):
            raise TabletCorrupt(
                f"{path} is missing, but there are sstables beside it: which of them count is unknown"
            ) from None
        return None
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        if crc32c.crc32c(bytes(envelope.manifest)) != envelope.crc32c:
            raise TabletCorrupt(f"{path} is damaged: its checksum does not match")
        manifest = msgspec.json.decode(envelope.manifest, type=Manifest)
    except msgspec.DecodeError as error:
        raise TabletCorrupt(f"{path} is damaged: {error}") from error
    if manifest.format != MANIFEST_FORMAT:
        raise TabletCorrupt(
            f"{path} has format {manifest.format}; this version reads format {MANIFEST_FORMAT}"
        )
    return manifest


async def commit_manifest(runtime: Runtime, directory: str, manifest: Manifest) -> None:
    """Make it the tablet's. Raises CommitRefused (nothing happened) or CommitUnknown."""
    body = msgspec.json.encode(manifest)
    data = msgspec.json.encode(_Envelope(crc32c.crc32c(body), msgspec.Raw(body)))
    path = f"{directory}/{MANIFEST_NAME}"
    disk = runtime.disk
    try:
        await disk.write(f"{path}.new", data)
    except DiskError as error:
        raise CommitRefused(f"the manifest could not be written: {error}") from error
    if pause := runtime.buggify("manifest.rename"):
        await pause
    try:
        await disk.rename(f"{path}.new", path)
        await disk.sync_directory(directory)
    except DiskError as error:
        raise CommitUnknown(f"the manifest may or may not have been replaced: {error}") from error

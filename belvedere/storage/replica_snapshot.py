"""A replica as files: what a learner gets whose log does not connect to the primary's.

A `ReplicaSnapshot` lists files by name, size and checksum, and is read in pieces of any size. One of them
says what the others are; it also holds the records that have something to deliver still, so that whoever
was restored can take that over. `IncomingSnapshot` writes the pieces beside the tablet, where a next start
finds nothing of them; what arrived whole is given to `ReplicaLog.restore`.
"""

from collections.abc import Sequence

import crc32c
import msgspec

from belvedere.model.positions import Position, Record
from belvedere.runtime.api import AppendFile, Runtime
from belvedere.storage.errors import SnapshotDamaged
from belvedere.storage.manifest import ManifestFile, sstable_name
from belvedere.storage.snapshot import Snapshot

ABOUT_NAME = "replica.msgpack"
INCOMING_NAME = "incoming"


class SnapshotFile(msgspec.Struct, frozen=True, array_like=True):
    name: str
    size: int
    crc32c: int


class SnapshotAbout(msgspec.Struct, frozen=True):
    """What a replica was when the snapshot was taken: its files hold exactly the records up to `position`."""

    table: bytes
    position: Position
    truncated_version: int
    attached: tuple[str, ...]
    files: tuple[ManifestFile, ...]
    #: The newest records up to `position`, from the oldest on that has something to deliver.
    records: tuple[Record, ...]

    @property
    def base(self) -> Position:
        """Where the log begins that comes with it."""
        return self.records[0].previous if self.records else self.position


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SnapshotAbout).decode


class ReplicaSnapshot:
    """To be released when it was read: until then its files are kept."""

    def __init__(self, runtime: Runtime, pinned: Snapshot, directory: str, about: SnapshotAbout) -> None:
        self.position = about.position
        self._runtime = runtime
        self._pinned = pinned
        self._directory = directory
        self._about = _encode(about)
        described = [(sstable_name(file.number), file.facts) for file in about.files]
        self.files = (
            SnapshotFile(ABOUT_NAME, len(self._about), crc32c.crc32c(self._about)),
            *(SnapshotFile(name, facts.size, facts.crc32c) for name, facts in described),
        )

    async def read(self, name: str, offset: int, length: int) -> bytes:
        """Fewer bytes than asked for only at the end of the file."""
        if name == ABOUT_NAME:
            return self._about[offset : offset + length]
        if not any(file.name == name for file in self.files):
            raise SnapshotDamaged(f"the snapshot has no file {name}")
        return await self._runtime.disk.read(f"{self._directory}/{name}", offset, length)

    def release(self) -> None:
        self._pinned.release()


class _Arriving:
    def __init__(self, file: SnapshotFile) -> None:
        self.file = file
        self.size = 0
        self.crc32c = 0
        self.output: AppendFile | None = None


class IncomingSnapshot:
    """Made by `ReplicaLog.receive`. Write every file from its start to its end, then restore, or abandon."""

    def __init__(self, runtime: Runtime, directory: str, files: Sequence[SnapshotFile]) -> None:
        self._runtime = runtime
        self.directory = directory
        self._arriving = {file.name: _Arriving(file) for file in files}
        #: What it is, once everything is here.
        self._about: SnapshotAbout | None = None

    async def begin(self) -> None:
        await self._runtime.disk.remove_tree(self.directory)
        await self._runtime.disk.make_directory(self.directory)

    async def write(self, name: str, offset: int, data: bytes) -> None:
        """The next piece of a file; one that was written before is not written again."""
        arriving = self._arriving.get(name)
        if arriving is None:
            raise SnapshotDamaged(f"the snapshot has no file {name}")
        if offset + len(data) <= arriving.size:
            return
        if offset != arriving.size or offset + len(data) > arriving.file.size:
            raise SnapshotDamaged(
                f"{name} goes on at {arriving.size} of {arriving.file.size} bytes,"
                f" not with {len(data)} at {offset}"
            )
        if arriving.output is None:
            arriving.output = await self._runtime.disk.append(f"{self.directory}/{name}", position=0)
        arriving.size += len(data)
        arriving.crc32c = crc32c.crc32c(data, arriving.crc32c)
        await arriving.output.write(data)

    async def finish(self) -> SnapshotAbout:
        """Everything is here, and is what was sent. Raises SnapshotDamaged."""
        if self._about is not None:
            return self._about
        for name, arriving in self._arriving.items():
            file = arriving.file
            if (arriving.size, arriving.crc32c) != (file.size, file.crc32c) or arriving.output is None:
                raise SnapshotDamaged(
                    f"{name} has not arrived as it was sent: {arriving.size} of {file.size} bytes"
                )
            await arriving.output.sync()
        await self._close()
        data = await self._runtime.disk.read(f"{self.directory}/{ABOUT_NAME}")
        try:
            about = _decode(data)
        except msgspec.DecodeError as error:
            raise SnapshotDamaged(f"{ABOUT_NAME} cannot be read: {error}") from error
        if {ABOUT_NAME, *(sstable_name(file.number) for file in about.files)} != set(self._arriving):
            raise SnapshotDamaged("the snapshot lacks files, or has others than it says")
        self._about = about
        return about

    async def _close(self) -> None:
        for arriving in self._arriving.values():
            if arriving.output is not None:
                output, arriving.output = arriving.output, None
                await output.close()

    async def abandon(self) -> None:
        """Remove what arrived; also when it was restored."""
        await self._close()
        await self._runtime.disk.remove_tree(self.directory)

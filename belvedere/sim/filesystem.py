"""What a disk holds and what a power loss leaves of it. No time, no event loop.

Each file has what was written (what reads see) and what is durable, with the changes between them; each
directory has names now and names durable, with a journal of name changes between them. A crash draws the fate
of every change that was not synced: it survived, it did not, or, for a write, some of its sectors did.
"""

import dataclasses
import posixpath
import random
from collections.abc import Callable, Iterator

from belvedere.runtime.errors import DiskError, FileExists, FileMissing

_SECTORS = (512, 4096)
_FATES = ("all lost", "all kept", "prefix", "mixed", "mixed")


@dataclasses.dataclass(slots=True)
class Write:
    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        if len(content) < self.offset:
            content.extend(bytes(self.offset - len(content)))
        content[self.offset : self.offset + len(self.data)] = self.data


@dataclasses.dataclass(slots=True)
class Resize:
    length: int

    def apply(self, content: bytearray) -> None:
        if len(content) > self.length:
            del content[self.length :]
        else:
            content.extend(bytes(self.length - len(content)))


Change = Write | Resize


class File:
    def __init__(self, number: int) -> None:
        self.number = number
        self.content = bytearray()
        self.durable = bytearray()
        self.unsynced: list[Change] = []
        # How many changes have left `unsynced` since the beginning: a sync in progress knows by it which
        # of them it promised.
        self.settled = 0
        self._diverged = False

    @property
    def changes(self) -> int:
        return self.settled + len(self.unsynced)

    def change(self, change: Change) -> None:
        change.apply(self.content)
        self.unsynced.append(change)

    def make_durable(self, changes: int) -> None:
        """All changes up to this number reached the disk."""
        count = max(0, changes - self.settled)
        for change in self.unsynced[:count]:
            change.apply(self.durable)
        del self.unsynced[:count]
        self.settled += count

    def forget(self, changes: int) -> None:
        """A failed sync, as Linux has it: the pages count as clean though they never reached the disk; a
        later sync succeeds and says nothing about them."""
        count = max(0, changes - self.settled)
        del self.unsynced[:count]
        self.settled += count
        self._diverged = True

    def crash(self, generator: random.Random, sector: int) -> bool:
        """Returns whether a write was torn."""
        if not self.unsynced and not self._diverged:
            return False
        torn = False
        fate = generator.choice(_FATES)
        kept = generator.randint(0, len(self.unsynced)) if fate == "prefix" else 0
        for index, change in enumerate(self.unsynced):
            if fate == "all kept" or (fate == "prefix" and index < kept):
                change.apply(self.durable)
            elif fate == "mixed" or (fate == "prefix" and index == kept):
                torn = _tear(change, self.durable, generator, sector) or torn
        self.settled += len(self.unsynced)
        self.unsynced.clear()
        self._diverged = False
        self.content = bytearray(self.durable)
        return torn


def _tear(change: Change, durable: bytearray, generator: random.Random, sector: int) -> bool:
    """Keep a change wholly, not at all, or (a write) by sectors of the disk; True when it came apart."""
    outcome = generator.random()
    if outcome < 0.25:
        change.apply(durable)
        return False
    if outcome < 0.5 or isinstance(change, Resize):
        return False
    pieces = list(_sectors(change, sector))
    if outcome < 0.75:
        kept = pieces[: generator.randint(0, len(pieces))]
    else:
        kept = [piece for piece in pieces if generator.random() < 0.5]
    for piece in kept:
        piece.apply(durable)
    return 0 < len(kept) < len(pieces)


def _sectors(write: Write, sector: int) -> Iterator[Write]:
    position = 0
    while position < len(write.data):
        room = sector - (write.offset + position) % sector
        yield Write(write.offset + position, write.data[position : position + room])
        position += room


class Directory:
    def __init__(self, number: int) -> None:
        self.number = number
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node = File | Directory


@dataclasses.dataclass(slots=True)
class NameChange:
    """One entry as it is after an operation; several of them make one atomic operation (a rename)."""

    directory: Directory
    name: str
    node: Node | None

    @property
    def key(self) -> tuple[int, str]:
        return self.directory.number, self.name

    def apply(self, names: dict[str, Node]) -> None:
        if self.node is None:
            names.pop(self.name, None)
        else:
            names[self.name] = self.node


def split_path(path: str) -> list[str]:
    return [part for part in posixpath.normpath("/" + path).split("/") if part]


class FileSystem:
    """Paths as in the runtime's Disk; relative ones count from the root."""

    def __init__(self) -> None:
        self._numbers = 0
        self.root = Directory(0)
        self._journal: list[tuple[NameChange, ...]] = []
        #: How often names changed, or became durable.
        self.changes = 0

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    # Finding things.

    def find(self, path: str) -> Node | None:
        node: Node = self.root
        for part in split_path(path):
            if not isinstance(node, Directory):
                return None
            found = node.names.get(part)
            if found is None:
                return None
            node = found
        return node

    def file(self, path: str) -> File:
        node = self.find(path)
        if node is None:
            raise FileMissing("no such file or directory", path)
        if isinstance(node, Directory):
            raise DiskError("is a directory", path)
        return node

    def directory(self, path: str) -> Directory:
        node = self.find(path)
        if node is None:
            raise FileMissing("no such file or directory", path)
        if isinstance(node, File):
            raise DiskError("not a directory", path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        parts = split_path(path)
        if not parts:
            raise DiskError("is the root directory", path)
        return self.directory("/".join(parts[:-1])), parts[-1]

    def names(self, path: str) -> list[str]:
        return sorted(self.directory(path).names) if self.find(path) is not None else []

    # Changing names.

    def _record(self, *changes: NameChange) -> None:
        for change in changes:
            change.apply(change.directory.names)
        self._journal.append(changes)
        self.changes += 1

    def create(self, path: str) -> File:
        """The file of this name, made if it was not there."""
        parent, name = self._parent(path)
        node = parent.names.get(name)
        if isinstance(node, Directory):
            raise DiskError("is a directory", path)
        if node is None:
            node = File(self._number())
            self._record(NameChange(parent, name, node))
        return node

    def rename(self, source: str, target: str) -> None:
        from_directory, old = self._parent(source)
        to_directory, new = self._parent(target)
        node = from_directory.names.get(old)
        if node is None:
            raise FileMissing("no such file or directory", source)
        replaced = to_directory.names.get(new)
        if replaced is node:
            return
        if isinstance(replaced, Directory) and (isinstance(node, File) or replaced.names):
            raise DiskError("is a directory" if isinstance(node, File) else "directory not empty", source)
        if isinstance(replaced, File) and isinstance(node, Directory):
            raise DiskError("not a directory", source)
        self._record(NameChange(from_directory, old, None), NameChange(to_directory, new, node))

    def link(self, source: str, target: str) -> None:
        node = self.file(source)
        parent, name = self._parent(target)
        if name in parent.names:
            raise FileExists("file exists", source)
        self._record(NameChange(parent, name, node))

    def remove(self, path: str) -> None:
        self.file(path)
        parent, name = self._parent(path)
        self._record(NameChange(parent, name, None))

    def remove_tree(self, path: str) -> None:
        if self.find(path) is None:
            return
        directory = self.directory(path)
        for name in sorted(directory.names):
            child = f"{path}/{name}"
            # One by one, children first, as `rm -r` does: a crash may leave any part of it.
            if isinstance(directory.names[name], Directory):
                self.remove_tree(child)
            else:
                self.remove(child)
        parent, name = self._parent(path)
        self._record(NameChange(parent, name, None))

    def make_directory(self, path: str) -> None:
        current = self.root
        for part in split_path(path):
            node = current.names.get(part)
            if isinstance(node, File):
                raise FileExists("file exists", path)
            if node is None:
                node = Directory(self._number())
                change = NameChange(current, part, node)
                self._record(change)
                self._make_names_durable(lambda other, wanted=change: other.key == wanted.key)  # type: ignore[misc]
            current = node

    def sync_directory(self, path: str) -> None:
        directory = self.directory(path)
        self._make_names_durable(lambda change: change.directory is directory)

    def _make_names_durable(self, wanted: Callable[[NameChange], bool]) -> None:
        """Operations that touch what is wanted, and the earlier ones on the same names: an older change
        must not come back over a newer one at a crash."""
        chosen: list[tuple[NameChange, ...]] = []
        left: list[tuple[NameChange, ...]] = []
        keys: dict[tuple[int, str], None] = {}
        for operation in reversed(self._journal):
            if any(wanted(change) or change.key in keys for change in operation):
                keys.update((change.key, None) for change in operation)
                chosen.append(operation)
            else:
                left.append(operation)
        for operation in reversed(chosen):
            for change in operation:
                change.apply(change.directory.durable)
        self._journal = left[::-1]
        self.changes += bool(chosen)

    # Losing things.

    def every_file(self) -> list[File]:
        """All files a name leads to, now or durably, in the order of their creation."""
        found: dict[int, File] = {}
        seen: dict[int, None] = {}
        waiting: list[Node] = [self.root]
        waiting += [change.node for operation in self._journal for change in operation if change.node]
        while waiting:
            node = waiting.pop()
            if node.number in seen:
                continue
            seen[node.number] = None
            if isinstance(node, File):
                found[node.number] = node
            else:
                waiting += list(node.names.values()) + list(node.durable.values())
        return [found[number] for number in sorted(found)]

    def used_bytes(self) -> int:
        return sum(len(file.content) for file in self.every_file())

    def crash(self, generator: random.Random) -> int:
        """Power is gone: draw what survived. Returns how many files had a torn write."""
        files = self.every_file()
        sector = generator.choice(_SECTORS)
        torn = sum(file.crash(generator, sector) for file in files)
        fate = generator.choice(_FATES)
        kept = generator.randint(0, len(self._journal)) if fate == "prefix" else 0
        for index, operation in enumerate(self._journal):
            coin = generator.random() < 0.5
            if fate == "all kept" or (fate == "prefix" and index < kept) or (fate == "mixed" and coin):
                for change in operation:
                    change.apply(change.directory.durable)
        self._journal.clear()
        waiting = [self.root]
        while waiting:
            directory = waiting.pop()
            directory.names = dict(directory.durable)
            waiting += [node for node in directory.names.values() if isinstance(node, Directory)]
        return torn

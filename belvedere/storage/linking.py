"""The same file under a second name: a hard link, or a copy where there can be none."""

from typing import Final

from belvedere.runtime.api import Disk
from belvedere.runtime.errors import DiskError, DiskFull, FileExists, FileMissing

#: What is read and written at once when a file must be copied.
COPY_BYTES: Final = 8 << 20


async def link_or_copy(disk: Disk, source: str, target: str) -> None:
    """Raises FileExists when the target does: it may be another name of a file that somebody needs. The
    content is durable on return, the name is not."""
    try:
        await disk.link(source, target)
    except (FileMissing, FileExists, DiskFull):
        raise
    except DiskError:
        # Another file system, or one without links. Any other trouble of the disk, copying has, too.
        if await disk.exists(target):
            raise FileExists("file exists", target) from None
        await _copy(disk, source, target)


async def _copy(disk: Disk, source: str, target: str) -> None:
    copy = await disk.append(target, position=0)
    try:
        while data := await disk.read(source, copy.position, COPY_BYTES):
            await copy.write(data)
        await copy.sync()
    finally:
        await copy.close()

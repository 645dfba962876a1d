"""Bugs planted on purpose, to show that the scenario of views finds such bugs, each as a patch."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from belvedere.model.mutations import LogRecord
from belvedere.model.rows import Row
from belvedere.query import keeping
from belvedere.query.local_access import LocalAccess
from belvedere.storage.engine import StorageEngine
from belvedere.storage.tablet import TabletStore
from belvedere.views import images
from belvedere.views.build import ViewWriter
from belvedere.views.images import ImageMaker


def no_deletion_of_the_old_place() -> Any:
    def updates(self: ImageMaker, token: int, key: bytes, change: Any, version: int) -> Any:
        image = self.image(token, key, change.clustering, change.after, version)
        return [] if image is None else [self.arrival(image)]

    return patch.object(ImageMaker, "updates", updates)


def version_ignored() -> Any:
    original = ImageMaker._image_row

    def image_row(self: ImageMaker, row: Row, version: int) -> Row:
        return original(self, row, 1_000)

    return patch.object(ImageMaker, "_image_row", image_row)


def replay_skips_views() -> Any:
    original = StorageEngine._replay_record

    def replay(self: StorageEngine, position: int, record: LogRecord, size: int) -> None:
        record.views = []
        original(self, position, record, size)

    return patch.object(StorageEngine, "_replay_record", replay)


def build_stamped_too_new() -> Any:
    original = ViewWriter.version

    async def version(self: ViewWriter, at_least: int = 0) -> int:
        return await original(self, at_least) + 5_000_000

    return patch.object(ViewWriter, "version", version)


def expiry_not_capped() -> Any:
    return patch.object(ImageMaker, "_until", lambda self, row: images.NEVER)


def truncate_leaves_views() -> Any:
    async def truncate(self: LocalAccess, table: Any) -> None:
        await self.truncate_alone(table)

    return patch.object(LocalAccess, "truncate", truncate)


def no_lock_while_reading_from_disk() -> Any:
    async def write(self: LocalAccess, mutations: Any) -> int:
        for table, _ in mutations:
            await self._route(table)
        return await self._write_held(mutations)

    return patch.object(LocalAccess, "write", write)


def last_piece_of_a_deletion_forgotten() -> Any:
    original = keeping._delete_most

    async def delete_most(*arguments: Any) -> Any:
        await original(*arguments)
        return ()

    return patch.object(keeping, "_delete_most", delete_most)


def _always(name: str, value: object) -> Any:
    frozen = property(lambda self: value, lambda self, given: None)
    return patch.object(TabletStore, name, frozen, create=True)


def truncation_underway_ignored() -> Any:
    return _always("truncating", False)


@dataclass(frozen=True)
class Bug:
    plant: Callable[[], AbstractContextManager[Any]]
    #: Seeds within which it is found.
    seeds: int = 10

    @property
    def name(self) -> str:
        return self.plant.__name__


QUICK = [
    Bug(no_deletion_of_the_old_place),
    Bug(version_ignored),
    Bug(replay_skips_views),
    Bug(expiry_not_capped),
    Bug(truncate_leaves_views),
    Bug(last_piece_of_a_deletion_forgotten),
]
RARER = [
    Bug(build_stamped_too_new, 30),
    Bug(no_lock_while_reading_from_disk, 60),
    Bug(truncation_underway_ignored, 200),
]

"""Bugs of builds, loads, repairs and writes beside them, planted on purpose, each as a patch."""

from contextlib import AbstractContextManager, asynccontextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import crc32c
import msgspec

from belvedere.meta import view_records
from belvedere.meta.load_records import LoadRecord
from belvedere.pipeline import load_files, loads, view_work
from belvedere.pipeline.load_files import COMMITTED_NAME, LoadFiles, LoadList
from belvedere.pipeline.view_work import ViewWork
from belvedere.query.keeping import KeptWrite
from belvedere.storage import tablet_attach
from belvedere.storage.engine import StorageEngine
from belvedere.storage.tablet import TabletStore
from belvedere.storage.tablet_attach import AttachingTablet
from belvedere.storage.tablet_compaction import CompactedTablet
from belvedere.views import build, local_verify, proposals
from belvedere.views.build import ViewWriter

Planted = AbstractContextManager[Any]


# --- builds ------------------------------------------------------------------------------------------


def task_deleted_before_images_are_durable() -> Planted:
    """A range counts as done once its images are written."""
    original = build._build

    async def build_range(runtime: Any, engine: StorageEngine, *rest: Any) -> int:
        class Hasty:
            write_together_now, room = engine.write_together_now, engine.room

            async def durable(self, position: int) -> None:
                return None

        return await original(runtime, Hasty(), *rest)  # type: ignore[arg-type]

    return patch.object(build, "_build", build_range)


def task_deleted_before_files_are_attached() -> Planted:
    original = ViewWork._attach

    async def attach(self: ViewWork, *arguments: Any) -> None:
        self._runtime.spawn("attach later", original(self, *arguments))

    return patch.object(ViewWork, "_attach", attach)


def images_of_jobs_too_new() -> Planted:
    return _version_of_jobs(5_000_000)


def images_of_jobs_too_old() -> Planted:
    return _version_of_jobs(-5_000_000)


def _version_of_jobs(more: int) -> Planted:
    class Off(ViewWriter):
        async def version(self, at_least: int = 0) -> int:
            return await super().version(at_least) + more

    return patch.object(view_work, "ViewWriter", Off)


def built_with_tasks_left() -> Planted:
    original = proposals.completing

    def completing(state: Any, base: bytes, done: Any) -> Any:
        with patch.object(proposals.view_records, "keys_of_work", lambda *_: iter(())):
            return original(state, base, done)

    return patch("belvedere.views.service.completing", completing)


def truncation_counter_ignored() -> Planted:
    frozen = property(lambda self: 0, lambda self, given: None)
    return patch.object(TabletStore, "truncations", frozen, create=True)


# --- loads -------------------------------------------------------------------------------------------


def staged_files_compacted() -> Planted:
    """Together with others, as if they were ordinary files."""
    original = CompactedTablet.compact

    async def compact(self: CompactedTablet, now: int, everything: bool = False) -> bool:
        for file in self._files.live:
            file.staged = ""
        return await original(self, now, everything)

    return patch.object(CompactedTablet, "compact", compact)


def unstaged_before_views_show_them() -> Planted:
    # The module as `load_files` sees it. A patch inside of `_settle` would outlive machines that crash there.
    nothing_open = SimpleNamespace(**{**vars(view_records), "open_staging": lambda *_: iter(())})
    return patch.object(load_files, "view_records", nothing_open)


def loads_not_staged() -> Planted:
    """Writers do not hear that views may show rows as they were before a load."""
    original = StorageEngine.attach

    async def attach(self: StorageEngine, parts: Any, **options: Any) -> None:
        await original(self, parts, **{**options, "staged": False})

    return patch.object(StorageEngine, "attach", attach)


def staged_rows_not_told_of() -> Planted:
    """A write that changes nothing for readers is not told to views, though a load hides what it changes."""
    original = TabletStore.changes_now

    def changes_now(self: TabletStore, mutation: Any, now: int) -> Any:
        changes = original(self, mutation, now)
        return changes and [one for one in changes if one.before != one.after]

    return patch.object(TabletStore, "changes_now", changes_now)


def list_of_a_load_not_durable() -> Planted:
    async def save_list(runtime: Any, directory: str, outputs: Any) -> LoadRecord:
        data = msgspec.json.encode(LoadList(list(outputs)))
        path = f"{directory}/{COMMITTED_NAME}"
        file = await runtime.disk.append(path)
        await file.write(data)
        return LoadRecord(path, crc32c.crc32c(data), sorted({output.tablet for output in outputs}))

    return patch.object(loads, "save_list", save_list)


def half_of_a_load_is_enough() -> Planted:
    """After a crash, a load counts as attached when any of its tablets has it."""

    async def attach(self: LoadFiles, table: bytes, load: str, record: LoadRecord) -> None:
        stores = self._engine.stores_of(table)
        if any(load in store.attached for store in stores):
            return
        await original(self, table, load, record)

    original = LoadFiles._attach
    return patch.object(LoadFiles, "_attach", attach)


def loads_shown_one_tablet_at_a_time() -> Planted:
    original = tablet_attach._make_all_durable

    async def make_all_durable(changes: Any, load: str) -> None:
        for store, change in changes:
            await original([(store, change)], load)
            store._show(change, load)

    def show(self: AttachingTablet, change: Any, load: str) -> None:
        if not any(file is change.opened[0] for file in self._files.live):
            shown(self, change, load)

    shown = AttachingTablet._show
    both = patch.object(AttachingTablet, "_show", show)
    return _Together(both, patch.object(tablet_attach, "_make_all_durable", make_all_durable))


class _Together:
    def __init__(self, *planted: Planted) -> None:
        self._planted = planted

    def __enter__(self) -> None:
        for one in self._planted:
            one.__enter__()

    def __exit__(self, *raised: Any) -> None:
        for one in self._planted:
            one.__exit__(*raised)


# --- repairs and writers -----------------------------------------------------------------------------


def repair_ignores_the_lock() -> Planted:
    class Unlocked:
        def __init__(self, access: Any) -> None:
            self._access = access

        def __getattr__(self, name: str) -> Any:
            return getattr(self._access, name)

        @asynccontextmanager
        async def lock(self, partitions: Any) -> Any:
            yield

    original = local_verify.LocalVerification.__init__

    def begin(self: Any, runtime: Any, engine: Any, access: Any, *rest: Any) -> None:
        original(self, runtime, engine, Unlocked(access), *rest)  # type: ignore[arg-type]

    return patch.object(local_verify.LocalVerification, "__init__", begin)


def new_views_not_noticed() -> Planted:
    """A writer that waited does not look again which views there are."""

    def is_current(self: KeptWrite, keeper: Any) -> bool:
        unchanged = not self.store.truncating and self.upheavals == self.store.upheavals
        return not self.makers or unchanged

    return patch.object(KeptWrite, "is_current", is_current)


def truncation_not_noticed_by_writers() -> Planted:
    def is_current(self: KeptWrite, keeper: Any) -> bool:
        return keeper.makers(self.table) is self.makers

    return patch.object(KeptWrite, "is_current", is_current)


BUGS = {
    plant.__name__: plant
    for plant in (
        task_deleted_before_images_are_durable,
        task_deleted_before_files_are_attached,
        images_of_jobs_too_new,
        images_of_jobs_too_old,
        built_with_tasks_left,
        truncation_counter_ignored,
        staged_files_compacted,
        unstaged_before_views_show_them,
        loads_not_staged,
        list_of_a_load_not_durable,
        half_of_a_load_is_enough,
        staged_rows_not_told_of,
        loads_shown_one_tablet_at_a_time,
        repair_ignores_the_lock,
        new_views_not_noticed,
        truncation_not_noticed_by_writers,
    )
}

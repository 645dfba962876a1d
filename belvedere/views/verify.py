"""Is a view equal to its base? Compared row by row while writes go on, and put right if asked to.

A first look takes no locks. Only where it finds something wrong are both sides read again, with care that
nothing comes in between: `local_verify` and `cluster_verify` say how.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from belvedere.model.ordering import join_partition_key
from belvedere.model.rows import Complex, Row, stamped, visible
from belvedere.model.schema import WRITE_TIMES, Table
from belvedere.model.token import token_of
from belvedere.query.keeping import ALWAYS
from belvedere.query.select.row_views import RowView, column_reader
from belvedere.query.select.source import RangeSource
from belvedere.query.view_rows import unwrap
from belvedere.runtime.api import Runtime
from belvedere.storage.reads import PartitionRead
from belvedere.views.images import Image, ImageMaker, Place
from belvedere.views.work import Compared

Kind = Literal["missing", "orphaned", "different"]

#: Examples kept of each kind.
MAX_EXAMPLES = 10
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Finding:
    """One row that is wrong, by the values of the view's key columns, as CQL literals."""

    kind: Kind
    key: tuple[tuple[str, str], ...]
    expected: tuple[tuple[str, str], ...] = ()
    found: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Report:
    base_rows: int = 0
    view_rows: int = 0
    missing: int = 0
    orphaned: int = 0
    different: int = 0
    repaired: int = 0
    #: Found wrong and still wrong after an attempt to repair.
    unrepaired: int = 0
    #: More places differ than were looked at one by one.
    unexamined: int = 0
    examples: list[Finding] = field(default_factory=list)

    @property
    def wrong(self) -> int:
        return self.missing + self.orphaned + self.different + self.unexamined

    def add(self, finding: Finding) -> None:
        setattr(self, finding.kind, getattr(self, finding.kind) + 1)
        if sum(one.kind == finding.kind for one in self.examples) < MAX_EXAMPLES:
            self.examples.append(finding)


@dataclass(frozen=True, slots=True)
class BaseRow:
    token: int
    key: bytes
    clustering: bytes


class Verification(ABC):
    """One comparison of one view with its base."""

    def __init__(
        self,
        runtime: Runtime,
        maker: ImageMaker,
        check: Callable[[], None],
        repair: bool = False,
    ) -> None:
        """`check` raises what ends a comparison that means nothing any more."""
        self._runtime = runtime
        self._maker, self._check, self._repair = maker, check, repair
        self._base, self._view = maker.base, maker.view
        #: The same tablets, whose rows are read as they are stored.
        self._raw = replace(maker.view, view=None)
        self._hidden = maker.view.by_name[WRITE_TIMES].position
        view_columns = maker.view.by_name
        self._key_readers = [column_reader(view_columns[c.name]) for c in self._base.partition_key]
        self._clustering_readers = [column_reader(view_columns[c.name]) for c in self._base.clustering]
        self._report = Report()

    async def run(self) -> Report:
        await self._from_base()
        await self._from_view()
        return self._report

    @property
    def repairs(self) -> bool:
        return self._repair

    async def look_at(self, compared: Compared) -> Report:
        """Look again, with the partitions held, where a comparison of files found something."""
        self._report.base_rows, self._report.view_rows = compared.base_rows, compared.view_rows
        self._report.unexamined = compared.unnamed
        nothing = Row(0, 0, 0, True, None, [])
        for token, place in compared.places:
            home = self._home(token, place, nothing)
            await self._look_again(home, place)
        return self._report

    async def _from_base(self) -> None:
        """What should be in the view and is not, or differs."""
        source = self._source(raw_view=False, now=ALWAYS)
        while (batch := await source.next(_PAGE)) is not None:
            for clustering, row in batch.rows:
                self._report.base_rows += 1
                image = self._maker.image(batch.token, batch.key, clustering, row, 0)
                if image is None:
                    continue
                found = await self._stored(image.place)
                if self._judge(image.row, found, self._now()) is not None:
                    await self._look_again(BaseRow(batch.token, batch.key, clustering), None)
            await self._runtime.clock.sleep(0)

    async def _from_view(self) -> None:
        """What is in the view and should not be."""
        source = self._source(raw_view=True, now=self._now())
        while (batch := await source.next(_PAGE)) is not None:
            for clustering, row in batch.rows:
                self._report.view_rows += 1
                place = (batch.key, clustering)
                home = self._home(batch.token, place, row)
                image = await self._image_of(home)
                if image is None or image.place != place or not self._seen(image.row):
                    await self._look_again(home, place)
            await self._runtime.clock.sleep(0)

    @abstractmethod
    def _source(self, *, raw_view: bool, now: int) -> RangeSource:
        """All rows of the base, or of the view as they are stored."""

    @abstractmethod
    async def _read(self, table: Table, read: PartitionRead) -> Row | None: ...

    def _now(self) -> int:
        return self._runtime.clock.wall_micros() // 1_000_000

    def _seen(self, row: Row) -> bool:
        return visible(row, self._now()) is not None

    def _home(self, token: int, place: Place, row: Row) -> BaseRow:
        """The base row that a view's row is of: its key is part of the view's key."""
        seen = RowView(self._view, token, place[0], None, place[1], row)
        parts = [read(seen) for read in self._key_readers]
        inner = [read(seen) for read in self._clustering_readers]
        key = join_partition_key(parts)  # type: ignore[arg-type]
        clustering = self._base.clustering_order.encode(inner)  # type: ignore[arg-type]
        return BaseRow(token_of(key), key, clustering)

    async def _image_of(self, home: BaseRow, version: int = 0) -> Image | None:
        read = PartitionRead(home.token, home.key, row=home.clustering)
        row = await self._read(self._base, read)
        return self._maker.image(home.token, home.key, home.clustering, row, version)

    async def _stored(self, place: Place) -> Row | None:
        """What the view stores under a key, with its stamps."""
        read = PartitionRead(token_of(place[0]), place[0], row=place[1])
        return await self._read(self._raw, read)

    def _judge(self, expected: Row | None, found: Row | None, now: int) -> Kind | None:
        wanted = None if expected is None else visible(expected, now)
        there = None if found is None else visible(found, now)
        if wanted is None:
            return None if there is None else "orphaned"
        if there is None:
            return "missing"
        same = _told(wanted, self._hidden) == _told(there, self._hidden)
        return None if same else "different"

    # --- once more -----------------------------------------------------------------------------------

    @abstractmethod
    async def _look_again(self, home: BaseRow, place: Place | None) -> None:
        """Once more, so that nothing comes in between; `place` is where the view has the row."""

    async def _compare(self, home: BaseRow, place: Place, expected: Image | None) -> None:
        found = await self._stored(place)
        self._check()
        wanted = None if expected is None else expected.row
        kind = self._judge(wanted, found, self._now())
        if kind is None:
            return
        self._report.add(self._finding(kind, place, wanted, found))
        if self._repair:
            right = await self._put_right(home, place)
            self._report.repaired += right
            self._report.unrepaired += not right

    @abstractmethod
    async def _put_right(self, home: BaseRow, place: Place) -> bool:
        """Whether it is right now."""

    async def _image_at(self, home: BaseRow, place: Place, version: int = 0) -> Image | None:
        """The image of a base row, if it is one for this place."""
        image = await self._image_of(home, version)
        return image if image is not None and image.place == place else None

    # --- for people ----------------------------------------------------------------------------------

    def _finding(self, kind: Kind, place: Place, expected: Row | None, found: Row | None) -> Finding:
        key_columns = (*self._view.partition_key, *self._view.clustering)
        keys = self._texts(place, Row(0, 0, 0, True, None, []), {c.name for c in key_columns})
        others = {c.name for c in self._view.regulars if not c.hidden}
        sides = [
            () if row is None else self._texts(place, row, others)
            for row in (None if kind == "orphaned" else expected, found)
        ]
        return Finding(kind, keys, sides[0], sides[1])

    def _texts(self, place: Place, row: Row, names: set[str]) -> tuple[tuple[str, str], ...]:
        seen = RowView(self._view, token_of(place[0]), place[0], None, place[1], row)
        texts = []
        for column in self._view.columns:
            if column.name in names:
                value = column_reader(column)(seen)
                shown = "null" if value is None else str(column.type.decode(value))
                texts.append((column.name, shown))
        return tuple(texts)


def _told(row: Row, hidden: int) -> tuple[object, ...]:
    """All that a reader can learn of a view's row, now or later: values, write times, when they end."""
    base = unwrap(row, hidden)
    cells: dict[object, object] = {}
    for ordinal, cell in enumerate(row.cells):
        told = base.cells[ordinal] if ordinal < len(base.cells) else None
        if cell is None or told is None or ordinal == hidden:
            continue
        if isinstance(cell, Complex) and isinstance(told, Complex):
            for path, item in cell.items.items():
                cells[ordinal, path] = (told.items[path], item[3])
        elif not isinstance(cell, Complex) and not isinstance(told, Complex):
            cells[ordinal] = (stamped(base, told), stamped(row, cell)[3])
    return row.live, row.expiry if row.ttl else 0, cells

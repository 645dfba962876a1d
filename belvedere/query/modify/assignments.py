"""What a statement does to the columns of a row: operations that fill in the cells of a new `Row`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from belvedere.model.rows import NO_TIMESTAMP, AnyCell, Cell, Complex, Row
from belvedere.model.schema import Column
from belvedere.model.types import ListType, MapType, SetType, UserType
from belvedere.query.access import Execution, Unset
from belvedere.query.errors import InvalidRequest
from belvedere.query.modify.list_paths import ListPaths
from belvedere.query.select.collections_out import cell_path
from belvedere.query.terms.values import TermValue


@dataclass(slots=True)
class WriteContext:
    """What all cells written by one run of one statement share."""

    execution: Execution
    timestamp: int
    now: int
    ttl: int
    expiry: int
    #: Positions for new list elements.
    paths: ListPaths

    def live(self, value: bytes) -> Cell:
        return (value, self.timestamp, self.ttl, self.expiry)

    def tombstone(self) -> Cell:
        return (None, self.timestamp, 0, self.now)


@dataclass(slots=True)
class RowDraft:
    """The cells of a row under construction. `existing` is the row as it stands, where an operation asks."""

    cells: list[AnyCell]
    existing: Row | None = None
    #: Set by operations whose cells must not be older than what they replace.
    counters: list[tuple[Column, int]] = field(default_factory=list)

    def complex(self, column: Column) -> Complex:
        cell = self.cells[column.position]
        if not isinstance(cell, Complex):
            cell = self.cells[column.position] = Complex(None, {})
        return cell

    def existing_cell(self, column: Column) -> AnyCell:
        row = self.existing
        return row.cells[column.position] if row is not None and column.position < len(row.cells) else None

    @property
    def is_empty(self) -> bool:
        return not self.counters and all(cell is None for cell in self.cells)


class Operation(Protocol):
    @property
    def column(self) -> Column: ...

    @property
    def needs_read(self) -> bool:
        """Whether it looks at what is stored."""

    def apply(self, context: WriteContext, draft: RowDraft) -> None: ...


@dataclass(frozen=True, slots=True)
class SetValue:
    """`c = value` of a column that is one cell."""

    column: Column
    term: TermValue
    needs_read = False

    def apply(self, context: WriteContext, draft: RowDraft) -> None:
        value = self.term.evaluate(context.execution)
        if value is None:
            draft.cells[self.column.position] = context.tombstone()
        elif type(value) is bytes:
            draft.cells[self.column.position] = value


@dataclass(frozen=True, slots=True)
class DeleteValue:
    """`DELETE c`."""

    column: Column
    needs_read = False

    def apply(self, context: WriteContext, draft: RowDraft) -> None:
        if self.column.type.is_multicell:
            draft.complex(self.column).deletion = (context.timestamp, context.now)
        else:
            draft.cells[self.column.position] = context.tombstone()


@dataclass(frozen=True, slots=True)
class Overwrite:
    """`c = value` of a collection or user type with many cells: what was there goes, then the new cells."""

    column: Column
    term: TermValue
    needs_read = False

    def apply(self, context: WriteContext, draft: RowDraft) -> None:
        value = self.term.evaluate(context.execution)
        if isinstance(value, Unset):
            return
        # One microsecond earlier, so that the deletion leaves the cells of its own statement alone.
        draft.complex(self.column).deletion = (max(context.timestamp - 1, NO_TIMESTAMP), context.now)
        if value is not None:
            add_elements(self.column, value, context, draft)


@dataclass(frozen=True, slots=True)
class AddElements:
    """`c = c + value`: append to a list, add to a set, put into a map."""

    column: Column
    term: TermValue
    needs_read = False

    def apply(self, context: WriteContext, draft: RowDraft) -> None:
        value = self.term.evaluate(context.execution)
        if isinstance(value, bytes):
            add_elements(self.column, value, context, draft)


@dataclass(frozen=True, slots=True)
class Prepend:
    """`l = value + l`."""

    column: Column
    term: TermValue
    needs_read = False

    def apply(self, context: WriteContext, draft: RowDraft) -> None:
        value = self.term.evaluate(context.execution)
        type_ = self.column.type
        assert isinstance(type_, ListType)
        if isinstance(value, bytes):
            elements = type_.elements(value)
            if elements:
                items = draft.complex(self.column).items
                for path, element in zip(context.paths.before(len(elements)), elements, strict=True):
                    items[path] = context.live(element)


def add_elements(column: Column, value: bytes, context: WriteContext, draft: RowDraft) -> None:
    """New cells for all elements of a wire value."""
    type_ = column.type
    pairs: Sequence[tuple[bytes, bytes]]
    if isinstance(type_, ListType):
        elements = type_.elements(value)
        pairs = list(zip(context.paths.after(len(elements)), elements, strict=True))
    elif isinstance(type_, SetType):
        pairs = [(cell_path(type_.element, element), b"") for element in type_.elements(value)]
    elif isinstance(type_, MapType):
        pairs = [(cell_path(type_.key, key), element) for key, element in type_.elements(value)]
    else:
        assert isinstance(type_, UserType)
        pairs = [
            (field_path(index), element)
            for index, element in enumerate(type_.elements(value))
            if element is not None
        ]
    if pairs:
        items = draft.complex(column).items
        for path, element in pairs:
            check_path(path)
            items[path] = context.live(element)


def field_path(index: int) -> bytes:
    return index.to_bytes(2, "big")


def check_path(path: bytes) -> None:
    if len(path) > 65535:
        raise InvalidRequest(
            f"Map key is too long. Map keys are limited to 65535 bytes but {len(path)} bytes keys provided"
        )

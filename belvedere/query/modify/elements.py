"""Operations on single elements and fields: `c[key] = v`, `c.f = v`, removals, and those that read first."""

from dataclasses import dataclass

from belvedere.model.rows import Complex
from belvedere.model.schema import Column
from belvedere.model.types import ListType, MapType, SetType
from belvedere.query.access import BoundValue, Unset
from belvedere.query.errors import InvalidRequest
from belvedere.query.modify.assignments import RowDraft, WriteContext, check_path, field_path
from belvedere.query.select.collections_out import cell_path, element_type, sorted_items
from belvedere.query.terms.values import TermValue, not_null


@dataclass(frozen=True, slots=True)
class SetMapEntry:
    """`m[key] = value`; a null value removes the entry."""

    column: Column
    key: TermValue
    term: TermValue
    needs_read = False

    def apply(self, context: WriteContext, draft: RowDraft) -> None:
        key = not_null(self.key.evaluate(context.execution), "Invalid null map key", "Invalid unset map key")
        value = self.term.evaluate(context.execution)
        if isinstance(value, Unset):
            return
        type_ = self.column.type
        assert isinstance(type_, MapType)
        key = cell_path(type_.key, key)
        check_path(key)
        draft.complex(self.column).items[key] = context.tombstone() if value is None else context.live(value)


@dataclass(frozen=True, slots=True)
class SetUserField:
    """`u.field = value`."""

    column: Column
    index: int
    term: TermValue
    needs_read = False

    def apply(self, context: WriteContext, draft: RowDraft) -> None:
        value = self.term.evaluate(context.execution)
        if isinstance(value, Unset):
            return
        cell = context.tombstone() if value is None else context.live(value)
        draft.complex(self.column).items[field_path(self.index)] = cell


@dataclass(frozen=True, slots=True)
class DeleteField:
    column: Column
    index: int
    needs_read = False

    def apply(self, context: WriteContext, draft: RowDraft) -> None:
        draft.complex(self.column).items[field_path(self.index)] = context.tombstone()


@dataclass(frozen=True, slots=True)
class RemoveKeys:
    """`s = s - {…}`, `m = m - {…}` (keys), `DELETE s[x]`, `DELETE m[x]`."""

    column: Column
    term: TermValue
    #: Whether the term is one key and not a set of them.
    single: bool = False
    needs_read = False

    def apply(self, context: WriteContext, draft: RowDraft) -> None:
        value = self.term.evaluate(context.execution)
        if self.single:
            keys = [self._one(value)]
        elif isinstance(value, bytes):
            type_ = self.term.type
            assert isinstance(type_, SetType)
            keys = type_.elements(value)
        else:
            return
        if keys:
            items = draft.complex(self.column).items
            type_ = self.column.type
            assert isinstance(type_, SetType | MapType)
            for key in keys:
                items[cell_path(element_type(type_), key)] = context.tombstone()

    def _one(self, value: BoundValue) -> bytes:
        what = "map key" if isinstance(self.column.type, MapType) else "set element"
        return not_null(value, f"Invalid null {what}", f"Invalid unset {what}")


@dataclass(frozen=True, slots=True)
class SetListElement:
    """`l[index] = value`; a null value removes the element."""

    column: Column
    index: TermValue
    term: TermValue
    needs_read = True

    def apply(self, context: WriteContext, draft: RowDraft) -> None:
        index = list_index(self.index.evaluate(context.execution))
        value = self.term.evaluate(context.execution)
        if isinstance(value, Unset):
            return
        path = path_at(self.column, index, draft, "Attempted to set an element on a list which is null")
        draft.complex(self.column).items[path] = context.tombstone() if value is None else context.live(value)


@dataclass(frozen=True, slots=True)
class DeleteListElement:
    """`DELETE l[index]`."""

    column: Column
    index: TermValue
    needs_read = True

    def apply(self, context: WriteContext, draft: RowDraft) -> None:
        value = self.index.evaluate(context.execution)
        if isinstance(value, Unset):
            return
        index = list_index(value)
        path = path_at(self.column, index, draft, "Attempted to delete an element from a list which is null")
        draft.complex(self.column).items[path] = context.tombstone()


@dataclass(frozen=True, slots=True)
class DiscardFromList:
    """`l = l - […]`: every element that equals one of those given goes."""

    column: Column
    term: TermValue
    needs_read = True

    def apply(self, context: WriteContext, draft: RowDraft) -> None:
        value = self.term.evaluate(context.execution)
        cell = draft.existing_cell(self.column)
        type_ = self.column.type
        assert isinstance(type_, ListType)
        if not isinstance(value, bytes) or not isinstance(cell, Complex):
            return
        unwanted = set(type_.elements(value))
        for path, item in cell.items.items():
            if item[0] in unwanted:
                draft.complex(self.column).items[path] = context.tombstone()


def list_index(value: BoundValue) -> int:
    wire = not_null(value, "Invalid null value for list index", "Invalid unset value for list index")
    return int.from_bytes(wire, "big", signed=True)


def path_at(column: Column, index: int, draft: RowDraft, null_message: str) -> bytes:
    """The position of a list's element as it stands now."""
    cell = draft.existing_cell(column)
    if not isinstance(cell, Complex) or not cell.items:
        raise InvalidRequest(null_message)
    if index < 0 or index >= len(cell.items):
        raise InvalidRequest(f"List index {index} out of bound, list has size {len(cell.items)}")
    return sorted_items(column.type, cell)[index][0]

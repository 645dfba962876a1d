"""Counters: an increment is read, added and written back as an absolute value, under the partition's lock."""

from dataclasses import dataclass

from belvedere.model.rows import Cell, Complex, stamped
from belvedere.model.schema import Column
from belvedere.query.access import Unset
from belvedere.query.errors import InvalidRequest
from belvedere.query.modify.assignments import RowDraft, WriteContext
from belvedere.query.terms.values import TermValue


@dataclass(frozen=True, slots=True)
class AddToCounter:
    """`c = c + value` and `c = c - value`."""

    column: Column
    term: TermValue
    subtract: bool
    needs_read = True

    def apply(self, context: WriteContext, draft: RowDraft) -> None:
        value = self.term.evaluate(context.execution)
        if isinstance(value, Unset):
            return
        if value is None:
            what = "decrement" if self.subtract else "increment"
            raise InvalidRequest(f"Invalid null value for counter {what}")
        delta = int.from_bytes(value, "big", signed=True)
        if self.subtract:
            if delta == -(2**63):
                raise InvalidRequest(
                    f"The negation of {delta} overflows supported counter precision (signed 8 bytes integer)"
                )
            delta = -delta
        draft.counters.append((self.column, delta))


def settle_counters(context: WriteContext, draft: RowDraft) -> None:
    """Turn the increments of a draft into cells that are newer than those they replace."""
    deltas: dict[int, tuple[Column, int]] = {}
    for column, delta in draft.counters:
        before = deltas.get(column.position, (column, 0))[1]
        deltas[column.position] = (column, before + delta)
    timestamp = context.timestamp
    totals: dict[int, int] = {}
    for column, delta in deltas.values():
        cell = _counter_cell(draft, column)
        total = delta
        if cell is not None:
            total += int.from_bytes(cell[0] or b"", "big", signed=True)
            timestamp = max(timestamp, cell[1] + 1)
        totals[column.position] = total
    for position, total in totals.items():
        # Sums wrap around like Java's, at 64 bits.
        draft.cells[position] = (
            (total & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "big"),
            timestamp,
            0,
            0,
        )
    draft.counters.clear()


def _counter_cell(draft: RowDraft, column: Column) -> Cell | None:
    cell = draft.existing_cell(column)
    if cell is None or isinstance(cell, Complex) or draft.existing is None:
        return None
    return stamped(draft.existing, cell)

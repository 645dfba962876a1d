"""Whether a correct cluster could have left behind such a record. Pure: what is wrong comes back as text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from belvedere.sim.checkers.history import History, Kind, Operation, Outcome, Value
from belvedere.sim.checkers.linearizability import GaveUp, check
from belvedere.sim.checkers.registers import check_durability
from tests.cluster.chaos import schema
from tests.cluster.chaos.recording import Contents, ItemRow, LifeTold, Record, Trouble

#: Of one kind; more tell nothing new.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    findings: Sequence[str]
    #: Registers of which the search for an order took too long.
    undecided: int
    #: Of all operations.
    acknowledged: int
    unknown: int


def judged(record: Record) -> Verdict:
    findings = list(record.failures)
    findings += _troubles(record.troubles)
    findings += _lives(record.lives)
    ordered, undecided = _registers(record.history, record.contents)
    findings += ordered
    findings += _weak_reads(record.history)
    findings += _counters(record.history, record.contents)
    for contents in record.contents:
        findings += [f"{contents.node}, {contents.consistency}: {one}" for one in halves(contents)]
    findings += _alike(record.history, record.contents)
    outcomes = [operation.outcome for operation in record.history.operations]
    acknowledged = outcomes.count(Outcome.DONE) + outcomes.count(Outcome.REFUSED)
    return Verdict(findings, undecided, acknowledged, outcomes.count(Outcome.UNKNOWN))


# --- what was said ------------------------------------------------------------------------------------


def _troubles(troubles: Sequence[Trouble]) -> list[str]:
    wrong = [one for one in troubles if not one.allowed]
    return [f"{one.client} was told {one.error}: {one.text}" for one in wrong[:_SHOWN]]


def _lives(lives: Sequence[LifeTold]) -> list[str]:
    found = []
    for life in lives:
        expected = -9 if life.killed else 0
        if life.status != expected:
            found.append(
                f"a process of {life.node} ended with {life.status}, not {expected}: {life.log[-20:]}"
            )
        found += [f"{life.node} said: {line}" for line in life.log if _is_complaint(line)][:_SHOWN]
    return found


def _is_complaint(line: str) -> bool:
    """Warnings are for people: that a peer is gone, a lease lost. An error is what no kill, pause or restart
    of nodes may bring about."""
    words = line.split(maxsplit=2)
    return "Traceback" in line or (len(words) > 1 and words[1] == "error")


# --- registers ----------------------------------------------------------------------------------------


def _registers(history: History, contents: Sequence[Contents]) -> tuple[list[str], int]:
    """Each register's operations and what it held at the end can be put into one order."""
    findings: list[str] = []
    undecided = 0
    for name, operations in history.by_key().items():
        if name.startswith((schema.WEAK, schema.COUNTERS)):
            continue
        part = History(lambda: 0)
        part.operations = operations + [
            Operation(
                "at the end", name, Kind.READ, one.began, ended=one.ended, outcome=Outcome.DONE, seen=value
            )
            for one, value in _held(contents, name)
        ]
        found = check(part)
        if isinstance(found, GaveUp):
            undecided += 1
            findings += _lost(part, contents, name)
        elif found is not None:
            findings.append(str(found))
    return findings[:_SHOWN], undecided


def _held(contents: Sequence[Contents], name: str) -> list[tuple[Contents, Value]]:
    return [(one, one.registers.get(name)) for one in contents]


def _lost(history: History, contents: Sequence[Contents], name: str) -> list[str]:
    """What can be said without a search."""
    lost = [check_durability(history, {name: value}) for _, value in _held(contents, name)]
    return [str(one) for one in lost if one is not None]


def _weak_reads(history: History) -> list[str]:
    """They may be old. But what they show was written, and is not taken back."""
    written: dict[str, set[Value]] = {}
    for operation in history.operations:
        if operation.may_have_written:
            written.setdefault(operation.key, {None}).add(operation.value)
    return [
        f"{operation.key}: {operation.client} was shown {operation.seen!r}, which nobody can have written"
        for operation in history.operations
        if operation.key.startswith(schema.WEAK)
        and operation.outcome is Outcome.DONE
        and operation.seen not in written.get(operation.key.removeprefix(schema.WEAK), {None})
    ][:_SHOWN]


def _counters(history: History, contents: Sequence[Contents]) -> list[str]:
    findings = []
    for name, operations in history.by_key().items():
        if not name.startswith(schema.COUNTERS):
            continue
        least = sum(1 for one in operations if one.outcome is Outcome.DONE)
        most = sum(1 for one in operations if one.may_have_written)
        for one in contents:
            count = one.counters.get(name, 0)
            if not least <= count <= most:
                findings.append(f"{name} is {count} by {one.node}, was counted {least} to {most} times")
    return findings[:_SHOWN]


# --- what was there at the end ------------------------------------------------------------------------


def halves(contents: Contents) -> list[str]:
    """Of batches, of rows, of what bases and views should have together."""
    findings = []
    for name, value in contents.registers.items():
        table, _, key = name.partition("/")
        other = {schema.LEFT: schema.RIGHT, schema.RIGHT: schema.LEFT}.get(table)
        if other is not None:
            beside = contents.registers.get(schema.register(other, key))
            if beside != value:
                findings.append(f"a batch was torn: {name} holds {value!r}, {other} {beside!r}")
    for shelf, number, place, size in contents.items:
        if size is None or place != schema.place_of(size):
            findings.append(f"item {shelf}.{number} of size {size!r} is at {place!r}: half of a write")
    for view, rows in contents.views.items():
        findings += [
            f"view {view}: {one}" for one in view_differences(contents.items, rows, schema.keyed_by(view))
        ]
    return findings[:_SHOWN]


def view_differences(base: Sequence[ItemRow], view: Sequence[ItemRow], keyed_by: str) -> list[str]:
    """The base, re-keyed by hand: a row for each row whose new key is not null."""
    column = ("shelf", "id", "place", "size").index(keyed_by)
    expected = {row for row in base if row[column] is not None}
    found = set(view)
    wrong = [f"{row} is missing" for row in _sorted(expected - found)]
    wrong += [f"{row} should not be there" for row in _sorted(found - expected)]
    if len(found) != len(view):
        wrong.append(f"{len(view) - len(found)} rows are there twice")
    return wrong


def _sorted(rows: Iterable[ItemRow]) -> list[ItemRow]:
    return sorted(rows, key=str)


def _alike(history: History, contents: Sequence[Contents]) -> list[str]:
    """All nodes tell the same, at every level. Not of what somebody was not told the end of: that may land at
    any time, also between two looks."""
    unsure = {
        operation.key
        for operation in history.operations
        if operation.outcome is Outcome.UNKNOWN and operation.kind is not Kind.READ
    }
    findings: list[str] = []
    for one in contents[1:]:
        first = contents[0]
        pair = f"{first.node} at {first.consistency} and {one.node} at {one.consistency}"
        for before, after in ((first.registers, one.registers), (first.counters, one.counters)):
            findings += [
                f"{pair}: {name} is {before.get(name)!r} and {after.get(name)!r}"
                for name in sorted(before.keys() | after.keys())
                if before.get(name) != after.get(name) and name not in unsure
            ]
    return findings[:_SHOWN]

"""INSERT, UPDATE, DELETE and BATCH of the model: their text, and what they do to its state."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from belvedere.sim.model.conditions import Conditions, Existence, row_in_question
from belvedere.sim.model.effects import Assign, Moment, Refused, add_to_row
from belvedere.sim.model.restrictions import UNSET, Restriction, Text
from belvedere.sim.model.schema import Column, Table
from belvedere.sim.model.state import Key, State

Effect = Callable[[State], None]


@dataclass(frozen=True)
class Outcome:
    """What a statement must answer: an error code, or the columns of its one row (None: no rows)."""

    error: int | None = None
    row: dict[str, bytes | None] | None = None
    #: Whether the answer may show more than that.
    partial: bool = False


DONE = Outcome()
APPLIED = Outcome(row={"[applied]": b"\1"})


@dataclass
class Modification:
    """A statement on one table. Inserts have one key in `keys` and full equalities in `where`."""

    verb: str
    table: str
    life: int
    keys: tuple[Key, ...]
    where: tuple[Restriction, ...] = ()
    assigns: tuple[Assign, ...] = ()
    timestamp: int | None = None
    ttl: int | None = None
    conditions: Conditions | None = None
    bound: bool = False

    @property
    def tables(self) -> list[str]:
        return [self.table]

    @property
    def server_time(self) -> bool:
        return self.conditions is not None

    def fits(self, state: State) -> bool:
        """Whether the schema is still one that this statement was made for."""
        table = state.tables.get(self.table)
        if table is None or table.life != self.life:
            return False
        names = [assign.column for assign in self.assigns]
        names += [one.column for one in self.conditions.columns] if self.conditions else []
        return all(table.has(name) for name in names)

    # ---------------------------------------------------------------------------------------------- text

    def text(self, state: State, out: Text, *, in_batch: bool = False) -> str:
        table = state.tables[self.table]
        write = {"INSERT": self._insert, "UPDATE": self._update, "DELETE": self._delete}[self.verb]
        return write(table, out)

    def _using(self, out: Text) -> str:
        parts = []
        if self.timestamp is not None:
            parts.append(f"TIMESTAMP {out.number(self.timestamp, 8)}")
        if self.ttl is not None:
            parts.append(f"TTL {out.number(self.ttl, 4)}")
        return f" USING {' AND '.join(parts)}" if parts else ""

    def _insert(self, table: Table, out: Text) -> str:
        names = [column.name for column in table.partition]
        values = [out.value(c.kind, v) for c, v in zip(table.partition, self.keys[0], strict=True)]
        for restriction in self.where:
            column = table.clustering[restriction.first]
            names.append(column.name)
            values.append(out.value(column.kind, restriction.values[0][0]))
        for assign in self.assigns:
            names.append(assign.column)
            values.append(out.value(table.column(assign.column).kind, assign.value))
        check = " IF NOT EXISTS" if self.conditions is not None else ""
        return (
            f"INSERT INTO ks.{table.name} ({', '.join(names)}) VALUES ({', '.join(values)})"
            f"{check}{self._using(out)}"
        )

    def _update(self, table: Table, out: Text) -> str:
        using = self._using(out)
        sets = ", ".join(assign.text(table, out) for assign in self.assigns)
        return (
            f"UPDATE ks.{table.name}{using} SET {sets} WHERE {self._where(table, out)}{self._if(table, out)}"
        )

    def _delete(self, table: Table, out: Text) -> str:
        what = ", ".join(assign.text(table, out) for assign in self.assigns)
        using = self._using(out)
        return (
            f"DELETE {what + ' ' if what else ''}FROM ks.{table.name}{using} "
            f"WHERE {self._where(table, out)}{self._if(table, out)}"
        )

    def _where(self, table: Table, out: Text) -> str:
        return " AND ".join(
            [*partition_text(table, self.keys, out), *(one.text(table, out) for one in self.where)]
        )

    def _if(self, table: Table, out: Text) -> str:
        return f" IF {self.conditions.text(table, out)}" if self.conditions is not None else ""

    # ------------------------------------------------------------------------------------------- meaning

    def rows_named(self, table: Table) -> list[Key]:
        """The full clustering keys that the statement names; [] if it names none or a range."""
        keys: list[Key] = [()]
        for restriction in self.where:
            if restriction.op not in ("=", "IN"):
                return []
            keys = [(*key, *values) for key in keys for values in restriction.values]
        return [key for key in keys if len(key) == len(table.clustering)]

    def effects(self, state: State, moment: Moment) -> list[Effect]:
        """What to do, found out on the state as it is before anything of the statement is done."""
        table = state.tables[self.table]
        if self.timestamp is not None:
            moment = moment.at(self.timestamp)
        ttl = table.default_ttl if self.ttl is None else self.ttl
        moment = moment.with_ttl(ttl if self.verb != "DELETE" else 0)
        if self.verb == "DELETE" and not self.assigns:
            return [self._deletion(table, key, moment) for key in self.keys]
        static = [assign for assign in self.assigns if table.column(assign.column).static]
        regular = [assign for assign in self.assigns if not table.column(assign.column).static]
        effects: list[Effect] = []
        for key in self.keys:
            for clustering in self.rows_named(table):
                if regular or self.verb == "INSERT":
                    insert = self.verb == "INSERT"
                    effects += add_to_row(state, table, key, clustering, regular, moment, insert)
            if static:
                effects += add_to_row(state, table, key, None, static, moment, False)
        return effects

    def _deletion(self, table: Table, key: Key, moment: Moment) -> Effect:
        timestamp, where = moment.timestamp, self.where
        rows = self.rows_named(table)

        def delete(state: State) -> None:
            partition = state.partition(table, key)
            if not where:
                partition.deletions.append(timestamp)
            elif rows:
                for row in rows:
                    state.row(table, key, row).deletions.append(timestamp)
            else:
                partition.ranges.append((where, timestamp))

        return delete

    def refusal(self, state: State, now: int) -> dict[str, bytes | None] | None:
        """What a condition answers when it does not hold; None if it does or there is none."""
        if self.conditions is None:
            return None
        table = state.tables[self.table]
        rows = self.rows_named(table)
        found = row_in_question(state, table, self.keys[0], rows[0] if rows else None, now)
        return self.conditions.refusal(table, found)

    def execute(self, state: State, moment: Moment) -> Outcome:
        refusal = self.refusal(state, moment.now)
        if refusal is not None:
            # Where there is no row to show, static cells may be shown, and with them any row.
            no_row = len(refusal) == 1 or not self.rows_named(state.tables[self.table])
            return Outcome(row=refusal, partial=no_row)
        try:
            effects = self.effects(state, moment)
        except Refused:
            return Outcome(error=0x2200)
        for effect in effects:
            effect(state)
        return APPLIED if self.conditions is not None else DONE

    @property
    def commutes(self) -> bool:
        """Whether it may run beside others without its outcome depending on their order."""
        return self.conditions is None and all(assign.commutes for assign in self.assigns)

    def partitions(self) -> set[tuple[str, Key]]:
        return {(self.table, key) for key in self.keys}


@dataclass
class Batch:
    kind: str
    children: list[Modification]
    timestamp: int | None = None
    bound: bool = False
    #: Sent as a batch message of the protocol and not as text.
    message: bool = field(default=False)

    @property
    def tables(self) -> list[str]:
        return [child.table for child in self.children]

    @property
    def conditions(self) -> bool | None:
        return any(child.conditions is not None for child in self.children) or None

    @property
    def server_time(self) -> bool:
        return bool(self.conditions) or self.kind == "COUNTER"

    def fits(self, state: State) -> bool:
        return all(child.fits(state) for child in self.children)

    def text(self, state: State, out: Text) -> str:
        kind = "" if self.kind == "LOGGED" else f"{self.kind} "
        using = "" if self.timestamp is None else f" USING TIMESTAMP {out.number(self.timestamp, 8)}"
        body = "; ".join(child.text(state, out, in_batch=True) for child in self.children)
        return f"BEGIN {kind}BATCH{using} {body}; APPLY BATCH"

    def execute(self, state: State, moment: Moment) -> Outcome:
        if any(child.refusal(state, moment.now) is not None for child in self.children):
            return Outcome(row={"[applied]": b"\0"}, partial=True)
        if self.timestamp is not None:
            moment = moment.at(self.timestamp)
        try:
            effects = [effect for child in self.children for effect in child.effects(state, moment)]
        except Refused:
            return Outcome(error=0x2200)
        for effect in effects:
            effect(state)
        return APPLIED if self.conditions else DONE

    @property
    def commutes(self) -> bool:
        return all(child.commutes for child in self.children)

    def partitions(self) -> set[tuple[str, Key]]:
        return {place for child in self.children for place in child.partitions()}


def partition_text(table: Table, keys: Sequence[Key], out: Text) -> list[str]:
    """The keys differ in their last component only: IN."""
    parts = []
    for index, column in enumerate(table.partition):
        if index + 1 < len(table.partition) or len(keys) == 1:
            parts.append(f"{column.name} = {out.value(column.kind, keys[0][index])}")
        else:
            values = ", ".join(out.value(column.kind, key[index]) for key in keys)
            parts.append(f"{column.name} IN ({values})")
    return parts


def unset(assigns: Iterable[Assign]) -> bool:
    return any(assign.value is UNSET for assign in assigns)


__all__ = ["Batch", "Column", "Existence", "Modification", "Outcome", "partition_text", "unset"]

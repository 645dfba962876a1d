"""INSERT, UPDATE and DELETE as plans: keys and values of one run become mutations.

A plan is made by `insert`, `update` or `delete`; `batch` runs several together. A statement that looks at
what is stored (counters, list positions, conditions) holds the lock of its partitions from the read to the
write.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from belvedere.model.mutations import Mutation, RangeDeletion
from belvedere.model.ordering import ABOVE
from belvedere.model.rows import Row
from belvedere.model.schema import ColumnKind, Table
from belvedere.query.access import DataAccess, Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.modify.assignments import Operation, RowDraft, WriteContext
from belvedere.query.modify.attributes import Attributes, check_timestamp
from belvedere.query.modify.conditions import Conditions
from belvedere.query.modify.conditions_execute import execute_conditional
from belvedere.query.modify.counters import settle_counters
from belvedere.query.modify.keys import KeySource, Target, marker_indexes
from belvedere.query.modify.list_paths import ListPaths
from belvedere.query.modify.locked import locked_rows
from belvedere.query.modify.merge import merge_mutations
from belvedere.query.results import Result, ResultColumn, Void

#: The rows that statements look at, by table id, partition key and clustering key (None: the static row).
ExistingRows = Mapping[tuple[bytes, bytes, bytes | None], Row]
NOTHING_EXISTS: ExistingRows = {}


@dataclass(slots=True)
class Modification:
    """One planned INSERT, UPDATE or DELETE."""

    table: Table
    #: INSERT, UPDATE or DELETE, as messages say it.
    verb: str
    bindings: tuple[ResultColumn, ...]
    keys: KeySource
    attributes: Attributes
    regular: tuple[Operation, ...] = ()
    static: tuple[Operation, ...] = ()
    conditions: Conditions | None = None
    #: Prepares the values, where they are not simply those that the client sent (INSERT JSON).
    expand: Callable[[Execution], Execution] | None = None
    #: The same statement as one straight function, when it is simple enough.
    fast: Callable[[Execution], Result | Awaitable[Result]] | None = None
    partition_key_bindings: tuple[int, ...] = ()
    needs_read: bool = field(init=False)
    is_counter: bool = field(init=False)
    regular_width: int = field(init=False)
    static_width: int = field(init=False)
    updates_regular_rows: bool = field(init=False)

    def __post_init__(self) -> None:
        operations = (*self.regular, *self.static)
        self.needs_read = any(operation.needs_read for operation in operations)
        self.is_counter = self.table.is_counter
        self.regular_width = 1 + max((operation.column.position for operation in self.regular), default=-1)
        self.static_width = 1 + max((operation.column.position for operation in self.static), default=-1)
        self.updates_regular_rows = not self.table.clustering or self.keys.has_clustering
        self.partition_key_bindings = marker_indexes(self.keys.key_terms)

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """Whether there are any depends on the outcome of conditions."""
        return ()

    @property
    def deletes_rows(self) -> bool:
        """Whether whole rows, ranges or partitions go, not single columns."""
        return self.verb == "DELETE" and not self.regular and not self.static

    # --- running one statement -------------------------------------------------------------------------

    def execute(self, execution: Execution) -> Result | Awaitable[Result]:
        if self.fast is not None:
            return self.fast(execution)
        return self.execute_general(execution)

    def execute_general(self, execution: Execution) -> Result | Awaitable[Result]:
        check_count(self.bindings, execution)
        if self.conditions is not None:
            return execute_conditional(self, execution)
        run = self.start(execution)
        if self.needs_read:
            return write_after_reading([run], execution)
        mutations = merge_mutations(run.mutations(NOTHING_EXISTS))
        return write_all(execution.access, mutations)

    def start(self, execution: Execution, timestamp: int | None = None) -> "Run":
        """Evaluate keys and options for one run; `timestamp` is what the surroundings say."""
        if self.expand is not None:
            execution = self.expand(execution)
        own = None if self.is_counter else self.attributes.timestamp_of(execution)
        if own is None:
            own = timestamp if timestamp is not None else self._default_timestamp(execution)
        ttl = 0 if self.verb == "DELETE" else self.attributes.ttl_of(execution)
        context = WriteContext(
            execution, own, execution.now, ttl, execution.now + ttl if ttl else 0, ListPaths(execution)
        )
        return Run(self, context, self.keys.targets(execution))

    def _default_timestamp(self, execution: Execution) -> int:
        """Conditions and counters are ordered by this node alone: the client's clock has no say in them."""
        if execution.timestamp is None or self.is_counter or self.conditions is not None:
            return execution.access.next_timestamp()
        return check_timestamp(execution.timestamp)


@dataclass(slots=True)
class Run:
    """One execution of a modification: its keys are known, its mutations can be made."""

    plan: Modification
    context: WriteContext
    targets: list[Target]

    def mutations(self, existing: ExistingRows) -> list[tuple[Table, Mutation]]:
        table = self.plan.table
        made = [self._mutation(target, existing) for target in self.targets]
        return [(table, mutation) for mutation in made if mutation is not None]

    def _mutation(self, target: Target, existing: ExistingRows) -> Mutation | None:
        plan = self.plan
        if plan.deletes_rows:
            return self._deletion(target)
        rows = []
        if plan.updates_regular_rows:
            for key in target.rows:
                row = self._row(target, key, existing)
                if row is not None:
                    rows.append((key, row))
        static = self._static_row(target, existing)
        if not rows and static is None:
            return None
        return Mutation(plan.table.id, target.token, target.key, rows, static)

    def _deletion(self, target: Target) -> Mutation | None:
        deletion = (self.context.timestamp, self.context.now)
        table = self.plan.table
        if not self.plan.keys.has_clustering:
            return Mutation(table.id, target.token, target.key, [], None, deletion)
        rows = [(key, Row(deletion[0], 0, 0, False, deletion, [])) for key in target.rows]
        ranges = [
            RangeDeletion(piece.start, ABOVE if piece.end is None else piece.end, deletion)
            for piece in target.slices
        ]
        if not rows and not ranges:
            return None
        return Mutation(table.id, target.token, target.key, rows, None, None, ranges)

    def _row(self, target: Target, key: bytes, existing: ExistingRows) -> Row | None:
        plan, context = self.plan, self.context
        live = plan.verb == "INSERT"
        draft = self._draft(plan.regular, plan.regular_width, existing.get((plan.table.id, target.key, key)))
        if not live and draft.is_empty:
            return None
        if draft.counters:
            settle_counters(context, draft)
        return Row(context.timestamp, context.ttl, context.expiry, live, None, draft.cells)

    def _static_row(self, target: Target, existing: ExistingRows) -> Row | None:
        plan, context = self.plan, self.context
        if not plan.static:
            return None
        draft = self._draft(plan.static, plan.static_width, existing.get((plan.table.id, target.key, None)))
        if draft.is_empty:
            return None
        if draft.counters:
            settle_counters(context, draft)
        return Row(context.timestamp, context.ttl, context.expiry, False, None, draft.cells)

    def _draft(self, operations: Sequence[Operation], width: int, existing: Row | None) -> RowDraft:
        draft = RowDraft([None] * width, existing)
        for operation in operations:
            operation.apply(self.context, draft)
        return draft


def check_count(bindings: Sequence[ResultColumn], execution: Execution) -> None:
    if len(execution.values) != len(bindings):
        raise InvalidRequest(
            f"there were {len(bindings)} markers(?) in CQL but {len(execution.values)} bound variables"
        )


# --- writing -----------------------------------------------------------------------------------------


def write_all(access: DataAccess, mutations: Sequence[tuple[Table, Mutation]]) -> Result | Awaitable[Result]:
    """At once if possible. A statement that turned out to change nothing answers right away."""
    if not mutations:
        return Void()
    if len(mutations) == 1:
        position = access.write_now(*mutations[0])
        if position is not None:
            return Void(position)
    return write_waiting(access, mutations)


async def write_waiting(access: DataAccess, mutations: Sequence[tuple[Table, Mutation]]) -> Result:
    return Void(await access.write(mutations))


async def write_after_reading(runs: Sequence[Run], execution: Execution) -> Result:
    async with locked_rows(execution.access, runs, execution.now) as locked:
        mutations = merge_mutations(await locked.settle(runs))
        return Void(await locked.write(mutations))


def split_operations(operations: Sequence[Operation]) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
    """Those on regular columns, those on static ones."""
    regular = tuple(one for one in operations if one.column.kind is not ColumnKind.STATIC)
    static = tuple(one for one in operations if one.column.kind is ColumnKind.STATIC)
    return regular, static

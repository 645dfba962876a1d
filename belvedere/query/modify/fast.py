"""The hot path: a prepared INSERT or UPDATE of one full row, compiled to one straight function.

The function does what `Modification` does, with everything known while planning written out: which value goes
where, which lengths are right. Whatever is unusual (a null, an unset or a wrong value) it leaves to the
general path, which also finds the right message. So its only error handling is to give up.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from belvedere.model.mutations import Mutation
from belvedere.model.rows import NO_TIMESTAMP, Row
from belvedere.model.token import token_of
from belvedere.model.types import CQLType
from belvedere.query.access import Execution
from belvedere.query.modify.assignments import SetValue
from belvedere.query.modify.plan import Modification, write_waiting
from belvedere.query.results import Result, Void
from belvedere.query.terms.values import ConstantTerm, MarkerTerm, TermValue
from belvedere.query.where.restrictions import MAX_KEY

FastPath = Callable[[Execution], Result | Awaitable[Result]]

#: Any bytes of the right length are a value.
_ANY_OF_WIDTH = frozenset(
    {"int", "bigint", "smallint", "tinyint", "float", "double", "timestamp", "date", "uuid"}
)


def compile_fast(plan: Modification) -> FastPath | None:
    """None if the statement is not simple enough."""
    table = plan.table
    simple = (
        plan.conditions is None
        and not plan.static
        and not plan.is_counter
        and plan.attributes.timestamp is None
        and plan.attributes.ttl is None
        and len(plan.keys.key_terms) == len(table.partition_key)
        and len(plan.keys.row_terms) == len(table.clustering)
        and all(isinstance(operation, SetValue) for operation in plan.regular)
        and (plan.verb == "INSERT" or plan.regular)
    )
    if not simple:
        return None
    return _Writer(plan).compile()


class _Writer:
    """Writes the function's source."""

    def __init__(self, plan: Modification) -> None:
        self._plan = plan
        self._names: dict[str, Any] = {
            "Mutation": Mutation,
            "Row": Row,
            "Void": Void,
            "token_of": token_of,
            "table": plan.table,
            "table_id": plan.table.id,
            "encode": plan.table.clustering_order.encode,
            "slow": plan.execute_general,
            "wait": write_waiting,
        }
        self._types: dict[int, CQLType] = {}

    def compile(self) -> FastPath | None:
        plan = self._plan
        operations = [operation for operation in plan.regular if isinstance(operation, SetValue)]
        terms = [*plan.keys.key_terms, *plan.keys.row_terms, *(operation.term for operation in operations)]
        if not all(self._usable(term) for term in terms) or len(self._types) != len(plan.bindings):
            return None
        cells = ["None"] * plan.regular_width
        for operation in operations:
            cells[operation.column.position] = self._value(operation.term)
        lines = ["def run(execution):", "    try:"]
        lines += [f"        {line}" for line in self._checks()]
        lines += [f"        {line}" for line in self._keys()]
        lines += [
            "    except (TypeError, ValueError, AttributeError, OverflowError):",
            "        return slow(execution)",
            "    access = execution.access",
            "    timestamp = execution.timestamp",
            "    if timestamp is None:",
            "        timestamp = access.next_timestamp()",
            f"    elif timestamp == {NO_TIMESTAMP}:",
            "        return slow(execution)",
            f"    row = Row({self._stamp()}, {plan.verb == 'INSERT'}, None, [{', '.join(cells)}])",
            "    mutation = Mutation(table_id, token_of(key), key, [(clustering, row)])",
            "    position = access.write_now(table, mutation)",
            "    if position is None:",
            "        return wait(access, [(table, mutation)])",
            "    return Void(position)",
        ]
        exec("\n".join(lines), self._names)
        compiled: FastPath = self._names["run"]
        return compiled

    def _usable(self, term: TermValue) -> bool:
        """A bind variable or a constant value; notes what type each variable has."""
        if isinstance(term, ConstantTerm):
            return term.value is not None
        if not isinstance(term, MarkerTerm) or term.index < 0:
            return False
        return self._types.setdefault(term.index, term.type) is term.type

    def _value(self, term: TermValue) -> str:
        if isinstance(term, MarkerTerm):
            return f"v{term.index}"
        assert isinstance(term, ConstantTerm)
        name = f"c{len(self._names)}"
        self._names[name] = term.value
        return name

    def _stamp(self) -> str:
        ttl = self._plan.attributes.default_ttl
        return f"timestamp, {ttl}, execution.now + {ttl}" if ttl else "timestamp, 0, 0"

    def _checks(self) -> list[str]:
        """Take the values apart and validate each, as cheaply as its type allows."""
        if not self._types:
            return ["if execution.values: return slow(execution)"]
        lines = [f"{', '.join(f'v{index}' for index in range(len(self._types)))}, = execution.values"]
        widths = []
        for index, type_ in sorted(self._types.items()):
            if type_.name in _ANY_OF_WIDTH:
                widths.append(f"len(v{index}) != {type_.fixed_width}")
            else:
                lines += self._check(index, type_)
        if widths:
            lines.insert(1, f"if {' or '.join(widths)}: return slow(execution)")
        return lines

    def _check(self, index: int, type_: CQLType) -> list[str]:
        value = f"v{index}"
        match type_.name:
            case "text":
                return [f"if not {value}.isascii(): {value}.decode()"]
            case "ascii":
                return [f"if not {value}.isascii(): return slow(execution)"]
            case "blob":
                return [f"len({value})"]
            case "boolean":
                return [
                    f"if len({value}) != 1: return slow(execution)",
                    f"if {value} != b'\\0': {value} = b'\\1'",
                ]
        self._names[f"validate{index}"] = type_.validate
        lines = [f"len({value})", f"validate{index}({value})"]
        if type_.needs_normalising:
            self._names[f"normalise{index}"] = type_.normalise
            lines.append(f"{value} = normalise{index}({value})")
        return lines

    def _keys(self) -> list[str]:
        keys = self._plan.keys
        parts = [self._value(term) for term in keys.key_terms]
        lines = []
        if len(parts) == 1:
            lines.append(f"key = {parts[0]}")
        else:
            lines.append("key = b''.join([" + ", ".join(_component(part) for part in parts) + "])")
        if self._varies(keys.key_terms):
            lines.append(f"if not key or len(key) > {MAX_KEY}: return slow(execution)")
        rows = [self._value(term) for term in keys.row_terms]
        if not rows:
            lines.append("clustering = b''")
            return lines
        lines.append(f"clustering = encode(({', '.join(rows)},))")
        if self._varies(keys.row_terms):
            lines.append(f"if len(clustering) > {MAX_KEY}: return slow(execution)")
        return lines

    def _varies(self, terms: Sequence[TermValue]) -> bool:
        return any(term.type.fixed_width is None for term in terms)


def _component(value: str) -> str:
    """A part of a composite key: length, bytes, zero. If it is too long, the length overflows."""
    return f"len({value}).to_bytes(2, 'big') + {value} + b'\\0'"

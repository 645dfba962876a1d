"""WHERE clauses and IF conditions."""

from belvedere.cql.expressions import (
    Between,
    ColumnRelation,
    ComparisonOperator,
    Condition,
    ElementRelation,
    IndexExpression,
    InList,
    NotNullRelation,
    Operand,
    Operator,
    Relation,
    Term,
    TokenRelation,
    TupleLiteral,
    TupleRelation,
)
from belvedere.cql.term_parser import TermParser

_COMPARISONS: dict[str, ComparisonOperator] = {
    "=": "=",
    "!=": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}


class WhereParser(TermParser):
    __slots__ = ()

    def relations(self) -> tuple[Relation, ...]:
        """`relation AND relation ...`."""
        found = [self.relation()]
        while self.accept("AND"):
            found.append(self.relation())
        return tuple(found)

    def relation(self) -> Relation:
        word = self.upper[self.position]
        if word == "(":
            return self._tuple_relation() if self._column_tuple_follows() else self._parenthesised_relation()
        if word == "TOKEN":
            self.position += 1
            columns = self.parenthesised_names()
            return TokenRelation(columns, *self._operation())
        if word == "EXPR" and self.peek(1) == "(":
            return self._index_expression()
        column = self.name()
        comparison = _COMPARISONS.get(self.tokens[self.position])
        if comparison is not None:
            self.position += 1
            return ColumnRelation(column, comparison, self.term())
        if self.accept("["):
            key = self.term()
            self.expect("]")
            return ElementRelation(column, key, *self._operation())
        if self.accept("IS"):
            self.expect("NOT", "NULL")
            return NotNullRelation(column)
        return ColumnRelation(column, *self._operation())

    # --- operators and what stands right of them -----------------------------------------------------

    def _operation(self) -> tuple[Operator, Operand]:
        """An operator on a column, an element or a token, with its right side."""
        comparison = _COMPARISONS.get(self.tokens[self.position])
        if comparison is not None:
            self.position += 1
            return comparison, self.term()
        negated = self.upper[self.position] == "NOT" and self.peek(1) in ("IN", "CONTAINS")
        if negated:
            self.position += 1
        if self.accept("IN"):
            return ("NOT IN" if negated else "IN"), self._in_values()
        if self.accept("CONTAINS"):
            if self.upper[self.position] == "KEY":
                self.position += 1
                return ("NOT CONTAINS KEY" if negated else "CONTAINS KEY"), self.term()
            return ("NOT CONTAINS" if negated else "CONTAINS"), self.term()
        if self.accept("LIKE"):
            return "LIKE", self.term()
        if self.accept("BETWEEN"):
            low = self.term()
            self.expect("AND")
            return "BETWEEN", Between(low, self.term())
        self.fail_no_alternative()

    def _in_values(self) -> Operand:
        if self.tokens[self.position] in ("?", ":"):
            return self.marker()
        self.expect("(")
        if self.accept(")"):
            return InList(())
        values = [self.term()]
        while self.accept(","):
            values.append(self.term())
        self.expect(")")
        return InList(tuple(values))

    # --- relations that begin with a parenthesis -----------------------------------------------------

    def _column_tuple_follows(self) -> bool:
        return self.name_at(self.position + 1) is not None and self.peek(2) in (",", ")")

    def _parenthesised_relation(self) -> Relation:
        self.expect("(")
        self.enter()
        found = self.relation()
        self.leave()
        self.expect(")")
        return found

    def _tuple_relation(self) -> Relation:
        columns = self.parenthesised_names()
        comparison = _COMPARISONS.get(self.tokens[self.position])
        if comparison is not None:
            self.position += 1
            return TupleRelation(columns, comparison, self._tuple_operand())
        if self.accept("BETWEEN"):
            low = self._tuple_operand()
            self.expect("AND")
            return TupleRelation(columns, "BETWEEN", Between(low, self._tuple_operand()))
        operator: Operator = "NOT IN" if self.accept("NOT") else "IN"
        self.expect("IN")
        if self.tokens[self.position] in ("?", ":"):
            return TupleRelation(columns, operator, self.marker())
        self.expect("(")
        if self.accept(")"):
            return TupleRelation(columns, operator, InList(()))
        values = [self._tuple_operand()]
        while self.accept(","):
            values.append(self._tuple_operand())
        self.expect(")")
        return TupleRelation(columns, operator, InList(tuple(values)))

    def _tuple_operand(self) -> Term:
        """`(x, y)`, `?` or `:name`: nothing else can be compared with a tuple of columns."""
        if self.tokens[self.position] in ("?", ":"):
            return self.marker()
        self.expect("(")
        values = [self.term()]
        while self.accept(","):
            values.append(self.term())
        self.expect(")")
        return TupleLiteral(tuple(values))

    def _index_expression(self) -> Relation:
        self.expect("EXPR", "(")
        index = self.table_name()
        self.expect(",")
        value = self.term()
        self.expect(")")
        return IndexExpression(index, value)

    # --- conditions ----------------------------------------------------------------------------------

    def conditions(self) -> tuple[Condition, ...]:
        found = [self._condition()]
        while self.accept("AND"):
            found.append(self._condition())
        return tuple(found)

    def _condition(self) -> Condition:
        column = self.name()
        key: Term | None = None
        field: str | None = None
        if self.accept("["):
            key = self.term()
            self.expect("]")
        elif self.accept("."):
            field = self.name()
        if self.upper[self.position] in ("LIKE", "BETWEEN", "NOT"):
            self.fail_no_alternative()
        operator, value = self._operation()
        return Condition(column, operator, value, key, field)

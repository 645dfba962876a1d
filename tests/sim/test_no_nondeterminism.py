"""A lint for what no name ban catches: addresses, hashes, and the order of sets.

`id()` is another number in every run; `hash()` and the order of a set of strings are others under every hash
seed. Product code may build sets and ask for membership, but must not walk them: sort first, or use a dict.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import belvedere

PACKAGE = Path(belvedere.__file__).parent
# The real world has no order to keep.
EXEMPT = ("runtime", "cli")

# Consumers for which order does not matter, or that make one.
ORDERLESS = frozenset(
    {"sorted", "set", "frozenset", "len", "any", "all", "sum", "min", "max", "bool", "isinstance"}
)
SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference"})
WALKERS = frozenset({"list", "tuple", "iter", "enumerate", "next", "map", "filter", "zip", "dict", "join"})


def is_set(node: ast.expr) -> bool:
    """An expression that is plainly a set."""
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
        return is_set(node.left) or is_set(node.right)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            return node.func.id in ("set", "frozenset")
        if isinstance(node.func, ast.Attribute) and node.func.attr in SET_METHODS:
            return is_set(node.func.value)
    return False


def called_name(node: ast.Call) -> str:
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def parents_of(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    return {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}


def feeds_orderless(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """A generator whose only consumer does not care for order, or a set made from a set."""
    if isinstance(node, ast.SetComp):
        return True
    parent = parents.get(node)
    return isinstance(parent, ast.Call) and called_name(parent) in ORDERLESS


def problems(source: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(source)
    parents = parents_of(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = called_name(node)
            if isinstance(node.func, ast.Name) and name == "id" and not only_looks_up(node, parents):
                yield node.lineno, "id() differs from run to run: number things yourself"
            if isinstance(node.func, ast.Name) and name == "hash" and not is_for_hash(node, parents):
                yield node.lineno, "hash() differs under each hash seed: use a stable hash"
            if name in WALKERS and any(is_set(argument) for argument in node.args):
                yield node.lineno, f"{name}() walks a set: sort it first"
        elif isinstance(node, ast.For | ast.AsyncFor) and is_set(node.iter):
            yield node.lineno, "a loop walks a set: sort it first"
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp | ast.SetComp):
            walks = any(is_set(generator.iter) for generator in node.generators)
            if walks and not feeds_orderless(node, parents):
                yield node.lineno, "a comprehension walks a set: sort it first"
        elif isinstance(node, ast.Starred) and is_set(node.value):
            if not isinstance(parents.get(node), ast.Set):
                yield node.lineno, "unpacking walks a set: sort it first"


def only_looks_up(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """A key of a dict: those keep the order of insertion, whatever the keys are."""
    parent = parents.get(node)
    if isinstance(parent, ast.Subscript):
        return parent.slice is node
    return isinstance(parent, ast.DictComp) and parent.key is node


def is_for_hash(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """What `__hash__` returns, or will return from a field named `_hash`."""
    parent = parents.get(node)
    if isinstance(parent, ast.keyword) and parent.arg == "_hash":
        return True
    if isinstance(parent, ast.Assign) and ast.unparse(parent.targets[0]).endswith("_hash"):
        return True
    return any(
        isinstance(scope, ast.FunctionDef) and scope.name == "__hash__" for scope in ancestors(node, parents)
    )


def ancestors(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while (parent := parents.get(node)) is not None:
        yield parent
        node = parent


def sources() -> list[Path]:
    return [
        path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] not in EXEMPT
    ]


def test_product_code_depends_on_no_address_hash_or_set_order() -> None:
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{line}: {problem}"
        for path in sources()
        for line, problem in problems(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "key = id(thing)",
        "y = sorted(things, key=lambda x: (id(x), 1))",
        "key = hash(name)",
        "for x in {1, 2}: pass",
        "for x in set(names): pass",
        "for x in set(a) - set(b): pass",
        "y = [x for x in {n for n in names}]",
        "y = {x: 1 for x in frozenset(names)}",
        "y = list(set(names))",
        "y = ','.join({*names})",
        "y = [*set(names)]",
        "y = tuple(set(a).union(b))",
        "y = next(iter({1, 2}))",
    ],
)
def test_the_lint_finds(code: str) -> None:
    assert len(list(problems(code))) >= 1


@pytest.mark.parametrize(
    "code",
    [
        "for x in sorted(set(names)): pass",
        "y = sorted({n for n in names})",
        "y = name in {1, 2}",
        "y = len(set(names))",
        "y = any(x > 1 for x in set(names))",
        "y = {f(x) for x in set(names)}",
        "y = {*set(names), 3}",
        "for x in names: pass",
        "def __hash__(self): return hash((self.a, self.b))",
        "self.id(thing)",
        "rows = {id(view): row for view, row in pairs}",
        "row = rows[id(view)]",
        "self._hash = hash(identity)",
        "object.__setattr__(self, '_x', fix(_hash=hash(identity)))",
        "y = a - b",
        "y = max(set(names))",
    ],
)
def test_the_lint_lets_pass(code: str) -> None:
    assert list(problems(code)) == []

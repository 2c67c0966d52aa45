"""The small changes that `tests.mutate` makes to a source, each of which a test should notice."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
REMOVED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete, ast.Raise, ast.Break, ast.Continue)
TESTED = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Constant)


class Mutant(NamedTuple):
    """A changed source; `name` is the same in every run over the same original."""

    name: str
    line: int
    what: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """Return every mutant of a source, in the order of its lines."""
    found: list[Mutant] = []
    seen: set[str] = {source}
    for node, replacement, what in _changes(ast.parse(source)):
        changed = _splice(source, node, replacement)
        if changed not in seen:
            seen.add(changed)
            name = f"{node.lineno}:{node.col_offset}:{what}"
            found.append(Mutant(name, node.lineno, what, changed))
    return sorted(found, key=lambda mutant: (mutant.line, mutant.name))


def _splice(source: str, node: ast.AST, replacement: str) -> str:
    """Replace the text of a node; columns count UTF-8 bytes."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, node.end_lineno - 1
    head = lines[first][: node.col_offset]
    tail = lines[last][node.end_col_offset :]
    return b"".join(
        [*lines[:first], head + replacement.encode() + tail, *lines[last + 1 :]]
    ).decode()


def _changes(tree: ast.Module) -> Iterator[tuple[ast.AST, str, str]]:
    for node in _code(tree):
        if isinstance(node, ast.expr):
            for new, what in _expressions(node):
                yield node, f"({ast.unparse(new)})", what
        elif isinstance(node, ast.Return) and node.value is not None:
            if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                yield node, "return None", "return nothing"
        elif isinstance(node, REMOVED) and not _is_docstring(node):
            yield node, "pass", f"remove: {ast.unparse(node).splitlines()[0]}"
        if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(node.test, TESTED):
            yield node.test, f"(not ({ast.unparse(node.test)}))", "negate the condition"


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Walk what runs: no annotations, docstrings, decorators or imports for type checkers."""
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_spared(child):
                yield child
                yield from _code(child)


def _is_spared(node: ast.AST) -> bool:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return True
    alias = isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).endswith("TypeAlias")
    return alias or _is_docstring(node) or isinstance(node, ast.JoinedStr | ast.Assert)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _expressions(node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    if isinstance(node, ast.Compare):
        for index, op in enumerate(node.ops):
            for new in COMPARISONS[type(op)]:
                ops = [*node.ops[:index], new(), *node.ops[index + 1 :]]
                what = f"{type(op).__name__} -> {new.__name__} ({index})"
                yield ast.Compare(node.left, ops, node.comparators), what
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        new_op = ARITHMETIC[type(node.op)]
        what = f"{type(node.op).__name__} -> {new_op.__name__}"
        yield ast.BinOp(node.left, new_op(), node.right), what
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield ast.BoolOp(other, node.values), f"{type(node.op).__name__} -> {type(other).__name__}"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand, f"drop {type(node.op).__name__}"
    elif isinstance(node, ast.Constant):
        yield from _constants(node)


def _constants(node: ast.Constant) -> Iterator[tuple[ast.expr, str]]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value), f"{value} -> {not value}"
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1), f"{value} -> {value + 1}"
    elif isinstance(value, str):
        yield ast.Constant(f"{value}!"), f"{value!r} -> {value + '!'!r}"

"""How deeply a statement may be nested, and the stack that reading it takes.

    a + b + ... + z    ->    (a + ... + m) + (n + ... + z)         once the chain is long

The parser and every pass behind it are recursive. A statement within the limits fits Python's stack, one beyond them is
refused before anything recurses. Chains of AND, OR and UNION are flat for us and count as one level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import reduce

from sqlglot import exp

from viewlet.algebra.recursion import headroom
from viewlet.sql.source import Source

MAX_NESTING = 128
_CHAIN = 48
_FRAMES_PER_LEVEL = 80
_OPENING = frozenset(("(", "[", "{", "CASE"))
_CLOSING = frozenset((")", "]", "}", "END"))
_PREFIXES = frozenset(("NOT", "-", "+", "~", "!", "@"))
_FLAT: tuple[type[exp.Expr], ...] = (exp.And, exp.Or, exp.Union)
_PARTS = (exp.Paren, exp.Select, exp.From, exp.Where, exp.Alias, exp.If, exp.Table, exp.Column, exp.Identifier)
_ASSOCIATIVE: tuple[type[exp.Expr], ...] = (exp.Add, exp.Mul, exp.DPipe)


def check_nesting(words: Sequence[str], positions: Sequence[tuple[int, int]], source: Source) -> int:
    """The levels of brackets, CASE and prefix operators of a statement, which must not be too many."""
    level = prefixes = deepest = 0
    for word, (start, end) in zip(words, positions, strict=True):
        if word in _OPENING:
            level += 1
        elif word in _CLOSING:
            level = max(level - 1, 0)
        prefixes = prefixes + 1 if word in _PREFIXES else 0
        deepest = max(deepest, level + prefixes)
        if deepest > MAX_NESTING:
            raise source.error_at(f"nested too deeply: at most {MAX_NESTING} levels of brackets", start, end)
    return deepest


@contextmanager
def shallow(node: exp.Expr, source: Source) -> Iterator[None]:
    """The tree made as shallow as it can be, and room on the stack to translate it."""
    balance(node)
    with room_for(check_depth(node, source)):
        yield


def check_depth(node: exp.Expr, source: Source) -> int:
    """The levels of a syntax tree, which must not be more than the passes behind the parser can take."""
    pending, deepest = [(node, 0)], 0
    while pending:
        part, level = pending.pop()
        deepest = max(deepest, level)
        if level > MAX_NESTING:
            raise source.error(f"nested too deeply: at most {MAX_NESTING} operators inside each other", part)
        for child in part.iter_expressions():
            flat = isinstance(child, _PARTS) or (type(child) is type(part) and isinstance(child, _FLAT))
            pending.append((child, level if flat else level + 1))
    return deepest


def balance(node: exp.Expr) -> exp.Expr:
    """The tree with long chains of +, * and || in groups; shorter ones are evaluated as written, from the left."""
    for part in list(node.walk()):
        if isinstance(part, _ASSOCIATIVE) and type(part.parent) is not type(part):
            terms = _terms(part)
            if len(terms) > _CHAIN:
                grouped = _grouped(terms, type(part))
                part.set("this", grouped.this)
                part.set("expression", grouped.expression)
    return node


def _terms(node: exp.Expr) -> list[exp.Expr]:
    terms: list[exp.Expr] = []
    kind = type(node)
    while type(node) is kind:
        terms.append(node.expression)
        node = node.this
    return [node, *reversed(terms)]


def _grouped(terms: Sequence[exp.Expr], kind: type[exp.Expr]) -> exp.Expr:
    groups = [terms[start : start + _CHAIN] for start in range(0, len(terms), _CHAIN)]
    return reduce(lambda a, b: kind(this=a, expression=b), (_chain(group, kind) for group in groups))


def _chain(terms: Sequence[exp.Expr], kind: type[exp.Expr]) -> exp.Expr:
    return reduce(lambda a, b: kind(this=a, expression=b), terms)


def room_for(levels: int) -> AbstractContextManager[None]:
    """Headroom for that many levels; shallow statements need no more than the usual limit."""
    return headroom(levels * _FRAMES_PER_LEVEL)

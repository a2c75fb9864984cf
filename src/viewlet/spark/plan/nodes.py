"""Distributed expressions: the calculus plus three operators that move contents (thesis, section 5.2).

    moved ::= Repart[p](moved)     from the workers to the workers that p names, or to all of them
            | Scatter[p](moved)    from the driver to the workers that p names, or to all of them
            | Gather(moved)        from the workers to the driver
            | calculus over moved

A transformer changes where contents are, never what they are: `strip` takes all of them away. What was replicated is
moved from one of its copies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import cast

from viewlet.algebra.nodes import Expr, node, once
from viewlet.algebra.traverse import children as calculus_children
from viewlet.algebra.traverse import rebuild as rebuild_calculus
from viewlet.spark.plan.locations import Dist, Replicated


class _Hashed:
    __slots__ = ("_hash", "_is_closed", "_is_moved", "_representative")


@node
class Repart(_Hashed):
    to: Dist | Replicated
    body: Moved


@node
class Scatter(_Hashed):
    to: Dist | Replicated
    body: Moved


@node
class Gather(_Hashed):
    body: Moved


Transformer = Repart | Scatter | Gather
Moved = Expr | Transformer
"""A calculus node inside may hold transformers too, which its own type cannot say."""


def as_expr(moved: Moved) -> Expr:
    """A distributed expression, typed as an expression of the calculus for its constructors."""
    return cast(Expr, moved)


def children(moved: Moved) -> tuple[Moved, ...]:
    return (moved.body,) if isinstance(moved, Transformer) else calculus_children(moved)


@once
def is_moved(moved: Moved) -> bool:
    """There is a transformer in it."""
    return isinstance(moved, Transformer) or any(is_moved(child) for child in children(moved))


def with_body(transformer: Transformer, body: Moved) -> Transformer:
    """The same movement of something else."""
    match transformer:
        case Repart(to, _):
            return Repart(to, body)
        case Scatter(to, _):
            return Scatter(to, body)
        case Gather():
            return Gather(body)


def rebuild(moved: Moved, change: Callable[[Moved], Moved]) -> Moved:
    """The same node over changed children."""
    if isinstance(moved, Transformer):
        body = change(moved.body)
        return moved if body is moved.body else with_body(moved, body)
    return rebuild_calculus(moved, lambda child: as_expr(change(child)))


def strip(moved: Moved) -> Expr:
    """The expression without its transformers."""
    return _stripped(moved) if is_moved(moved) else as_expr(moved)


@lru_cache(maxsize=65536)
def _stripped(moved: Moved) -> Expr:
    return strip(moved.body) if isinstance(moved, Transformer) else as_expr(rebuild(moved, strip))

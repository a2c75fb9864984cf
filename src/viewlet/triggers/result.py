"""The rows of a query, kept as the result expression over its views says.

A term of the result reads its views through some of their keys, the same for each of them where it can: the partition.
A batch re-evaluates the term only at the partitions it touched, and what changed is the difference to what was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from itertools import product
from typing import TypeVar

from viewlet.algebra.evaluate import Environment, Run, State, accumulate, evaluate, prepare, totals, values_of
from viewlet.algebra.nodes import Expr, Mul, Neg, Sum, Var, View, factors_of, summands
from viewlet.algebra.order import order
from viewlet.algebra.scope import NONE, outputs
from viewlet.algebra.traverse import walk
from viewlet.triggers.program import Program
from viewlet.triggers.store import MapStore, UndoLog, part_of
from viewlet.types import Datum, Row

T = TypeVar("T")


@dataclass(slots=True)
class _Term:
    partition: tuple[Var, ...]
    names: tuple[str, ...]  # of the partition
    sources: tuple[tuple[str, Callable[[Row], Row]], ...]  # view, how to find the partition in its key
    scan: Run
    at_partition: Run
    groups: dict[Row, dict[Row, int]] = field(default_factory=dict)


def evaluate_result(program: Program, views: Mapping[str, MapStore]) -> dict[Row, int]:
    """The rows of a query with their multiplicities, over views as they are."""
    found = evaluate(program.result, program.query.output, State({}, {}, views))
    return {row: int(number) for row, number in found.items()}  # type: ignore[arg-type]


class ResultRows:
    """The rows of a query; one of several that read the same views `follows` them, and keeps its own touched keys."""

    def __init__(self, program: Program, views: Mapping[str, MapStore], log: UndoLog, follows: bool = False) -> None:
        self._output = program.query.output
        self._row_of = values_of(tuple(var.name for var in self._output))
        self._log = log
        self._state = State({}, {}, views)
        self._terms = [_term(expr) for expr in summands(program.result)]
        self._read = {view for term in self._terms for view, _ in term.sources}
        self._touched = {name: views[name].follow() if follows else views[name].touched for name in self._read}
        self._clear()

    def over(self, views: Mapping[str, MapStore], borrowed: Collection[str]) -> ResultRows:
        """The same rows, read from now on through other stores with the same contents; others own those `borrowed`."""
        other = copy(self)
        other._state = State({}, {}, views)
        other._touched = {
            name: views[name].follow() if name in borrowed else views[name].touched for name in self._read
        }
        other._clear()
        return other

    def refresh_all(self) -> None:
        """Evaluates the result from the views as they are."""
        for term in self._terms:
            if not term.partition:
                self._replace(term, (), self._rows_of(term.scan, {}))
                continue
            env: Environment = {}
            numbers = accumulate(term.scan(env, self._state), env, term.partition + self._output)
            width = len(term.partition)
            found: dict[Row, dict[Row, int]] = {}
            for key, number in numbers.items():
                found.setdefault(key[:width], {})[key[width:]] = int(number)  # type: ignore[arg-type]
            for part in set(term.groups) - set(found):
                self._replace(term, part, {})
            for part, rows in found.items():
                self._replace(term, part, rows)
        self._clear()

    def refresh(self) -> dict[Row, int]:
        """Brings the result up to date with the views and returns its change."""
        change: dict[Row, int] = {}
        for term in self._terms:
            for part in self._touched_parts(term):
                env = dict(zip(term.names, part, strict=True))
                new = self._rows_of(term.at_partition, env)
                old = term.groups.get(part, {})
                if new == old:
                    continue
                self._replace(term, part, new)
                for row in {**old, **new}:
                    difference = new.get(row, 0) - old.get(row, 0)
                    if difference:
                        change[row] = change.get(row, 0) + difference
        self._clear()
        return {row: difference for row, difference in change.items() if difference}

    def rows(self) -> dict[Row, int]:
        total: dict[Row, int] = {}
        for term in self._terms:
            for rows in term.groups.values():
                for row, number in rows.items():
                    total[row] = total.get(row, 0) + number
        return {row: number for row, number in total.items() if number}

    def rows_with(self, values: Mapping[int, Collection[Datum]]) -> dict[Row, int]:
        """The rows that have one of some values in each of some columns: looked up where the partition is known."""
        total: dict[Row, int] = {}
        wanted = {i: set(choices) for i, choices in values.items()}
        for term in self._terms:
            by_var = {self._output[i]: choices for i, choices in wanted.items()}
            choices = {i: by_var[var] for i, var in enumerate(term.partition) if var in by_var}
            for _, rows in _with_values(term.groups, choices, len(term.partition)):
                for row, number in _with_values(rows, wanted, len(self._output)):
                    total[row] = total.get(row, 0) + number
        return {row: number for row, number in total.items() if number}

    def forget(self) -> None:
        """Forgets all rows, outside a batch."""
        for term in self._terms:
            term.groups = {}
        self._clear()

    def _rows_of(self, run: Run, env: Environment) -> dict[Row, int]:
        numbers = totals(run(env, self._state), env, self._row_of)
        return {row: int(number) for row, number in numbers.items()}  # type: ignore[arg-type]

    def _touched_parts(self, term: _Term) -> set[Row]:
        return {partition(key) for view, partition in term.sources for key in self._touched[view]}

    def _replace(self, term: _Term, part: Row, rows: dict[Row, int]) -> None:
        old = term.groups.get(part, {})
        self._log.record(lambda: _put(term.groups, part, old))
        _put(term.groups, part, rows)

    def _clear(self) -> None:
        for keys in self._touched.values():
            keys.clear()


def _with_values(items: Mapping[Row, T], values: Mapping[int, set[Datum]], width: int) -> Iterable[tuple[Row, T]]:
    """The items whose keys have one of some values at each of some positions: looked up if that is every position."""
    if len(values) == width:
        keys = product(*(values[i] for i in range(width)))
        return [(key, items[key]) for key in keys if key in items]
    found: Iterable[tuple[Row, T]] = items.items()
    for i, choices in values.items():
        found = [item for item in found if item[0][i] in choices]
    return found


def _put(groups: dict[Row, dict[Row, int]], part: Row, rows: dict[Row, int]) -> None:
    if rows:
        groups[part] = rows
    else:
        groups.pop(part, None)


@dataclass(frozen=True, slots=True)
class TermSources:
    """The variables that all views of a term share, and where each view has them in its key.

    What the term makes of some values of these variables depends on nothing but the rows with these values.
    """

    partition: tuple[Var, ...]
    positions: tuple[tuple[str, tuple[int, ...]], ...]
    """By view; one that is read twice with different arguments is listed twice."""


def term_sources(expr: Expr, constant: Collection[str] = ()) -> TermSources:
    """How a term reads its views; those that are `constant` stay as they are, and are read whole."""
    product = _product_of(expr)
    atoms = [node for node in walk(product) if isinstance(node, View) and node.name not in constant]
    shared = outputs(product).intersection(*(atom.args for atom in atoms)) if atoms else frozenset()
    partition = tuple(sorted(shared, key=lambda var: var.name))
    found = dict.fromkeys((atom.name, tuple(atom.args.index(var) for var in partition)) for atom in atoms)
    return TermSources(partition, tuple(found))


def _term(expr: Expr) -> _Term:
    read = term_sources(expr)
    partition, shared = read.partition, frozenset(read.partition)
    sources = tuple((view, part_of(positions)) for view, positions in read.positions)
    shown = _show(expr, shared)
    scan, at_partition = prepare(order(shown), NONE), prepare(order(shown, shared), shared)
    return _Term(partition, tuple(var.name for var in partition), sources, scan, at_partition)


def _show(expr: Expr, given: frozenset[Var]) -> Expr:
    """Partition variables that a Sum hides become visible, so that they can be bound from outside."""
    match expr:
        case Neg(body):
            return Neg(_show(body, given))
        case Sum(keys, body):
            return Sum(keys + tuple(sorted(given - set(keys), key=lambda var: var.name)), body)
        case Mul(factors):
            return Mul(tuple(_show(factor, given) for factor in factors))
        case _:
            return expr


def _product_of(expr: Expr) -> Expr:
    match expr:
        case Neg(body):
            return _product_of(body)
        case Sum(_, body):
            return body
        case _:
            inner = [factor for factor in factors_of(expr) if isinstance(factor, Sum)]
            return inner[0].body if len(inner) == 1 else expr

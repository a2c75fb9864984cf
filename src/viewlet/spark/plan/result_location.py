"""Where the rows of a query are computed from its views.

| reading      | when                                                                                     |
|--------------|------------------------------------------------------------------------------------------|
| `DRIVER`     | all views it reads live at the driver                                                    |
| `PARTITIONS` | each term reads its views through the keys they are partitioned by: no row needs another |
|              | partition, and the rows of all partitions together are the result                        |
| `SENT`       | the same holds once every partition has the views at the driver, which are small: they   |
|              | are sent along when the rows are read                                                    |
| `GATHERED`   | otherwise the views are brought to the driver first                                      |
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from viewlet.algebra.nodes import Add, Cond, Exists, Expr, Extremum, Lift, Mul, Neg, Sum, Var, View, summands
from viewlet.algebra.scope import outputs
from viewlet.algebra.traverse import walk
from viewlet.spark.plan.locations import LOCAL, REPLICATED, Dist, ViewLocation
from viewlet.triggers.program import Program


class ResultLocation(Enum):
    DRIVER = "driver"
    PARTITIONS = "partitions"
    SENT = "sent"
    GATHERED = "gathered"

    @property
    def is_whole(self) -> bool:
        """A batch may change the whole result, which has to be read before it and after it to know how."""
        return self in (ResultLocation.GATHERED, ResultLocation.SENT)

    @property
    def is_spread(self) -> bool:
        """Each partition computes its share of the rows."""
        return self in (ResultLocation.PARTITIONS, ResultLocation.SENT)


def views_of(program: Program) -> list[str]:
    """The views that the result reads."""
    return sorted({node.name for node in walk(program.result) if isinstance(node, View)})


def result_location(program: Program, locations: Mapping[str, ViewLocation]) -> ResultLocation:
    if all(locations[name] == LOCAL for name in views_of(program)):
        return ResultLocation.DRIVER
    if all(_is_apart(term, program, locations) for term in summands(program.result)):
        return ResultLocation.PARTITIONS
    told = {name: REPLICATED if at == LOCAL else at for name, at in locations.items()}
    if all(_is_apart(term, program, told) for term in summands(program.result)):
        return ResultLocation.SENT
    return ResultLocation.GATHERED


def rows_are_apart(program: Program, locations: Mapping[str, ViewLocation]) -> bool:
    """No two partitions have parts of the same row, where the result is read in the partitions.

    Columns of the row name its partition, or every part counts as often as the row does.
    """
    output, terms = program.query.output, summands(program.result)
    if all(is_natural(term) for term in terms):
        return True
    by = {place for term in terms for place in _places(term, program, locations)}
    return len(by) == 1 and set(*by) <= set(output)


def is_natural(term: Expr) -> bool:
    """Multiplicities of the term are never negative, whatever its views hold."""
    match term:
        case Mul(factors):
            return all(map(is_natural, factors))
        case Sum(_, body):
            return is_natural(body)
        case _:
            return isinstance(term, Cond | Exists | Lift | Extremum)


def _is_apart(term: Expr, program: Program, locations: Mapping[str, ViewLocation]) -> bool:
    """The term's rows in a partition depend on that partition only."""
    if any(isinstance(node, View) and locations[node.name] == LOCAL for node in walk(term)):
        return False
    places = _places(term, program, locations)
    return len(places) == 1 and set(*places) <= _visible(term) and _is_owned(term, locations)


def _is_owned(term: Expr, locations: Mapping[str, ViewLocation]) -> bool:
    """Partitions without rows of a view have no rows of the term: what is absent would be absent in many of them."""
    match term:
        case Mul(factors):
            return any(_is_owned(factor, locations) for factor in factors)
        case Add(terms):
            return all(_is_owned(each, locations) for each in terms)
        case Neg(body) | Sum(_, body) | Exists(body):
            return _is_owned(body, locations)
        case View(name):
            return isinstance(locations[name], Dist)
        case _:
            return False


def _places(term: Expr, program: Program, locations: Mapping[str, ViewLocation]) -> set[tuple[Var, ...]]:
    """The variables by which the views that a term reads are partitioned."""
    places: set[tuple[Var, ...]] = set()
    for node in walk(term):
        if isinstance(node, View):
            location = locations[node.name]
            if isinstance(location, Dist):
                keys = program.view(node.name).keys
                places.add(tuple(node.args[keys.index(var)] for var in location.by))
    return places


def _visible(term: Expr) -> frozenset[Var]:
    """Variables that mean the same all over the term: those its product binds, also where a sum hides them."""
    match term:
        case Neg(body) | Sum(_, body):
            return _visible(body)
        case Mul(factors):
            inner = [_visible(factor) if isinstance(factor, Sum) else outputs(factor) for factor in factors]
            return frozenset[Var]().union(*inner) if sum(isinstance(f, Sum) for f in factors) <= 1 else outputs(term)
        case _:
            return outputs(term)

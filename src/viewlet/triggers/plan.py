"""The entry point of the compiler: trigger programs under every strategy."""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.algebra.query import Query
from viewlet.triggers.compiler import compile_query
from viewlet.triggers.join_tree.grouping import TreeGrouping
from viewlet.triggers.program import Program
from viewlet.triggers.sizes import complete
from viewlet.triggers.statistics import UNKNOWN, Statistics
from viewlet.triggers.strategy import GROUPINGS, UNLIMITED, Limits, Strategy
from viewlet.types import Table


def plan_query(
    name: str,
    query: Query,
    tables: Mapping[str, Table],
    strategy: str = "auto",
    statistics: Statistics = UNKNOWN,
    stored: bool = False,
    limits: Limits = UNLIMITED,
) -> Program:
    """The trigger program that maintains `query` under changes of the dynamic tables among `tables`.

    If the result is to be `stored`, it is a sum of views. `limits` are those of a strategy that is asked for.
    """
    completed = complete(statistics, query, tables)
    trees = TreeGrouping(tables, completed)
    return compile_query(
        name, query, tables, strategy, completed, {**GROUPINGS, Strategy.VIEW_TREE: trees}, stored, limits
    )

"""A kind of view: how a declaration is recognised, what is made of it, and the engines that run it.

    kind ::= accepts    which definitions are of this kind
             plan       a declaration as what its engines run
             reference  the engine that defines what the view holds
             compiled   generated code, where there is some
             distributed   units on a Spark cluster, where there are some
             stages     what `explain` prints
             handle     the methods that users read the view with

`engine/kinds.py` is the table of kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from viewlet.algebra.query import Query
from viewlet.engine.contract import BulkLoad, Engine, LocalEngine, Stages
from viewlet.engine.declaration import Declaration
from viewlet.triggers.sources import Sources
from viewlet.triggers.statistics import Statistics
from viewlet.triggers.store import UndoLog
from viewlet.types import Table, TimeParts
from viewlet.view import View

if TYPE_CHECKING:
    from viewlet.changes.word_codec import Codes
    from viewlet.sql.table_functions import TableFunction

Tables = Mapping[str, Table]
Step = Callable[[str], None]
"""Hears what is about to be done."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What `explain` is asked about: a view, or a query that could be one, and its plan."""

    declared: Declaration
    plan: Any
    over_tables: Declaration
    """The same view as its engine sees it: on Spark the views that it reads are replaced by their queries."""
    tables: Tables
    measure: Callable[[Tables], Statistics]
    engine: str
    """What runs it and why, in words."""
    format: str = "text"


class Draft(Protocol):
    """The compiled form of a view before it is built."""

    @property
    def obstacle(self) -> str | None:
        """Why `auto` leaves the view to the reference engine."""

    @property
    def is_cached(self) -> bool:
        """Building takes no longer than loading code from the disk cache."""

    def build(self, sources: Sources, dictionary: Any, step: Step, reads: bool) -> LocalEngine:
        """An engine that is still to be filled; with `reads`, the code that reads a large result is compiled too."""


@dataclass(frozen=True, slots=True)
class CompiledForm:
    """How a kind of view becomes generated code. An `UnsupportedError` of `draft` or `build` names what does not."""

    draft: Callable[[Declaration, Tables, Statistics], Draft]
    obstacle: Callable[[Tables], str | None]
    """Why `auto` never compiles a view over these tables."""
    stays: Callable[[Any, bool], str | None]
    """Why a view with this plan stays on the reference engine, by whether its changes are wanted after every batch."""
    migrate: Callable[[Any, Any], None]
    """Gives a compiled engine what the reference engine of the same plan holds: streams keep no rows to load."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What the user says about tables and views that are to be partitioned: their rows, and the columns to go by."""

    rows: Mapping[str, float] = field(default_factory=dict)
    partition_by: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResultForm:
    """How views of a kind are read from the stored views of units of the kind that other views have."""

    readings: Callable[[Iterable[Any], Declaration, Tables], Iterator[Any]]
    """How a view is read from those units whose stored views suffice (`spark/run/units/unit_reading.py`)."""
    engine: Callable[[Any, Any], Any]
    """What reads a unit of the cluster so; it has the `key` that the cluster has for the result."""


@dataclass(frozen=True, slots=True)
class DistributedForm:
    """How a kind of view is spread over a Spark cluster, which is a `viewlet.spark.run.engine.Engine`."""

    plan: Callable[[Declaration, Tables], Any]
    unit: Callable[[Any, Declaration, Tables, Hints, Mapping[str, Any]], Any]
    """The unit of a view (`spark/run/units/unit.py`); the last argument has the `facts` of one that continues."""
    engine: Callable[[Any, Any, Declaration], Engine]
    """What reads a unit of the cluster that runs a view."""
    reason: Callable[[Any, Any], str]
    """How a unit is spread, in words."""
    inline: Callable[[Declaration, Mapping[str, Query], frozenset[str]], Declaration] | None = None
    """The same view with the views that it reads replaced by their queries, over tables; None if it reads tables only.
    """
    expression: Callable[[Declaration], Query] | None = None
    """The query that takes the place of the view in others that read it; None if there is no such query."""
    results: ResultForm | None = None
    """How such views share stored views; None if their units are theirs alone."""


@dataclass(frozen=True, slots=True)
class ViewKind:
    """One entry of the table of kinds."""

    noun: str
    """What messages call such a view."""
    accepts: Callable[[object], bool]
    plan: Callable[[Declaration, Tables, Statistics], Any]
    reference: Callable[[Declaration, Sources, Statistics, UndoLog, bool], LocalEngine]
    """An engine that is still to be filled; the last argument asks for the plan that compiled code would run too."""
    stages: Callable[[Subject], Stages]
    summary: tuple[str, ...]
    """The stages that `explain` prints if it is not asked for one."""
    compiled: CompiledForm | None = None
    distributed: DistributedForm | None = None
    bulk_load: Callable[[Any, Sources, Codes | None], BulkLoad | None] | None = None
    """How a large batch fills the reference engine, None if rows have to be applied; with a dictionary, changes may
    come as columns."""
    function: tuple[str, TableFunction] | None = None
    """The table function that declares such a view, `SELECT * FROM name(...)`, and how its call is bound."""
    handle: type[View] = View
    feeds_views: bool = True
    """Other views may read it."""
    compiles_elsewhere: bool = True
    """A second process can compile it ahead of time, from the statement that declared it."""
    parts: Callable[[Any], TimeParts] | None = None
    """How a definition cuts the view by time, for kinds that read the parts of streams."""
    rehearse: Callable[[Any], None] | None = None
    """Tries what a definition calls of the user's, before such a view is declared; not when a directory is opened."""
    answer: Callable[[Any, Callable[[str], Any]], Any] | None = None
    """The rows of a definition, as Arrow, over tables as they are (by name): its function in a query outside a view."""
    prune: Callable[[Any, str], Any] | None = None
    """The rows, as Arrow, that an ad-hoc query over the view can need; None if all."""
    unfollowed: str = ""
    """What to do instead of following its changes, if that is not possible."""

    @property
    def reads_parts(self) -> bool:
        """Whether views of this kind read the parts of streams, which are kept: they may be declared at any time."""
        return self.parts is not None

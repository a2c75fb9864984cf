"""The trigger program: views, and what each change does to them.

    view      ::= name[key, ...]: field = expr, ...           fields of one view share one payload
    trigger   ::= on table: statement ...
    statement ::= view[var, ...].field += expr                 reads the state before the trigger
                | view[var, ...].field := expr                 reads the state after every += of the trigger
    result    ::= expr over views, one per query

Statements read views, changes and (where rows are kept) base tables. Assignments run after the increments, in the order
given. A key leaves a view when its presence field, or without one its every field, is zero.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from viewlet.algebra.nodes import Expr, Var
from viewlet.algebra.query import Query

if TYPE_CHECKING:
    from viewlet.triggers.cost import ProgramCost

COUNT_FIELD = "count"


@dataclass(frozen=True, slots=True)
class Field:
    """One number of a payload; `definition` says what it is in terms of base tables."""

    name: str
    definition: Expr
    is_float: bool = False


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    name: str
    keys: tuple[Var, ...]
    fields: tuple[Field, ...]

    @property
    def presence(self) -> str | None:
        return COUNT_FIELD if any(f.name == COUNT_FIELD for f in self.fields) else None


@dataclass(frozen=True, slots=True)
class Update:
    field: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class Statement:
    """Changes the fields of one view; `args` are the variables of the expressions that form its keys."""

    view: str
    args: tuple[Var, ...]
    updates: tuple[Update, ...]
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Trigger:
    table: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Pass:
    """One step of the compiler, as `explain` shows it."""

    name: str
    subject: str
    before: Expr
    after: Expr


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    strategy: str
    query: Query
    views: tuple[ViewDefinition, ...]
    triggers: tuple[Trigger, ...]
    result: Expr
    passes: tuple[Pass, ...] = field(default=(), repr=False)
    costs: tuple[ProgramCost, ...] = field(default=(), repr=False, compare=False)
    """What the cost model says of every program that was considered, this one included."""

    def view(self, name: str) -> ViewDefinition:
        return next(view for view in self.views if view.name == name)

    @property
    def state_digest(self) -> str:
        """Programs with the same digest keep the same state: their views have the same names, keys and definitions.

        How triggers bring the views up to date may differ.
        """
        return text_digest(repr(self.views))

    def trigger(self, table: str) -> Trigger | None:
        return next((trigger for trigger in self.triggers if trigger.table == table), None)


def text_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

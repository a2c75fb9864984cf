"""The trigger program: views, and what each change does to them.

    view      ::= name[key, ...]: field = expr, ...           fields of one view share one payload
    trigger   ::= on table: statement ...
    statement ::= view[var, ...].field += expr                 reads the state before the trigger
                | view[var, ...].field := expr                 reads the state after every += of the trigger
    result    ::= expr over views, one per query
    layer     ::= table: trigger ..., expr over views           its rows are read like those of a table

Statements read views, changes and (where rows are kept) base tables. Assignments run after the increments, in the order
given. A key leaves a view when its presence field, or without one its every field, is zero.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from viewlet.algebra.nodes import Expr, Var
from viewlet.algebra.query import Query
from viewlet.types import Table

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
class ProgramLayer:
    """Rows that later layers and the program read like those of `table`; they are told as they change.

    `rows` is a sum of views. A batch runs the triggers of the layers first, in order; the change of a layer is then
    `rows` over what its triggers have added to the views `told`, which hold nothing when a batch begins. Views whose
    changes are not increments, or that statements read, are kept by the program. They are `compared` with what they
    were before the triggers.
    """

    table: Table
    query: Query
    """Its rows, over tables and the layers before it."""
    told: tuple[ViewDefinition, ...]
    compared: tuple[ViewDefinition, ...]
    triggers: tuple[Trigger, ...]
    rows: Expr

    @property
    def shown(self) -> tuple[ViewDefinition, ...]:
        """The views that its rows are made of."""
        return (*self.told, *self.compared)


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
    layers: tuple[ProgramLayer, ...] = ()
    """Those whose changes its triggers read, each after the layers that it reads itself."""

    def view(self, name: str) -> ViewDefinition:
        return next(view for view in self.views if view.name == name)

    @property
    def state_digest(self) -> str:
        """Programs with the same digest keep the same state: their views have the same names, keys and definitions.

        How triggers bring the views up to date may differ.
        """
        return text_digest(repr(self.views))

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Those of all triggers, of its layers too."""
        triggers = (*(trigger for layer in self.layers for trigger in layer.triggers), *self.triggers)
        return tuple(statement for trigger in triggers for statement in trigger.statements)

    @property
    def changing(self) -> frozenset[str]:
        """The tables whose changes it follows, layers left out."""
        triggers = (*(trigger for layer in self.layers for trigger in layer.triggers), *self.triggers)
        return frozenset(trigger.table for trigger in triggers) - {layer.table.name for layer in self.layers}

    def trigger(self, table: str) -> Trigger | None:
        return next((trigger for trigger in self.triggers if trigger.table == table), None)


def text_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

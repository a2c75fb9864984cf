"""Relations of a join that are computed from columns of their table: conditions and scalars as generated code.

    items as (item, gross = price * 2) where price > 1

    Δitems := Sum[item, gross](Δitems(item, price) * {price > 1} * (gross := price * 2))

They are statements like those of distributed programs (`codegen/blocks.py`), over the change of one table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from viewlet.algebra.nodes import Cond, Const, Delta, Expr, Lift, Mul, Sum, Value, Var
from viewlet.algebra.query import Query
from viewlet.algebra.ring_query import JoinedRelation
from viewlet.changes import ColumnChange
from viewlet.codegen.blocks import BlockPlan, write_blocks
from viewlet.codegen.node import CompiledNode
from viewlet.codegen.rings.columns import Column
from viewlet.codegen.rings.generated_tree import without_missing
from viewlet.runtime.dictionary import StringDictionary
from viewlet.triggers.program import COUNT_FIELD, Field, Program, Statement, Update, ViewDefinition
from viewlet.types import BIGINT, SqlType

_PLAN = "rows"


class ComputedRelation:
    """The rows of a relation in changes of its table; raises `NotCompilable` where there is no code for a scalar."""

    def __init__(self, relation: JoinedRelation) -> None:
        self._relation = relation
        self._keys = tuple(Var(f"{each.name} of the relation", each.scalar.type) for each in relation.variables)
        statement = Statement(relation.name, self._keys, (Update(COUNT_FIELD, self._rows()),), replaces=True)
        view = ViewDefinition(relation.name, self._keys, (Field(COUNT_FIELD, self._rows()),))
        nothing = Value(Const(0, BIGINT))
        program = Program(relation.name, "copy", Query(nothing, ()), (), (), nothing)
        self._module = write_blocks(program, [BlockPlan(_PLAN, (statement,), {relation.name: view})])

    def _rows(self) -> Expr:
        relation = self._relation
        bound = [Lift(key, Value(each.scalar)) for key, each in zip(self._keys, relation.variables, strict=True)]
        conditions = [Cond(condition) for condition in relation.conditions]
        return Sum(self._keys, Mul((Delta(relation.table, relation.columns), *conditions, *bound)))

    @property
    def types(self) -> Sequence[SqlType]:
        return [key.type for key in self._keys]

    def words(self, change: ColumnChange, dictionary: StringDictionary) -> tuple[list[Column], Column]:
        """A column for each variable, and multiplicities; equal rows are one.

        Rows with NULL in a required variable are left out. Strings have codes of the dictionary, which is that of the
        change.
        """
        node = CompiledNode(self._module, dictionary)
        node.add_change(self._relation.table, lambda i: _bits(change.words[i]), change.multiplicity)
        node.run(_PLAN, [0])
        found = node.contents(self._module.temporaries[_PLAN, self._relation.name])
        columns = [
            words.view(np.float64) if type.is_float else words
            for words, type in zip(found.keys, self.types, strict=True)
        ]
        (numbers,) = found.numbers
        return without_missing(self._relation, columns, numbers[-1])


def _bits(words: Column) -> Column:
    return words.view(np.int64) if words.dtype == np.float64 else words

"""From a view tree and a ring to code that maintains it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.rings.cofactor_form import CofactorForm
from viewlet.codegen.rings.compiled_tree import CompiledTree
from viewlet.codegen.rings.forms import Form
from viewlet.codegen.rings.listing_form import ListingForm
from viewlet.codegen.rings.plan import plan_tree
from viewlet.codegen.rings.polynomial_form import PolynomialForm
from viewlet.codegen.rings.sums_form import sums_form
from viewlet.codegen.rings.tree_writer import write_module
from viewlet.errors import SchemaError
from viewlet.rings.cofactor import CofactorRing
from viewlet.rings.relational import RelationalRing
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.memory import Memories, on_heap
from viewlet.types import SqlType
from viewlet.viewtree.ring_relation import Row
from viewlet.viewtree.ring_tree import ViewTree


def compile_tree(
    tree: ViewTree,
    ring: Any,
    column_types: Mapping[str, SqlType],
    updatable: Set[str] | None = None,
    database: Mapping[str, Mapping[Row, int]] | None = None,
    dictionary: StringDictionary | None = None,
    memory: Memories = on_heap,
) -> CompiledTree:
    """The compiled form of `MaintainedTree(tree, ring, updatable=..., database=...)`.

    `column_types` has the type of every variable, `database` multiplicities of rows by relation. Its stores live in
    `memory`. A ring without a compiled form raises `NotCompilable`.
    """
    if missing := [name for name in tree.order.variables if name not in column_types]:
        raise SchemaError(f"the type of variable {missing[0]!r} is not given")
    form = form_of(ring, column_types)
    plan = plan_tree(tree, form.groupings, updatable)
    dictionary = StringDictionary() if dictionary is None else dictionary
    compiled = CompiledTree(plan, form, write_module(plan, form, column_types), column_types, dictionary, memory)
    if database:
        load(compiled, ring, database)
    return compiled


def form_of(ring: Any, types: Mapping[str, SqlType]) -> Form:
    """The compiled form of a ring."""
    if isinstance(ring, CofactorRing):
        if wrong := [name for name in ring.continuous if name in types and not types[name].is_numeric]:
            raise NotCompilable(f"variable {wrong[0]!r} is a {types[wrong[0]]}: it can be categorical, not continuous")
        return cofactor_form(ring)
    if isinstance(ring, RelationalRing):
        return ListingForm(ring)
    found = sums_form(ring, types)
    if found is None:
        raise NotCompilable(
            f"the {getattr(ring, 'name', ring)} ring has no compiled form; the reference engine serves it"
        )
    return found


def cofactor_form(ring: CofactorRing) -> CofactorForm:
    return CofactorForm(ring) if ring.degree <= 2 else PolynomialForm(ring)


def load(compiled: CompiledTree, ring: Any, database: Mapping[str, Mapping[Row, int]]) -> None:
    """Fills an empty tree; relations that never change are loaded by a tree in which they do, and then only read."""
    changes = {relation: list(rows.items()) for relation, rows in database.items()}
    if set(database) <= set(compiled.changing):
        compiled.apply(changes)
        return
    whole = compile_tree(compiled.tree, ring, compiled.types, dictionary=compiled.dictionary)
    whole.apply(changes)
    compiled.take(whole)

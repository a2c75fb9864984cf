"""The stage `view-tree` of `explain` for a trigger program: views over views, as text or as a picture.

Views are below those that are made of more tables: under the strategy `view-tree` they form the one tree that all
changes share.
"""

from __future__ import annotations

from viewlet.algebra.traverse import relations
from viewlet.triggers.pictures import Box, draw_boxes, write_boxes
from viewlet.triggers.program import Program, ViewDefinition


def show_program_tree(program: Program, format: str = "text") -> str:
    """The views of a trigger program as a tree, and which of them each change passes."""
    roots = [_box(program, view) for view in program.views if _parent(program, view) is None]
    if format == "svg":
        return draw_boxes(roots, f"{program.name} ({program.strategy})")
    paths = [
        f"on {trigger.table}: {', '.join(dict.fromkeys(statement.view for statement in reversed(trigger.statements)))}"
        for trigger in program.triggers
    ]
    return "\n".join([write_boxes(roots), "", *paths])


def _box(program: Program, view: ViewDefinition) -> Box:
    keys = ", ".join(key.name for key in view.keys)
    fields = f"keeps {', '.join(field.name for field in view.fields)}"
    over = f"over {', '.join(_tables(view))}"
    below = tuple(_box(program, child) for child in program.views if _parent(program, child) == view.name)
    return Box(f"{view.name}[{keys}]", (fields, over), True, "view", _tables(view), below)


def _tables(view: ViewDefinition) -> tuple[str, ...]:
    return tuple(sorted({table for field in view.fields for table in relations(field.definition)}))


def _parent(program: Program, view: ViewDefinition) -> str | None:
    """The smallest view made of all the tables of a view and more, the first of equals."""
    own = set(_tables(view))
    larger = [(len(_tables(other)), i) for i, other in enumerate(program.views) if own < set(_tables(other))]
    return program.views[min(larger)[1]].name if larger else None

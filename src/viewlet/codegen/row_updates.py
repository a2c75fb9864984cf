"""Code that adds a number to a field of a row, and the condition under which the row leaves its store."""

from __future__ import annotations

from viewlet.codegen.lines import Lines
from viewlet.runtime.flat import WIDTHS, Layout


def vanishes(layout: Layout, name: str, slot: str) -> str:
    """Code for the condition under which a row leaves: its numbers are zero, and in a view the exact ones suffice.

    What a sum of doubles keeps of its rounding is no reason for a row to stay, unless the row is a change.
    """
    deciding = set(layout.kinds) if layout.transient else set(layout.kinds) - {"double"} or {"double"}
    return " and ".join(
        f"{name}_{'floats' if kind == 'double' else 'pool'}[{slot}, {layout.offset(field) + word}] == 0"
        for field, kind in zip(layout.fields, layout.kinds, strict=True)
        if kind in deciding
        for word in range(WIDTHS[kind])
    )


def add_field(lines: Lines, layout: Layout, name: str, slot: str, field: str, words: tuple[str, ...]) -> None:
    """Adds the words of a number to a field of the row in a slot."""
    at = layout.offset(field)
    match layout.kind(field):
        case "count":
            lines.add(f"{name}_pool[{slot}, {at}] += {words[0]}")
        case "wide":
            high, low, pool = lines.fresh("h"), lines.fresh("l"), f"{name}_pool[{slot}, "
            lines.add(f"{high}, {low} = wide_add({pool}{at}], {pool}{at + 1}], {words[0]}, {words[1]})")
            lines.add(f"{pool}{at}] = {high}")
            lines.add(f"{pool}{at + 1}] = {low}")
            lines.add(f"if {high} > LIMIT_HIGH or {high} < -LIMIT_HIGH:")
            lines.add("    control[FAILURE] = OVERFLOW")
        case _:
            first, second, pool = lines.fresh("f"), lines.fresh("g"), f"{name}_floats[{slot}, "
            lines.add(f"{first}, {second} = dd_add({pool}{at}], {pool}{at + 1}], {words[0]}, {words[1]})")
            given = f"{pool}{at}], {pool}{at + 1}], {words[0]}, {first}, {second}"
            lines.add(f"if not (abs({words[0]}) <= double_of(SMALL + control[BELOW])):")
            lines.add(f"    {first}, {second} = large_sum({given}, control)")
            lines.add(f"{pool}{at}] = {first}")
            lines.add(f"{pool}{at + 1}] = {second}")

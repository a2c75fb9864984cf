"""The table and the plot of what `bench.stream_views` has measured.

    python -m bench.stream_report docs/benchmarks/streams.jsonl

The plot is drawn beside the file; the table is printed, as Markdown.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FIGURES = {
    "6": ("pattern, scope 20", "records in a part"),
    "7": ("pattern, 10 % high", "scope in parts"),
    "8": ("pattern, scope 4", "share of high losses, %"),
    "9": ("MAX, 10 parts", "records in a part"),
    "10": ("MAX", "window in parts"),
    "11": ("SUM, 10 parts", "records in a part"),
    "12": ("SUM", "window in parts"),
}
UNITS = {
    "records in a part": "{:,} records",
    "scope in parts": "scope {}",
    "share of high losses, %": "{} % high",
    "window in parts": "{} parts",
}
LINES = {"naive": "naive", "hand": "hand-written", "generated": "generated"}
Point = dict[str, Any]


def table(points: list[Point]) -> str:
    """The points in Markdown."""
    lines = [
        "| figure | point | naive | hand-written | generated | generated / hand | naive / generated | checked / hand "
        "| insert | worst |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for each in points:
        name, axis = FIGURES[each["figure"]]
        naive, hand, made, checked = (each[key] for key in ("naive", "hand", "generated", "checked"))
        cells = [
            f"{each['figure']}: {name}",
            UNITS[axis].format(each["at"]),
            *("" if value is None else f"{value:.3f}" for value in (naive, hand, made)),
            f"{each.get('ratio', made / hand):.2f}",
            "" if naive is None else f"{naive / made:.1f}",
            "" if checked is None else f"{checked if 'ratio' in each else checked / hand:.2f}",
            f"{each['insert']:.3f}",
            f"{each['worst']:.3f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(points: list[Point], target: Path) -> None:
    """One plot for each figure of the paper."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    own_points = {number: [point for point in points if point["figure"] == number] for number in FIGURES}
    known_figures = [number for number, own in own_points.items() if own]
    columns = (len(known_figures) + 1) // 2
    figure, axes = pyplot.subplots(2, columns, figsize=(3.5 * columns, 6), squeeze=False)
    for place in axes.flat[len(known_figures) :]:
        place.set_axis_off()
    for place, number in zip(axes.flat, known_figures, strict=False):
        own, (name, axis) = own_points[number], FIGURES[number]
        for key, label in LINES.items():
            known = [(point["at"], point[key]) for point in own if point[key] is not None]
            place.plot([x for x, _ in known], [y for _, y in known], marker="o", label=label)
        place.set(title=f"Figure {number}: {name}", xlabel=axis, ylabel="CPU seconds", yscale="log")
        if "records" in axis:
            place.set_xscale("log")
        place.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(target, dpi=80)


def main() -> None:
    source = Path(sys.argv[1])
    points = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    print(table(points))
    draw(points, source.with_suffix(".png"))


if __name__ == "__main__":
    main()

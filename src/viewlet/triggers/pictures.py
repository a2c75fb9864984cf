"""Trees of views as text and as pictures (SVG): what each keeps, which are stored, and the way of every change.

A picture has the root at the top. A box with a solid edge is stored, one with a dashed edge is worked out while a
change passes. Each table has a colour, and a line of that colour goes from where its changes come in up to the root.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from viewlet.visible import one_line

CHARACTER, LINE, PAD, GAP, RISE, MARGIN = 7, 15, 8, 24, 44, 20
COLOURS = ("#2b5c9e", "#b3541e", "#2f7d32", "#7b3fa0", "#a8862a", "#1f8a8a", "#a83232", "#5b6470")
STYLE = "text { font: 11px monospace; fill: #222 } .title { font-weight: bold }"
FILL = {"view": "#d6e4f5", "relation": "#d9efd6", "indicator": "#f3e6c8"}


@dataclass(frozen=True, slots=True)
class Box:
    """A node of the tree: its title, what else to say, and the changes that pass through it."""

    title: str
    lines: tuple[str, ...] = ()
    stored: bool = False
    kind: str = "view"
    changes: tuple[str, ...] = ()
    """The names of the changes that come in here or below."""
    below: tuple[Box, ...] = ()


@dataclass(slots=True)
class _PlacedBox:
    box: Box
    depth: int
    centre: float = 0.0
    below: list[_PlacedBox] = field(default_factory=list)

    @property
    def width(self) -> float:
        longest = max(len(text) for text in (self.box.title, *self.box.lines))
        return 2 * PAD + CHARACTER * longest

    @property
    def height(self) -> int:
        return 2 * PAD + LINE * (1 + len(self.box.lines))


def write_boxes(roots: Sequence[Box]) -> str:
    """The tree as text, one node a line; stored ones are marked with a star."""
    return "\n".join(line for root in roots for line in _written(root, 0))


def _written(box: Box, depth: int) -> Iterator[str]:
    said = f"  {'; '.join(box.lines)}" if box.lines else ""
    yield f"{'  ' * depth}{'*' if box.stored else ' '} {box.title}{said}"
    for child in box.below:
        yield from _written(child, depth + 1)


def draw_boxes(roots: Sequence[Box], caption: str = "") -> str:
    """The trees side by side as an SVG picture."""
    placed: list[_PlacedBox] = []
    right = float(MARGIN)
    for root in roots:
        tree = _placed(root, 0)
        right = _arrange(tree, right) + GAP
        placed.append(tree)
    everything = [node for tree in placed for node in _walk(tree)]
    tops = _tops(everything)
    colours = _colours(roots)
    height = max((tops[node.depth] + node.height for node in everything), default=MARGIN) + RISE
    width = max(right, 2 * MARGIN + CHARACTER * max(len(caption), sum(len(name) + 4 for name in colours)))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}"><style>{STYLE}</style>']
    if caption:
        parts.append(f'<text x="{MARGIN}" y="{MARGIN - 4}">{escape(one_line(caption))}</text>')
    for node in everything:
        parts += _edges(node, tops, colours)
    for node in everything:
        parts += _drawn(node, tops[node.depth])
    return "\n".join([*parts, *_legend(colours, height - 12), "</svg>"])


def _placed(box: Box, depth: int) -> _PlacedBox:
    return _PlacedBox(box, depth, below=[_placed(child, depth + 1) for child in box.below])


def _arrange(node: _PlacedBox, left: float) -> float:
    """Puts a node above the middle of what is below it; returns the right end of both."""
    right = left
    for child in node.below:
        right = _arrange(child, right) + GAP
    right = right - GAP if node.below else left
    if right - left < node.width:
        shift = (node.width - (right - left)) / 2
        for child in node.below:
            for inner in _walk(child):
                inner.centre += shift
        right = left + node.width
    node.centre = (node.below[0].centre + node.below[-1].centre) / 2 if node.below else left + node.width / 2
    node.centre = min(max(node.centre, left + node.width / 2), right - node.width / 2)
    return right


def _walk(node: _PlacedBox) -> Iterator[_PlacedBox]:
    yield node
    for child in node.below:
        yield from _walk(child)


def _tops(nodes: Sequence[_PlacedBox]) -> dict[int, int]:
    """Where each level begins: below the highest box of the one above."""
    found, top = dict[int, int](), MARGIN + 8
    for depth in range(max((node.depth for node in nodes), default=-1) + 1):
        found[depth] = top
        top += max(node.height for node in nodes if node.depth == depth) + RISE
    return found


def _colours(roots: Sequence[Box]) -> dict[str, str]:
    names = dict.fromkeys(name for root in roots for name in root.changes)
    return {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}


def _drawn(node: _PlacedBox, top: int) -> Iterator[str]:
    left, dashed = node.centre - node.width / 2, "" if node.box.stored else ' stroke-dasharray="4 3"'
    size = f'width="{node.width:.0f}" height="{node.height}"'
    fill = FILL[node.box.kind]
    yield f'<rect x="{left:.0f}" y="{top}" {size} rx="5" fill="{fill}" stroke="#555"{dashed}/>'
    for i, text in enumerate((node.box.title, *node.box.lines)):
        title = "" if i else ' class="title"'
        yield f'<text{title} x="{left + PAD:.0f}" y="{top + PAD + LINE * (i + 1) - 4}">{escape(one_line(text))}</text>'


def _edges(node: _PlacedBox, tops: Mapping[int, int], colours: Mapping[str, str]) -> Iterator[str]:
    """A line for each change that goes from a child to its parent, side by side."""
    for child in node.below:
        start, end = tops[child.depth], tops[node.depth] + node.height
        names = child.box.changes or ("",)
        for i, name in enumerate(names):
            shift = 4 * (i - (len(names) - 1) / 2)
            path = f"M {child.centre + shift:.0f} {start} L {node.centre + shift:.0f} {end}"
            yield f'<path d="{path}" fill="none" stroke="{colours.get(name, "#aaa")}" stroke-width="2"/>'


def _legend(colours: Mapping[str, str], baseline: int) -> Iterator[str]:
    left = MARGIN
    for name, colour in colours.items():
        yield f'<text x="{left}" y="{baseline}" style="fill: {colour}">&#948;{escape(one_line(name))}</text>'
        left += CHARACTER * (len(name) + 4)

"""Blocks and the transfers between them as a picture, after Figure 5.5 of the thesis: green local, blue distributed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from viewlet.spark.plan.explain import summary, titles
from viewlet.spark.plan.program import BatchPlan, Block, Mode, Move, Movement
from viewlet.visible import one_line

WIDTH, LINE, GAP, PAD, MARGIN = 760, 16, 26, 10, 20
LANE = 12
CHARACTERS = 104
SHOWN = 14
"""So many steps of a block are written out."""
FILL = {Mode.LOCAL: "#d9efd6", Mode.DISTRIBUTED: "#d6e4f5"}
EDGE = {Movement.REPART: "#2b5c9e", Movement.SCATTER: "#2f7d32", Movement.GATHER: "#b3541e"}
STYLE = "text { font: 11px monospace; fill: #222 } .title { font: bold 12px sans-serif }"


@dataclass(frozen=True, slots=True)
class _Box:
    block: Block
    title: str
    top: int

    @property
    def lines(self) -> list[str]:
        texts = [summary(step) for step in self.block.steps[:SHOWN]]
        more = len(self.block.steps) - SHOWN
        return [_cut(text) for text in texts] + ([f"... and {more} more"] if more > 0 else [])

    @property
    def height(self) -> int:
        return 2 * PAD + LINE * (1 + len(self.lines))

    @property
    def middle(self) -> int:
        return self.top + self.height // 2


def draw_plan(plan: BatchPlan) -> str:
    """An SVG picture: blocks from top to bottom, and a line from where contents are made to where they are used."""
    boxes = list(_boxes(plan))
    height = boxes[-1].top + boxes[-1].height + MARGIN if boxes else 2 * MARGIN
    transfers = list(_transfers(boxes))
    width = 2 * MARGIN + WIDTH + LANE * (len(transfers) + 1) + 130
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"><style>{STYLE}</style>']
    for box in boxes:
        parts += _draw_box(box)
    for lane, transfer in enumerate(transfers):
        parts += _draw_transfer(transfer, lane)
    return "\n".join([*parts, "</svg>"])


@dataclass(frozen=True, slots=True)
class _Transfer:
    """Temporaries that travel together: one request per kind of move between two blocks."""

    movement: Movement
    source: _Box
    target: _Box
    count: int


def _boxes(plan: BatchPlan) -> Iterator[_Box]:
    top = MARGIN
    for block, title in zip(plan.blocks, titles(plan), strict=True):
        box = _Box(block, title, top)
        yield box
        top += box.height + GAP


def _transfers(boxes: Sequence[_Box]) -> Iterator[_Transfer]:
    made = {name: box for box in boxes for step in box.block.steps for name in step.footprint.writes}
    found: dict[tuple[Movement, int, int], int] = {}
    for box in boxes:
        for move in box.block.steps:
            if isinstance(move, Move):
                users = [b for b in boxes if any(move.target in step.footprint.reads for step in b.block.steps)]
                for user in users:
                    key = (move.movement, boxes.index(made[move.source]), boxes.index(user))
                    found[key] = found.get(key, 0) + 1
    for (movement, source, target), count in found.items():
        yield _Transfer(movement, boxes[source], boxes[target], count)


def _draw_box(box: _Box) -> Iterator[str]:
    fill = FILL[box.block.mode]
    size = f'width="{WIDTH}" height="{box.height}"'
    yield f'<rect x="{MARGIN}" y="{box.top}" {size} rx="6" fill="{fill}" stroke="#888"/>'
    left, baseline = MARGIN + PAD, box.top + PAD + LINE - 4
    yield f'<text class="title" x="{left}" y="{baseline}">{escape(one_line(box.title))}</text>'
    for number, line in enumerate(box.lines, start=1):
        yield f'<text x="{left}" y="{baseline + number * LINE}">{escape(one_line(line))}</text>'


def _draw_transfer(transfer: _Transfer, lane: int) -> Iterator[str]:
    start, turn = MARGIN + WIDTH, MARGIN + WIDTH + LANE * (lane + 2)
    colour, y1, y2 = EDGE[transfer.movement], transfer.source.middle, transfer.target.middle
    path = f"M {start} {y1} H {turn} V {y2} H {start}"
    yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    yield f'<path d="M {start} {y2} l 7 -4 v 8 z" fill="{colour}"/>'
    label = f"{transfer.movement.value} {transfer.count}"
    yield f'<text x="{turn + 4}" y="{(y1 + y2) // 2}" style="fill: {colour}">{label}</text>'


def _cut(text: str) -> str:
    return text if len(text) <= CHARACTERS else text[: CHARACTERS - 3] + "..."

"""What the visitor sees: a progress bar, the views in small tables, and what the last batch changed in them.

On a terminal the picture is redrawn in place. In a log (no terminal) the same facts become a few plain lines on
the way and the tables once per phase, without control characters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import TracebackType
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from viewlet.demo.views import VIEWS, DemoView

LOG_WIDTH = 100
TABLE_WIDTH = 48
SHOWN_ROWS = 5
LOG_LINES_PER_PHASE = 5


@dataclass(slots=True)
class Picture:
    """One view as last drawn: its columns and first rows, how many there are, and what the last batch did to it."""

    columns: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    total: int = 0
    added: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    removed: int = 0

    @property
    def changed_rows(self) -> int:
        """Result rows the last batch touched; an updated row is one that went and one that came."""
        return max(self.added.total(), self.removed)


@dataclass(frozen=True, slots=True)
class Pace:
    """Speed so far in a phase."""

    rows: int
    batches: int
    seconds: float

    def __str__(self) -> str:
        if not self.seconds or not self.batches:
            return ""
        return f"{self.rows / self.seconds:>8,.0f} rows/s {1000 * self.seconds / self.batches:>7.1f} ms/batch"


def make_console() -> Console:
    """A console of a sensible width, also when the output goes to a file."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=LOG_WIDTH)


class Screen:
    """Draws phases; use as a context manager per phase."""

    def __init__(self, console: Console, phase: str, batches: int) -> None:
        self._console = console
        self._phase = phase
        self._batches = max(batches, 1)
        self._lines_logged = 0
        self._pictures: dict[str, Picture] = {}
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("batches [cyan]{task.fields[pace]}"),
            console=console,
        )
        self._task = self._progress.add_task(phase, total=self._batches, pace="")
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._render)

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._console.is_terminal:
            self._live.stop()
        elif error is None:
            self._console.print(views_grid(self._pictures, self._console.width))

    @property
    def wants_rows(self) -> bool:
        """Reading every view after every batch costs time; a log needs them only at the end."""
        return self._console.is_terminal

    def show(self, done: int, pace: Pace, pictures: dict[str, Picture]) -> None:
        self._pictures = pictures
        self._progress.update(self._task, completed=done, pace=str(pace))
        if not self._console.is_terminal:
            self._log(done, pace)

    def _log(self, done: int, pace: Pace) -> None:
        due = done * LOG_LINES_PER_PHASE // self._batches
        if due <= self._lines_logged:
            return
        self._lines_logged = due
        changed = ", ".join(f"{name} {count}" for name, p in self._pictures.items() if (count := p.changed_rows))
        self._console.print(f"{self._phase:<9} {done:>4}/{self._batches} batches {pace}")
        self._console.print(f"          changed: {changed or 'nothing'}", style="dim", soft_wrap=True)

    def _render(self) -> RenderableType:
        return Group(self._progress, views_grid(self._pictures, self._console.width))


def views_grid(pictures: dict[str, Picture], width: int) -> RenderableType:
    """The views side by side, up to three of them if there is room."""
    tables = [_table(view, pictures[view.name]) for view in VIEWS if view.name in pictures]
    per_line = max(1, min(3, width // TABLE_WIDTH))
    grid = Table.grid(padding=(0, 4, 1, 0))
    for start in range(0, len(tables), per_line):
        grid.add_row(*tables[start : start + per_line])
    return grid


def change_summary(picture: Picture) -> str:
    """`+3 -2`: result rows that came and went with the last batch."""
    signs = ((f"+{picture.added.total()}", picture.added.total()), (f"-{picture.removed}", picture.removed))
    return " ".join(text for text, count in signs if count)


def _table(view: DemoView, picture: Picture) -> Table:
    hidden = picture.total - len(picture.rows)
    change = change_summary(picture)
    notes = [f"{len(picture.rows)} of {picture.total} rows" if hidden else "", f"last batch {change}" if change else ""]
    table = Table(
        title=f"[bold]{view.title}",
        caption="; ".join(note for note in notes if note) or None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for index, name in enumerate(picture.columns):
        table.add_column(name, justify="right" if _numeric(picture.rows, index) else "left", no_wrap=True)
    for row in picture.rows:
        table.add_row(*map(format_value, row), style="green" if row in picture.added else "")
    return table


def _numeric(rows: Iterable[Sequence[Any]], index: int) -> bool:
    return all(isinstance(row[index], int | float | Decimal) for row in rows)


def format_value(value: Any) -> str:
    """A value as a person likes to read it.

    >>> format_value(Decimal("1234567.8910")), format_value(0.049912), format_value(12000), format_value(None)
    ('1,234,567.89', '0.0499', '12,000', 'NULL')
    """
    match value:
        case None:
            return "NULL"
        case float():
            return f"{value:.4f}"
        case Decimal():
            return f"{value:,.2f}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def mark(good: bool, console: Console) -> Text:
    """A check mark or a cross, spelt out where the output cannot carry them."""
    unicode = (console.encoding or "").lower().startswith("utf")
    text = ("✓" if good else "✗") if unicode else ("ok" if good else "WRONG")
    return Text(text, style="bold green" if good else "bold red")

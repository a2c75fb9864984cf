"""A shell without its terminal: it takes lines, carries out what they say, and prints the answers.

Results go to standard output, everything else to standard error. A line that begins with a dot is a command of the
shell; other lines are collected up to the semicolon that ends a statement.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewlet.changes import did_you_mean
from viewlet.errors import DataError, ViewletError
from viewlet.shell.output import Format, print_rows
from viewlet.shell.script import Statement, is_complete, read_text, split
from viewlet.visible import one_line, visible

if TYPE_CHECKING:
    from viewlet.connection import Connection
    from viewlet.view import Subscription

MOST_ROWS = 40
"""Rows of a table that a terminal shows, unless `.rows` says otherwise."""
DEEPEST = 16
"""Scripts that read each other."""


@dataclass(slots=True)
class Shell:
    """What a shell knows between two lines; a `script` is not answered by a person, and ends with its first error."""

    db: Connection
    script: bool = True
    keep_going: bool = False
    format: Format = Format.TABLE
    timer: bool = False
    most_rows: int | None = None
    source: str = ""
    """What errors begin with: the file that is read."""
    failed: bool = False
    done: bool = False
    waiting: str = ""
    """Lines of a statement whose end is still to come."""
    _lines: int = 0
    """Lines of the script before those."""
    _depth: int = 0
    _watched: dict[str, Subscription] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        return "    ...> " if self.waiting else "viewlet> "

    def take(self, line: str) -> None:
        """One more line; what it completes is carried out."""
        word = line.strip()
        if not self.waiting and (not word or word.startswith("--")):
            self._lines += 1
        elif not self.waiting and (word.startswith(".") or word.rstrip(";").lower() in ("exit", "quit")):
            self._lines += 1
            self._guarded(lambda: self._command(word if word.startswith(".") else ".quit"))
        else:
            self.waiting += line + "\n"
            if ";" in line and is_complete(self.waiting):
                self.finish()

    def finish(self) -> None:
        """Carries out the lines that wait."""
        text, before = self.waiting, self._lines
        self.forget()
        self._guarded(lambda: self._run_all(text, before))

    def forget(self) -> None:
        """The lines that wait are given up."""
        self._lines += self.waiting.count("\n")
        self.waiting = ""

    def take_all(self, lines: Iterable[str]) -> None:
        """All lines of a script; the last statement needs no semicolon."""
        self._lines = 0
        for line in lines:
            if self.done:
                return
            self.take(line.rstrip("\n"))
        if self.waiting and not self.done:
            self.finish()

    def say(self, text: str, style: str = "dim") -> None:
        """Something that is no result."""
        from rich.console import Console

        sys.stdout.flush()
        Console(stderr=True, highlight=False, emoji=False).print(text, style=style, markup=False, soft_wrap=True)

    # -- statements -------------------------------------------------------------------------------------------------

    def _run_all(self, text: str, lines_before: int) -> None:
        for statement in split(text, lines_before if self.script else 0):
            if not self._guarded(lambda each=statement: self._run(each)) and not self.keep_going:  # type: ignore[misc]
                return

    def _run(self, statement: Statement) -> None:
        started = time.perf_counter()
        with statement.placing_errors():
            answer = self.db.execute(statement.text)
        seconds = time.perf_counter() - started
        if hasattr(answer, "schema"):
            print_rows(answer, self.format, self.most_rows)
        elif answer is not None and not self.script:
            self.say(f"{answer:,} row{'' if answer == 1 else 's'}")
        if self.timer:
            self.say(f"{seconds * 1000:,.1f} ms")

    def _guarded(self, step: Callable[[], None]) -> bool:
        """An error is shown, and ends a script; False if there was one."""
        try:
            step()
        except ViewletError as error:
            self.say(f"error: {self.source}{error}", "red")
            self._fail()
            return False
        return True

    def _fail(self) -> None:
        self.failed = True
        self.done = self.done or (self.script and not self.keep_going)

    # -- commands ---------------------------------------------------------------------------------------------------

    def _command(self, line: str) -> None:
        word, _, rest = line.removesuffix(";").partition(" ")
        if word not in COMMANDS:
            raise DataError(f"there is no command {word}{did_you_mean(word, COMMANDS)}: .help lists them")
        COMMANDS[word].run(self, rest.strip())

    def help(self, _: str) -> None:
        width = max(len(f"{name} {each.takes}") for name, each in COMMANDS.items())
        for name, each in COMMANDS.items():
            print(f"{f'{name} {each.takes}':{width}}  {each.does}")
        print("Everything else is SQL; a statement ends with a semicolon. Ctrl-C cancels, Ctrl-D leaves.")

    def show(self, what: str) -> None:
        print_rows(self.db.execute(f"SHOW {what}"), self.format, None)

    def explain(self, words: str) -> None:
        name, _, stage = words.partition(" ")
        print(visible(self.db.explain(_needed(name, ".explain", "a view"), stage.strip() or None)))

    def read(self, name: str) -> None:
        """Carries out a script, which is one also where a person asks for it."""
        text = read_text(Path(_needed(name, ".read", "a file")).expanduser())
        if self._depth >= DEEPEST:
            raise DataError(f".read {name}: more than {DEEPEST} scripts read each other")
        within = replace(self, script=True, source=f"{name}: ", failed=False, _lines=0, _depth=self._depth + 1)
        within.take_all(text.splitlines())
        self.format, self.timer, self.most_rows = within.format, within.timer, within.most_rows
        if within.failed:
            self._fail()

    def set_mode(self, name: str) -> None:
        names = [each.value for each in Format]
        if name not in names:
            raise DataError(f".mode takes {', '.join(names)}: it is {self.format.value} now")
        self.format = Format(name)

    def set_timer(self, word: str) -> None:
        if word not in ("on", "off"):
            raise DataError(f".timer takes on or off: it is {'on' if self.timer else 'off'} now")
        self.timer = word == "on"

    def set_rows(self, word: str) -> None:
        if word != "all" and not (word.isdecimal() and int(word) > 0):
            raise DataError(f".rows takes a number, or all: it is {self.most_rows or 'all'} now")
        self.most_rows = None if word == "all" else int(word)

    def watch(self, name: str) -> None:
        """Prints the changes of a view after every statement that changes it; named again, no longer."""
        view = self.db.view(_needed(name, ".watch", "a view"))
        if view.name in self._watched:
            self._watched.pop(view.name).cancel()
            return self.say(f"{view.name} is no longer watched")

        def changed(epoch: int, changes: Any) -> None:
            self.say(f"{one_line(view.name)} in epoch {epoch}:")
            print_rows(changes, self.format, self.most_rows)

        self._watched[view.name] = view.subscribe(changed)
        return self.say(f"changes of {view.name} are shown as they come; .watch {view.name} ends that")

    def quit(self, _: str) -> None:
        self.done = True


def _needed(word: str, command: str, what: str) -> str:
    if not word:
        raise DataError(f"{command} needs {what}")
    return word


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the shell: its argument and what it does, for `.help`."""

    takes: str
    does: str
    run: Callable[[Shell, str], None]


COMMANDS = {
    ".help": Command("", "this list", Shell.help),
    ".tables": Command("", "tables, streams and views with their rows", lambda shell, _: shell.show("TABLES")),
    ".views": Command("", "views with what maintains them", lambda shell, _: shell.show("VIEWS")),
    ".explain": Command("VIEW [STAGE]", "how a view is maintained", Shell.explain),
    ".watch": Command("VIEW", "show what statements change in a view; again to end", Shell.watch),
    ".read": Command("FILE", "carry out a script", Shell.read),
    ".mode": Command("table|csv|json", "how rows are printed", Shell.set_mode),
    ".rows": Command("NUMBER|all", "the most rows of a table to draw", Shell.set_rows),
    ".timer": Command("on|off", "show how long statements take", Shell.set_timer),
    ".quit": Command("", "leave; so do exit and Ctrl-D", Shell.quit),
}

"""A shell at a terminal: editing of lines, history and completion, all three of Python's `readline`.

A statement of several lines is one entry of the history. It is kept in a file that nobody else can read; entries that
begin with a blank are not. Where Python has no `readline`, lines are read without it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from viewlet.shell.completion import BREAKS, completions
from viewlet.shell.session import Shell

MOST_ENTRIES = 2_000
"""Entries of the history that are offered; a file of more than twice as many is cut to these."""


def converse(shell: Shell) -> None:
    """Takes lines until the person leaves; Ctrl-C cancels a line or a statement."""
    library = _readline()
    history = History(history_file(), library)
    if library is not None:
        _complete_with(library, shell)
    while not shell.done:
        try:
            line = input(shell.prompt)
            history.note(line)
            shell.take(line)
            if not shell.waiting:
                history.end_entry()
        except EOFError:
            print()
            return
        except KeyboardInterrupt as error:
            shell.forget()
            history.forget()
            print()
            for note in getattr(error, "__notes__", ()):
                shell.say(note)


def _readline() -> ModuleType | None:
    try:
        import readline
    except ImportError:
        return None
    return readline


# -- history ----------------------------------------------------------------------------------------------------------


def history_file() -> Path:
    """In the folder for what programs remember (XDG_STATE_HOME)."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return folder / "viewlet" / "history"


class History:
    """Entries of one line each: for `readline` if there is one, and in a file if that can be written."""

    def __init__(self, path: Path, library: ModuleType | None) -> None:
        self._path = path
        self._library = library
        self._typed: list[str] = []
        if library is not None:
            library.set_auto_history(False)
            library.clear_history()
            for entry in self._read():
                library.add_history(entry)

    def note(self, line: str) -> None:
        """A line of an entry whose end is still to come."""
        if line.strip():
            self._typed.append(line)

    def forget(self) -> None:
        self._typed = []

    def end_entry(self) -> None:
        """What was noted is an entry."""
        for entry in as_entries(self._typed):
            if self._library is not None:
                self._library.add_history(entry)
            if not entry[0].isspace():
                self._append(entry)
        self.forget()

    def _read(self) -> list[str]:
        try:
            entries = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        if len(entries) > 2 * MOST_ENTRIES:
            self._replace(entries[-MOST_ENTRIES:])
        return entries[-MOST_ENTRIES:]

    def _append(self, entry: str) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(self._path, os.O_APPEND, entry + "\n")
        except OSError:
            pass  # a folder that cannot be written keeps no history

    def _replace(self, entries: list[str]) -> None:
        new = self._path.with_name(f"history.{os.getpid()}")
        try:
            _write(new, os.O_TRUNC, "\n".join(entries) + "\n")
            new.replace(self._path)
        except OSError:
            pass


def _write(path: Path, mode: int, text: str) -> None:
    """Writes to a file that is the user's alone, also if it was not so far."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | mode, 0o600)
    try:
        if os.name == "posix":
            os.fchmod(handle, 0o600)
        os.write(handle, text.encode(errors="replace"))
    finally:
        os.close(handle)


def as_entries(lines: list[str]) -> list[str]:
    """Lines of a statement as one entry of one line, if they mean the same in one.

    >>> as_entries(["SELECT 1,", "  2;"]), as_entries(["SELECT 1, -- one", "2;"])
    (['SELECT 1, 2;'], ['SELECT 1, -- one', '2;'])
    """
    if len(lines) < 2 or any("--" in line or line.count("'") % 2 or line.count('"') % 2 for line in lines):
        return lines
    return [" ".join([lines[0].rstrip(), *(line.strip() for line in lines[1:])])]


# -- completion -------------------------------------------------------------------------------------------------------


def _complete_with(library: ModuleType, shell: Shell) -> None:
    is_editline = "libedit" in (library.__doc__ or "")
    library.parse_and_bind("bind ^I rl_complete" if is_editline else "tab: complete")
    library.set_completer_delims(BREAKS)
    library.set_completer(_completer(library, shell))


def _completer(library: ModuleType, shell: Shell) -> Callable[[str, int], str | None]:
    offered: list[str] = []

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            before = library.get_line_buffer()[: library.get_begidx()]
            offered[:] = completions(shell.db, shell.waiting + before, word)
        return offered[number] if number < len(offered) else None

    return complete

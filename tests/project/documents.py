"""The documents, their Python snippets, and what the snippets print.

Every ```python block of a document is executed, in order and in one namespace. A ```text block that directly follows
(only blank lines between) is the block's expected output; without one, the block must print nothing.

Run as a program (`python -m tests.project.documents`), this writes what is printed now into the existing text blocks.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


NEEDS = re.compile(r"<!-- needs: (?P<library>\w+) -->")


def needed_library(document: Path) -> str | None:
    """The library that the document's first line says it needs."""
    with document.open(encoding="utf-8") as lines:
        needs = NEEDS.match(lines.readline())
    return needs["library"] if needs else None


def missing_library(document: Path) -> str | None:
    """The library that the document needs, if it is not installed."""
    library = needed_library(document)
    return library if library and importlib.util.find_spec(library) is None else None


@dataclass(frozen=True, slots=True)
class Snippet:
    line: int
    code: str
    answer: re.Match[str] | None

    @property
    def expected(self) -> str:
        return self.answer["body"] if self.answer else ""


def name_of(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


def snippets(text: str) -> list[Snippet]:
    blocks = list(BLOCK.finditer(text))
    return [
        Snippet(text.count("\n", 0, block.start()) + 2, block["body"], _answer(text, block, following))
        for block, following in zip_longest(blocks, blocks[1:])
        if block["language"] == "python"
    ]


def _answer(text: str, block: re.Match[str], following: re.Match[str] | None) -> re.Match[str] | None:
    if following is None or following["language"] != "text":
        return None
    return None if text[block.end() : following.start()].strip() else following


def run(document: Path) -> Iterator[tuple[Snippet, str]]:
    """Each snippet with what it prints; the current directory should be one where files may be left."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for snippet in snippets(document.read_text(encoding="utf-8")):
        # Blank lines in front make a traceback point at the line of the document.
        code = compile("\n" * (snippet.line - 1) + snippet.code, str(document), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        yield snippet, without_trailing_space(printed.getvalue())


def without_trailing_space(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def refresh(document: Path) -> None:
    """Write what the snippets print into the text blocks behind them."""
    text = document.read_text(encoding="utf-8")
    for snippet, printed in reversed(list(run(document))):
        if snippet.answer is not None:
            start, end = snippet.answer.span("body")
            text = text[:start] + printed + "\n" + text[end:]
        elif printed:
            raise SystemExit(f"{name_of(document)}, line {snippet.line}: prints, but no text block follows")
    document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for document in DOCUMENTS:
        if missing_library(document) is None:
            with tempfile.TemporaryDirectory() as scratch:
                os.chdir(scratch)
                refresh(document)
                os.chdir(ROOT)

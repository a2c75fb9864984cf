"""The documents tell the truth: their Python runs, and prints what they say it prints.

Every ```python block of a document is executed, in order and in one namespace. A ```text block that directly follows
(only blank lines between) is the block's expected output; without one, the block must print nothing. Relative links
must lead somewhere.
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)#:]+)(?:#[^)]*)?\)")


@dataclass(frozen=True, slots=True)
class Snippet:
    line: int
    code: str
    expected: str


def snippets(text: str) -> list[Snippet]:
    blocks = list(BLOCK.finditer(text))
    found = []
    for block, following in zip_longest(blocks, blocks[1:]):
        if block["language"] != "python":
            continue
        answered = (
            following is not None
            and following["language"] == "text"
            and not text[block.end() : following.start()].strip()
        )
        expected = following["body"] if following is not None and answered else ""
        found.append(Snippet(text.count("\n", 0, block.start()) + 2, block["body"], expected))
    return found


def without_trailing_space(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_snippets_print_what_the_document_says(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for snippet in snippets(document.read_text(encoding="utf-8")):
        # Blank lines in front make a traceback point at the line of the document.
        code = compile("\n" * (snippet.line - 1) + snippet.code, str(document), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        assert without_trailing_space(printed.getvalue()) == without_trailing_space(snippet.expected), (
            f"{name_of(document)}, line {snippet.line}"
        )


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_relative_links_lead_somewhere(document: Path) -> None:
    text = BLOCK.sub("", document.read_text(encoding="utf-8"))
    missing = [match["target"] for match in LINK.finditer(text) if not (document.parent / match["target"]).exists()]
    assert not missing


def test_the_first_screen_of_the_readme_holds_an_example_with_its_output() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:50])
    assert any(snippet.expected for snippet in snippets(first_screen))

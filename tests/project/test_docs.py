"""The documents tell the truth: their Python prints what they say it prints, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.project.documents import (
    BLOCK,
    DOCUMENTS,
    ROOT,
    missing_library,
    name_of,
    needed_library,
    run,
    snippets,
    without_trailing_space,
)

INLINE_CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\((?P<target>[^)#:]*)(?:#(?P<place>[^)]*))?\)")
HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
VARIABLE = re.compile(r'environ\.get\("(?P<name>VIEWLET_\w+)"')
PASS = re.compile(r"^\| `(?P<name>\w+)` \|.*\| `(?P<path>viewlet/[\w/]+\.py)` \|$", re.MULTILINE)
MODULE = re.compile(r"`(?P<path>(?:src/)?viewlet/[\w/]+(?:\.py|/))`")
FILE = re.compile(r"`(?P<path>[\w/]+\.py)`")
MAPS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/papers.md")
"""Documents that name files, some without their folder."""
PARTS = ("src", "tests", "bench", "workloads", "docs")


@pytest.mark.parametrize("document", [each for each in DOCUMENTS if needed_library(each) != "pyspark"], ids=name_of)
def test_snippets_print_what_the_document_says(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if library := missing_library(document):
        pytest.skip(f"{name_of(document)} needs {library}")
    monkeypatch.chdir(tmp_path)
    compare_with_text(document)


def test_snippets_on_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    documents = [each for each in DOCUMENTS if needed_library(each) == "pyspark"]
    assert documents
    for document in documents:
        compare_with_text(document)


def compare_with_text(document: Path) -> None:
    for snippet, printed in run(document):
        assert printed == without_trailing_space(snippet.expected), f"{name_of(document)}, line {snippet.line}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_relative_links_and_named_modules_exist(document: Path) -> None:
    text = BLOCK.sub("", document.read_text(encoding="utf-8"))
    prose = INLINE_CODE.sub("", text)
    links = [
        (document.parent / match["target"] if match["target"] else document, match) for match in LINK.finditer(prose)
    ]
    targets = [target for target, _ in links]
    targets += [ROOT / "src" / match["path"].removeprefix("src/") for match in MODULE.finditer(text)]
    assert not [str(target) for target in targets if not target.exists()]
    assert not [match[0] for target, match in links if match["place"] and match["place"] not in headings(target)]


@pytest.mark.parametrize("document", MAPS)
def test_named_files_exist(document: str) -> None:
    text = BLOCK.sub("", (ROOT / document).read_text(encoding="utf-8"))
    named = {match["path"] for match in FILE.finditer(text)}
    files = [f"/{file.relative_to(ROOT)}" for part in PARTS for file in (ROOT / part).rglob("*.py")]
    assert len(named) > 20
    assert not sorted(path for path in named if not any(file.endswith(f"/{path}") for file in files))


@pytest.mark.parametrize("folder", ["docs", "docs/benchmarks"])
def test_the_index_of_a_folder_links_every_page(folder: str) -> None:
    index = ROOT / folder / "README.md"
    linked = {match["target"] for match in LINK.finditer(index.read_text(encoding="utf-8"))}
    assert not sorted(page.name for page in index.parent.glob("*.md") if page != index and page.name not in linked)


def headings(document: Path) -> set[str]:
    """The anchors that GitHub makes of the headings of a document."""
    text = BLOCK.sub("", document.read_text(encoding="utf-8"))
    titles = [match["title"].lower() for match in HEADING.finditer(text)]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def test_the_first_screen_of_the_readme_holds_an_example_with_its_output() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:50])
    assert any(snippet.expected for snippet in snippets(first_screen))


def test_contributing_lists_the_variables_that_enlarge_the_tests() -> None:
    sources = [file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py")]
    read = {match["name"] for text in sources for match in VARIABLE.finditer(text)}
    listed = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert read
    assert not [name for name in sorted(read) if f"`{name}" not in listed]


def test_the_passes_are_where_the_table_says() -> None:
    passes = list(PASS.finditer((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    assert len(passes) > 15
    for each in passes:
        source = (ROOT / "src" / each["path"]).read_text(encoding="utf-8")
        assert re.search(rf"^(def|class) {each['name']}\b", source, re.MULTILINE), each[0]

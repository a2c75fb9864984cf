"""The API reference is complete: every public name is explained, and every link of the built pages leads somewhere."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import viewlet
from docs.reference import PAGES, write

FIRST_SENTENCE = re.compile(r"(?P<sentence>.+?[.!?])(?:\s|$)", re.DOTALL)
REFERS_BACK = ("The same", "Like that", "It ", "They ", "These ", "This ")


def public_objects() -> Iterator[tuple[str, object]]:
    """Every public class and function, and every public method and property that a class of ours defines."""
    for page in PAGES:
        for name, value in page.members().items():
            yield f"{page.module}.{name}", value
            if inspect.isclass(value):
                for inner, member in inspect.getmembers(value, _is_documented):
                    owner = next(base for base in value.__mro__ if inner in vars(base))
                    if not inner.startswith("_") and owner.__module__.startswith("viewlet."):
                        yield f"{page.module}.{name}.{inner}", member


def _is_documented(member: object) -> bool:
    return inspect.isroutine(member) or isinstance(member, property)


def complaint(value: object) -> str | None:
    """What is wrong with the first sentence of a docstring, if anything."""
    described = FIRST_SENTENCE.match(inspect.getdoc(value) or "")
    if described is None:
        return "no docstring that begins with a sentence"
    sentence = described["sentence"]
    if len(sentence.split()) < 3:
        return f"{sentence!r} says too little"
    return f"{sentence!r} cannot be understood alone" if sentence.startswith(REFERS_BACK) else None


def test_every_public_name_says_what_it_is() -> None:
    pytest.importorskip("numpy")
    found = {name: complaint(value) for name, value in public_objects()}
    assert len(found) > 100
    assert not {name: problem for name, problem in found.items() if problem}


@pytest.mark.parametrize("text", ["", "rows", "Rows.", "The same for a batch of products."])
def test_a_docstring_that_says_nothing_is_found(text: str) -> None:
    def function() -> None: ...

    function.__doc__ = text
    assert complaint(function)


def test_every_exported_name_has_a_page() -> None:
    assert set(PAGES[0].members()) == {name for name in viewlet.__all__ if not name.startswith("__")}


class Links(HTMLParser):
    """The targets of the links of a page, and the places on it that a link may name."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        known = dict(attributes)
        if tag == "a" and known.get("href"):
            self.targets.append(str(known["href"]))
        self.places |= {str(known[name]) for name in ("id", "name") if known.get(name)}


def test_links_of_the_built_pages_resolve(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("pdoc")
    write(tmp_path)
    pages = {file: Links(file.read_text(encoding="utf-8")) for file in tmp_path.rglob("*.html")}
    assert len(pages) > len(PAGES)
    broken = []
    for file, links in pages.items():
        for target in links.targets:
            url = urlsplit(target)
            if url.scheme:
                continue
            page = pages.get((file.parent / unquote(url.path)).resolve() if url.path else file)
            if page is None or (url.fragment and unquote(url.fragment) not in page.places):
                broken.append(f"{file.relative_to(tmp_path)}: {target}")
    assert not broken

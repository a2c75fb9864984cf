"""The page in a real browser, over a workload that runs; skipped where no Chromium is installed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import viewlet
from tests.ui.browser import Browser, installed

ROWS = 2_000_000
EVIL = "<img src=x onerror=alert(1)>"
pytestmark = pytest.mark.skipif(installed() is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def db() -> Iterator[viewlet.Connection]:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE sales (city VARCHAR NOT NULL, euros BIGINT NOT NULL)")
        db.execute("CREATE MATERIALIZED VIEW total AS SELECT city, SUM(euros) AS euros FROM sales GROUP BY city")
        db.execute(f'CREATE MATERIALIZED VIEW "{EVIL}" AS SELECT city AS "<b>city" FROM total')
        db.execute("CREATE TABLE long (i BIGINT NOT NULL)")
        db.insert("long", pa.table({"i": np.arange(ROWS)}))
        yield db


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(installed() or "", tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module", autouse=True)
def workload(db: viewlet.Connection, browser: Browser) -> Iterator[None]:
    """A batch every few milliseconds, while the page is open."""
    done = threading.Event()

    def work() -> None:
        number = 0
        while not done.wait(0.005):
            number += 1
            db.insert("sales", [(f"City {number % 7}", number), (EVIL, 1)])

    thread = threading.Thread(target=work)
    thread.start()
    page = db.serve_ui()
    browser.open(page.url)
    yield
    done.set()
    thread.join()
    page.close()


def figure(browser: Browser, expression: str) -> int:
    return int(browser.until(expression).replace(",", ""))


@pytest.mark.slow
def test_figures_change_as_batches_come(browser: Browser) -> None:
    browser.until("document.querySelectorAll('.node').length === 4 && document.querySelectorAll('.edge').length === 2")
    before = figure(browser, "document.querySelector('#epoch').textContent")
    browser.until(f"Number(document.querySelector('#epoch').textContent.replaceAll(',', '')) > {before}")
    browser.until("Number(document.querySelector('#batches').textContent) > 0")
    browser.until(
        "[...document.querySelectorAll('svg .label')].some((each) => /ms · [0-9.]+ %/.test(each.textContent))"
    )
    assert browser.problems == []


@pytest.mark.slow
def test_rows_are_followed_and_hostile_names_are_texts(browser: Browser) -> None:
    browser.value(f"location.hash = '#relation/' + encodeURIComponent({EVIL!r})")
    cells = "[...document.querySelectorAll('.grid td')].map((each) => each.textContent)"
    browser.until(f"{cells}.includes({EVIL!r}) && {cells}.includes('City 1')")
    assert browser.value("document.querySelector('.grid th').textContent") == "<b>city"
    assert browser.value("document.title").startswith(EVIL)
    browser.value("location.hash = '#relation/total'")
    first = browser.until("document.querySelector('.grid td.number')?.textContent")
    browser.until(f"(document.querySelector('.grid td.number')?.textContent ?? {first!r}) !== {first!r}")
    assert browser.value("[...document.images].every((image) => image.className === 'picture')")
    assert browser.problems == []


@pytest.mark.slow
def test_millions_of_rows_are_scrolled_through(browser: Browser) -> None:
    browser.value("location.hash = '#relation/long'")
    shown = "document.querySelector('.grid tbody td')?.textContent"
    browser.until(f"{shown} === '0'")
    browser.value("document.querySelector('.target').value = 1654322; document.querySelector('.go').requestSubmit()")
    browser.until(f"{shown} === '1654321'")
    browser.value("document.querySelector('.grid').focus()")
    browser.press("ArrowDown", 40)
    browser.until(f"{shown} === '1654322'")
    browser.wheel(".grid", 260)
    browser.until(f"{shown} === '1654332'")
    browser.press("End", 35)
    last = "[...document.querySelectorAll('.grid tbody td')].map((each) => each.textContent)"
    browser.until(f"{last}.includes('{ROWS - 1}')")
    browser.value("document.querySelector('.grid').scrollTop = document.querySelector('.grid').scrollHeight / 2")
    browser.until(f"Math.abs(Number({shown}) / {ROWS} - 0.5) < 0.01")
    browser.press("Home", 36)
    browser.until(f"{shown} === '0'")
    assert browser.value("document.querySelectorAll('.grid tbody tr').length") < 40
    assert browser.problems == []


@pytest.mark.slow
def test_a_query_is_answered_and_an_error_is_said(browser: Browser) -> None:
    browser.value("location.hash = '#query'")
    browser.until("document.querySelector('#sql') !== null")
    ask = "document.querySelector('#sql').value = '{}'; document.querySelector('form').requestSubmit()"
    browser.value(ask.format("SELECT 6 * 7 AS answer, NULL AS nothing"))
    browser.until("document.querySelector('.grid tbody')?.innerText.includes('42')")
    assert browser.value("document.querySelector('td.null').textContent") == "NULL"
    assert browser.problems == []
    browser.value(ask.format("SELECT wrong FROM sales"))
    assert "^^^^^" in browser.until("document.querySelector('[role=alert]').textContent")


@pytest.mark.slow
def test_everything_is_reached_by_keyboard_and_has_a_name(browser: Browser, tmp_path: Path) -> None:
    for page in ("#graph", "#relation/total", "#query", "#messages"):
        browser.value(f"location.hash = {page!r}")
        browser.until("document.querySelector('main h2') !== null")
        tree = browser.ask("Accessibility.getFullAXTree")["nodes"]
        roles = {each["role"]["value"] for each in tree if not each.get("ignored")}
        assert {"banner", "navigation", "main", "heading"} <= roles, page
        for each in tree:
            properties = {known["name"]: known["value"].get("value") for known in each.get("properties", ())}
            if properties.get("focusable") and not each.get("ignored") and each["role"]["value"] != "RootWebArea":
                assert each.get("name", {}).get("value") or each["role"]["value"] in ("main", "generic"), (page, each)

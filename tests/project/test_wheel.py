"""A user's first minutes: the wheel in an empty environment runs the README, the demonstration and every command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = ("pyspark", "scipy", "pandas", "polars", "fsspec")
ENTRY_POINTS = """
import importlib, json, pkgutil, viewlet
answers = {}
for name in ("viewlet.linalg", "viewlet.signals", "viewlet.ml", "viewlet.sketches", "viewlet.spark.matrices"):
    try:
        importlib.import_module(name)
    except Exception as error:
        answers[name] = type(error).__name__
for text in ("spark_session()", "register_format(None)", "connect(spark='local[1]')", "connect(engine='compiled')"):
    try:
        eval("viewlet." + text)
    except Exception as error:
        answers[text] = type(error).__name__
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has the wheel of this tree and what it depends on."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    copy = folder / "tree"
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in (name for name in files if name.startswith(("src/", "pyproject", "README", "LICENSE"))):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(copy)], check=True)
    (wheel,) = folder.glob("viewlet-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "empty")], check=True)
    found = folder / "empty" / "bin" / "python"
    subprocess.run([*pip, "--python", str(found), "install", str(wheel)], check=True)
    return found


def run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program as a user would, away from the source tree."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        [str(python), *arguments], cwd=python.parent, env=environment, capture_output=True, text=True, check=False
    )


def viewlet(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(python, str(python.with_name("viewlet")), *arguments)


@pytest.mark.slow
def test_the_environment_has_no_extra(python: Path) -> None:
    done = run(python, "-c", f"import importlib.util as u; print([n for n in {EXTRAS} if u.find_spec(n)])")
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.slow
def test_the_first_screen_of_the_readme(python: Path) -> None:
    code, expected = re.findall(r"```(?:python|text)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[:2]
    done = run(python, "-c", code)
    assert done.stdout == expected, done.stderr


@pytest.mark.slow
def test_the_demonstration_runs_in_process(python: Path) -> None:
    done = viewlet(python, "demo", "--scale", "0.001")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every view equals its recomputation." in done.stdout
    assert "through the compiled engine" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", [[], ["run"], ["explain"], ["demo"], ["ui"]])
def test_every_command_has_help(python: Path, command: list[str]) -> None:
    done = viewlet(python, *command, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage: viewlet" in done.stdout


@pytest.mark.slow
def test_the_page_of_a_database_has_its_files(python: Path) -> None:
    program = """
import viewlet
from urllib.request import urlopen
with viewlet.connect() as db, db.serve_ui() as page:
    print(*[urlopen(page.url + name).status for name in ("", "page.css", "main.js", "icon.svg")])
"""
    done = run(python, "-c", program)
    assert done.stdout == "200 200 200 200\n", done.stderr


@pytest.mark.slow
def test_spark_names_its_extra(python: Path) -> None:
    done = viewlet(python, "demo", "--engine", "spark")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "pip install 'viewlet[spark]'" in done.stderr.replace("\n", " ")


@pytest.mark.slow
def test_no_entry_point_raises_a_bare_error(python: Path) -> None:
    done = run(python, "-c", ENTRY_POINTS)
    answers = json.loads(done.stdout)
    assert set(answers.values()) == {"MissingExtraError"}, done.stderr
    assert not answers.keys() & {"viewlet.sketches", "connect(engine='compiled')"}

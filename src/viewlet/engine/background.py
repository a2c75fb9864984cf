"""Compiling views in the background, while the interpreter continues with their batches.

Numba holds the interpreter lock while it compiles, so a second process compiles and leaves the result in the disk cache
(`compile_ahead.py`). A thread waits for that process, then builds the engine from the cache. The connection
takes the engine between two batches.

A database compiles one view at a time. The second process runs at low priority in a process group of its own: Ctrl-C
does not reach it, and `close`, or the end of this process, ends it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from viewlet.forks import Owner

T = TypeVar("T")
_PATIENCE = 10.0
"""Seconds that `close` waits for a thread, which at that time plans a program or loads code from the cache."""


class Task(Generic[T]):
    """One compilation: text for a second process, or None to do without it, and what this process builds then."""

    def __init__(self, ahead: str | None, build: Callable[[], T]) -> None:
        self._ahead = ahead
        self._build = build
        self._process: subprocess.Popen[bytes] | None = None
        self._finished = threading.Event()
        self._cancelled = False
        self._result: T | None = None
        self._error: Exception | None = None

    @property
    def is_done(self) -> bool:
        return self._finished.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end; False if it has not come."""
        return self._finished.wait(timeout)

    def result(self) -> T:
        """What was built; raises what went wrong."""
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise RuntimeError("the compilation was cancelled")
        return self._result

    def cancel(self) -> None:
        """Gives the task up; the second process is ended."""
        self._cancelled = True
        process = self._process
        if process is not None:
            _end(process)

    def run(self) -> None:
        """Does the work, in the thread of a `BackgroundCompiler`."""
        try:
            if self._ahead is not None and not self._cancelled:
                self._compile_ahead(self._ahead)
            if not self._cancelled:
                self._result = self._build()
        except Exception as error:
            self._error = error
        finally:
            self._finished.set()

    def _compile_ahead(self, text: str) -> None:
        """Whatever becomes of the other process, what it did not compile is compiled here."""
        with contextlib.suppress(OSError):
            self._process = _start()
            if self._cancelled:
                _end(self._process)
            self._process.communicate(text.encode())


class BackgroundCompiler:
    """Runs the tasks of one database, one after another, in a thread that ends when there are none."""

    def __init__(self) -> None:
        _COMPILERS.add(self)
        self._lock = threading.Lock()
        self._waiting: deque[Task[object]] = deque()
        self._current: Task[object] | None = None
        self._thread: threading.Thread | None = None
        self._owner = Owner()

    def submit(self, task: Task[T]) -> Task[T]:
        with self._lock:
            self._waiting.append(task)  # type: ignore[arg-type]
            if self._thread is None:
                try:
                    thread = threading.Thread(target=self._work, name="viewlet-compile", daemon=True)
                    thread.start()  # it waits for the lock
                except BaseException:
                    self._waiting.clear()  # nobody would do it
                    raise
                self._thread = thread
        return task

    def close(self) -> None:
        """Cancels what is under way and what waits; a fork leaves that to its parent."""
        if not self._owner.is_here:
            return
        with self._lock:
            tasks = [*self._waiting, *([self._current] if self._current is not None else [])]
            thread = self._thread
        for task in tasks:
            task.cancel()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_PATIENCE)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._current = self._thread = None
                    return
                self._current = self._waiting.popleft()
            self._current.run()


def _start() -> subprocess.Popen[bytes]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "viewlet.engine.compile_ahead"],
        env=os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process with those it has started."""
    if process.poll() is not None:
        return
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


_COMPILERS: weakref.WeakSet[BackgroundCompiler] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for compiler in list(_COMPILERS):
        compiler.close()

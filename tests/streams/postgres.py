"""A private PostgreSQL cluster for tests, run by an unprivileged user."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path


def binaries() -> str | None:
    """The newest installation, if there is one."""
    found = sorted(glob("/usr/lib/postgresql/*/bin/initdb")) or [each for each in [shutil.which("initdb")] if each]
    return os.path.dirname(found[-1]) if found else None


def obstacle() -> str | None:
    """Why there is no cluster here."""
    if binaries() is None:
        return "PostgreSQL's server is not installed: make postgres"
    if os.getuid() == 0 and _user() is None:
        return "PostgreSQL does not run as root, and there is no user postgres or nobody"
    return None


def _user() -> str | None:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in names), None)


@contextmanager
def cluster() -> Iterator[str]:
    """A server on a socket of its own; yields what `psql` connects with."""
    folder = tempfile.mkdtemp(prefix="viewlet-pg-", dir="/tmp")  # the user has to reach it: TMPDIR may be private
    user = _user() if os.getuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    data = f"{folder}/data"

    def run(*command: str) -> None:
        as_user = (
            ["setpriv", f"--reuid={user}", "--regid=" + str(pwd.getpwnam(user).pw_gid), "--clear-groups"]
            if user
            else []
        )
        done = subprocess.run([*as_user, *command], cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr + done.stdout

    bin_folder = binaries()
    assert bin_folder is not None
    try:
        run(f"{bin_folder}/initdb", "-D", data, "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        options = f"-k {folder} -h '' -c fsync=off -c jit=off"
        run(f"{bin_folder}/pg_ctl", "-D", data, "-w", "-l", f"{folder}/log", "-o", options, "start")
        try:
            yield f"host={folder} user=tester dbname=postgres"
        finally:
            run(f"{bin_folder}/pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(Path(folder), ignore_errors=True)

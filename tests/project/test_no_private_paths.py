"""No file of the project mentions a directory that exists only on somebody's machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USUAL_PLACES = r"(?<![\w./-])/(?:home|Users|root|work|mnt|workspace)/\w+|[A-Z]:\\Users\\"


def forbidden() -> re.Pattern[str]:
    """Home directories in general, and this checkout's own place and this user's home in particular."""
    here = [str(path) for path in (ROOT, Path.home()) if len(path.parts) > 2]
    return re.compile("|".join([USUAL_PLACES, *map(re.escape, here)]))


def project_files() -> list[Path]:
    """The files git knows; in an unpacked archive there is no git, and nothing to check."""
    listing = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_mentions_a_private_path() -> None:
    pattern = forbidden()
    mentions = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in project_files()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not mentions, "\n".join(mentions)

"""Copies of a state that lives in a process, in files of its machine, from which another process continues.

    HOME / digest of the code / partition / version.saved     checksum | compressed: length of the head | head | views

The head is JSON. A copy is written whole, under the name of its version, or not at all. It is a cache like the mapped
files of other states: the durable copy is in snapshots and logs. The bytes hold rows and numbers; reading them never
runs code.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path

from viewlet.runtime.durable.compression import packed, unpacked

KEPT = 3
"""Versions that stay when another one is written: some may turn out not to have been committed."""
_SUFFIX, _DRAFT = ".saved", ".draft"
_LENGTH, _CHECKSUM = 8, 4


class SavedVersions:
    """The copies of one unit in one partition, in a folder that need not exist."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def versions(self) -> set[str]:
        """The versions that there are copies of."""
        try:
            return {name.removesuffix(_SUFFIX) for name in os.listdir(self._folder) if name.endswith(_SUFFIX)}
        except FileNotFoundError:
            return set()

    def read(self, version: str) -> dict[str, bytes] | None:
        """The contents of all views in a version; None if the file is gone or damaged."""
        try:
            held = self._path(version).read_bytes()
        except OSError:
            return None
        if zlib.crc32(held[_CHECKSUM:]).to_bytes(_CHECKSUM, "little") != held[:_CHECKSUM]:
            return None
        data = unpacked(held[_CHECKSUM:])
        at = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
        head = json.loads(data[_LENGTH:at])
        if head["version"] != version:
            return None
        found: dict[str, bytes] = {}
        for name, size in head["views"].items():
            found[name] = data[at : at + size]
            at += size
        return found

    def save(self, version: str, contents: Mapping[str, bytes]) -> None:
        """Writes a version; a disk that is full costs the time that it would have saved, and nothing else."""
        views = {name: len(blob) for name, blob in contents.items()}
        head = json.dumps({"version": version, "views": views}).encode()
        data = packed(b"".join((len(head).to_bytes(_LENGTH, "little"), head, *contents.values())))
        draft = self._folder / f"{uuid.uuid4().hex}{_DRAFT}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with open(draft, "xb") as file:
                file.write(zlib.crc32(data).to_bytes(_CHECKSUM, "little") + data)
            os.replace(draft, self._path(version))
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            return
        self._remove_old(version)

    def _remove_old(self, newest: str) -> None:
        others = self.versions() - {newest}
        for version in sorted(others, key=self._age)[KEPT - 1 :]:
            with contextlib.suppress(OSError):
                self._path(version).unlink()

    def _age(self, version: str) -> float:
        try:
            return -self._path(version).stat().st_mtime
        except OSError:
            return 0.0

    def _path(self, version: str) -> Path:
        return self._folder / f"{version}{_SUFFIX}"


def newest(known: Collection[str], history: list[str]) -> str | None:
    """The last version of a history that is among those known.

    >>> newest({"b", "a", "x"}, ["a", "b", "c"])
    'b'
    """
    return next((version for version in reversed(history) if version in known), None)

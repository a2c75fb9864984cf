"""The last committed state of a directory, for readers: nothing is locked, written or removed."""

from __future__ import annotations

from viewlet.errors import StateError
from viewlet.runtime.durable.files import files_at, is_url, local_path
from viewlet.runtime.durable.manifest import Manifest, numbers, read_manifest
from viewlet.runtime.durable.store import StateStore

ATTEMPTS = 5
"""How often the newest manifest is looked for: a commit removes the one before."""


class ReadOnlyStore(StateStore):
    """A state that another process may be writing. Its files may go at any time; who misses one opens it again."""

    is_read_only = True

    def _newest(self) -> Manifest:
        for attempt in range(1, ATTEMPTS + 1):
            found = numbers(self._files)
            if not found:
                break
            try:
                return read_manifest(self._files, found[-1])
            except StateError:
                if attempt == ATTEMPTS:
                    raise
        raise StateError(f"{self._files.path('')} is no state of Viewlet: it has no manifest; check the path")

    def remove_left_over(self) -> None:
        """The owner of the directory removes it."""

    def _check(self) -> None:
        raise StateError(f"{self._files.path('')} was opened for reading")


def open_for_reading(location: str) -> ReadOnlyStore:
    """The state at a path or URL, as it is after the last commit."""
    try:
        return ReadOnlyStore(files_at(location if is_url(location) else str(local_path(location).resolve())))
    except OSError as error:
        raise StateError(f"cannot read {location}: {error.strerror or error}; check the path") from error

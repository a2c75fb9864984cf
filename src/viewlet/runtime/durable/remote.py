"""The files of a state at a URL that `fsspec` supports: object stores, HDFS, and others.

Two things differ from a local directory. A file exists once it is closed and cannot be appended to afterwards, so a log
is one file per commit. A file gets its final name in one step if the store supports that (object stores), and by
renaming a draft otherwise.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
from collections.abc import Iterator
from typing import Any

from viewlet.errors import MissingExtraError, StateError
from viewlet.runtime.durable.files import Data, Output

_WHOLE_PUTS = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "memory"})
"""Protocols whose files appear as a whole or not at all."""
DRAFT = ".draft"


def file_system(url: str) -> tuple[Any, str]:
    """What fsspec has for a URL, and the path inside it."""
    if importlib.util.find_spec("fsspec") is None:
        raise MissingExtraError(f"{url} needs fsspec: pip install 'viewlet[fsspec]'")
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(url)
    except ImportError as error:  # the message of fsspec names the package
        raise MissingExtraError(f"{url} cannot be reached: {error}") from error
    except Exception as error:
        raise StateError(f"{url} cannot be reached: {error}") from error
    return system, path.rstrip("/")


class RemoteFiles:
    """A folder of a file system of fsspec; see `Files`."""

    appends = False

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._system, self._root = file_system(url)
        self._whole_puts = self.url.split("://")[0].split("::")[0] in _WHOLE_PUTS

    def path(self, name: str) -> str:
        return f"{self.url}/{name}" if name else self.url

    def list(self, folder: str = "") -> list[str]:
        inside = self._inside(folder)
        try:
            with _as_os_error():
                self._system.invalidate_cache(inside)
                found = self._system.ls(inside, detail=False)
        except FileNotFoundError:
            return []
        return sorted({name.rstrip("/").rsplit("/", 1)[-1] for name in found})

    def read(self, name: str) -> bytes:
        with _as_os_error():
            data = self._system.cat_file(self._inside(name))
        return bytes(data)

    def read_part(self, name: str, start: int, size: int) -> bytes:
        with _as_os_error():
            data = self._system.cat_file(self._inside(name), start=start, end=start + size)
        return bytes(data)

    def create(self, name: str) -> Output:
        with _as_os_error():
            self._make_parent(name)
            return _RemoteOutput(self._system.open(self._inside(name), "wb"))

    def put(self, name: str, data: Data, new: bool = False) -> None:
        """Writes a file as a whole; a `new` one must not be there yet, as far as the store can tell."""
        target = self._inside(name)
        with _as_os_error():
            if self._whole_puts:
                self._system.pipe_file(target, bytes(data), mode="create" if new else "overwrite")
                return
            if new and self._system.exists(target):
                raise FileExistsError(errno.EEXIST, "it is there already", target)
            self._make_parent(name)
            self._system.pipe_file(target + DRAFT, bytes(data))
            self._system.mv(target + DRAFT, target)

    def rename(self, old: str, new: str) -> None:
        with _as_os_error():
            self._system.mv(self._inside(old), self._inside(new))

    def remove(self, name: str) -> None:
        with _as_os_error():
            self._system.rm(self._inside(name), recursive=True)

    def make_folder(self, name: str) -> None:
        """Object stores have no folders, and some would make a bucket."""
        if not self._whole_puts:
            with _as_os_error():
                self._system.makedirs(self._inside(name), exist_ok=True)

    def sync_folder(self, name: str = "") -> None:
        """Does nothing: names are durable as soon as they exist."""

    def _inside(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _make_parent(self, name: str) -> None:
        self.make_folder(name.rpartition("/")[0])


class _RemoteOutput:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: Data) -> object:
        with _as_os_error():
            return self._file.write(data)

    def sync(self) -> None:
        """A file is safe when it is complete: nothing can be written after this."""
        self.close()

    def close(self) -> None:
        with _as_os_error():
            self._file.close()


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    """Libraries have errors of their own; those above know those of the operating system."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, str(error) or "not found") from error
    except FileExistsError as error:
        raise FileExistsError(errno.EEXIST, str(error) or "it is there already") from error
    except Exception as error:
        if isinstance(error, OSError) and error.strerror:
            raise
        raise OSError(errno.EIO, f"{type(error).__name__}: {error}") from error

"""The file operations that durability depends on, in one place, so that tests can interrupt each of them.

Names are relative to one directory and use slashes. The directory is local, or a URL that fsspec supports. In a local
directory nothing is read or written through a symbolic link, which may lead to a file of someone else.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from viewlet.errors import StateError

Data = bytes | memoryview


URL = re.compile(r"[a-zA-Z][\w+.-]+(::[\w+.-]+)*://")
LOCAL_SCHEMES = ("file", "local")
TEMPORARY = "manifest.tmp"
_IS_A_LINK = "it is a symbolic link"


class Output(Protocol):
    """A new file that is being written."""

    def write(self, data: Data) -> object: ...

    def sync(self) -> None:
        """Returns when everything written so far would survive a power failure."""

    def close(self) -> None: ...


class Files(Protocol):
    """A directory that other processes may read, and that only this process writes."""

    @property
    def appends(self) -> bool:
        """More can be written to a file after it has been synced."""

    def path(self, name: str) -> str:
        """The full name, for messages."""

    def list(self, folder: str = "") -> list[str]:
        """The names of the files and folders directly in the directory, or in a folder of it, which need not exist."""

    def read(self, name: str) -> bytes: ...

    def read_part(self, name: str, start: int, size: int) -> bytes:
        """Some bytes of a file; fewer where it ends before."""

    def create(self, name: str) -> Output:
        """Opens a file for writing; its old contents are discarded."""

    def put(self, name: str, data: Data, new: bool = False) -> None:
        """Writes a small file that is seen as a whole or not at all; a `new` one must not be there yet."""

    def rename(self, old: str, new: str) -> None:
        """Renames a file atomically; readers never see a part of it under the new name."""

    def remove(self, name: str) -> None:
        """Removes a file, or a folder with all that is in it."""

    def make_folder(self, name: str) -> None: ...

    def sync_folder(self, name: str = "") -> None:
        """Returns when the names in a folder would survive a power failure."""


class LocalFiles:
    """A directory of the local file system; without `sync` a power failure may lose the last commits."""

    appends = True

    def __init__(self, root: Path, sync: bool = True) -> None:
        self.root = root
        self.sync = sync

    def path(self, name: str) -> str:
        return str(self.root / name)

    def list(self, folder: str = "") -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self._inside(f"{folder}/" if folder else "")))
        except FileNotFoundError:
            if folder:
                return []
            raise

    def read(self, name: str) -> bytes:
        with open(open_regular(self._inside(name), os.O_RDONLY), "rb") as file:
            return file.read()

    def read_part(self, name: str, start: int, size: int) -> bytes:
        with open(open_regular(self._inside(name), os.O_RDONLY), "rb") as file:
            file.seek(start)
            return file.read(size)

    def create(self, name: str) -> Output:
        return _LocalOutput(self._inside(name), self.sync)

    def put(self, name: str, data: Data, new: bool = False) -> None:
        if new and (self.root / name).exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path(name))
        folder = name.rpartition("/")[0]
        if folder:
            self.make_folder(folder)
        draft = f"{folder}/{TEMPORARY}" if folder else TEMPORARY
        output = self.create(draft)
        try:
            output.write(data)
            output.sync()
        finally:
            output.close()
        self.rename(draft, name)
        self.sync_folder(folder)

    def rename(self, old: str, new: str) -> None:
        os.replace(self.root / old, self.root / new)

    def remove(self, name: str) -> None:
        path = self._inside(name)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    def make_folder(self, name: str) -> None:
        self._inside(f"{name}/").mkdir(parents=True, exist_ok=True)

    def _inside(self, name: str) -> Path:
        """The path of a file, none of whose folders in the directory is a link."""
        path, folder = self.root / name, self.root
        for part in name.split("/")[:-1]:
            folder /= part
            if folder.is_symlink():
                raise OSError(errno.ELOOP, _IS_A_LINK, str(folder))
        return path

    def sync_folder(self, name: str = "") -> None:
        if not self.sync:
            return
        folder = os.open(self.root / name, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def open_regular(path: Path | str, flags: int, mode: int = 0o666) -> int:
    """Opens a file of a directory, which is not a link, a pipe or a device: those are someone else's doing."""
    nothing_special = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        file = os.open(path, (flags & ~os.O_TRUNC) | nothing_special, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, _IS_A_LINK, str(path)) from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if flags & os.O_TRUNC:
            os.ftruncate(file, 0)
    except BaseException:
        os.close(file)
        raise
    return file


class _LocalOutput:
    def __init__(self, path: Path, sync: bool) -> None:
        self._file = os.fdopen(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb", buffering=0)
        self._sync = sync

    def write(self, data: Data) -> object:
        left = memoryview(data).cast("B")
        while len(left):  # an unbuffered file may take less than it is given
            left = left[self._file.write(left) :]
        return None

    def sync(self) -> None:
        if self._sync:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def is_url(location: str) -> bool:
    """It names files of another kind of file system.

    >>> is_url("s3://bucket/state"), is_url("file:///tmp/state"), is_url("/tmp/state")
    (True, False, False)
    """
    found = URL.match(location)
    return found is not None and found[0].removesuffix("://").lower() not in LOCAL_SCHEMES


def local_path(location: str | os.PathLike[str]) -> Path:
    """
    >>> local_path("file:///tmp/state")
    PosixPath('/tmp/state')
    """
    text = os.fspath(location)
    if "\0" in text:
        raise StateError(f"{text!r} is not the path of a directory: it has a NUL character")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise StateError(f"{text!r} is not the path of a directory: file names have no such characters") from None
    if URL.match(text):
        parts = urlsplit(text)
        return Path(unquote(parts.netloc + parts.path))
    return Path(text)


def files_at(location: str, sync: bool = True) -> Files:
    """The files at a path or a URL, on whichever machine."""
    if is_url(location):
        from viewlet.runtime.durable.remote import RemoteFiles

        return RemoteFiles(location)
    return LocalFiles(local_path(location), sync)

"""Generated modules as files in the cache folder, so that Numba's cache and debuggers find them.

This is the only place that loads generated code. The folder is private: the module has been compared with the generated
source, and the files of Python and Numba beside it were written by this user.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from types import ModuleType

import viewlet.runtime
from viewlet.errors import InternalError
from viewlet.runtime.private_folders import private_folder, temporary_folder
from viewlet.visible import logger

_REMEDY = "remove it, or set VIEWLET_CACHE to a folder that only you can write to"


def load_source(source: str) -> ModuleType:
    """The generated module, written to its file unless the file exists."""
    try:
        text = source.encode("ascii")
    except UnicodeEncodeError as error:
        raise InternalError(f"generated code is not ASCII: {error}") from error
    name = "viewlet_triggers_" + hashlib.blake2b(text, key=runtime_digest(), digest_size=12).hexdigest()
    if name in sys.modules:
        return sys.modules[name]
    return load_module(write_cached(f"{name}.py", text))


def load_module(path: Path) -> ModuleType:
    """Runs the generated module in a file of the cache, under the name of the file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[path.stem]
        if isinstance(error, SyntaxError | ValueError):
            raise InternalError(f"generated code is not Python: {error}") from error
        raise
    return module


def is_cached(code: ModuleType, function: str) -> bool:
    """Whether the disk cache has a compiled version of a function of a generated module."""
    cache = getattr(getattr(code, function), "_cache", None)
    folder = getattr(cache, "cache_path", None)
    assert code.__file__ is not None
    return folder is not None and any(Path(folder).glob(f"{Path(code.__file__).stem}.{function}-*.nbi"))


def write_cached(name: str, contents: bytes) -> Path:
    """A file of the cache with these contents, written unless it exists."""
    folder = cache_directory()
    try:
        return _written(folder / name, contents)
    except OSError as error:
        return _written(_instead_of(folder, error) / name, contents)


def _written(path: Path, contents: bytes) -> Path:
    if not path.exists() or path.read_bytes() != contents:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.tmp")
        temporary.write_bytes(contents)
        temporary.replace(path)
    return path


@cache
def runtime_digest() -> bytes:
    """A digest of what generated code calls: it is compiled into it, and Numba's cache does not look there."""
    folder = Path(viewlet.runtime.__file__).parent
    return hashlib.blake2b(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).digest()


def cache_directory() -> Path:
    """Where generated code is kept: VIEWLET_CACHE, or viewlet/ in the user's cache folder.

    It has to be private. If it cannot be made, or is read-only, a temporary folder serves this process.
    """
    folder = chosen_directory()
    if folder in _replaced:
        return _replaced[folder]
    try:
        return private_folder(folder, _REMEDY)
    except OSError as error:
        return _instead_of(folder, error)


def chosen_directory() -> Path:
    if chosen := os.environ.get("VIEWLET_CACHE"):
        return Path(chosen)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "viewlet"
    try:
        return Path.home() / ".cache" / "viewlet"
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir()) / f"viewlet-cache-{os.getuid() if hasattr(os, 'getuid') else 0}"


_replaced: dict[Path, Path] = {}
"""Folders that could not be used, and what this process uses instead."""


def _instead_of(folder: Path, error: OSError) -> Path:
    if folder not in _replaced:
        _replaced[folder] = temporary_folder("cache")
        logger.warning(
            "the cache of compiled views cannot be kept in %s (%s): views are compiled again by each process; "
            "set VIEWLET_CACHE to a folder that you can write to",
            folder,
            error.strerror or error,
        )
    return _replaced[folder]

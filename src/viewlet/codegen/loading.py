"""Where generated modules are kept as files, so that Numba's cache and debuggers find them."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import viewlet.runtime
from viewlet.errors import InternalError


def load_source(source: str) -> ModuleType:
    """The generated module, written to its file unless it is there."""
    name = "viewlet_triggers_" + hashlib.blake2b(source.encode(), key=runtime_digest(), digest_size=12).hexdigest()
    if name in sys.modules:
        return sys.modules[name]
    path = cache_directory() / f"{name}.py"
    if not path.exists() or path.read_text() != source:
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(source)
        temporary.replace(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, SyntaxError):
            raise InternalError(f"generated code is not Python: {error}") from error
        raise
    return module


def is_cached(code: ModuleType, function: str) -> bool:
    """Whether the disk cache has a compiled version of a function of a generated module."""
    cache = getattr(getattr(code, function), "_cache", None)
    folder = getattr(cache, "cache_path", None)
    assert code.__file__ is not None
    return folder is not None and any(Path(folder).glob(f"{Path(code.__file__).stem}.{function}-*.nbi"))


@cache
def runtime_digest() -> bytes:
    """A digest of what generated code calls: it is compiled into it, and Numba's cache does not look there."""
    folder = Path(viewlet.runtime.__file__).parent
    return hashlib.blake2b(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).digest()


def cache_directory() -> Path:
    """Where generated code is kept: VIEWLET_CACHE, or viewlet/ in the user's cache folder."""
    chosen = os.environ.get("VIEWLET_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "viewlet"
    base.mkdir(parents=True, exist_ok=True)
    return base

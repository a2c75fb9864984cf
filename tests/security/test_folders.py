"""Folders whose contents are run or believed are private; others are refused, or done without."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import viewlet
from viewlet.codegen import module_cache
from viewlet.runtime.private_folders import private_folder, temporary_folder
from viewlet.spark.run.java import _with_launcher
from viewlet.spark.run.state.partition import _private

posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners here")
pytestmark = posix


def compiled_count(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> list[tuple[object, ...]]:
    """The answer of a view on generated code that is kept in a folder."""
    monkeypatch.setenv("VIEWLET_CACHE", str(folder))
    with viewlet.connect(engine="compiled") as db:
        db.execute("CREATE TABLE t (a BIGINT)")
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT COUNT(*) AS n FROM t")
        db.insert("t", [(1,), (2,)])
        return db.view(name).rows()


def test_folders_are_made_for_the_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = private_folder(tmp_path / "a" / "b", "")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (made, made.parent)] == [0o700, 0o700]


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    open_to_others = tmp_path / "open"
    open_to_others.mkdir()
    open_to_others.chmod(mode)
    with pytest.raises(viewlet.StateError, match=r"open is not private: its mode .* VIEWLET_CACHE"):
        compiled_count(open_to_others, monkeypatch, f"refused_{mode}")
    assert not list(open_to_others.iterdir())
    with pytest.raises(viewlet.StateError, match="VIEWLET_STATE"):
        _private(open_to_others)


def test_a_folder_that_others_can_replace_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(viewlet.StateError, match="everybody can rename what is in"):
        private_folder(shared / "mine", "")
    shared.chmod(0o1777)
    private_folder(shared / "mine", "")


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(viewlet.StateError, match=r"belongs to user .* not to user 12345"):
        private_folder(tmp_path, "")


def test_a_cache_that_cannot_be_written_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with caplog.at_level(logging.WARNING, "viewlet"):
        assert compiled_count(blocked / "cache", monkeypatch, "unwritable_1") == [(2,)]
        assert compiled_count(blocked / "cache", monkeypatch, "unwritable_2") == [(2,)]
    warnings = [record for record in caplog.records if "VIEWLET_CACHE" in record.getMessage()]
    assert len(warnings) == 1
    used = module_cache.cache_directory()
    assert stat.S_IMODE(used.stat().st_mode) == 0o700
    assert list(used.glob("viewlet_triggers_*.py"))


def test_a_full_or_read_only_cache_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, contents: bytes) -> Path:
        if tmp_path in path.parents:
            raise OSError(28, "No space left on device")
        return written(path, contents)

    written = module_cache._written
    monkeypatch.setattr(module_cache, "_written", full)
    assert compiled_count(tmp_path / "cache", monkeypatch, "read_only") == [(2,)]


def test_temporary_folders_are_private_and_go_with_the_process() -> None:
    code = "from viewlet.runtime.private_folders import temporary_folder; print(temporary_folder('test'))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not Path(told.stdout.strip()).exists()
    assert stat.S_IMODE(temporary_folder("test").stat().st_mode) == 0o700


def test_modules_are_kept_byte_by_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path / "cache"))
    source = "# one\n\n\nx = 1\n"
    path = Path(str(module_cache.load_source(source).__file__))
    assert path.read_bytes() == source.encode()
    with pytest.raises(viewlet.InternalError, match="not ASCII"):
        module_cache.load_source("é = 1\n")


def test_a_changed_module_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path / "cache"))
    path = Path(str(module_cache.load_source("x = 2\n").__file__))
    del sys.modules[path.stem]
    path.write_text("x = 666\n")
    assert module_cache.load_source("x = 2\n").x == 2


def test_the_launcher_of_java_runs_nothing_but_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / 'a"; touch "$HOME`touch x`$(touch y)'
    folder.mkdir()
    program = folder / "java"
    program.write_text("#!/bin/sh\necho it is me\n")
    program.chmod(0o755)
    launcher = Path(_with_launcher(str(program))) / "bin" / "java"
    told = subprocess.run([launcher], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert told.stdout == "it is me\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([folder.name, "cache"])

"""What is committed: one small JSON file per commit, made visible by renaming it.

The newest manifest says which snapshot to start from and how many bytes of which logs to replay. A manifest gets its
name only when it is complete, so a commit is atomic.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from viewlet.errors import StateError
from viewlet.runtime.durable.files import Files

FORMAT = 1
"""Grows when older versions could no longer read what this one writes."""

NAME = re.compile(r"manifest-(\d{12})\.json")


@dataclass(frozen=True, slots=True)
class LogExtent:
    """The committed part of a log; earlier versions noted no `checksum` of its records."""

    name: str
    length: int
    checksum: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A commit: its epoch, snapshot and logs; `checkpointed` is the time at which the snapshot was written.

    `batches` are the ids of committed batches by source, as ranges; `offsets` is for sources to use. `parts` are the
    stamps that the parts of streams may have (`viewlet.streams.stamps`); earlier versions noted none.
    """

    number: int = 0
    epoch: int = 0
    snapshot: str | None = None
    snapshot_checksum: int = 0
    checkpointed: str | None = None
    logs: tuple[LogExtent, ...] = ()
    batches: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    offsets: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] | None = ("",)

    @property
    def name(self) -> str:
        return f"manifest-{self.number:012}.json"

    @property
    def mentions(self) -> set[str]:
        """The files that must stay."""
        return {self.name, *(log.name for log in self.logs), *([self.snapshot] if self.snapshot else [])}


def write_manifest(files: Files, manifest: Manifest) -> None:
    """The moment it has its name, it counts."""
    files.put(manifest.name, to_bytes(manifest), new=True)


def numbers(files: Files) -> list[int]:
    """The manifests there are, the oldest first."""
    return sorted(int(match[1]) for name in files.list() if (match := NAME.fullmatch(name)))


def read_manifest(files: Files, number: int) -> Manifest:
    name = Manifest(number).name
    where = files.path(name)
    try:
        outer = json.loads(files.read(name))
        kind, version = outer["viewlet"], outer["format"]
    except OSError as error:
        raise StateError(f"cannot read {where}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(f"{where} is damaged: it is not a manifest") from error
    if kind != "state" or version != FORMAT:
        raise StateError(f"{where} has format {version!r}; this version of Viewlet reads and writes format {FORMAT}")
    try:
        manifest = _of_json(outer["body"], outer["checksum"])
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"{where} is damaged: {error}") from error
    if manifest.number != number:
        raise StateError(f"{where} is damaged: it calls itself number {manifest.number}")
    return manifest


def to_bytes(manifest: Manifest) -> bytes:
    body = {
        "number": manifest.number,
        "epoch": manifest.epoch,
        "snapshot": manifest.snapshot,
        "snapshot_checksum": manifest.snapshot_checksum,
        "checkpointed": manifest.checkpointed,
        "logs": [[log.name, log.length] for log in manifest.logs],
        "log_checksums": [log.checksum for log in manifest.logs],
        "batches": manifest.batches,
        "offsets": manifest.offsets,
        "parts": manifest.parts,
    }
    outer = {"viewlet": "state", "format": FORMAT, "body": body, "checksum": _checksum(body)}
    return json.dumps(outer).encode()


def _of_json(body: dict[str, Any], checksum: int) -> Manifest:
    if _checksum(body) != checksum:
        raise ValueError("its checksum does not fit")
    checksums = body.get("log_checksums") or [None] * len(body["logs"])
    parts = body.get("parts")
    return Manifest(
        body["number"],
        body["epoch"],
        body["snapshot"],
        body["snapshot_checksum"],
        body["checkpointed"],
        tuple(LogExtent(name, end, check) for (name, end), check in zip(body["logs"], checksums, strict=True)),
        {source: tuple((first, last) for first, last in ranges) for source, ranges in body["batches"].items()},
        body["offsets"],
        None if parts is None else tuple(parts),
    )


def _checksum(body: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())

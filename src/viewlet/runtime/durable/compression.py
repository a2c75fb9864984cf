"""Compression of bytes for logs, where writing less is worth the little time it takes."""

from __future__ import annotations

_CODEC = "zstd"
_LENGTH = 8


def packed(data: bytes | memoryview) -> bytes:
    """Compressed, with its length in front."""
    import pyarrow as pa

    found: bytes = pa.Codec(_CODEC, compression_level=1).compress(pa.py_buffer(data), asbytes=True)
    return len(data).to_bytes(_LENGTH, "little") + found


def unpacked(data: bytes | memoryview) -> bytes:
    import pyarrow as pa

    length = int.from_bytes(data[:_LENGTH], "little")
    found: bytes = pa.Codec(_CODEC).decompress(pa.py_buffer(data[_LENGTH:]), length, asbytes=True)
    return found

"""One code per distinct string of a connection, so that strings join as integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viewlet.runtime.arithmetic import NULL


class StringDictionary:
    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self.texts: list[str] = []

    def __len__(self) -> int:
        return len(self.texts)

    def code(self, text: str | None) -> int:
        """The code of a string, given on first sight; NULL has a code of its own."""
        if text is None:
            return NULL
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return code

    def text(self, code: int) -> str | None:
        return None if code == NULL else self.texts[code]

    def encode(self, texts: Sequence[str | None]) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.fromiter((self.code(text) for text in texts), np.int64, len(texts))

    def encode_arrow(self, column: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Codes of an Arrow string column, looking up each distinct value once."""
        import pyarrow.compute as pc

        if hasattr(column, "combine_chunks"):
            column = column.combine_chunks()
        encoded = pc.dictionary_encode(column)
        own = self.encode(encoded.dictionary.to_pylist())
        positions = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        codes = np.append(own, NULL)[positions]
        return np.ascontiguousarray(codes, np.int64)

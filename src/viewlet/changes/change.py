"""The change of one table in one batch, in the form it was given: rows, columns of words, or a union of products.

    change ::= RowChange      a map from rows to multiplicities          {(1, "a"): 2, (3, "b"): -1}
             | ColumnChange   words of columns, and multiplicities       {0: [1, 3], 1: [code of a, code of b]}, [2, -1]
             | ProductChange  products of factors                        `viewlet.changes.product_change`
             | FrameChange    a data frame of Spark                      `viewlet.spark.run.execution.frame_change`

An engine asks for the form that it works on, and the change converts itself, once: `rows()` for the interpreter,
`columns()` for generated code. What depends on more than the change is passed in: the schema of the table, and the
dictionary with the codes of strings. All forms of one change describe the same rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from viewlet.types import Row, Table

if TYPE_CHECKING:
    from viewlet.changes.product_change import Factor
    from viewlet.changes.word_codec import Codes

Changes = dict[Row, int]
_NO_TEXTS: Mapping[int, Any] = MappingProxyType({})


class Change(ABC):
    """What a batch does to one table. Its length counts the entries that it was given as; 0 means nothing to do."""

    __slots__ = ()

    @abstractmethod
    def rows(self) -> Changes:
        """Rows with their multiplicities, none of them zero; not to be modified."""

    @abstractmethod
    def columns(self, table: Table, positions: Collection[int], dictionary: Codes) -> ColumnChange:
        """The words of at least the columns at these positions of the table."""

    @abstractmethod
    def negated(self) -> Change:
        """What takes this change back."""

    @abstractmethod
    def __len__(self) -> int: ...

    def held_columns(self, positions: Collection[int]) -> ColumnChange | None:
        """The columns at these positions, if the change was given as columns and has them all."""
        return None

    def held_rows(self) -> Changes | None:
        """The rows, if the change was given as rows."""
        return None

    @property
    def products(self) -> tuple[tuple[Factor, ...], ...] | None:
        """The products, if the change was given as some."""
        return None


class RowChange(Change):
    """A change given as rows."""

    __slots__ = ("_rows", "_words")

    def __init__(self, rows: Changes) -> None:
        self._rows = rows
        self._words: ColumnChange | None = None
        """What has been converted so far."""

    def rows(self) -> Changes:
        return self._rows

    def held_rows(self) -> Changes:
        return self._rows

    def columns(self, table: Table, positions: Collection[int], dictionary: Codes) -> ColumnChange:
        known = self._words
        if known is None or known.dictionary is not dictionary:
            known = None
        words: Mapping[int, Any] = {} if known is None else known.words
        missing = [position for position in positions if position not in words]
        if known is None or missing:
            from viewlet.changes.word_codec import encode_words

            columns, rows = table.columns, list(self._rows)
            made = {i: encode_words(columns[i].type, [row[i] for row in rows], dictionary) for i in missing}
            multiplicity = _multiplicities(self._rows) if known is None else known.multiplicity
            known = self._words = ColumnChange({**words, **made}, multiplicity, table, dictionary)
        return known

    def negated(self) -> RowChange:
        return RowChange({row: -weight for row, weight in self._rows.items()})

    def __len__(self) -> int:
        return len(self._rows)


class ColumnChange(Change):
    """A change given as columns: NumPy arrays of words, by position in the table, and of multiplicities.

    A word is an int64 (the code of a string, the smallest integer for NULL) or a float64 (NaN for NULL). Columns of
    strings may be there as Arrow arrays in one piece, in `texts`, and get codes when someone asks for their words. Only
    the columns that views read need be there; the others are NULL in `rows()`. Rows may repeat.
    """

    __slots__ = ("__weakref__", "_rows", "dictionary", "is_net", "multiplicity", "table", "texts", "words")

    def __init__(
        self,
        words: Mapping[int, Any],
        multiplicity: Any,
        table: Table,
        dictionary: Codes,
        texts: Mapping[int, Any] = _NO_TEXTS,
    ) -> None:
        self.words = words
        self.texts = texts
        self.multiplicity = multiplicity
        self.table = table
        self.dictionary = dictionary
        self._rows: Changes | None = None
        self.is_net = False
        """Whether it is known that no row occurs twice."""
        dictionary.add_change(self)

    def rows(self) -> Changes:
        if self._rows is None:
            self._rows = self._to_rows()
        return self._rows

    def _to_rows(self) -> Changes:
        from viewlet.changes.word_codec import decode_words

        columns = []
        for i, column in enumerate(self.table.columns):
            if i in self.texts:
                columns.append(self.texts[i].to_pylist())
            elif i in self.words:
                columns.append(decode_words(column.type, self.words[i], self.dictionary))
            else:
                columns.append([None] * len(self))
        rows: Changes = {}
        for row, weight in zip(zip(*columns, strict=True), self.multiplicity.tolist(), strict=True):
            rows[row] = rows.get(row, 0) + weight
        return {row: weight for row, weight in rows.items() if weight}

    def columns(self, table: Table, positions: Collection[int], dictionary: Codes) -> ColumnChange:
        held = self.held_columns(positions) if dictionary is self.dictionary else None
        return held if held is not None else RowChange(self.rows()).columns(table, positions, dictionary)

    def held_columns(self, positions: Collection[int]) -> ColumnChange | None:
        for position in positions:  # a loop: this is a tenth of a small batch
            if position not in self.words:
                if position not in self.texts:
                    return None
                codes = self.dictionary.encode_arrow(self.texts[position])
                self.words = {**self.words, position: codes}
        return self

    def holds(self, positions: Collection[int]) -> bool:
        """Whether it has these columns, as words or as strings."""
        return all(position in self.words or position in self.texts for position in positions)

    def identities(self) -> list[Any]:
        """Its columns as words that are equal where the values are, though they may mean something only here."""
        words = [column for i, column in self.words.items() if i not in self.texts]
        encoded = (text.dictionary_encode().indices.fill_null(-1) for text in self.texts.values())
        return words + [indices.to_numpy().astype("int64") for indices in encoded]

    def at(self, rows: Any, multiplicity: Any) -> ColumnChange:
        """Some of its rows, by their numbers, with other multiplicities."""
        import pyarrow as pa

        words = {i: column[rows] for i, column in self.words.items()}
        texts = {i: column.take(pa.array(rows)) for i, column in self.texts.items()}
        return ColumnChange(words, multiplicity, self.table, self.dictionary, texts)

    def negated(self) -> ColumnChange:
        return ColumnChange(self.words, -self.multiplicity, self.table, self.dictionary, self.texts)

    def __len__(self) -> int:
        return len(self.multiplicity)


def _multiplicities(rows: Changes) -> Any:
    import numpy as np

    return np.fromiter(rows.values(), np.int64, len(rows))

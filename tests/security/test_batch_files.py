"""State and errors between processes are data: what is written is read again, and a pickle among it runs nothing."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import viewlet
from tests.security.hostile import CANARY, NAMES, nothing_called
from viewlet.codegen.node import Contents
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.spark.run.exchange import task_errors
from viewlet.spark.run.units import batch_file


def columns(*lists: list[Any]) -> tuple[Any, ...]:
    return tuple(np.array(numbers) for numbers in lists)


@pytest.mark.parametrize(
    "images", [{}, {"a\0b": [[[1, -1 << 63]], [[2, 3], [4, 5]]], "ﬁ": [[[7]], [[8], [9]]]}, {"": [[[1, 2, 3]]]}]
)
def test_what_a_batch_did_is_read_again(images: Any) -> None:
    undo = [
        (name, Contents(columns([1, 2], [3, 4]), (columns([5, -6]), columns([1.5, 2.0], [0.0, -0.0]))), i % 2 == 0)
        for i, name in enumerate(NAMES)
    ]
    undo.append(("", Contents((), (columns([7]),)), True))
    held = {store: [np.array(rows, np.int64) for rows in each] for store, each in images.items()}
    before, found, read_images = batch_file.from_bytes(batch_file.to_bytes("token", undo, held))
    assert before == "token"
    assert {store: [rows.tolist() for rows in each] for store, each in read_images.items()} == images
    assert [(name, replaced) for name, _, replaced in found] == [(name, replaced) for name, _, replaced in undo]
    for (_, given, _), (_, read, _) in zip(undo, found, strict=True):
        for a, b in zip((given.keys, *given.numbers), (read.keys, *read.numbers), strict=True):
            assert [array.tolist() for array in a] == [array.tolist() for array in b]


def test_nothing_was_done() -> None:
    assert batch_file.from_bytes(batch_file.to_bytes(None, [], {})) == (None, [], {})


class _Hostile:
    def __reduce__(self) -> Any:
        return eval, (f"{CANARY}()",)


def test_a_pickle_is_not_read() -> None:
    with nothing_called():
        for read in (batch_file.from_bytes, task_errors.from_bytes):
            with pytest.raises(ValueError, match=r"."):
                read(pickle.dumps(_Hostile()))


@pytest.mark.parametrize(
    "error",
    [
        viewlet.DataError("duplicate key (k) in t: ('\ud800\n')"),
        viewlet.StateError("no room"),
        viewlet.SchemaError("no table"),
        viewlet.InternalError("a bug"),
        viewlet.SqlError("wrong"),
        viewlet.UnsupportedError("a construct", "a hint", "a stage"),
        viewlet.MissingExtraError("pip install"),
        NotCompilable("a ring"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_arrive_as_they_left(error: viewlet.ViewletError) -> None:
    found = task_errors.from_bytes(task_errors.to_bytes(error))
    assert isinstance(error, type(found))
    assert type(found).__module__ == "viewlet.errors"
    assert str(found) == str(error)

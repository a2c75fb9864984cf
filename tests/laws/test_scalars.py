"""Folding a scalar changes nothing it computes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.expressions import scalars, values
from viewlet.algebra.fold import conjuncts, fold
from viewlet.algebra.functions import compile_scalar
from viewlet.algebra.nodes import Call, Const
from viewlet.types import BIGINT, DOUBLE, VARCHAR


@given(scalars(), st.data())
def test_folding(drawn: tuple, data: st.DataObject) -> None:
    scalar, bound = drawn
    environment = {var.name: data.draw(values(var.type)) for var in bound}
    assert compile_scalar(fold(scalar))(environment) == compile_scalar(scalar)(environment)
    assert fold(fold(scalar)) == fold(scalar)


@given(scalars(), st.data())
def test_a_conjunction_is_true_when_its_parts_are(drawn: tuple, data: st.DataObject) -> None:
    scalar, bound = drawn
    environment = {var.name: data.draw(values(var.type)) for var in bound}
    whole = compile_scalar(scalar)(environment)
    assert (whole is True) == all(compile_scalar(part)(environment) is True for part in conjuncts(scalar))


@pytest.mark.parametrize("values", [(0.0, -0.0), (-0.0, 0.0), (1.0, 1), (1, True)])
def test_constants_that_print_differently_are_different(values: tuple) -> None:
    """Python finds each pair equal; scalars are looked up by equality, so that one would stand for the other."""
    type = BIGINT if isinstance(values[0], int) else DOUBLE
    first, second = (Const(value, type) for value in values)
    assert first != second
    assert Const(values[0], type) == first
    assert hash(Const(values[0], type)) == hash(first)


@pytest.mark.parametrize("values", [(0.0, -0.0), (-0.0, 0.0)])
def test_zeros_keep_their_sign_when_folded(values: tuple[float, float]) -> None:
    texts = [Call("cast", (Const(value, DOUBLE),), VARCHAR) for value in values]
    assert [fold(text).value for text in texts] == [str(value) for value in values]
    assert [compile_scalar(text)({}) for text in texts] == [str(value) for value in values]

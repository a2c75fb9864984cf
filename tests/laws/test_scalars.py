"""Folding a scalar changes nothing it computes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.expressions import scalars, values
from viewlet.algebra.fold import conjuncts, fold
from viewlet.algebra.functions import compile_scalar


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

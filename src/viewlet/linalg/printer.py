"""Expressions as text, in the notation that `linalg.program` reads."""

from __future__ import annotations

from viewlet.linalg.expression import (
    Expression,
    Identity,
    Inverse,
    Matrix,
    Named,
    Product,
    Recurrence,
    Scale,
    Stack,
    Sum,
    Transpose,
    Zero,
)

SUM, PRODUCT, ATOM = 1, 2, 3
"""How tightly an operator binds its operands."""


def text(node: Expression, within: int = 0) -> str:
    """The text of an expression, with the parentheses that `within` requires."""
    written, binding = _written(node)
    return f"({written})" if binding < within else written


def number(value: float) -> str:
    """A number as short as it can be read back."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _written(node: Expression) -> tuple[str, int]:
    match node:
        case Matrix():
            return node.name, ATOM
        case Identity():
            return f"I({node.size})", ATOM
        case Zero():
            return f"O({node.rows}, {node.columns})", ATOM
        case Named():
            return node.name, ATOM
        case Scale():
            if node.factor == -1.0:
                return f"-{text(node.body, PRODUCT)}", SUM
            return f"{number(node.factor)} * {text(node.body, PRODUCT)}", PRODUCT
        case Sum():
            first, *rest = node.terms
            return text(first) + "".join(_signed(term) for term in rest), SUM
        case Product():
            return f"{text(node.left, PRODUCT)} * {text(node.right, ATOM)}", PRODUCT
        case Transpose():
            return f"{text(node.body, ATOM)}'", ATOM
        case Inverse():
            return f"inv({text(node.body)})", ATOM
        case Stack():
            return f"[{('; ' if node.vertical else ', ').join(text(block) for block in node.blocks)}]", ATOM
        case Recurrence():
            operands = ", ".join(text(operand) for operand in node.operands)
            model = "" if node.model == "auto" else f', "{node.model}"'
            return f"{node.kind}({operands}, {node.steps}{model})", ATOM


def _signed(term: Expression) -> str:
    if isinstance(term, Scale) and term.factor < 0:
        body = term.body if term.factor == -1.0 else None
        written = text(body, PRODUCT) if body else f"{number(-term.factor)} * {text(term.body, PRODUCT)}"
        return f" - {written}"
    return f" + {text(term, PRODUCT)}"

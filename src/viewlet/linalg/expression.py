"""Matrix expressions, the language of programs, of deltas and of their factors.

    e ::= A                     a matrix: an input, a view of the program, or a factor of a change
        | I(n) | O(m, n)        the identity; zeros
        | c e                   a number times a matrix
        | e + e + ...           a sum
        | e e                   a matrix product
        | e'                    the transpose
        | inv(e)                the inverse
        | [e, e] | [e; e]       side by side; on top of each other
        | name := e             e, kept as a view of this name
        | recur(e..., k)        e^k, I + e + ... + e^(k-1), or k steps of T := A T + B

Nodes are made by the functions of this module, never by their classes. Equal expressions are one object, so that
common subexpressions are found by identity and a chain of squares is a graph, not a tree. Shapes are checked when a
node is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from threading import RLock
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

from viewlet.linalg.errors import ProgramError, ShapeError
from viewlet.linalg.sizes import Size, side
from viewlet.visible import described


class Operators:
    """What users write between matrices: `@`, `+`, `-`, a number and `*`, `.T`."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy leaves `array @ expression` to us

    def __matmul__(self, other: object) -> Expression:
        return product(_one(self), _operand(other, "@"))

    def __rmatmul__(self, other: object) -> Expression:
        return product(_operand(other, "@"), _one(self))

    def __add__(self, other: object) -> Expression:
        return add((_one(self), _operand(other, "+")))

    def __radd__(self, other: object) -> Expression:
        return add((_operand(other, "+"), _one(self)))

    def __sub__(self, other: object) -> Expression:
        return add((_one(self), scale(-1.0, _operand(other, "-"))))

    def __rsub__(self, other: object) -> Expression:
        return add((_operand(other, "-"), scale(-1.0, _one(self))))

    def __neg__(self) -> Expression:
        return scale(-1.0, _one(self))

    def __mul__(self, other: object) -> Expression:
        if isinstance(other, Operators):
            raise ProgramError(
                f"the element-wise product {self} * {other} is not linear algebra: write @ for a product"
            )
        return scale(_number(other, "*"), _one(self))

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Expression:
        if isinstance(other, Operators):
            raise ProgramError(f"{self} / {other} divides by a matrix: write {self} @ inv({other}), or solve")
        divisor = _number(other, "/")
        if not divisor:
            raise ProgramError(f"{self} / 0 is division by zero")
        return scale(1.0 / divisor, _one(self))

    def __pow__(self, other: object) -> Expression:
        power = described(other)
        raise ProgramError(f"{self} ** {power} is element-wise in NumPy: write matrix_power({self}, {power})")

    @property
    def T(self) -> Expression:  # noqa: N802
        """The transposed matrix, called as in NumPy."""
        return transpose(_one(self))

    @property
    def shape(self) -> tuple[Size, Size]:
        """The numbers of rows and columns, as symbolic sizes."""
        return shape(_one(self))

    def __str__(self) -> str:
        from viewlet.linalg.printer import text

        return text(_one(self))

    def __repr__(self) -> str:
        return f"<matrix {self}>"


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class Matrix(Operators):
    """A matrix by its name. Only inputs are dynamic, which says that they change while the program runs, and definite,
    which says that they are symmetric and positive definite at any time."""

    name: str
    rows: Size
    columns: Size
    dynamic: bool
    definite: bool


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class Identity(Operators):
    """The identity matrix of a size."""

    size: Size


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class Zero(Operators):
    """The matrix of zeros, which pads blocks."""

    rows: Size
    columns: Size


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class Scale(Operators):
    """A number times a matrix."""

    factor: float
    body: Expression


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class Sum(Operators):
    """The sum of two or more matrices of one shape."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class Product(Operators):
    """The matrix product of two matrices."""

    left: Expression
    right: Expression


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class Transpose(Operators):
    """The transpose of a matrix."""

    body: Expression


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class Inverse(Operators):
    """The inverse of a square matrix."""

    body: Expression


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class Stack(Operators):
    """Matrices side by side, or on top of each other."""

    blocks: tuple[Expression, ...]
    vertical: bool


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class Named(Operators):
    """An expression that becomes a view of the program under the given name."""

    name: str
    body: Expression


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class Recurrence(Operators):
    """A fixed number of steps: A^k ("power"), I + ... + A^(k-1) ("power_sum"), or T := A T + B ("iterate").

    The operands are (A,) or (A, B, T0); `model` is "auto", "linear", "exponential", "telescoped" or "skip-s".
    """

    kind: str
    operands: tuple[Expression, ...]
    steps: int
    model: str


Expression: TypeAlias = (
    Matrix | Identity | Zero | Scale | Sum | Product | Transpose | Inverse | Stack | Named | Recurrence
)

LONGEST_TEXT = 200
"""The most nodes of an expression that an error shows."""

_NODES: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
"""All nodes that are alive, by their class and fields: equal nodes are one object."""

_ONE_AT_A_TIME = RLock()
"""Threads that make the same node get the same object."""

_SHAPES: WeakKeyDictionary[Any, tuple[Size, Size]] = WeakKeyDictionary()
_TRANSPOSES: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""Shapes and transposes that were computed: without them a graph would be walked as a tree."""


def _node(kind: type[Any], *fields: Any) -> Any:
    key = (kind, *fields)
    with _ONE_AT_A_TIME:
        found = _NODES.get(key)
        if found is None:
            found = _NODES[key] = kind(*fields)
    return found


def matrix(
    name: str, rows: Size | int, columns: Size | int, *, dynamic: bool = False, definite: bool = False
) -> Matrix:
    """An input matrix. A dynamic one takes updates while the program runs.

    A definite one is symmetric and positive definite, and only takes updates that leave it so: its inverse is kept as a
    Cholesky factor.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ProgramError(f"a matrix is named by an identifier, such as matrix('A', n, n), not by {described(name)}")
    if definite and side(rows) != side(columns):
        raise ShapeError(f"{name} is {rows} × {columns}: only a square matrix is positive definite")
    found: Matrix = _node(Matrix, name, side(rows), side(columns), dynamic, definite)
    return found


def identity(rows: Size | int) -> Expression:
    """The identity matrix with this number of rows."""
    found: Expression = _node(Identity, side(rows))
    return found


def zero(rows: Size | int, columns: Size | int) -> Expression:
    """The matrix of zeros of this shape."""
    found: Expression = _node(Zero, side(rows), side(columns))
    return found


def scale(factor: float, body: Expression) -> Expression:
    """A number times a matrix: c (d E) = (c d) E, 1 E = E, 0 E = O."""
    if not math.isfinite(factor):
        raise ProgramError(f"{factor} times {body} is not a matrix of finite numbers")
    if isinstance(body, Scale):
        return scale(factor * body.factor, body.body)
    if factor == 1.0 or isinstance(body, Zero):
        return body
    if factor == 0.0:
        return zero(*shape(body))
    found: Expression = _node(Scale, float(factor), body)
    return found


def add(terms: Iterable[Expression]) -> Expression:
    """The sum of matrices of one shape; zeros are left out and equal terms collected."""
    given = tuple(terms)
    for term in given[1:]:
        if shape(term) != shape(given[0]):
            raise ShapeError(f"cannot add {_described(given[0])} and {_described(term)}: their shapes differ")
    factors: dict[Expression, float] = {}
    for term in _flat(given):
        body, factor = (term.body, term.factor) if isinstance(term, Scale) else (term, 1.0)
        factors[body] = factors.get(body, 0.0) + factor
    kept = [scale(factor, body) for body, factor in factors.items() if factor != 0.0 and not isinstance(body, Zero)]
    if not kept:
        return zero(*shape(given[0]))
    if len(kept) == 1:
        return kept[0]
    found: Expression = _node(Sum, tuple(kept))
    return found


def _flat(terms: Iterable[Expression]) -> Iterator[Expression]:
    for term in terms:
        if isinstance(term, Sum):
            yield from term.terms
        else:
            yield term


def product(left: Expression, right: Expression) -> Expression:
    """The matrix product: I E = E = E I, O E = O, (c E) F = c (E F)."""
    (rows, inner), (other, columns) = shape(left), shape(right)
    if inner != other:
        raise ShapeError(
            f"cannot multiply {_described(left)} and {_described(right)}: the columns of the first are {inner}, "
            f"the rows of the second {other}"
        )
    factor = 1.0
    if isinstance(left, Scale):
        factor, left = factor * left.factor, left.body
    if isinstance(right, Scale):
        factor, right = factor * right.factor, right.body
    if isinstance(left, Zero) or isinstance(right, Zero):
        return zero(rows, columns)
    if isinstance(left, Identity):
        return scale(factor, right)
    if isinstance(right, Identity):
        return scale(factor, left)
    return scale(factor, _node(Product, left, right))


def transpose(body: Expression) -> Expression:
    """The transpose: (E')' = E, (c E)' = c E', (E F)' = F' E', and of blocks, block by block."""
    found: Expression | None = _TRANSPOSES.get(body)
    if found is None:
        found = _TRANSPOSES[body] = _transpose(body)
    return found


def _transpose(body: Expression) -> Expression:
    match body:
        case Transpose():
            return body.body
        case Identity():
            return body
        case Zero():
            return zero(body.columns, body.rows)
        case Scale():
            return scale(body.factor, transpose(body.body))
        case Product():
            return product(transpose(body.right), transpose(body.left))
        case Sum():
            return add(transpose(term) for term in body.terms)
        case Stack():
            return stack([transpose(block) for block in body.blocks], vertical=not body.vertical)
        case _:
            found: Expression = _node(Transpose, body)
            return found


def inv(body: Expression) -> Expression:
    """The inverse of a square matrix."""
    body = _operand(body, "inv")
    rows, columns = shape(body)
    if rows != columns:
        raise ShapeError(f"only a square matrix has an inverse, and {_described(body)} is not square")
    if isinstance(body, Inverse):
        return body.body
    if isinstance(body, Identity):
        return body
    if isinstance(body, Zero):
        raise ProgramError("a matrix of zeros has no inverse")
    if isinstance(body, Scale):
        return scale(1.0 / body.factor, inv(body.body))
    found: Expression = _node(Inverse, body)
    return found


def solve(system: Expression, right: Expression) -> Expression:
    """The matrix X with `system @ X = right`, maintained through the inverse of the system."""
    return product(inv(system), _operand(right, "solve"))


def stack(blocks: Iterable[Expression], *, vertical: bool) -> Expression:
    """Blocks side by side or on top of each other; nested ones in the same direction are flattened."""
    if not isinstance(blocks, Iterable):
        raise ProgramError(f"stacking takes a list of matrices, not {type(blocks).__name__}")
    given = tuple(_operand(block, "stack") for block in blocks)
    if not given:
        raise ProgramError("stacking needs at least one matrix")
    across = 1 if vertical else 0
    for block in given[1:]:
        if shape(block)[across] != shape(given[0])[across]:
            what = "on top of each other" if vertical else "side by side"
            sides = "columns" if vertical else "rows"
            raise ShapeError(f"cannot put {_described(given[0])} and {_described(block)} {what}: their {sides} differ")
    flat = tuple(
        part
        for block in given
        for part in (block.blocks if isinstance(block, Stack) and block.vertical == vertical else (block,))
    )
    if len(flat) == 1:
        return flat[0]
    if all(isinstance(block, Zero) for block in flat):
        return zero(*_stacked(flat, vertical))
    found: Expression = _node(Stack, flat, vertical)
    return found


def hstack(blocks: Iterable[Expression]) -> Expression:
    """Matrices side by side: [A, B]."""
    return stack(blocks, vertical=False)


def vstack(blocks: Iterable[Expression]) -> Expression:
    """Matrices on top of each other: [A; B]."""
    return stack(blocks, vertical=True)


def named(name: str, body: Expression) -> Expression:
    """The expression, kept as a view under a name wherever it is used."""
    found: Expression = _node(Named, name, _operand(body, "named"))
    return found


def recurrence(kind: str, operands: tuple[Expression, ...], steps: int, model: str) -> Expression:
    """A recurrence whose operands and number of steps have been checked."""
    found: Expression = _node(Recurrence, kind, operands, steps, model)
    return found


def shape(node: Expression) -> tuple[Size, Size]:
    """The numbers of rows and columns."""
    found = _SHAPES.get(node)
    if found is None:
        found = _SHAPES[node] = _shape(node)
    return found


def _shape(node: Expression) -> tuple[Size, Size]:
    match node:
        case Matrix() | Zero():
            return node.rows, node.columns
        case Identity():
            return node.size, node.size
        case Scale() | Named():
            return shape(node.body)
        case Inverse():
            return shape(node.body)
        case Sum():
            return shape(node.terms[0])
        case Product():
            return shape(node.left)[0], shape(node.right)[1]
        case Transpose():
            rows, columns = shape(node.body)
            return columns, rows
        case Stack():
            return _stacked(node.blocks, node.vertical)
        case Recurrence():
            return shape(node.operands[-1])


def children(node: Expression) -> tuple[Expression, ...]:
    """The expressions directly under a node."""
    match node:
        case Matrix() | Identity() | Zero():
            return ()
        case Scale() | Transpose() | Inverse() | Named():
            return (node.body,)
        case Sum():
            return node.terms
        case Product():
            return node.left, node.right
        case Stack():
            return node.blocks
        case Recurrence():
            return node.operands


def rebuild(node: Expression, parts: tuple[Expression, ...]) -> Expression:
    """The same node over other children."""
    match node:
        case Matrix() | Identity() | Zero():
            return node
        case Scale():
            return scale(node.factor, parts[0])
        case Transpose():
            return transpose(parts[0])
        case Inverse():
            return inv(parts[0])
        case Named():
            return named(node.name, parts[0])
        case Sum():
            return add(parts)
        case Product():
            return product(*parts)
        case Stack():
            return stack(parts, vertical=node.vertical)
        case Recurrence():
            return recurrence(node.kind, parts, node.steps, node.model)


def postorder(roots: Iterable[Expression]) -> Iterator[Expression]:
    """Every node once, children first; it does not recurse, because chains of statements are long."""
    seen: set[Expression] = set()
    pending: list[tuple[Expression, bool]] = [(root, False) for root in reversed(list(roots))]
    while pending:
        node, ready = pending.pop()
        if node in seen:
            continue
        if ready:
            seen.add(node)
            yield node
        else:
            pending.append((node, True))
            pending.extend((child, False) for child in reversed(children(node)))


def matrices(node: Expression) -> frozenset[Matrix]:
    """The matrices that an expression reads."""
    return frozenset(part for part in postorder([node]) if isinstance(part, Matrix))


def _stacked(blocks: tuple[Expression, ...], vertical: bool) -> tuple[Size, Size]:
    rows, columns = shape(blocks[0])
    for block in blocks[1:]:
        if vertical:
            rows = rows + shape(block)[0]
        else:
            columns = columns + shape(block)[1]
    return rows, columns


def _one(value: Operators) -> Expression:
    return value  # type: ignore[return-value]


def _operand(value: object, operation: str) -> Expression:
    if isinstance(value, Operators):
        return _one(value)
    raise ProgramError(
        f"{operation} takes matrices of the program, not {type(value).__name__}: declare an input for it with "
        "matrix(name, rows, columns)"
    )


def _number(value: object, operation: str) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__") or bool(getattr(value, "ndim", False)):
        raise ProgramError(f"{operation} takes a number and a matrix, not {type(value).__name__}")
    try:
        return float(value)
    except (OverflowError, ValueError, TypeError):
        raise ProgramError(f"{operation} takes a number that a double can hold, not {described(value)}") from None


def _described(node: Expression) -> str:
    rows, columns = shape(node)
    return f"{node if _is_short(node) else '(a long expression)'} ({rows} × {columns})"


def _is_short(node: Expression) -> bool:
    """Whether the text of an expression has at most some hundred names, where those of shared parts count each time."""
    lengths: dict[Expression, int] = {}
    for part in postorder([node]):
        lengths[part] = 1 if isinstance(part, Named) else 1 + sum(lengths[child] for child in children(part))
        if lengths[part] > LONGEST_TEXT:
            return False
    return True

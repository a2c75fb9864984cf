"""Matrix programs: what users declare, and the statements it becomes.

    Program      inputs and named outputs, as expressions
    Statements   one view after the other, each an expression over inputs and earlier views

A view is kept for every name that the user gave, every inverse and its argument, every block matrix under a product,
and every product that occurs more than once. Copies are propagated, and what no output reads is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viewlet.linalg.associate import Sizes, associate
from viewlet.linalg.errors import ProgramError
from viewlet.linalg.expression import (
    Expression,
    Identity,
    Inverse,
    Matrix,
    Named,
    Operators,
    Product,
    Recurrence,
    Scale,
    Stack,
    Transpose,
    Zero,
    children,
    matrices,
    matrix,
    named,
    postorder,
    rebuild,
    recurrence,
    shape,
)
from viewlet.linalg.notation import parse
from viewlet.linalg.printer import text
from viewlet.linalg.recurrences import expand

if TYPE_CHECKING:
    from viewlet.linalg.run import Run

NOMINAL = 1000
"""The size of a dimension where none is known: large beside the rank of an update."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A view and the expression that it keeps."""

    target: Matrix
    body: Expression

    def __str__(self) -> str:
        return f"{self.target.name} := {text(self.body)};"


@dataclass(frozen=True, slots=True)
class Statements:
    """A program as a list of views; outputs name a view or an input."""

    inputs: tuple[Matrix, ...]
    views: tuple[Statement, ...]
    outputs: Mapping[str, Matrix]
    factored: frozenset[Matrix] = frozenset()
    """Inverses that are kept as Cholesky factors."""

    def __str__(self) -> str:
        return "\n".join(str(statement) for statement in self.views)


@dataclass(frozen=True, slots=True)
class Program:
    """A matrix program: inputs, and outputs that follow them. `start` runs it on matrices."""

    inputs: tuple[Matrix, ...]
    outputs: Mapping[str, Expression]

    def start(self, **options: Any) -> Run:
        """Runs the program on the given input matrices, by name; the other options are those of `Run`."""
        from viewlet.linalg.run import start

        with _deep():
            return start(self, options)

    def explain(self, *, rank: int = 1, cholesky: bool = True, **sizes: int) -> str:
        """The statements and, for each dynamic input, the trigger with its ranks and numbers of operations.

        Sizes of dimensions, such as `n=4000`, decide how products are associated and which model a recurrence uses.
        With `cholesky=False` all inverses follow by Woodbury's formula.
        """
        from viewlet.linalg.explain import explain_program

        with _deep():
            return explain_program(self, rank, sizes, cholesky=cholesky)

    def text(self) -> str:
        """The program in the notation that `linalg.program` reads."""
        with _deep():
            return self._text()

    def _text(self) -> str:
        lines = [
            f"{'input' if each.dynamic else 'static'} {each.name}({each.rows}, {each.columns})"
            f"{' definite' if each.definite else ''};"
            for each in self.inputs
        ]
        views = _Views(self.inputs, self.outputs, None, Supply(_names(self))).collect()
        lines += [str(statement) for statement in views.views]
        copies = [f"{name} := {kept.name};" for name, kept in views.outputs.items() if kept.name != name]
        return "\n".join([*lines, *copies, f"output {', '.join(self.outputs)};"])

    def __str__(self) -> str:
        return self.text()


def program(source: str | None = None, /, **outputs: Expression) -> Program:
    """A program from its text, or from the expressions of its outputs by name.

    >>> print(program("input A(n, n); B := A * A; C := B * B;"))
    input A(n, n);
    B := A * A;
    C := B * B;
    output C;
    """
    if source is not None:
        if outputs:
            raise ProgramError("a program is given as text or as expressions, not as both")
        parsed = parse(source)
        return _checked(parsed.outputs, parsed.inputs)
    return _checked(outputs, ())


@contextmanager
def _deep() -> Iterator[None]:
    """Says what to do about expressions that are nested too deeply."""
    try:
        yield
    except RecursionError:
        raise ProgramError("an expression is nested too deeply: give parts of it names, as statements do") from None


def _checked(outputs: Mapping[str, Expression], declared: tuple[Matrix, ...]) -> Program:
    if not outputs:
        raise ProgramError("a program has at least one output: program(C=A @ A)")
    if wrong := [name for name, node in outputs.items() if not isinstance(node, Operators)]:
        raise ProgramError(f"output {wrong[0]!r} is not an expression over matrices of linalg.matrix(...)")
    found = dict.fromkeys(declared)
    found |= {node: None for node in postorder(outputs.values()) if isinstance(node, Matrix)}
    meanings: dict[str, Expression] = {}
    givers: list[Matrix | Named] = [*found, *_named(outputs.values())]
    for giver in givers:
        if meanings.setdefault(giver.name, giver) is not giver:
            raise ProgramError(f"the name {giver.name!r} stands for two different matrices: rename one of them")
    for name, node in outputs.items():
        other = meanings.get(name)
        if other is not None and other is not node and not (isinstance(other, Named) and other.body is node):
            raise ProgramError(f"the name {name!r} stands for two different matrices: rename the output")
    return Program(tuple(found), dict(outputs))


def _named(nodes: Any) -> list[Named]:
    return [node for node in postorder(nodes) if isinstance(node, Named)]


# -- statements --------------------------------------------------------------------------------------------------------


def statements(source: Program, sizes: Sizes, models: Mapping[Recurrence, str]) -> Statements:
    """The views of a program, with recurrences expanded by the given models."""
    fresh = Supply(_names(source))
    outputs = _expand(source.outputs, models, fresh)
    return _Views(source.inputs, outputs, sizes, fresh).collect()


class Supply:
    """Names that are not taken."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken

    def __call__(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.taken:
            number += 1
            name = f"{wanted}_{number}"
        self.taken.add(name)
        return name


def _names(source: Program) -> set[str]:
    """The names that a program gives to matrices."""
    inputs = {each.name for each in source.inputs}
    return inputs | set(source.outputs) | {node.name for node in _named(source.outputs.values())}


def recurrences(source: Program) -> list[Recurrence]:
    """The recurrences of a program, inner ones first."""
    return [node for node in postorder(source.outputs.values()) if isinstance(node, Recurrence)]


def _expand(
    outputs: Mapping[str, Expression], models: Mapping[Recurrence, str], fresh: Supply
) -> dict[str, Expression]:
    done: dict[Expression, Expression] = {}
    for node in postorder(outputs.values()):
        inner = rebuild(node, tuple(done[child] for child in children(node)))
        if isinstance(node, Recurrence) and isinstance(inner, Recurrence):
            inner = expand(_with_named_base(inner, fresh), models[node], fresh)
        done[node] = inner
    return {name: done[node] for name, node in outputs.items()}


def _with_named_base(node: Recurrence, fresh: Supply) -> Recurrence:
    """A base that is computed becomes a view: every step reads it."""
    base, *rest = node.operands
    if isinstance(base, Matrix | Named):
        return node
    found = recurrence(node.kind, (named(fresh("M"), base), *rest), node.steps, node.model)
    assert isinstance(found, Recurrence)
    return found


class _Views:
    """Turns the graph of expressions into statements."""

    def __init__(
        self, inputs: tuple[Matrix, ...], outputs: Mapping[str, Expression], sizes: Sizes | None, fresh: Supply
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.sizes = sizes
        self.fresh = fresh
        self.views: dict[Expression, Matrix] = {}
        """The view that keeps a body over other views."""
        self.statements: list[Statement] = []

    def collect(self) -> Statements:
        nodes = list(postorder(self.outputs.values()))
        kept = self._kept(nodes)
        wanted = {node.body if isinstance(node, Named) else node: name for name, node in self.outputs.items()}
        for node in nodes:
            if isinstance(node, Named):
                wanted.setdefault(node.body, node.name)
        done: dict[Expression, Expression] = {}
        for node in nodes:
            body = done[node.body] if isinstance(node, Named) else rebuild(node, tuple(map(done.get, children(node))))  # type: ignore[arg-type]
            done[node] = self._view(body, wanted.get(node)) if node in kept and not isinstance(node, Named) else body
        outputs = {name: self._output(done[node], name) for name, node in self.outputs.items()}
        return Statements(self.inputs, tuple(self.statements), outputs)

    def _kept(self, nodes: list[Expression]) -> set[Expression]:
        uses = Counter(child for node in nodes for child in children(node))
        kept = {node.body for node in nodes if isinstance(node, Named)} | set(self.outputs.values())
        for node in nodes:
            match node:
                case Inverse():
                    kept |= {node, node.body}
                case Product():
                    kept |= {part for part in (node.left, node.right) if isinstance(_bare(part), Stack | Recurrence)}
                    if uses[node] > 1:
                        kept.add(node)
                case Recurrence():
                    kept |= {node, *node.operands}
                case Transpose():
                    if isinstance(node.body, Recurrence):
                        kept.add(node.body)
                case _:
                    pass
        return {node for node in kept if not isinstance(node, Matrix | Identity | Zero)}

    def _view(self, body: Expression, name: str | None) -> Expression:
        """The view that keeps a body, which may exist already (a common subexpression) or be a copy."""
        if isinstance(body, Matrix | Identity | Zero):
            return body
        if self.sizes is not None:
            body = associate(body, self.sizes)
        if body not in self.views:
            kind = "W" if isinstance(body, Inverse) else "M"
            view = matrix(name or self.fresh(kind), *shape(body))
            self.views[body] = view
            self.statements.append(Statement(view, body))
        return self.views[body]

    def _output(self, node: Expression, name: str) -> Matrix:
        if isinstance(node, Matrix):
            return node
        if isinstance(node, Identity | Zero):
            raise ProgramError(f"output {name!r} is {text(node)} whatever the inputs are")
        found = self._view(node, name)
        assert isinstance(found, Matrix)
        return found


def _bare(node: Expression) -> Expression:
    while isinstance(node, Scale | Transpose | Named):
        node = node.body
    return node


def sizes_of(source: Program, given: Mapping[str, int]) -> dict[str, int]:
    """The value of every dimension of a program, nominal where it is not given."""
    names = {name for node in postorder(source.outputs.values()) for part in shape(node) for name in part.names} | {
        name for each in source.inputs for part in shape(each) for name in part.names
    }
    if unknown := given.keys() - names:
        raise ProgramError(f"the program has no dimension {sorted(unknown)[0]!r}, only {', '.join(sorted(names))}")
    return {name: int(given.get(name, NOMINAL)) for name in names}


def readers(source: Statements) -> dict[Matrix, list[Statement]]:
    """The statements that read each matrix."""
    found: dict[Matrix, list[Statement]] = {}
    for statement in source.views:
        for each in matrices(statement.body):
            found.setdefault(each, []).append(statement)
    return found

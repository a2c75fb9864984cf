"""The worked examples of the thesis, chapters 2 and 3: what it derives by hand is what comes out here."""

from __future__ import annotations

from tests.golden.conftest import Golden
from tests.golden.programs import (
    NUMBER,
    check_by_running,
    compiled,
    describe_rows,
    describe_triggers,
    describe_views,
    keys_of_views,
    names,
    reads,
    rel,
    row_triggers,
    statements_on,
    streams,
    var,
    variables,
)
from viewlet.algebra.delta import delta, single_row
from viewlet.algebra.domain import extract_domain
from viewlet.algebra.nodes import (
    Cond,
    Const,
    Exists,
    Expr,
    Lift,
    Rel,
    Scalar,
    Sum,
    Value,
    Var,
    View,
    call,
    compare,
    factors_of,
    mul,
)
from viewlet.algebra.order import order
from viewlet.algebra.printer import show
from viewlet.algebra.scope import close_scopes, inputs, outputs
from viewlet.algebra.simplify import simplify
from viewlet.algebra.traverse import Names, all_variables, walk
from viewlet.types import decimal


def where(op: str, left: Scalar, right: Scalar) -> Cond:
    return Cond(compare(op, left, right))


def constant(number: int) -> Const:
    return Const(number, NUMBER)


def for_one_row(expr: Expr, table: str, row: str, sign: int = 1) -> Expr:
    """The simplified delta of a query for the insertion (deletion) of one row."""
    change = single_row(delta(close_scopes(expr), table), table, variables(row), sign)
    return order(
        simplify(change, Names(v.name for v in all_variables(change)), frozenset(variables(row))),
        frozenset(variables(row)),
    )


RST = streams(R="A B", S="B C", T="C D")
RS = streams(R="A B", S="C D")


def test_example_2_1_2(golden: Golden) -> None:
    """Three levels of views: the query, the two partial joins, and the base tables."""
    joined = Sum(variables("B"), mul(rel("R", "A B"), rel("S", "B C"), rel("T", "C D")))
    program = compiled(joined, "B", RST)
    assert keys_of_views(program) == {
        "Q_R_S_T": "B", "Q_S_T": "B", "Q_R": "B", "Q_T": "C", "Q_R_S": "B, C", "Q_S": "B, C",
    }  # fmt: skip
    assert statements_on(program, "R") == {
        "Q_R_S_T.count": "+= Sum[B](ΔR(_, B) * Q_S_T.count[B])",
        "Q_R_S.count": "+= Sum[B, C](ΔR(_, B) * Q_S.count[B, C])",
        "Q_R.count": "+= Sum[B](ΔR(_, B))",
    }
    golden("views", describe_views(program))
    golden("triggers", describe_triggers(program))
    golden("rows", describe_rows(program, RST))
    check_by_running(program, RST)


NESTED = Sum((), mul(rel("S", "C D"), where(">", var("A"), var("C")), Value(var("D"))))
CORRELATED = Sum(variables("A B"), mul(rel("R", "A B"), Lift(var("z"), NESTED), where("<", var("B"), var("z"))))


def test_example_2_2_4(golden: Golden) -> None:
    """A correlated nested aggregate as an assignment."""
    program = compiled(CORRELATED, "A B", RS)
    golden("algebra", show(CORRELATED))
    golden("views", describe_views(program))
    golden("triggers", describe_triggers(program))
    check_by_running(program, RS)


FLAT = Sum(
    (),
    mul(rel("R", "A B"), rel("S", "C D"), where("=", var("B"), var("C")), Value(var("A")), Value(var("D"))),
)


def test_example_2_2_5(golden: Golden) -> None:
    """The delta of a join for one row is a join less, with the row's values in it."""
    inserted, deleted = for_one_row(FLAT, "R", "x y"), for_one_row(FLAT, "R", "x y", -1)
    assert show(inserted) == "Sum[y](x * S(y, D) * D)"
    assert show(deleted) == "-Sum[y](x * S(y, D) * D)"
    golden("delta", f"{show(inserted)}\n{show(deleted)}")


def test_example_2_2_6(golden: Golden) -> None:
    """The delta of the nested aggregate is `if A > x then y else 0`; the query's is new minus old."""
    inner = single_row(delta(NESTED, "S"), "S", variables("x y"), 1)
    simple = simplify(inner, Names(["A", "C", "D", "x", "y"]), frozenset(variables("A x y")))
    assert {show(factor) for factor in simple.factors} == {"{A > x}", "y"}
    whole = for_one_row(CORRELATED, "S", "x y")
    assert show(whole).count("(z := ") == 2
    golden("delta", f"{show(simple)}\n{show(whole)}")


def test_example_2_2_7() -> None:
    """Binding patterns: columns are outputs, what comes from outside are inputs, and deltas add inputs."""
    assert outputs(CORRELATED) == set(variables("A B"))
    assert inputs(CORRELATED) == set()
    assert outputs(NESTED) == set()
    assert inputs(NESTED) == set(variables("A"))
    assert inputs(single_row(delta(NESTED, "S"), "S", variables("x y"), 1)) == set(variables("A x y"))
    flat = mul(*(f for f in FLAT.body.factors if not isinstance(f, Rel) or f.name != "R"), *_assigned("R", "x y"))
    assert inputs(flat) == set(variables("x y"))


def _assigned(table: str, row: str) -> tuple[Expr, ...]:
    atom = next(factor for factor in FLAT.body.factors if isinstance(factor, Rel) and factor.name == table)
    return tuple(Lift(arg, Value(value)) for arg, value in zip(atom.args, variables(row), strict=True))


def test_example_3_0_1(golden: Golden) -> None:
    """A disconnected delta is kept as two views, not as their product."""
    program = compiled(Sum((), mul(rel("R", "A B"), rel("S", "B C"), rel("T", "C D"))), "", RST)
    (on_s,) = (row for row in row_triggers(program, RST) if row.table == "S")
    statement = next(s for s in on_s.statements if s.view == "Q_R_S_T")
    assert show(statement.updates[0].expr) == "Q_R.count[:B] * Q_T.count[:C]"
    assert keys_of_views(program)["Q_R"] == "B"
    assert keys_of_views(program)["Q_T"] == "C"
    golden("rows", describe_rows(program, RST))
    check_by_running(program, RST)


def test_example_3_1_1(golden: Golden) -> None:
    """Changes of S re-evaluate the query from R(A, B) and the sums of D by C; changes of R increment it."""
    program = compiled(CORRELATED, "A B", RS)
    assert keys_of_views(program) == {"Q_R_S": "A, B", "Q_S": "C", "Q_R": "A, B"}
    on_s, on_r = statements_on(program, "S"), statements_on(program, "R")
    assert on_s["Q_R_S.count"].startswith(":= ")
    assert on_s["Q_S.sum_D"] == "+= Sum[C](ΔS(C, D) * D)"
    assert on_r["Q_R_S.count"].startswith("+= Sum[A, B](ΔR(A, B) * ")
    assert "Q_S.sum_D" in on_r["Q_R_S.count"]
    golden("triggers", describe_triggers(program))
    check_by_running(program, RS, seed=11)


def test_example_3_2_1(golden: Golden) -> None:
    """R(A) * R(A) * S(B) changes by (2 * R(x) + 1) * S(B)."""
    square = mul(rel("R", "A"), rel("R", "A"), rel("S", "B"))
    change = for_one_row(square, "R", "x")
    assert show(change) == "2 * (A := x) * R(x) * S(B) + (A := x) * S(B)"
    tables = streams(R="A", S="B")
    program = compiled(Sum(variables("A B"), square), "A B", tables)
    (on_r,) = (row for row in row_triggers(program, tables) if row.table == "R")
    statement = next(s for s in on_r.statements if s.view == "Q_R_S")
    assert [arg.name for arg in statement.args] == [":A", "B"]
    golden("delta", show(change))
    golden("rows", describe_rows(program, tables))
    check_by_running(program, tables)


def test_example_3_2_2(golden: Golden) -> None:
    """The delta of an assignment touches only the keys of the change."""
    counted = Sum(variables("A B"), mul(Exists(rel("R", "A")), Lift(var("B"), rel("R", "A"))))
    tables = streams(R="A")
    program = compiled(counted, "A B", tables)
    change = for_one_row(counted, "R", "x")
    assert "(A := x)" in show(change)
    assert not any(isinstance(node, Rel) and node.args == variables("A") for node in walk(change))
    golden("delta", show(change))
    golden("triggers", describe_triggers(program))
    check_by_running(program, tables)


def test_example_3_4_1(golden: Golden) -> None:
    """DISTINCT with a filter: the domain of the change is the distinct keys of the filtered change."""
    counted = Sum(variables("A"), mul(rel("R", "A B"), where(">", var("B"), constant(3))))
    domain = extract_domain(delta(counted, "R"))
    assert show(domain) == "Exists(Sum[A](Exists(ΔR(A, B')) * {B' > 3}))"
    tables = streams(R="A B")
    program = compiled(Exists(counted), "A", tables)
    golden("domain", show(domain))
    golden("delta", show(delta(Exists(counted), "R")))
    golden("triggers", describe_triggers(program))
    check_by_running(program, tables, high=6)


def test_example_3_5_1(golden: Golden) -> None:
    """An uncorrelated nested count: changes of S re-evaluate over R(A) filtered, changes of R increment."""
    tables = streams(R="A B", S="B C")
    nested = Lift(var("n"), Sum((), rel("S", "B2 C")))
    counted = Sum((), mul(rel("R", "A B"), nested, where("<", var("A"), var("n")), where("=", var("B"), constant(1))))
    program = compiled(counted, "", tables)
    assert keys_of_views(program) == {"Q_R_S": "", "Q_S": "", "Q_R": "A"}
    assert statements_on(program, "S")["Q_R_S.count"].startswith(":= ")
    assert statements_on(program, "R")["Q_R_S.count"].startswith("+= ")
    assert statements_on(program, "S")["Q_S.count"] == "+= Sum[](ΔS(_, _))"
    golden("views", describe_views(program))
    golden("triggers", describe_triggers(program))
    check_by_running(program, tables)


ORDERS = streams(C="CK", O="CK OK", LI="OK QTY")


def q18() -> Expr:
    quantity = Sum((), mul(rel("LI", "OK1 QTY1"), where("=", var("OK"), var("OK1")), Value(var("QTY1"))))
    joined = mul(
        rel("C", "CK"), rel("O", "CK2 OK"), rel("LI", "OK2 QTY"),
        where("=", var("CK"), var("CK2")), where("=", var("OK"), var("OK2")),
        Lift(var("x"), quantity), where("<", constant(6), var("x")),
    )  # fmt: skip
    total = Lift(var("s"), Sum((), mul(joined, Value(var("QTY")))))
    return Sum(variables("CK s"), mul(Exists(Sum(variables("CK"), joined)), total))


def test_simplified_q18(golden: Golden) -> None:
    """Figure 3.3: the query and five auxiliary views; only changes of LI and C loop, over one key each."""
    program = compiled(q18(), "CK s", ORDERS)
    assert keys_of_views(program) == {
        "Q_C_O_LI": "CK", "Q_O_LI": "CK", "Q_C": "CK", "Q_LI": "OK", "Q_C_O": "CK, OK", "Q_O": "CK, OK",
    }  # fmt: skip
    loops = {
        row.table: {
            statement.view: [arg.name for arg in statement.args if arg not in row.row] for statement in row.statements
        }
        for row in row_triggers(program, ORDERS)
    }
    assert loops == {
        "C": {"Q_C_O_LI": [], "Q_C_O": ["OK"], "Q_C": []},
        "O": {"Q_C_O_LI": [], "Q_O_LI": [], "Q_C_O": [], "Q_O": []},
        "LI": {"Q_C_O_LI": ["CK"], "Q_O_LI": ["CK"], "Q_LI": []},
    }
    assert not any(statement.replaces for trigger in program.triggers for statement in trigger.statements)
    golden("views", describe_views(program))
    golden("triggers", describe_triggers(program))
    golden("rows", describe_rows(program, ORDERS))
    check_by_running(program, ORDERS, steps=40)


BOOK = streams(B="P V", A="P V")


SHARE = decimal(38, 4, nullable=False)


def above_quarter(table: str, volume: str) -> tuple[Expr, Expr]:
    """(t := a quarter of the total volume) * {volume > t}; a larger share than the thesis's, for few rows."""
    threshold = Var(f"{table}_share", SHARE)
    total = mul(rel(table, f"{table}_p {table}_v"), Value(var(f"{table}_v")), Value(Const(2500, SHARE)))
    scaled = call("cast", var(volume), type=SHARE)
    return Lift(threshold, Sum((), total)), where(">", scaled, threshold)


def psp() -> Expr:
    spread = Value(call("-", var("AP"), var("BP"), type=NUMBER))
    joined = mul(rel("B", "BP BV"), rel("A", "AP AV"), spread)
    return Sum((), mul(joined, *above_quarter("B", "BV"), *above_quarter("A", "AV")))


def test_psp(golden: Golden) -> None:
    """Figure 3.4: by volume the count and the sum of prices, and the total volume, of each side: six fields.

    A change re-evaluates the query: for each of its two terms, one sum per side, never a product of scans.
    """
    program = compiled(psp(), "", BOOK)
    fields = {
        (view.name, names(view.keys)): {field.name for field in view.fields}
        for view in program.views
        if view.name != "Q_B_A"
    }
    assert fields == {
        ("Q_B", ""): {"sum_B_v"}, ("Q_B_2", "BV"): {"count", "sum_BP"},
        ("Q_A", ""): {"sum_A_v"}, ("Q_A_2", "AV"): {"count", "sum_AP"},
    }  # fmt: skip
    for table in "A", "B":
        trigger = program.trigger(table)
        assert trigger is not None
        *increments, assignment = trigger.statements
        assert assignment.replaces
        assert {each.view: each.replaces for each in increments} == {f"Q_{table}": False, f"Q_{table}_2": False}
        (update,) = assignment.updates
        assert reads(update.expr) == ["Q_A", "Q_A_2", "Q_B", "Q_B_2"]
        scans = [ranged_over(node) for node in walk(update.expr) if isinstance(node, Sum)]
        assert sorted(map(len, scans)) == [0, 1, 1, 1, 1]
    golden("views", describe_views(program))
    golden("triggers", describe_triggers(program))
    golden("rows", describe_rows(program, BOOK))
    check_by_running(program, BOOK, high=9)


def ranged_over(node: Sum) -> list[Expr]:
    """The views with keys in a Sum's own product."""
    return [factor for factor in factors_of(node.body) if isinstance(factor, View) and factor.args]

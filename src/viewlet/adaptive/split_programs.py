"""The joins of four relations that have sublinear updates, as rules (`split_rules.py`).

    path             R(a, b) S(b, c) T(c, d) U(d, e), its ends added up     N^max(epsilon, 1-epsilon), best at 1/2
    Loomis-Whitney   R(a, b, c) S(b, c, d) T(c, d, a) U(d, a, b)             the same
    cycle            R(a, b) S(b, c) T(c, d) U(d, a)                         N^max(epsilon, 2 - 2 epsilon), best at 2/3

In a path, a heavy c has the sums over both its sides; there are few of them. Where c is light, paths from b to d are
kept if b or d is heavy, and heavy b and d have the sums over all that they reach. Light b and d are enumerated.

In a Loomis-Whitney join a change leaves one variable to find. A light list is enumerated, and so are the heavy pairs of
a value; what is left, one heavy and two light parts, is a view.

In a cycle, the change of an edge (a, b) asks for paths b, c, d, a. There are few heavy c and d. Paths of two edges with
a light vertex in the middle are kept in P, those of three with two light vertices in H if both their ends are heavy.
"""

from __future__ import annotations

from viewlet.adaptive.split_rules import SplitProgram, read_program

PATH = read_program(
    "path",
    """
    relation R(b)
    relation S(b, c)
    relation T(c, d)
    relation U(d)
    split b(b) in S
    split c(c) in S T
    split d(d) in T
    view X(c) = R(b) S(b, c:h)
    view W(c) = T(c:h, d) U(d)
    view XL(c) = R(b) S(b:l, c:l)
    view WL(c) = T(c:l, d:l) U(d)
    view VHH(b, d) = S(b:h, c:l) T(c:l, d:h)
    view VHL(b, d) = S(b:h, c:l) T(c:l, d:l)
    view VLH(b, d) = S(b:l, c:l) T(c:l, d:h)
    view Y(b) = S(b:h, c:l) T(c:l, d) U(d)
    view Z(d) = R(b) S(b, c:l) T(c:l, d:h)

    on R(b): Q() += S(b, c:h) W(c)
    on R(b): Q() += Y(b)
    on R(b): Q() += S(b:l, c:l) WL(c)
    on R(b): Q() += VLH(b, d) U(d)
    on R(b): X(c) += S(b, c:h)
    on R(b): XL(c) += S(b:l, c:l)
    on R(b): Z(d) += VHH(b, d)
    on R(b): Z(d) += VLH(b, d)

    on S(b, c:h): Q() += R(b) W(c)
    on S(b, c:h): X(c) += R(b)
    on S(b, c:l): Q() += R(b) T(c:l, d) U(d)
    on S(b, c:l): Z(d) += R(b) T(c:l, d:h)
    on S(b:l, c:l): XL(c) += R(b)
    on S(b:l, c:l): VLH(b, d) += T(c:l, d:h)
    on S(b:h, c:l): VHH(b, d) += T(c:l, d:h)
    on S(b:h, c:l): VHL(b, d) += T(c:l, d:l)
    on S(b:h, c:l): Y(b) += T(c:l, d) U(d)

    on T(c:h, d): Q() += U(d) X(c)
    on T(c:h, d): W(c) += U(d)
    on T(c:l, d): Q() += U(d) S(b, c:l) R(b)
    on T(c:l, d): Y(b) += U(d) S(b:h, c:l)
    on T(c:l, d:l): WL(c) += U(d)
    on T(c:l, d:l): VHL(b, d) += S(b:h, c:l)
    on T(c:l, d:h): VHH(b, d) += S(b:h, c:l)
    on T(c:l, d:h): VLH(b, d) += S(b:l, c:l)
    on T(c:l, d:h): Z(d) += S(b, c:l) R(b)

    on U(d): Q() += T(c:h, d) X(c)
    on U(d): Q() += Z(d)
    on U(d): Q() += T(c:l, d:l) XL(c)
    on U(d): Q() += VHL(b, d) R(b)
    on U(d): W(c) += T(c:h, d)
    on U(d): WL(c) += T(c:l, d:l)
    on U(d): Y(b) += VHH(b, d)
    on U(d): Y(b) += VHL(b, d)
    """,
    epsilon=0.5,
)
LOOMIS_WHITNEY = read_program(
    "Loomis-Whitney join",
    """
    relation R(a, b, c)
    split R(a, b) in R
    view VR(a, b, c) = S:h(b, c, d) T:l(c, d, a) U:l(d, a, b)
    on R(a, b, c): Q() += S:l(b, c, d) T(c, d, a) U(d, a, b)
    on R(a, b, c): Q() += #T(c, d) S:h(b, c, d) T:h(c, d, a) U(d, a, b)
    on R(a, b, c): Q() += #U(d, a) S:h(b, c, d) T:l(c, d, a) U:h(d, a, b)
    on R(a, b, c): Q() += VR(a, b, c)
    on R:h(a, b, c): VU(d, a, b) += S:l(b, c, d) T:l(c, d, a)
    on R:l(a, b, c): VT(c, d, a) += S:l(b, c, d) U:h(d, a, b)
    on R:l(a, b, c): VS(b, c, d) += #T(c, d) T:h(c, d, a) U:l(d, a, b)
    """,
    epsilon=0.5,
    turns="abcd RSTU",
)
CYCLE = read_program(
    "cycle",
    """
    relation R(a, b)
    split a(a) in R U
    view PR(a, c) = R(a, b:l) S(b:l, c)
    view HR(b, a) = S(b:h, c:l) T(c:l, d:l) U(d:l, a:h)
    on R(a, b): Q() += S(b, c:h) T(c:h, d:h) U(d:h, a)
    on R(a, b): Q() += S(b, c:h) PT(c, a)
    on R(a, b): Q() += U(d:h, a) PS(b, d)
    on R(a, b:l): Q() += S(b:l, c:l) PT(c, a)
    on R(a:l, b:h): Q() += U(d:l, a:l) PS(b, d)
    on R(a:h, b:h): Q() += HR(b, a)
    on R(a, b:l): PR(a, c) += S(b:l, c)
    on R(a:l, b): PU(d, b) += U(d, a:l)
    on R(a:l, b:h): HS(c, b) += #c(c) PT(c, a)
    on R(a:l, b:l): HT(d, c) += U(d:h, a:l) S(b:l, c:h)
    on R(a:h, b:l): HU(a, d) += #d(d) PS(b, d)
    """,
    epsilon=2 / 3,
    turns="abcd RSTU",
)
PROGRAMS: dict[str, SplitProgram] = {program.name: program for program in (PATH, LOOMIS_WHITNEY, CYCLE)}

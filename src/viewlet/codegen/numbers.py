"""Numbers of a product as code: what is multiplied, and how it is added up.

A product is a list of parts: counts (64-bit words that count rows), integers (64-bit values), wide integers (two words)
and doubles (two floats). Counts are multiplied in 64 bits, values exactly in 128, and anything with a double in it in
double-double.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.codegen.lines import Lines
from viewlet.types import SqlType

RANK = {"count": 0, "wide": 1, "double": 2}


@dataclass(frozen=True, slots=True)
class Part:
    """One factor: kind count, int, wide or double; `code` holds one name, or two for wide and double."""

    kind: str
    code: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Product:
    parts: tuple[Part, ...] = ()
    negative: bool = False

    def times(self, *parts: Part) -> Product:
        return Product(self.parts + parts, self.negative)

    def negated(self) -> Product:
        return Product(self.parts, not self.negative)

    @property
    def kind(self) -> str:
        """The kind of number the product is."""
        kinds = {part.kind for part in self.parts}
        return "double" if "double" in kinds else "wide" if kinds & {"int", "wide"} else "count"


class NumberWriter:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def count_code(self, product: Product) -> str:
        """The product of counts as one expression."""
        text = " * ".join(part.code[0] for part in product.parts if part.kind == "count") or "1"
        return f"-({text})" if product.negative else text

    def evaluate(self, product: Product, kind: str) -> tuple[str, ...]:
        """Computes a product as a number of the given kind and names the words that hold it."""
        if kind == "count":
            name, code = self._lines.fresh("n"), self.count_code(product)
            self._lines.add(f"{name} = np.int64({code})" if code in ("1", "-(1)") else f"{name} = {code}")
            return (name,)
        return self._wide(product) if kind == "wide" else self._double(product)

    def _wide(self, product: Product) -> tuple[str, str]:
        high, low = self._lines.fresh("h"), self._lines.fresh("l")
        counts = self.count_code(product)
        values = [part for part in product.parts if part.kind != "count"]
        self._lines.add(f"{low} = {counts}")
        self._lines.add(f"{high} = {low} >> 63")
        if len(values) > 2 or any(part.kind == "wide" for part in values[1:]):
            self._check_reach(low, values)
        for part in values:
            if part.kind == "int":
                self._lines.add(f"{high}, {low} = wide_mul({high}, {low}, {part.code[0]})")
            else:
                self._lines.add(f"{high}, {low} = wide_product({high}, {low}, {part.code[0]}, {part.code[1]})")
        return high, low

    def narrow(self, words: tuple[str, ...], type: SqlType) -> str:
        """The low word of a wide integer of this type, which has to hold all of it."""
        high, low = words
        self._lines.add(f"if {high} != {low} >> 63:")
        self._lines.add(f"    control[FAILURE] = {'TOO_WIDE' if type.is_wide else 'OVERFLOW'}")
        return low

    def _check_reach(self, counts: str, values: list[Part]) -> None:
        """Reports a product that would leave 128 bits, going by its size as a double."""
        sizes = [part.code[0] if part.kind == "int" else f"wide_size({', '.join(part.code)})" for part in values]
        size = self._lines.fresh("e")
        self._lines.add(f"{size} = abs(float({counts}) * {' * '.join(f'({code} + 0.0)' for code in sizes)})")
        self._lines.add(f"if {size} > 1e38:")
        self._lines.add("    control[FAILURE] = OVERFLOW")

    def _double(self, product: Product) -> tuple[str, str]:
        high, low = self._lines.fresh("f"), self._lines.fresh("g")
        self._lines.add(f"{high}, {low} = dd_of_int({self.count_code(product)})")
        for part in product.parts:
            match part.kind:
                case "int":
                    other = f"*dd_of_int({part.code[0]})"
                case "wide":
                    other = f"*dd_of_wide({part.code[0]}, {part.code[1]})"
                case "double":
                    other = f"{part.code[0]}, {part.code[1]}"
                case _:
                    continue
            if other.startswith("*"):
                first, second = self._lines.fresh("f"), self._lines.fresh("g")
                self._lines.add(f"{first}, {second} = {other[1:]}")
                other = f"{first}, {second}"
            self._lines.add(f"{high}, {low} = dd_mul({high}, {low}, {other})")
        return high, low

    def start(self, kind: str) -> tuple[str, ...]:
        """An accumulator set to zero."""
        names = tuple(self._lines.fresh("a") for _ in range(1 if kind == "count" else 2))
        zero = "0.0" if kind == "double" else "0"
        for name in names:
            self._lines.add(f"{name} = {zero}")
        return names

    def accumulate(self, target: tuple[str, ...], product: Product, kind: str) -> None:
        """target += product."""
        if kind == "count":
            self._lines.add(f"{target[0]} += {self.count_code(product)}")
            return
        words = self.evaluate(product, kind)
        function = "wide_add" if kind == "wide" else "dd_add"
        both = ", ".join(target)
        self._lines.add(f"{both} = {function}({both}, {', '.join(words)})")


def nonzero(words: tuple[str, ...]) -> str:
    return " or ".join(f"{word} != 0" for word in words)

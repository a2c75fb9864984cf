"""Row patterns, and their translation to a program that tries alternatives in the order of preferment.

    pattern ::= Variable | Empty | Start | End
              | Sequence(pattern ...) | Choice(pattern ...)
              | Repeat(pattern, least, most, is_greedy)

    A (B | C)+      BIND A; loop: SPLIT (BIND B) (BIND C); SPLIT loop end; MATCH

A split prefers its first target: the first alternative of a choice, one more round of a greedy repetition, none of a
reluctant one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

MOST_INSTRUCTIONS = 20_000
BIND, SPLIT, JUMP, START, END, ENTER, PROGRESS, MATCH = range(8)


@dataclass(frozen=True, slots=True)
class Variable:
    """A row that satisfies the condition of a variable."""

    number: int


@dataclass(frozen=True, slots=True)
class Empty:
    """No row."""


@dataclass(frozen=True, slots=True)
class Start:
    """The beginning of a group, `^`."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of a group, `$`."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    items: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several, the first one preferred."""

    items: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`least` to `most` times (None: any number); a greedy repetition prefers more."""

    item: RowPattern
    least: int
    most: int | None
    is_greedy: bool


RowPattern = Variable | Empty | Start | End | Sequence | Choice | Repeat


class PatternTooLongError(Exception):
    """A pattern whose repetitions make a program of too many instructions."""


@dataclass(frozen=True, slots=True)
class Program:
    """Instructions (operation, first operand, second operand); `marks` is how many positions loops remember."""

    steps: tuple[tuple[int, int, int], ...]
    marks: int

    def looks_for_end(self) -> bool:
        return any(operation == END for operation, _, _ in self.steps)


def compile_pattern(pattern: RowPattern) -> Program:
    """The program of a pattern.

    >>> compile_pattern(Repeat(Variable(0), 1, None, True)).steps
    ((0, 0, 0), (1, 0, 2), (7, 0, 0))
    """
    emitter = _Emitter([])
    emitter.emit(pattern)
    emitter.add(MATCH)
    return Program(tuple(emitter.steps), emitter.marks)


def can_be_empty(pattern: RowPattern) -> bool:
    """Whether a pattern can match without a row."""
    match pattern:
        case Variable():
            return False
        case Empty() | Start() | End():
            return True
        case Sequence(items):
            return all(map(can_be_empty, items))
        case Choice(items):
            return any(map(can_be_empty, items))
        case Repeat(item, least, _, _):
            return least == 0 or can_be_empty(item)
        case _:
            assert_never(pattern)


@dataclass(slots=True)
class _Emitter:
    steps: list[tuple[int, int, int]]
    marks: int = 0

    def add(self, operation: int, first: int = 0, second: int = 0) -> int:
        if len(self.steps) >= MOST_INSTRUCTIONS:
            raise PatternTooLongError
        self.steps.append((operation, first, second))
        return len(self.steps) - 1

    def emit(self, pattern: RowPattern) -> None:
        match pattern:
            case Variable(number):
                self.add(BIND, number)
            case Empty():
                pass
            case Start():
                self.add(START)
            case End():
                self.add(END)
            case Sequence(items):
                for item in items:
                    self.emit(item)
            case Choice(items):
                self._choice(items)
            case Repeat(item, least, most, is_greedy):
                self._repeat(item, least, most, is_greedy)
            case _:
                assert_never(pattern)

    def _choice(self, items: tuple[RowPattern, ...]) -> None:
        ends: list[int] = []
        for item in items[:-1]:
            split = self.add(SPLIT)
            self.emit(item)
            ends.append(self.add(JUMP))
            self.steps[split] = SPLIT, split + 1, len(self.steps)
        self.emit(items[-1])
        for end in ends:
            self.steps[end] = JUMP, len(self.steps), 0

    def _repeat(self, item: RowPattern, least: int, most: int | None, is_greedy: bool) -> None:
        for _ in range(least - 1 if most is None and not can_be_empty(item) else least):
            self.emit(item)
        if most is None:
            self._loop(item, least > 0, is_greedy)
            return
        splits: list[int] = []
        for _ in range(most - least):
            splits.append(self.add(SPLIT))
            self._guarded(item)
        for split in splits:
            self._split(split, split + 1, len(self.steps), is_greedy)

    def _loop(self, item: RowPattern, is_entered: bool, is_greedy: bool) -> None:
        """Any number of rounds. A loop that is entered without a choice has its test at the end."""
        if is_entered and not can_be_empty(item):
            start = len(self.steps)
            self.emit(item)
            split = self.add(SPLIT)
            self._split(split, start, split + 1, is_greedy)
            return
        split = self.add(SPLIT)
        self._guarded(item)
        self.add(JUMP, split)
        self._split(split, split + 1, len(self.steps), is_greedy)

    def _guarded(self, item: RowPattern) -> None:
        """A round of a repetition; one that takes no row ends nowhere, because the rounds before it would do."""
        if not can_be_empty(item):
            self.emit(item)
            return
        mark, self.marks = self.marks, self.marks + 1
        self.add(ENTER, mark)
        self.emit(item)
        self.add(PROGRESS, mark)

    def _split(self, at: int, inside: int, outside: int, is_greedy: bool) -> None:
        self.steps[at] = (SPLIT, inside, outside) if is_greedy else (SPLIT, outside, inside)

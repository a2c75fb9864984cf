"""The words of the arrays that the kernel is called with: how far it got, what it computes with, what it rebalances."""

from __future__ import annotations

ROW, CHECKED, RUN_END, DUE, BUDGET, STEPS, MINOR, MAJOR, MOVED, BALANCING, BALANCED, LONGEST, PAUSED = range(13)
"""Words of `progress`: the next row to apply; twice the next row to check, plus one for its second value; the end of a
run, and whether a value of it may have to move; the steps of rebalancing that may still be done; and what it has cost:
steps, minor and major rebalancing, tuples that minor rebalancing moved, the steps that were spent on rebalancing, those
before this run, the most of one run, and the row after which there was some last."""
PROGRESS_WORDS = 13
CHANGE, TERM, SUMS, TRIANGLE, TIMES, MOVE = range(6)
"""Rows of `scratch`: the payload of a change, a product, sums of products, the values of a triangle, the change times
the copies of its relation, and the payload of a tuple that moves."""
SCRATCH_ROWS = 6
BASE, SWEEP, SWEEP_SLOT, QUEUE_BEGIN, QUEUE_END, STEP_LIMIT, CHOICE, SEEN, SPENT, QUEUE = range(10)
"""Words of `balance`: N; the store of values, plus one, and the row in it that a major rebalancing looks at next, or 0;
how many values have left the queue and entered it; the steps of rebalancing in one update, or 0 for no limit; whether
exponents are chosen, and the updates and steps since; then the queue, with two words for each value: its store among
those of values, and the value."""
FIXED, ASKS, CHOSEN = 0, 1, 2
"""Values of `CHOICE`: exponents stay; `run` asks for them before a major rebalancing; it has them."""
QUEUE_LENGTH = 1024
BALANCE_WORDS = QUEUE + 2 * QUEUE_LENGTH
THRESHOLD, SECOND_THRESHOLD, EXPONENT, SECOND_EXPONENT = 0, 3, 6, 9
"""Words of `thresholds`, three each: those of first and of second values, and what power of N they are; -1 is none."""
THRESHOLD_WORDS = 12
DONE, NEEDS_ROOM, NEEDS_EPSILON = 0, 1, 2
"""What `run` returns."""
ANY = 7
"""All kinds of tuples, as a set of bits."""

"""Signal queries as people read them, one operator a line."""

from __future__ import annotations

from viewlet.signals import nodes
from viewlet.signals.nodes import Signal


def describe(node: Signal, depth: int = 0) -> str:
    """The query, from its sources to its last operator."""
    pad = "  " * depth
    match node:
        case nodes.Source(table, key, time, values):
            until = f" to {node.end}" if node.end else ""
            by = f" by {', '.join(key)}" if key else ""
            return f"{pad}{', '.join(values)} of {table or 'a table'}{by} at {time}{until}"
        case nodes.AsOf(left, right, gap):
            return f"{describe(left, depth + 1)}\n{pad}as of, over at most {gap}\n{describe(right, depth + 1)}"
        case nodes.Combine(left, right, operation):
            return f"{describe(left, depth + 1)}\n{pad}{operation}\n{describe(right, depth + 1)}"
        case _:
            return f"{describe(node.source, depth)}\n{pad}  {operator_text(node)}"


def operator_text(node: Signal) -> str:
    """One operator with its arguments."""
    match node:
        case nodes.Scale(_, factor):
            return f"times {factor}"
        case nodes.Offset(_, constant):
            return f"plus {constant}"
        case nodes.Shift(_, ticks):
            return f"shift by {ticks}"
        case nodes.Select(_, function):
            return f"select {function}"
        case nodes.Where(_, function):
            return f"where {function}"
        case nodes.Sample(_, grid, policy):
            how = "" if policy is None else f", {policy.name or policy.kind} over at most {policy.max_gap}"
            return f"sample {grid}{how}"
        case nodes.Downsample(_, factor):
            return f"every {factor}th beat"
        case nodes.Lfilter(_, b, a, start, missing):
            return f"lfilter of {len(b)} and {len(a)} coefficients, from {start} state, missing: {missing}"
        case nodes.Sos(_, sections, start, missing):
            return f"sosfilt of {len(sections)} sections, from {start} state, missing: {missing}"
        case nodes.Fir(_, taps, start, missing, block):
            how = f", in blocks of {block} samples, which come when complete" if block else ""
            return f"fir of {len(taps)} taps, from {start} state, missing: {missing}{how}"
        case nodes.Filter(_, name):
            return f"filter {name}"
        case nodes.Ewm(_, alpha, adjust):
            return f"ewm with alpha {alpha}{'' if adjust else ', not adjusted'}"
        case nodes.Integral(_, step, trapezoid):
            return f"integral by {'trapezia' if trapezoid else 'rectangles'} of {step}"
        case nodes.Difference(_, lag, step):
            return f"difference over {lag}" + ("" if step == 1 else f" divided by {step}")
        case nodes.Aggregate(_, operation, size, hop):
            return f"{operation} of {size} samples at every {hop}"
        case nodes.Window(_, size, hop, window, missing, stages, finish):
            weights = ", weighted" if window else ""
            chain = " | ".join(_stage(each) for each in (*stages, *((finish,) if finish else ())))
            return f"window of {size} at every {hop}{weights}, missing: {missing}" + (f": {chain}" if chain else "")
        case nodes.Whole(_, operation):
            return f"{operation} of the whole signal"
        case _:
            return type(node).__name__.lower()


def _stage(stage: nodes.Stage) -> str:
    shown = [
        f"{len(each)} values" if isinstance(each, tuple) and len(each) > 4 else str(each) for each in stage.arguments
    ]
    return f"{stage.operation}({', '.join(shown)})" if shown else stage.operation

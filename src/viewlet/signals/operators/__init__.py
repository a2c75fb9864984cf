"""The operators that run the nodes of signal queries; `operator_of` is the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viewlet.signals import nodes
from viewlet.signals.errors import SignalError
from viewlet.signals.form import form_of
from viewlet.signals.operators.as_of import LastValue
from viewlet.signals.operators.blocks import BlockConvolution
from viewlet.signals.operators.contract import Operator
from viewlet.signals.operators.filters import (
    Convolution,
    ExponentialMean,
    LaggedDifference,
    RecursiveFilter,
    RunningIntegral,
    SectionFilter,
)
from viewlet.signals.operators.join import Combination
from viewlet.signals.operators.payload_filters import (
    PayloadConvolution,
    PayloadDifference,
    PayloadIntegral,
    PayloadMean,
    PayloadRecursion,
    PayloadSum,
)
from viewlet.signals.operators.sampling import Sampling, UserSampling, is_per_group
from viewlet.signals.operators.user_filter import UserFilter
from viewlet.signals.operators.values import Addition, Condition, Delay, Scaling, Selection, Thinning
from viewlet.signals.operators.whole import WholeSequence
from viewlet.signals.operators.windows import SlidingSum, WindowPipeline

OPERATORS: dict[type, Callable[[Any], Operator]] = {
    nodes.Scale: Scaling,
    nodes.Offset: Addition,
    nodes.Shift: Delay,
    nodes.Select: Selection,
    nodes.Where: Condition,
    nodes.Downsample: Thinning,
    nodes.Sample: lambda node: UserSampling(node) if is_per_group(node) else Sampling(node),
    nodes.Sos: SectionFilter,
    nodes.Lfilter: RecursiveFilter,
    nodes.Fir: lambda node: BlockConvolution(node) if node.block else Convolution(node),
    nodes.Ewm: ExponentialMean,
    nodes.Integral: RunningIntegral,
    nodes.Difference: LaggedDifference,
    nodes.Filter: UserFilter,
    nodes.Aggregate: SlidingSum,
    nodes.Window: WindowPipeline,
    nodes.AsOf: LastValue,
    nodes.Combine: Combination,
    nodes.Whole: WholeSequence,
}


PAYLOAD_OPERATORS: dict[type, Callable[[Any], Operator]] = {
    nodes.Fir: PayloadConvolution,
    nodes.Lfilter: PayloadRecursion,
    nodes.Sos: PayloadRecursion,
    nodes.Ewm: PayloadMean,
    nodes.Integral: PayloadIntegral,
    nodes.Difference: PayloadDifference,
    nodes.Aggregate: PayloadSum,
}
"""Those of values with an arithmetic of their own; other operators are the same for all values."""


def operator_of(node: Any) -> Operator:
    """What runs a node."""
    if isinstance(node, nodes.Combine) and form_of(node).grid is None:
        raise SignalError("signals that are combined have samples when they are sampled: sample() the outcome")
    if type(node) in PAYLOAD_OPERATORS and form_of(node).payload:
        return PAYLOAD_OPERATORS[type(node)](node)
    return OPERATORS[type(node)](node)

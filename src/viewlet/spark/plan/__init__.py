"""From trigger programs to distributed programs, in pure Python (thesis, chapter 5)."""

from viewlet.spark.plan.compile import DistributedProgram, compile_distributed
from viewlet.spark.plan.drawing import draw_plan
from viewlet.spark.plan.explain import show_plan
from viewlet.spark.plan.program import BatchPlan, Block, Compute, Move
from viewlet.spark.plan.stages import Complexity, complexity, stages

__all__ = [
    "BatchPlan",
    "Block",
    "Complexity",
    "Compute",
    "DistributedProgram",
    "Move",
    "compile_distributed",
    "complexity",
    "draw_plan",
    "show_plan",
    "stages",
]

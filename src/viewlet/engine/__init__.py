"""Engines and kinds of views: the contract that every engine meets, the table of kinds, and the choice of an engine."""

from __future__ import annotations

from viewlet.engine.contract import Engine, LocalEngine
from viewlet.engine.kind import CompiledForm, DistributedForm, Draft, Subject, ViewKind
from viewlet.engine.kinds import register_kind

__all__ = [
    "CompiledForm",
    "DistributedForm",
    "Draft",
    "Engine",
    "LocalEngine",
    "Subject",
    "ViewKind",
    "register_kind",
]

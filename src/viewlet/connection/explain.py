"""What `explain` prints: the stages that a view went through. Which those are, its kind and its engine say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from viewlet.changes import did_you_mean
from viewlet.connection.database import Database
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import Subject
from viewlet.engine.kinds import kind_of
from viewlet.engine.maintained_view import MaintainedView
from viewlet.engine.shape import shape_of
from viewlet.errors import SqlError
from viewlet.visible import described, visible

FORMATS = ("text", "svg")
DRAWN = "view-tree"
ANALYZE = "analyze"
"""The stage that shows what was measured, for every kind of view."""
NOT_RUNNING = "none: the query is not declared as a view"


def explain_view(database: Database, view: MaintainedView, stage: str | None, format: str = "text") -> str:
    """One stage of a view, or without `stage` the ones that say what it is and how it is maintained."""
    _check_types(stage, format)
    if stage is not None and stage.lower() == ANALYZE:
        _check_format(format, stage)
        return visible("\n".join(_measured(database, view)))
    engine = view.engine
    own = engine.stages(format)
    if stage is not None and stage.lower() in own:
        return visible(str(own[stage.lower()]()))
    subject = _subject(database, view.declared, _engine_of(view), format, engine.plan)
    return visible(_explain(subject, stage))


def _engine_of(view: MaintainedView) -> str:
    """What runs a view and why, in words."""
    shared = f"; shared with view {', '.join(view.sharers)}" if view.sharers else ""
    sharing = view.maintainer.sharing
    names = ", ".join(f"{each.name} as {name}" for name, each in sharing.borrowed.items()) if sharing else ""
    return f"{view.engine.name}: {view.choice.reason}{shared}" + (f"; it reads {names}" if names else "")


def _measured(database: Database, view: MaintainedView) -> Iterator[str]:
    """What batches of a view have taken, as lines of text."""
    stats = dict[str, Any](database.stats(view.name))
    since = datetime.fromtimestamp(view.maintainer.since).isoformat(" ", "seconds")
    yield f"view {view.name} ({view.engine.plan.strategy}), epoch {database.epoch}"
    yield f"engine: {_engine_of(view)}"
    yield f"since: {since}" + (
        f", compiled in {stats['compile_seconds']:.2f} s" if stats.get("compile_seconds") else ""
    )
    if "last_batch" not in stats:
        yield "batches are measured for all views together: db.stats()['batches']"
        return
    seconds, last = stats["seconds"], stats["last_batch"]
    yield f"rows: {stats['rows']:,}"
    yield f"batches: {stats['batches']:,}, changed rows in: {stats['tuples']:,}, seconds: {sum(seconds.values()):.6f}"
    if last:
        out = f", out: {last['changed']:,}" if "changed" in last else ""
        rows, took = sum(last["tuples"].values()), sum(last["seconds"].values())
        yield f"last batch: changed rows in: {rows:,}{out}, seconds: {took:.6f}"
        yield ""
        yield from _by_source(seconds, last["tuples"], last["seconds"])


def _by_source(seconds: Mapping[str, float], rows: Mapping[str, int], took: Mapping[str, float]) -> Iterator[str]:
    """The seconds in the triggers of each source, and what the last batch had of it."""
    width = max(map(len, ("source", *seconds)))
    yield f"{'source':{width}}  {'seconds':>12}  {'last rows':>9}  {'last seconds':>12}"
    for source in sorted(seconds):
        last = f"  {rows[source]:>9,}  {took[source]:12.6f}" if source in rows else ""
        yield f"{source:{width}}  {seconds[source]:12.6f}{last}"


def explain_query(database: Database, declared: Declaration, stage: str | None) -> str:
    """Stages of a query that is planned but not maintained, as text; what was measured is that of an equal view."""
    if stage == ANALYZE:
        equal = next((view for view in database.views.values() if _is_like(view, declared)), None)
        if equal is None:
            raise SqlError("no view has this query: EXPLAIN ANALYZE shows what batches of a view took", declared.sql)
        return explain_view(database, equal, stage)
    return _explain(_subject(database, database.host.choose(declared), NOT_RUNNING), stage)


def _is_like(view: MaintainedView, declared: Declaration) -> bool:
    """A view with this query, whatever its strategy."""
    known = view.declared
    shape = shape_of(replace(declared, strategy=known.strategy, layered=known.layered))
    return shape is not None and shape == shape_of(known)


def _subject(database: Database, declared: Declaration, engine: str, format: str = "text", plan: Any = None) -> Subject:
    """What is asked about: a view with its plan, or a query that has none yet."""
    host = database.host
    flat = host.over_tables(declared)
    tables = database.catalogue.sources_of(flat)
    if plan is None:
        plan = host.plan(flat, tables)
    return Subject(declared, plan, flat, tables, host.measure, engine, format)


def _check_types(stage: object, format: object = "text") -> None:
    if stage is not None and not isinstance(stage, str):
        raise SqlError(f"a stage to explain is a string, not {described(stage)}")
    if not isinstance(format, str):
        raise SqlError(f"explain() writes {' or '.join(FORMATS)}, not {described(format)}")


def _explain(subject: Subject, stage: str | None) -> str:
    _check_types(stage)
    _check_format(subject.format, stage)
    kind = kind_of(subject.over_tables)
    stages = kind.stages(subject)
    if stage is None:
        shown = (f"-- {name}\n{stages[name]()}" for name in kind.summary)
        return "\n\n".join([f"view {subject.declared.name} ({subject.plan.strategy})", *shown])
    return stages[_known(stage, stages)]()


def _check_format(format: str, stage: str | None) -> None:
    if format not in FORMATS:
        raise SqlError(f"explain() writes {' or '.join(FORMATS)}, not {described(format)}")
    if format == "svg" and (stage is None or stage.lower() != DRAWN):
        raise SqlError(f"only the stage {DRAWN!r} has a picture: explain(name, stage={DRAWN!r}, format='svg')")


def _known(stage: str, stages: Mapping[str, object]) -> str:
    if stage.lower() not in stages:
        hint = did_you_mean(stage, stages)
        raise SqlError(f"there is no stage {stage!r} to explain; the stages are {', '.join(stages)}, {ANALYZE}{hint}")
    return stage.lower()

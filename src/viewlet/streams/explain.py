"""What `explain` tells of a stream view: its class (section 6), and the view delta functions that keep it."""

from __future__ import annotations

from datetime import datetime, timedelta

from viewlet.streams.definition import BEGINNING, PartView


def classify(view: PartView) -> str:
    """The class of a view by what an update reads, with the reason."""
    family = (view, *view.helpers)
    searched = [each for each in family if each.matching is not None]
    if searched:
        source = searched[0].references()[0].relation
        return f"incrementally maintainable: new parts of {source} are searched from where each group's search resumes"
    recursive = [each for each in family if each.reads_itself or each.partners]
    if recursive:
        names = ", ".join(each.name for each in recursive)
        return f"incrementally maintainable: {names} keeps what an update needs of all earlier parts"
    widest = max(len(each.parts(0)) for part in family for each in part.update.references if not each.is_table)
    if view.helpers:
        return f"distributive over a window: {widest} parts of helpers are merged for each part"
    return f"bounded in time: an update reads at most {widest} parts of a source"


def describe_view(view: PartView) -> str:
    """The view delta functions of a view and its helpers, in the order of their computation."""
    return "\n\n".join(_text(each) for each in (*view.helpers, view))


def _text(view: PartView) -> str:
    name = view.name if view.name.isidentifier() else f'"{view.name}"'
    if view.matching is not None:
        return f"CREATE VIEW {name} AS\nSELECT * FROM {view.matching.source} {view.matching.text}"
    lines = [
        f"CREATE VIEW {name} AS",
        f"INITIALIZE {name}[j]{_start(view)} AS",
        f"    {view.initialize.text()}",
        *([] if view.quick is None else [f"-- where no group has several rows: {view.quick.update.text()}"]),
        f"UPDATE {name}[j] AS",
        f"    {view.update.text()}",
        f"PARTITION LENGTH {view.length}",
    ]
    return "\n".join(lines)


def _start(view: PartView) -> str:
    if view.start is None:
        return ""
    if view.start == BEGINNING:
        return " FROM BEGINNING"
    start = datetime(1970, 1, 1) + timedelta(microseconds=view.start)
    return f" FROM TIMESTAMP '{start}'"


def script(view: PartView) -> str:
    """The statements that maintain a view, as a script."""
    if view.family:
        return (
            "CREATE VIEW " + ",\n\n".join(_text(each)[len("CREATE VIEW ") :] for each in (view, *view.family)) + ";\n"
        )
    return ";\n\n".join(_text(each) for each in (*view.helpers, view)) + ";\n"

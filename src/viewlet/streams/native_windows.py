"""Parts of window views whose partial aggregates are merged in this process: the kernel, the catalogue and the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

from viewlet.streams.definition import PartQuery, PartView
from viewlet.streams.host import InProcessHost, PartHost
from viewlet.streams.render import read_parts, rows_of, start_literal

if TYPE_CHECKING:
    from viewlet.streams.maintainer import Maintainer

MERGED = "merged rows"
"""What the host knows the rows of the kernel by."""


def merges_natively(host: PartHost) -> TypeGuard[InProcessHost]:
    """Windows of this host can be merged in this process."""
    return isinstance(host, InProcessHost)


def compute_natively(maintainer: Maintainer, view: PartView, query: PartQuery, number: int, table: str) -> int | None:
    """Makes a part of a window view, and tells the number of its rows; None if the host has to merge the window."""
    host, native = maintainer.host, view.native
    if native is None or query is view.fallback or not merges_natively(host):
        return None
    merged = _merged(maintainer, view, query, number)
    if merged is None:
        return None
    start = start_literal(host, number, view.length)
    sql = maintainer.queries.render(native.query, lambda _: host.quote(MERGED), start)
    maintainer.created.append(table)
    return host.create_over(table, maintainer.typed(view, sql), MERGED, merged)


def _merged(maintainer: Maintainer, view: PartView, query: PartQuery, number: int) -> Any | None:
    """The merged rows of a window, as Arrow."""
    from viewlet.streams.window_kernel import NotNativeError, WindowKernel

    assert view.native is not None
    host, helper = maintainer.host, maintainer.catalogue.relations[query.references[0].relation]
    read = [part for each in query.references for part in read_parts(each, helper, number)]
    kernel = maintainer.kernels.get(view.name)
    if kernel is None:
        width = sum(len(each.parts(number)) for each in query.references)
        kernel = WindowKernel(view.native.groups, dict(view.native.merges), view.native.rows, width)
        maintainer.kernels[view.name] = kernel

    def rows(part: int) -> Any:
        return host.read(f"SELECT * FROM {rows_of(host, helper, [part])} AS part")

    try:
        return kernel.window(sorted(set(read)), helper.part, rows)
    except NotNativeError:
        return None

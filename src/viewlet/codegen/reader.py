"""The generated reader of a result over stored views, for modules of blocks that have no code for it.

    Exists(a.count[k]) * (low := min x: b.count[k, x])          for each row of `a`, the rows of `b` with the same k

Blocks of a distributed program have only the indexes that batches need, since every batch maintains them. A result that
needs others, such as the slice of `b` by k, is read by a module of its own: it copies the rows of such views, and
indexes the copies for the time of one reading. Views that need no other index are read where they are. So are those of
results of other queries that the stored views of the program suffice for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from viewlet.algebra.nodes import View
from viewlet.algebra.traverse import walk
from viewlet.codegen.lines import Lines
from viewlet.codegen.module_writer import GeneratedModule, ModuleWriter, layout_of
from viewlet.codegen.names import hint
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.process import Process
from viewlet.codegen.result import write_result
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FlatStore
from viewlet.triggers.program import Program


def write_reader(program: Program) -> GeneratedModule | None:
    """A module with nothing but the reader of a result; None if generated code cannot express it."""
    module = ModuleWriter([program.result])
    read = {node.name for node in walk(program.result) if isinstance(node, View)}
    layouts = {name: replace(layout_of(program.view(name)), transient=True) for name in sorted(read)}
    writer = module.products(Lines(depth=1), layouts)
    writer.is_read_once = True
    try:
        function = write_result(program, module, writer, selects=False)
        complete = module.requests.layouts(layouts)
    except NotCompilable:
        return None
    return None if function is None else module.module(f"The result of {hint(program.name)}", complete, function)


class ResultReader:
    """Reads the result of a program from the stores of a node; without a module it reads nothing."""

    def __init__(self, module: GeneratedModule | None, dictionary: StringDictionary) -> None:
        layouts = () if module is None else module.layouts
        self._process = None if module is None else Process(module, dictionary)
        self.function = None if module is None else module.result
        self._scratches = [layout.name for layout in layouts if layout.scratch]
        self._views = [layout.name for layout in layouts if not layout.scratch]
        self._copied = [layout.name for layout in layouts if layout.slices or layout.ordered]

    @contextmanager
    def over(self, stores: Mapping[str, FlatStore]) -> Iterator[Process | None]:
        """The process that reads the result of the rows in some stores."""
        process = self._process
        if process is None:
            yield None
            return
        process.read_from({name: stores[name] for name in self._views if name not in self._copied})
        rows = sum(len(stores[name]) for name in self._views)
        try:
            for name in self._copied:
                process.stores[name].fill(stores[name].packed())
            for name in self._scratches:
                process.stores[name].reserve(rows)
            yield process
        finally:
            for name in (*self._copied, *self._scratches):
                process.stores[name].drain()

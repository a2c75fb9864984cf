"""The generated module that reads another result from the stores of a module.

The views of a distributed program may hold what other queries need too. Their results are read from its stores as they
are: what such a result would need an index for is found by a scan.
"""

from __future__ import annotations

from dataclasses import replace

from viewlet.algebra.nodes import View
from viewlet.algebra.traverse import walk
from viewlet.codegen.blocks import BlockModule
from viewlet.codegen.lines import Lines
from viewlet.codegen.module_writer import ModuleWriter
from viewlet.codegen.names import hint
from viewlet.codegen.result import write_result
from viewlet.triggers.program import Program
from viewlet.triggers.result_view import result_store


def write_reader(program: Program, blocks: BlockModule) -> BlockModule | None:
    """A module without statements for the result of a program over the views of another; None if it has no such code.

    Like that of the other program, it is read by code if each of its rows is made of one row of a view.
    """
    shown = result_store(program)
    if shown is None:
        return None
    read = {node.name for node in walk(program.result) if isinstance(node, View)}
    layouts = {layout.name: layout for layout in blocks.generated.layouts if layout.name in read}
    module = ModuleWriter([program.result])
    products = module.products(Lines(depth=1), layouts)
    products.range_scans.may_request = False
    result = write_result(program, module, products, selects=False)
    requests = module.requests
    if result is None or requests.slices or requests.orders:
        return None
    scratches = {layout.name: layout for layout in requests.scratches}
    generated = module.module(f"The result of {hint(program.name)}", {**layouts, **scratches}, result)
    keys = {name: blocks.keys[name] for name in layouts}
    return replace(
        blocks,
        generated=generated,
        computations={},
        keys=keys,
        changes={},
        temporaries={},
        delta_columns={},
        shown=shown,
    )

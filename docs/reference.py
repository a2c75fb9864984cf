"""The API reference: one page for each public module, written by pdoc from the docstrings.

`make docs`, or `python docs/reference.py FOLDER`, writes it. A page lists the names that users may rely on and nothing
else; `PAGES` is the list of them, in reading order.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType


@dataclass(frozen=True, slots=True)
class Page:
    """The public names of one module. An empty tuple of names stands for the module's `__all__`."""

    module: str
    names: tuple[str, ...] = ()

    def members(self) -> dict[str, object]:
        """The public objects by name."""
        module = import_module(self.module)
        names = self.names or tuple(name for name in module.__all__ if not name.startswith("__"))
        return {name: getattr(module, name) for name in names}

    def contents(self) -> ModuleType:
        """A module that holds the public names only."""
        page = ModuleType(self.module, import_module(self.module).__doc__)
        members = self.members()
        page.__dict__.update(members, __all__=list(members))
        return page


PAGES = (
    Page(
        "viewlet",
        (
            "connect",
            "Connection",
            "View",
            "product",
            "as_products",
            "spark_session",
            "register_format",
            "changes_of",
            "ViewletError",
            "SqlError",
            "UnsupportedError",
            "SchemaError",
            "DataError",
            "ConstraintError",
            "StateError",
            "MissingExtraError",
            "InternalError",
        ),
    ),
    Page(
        "viewlet.view",
        ("Relation", "StoredTable", "View", "CofactorView", "FactorisedView", "TriangleView", "Subscription"),
    ),
    Page("viewlet.connection.spark_facade", ("SparkConnection", "SparkView", "SparkRelation", "SparkStream")),
    Page(
        "viewlet.dbapi",
        (
            *("connect", "Connection", "Cursor", "TypeObject", "Warning", "Error", "InterfaceError", "DatabaseError"),
            *("DataError", "OperationalError", "IntegrityError", "InternalError", "ProgrammingError"),
            *("NotSupportedError", "DateFromTicks", "TimeFromTicks", "TimestampFromTicks"),
        ),
    ),
    Page("viewlet.engine"),
    Page("viewlet.engine.partitioned", ("partitioned",)),
    Page("viewlet.sketches"),
    Page("viewlet.linalg"),
    Page(
        "viewlet.linalg.analyses",
        ("least_squares", "ridge", "gradient_descent", "markov_chain", "power_iteration", "path_counts", "expm"),
    ),
    Page("viewlet.linalg.pagerank", ("PageRank",)),
    Page("viewlet.streams", ("Updates", "PartInfo", "foreach_batch")),
    Page("viewlet.engine.stream_views", ("StreamView",)),
    Page("viewlet.signals"),
    Page("viewlet.engine.signal_handle", ("SignalView",)),
    Page("viewlet.ml"),
    Page("viewlet.ml.estimator", ("Estimator", "CofactorEstimator")),
)


def write(folder: Path) -> None:
    """Writes the pages, an index and the search index into a folder."""
    import pdoc.doc
    import pdoc.render

    templates = Path(__file__).parent / "templates"
    pdoc.render.configure(docformat="markdown", show_source=False, footer_text="Viewlet", template_directory=templates)
    modules = {page.module: pdoc.doc.Module(page.contents()) for page in PAGES}
    folder.mkdir(parents=True, exist_ok=True)
    for name, module in modules.items():
        file = folder / f"{name.replace('.', '/')}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(pdoc.render.html_module(module, modules), encoding="utf-8")
    (folder / "index.html").write_text(pdoc.render.html_index(modules), encoding="utf-8")
    (folder / "search.js").write_text(pdoc.render.search_index(modules), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))

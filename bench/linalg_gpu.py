"""Matrix powers on one GPU: `PYTHONPATH=src python3 -m bench.linalg_gpu [--out FOLDER] [--most 32768]`.

Checks the back end against NumPy in float64 first, and stops if it is wrong. Then it measures A^16 by the exponential
model after one-row changes of A, for n = 4,096 to 32,768 in float32 and float64: our program through its whole API, a
hand-written PyTorch program, re-evaluation with cuBLAS, and the limit: five matrices read and written once at the
bandwidth that a plain copy reaches here. Writes `linalg-gpu.jsonl`, `linalg-gpu.md` and, with matplotlib,
`linalg-gpu.png`. It needs NumPy, SciPy, PyTorch and Triton only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from viewlet import linalg

SIZES = (4096, 8192, 16384, 32768)
KINDS = ("float32", "float64")
TOLERANCE = {"float32": 2e-4, "float64": 1e-11}
POWER = 16
MATRICES = 5


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    arguments.add_argument("--most", type=int, default=SIZES[-1])
    arguments.add_argument("--steps", type=int, default=20)
    arguments.add_argument("--check", action="store_true", help="only compare with NumPy")
    given = arguments.parse_args()
    torch = import_torch()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}", flush=True)
    works = check(torch)
    if given.check:
        sys.exit(0 if works else 1)
    given.out.mkdir(parents=True, exist_ok=True)
    records = []
    for kind in KINDS:
        for n in SIZES:
            if n <= given.most:
                records.append(measure(torch, n, kind, given.steps, works))
                print(json.dumps(records[-1]), flush=True)
                write(given.out, torch, records)


def import_torch() -> Any:
    try:
        import torch
        import triton  # noqa: F401
    except ImportError as missing:
        sys.exit(f"this benchmark needs PyTorch and Triton: {missing}")
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a GPU, and PyTorch sees none")
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch


# -- is it right? ------------------------------------------------------------------------------------------------------


def check(torch: Any) -> bool:
    """Whether the kernel agrees with NumPy; programs have to, with the kernel or, if it is wrong, without it."""
    works = True
    try:
        check_kernel(torch)
    except Exception:
        works = False
        traceback.print_exc()
        print("the kernel is WRONG: everything below is measured without it, on cuBLAS alone", flush=True)
    for kind in KINDS:
        check_programs(kind, kernel=works)
    print("programs agree with NumPy", flush=True)
    return works


def check_kernel(torch: Any) -> None:
    from viewlet.linalg.backends.torch_backend import TorchBackend

    rng = np.random.default_rng(0)
    for kind in KINDS:
        backend = TorchBackend(kind)
        for rows, columns in ((1, 1), (63, 65), (300, 1000), (1025, 257)):
            for a, b, r in ((1, 1, 1), (2, 3, 5), (8, 8, 8), (0, 0, 16), (4, 0, 0), (0, 7, 32), (40, 1, 1)):
                shapes = ((rows, columns), (columns, a), (rows, b), (rows, r), (columns, r))
                host = [rng.standard_normal(shape).astype(kind) for shape in shapes]
                p, x, y, u, v = (backend.array(each, copy=True) for each in host)
                update = (u, v) if r else None
                outcomes = []
                for _ in range(2):
                    own = p.clone()
                    found = backend.sweep(own, update, x if a else None, y if b else None)
                    outcomes.append([part for part in (own, *found) if part is not None])
                assert all(torch.equal(*pair) for pair in zip(*outcomes, strict=True)), "not the same bits twice"
                old, x64, y64, u64, v64 = (each.astype(np.float64) for each in host)
                wanted = [old + u64 @ v64.T, *([old @ x64] if a else []), *([old.T @ y64] if b else [])]
                for got, right in zip(outcomes[0], wanted, strict=True):
                    assert relative(backend.numpy(got), right) < TOLERANCE[kind], (kind, rows, columns, a, b, r)


def check_programs(kind: str, *, kernel: bool = True) -> None:
    from viewlet.linalg.backends.torch_backend import TorchBackend

    n, m, p = linalg.dim("n"), linalg.dim("m"), linalg.dim("p")
    a, x, y = (
        linalg.matrix(name, *shape, dynamic=True) for name, shape in (("A", (n, n)), ("X", (m, n)), ("Y", (m, p)))
    )
    program = linalg.program(
        C=linalg.matrix_power(a, POWER, model="exponential"),
        T=linalg.matrix_power(a, 6, model="telescoped"),
        S=linalg.power_sum(a, 8),
        beta=linalg.solve(x.T @ x, x.T @ y),
    )
    rng = np.random.default_rng(1)
    host = {
        "A": rng.standard_normal((200, 200)) / 16,
        "X": rng.standard_normal((900, 200)),
        "Y": rng.standard_normal((900, 3)),
    }
    run = program.start(
        **{name: value.astype(kind) for name, value in host.items()},
        strategy="incremental",
        backend=TorchBackend(kind, kernel=kernel),
    )
    for i in range(10):
        row, column = rng.standard_normal(200) / 16, rng.standard_normal(200) / 16
        run.set_row("A", i, row)
        run.set_column("A", i, column)
        host["A"][i], host["A"][:, i] = row, column
        u, v = rng.standard_normal((200, 2)) / 16, rng.standard_normal((200, 2)) / 16
        run.update("A", u, v)
        host["A"] += u @ v.T
        rows = rng.standard_normal((1, 200))
        run.set_row("X", i, rows)
        host["X"][i] = rows
        run.set("Y", i, 1, 0.5)
        host["Y"][i, 1] = 0.5
    now = host["A"]
    wanted = {
        "C": np.linalg.matrix_power(now, POWER),
        "T": np.linalg.matrix_power(now, 6),
        "S": sum(np.linalg.matrix_power(now, i) for i in range(8)),
        "beta": np.linalg.lstsq(host["X"], host["Y"])[0],
    }
    for name, right in wanted.items():
        error = relative(run[name], right)
        assert error < 10 * TOLERANCE[kind], (kind, name, error)


def relative(found: Any, wanted: Any) -> float:
    return float(np.linalg.norm(np.asarray(found, float) - wanted) / max(np.linalg.norm(wanted), 1e-300))


# -- how fast is it? ---------------------------------------------------------------------------------------------------


def measure(torch: Any, n: int, kind: str, steps: int, kernel: bool) -> dict[str, Any]:
    """Medians in milliseconds; the two incremental programs are compared with each other at the end."""
    dtype = getattr(torch, kind)
    start, rows = inputs(torch, n, dtype, steps)
    bandwidth = copy_bandwidth(torch, n, dtype)
    ours, result = our_steps(torch, start, rows, kind, kernel)
    theirs, rival = rival_steps(torch, start, rows)
    error = float(torch.linalg.norm(result.double() - rival.double()) / torch.linalg.norm(rival.double()))
    del result, rival
    again = reevaluation(torch, start, rows)
    limit = MATRICES * 2 * n * n * start.element_size() / bandwidth * 1e3
    return {
        "kind": kind,
        "n": n,
        "viewlet_ms": ours,
        "pytorch_ms": theirs,
        "reevaluation_ms": again,
        "limit_ms": limit,
        "bandwidth_tb_s": bandwidth / 1e12,
        "times_limit": ours / limit,
        "speedup": again / ours,
        "difference": error,
        "kernel": "triton" if kernel else "cuBLAS",
        "device": torch.cuda.get_device_name(),
    }


def inputs(torch: Any, n: int, dtype: Any, steps: int) -> tuple[Any, Any]:
    """A matrix of spectral radius below one, and the rows that replace its first ones."""
    torch.manual_seed(n)
    scale = 1.0 / (1.02 * n**0.5)
    start = torch.randn((n, n), dtype=dtype, device="cuda") * scale
    return start, torch.randn((steps + 3, n), dtype=dtype, device="cuda") * scale


def timed(torch: Any, steps: int, step: Callable[[int], None]) -> float:
    """The median time of a step by events of the GPU, after three to warm up."""
    found = []
    for i in range(steps):
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        step(i)
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end))
    return statistics.median(found[3:])


def copy_bandwidth(torch: Any, n: int, dtype: Any) -> float:
    """Bytes read and written in a second by a plain copy of a matrix."""
    source = torch.randn((n, n), dtype=dtype, device="cuda")
    target = torch.empty_like(source)
    milliseconds = timed(torch, 13, lambda _: target.copy_(source))
    return float(2 * source.numel() * source.element_size() / milliseconds * 1e3)


def our_steps(torch: Any, start: Any, rows: Any, kind: str, kernel: bool) -> tuple[float, Any]:
    from viewlet.linalg.backends.torch_backend import TorchBackend

    n = linalg.dim("n")
    a = linalg.matrix("A", n, n, dynamic=True)
    program = linalg.program(C=linalg.matrix_power(a, POWER, model="exponential"))
    run = program.start(A=start, strategy="incremental", backend=TorchBackend(kind, kernel=kernel), dtype=kind)
    found = timed(torch, len(rows), lambda i: run.set_row("A", i, rows[i]))
    result = run.array("C").clone()
    return found, result


def rival_steps(torch: Any, start: Any, rows: Any) -> tuple[float, Any]:
    """Hand-written factored deltas: thin products by `matmul`, updates by `addmm_`."""
    powers = [start.clone()]
    for _ in range(MATRICES - 1):
        powers.append(powers[-1] @ powers[-1])

    def step(i: int) -> None:
        u = torch.zeros((len(start), 1), dtype=start.dtype, device="cuda")
        u[i] = 1.0
        v = (rows[i] - powers[0][i])[:, None]
        for power in powers:
            ahead, behind = power @ u, power.T @ v
            new_u = torch.cat([u, ahead + u @ (v.T @ u)], dim=1)
            new_v = torch.cat([behind, v], dim=1)
            power.addmm_(u, v.T)
            u, v = new_u, new_v

    return timed(torch, len(rows), step), powers[-1]


def reevaluation(torch: Any, start: Any, rows: Any) -> float:
    """Four products by cuBLAS, the first of few runs left out."""
    own = start.clone()

    def step(i: int) -> None:
        own[i] = rows[i]
        power = own
        for _ in range(MATRICES - 1):
            power = power @ power

    few = 6 if len(start) <= 16384 else 5
    return timed(torch, few, step)


# -- the record --------------------------------------------------------------------------------------------------------


INTRODUCTION = """# Matrix powers on a GPU

{device}, PyTorch {torch}, CUDA {cuda}; written by `python3 -m bench.linalg_gpu`. A^16 by the exponential model after a
one-row change of A; medians of a step. The limit is five matrices read and written once at the bandwidth that a plain
copy of such a matrix reaches. PyTorch: hand-written factored deltas (`matmul`, `addmm_`). Re-evaluation: four products
by cuBLAS, without TF32. Difference: relative, between the first two, after all steps.
"""
COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "type": lambda one: str(one["kind"]),
    "n": lambda one: f"{one['n']:,}",
    "Viewlet, ms": lambda one: f"{one['viewlet_ms']:.3g}",
    "limit, ms": lambda one: f"{one['limit_ms']:.3g}",
    "times the limit": lambda one: f"{one['times_limit']:.2f}",
    "PyTorch, ms": lambda one: f"{one['pytorch_ms']:.3g}",
    "re-evaluation, ms": lambda one: f"{one['reevaluation_ms']:,.0f}",
    "speed-up": lambda one: f"{one['speedup']:.0f}x",
    "copy, TB/s": lambda one: f"{one['bandwidth_tb_s']:.2f}",
    "difference": lambda one: f"{one['difference']:.0e}",
}


def write(folder: Path, torch: Any, records: list[dict[str, Any]]) -> None:
    lines = [json.dumps(record) for record in records]
    (folder / "linalg-gpu.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = INTRODUCTION.format(device=torch.cuda.get_device_name(), torch=torch.__version__, cuda=torch.version.cuda)
    rows = [list(COLUMNS), ["---"] * len(COLUMNS)]
    rows += [[written(one) for written in COLUMNS.values()] for one in records]
    text += "\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)
    if draw(folder / "linalg-gpu.png", records):
        text += "\n![time of a step over n](linalg-gpu.png)\n"
    (folder / "linalg-gpu.md").write_text(text, encoding="utf-8")


def draw(file: Path, records: list[dict[str, Any]]) -> bool:
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, kind in zip(axes, KINDS, strict=True):
        own = [one for one in records if one["kind"] == kind]
        for key, label in (
            ("viewlet_ms", "Viewlet"),
            ("limit_ms", "limit"),
            ("pytorch_ms", "PyTorch by hand"),
            ("reevaluation_ms", "re-evaluation"),
        ):
            axis.loglog([one["n"] for one in own], [one[key] for one in own], marker="o", label=label)
        axis.set_title(kind)
        axis.set_xlabel("n")
    axes[0].set_ylabel("ms per one-row update")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    return True


if __name__ == "__main__":
    main()

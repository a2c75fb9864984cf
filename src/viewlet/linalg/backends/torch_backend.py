"""The back end on PyTorch: matrices stay on a GPU, products by cuBLAS, one pass over a matrix by a kernel in Triton."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from viewlet.errors import MissingExtraError
from viewlet.linalg.backends.contract import Progress, Recorder, Thin
from viewlet.linalg.errors import MatrixDataError
from viewlet.linalg.machine import NOMINAL, Machine, fastest
from viewlet.linalg.values import Units, checked_matrix

GPU_STEP = 2e-5
"""Seconds that any step takes: the launch of a kernel from Python."""


@dataclass(frozen=True, slots=True)
class DeviceUnits(Units):
    """Unit vectors whose places are a tensor on the device, so that a recording can be replayed with other places."""

    index: Any


class TorchRecording:
    """Launches as a CUDA graph, with the buffers that hold its factors."""

    def __init__(self, graph: Any, buffers: Mapping[Any, Any]) -> None:
        self._graph = graph
        self._buffers = buffers

    def replay(self, factors: Mapping[Any, Thin]) -> None:
        """Fills the buffers and launches the graph."""
        for name, buffer in self._buffers.items():
            factor = factors[name]
            if isinstance(buffer, DeviceUnits):
                _fill_places(buffer.index, factor)
            else:
                buffer.copy_(factor)
        self._graph.replay()


def _fill_places(index: Any, units: Thin) -> None:
    assert isinstance(units, Units)
    if len(units.places) == 1:
        index.fill_(int(units.places[0]))
    else:
        index.copy_(import_module("torch").from_numpy(units.places))


class TorchBackend:
    """Tensors of PyTorch on one device, a GPU where there is one; without `kernel` cuBLAS does all."""

    name = "torch"
    is_exact = False
    factors = False
    is_durable = False
    progress: Progress | None = None
    """Nothing outlives the process."""

    def __init__(self, dtype: Any, device: str | None = None, *, kernel: bool = True) -> None:
        try:
            self._torch: Any = import_module("torch")
        except ImportError as missing:
            raise MissingExtraError("backend='torch' needs PyTorch: pip install torch") from missing
        self.device = device or ("cuda" if self._torch.cuda.is_available() else "cpu")
        self.dtype = np.dtype(dtype)
        self._kind = getattr(self._torch, self.dtype.name)
        self._pool: Any = None
        """The memory that recordings share: one runs at a time."""
        self._kernel: Any = None
        if kernel and self.device.startswith("cuda"):
            self._kernel = import_module("viewlet.linalg.backends.triton_sweep")

    def machine(self) -> Machine:
        """The rates of the device, measured once."""
        return _measured(self.device, self.dtype.name)

    def checked(self, value: Any, name: str) -> Any:
        """A matrix of finite numbers: a tensor of PyTorch stays where it is."""
        if not isinstance(value, self._torch.Tensor):
            return checked_matrix(value, name, self.dtype, (None, None))
        value = value.reshape(-1, 1) if value.ndim < 2 else value
        if value.ndim != 2 or not value.is_floating_point():
            raise MatrixDataError(
                f"{name} is a matrix of real numbers, not a tensor of {value.ndim} axes of {value.dtype}"
            )
        if not self.is_finite(value):
            raise MatrixDataError(f"{name} has numbers that are not finite")
        return value

    def array(self, data: Any, *, copy: bool) -> Any:
        """A tensor on the device in row order."""
        if isinstance(data, self._torch.Tensor):
            found = data.to(device=self.device, dtype=self._kind).contiguous()
            return found.clone() if copy and found.data_ptr() == data.data_ptr() else found
        own = np.array(data, self.dtype, order="C", copy=copy or self.device == "cpu" or None)
        return self._torch.from_numpy(own if own.flags.writeable else own.copy()).to(self.device)

    def numpy(self, array: Any) -> Any:
        """The numbers in the memory of the processor."""
        return array.detach().cpu().numpy()

    def is_native(self, value: Any) -> bool:
        """Whether a value is a tensor."""
        return isinstance(value, self._torch.Tensor)

    def index(self, units: Units) -> Any:
        """The places of unit vectors, as PyTorch takes them."""
        if isinstance(units, DeviceUnits):
            return units.index
        if len(units.places) == 1:
            return slice(int(units.places[0]), int(units.places[0]) + 1)
        return self._places(units)

    def thin(self, factor: Any) -> Thin:
        """A factor on the device."""
        return factor if isinstance(factor, Units) else self.array(factor, copy=False)

    def sweep(
        self, matrix: Any, update: tuple[Thin, Thin] | None, forward: Thin | None, backward: Thin | None
    ) -> tuple[Any, Any]:
        """P X and P' Y with the old P, then P += U V': one pass by the kernel, or products by cuBLAS."""
        ahead = behind = None
        if isinstance(forward, Units):
            ahead, forward = self._copy(matrix[:, self.index(forward)]), None
        if isinstance(backward, Units):
            behind, backward = self._copy(matrix[self.index(backward)].T), None
        later = update if update is not None and any(isinstance(part, Units) for part in update) else None
        now = None if later is not None else update
        if forward is not None or backward is not None or now is not None:
            first, second = self._pass(matrix, now, forward, backward)
            ahead, behind = ahead if ahead is not None else first, behind if behind is not None else second
        if later is not None:
            left, right = later
            if isinstance(left, Units):
                matrix[self.index(left)] += self.dense(right).T
            elif isinstance(right, Units):
                matrix[:, self.index(right)] += left
        return ahead, behind

    def _pass(self, matrix: Any, update: Any, forward: Any, backward: Any) -> tuple[Any, Any]:
        widest = max(part.shape[1] for part in (forward, backward, update[0] if update else None) if part is not None)
        if self._kernel is not None and widest <= self._kernel.WIDEST:
            found: tuple[Any, Any] = self._kernel.sweep(matrix, update, forward, backward)
            return found
        ahead = None if forward is None else matrix @ forward
        behind = None if backward is None else matrix.T @ backward
        if update is not None:
            matrix.addmm_(update[0], update[1].T)
        return ahead, behind

    def _copy(self, array: Any) -> Any:
        return array.clone()

    def dense(self, factor: Thin) -> Any:
        """A factor as a tensor."""
        if not isinstance(factor, Units):
            return factor
        found = self.zeros(*factor.shape)
        places = factor.index if isinstance(factor, DeviceUnits) else self._places(factor)
        found[places, self._torch.arange(len(places), device=self.device)] = self._torch.ones(
            len(places), dtype=self._kind, device=self.device
        )
        return found

    def _places(self, units: Units) -> Any:
        return self._torch.as_tensor(units.places, device=self.device)

    def multiply(self, left: Thin, right: Thin) -> Any:
        """The product; with unit vectors it reads columns."""
        if isinstance(right, Units):
            return self._copy(self.dense(left)[:, self.index(right)])
        return self.dense(left) @ right

    def combine(self, terms: Sequence[tuple[float, Thin]]) -> Any:
        """The sum of numbers times tensors."""
        (factor, first), *rest = terms
        total = self.dense(first) * factor if factor != 1.0 or not rest else self.dense(first)
        for factor, part in rest:
            total = self._torch.add(total, self.dense(part), alpha=factor)
        return total

    def stack(self, parts: Sequence[Thin], *, vertical: bool) -> Any:
        """Tensors side by side or on top of each other."""
        return self._torch.cat([self.dense(part) for part in parts], dim=0 if vertical else 1)

    def identity(self, size: int) -> Any:
        """The identity matrix."""
        return self._torch.eye(size, dtype=self._kind, device=self.device)

    def zeros(self, rows: int, columns: int) -> Any:
        """A matrix of zeros."""
        return self._torch.zeros((rows, columns), dtype=self._kind, device=self.device)

    def invert(self, array: Any) -> Any:
        """The inverse by cuSOLVER or LAPACK."""
        try:
            return self._torch.linalg.inv(array)
        except self._torch.linalg.LinAlgError as wrong:
            raise np.linalg.LinAlgError(str(wrong)) from None

    def strengths(self, array: Any) -> tuple[float, float]:
        """The largest and the smallest singular value of a small matrix."""
        if not self.is_finite(array):
            return float("inf"), 0.0
        found = self._torch.linalg.svdvals(array)
        return float(found[0]), float(found[-1])

    def symmetrise(self, array: Any) -> None:
        """(P + P') / 2."""
        array.copy_((array + array.T) / 2)

    def norm(self, array: Any) -> float:
        """The Frobenius norm."""
        return float(self._torch.linalg.norm(array))

    def copy(self, array: Any) -> Any:
        """A copy in row order."""
        return array.clone(memory_format=self._torch.contiguous_format)

    def is_finite(self, array: Any) -> bool:
        """Whether all numbers are finite."""
        return bool(self._torch.isfinite(array).all())

    def commit(self, progress: Progress) -> None:
        """Nothing outlives the process."""

    @property
    def recorder(self) -> Recorder | None:
        """Itself, where there are CUDA graphs."""
        return self if self.device.startswith("cuda") else None

    def record(self, work: Callable[[Mapping[Any, Thin]], object], factors: Mapping[Any, Thin]) -> TorchRecording:
        """A CUDA graph of what the work launches."""
        buffers: dict[Any, Thin] = {
            name: DeviceUnits(factor.size, factor.places, self._places(factor).clone())
            if isinstance(factor, Units)
            else factor.clone(memory_format=self._torch.contiguous_format)
            for name, factor in factors.items()
        }
        graph = self._torch.cuda.CUDAGraph()
        self._torch.cuda.synchronize()
        if self._pool is None:
            self._pool = self._torch.cuda.graph_pool_handle()
        with self._torch.cuda.graph(graph, pool=self._pool):
            work(buffers)
        return TorchRecording(graph, buffers)


@lru_cache(maxsize=8)
def _measured(device: str, kind: str) -> Machine:
    torch: Any = import_module("torch")
    on_gpu = device.startswith("cuda")
    size, entries = (4096, 1 << 28) if on_gpu else (512, 1 << 22)
    left = torch.full((size, size), 0.5, dtype=getattr(torch, kind), device=device)
    large = torch.zeros(entries, dtype=getattr(torch, kind), device=device)

    def finished(work: Any) -> Any:
        def done() -> None:
            work()
            if on_gpu:
                torch.cuda.synchronize()

        done()
        return done

    product = fastest(finished(lambda: left @ left))
    traffic = fastest(finished(lambda: large.add_(1.0)))
    itemsize = np.dtype(kind).itemsize
    return Machine(size**3 / product, 2 * entries * itemsize / traffic, GPU_STEP if on_gpu else NOMINAL.step, itemsize)

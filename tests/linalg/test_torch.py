"""The back end on PyTorch; without a GPU it is tried on the processor, and without PyTorch it says what is missing."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from viewlet import linalg
from viewlet.errors import MissingExtraError

HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.mark.skipif(HAS_TORCH, reason="PyTorch is installed")
def test_without_pytorch_the_back_end_says_what_is_missing() -> None:
    A = linalg.matrix("A", 2, 2, dynamic=True)  # noqa: N806
    with pytest.raises(MissingExtraError, match="pip install torch"):
        linalg.program(C=A @ A).start(A=np.eye(2), backend="torch")


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_programs_on_pytorch_agree_with_numpy(kind: str) -> None:
    from bench.linalg_gpu import check_programs

    check_programs(kind)


def test_the_kernel_on_a_gpu_agrees_with_numpy() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    from bench.linalg_gpu import check

    assert check(torch)

"""Ten classes on a GPU: the fit and all per-example etas in float64, warm, beside a floor measured in the same run.

Floor: the Hessian of all pairs of classes, its eigendecomposition, and one n x Kd x Kd product.
``--device cpu --size 2000x20x3`` is a smoke test without a GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import fisherleak as fl


def timed(task: Callable[[], Any], device: str) -> tuple[float, Any]:
    """Seconds until the device is done, and the result."""
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = task()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def rows(n: int, d: int, classes: int, device: str) -> tuple[Any, Any]:
    """Standard normal features and classes drawn from a softmax model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=(d, classes)) / np.sqrt(d) + rng.gumbel(size=(n, classes))
    return torch.as_tensor(X, device=device), torch.as_tensor(np.argmax(scores, axis=1), device=device)


def floor(X: Any, classes: int) -> Any:
    n, d = X.shape
    H = torch.zeros((classes * d, classes * d), dtype=X.dtype, device=X.device)
    for k in range(classes):
        for m in range(k, classes):
            H[k * d : (k + 1) * d, m * d : (m + 1) * d] = X.T @ X
    values, vectors = torch.linalg.eigh(H + H.T)
    block = torch.ones((n, classes * d), dtype=X.dtype, device=X.device)
    return (block @ vectors)[0, 0] + values[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", default="60000x784x10")
    options = parser.parse_args()
    n, d, classes = (int(part) for part in options.size.split("x"))
    X, y = rows(n, d, classes, options.device)
    few, some = X[: 20 * classes, :5], y[: 20 * classes]
    fl.measure(fl.minimise(few, some, loss="softmax", l2=1e-2), few, some).per_example()  # what is loaded once
    least = min(timed(lambda: floor(X, classes), options.device)[0] for _ in range(2))
    fit_time, fit = timed(lambda: fl.minimise(X, y, loss="softmax", l2=1e-3), options.device)
    leak_time, eta = timed(lambda: fl.measure(fit, X, y).per_example(), options.device)
    print(f"{options.size} {options.device} floor {least:.3f} s, fit {fit_time:.3f} s, etas {leak_time:.3f} s")
    print(f"with the fit {fit_time + leak_time:.3f} s; largest eta {float(eta.max()):.4g}")


if __name__ == "__main__":
    main()

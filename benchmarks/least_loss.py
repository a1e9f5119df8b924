"""What noise of each shape costs at the same largest eta, what it reveals by itself, and what finding it takes.

``python benchmarks/least_loss.py``: excess training loss per row at a largest eta of 1, the certified gap, the time as a
multiple of one ``per_example``, and the largest eta of the three rows that decide most, with the noise's own dependence on
the data counted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

import fisherleak as fl

Vector = NDArray[np.float64]
SHAPES = ("isotropic", "hessian", "least-loss")


def problems() -> Iterator[tuple[str, Vector, Vector, str, float]]:
    """Name, features, labels, loss and l2; those of files only where there are files."""
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast cancer", (X - X.mean(axis=0)) / X.std(axis=0), y, "logistic", 1e-2
    try:
        warfarin, digits = fl.datasets.load_iwpc(), fl.datasets.load_mnist()
    except fl.DataError as error:
        print(f"IWPC and MNIST are left out: {error}")
        return
    pieces = [warfarin.preprocessing.fit(warfarin.X).transform(part) for part in (warfarin.X, warfarin.X_test)]
    X, y = np.concatenate(pieces).astype(float), np.concatenate([warfarin.y, warfarin.y_test])
    yield "IWPC", X, y, "squared", 1e-3
    yield "IWPC", X, y, "squared", 1e-2
    yield "MNIST, 20 components", digits.preprocessing.fit_transform(digits.X), digits.y, "logistic", 8e-4


def one_pass(leak: fl.Leakage) -> float:
    """Median seconds of all per-example etas."""
    leak.per_example()
    times = []
    for _ in range(7):
        start = time.perf_counter()
        leak.per_example()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def cost(noise: Any, H: Vector, n: int) -> float:
    return float(noise.scale**2 * np.trace(H if noise.shape is None else H @ noise.shape) / (2 * n))


def main() -> None:
    print(
        f"{'':<34}{'l2':>8}  {'shape':<12}{'loss':>12}{'ratio':>8}{'gap':>9}{'x per_example':>15}{'eta, counted':>14}"
    )
    for name, X, y, loss, l2 in problems():
        fit = fl.minimise(X, y, loss, l2)
        leak = fl.measure(fit, X, y)
        H = np.linalg.inv(fit.factor.inverse())
        floor = one_pass(leak)
        costs = {}
        for shape in SHAPES:
            start = time.perf_counter()
            noise: Any = fl.calibrate(leak, eta=1.0, shape=shape)
            took = (time.perf_counter() - start) / floor
            costs[shape] = cost(noise, H, leak.n)
            ratio = costs["isotropic"] / costs[shape]
            gap = "" if noise.gap is None else f"{100 * noise.gap:.2f} %"
            both = fl.counted(leak, eta=1.0, shape=shape, most=3).eta[0]
            print(
                f"{name + f' {len(y):,} x {X.shape[1]}':<34}{l2:>8g}  {shape:<12}{costs[shape]:>12.3g}{ratio:>8.1f}{gap:>9}"
                f"{took:>15.0f}{both:>14.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

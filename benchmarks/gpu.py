"""What exact leakage costs on a GPU, through the public calls, warm, beside a floor measured in the same run.

Floor: one Gram matrix, its eigendecomposition and one n x d x d product, written plainly in the same library.
``python benchmarks/gpu.py`` runs torch and CuPy, whichever are there, on the GPU; ``--device cpu --sizes 20000x50`` is a smoke
test of torch without one.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.metadata
import importlib.util
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import array_api_compat
import numpy as np

import fisherleak as fl

SIZES = "1000000x784,10000x3072"
MANY, WIDE = (1_000_000, 784), (10_000, 3_072)
GOALS: dict[tuple[str, str, tuple[int, int]], tuple[float, float | None]] = {
    ("torch", "squared", MANY): (0.2, 0.1),
    ("torch", "logistic", MANY): (0.45, None),
    ("cupy", "squared", MANY): (0.4, 0.1),
    ("torch", "squared", WIDE): (0.12, None),
    ("cupy", "squared", WIDE): (0.12, None),
}
"""Seconds for all per-example etas with the fit, and for the whole-data eta of a fit, rows in float64."""
WORST_ERROR = 1e-10


@dataclass(frozen=True)
class Backend:
    """One array library on one device."""

    name: str
    device: Any
    wait: Callable[[], None]
    machine: str


@dataclass(frozen=True)
class Line:
    """One line of the table: seconds, and the greatest relative error on sampled rows."""

    library: str
    n: int
    d: int
    loss: str
    dtype: str
    floor: float
    fit: float
    etas: float
    both: float
    whole: float
    error: float


def torch_backend(device: str) -> Backend:
    torch: Any = importlib.import_module("torch")
    if device == "cpu":
        return Backend("torch", "cpu", lambda: None, f"{platform.processor() or platform.machine()} (CPU)")
    return Backend("torch", torch.device("cuda"), torch.cuda.synchronize, torch.cuda.get_device_name())


def cupy_backend() -> Backend:
    cupy: Any = importlib.import_module("cupy")
    device = cupy.cuda.Device()
    name = cupy.cuda.runtime.getDeviceProperties(device.id)["name"].decode()
    return Backend("cupy", device, device.synchronize, name)


def backends(library: str, device: str) -> list[Backend]:
    found = []
    if library in ("all", "torch") and importlib.util.find_spec("torch") is not None:
        torch: Any = importlib.import_module("torch")
        if device == "cpu" or torch.cuda.is_available():
            found.append(torch_backend(device))
    if library in ("all", "cupy") and device != "cpu" and importlib.util.find_spec("cupy") is not None:
        found.append(cupy_backend())
    return found


def problem(backend: Backend, n: int, d: int, loss: str, dtype: str) -> tuple[Any, Any, Any]:
    """Normal rows with columns of falling size, made where they stay."""
    library: Any = importlib.import_module(backend.name)
    if backend.name == "torch":
        generator = library.Generator(device=backend.device).manual_seed(0)
        options = {"dtype": library.float64, "device": backend.device, "generator": generator}
        X, w, noise = (library.randn(*shape, **options) for shape in ((n, d), (d,), (n,)))
    else:
        library.random.seed(0)
        X, w, noise = (library.random.standard_normal(shape) for shape in ((n, d), (d,), (n,)))
    xp = array_api_compat.array_namespace(X)
    X *= xp.asarray(np.geomspace(1.0, 0.1, d), device=array_api_compat.device(X))
    z = X @ w / d**0.5 + 0.5 * noise
    y = xp.astype(z > 0, xp.float64) if loss == "logistic" else z
    return xp, xp.astype(X, getattr(xp, dtype)), y


def floor(X: Any, xp: Any) -> None:
    _, Q = xp.linalg.eigh(X.T @ X)
    X @ Q


def dense(fit: fl.Fit, X: Any, y: Any, rows: list[int], xp: Any) -> list[float]:
    """Etas of some rows from their written-out Jacobians and a singular value decomposition each."""
    X = xp.astype(X, xp.float64)
    z = X @ fit.coef
    a, r, c = fit.loss.a(z, y), fit.loss.r(z, y), fit.loss.c(z, y)
    n, d = X.shape
    identity = xp.eye(d, dtype=xp.float64, device=array_api_compat.device(X))
    H = (X * a[:, None]).T @ X + n * fit.l2 * identity
    etas = []
    for i in rows:
        J = a[i] * X[i, :][:, None] * fit.coef[None, :] + r[i] * identity
        J = xp.linalg.solve(H, xp.concat([J, (c[i] * X[i, :])[:, None]], axis=1))
        etas.append(float(xp.max(xp.linalg.svdvals(J))))
    return etas


def seconds(function: Callable[[], Any], backend: Backend, repeats: int) -> float:
    """Median time of a call that ends when the device has finished, after one that warms it up."""
    times = []
    for _ in range(repeats + 1):
        backend.wait()
        start = time.perf_counter()
        function()
        backend.wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def measured(backend: Backend, n: int, d: int, loss: str, dtype: str, repeats: int, samples: int) -> Line:
    xp, X, y = problem(backend, n, d, loss, dtype)
    l2 = 1e-3

    def fitted() -> fl.Fit:
        return fl.minimise(X, y, loss, l2)

    fit = fitted()
    eta = fl.measure(fit, X, y).per_example()
    rows = np.random.default_rng(1).choice(n, size=samples, replace=False).tolist()
    wide = xp.astype(X, xp.float64)
    error = max(abs(float(eta[i]) / true - 1.0) for i, true in zip(rows, dense(fit, X, y, rows, xp), strict=True))
    return Line(
        backend.name,
        n,
        d,
        loss,
        dtype,
        floor=seconds(lambda: floor(wide, xp), backend, repeats),
        fit=seconds(fitted, backend, repeats),
        etas=seconds(lambda: fl.measure(fit, X, y).per_example(), backend, repeats),
        both=seconds(lambda: fl.measure(fitted(), X, y).per_example(), backend, repeats),
        whole=seconds(lambda: fl.measure(fit, X, y).dataset(), backend, repeats),
        error=error,
    )


def shown(line: Line) -> str:
    goals = GOALS.get((line.library, line.loss, (line.n, line.d)), (None, None))
    goal_rows, goal_whole = goals if line.dtype == "float64" else (None, None)
    kept = [
        ("etas with the fit", line.both, goal_rows),
        ("whole data", line.whole, goal_whole),
        ("error", line.error, WORST_ERROR),
    ]
    missed = [name for name, value, goal in kept if goal is not None and value > goal]
    cells = [line.library, f"{line.n:,} x {line.d:,}", line.loss, line.dtype]
    cells += [f"{value:.4f}" for value in (line.floor, line.fit, line.etas)]
    cells += [f"{value:.4f} ({value / line.floor:.1f})" for value in (line.both, line.whole)]
    cells += [f"{line.error:.0e}", "missed: " + ", ".join(missed) if missed else "kept"]
    return f"| {' | '.join(cells)} |"


def versions() -> str:
    names = ("numpy", "torch", "cupy-cuda13x", "cupy-cuda12x", "cupy", "array-api-compat", "fisherleak")
    found = []
    for name in names:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"Python {platform.python_version()}, " + ", ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", choices=("all", "torch", "cupy"), default="all")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--sizes", default=SIZES, help="such as 1000000x784,10000x3072")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--samples", type=int, default=8, help="rows that are compared with the dense method")
    parser.add_argument("--all", action="store_true", help="the logistic loss and float32 rows, too")
    parser.add_argument("--out", type=Path, help="write the lines as JSON")
    options = parser.parse_args()
    chosen = backends(options.library, options.device)
    if not chosen:
        raise SystemExit("Neither torch nor CuPy finds a GPU here; try --device cpu --sizes 20000x50.")
    kinds = [("squared", "float64")]
    kinds += [("logistic", "float64"), ("squared", "float32")] if options.all else []
    print(f"{', '.join(sorted({b.machine for b in chosen}))}; {versions()}; {datetime.date.today().isoformat()}")
    print("Seconds, medians of warm runs; in brackets multiples of the floor\n")
    print("| library | size | loss | rows | floor | fit | etas | etas with the fit | whole data | error | goals |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    lines = []
    for backend in chosen:
        for size in options.sizes.split(","):
            n, d = (int(x) for x in size.split("x"))
            for loss, dtype in kinds:
                lines.append(measured(backend, n, d, loss, dtype, options.repeats, options.samples))
                print(shown(lines[-1]), flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps([asdict(line) for line in lines], indent=1))


if __name__ == "__main__":
    main()

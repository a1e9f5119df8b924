"""What exact leakage costs, as ratios against a floor measured in the same run.

Floor: forming the Hessian, its eigendecomposition and one n x d x d product; nobody gets eigenvalues of
n matrices of size d for less. ``python benchmarks/engine.py [--quick]``
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

import fisherleak as fl
from fisherleak.engine.changes.removal import CLOSE, EXACT

Vector = NDArray[np.float64]
SIZES = [(12_665, 20), (30_162, 86), (10_000, 784), (10_000, 3_072)]
GROWTH_N = [(n, 50) for n in (10_000, 20_000, 40_000, 80_000, 160_000)]
GROWTH_D = [(10_000, d) for d in (25, 50, 100, 200, 400, 800)]


def seconds(function: Callable[[], Any], repeats: int) -> float:
    """Median time of a call, after one that warms caches and compiled code."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def problem(n: int, d: int, loss: str) -> tuple[Vector, Vector]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    X *= np.geomspace(1.0, 0.1, d)
    z = X @ rng.standard_normal(d) / np.sqrt(d) + 0.5 * rng.standard_normal(n)
    return X, (z > 0) * 1.0 if loss == "logistic" else z


def floor(X: Vector) -> None:
    H = X.T @ X
    _, Q = np.linalg.eigh(H)
    X @ Q


def dense(fit: fl.Fit, X: Vector, y: Vector, rows: NDArray[np.int64]) -> Vector:
    """Etas of some rows from the materialised n x d x (d + 1) Jacobian and a singular value decomposition each."""
    z = X @ fit.coef
    a, r, c = fit.loss.a(z, y), fit.loss.r(z, y), fit.loss.c(z, y)
    n, d = X.shape
    H = (X * a[:, None]).T @ X + n * fit.l2 * np.eye(d)
    inverse = np.linalg.inv(H)
    etas = np.empty(rows.size)
    for start in range(0, rows.size, max(1, 10**7 // d**2)):
        part = rows[start : start + max(1, 10**7 // d**2)]
        x = X[part]
        J = a[part, None, None] * x[:, :, None] * fit.coef[None, None, :] + r[part, None, None] * np.eye(d)[None]
        J = inverse @ np.concatenate([J, (c[part, None] * x)[:, :, None]], axis=2)
        etas[start : start + part.size] = np.linalg.svd(J, compute_uv=False)[:, 0]
    return etas


def measure_size(n: int, d: int, loss: str) -> None:
    repeats = 7 if d < 200 else 3 if d < 1000 else 1
    X, y = problem(n, d, loss)
    l2 = 1e-3
    fit = fl.minimise(X, y, loss, l2)
    leak = fl.measure(fit, X, y)
    base = seconds(lambda: floor(X), repeats)
    fitting = seconds(lambda: fl.minimise(X, y, loss, l2), repeats)
    rows = seconds(lambda: etas(fit, X, y), repeats)
    whole = seconds(lambda: fl.measure(fit, X, y).dataset(), repeats)
    some = np.random.default_rng(1).choice(n, size=min(n, max(4, 4_000_000 // d**2)), replace=False)
    error = float(np.max(np.abs(leak.per_example()[some] / dense(fit, X, y, some) - 1)))
    print(
        f"{n:>9,} x {d:<6,}{loss:<10}{base:>9.4f} s{fitting / base:>9.2f}{rows / base:>13.2f}{whole / base:>12.2f}"
        f"{error:>14.1e} ({some.size} rows)",
        flush=True,
    )


def against_dense(n: int, d: int) -> None:
    X, y = problem(n, d, "squared")
    fit = fl.minimise(X, y)
    ours = seconds(lambda: etas(fit, X, y), 7)
    every = np.arange(n)
    start = time.perf_counter()
    dense(fit, X, y, every)
    theirs = time.perf_counter() - start
    print(f"\nAll per-example etas at {n:,} x {d}: dense batched SVD {theirs:.3f} s, ours {ours:.4f} s:", end=" ")
    print(f"{theirs / ours:.0f} x faster")


def etas(fit: fl.Fit, X: Vector, y: Vector) -> Any:
    return fl.measure(fit, X, y).per_example()


def without_a_shared_basis() -> None:
    """Maps that differ from row to row, and several releases: 20,000 rows, 65 features made of 10 columns."""
    print("\nWithout a shared eigenbasis (20,000 x 65): all per-example etas as multiples of the floor")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 10))
    y = X @ rng.standard_normal(10) + np.sin(X[:, 0]) + 0.5 * rng.standard_normal(20_000)
    curved = make_pipeline(PolynomialFeatures(2, include_bias=False), Ridge(alpha=20.0)).fit(X, y)
    spline = make_pipeline(SplineTransformer(n_knots=5, include_bias=False), Ridge(alpha=20.0)).fit(X, y)
    wide, z = problem(20_000, 65, "squared")
    base = seconds(lambda: floor(wide), 7)
    plain = [fl.measure(fl.minimise(wide, z, loss, 1e-3), wide, z) for loss in ("squared", "pseudo_huber")]
    leaks = {
        "polynomials of degree 2": fl.measure(curved, X, y),
        "cubic splines": fl.measure(spline, X, y),
        "two polynomial releases": fl.compose(*(fl.measure(curved, X, y) for _ in range(2))),
        "polynomials and splines": fl.compose(fl.measure(curved, X, y), fl.measure(spline, X, y)),
        "two releases of 65 columns": fl.compose(*plain),
    }
    some = rng.choice(20_000, 200, replace=False)
    for name, leak in leaks.items():
        took = seconds(leak.per_example, 5)
        information = leak._information
        J = information.written_out(information.attributes, True, some)
        scale = 1.0 if len(leak.fits) > 1 else leak.noise.scale
        exact = np.linalg.svd(J, compute_uv=False)[:, 0] / scale
        error = float(np.max(np.abs(leak.per_example()[some] / exact - 1)))
        print(f"  {name:<28}{took / base:>8.1f}   error {error:.1e}, stated {information.error:.1e}", flush=True)


def end_to_end() -> None:
    """Scalers folded in, at the size of Adult: no shared eigenbasis is left."""
    X, y = problem(30_162, 86, "squared")
    base = seconds(lambda: floor(X), 7)
    print("\nScalers folded into the model (30,162 x 86): all per-example etas as multiples of the floor")
    some = np.random.default_rng(1).choice(X.shape[0], 200, replace=False)
    for name, model, labels in (
        ("squared", Ridge(alpha=30.0), y),
        ("logistic", LogisticRegression(C=0.03, solver="newton-cholesky", tol=1e-10, max_iter=1000), (y > 0) * 1),
    ):
        leak = fl.measure(make_pipeline(StandardScaler(), model).fit(X, labels), X, labels, public="nothing")
        took = seconds(leak.per_example, 3)
        J = leak._information.written_out(leak._information.attributes, True, some)
        error = float(np.max(np.abs(leak.per_example()[some] / np.linalg.svd(J, compute_uv=False)[:, 0] - 1)))
        print(f"  {name:<28}{took / base:>8.1f}   error {error:.1e}, stated {leak._information.error:.1e}", flush=True)


def one_step_for_each_row(X: Vector, y: Vector, theta: Vector, some: int = 512) -> float:
    """Processor time of a gradient of all rows at other parameters for each row: one step of a fit without it."""
    x = np.column_stack([X, np.ones(len(X))])
    moved = theta[:, None] + 1e-3 * np.random.default_rng(0).standard_normal((theta.size, some))
    start = time.process_time()
    for begin in range(0, len(X), 1024):
        part = x[begin : begin + 1024]
        part.T @ (1.0 / (1.0 + np.exp(-(part @ moved))) - y[begin : begin + 1024, None])
    return (time.process_time() - start) * len(X) / some


def membership() -> None:
    """All rows of Adult left out, one at a time: as it is shown, and as it decides."""
    try:
        data = fl.datasets.load_adult()
    except fl.DataError as error:
        print(f"Adult is left out: {error}")
        return
    X, y = np.asarray(data.preprocessing.fit_transform(data.X), dtype=np.float64), np.asarray(data.y, dtype=np.float64)
    fit = fl.minimise(X, y, "logistic", l2=1e-3, intercept=True)
    leak = fl.measure(fit, X, y)
    base = one_step_for_each_row(X, y, np.asarray(fit.theta))
    print(
        f"\nMembership of Adult's {len(X):,} rows: processor time, beside one step of a fit without each ({base:.1f} s)"
    )
    found = {}
    for name, tolerance in (("as shown, 1e-3", CLOSE), ("finest, 1e-8", EXACT)):
        start = time.process_time()
        found[name] = np.asarray(leak.membership(tolerance))
        took = time.process_time() - start
        print(f"  {name:<28}{took:>8.1f} s{took / base:>8.2f}", flush=True)
    shown, finest = found.values()
    print(f"  shown over finest: {np.min(shown / finest) - 1:.1e} to {np.max(shown / finest) - 1:.1e}")


def floor_of_classes(X: Vector, K: int, step: int = 4096) -> None:
    """The Hessian of K classes, its eigendecomposition, and one product of (n, K d) with (K d, K d), in blocks of rows."""
    n, d = X.shape
    shares = np.random.default_rng(0).dirichlet(np.ones(K), n)
    H = 1e-3 * n * np.eye(K * d)
    for start in range(0, n, step):
        x, p = X[start : start + step], shares[start : start + step]
        wide = (p[:, :, None] * x[:, None, :]).reshape(x.shape[0], -1)
        H -= wide.T @ wide
        for k in range(K):
            H[k * d : (k + 1) * d, k * d : (k + 1) * d] += (x * p[:, k, None]).T @ x
    _, Q = np.linalg.eigh(H)
    for start in range(0, n, step):
        x, p = X[start : start + step], shares[start : start + step]
        (p[:, :, None] * x[:, None, :]).reshape(x.shape[0], -1) @ Q


def several_classes() -> None:
    """Ten classes: random rows, and scikit-learn's digits."""
    print(
        "\nTen classes, softmax loss, l2 = 1e-3: multiples of the floor (Hessian, its eigenbasis, one n x Kd x Kd product)"
    )
    print(
        f"{'size':<19}{'floor':>10}{'fit':>10}{'per example':>13}{'cells':>8}{'attributes':>12}{'whole data':>12}{'error':>10}"
    )
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60_000, 20)) * np.geomspace(1.0, 0.1, 20)
    digits, kinds = load_digits(return_X_y=True)
    labels = np.argmax(X @ rng.standard_normal((20, 10)) + rng.gumbel(size=(60_000, 10)), axis=1)
    for rows, y in ((X, labels), (digits / 16.0, kinds)):
        base = seconds(partial(floor_of_classes, rows, 10), 5)
        start = time.perf_counter()
        fit = fl.minimise(rows, y, loss="softmax", l2=1e-3)
        fitting = time.perf_counter() - start
        leak = fl.measure(fit, rows, y)
        asked = (leak.per_example, leak.per_cell, leak.per_attribute, leak.dataset)
        took = [seconds(each, 3) / base for each in asked]
        some = rng.choice(rows.shape[0], 100, replace=False)
        J = leak._information.written_out(leak._information.attributes, True, some)
        error = float(np.max(np.abs(leak.per_example()[some] / np.linalg.norm(J, 2, axis=(1, 2)) - 1)))
        times = f"{took[0]:>13.1f}{took[1]:>8.1f}{took[2]:>12.1f}{took[3]:>12.1f}"
        print(
            f"{rows.shape[0]:>9,} x {rows.shape[1]:<6,}{base:>9.4f} s{fitting / base:>9.1f}{times}{error:>10.1e}",
            flush=True,
        )


def growth(title: str, sizes: list[tuple[int, int]]) -> None:
    print(f"\nGrowth with {title} (all per-example etas, squared loss)")
    previous: float | None = None
    for n, d in sizes:
        X, y = problem(n, d, "squared")
        fit = fl.minimise(X, y, l2=1e-3)
        took = seconds(partial(etas, fit, X, y), 3)
        step = "" if previous is None else f"   {took / previous:.2f} x the line above"
        print(f"{n:>9,} x {d:<6,}{took:>9.4f} s{step}", flush=True)
        previous = took


def kernels() -> None:
    """The compiled secular solver against the portable one: where it pays."""
    from fisherleak.engine.norms import secular
    from fisherleak.engine.norms.kernels.secular_numba import top_eigenvalues_compiled

    print("\nSecular equation, compiled against portable")
    rng = np.random.default_rng(0)
    for n, k in [(100, 20), (1_000, 20), (6_000, 20), (6_000, 86), (1_024, 784)]:
        s = np.sort(rng.gamma(1.0, 1.0, k) ** 4)
        arguments: Any = (
            s,
            rng.normal(size=k),
            rng.normal(size=(n, k)) * np.sqrt(s + 0.01),
            *rng.normal(size=(3, n)),
            secular.LIMITS,
        )
        portable = seconds(partial(secular.top_eigenvalues_portable, *arguments[:-1]), 5)
        compiled = seconds(partial(top_eigenvalues_compiled, *arguments), 5)
        print(f"{n:>9,} x {k:<6}{portable:>9.4f} s portable, {compiled:.4f} s compiled:", end=" ")
        print(f"{portable / compiled:.1f} x faster")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the widest size and the growth tables")
    quick = parser.parse_args().quick
    print("Times as multiples of the floor, which is given in seconds")
    print(
        f"{'size':<19}{'loss':<10}{'floor':>10}{'fit':>10}{'per example':>13}{'whole data':>12}{'error vs dense':>16}"
    )
    for n, d in SIZES[:-1] if quick else SIZES:
        for loss in ("squared", "logistic") if d < 1000 else ("squared",):
            measure_size(n, d, loss)
    against_dense(12_665, 20)
    without_a_shared_basis()
    end_to_end()
    membership()
    several_classes()
    kernels()
    if not quick:
        growth("n", GROWTH_N)
        growth("d", GROWTH_D)


if __name__ == "__main__":
    main()

"""What an interface tells as it answers: eta of Adult's rows after 10^2 to 10^6 random queries, against repeated releases.

Queries drawn at random from rows with second moment C hold m C about the parameters after m answers, as m releases do whose
noise has the covariance C^-1 each: eta is that of one such release times the root of m. Small numbers of queries hold less:
they look along few directions.

    python benchmarks/queries.py [FOLDER OF THE DATA] [PICTURE.svg] [LARGEST POWER OF TEN]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fisherleak as fl

Vector = NDArray[np.float64]
HIDDEN = 1e-9
"""Part of the largest eigenvalue below which there is nothing to be seen."""
WAYS: dict[str, Any] = {
    "scores, noise 1": lambda Q: fl.Answers(Q, fl.Gaussian(1.0)),
    "probabilities, noise 0.1": lambda Q: fl.Answers(Q, fl.Gaussian(0.1), of="probability"),
    "sampled labels": fl.SampledLabels,
}


def adult(folder: str | None) -> tuple[fl.Leakage, Vector]:
    data = fl.datasets.load_adult(data_home=folder)
    X = np.asarray(data.preprocessing.fit_transform(data.X), dtype=np.float64)
    y = np.asarray(data.y, dtype=np.float64)
    return fl.measure(fl.minimise(X, y, "logistic", l2=1e-3, intercept=True), X, y), X


def repeated_release(leak: fl.Leakage, X: Vector, way: str) -> Vector:
    """Eta of one answer to a random query on average: that of a release with the inverse of its information as covariance."""
    rows = np.column_stack([X, np.ones(len(X))])
    z = rows @ np.asarray(leak.fits[0].theta)
    p = 1.0 / (1.0 + np.exp(-z))
    held = {"scores, noise 1": np.ones_like(z), "probabilities, noise 0.1": (p * (1 - p) / 0.1) ** 2}
    weights = held.get(way, p * (1 - p))
    C = (rows * weights[:, None]).T @ rows / len(X)
    values, vectors = np.linalg.eigh(C)
    # columns of one category add up to the constant, so that C has no inverse: what it does not see gets a great deal of noise
    covariance = (vectors / np.maximum(values, HIDDEN * values[-1])) @ vectors.T
    return np.asarray(leak.with_noise(fl.Gaussian(1.0, 0.5 * (covariance + covariance.T))).per_example())


def main(folder: str | None, picture: Path | None, powers: int) -> None:
    leak, X = adult(folder)
    rng = np.random.default_rng(0)
    found: dict[str, list[tuple[int, float, float]]] = {way: [] for way in WAYS}
    closed = {way: repeated_release(leak, X, way) for way in WAYS}
    print("way, queries, largest eta, by repeated releases, mean eta, by repeated releases, seconds")
    for power in range(2, powers + 1):
        Q = X[rng.integers(0, len(X), 10**power)]
        for way, make in WAYS.items():
            start = time.perf_counter()
            eta = np.asarray(leak.with_noise(make(Q)).per_example())
            spent = time.perf_counter() - start
            root = 10 ** (power / 2)
            found[way].append((10**power, float(eta.max()), float(eta.mean())))
            numbers = (eta.max(), root * closed[way].max(), eta.mean(), root * closed[way].mean())
            print(f"{way}, 10^{power}, " + ", ".join(f"{x:.4g}" for x in numbers) + f", {spent:.1f}")
    until = fl.queries_until(leak, X[rng.integers(0, len(X), 100_000)], fl.Gaussian(1.0), eta=1.0)
    print(f"random queries with noise 1 on scores until someone passes eta 1: {until:.0f}")
    if picture is not None:
        draw(found, closed, picture)


def draw(found: dict[str, list[tuple[int, float, float]]], closed: dict[str, Vector], picture: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    ax = figure.add_subplot()
    for k, (way, points) in enumerate(found.items()):
        m, largest, _ = (np.array(x) for x in zip(*points, strict=True))
        ax.loglog(m, largest, "o", color=f"C{k}", label=way)
        ax.loglog(m, np.sqrt(m) * closed[way].max(), "-", color=f"C{k}", linewidth=0.8)
    ax.axhline(1.0, linestyle=":", color="grey")
    ax.set_xlabel("random queries answered")
    ax.set_ylabel("largest η of a row")
    ax.legend()
    figure.savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        given[0] if given else None,
        Path(given[1]) if len(given) > 1 else None,
        int(given[2]) if len(given) > 2 else 6,
    )

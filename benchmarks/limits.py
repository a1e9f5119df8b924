"""Numbers and pictures of the page "choosing a limit": ``python benchmarks/limits.py --out docs/_static``.

What an eta means beside a column's spread, what a limit costs on four data sets, and what attackers then get on one of them.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

import fisherleak as fl

Vector = NDArray[np.float64]
SPREADS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
ETAS = (0.1, 0.2, 0.5, 1.0, 2.0)
COPIES = 200
ROUNDS = 4
"""Reweightings that are looked at."""
BOUNDS: Any = {
    **{"age": (-4.0, 3.0), "height": (-5.0, 4.0), "weight": (-3.0, 8.0), "amiodarone": (0.0, 1.0), "decr": (0.0, 1.0)},
    "label": (-3.0, 9.0),
}


def meaning() -> None:
    """Closed forms: an eta times the spread of the column that it is about."""
    print(
        "\n| eta x spread | least error, in spreads | share revealed | right guesses between two values a spread apart |"
    )
    print("| --- | --- | --- | --- |")
    for t in SPREADS:
        print(f"| {t:g} | {1 / t:.2g} | {100 * t**2 / (1 + t**2):.2g} % | {100 * norm.cdf(t / 2):.1f} % |")


def warfarin() -> None:
    """What a limit costs, and what attackers then get: everything counted, for whoever could be in the table."""
    data = fl.datasets.load_iwpc()
    names = ["age", "height", "weight", "amiodarone", "decr"]
    categories = [name for name in data.names if name not in names]
    steps = make_column_transformer(
        ("passthrough", names), (OneHotEncoder(drop="first", sparse_output=False), categories)
    )
    model = make_pipeline(steps, Ridge(alpha=1e-2 * len(data.y))).fit(data.X, data.y)
    leak = fl.measure(model, data.X, data.y, public="nothing")
    Z = np.column_stack([model[:-1].transform(data.X_test), np.ones(len(data.y_test))])
    theta = np.append(model[-1].coef_, model[-1].intercept_)
    rest = np.sum((data.y_test - data.y_test.mean()) ** 2)
    rng = np.random.default_rng(0)
    attack = fl.attacks.WhiteBox(model, data.X, data.y, "vkorc1")
    print(f"\nIWPC, R2 without noise {1 - np.sum((Z @ theta - data.y_test) ** 2) / rest:.3f}")
    print(
        "| eta | R2, isotropic | R2, hessian | best test of membership of anyone | median | vkorc1 guessed, mean | worst row |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for eta in ETAS:
        found = []
        for shape in ("isotropic", "hessian"):
            noise: Any = fl.calibrate(leak, eta, "any-record", shape=shape, bounds=BOUNDS, random_state=0)
            draws = theta[:, None] + noise.draws(COPIES, theta.size, rng).T
            found.append(float(np.mean(1 - np.sum((Z @ draws - data.y_test[:, None]) ** 2, axis=0) / rest)))
        mu = np.asarray(leak.with_noise(noise).membership())
        told = norm.cdf(np.array([mu.max(), np.median(mu)]) / 2)
        right = np.asarray(attack.accuracy(noise))
        print(
            f"| {eta:g} | {found[0]:.3f} | {found[1]:.3f} | {told[0]:.3f} | {told[1]:.3f} | {np.mean(right):.3f} | "
            f"{np.max(right):.3f} |"
        )


def incomes() -> tuple[Vector, Vector, Vector, Vector]:
    """Adult's features in [0, 1] and labels, for training and published for tests."""
    data = fl.datasets.load_adult()
    steps = data.preprocessing.fit(data.X)
    scaled = MinMaxScaler().fit(np.asarray(steps.transform(data.X), dtype=float))
    X, Z = (scaled.transform(np.asarray(steps.transform(x), dtype=float)) for x in (data.X, data.X_test))
    return X, np.asarray(data.y, dtype=float), Z, np.asarray(data.y_test, dtype=float)


def reweighted(X: Vector, y: Vector, Z: Vector, t: Vector, eta: float) -> Iterator[tuple[float, float]]:
    """Mean loss and accuracy of noisy models on other rows, with least-loss noise and weights found together, in rounds.

    Rows above half the limit get the root of what is over less weight, under the shape; the shape is found again. C = 1.
    """
    weights, rng = np.ones(len(y)), np.random.default_rng(1)
    for _ in range(ROUNDS + 1):
        fit = fl.minimise(X, y, loss="logistic", l2=1.0 / len(y), intercept=True, sample_weight=weights)
        leak = fl.measure(fit, X, y)
        noise: Any = fl.calibrate(leak, eta, "max", shape="least-loss")
        draws = np.asarray(fit.theta)[:, None] + noise.draws(2 * COPIES, len(fit.theta), rng).T
        z = np.column_stack([Z, np.ones(len(Z))]) @ draws * np.where(t > 0, 1.0, -1.0)[:, None]
        yield float(np.mean(np.logaddexp(0.0, -z))), float(np.mean(z > 0))
        found = np.asarray(leak.with_noise(noise).per_example())
        weights = weights * np.sqrt(np.minimum(1.0, 0.5 * eta / np.maximum(found, 1e-9)))


def income_reweighted() -> None:
    """Adult at a limit of one half on the most exposed row; how many rounds is chosen on a quarter of the training rows."""
    X, y, Z, t = incomes()
    order = np.random.default_rng(0).permutation(len(y))
    rest, quarter = order[len(y) // 4 :], order[: len(y) // 4]
    losses = [loss for loss, _ in reweighted(X[rest], y[rest], X[quarter], y[quarter], 0.5)]
    scores = [score for _, score in reweighted(X, y, Z, t, 0.5)]
    best = int(np.argmin(losses))
    print("\n| rounds | loss on a quarter of the training rows | accuracy on the test rows |\n| --- | --- | --- |")
    for k, (loss, score) in enumerate(zip(losses, scores, strict=True)):
        print(f"| {k}{' (chosen)' * (k == best)} | {loss:.4f} | {100 * score:.2f} % |", flush=True)


def income() -> None:
    """Adult at a limit of one half on everything about the rows present: the most exposed, or the mean; the first term."""
    X, y, Z, t = incomes()
    Z1, labels = np.column_stack([Z, np.ones(len(Z))]), t > 0
    rng = np.random.default_rng(0)
    print("\n| Adult, penalty | limited | without noise | isotropic | hessian | least-loss |")
    print("| --- | --- | --- | --- | --- | --- |")
    for penalty, over in ((1.0, "max"), (2.0, "max"), (1.0, "mean")):
        fit = fl.minimise(X, y, loss="logistic", l2=penalty / len(y), intercept=True)
        leak, theta, found = fl.measure(fit, X, y), np.asarray(fit.theta), []
        for shape in ("isotropic", "hessian", "least-loss") if over == "max" else ("isotropic", "hessian"):
            noise: Any = fl.calibrate(leak, 0.5, over, shape=shape)
            draws = theta[:, None] + noise.draws(COPIES, theta.size, rng).T
            found.append(f"{100 * float(np.mean((Z1 @ draws > 0) == labels[:, None])):.1f} %")
        plain = 100 * float(np.mean((Z1 @ theta > 0) == labels))
        found += ["not for the mean"] * (3 - len(found))
        print(f"| {penalty:g} | {over} | {plain:.1f} % | {' | '.join(found)} |", flush=True)


def problems() -> Iterator[tuple[str, Any, Any, Vector, float]]:
    """Name, model, features, labels and limit of each picture."""
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast-cancer", make_pipeline(StandardScaler(), LogisticRegression(C=1 / (1e-2 * len(y)))), X, y, 2.0
    warfarin, digits, adult = fl.datasets.load_iwpc(), fl.datasets.load_mnist(), fl.datasets.load_adult()
    yield "iwpc", Ridge(1e-3 * len(warfarin.y)), warfarin.preprocessing.fit_transform(warfarin.X), warfarin.y, 0.5
    Z = digits.preprocessing.fit_transform(digits.X)
    yield "mnist", LogisticRegression(C=1 / (8e-4 * len(Z)), fit_intercept=False), Z, digits.y, 0.02
    X = MinMaxScaler().fit_transform(adult.preprocessing.fit_transform(adult.X))
    yield "adult", LogisticRegression(max_iter=1000), X, adult.y, 0.5


def pictures(folder: Path, only: list[str]) -> None:
    """The frontier of each data set by the rows present, and its best candidates."""
    for name, model, X, y, eta in problems():
        if only and name not in only:
            continue
        frontier = fl.protect(model, np.asarray(X, dtype=float), y, eta, over="max", public="preprocessing")
        figure: Any = frontier.plot().figure
        figure.savefig(folder / f"frontier-{name}.png", dpi=120)
        for at in sorted({point.eta for point in frontier.points}):
            best = frontier.best(at)
            alone = next(
                p for p in frontier.points if (p.eta, p.penalty, p.weighting, p.shape) == (at, 1.0, "none", "isotropic")
            )
            print(
                f"| {name} | {at:g} | {frontier.score:.3f} | {alone.score:.3f} | {best.score:.3f} | x {best.penalty:g}, "
                f"{best.weighting}, {best.shape} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    meaning()
    try:
        if not given.only:
            warfarin()
            income()
            income_reweighted()
        print(
            "\n| data | eta | without noise | isotropic noise alone | best | which |\n| --- | --- | --- | --- | --- | --- |"
        )
        pictures(given.out, given.only)
    except fl.DataError as error:
        print(f"Left out: {error}")


if __name__ == "__main__":
    main()

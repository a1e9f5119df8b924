"""What the paper's attacks cost without refitting, as ratios against refitting a hundred rows and scaling up.

``python benchmarks/reproduce.py [folder with the data sets]``; FISHERLEAK_DATA by default.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import fisherleak as fl
from fisherleak.reproduce import reproduce
from fisherleak.reproduce.attribute_attacks import L2S, SIGMAS, TRIALS

ROWS = 100


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = function()
    return time.perf_counter() - start, found


def refits(X: Any, y: Any, alpha: float, columns: list[int], candidates: list[list[float]]) -> float:
    """Seconds to refit a model for every row and candidate, from a hundred rows."""
    start = time.perf_counter()
    for row in range(ROWS):
        for values in candidates:
            other = X.copy()
            other[row, columns] = values
            Ridge(alpha=alpha, fit_intercept=False).fit(other, y)
    return (time.perf_counter() - start) * len(y) / ROWS


def adult(folder: str) -> None:
    data = fl.datasets.load_adult(data_home=folder)
    prepare = data.preprocessing.fit(data.X)
    X, y = prepare.transform(data.X), 2.0 * data.y - 1.0
    married = prepare.get_feature_names_out().tolist().index("marital-status_married")
    alpha = 1e-3 * y.size
    weightings = [np.ones(y.size)]
    for _ in range(10):
        step = fl.IRFIL(Ridge(alpha=alpha, fit_intercept=False), n_iter=1, attributes=[married])
        weightings.append(step.fit(X, y, sample_weight=weightings[-1]).weights_)
    models = [Ridge(alpha=alpha, fit_intercept=False).fit(X, y, sample_weight=w) for w in weightings]

    def attack() -> None:
        for model, weights in zip(models, weightings, strict=True):
            fl.attacks.WhiteBox(model, X, y, married, sample_weight=weights).accuracy(fl.Gaussian(1e-3))

    ours, _ = timed(attack)
    theirs = 11 * refits(X, y, alpha, [married], [[0.0], [1.0]])
    print(
        f"white-box on Adult, {y.size} people, 11 weightings: {ours:.1f} s; refitting, scaled up: {theirs:.0f} s",
        end="",
    )
    print(f"; ratio {theirs / ours:.0f}")


def iwpc(folder: str) -> None:
    data = fl.datasets.load_iwpc(data_home=folder)
    X = data.preprocessing.fit_transform(data.X).astype(np.float64)

    def attack() -> None:
        rng = np.random.default_rng(0)
        for l2 in L2S:
            model = make_pipeline(data.preprocessing, Ridge(alpha=l2 * data.y.size, fit_intercept=False))
            white_box = fl.attacks.WhiteBox(model.fit(data.X, data.y), data.X, data.y, "vkorc1")
            theta = model[-1].coef_
            for sigma in SIGMAS:
                white_box.infer(theta + sigma * rng.normal(size=(TRIALS, theta.size)))

    ours, _ = timed(attack)
    levels = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    theirs = len(L2S) * refits(X, data.y, 1e-3 * data.y.size, [11, 12], levels)
    print(
        f"white-box on IWPC, {len(L2S)} l2 x {len(SIGMAS)} sigma x {TRIALS} trials: {ours:.1f} s; refitting once for all ",
        end="",
    )
    print(f"trials, scaled up: {theirs:.0f} s; ratio {theirs / ours:.0f}")


def everything(folder: str) -> None:
    with tempfile.TemporaryDirectory() as out:
        seconds, _ = timed(lambda: reproduce(["all"], folder, out))
    print(f"reproduce all, with figures: {seconds:.0f} s")


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("FISHERLEAK_DATA")
    if not folder:
        print("skipped: the paper's data sets are not here; set FISHERLEAK_DATA or pass their folder")
        return
    adult(folder)
    iwpc(folder)
    everything(folder)


if __name__ == "__main__":
    main()

"""What looking for the best model under a limit takes, and what it gains: Adult, 30,162 people and 86 features in [0, 1].

``python benchmarks/protect.py``: three penalties, three weightings and three shapes of noise, by the rows present.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MinMaxScaler

import fisherleak as fl

GOAL = 300.0
"""Seconds on two cores."""


def main() -> None:
    try:
        adult = fl.datasets.load_adult()
    except fl.DataError as error:
        print(f"Adult is left out: {error}")
        return
    X = MinMaxScaler().fit_transform(adult.preprocessing.fit_transform(adult.X))
    start = time.perf_counter()
    frontier = fl.protect(
        LogisticRegression(C=1.0, max_iter=1000), X, adult.y, eta=0.5, over="max", public="preprocessing"
    )
    took = time.perf_counter() - start
    count = len({(point.penalty, point.weighting, point.shape) for point in frontier.points})
    print(f"{X.shape[0]:,} x {X.shape[1]}, {count} candidates in {took:.0f} s (goal {GOAL:.0f} s)")
    for reason in frontier.refused:
        print(f"  refused: {reason}")
    print(f"held-out accuracy without noise {100 * (frontier.score or np.nan):.2f} %, loss {frontier.loss:.4f}")
    print(f"{'eta':>8}{'best':>32}{'accuracy':>12}{'loss':>10}{'isotropic alone':>18}")
    for eta in sorted({point.eta for point in frontier.points}):
        best = frontier.best(eta)
        plain = [
            p for p in frontier.points if (p.eta, p.penalty, p.weighting, p.shape) == (eta, 1.0, "none", "isotropic")
        ]
        name = f"x {best.penalty:g}, {best.weighting}, {best.shape}"
        first = 100 * (plain[0].score or np.nan) if plain else np.nan
        print(
            f"{eta:>8g}{name:>32}{100 * (best.score or np.nan):>10.2f} %{best.loss:>10.4f}{first:>16.2f} %", flush=True
        )


if __name__ == "__main__":
    main()

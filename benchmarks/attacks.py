"""What the white-box attack on all of Adult takes: 30,162 people, 86 features in [0, 1], logistic and softmax models.

``python benchmarks/attacks.py``: processor time of all moves, against true refits of some rows scaled up to all of them, and
how far the moves are from those refits. ``--refits`` says how many.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.preprocessing import MinMaxScaler

import fisherleak as fl

GOAL = 10.0
"""Seconds of processor time for each line, at the paper's penalty."""
L2 = 1e-3
MARRIED = "marital-status_married"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--refits", type=int, default=100)
    refits = parser.parse_args().refits
    try:
        adult = fl.datasets.load_adult()
    except fl.DataError as error:
        print(f"Adult is left out: {error}")
        return
    fitted = adult.preprocessing.fit(adult.X)
    X = MinMaxScaler().fit_transform(fitted.transform(adult.X))
    names = [str(name) for name in fitted.get_feature_names_out()]
    column = next(j for j, name in enumerate(names) if name.endswith(MARRIED))
    y = np.asarray(adult.y, dtype=np.int64)
    hours = np.digitize(np.asarray(adult.X["hours-per-week"], dtype=float), [39.5, 40.5])
    others = np.delete(X, [j for j, name in enumerate(names) if "hours" in name], axis=1)
    print(f"{'model':>10}{'target':>16}{'moves':>9}{'seconds':>9}{'refits':>10}{'ratio':>7}{'error':>10}{'bound':>10}")
    timed("logistic", X, y, column, "marital status", refits)
    timed("logistic", X, y, "label", "label", refits)
    timed("softmax", others, hours, _place(names, column), "marital status", max(1, refits // 5))
    print(f"goal: each of them in {GOAL:.0f} s")


def _place(names: list[str], column: int) -> int:
    """The column's place where those of hours are left out."""
    return column - sum("hours" in name for name in names[:column])


def timed(loss: str, X: Any, y: Any, attribute: Any, shown: str, refits: int) -> None:
    """One line: the attack's moves, and refits of some rows."""
    fit = fl.minimise(X, y, loss=loss, l2=L2)
    attack = fl.attacks.WhiteBox(fit, X, y, attribute)
    start = time.process_time()
    moves = attack.moves
    took = time.process_time() - start
    sizes = [np.linalg.norm(move.values, axis=1) for move in moves]
    count = int(sum((size > 0).sum() for size in sizes))
    bound = max(float(np.max(move.error[size > 0] / size[size > 0])) for move, size in zip(moves, sizes, strict=True))
    rows, spent, worst = np.random.default_rng(0).choice(y.size, refits, replace=False), 0.0, 0.0
    for row in rows:
        k = (int(attack.target.codes[row]) + 1) % attack.target.k
        start = time.process_time()
        other, labels = np.array(X), np.array(y)
        if attribute == "label":
            labels[row] = attack.values[k]
        else:
            other[row, attribute] = attack.values[k]
        move = fl.minimise(other, labels, loss=loss, l2=L2).theta - fit.theta
        spent += time.process_time() - start
        worst = max(worst, float(np.linalg.norm(moves[k].values[row] - move) / np.linalg.norm(move)))
    scaled = spent / refits * count
    print(
        f"{loss:>10}{shown:>16}{count:>9,}{took:>9.1f}{scaled:>8,.0f} s{scaled / took:>7,.0f}{worst:>10.1e}{bound:>10.1e}",
        flush=True,
    )


if __name__ == "__main__":
    main()

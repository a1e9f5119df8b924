"""Figure 7: IRFIL equalises the accuracy of the white-box attack."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline

from fisherleak._support.namespaces import Estimator, TableLike, VectorLike
from fisherleak.attacks import BlackBox, WhiteBox
from fisherleak.engine.noise import Gaussian
from fisherleak.leakage.measure import measure
from fisherleak.reproduce.workspace import Comparison, Item, Numbers, Workspace, next_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ITERATIONS = 10
SHOWN = (0, 2, 10)
SIGMA = 1e-3
TRIALS = 100
SEED = 0
L2 = {"iwpc": 1e-2, "adult": 1e-3}
ATTRIBUTES = {"iwpc": "vkorc1", "adult": "marital-status_married"}
TITLES = {"iwpc": "IWPC", "adult": "UCI Adult"}
SETTINGS = {"l2": L2, "sigma": SIGMA, "iterations": ITERATIONS, "shown": SHOWN, "trials": TRIALS, "random_state": SEED}


def compute(work: Workspace) -> Numbers:
    data = work.iwpc()
    numbers = {"iwpc": _balanced(work.iwpc_model(L2["iwpc"]), data.X, data.y, ATTRIBUTES["iwpc"])}
    X, names, y = work.adult_features()
    married = names.index(ATTRIBUTES["adult"])
    model = Ridge(alpha=L2["adult"] * y.size, fit_intercept=False).fit(X, y)
    numbers["adult"] = _balanced(model, X, y, married)
    black_box = BlackBox(model, X, y, married).against()
    numbers["adult"]["black-box"], numbers["adult"]["prior"] = black_box.accuracy, black_box.baseline
    return numbers


def _balanced(model: Estimator, X: TableLike, y: VectorLike, attribute: str | int) -> Numbers:
    """Eta and attack accuracy over the reweightings; deciles by the eta of the plain fit."""
    weights = np.ones(len(y))
    deciles: list[Any] = []
    found: dict[str, Any] = {"mean": [], "sd": [], "deciles": [], "without noise": [], "attack seconds": 0.0}
    for iteration in range(ITERATIONS + 1):
        last = _fitted(model, X, y, weights)
        eta = np.asarray(measure(last, X, y, sample_weight=weights).per_example([attribute]))
        found["mean"].append(float(eta.mean()))
        found["sd"].append(float(eta.std(ddof=1)))
        if iteration == 0:
            deciles = np.array_split(np.argsort(eta), 10)
        start = time.perf_counter()
        attack = WhiteBox(last, X, y, attribute, sample_weight=weights)
        expected = attack.accuracy(Gaussian(SIGMA))
        found["without noise"].append(attack.against().accuracy)
        found["attack seconds"] += time.perf_counter() - start
        if iteration in SHOWN:
            found["deciles"].append(_by_decile(iteration, attack, expected, deciles, last))
        weights = next_weights(weights, eta)
    return found


def _fitted(model: Estimator, X: TableLike, y: VectorLike, weights: VectorLike) -> Any:
    options = {"ridge__sample_weight": weights} if isinstance(model, Pipeline) else {"sample_weight": weights}
    return clone(model).fit(X, y, **options)


def _by_decile(iteration: int, attack: WhiteBox, expected: Any, deciles: list[Any], model: Estimator) -> Numbers:
    theta = np.ravel(model[-1].coef_ if hasattr(model, "steps") else model.coef_)
    released = theta + SIGMA * np.random.default_rng(SEED).normal(size=(TRIALS, theta.size))
    right = attack.infer(released) == attack.truth[None, :]
    sampled = np.stack([right[:, rows].mean(axis=1) for rows in deciles])
    return {
        "iteration": iteration,
        "sampled": sampled.mean(axis=1).tolist(),
        "sd": sampled.std(axis=1, ddof=1).tolist(),
        "exact": [float(expected[rows].mean()) for rows in deciles],
    }


def draw(numbers: Numbers, work: Workspace) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(16, 3.6), layout="constrained")
    for k, name in enumerate(TITLES):
        found = numbers[name]
        axes[2 * k].errorbar(range(ITERATIONS + 1), found["mean"], found["sd"], fmt="o-", capsize=3)
        axes[2 * k].set(title=f"{TITLES[name]}: mean eta (± SD)", xlabel="reweightings", ylabel="eta")
        for at, shown in enumerate(found["deciles"]):
            label = f"{shown['iteration']} reweightings"
            tenths = range(1, 11)
            axes[2 * k + 1].errorbar(tenths, shown["sampled"], shown["sd"], fmt="o", color=f"C{at}", markersize=3)
            axes[2 * k + 1].plot(tenths, shown["exact"], color=f"C{at}", label=label)
        axes[2 * k + 1].set(title=f"{TITLES[name]}: white-box accuracy", xlabel="decile of the first eta")
        axes[2 * k + 1].legend(fontsize=7)
    return figure


def compare(numbers: Numbers) -> list[Comparison]:
    lines = []
    for name, title in TITLES.items():
        found = numbers[name]
        for shown in found["deciles"]:
            exact = shown["exact"]
            ours = f"{exact[0]:.2f} … {exact[-1]:.2f}; the inner eight {min(exact[1:-1]):.2f} to {max(exact[1:-1]):.2f}"
            paper = {0: "rises steeply", 2: "flattens substantially", 10: "nearly constant"}[shown["iteration"]]
            lines.append(Comparison(f"{title}: accuracy by decile after {shown['iteration']}", ours, paper))
        spread = found["sd"][-1] / found["mean"][-1]
        lines.append(Comparison(f"{title}: SD of eta after ten, relative to the mean", f"{spread:.2%}", "converges"))
        quiet = f"{found['without noise'][0]:.1%}"
        lines.append(Comparison(f"{title}: white-box without noise", quiet, note="Expected 100 %."))
    adult = numbers["adult"]
    lines.append(Comparison("UCI Adult: prior", f"{adult['prior']:.1%}", note="Expected 52.1 %."))
    black_box = f"{adult['black-box']:.1%}"
    lines.append(Comparison("UCI Adult: black-box without noise", black_box, note="Expected 69.1 %."))
    return lines


ITEM = Item("figure7", "Figure 7: IRFIL and the white-box attack", SETTINGS, compute, compare, draw)

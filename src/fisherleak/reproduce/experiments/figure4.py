"""Figure 4: eta against the loss and the norm of the gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

from fisherleak.reproduce.workspace import Comparison, Item, Numbers, Workspace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLE = 2000
SEED = 0
SETTINGS = {"data": "MNIST", "model": "linear", "examples": SAMPLE, "random_state": SEED, "sigma": 1.0}


def compute(work: Workspace) -> Numbers:
    data = work.images("mnist")
    eta = work.eta("mnist", "linear")
    residual = work.model("mnist", "linear").predict(data.X) - data.labels("linear")
    loss, gradient = residual**2 / 2, np.abs(residual) * np.linalg.norm(data.X, axis=1)
    rows = np.random.default_rng(SEED).choice(eta.size, SAMPLE, replace=False)
    least_exposed, most_exposed = eta <= np.quantile(eta, 0.1), eta >= np.quantile(eta, 0.9)
    return {
        "eta": eta[rows].tolist(),
        "loss": loss[rows].tolist(),
        "gradient": gradient[rows].tolist(),
        "rank correlation": {
            "loss": float(spearmanr(eta, loss).statistic),
            "gradient": float(spearmanr(eta, gradient).statistic),
        },
        "quantile of the loss": {
            # where the largest loss of the least exposed tenth, and the smallest of the most exposed, lie among all losses
            "least exposed": float(np.mean(loss <= loss[least_exposed].max())),
            "least exposed, median": float(np.mean(loss <= np.median(loss[least_exposed]))),
            "most exposed": float(np.mean(loss <= loss[most_exposed].min())),
        },
    }


def draw(numbers: Numbers, work: Workspace) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", sharey=True)
    for ax, name, title in zip(axes, ("loss", "gradient"), ("loss", "norm of the gradient"), strict=True):
        ax.scatter(numbers[name], numbers["eta"], s=4, alpha=0.5, linewidths=0)
        ax.set(xlabel=title, xscale="log")
    axes[0].set_ylabel("eta")
    return figure


def compare(numbers: Numbers) -> list[Comparison]:
    correlation, quantile = numbers["rank correlation"], numbers["quantile of the loss"]
    return [
        Comparison("rank correlation of eta and loss", f"{correlation['loss']:.2f}", "they correlate"),
        Comparison("rank correlation of eta and gradient norm", f"{correlation['gradient']:.2f}", "they correlate"),
        Comparison(
            "losses of the least exposed tenth, as quantiles of all losses",
            f"median {quantile['least exposed, median']:.2f}, largest {quantile['least exposed']:.2f}",
            "a low eta implies a low loss",
            "As a rule: a few of them have larger losses than most examples.",
        ),
        Comparison(
            "the most exposed tenth has losses from the quantile",
            f"{quantile['most exposed']:.2f}",
            "high etas exist throughout the range",
        ),
    ]


ITEM = Item("figure4", "Figure 4: eta against the loss and the gradient", SETTINGS, compute, compare, draw)

"""Figure 2: histograms of per-example eta by class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fisherleak.reproduce.workspace import CLASSES, TITLES, Comparison, Item, Numbers, Workspace, settings_of_images

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 80


def compute(work: Workspace) -> Numbers:
    panels = []
    for name, kind in work.image_models():
        y = work.images(name).y
        eta = work.eta(name, kind)
        edges = np.linspace(0.0, np.quantile(eta, 0.999), BINS + 1)
        classes = [
            {
                "name": title,
                "mean": float(eta[y == label].mean()),
                "counts": np.histogram(eta[y == label], edges)[0].tolist(),
            }
            for label, title in enumerate(CLASSES[name])
        ]
        panels.append({"data": name, "model": kind, "edges": edges.tolist(), "classes": classes})
    return {"panels": panels}


def draw(numbers: Numbers, work: Workspace) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(14, 3), layout="constrained")
    for ax, panel in zip(axes, numbers["panels"], strict=True):
        for k, shown in enumerate(panel["classes"]):
            ax.stairs(shown["counts"], panel["edges"], fill=True, alpha=0.55, color=f"C{k}", label=shown["name"])
            ax.axvline(shown["mean"], color=f"C{k}", linestyle="--")
        ax.set(title=f"{TITLES[panel['data']]}, {panel['model']}", xlabel="eta")
        ax.legend()
    axes[0].set_ylabel("examples")
    return figure


def compare(numbers: Numbers) -> list[Comparison]:
    lines = []
    for panel in numbers["panels"]:
        means = {shown["name"]: shown["mean"] for shown in panel["classes"]}
        ours = ", ".join(f"{name}: {mean:.4f}" for name, mean in means.items())
        larger = {"mnist": "0", "cifar10": "car"}[panel["data"]]
        agrees = "" if max(means, key=lambda name: means[name]) == larger else "Ours is the other way round."
        what = f"mean eta by class, {TITLES[panel['data']]}, {panel['model']}"
        lines.append(Comparison(what, ours, f"{larger} is larger", agrees))
    return lines


ITEM = Item("figure2", "Figure 2: eta of every example by class", settings_of_images(), compute, compare, draw)

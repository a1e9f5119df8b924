"""Figure 5: the standard deviation of eta over the iterations of IRFIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fisherleak.reproduce.workspace import IMAGES, TITLES, Comparison, Item, Numbers, Workspace, settings_of_images

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def compute(work: Workspace) -> Numbers:
    curves = []
    for name, kind in work.image_models():
        history = work.balanced(name, kind).history_
        curves.append({"data": name, "model": kind, "sd": history["sd"].tolist(), "mean": history["mean"].tolist()})
    return {"curves": curves}


def draw(numbers: Numbers, work: Workspace) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for ax, name in zip(axes, IMAGES, strict=True):
        for curve in numbers["curves"]:
            if curve["data"] == name:
                ax.semilogy(curve["sd"], marker="o", markersize=3, label=curve["model"])
        ax.set(title=TITLES[name], xlabel="reweightings")
        ax.legend()
    axes[0].set_ylabel("SD of eta")
    return figure


def compare(numbers: Numbers) -> list[Comparison]:
    lines = []
    for curve in numbers["curves"]:
        sd = curve["sd"]
        ours = f"{sd[0]:.4f}, {sd[2]:.4f}, {sd[5]:.5f}, {sd[-1]:.1e}"
        what = f"SD after 0, 2, 5 and {len(sd) - 1} reweightings, {TITLES[curve['data']]}, {curve['model']}"
        lines.append(Comparison(what, ours, "the same value after only a few"))
    return lines


ITEM = Item("figure5", "Figure 5: IRFIL makes eta equal", settings_of_images(), compute, compare, draw)

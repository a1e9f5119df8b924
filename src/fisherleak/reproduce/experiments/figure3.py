"""Figure 3: the images with the largest and the smallest eta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fisherleak.reproduce.workspace import CLASSES, TITLES, Comparison, Item, Numbers, Workspace, settings_of_images

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUNT = 8


def compute(work: Workspace) -> Numbers:
    panels = []
    for name, kind in work.image_models():
        y = work.images(name).y
        eta = work.eta(name, kind)
        order = np.argsort(eta)
        panel: dict[str, Any] = {"data": name, "model": kind}
        for which, rows in (("largest", order[::-1][:COUNT]), ("smallest", order[:COUNT])):
            panel[which] = {
                "rows": rows.tolist(),
                "eta": eta[rows].tolist(),
                "classes": [CLASSES[name][label] for label in y[rows]],
            }
        panels.append(panel)
    return {"panels": panels}


def draw(numbers: Numbers, work: Workspace) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(8, COUNT, figsize=(8, 9), layout="constrained")
    for p, panel in enumerate(numbers["panels"]):
        pixels = work.images(panel["data"]).pixels
        for q, which in enumerate(("largest", "smallest")):
            for k, row in enumerate(panel[which]["rows"]):
                ax = axes[2 * p + q, k]
                ax.imshow(pixels[row], cmap="gray" if pixels.ndim == 3 else None)
                ax.set(xticks=[], yticks=[])
                if k == 0:
                    ax.set_ylabel(f"{TITLES[panel['data']]}\n{panel['model']}\n{which}", fontsize=7)
    return figure


def compare(numbers: Numbers) -> list[Comparison]:
    lines = []
    for panel in numbers["panels"]:
        name = panel["data"]
        usual = {"mnist": "1", "cifar10": "plane"}[name]
        of = panel["smallest"]["classes"].count(usual)
        largest, smallest = max(panel["largest"]["eta"]), min(panel["smallest"]["eta"])
        ours = f"{of} of {COUNT} are {usual}; largest eta {largest:.3f}, smallest {smallest:.4f}"
        paper = {"mnist": "typical ones", "cifar10": "small planes on blue sky"}[name]
        lines.append(Comparison(f"the eight smallest, {TITLES[name]}, {panel['model']}", ours, paper))
    return lines


ITEM = Item("figure3", "Figure 3: the most and the least exposed images", settings_of_images(), compute, compare, draw)

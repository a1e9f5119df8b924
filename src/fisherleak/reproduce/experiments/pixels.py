"""Beyond the paper: models of all pixels, and which of them the model reveals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fisherleak.engine.fit.minimise import minimise
from fisherleak.leakage.measure import measure
from fisherleak.reproduce.workspace import CLASSES, IMAGES, L2, TITLES, Comparison, Item, Numbers, Workspace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS = {"model": "linear on all pixels, in the unit ball", "l2": L2, "sigma": 1.0}


def compute(work: Workspace) -> Numbers:
    return {name: _maps(work, name) for name in IMAGES}


def _maps(work: Workspace, name: str) -> Numbers:
    data = work.images(name)
    flat = data.pixels.reshape(len(data.pixels), -1) / 255.0
    flat /= np.linalg.norm(flat, axis=1).max()
    labels = data.labels("linear")
    leak = measure(minimise(flat, labels, "squared", L2[name]), flat, labels)
    eta = np.asarray(leak.per_example())
    cells = np.asarray(leak.per_cell())
    worst = int(np.argmax(eta))
    shape = [*data.pixels.shape[1:3], -1]
    # colour planes of a pixel count together, by the largest
    maps = {title: cells[data.y == k].mean(axis=0) for k, title in enumerate(CLASSES[name])}
    maps["most exposed"] = cells[worst]
    return {
        "values": flat.shape[1],
        "mean": float(eta.mean()),
        "sd": float(eta.std(ddof=1)),
        "max": float(eta.max()),
        "worst": worst,
        "maps": {title: values.reshape(shape).max(axis=-1).round(8).tolist() for title, values in maps.items()},
    }


def draw(numbers: Numbers, work: Workspace) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(11, 5), layout="constrained")
    for line, name in zip(axes, IMAGES, strict=True):
        found = numbers[name]
        for ax, title in zip(line, found["maps"], strict=False):
            image = ax.imshow(found["maps"][title], cmap="magma")
            figure.colorbar(image, ax=ax, shrink=0.8)
            ax.set(xticks=[], yticks=[], title="most exposed image" if title == "most exposed" else f"mean of {title}")
        pixels = work.images(name).pixels[found["worst"]]
        line[3].imshow(pixels, cmap="gray" if pixels.ndim == 2 else None)
        line[3].set(xticks=[], yticks=[], title="that image")
        line[0].set_ylabel(f"{TITLES[name]}: eta of each pixel", fontsize=8)
    return figure


def compare(numbers: Numbers) -> list[Comparison]:
    lines = []
    for name in IMAGES:
        found = numbers[name]
        ours = f"{found['mean']:.4f} ± {found['sd']:.4f}, at most {found['max']:.4f}"
        lines.append(Comparison(f"eta of an image, {TITLES[name]}, all {found['values']} values", ours))
    return lines


REMARK = "Linear models of every pixel, without PCA: exact etas of each image and of each pixel of each image."
ITEM = Item("pixels", "All pixels: leakage maps", SETTINGS, compute, compare, draw, REMARK, beyond=True)

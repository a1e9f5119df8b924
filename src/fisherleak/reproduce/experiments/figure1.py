"""Figure 1: a Fisher information matrix, with the blocks of examples and of an attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fisherleak.leakage.measure import measure
from fisherleak.reproduce.workspace import Comparison, Item, Numbers, Workspace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

L2 = 1e-3
PATIENTS = (0, 1, 2)
SETTINGS = {"data": "IWPC", "l2": L2, "sigma": 1.0, "patients": list(PATIENTS), "attribute": "vkorc1"}


def compute(work: Workspace) -> Numbers:
    data = work.iwpc()
    leak = measure(work.iwpc_model(L2), data.X, data.y)
    fim = np.asarray(leak.fim(rows=list(PATIENTS), label=False))
    edges = np.cumsum([0, *leak.sizes]).tolist()
    vkorc1 = leak.attributes.index("vkorc1")
    values, size = edges[-1], len(PATIENTS)
    of_attribute = [i * values + j for i in range(size) for j in range(edges[vkorc1], edges[vkorc1 + 1])]
    etas = {
        "everything shown": float(np.sqrt(np.linalg.eigvalsh(fim)[-1])),
        "each patient": [leak.of(rows=[row], attributes=leak.attributes) for row in PATIENTS],
        "vkorc1 of the three": leak.of(rows=list(PATIENTS), attributes=["vkorc1"]),
        "vkorc1 of the three, from the matrix": float(
            np.sqrt(np.linalg.eigvalsh(fim[np.ix_(of_attribute, of_attribute)])[-1])
        ),
    }
    return {
        "fim": fim.tolist(),
        "names": leak.attributes,
        "edges": edges,
        "eta": etas,
        "rank": int(np.linalg.matrix_rank(fim)),
    }


def draw(numbers: Numbers, work: Workspace) -> Figure:
    import matplotlib.pyplot as plt
    from matplotlib.colors import SymLogNorm
    from matplotlib.patches import Rectangle

    fim, edges = np.array(numbers["fim"]), numbers["edges"]
    values = edges[-1]
    figure, axes = plt.subplots(figsize=(7.2, 6.4), layout="constrained")
    largest = np.abs(fim).max()
    norm = SymLogNorm(linthresh=largest * 1e-4, vmin=-largest, vmax=largest)
    image = axes.imshow(fim, cmap="RdBu_r", norm=norm)
    figure.colorbar(image, ax=axes, label="Fisher information (sigma = 1)", shrink=0.85)
    place = numbers["names"].index("vkorc1")
    low, width = edges[place], edges[place + 1] - edges[place]
    for i in range(len(PATIENTS)):
        start = i * values - 0.5
        axes.add_patch(Rectangle((start, start), values, values, fill=False, edgecolor="black", linewidth=2.0))
        for j in range(len(PATIENTS)):
            corner = (i * values + low - 0.5, j * values + low - 0.5)
            axes.add_patch(Rectangle(corner, width, width, fill=False, edgecolor="tab:green", linewidth=1.8))
    middles = [(edges[k] + edges[k + 1] - 1) / 2 for k in range(len(edges) - 1)]
    ticks = [i * values + middle for i in range(len(PATIENTS)) for middle in middles]
    axes.set_xticks(ticks, numbers["names"] * len(PATIENTS), rotation=90, fontsize=6)
    axes.set_yticks(ticks, numbers["names"] * len(PATIENTS), fontsize=6)
    axes.set_title("Black: all attributes of one patient. Green: one attribute (vkorc1) of all three.", fontsize=9)
    return figure


def compare(numbers: Numbers) -> list[Comparison]:
    eta = numbers["eta"]
    patients = ", ".join(f"{x:.4f}" for x in eta["each patient"])
    return [
        Comparison("eta of each patient's attributes (black blocks)", patients, "a sketch, without numbers"),
        Comparison("eta of vkorc1 of all three (green blocks together)", f"{eta['vkorc1 of the three']:.4f}"),
        Comparison("eta of everything shown", f"{eta['everything shown']:.4f}"),
        Comparison(
            "rank of the matrix",
            f"{numbers['rank']} of {len(numbers['fim'])}",
            note="Never above the number of parameters (14): the matrix of a whole data set is always singular.",
        ),
    ]


ITEM = Item("figure1", "Figure 1: the Fisher information matrix of three patients", SETTINGS, compute, compare, draw)

"""Items about the patients of IWPC: Figure 1, and the sensitivity of all of IRFIL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fisherleak._support.namespaces import TableLike, VectorLike
from fisherleak.engine.fit.minimise import minimise
from fisherleak.leakage.measure import measure
from fisherleak.reproduce.workspace import Comparison, Item, Numbers, Workspace, next_weights, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Figure 1: a Fisher information matrix, with the blocks of examples and of an attribute

L2_OF_FIGURE_1 = 1e-3
PATIENTS = (0, 1, 2)
OF_FIGURE_1 = {"data": "IWPC", "l2": L2_OF_FIGURE_1, "sigma": 1.0, "patients": list(PATIENTS), "attribute": "vkorc1"}


def _matrix_of_three(work: Workspace) -> Numbers:
    data = work.iwpc()
    leak = measure(work.iwpc_model(L2_OF_FIGURE_1), data.X, data.y)
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


def _draw_matrix(numbers: Numbers, work: Workspace) -> Figure:
    from matplotlib.colors import SymLogNorm
    from matplotlib.patches import Rectangle

    fim, edges = np.array(numbers["fim"]), numbers["edges"]
    values = edges[-1]
    figure, axes = panels(1, 1, (7.2, 6.4))
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


def _compare_blocks(numbers: Numbers) -> list[Comparison]:
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


# Beyond the paper: the sensitivity of all of IRFIL, weights included, by finite differences

L2 = 1e-2
REWEIGHTINGS = 10
MOVED = 10
STEP = 1e-3
SEED = 0
BLOCK = {"vkorc1": [11, 12]}
END_TO_END = {
    "data": "IWPC",
    "l2": L2,
    "reweightings": REWEIGHTINGS,
    "patients": MOVED,
    "step": STEP,
    "random_state": SEED,
}


def _sensitivities(work: Workspace) -> Numbers:
    data = work.iwpc()
    X = data.preprocessing.fit_transform(data.X).astype(np.float64)
    fit, _ = _irfil(X, data.y)
    reported = np.asarray(measure(fit, X, data.y, attributes=BLOCK).per_example("vkorc1"))
    rows = np.random.default_rng(SEED).choice(data.y.size, MOVED, replace=False)
    true = []
    for row in rows:
        columns = []
        for column in BLOCK["vkorc1"]:
            ends = []
            for sign in (1.0, -1.0):
                moved = X.copy()
                moved[row, column] += sign * STEP
                ends.append(np.asarray(_irfil(moved, data.y)[0].coef))
            columns.append((ends[0] - ends[1]) / (2.0 * STEP))
        true.append(float(np.linalg.norm(np.array(columns), 2)))
    return {"rows": rows.tolist(), "reported": reported[rows].tolist(), "end to end": true}


def _irfil(X: TableLike, y: VectorLike) -> tuple[Any, Any]:
    """Algorithm 1 of the paper on plain arrays."""
    weights = np.ones(y.size)
    fit = minimise(X, y, "squared", L2, weights)
    for _ in range(REWEIGHTINGS):
        eta = np.asarray(measure(fit, X, y, attributes=BLOCK).per_example("vkorc1"))
        weights = next_weights(weights, eta)
        fit = minimise(X, y, "squared", L2, weights)
    return fit, weights


def _draw_sensitivities(numbers: Numbers, work: Workspace) -> Figure:
    figure, ax = panels(1, 1, (6, 3.2))
    order = np.argsort(numbers["end to end"])
    ax.plot(np.array(numbers["end to end"])[order], "o", label="end to end, weights included")
    ax.plot(np.array(numbers["reported"])[order], "s", markersize=3, label="reported, weights held fixed")
    ax.set(xlabel="patients, in order", ylabel="eta of vkorc1", ylim=(0, None))
    ax.legend()
    return figure


def _compare_sensitivities(numbers: Numbers) -> list[Comparison]:
    ratio = np.array(numbers["end to end"]) / np.array(numbers["reported"])
    ours = f"{ratio.min():.2f} to {ratio.max():.2f}, median {np.median(ratio):.2f} ({ratio.size} patients)"
    note = "Equal reported etas do not mean that the whole procedure leaks equally about everyone."
    return [Comparison("true sensitivity relative to the reported eta", ours, note=note)]


ITEMS = (
    Item(
        *("figure1", "Figure 1: the Fisher information matrix of three patients", OF_FIGURE_1),
        *(_matrix_of_three, _compare_blocks, _draw_matrix),
    ),
    Item(
        *("end_to_end", "IRFIL end to end", END_TO_END, _sensitivities, _compare_sensitivities, _draw_sensitivities),
        beyond=True,
    ),
)

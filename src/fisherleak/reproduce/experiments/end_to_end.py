"""Beyond the paper: the sensitivity of all of IRFIL, weights included, by finite differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fisherleak._support.namespaces import TableLike, VectorLike
from fisherleak.engine.fit.minimise import minimise
from fisherleak.leakage.measure import measure
from fisherleak.reproduce.workspace import Comparison, Item, Numbers, Workspace, next_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

L2 = 1e-2
REWEIGHTINGS = 10
PATIENTS = 10
STEP = 1e-3
SEED = 0
BLOCK = {"vkorc1": [11, 12]}
SETTINGS = {
    "data": "IWPC",
    "l2": L2,
    "reweightings": REWEIGHTINGS,
    "patients": PATIENTS,
    "step": STEP,
    "random_state": SEED,
}


def compute(work: Workspace) -> Numbers:
    data = work.iwpc()
    X = data.preprocessing.fit_transform(data.X).astype(np.float64)
    fit, _ = _irfil(X, data.y)
    reported = np.asarray(measure(fit, X, data.y, attributes=BLOCK).per_example("vkorc1"))
    rows = np.random.default_rng(SEED).choice(data.y.size, PATIENTS, replace=False)
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


def draw(numbers: Numbers, work: Workspace) -> Figure:
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
    order = np.argsort(numbers["end to end"])
    ax.plot(np.array(numbers["end to end"])[order], "o", label="end to end, weights included")
    ax.plot(np.array(numbers["reported"])[order], "s", markersize=3, label="reported, weights held fixed")
    ax.set(xlabel="patients, in order", ylabel="eta of vkorc1", ylim=(0, None))
    ax.legend()
    return figure


def compare(numbers: Numbers) -> list[Comparison]:
    ratio = np.array(numbers["end to end"]) / np.array(numbers["reported"])
    ours = f"{ratio.min():.2f} to {ratio.max():.2f}, median {np.median(ratio):.2f} ({ratio.size} patients)"
    note = "Equal reported etas do not mean that the whole procedure leaks equally about everyone."
    return [Comparison("true sensitivity relative to the reported eta", ours, note=note)]


ITEM = Item("end_to_end", "IRFIL end to end", SETTINGS, compute, compare, draw, beyond=True)

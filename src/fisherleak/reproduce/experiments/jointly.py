"""Beyond the paper: eta of whole classes and of whole data sets, everything in them taken jointly."""

from __future__ import annotations

import numpy as np

from fisherleak.leakage.measure import measure
from fisherleak.reproduce.workspace import CLASSES, TITLES, Comparison, Item, Numbers, Workspace, settings_of_images

IWPC_L2 = 1e-3
SETTINGS = {**settings_of_images(), "l2 of IWPC": IWPC_L2}


def compute(work: Workspace) -> Numbers:
    lines = []
    for name, kind in work.image_models():
        y = work.images(name).y
        leak = work.leakage(name, kind)
        groups = {CLASSES[name][label]: eta for label, eta in leak.by_group(y).items()}
        one = float(np.max(work.eta(name, kind)))
        lines.append({"data": f"{TITLES[name]}, {kind}", "groups": groups, "dataset": leak.dataset(), "largest": one})
    data = work.iwpc()
    leak = measure(work.iwpc_model(IWPC_L2), data.X, data.y)
    one = float(np.max(leak.per_example()))
    groups = {str(group): eta for group, eta in leak.by_group("race").items()}
    lines.append({"data": "IWPC, linear", "groups": groups, "dataset": leak.dataset(), "largest": one})
    return {"lines": lines}


def compare(numbers: Numbers) -> list[Comparison]:
    out = []
    for line in numbers["lines"]:
        groups = ", ".join(f"{name}: {eta:.3f}" for name, eta in line["groups"].items())
        ours = f"{groups}; all together {line['dataset']:.3f}; the most exposed example alone {line['largest']:.3f}"
        out.append(Comparison(line["data"], ours))
    return out


REMARK = "What a release with sigma = 1 reveals about a class, or everyone, jointly: O(n² d³) by the paper's formulas."
ITEM = Item("jointly", "Classes and whole data sets", SETTINGS, compute, compare, remark=REMARK, beyond=True)

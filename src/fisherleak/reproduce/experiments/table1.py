"""Table 1: mean and standard deviation of eta and test accuracy, before and after IRFIL."""

from __future__ import annotations

from fisherleak.reproduce.workspace import TITLES, Comparison, Item, Numbers, Workspace, settings_of_images

PAPER = {
    ("mnist", "linear"): ("0.040 ± 0.014, 100 %", "0.047 ± 0.000, 99.8 %"),
    ("mnist", "logistic"): ("0.027 ± 0.012, 99.8 %", "0.024 ± 0.000, 99.7 %"),
    ("cifar10", "linear"): ("0.26 ± 0.08, 79.8 %", "0.30 ± 0.00, 80.7 %"),
    ("cifar10", "logistic"): ("0.32 ± 0.15, 79.9 %", "0.25 ± 0.00, 79.1 %"),
}
CIFAR = "The second digit depends on the copy of CIFAR-10: one whose pixels went through JPEG gives 0.2485."


def compute(work: Workspace) -> Numbers:
    cells = []
    for name, kind in work.image_models():
        eta = work.eta(name, kind)
        balanced = work.balanced(name, kind)
        before = {"mean": float(eta.mean()), "sd": float(eta.std(ddof=1))}
        after = {"mean": float(balanced.history_["mean"][-1]), "sd": float(balanced.history_["sd"][-1])}
        before["accuracy"] = work.test_accuracy(name, kind, work.model(name, kind))
        after["accuracy"] = work.test_accuracy(name, kind, balanced.estimator_)
        cells.append({"data": name, "model": kind, "before": before, "after": after})
    return {"cells": cells}


def compare(numbers: Numbers) -> list[Comparison]:
    lines = []
    for cell in numbers["cells"]:
        name, kind = cell["data"], cell["model"]
        for k, (when, title) in enumerate((("before", ""), ("after", " + IRFIL"))):
            got = cell[when]
            ours = f"{got['mean']:.4f} ± {got['sd']:.4f}, {100 * got['accuracy']:.1f} %"
            differs = not any(f"{got['mean']:.{digits}f} " in PAPER[name, kind][k] for digits in (2, 3))
            note = CIFAR if name == "cifar10" and differs else ""
            lines.append(Comparison(f"{TITLES[name]}, {kind}{title}", ours, PAPER[name, kind][k], note))
    return lines


ITEM = Item("table1", "Table 1: eta and test accuracy before and after IRFIL", settings_of_images(), compute, compare)

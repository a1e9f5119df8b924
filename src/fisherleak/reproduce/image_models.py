"""Items about the four models of two classes of images: Table 1, Figures 2 to 5, and two statements about all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from fisherleak._support.namespaces import Vector
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measure import measure
from fisherleak.reproduce.workspace import (
    CLASSES,
    IMAGES,
    KINDS,
    L2,
    REWEIGHTINGS,
    TITLES,
    Comparison,
    Item,
    Numbers,
    Workspace,
    panels,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS = {"l2 of logistic regression": L2, "l2 of linear regression": 0.0, "reweightings": REWEIGHTINGS, "sigma": 1.0}


def _called(model: Numbers) -> str:
    """An image model, as lines and panels call it."""
    return f"{TITLES[model['data']]}, {model['model']}"


def _etas(work: Workspace) -> Iterator[tuple[Numbers, Vector, Any]]:
    """The names of each image model, eta of every image, and its class."""
    for name, kind in work.image_models():
        yield {"data": name, "model": kind}, work.eta(name, kind), work.images(name).y


# Table 1: mean and standard deviation of eta and test accuracy, before and after IRFIL

PUBLISHED = {
    ("mnist", "linear"): ("0.040 ± 0.014, 100 %", "0.047 ± 0.000, 99.8 %"),
    ("mnist", "logistic"): ("0.027 ± 0.012, 99.8 %", "0.024 ± 0.000, 99.7 %"),
    ("cifar10", "linear"): ("0.26 ± 0.08, 79.8 %", "0.30 ± 0.00, 80.7 %"),
    ("cifar10", "logistic"): ("0.32 ± 0.15, 79.9 %", "0.25 ± 0.00, 79.1 %"),
}
OTHER_COPY = "The second digit depends on the copy of CIFAR-10: one whose pixels went through JPEG gives 0.2485."


def _before_and_after(work: Workspace) -> Numbers:
    cells = []
    for model, eta, _ in _etas(work):
        name, kind = model["data"], model["model"]
        balanced = work.balanced(name, kind)
        before = {"mean": float(eta.mean()), "sd": float(eta.std(ddof=1))}
        after = {each: float(balanced.history_[each][-1]) for each in ("mean", "sd")}
        before["accuracy"] = work.test_accuracy(name, kind, work.model(name, kind))
        after["accuracy"] = work.test_accuracy(name, kind, balanced.estimator_)
        cells.append({**model, "before": before, "after": after})
    return {"cells": cells}


def _compare_table1(numbers: Numbers) -> list[Comparison]:
    lines = []
    for cell in numbers["cells"]:
        published = PUBLISHED[cell["data"], cell["model"]]
        for (when, title), paper in zip((("before", ""), ("after", " + IRFIL")), published, strict=True):
            got = cell[when]
            ours = f"{got['mean']:.4f} ± {got['sd']:.4f}, {100 * got['accuracy']:.1f} %"
            differs = not any(f"{got['mean']:.{digits}f} " in paper for digits in (2, 3))
            note = OTHER_COPY if cell["data"] == "cifar10" and differs else ""
            lines.append(Comparison(f"{_called(cell)}{title}", ours, paper, note))
    return lines


# Figure 2: histograms of per-example eta by class

BINS = 80


def _histograms(work: Workspace) -> Numbers:
    found = []
    for model, eta, y in _etas(work):
        edges = np.linspace(0.0, np.quantile(eta, 0.999), BINS + 1)
        classes = [
            {
                "name": title,
                "mean": float(eta[y == label].mean()),
                "counts": np.histogram(eta[y == label], edges)[0].tolist(),
            }
            for label, title in enumerate(CLASSES[model["data"]])
        ]
        found.append({**model, "edges": edges.tolist(), "classes": classes})
    return {"panels": found}


def _draw_histograms(numbers: Numbers, work: Workspace) -> Figure:
    figure, axes = panels(1, 4, (14, 3))
    for ax, panel in zip(axes, numbers["panels"], strict=True):
        for k, shown in enumerate(panel["classes"]):
            ax.stairs(shown["counts"], panel["edges"], fill=True, alpha=0.55, color=f"C{k}", label=shown["name"])
            ax.axvline(shown["mean"], color=f"C{k}", linestyle="--")
        ax.set(title=_called(panel), xlabel="eta")
        ax.legend()
    axes[0].set_ylabel("examples")
    return figure


def _compare_classes(numbers: Numbers) -> list[Comparison]:
    lines = []
    for panel in numbers["panels"]:
        means = {shown["name"]: shown["mean"] for shown in panel["classes"]}
        ours = ", ".join(f"{name}: {mean:.4f}" for name, mean in means.items())
        larger = {"mnist": "0", "cifar10": "car"}[panel["data"]]
        agrees = "" if max(means, key=lambda name: means[name]) == larger else "Ours is the other way round."
        lines.append(Comparison(f"mean eta by class, {_called(panel)}", ours, f"{larger} is larger", agrees))
    return lines


# Figure 3: the images with the largest and the smallest eta

COUNT = 8


def _extremes(work: Workspace) -> Numbers:
    found = []
    for model, eta, y in _etas(work):
        order = np.argsort(eta)
        ends = {
            which: {
                "rows": rows.tolist(),
                "eta": eta[rows].tolist(),
                "classes": [CLASSES[model["data"]][label] for label in y[rows]],
            }
            for which, rows in (("largest", order[::-1][:COUNT]), ("smallest", order[:COUNT]))
        }
        found.append(model | ends)
    return {"panels": found}


def _draw_extremes(numbers: Numbers, work: Workspace) -> Figure:
    figure, axes = panels(8, COUNT, (8, 9))
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


def _compare_extremes(numbers: Numbers) -> list[Comparison]:
    lines = []
    for panel in numbers["panels"]:
        usual = {"mnist": "1", "cifar10": "plane"}[panel["data"]]
        of = panel["smallest"]["classes"].count(usual)
        largest, smallest = max(panel["largest"]["eta"]), min(panel["smallest"]["eta"])
        ours = f"{of} of {COUNT} are {usual}; largest eta {largest:.3f}, smallest {smallest:.4f}"
        paper = {"mnist": "typical ones", "cifar10": "small planes on blue sky"}[panel["data"]]
        lines.append(Comparison(f"the eight smallest, {_called(panel)}", ours, paper))
    return lines


# How many of the most exposed examples are the same for linear and logistic regression (a statement in the text)

MOST_EXPOSED = 100
SHARED = {"mnist": 24, "cifar10": 34}


def _shared(work: Workspace) -> Numbers:
    found = {}
    for name in IMAGES:
        tops = [set(np.argsort(work.eta(name, kind))[-MOST_EXPOSED:].tolist()) for kind in KINDS]
        found[name] = len(tops[0] & tops[1])
    return found


def _compare_shared(numbers: Numbers) -> list[Comparison]:
    note = "The copy of the files decides: one whose pixels went through JPEG gives 35."
    return [
        Comparison(
            f"shared by both models, {TITLES[name]}", str(numbers[name]), str(paper), note * (numbers[name] != paper)
        )
        for name, paper in SHARED.items()
    ]


# Figure 4: eta against the loss and the norm of the gradient

SAMPLE = 2000
SEED = 0
OF_FIGURE_4 = {"data": "MNIST", "model": "linear", "examples": SAMPLE, "random_state": SEED, "sigma": 1.0}


def _losses(work: Workspace) -> Numbers:
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


def _draw_losses(numbers: Numbers, work: Workspace) -> Figure:
    figure, axes = panels(1, 2, (8, 3.4), sharey=True)
    for ax, name, title in zip(axes, ("loss", "gradient"), ("loss", "norm of the gradient"), strict=True):
        ax.scatter(numbers[name], numbers["eta"], s=4, alpha=0.5, linewidths=0)
        ax.set(xlabel=title, xscale="log")
    axes[0].set_ylabel("eta")
    return figure


def _compare_losses(numbers: Numbers) -> list[Comparison]:
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


# Figure 5: the standard deviation of eta over the iterations of IRFIL


def _equalised(work: Workspace) -> Numbers:
    curves = []
    for name, kind in work.image_models():
        history = work.balanced(name, kind).history_
        curves.append({"data": name, "model": kind, "sd": history["sd"].tolist(), "mean": history["mean"].tolist()})
    return {"curves": curves}


def _draw_equalised(numbers: Numbers, work: Workspace) -> Figure:
    figure, axes = panels(1, 2, (8, 3.2))
    for ax, name in zip(axes, IMAGES, strict=True):
        for curve in numbers["curves"]:
            if curve["data"] == name:
                ax.semilogy(curve["sd"], marker="o", markersize=3, label=curve["model"])
        ax.set(title=TITLES[name], xlabel="reweightings")
        ax.legend()
    axes[0].set_ylabel("SD of eta")
    return figure


def _compare_equalised(numbers: Numbers) -> list[Comparison]:
    lines = []
    for curve in numbers["curves"]:
        sd = curve["sd"]
        what = f"SD after 0, 2, 5 and {len(sd) - 1} reweightings, {_called(curve)}"
        ours = f"{sd[0]:.4f}, {sd[2]:.4f}, {sd[5]:.5f}, {sd[-1]:.1e}"
        lines.append(Comparison(what, ours, "the same value after only a few"))
    return lines


# Beyond the paper: eta of whole classes and of whole data sets, everything in them taken jointly

IWPC_L2 = 1e-3
JOINTLY = "What a release with sigma = 1 reveals about a class, or everyone, jointly: O(n² d³) by the paper's formulas."


def _jointly(work: Workspace) -> Numbers:
    def line(data: str, leak: Leakage, groups: dict[str, float], eta: Any) -> Numbers:
        return {"data": data, "groups": groups, "dataset": leak.dataset(), "largest": float(np.max(eta))}

    lines = []
    for model, eta, y in _etas(work):
        leak = work.leakage(model["data"], model["model"])
        groups = {CLASSES[model["data"]][label]: joint for label, joint in leak.by_group(y).items()}
        lines.append(line(_called(model), leak, groups, eta))
    data = work.iwpc()
    leak = measure(work.iwpc_model(IWPC_L2), data.X, data.y)
    groups = {str(group): joint for group, joint in leak.by_group("race").items()}
    return {"lines": [*lines, line("IWPC, linear", leak, groups, leak.per_example())]}


def _compare_jointly(numbers: Numbers) -> list[Comparison]:
    out = []
    for line in numbers["lines"]:
        groups = ", ".join(f"{name}: {eta:.3f}" for name, eta in line["groups"].items())
        ours = f"{groups}; all together {line['dataset']:.3f}; the most exposed example alone {line['largest']:.3f}"
        out.append(Comparison(line["data"], ours))
    return out


ITEMS = (
    Item(
        "table1",
        "Table 1: eta and test accuracy before and after IRFIL",
        SETTINGS,
        _before_and_after,
        _compare_table1,
    ),
    Item(
        *("figure2", "Figure 2: eta of every example by class", SETTINGS),
        *(_histograms, _compare_classes, _draw_histograms),
    ),
    Item(
        *("figure3", "Figure 3: the most and the least exposed images", SETTINGS),
        *(_extremes, _compare_extremes, _draw_extremes),
    ),
    Item("overlap", "The 100 most exposed examples of both models", SETTINGS, _shared, _compare_shared),
    Item(
        *("figure4", "Figure 4: eta against the loss and the gradient", OF_FIGURE_4),
        *(_losses, _compare_losses, _draw_losses),
    ),
    Item("figure5", "Figure 5: IRFIL makes eta equal", SETTINGS, _equalised, _compare_equalised, _draw_equalised),
    Item(
        *("jointly", "Classes and whole data sets", {**SETTINGS, "l2 of IWPC": IWPC_L2}),
        *(_jointly, _compare_jointly),
        remark=JOINTLY,
        beyond=True,
    ),
)

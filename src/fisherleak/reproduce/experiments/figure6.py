"""Figure 6: l2, noise, and what attackers find out about a patient's VKORC1 gene."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fisherleak.attacks import BlackBox, Ideal, WhiteBox
from fisherleak.engine.noise import Gaussian
from fisherleak.leakage.measure import measure
from fisherleak.reproduce.workspace import Comparison, Item, Numbers, Workspace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

L2S = (1e-5, 1e-3, 1e-1, 1.0)
SIGMAS = (*(float(f"{digit}e{power}") for power in range(-5, 0) for digit in (1, 2, 5)), 1.0)
TRIALS = 100
SEED = 0
SPLITS = 5
SETTINGS = {
    "data": "IWPC",
    "attribute": "vkorc1",
    "l2": L2S,
    "sigma": SIGMAS,
    "trials": TRIALS,
    "random_state": SEED,
    "splits": SPLITS,
}
SHOWN = (1e-5, 1e-4, 5e-4, 1e-3, 2e-3, 1e-2)
RECIPE_ETA = {1e-5: "0.0026", 1e-3: "0.0025", 1e-1: "0.0008", 1.0: "0.0001"}
RECIPE_WHITE_BOX = {1e-5: "1.00", 1e-4: "0.99", 5e-4: "0.75", 2e-3: "0.46", 1e-2: "0.33"}


def compute(work: Workspace) -> Numbers:
    panels = [_panel(work, l2) for l2 in L2S]
    data = work.iwpc()
    ideal = Ideal(work.iwpc_model(1e-3), data.X, data.y, "vkorc1").against()
    splits = {f"{l2:g}": [_mean_eta(work, l2, seed) for seed in range(SPLITS)] for l2 in L2S}
    return {
        "sigma": list(SIGMAS),
        "panels": panels,
        "ideal": ideal.accuracy,
        "prior": ideal.baseline,
        "mean eta by split": splits,
    }


def _mean_eta(work: Workspace, l2: float, seed: int) -> float:
    data = work.iwpc(seed)
    return float(np.mean(measure(work.iwpc_model(l2, seed), data.X, data.y).per_example(["vkorc1"])))


def _panel(work: Workspace, l2: float) -> Numbers:
    data = work.iwpc()
    model = work.iwpc_model(l2)
    eta = np.asarray(measure(model, data.X, data.y).per_example(["vkorc1"]))
    white_box = WhiteBox(model, data.X, data.y, "vkorc1")
    knowing = white_box.with_prior(True)
    black_box = BlackBox(model, data.X, data.y, "vkorc1")
    theta = np.ravel(model[-1].coef_)
    rng = np.random.default_rng(SEED)
    noise = rng.normal(size=(len(SIGMAS), TRIALS, theta.size))
    features = model[:-1].transform(data.X_test)
    panel: dict[str, Any] = {
        "l2": l2,
        "eta": _spread(eta),
        "without noise": {"white-box": white_box.against().accuracy, "black-box": black_box.against().accuracy},
        "mse without noise": float(np.mean((features @ theta - data.y_test) ** 2)),
        "points": [],
    }
    for k, sigma in enumerate(SIGMAS):
        released = theta + sigma * noise[k]
        mse = np.mean((features @ released.T - data.y_test[:, None]) ** 2, axis=0)
        white, black = white_box.against(released), black_box.against(released)
        panel["points"].append(
            {
                "sigma": sigma,
                "mse": [float(mse.mean()), float(mse.std(ddof=1))],
                "white-box": [white.accuracy, white.sd],
                "black-box": [black.accuracy, black.sd],
                "white-box, exact": float(white_box.accuracy(Gaussian(sigma)).mean()),
                "with the prior, exact": float(knowing.accuracy(Gaussian(sigma)).mean()),
                "with the prior, values drawn from it": float(knowing.accuracy(Gaussian(sigma), over="prior").mean()),
            }
        )
    return panel


def _spread(eta: Any) -> Numbers:
    quantiles = np.quantile(eta, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
    return {"mean": float(eta.mean()), "sd": float(eta.std(ddof=1)), "quantiles": quantiles}


def draw(numbers: Numbers, work: Workspace) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(16, 3.6), layout="constrained")
    boxes = []
    for panel in numbers["panels"]:
        low, first, middle, third, high = panel["eta"]["quantiles"]
        ends = {"whislo": low, "q1": first, "med": middle, "q3": third, "whishi": high, "fliers": []}
        boxes.append({"label": f"{panel['l2']:g}", **ends})
    axes[0].bxp(boxes)
    axes[0].set(title="eta (sigma = 1): quartiles, 5 % and 95 %", xlabel="l2", ylabel="eta of vkorc1", yscale="log")
    for k, panel in enumerate(numbers["panels"]):
        x = panel["eta"]["mean"] / np.array(numbers["sigma"])
        for ax, name in zip(axes[1:], ("mse", "white-box", "black-box"), strict=True):
            mean, sd = np.array([point[name] for point in panel["points"]]).T
            ax.errorbar(
                x,
                mean,
                sd,
                fmt="o" if name == "white-box" else "o-",
                markersize=3,
                color=f"C{k}",
                label=f"{panel['l2']:g}",
            )
        axes[2].plot(x, [point["white-box, exact"] for point in panel["points"]], color=f"C{k}")
        axes[2].plot(
            x,
            [point["with the prior, values drawn from it"] for point in panel["points"]],
            color=f"C{k}",
            linestyle=":",
        )
    for ax, title in zip(axes[1:], ("Test MSE", "White-box accuracy", "Black-box accuracy"), strict=True):
        ax.set(title=title, xscale="log", xlabel="mean eta")
    axes[1].set(yscale="log")
    for ax in axes[2:]:
        ax.axhline(numbers["prior"], color="gray", linestyle="--")
    axes[1].legend(title="l2", fontsize=7)
    axes[2].set_title("White-box: points sampled, lines exact, dotted with prior", fontsize=9)
    return figure


def _splits(numbers: Numbers, l2: float) -> str:
    means = numbers["mean eta by split"][f"{l2:g}"]
    return f"The split is random: {min(means):.5f} to {max(means):.5f} in {len(means)} splits."


def compare(numbers: Numbers) -> list[Comparison]:
    lines = []
    for panel in numbers["panels"]:
        note = f"Expected {RECIPE_ETA[panel['l2']]}. {_splits(numbers, panel['l2'])}"
        lines.append(Comparison(f"mean eta, l2 = {panel['l2']:g}", f"{panel['eta']['mean']:.5f}", note=note))
    chosen = next(panel for panel in numbers["panels"] if panel["l2"] == 1e-3)
    quiet = chosen["without noise"]
    for what, value, expected in (
        ("prior", numbers["prior"], "36.7 %; the split is random"),
        ("black-box, l2 = 0.001, no noise", quiet["black-box"], "48.8 %"),
        ("white-box, l2 = 0.001, no noise", quiet["white-box"], "100 %"),
    ):
        lines.append(Comparison(what, f"{value:.1%}", note=f"Expected {expected}."))
    for point in chosen["points"]:
        if point["sigma"] in SHOWN:
            sigma, (mean, sd) = point["sigma"], point["white-box"]
            sampled = f"{mean:.3f} ± {sd:.3f} in {TRIALS} trials"
            exact = f"exactly {point['white-box, exact']:.3f}; with the prior {point['with the prior, exact']:.3f}"
            note = f"Expected {RECIPE_WHITE_BOX[sigma]}." if sigma in RECIPE_WHITE_BOX else ""
            lines.append(Comparison(f"white-box, l2 = 0.001, sigma = {sigma:g}", f"{sampled}; {exact}", note=note))
    lines.append(
        Comparison(
            "someone with the other columns and the dose, but no model (held-out rows)",
            f"{numbers['ideal']:.1%}",
            note="Not in the paper: what the population gives away without any release.",
        )
    )
    return lines


REMARK = (
    "Lines are exact expectations; points are sampled. The dotted line is the attacker who also knows the prior and sigma, for "
    "values that follow the prior: it never falls below guessing, as the nearest model does under heavy noise. On the "
    "patients' own values, which the other columns make more or less likely, it can be a point below."
)
ITEM = Item(
    "figure6", "Figure 6: attribute inference on IWPC against l2 and noise", SETTINGS, compute, compare, draw, REMARK
)

"""Items about attribute inference: Figures 6 and 7, what attackers find out about a column, against noise and after IRFIL."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline

from fisherleak._support.namespaces import Estimator, TableLike, VectorLike
from fisherleak.attacks import BlackBox, Ideal, WhiteBox
from fisherleak.engine.noise import Gaussian
from fisherleak.leakage.measure import measure
from fisherleak.reproduce.workspace import Comparison, Item, Numbers, Workspace, next_weights, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Figure 6: l2, noise, and what attackers find out about a patient's VKORC1 gene

L2S = (1e-5, 1e-3, 1e-1, 1.0)
SIGMAS = (*(float(f"{digit}e{power}") for power in range(-5, 0) for digit in (1, 2, 5)), 1.0)
TRIALS = 100
SEED = 0
SPLITS = 5
OF_FIGURE_6 = {
    "data": "IWPC",
    "attribute": "vkorc1",
    "l2": L2S,
    "sigma": SIGMAS,
    "trials": TRIALS,
    "random_state": SEED,
    "splits": SPLITS,
}
SHOWN_SIGMAS = (1e-5, 1e-4, 5e-4, 1e-3, 2e-3, 1e-2)
RECIPE_ETA = {1e-5: "0.0026", 1e-3: "0.0025", 1e-1: "0.0008", 1.0: "0.0001"}
RECIPE_WHITE_BOX = {1e-5: "1.00", 1e-4: "0.99", 5e-4: "0.75", 2e-3: "0.46", 1e-2: "0.33"}


def _against_noise(work: Workspace) -> Numbers:
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


def _draw_noise(numbers: Numbers, work: Workspace) -> Figure:
    figure, axes = panels(1, 4, (16, 3.6))
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


def _compare_noise(numbers: Numbers) -> list[Comparison]:
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
        if point["sigma"] in SHOWN_SIGMAS:
            sigma, (mean, sd) = point["sigma"], point["white-box"]
            sampled = f"{mean:.3f} ± {sd:.3f} in {TRIALS} trials"
            exact = f"exactly {point['white-box, exact']:.3f}; with the prior {point['with the prior, exact']:.3f}"
            note = f"Expected {RECIPE_WHITE_BOX[sigma]}." if sigma in RECIPE_WHITE_BOX else ""
            lines.append(Comparison(f"white-box, l2 = 0.001, sigma = {sigma:g}", f"{sampled}; {exact}", note=note))
    lines.append(
        Comparison(
            "someone with the other columns and the dose, but no model (held-out rows)",
            f"{numbers['ideal']:.1%}",
            note="Not in the paper: what the population reveals without any release.",
        )
    )
    return lines


LINES_AND_POINTS = (
    "Lines are exact expectations; points are sampled. The dotted line is the attacker who also knows the prior and sigma, for "
    "values that follow the prior: it never falls below guessing, as the nearest model does under heavy noise. On the "
    "patients' own values, which the other columns make more or less likely, it can be a point below."
)

# Figure 7: IRFIL equalises the accuracy of the white-box attack

ITERATIONS = 10
SHOWN = (0, 2, 10)
SIGMA = 1e-3
L2 = {"iwpc": 1e-2, "adult": 1e-3}
ATTRIBUTES = {"iwpc": "vkorc1", "adult": "marital-status_married"}
TITLES = {"iwpc": "IWPC", "adult": "UCI Adult"}
OF_FIGURE_7 = {
    "l2": L2,
    "sigma": SIGMA,
    "iterations": ITERATIONS,
    "shown": SHOWN,
    "trials": TRIALS,
    "random_state": SEED,
}


def _against_irfil(work: Workspace) -> Numbers:
    data = work.iwpc()
    numbers = {"iwpc": _balanced(work.iwpc_model(L2["iwpc"]), data.X, data.y, ATTRIBUTES["iwpc"])}
    X, names, y = work.adult_features()
    married = names.index(ATTRIBUTES["adult"])
    model = Ridge(alpha=L2["adult"] * y.size, fit_intercept=False).fit(X, y)
    numbers["adult"] = _balanced(model, X, y, married)
    black_box = BlackBox(model, X, y, married).against()
    numbers["adult"]["black-box"], numbers["adult"]["prior"] = black_box.accuracy, black_box.baseline
    return numbers


def _balanced(model: Estimator, X: TableLike, y: VectorLike, attribute: str | int) -> Numbers:
    """Eta and attack accuracy over the reweightings; deciles by the eta of the plain fit."""
    weights = np.ones(len(y))
    deciles: list[Any] = []
    found: dict[str, Any] = {"mean": [], "sd": [], "deciles": [], "without noise": [], "attack seconds": 0.0}
    for iteration in range(ITERATIONS + 1):
        last = _fitted(model, X, y, weights)
        eta = np.asarray(measure(last, X, y, sample_weight=weights).per_example([attribute]))
        found["mean"].append(float(eta.mean()))
        found["sd"].append(float(eta.std(ddof=1)))
        if iteration == 0:
            deciles = np.array_split(np.argsort(eta), 10)
        start = time.perf_counter()
        attack = WhiteBox(last, X, y, attribute, sample_weight=weights)
        expected = attack.accuracy(Gaussian(SIGMA))
        found["without noise"].append(attack.against().accuracy)
        found["attack seconds"] += time.perf_counter() - start
        if iteration in SHOWN:
            found["deciles"].append(_by_decile(iteration, attack, expected, deciles, last))
        weights = next_weights(weights, eta)
    return found


def _fitted(model: Estimator, X: TableLike, y: VectorLike, weights: VectorLike) -> Any:
    options = {"ridge__sample_weight": weights} if isinstance(model, Pipeline) else {"sample_weight": weights}
    return clone(model).fit(X, y, **options)


def _by_decile(iteration: int, attack: WhiteBox, expected: Any, deciles: list[Any], model: Estimator) -> Numbers:
    theta = np.ravel(model[-1].coef_ if hasattr(model, "steps") else model.coef_)
    released = theta + SIGMA * np.random.default_rng(SEED).normal(size=(TRIALS, theta.size))
    right = attack.infer(released) == attack.truth[None, :]
    sampled = np.stack([right[:, rows].mean(axis=1) for rows in deciles])
    return {
        "iteration": iteration,
        "sampled": sampled.mean(axis=1).tolist(),
        "sd": sampled.std(axis=1, ddof=1).tolist(),
        "exact": [float(expected[rows].mean()) for rows in deciles],
    }


def _draw_irfil(numbers: Numbers, work: Workspace) -> Figure:
    figure, axes = panels(1, 4, (16, 3.6))
    for k, name in enumerate(TITLES):
        found = numbers[name]
        axes[2 * k].errorbar(range(ITERATIONS + 1), found["mean"], found["sd"], fmt="o-", capsize=3)
        axes[2 * k].set(title=f"{TITLES[name]}: mean eta (± SD)", xlabel="reweightings", ylabel="eta")
        for at, shown in enumerate(found["deciles"]):
            label = f"{shown['iteration']} reweightings"
            tenths = range(1, 11)
            axes[2 * k + 1].errorbar(tenths, shown["sampled"], shown["sd"], fmt="o", color=f"C{at}", markersize=3)
            axes[2 * k + 1].plot(tenths, shown["exact"], color=f"C{at}", label=label)
        axes[2 * k + 1].set(title=f"{TITLES[name]}: white-box accuracy", xlabel="decile of the first eta")
        axes[2 * k + 1].legend(fontsize=7)
    return figure


def _compare_irfil(numbers: Numbers) -> list[Comparison]:
    lines = []
    for name, title in TITLES.items():
        found = numbers[name]
        for shown in found["deciles"]:
            exact = shown["exact"]
            ours = f"{exact[0]:.2f} … {exact[-1]:.2f}; the inner eight {min(exact[1:-1]):.2f} to {max(exact[1:-1]):.2f}"
            paper = {0: "rises steeply", 2: "flattens substantially", 10: "nearly constant"}[shown["iteration"]]
            lines.append(Comparison(f"{title}: accuracy by decile after {shown['iteration']}", ours, paper))
        spread = found["sd"][-1] / found["mean"][-1]
        lines.append(Comparison(f"{title}: SD of eta after ten, relative to the mean", f"{spread:.2%}", "converges"))
        quiet = f"{found['without noise'][0]:.1%}"
        lines.append(Comparison(f"{title}: white-box without noise", quiet, note="Expected 100 %."))
    adult = numbers["adult"]
    lines.append(Comparison("UCI Adult: prior", f"{adult['prior']:.1%}", note="Expected 52.1 %."))
    black_box = f"{adult['black-box']:.1%}"
    lines.append(Comparison("UCI Adult: black-box without noise", black_box, note="Expected 69.1 %."))
    return lines


ITEMS = (
    Item(
        *("figure6", "Figure 6: attribute inference on IWPC against l2 and noise", OF_FIGURE_6),
        _against_noise,
        _compare_noise,
        _draw_noise,
        LINES_AND_POINTS,
    ),
    Item(
        *("figure7", "Figure 7: IRFIL and the white-box attack", OF_FIGURE_7),
        *(_against_irfil, _compare_irfil, _draw_irfil),
    ),
)

"""Ours beside diffprivlib and ART: ``python benchmarks/other_tools.py --environment PATH``.

At equal success of the same optimal attacker on the row that he guesses best: how good is the model? These packages do not
install beside the newest scikit-learn, so they run in an environment of their own, made at PATH if there is none; without
``--environment``, or where they do not install there, they are left out by name. The attacker knows all rows but one value of
one, knows the mechanism, and tells two values of it apart at equal odds, by the exact densities of what is released.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.preprocessing import MinMaxScaler
from their_mechanisms import check_draws, log_odds, most_exposed, objective_noise

import fisherleak as fl

Vector = NDArray[np.float64]
PACKAGES = ("diffprivlib==0.6.6", "adversarial-robustness-toolbox==1.20.1", "scikit-learn<1.6", "pandas", "packaging")
EPSILONS = {"adult": (1.0, 2.0, 5.0, 10.0, 20.0), "iwpc": (30.0, 100.0, 300.0, 1000.0)}
DRAWS = {"adult": 16, "iwpc": 400}
COPIES = 200
TILTED = 24
"""Perturbed fits of Adult at each level."""
ROWS = {"logistic": 4, "squared": 12}
"""Rows that a fixed noise exposes most, and as many with the most leverage, whose neighbouring tables are calibrated again."""
GAP = 1e-3
BOX = {"age": (-4.0, 3.0), "height": (-5.0, 4.0), "weight": (-3.0, 8.0)}
LABELS = np.array([-3.0, 9.0])
LIMITS: dict[str, dict[str, Any]] = {
    "ours, least-loss for what is asked (eta)": {"attributes": [], "label": True},
    "ours, least-loss for everything (eta)": {},
}


def environment(path: Path | None) -> Path | None:
    """The other environment's Python; None, with a word, where there is none."""
    if path is None:
        print("Left out: diffprivlib and ART; --environment PATH makes an environment for them.")
        return None
    python = path / "bin" / "python"
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(path)], check=True)  # noqa: S603
        asked = [str(python), "-c", "import diffprivlib, art"]
        if subprocess.run(asked, capture_output=True, check=False).returncode:  # noqa: S603
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)  # noqa: S603
        return python
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"Left out: diffprivlib and ART, which do not install at {path}: {error}")
        return None


def there(python: Path, task: str, **given: Any) -> dict[str, Any]:
    """One task in the other environment."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "given.npz"), Path(folder, "found.npz")
        np.savez(source, **given)
        script = Path(__file__).with_name("their_side.py")
        subprocess.run([str(python), str(script), task, str(source), str(target)], check=True)  # noqa: S603
        with np.load(target) as found:
            return dict(found)


@dataclass(frozen=True)
class Pair:
    """Two normal releases, of a table and of its neighbour, each with noise calibrated on it, at eta 1."""

    turn: Vector
    move: Vector
    log_det: float

    @classmethod
    def of(cls, here: tuple[Vector, Vector], other: tuple[Vector, Vector]) -> Pair:
        """Of (parameters, covariance) of each."""
        L, K = (np.linalg.cholesky(covariance) for _, covariance in (here, other))
        turn = np.linalg.solve(K, L)
        return cls(turn, np.linalg.solve(K, other[0] - here[0]), float(np.linalg.slogdet(turn)[1]))

    def success(self, eta: float, z: Vector) -> float:
        """Of the optimal test, by total variation over draws z of the first release: shape and scale are counted."""
        quadratic = np.sum((z @ self.turn.T - eta * self.move) ** 2, axis=1) - np.sum(z**2, axis=1)
        return float(0.5 + 0.5 * np.mean(np.maximum(1.0 - np.exp(self.log_det - 0.5 * quadratic), 0.0)))


@dataclass(frozen=True)
class Problem:
    """A table, a model and a question about one value of a row."""

    X: Vector
    y: Vector
    loss: str
    l2: float
    intercept: bool
    limited: dict[str, Any]
    """What the noise limits, for ``calibrate``."""
    attributes: Any
    neighbours: Callable[[int], list[tuple[Vector, Vector]]]
    """Of a row: the tables with another value."""

    def released(self, X: Vector, y: Vector) -> tuple[Vector, Vector, fl.Leakage]:
        """Parameters, covariance at eta 1, and the leakage."""
        fit = fl.minimise(X, y, loss=self.loss, l2=self.l2, intercept=self.intercept)
        leak = fl.measure(fit, X, y, attributes=self.attributes)
        noise: Any = fl.calibrate(leak, 1.0, shape="least-loss", gap=GAP, **self.limited)
        return np.asarray(fit.theta), noise.scale**2 * np.asarray(noise.shape), leak

    def pairs(self, rows: Sequence[int]) -> tuple[Vector, Vector, list[Pair]]:
        theta, covariance, _ = self.released(self.X, self.y)
        found = []
        for row in rows:
            for X, y in self.neighbours(row):
                found.append(Pair.of((theta, covariance), self.released(X, y)[:2]))
        return theta, covariance, found

    def exposed(self) -> list[int]:
        """Rows that the noise exposes most to a small change of what is asked, and rows that move its shape most."""
        _, covariance, leak = self.released(self.X, self.y)
        etas = np.asarray(leak.with_noise(fl.Gaussian(1.0, covariance)).per_example(**self.asked))
        leverages = np.sum(self.X * (self.X @ np.linalg.pinv(self.X.T @ self.X)), axis=1)
        count = ROWS[self.loss]
        return sorted({int(row) for by in (etas, leverages) for row in np.argsort(-by)[:count]})

    @property
    def asked(self) -> dict[str, Any]:
        return {"attributes": [], "label": True} if self.attributes is None else {"attributes": ["asked"]}


Scores = list[tuple[float, float, float]]


def mean_of(setting: float, scores: Sequence[float]) -> tuple[float, float, float]:
    return setting, float(np.mean(scores)), float(np.std(scores) / np.sqrt(len(scores)))


def ours(problem: Problem, levels: Sequence[float], score: Callable[[Vector], float]) -> Scores:
    """(eta, score, its error) at each success of the attacker on the worst row."""
    theta, covariance, pairs = problem.pairs(problem.exposed())
    rng = np.random.default_rng(0)
    z = rng.standard_normal((20000, theta.size))
    copies = rng.standard_normal((COPIES, theta.size)) @ np.linalg.cholesky(covariance).T
    found = []
    for level in levels:

        def excess(log: float, level: float = level) -> float:
            return max(pair.success(float(np.exp(log)), z) for pair in pairs) - level

        if excess(np.log(1e-4)) > 0:
            found.append((0.0, float("nan"), 0.0))  # the shape alone tells more than that
            continue
        eta = float(np.exp(brentq(excess, np.log(1e-4), np.log(1e3), xtol=1e-3)))
        found.append(mean_of(eta, [score(theta + copy / eta) for copy in copies]))
    return found


def adult_tables() -> tuple[Vector, Vector, Vector, Vector]:
    data = fl.datasets.load_adult()
    steps = data.preprocessing.fit(data.X)
    inside, outside = (np.asarray(steps.transform(x), dtype=float) for x in (data.X, data.X_test))
    scaled = MinMaxScaler().fit(inside)
    y, t = (np.asarray(x, dtype=float) for x in (data.y, data.y_test))
    return scaled.transform(inside), y, scaled.transform(outside), t


def adult(python: Path) -> None:
    """Logistic regression of income, C = 1; the attacker asks for the income."""
    X, y, Z, t = adult_tables()
    Z1, n, p = np.column_stack([Z, np.ones(len(Z))]), len(y), X.shape[1] + 1
    size = float(np.linalg.norm(X, axis=1).max())
    rng = np.random.default_rng(0)

    def score(theta: Vector) -> float:
        return float(np.mean((Z1 @ theta > 0) == (t > 0)))

    def flipped(row: int) -> list[tuple[Vector, Vector]]:
        other = y.copy()
        other[row] = 1.0 - other[row]
        return [(X, other)]

    noise = [objective_noise(e, np.hypot(size, 1.0), p, rng) for e in EPSILONS["adult"]]
    given = {"X": X, "y": y, "epsilons": EPSILONS["adult"], "draws": DRAWS["adult"], "norm": size, "C": 1.0}
    theirs = there(python, "logistic", **given)["parameters"]
    check_draws(theirs[-1], X, y, noise[-1][0])
    levels = [success for _, success in noise]
    fit = fl.minimise(X, y, loss="logistic", l2=1.0 / n, intercept=True)
    shape = by_features(X, y)
    tilted, shaped = ([perturbed(fit, X, y, S, level, rng) for level in levels] for S in (np.eye(p), shape))
    columns = {
        "diffprivlib": [mean_of(0.0, [score(w) for w in at]) for at in theirs],
        "ours, `ObjectivePerturbation` (scale)": [mean_of(scale, [score(w) for w in at]) for scale, at in tilted],
        "the same, shape= of the features (scale)": [mean_of(scale, [score(w) for w in at]) for scale, at in shaped],
    }
    name, limited = next(iter(LIMITS.items()))
    columns[name] = ours(Problem(X, y, "logistic", 1.0 / n, True, limited, None, flipped), levels, score)
    plain = np.asarray(fit.theta)
    table("Adult, accuracy", score(plain), EPSILONS["adult"], levels, columns)
    models = [("no noise", plain)]
    for epsilon, their, (_, own) in zip(EPSILONS["adult"], theirs, tilted, strict=True):
        models += [(f"diffprivlib, epsilon {epsilon:g}", their[0]), ("ours, objective perturbed as much", own[0])]
    members(python, X, y, Z, t, models)


def by_features(X: Vector, y: Vector) -> Vector:
    """A covariance of noise on the objective by which all rows are hidden alike, from the features alone: no label enters.

    That of the least-loss noise for the labels of a linear regression, in the space of gradients.
    """
    fit = fl.minimise(X, y, loss="squared", l2=4.0 / len(y), intercept=True)
    noise: Any = fl.calibrate(fl.measure(fit, X, y), 1.0, shape="least-loss", gap=GAP, attributes=[], label=True)
    X1 = np.column_stack([X, np.ones(len(X))])
    H = X1.T @ X1 + np.diag(np.append(np.full(X.shape[1], 4.0), 0.0))
    found = H @ np.asarray(noise.shape) @ H
    return np.asarray(0.5 * (found + found.T))


def perturbed(
    fit: fl.Fit, X: Vector, y: Vector, shape: Vector, level: float, rng: np.random.Generator
) -> tuple[float, Vector]:
    """Scale and draws of objective perturbation with normal noise of a shape that no label moves.

    Another label moves the noise by the row, whatever the release, so that the best test is known.
    """
    X1, root = np.column_stack([X, np.ones(len(X))]), np.linalg.cholesky(shape)
    scale = float(np.linalg.norm(np.linalg.solve(root, X1.T), axis=0).max()) / (2.0 * float(norm.ppf(level)))
    return scale, fl.ObjectivePerturbation(scale, shape=shape).released_draws(fit, TILTED, rng, (X, y))


def members(python: Path, X: Vector, y: Vector, Z: Vector, t: Vector, models: list[tuple[str, Vector]]) -> None:
    """ART's learned attack on membership, which sees predictions."""
    rng = np.random.default_rng(0)
    inside, outside = (rng.permutation(len(x))[:6000] for x in (y, t))
    given = {"X": X[inside], "y": y[inside], "Z": Z[outside], "t": t[outside]}
    rates = there(python, "members", parameters=np.stack([w for _, w in models]), **given)["rates"]
    print("\nART, MembershipInferenceBlackBox (forest), 3,000 members and 3,000 others after learning on as many\n")
    print("| model | members named | others named |\n| --- | --- | --- |")
    for (name, _), (one, other) in zip(models, rates, strict=True):
        print(f"| {name} | {100 * one:.1f} % | {100 * other:.1f} % |")


def iwpc(python: Path) -> None:
    """Linear regression of the dose without an intercept; the attacker asks for the gene vkorc1."""
    data = fl.datasets.load_iwpc()
    steps = data.preprocessing.fit(data.X)
    X, Z = (np.asarray(steps.transform(x), dtype=float) for x in (data.X, data.X_test))
    names = list(steps.get_feature_names_out())
    gene = [k for k, name in enumerate(names) if name.startswith("vkorc1")]
    rest = float(np.sum((data.y_test - data.y_test.mean()) ** 2))
    l2 = 1e-6  # diffprivlib's has no penalty

    def score(theta: Vector) -> float:
        return float(1.0 - np.sum((Z @ theta - data.y_test) ** 2) / rest)

    def swapped(row: int) -> list[tuple[Vector, Vector]]:
        found = []
        for level in np.vstack([np.zeros(len(gene)), np.eye(len(gene))]):
            other = X.copy()
            other[row, gene] = level
            if not np.array_equal(other[row], X[row]):
                found.append((other, data.y))
        return found

    attributes = {"asked": gene, **{name: [k] for k, name in enumerate(names) if k not in gene}}
    theta = np.asarray(fl.minimise(X, data.y, l2=l2).theta)
    box = np.array([BOX.get(name, (0.0, 1.0)) for name in names]).T
    theirs, levels = functional(python, X, np.asarray(data.y), theta, swapped, box)
    columns = {"diffprivlib": [mean_of(0.0, [score(w) for w in at]) for at in theirs]}
    columns["ours, `Gaussian` shaped by the bounds (scale)"] = by_bounds(
        X, np.asarray(data.y), l2, gene, box, levels, score
    )
    for name, limited in LIMITS.items():
        asked = {"attributes": ["asked"], "label": False} if limited else {}
        problem = Problem(X, np.asarray(data.y), "squared", l2, False, asked, attributes, swapped)
        columns[name] = ours(problem, levels, score)
    table("IWPC, R2", score(theta), EPSILONS["iwpc"], levels, columns)


def by_bounds(
    X: Vector,
    y: Vector,
    l2: float,
    asked: list[int],
    box: Vector,
    levels: Sequence[float],
    score: Callable[[Vector], float],
) -> Scores:
    """(scale, score, its error): noise like the inverse second moments of rows anywhere in a public box, its scale given.

    No row moves it, so that the best test of each row is that of two normal releases, and the worst of all rows is known.
    """
    second = np.diag(np.ptp(box, axis=0) ** 2 / 12.0) + np.outer(box.mean(axis=0), box.mean(axis=0))
    root, p = np.linalg.cholesky(np.linalg.inv(second)), X.shape[1]
    H, g = X.T @ X + len(y) * l2 * np.eye(p), X.T @ y
    theta, farthest = np.linalg.solve(H, g), 0.0
    for level in np.vstack([np.zeros(len(asked)), np.eye(len(asked))]):
        Z = X.copy()
        Z[:, asked] = level
        others = H - X[:, :, None] * X[:, None, :] + Z[:, :, None] * Z[:, None, :]
        moved = np.linalg.solve(others, (g + (Z - X) * y[:, None])[:, :, None])[:, :, 0] - theta
        farthest = max(farthest, float(np.linalg.norm(np.linalg.solve(root, moved.T), axis=0).max()))
    copies = np.random.default_rng(0).standard_normal((COPIES, p)) @ root.T
    scales = [farthest / (2.0 * float(norm.ppf(level))) for level in levels]
    return [mean_of(scale, [score(theta + scale * copy) for copy in copies]) for scale in scales]


def functional(
    python: Path,
    X: Vector,
    y: Vector,
    theta: Vector,
    swapped: Callable[[int], list[tuple[Vector, Vector]]],
    box: Vector,
) -> tuple[Vector, list[float]]:
    """diffprivlib's linear regressions at each epsilon, and how often an attacker on one row is right, over draws for both."""
    row, other = most_exposed(X, y, theta, swapped, box, LABELS)
    given = {"epsilons": EPSILONS["iwpc"], "draws": DRAWS["iwpc"], "low": box[0], "high": box[1], "label": LABELS}
    sides = [
        there(python, "linear", X=rows, y=y, seed=seed, **given)["parameters"]
        for rows, seed in ((X, 0), (other, 10**6))
    ]
    levels = []
    for k, _ in enumerate(EPSILONS["iwpc"]):
        here, away = (log_odds(t[k], X, other, y, row, box, LABELS) for t in sides)
        levels.append(float(0.5 * np.mean(here < 0) + 0.5 * np.mean(away > 0)))
    return sides[0], levels


def table(
    name: str,
    plain: float,
    epsilons: Sequence[float],
    levels: Sequence[float],
    columns: dict[str, list[tuple[float, float, float]]],
) -> None:
    """Scores with the error of their mean, and what each was reached with."""
    print(f"\n{name}; without noise {plain:.4f}\n")
    print(f"| epsilon | right on the worst row | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 2)}")
    for k, (epsilon, level) in enumerate(zip(epsilons, levels, strict=True)):
        cells = [
            f"{score:.4f} ± {error:.4f}" + (f" ({setting:.3g})" if setting else "")
            if np.isfinite(score)
            else "not reached"
            for setting, score, error in (column[k] for column in columns.values())
        ]
        print(f"| {epsilon:g} | {100 * level:.2f} % | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--environment", type=Path)
    parser.add_argument("--only", nargs="*", default=["adult", "iwpc"], choices=["adult", "iwpc"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    python = environment(given.environment)
    if python is None:
        return
    print(f"fisherleak {fl.__version__}, beside:", flush=True)
    there(python, "versions", none=np.zeros(1))
    for name in given.only:
        {"adult": adult, "iwpc": iwpc}[name](python)


if __name__ == "__main__":
    main()

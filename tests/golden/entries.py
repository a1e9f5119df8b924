"""Public numbers that stay as they are, entry by entry: what is computed, from data that a seed makes.

An entry is a function without arguments that gives a mapping of names to numbers, arrays, texts or mappings of these. Adding one
is adding it to ``ENTRIES``; ``python tests/golden/record.py --regenerate NAME`` writes its numbers down.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import tempfile
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import linear_model as lm
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

import fisherleak as fl
from cases import Case, make, slanted
from fisherleak.cli import main

__all__ = ["ENTRIES", "TOLERANCE", "Entry", "etas", "fitted"]

Entry = Callable[[], Mapping[str, Any]]
ENTRIES: dict[str, Entry] = {}
TOLERANCE: dict[str, float] = {}
"""Relative difference that is allowed, by the first part of an entry's name; 1e-9 for others."""
GROUPS = np.arange(24) % 5


def etas(leak: fl.Leakage, groups: Any = GROUPS) -> dict[str, Any]:
    """Every eta that a leakage gives."""
    first = leak.attributes[0]
    some = [0, 2, 3]
    return {
        "rows": leak.per_example(),
        "first attribute": leak.per_example([first]),
        "first attribute and label": leak.per_example([first], label=True),
        "cells": leak.per_cell(),
        "labels": leak.per_label(),
        "attributes": leak.per_attribute(),
        "three rows": leak.of(rows=some),
        "groups": list(leak.by_group(groups).values()),
        "all": leak.dataset(),
        "matrix": leak.fim(rows=some),
    }


def members(leak: fl.Leakage, groups: Any = GROUPS) -> dict[str, Any]:
    finest = 1e-12
    return {
        "membership": leak.membership(finest),
        "membership of groups": list(leak.membership_by_group(groups, finest).values()),
    }


def fitted(fit: fl.Fit) -> dict[str, Any]:
    return {"coef": fit.coef, **({} if fit.intercept is None else {"intercept": fit.intercept})}


# One output


def one_output(loss: str, weighted: bool, intercept: bool, l2: float) -> dict[str, Any]:
    case = make(loss, 3, 24, 3, weighted=weighted, intercept=intercept, l2=l2)
    leak = case.leak(fl.Gaussian(0.5))
    return {**fitted(leak.fits[0]), **etas(leak), **members(leak)}


for loss, weighted, intercept, l2 in itertools.product(fl.LOSSES, (False, True), (False, True), (1e-2, 1.0)):
    if loss != "softmax":
        told = f"{'weighted, ' * weighted}{'intercept, ' * intercept}l2 {l2:g}"
        ENTRIES[f"one output / {loss}, {told}"] = partial(one_output, loss, weighted, intercept, l2)


def pseudo_huber() -> dict[str, Any]:
    case = make("pseudo_huber", 3, 24, 3, intercept=True)
    leak = case.leak(fl.Gaussian(0.5))
    return {**fitted(leak.fits[0]), **etas(leak), **members(leak)}


ENTRIES["one output / pseudo-Huber"] = pseudo_huber


def blocks() -> dict[str, Any]:
    case = make("logistic", 4, 24, 4, intercept=True)
    directions = np.array([[1.0, 0.5], [0.0, 1.0]])
    attributes = [fl.Attribute("pair", (0, 1), directions), fl.Attribute("third", (2,)), fl.Attribute("last", (3,))]
    return etas(case.leak(fl.Gaussian(0.5), attributes))


ENTRIES["attributes / a block with directions"] = blocks

# Several outputs


def classes(weighted: bool, intercept: bool) -> dict[str, Any]:
    case = make("squared", 5, 24, 3, weighted=weighted)
    y = np.array(["a", "b", "c"])[np.arange(24) % 3]
    leak = fl.measure(fl.minimise(case.X, y, "softmax", 0.05, case.weights, intercept), case.X, y, fl.Gaussian(0.5))
    return {**fitted(leak.fits[0]), **etas(leak), **members(leak)}


def numbers() -> dict[str, Any]:
    case = make("squared", 6, 24, 3)
    Y = np.column_stack([case.y, case.y**2, case.X[:, 0] - case.y])
    leak = fl.measure(fl.minimise(case.X, Y, "squared", 0.05, intercept=True), case.X, Y, fl.Gaussian(0.5))
    return {**fitted(leak.fits[0]), **etas(leak), **members(leak)}


for weighted, intercept in itertools.product((False, True), (False, True)):
    told = ", ".join(["softmax", *["weighted"] * weighted, *["intercept"] * intercept])
    ENTRIES[f"several outputs / {told}"] = partial(classes, weighted, intercept)
ENTRIES["several outputs / three numbers"] = numbers

# Noises and mechanisms

QUERIES = np.random.default_rng(7).normal(size=(6, 3))
WAYS: dict[str, tuple[Any, str]] = {
    "Laplace": (fl.Laplace(0.4), "poisson"),
    "Bounded": (fl.Bounded(0.4), "squared"),
    "Gaussian of a shape": (fl.Gaussian(0.4, slanted(4)), "logistic"),
    "Posterior": (fl.Posterior(0.3), "squared"),
    "ObjectivePerturbation": (fl.ObjectivePerturbation(1.7), "squared"),
    "Answers": (fl.Answers(QUERIES, fl.Gaussian(0.3)), "squared"),
    "Answers, probabilities": (fl.Answers(QUERIES, fl.Laplace(0.02), of="probability"), "logistic"),
    "SampledLabels": (fl.SampledLabels(QUERIES), "logistic"),
}


def way(name: str) -> dict[str, Any]:
    by, loss = WAYS[name]
    leak = make(loss, 8, 24, 3, intercept=True).leak(by)
    return {"rows": leak.per_example(), "cells": leak.per_cell(), "all": leak.of(rows=[0, 1, 2])}


for name in WAYS:
    ENTRIES[f"mechanisms / {name}"] = partial(way, name)


def gradient() -> dict[str, Any]:
    case = make("logistic", 9, 24, 3)
    leak = fl.gradients(case.fit(), case.X, case.y, fl.Gaussian(0.3))
    return {"rows": leak.per_example(), "cells": leak.per_cell()}


ENTRIES["mechanisms / a client's gradient"] = gradient

# Fitted pipelines


def table(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(11)
    return pd.DataFrame(
        {
            "age": rng.normal(50.0, 12.0, size=n).round(),
            "bmi": rng.gamma(9.0, 3.0, size=n).round(1),
            "gene": rng.choice(["CC", "CT", "TT"], size=n),
        }
    )


def labels(kind: str, frame: pd.DataFrame) -> Any:
    rng = np.random.default_rng(12)
    real = (
        0.03 * (frame["age"].to_numpy() - 50) + 0.5 * (frame["gene"] == "TT").to_numpy() + rng.normal(size=len(frame))
    )
    if kind == "classes":
        return np.where(real > 0.2, "ill", "well")
    return np.exp(0.3 * real) if kind == "positive" else real


ENDS: dict[str, tuple[Any, str]] = {
    "Ridge": (lm.Ridge(2.0), "real"),
    "LogisticRegression": (lm.LogisticRegression(C=0.5, solver="newton-cholesky", tol=1e-12), "classes"),
    "PoissonRegressor": (lm.PoissonRegressor(alpha=0.1, solver="newton-cholesky", tol=1e-12), "positive"),
}
SCALERS: dict[str, Any] = {
    "StandardScaler": StandardScaler(),
    "MinMaxScaler": MinMaxScaler(),
    "RobustScaler": RobustScaler(),
}


def pipeline(end: str, scaler: str, public: str) -> dict[str, Any]:
    frame = table()
    estimator, kind = ENDS[end]
    y = labels(kind, frame)
    steps = make_column_transformer(
        (SCALERS[scaler], ["age", "bmi"]), (OneHotEncoder(drop="first", sparse_output=False), ["gene"])
    )
    model = make_pipeline(steps, estimator).fit(frame, y)
    leak = fl.measure(model, frame, y, fl.Gaussian(0.5), public=public)
    groups = np.arange(len(frame)) % 7
    found: dict[str, Any] = etas(leak, groups)
    return found


for end, scaler, public in itertools.product(ENDS, SCALERS, ("preprocessing", "nothing")):
    ENTRIES[f"pipelines / {end} behind {scaler}, public {public}"] = partial(pipeline, end, scaler, public)


def filled(strategy: str) -> dict[str, Any]:
    frame = table()[["age", "bmi"]]
    frame.iloc[[1, 5, 9], 0] = np.nan
    y = labels("real", table())
    model = make_pipeline(SimpleImputer(strategy=strategy), StandardScaler(), lm.Ridge(2.0)).fit(frame, y)
    leak = fl.measure(model, frame, y, fl.Gaussian(0.5), public="nothing")
    return {"rows": leak.per_example(), "cells": leak.per_cell()}


for strategy in ("mean", "median"):
    ENTRIES[f"pipelines / gaps filled with the {strategy}"] = partial(filled, strategy)
TOLERANCE["pipelines"] = 1e-7  # models are fitted by scikit-learn and moved to their minimum

# Compositions


def together() -> dict[str, Any]:
    first, second = make("logistic", 13, 24, 3, intercept=True), make("logistic", 13, 24, 3, l2=0.3)
    second = Case(first.X, first.y, "logistic", 0.3, None, False)
    leak = fl.compose(first.leak(fl.Gaussian(0.5)), second.leak(fl.Gaussian(0.7)))
    return {**etas(leak), **members(leak)}


ENTRIES["compositions / two models"] = together

# Protection


def small(loss: str) -> fl.Leakage:
    return make(loss, 14, 40, 3, l2=0.05).leak(fl.Gaussian(1.0))


def calibrated(loss: str, over: str, shape: str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fl.UncountedScaleWarning)
        noise: Any = fl.calibrate(small(loss), eta=0.3, over=over, shape=shape)
    return {"scale": noise.scale, "shape": np.eye(1) if noise.shape is None else noise.shape}


for loss, over, shape in itertools.product(
    ("squared", "logistic"), ("max", "dataset"), ("isotropic", "hessian", "least-loss")
):
    ENTRIES[f"calibrated / {loss}, {over}, {shape}"] = partial(calibrated, loss, over, shape)
TOLERANCE["calibrated"] = 1e-5  # least-loss noise is found by a search


def any_record(loss: str) -> dict[str, Any]:
    case = make(loss, 14, 400, 2, l2=0.5)
    X = np.clip(case.X, -2.0, 2.0)
    y = np.clip(case.y, -2.0, 2.0) if loss == "squared" else case.y
    leak = fl.measure(fl.minimise(X, y, loss, 0.5), X, y)
    bounds: dict[Any, Any] = dict.fromkeys(leak.attributes, (-2.0, 2.0))
    if loss == "squared":
        bounds["label"] = (-2.0, 2.0)
    noise = fl.calibrate(leak, eta=0.3, over="any-record", bounds=bounds, random_state=1)
    return {"scale": noise.scale}


for loss in ("squared", "logistic"):
    ENTRIES[f"calibrated / {loss}, any record within the bounds"] = partial(any_record, loss)


def equalised() -> dict[str, Any]:
    X, y = load_breast_cancer(return_X_y=True)
    X = ((X - X.mean(0)) / X.std(0))[:120, :4]
    model = fl.IRFIL(lm.LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12), n_iter=5).fit(X, y[:120])
    return {"weights": model.weights_}


ENTRIES["irfil / breast cancer, five rounds"] = equalised
TOLERANCE["irfil"] = 1e-6


def trimmed() -> dict[str, Any]:
    X, y = load_diabetes(return_X_y=True)
    found = fl.trim(lm.Ridge(), X, y, max_eta=2.0, noise=fl.Gaussian(20.0))
    return {"kept": int(np.sum(found.kept))}


ENTRIES["trimmed / diabetes"] = trimmed

# Attackers and bounds


def attacked(kind: str) -> dict[str, Any]:
    frame = table()
    y = labels("real", frame)
    steps = make_column_transformer(
        (OneHotEncoder(drop="first", sparse_output=False), ["gene"]), ("passthrough", ["age", "bmi"])
    )
    model = make_pipeline(steps, lm.Ridge(2.0)).fit(frame, y)
    attacker = getattr(fl.attacks, kind)(model, frame, y, "gene")
    return {"accuracy": attacker.accuracy(fl.Gaussian(0.3))}


for kind in ("WhiteBox", "Prior", "Ideal"):
    ENTRIES[f"attackers / {kind}"] = partial(attacked, kind)


def membership_attack() -> dict[str, Any]:
    case = make("squared", 15, 24, 3)
    attacker = fl.attacks.Membership(case.fit(), case.X, case.y)
    return {"accuracy": attacker.accuracy(fl.Gaussian(0.3))}


ENTRIES["attackers / Membership"] = membership_attack
TOLERANCE["attackers"] = 1e-6


def model_audited(end: str, public: str) -> dict[str, Any]:
    """But for attackers who learn from other columns, whose learners are scikit-learn's."""
    frame = table()
    estimator, kind = ENDS[end]
    y = labels(kind, frame)
    steps = make_column_transformer(
        (StandardScaler(), ["age", "bmi"]), (OneHotEncoder(drop="first", sparse_output=False), ["gene"])
    )
    model = make_pipeline(steps, estimator).fit(frame[:45], y[:45])
    given = {"X_test": frame[45:], "y_test": y[45:], "public": public}
    found = fl.audit(model, frame[:45], y[:45], **given).summary
    points, known = found.tradeoff.points, [a for a in found.attacks if "other columns" not in a.attacker]
    return {
        "noise": found.noise.scale,
        "choices": [choice.noise for choice in found.choices],
        "utility": [found.tradeoff.without_noise, found.tradeoff.baseline, *(point.utility for point in points)],
        "attacks": [attack.accuracy for attack in known],
        "told apart": [each.worst for each in found.distinguishable],
        "advised": [found.next.noise, found.next.command],
    }


for end, public in itertools.product(ENDS, ("preprocessing", "nothing")):
    ENTRIES[f"audits / {end}, public {public}"] = partial(model_audited, end, public)
TOLERANCE["audits"] = 1e-6


def bounds() -> dict[str, Any]:
    eta = np.array([0.1, 1.0, 3.0])
    return {
        "cramer_rao": fl.bounds.cramer_rao(eta),
        "biased_cramer_rao": fl.bounds.biased_cramer_rao(eta, 0.2, -0.3),
        "van_trees": fl.bounds.van_trees(eta, 12.0),
        "interval_minimax": fl.bounds.interval_minimax(eta, 2.0),
        "hammersley_chapman_robbins": fl.bounds.hammersley_chapman_robbins(eta, 2.0),
        "best_test": fl.bounds.best_test(eta, 0.3),
    }


ENTRIES["bounds / all"] = bounds


def in_a_ledger() -> dict[str, Any]:
    case = make("squared", 16, 24, 3)
    with tempfile.TemporaryDirectory() as folder:
        ledger = fl.Ledger(Path(folder) / "table.ledger.json")
        ledger.add(case.leak(fl.Gaussian(3.0)))
        ledger.add(case.leak(fl.Gaussian(4.0)))
        return {"etas": ledger.etas(case.X, case.y), "remaining": ledger.remaining(2.0)}


ENTRIES["ledgers / two releases"] = in_a_ledger

# What commands write


def _written(*line: str) -> dict[str, Any]:
    """The JSON file that a command leaves behind, for a table that a seed makes."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        frame = table(400).assign(dose=np.round(20.0 + 5.0 * labels("real", table(400)), 1))
        frame.to_csv(place / "table.csv", index=False)
        command, *options = line
        out = place / ("model.skops" if command == "release" else "audit")
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            status = main([command, str(place / "table.csv"), "--target", "dose", "--out", str(out), *options])
        assert status == 0
        written = out / "summary.json" if command == "audit" else out.with_name("model.skops.json")
        found: dict[str, Any] = json.loads(written.read_text(encoding="utf-8").replace(folder, "folder"))
    return found


def summary() -> dict[str, Any]:
    """Without what changes from day to day, or with the version of a forest."""
    found = _written("audit", "--l2", "0.1", "--noise", "3", "--no-attacks", "--group", "gene")
    kept: tuple[str, ...] = (
        "data",
        "model",
        "noise",
        "eta",
        "rows",
        "attributes",
        "label",
        "people",
        "groups",
        "tradeoff",
        "choices",
    )
    kept += ("distinguishable", "membership", "next")
    shown = {name: found[name] for name in kept}
    shown["data"] = {name: value for name, value in shown["data"].items() if name not in ("source", "sha256")}
    return shown


def card(*options: str) -> dict[str, Any]:
    """Without digests, versions, and the number that a random offset is in."""
    found = _written("release", *options)
    for name in ("digest", "versions", "grid"):
        del found[name]
    del found["model"]["file_sha256"], found["data"]["source"]
    found["assumptions"] = [each for each in found["assumptions"] if "noise of scale" not in each.lower()]
    if "--over" not in options and "--eta" in options:
        del found["noise"]
    return found


ENTRIES["files / summary.json of a linear model"] = summary
ENTRIES["files / card, noise given"] = partial(card, "--noise", "3", "--l2", "0.1")
ENTRIES["files / card, limit on the rows present"] = partial(card, "--eta", "2", "--l2", "0.1", "--over", "max")
ENTRIES["files / card, limit on any record"] = partial(
    card, "--eta", "2", "--l2", "1", "--bounds", "age=0:120", "--bounds", "bmi=0:100", "--bounds", "dose=0:60"
)
TOLERANCE["files"] = 1e-7

# Refusals, by the name of what is raised


def bad(y: Any = None, **changed: Any) -> Any:
    case = make("squared", 17, 24, 3)
    return fl.minimise(case.X, case.y if y is None else y, **changed)


def _lone(noise: Any) -> Any:
    return make("squared", 17, 24, 3).leak(noise)


REFUSED: dict[str, Callable[[], object]] = {
    "minimise, negative l2": lambda: bad(l2=-1.0),
    "minimise, unknown loss": lambda: bad(loss="cubic"),
    "minimise, NaN in y": lambda: bad(y=np.full(24, np.nan)),
    "minimise, too few labels": lambda: bad(y=np.zeros(3)),
    "minimise, separable classes": lambda: fl.minimise(
        np.arange(8.0)[:, None] - 3.5, (np.arange(8) > 3) * 1.0, "logistic"
    ),
    "minimise, one column twice": lambda: fl.minimise(np.ones((8, 2)), np.arange(8.0)),
    "minimise, text": lambda: fl.minimise(np.array([["a"], ["b"]]), np.zeros(2)),
    "measure, noise of zero": lambda: _lone(fl.Gaussian(0.0)),
    "measure, a number for noise": lambda: _lone(3),
    "measure, model of something else": lambda: fl.measure(object(), np.ones((4, 1)), np.ones(4)),
    "attributes, unknown name": lambda: _lone(fl.Gaussian(1.0)).per_example(["no such"]),
    "of, row beyond the table": lambda: _lone(fl.Gaussian(1.0)).of(rows=[99]),
    "calibrate, negative eta": lambda: fl.calibrate(_lone(fl.Gaussian(1.0)), eta=-1.0),
    "calibrate, unknown over": lambda: fl.calibrate(_lone(fl.Gaussian(1.0)), eta=1.0, over="nobody"),
    "calibrate, unknown shape": lambda: fl.calibrate(_lone(fl.Gaussian(1.0)), eta=1.0, shape="round"),
    "compose, nothing": lambda: fl.compose(),
    "membership, Laplace": lambda: _lone(fl.Laplace(1.0)).membership(),
    "bounds, negative eta": lambda: fl.bounds.cramer_rao(-1.0),
    "Gaussian, NaN": lambda: fl.Gaussian(float("nan")),
    "release, not a noise": lambda: fl.release(bad(), "loud"),  # type: ignore[arg-type]
    "Ledger, a folder that is not there": lambda: fl.Ledger("no/such/folder/x.json"),
}


def refused(name: str) -> dict[str, Any]:
    try:
        REFUSED[name]()
    except Exception as error:
        return {"raised": type(error).__name__}
    return {"raised": "nothing"}


for name in REFUSED:
    ENTRIES[f"refusals / {name}"] = partial(refused, name)

"""Refusals of fl.calibrate and fl.protect, with what they advise."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler

import fisherleak as fl
from remedies.of_models import CODED, LEAK, LOGISTIC, PAIRS, C, X, Y, fitted, measured
from remedies.table import Remedy, refusing

BOUNDS = {"x0": (-5.0, 5.0), "x1": (-5.0, 5.0), "x2": (-5.0, 5.0), "label": (-8.0, 8.0)}
CLASSES = measured(LOGISTIC, y=C)
ATTACK = fl.attacks.WhiteBox(fitted(Ridge(1.0), X=CODED), CODED, Y, 3)
GAPS = np.where(np.random.default_rng(5).random(X.shape) < 0.1, np.nan, X)
BALANCED = fitted(LogisticRegression(class_weight="balanced"), y=C)
QUICK: dict[str, Any] = {"over": "max", "penalties": [1.0], "weightings": ["none"], "shapes": ["isotropic"]}


def calibrated(leakage: Any = LEAK, eta: Any = 1.0, **options: Any) -> Any:
    return fl.calibrate(leakage, eta, **options)


def for_anyone(*steps: Any, over: str = "any-record", X: Any = X, **options: Any) -> Any:
    y = np.resize(Y, len(X))
    leak = measured(fitted(*steps, Ridge(1000.0), X=X, y=y), X, y, public="nothing")
    return fl.calibrate(leak, 1.0, over=over, **options)


def protected(estimator: Any = None, X: Any = X, y: Any = Y, **options: Any) -> fl.Frontier:
    return fl.protect(estimator or Ridge(1.0), X, y, 1.0, **QUICK | options)


def saved(**pool: Any) -> Any:
    """The files of a release of three sites."""
    frame = pandas.DataFrame({"site": np.resize(["north", "south", "west"], 60)})
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", **pool)
    model = make_pipeline(make_column_transformer((encoder, ["site"])), Ridge())
    best = fl.protect(model, frame, Y, 4.0, shapes=["isotropic"], public="nothing", bounds={"label": (-9.0, 9.0)})
    with TemporaryDirectory() as folder:
        return best.save(Path(folder) / "model.skops")


def of_use(eta: float = 0.3, wide: float = 12.0, rows: int = 300) -> Any:
    """The files of a release of one number."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"x": rng.uniform(-3, 3, rows)})
    bounds = {"x": (-wide, wide), "label": (-wide, wide)}
    y = np.clip(frame["x"].to_numpy() + rng.normal(size=rows), -4, 4)
    best = fl.protect(make_pipeline(StandardScaler(), Ridge()), frame, y, eta, shapes=["isotropic"], bounds=bounds)
    with TemporaryDirectory() as folder:
        return best.save(Path(folder) / "model.skops")


def of_ratio(unit: float = 1.0) -> Any:
    """The files of a release of a part, from 0 to 1, or of percent."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"part": rng.uniform(0, unit, 400)})
    y = 3 * frame["part"].to_numpy() / unit + rng.uniform(-1, 1, 400)
    bounds = {"part": (0, unit), "label": (-2, 5)}
    best = fl.protect(make_pipeline(StandardScaler(), Ridge()), frame, y, 4.0, shapes=["isotropic"], bounds=bounds)
    with TemporaryDirectory() as folder:
        return best.save(Path(folder) / "model.skops")


def text(X: Any) -> Any:
    return np.column_stack([X.astype(object), np.where(X[:, 0] > 0, "a", "b")])


CALIBRATED: list[Remedy] = [
    Remedy(
        "groups must be given with over='group' or over='person', and only then.",
        calibrated,
        {"groups": PAIRS},
        {"over='group'": None, "over='person'": None},
    ),
    Remedy(
        "bounds and random_state are for over='any-record' only.",
        calibrated,
        {"bounds": BOUNDS},
        {"over='any-record'": None},
    ),
    Remedy(
        "person and rows_per_person go together with over='any-record'; got",
        calibrated,
        {"person": PAIRS, "rows_per_person": 2},
        {"use over='person' with groups=": lambda: calibrated(over="person", groups=PAIRS)},
    ),
    Remedy(
        "An attack is limited by accuracy, how often it may be correct",
        fl.calibrate,
        {"leakage": ATTACK},
        {"accuracy=0.9": None, "pass a leakage from fisherleak.measure": {"leakage": LEAK, "eta": 1.0}},
    ),
    Remedy(
        "and random_state belong to a limit on eta: leave them out with accuracy=.",
        fl.calibrate,
        {"leakage": ATTACK, "accuracy": 0.9, "gap": 0.1},
        {"leave them out": lambda: fl.calibrate(ATTACK, accuracy=0.9)},
    ),
    Remedy(
        "needs shape='least-loss' for the rows present",
        calibrated,
        {"gap": 0.1},
        {"shape='least-loss'": None, "Leave it out": lambda: calibrated()},
    ),
    Remedy(
        "attributes and label cannot be limited by",
        calibrated,
        {"over": "group", "groups": PAIRS, "attributes": ["x0"]},
        {"leave them out": lambda: calibrated(over="group", groups=PAIRS)},
    ),
    Remedy(
        "over='any-record' is for one release",
        calibrated,
        {"leakage": fl.compose(LEAK, LEAK), "over": "any-record", "bounds": BOUNDS},
        {"calibrate each release of a composition by itself": {"leakage": LEAK, "eta": 0.5}},
    ),
    Remedy(
        "computes them from the labels of all rows: give class_weight as a dict of numbers",
        calibrated,
        {"leakage": measured(BALANCED, y=C), "over": "any-record"},
        {
            "give class_weight as a dict of numbers": {
                "leakage": measured(fitted(LogisticRegression(class_weight={0: 1.0, 1: 1.5}, C=0.01), y=C), y=C),
                "bounds": {name: BOUNDS[name] for name in ("x0", "x1", "x2")},
            },
            "over='max'": None,
        },
    ),
    Remedy(
        "has no bound for a mean or median that an imputer learned",
        lambda step=None, **options: for_anyone(step or SimpleImputer(), X=GAPS, bounds=BOUNDS, **options),
        {},
        {
            "SimpleImputer(strategy='constant', fill_value=…)": {
                "step": SimpleImputer(strategy="constant", fill_value=0.0)
            },
            "call fl.protect with bounds": lambda: protected(
                make_pipeline(SimpleImputer(), Ridge(10.0)), GAPS, over="any-record", bounds=BOUNDS, public="nothing"
            ),
        },
    ),
    Remedy(
        "shape must be 'isotropic' where an imputer learned what it fills in",
        lambda step=None, public="nothing", **options: calibrated(
            measured(fitted(step or SimpleImputer(), Ridge(1.0), X=GAPS), GAPS, public=public), **options
        ),
        {"shape": "hessian"},
        {
            "shape='isotropic'": None,
            "shapes=['isotropic'] in fl.protect": lambda: protected(make_pipeline(SimpleImputer(), Ridge(1.0)), GAPS),
            "SimpleImputer(strategy='constant', fill_value=…)": {
                "step": SimpleImputer(strategy="constant", fill_value=0.0)
            },
            "public='preprocessing'": None,
        },
    ),
    Remedy(
        "with a value outside its declared bounds",
        lambda value=9.0, **options: for_anyone(
            SimpleImputer(strategy="constant", fill_value=value), X=GAPS, **{"bounds": BOUNDS} | options
        ),
        {},
        {
            "fill them with a value within the bounds": {"value": 0.0},
            "declare wider ones": {"bounds": BOUNDS | {f"x{j}": (-9.5, 9.5) for j in range(3)}},
        },
    ),
    Remedy(
        "order statistics jump if a row is replaced. Use StandardScaler, or over='max'.",
        lambda step=None, **options: for_anyone(
            step or RobustScaler(), X=np.tile(X, (10, 1)), bounds=BOUNDS, **options
        ),
        {},
        {
            "Use StandardScaler": {"step": StandardScaler()},
            "over='max'": lambda: for_anyone(RobustScaler(), over="max"),
        },
    ),
    Remedy(
        "outside the declared bounds ({low}, {high}): declare wider ones",
        calibrated,
        {"over": "any-record", "bounds": BOUNDS | {"x0": (-0.5, 0.5)}},
        {"declare wider ones": {"bounds": BOUNDS}},
    ),
    Remedy(
        "bounds of 'label' cannot be given for a classifier, whose labels are its classes: leave them out.",
        calibrated,
        {"leakage": measured(fitted(LogisticRegression(C=0.01), y=C), y=C), "over": "any-record", "bounds": BOUNDS},
        {"leave them out": {"bounds": {name: BOUNDS[name] for name in ("x0", "x1", "x2")}}},
    ),
    Remedy(
        "No useful bound holds for any record within the bounds",
        lambda l2=1e-4, **options: fl.calibrate(
            measured(fitted(LogisticRegression(C=1 / (60 * l2)), y=C), y=C), 1.0, **{"over": "any-record"} | options
        ),
        {"bounds": {f"x{j}": (-500.0, 500.0) for j in range(3)}},
        {
            "Declare narrower bounds, use a larger l2": {"l2": 2.0, "bounds": {f"x{j}": (-4.0, 4.0) for j in range(3)}},
            "over='max'": lambda: calibrated(measured(fitted(LogisticRegression(C=1 / (60 * 1e-4)), y=C), y=C)),
        },
    ),
]

PROTECTED: list[Remedy] = [
    Remedy(
        "bounds are for over='any-record' only; got over=", protected, {"bounds": BOUNDS}, {"over='any-record'": None}
    ),
    Remedy(
        "groups go with over='max'",
        protected,
        {"groups": PAIRS, "over": "any-record"},
        {
            "over='max'": None,
            "give person= and rows_per_person=": {
                "groups": None,
                "person": PAIRS,
                "rows_per_person": 2,
                "bounds": BOUNDS,
                "estimator": Ridge(100.0),
            },
        },
    ),
    Remedy("leave out groups", protected, {"groups": PAIRS, "person": PAIRS}, {"leave out groups": None}),
    Remedy(
        "rows_per_person is for over='any-record' only; got over=",
        protected,
        {"person": PAIRS, "rows_per_person": 2},
        {"leave it out": {"rows_per_person": None}},
    ),
    Remedy(
        "has neither: use penalties=[1.0].",
        protected,
        {"estimator": LinearRegression(), "penalties": [1.0, 2.0]},
        {"penalties=[1.0]": None},
    ),
    Remedy(
        "takes numbers only: encode it with a OneHotEncoder in a Pipeline, or leave it out.",
        protected,
        {"X": text(X)},
        {
            "encode it with a OneHotEncoder in a Pipeline": lambda: protected(
                make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge(1.0)), text(X)[:, 3:]
            ),
            "leave it out": {"X": X},
        },
    ),
    Remedy(
        "only: drop these rows, or fill them with a SimpleImputer in a Pipeline.",
        protected,
        {"X": GAPS},
        {
            "drop these rows": {"X": X[:50], "y": Y[:50]},
            "fill them with a SimpleImputer in a Pipeline": {"estimator": make_pipeline(SimpleImputer(), Ridge(1.0))},
        },
    ),
    Remedy(
        "cannot be on a model card yet: pool with a number of rows, such as min_frequency=5.",
        saved,
        {"min_frequency": 0.2},
        {"min_frequency=5": None},
    ),
    Remedy(
        "and categories that are declared cannot be on a model card yet: leave min_frequency out.",
        saved,
        {"min_frequency": 5, "categories": [["north", "south", "west"]]},
        {"leave min_frequency out": {"min_frequency": None}},
    ),
    Remedy(
        "in units of the bounds' width divided by √12. The narrowest bounds, those of '{name}', decide that",
        refusing(of_ratio),
        {},
        {"write that column in a smaller unit": {"unit": 100.0}},
    ),
    Remedy(
        "better than the baseline: {measured(metric, noisy)}, without",
        refusing(of_use),
        {},
        {
            "Use a larger `eta`": {"eta": 9.0},
            "narrower `bounds`": {"wide": 4.0},
            "more rows": {"rows": 20_000},
        },
    ),
    Remedy("{rule}; got {given}.{remedy}", protected, {"weightings": "none"}, {"weightings=['none']": None}),
    Remedy(
        "No candidate keeps the limit: {_remedy(task, inner, refused)}.",
        lambda wide=500.0, **options: protected(
            LogisticRegression(),
            y=C,
            **{"over": "any-record", "bounds": {f"x{j}": (-wide, wide) for j in range(3)}} | options,
        ),
        {},
        {
            "declare narrower bounds": {"wide": 4.0, "penalties": [100.0]},
            "over='max'": {"over": "max", "bounds": None},
        },
    ),
]

"""Refusals of calibration, of limits for any record, of choices among candidates and of IRFIL, with what they advise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

import fisherleak as fl
from fisherleak.engine.losses.loss import Labels
from remedies.of_bounds import ENDS, anyone
from remedies.of_limits import BOUNDS, GAPS, protected
from remedies.of_models import LEAK, NOISE, PAIRS, RIDGE, C, K, X, Y, fitted, measured
from remedies.of_noises import reweighted
from remedies.table import Remedy, limited, refusing
from rows.lazy import da

PUBLIC = measured(fitted(Ridge(1.0), X=-X), -X)
LAZY = fl.measure(
    fl.minimise(da.from_array(X, chunks=30), da.from_array(Y, chunks=30), l2=0.1), *map(da.from_array, (X, Y))
)
ONE_ABOVE = np.column_stack([np.where(np.arange(60) == 7, np.abs(X[:, 0]), -np.abs(X[:, 0])), X[:, 1:]])
"""Of the first column, one value above zero."""
ONE = np.array([[1.0, 2.0]])
STEEP = replace(fl.LOSSES["squared"], name="steep", quadratic=False, traits=None)
PENALISED = fl.minimise(X, Y, l2=20.0)
COUNTS = np.random.default_rng(2).poisson(2.0, 60)
PARTS = replace(
    fl.LOSSES["squared"], name="parts", labels=Labels("between 0 and 0.95", lambda y: (y >= 0) & (y <= 0.95))
)
CUT = np.clip(1.0 / (1.0 + np.exp(-Y)), 0.0, 0.94)
TWICE = np.tile(X, (2, 1)) + np.random.default_rng(0).normal(size=(120, 3)) * 0.1


def shaped(own: fl.Leakage = LEAK, size: dict[str, Any] | None = None, **options: Any) -> Any:
    """A noise calibrated with limits on what fits in memory."""
    with limited(**size or {}):
        return fl.calibrate(own, 1.0, **options)


def released(counted: bool = True, named: bool = False, **options: Any) -> Any:
    """A choice among two penalties, of candidates of a frontier, or the first of them."""
    given: dict[str, Any] = {"penalties": [100.0, 1000.0], "over": "any-record", "bounds": BOUNDS} | options
    found = protected(**given)
    return found.release(choice=found.points[0] if named else None, counted=counted, random_state=0)


def chosen(eta: float = 1.0, wide: float = 23.85, penalties: tuple[float, ...] = (1.0, 2.0)) -> Any:
    """A choice among two penalties; by default their bounds are next to ones that are refused."""
    frontier = fl.protect(
        *(Ridge(1.0), TWICE, np.tile(Y, 2), eta),
        penalties=penalties,
        shapes=["isotropic"],
        bounds=dict.fromkeys(BOUNDS, (-wide, wide)),
        public="nothing",
    )
    return frontier.release(random_state=0)


def of_counts(eta: float) -> Any:
    frontier = fl.protect(
        PoissonRegressor(alpha=0.1), X, COUNTS, eta, over="max", penalties=[1.0, 10.0], shapes=["isotropic"]
    )
    return frontier.release(random_state=0)


def of_size(shape: Any) -> Any:
    with limited(**{"protection.calibrate.etas_with_noise_counted.MOST_UNKNOWNS": 5}):
        return fl.counted(LEAK, 1.0, shape=shape)


def unknown(over: str = "any-record") -> Any:
    """Rows with a category that the encoder has not seen."""
    sites = pandas.DataFrame({"a": X[:, 0], "site": np.resize(["north", "south"], 60)})
    steps = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["site"]), remainder="passthrough").fit(
        sites
    )
    other = sites.assign(site=np.resize(["north", "south", "west"], 60))
    steps_and_model = make_pipeline(steps, Ridge(1000.0))
    steps_and_model.steps[-1][1].fit(steps.transform(other), Y)
    return anyone(steps_and_model, other, bounds={"a": (-5, 5), "label": (-8, 8)}, over=over)


def many_classes(over: str = "any-record") -> Any:
    with limited(**{"protection.certificates.softmax_certificate.MOST_PARAMETERS": 5}):
        return anyone(LogisticRegression(C=1e-4, tol=1e-10).fit(X, K), y=K, bounds=ENDS, over=over)


def even(account: str = "end-to-end", size: int | None = None, **options: Any) -> Any:
    with limited(**({} if size is None else {"protection.irfil.whole_procedure.MOST_NUMBERS": size})):
        made = reweighted(account=account, **options)
        return made.end_to_end_ if account == "end-to-end" else made


OF_CHOICES: list[Remedy] = [
    Remedy(
        "counted takes a covariance from public rows as a matrix: pass the noise's `shape`.",
        lambda shape: fl.counted(LEAK, 1.0, shape=shape),
        {"shape": PUBLIC},
        {"pass the noise's `shape`": {"shape": vars(fl.calibrate(LEAK, 1.0, shape=PUBLIC))["shape"]}},
    ),
    Remedy(
        "The bound of every candidate without weights is nearly too loose to be used",
        chosen,
        {},
        {"declare narrower bounds": {"wide": 12.0}, "larger penalties": {"penalties": (300.0, 1000.0)}},
    ),
    Remedy(
        "no candidate without weights has a finite loss",
        of_counts,
        {"eta": 1e-5},
        {"a larger eta": {"eta": 1.0}},
    ),
    Remedy(
        "has values that the {loss.name} loss does not take",
        lambda bounds=None: anyone(fl.minimise(X, CUT, PARTS, 10.0), y=CUT, bounds=bounds),
        {},
        {"declare it with `bounds={'label': (low, high)}`": {"bounds": {"label": (0, 0.95)}}},
    ),
    Remedy(
        "has a covariance that depends on the data, which {what} does not count",
        lambda noise: fl.calibrate(LEAK, 1.0, shape=measured(fitted(Ridge(1.0), X=-X), -X, noise=noise)),
        {"noise": fl.Posterior(0.5)},
        {"use noise on parameters, fisherleak.Gaussian": {"noise": NOISE}},
    ),
    Remedy(
        "shape='least-loss' over groups needs rows in memory; X is a Dask array. Use over='max'.",
        lambda **options: shaped(LAZY, shape="least-loss", **options),
        {"over": "group", "groups": PAIRS},
        {"over='max'": lambda: shaped(LAZY, shape="least-loss")},
    ),
    Remedy(
        "are {len(groups)}, whose matrices with {size} parameters would take",
        shaped,
        {
            "shape": "least-loss",
            "over": "group",
            "groups": PAIRS,
            "size": {"protection.calibrate.limit_terms.MOST_VALUES": 100},
        },
        {"Give fewer groups": {"groups": PAIRS // 10}, "shape='hessian'": None},
    ),
    Remedy(
        "shape from public rows cannot be limited by group: it has no groups. Use over='max'.",
        shaped,
        {"shape": PUBLIC, "over": "group", "groups": PAIRS},
        {"over='max'": lambda: shaped(shape=PUBLIC)},
    ),
    Remedy(
        "must come from public rows, and most of these are rows of the table itself",
        shaped,
        {"shape": measured(RIDGE)},
        {"Give other rows": {"shape": PUBLIC}, "use `shape='hessian'`": {"shape": "hessian"}},
    ),
    Remedy(
        "follows from a system of {unknowns} unknowns",
        of_size,
        {"shape": "least-loss"},
        {
            "Take the covariance from public rows": {"shape": vars(fl.calibrate(LEAK, 1.0, shape=PUBLIC))["shape"]},
            "shape='hessian'": None,
        },
    ),
    Remedy(
        "No useful bound holds for a person with {count} rows, each any record within the bounds",
        lambda l2=1e-2, wide=100.0, rows=10, table=X: fl.calibrate(
            measured(
                LogisticRegression(C=1 / (len(table) * l2), tol=1e-10).fit(table, np.resize(C, len(table))),
                table,
                np.resize(C, len(table)),
                person=np.arange(len(table)) // 2,
            ),
            1.0,
            over="any-record",
            rows_per_person=rows,
            bounds={f"x{j}": (-wide, wide) for j in range(3)},
        ),
        {},
        {
            "Declare narrower bounds": {"wide": 4.0, "l2": 2.0, "rows": 2},
            "fewer rows per person": {"wide": 4.0, "l2": 2.0, "rows": 2},
            "use a larger l2": {"wide": 4.0, "l2": 50.0, "rows": 2},
            "more people": {"wide": 4.0, "l2": 1.0, "table": np.tile(X, (10, 1))},
        },
    ),
    Remedy(
        "eta of {eta} cannot be certified with `shape={shape}`",
        lambda shape="hessian", l2=10.0, rows=60: fl.calibrate(
            measured(fl.minimise(A := np.resize(X, (rows, 3)), b := np.resize(Y, rows), l2=l2), A, b),
            0.01,
            over="any-record",
            shape=shape,
            bounds=BOUNDS,
        ),
        {},
        {
            "Use `shape='isotropic'`": {"shape": "isotropic"},
            "a larger `l2`": {"l2": 5000.0},
            "more rows": {"rows": 6000},
        },
    ),
    Remedy(
        "gives parameters noise of such different sizes that one public grid cannot fit them all",
        lambda shape="hessian", unit=1e9: fl.calibrate(
            measured(fitted(Ridge(1000.0), X=(Z := X * [1.0, 1.0, unit])), Z),
            10.0,
            over="any-record",
            shape=shape,
            bounds=BOUNDS | {"x2": (-5.0 * unit, 5.0 * unit)},
        ),
        {},
        {"bring the columns to similar units": {"unit": 1.0}, "shape='isotropic'": None},
    ),
    Remedy(
        "is no affine function of its columns, so no bound holds for records that are not in the table.",
        anyone,
        {
            "attributes": [fl.Attribute("x0", [0], [[2.0]]), fl.Attribute("x1", [1]), fl.Attribute("x2", [2])],
            "model": PENALISED,
        },
        {
            "over='max'": None,
            "apply the preprocessing before and declare bounds for its features": {"attributes": None},
        },
    ),
    Remedy(
        "has directions of its own, so that its values cannot be bounded. Use `over='max'`.",
        anyone,
        {
            "attributes": [fl.Attribute("both", [0, 2], [[1.0, 0.5], [-2.0, 1.0]]), fl.Attribute("x1", [1])],
            "model": PENALISED,
            "bounds": {},
        },
        {"over='max'": {"over": "max"}},
    ),
    Remedy(
        "is so far from others that a rounded bound would reveal it",
        lambda bounds: anyone(fitted(Ridge(1000.0), X=ONE_ABOVE), ONE_ABOVE, bounds=bounds),
        {"bounds": {"label": (-8, 8)}},
        {"declare the range with `bounds={'x0': (low, high)}`": {"bounds": {"x0": (-5, 5), "label": (-8, 8)}}},
    ),
    Remedy(
        "Bounds and categories are computed from {FEWEST_IN_ALL} rows or more",
        lambda bounds=ENDS: anyone(fitted(Ridge(1000.0), X=X[:8], y=Y[:8]), X[:8], Y[:8], bounds=bounds),
        {},
        {"Declare them with `bounds={'label': (low, high)}`": {"bounds": BOUNDS}},
    ),
    Remedy(
        "rows with categories that its encoder does not know. Use `over='max'`.",
        unknown,
        {},
        {"over='max'": None},
    ),
    Remedy(
        "a norm above the declared",
        lambda norm=2.0, X=X: anyone(fl.minimise(X, Y, l2=50.0), X, bounds={"norm": norm, "label": (-8, 8)}),
        {},
        {
            "declare a larger one": {"norm": 9.0},
            "clip the rows before the model is fitted": {
                "X": X / np.maximum(1.0, np.linalg.norm(X, axis=1) / 1.99)[:, None]
            },
        },
    ),
    Remedy(
        "over='any-record' has a bound for models of up to",
        many_classes,
        {},
        {"use `over='max'`": {"over": "max"}},
    ),
    Remedy(
        "What choosing a candidate reveals of any record within the bounds is known for squared and logistic loss only",
        released,
        {"estimator": PoissonRegressor(), "y": COUNTS, "bounds": ENDS | {"label": (0, 12)}},
        {"release(choice=…)": {"named": True}, "counted=False": None},
    ),
    Remedy(
        "and what a choice among {among} candidates reveals is not counted for people",
        released,
        {"person": PAIRS, "rows_per_person": 2, "shapes": ["isotropic", "hessian"]},
        {
            "penalties=[1.0] and shapes=['hessian']": {"penalties": [1000.0], "shapes": ["hessian"]},
            "release one by name with choice=": {"named": True},
        },
    ),
    Remedy(
        "A choice is not counted where an imputer learned what it fills in",
        released,
        {
            "estimator": make_pipeline(SimpleImputer(), Ridge(1.0)),
            "X": GAPS,
            "over": "max",
            "bounds": None,
            "public": "nothing",
        },
        {
            "SimpleImputer(strategy='constant', fill_value=…)": {
                "estimator": make_pipeline(SimpleImputer(strategy="constant", fill_value=0.0), Ridge(1.0))
            },
            "counted=False": None,
        },
    ),
    Remedy(
        "A choice is not counted where values tie at a range or a quantile that a scaler learned",
        released,
        {
            "estimator": make_pipeline(MinMaxScaler(), Ridge(1.0)),
            "X": np.round(X),
            "over": "max",
            "bounds": None,
            "public": "nothing",
        },
        {"use StandardScaler": {"estimator": make_pipeline(StandardScaler(), Ridge(1.0))}, "counted=False": None},
    ),
    Remedy(
        "is known only if held-out rows decide.",
        released,
        {"held_out": 0},
        {"held_out=0.25": None, "over='max'": {"over": "max", "bounds": None}, "release(choice=…)": {"named": True}},
    ),
    Remedy(
        "eta must be at least {min((point.eta for point in self.points))}, the least that was looked at",
        lambda least: fl.protect(
            Ridge(1.0), X, Y, least, over="max", penalties=[1.0], weightings=["none"], shapes=["isotropic"]
        ).release(0.2, random_state=0),
        {"least": 1.0},
        {"Call protect with a smaller one": {"least": 0.2}},
    ),
    Remedy(
        "No candidate without weights was looked at, and what IRFIL's weights reveal is not counted",
        released,
        {"weightings": ["full"], "over": "max", "bounds": None},
        {"weightings=['none']": None, "counted=False": None},
    ),
    Remedy(
        "Losses and scores are those of the rows that models are fitted on.",
        refusing(protected),
        {"X": X[:15], "y": Y[:15]},
        {"held_out=0": None},
    ),
    Remedy(
        "weightings must be ['none'] where the choice is counted",
        lambda **options: fl.Protected(Ridge(1.0), eta=1.0, over="max", random_state=0, **options).fit(X, Y),
        {"weightings": ["none", "full"]},
        {
            "Leave them out": lambda: fl.Protected(Ridge(1.0), eta=1.0, over="max", random_state=0).fit(X, Y),
            "counted=False": None,
        },
    ),
    Remedy(
        "The spread of eta is {last} of its mean after {count} reweightings",
        refusing(reweighted),
        {"n_iter": 1, "tol": 1e-3},
        {
            "Allow more with n_iter": {"n_iter": 200},
            "accelerate=True": {"accelerate": True, "n_iter": 100},
            "a larger penalty": {"estimator": Ridge(1e6), "n_iter": 30},
        },
    ),
    Remedy(
        "estimator_ stopped at a distance of {distance} from its minimum. history_ is measured at the minimum",
        refusing(reweighted, fl.LooseFitWarning),
        {"estimator": LogisticRegression(tol=0.5), "y": C},
        {"Give the estimator a smaller tol": {"estimator": LogisticRegression(tol=1e-10)}},
    ),
    Remedy(
        "End-to-end etas of IRFIL take rows x parameters x values at once",
        even,
        {"size": 500},
        {"use fewer rows or columns": {"X": X[:20], "y": Y[:20]}, "account='weights-fixed'": None},
    ),
    Remedy(
        "needs an eta above zero for every row, even if its residual were zero.",
        even,
        {"X": np.vstack([X, np.zeros((1, 3))]), "y": np.append(Y, 0.0), "estimator": Ridge(1.0, fit_intercept=False)},
        {"leave such rows out": {"X": X, "y": Y}, "account='weights-fixed'": None},
    ),
    Remedy(
        "is known only if the limits decide the noise on every parameter.",
        lambda attributes=("x0",), shape="least-loss": fl.counted(
            fl.measure(fl.minimise(ONE, [3.0], l2=0.1), ONE, [3.0]), 1.0, shape, attributes=attributes
        ),
        {},
        {
            "Limit more attributes": lambda: fl.counted(LEAK, 1.0, "least-loss", attributes=["x0", "x1"]),
            "shape='hessian'": None,
        },
    ),
    Remedy(
        "over='any-record' supports the package's own losses only",
        lambda over="any-record": anyone(fl.minimise(X, Y, STEEP, l2=5.0), over=over),
        {},
        {"over='max'": None},
    ),
    Remedy(
        "Membership is not known for this noise: its covariance, shape='{shape}', was computed from the rows. {rule}.",
        lambda public="nothing": (
            (own := measured(fitted(StandardScaler(), Ridge(1.0)), public=public))
            .with_noise(fl.calibrate(own, 1.0, shape="least-loss"))
            .membership()
        ),
        {},
        {"public='preprocessing'": None},
    ),
    Remedy(
        "What it is without a row is known {where}use shape='isotropic'.",
        lambda shape="hessian": (
            (own := measured(LogisticRegression(tol=1e-10).fit(X, K), y=K))
            .with_noise(fl.calibrate(own, 1.0, shape=shape))
            .membership()
        ),
        {},
        {"shape='isotropic'": None},
    ),
    Remedy(
        "eta stays above {target} with {name} up to a scale of",
        lambda noise=None, eta=1e-5: fl.calibrate(
            fl.measure(fl.minimise(X, C, "logistic", 0.1), X, C, noise or fl.ObjectivePerturbation(1.0, draws=100)), eta
        ),
        {},
        {"use fisherleak.Gaussian": {"noise": NOISE}, "a larger limit": {"eta": 30.0}},
    ),
]

"""A small table, every model and every step that can be released, and pipelines of one with the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model as lm
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

from fisherleak.models.steps.imputers import CentreImputer

NUMBERS, CATEGORIES = ["age", "bmi", "year"], ["gene", "city"]
GENES, CITIES = ["CC", "CT", "TT"], ["Bonn", "Kiel", "Ulm"]
RARE = "Aach"


def people(n: int = 90, changed: int | None = None) -> pd.DataFrame:
    """A table; with one row changed in every column if asked for."""
    rng = np.random.default_rng(7)
    table = pd.DataFrame(
        {
            "age": rng.normal(50.0, 12.0, size=n),
            "bmi": rng.gamma(9.0, 3.0, size=n),
            "year": rng.integers(1940, 2010, size=n) + rng.random(size=n),
            "gene": rng.choice(GENES, size=n),
            "city": np.where(np.arange(n) % 30 == 4, RARE, rng.choice(CITIES, size=n)),
        }
    )
    if changed is not None:
        table.loc[changed, NUMBERS] = [61.25, 28.5, 1999.5]
        table.loc[changed, "gene"] = "TT" if table.loc[changed, "gene"] != "TT" else "CC"
        table.loc[changed, "city"] = "Ulm" if table.loc[changed, "city"] != "Ulm" else "Bonn"
    return table


def labels(kind: str, table: pd.DataFrame, changed: int | None = None) -> Any:
    rng = np.random.default_rng(8)
    score = 0.02 * (table["age"].to_numpy() - 50) + 0.5 * (table["gene"] == "TT").to_numpy()
    real = score + rng.normal(size=len(table))
    if changed is not None:
        real[changed] += 0.7
    if kind == "classes":
        return np.where(real > 0.2, "ill", "well")
    if kind == "three":
        return np.array(["ill", "so-so", "well"])[np.digitize(real, [-0.2, 0.7])]
    if kind == "numbers":
        return np.column_stack([real, score - real**2])
    return np.exp(0.3 * real) if kind == "positive" else real


EXACT = {"tol": 1e-10, "max_iter": 10_000}
ESTIMATORS: dict[type, tuple[Callable[[], Any], str]] = {
    lm.LinearRegression: (lm.LinearRegression, "real"),
    lm.Ridge: (lm.Ridge, "real"),
    lm.RidgeClassifier: (lm.RidgeClassifier, "classes"),
    lm.LogisticRegression: (lambda: lm.LogisticRegression(solver="newton-cholesky", **EXACT), "classes"),
    lm.PoissonRegressor: (lambda: lm.PoissonRegressor(solver="newton-cholesky", alpha=0.1, **EXACT), "positive"),
    lm.GammaRegressor: (lambda: lm.GammaRegressor(solver="newton-cholesky", alpha=0.1, **EXACT), "positive"),
    lm.TweedieRegressor: (
        lambda: lm.TweedieRegressor(power=1, alpha=0.1, solver="newton-cholesky", **EXACT),
        "positive",
    ),
    OneVsRestClassifier: (
        lambda: OneVsRestClassifier(lm.LogisticRegression(solver="newton-cholesky", **EXACT)),
        "classes",
    ),
}
"""Every model that can be released, with the kind of its labels."""

SEVERAL: dict[str, tuple[Callable[[], Any], str]] = {
    "LogisticRegression": (lambda: lm.LogisticRegression(solver="newton-cg", **EXACT), "three"),
    "RidgeClassifier": (lm.RidgeClassifier, "three"),
    "OneVsRestClassifier": (ESTIMATORS[OneVsRestClassifier][0], "three"),
    "Ridge": (lm.Ridge, "numbers"),
    "LinearRegression": (lm.LinearRegression, "numbers"),
}
"""Models of several classes or numbers, by name."""

POOLED = {"min_frequency": 5, "handle_unknown": "infrequent_if_exist", "sparse_output": False}
KNOTS = np.array([[0.0, 0.0, 1930.0], [60.0, 30.0, 1980.0], [120.0, 90.0, 2020.0]])
STEPS: dict[type, list[tuple[Callable[[], Any], list[str], str]]] = {
    StandardScaler: [(StandardScaler, NUMBERS, "nothing"), (lambda: StandardScaler(with_mean=False), NUMBERS, "nothing")],
    RobustScaler: [(RobustScaler, NUMBERS, "nothing")],
    MinMaxScaler: [(lambda: MinMaxScaler((-1, 1)), NUMBERS, "nothing")],
    MaxAbsScaler: [(MaxAbsScaler, NUMBERS, "nothing")],
    PolynomialFeatures: [(lambda: PolynomialFeatures(2, include_bias=False), ["age", "bmi"], "nothing")],
    FunctionTransformer: [
        (FunctionTransformer, NUMBERS, "nothing"),
        (lambda: FunctionTransformer(np.log1p), NUMBERS, "nothing"),
    ],
    SplineTransformer: [
        (lambda: SplineTransformer(knots=KNOTS, include_bias=False), NUMBERS, "nothing"),
        (lambda: SplineTransformer(3, include_bias=False), NUMBERS, "preprocessing"),
    ],
    SimpleImputer: [
        (lambda: SimpleImputer(strategy="constant", fill_value=0.0), NUMBERS, "nothing"),
        (SimpleImputer, NUMBERS, "preprocessing"),
        (lambda: SimpleImputer(strategy="median"), NUMBERS, "nothing"),
    ],
    CentreImputer: [(lambda: CentreImputer([60.0, 30.0, 1980.0]), NUMBERS, "nothing")],
    OneHotEncoder: [
        (lambda: OneHotEncoder(categories=[GENES, [RARE, *CITIES]], drop="first"), CATEGORIES, "nothing"),
        (lambda: OneHotEncoder(**POOLED), CATEGORIES, "levels"),
        (lambda: OneHotEncoder(drop="first"), CATEGORIES, "levels"),
    ],
    OrdinalEncoder: [
        (lambda: OrdinalEncoder(categories=[GENES, [RARE, *CITIES]]), CATEGORIES, "nothing"),
        (lambda: OrdinalEncoder(min_frequency=5), CATEGORIES, "levels"),
    ],
    PCA: [(lambda: PCA(2, whiten=True), NUMBERS, "preprocessing")],
    IncrementalPCA: [(lambda: IncrementalPCA(2), NUMBERS, "preprocessing")],
    TruncatedSVD: [(lambda: TruncatedSVD(2, algorithm="arpack", random_state=0), NUMBERS, "preprocessing")],
    VarianceThreshold: [(lambda: VarianceThreshold(150.0), NUMBERS, "preprocessing")],
    FeatureUnion: [
        (lambda: FeatureUnion([("one", StandardScaler()), ("two", PCA(1))]), NUMBERS, "preprocessing"),
    ],
    Pipeline: [
        (lambda: make_pipeline(SimpleImputer(strategy="constant", fill_value=0.0), StandardScaler()), NUMBERS, "nothing"),
        (lambda: make_pipeline(StandardScaler()), NUMBERS, "nothing"),
        (lambda: make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS, "nothing"),
    ],
    ColumnTransformer: [
        (
            lambda: ColumnTransformer([("n", StandardScaler(), ["age", "bmi"]), ("c", OneHotEncoder(**POOLED), CATEGORIES)]),
            [*NUMBERS, *CATEGORIES],
            "levels",
        ),
        (
            lambda: ColumnTransformer([("c", OneHotEncoder(**POOLED), CATEGORIES)], remainder=RobustScaler()),
            [*NUMBERS, *CATEGORIES],
            "levels",
        ),
        (
            lambda: ColumnTransformer(
                [
                    ("n", make_pipeline(StandardScaler()), make_column_selector(dtype_include="number")),
                    ("c", OneHotEncoder(drop="first"), ["gene"]),
                    ("gone", "drop", ["city"]),
                ]
            ),
            [*NUMBERS, *CATEGORIES],
            "levels",
        ),
        (
            lambda: ColumnTransformer([("n", StandardScaler(), [0])], remainder="passthrough"),
            NUMBERS,
            "nothing",
        ),
    ],
}  # fmt: skip
"""For every step that can be released, examples with their columns and the least that must be public."""


def pipelines() -> list[Any]:
    """Factory, columns, kind of labels and what is public, of every step with every model: most of them in long tests only."""
    return [case for last in ESTIMATORS for case in _with_every_step(last)] + list(_of_several())


def brief() -> list[Any]:
    """The same with one model."""
    return list(_with_every_step(lm.Ridge))


def _with_every_step(last: type) -> Iterator[Any]:
    estimator, kind = ESTIMATORS[last]
    yield pytest.param(estimator, NUMBERS, kind, "nothing", id=last.__name__)
    for step, examples in STEPS.items():
        for k, (make, columns, public) in enumerate(examples):
            quick = last is lm.Ridge or (step in (StandardScaler, ColumnTransformer) and k == 0)
            yield pytest.param(
                *(_together(make, estimator), columns, kind, public),
                id=f"{step.__name__}-{k}-{last.__name__}",
                marks=() if quick else (pytest.mark.long,),
            )


def _of_several() -> Iterator[Any]:
    """Models of several outputs alone, and behind a few steps."""
    for name, (estimator, kind) in SEVERAL.items():
        yield pytest.param(estimator, NUMBERS, kind, "nothing", id=f"{name}-{kind}")
        for step, k in ((StandardScaler, 0), (OneHotEncoder, 0), (ColumnTransformer, 0)):
            make, columns, least = STEPS[step][k]
            for public in (least, "preprocessing"):
                case = (_together(make, estimator), columns, kind, public)
                yield pytest.param(*case, id=f"{step.__name__}-{name}-{kind}-{public}")


def _together(step: Callable[[], Any], last: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: make_pipeline(step(), last())

"""Models of every kind that is read, with rows that they were fitted on and rows that they have not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


@dataclass(frozen=True)
class Case:
    """A fitted model, its rows, and others."""

    model: Any
    X: Any
    y: Any
    X_test: Any
    y_test: Any


def visits(n: int, seed: int = 4) -> Any:
    """A table of numbers, a yes or no, a category, and missing cells in one column."""
    import pandas

    rng = np.random.default_rng(seed)
    table = pandas.DataFrame(
        {
            "age": rng.normal(50, 12, n).round(),
            "weight": rng.normal(70, 9, n),
            "smokes": rng.integers(0, 2, n),
            "city": rng.choice(["Bonn", "Genua", "Rom"], n),
            "crp": np.where(rng.random(n) < 0.1, np.nan, rng.gamma(2.0, 5.0, n)),
        }
    )
    line = 0.05 * (table["age"] - 50) + 0.5 * table["smokes"] + 0.4 * (table["city"] == "Rom")
    table["dose"] = line + 0.5 * rng.normal(size=n)
    table["ill"] = np.where(line + 0.7 * rng.logistic(size=n) > 0.3, "yes", "no")
    table["ward"] = np.array(["eye", "heart", "knee"])[
        (line + rng.normal(size=n) > 0).astype(int) + (rng.random(n) < 0.2)
    ]
    table["count"] = rng.poisson(np.exp(0.3 * line))
    table["cost"] = rng.gamma(3.0, np.exp(0.3 * line) / 3.0) + 0.01
    return table


def columns(imputed: bool = False) -> Any:
    numbers = [*("age", "weight", "smokes"), *(["crp"] if imputed else [])]
    steps = make_pipeline(SimpleImputer(), StandardScaler()) if imputed else StandardScaler()
    return make_column_transformer((steps, numbers), (OneHotEncoder(drop="first", sparse_output=False), ["city"]))


def _newton(**options: Any) -> LogisticRegression:
    return LogisticRegression(solver="newton-cholesky", tol=1e-9, **options)


MODELS: dict[str, tuple[Callable[[], Any], Any]] = {
    "ridge": (lambda: make_pipeline(columns(), Ridge(1.0)), "dose"),
    "ridge with an imputer": (lambda: make_pipeline(columns(imputed=True), Ridge(1.0)), "dose"),
    "two numbers": (lambda: make_pipeline(columns(), Ridge(1.0)), ["dose", "cost"]),
    "logistic": (lambda: make_pipeline(columns(), _newton()), "ill"),
    "softmax": (lambda: make_pipeline(columns(), _newton()), "ward"),
    "one against the rest": (lambda: make_pipeline(columns(), OneVsRestClassifier(_newton())), "ward"),
    "ridge classifier": (lambda: make_pipeline(columns(), RidgeClassifier(1.0)), "ill"),
    "ridge classifier of three": (lambda: make_pipeline(columns(), RidgeClassifier(1.0)), "ward"),
    "poisson": (lambda: make_pipeline(columns(), PoissonRegressor(tol=1e-9, solver="newton-cholesky")), "count"),
    "gamma": (lambda: make_pipeline(columns(), GammaRegressor(tol=1e-9, solver="newton-cholesky")), "cost"),
    "search": (lambda: GridSearchCV(make_pipeline(columns(), Ridge()), {"ridge__alpha": [0.1, 1.0]}), "dose"),
    "without an intercept": (lambda: LinearRegression(fit_intercept=False), "dose"),
}
"""How each is made, and what it predicts."""


def case(name: str, n: int = 120, m: int = 60) -> Case:
    make, target = MODELS[name]
    table, test = visits(n), visits(m, seed=5)
    made = make()
    used = ["age", "weight", "smokes", "city", *(["crp"] if "imputer" in name else [])]
    if isinstance(made, LinearRegression):
        used = used[:3]
    X, X_test = table[used], test[used]
    return Case(made.fit(X, table[target]), X, table[target], X_test, test[target])

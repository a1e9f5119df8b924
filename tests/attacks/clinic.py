"""People with a gene and a habit, models of their dose, and who attacks them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import fisherleak as fl

ATTACKERS = [fl.attacks.Prior, fl.attacks.Ideal, fl.attacks.BlackBox, fl.attacks.WhiteBox]


def people(n: int = 120, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(seed)
    gene = rng.choice(["CC", "CT", "TT"], size=n, p=[0.3, 0.45, 0.25])
    smoker = rng.choice(["no", "yes"], size=n, p=[0.7, 0.3])
    age = rng.normal(50.0, 12.0, size=n).round()
    table = pd.DataFrame({"age": age, "gene": gene, "smoker": smoker})
    dose = 0.05 * age + np.select([gene == "CT", gene == "TT"], [1.0, 2.0], 0.0) + 0.5 * (smoker == "yes")
    return table, dose + rng.normal(size=n)


def pipeline(last: Any, drop: Any = "first") -> Any:
    encoder = OneHotEncoder(drop=drop, sparse_output=False)
    steps = [("numbers", StandardScaler(), ["age"]), ("categories", encoder, ["gene", "smoker"])]
    return make_pipeline(ColumnTransformer(steps), last)


TABLE, DOSE = people()
HIGH = (np.median(DOSE) < DOSE).astype(int)
MODELS = {
    "linear": (pipeline(Ridge(alpha=0.5)), DOSE),
    "no intercept": (pipeline(Ridge(alpha=0.5, fit_intercept=False), drop=None), DOSE),
    "logistic": (pipeline(LogisticRegression(C=2.0, tol=1e-12, solver="newton-cholesky")), HIGH),
    "ridge classifier": (pipeline(RidgeClassifier()), np.where(HIGH == 1, "high", "low")),
    "poisson": (pipeline(PoissonRegressor(alpha=0.1, tol=1e-12, solver="newton-cholesky")), np.round(np.exp(DOSE / 4))),
    "mixed": (make_pipeline(ColumnTransformer([("codes", OrdinalEncoder(), ["gene", "smoker"])], remainder="passthrough"),
                            StandardScaler(), PCA(3), Ridge()), DOSE),
}  # fmt: skip


def parameters(model: Any) -> Any:
    last = model[-1]
    return np.append(np.ravel(last.coef_), np.ravel(last.intercept_)) if last.fit_intercept else np.ravel(last.coef_)

"""Refusals of fitted estimators and steps, with what they advise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from sklearn.compose import ColumnTransformer
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

import fisherleak as fl
from remedies.of_data import GAPPED
from remedies.of_models import NOISE, RIDGE, C, K, X, Y, fitted, measured
from remedies.table import Remedy

TABLE_OF_NUMBERS = X
FEW = np.column_stack([X, np.arange(len(X)) % 9 == 0]) * 1.0
"""The same beside a column that most rows have one value of."""
TWO = np.column_stack([Y, -Y + X[:, 0]])
SIGNS = np.eye(3, dtype=int)[K]
TIGHT: dict[str, Any] = {"tol": 1e-10, "max_iter": 10_000}

rng = np.random.default_rng(4)
TABLE = pandas.DataFrame({"age": rng.integers(20, 80, 200) + 0.0, "city": np.resize(["Bonn", "Kiel", "Ulm"], 200)})
ONE = TABLE.assign(city=["Gera", *TABLE.city[1:]])
"""The same with a city that one person has."""
TARGET = 0.1 * TABLE.age.to_numpy() + rng.normal(size=200)
ILL = np.where(np.arange(200) < 4, "ill", "well")
EVEN = np.where(np.arange(200) % 2, "ill", "well")
POOLED: dict[str, Any] = {"min_frequency": 10, "handle_unknown": "infrequent_if_exist"}
WORDS = TABLE[["city"]].where(np.arange(200)[:, None] % 5 > 0, np.nan)
LACKING = TABLE[["age"]].where(np.arange(200)[:, None] > 2)
CITIES = np.array([None if row % 9 == 0 else city for row, city in enumerate(TABLE.city)], dtype=object)[:, None]
"""Texts, of which some are missing."""


def of_texts(cities: Any = CITIES, imputed: bool = True) -> Any:
    steps = [SimpleImputer(strategy="most_frequent", missing_values=None)] * imputed
    return measured(make_pipeline(*steps, OneHotEncoder(), Ridge()).fit(cities, TARGET), cities, TARGET)


def one_each(inner: Any, X: Any = X, y: Any = K, model: Any = None) -> fl.Leakage:
    return measured(OneVsRestClassifier(inner).fit(X, y) if model is None else model, X, y)


def changed(alpha: float) -> Any:
    model = OneVsRestClassifier(RidgeClassifier()).fit(X, K)
    if alpha != 1.0:
        model.estimators_[1].alpha = alpha
    return model


def coded(table: Any = ONE, y: Any = TARGET, last: Any = None, counted: bool = True, **options: Any) -> Any:
    encoder = OneHotEncoder(**{key: value for key, value in options.items() if key != "public"})
    steps = ColumnTransformer([("n", StandardScaler(), ["age"]), ("c", encoder, ["city"])])
    model = make_pipeline(steps, last or Ridge()).fit(table, y)
    given: dict[str, Any] = {"rows": (table, y)} if counted else {}
    return fl.release(model, NOISE, **({"public": options["public"]} if "public" in options else given))


def flagged(table: Any = LACKING, counted: bool = True, add_indicator: bool = True, **options: Any) -> Any:
    model = make_pipeline(SimpleImputer(strategy="constant", fill_value=50.0, add_indicator=add_indicator), Ridge())
    given: dict[str, Any] = {"rows": (table, TARGET)} if counted else {}
    return fl.release(model.fit(table, TARGET), NOISE, **given, **options)


def of_two(*steps: Any, X: Any = GAPPED, **options: Any) -> fl.Leakage:
    return measured(fitted(*steps, LogisticRegression(**TIGHT), X=X, y=K), X, K, **{"public": "nothing"} | options)


OF_ESTIMATORS: list[Remedy] = [
    Remedy(
        "with several outputs is not supported: fit one each.",
        lambda y: measured(fitted(PoissonRegressor(), y=np.abs(Y)), y=y),
        {"y": np.abs(TWO)},
        {"fit one each": {"y": np.abs(Y)}},
    ),
    Remedy(
        "with an alpha for each output is not supported: fit one model per output.",
        lambda alpha, y: measured(fitted(Ridge(alpha=alpha), y=y), y=y),
        {"alpha": np.array([1.0, 2.0]), "y": TWO},
        {"fit one model per output": {"alpha": 1.0, "y": TWO[:, 0]}},
    ),
    Remedy(
        "LogisticRegressionCV(refit=False) is not supported: an average over folds is no minimiser. Use refit=True.",
        lambda refit: measured(fitted(LogisticRegressionCV(Cs=[0.1, 1.0], cv=2, refit=refit), y=C), y=C),
        {"refit": False},
        {"refit=True": None},
    ),
    Remedy(
        "with an l1 penalty is not supported: its minimiser has no derivative where a coefficient is zero. Use an l2",
        lambda **options: measured(fitted(LogisticRegression(**options), y=C), y=C),
        {"l1_ratio": 1.0, "solver": "saga", "max_iter": 10_000},
        {"Use an l2 penalty": {"l1_ratio": 0.0, "solver": "lbfgs"}},
    ),
    Remedy(
        "{name} inside OneVsRestClassifier is not supported: {known} are. A model that tunes itself would",
        one_each,
        {"inner": RidgeClassifierCV()},
        {"fit it with the same for all": {"inner": RidgeClassifier()}},
    ),
    Remedy(
        "inside OneVsRestClassifier is not supported: a row then has another weight in the model of each class.",
        one_each,
        {"inner": LogisticRegression(class_weight="balanced", **TIGHT)},
        {
            "Use a solver that fits all classes at once": lambda: measured(
                fitted(LogisticRegression(class_weight="balanced", **TIGHT), y=K), y=K
            ),
            "leave class_weight out": {"inner": LogisticRegression(**TIGHT)},
        },
    ),
    Remedy(
        "OneVsRestClassifier with several labels for each row is not supported: fit one model for each.",
        one_each,
        {"inner": RidgeClassifier(), "y": SIGNS},
        {"fit one model for each": lambda: measured(fitted(RidgeClassifier(), y=SIGNS[:, 0]), y=SIGNS[:, 0])},
    ),
    Remedy(
        "OneVsRestClassifier has no fitted model for class",
        one_each,
        {"inner": RidgeClassifier(), "y": np.zeros(60, dtype=int)},
        {"Fit it on rows of that class and of others": {"y": K}},
    ),
    Remedy(
        "and was made with {given.get(name)}: fit all of them with the same.",
        lambda alpha: measured(changed(alpha), y=K),
        {"alpha": 2.0},
        {"fit all of them with the same": {"alpha": 1.0}},
    ),
    Remedy(
        "{type(estimator).__name__} with several labels for each row is not supported: fit one model for each.",
        lambda y: measured(fitted(RidgeClassifier(), y=y), y=y),
        {"y": SIGNS},
        {"fit one model for each": {"y": SIGNS[:, 1]}},
    ),
    Remedy(
        "OneVsRestClassifier takes no sample_weight, which is needed here, unless scikit-learn's metadata routing",
        lambda estimator: fl.IRFIL(estimator, n_iter=2).fit(X, C),
        {"estimator": OneVsRestClassifier(LogisticRegression())},
        {"use LogisticRegression": {"estimator": LogisticRegression(**TIGHT)}},
    ),
    Remedy(
        "instead: fit one target at a time, or measure a model of several with fisherleak.measure.",
        lambda y: fl.IRFIL(Ridge(), n_iter=2).fit(X, y),
        {"y": TWO},
        {
            "fit one target at a time": {"y": TWO[:, 0]},
            "measure a model of several with fisherleak.measure": lambda: measured(fitted(Ridge(), y=TWO), y=TWO),
        },
    ),
    Remedy(
        "predicts numbers: encode it as numbers, or use a classifier.",
        lambda y, estimator=None: fl.IRFIL(estimator or Ridge(), n_iter=2).fit(X, y),
        {"y": np.where(C > 0, "yes", "no")},
        {"encode it as numbers": {"y": C}, "use a classifier": {"estimator": LogisticRegression(**TIGHT)}},
    ),
    Remedy(
        "The type of the target is multiclass. Fit one class against the rest.",
        lambda y: fl.PrivateRelease(LogisticRegression(), eta=1.0, over="max").fit(X, y),
        {"y": K},
        {"Fit one class against the rest": {"y": (K == 0) * 1}},
    ),
    Remedy(
        "chose its penalty on the data, and that choice is not counted: fit {plain}, which declares it public.",
        lambda model: fl.release(model, NOISE),
        {"model": fitted(RidgeCV(alphas=[1.0, 2.0]))},
        {"fit Ridge(alpha=": {"model": RIDGE}},
    ),
    Remedy(
        "FunctionTransformer with a function of its own cannot be released: what the function holds is not known.",
        lambda step: fl.release(fitted(step, Ridge()), NOISE),
        {"step": FunctionTransformer(lambda x: x**3)},
        {
            "Apply it to the table before": lambda: fl.release(fitted(Ridge(), X=X**3), NOISE),
            "use one of NumPy's": {"step": FunctionTransformer(np.cbrt)},
        },
    ),
    Remedy(
        "SimpleImputer(add_indicator=True) shows which columns had missing values",
        flagged,
        {"table": LACKING.where(np.arange(200)[:, None] > 80), "counted": False},
        {
            "fl.release(…, rows=(X, y))": {"counted": True},
            "add_indicator=False": None,
            "public='levels'": None,
        },
    ),
    Remedy(
        "{type(step).__name__} learned its categories from the data, and a rare category, named or pooled",
        coded,
        {"counted": False, "table": TABLE},
        {
            "Declare the categories with categories=… and leave min_frequency and max_categories out": {
                "categories": [["Bonn", "Kiel", "Ulm"]],
            },
            "public='levels'": None,
            "fl.release(…, rows=(X, y))": {"counted": True},
        },
    ),
    Remedy(
        "pools categories by how many rows have them (min_frequency={step.min_frequency}",
        coded,
        {"min_frequency": 10, "categories": [["Bonn", "Kiel", "Ulm"]], "table": TABLE, "counted": False},
        {
            "Leave min_frequency and max_categories out": {"min_frequency": None},
            "public='levels'": None,
            "fl.release(…, rows=(X, y))": {"counted": True},
        },
    ),
    Remedy(
        "y has a class that only {least} of the {fewest.who} have, and a released classifier would name it",
        coded,
        {"table": TABLE, "y": ILL, "last": LogisticRegression(**TIGHT)},
        {
            "leave these rows out": {"table": TABLE[4:], "y": EVEN[4:]},
            "public='levels'": None,
        },
    ),
    Remedy(
        "has a category that only {counts[rare[0]]} of the {few.who} have, and",
        coded,
        {},
        {
            "declare the categories with categories=… and leave min_frequency and max_categories out": {
                "min_frequency": None,
                "categories": [["Bonn", "Gera", "Kiel", "Ulm"]],
            },
            "min_frequency=69 and handle_unknown='infrequent_if_exist'": {
                "min_frequency": 69,
                "handle_unknown": "infrequent_if_exist",
            },
            "public='levels'": None,
        },
    ),
    Remedy(
        "has equal values of several types, True and 1 say, and {type(encoder).__name__} would",
        coded,
        {"table": TABLE.assign(city=pandas.Series([True, *([1, 2] * 100)[1:]], dtype=object))},
        {"Give all cells of the column one type": {"table": TABLE.assign(city=[1, 2] * 100)}},
    ),
    Remedy(
        "has rare categories that only {pooling} of the {few.who} have, and {type(encoder).__name__} has a feature for them.",
        coded,
        POOLED,
        {
            "declare the categories with categories=… and leave min_frequency and max_categories out": {
                "min_frequency": None,
                "categories": [["Bonn", "Gera", "Kiel", "Ulm"]],
            },
            "unite them with another category": {"table": ONE.replace("Gera", "Ulm")},
            "leave these rows out": {"table": ONE[1:], "y": TARGET[1:]},
            "public='levels'": None,
        },
    ),
    Remedy(
        "has an indicator of missing values, which would reveal single people:",
        flagged,
        {},
        {"add_indicator=False": None, "public='levels'": {"counted": False, "public": "levels"}},
    ),
    Remedy(
        "SimpleImputer of a mean or median before a model of several outputs cannot be folded in:",
        lambda strategy="mean", fill_value=None, **options: of_two(
            SimpleImputer(strategy=strategy, fill_value=fill_value), **options
        ),
        {},
        {
            "strategy='constant', fill_value=…": {"strategy": "constant", "fill_value": 0.0},
            "public='preprocessing'": None,
        },
    ),
    Remedy(
        "learned from the data, and what it learned cannot be folded into the model: use SimpleImputer with strategy",
        lambda step=None, **options: measured(
            fitted(step or KNNImputer(), Ridge(), X=GAPPED), GAPPED, **{"public": "nothing"} | options
        ),
        {},
        {"use SimpleImputer with strategy 'mean', 'median'": {"step": SimpleImputer()}}
        | {"or 'constant'": {"step": SimpleImputer(strategy="constant", fill_value=0.0)}},
    ),
    Remedy(
        "fills columns of text, and a filled category is nobody's: leave it out, since OneHotEncoder takes missing values",
        lambda *, imputers: measured(
            fitted(*imputers, OneHotEncoder(), Ridge(), X=WORDS, y=TARGET), WORDS, TARGET, public="nothing"
        ),
        {"imputers": [SimpleImputer(strategy="most_frequent")]},
        {"leave it out, since OneHotEncoder takes missing values as a category": {"imputers": []}},
    ),
    Remedy(
        "a filled value belongs to no row. Fill numbers by SimpleImputer with strategy 'mean', 'median' or 'constant'",
        lambda X, *steps: measured(fitted(*(steps or (KNNImputer(),)), Ridge(), X=X, y=Y[: len(X)]), X, Y[: len(X)]),
        {"X": GAPPED},
        {
            "Fill numbers by SimpleImputer": lambda: measured(fitted(SimpleImputer(), Ridge(), X=GAPPED), GAPPED),
            "drop these rows": {"X": GAPPED[1:10]},
            "fill them before and fit without an imputer": lambda: measured(RIDGE),
        },
    ),
    Remedy(
        "which holds text: a filled category is nobody's. Leave its imputer out, since OneHotEncoder takes missing values as a",
        of_texts,
        {},
        {
            "Leave its imputer out, since OneHotEncoder takes missing values": {"imputed": False},
            "or fill them before": {"cities": TABLE[["city"]], "imputed": False},
        },
    ),
    Remedy(
        "so they cannot be attributed to raw columns: drop columns without any value before.",
        lambda X: measured(fitted(SimpleImputer(), Ridge(), X=X), X),
        {"X": np.where(np.arange(3) == 1, np.nan, X)},
        {"drop columns without any value": {"X": X[:, [0, 2]]}},
    ),
    Remedy(
        "was not fitted on these rows: the {what} of {name} is",
        lambda X: measured(
            make_pipeline(step := MinMaxScaler().fit(2 * TABLE_OF_NUMBERS), Ridge().fit(step.transform(X), Y)),
            X,
            public="nothing",
        ),
        {"X": X},
        {"Pass the table it was fitted on": {"X": 2 * X}},
    ),
    Remedy(
        "the quantiles that it takes are equal. Use StandardScaler for this column",
        lambda scaler, **options: measured(make_pipeline(scaler, Ridge()).fit(FEW, Y), FEW, **options),
        {"scaler": RobustScaler(), "public": "nothing"},
        {"Use StandardScaler for this column": {"scaler": StandardScaler(), "public": "nothing"}},
    ),
    Remedy(
        "so the information about them is no single matrix",
        lambda ask=lambda leak: leak.fim(rows=[0]), public="nothing": ask(
            measured(make_pipeline(MinMaxScaler(), Ridge()).fit(FEW, Y), FEW, public=public)
        ),
        {},
        {"ask for etas": {"ask": lambda leak: (leak.per_cell(), leak.per_example(), leak.of([0, 1]))}},
    ),
]

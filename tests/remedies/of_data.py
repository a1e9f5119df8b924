"""Refusals of tables, labels and queries given in Python, with what they advise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import polars
import pytest
import scipy.sparse
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

import fisherleak as fl
from remedies.of_models import LEAK, LOGISTIC, NOISE, RIDGE, C, K, X, Y, fitted, measured
from remedies.table import Remedy
from rows.lazy import da

pytest.importorskip("torch")

import torch

FRAME = pandas.DataFrame(X, columns=["a", "b", "c"])
NAMED = fitted(Ridge(1.0), X=FRAME)
LATE = np.where(np.arange(60) == 7, np.nan, Y)
FEW = X[:3]
RIDGE_OF_TWO = fitted(Ridge(1.0), X=X[:, :2])
POLAR = polars.DataFrame(dict(zip("abc", X.T, strict=True)))
APART = (X[:, 0] > 0).astype(int)
LOST = np.where(C > 0, "yes", "no").astype(object)
LOST[7] = None


def minimised(X: Any = X, y: Any = Y, **options: Any) -> fl.Fit:
    return fl.minimise(X, y, **options)


def asked(X_query: Any, leak: Any = LEAK, of: str = "score", **options: Any) -> Any:
    given: dict[str, Any] = {"noise": fl.Gaussian(1.0), "eta": 1.0, "of": of} | options
    return fl.queries_until(leak, X_query, **given)


def chosen(columns: Any, rows: Any = FRAME, like: Any = FRAME) -> fl.Leakage:
    return measured(fitted(make_column_transformer(("passthrough", columns)), Ridge(1.0), X=like), rows)


def spread(X: Any, step: Any, **options: Any) -> fl.Leakage:
    """The pipeline that was fitted on X, measured on other rows."""
    return measured(fitted(step, Ridge(1.0)), X, **options)


def one_value(column: int = 0) -> Any:
    other = X.copy()
    other[:, column] = 4.0
    return other


GAPPED = np.where(np.arange(180).reshape(60, 3) % 31 == 0, np.nan, X)
FLAT = one_value()
KINDS = np.resize(np.array(["a", "b", "c"], dtype=object), (60, 1))

OF_DATA: list[Remedy] = [
    Remedy(
        "is a sparse {type(x).__name__}, which is not supported; pass {name}.toarray() if it fits.",
        lambda x: measured(RIDGE, x),
        {"x": scipy.sparse.csr_array(X)},
        {"X.toarray()": {"x": scipy.sparse.csr_array(X).toarray()}},
    ),
    Remedy(
        "is a masked array, which is not supported; drop the masked rows first.",
        minimised,
        {"X": np.ma.MaskedArray(X, np.arange(180).reshape(60, 3) == 4)},
        {"drop the masked rows": {"X": X[2:], "y": Y[2:]}},
    ),
    Remedy(
        "y must be a class in every row; ",
        minimised,
        {"y": LOST, "loss": "softmax", "l2": 0.1},
        {"Drop such rows first": {"X": np.delete(X, 7, 0), "y": np.delete(LOST, 7).astype(str)}},
    ),
    Remedy(
        "y mixes text and numbers; write all of its classes as text, or all as numbers.",
        minimised,
        {"y": np.where(C > 0, "a", np.arange(60) % 2).astype(object), "loss": "softmax", "l2": 0.1}
        | {"y": np.array(["a" if c else 1 for c in C], dtype=object)},
        {
            "write all of its classes as text": {"y": np.where(C > 0, "a", "1")},
            "or all as numbers": {"y": np.where(C > 0, 0, 1)},
        },
    ),
    Remedy(
        "The softmax loss needs classes, whole numbers or text; y has",
        minimised,
        {"loss": "softmax"},
        {"Encode y": {"y": K, "l2": 0.1}, "use another loss": {"loss": "squared"}},
    ),
    Remedy(
        "y must have one dimension; got shape {tuple(labels.shape)}. Use y.ravel().",
        minimised,
        {"y": C[:, None], "loss": "logistic"},
        {"y.ravel()": {"y": C[:, None].ravel()}},
    ),
    Remedy(
        "y holds text, which arrays of {type(X).__name__} do not: pass the codes of the classes, whole numbers.",
        minimised,
        {"X": torch.asarray(X), "y": np.where(K > 0, "yes", "no"), "loss": "softmax", "l2": 0.1},
        {"pass the codes of the classes": {"y": torch.asarray(K > 0) * 1}},
    ),
    Remedy(
        "has no row with a weight above zero: leave its rows out.",
        minimised,
        {"y": K, "loss": "softmax", "l2": 0.1, "sample_weight": (K > 0) + 0.0},
        {"leave its rows out": {"X": X[K > 0], "y": K[K > 0], "sample_weight": None}},
    ),
    Remedy(
        "y must be finite; row {row} is {value}. Drop or fill such rows first.",
        minimised,
        {"y": LATE},
        {"Drop": {"X": np.delete(X, 7, 0), "y": np.delete(Y, 7)}, "fill such rows": {"y": Y}},
    ),
    Remedy(
        "X must have two dimensions, (rows, columns); got {arrays['X'].ndim}. For one column use X[:, None].",
        minimised,
        {"X": X[:, 0]},
        {"X[:, None]": {"X": X[:, 0][:, None]}},
    ),
    Remedy(
        "{name} must have one dimension; got shape {tuple(x.shape)}. Use {name}.ravel().",
        minimised,
        {"sample_weight": np.ones((60, 1))},
        {"sample_weight.ravel()": {"sample_weight": np.ones((60, 1)).ravel()}},
    ),
    Remedy(
        "and its largest value is {LARGEST_PENALTY}: use a smaller penalty, or other units.",
        minimised,
        {"l2": 1e300},
        {"use a smaller penalty": {"l2": 1.0}},
    ),
    Remedy(
        "(all zero, constant beside an intercept, or without weight). Drop it, or add an l2 penalty.",
        minimised,
        {"X": FLAT, "intercept": True},
        {"Drop it": {"X": X[:, 1:]}, "add an l2 penalty": {"l2": 0.1}},
    ),
    Remedy(
        "so the minimiser is not unique. Add an l2 penalty, or use fewer columns.",
        minimised,
        {"X": FEW, "y": Y[:3], "intercept": True},
        {"Add an l2 penalty": {"l2": 0.1}, "use fewer columns": {"X": FEW[:, :1]}},
    ),
    Remedy(
        "loss has no finite minimiser: the classes are linearly separable. Add an l2 penalty.",
        minimised,
        {"y": APART, "loss": "logistic"},
        {"Add an l2 penalty": {"l2": 0.1}},
    ),
    Remedy(
        "(a group whose labels are all equal). Add an l2 penalty, or merge or drop the group.",
        minimised,
        {
            "X": np.column_stack([X[:, 0], np.arange(60) < 10]),
            "y": np.where(np.arange(60) < 10, 1, C),
            "loss": "logistic",
        },
        {
            "Add an l2 penalty": {"l2": 0.1},
            "merge": {"X": X[:, :1]},
            "drop the group": {"X": X[10:, :1], "y": C[10:]},
        },
    ),
    Remedy(
        "Leave out the intercept and add an l2 penalty, or choose another loss.",
        minimised,
        {"y": np.zeros(60), "loss": "poisson", "intercept": True, "l2": 0.1},
        {
            "Leave out the intercept": {"intercept": False, "y": np.zeros(60)},
            "choose another loss": {"loss": "squared"},
        },
    ),
    Remedy(
        "X has the column '{repeated[0]}' more than once. Rename or drop one.",
        lambda X: measured(RIDGE_OF_TWO if X.shape[1] == 2 else RIDGE, X),
        {"X": FRAME.set_axis(["a", "b", "a"], axis=1)},
        {"Rename": {"X": FRAME}, "drop one": {"X": FRAME[["a", "b"]]}},
    ),
    Remedy(
        "X is a lazy {type(X).__name__}; pass X.collect().",
        lambda X: measured(RIDGE, X),
        {"X": POLAR.lazy()},
        {"X.collect()": {"X": POLAR.lazy().collect()}},
    ),
    Remedy(
        "X has the columns of the model in another order. Use X[",
        measured,
        {"model": NAMED, "X": FRAME[["c", "b", "a"]]},
        {"Use X[['a', 'b', 'c']": {"X": FRAME[["c", "b", "a"]][["a", "b", "c"]]}},
    ),
    Remedy(
        "was fitted on {count} columns; X has {len(table.names)}. Pass the table it was fitted on.",
        spread,
        {"X": X[:, :2], "step": StandardScaler()},
        {"Pass the table it was fitted on": {"X": X}},
    ),
    Remedy(
        "X {what}. Pass the table that {type(model).__name__} was fitted on.",
        measured,
        {"model": NAMED, "X": FRAME.set_axis(["a", "b", "d"], axis=1)},
        {"Pass the table that Ridge was fitted on": {"X": FRAME}},
    ),
    Remedy(
        "{name} must be in memory; it is a Dask array. Pass {name}.compute().",
        asked,
        {"X_query": da.from_array(X)},
        {"X_query.compute()": {"X_query": da.from_array(X).compute()}},
    ),
    Remedy(
        "{name} must be finite behind the preprocessing; row {row} is not. Drop or fill it.",
        asked,
        {"X_query": GAPPED[:2]},
        {"Drop": {"X_query": GAPPED[1:2]}, "fill it": {"X_query": X[:2]}},
    ),
    Remedy(
        "{name} must have the columns of X, in their order. Use {name}[X.columns].",
        asked,
        {"X_query": FRAME[["c", "b", "a"]], "leak": fl.measure(fl.minimise(FRAME, Y, l2=0.1), FRAME, Y, NOISE)},
        {"X_query[X.columns]": {"X_query": FRAME[["c", "b", "a"]][FRAME.columns]}},
    ),
    Remedy(
        "X_query has no rows: pass the queries that are asked.",
        asked,
        {"X_query": X[:0]},
        {"pass the queries that are asked": {"X_query": X[:2]}},
    ),
    Remedy(
        "of X_query has missing values, and an imputer counted with public='nothing' would fill them.",
        lambda X_query, **options: asked(
            X_query,
            measured(fitted(SimpleImputer(), Ridge(1.0), X=GAPPED), GAPPED, public="nothing")
            if not options
            else measured(fitted(SimpleImputer(), Ridge(1.0), X=GAPPED), GAPPED, **options),
        ),
        {"X_query": GAPPED[:2]},
        {"public='preprocessing'": None, "Pass queries without missing values": {"X_query": X[:2]}},
    ),
    Remedy(
        "The model was fitted on {fit.n} rows and {fit.coef.shape[-1]} columns; got",
        measured,
        {"model": minimised(l2=0.1), "X": X[:50], "y": Y[:50]},
        {"Pass the training data": {"X": X, "y": Y}},
    ),
    Remedy(
        "outputs in y; got {data.y.shape[1]}. Pass the training data.",
        measured,
        {"model": minimised(y=np.column_stack([Y, -Y]), l2=0.1), "y": np.column_stack([Y, Y, Y])},
        {"Pass the training data": {"y": np.column_stack([Y, -Y])}},
    ),
    Remedy(
        "Pass arrays of one library, on one device.",
        measured,
        {"model": minimised(l2=0.1), "X": torch.asarray(X), "y": torch.asarray(Y)},
        {"Pass arrays of one library": {"X": X, "y": Y}},
    ),
    Remedy(
        "The model is not at a minimum on this X and y (relative distance",
        measured,
        {"model": minimised(l2=0.1), "y": -Y},
        {"Pass the rows, in the same order, that it was fitted on": {"y": Y}},
    ),
    Remedy(
        "that is none of the model's classes {classes.tolist()}: pass the y it was fitted on.",
        measured,
        {"model": LOGISTIC, "y": C + 1},
        {"pass the y it was fitted on": {"y": C}},
    ),
    Remedy(
        "The Hessian is singular at the model's parameters though not at the minimum",
        measured,
        {"model": LogisticRegression(C=np.inf).fit(1e3 * X, APART), "X": 1e3 * X, "y": C},
        {"Pass the rows, labels and weights it was fitted with": lambda: measured(LOGISTIC, y=C)},
    ),
    Remedy(
        "cannot transform X: {_why_not(str(error))}. Pass the table the model was fitted on.",
        lambda kinds: measured(fitted(OneHotEncoder(), Ridge(1.0), X=KINDS), kinds),
        {"kinds": np.where(KINDS == "a", "d", KINDS)},
        {"Pass the table the model was fitted on": {"kinds": KINDS}},
    ),
    Remedy(
        "by name, and X has no such column. Pass the table it was fitted on.",
        chosen,
        {"columns": ["a"], "rows": X},
        {"Pass the table it was fitted on": {"rows": FRAME}},
    ),
    Remedy(
        "has values outside the knots of SplineTransformer, which is not supported: use knots that cover it.",
        lambda knots: measured(fitted(SplineTransformer(knots=knots, extrapolation="constant"), Ridge(1.0), X=X)),
        {"knots": np.array([[-1.0] * 3, [0.0] * 3, [1.0] * 3])},
        {"use knots that cover it": {"knots": np.array([[-9.0] * 3, [0.0] * 3, [9.0] * 3])}},
    ),
    Remedy(
        "has no value at all, so SimpleImputer leaves it out: drop it.",
        lambda X: measured(fitted(SimpleImputer(), Ridge(1.0), X=X), X, public="nothing"),
        {"X": np.where(np.arange(3) == 1, np.nan, X)},
        {"drop it": {"X": X[:, [0, 2]]}},
    ),
    Remedy(
        "SimpleImputer was not fitted on these rows: the {fill.strategy} of",
        lambda X: measured(
            make_pipeline(
                SimpleImputer().fit(GAPPED + 1), Ridge(1.0).fit(SimpleImputer().fit(GAPPED + 1).transform(X), Y)
            ),
            X,
            public="nothing",
        ),
        {"X": GAPPED},
        {"Pass the table it was fitted on": {"X": GAPPED + 1}},
    ),
    Remedy(
        "so {type(step).__name__} cannot scale it: drop it.",
        lambda X: measured(fitted(StandardScaler(), Ridge(1.0), X=X), X, public="nothing"),
        {"X": FLAT},
        {"drop it": {"X": FLAT[:, 1:]}},
    ),
    Remedy(
        "was not fitted on these rows: the standard deviation of",
        lambda X: measured(
            make_pipeline(scaler := StandardScaler().fit(2 * FRAME.values), Ridge(1.0).fit(scaler.transform(X), Y)),
            X,
            public="nothing",
        ),
        {"X": X},
        {"Pass the table it was fitted on": {"X": 2 * X}},
    ),
    Remedy(
        "y must hold numbers for {type(estimator).__name__}; got dtype {y.dtype}. Encode it, or fit a classifier.",
        measured,
        {"model": RIDGE, "y": np.where(C > 0, "yes", "no")},
        {"Encode it": {"model": fitted(Ridge(1.0), y=C), "y": C}, "fit a classifier": {"model": LOGISTIC, "y": C}},
    ),
    Remedy(
        "rows is a Dask array and X is not: pass rows.compute().",
        LEAK.subset if hasattr(LEAK, "subset") else LEAK.of,
        {"rows": da.from_array(np.arange(5))},
        {"rows.compute()": {"rows": da.from_array(np.arange(5)).compute()}},
    ),
]

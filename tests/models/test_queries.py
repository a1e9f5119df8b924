"""Queries go the way of the rows: what answers reveal, against refits of whole pipelines on moved tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

import fisherleak as fl

Vector = NDArray[np.float64]
STEP = 1e-4


def table(n: int = 60, missing: bool = False) -> tuple[pandas.DataFrame, Vector]:
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame(
        {
            "age": rng.normal(50, 12, n),
            "weight": rng.gamma(4.0, 20.0, n),
            "kind": rng.choice(["a", "b", "c"], n),
        }
    )
    y = 0.03 * frame["age"].to_numpy() + 0.5 * (frame["kind"] == "b").to_numpy() + rng.normal(size=n)
    if missing:
        frame.loc[[4, 9, 30], "age"] = np.nan
    return frame, y


def pipeline(last: Any, *before: Any) -> Pipeline:
    numbers = make_pipeline(*before, StandardScaler())
    columns = [("n", numbers, ["age", "weight"]), ("k", OneHotEncoder(drop="first"), ["kind"])]
    return make_pipeline(ColumnTransformer(columns), last)


def asked(n: int = 7) -> pandas.DataFrame:
    return table(200)[0].iloc[-n:].reset_index(drop=True)


def by_refits(model: Any, frame: pandas.DataFrame, y: Any, queries: pandas.DataFrame, answer: Any) -> Vector:
    """d answers / d (age, weight) of row 2 through refits of the whole pipeline, (m, 2)."""
    columns = []
    for name in ("age", "weight"):
        sides = []
        for sign in (1.0, -1.0):
            there = frame.copy()
            there[name] = there[name].to_numpy() + sign * STEP * (np.arange(len(there)) == 2)
            sides.append(answer(model.fit(there, y), queries))
        columns.append((sides[0] - sides[1]) / (2 * STEP))
    model.fit(frame, y)
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("before", [(), (SimpleImputer(),)], ids=["scaled", "imputed and scaled"])
def test_end_to_end_answers_are_those_of_refitted_pipelines(before: Any) -> None:
    frame, y = table(missing=bool(before))
    model, queries = pipeline(Ridge(2.0), *before), asked()
    J = by_refits(model, frame, y, queries, lambda m, Q: m.predict(Q)) / 0.1
    leak = fl.measure(model, frame, y, fl.Answers(queries, fl.Gaussian(0.1)), public="nothing")
    np.testing.assert_allclose(leak.fim(rows=[2], attributes=["age", "weight"]), J.T @ J, rtol=1e-5)
    assert leak.per_cell()[2, 0] == pytest.approx(np.linalg.norm(J[:, 0]), rel=1e-5)
    fixed = fl.measure(model, frame, y, fl.Answers(queries, fl.Gaussian(0.1)))
    assert abs(fixed.per_cell()[2, 1] / leak.per_cell()[2, 1] - 1) > 1e-3, "the scaler counts"


def test_probabilities_end_to_end() -> None:
    frame, y = table()
    labels = (y > np.median(y)) * 1.0
    model = pipeline(LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000))
    queries = asked()
    J = by_refits(model, frame, labels, queries, lambda m, Q: m.predict_proba(Q)[:, 1]) / 0.05
    noise = fl.Answers(queries, fl.Gaussian(0.05), of="probability")
    leak = fl.measure(model, frame, labels, noise, public="nothing")
    np.testing.assert_allclose(leak.fim(rows=[2], attributes=["age", "weight"]), J.T @ J, rtol=1e-4)


def test_public_preprocessing_stays_as_it_was_fitted() -> None:
    frame, y = table()
    model, queries = pipeline(Ridge(2.0)).fit(frame, y), asked()
    features, of_queries = model[:-1].transform(frame), model[:-1].transform(queries)
    leak = fl.measure(model, frame, y, fl.Answers(queries, fl.Gaussian(0.1)))
    plain = fl.measure(model[-1], features, y, fl.Answers(of_queries, fl.Gaussian(0.1)))
    spread = np.sqrt(model[0].named_transformers_["n"][-1].var_)
    np.testing.assert_allclose(leak.per_cell()[:, :2], plain.per_cell()[:, :2] / spread, rtol=1e-8)


def test_curved_preprocessing_and_filled_queries() -> None:
    frame, y = table()
    queries = asked()[["age", "weight"]]
    model = make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False), Ridge(2.0))
    numbers = frame[["age", "weight"]]
    J = by_refits(model[1:], *_scaled(numbers, y, queries), lambda m, Q: m.predict(Q)) / 0.1
    scaled, _, of_queries = _scaled(numbers, y, queries)
    leak = fl.measure(model[1:].fit(scaled, y), scaled, y, fl.Answers(of_queries, fl.Gaussian(0.1)))
    np.testing.assert_allclose(leak.fim(rows=[2], attributes=["age", "weight"]), J.T @ J, rtol=1e-5)


def _scaled(frame: pandas.DataFrame, y: Vector, queries: pandas.DataFrame) -> tuple[Any, Vector, Any]:
    return (frame - 50) / 20, y, (queries - 50) / 20


def test_queries_with_gaps_are_filled_where_that_is_public_and_refused_where_it_is_counted() -> None:
    frame, y = table(missing=True)
    model, queries = pipeline(Ridge(2.0), SimpleImputer()).fit(frame, y), asked()
    queries.loc[0, "age"] = np.nan
    filled = queries.fillna({"age": frame["age"].mean()})
    one, two = (fl.measure(model, frame, y, fl.Answers(Q, fl.Gaussian(0.1))) for Q in (queries, filled))
    np.testing.assert_allclose(one.per_example(), two.per_example())
    with pytest.raises(fl.InvalidInputError, match="Column 'age' of X_query has missing values"):
        fl.measure(model, frame, y, fl.Answers(queries, fl.Gaussian(0.1)), public="nothing")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda Q: Q.drop(columns="kind"), "lacks column 'kind'"),
        (lambda Q: Q[["weight", "age", "kind"]], "another order"),
        (lambda Q: Q.assign(extra=1.0), "'extra'"),
    ],
)
def test_other_columns_are_refused(change: Any, reason: str) -> None:
    frame, y = table()
    with pytest.raises(fl.InvalidInputError, match=reason):
        fl.measure(pipeline(Ridge()).fit(frame, y), frame, y, fl.Answers(change(asked()), fl.Gaussian(1.0)))


def test_frames_of_a_fit_keep_their_columns() -> None:
    frame, y = table()
    numbers = frame[["age", "weight"]]
    fit = fl.minimise(numbers, y, l2=0.1, intercept=True)
    queries = asked()[["age", "weight"]]
    named = fl.measure(fit, numbers, y, fl.Answers(queries, fl.Gaussian(1.0))).per_example()
    bare = fl.measure(fit, numbers, y, fl.Answers(queries.to_numpy(), fl.Gaussian(1.0))).per_example()
    np.testing.assert_array_equal(named, bare)
    with pytest.raises(fl.InvalidInputError, match="in their order"):
        fl.measure(fit, numbers, y, fl.Answers(queries[["weight", "age"]], fl.Gaussian(1.0)))

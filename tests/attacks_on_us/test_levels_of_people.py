"""A level that one person has in many rows gives that person away: people are counted where it is known whose rows are whose."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl

PERSON = np.arange(400) // 8
BOUNDS = {"age": (-4, 4), "label": (-8, 8)}


@pytest.fixture(scope="module")
def table() -> tuple[pandas.DataFrame, Any]:
    """Fifty people with eight rows each; one of them has a diagnosis of their own, as often as five rows and more."""
    rng = np.random.default_rng(0)
    usual = np.where(np.arange(400) % 2, "u", "v")
    X = pandas.DataFrame({"age": rng.normal(size=400), "diagnosis": np.where(PERSON == 3, "rare", usual)})
    return X, X["age"] + rng.normal(size=400)


def pipeline(model: Any = None, **encoder: Any) -> Any:
    steps = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(**encoder), ["diagnosis"]))
    return make_pipeline(steps, Ridge(1.0) if model is None else model)


def released(X: Any, y: Any) -> Any:
    return fl.release(pipeline().fit(X, y), fl.Gaussian(0.1), rows=(X, y), person=PERSON)


def protected(X: Any, y: Any) -> Any:
    return fl.protect(pipeline(), X, y, eta=1.0, person=PERSON, rows_per_person=8, bounds=BOUNDS)


def private(X: Any, y: Any) -> Any:
    return fl.PrivateRelease(pipeline(), eta=1.0, rows_per_person=8, bounds=BOUNDS).fit(X, y, person=PERSON)


@pytest.mark.parametrize("leave", [released, protected, private])
def test_a_level_of_one_person_with_many_rows_does_not_leave(table: Any, leave: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(fl.UnsupportedModelError, match="has a category that only 1 of the people have"):
        leave(*table)


def test_it_is_pooled_with_others_as_advised(table: Any) -> None:
    X, y = table
    own = [f"rare{who}" for who in PERSON.tolist()]
    X = X.assign(diagnosis=X["diagnosis"].where(~np.isin(PERSON, [3, 5, 7, 11, 13]), own))
    with pytest.raises(fl.UnsupportedModelError) as refused:
        released(X, y)
    advised = re.search(r"min_frequency=(\d+) and handle_unknown='(\w+)'", str(refused.value))
    assert advised is not None
    model = pipeline(min_frequency=int(advised[1]), handle_unknown=advised[2]).fit(X, y)
    left = fl.release(model, fl.Gaussian(0.1), rows=(X, y), person=PERSON)
    assert "rare3" not in str(left[0].transformers_[1][1].categories_)


def test_a_pool_of_one_person_tells_of_them(table: Any) -> None:
    X, y = table
    model = pipeline(min_frequency=9, handle_unknown="infrequent_if_exist").fit(X, y)
    with pytest.raises(fl.UnsupportedModelError, match="has rare categories that only 1 of the people have"):
        fl.release(model, fl.Gaussian(0.1), rows=(X, y), person=PERSON)


def test_a_class_of_one_person(table: Any) -> None:
    X, _ = table
    X = X.assign(diagnosis="u")
    label = np.where(PERSON == 3, "c", np.where(np.arange(400) % 2, "a", "b"))
    model = pipeline(LogisticRegression()).fit(X, label)
    with pytest.raises(fl.UnsupportedModelError, match="y has a class that only 1 of the people have"):
        fl.release(model, fl.Gaussian(0.1), rows=(X, label), person=PERSON)


def test_an_indicator_of_one_persons_gaps(table: Any) -> None:
    X, y = table
    X = pandas.DataFrame({"age": X["age"].mask(PERSON == 3), "weight": np.asarray(y) * 0.1})
    model = make_pipeline(SimpleImputer(add_indicator=True), Ridge(1.0)).fit(X, y)
    fl.release(model, fl.Gaussian(0.1), rows=(X, y), random_state=None)
    with pytest.raises(fl.UnsupportedModelError, match="1 of the people have no value, 49 have one"):
        fl.release(model, fl.Gaussian(0.1), rows=(X, y), person=PERSON)


def test_the_gate_counts_people(table: Any) -> None:
    X, y = table
    policy = {"columns": {"age": {"max_revealed": 0.9}}, "require": {"person": "who", "public": "preprocessing"}}
    person = pandas.Series(PERSON, name="who")
    with pytest.raises(fl.UnsupportedModelError, match="has a category that only 1 of the people have"):
        fl.audit(pipeline().fit(X, y), X, y, 0.5, person=person, policy=policy, attacks=False)


def test_whose_rows_needs_the_rows(table: Any) -> None:
    X, y = table
    with pytest.raises(fl.InvalidInputError, match=r"pass rows=\(X, y\) too"):
        fl.release(Ridge(1.0).fit(X[["age"]], y), fl.Gaussian(0.1), person=PERSON)

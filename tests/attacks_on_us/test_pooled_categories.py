"""Encoders that pool categories: one row decided which, however the categories were given, and so how many coefficients leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

import fisherleak as fl

RNG = np.random.default_rng(0)
TOWN = np.repeat(["x", "y", "z", "w"], [60, 55, 15, 10])
RNG.shuffle(TOWN)
X = pandas.DataFrame({"age": RNG.normal(50, 10, 140).round(1), "town": TOWN})
Y = pandas.Series(50 + 0.3 * X.age + 2 * (TOWN == "x") + RNG.normal(0, 3, 140), name="y")
ROW = int(np.flatnonzero(TOWN == "z")[0])
"""One of the fifteen with the town z."""
DECLARED = [["x", "y", "z", "w"]]
BOUNDS = {"age": (0, 100), "label": (0, 150)}
REFUSED = "one row or person decides whether a category is rare"


def pipeline(kind: Callable[..., Any] = OneHotEncoder, **options: Any) -> Any:
    encoder = kind(**{"categories": DECLARED} | options)
    return make_pipeline(ColumnTransformer([("p", "passthrough", ["age"]), ("c", encoder, ["town"])]), Ridge(1.0))


def gate(model: Any, X: Any, y: Any, public: str = "nothing") -> Any:
    policy: dict[str, Any] = {"membership": {"max_right": 0.6}}
    if public != "nothing":
        policy["require"] = {"public": public}
    return fl.audit(model.fit(X, y), X, y, noise=fl.Gaussian(20.0), policy=policy, public=public, attacks=False)


def released(model: Any, X: Any, y: Any) -> Any:
    return fl.release(model.fit(X, y), fl.Gaussian(20.0), rows=(X, y))


def private(model: Any, X: Any, y: Any) -> Any:
    return fl.PrivateRelease(model, eta=1.0, bounds=BOUNDS).fit(X, y)


def protected(model: Any, X: Any, y: Any) -> Any:
    return fl.protect(model, X, y, eta=1.0, bounds=BOUNDS)


POOLS: dict[str, Any] = {
    "a count": {"min_frequency": 15},
    "a share": {"min_frequency": 15 / 140, "drop": "first"},
    "a count, unknown ones pooled too": {"min_frequency": 15, "handle_unknown": "infrequent_if_exist"},
    "codes": {"min_frequency": 15, "kind": OrdinalEncoder},
    "a category that no row has": {"min_frequency": 1, "categories": [[*DECLARED[0], "v"]]},
}


@pytest.mark.parametrize("public", ["nothing", "preprocessing"])
@pytest.mark.parametrize("options", POOLS.values(), ids=POOLS)
def test_the_gate_refuses_a_pool_of_declared_categories_that_one_row_decides(options: Any, public: str) -> None:
    with pytest.raises(fl.UnsupportedModelError, match=REFUSED):
        gate(pipeline(**options), X, Y, public)


@pytest.mark.parametrize("leave", [released, private, protected])
@pytest.mark.parametrize("options", [POOLS["a count"], POOLS["codes"], {"min_frequency": 15, "categories": "auto"}])
def test_so_do_releases(leave: Callable[..., Any], options: Any) -> None:
    for rows in (X.index, X.index.drop([ROW])):
        with pytest.raises(fl.UnsupportedModelError, match=REFUSED):
            leave(pipeline(**options), X.loc[rows], Y.loc[rows])


def test_a_number_of_categories_that_one_row_decides() -> None:
    even = X.assign(town=np.where(np.arange(140) < 10, "w", np.where(np.arange(140) < 20, "z", "x")))
    for leave in (gate, released, private):
        with pytest.raises(fl.UnsupportedModelError, match=REFUSED):
            leave(pipeline(max_categories=3), even, Y)
    assert gate(pipeline(max_categories=3), X, Y).passed


def test_a_person_of_several_rows_decides() -> None:
    who = np.arange(140)
    who[np.flatnonzero(TOWN == "z")[:4]] = who[ROW]
    model = pipeline(min_frequency=12).fit(X, Y)
    fl.release(model, fl.Gaussian(20.0), rows=(X, Y))
    with pytest.raises(fl.UnsupportedModelError, match=REFUSED):
        fl.release(model, fl.Gaussian(20.0), rows=(X, Y), person=who)


@pytest.mark.parametrize(
    "options", [{"min_frequency": 12}, {"min_frequency": 25}, {"min_frequency": 25, "drop": "first"}]
)
@pytest.mark.parametrize("leave", [gate, released, private])
def test_pools_that_no_row_decides_are_taken(leave: Callable[..., Any], options: Any) -> None:
    leave(pipeline(**options), X, Y)


def test_a_release_that_sees_no_rows_takes_no_pool() -> None:
    model = pipeline(min_frequency=25).fit(X, Y)
    with pytest.raises(fl.UnsupportedModelError, match="pools categories by how many rows have them"):
        fl.release(model, fl.Gaussian(20.0))
    audit = fl.audit(model, X, Y, noise=fl.Gaussian(20.0), public="nothing", attacks=False)
    assert "rows=(X, y)" in str(audit.summary.next.command)


def test_what_is_advised_for_rare_categories_is_decided_by_no_row() -> None:
    rare = X.assign(town=np.where(np.arange(140) < 3, "v", TOWN))
    with pytest.raises(fl.UnsupportedModelError, match="would release its name") as refused:
        released(pipeline(categories="auto"), rare, Y)
    said = str(refused.value)
    advised = int(said.split("min_frequency=")[1].split(" ")[0])
    pooled: dict[str, Any] = {"min_frequency": advised, "handle_unknown": "infrequent_if_exist", "categories": "auto"}
    assert gate(pipeline(**pooled), rare, Y).passed
    released(pipeline(**pooled), rare, Y)

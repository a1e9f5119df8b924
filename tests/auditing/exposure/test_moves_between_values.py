"""Values of yes and no, categories and classes of a model from Python, told apart as the audit tells them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl
from fisherleak.report import render
from report.records import summary_of_leakage

pandas = pytest.importorskip("pandas")
NOISE = fl.Gaussian(0.3)


@pytest.fixture(scope="module")
def table() -> Any:
    rng = np.random.default_rng(5)
    city = np.where(np.isin(np.arange(150), [11, 120]), "C", rng.choice(["A", "B"], 150))
    return pandas.DataFrame({"age": rng.normal(50, 12, 150), "smokes": rng.integers(0, 2, 150), "city": city})


def fitted(last: Any, table: Any, y: Any) -> Any:
    numbers, words = (StandardScaler(), ["age", "smokes"]), (OneHotEncoder(drop="first"), ["city"])
    return make_pipeline(make_column_transformer(numbers, words), last).fit(table, y)


def told(leak: fl.Leakage) -> dict[str, Any]:
    return {apart["attribute"]: apart for apart in summary_of_leakage(leak)["distinguishable"]}


def by_white_box(model: Any, table: Any, y: Any, attribute: str) -> float:
    """How often the best test is right about the row of which it knows most."""
    attack = fl.attacks.WhiteBox(model, table, y, attribute)
    mu = np.max([np.linalg.norm(each.values, axis=1) for each in attack.moves], axis=0) / NOISE.scale
    return float(norm.cdf(mu.max() / 2))


def labels(table: Any, seed: int = 6) -> Any:
    return (
        0.1 * table["age"].to_numpy() + table["smokes"].to_numpy() + np.random.default_rng(seed).normal(size=len(table))
    )


def test_yes_and_no_and_categories_are_told_as_by_an_attacker(table: Any) -> None:
    y = labels(table)
    model = fitted(Ridge(1.0), table, y)
    leak = fl.measure(model, table, y, NOISE)
    found = told(leak)
    assert set(found) == {"smokes", "city"}  # and not the age, nor a label that is a number
    for name in found:
        assert found[name]["worst"] == pytest.approx(by_white_box(model, table, y, name), rel=1e-6)
    page = render(summary_of_leakage(leak))
    assert re.search(r"[Tt]he most exposed category is city|two values of city", page)


def test_the_move_is_that_of_a_refit(table: Any) -> None:
    y = labels(table)
    model = fitted(Ridge(1.0), table, y)
    leak = fl.measure(model, table, y, NOISE)
    scaler = model[0].named_transformers_["standardscaler"]
    row = int(leak.per_cell()[:, 1].argmax())
    features = np.asarray(model[0].transform(table))
    changed = features.copy()
    changed[row, 1] = (1 - table["smokes"][row] - scaler.mean_[1]) / scaler.scale_[1]
    one, two = (Ridge(1.0).fit(X, y) for X in (features, changed))
    move = np.hypot(np.linalg.norm(one.coef_ - two.coef_), one.intercept_ - two.intercept_)
    assert told(leak)["smokes"]["worst"] >= norm.cdf(move / NOISE.scale / 2) * (1 - 1e-9)


def test_classes_are_told_too(table: Any) -> None:
    y = np.where(labels(table) > 5.5, "ill", "well")
    model = fitted(LogisticRegression(C=1.0, tol=1e-10), table, y)
    leak = fl.measure(model, table, y, NOISE)
    found = told(leak)
    assert set(found) == {"smokes", "city", "the label"}
    assert found["the label"]["worst"] == pytest.approx(by_white_box(model, table, y, "label"), rel=1e-4)
    assert "the target, the label," in render(summary_of_leakage(leak))


@pytest.mark.parametrize("options", [{"noise": fl.Laplace(0.3)}, {"noise": NOISE, "public": "nothing"}])
def test_nothing_is_said_where_it_would_not_be_exact(table: Any, options: dict[str, Any]) -> None:
    y = labels(table)
    assert told(fl.measure(fitted(Ridge(1.0), table, y), table, y, **options)) == {}

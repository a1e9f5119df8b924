"""The learner: never from the row it guesses, and from all others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import fisherleak as fl
from attacks.clinic import DOSE, TABLE, people, pipeline
from fisherleak.attacks import population_attacker


def test_ideal_never_trains_on_the_row_it_guesses() -> None:
    """Noise has nothing to learn: a learner scored on its own rows would find it all the same."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"coin": rng.choice(["head", "tail"], size=400), "x": rng.normal(size=400)})
    y = rng.normal(size=400)
    steps = [("coin", OneHotEncoder(drop="first"), ["coin"]), ("x", "passthrough", ["x"])]
    model = make_pipeline(ColumnTransformer(steps, sparse_threshold=0), Ridge()).fit(table, y)
    assert fl.attacks.Ideal(model, table, y, "coin").against().accuracy < 0.62


@pytest.mark.long
def test_columns_are_chosen_without_the_row_that_is_guessed() -> None:
    """Of many columns of noise some seem to tell the coin, among the rows that chose them only; one that does is found."""
    rng = np.random.default_rng(0)
    X, coin = rng.normal(size=(200, population_attacker.MOST_SPLIT + 200)), rng.integers(0, 2, 200).astype(float)
    y = rng.normal(size=200)
    for signal, least, most in ((0.0, 0.3, 0.62), (3.0, 0.9, 1.0)):
        table = np.column_stack([coin, X])
        table[:, -1] += signal * coin
        model = Ridge().fit(table, y)
        said = fl.attacks.Ideal(model, table, y, 0).learned
        trees = np.mean(np.argmax(said.judged[0], axis=1) == said.truth)
        assert least <= trees <= most


def test_ideal_learns_from_everyone_and_not_worse_than_the_black_box() -> None:
    table, y = people(600)
    model = pipeline(Ridge(alpha=0.5)).fit(table, y)
    everyone = fl.attacks.Ideal(model, table, y, "gene")
    few = fl.attacks.Ideal(model, table, y, "gene", rows=np.arange(20))
    assert (few.infer() == everyone.infer()[:20]).all()
    black_box = fl.attacks.BlackBox(model, table, y, "gene")
    assert everyone.against().accuracy >= black_box.against().accuracy - 0.03


def test_a_value_that_one_row_has_is_no_error() -> None:
    """A fold without that row knows one value only, and says it."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"b": ["n"] * 19 + ["y"], "x": rng.normal(size=20)})
    y = rng.normal(size=20)
    steps = [("b", OneHotEncoder(drop="first"), ["b"]), ("x", "passthrough", ["x"])]
    model = make_pipeline(ColumnTransformer(steps, sparse_threshold=0), Ridge()).fit(table, y)
    assert fl.attacks.Ideal(model, table, y, "b").against().accuracy >= 0.9


def test_of_many_rows_others_are_learned_from_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As good as folds, and still without the rows that are guessed."""
    table, y = people(1_500)
    model = pipeline(Ridge(alpha=0.5)).fit(table, y)
    rows = np.arange(0, 1_500, 6)
    folds = fl.attacks.Ideal(model, table, y, "gene", rows=rows).against().accuracy
    monkeypatch.setattr(population_attacker, "MOST_FOLDED", 1_000)
    assert abs(fl.attacks.Ideal(model, table, y, "gene", rows=rows).against().accuracy - folds) < 0.08
    coin = table.assign(gene=np.random.default_rng(1).permutation(table["gene"].to_numpy()))
    lost = fl.attacks.Ideal(pipeline(Ridge(alpha=0.5)).fit(coin, y), coin, y, "gene", rows=rows).against()
    assert lost.accuracy < lost.baseline + 0.1


def test_a_label_is_learned_from_the_columns_alone() -> None:
    table, y = people(300)
    classes = np.digitize(y, np.quantile(y, [0.33, 0.7]))
    model = pipeline(RidgeClassifier()).fit(table, classes)
    attack = fl.attacks.Ideal(model, table, classes, "label")
    features, numeric = population_attacker._others(attack.target)
    assert features.shape == (300, 3)
    assert len(numeric) == 3
    found = attack.against()
    assert found.baseline < found.accuracy < 0.9
    both = np.column_stack([y, table.age])
    several = fl.attacks.Ideal(pipeline(Ridge()).fit(table, both), table, both, ("label", 1), values=[40.0, 60.0])
    np.testing.assert_array_equal(population_attacker._others(several.target)[0][:, -1], y)


def test_missing_values_of_other_columns_are_filled_and_said() -> None:
    """No learner is left out; that a value is missing may itself say something."""
    rng = np.random.default_rng(3)
    there = rng.integers(0, 2, 200)
    table = pd.DataFrame({"kind": np.where(there, "a", "b"), "dose": np.where(there, rng.normal(size=200), np.nan)})
    y = rng.normal(size=200)
    steps = [("dose", SimpleImputer(), ["dose"]), ("kind", OneHotEncoder(drop="first"), ["kind"])]
    model = make_pipeline(ColumnTransformer(steps, sparse_threshold=0), Ridge()).fit(table, y)
    attack = fl.attacks.Ideal(model, table, y, "kind")
    assert attack.accuracy(fl.Gaussian(1.0)).mean() > 0.95


def test_a_prior_is_matched_by_value() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    counts = TABLE["gene"].value_counts(normalize=True)  # the most frequent first, unlike the candidates
    by_series = fl.attacks.Prior(model, TABLE, DOSE, "gene", prior=counts)
    np.testing.assert_allclose(by_series.prior, fl.attacks.Prior(model, TABLE, DOSE, "gene").prior)
    huge = fl.attacks.Prior(model, TABLE, DOSE, "gene", prior=[1e308] * 3)
    np.testing.assert_allclose(huge.prior, 1 / 3)

"""Training data are checked once, and refused in the same words wherever they come in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from fisherleak.engine.fit import training_data
from fisherleak.engine.magnitudes import extremes
from fisherleak.models import as_table, read

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
NUMBERS, CLASSES, PAIRS = X @ [1.0, -1.0, 0.5] + RNG.normal(size=60), RNG.integers(0, 3, 60), RNG.normal(size=(60, 2))
WEIGHTS = np.where(np.arange(60) == 7, 0.0, 1.0)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many columns each look at the values of rows has seen."""
    found: list[int] = []

    def counted(X: Any, y: Any, weights: Any) -> Any:
        found.append(X.shape[1])
        return extremes(X, y, weights)

    monkeypatch.setattr(training_data, "extremes", counted)
    return found


@pytest.mark.parametrize("last", [Ridge(), LogisticRegression()], ids=["ridge", "logistic"])
def test_a_model_and_its_table_are_looked_at_once(last: Any, looks: list[int]) -> None:
    y = NUMBERS if isinstance(last, Ridge) else (NUMBERS > 0) * 1
    fl.measure(make_pipeline(StandardScaler(), last).fit(X, y), X, y).per_example()
    assert looks == [3]


def test_the_columns_of_a_fit_are_looked_at_where_it_was_fitted(looks: list[int]) -> None:
    fit = fl.minimise(X, NUMBERS)
    assert looks == [3]
    fl.measure(fit, X, NUMBERS).per_example()
    assert looks == [3, 1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e31, 1e200])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "without weight"])
@pytest.mark.parametrize(("loss", "y"), [("squared", NUMBERS), ("softmax", CLASSES), ("squared", PAIRS)])
def test_other_values_are_refused_in_the_same_words(loss: str, y: Any, weights: Any, bad: float) -> None:
    fit = fl.minimise(X, y, loss, 0.1, weights, intercept=True)
    other = X.copy()
    other[7, 2] = bad
    with pytest.raises(fl.InvalidInputError) as fitted:
        fl.minimise(other, y, loss, 0.1, weights, intercept=True)
    with pytest.raises(fl.InvalidInputError) as measured:
        fl.measure(fit, other, y, sample_weight=weights)
    assert str(measured.value) == str(fitted.value)


@pytest.mark.parametrize(("loss", "y"), [("squared", NUMBERS), ("softmax", CLASSES), ("squared", PAIRS)])
def test_a_reading_holds_what_the_fit_was_made_of(loss: str, y: Any) -> None:
    fit = fl.minimise(X, y, loss, 0.1, WEIGHTS, intercept=True)
    reading = read(fit, as_table(X), y, None, None)
    assert reading.fit is fit
    assert reading.data.weights is fit.sample_weight
    np.testing.assert_array_equal(reading.data.X, X)
    np.testing.assert_array_equal(reading.data.y, y)
    assert (reading.data.classes is None) == (loss != "softmax")
    np.testing.assert_allclose(
        reading.information(fl.Gaussian(1.0)).example_norms(reading.attributes, True),
        fl.measure(fit, X, y).per_example(),
        rtol=1e-12,
    )

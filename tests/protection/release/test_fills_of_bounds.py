"""Imputers that learn: public centres in their place where a limit is on any record, and clipped values elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl
from fisherleak.models.steps import imputers
from fisherleak.models.steps.imputers import CentreImputer
from fisherleak.protection.release.model_bounds import with_public_fills
from fisherleak.tables.design import gaps

RNG = np.random.default_rng(9)
N = 400
X = pd.DataFrame(
    {"age": RNG.integers(20, 80, N), "crp": RNG.gamma(2.0, 6.0, N).clip(0, 90), "sex": RNG.choice(["f", "m"], N)}
)
Y = pd.Series((0.03 * X.age + 0.05 * X.crp + RNG.normal(size=N)).clip(-5, 15), name="score")
X.loc[RNG.random(N) < 0.2, "crp"] = np.nan
BOUNDS: Any = {"age": (18, 100), "crp": (0, 90), "label": (-5, 15)}
COLUMNS: Any = {
    "names": ["age", "crp"],
    "places": [0, 1],
    "slice": slice(0, 2),
    "mask": [True, True, False],
    "selector": make_column_selector(dtype_include="number"),
}


def declared(**options: Any) -> Any:
    """With levels that are declared."""
    numbers, levels = make_pipeline(SimpleImputer(**options), StandardScaler()), OneHotEncoder(categories=[["f", "m"]])
    return make_pipeline(make_column_transformer((numbers, ["age", "crp"]), (levels, ["sex"])), Ridge())


def piped(columns: Any = ("age", "crp"), **options: Any) -> Any:
    numbers = make_pipeline(SimpleImputer(**options), StandardScaler())
    chosen = list(columns) if isinstance(columns, tuple) else columns
    return make_pipeline(make_column_transformer((numbers, chosen), (OneHotEncoder(drop="first"), ["sex"])), Ridge())


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("strategy", ["mean", "median"])
def test_what_is_learned_becomes_the_centre_of_the_bounds(strategy: str, columns: str) -> None:
    made = with_public_fills(piped(COLUMNS[columns], strategy=strategy), X, BOUNDS)
    imputer = made.steps[0][1].transformers[0][1].steps[0][1]
    assert isinstance(imputer, CentreImputer)
    assert imputer.centres == [59.0, 45.0]
    features = made[:-1].fit_transform(X)
    assert features.shape[1] == 4  # an indicator for crp, which many lack, and none for age
    constant = piped(strategy="constant", fill_value=3)
    assert with_public_fills(constant, X, BOUNDS) is constant


def test_an_indicator_stands_where_that_of_a_table_does() -> None:
    assert (imputers.FEWEST, imputers.SHARE) == (gaps.FEWEST, gaps.SHARE)
    for count in (4, 5, 19, 20, 395, 396):
        values = np.arange(400.0)[:, None].copy()
        values[:count] = np.nan
        found = CentreImputer([7.0]).fit(values).transform(values)
        assert (found.shape[1] == 2) == gaps.has_feature(gaps.Gaps.of(np.isnan(values)))
        assert (found[:count, 0] == 7.0).all()


@pytest.mark.parametrize("options", [{"strategy": "mean"}, {"strategy": "median", "add_indicator": True}])
def test_a_release_for_any_record_fills_public_centres(options: dict[str, Any], recwarn: Any) -> None:
    made = fl.PrivateRelease(piped(**options), eta=5.0, bounds=BOUNDS).fit(X, Y)
    assert made.filled_ == {"age": 59.0, "crp": 45.0}
    released = made.estimator_.steps[0][1].transformers_[0][1].steps[0][1]
    assert type(released) is SimpleImputer
    np.testing.assert_array_equal(released.statistics_, [59.0, 45.0])
    assert released.indicator_.features_.tolist() == [1]
    gone = X.assign(age=np.nan)  # gaps that no row had
    assert np.isfinite(made.predict(gone)).all()
    assert not [each for each in recwarn if issubclass(each.category, UserWarning)]


@pytest.mark.long
def test_protected_and_protect_do_the_same() -> None:
    model = fl.Protected(piped(), eta=5.0, bounds=BOUNDS).fit(X, Y).estimator_
    imputer = model.steps[0][1].transformers_[0][1].steps[0][1]
    np.testing.assert_array_equal(imputer.statistics_, [59.0, 45.0])
    frontier = fl.protect(piped(), X, Y, 5.0, bounds=BOUNDS, shapes=["hessian"], held_out=0)
    assert frontier.filled == {"age": 59.0, "crp": 45.0}
    assert "centre of the bounds" in frontier._repr_html_()


def test_bounds_that_are_not_declared_are_asked_for_by_name() -> None:
    some = {name: BOUNDS[name] for name in ("age", "label")}
    with pytest.raises(fl.InvalidInputError, match=r"gaps of column 'crp' with.*declare bounds=\{'crp': \(low, high\)"):
        fl.PrivateRelease(piped(), eta=5.0, bounds=some).fit(X, Y)
    assert fl.PrivateRelease(piped(), eta=5.0, bounds=some | {"crp": (0, 90)}).fit(X, Y).filled_["crp"] == 45.0


@pytest.mark.parametrize("bounds", [None, {}])
@pytest.mark.parametrize("shapes", [["hessian"], ["isotropic"]])
def test_bounds_left_out_are_asked_for_as_empty_ones_are(shapes: list[str], bounds: Any) -> None:
    with pytest.raises(fl.InvalidInputError, match=r"gaps of column 'age' with.*declare bounds=\{'age': \(low, high\)"):
        fl.protect(piped(), X, Y, 5.0, bounds=bounds, shapes=shapes)
    with pytest.raises(fl.InvalidInputError, match=r"gaps of column 'age' with"):
        fl.PrivateRelease(piped(), eta=5.0, bounds=bounds).fit(X, Y)


@pytest.mark.parametrize("bounds", [None, BOUNDS])
def test_an_imputer_behind_another_step_is_refused_by_name(bounds: Any) -> None:
    model = make_pipeline(make_column_transformer(("passthrough", ["age", "crp"])), SimpleImputer(), Ridge())
    with pytest.raises(fl.InvalidInputError, match="no bound for a mean or median that an imputer learned"):
        fl.protect(model, X, Y, 5.0, bounds=bounds)


@pytest.mark.parametrize("shape", ["hessian", "least-loss"])
def test_a_shape_of_the_parameters_alone_is_refused_where_fills_are_released(shape: str) -> None:
    with pytest.raises(fl.InvalidInputError, match="shape must be 'isotropic' where an imputer learned"):
        fl.protect(piped(), X, Y, 5.0, over="max", shapes=[shape])
    leak = fl.measure(piped().fit(X, Y), X, Y, public="nothing")
    for given in (shape, leak, np.eye(5), np.eye(7)):
        with pytest.raises(fl.InvalidInputError, match="shape must be 'isotropic' where an imputer learned"):
            fl.calibrate(leak, 1.0, shape=given)


@pytest.mark.filterwarnings("ignore::fisherleak.SeededReleaseWarning")
def test_what_a_release_fills_in_is_clipped_to_declared_bounds() -> None:
    model, noise = piped(strategy="median").fit(X, Y), fl.Gaussian(3.0)
    outside = 0
    for seed in range(8):
        drawn: dict[str, Any] = {"random_state": seed, "rows": (X, Y)}
        loose, kept = fl.release(model, noise, **drawn), fl.release(model, noise, bounds=BOUNDS, **drawn)
        before, after = (m.steps[0][1].transformers_[0][1].steps[0][1].statistics_ for m in (loose, kept))
        np.testing.assert_array_equal(after, np.clip(before, [18, 0], [100, 90]))
        np.testing.assert_array_equal(loose[-1].coef_, kept[-1].coef_)
        outside += int((before != after).any())
    assert outside > 2
    with pytest.raises(fl.InvalidInputError, match="bounds of 'crp' must be two numbers"):
        fl.release(model, noise, rows=(X, Y), bounds={"crp": 3})
    with pytest.raises(fl.InvalidInputError, match=r"bounds name 'crpp', which is no column\. Did you mean 'crp'"):
        fl.release(model, noise, rows=(X, Y), bounds={"crpp": (0, 90)})


def test_gaps_that_no_step_fills_are_refused_before_anything_is_fitted() -> None:
    gaps = X[["age", "crp"]].mask(np.arange(N)[:, None] % 9 == [3, 4])
    with pytest.raises(fl.InvalidInputError, match="drop these rows, or fill them with a SimpleImputer in a Pipeline"):
        fl.protect(make_pipeline(StandardScaler(), Ridge()), gaps, Y, eta=5.0, bounds=BOUNDS)


@pytest.mark.parametrize("strategy", ["mean", "constant"])
def test_remedies_of_indicators_work(strategy: str) -> None:
    model = piped(strategy=strategy, add_indicator=True).fit(X, Y)
    says = r"shows which columns had missing values.*rows=\(X, y\)\), to have them counted, use add_indicator=False"
    with pytest.raises(fl.UnsupportedModelError, match=says):
        fl.release(declared(strategy=strategy, add_indicator=True).fit(X, Y), fl.Gaussian(0.1))
    for released in (
        fl.release(model, fl.Gaussian(0.1), rows=(X, Y)),
        fl.release(model, fl.Gaussian(0.1), public="levels"),
        fl.release(declared(strategy=strategy).fit(X, Y), fl.Gaussian(0.1)),
    ):
        assert np.isfinite(released.predict(X)).all()
    few = X.copy()
    few.loc[3, "age"] = np.nan
    lone = piped(strategy=strategy, add_indicator=True).fit(few, Y)
    with pytest.raises(fl.UnsupportedModelError, match=r"'age' has an indicator.*1 of the rows have no value"):
        fl.release(lone, fl.Gaussian(0.1), rows=(few, Y))


def test_a_released_indicator_holds_nothing_but_its_columns() -> None:
    model = piped(add_indicator=True).fit(X, Y)
    quiet = fl.release(model, fl.Gaussian(1e-9), rows=(X, Y))
    np.testing.assert_allclose(quiet.predict(X), model.predict(X), atol=1e-4)
    indicator = quiet.steps[0][1].transformers_[0][1].steps[0][1].indicator_
    assert indicator.features_.tolist() == [1]
    assert vars(indicator).keys() == vars(MissingIndicator()).keys() | {
        "_precomputed",
        "_n_features",
        "n_features_in_",
        "features_",
    }

"""The frontier: every candidate keeps its limit, the best is the least, and what is not counted is said."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from cases import make
from fisherleak.protection.frontier.protected import split_of
from often import often

pytestmark = pytest.mark.usefixtures("quick_audits")
CASE = make("squared", 1, n=400, intercept=True)
X, Y = np.clip(CASE.X, -3, 3), np.clip(CASE.y, -4, 4)
BOUNDS: Any = {f"x{j}": (-3.0, 3.0) for j in range(3)} | {"label": (-4.0, 4.0)}
ONE: Any = {"penalties": [1.0], "weightings": ["none"]}


@pytest.fixture(scope="module")
def frontier() -> fl.Frontier:
    return fl.protect(Ridge(1.0), X, Y, eta=2.0, over="max", penalties=[1.0, 30.0])


def test_every_candidate_is_looked_at_at_every_eta(frontier: fl.Frontier) -> None:
    frame = frontier.frame()
    assert len(frame) == 2 * 3 * 3 * 5
    assert set(frame.eta) == {0.5, 1.0, 2.0, 4.0, 8.0}
    assert frontier.refused == ()
    assert frontier.held_out == 100
    np.testing.assert_allclose(
        frame.scale * frame.eta, frame.groupby(["penalty", "weighting", "shape"]).scale.transform("max") * 0.5
    )


def test_the_loss_falls_with_eta_and_ends_near_that_without_noise(frontier: fl.Frontier) -> None:
    for (_, weighting, _), some in frontier.frame().groupby(["penalty", "weighting", "shape"]):
        assert np.all(np.diff(some.sort_values("eta").loss) < 1e-3), weighting
    assert frontier.best(8.0).loss < 1.1 * frontier.loss
    assert frontier.best(8.0).loss <= frontier.best(2.0).loss <= frontier.best(0.5).loss


def test_the_best_is_the_least_at_an_eta_that_is_not_above_the_one_asked_for(frontier: fl.Frontier) -> None:
    frame = frontier.frame()
    assert frontier.best().loss == frame[frame.eta == 2.0].loss.min()
    assert frontier.best(3.9) == frontier.best(2.0)
    with pytest.raises(fl.InvalidInputError, match=r"eta must be at least 0.5, the least that was looked at; got 0.4"):
        frontier.best(0.4)


@pytest.mark.parametrize("weighting", often(["full", "half", "none"]))
@pytest.mark.parametrize("shape", ["isotropic", "hessian", "least-loss"])
def test_the_scale_of_a_point_is_what_calibration_asks_for(weighting: str, shape: str) -> None:
    found = fl.protect(
        Ridge(1.0), X, Y, 1.0, over="max", penalties=[2.0], weightings=[weighting], shapes=[shape], held_out=0
    )
    power = {"none": 0.0, "half": 0.5, "full": 1.0}[weighting]
    weights = fl.IRFIL(Ridge(2.0)).fit(X, Y).weights_ ** power
    weights /= weights.mean()
    model = Ridge(2.0).fit(X, Y, weights)
    leak = fl.measure(model, X, Y, sample_weight=weights, polish=True)
    noise = fl.calibrate(leak, 1.0, shape=shape, gap=0.05 if shape == "least-loss" else None)
    assert found.best().scale == pytest.approx(noise.scale, rel=1e-3)


def test_a_release_keeps_the_limit_and_says_what_is_not_counted(frontier: fl.Frontier) -> None:
    with (
        pytest.warns(fl.UncountedChoiceWarning, match="was learned from the rows"),
        pytest.warns(fl.UncountedScaleWarning),
    ):
        model = frontier.release(random_state=0, counted=False)
    assert isinstance(model, Ridge)
    assert model.predict(X).shape == Y.shape
    full = next(point for point in frontier.points if point.weighting == "full")
    with (
        pytest.warns(fl.UncountedChoiceWarning, match="IRFIL's weights") as said,
        pytest.warns(fl.UncountedScaleWarning),
    ):
        frontier.release(choice=full, random_state=0)
    assert not any("best was learned" in str(item.message) for item in said)


def test_a_counted_candidate_that_was_named_beforehand_needs_no_warning() -> None:
    found = fl.protect(Ridge(40.0), X, Y, 4.0, bounds=BOUNDS, **ONE)
    assert {point.shape for point in found.points} == {"isotropic", "hessian", "least-loss"}
    plain = next(point for point in found.points if point.shape == "isotropic" and point.eta == 4.0)
    assert found.best().loss <= plain.loss
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = found.release(choice=found.best())
    again = found.release(choice=found.best())
    assert np.any(model.coef_ != again.coef_)


def test_groups_are_limited_together() -> None:
    person = np.arange(len(Y)) // 4
    found = fl.protect(Ridge(1.0), X, Y, 1.0, over="max", groups=person, shapes=["isotropic"], held_out=0, **ONE)
    leak = fl.measure(Ridge(1.0).fit(X, Y), X, Y)
    assert found.best().scale == pytest.approx(fl.calibrate(leak, 1.0, "group", groups=person).scale, rel=1e-3)


def test_a_column_says_whose_rows_are_whose() -> None:
    """A name ended in an IndexError."""
    person = np.arange(len(Y)) // 4
    X_named = pytest.importorskip("pandas").DataFrame(X).add_prefix("x").assign(pid=person)
    options: dict[str, Any] = {"over": "max", "shapes": ["isotropic"], "held_out": 0, "random_state": 0, **ONE}
    named, given = (fl.protect(Ridge(1.0), X_named, Y, 1.0, person=each, **options) for each in ("pid", person))
    assert named.best().scale == given.best().scale


MODELS: list[tuple[Any, str]] = [
    (make_pipeline(StandardScaler(), Ridge(1.0)), "squared"),
    (LogisticRegression(), "logistic"),
    (RidgeClassifier(), "logistic"),
    (PoissonRegressor(), "poisson"),
    (GammaRegressor(), "gamma"),
    (LinearRegression(), "squared"),
]


@pytest.mark.parametrize(("model", "loss"), MODELS, ids=lambda value: type(value).__name__)
def test_the_loss_without_noise_is_that_of_the_model(model: Any, loss: str) -> None:
    case = make(loss, 3, n=200)
    found = fl.protect(model, case.X, case.y, 1e4, over="max", shapes=["isotropic"], held_out=0, **ONE)
    fitted = model.fit(case.X, case.y)
    if hasattr(fitted, "decision_function"):
        z = fitted.decision_function(case.X)
        ours = fl.LOSSES["squared" if isinstance(model, RidgeClassifier) else "logistic"]
        label = 2 * case.y - 1 if isinstance(model, RidgeClassifier) else case.y
        assert found.score == pytest.approx(fitted.score(case.X, case.y), abs=0.01)
    else:
        z = fitted.predict(case.X)
        z, ours, label = (np.log(z) if loss != "squared" else z), fl.LOSSES[loss], case.y
        assert found.score is None or found.score == pytest.approx(fitted.score(case.X, case.y), rel=1e-6)
    assert found.loss == pytest.approx(float(np.mean(ours.value(z, label))), rel=1e-3)
    assert found.best().loss == pytest.approx(found.loss, rel=0.05)


@pytest.mark.parametrize(
    ("model", "labels", "loss"),
    [
        (Ridge(), lambda z: z, lambda y: np.mean((y - y.mean()) ** 2) / 2),
        (
            LogisticRegression(),
            lambda z: z > 0.5,
            lambda y: -np.mean(y * np.log(y.mean()) + (1 - y) * np.log(1 - y.mean())),
        ),
        (PoissonRegressor(), lambda z: np.round(np.abs(z)), lambda y: y.mean() - y.mean() * np.log(y.mean())),
    ],
)
def test_the_baseline_is_the_loss_of_always_predicting_the_mean(model: Any, labels: Any, loss: Any) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = labels(X @ [2.0, -1.0] + rng.normal(size=60))
    found = fl.protect(model, X, y, eta=5.0, over="max", penalties=[1.0], weightings=["none"], held_out=0.0)
    assert found.baseline == pytest.approx(loss(np.asarray(y, dtype=float)), rel=1e-6)
    assert found.loss < found.baseline
    assert f"{found.baseline:.4g}" in found._repr_html_()


def test_the_picture_has_a_line_for_each_weighting_and_shape(frontier: fl.Frontier) -> None:
    pytest.importorskip("matplotlib")
    ax = frontier.plot()
    assert len(ax.lines) == 10
    assert frontier.plot(ax) is ax


def test_no_value_of_a_row_decides_whether_it_is_held_out() -> None:
    classes = np.arange(len(Y)) % 2
    options: Any = {"over": "max", "shapes": ["isotropic"], **ONE}
    rows = [fl.protect(LogisticRegression(), X, y, **options).compared.rows for y in (classes, 1 - classes, Y > 0.3)]
    for other in rows[1:]:
        np.testing.assert_array_equal(other[1], rows[0][1])


def test_what_no_model_can_be_fitted_on_is_said() -> None:
    gaps, labels = X.copy(), Y.copy()
    gaps[3, 1], labels[5] = np.nan, np.inf
    with pytest.raises(
        fl.InvalidInputError, match="X contains NaN or infinity in 1 of 400 rows, and Ridge takes numbers"
    ):
        fl.protect(Ridge(), gaps, Y)
    with pytest.raises(fl.InvalidInputError, match="y contains NaN or infinity: 1 of 400 labels"):
        fl.protect(Ridge(), X, labels)
    with pytest.raises(fl.InvalidInputError, match=r"y has one class only \(.*1.* in all 400 rows\)"):
        fl.protect(LogisticRegression(), X, np.ones(len(Y), dtype=int), public="levels")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"eta": 0.0}, "eta must be"),
        ({"over": "mean"}, "over must be one of any-record, max; got 'mean'"),
        ({"groups": Y}, "groups go with over='max'"),
        ({"over": "max", "bounds": BOUNDS}, "bounds are for over='any-record' only"),
        ({"eta": 1e-320}, r"eta must be from 1e-100 to 1e\+100.*got 9.99"),
        ({"shapes": ["round"]}, "shapes must be a list of some of least-loss, isotropic, hessian; got 'round' in it"),
        ({"shapes": [np.eye(3)]}, "shapes must be a list of some of .*; got ndarray in it"),
        ({"shapes": "hessian"}, r"shapes must be a list of .*; got 'hessian'. Write shapes=\['hessian'\]"),
        ({"weightings": []}, "weightings must be a list of some of none, half, full; got an empty one"),
        ({"weightings": 3}, "weightings must be a list of some of none, half, full; got 3"),
        ({"penalties": [0.0]}, "penalties must be"),
        ({"penalties": []}, "penalties must be a list of factors .*; got an empty one"),
        ({"penalties": 5}, "penalties must be a list of factors .*; got 5"),
        ({"held_out": 1.0}, "held_out must be between 0 and 0.9"),
        ({"held_out": "x"}, "held_out must be between 0 and 0.9; got 'x'"),
        ({"held_out": None}, "held_out must be between 0 and 0.9; got None"),
        ({"held_out": 1e-9}, "held_out must be 0, or at least 0.0025 so that one of 400 rows is held out; got 1e-09"),
        ({"random_state": "x"}, "random_state must be None, a whole number"),
        ({"random_state": -1}, "random_state must be None, a whole number"),
        ({"bounds": "x"}, "bounds must be a mapping .*; got str"),
        ({"bounds": [1]}, "bounds must be a mapping .*; got list"),
        ({"estimator": None}, "estimator must be a scikit-learn model.*; got None"),
        ({"estimator": "ridge"}, "estimator must be a scikit-learn model.*; got 'ridge'"),
        ({"estimator": Ridge}, "estimator must be a scikit-learn model.*; got the class Ridge"),
        ({"estimator": LinearRegression(), "over": "max"}, "LinearRegression has neither: use penalties="),
        (
            {"estimator": Ridge(1e-9), "shapes": ["least-loss"], "eta": 1e-3, **ONE},
            r"No candidate keeps the limit: try larger penalties.*The first: penalty x 1",
        ),
    ],
)
def test_refusals(options: dict[str, Any], says: str) -> None:
    given = {"estimator": Ridge(1.0), "eta": 1.0} | options
    with pytest.raises(fl.InvalidInputError, match=says):
        fl.protect(given.pop("estimator"), X, Y, given.pop("eta"), **given)


def test_too_few_people_are_told_how_many_would_do() -> None:
    of_rows, scaled = np.arange(120) // 2, make_pipeline(StandardScaler(), LogisticRegression())

    def protected(times: int) -> fl.Frontier:
        person = np.concatenate([of_rows + 1000 * k for k in range(times)])
        x, labels = np.tile(X[:120], (times, 1)), np.tile(Y[:120] > np.median(Y[:120]), times)
        own: dict[str, Any] = {
            "bounds": {f"x{k}": (-6, 6) for k in range(3)},
            "shapes": ["isotropic"],
            "random_state": 0,
        }
        return fl.protect(scaled, x, labels, 1.0, person=person, rows_per_person=12, **own)

    with pytest.raises(fl.InvalidInputError, match=r"The first: penalty l2 .*No useful bound holds") as refused:
        protected(1)
    asked = re.search(r"([\d,]+) people like these would not be refused; there are 60", str(refused.value))
    assert asked is not None
    assert protected(int(asked[1].replace(",", "")) // 60).points


@pytest.mark.parametrize("estimator", [Ridge(1.0), make_pipeline(StandardScaler(), Ridge(1.0))])
@pytest.mark.parametrize("as_frame", [False, True])
def test_rows_that_cannot_be_fitted_are_refused_and_no_cell_is_told(estimator: Any, as_frame: bool) -> None:
    text: Any = np.char.add(X.astype("U6"), "secret")
    if as_frame:
        text = pytest.importorskip("pandas").DataFrame(text, columns=list("abc"))
    with pytest.raises(fl.InvalidInputError, match="cannot be read as numbers") as refused:
        fl.protect(estimator, text, Y, **ONE)
    assert "secret" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
    with pytest.raises(fl.InvalidInputError, match=r"one label for each row of X; .* 400 rows and 5 labels"):
        fl.protect(estimator, X, Y[:5], **ONE)
    with pytest.raises(fl.InvalidInputError, match="X has no rows"):
        fl.protect(estimator, X[:0], Y[:0], **ONE)


def test_few_rows_hold_out_none_which_is_said() -> None:
    asked: Any = {"over": "max", "shapes": ["isotropic"], **ONE}
    with pytest.warns(UserWarning, match="No rows are held out, since 19 rows are too few to split"):
        found = fl.protect(Ridge(1.0), X[:19], Y[:19], **asked)
    assert found.held_out == 0
    assert fl.protect(Ridge(1.0), X[:19], Y[:19], held_out=0, **asked).points == found.points
    assert fl.protect(Ridge(1.0), X[:20], Y[:20], **asked).held_out == 5


@pytest.mark.parametrize("choice", ["x", 0])
def test_what_is_released_is_a_choice(frontier: fl.Frontier, choice: Any) -> None:
    with pytest.raises(
        fl.InvalidInputError, match=r"choice must be from choose\(\), or one of the frontier's points; got"
    ):
        frontier.release(choice=choice)
    with pytest.raises(fl.InvalidInputError, match="counted must be True or False; got 'no'"):
        frontier.release(counted="no")  # type: ignore[arg-type]
    with pytest.raises(fl.InvalidInputError, match="share must be between 0 and 1, a part of the limit; got 'x'"):
        frontier.choose(share="x")  # type: ignore[arg-type]


def test_the_frontier_is_that_of_the_release_where_the_rows_give_the_bounds() -> None:
    asked: Any = ONE | {"shapes": ["isotropic"], "random_state": 0}
    Z, y = X[:80].copy(), 0.1 * Y[:80]
    held = split_of(fl.protect(Ridge(8.0), Z, y, 2.0, **asked).task, 0.25)[1]
    y[held[:2]] = 4.0  # the two farthest out, which no candidate is fitted on: the release is
    found = fl.protect(Ridge(8.0), Z, y, 2.0, **asked)
    model = Ridge(8.0).fit(Z, y)
    noise: Any = fl.calibrate(fl.measure(model, Z, y, public="nothing"), 2.0, "any-record", random_state=0)
    ranges = {name: (each["low"], each["high"]) for name, each in noise.calibrated.bounds.items()}
    assert ranges["label"][1] >= 4.0
    assert found.points == fl.protect(Ridge(8.0), Z, y, 2.0, bounds=ranges, **asked).points


def test_a_column_of_one_value_is_looked_at_like_any_other() -> None:
    """Its bounds are one number, which nobody declared: what is looked at takes them from its rows again."""
    found = fl.protect(Ridge(40.0), np.column_stack([X, np.full(len(X), 2.0)]), Y, 4.0, shapes=["isotropic"], **ONE)
    assert found.points

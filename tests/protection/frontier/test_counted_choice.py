"""A choice that is counted: its information against refits of the whole procedure, its frequencies, and what it promises.

How far any record within the bounds moves scores apart: no row that was put in place of another, and refitted with, goes beyond.

The score of a choice: it is the loss for most rows, its derivatives are its own, and they are bounded.
"""

from __future__ import annotations

import copy
import json
import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from cases import make
from copies import copies
from fisherleak.protection.certificates.published_scale import STEP, up_to_grid
from fisherleak.protection.frontier.counted_choice import (
    FARTHEST,
    Ballot,
    BoundedScore,
    _admitted,
    _any_training_row,
    _farthest,
    _public_rows,
    _reach,
    _turned,
    gradients_of,
    reach_of_present,
    score_for,
)

pytestmark = pytest.mark.usefixtures("quick_audits")
CASE = make("squared", 1, n=120, d=2, intercept=True)
X, Y = np.clip(CASE.X, -3, 3), np.clip(CASE.y, -4, 4)
BOUNDS: Any = {"x0": (-3.0, 3.0), "x1": (-3.0, 3.0)}
WITH_LABEL: Any = BOUNDS | {"label": (-4.0, 4.0)}
OPTIONS: Any = {"penalties": [1.0, 30.0], "weightings": ["none"], "shapes": ["isotropic"]}
SMALL = 1e-4
WHOLE: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "squared": (Ridge(20.0), Y, {"over": "max"}),
    "squared, any-record": (Ridge(20.0), Y, {"bounds": WITH_LABEL}),
    "squared, all rows": (Ridge(20.0), Y, {"over": "max", "held_out": 0.0}),
    "squared, folded": (make_pipeline(StandardScaler(), Ridge(20.0)), Y, {"over": "max"}),
    "logistic": (LogisticRegression(C=0.1), (Y > 0.3) * 1, {"over": "max"}),
    "logistic, any-record": (LogisticRegression(C=0.1), (Y > 0.3) * 1, {"bounds": BOUNDS}),
}


def ballot_of(model: Any, X: Any, y: Any, options: Any, **more: Any) -> Ballot:
    chosen = fl.protect(model, X, y, 2.0, **OPTIONS, **options).choose(random_state=3, **more)
    assert chosen.ballot is not None
    return chosen.ballot


SLOW = [name for name in WHOLE if "any-record" in name or "folded" in name]
EVERY = [*(name for name in WHOLE if name not in SLOW), *(pytest.param(name, marks=pytest.mark.long) for name in SLOW)]


@pytest.mark.parametrize("name", EVERY)
def test_the_information_of_the_choice_is_that_of_refits_of_the_whole_procedure(name: str) -> None:
    model, y, options = WHOLE[name]
    here = ballot_of(model, X, y, options)
    rows = fl.protect(model, X, y, 2.0, **OPTIONS, **options).compared.rows
    for row in (int(rows[0][5]), int(rows[1][5])):  # trained on, and held out
        scores = []
        for column in range(2 if "logistic" in name else 3):
            found = []
            for side in (-SMALL, SMALL):
                moved, label = X.copy(), np.array(y)
                if column < 2:
                    moved[row, column] += side
                else:
                    label[row] += side
                then = ballot_of(model, moved, label, options)
                assert then.smoothing == here.smoothing
                found.append(np.log(then.probabilities))
            scores.append((found[1] - found[0]) / (2 * SMALL))
        by_refits = np.array(scores).T  # (K, values)
        p = here.probabilities
        assert np.abs(p @ by_refits).max() < 1e-6
        ours = np.stack([each[row] for each in here._gradients])[:, : by_refits.shape[1]]
        ours = -(ours - p @ ours) / here.smoothing
        np.testing.assert_allclose(ours, by_refits, atol=1e-4 * np.abs(by_refits).max())
        if "logistic" not in name:
            eta = np.sqrt(np.linalg.eigvalsh((by_refits.T * p) @ by_refits)[-1])
            assert here.per_example()[row] == pytest.approx(eta, rel=1e-4)


@pytest.mark.parametrize("name", [name for name in WHOLE if name != "logistic, any-record"])
def test_nobody_is_told_more_of_than_the_share(name: str) -> None:
    model, y, options = WHOLE[name]
    for share in (0.1, 0.3):
        here = ballot_of(model, X, y, options, share=share)
        assert here.reach / here.smoothing <= 2.0 * share
        assert 0 < here.per_example().max() <= here.reach / here.smoothing


def test_groups_are_counted_together() -> None:
    person = np.arange(len(Y)) // 4
    alone = ballot_of(Ridge(20.0), X, Y, {"over": "max"})
    together = ballot_of(Ridge(20.0), X, Y, {"over": "max", "groups": person})
    squares = [np.bincount(person, weights=np.sum(g**2, axis=1)).max() for g in together._gradients]
    apart = np.sum((together._gradients[0] - together._gradients[1]) ** 2, axis=1)
    squares.append(np.bincount(person, weights=apart).max())
    assert together.reach == pytest.approx(0.5 * math.sqrt(max(squares)))
    assert together.reach > alone.reach


@pytest.mark.long
def test_candidates_are_drawn_as_often_as_they_say() -> None:
    here = ballot_of(Ridge(20.0), X, Y, {"over": "max"})
    p = np.array([0.5, 0.3, 0.15, 0.05])
    ballot = Ballot(here.points[:1] * 4, np.zeros(4), 1.0, 1.0, p, ())
    rng, count = np.random.default_rng(0), 60_000
    seen = np.bincount([ballot.draw(rng) for _ in range(count)], minlength=4)

    def distance(law: np.ndarray) -> float:
        return float(np.sum((seen - count * law) ** 2 / (count * law)))

    assert distance(p) < 16.3  # one in a thousand
    assert distance(p * [1.05, 0.95, 0.95, 0.8] / np.sum(p * [1.05, 0.95, 0.95, 0.8])) > 16.3
    scores = here.scores - here.scores.min()
    np.testing.assert_allclose(
        here.probabilities, np.exp(-scores / here.smoothing) / np.exp(-scores / here.smoothing).sum()
    )


@pytest.mark.long
def test_a_release_counts_its_choice_without_a_warning() -> None:
    found = fl.protect(Ridge(20.0), X, Y, 4.0, bounds=WITH_LABEL, penalties=[1.0, 30.0])
    choice = found.choose(random_state=0)
    assert choice.point.weighting == "none"
    assert choice.eta_choice == pytest.approx(0.3 * 4.0)
    assert choice.eta_choice**2 + choice.eta_noise**2 == pytest.approx(16.0)
    assert choice.among == 6
    told = json.loads(json.dumps(choice.record()))
    assert told["eta_noise"] == choice.eta_noise
    assert not any(value == choice.point.loss for value in told.values())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", fl.SeededReleaseWarning)
        model = found.release(choice=choice, random_state=1)
        found.release()
    again = found.release(choice=choice, random_state=1)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    with pytest.raises(fl.InvalidInputError, match="eta must be that of the choice, 4, or left out; got 1"):
        found.release(1.0, choice)
    for copied in copies(choice):  # as it may be passed on: without what is confidential, and good for a release still
        assert copied.ballot is None
        assert copied.record() == choice.record()
        assert (np.isnan(copied.point.loss), copied.point.score) == (True, None)
        np.testing.assert_array_equal(found.release(choice=copied, random_state=1).coef_, model.coef_)
    assert repr(choice.point.loss) not in repr(choice)
    other = fl.protect(Ridge(20.0), X, Y, 4.0, bounds=WITH_LABEL, penalties=[1.0])
    with pytest.raises(
        fl.InvalidInputError, match="choice is one of 6 candidates with over='any-record', and this frontier has 3"
    ):
        other.release(choice=choice)
    # the noise keeps what the choice leaves
    from fisherleak.protection.frontier.frontier_candidates import release_candidate

    noise = release_candidate(found.task, choice.point, choice.eta_noise, 0).noise
    assert noise.calibrated.eta == choice.eta_noise


def test_one_candidate_needs_no_choice() -> None:
    found = fl.protect(Ridge(20.0), X, Y, 2.0, bounds=WITH_LABEL, penalties=[1.0], shapes=["hessian"])
    choice = found.choose()
    assert (choice.eta_choice, choice.eta_noise, choice.ballot) == (0.0, 2.0, None)


def test_refusals() -> None:
    found = fl.protect(Ridge(20.0), X, Y, 2.0, over="max", penalties=[1.0], weightings=["full"])
    with pytest.raises(fl.InvalidInputError, match="No candidate without weights was looked at"):
        found.release()
    with pytest.raises(fl.InvalidInputError, match="share must be between 0 and 1, a part of the limit; got 1"):
        found.choose(share=1.0)
    counts = fl.protect(PoissonRegressor(), X, np.round(np.exp(Y)), 50.0, over="max", **OPTIONS)
    assert counts.choose(random_state=0).ballot is not None
    with pytest.raises(fl.InvalidInputError, match="what IRFIL's weights reveal is not; got"):
        fl.Protected(Ridge(), weightings=["none", "full"]).fit(X, Y)


@pytest.mark.long
def test_protected_tells_what_it_promises_and_no_number_of_the_data() -> None:
    model = fl.Protected(Ridge(20.0), 4.0, penalties=[1.0, 30.0], bounds=WITH_LABEL, random_state=0).fit(X, Y)
    assert model.promise_ is not None
    assert model.promise_["eta_choice"] ** 2 + model.promise_["eta_noise"] ** 2 == pytest.approx(16.0)
    assert np.float64(model.choice_.loss).tobytes() not in pickle.dumps(model)
    assert copy.deepcopy(model).promise_ == model.promise_
    with pytest.warns(fl.UncountedChoiceWarning, match="was learned from the rows"):
        loose = fl.Protected(Ridge(20.0), 4.0, penalties=[1.0, 30.0], bounds=WITH_LABEL, counted=False).fit(X, Y)
    assert loose.promise_ is None


SHAPES: Any = {"penalties": [1.0], "weightings": ["none"], "shapes": ["isotropic", "hessian"], "bounds": WITH_LABEL}


def test_nothing_of_a_choice_is_random_but_the_draw_and_an_offset_that_is_told() -> None:
    """Offsets that were drawn and not told made its law move with exact prices: up to 5.8 times what was promised."""
    found = fl.protect(Ridge(20.0, fit_intercept=False), X, Y, 1.0, **SHAPES)
    choices = [found.choose(random_state=seed) for seed in range(6)]
    assert len({choice.offset for choice in choices}) == 6
    assert found.choose().offset != found.choose().offset  # of the operating system
    for choice in choices:
        told, law = json.loads(json.dumps(choice.record())), choice.ballot
        assert law is not None
        assert choice.offset is not None
        # whoever is told the offset and holds the table knows the law
        assert (told["offset"], told["step"], told["probability"]) == (choice.offset, STEP, 1.0)
        losses = law.scores - np.array([up_to_grid(price, choice.offset) for price in prices(found, law)])
        np.testing.assert_allclose(losses, losses[0], rtol=1e-9)  # one penalty: one held-out loss
        assert law.smoothing == up_to_grid(law.reach / choice.eta_choice, choice.offset)
        above = law.scores - law.scores.min()
        np.testing.assert_allclose(
            law.probabilities, np.exp(-above / law.smoothing) / np.exp(-above / law.smoothing).sum()
        )


def law_of(found: fl.Frontier, seed: int) -> Ballot:
    ballot = found.choose(random_state=seed).ballot
    assert ballot is not None
    return ballot


def prices(found: fl.Frontier, law: Ballot) -> list[float]:
    """Losses of noisy copies above that without noise; of one penalty."""
    return [max(point.loss - found.loss, 2.0**-20) for point in law.points]


@pytest.mark.long
def test_given_the_offset_the_law_of_a_choice_moves_with_no_price() -> None:
    """By refits of everything: rows trained on and held out, for many offsets."""
    model, step = Ridge(20.0, fit_intercept=False), 0.02
    here = fl.protect(model, X, Y, 1.0, **SHAPES)
    seeds = range(24)
    promised = here.choose().eta_choice
    for row in (int(here.compared.rows[0][3]), int(here.compared.rows[1][3])):
        moved = X.copy()
        moved[row, 0] += step
        there = fl.protect(model, moved, Y, 1.0, **SHAPES)
        changed = 0
        for seed in seeds:
            one, other = law_of(here, seed), law_of(there, seed)
            same = one.smoothing == other.smoothing and np.allclose(
                np.diff(one.scores), np.diff(other.scores), rtol=1e-9
            )
            changed += not same
            if same:
                p, q = one.probabilities, other.probabilities
                assert 2.0 * np.arccos(min(float(np.sqrt(p * q).sum()), 1.0)) <= promised * step * (1 + 1e-3)
        # prices on a grid change as rarely as their exact values move beside a step
        known = [np.array([*prices(each, law), law.reach]) for each, law in ((here, one), (there, other))]
        expected = len(seeds) * float(np.abs(np.log(known[1] / known[0])).sum()) / math.log(STEP)
        assert changed <= expected + 3.0 * math.sqrt(expected) + 1.0
        assert expected < 0.2 * len(seeds)


def test_a_candidate_near_a_bound_that_is_refused_is_left_out_by_the_offset() -> None:
    points = fl.protect(Ridge(20.0), X, Y, 4.0, bounds=WITH_LABEL, **OPTIONS).points[:2]
    step = math.log(STEP)
    assert _admitted(points, [math.inf, 0.5 * step], 0.4) == list(points)
    assert _admitted(points, [math.inf, 0.5 * step], 0.6) == [points[0]]
    with pytest.raises(fl.InvalidInputError, match="nearly too loose to be used"):
        _admitted(points, [0.0, 0.0], 0.1)


CASE_CHOICE_SENSITIVITY = make("squared", 2, n=160, d=2, intercept=True)
X_CHOICE_SENSITIVITY, Y_CHOICE_SENSITIVITY = (
    np.clip(CASE_CHOICE_SENSITIVITY.X, -2, 2),
    np.clip(CASE_CHOICE_SENSITIVITY.y, -3, 3),
)
BOUNDS_CHOICE_SENSITIVITY: Any = {"x0": (-2.0, 2.0), "x1": (-2.0, 2.0)}
CASES: dict[str, tuple[Any, Any, Any]] = {
    "squared": (Ridge(8.0), Y_CHOICE_SENSITIVITY, BOUNDS_CHOICE_SENSITIVITY | {"label": (-3.0, 3.0)}),
    "squared, folded": (
        make_pipeline(StandardScaler(), Ridge(8.0)),
        Y_CHOICE_SENSITIVITY,
        BOUNDS_CHOICE_SENSITIVITY | {"label": (-3.0, 3.0)},
    ),
    "logistic": (LogisticRegression(C=0.5), (Y_CHOICE_SENSITIVITY > 0.3) * 1, BOUNDS_CHOICE_SENSITIVITY),
    "two classes, squared": (
        RidgeClassifier(8.0),
        (Y_CHOICE_SENSITIVITY > 0.3) * 1,
        BOUNDS_CHOICE_SENSITIVITY | {"label": (-1.0, 1.0)},
    ),
}


def moved_by(model: Any, X_CHOICE_SENSITIVITY: Any, y: Any, bounds: Any, row: int | None) -> float:
    """The bound for all rows, or the exact reach of one."""
    found = fl.protect(
        model,
        X_CHOICE_SENSITIVITY,
        y,
        4.0,
        bounds=bounds,
        penalties=[1.0, 10.0],
        weightings=["none"],
        shapes=["isotropic"],
    )
    compared = found.compared
    if row is None:
        allowed, views = _public_rows(found.task, compared.candidates, compared.scorer)
        assert allowed is not None
        score = score_for("any-record", compared.scorer.loss, allowed.labels)
        return _reach(found.task, views, [], score, allowed, compared.rows)
    ballot = found.choose(random_state=0).ballot
    assert ballot is not None
    return reach_of_present([each[row : row + 1] for each in ballot._gradients], None)


@pytest.mark.parametrize(
    "name", ["squared", *(pytest.param(name, marks=pytest.mark.long) for name in CASES if name != "squared")]
)
def test_no_row_in_place_of_another_moves_scores_farther_than_the_bound(name: str) -> None:
    model, y, bounds = CASES[name]
    limit = moved_by(model, X_CHOICE_SENSITIVITY, y, bounds, None)
    rng, reached = np.random.default_rng(0), 0.0
    train = np.random.default_rng(0).permutation(len(y))  # as protect splits
    far = int(np.argmax(np.abs(X_CHOICE_SENSITIVITY).sum(axis=1)))
    for trial in range(4):
        row = far if trial == 0 else int(train[rng.integers(len(y))])
        new, label = X_CHOICE_SENSITIVITY.copy(), np.array(y)
        new[row] = rng.choice([-2.0, 2.0], size=2)
        label[row] = rng.choice([0, 1]) if label.dtype.kind == "i" else rng.choice([-3.0, 3.0])
        reached = max(reached, moved_by(model, new, label, bounds, row))
    assert reached <= limit
    assert limit < (60 if "folded" in name else 15) * reached


def small_tables() -> Any:
    """Few rows, little penalty, rare levels: where one row moves a model far."""
    rng = np.random.default_rng(3)
    for k in range(4):
        n, wide = int(rng.integers(24, 60)), float(rng.choice([1.0, 2.0]))
        x = np.clip(rng.normal(size=(n, 2)), -wide, wide)
        if k % 2:
            x[:, 0] = np.where(rng.random(n) < 0.9, 0.0, wide)
        y = np.clip(x @ rng.normal(size=2) + 0.3 * rng.normal(size=n), -3.0, 3.0)
        yield float(10 ** rng.uniform(0.5, 1.5)), bool(k % 3), wide, x, y


def seen(model: Any, x: Any, y: Any, bounds: Any) -> tuple[Any, Any, Any, Any]:
    found = fl.protect(
        model, x, y, 8.0, bounds=bounds, penalties=[1.0, 10.0], weightings=["none"], shapes=["isotropic"]
    )
    allowed, views = _public_rows(found.task, found.compared.candidates, found.compared.scorer)
    assert allowed is not None
    return found, allowed, views, score_for("any-record", found.compared.scorer.loss, allowed.labels)


@pytest.mark.long
def test_parameters_scores_and_gradients_of_small_tables_move_no_farther_than_their_bounds() -> None:
    """Labels against the prediction at corners, in place of the most exposed row: everything is fitted again."""
    reached = []
    for alpha, intercept, wide, x, y in small_tables():
        model, bounds = (
            Ridge(alpha, fit_intercept=intercept),
            {"x0": (-wide, wide), "x1": (-wide, wide), "label": (-3, 3)},
        )
        found, allowed, views, score = seen(model, x, y, bounds)
        train = found.compared.rows[0]
        row = int(train[np.argmax(np.abs(x[train]).sum(axis=1) + np.abs(y[train]))])
        singles = [_any_training_row(view, score, view.exchange(allowed)) for view in views]
        for corner in (-wide, wide):
            moved, label = x.copy(), y.copy()
            moved[row] = corner
            label[row] = -3.0 if views[0].theta[:2].sum() * corner > 0 else 3.0
            _, _, then, score_then = seen(model, moved, label, bounds)
            for view, new, single in zip(views, then, singles, strict=True):
                bent, _ = _turned(view, score, view.x, 1.0)
                far = _farthest(view, bent, np.eye(len(view.theta)), view.exchange(allowed), np.inf)
                # held-out rows are the same, so that linear predictors tell the move in any coordinates
                apart = (view.x @ view.theta - new.x @ new.theta) @ np.linalg.pinv(view.x).T
                assert np.linalg.norm(bent @ apart) <= far * (1 + 1e-9)
                own = gradients_of(new, score_then).trained[train.tolist().index(row)]
                reached.append(float(np.linalg.norm(own)) / single)
    assert 0.3 < max(reached) <= 1.0


@pytest.mark.parametrize("rows", [slice(15), slice(None)])
def test_rows_that_are_looked_at_and_fitted_on_are_refused(rows: slice) -> None:
    """An exchanged row moved scores 15 times as far as a bound that adds up both: a label far out, 15 rows, one column."""
    asked: Any = {
        "bounds": BOUNDS_CHOICE_SENSITIVITY | {"label": (-3.0, 3.0)},
        "penalties": [1.0, 10.0],
        "shapes": ["isotropic"],
    }
    found = fl.protect(
        Ridge(20.0),
        X_CHOICE_SENSITIVITY[rows],
        Y_CHOICE_SENSITIVITY[rows],
        4.0,
        weightings=["none"],
        held_out=0.0,
        **asked,
    )
    with pytest.raises(fl.InvalidInputError, match=r"none of .* rows were held out"):
        found.release()
    found.release(choice=found.points[0])


def test_the_reach_of_rows_present_is_half_the_largest_difference() -> None:
    one, other = np.array([[3.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 4.0], [0.0, -1.0]])
    assert reach_of_present([one, other], None) == 2.5
    assert reach_of_present([one], None) == 1.5
    assert reach_of_present([one, other], np.array([0, 0])) == pytest.approx(0.5 * np.sqrt(29.0))


LABELS = {"squared": np.array([-4.0, 4.0]), "logistic": np.array([0.0, 1.0])}
WIDTH = 1e-6


def scores() -> list[tuple[BoundedScore, np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    found = []
    for name in ("squared", "logistic", "poisson", "gamma"):
        over = "any-record" if name in LABELS else "max"
        y = {"squared": rng.normal(size=300), "logistic": rng.integers(0, 2, 300) * 1.0}.get(
            name, rng.gamma(2.0, size=300)
        )
        found.append((score_for(over, fl.LOSSES[name], LABELS.get(name)), 2.5 * rng.normal(size=300), y))
    return found


@pytest.mark.parametrize(
    ("score", "z", "y"), scores(), ids=lambda value: getattr(value, "loss", value.__class__.__name__)
)
def test_derivatives_are_those_of_the_value(score: BoundedScore, z: np.ndarray, y: np.ndarray) -> None:
    smooth = np.abs(np.abs(z) - score.farthest) > 1e-3
    slope = (score.value(z + WIDTH, y) - score.value(z - WIDTH, y)) / (2 * WIDTH)
    np.testing.assert_allclose(score.slope(z, y)[smooth], slope[smooth], atol=1e-7 * (1 + np.abs(slope).max()))
    # by the label: up to a term that all models share, so that two of them are compared
    other = np.zeros_like(z)
    moved = [score.value(at, y + WIDTH) - score.value(at, y - WIDTH) for at in (z, other)]
    ours = score.by_label(z, y) - score.by_label(other, y)
    np.testing.assert_allclose(ours, (moved[0] - moved[1]) / (2 * WIDTH), atol=1e-7 * (1 + np.abs(ours).max()))


def test_it_is_the_loss_for_most_rows_and_bounded_for_the_rest() -> None:
    squared, z, y = scores()[0]
    assert squared.steepest == 1.0
    near = np.abs(z - y) <= 1.0
    np.testing.assert_allclose(squared.value(z, y)[near], 0.5 * (z - y)[near] ** 2)
    assert np.abs(squared.slope(100 * z, y)).max() == 1.0
    logistic, z, y = scores()[1]
    near = np.abs(z) < FARTHEST
    np.testing.assert_allclose(logistic.value(z, y)[near], fl.LOSSES["logistic"].value(z, y)[near])
    assert np.abs(logistic.by_label(100 * z, y)).max() == pytest.approx(FARTHEST)
    assert logistic.value(100 * z, y).max() < FARTHEST + 0.1


def test_losses_without_a_bound_are_refused_for_any_record_by_name() -> None:
    with pytest.raises(fl.InvalidInputError, match=r"the loss is poisson\. Name a candidate beforehand"):
        score_for("any-record", fl.LOSSES["poisson"], np.array([0.0, 9.0]))
    assert math.isinf(score_for("max", fl.LOSSES["squared"], None).steepest)

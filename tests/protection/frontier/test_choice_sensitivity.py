"""How far any admissible row moves scores apart: no row that was put in place of another, and refitted with, goes beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from cases import make
from fisherleak.protection.certificates.bound_quantities import points_of
from fisherleak.protection.frontier.bounded_score import score_for
from fisherleak.protection.frontier.choice_sensitivity import (
    _any_training_row,
    _farthest,
    _turned,
    gradients_of,
    reach_of_present,
)
from fisherleak.protection.frontier.counted_choice import _public_rows, _reach

CASE = make("squared", 2, n=160, d=2, intercept=True)
X, Y = np.clip(CASE.X, -2, 2), np.clip(CASE.y, -3, 3)
BOUNDS: Any = {"x0": (-2.0, 2.0), "x1": (-2.0, 2.0)}
CASES: dict[str, tuple[Any, Any, Any]] = {
    "squared": (Ridge(8.0), Y, BOUNDS | {"label": (-3.0, 3.0)}),
    "squared, folded": (make_pipeline(StandardScaler(), Ridge(8.0)), Y, BOUNDS | {"label": (-3.0, 3.0)}),
    "logistic": (LogisticRegression(C=0.5), (Y > 0.3) * 1, BOUNDS),
    "two classes, squared": (RidgeClassifier(8.0), (Y > 0.3) * 1, BOUNDS | {"label": (-1.0, 1.0)}),
}


def moved_by(model: Any, X: Any, y: Any, bounds: Any, row: int | None) -> float:
    """The bound for all rows, or the exact reach of one."""
    found = fl.protect(
        model,
        X,
        y,
        4.0,
        bounds=bounds,
        penalties=[1.0, 10.0],
        weightings=["none"],
        shapes=["isotropic"],
    )
    compared = found.compared
    if row is None:
        admissible, views = _public_rows(found.task, compared.candidates, compared.scorer)
        assert admissible is not None
        score = score_for("admissible", compared.scorer.loss, admissible.labels)
        return _reach(found.task, views, [], score, admissible, compared.rows)
    ballot = found.choose(random_state=0).ballot
    assert ballot is not None
    return reach_of_present([each[row : row + 1] for each in ballot._gradients], None)


@pytest.mark.parametrize(
    "name", ["squared", *(pytest.param(name, marks=pytest.mark.long) for name in CASES if name != "squared")]
)
def test_no_row_in_place_of_another_moves_scores_farther_than_the_bound(name: str) -> None:
    model, y, bounds = CASES[name]
    limit = moved_by(model, X, y, bounds, None)
    rng, reached = np.random.default_rng(0), 0.0
    train = np.random.default_rng(0).permutation(len(y))  # as protect splits
    far = int(np.argmax(np.abs(X).sum(axis=1)))
    for trial in range(4):
        row = far if trial == 0 else int(train[rng.integers(len(y))])
        new, label = X.copy(), np.array(y)
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
    admissible, views = _public_rows(found.task, found.compared.candidates, found.compared.scorer)
    assert admissible is not None
    return found, admissible, views, score_for("admissible", found.compared.scorer.loss, admissible.labels)


def test_parameters_scores_and_gradients_of_small_tables_move_no_farther_than_their_bounds() -> None:
    """Labels against the prediction at corners, in place of the most exposed row: everything is fitted again."""
    reached = []
    for alpha, intercept, wide, x, y in small_tables():
        model, bounds = (
            Ridge(alpha, fit_intercept=intercept),
            {"x0": (-wide, wide), "x1": (-wide, wide), "label": (-3, 3)},
        )
        found, admissible, views, score = seen(model, x, y, bounds)
        points = points_of(views[0].jacobian, admissible)
        train = found.compared.rows[0]
        row = int(train[np.argmax(np.abs(x[train]).sum(axis=1) + np.abs(y[train]))])
        singles = [_any_training_row(view, score, points, admissible.labels) for view in views]
        for corner in (-wide, wide):
            moved, label = x.copy(), y.copy()
            moved[row] = corner
            label[row] = -3.0 if views[0].theta[:2].sum() * corner > 0 else 3.0
            _, _, then, score_then = seen(model, moved, label, bounds)
            for view, new, single in zip(views, then, singles, strict=True):
                bent, _ = _turned(view, score, view.x, 1.0)
                far = _farthest(view, bent, np.eye(len(view.theta)), points, admissible.labels, np.inf)
                # held-out rows are the same, so that linear predictors tell the move in any coordinates
                apart = (view.x @ view.theta - new.x @ new.theta) @ np.linalg.pinv(view.x).T
                assert np.linalg.norm(bent @ apart) <= far * (1 + 1e-9)
                own = gradients_of(new, score_then).trained[train.tolist().index(row)]
                reached.append(float(np.linalg.norm(own)) / single)
    assert 0.3 < max(reached) <= 1.0


@pytest.mark.parametrize("rows", [slice(15), slice(None)])
def test_rows_that_are_looked_at_and_fitted_on_are_refused(rows: slice) -> None:
    """An exchanged row moved scores 15 times as far as a bound that adds up both: a label far out, 15 rows, one column."""
    asked: Any = {"bounds": BOUNDS | {"label": (-3.0, 3.0)}, "penalties": [1.0, 10.0], "shapes": ["isotropic"]}
    found = fl.protect(Ridge(20.0), X[rows], Y[rows], 4.0, weightings=["none"], held_out=0.0, **asked)
    with pytest.raises(fl.InvalidInputError, match="none were held out"):
        found.release()
    found.release(choice=found.points[0])


def test_the_reach_of_rows_present_is_half_the_largest_difference() -> None:
    one, other = np.array([[3.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 4.0], [0.0, -1.0]])
    assert reach_of_present([one, other], None) == 2.5
    assert reach_of_present([one], None) == 1.5
    assert reach_of_present([one, other], np.array([0, 0])) == pytest.approx(0.5 * np.sqrt(29.0))

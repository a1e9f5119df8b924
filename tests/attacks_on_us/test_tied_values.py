"""Values that tie at a range, a quantile or a median: what refits reveal where one rises, where it falls, where several move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model as lm
from sklearn import preprocessing as pre
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline

import fisherleak as fl
from often import often

N, STEP = 40, 1e-5
NAMES = ["a", "b", "d"]
RNG = np.random.default_rng(12)
BINARY = pd.DataFrame(
    {"a": RNG.normal(50, 10, N), "b": RNG.gamma(2, 3, N), "d": np.repeat([0.0, 1.0], [N // 2, N // 2])}
)
TIED = BINARY.assign(a=(BINARY.a / 8).round() * 8.0, b=BINARY.b.round())
FRAMES = {"0/1": BINARY, "many ties": TIED, "signs": BINARY.assign(d=np.arange(N) % 3 - 1.0)}
EXACT = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 2000}
SCORE = 0.2 * BINARY.a - 8 + RNG.normal(0, 0.7, N)
MODELS: dict[str, tuple[Any, Any]] = {
    "ridge": (lm.Ridge(3.0), SCORE.to_numpy()),
    "logistic": (lm.LogisticRegression(C=0.3, **EXACT), (SCORE.to_numpy() > SCORE.median()) * 1),
    "softmax": (
        lm.LogisticRegression(C=0.3, tol=1e-11, max_iter=5000),
        np.digitize(SCORE.to_numpy(), np.quantile(SCORE, [0.3, 0.7])),
    ),
}
SCALERS: dict[str, Any] = {
    "robust": pre.RobustScaler(),
    "quantiles": pre.RobustScaler(quantile_range=(18.0, 77.0)),
    "min-max": pre.MinMaxScaler((-1.0, 2.0)),
    "max-abs": pre.MaxAbsScaler(),
}
CASES = [("ridge", scaler, frame) for scaler in SCALERS for frame in FRAMES]
CASES += [("logistic", "robust", "0/1"), ("logistic", "min-max", "many ties"), ("softmax", "max-abs", "0/1")]
CASES += [("softmax", "min-max", "many ties")]


def released(model: Pipeline, centres: Any = None) -> Any:
    """Raw coefficients, intercepts and t, from what the steps behind the imputer predict."""
    steps = model[:-1] if centres is None else model[1:-1]
    at: Any = np.vstack([np.zeros(3), np.eye(3)])
    if centres is None:
        at = pd.DataFrame(at, columns=NAMES)
    scores = steps.transform(at) @ np.atleast_2d(model[-1].coef_).T + np.ravel(model[-1].intercept_)
    coef = (scores[1:] - scores[0]).T
    filled = [] if centres is None else [coef[0] * (model[0].statistics_ - centres)]
    return np.concatenate([coef.ravel(), scores[0], *filled])


class Refits:
    """Moves of what is released, by refits in which values rise or fall."""

    def __init__(self, pipe: Pipeline, frame: pd.DataFrame, y: Any, centres: Any = None) -> None:
        self.pipe, self.frame, self.y, self.centres = pipe, frame, y, centres
        self.start = self.fitted(frame)

    def fitted(self, frame: pd.DataFrame) -> Any:
        return released(clone(self.pipe).fit(frame, self.y), self.centres)

    def along(self, rows: Sequence[int], move: Any) -> Any:
        """The change per unit of a move of some rows, (rows, 3)."""
        other: Any = self.frame.copy()
        other.loc[list(rows), NAMES] += STEP * np.asarray(move)
        return (self.fitted(other) - self.start) / STEP

    def sides(self, row: int) -> Any:
        """By each value that is there as it rises and as it falls, (2, p, 3)."""
        units = np.eye(3)[~self.frame.loc[row, NAMES].isna().to_numpy()]
        ways = [[self.along([row], way * unit) * way for unit in units] for way in (1.0, -1.0)]
        return np.moveaxis(np.array(ways), 1, 2)


def measured(pipe: Pipeline, frame: pd.DataFrame, y: Any, parameters: int, **given: Any) -> fl.Leakage:
    return fl.measure(
        clone(pipe).fit(frame, y), frame, y, fl.Gaussian(1.0, np.eye(parameters)), public="nothing", **given
    )


def largest(sides: Any) -> float:
    """The most that a row's values do together: the largest |J d| where each value is on the side that it moves to."""
    rng, most = np.random.default_rng(0), 0.0
    for _ in range(30):
        move = rng.normal(size=sides.shape[2])
        for _ in range(30):
            J = np.where(move > 0, sides[0], sides[1])
            move = move / np.linalg.norm(move)
            most = max(most, float(np.linalg.norm(J @ move)))
            move = J.T @ (J @ move) + 1e-12 * move
    return most


def tied_rows(frame: pd.DataFrame) -> list[int]:
    return [0, N // 2 - 1, N // 2, N - 1, *(int(frame[name].to_numpy().argmax()) for name in NAMES), 11]


@pytest.mark.parametrize(("kind", "scaler", "frame"), often(CASES, 4))
def test_a_cell_is_the_larger_of_both_sides(kind: str, scaler: str, frame: str) -> None:
    (model, y), table = MODELS[kind], FRAMES[frame]
    if scaler in ("robust", "quantiles") and frame == "signs":
        table = table.assign(d=BINARY.d * 2 - 1)
    pipe = make_pipeline(SCALERS[scaler], model)
    leak = measured(pipe, table, y, 12 if kind == "softmax" else 4)
    refits, cells, whole = Refits(pipe, table, y), leak.per_cell(), leak.per_example(NAMES)
    for row in dict.fromkeys(tied_rows(table) if kind == "ridge" else tied_rows(table)[:3]):
        sides = refits.sides(row)
        np.testing.assert_allclose(cells[row], np.linalg.norm(sides, axis=1).max(axis=0), rtol=2e-3)
        together = largest(sides)
        assert whole[row] >= together * (1 - 2e-3)
        assert whole[row] <= together * 1.42


@pytest.mark.parametrize("scaler", SCALERS)
@pytest.mark.parametrize("frame", ["0/1", "many ties"])
def test_sets_are_never_too_low(scaler: str, frame: str) -> None:
    (model, y), table = MODELS["ridge"], FRAMES[frame]
    pipe = make_pipeline(SCALERS[scaler], model)
    leak, refits, rng = measured(pipe, table, y, 4), Refits(pipe, FRAMES[frame], y), np.random.default_rng(1)
    everyone = list(range(N))
    sets = [[0, 1], [N // 2, N // 2 + 1, N - 1], list(range(N // 2)), everyone]
    for rows in sets:
        eta, most = leak.of(rows, NAMES), 0.0
        for k in range(60):
            move = rng.normal(size=(len(rows), 3)) * ([1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1])[k % 4]
            move = np.abs(move) if k % 3 == 0 else -np.abs(move) if k % 3 == 1 else move
            if k > 20:
                move = np.sign(move)
            most = max(most, float(np.linalg.norm(refits.along(rows, move)) / np.linalg.norm(move)))
        assert eta >= most * (1 - 1e-3)
        # a set is never below what its rows alone are
        assert eta >= leak.per_example(NAMES)[rows].max() * (1 - 1e-9)
    for k in range(3):
        for way in (1.0, -1.0):
            # all of a column, along what refits say of each of its values: the steepest way
            slopes = np.array([refits.sides(row)[0 if way > 0 else 1][:, k] for row in everyone])
            move = np.zeros((N, 3))
            move[:, k] = np.linalg.svd(slopes)[0][:, 0] * way
            assert leak.per_attribute()[k] >= np.linalg.norm(refits.along(everyone, move)) * (1 - 1e-3)


@pytest.mark.parametrize("shape", ["isotropic", "hessian", "least-loss"])
@pytest.mark.parametrize("scaler", ["robust", "min-max"])
def test_calibrated_noise_keeps_its_limit(scaler: str, shape: str) -> None:
    model, y = MODELS["ridge"]
    pipe = make_pipeline(SCALERS[scaler], model)
    leak, refits = fl.measure(clone(pipe).fit(BINARY, y), BINARY, y, public="nothing"), Refits(pipe, BINARY, y)
    leak = leak.with_noise(fl.Gaussian(1.0, np.eye(4)))
    rows = [0, 1, 2, N // 2, N - 2, N - 1, *np.argsort(-leak.per_cell()[:, 2])[:4].tolist()]
    for attributes in (["d"], None):
        asked = None if shape == "isotropic" else shape
        noise: Any = fl.calibrate(leak, eta=0.05, attributes=attributes, shape=asked)
        W = noise.unit_information_root(4)
        W = (np.eye(4) if W is None else W) / noise.scale
        columns = [2] if attributes else [0, 1, 2]
        worst = max(largest(W @ refits.sides(row)[:, :, columns]) for row in rows)
        assert worst <= 0.05 * (1 + 1e-3)


@pytest.mark.parametrize("frame", ["0/1", "many ties"])
def test_people_and_compositions_are_never_too_low(frame: str) -> None:
    (model, y), table = MODELS["ridge"], FRAMES[frame]
    pipes = [make_pipeline(SCALERS[scaler], model) for scaler in ("robust", "min-max")]
    person, rng = np.arange(N) // 2, np.random.default_rng(2)
    leak, own = measured(pipes[0], table, y, 4, person=person), measured(pipes[0], table, y, 4)
    refits = [Refits(pipe, table, y) for pipe in pipes]
    both = fl.compose(own, measured(pipes[1], table, y, 4))
    whole, columns = leak.per_example(NAMES), leak.per_cell()
    assert leak.dataset() >= own.dataset() * (1 - 1e-9)
    assert (leak.per_attribute() >= own.per_attribute() * (1 - 1e-9)).all()
    for who in (0, N // 4, N // 2 - 1):
        rows = np.flatnonzero(person == who).tolist()
        for k in range(3):
            for way in (1.0, -1.0):
                move = np.zeros((2, 3))
                move[:, k] = (
                    way  # one value of the person, where both rows have it, and two moved alike where they have not
                )
                same = table.loc[rows, NAMES[k]].nunique() == 1
                found = np.linalg.norm(refits[0].along(rows, move)) / (1.0 if same else 2**0.5)
                assert columns[who, k] >= found * (1 - 1e-3)
                assert whole[who] >= found * (1 - 1e-3)
        sides = [each.sides(rows[0]) for each in refits]
        together = np.concatenate(sides, axis=1)
        assert both.per_example(NAMES)[rows[0]] >= largest(together) * (1 - 2e-3)
        np.testing.assert_allclose(both.per_cell()[rows[0]], np.linalg.norm(together, axis=1).max(axis=0), rtol=2e-3)
    move = rng.normal(size=(N, 3))
    assert leak.dataset() >= np.linalg.norm(refits[0].along(list(range(N)), move)) / np.linalg.norm(move)


@pytest.mark.parametrize("strategy", ["mean", "median"])
@pytest.mark.parametrize("scaler", ["passthrough", "standard", "robust", "min-max", "max-abs"])
def test_filled_values_at_ties(strategy: str, scaler: str) -> None:
    table: Any = TIED.copy()
    table.loc[[1, 5, 9, 30], "a"] = np.nan
    table.loc[[2, 5, 22, 25, 31], "d"] = np.nan
    model, y = MODELS["ridge"]
    chosen = pre.StandardScaler() if scaler == "standard" else SCALERS.get(scaler, scaler)
    pipe = make_pipeline(SimpleImputer(strategy=strategy), chosen, model)
    leak = measured(pipe, table, y, 7)
    folding: Any = leak._information.jacobians[0].folding
    centres = clone(pipe).fit(table, y)[0].statistics_ - folding.filling.offsets
    refits, cells, whole = Refits(pipe, table, y, centres), leak.per_cell(), leak.per_example(NAMES)
    for row in (0, 1, 5, 11, N // 2, N - 1):
        there = ~table.loc[row, NAMES].isna().to_numpy()
        sides = refits.sides(row)
        np.testing.assert_allclose(cells[row][there], np.linalg.norm(sides, axis=1).max(axis=0), rtol=2e-3)
        assert whole[row] >= largest(sides) * (1 - 2e-3)
    eta, rng = leak.dataset(), np.random.default_rng(3)
    for _ in range(10):
        move = np.where(table[NAMES].isna(), 0.0, np.sign(rng.normal(size=(N, 3))))
        assert eta >= np.linalg.norm(refits.along(list(range(N)), move)) / np.linalg.norm(move)


def test_the_matrix_of_tied_values_is_refused_and_of_others_it_is_not() -> None:
    model, y = MODELS["ridge"]
    leak = measured(make_pipeline(pre.RobustScaler(), model), BINARY, y, 4)
    with pytest.raises(fl.InvalidInputError, match="no single matrix: ask for etas"):
        leak.fim(rows=[0])
    F = leak.fim(rows=[0], attributes=["b"])
    assert F[0, 0] ** 0.5 == pytest.approx(leak.per_cell()[0, 1], rel=1e-9)


def test_a_range_of_zero_is_called_that() -> None:
    table = BINARY.assign(d=(np.arange(N) % 18 == 0) * 1.0)
    model, y = MODELS["ridge"]
    fitted = make_pipeline(pre.RobustScaler(), model).fit(table, y)
    with pytest.raises(fl.InvalidInputError, match="no scale for d: the quantiles that it takes are equal"):
        fl.measure(fitted, table, y, public="nothing")

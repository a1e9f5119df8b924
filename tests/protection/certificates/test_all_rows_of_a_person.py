"""Any records in all rows of a person at once: no refit is above the bound, and copies of one record come near it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from fisherleak.engine.changes.remade_covariance import linear_part
from fisherleak.engine.noise import Gaussian
from fisherleak.engine.noise.calibration_record import calibration_of
from fisherleak.engine.norms import one_release
from fisherleak.errors import InvalidInputError
from fisherleak.protection.certificates.data_dependent_covariance import own_shape
from fisherleak.protection.certificates.declared_bounds import allowed_records
from fisherleak.protection.certificates.exchange import exchange_in
from fisherleak.protection.certificates.least_loss_for_any_record import evenly_weighted, shape_for_anyone
from fisherleak.protection.certificates.worst_record import NoUsefulBoundError, certified, worst_record

Vector = NDArray[np.float64]
Measure = Callable[[Vector, Vector], fl.Leakage]
BOX = {f"x{j}": (-1.5, 1.5) for j in range(3)}
LABELS: dict[str, tuple[float, float]] = {
    "squared": (-4.0, 4.0),
    "pseudo_huber": (-4.0, 4.0),
    "poisson": (0.0, 6.0),
    "gamma": (0.2, 5.0),
}
SIZES = {"squared": 90, "logistic": 500, "poisson": 3000, "gamma": 6000, "pseudo_huber": 600, "softmax": 400}
SLOW = ("gamma", "poisson", "pseudo_huber")
LOSSES = [pytest.param(name, marks=[pytest.mark.long] * (name in SLOW)) for name in (*fl.LOSSES, "softmax")]


def problem(loss: str, n: int, seed: int = 0) -> tuple[Vector, Vector, dict[str, Any]]:
    """Rows in a box, labels and these bounds."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, (n, 3))
    z = X @ np.array([0.7, -0.4, 0.2])
    made: dict[str, Any] = {
        "squared": z + rng.normal(size=n),
        "pseudo_huber": z + rng.normal(size=n),
        "logistic": z + rng.logistic(size=n) > 0,
        "poisson": rng.poisson(np.exp(0.5 * z)),
        "gamma": rng.gamma(2.0, np.exp(0.5 * z) / 2.0),
        "softmax": np.argmax(X + rng.gumbel(size=(n, 3)), axis=1),
    }
    y = np.asarray(made[loss], dtype=np.float64)
    own = LABELS.get(loss)
    return X, y if own is None else np.clip(y, *own), BOX | ({} if own is None else {"label": own})


def measured(loss: str, l2: float = 0.2) -> Measure:
    return lambda X, y: fl.measure(fl.minimise(X, y, loss=loss, l2=l2, intercept=True), X, y)


def scaled(estimator: Any) -> Measure:
    def measure(X: Vector, y: Vector) -> fl.Leakage:
        return fl.measure(make_pipeline(StandardScaler(), estimator).fit(X, y), X, y, public="nothing")

    return measure


def with_people(
    X: Vector, y: Vector, count: int, labels: Vector, seed: int, copies: bool
) -> tuple[Vector, Vector, Any]:
    """The table with records at corners in rows of one person, whichever, the same in all or not; and whose rows are whose."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(y), count, replace=False)
    X, y = X.copy(), y.copy()
    records = 1 if copies else count
    X[rows], y[rows] = rng.choice([-1.5, 1.5], (records, X.shape[1])), rng.choice(labels, records)
    who = np.arange(len(y)) + 1
    who[rows] = 0
    return X, y, who


def largest_of_refits(measure: Measure, X: Vector, y: Vector, bounds: dict[str, Any], count: int) -> float:
    """The largest eta of a person whose rows have any records, each in its own fit."""
    leak = measure(X, y)
    labels = allowed_records(one_release(leak._information), leak._table, bounds).labels
    found = 0.0
    for seed in range(8):
        table, then, who = with_people(X, y, count, labels, seed, copies=seed % 2 == 0)
        found = max(found, measure(table, then).by_person(who)[0])
    return found


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_person_is_above_the_bound(loss: str, count: int) -> None:
    X, y, bounds = problem(loss, SIZES[loss])
    measure = measured(loss)
    worst = worst_record(exchange_in(measure(X, y), bounds, count=count))
    found = largest_of_refits(measure, X, y, bounds, count)
    assert found <= worst.upper
    assert worst.lower <= worst.upper
    assert worst.upper > certified(exchange_in(measure(X, y), bounds)).upper


@pytest.mark.long
@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_with_many_rows_the_bound_is_near_a_person_of_copies(loss: str) -> None:
    X, y, bounds = problem(loss, 4000)
    worst = worst_record(exchange_in(measured(loss)(X, y), bounds, count=5))
    assert worst.upper < (2.5 if loss == "softmax" else 1.4) * worst.lower


ESTIMATORS: dict[str, Any] = {
    "squared": Ridge(alpha=300.0),
    "logistic": LogisticRegression(C=0.02, solver="newton-cholesky", tol=1e-10),
}


@pytest.mark.parametrize("loss", list(ESTIMATORS))
def test_no_person_is_above_the_bound_where_scales_are_counted(loss: str) -> None:
    X, y, bounds = problem(loss, 1500)
    measure = scaled(ESTIMATORS[loss])
    worst = worst_record(exchange_in(measure(X, y), bounds, count=3))
    assert largest_of_refits(measure, X, y, bounds, 3) <= worst.upper < 4 * worst.lower


@pytest.mark.long
def test_classes_with_scales_that_are_counted() -> None:
    X, y, bounds = problem("softmax", 800)
    measure = scaled(LogisticRegression(C=0.02, solver="newton-cholesky", tol=1e-10))
    above = certified(exchange_in(measure(X, y), bounds, count=3)).upper
    assert np.isfinite(above)
    assert largest_of_refits(measure, X, y, bounds, 3) <= above


def shapes(name: str, own: fl.Leakage, bounds: dict[str, Any]) -> Callable[[fl.Leakage], Gaussian]:
    """The covariance that the rows of a table have, anew."""
    first = own._information.jacobians[0]
    N = evenly_weighted(first, allowed_records(first, own._table, bounds))

    def shape(leak: fl.Leakage) -> Gaussian:
        jacobian = leak._information.jacobians[0]
        return own_shape(jacobian) if name == "hessian" else shape_for_anyone(linear_part(jacobian), N)

    return shape


def both_terms(
    measure: Measure, shape: Callable[[fl.Leakage], Gaussian], X: Vector, y: Vector, rows: Any, scale: float
) -> float:
    """Eta of one record that stands in several rows, by the mean and by the covariance, from differences of refits alone."""

    def fitted(move: Vector) -> tuple[Vector, Vector]:
        table, labels = X.copy(), y.copy()
        table[rows] += move[:-1]
        labels[rows] += move[-1]
        leak = measure(table, labels)
        return np.asarray(leak.fits[0].theta), np.asarray(shape(leak).shape)

    step, directions = 1e-4, np.eye(X.shape[1] + 1)
    S = np.linalg.inv(fitted(np.zeros(X.shape[1] + 1))[1])
    moved = [(fitted(step * unit), fitted(-step * unit)) for unit in directions]
    W = np.stack([(up[0] - down[0]) / (2 * step) for up, down in moved])
    D = np.stack([S @ (up[1] - down[1]) / (2 * step) for up, down in moved])
    F = W @ S @ W.T / scale**2 + 0.5 * np.einsum("aij,bji->ab", D, D)
    return float(np.sqrt(np.linalg.eigvalsh(F)[-1]))


@pytest.mark.long
@pytest.mark.parametrize("shape", ["hessian", "least-loss"])
@pytest.mark.parametrize("folds", [False, True])
def test_both_terms_of_a_person_stay_below_the_limit(shape: str, folds: bool) -> None:
    X, y, bounds = problem("squared", 600)
    measure = scaled(Ridge(alpha=120.0)) if folds else measured("squared")
    who = np.arange(len(y)) // 3
    noise: Any = fl.calibrate(
        *(measure(X, y), 2.0, "any-record"), bounds=bounds, shape=shape, person=who, rows_per_person=3
    )
    found, by_rows = 0.0, shapes(shape, measure(X, y), bounds)
    for seed in range(4):
        table, then, whose = with_people(X, y, 3, np.array([-4.0, 4.0]), seed, copies=True)
        rows = np.flatnonzero(whose == 0)
        found = max(found, both_terms(measure, by_rows, table, then, rows, noise.scale))
    assert 2.0 / 8 < found <= 2.0


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_no_exchange_of_all_rows_moves_the_parameters_farther_than_the_limit_says(loss: str) -> None:
    X, y, bounds = problem(loss, 500)
    who, eta, measure = np.arange(len(y)) // 4, 0.5, measured(loss)
    own = measure(X, y)
    noise = fl.calibrate(own, eta, "any-record", bounds=bounds, person=who, rows_per_person=4)
    largest = 0.0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows, table = np.flatnonzero(who == rng.integers(who.max())), X.copy()
        table[rows] = rng.choice([-1.5, 1.5], X.shape[1])
        moved = np.asarray(measure(table, y).fits[0].theta) - np.asarray(own.fits[0].theta)
        # every table on the straight way there has records within the bounds in these rows
        largest = max(largest, float(np.linalg.norm(moved) / noise.scale / np.linalg.norm(table - X)))
    assert eta / 20 < largest <= eta


def test_one_row_for_a_person_is_the_bound_for_a_row() -> None:
    X, y, bounds = problem("logistic", 500)
    leak, who = measured("logistic")(X, y), np.arange(500)
    alone = fl.calibrate(leak, 1.0, "any-record", bounds=bounds, random_state=0)
    one = fl.calibrate(leak, 1.0, "any-record", bounds=bounds, person=who, rows_per_person=1, random_state=0)
    assert one == alone
    told = calibration_of(one)
    assert told is not None
    assert "rows_per_person" not in told.record()


def test_noise_says_how_many_rows_it_is_for() -> None:
    X, y, bounds = problem("squared", 500)
    leak, who = measured("squared")(X, y), np.arange(500) // 3
    noise = fl.calibrate(leak, 1.0, "any-record", bounds=bounds, person=who, rows_per_person=4)
    told = calibration_of(noise)
    assert told is not None
    assert told.record()["rows_per_person"] == 4
    assert told.probability == 1.0
    assert type(told).from_record(told.record()).rows_per_person == 4


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"person": np.arange(500) // 5, "rows_per_person": 3}, "is 3, and 100 people have more rows, 5 at most"),
    ({"person": [0] * 4 + [*range(1, 497)], "rows_per_person": 3}, "is 3, and 1 person has more rows, 4 at most"),
    ({"person": np.arange(500), "rows_per_person": 0}, "rows_per_person must be a whole number, 1 or more; got 0"),
    ({"person": np.arange(500), "rows_per_person": 2.5}, "rows_per_person must be a whole number"),
    ({"person": np.arange(500)}, "person and rows_per_person go together"),
    ({"rows_per_person": 3}, "person and rows_per_person go together"),
    ({"person": np.arange(500), "rows_per_person": 3, "over": "max", "bounds": None}, "use over='person' with groups="),
    ({"person": np.arange(499), "rows_per_person": 3}, "one label for each of the 500 rows"),
]


@pytest.mark.parametrize(("given", "words"), REFUSED)
def test_what_does_not_go_together_is_refused_by_name(given: dict[str, Any], words: str) -> None:
    X, y, bounds = problem("squared", 500)
    options: dict[str, Any] = {"over": "any-record", "bounds": bounds} | given
    with pytest.raises(InvalidInputError, match=words):
        fl.calibrate(measured("squared")(X, y), 1.0, **options)


def test_too_many_rows_for_so_few_people_are_refused_and_fewer_are_not() -> None:
    X, y, bounds = problem("poisson", 300)
    leak, who = measured("poisson")(X, y), np.arange(300)
    with pytest.raises(NoUsefulBoundError, match=r"a person with 40 rows.*fewer rows per person"):
        fl.calibrate(leak, 1.0, "any-record", bounds=bounds, person=who, rows_per_person=40)
    assert fl.calibrate(leak, 1.0, "any-record", bounds=bounds, person=who, rows_per_person=1).scale > 0

"""The penalty and the shape that nobody gave: by public numbers, said on the card, and never in place of one that was given."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

pytest.importorskip("pandas")
pytest.importorskip("skops")

import pandas

from fisherleak.auditing.confirmations import confirm
from fisherleak.auditing.records import Plan
from fisherleak.auditing.run import audit_trained
from fisherleak.engine.noise import Gaussian
from fisherleak.engine.noise.calibration_record import Calibration
from fisherleak.errors import InvalidInputError
from fisherleak.protection.release.penalty_and_shape import (
    NO_SHAPE,
    NOT_GIVEN,
    PENALTIES,
    PublicNumbers,
    PublicPenalty,
    PublicShape,
    shrinkage_cost,
)
from fisherleak.protection.release.procedure import PUBLIC_NUMBERS, ReleaseRequest, make_release
from fisherleak.releasing.any_record_noise import AnyRecordLimit, public_numbers
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings, train

pytestmark = pytest.mark.usefixtures("quick_audits")
BOUNDS = {"age": (0.0, 100.0), "bmi": (10.0, 50.0)}


def people(n: int = 1500, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame({"age": rng.integers(18, 90, n), "bmi": rng.normal(26, 4, n).clip(15, 45)})
    frame["score"] = (frame.age / 20 + 0.1 * frame.bmi + rng.normal(0, 1, n)).clip(-3, 15)
    return frame


@pytest.mark.parametrize(("eta", "shape"), [(0.5, "least-loss"), (0.003, "isotropic")])
def test_a_small_limit_is_kept_by_a_shape_that_can(tmp_path: Path, eta: float, shape: str) -> None:
    bounds: Any = BOUNDS | {"score": (-3.0, 15.0)}
    frame, path = people(), tmp_path / "m.skops"
    given: Any = {"eta": eta, "bounds": bounds, "choose_l2": True, "random_state": 0}
    card, _ = save_model(from_frame(frame), Settings("score", held_out=0.0), path, **given)
    assert card["shape"]["name"] == shape
    (said,) = [each for each in card["assumptions"] if each.startswith(NO_SHAPE)]
    assert ("has that of the inverse Hessian" in said) == (shape == "hessian")
    assert ("has that of least loss by the rows" in said) == (shape == "least-loss")
    saved = load_model(path)
    trained = retrain(saved, from_frame(frame))
    plan = Plan(noise=saved.noise_on(trained), attacks=False, draws=3, quick=True)
    assert confirm(saved, audit_trained(trained, saved.settings, plan)).failed is None
    if shape == "isotropic":  # what was asked for is never overridden
        with pytest.raises(InvalidInputError, match="cannot be certified with `shape='hessian'`"):
            save_model(from_frame(frame), Settings("score"), path, shape="hessian", overwrite=True, **given)


def test_no_value_of_the_rows_decides() -> None:
    """Rows that go together otherwise, in columns of the same scales and bounds, have another Hessian and the same shape."""
    frame, found = people(), set()
    for order in (np.arange(len(frame)), np.argsort(frame.age.to_numpy())):
        other = frame.assign(bmi=np.sort(frame.bmi)[np.argsort(order)])
        trained = train(from_frame(other), Settings("score", held_out=0.0))
        found.add(
            (
                public_numbers(trained, AnyRecordLimit(0.02, bounds=BOUNDS)).shape(trained.l2).words(),
                round(trained.fit.condition, 3),
            )
        )
    assert len(found) == 2
    assert len({words for words, _ in found}) == 1


def test_the_rule() -> None:
    def named(rows: int = 1000, limit: float = 0.5, penalty: float = 0.1, **given: Any) -> str:
        return PublicShape(10, rows, limit, 5.0, 6.0, penalty, **given).shape

    assert named() == "hessian"
    assert named(possible=False) == named(rows=499, limit=9.0, earlier=True) == named(limit=0.04) == "isotropic"
    assert named(rows=499, limit=9.0) == "hessian"
    assert named(limit=0.04, penalty=1.0) == named(limit=0.04, rows=3000) == "hessian"
    assert named(squared=True) == named(squared=True, limit=0.05) == "least-loss"
    assert named(squared=True, limit=0.04) == "isotropic"
    # 0.044 is more than a quarter of it, which 0.1.0 asked for
    assert named(squared=True, limit=0.17, earlier=True) == "hessian"
    assert named(squared=True, limit=0.18, earlier=True) == "least-loss"
    assert PublicShape(10, 1000, 0.5, 5.0, 6.0, 0.1).tells == pytest.approx(2**0.5 * (6 + 5 / 0.2) / 1000)


def test_penalties_lie_between_two_ends() -> None:
    assert PublicPenalty(86, 30_000, 0.5, 26.9).l2 == 0.017
    assert PublicPenalty(86, 30_000, 50.0, 26.9).l2 == PENALTIES[0]
    assert PublicPenalty(86, 100, 0.05, 26.9).l2 == PENALTIES[-1]


def test_each_penalty_that_is_compared_is_three_times_the_one_before() -> None:
    first = PublicPenalty(11, 330, 1.0, 19.0)
    assert [each.l2 for each in first.compared()] == [0.19, 0.57, 1.7, 5.1, 10.0]
    assert first.reaching(1.7) == replace(first, raised=2)
    assert first.reaching(0.5) is None
    assert [each.l2 for each in PublicPenalty(15, 150, 0.5, 6.58, 3).compared()] == [1.7]
    assert "8.95 times 0.19, which is sqrt(p) R / (n eta)" in replace(first, raised=2).words()


def test_what_a_penalty_costs_is_more_where_columns_tell_each_other() -> None:
    assert shrinkage_cost(0.0) == 0.0
    assert shrinkage_cost(1.0) == pytest.approx(0.8 * 0.25 + 0.2 * (1.0 / 1.1) ** 2)
    assert 0.05 < shrinkage_cost(0.1) < 0.06  # 0.008 where all columns vary alike
    assert 0.999 < shrinkage_cost(1e5) < 1.0


@pytest.mark.parametrize(
    ("squared", "scale", "useless"), [(True, 0.9, False), (True, 2.0, True), (False, 0.1, False), (False, 0.15, True)]
)
def test_noise_is_useless_where_it_costs_what_the_model_would_learn(squared: bool, scale: float, useless: bool) -> None:
    """Of a number all that it varies by; of classes what the penalty leaves of predictions that vary by two."""
    curvature, varies = (1.0, 1.0) if squared else (0.25, 4.0)
    known = PublicNumbers(3, 100, 1.0, 0.3, 5.0, 0.0, 1.0, varies, curvature, squared)
    l2 = 0.01 if squared else 10.0 * curvature  # of classes 1/11 of them is left: a deviation of 0.13
    assert known.is_useless(scale, "isotropic", l2) == useless
    assert known.cost(scale, "isotropic", l2) == pytest.approx(scale**2 / varies + known.penalty_cost(l2))


@dataclass(frozen=True)
class Step:
    """A fit whose noise has a scale and a cost that are known."""

    l2: float
    costs: dict[float, float]
    seen: list[tuple[float, Any]]

    def calibrated(self, request: ReleaseRequest, shape: Any) -> Any:
        self.seen.append((self.l2, request.random_state))
        if self.costs[self.l2] == math.inf:
            raise InvalidInputError("No bound holds.")
        return Gaussian(self.costs[self.l2], calibrated=Calibration("any-record", 1.0, probability=0.3))

    def predicted_cost(self, request: ReleaseRequest, noise: Any, shape: Any) -> float:
        return float(noise.scale)

    def penalty_cost(self, request: ReleaseRequest, penalty: PublicPenalty) -> float:
        return penalty.l2 / 10

    def public_penalty(self, request: ReleaseRequest) -> PublicPenalty:
        return PublicPenalty(11, 330, 1.0, 19.0)

    def public_shape(self, request: ReleaseRequest) -> None:
        return None

    def acted_on(self, noise: Any) -> Any:
        return np.zeros(2), None

    def built(self, noisy: Any, noise: Any) -> Any:
        return noisy


@pytest.mark.parametrize(
    ("costs", "taken", "tried"),
    [
        ((0.2, 0.5, 0.1, 0.1, 0.1), 0.19, (0.19, 0.57)),  # the first whose next is no better
        ((0.6, 0.5, 0.4, 0.9, 0.1), 1.7, (0.19, 0.57, 1.7)),  # beyond, the penalty alone costs more
        ((math.inf, math.inf, 0.9, 0.95, 0.1), 1.7, (0.19, 0.57, 1.7, 5.1)),  # refusals are passed by
        ((0.05, 0.01, 0.01, 0.01, 0.01), 0.19, (0.19,)),
    ],
)
def test_the_penalty_of_the_least_predicted_cost_is_taken(costs: Any, taken: float, tried: Any) -> None:
    known = dict(zip((0.19, 0.57, 1.7, 5.1, 10.0), costs, strict=True))
    seen: list[tuple[float, Any]] = []
    request = ReleaseRequest(1.0, strategy=PUBLIC_NUMBERS.name, penalty_given=False, carded=True)
    start = Step(0.0, known, seen)
    made = make_release(lambda penalty: replace(start, l2=penalty.l2), request, read=start)
    assert made.fitted.l2 == taken
    assert tuple(l2 for l2, _ in seen) == tried
    assert len({offset for _, offset in seen}) == 1  # one grid for all
    assert seen[0][1] is not None
    told = made.noise.calibrated.probability
    assert told == (1.0 if math.inf in costs else min(1.0, round(0.3 * len(tried), 2)))


@dataclass(frozen=True)
class Shaped(Step):
    """One of the squared loss, with the covariances that keep its limit."""

    kept: tuple[str, ...] = ()

    def calibrated(self, request: ReleaseRequest, shape: Any) -> Any:
        if shape not in self.kept:
            raise InvalidInputError(f"No bound holds with {shape}.")
        return super().calibrated(request, shape)

    def public_shape(self, request: ReleaseRequest) -> Any:
        return PublicShape(11, 330, 1.0, 5.0, 6.0, self.l2, squared=True)


def test_least_loss_that_is_predicted_to_cost_more_is_left() -> None:
    """Near the limit its scale grows past what its covariance saves."""
    known = PublicNumbers(10, 1000, 1.0, 0.3, 5.0, 0.0, 1.0, 1.0, 1.0, squared=True)
    assert known.cost(2.9, "least-loss", 1.0) < known.cost(1.0, "hessian", 1.0) < known.cost(3.1, "least-loss", 1.0)

    class Dear(Shaped):
        def predicted_cost(self, request: ReleaseRequest, noise: Any, shape: Any) -> float:
            return 1.1 if shape == "least-loss" else 1.0

    request = ReleaseRequest(1.0, strategy=PUBLIC_NUMBERS.name, carded=True)
    start = Dear(0.0, {0.0: 0.1}, [], ("least-loss", "hessian"))
    made = make_release(lambda each: start, request, read=start)
    assert made.shape == "hessian"
    assert made.noise.calibrated.probability == 0.6  # one row can change either scale


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(
    ("kept", "taken"),
    [
        (("least-loss", "hessian", "isotropic"), "least-loss"),
        (("hessian", "isotropic"), "hessian"),
        (("isotropic",), "isotropic"),
    ],
)
def test_the_covariance_that_costs_least_of_those_that_keep_the_limit(
    kept: tuple[str, ...], taken: str, given: bool
) -> None:
    """At whichever penalty is taken: the cheapest is not that of the first alone."""
    known = dict(zip((0.19, 0.57, 1.7, 5.1, 10.0), (0.6, 0.5, 0.4, 0.9, 0.1), strict=True)) | {0.0: 0.1}
    request = ReleaseRequest(1.0, strategy=PUBLIC_NUMBERS.name, penalty_given=given, carded=True)
    start = Shaped(0.0, known, [], kept)
    made = make_release(lambda each: start if each is None else replace(start, l2=each.l2), request, read=start)
    assert (made.shape, made.fitted.l2) == (taken, 0.0 if given else 1.7)
    assert (made.noise.calibrated.probability == 1.0) == (taken != "least-loss" or not given)


def test_where_every_penalty_is_refused_so_is_the_release() -> None:
    start = Step(0.0, dict.fromkeys((0.19, 0.57, 1.7, 5.1, 10.0), math.inf), [])
    request = ReleaseRequest(1.0, strategy=PUBLIC_NUMBERS.name, penalty_given=False, carded=True)
    with pytest.raises(InvalidInputError, match="No bound holds"):
        make_release(lambda penalty: replace(start, l2=penalty.l2), request, read=start)


@pytest.mark.long
def test_a_few_hundred_rows_keep_a_useful_model(tmp_path: Path) -> None:
    """442 rows and ten columns: with the rule of 0.1.0 R² was below -2."""
    frame = load_diabetes(as_frame=True, scaled=False).frame
    ends = {name: outwards(float(frame[name].min()), float(frame[name].max())) for name in frame}
    path = tmp_path / "m.skops"
    given: Any = {"eta": 1.0, "bounds": ends, "choose_l2": True, "random_state": 0}
    card, cost = save_model(from_frame(frame), Settings("target", held_out=0.25), path, **given)
    assert card["shape"]["name"] == "least-loss"
    assert cost.points[0].utility > 0.25
    assert len([each for each in card["assumptions"] if each.startswith(NOT_GIVEN)]) == 1
    saved = load_model(path)
    trained = retrain(saved, from_frame(frame))
    plan = Plan(noise=saved.noise_on(trained), attacks=False, draws=3, quick=True)
    assert confirm(saved, audit_trained(trained, saved.settings, plan)).failed is None


def outwards(low: float, high: float) -> tuple[float, float]:
    """A range with room on both sides."""
    room = 0.1 * (high - low)
    return low - room, high + room


def test_of_several_classes_noise_costs_by_the_square_of_the_penalty() -> None:
    """Iris, wine and digits; between the same ends; the least of the two costs is there."""
    sizes = ((15, 150, 6.58, 3), (42, 180, 14.9, 3), (570, 1800, 68.2, 10))
    assert [PublicPenalty(p, n, 0.5, R, K).l2 for p, n, R, K in sizes] == [1.7, 3.7, 3.5]
    assert PublicPenalty(15, 10**6, 1.0, 6.58, 3).l2 == PENALTIES[0]
    assert PublicPenalty(570, 1800, 0.01, 68.2, 10).l2 == PENALTIES[-1]
    p, n, R, K = sizes[1]

    def cost(l2: float) -> float:
        return p * R**2 / (2 * K * (n * l2 * 0.5) ** 2) + l2 * 0.125**2 / 2

    assert cost(3.7) < min(cost(3.5), cost(3.9))

"""The penalty and the shape that nobody gave: by public numbers, said on the card, and never in place of one that was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("skops")

import pandas

from fisherleak.auditing.confirmations import confirm
from fisherleak.auditing.records import Plan
from fisherleak.auditing.run import audit_trained
from fisherleak.errors import InvalidInputError
from fisherleak.protection.release.penalty_and_shape import NO_SHAPE, PENALTIES, PublicPenalty, PublicShape
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.releasing.noise.any_record_noise import public_shape
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings, train

pytestmark = pytest.mark.usefixtures("quick_audits")
BOUNDS = {"age": (0.0, 100.0), "bmi": (10.0, 50.0)}


def people(n: int = 1500, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame({"age": rng.integers(18, 90, n), "bmi": rng.normal(26, 4, n).clip(15, 45)})
    frame["score"] = (frame.age / 20 + 0.1 * frame.bmi + rng.normal(0, 1, n)).clip(-3, 15)
    return frame


@pytest.mark.parametrize(("eta", "shape"), [(2.0, "least-loss"), (0.5, "hessian"), (0.003, "isotropic")])
def test_a_small_limit_is_kept_by_a_shape_that_can(tmp_path: Path, eta: float, shape: str) -> None:
    bounds: Any = BOUNDS | {"score": (-3.0, 15.0)}
    frame, path = people(), tmp_path / "m.skops"
    given: Any = {"eta": eta, "bounds": bounds, "choose_l2": True, "random_state": 0}
    card, _ = save_model(from_frame(frame), Settings("score", held_out=0.0), path, **given)
    assert card["shape"]["name"] == shape
    (said,) = [each for each in card["assumptions"] if each.startswith(NO_SHAPE)]
    assert ("has that of the rows' own inverse Hessian" in said) == (shape == "hessian")
    assert ("has that of least loss by the rows" in said) == (shape == "least-loss")
    saved = load_model(path)
    trained = retrain(saved, from_frame(frame))
    plan = Plan(noise=saved.noise_on(trained), attacks=False, draws=3, quick=True)
    assert confirm(saved, audit_trained(trained, saved.settings, plan)).failed is None
    if shape == "isotropic":  # what was asked for is never overridden
        with pytest.raises(InvalidInputError, match="cannot be kept with `shape='hessian'`"):
            save_model(from_frame(frame), Settings("score"), path, shape="hessian", overwrite=True, **given)


def test_no_value_of_the_rows_decides() -> None:
    """Rows that go together otherwise, in columns of the same scales and bounds, have another Hessian and the same shape."""
    frame, found = people(), set()
    for order in (np.arange(len(frame)), np.argsort(frame.age.to_numpy())):
        other = frame.assign(bmi=np.sort(frame.bmi)[np.argsort(order)])
        trained = train(from_frame(other), Settings("score", held_out=0.0))
        found.add((public_shape(trained, 1500, 0.02, None, BOUNDS).words(), round(trained.fit.condition, 3)))
    assert len(found) == 2
    assert len({words for words, _ in found}) == 1


def test_the_rule() -> None:
    def named(rows: int = 1000, limit: float = 0.5, penalty: float = 0.1, **given: Any) -> str:
        return PublicShape(10, rows, limit, 5.0, 6.0, penalty, **given).shape

    assert named() == "hessian"
    assert named(possible=False) == named(rows=499, limit=9.0) == named(limit=0.04) == "isotropic"
    assert named(limit=0.04, penalty=1.0) == named(limit=0.04, rows=3000) == "hessian"
    assert named(squared=True) == "least-loss"
    assert named(squared=True, limit=0.17) == "hessian"  # 0.044 is more than a quarter of it
    assert PublicShape(10, 1000, 0.5, 5.0, 6.0, 0.1).tells == pytest.approx(2**0.5 * (6 + 5 / 0.2) / 1000)


def test_penalties_lie_between_two_ends() -> None:
    assert PublicPenalty(86, 30_000, 0.5, 26.9).l2 == 0.017
    assert PublicPenalty(86, 30_000, 50.0, 26.9).l2 == PENALTIES[0]
    assert PublicPenalty(86, 100, 0.05, 26.9).l2 == PENALTIES[-1]


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

"""One procedure behind every release: what it decides, in which order, and the frame where noise acts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import fisherleak as fl
from cases import make
from fisherleak.protection.release import procedure
from fisherleak.protection.release.penalty_and_shape import PublicShape
from fisherleak.protection.release.procedure import STRATEGIES, NoiseFrame, ReleaseRequest, make_release

CASE = make("squared", 0, n=60, d=2)
X, Y = np.clip(CASE.X, -3, 3), np.clip(CASE.y, -4, 4)


class Known:
    """A fit whose parameters are known, and all that the procedure asks of it."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def calibrated(self, request: ReleaseRequest, shape: Any) -> fl.Noise:
        self.asked.append(("calibrated", request.eta, shape))
        return fl.Gaussian(0.5)

    def acted_on(self, noise: Any) -> tuple[np.ndarray, None]:
        self.asked.append("acted_on")
        return np.array([1.0, 2.0]), None

    def built(self, noisy: np.ndarray, noise: Any) -> Any:
        self.asked.append("built")
        return noisy.tolist()

    def public_penalty(self, request: ReleaseRequest) -> Any:
        return Decided(penalty=3.0)

    def public_shape(self, request: ReleaseRequest) -> Any:
        return PublicShape(1, 1000, 1.0, 1.0, 0.0, 0.1)  # the inverse Hessian


class Decided:
    """What a rule decides."""

    def __init__(self, penalty: float = 1.0, shape: str = "isotropic") -> None:
        self.penalty, self.shape = penalty, shape


@pytest.mark.parametrize(
    ("strategy", "penalty", "shape"),
    [("as given", None, "least-loss"), ("held-out loss", 7.0, "hessian"), ("public numbers", 3.0, "hessian")],
)
def test_a_strategy_decides_penalty_and_covariance_and_the_rest_is_the_same(
    strategy: str, penalty: float | None, shape: str
) -> None:
    known, fitted_with = Known(), []

    def fit(decided: Any) -> Known:
        fitted_with.append(None if decided is None else decided.penalty)
        return known

    request = ReleaseRequest(
        2.0,
        shape="least-loss",
        strategy=strategy,
        candidate=Decided(7.0, "hessian"),
        penalty_given=False,
        random_state=0,
    )
    made = make_release(fit, request, read=known, before_draw=lambda found, noise: known.asked.append(noise))
    assert set(STRATEGIES) == {"as given", "held-out loss", "public numbers"}
    assert fitted_with == [penalty]
    assert known.asked == [("calibrated", 2.0, shape), fl.Gaussian(0.5), "acted_on", "built"]
    assert (made.shape, made.noise, made.model) == (shape, fl.Gaussian(0.5), made.noisy.tolist())


def test_a_penalty_that_was_given_and_the_covariance_of_what_a_ledger_records_are_not_decided() -> None:
    known = Known()
    request = ReleaseRequest(2.0, strategy="public numbers", on_ledger=True, random_state=0)
    made = make_release(lambda penalty: known if penalty is None else None, request, read=known)
    assert (made.decided, made.shape) == ((), None)


def test_what_cannot_be_recorded_is_not_drawn() -> None:
    known = Known()

    def refuse(found: Any, noise: Any) -> None:
        raise fl.InvalidInputError("past the limit")

    with pytest.raises(fl.InvalidInputError, match="past the limit"):
        make_release(lambda penalty: known, ReleaseRequest(2.0), before_draw=refuse)
    assert known.asked == [("calibrated", 2.0, None)]


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_frame_is_a_linear_map_of_every_output_and_back(outputs: int, intercept: bool) -> None:
    rng = np.random.default_rng(outputs)
    scales, centres = rng.uniform(0.5, 4.0, 4), rng.normal(size=4) if intercept else np.zeros(4)
    frame, raw = NoiseFrame(scales, centres, intercept), rng.normal(size=outputs * (4 + intercept))
    F = np.diag(scales)
    if intercept:
        F = np.block([[F, np.zeros((4, 1))], [centres[None, :], np.ones((1, 1))]])
    coef, levels = frame.by_output(raw)
    each = [F @ np.append(row, levels[k : k + 1]) for k, row in enumerate(coef)]
    found = np.append([row[:4] for row in each], [row[4:] for row in each])
    np.testing.assert_allclose(frame.framed(raw), found, rtol=1e-12)
    np.testing.assert_allclose(frame.raw(frame.framed(raw)), raw, rtol=1e-12, atol=1e-14)
    assert np.all(frame.largest_terms(raw) >= np.abs(frame.framed(raw)) * (1 - 1e-12))


def save(folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("skops")
    from fisherleak.releasing.files.released_files import save_model
    from fisherleak.tables import from_frame
    from fisherleak.training.trained_model import Settings

    frame = pandas.DataFrame(X, columns=["a", "b"]).assign(y=Y)
    save_model(from_frame(frame), Settings("y"), folder / "m.skops", eta=2.0, over="max")


WAYS = {
    "fl.release": lambda folder: fl.release(Ridge().fit(X, Y), fl.Gaussian(1.0)),
    "fl.release of a Fit": lambda folder: fl.release(fl.minimise(X, Y), fl.Gaussian(1.0)),
    "a mechanism": lambda folder: fl.release(fl.minimise(X, Y), fl.Posterior(1.0)),
    "PrivateRelease": lambda folder: fl.PrivateRelease(Ridge(), eta=5.0).fit(X, Y),
    "Protected": lambda folder: fl.Protected(Ridge(20.0), 5.0, penalties=[1.0], shapes=["hessian"]).fit(X, Y),
    "Frontier": lambda folder: fl.protect(Ridge(20.0), X, Y, 5.0, penalties=[1.0], shapes=["hessian"]).release(),
    "the command line": save,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", WAYS)
def test_every_way_out_draws_in_one_place(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class DrawnError(Exception):
        """Raised in place of a draw."""

    def refuse(*given: Any) -> None:
        raise DrawnError

    monkeypatch.setattr(procedure, "draw_parameters", refuse)
    with pytest.raises(DrawnError):
        WAYS[way](tmp_path)

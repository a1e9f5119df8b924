"""Refits of exposed rows agree with eta."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.auditing import spotcheck
from fisherleak.auditing.run import audit
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings, train

CASES = [("income", "linear", 1e-2), ("income", "linear", 0.0), ("sick", "logistic", 1e-2), ("visits", "poisson", 1e-3)]


@pytest.mark.parametrize(("target", "model", "l2"), CASES)
def test_refits_confirm_eta(frame: Any, target: str, model: str, l2: float) -> None:
    result = audit(frame, Settings(target, model, l2=l2), draws=4, attacks=False)
    assert result.spot is not None
    assert result.spot.rows == 3
    assert result.spot.largest_relative_error < 1e-4


def test_a_step_that_is_too_long_is_made_shorter_and_a_difference_that_stays_is_a_warning(
    frame: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = spotcheck._moved

    def bent(trained: Any, row: int, change: Any) -> Any:
        """A model that bends: what a long step adds goes with its cube."""
        return true(trained, row, change) * (1.0 + 1e8 * float(np.sum(change**3)))

    monkeypatch.setattr(spotcheck, "_moved", bent)
    result = audit(frame, Settings("income"), draws=4, attacks=False)
    assert result.spot is not None
    assert result.spot.largest_relative_error < 0.01
    monkeypatch.setattr(spotcheck, "_moved", lambda *given: 1.5 * true(*given))
    result = audit(frame, Settings("income"), draws=4, attacks=False, quick=True)
    assert result.spot is not None
    assert result.spot.rows == 1
    assert any("Refits disagree with eta by 50" in warning for warning in result.warnings)


def test_wide_tables_by_their_rows_and_by_products() -> None:
    """More columns than rows: the same norms as those of the whole Jacobian, and refits that agree."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 230))
    table = pandas.DataFrame(X, columns=[f"g{j}" for j in range(230)])
    table["kind"], table["y"] = rng.choice(["a", "b", "c"], 24), X[:, :5].sum(axis=1) + rng.normal(size=24)
    trained = train(from_frame(table), Settings("y", held_out=0.0))
    attributes, found = trained.leak._information.attributes, np.asarray(trained.leak.per_attribute())
    for k in (0, 4, 111, 229, 230):
        J = np.asarray(trained.leak._information.written_out([attributes[k]], False, np.arange(24)))
        assert found[k] == pytest.approx(np.linalg.norm(np.concatenate([*J], axis=1), 2), rel=1e-9)
    check = spotcheck.spot_check(trained, np.asarray(trained.leak.per_example()))
    assert check is not None
    assert check.largest_relative_error < 1e-6


@pytest.mark.parametrize(("target", "model", "l2"), CASES)
def test_steps_by_the_hessian_of_the_fit_end_where_newton_does(
    frame: Any, target: str, model: str, l2: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = train(from_frame(frame), Settings(target, model, l2=l2))
    change = np.random.default_rng(1).normal(size=trained.design.X.shape[1]) * 1e-2
    newton = []

    def counted(*given: Any, **options: Any) -> Any:
        newton.append(fitted(*given, **options))
        return newton[-1]

    fitted = vars(spotcheck)["fit_at"]
    monkeypatch.setattr(spotcheck, "fit_at", counted)
    found = spotcheck._moved(trained, 5, change)
    assert not newton
    monkeypatch.setattr(spotcheck, "AT_MINIMUM", -1.0)
    monkeypatch.setattr(spotcheck, "ENOUGH", -1.0)
    expected = spotcheck._moved(trained, 5, change)
    assert len(newton) == 1
    moved = np.linalg.norm(expected - np.asarray(trained.fit.theta))
    assert np.linalg.norm(found - expected) < 1e-8 * moved


def test_rows_that_move_the_model_by_their_label_alone_are_passed_over() -> None:
    """Far out on the right side no value of a row matters, and its label does: rounding there is no disagreement."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 10)) * np.exp(rng.normal(size=(3_000, 1)))
    table = pandas.DataFrame(X, columns=list("abcdefghij")).assign(y=(X.sum(axis=1) + rng.normal(size=3_000) > 0) * 1)
    trained = train(from_frame(table), Settings("y", public="preprocessing"))
    eta = np.asarray(trained.leak.per_example())
    assert spotcheck._error(trained, int(eta.argmax())) is None
    check = spotcheck.spot_check(trained, eta)
    assert check is not None
    assert check.rows == 3
    assert check.largest_relative_error < 1e-5

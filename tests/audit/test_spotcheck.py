"""Refits of exposed rows agree with eta."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")


from fisherleak.audit import spotcheck
from fisherleak.audit.run import Settings, audit

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

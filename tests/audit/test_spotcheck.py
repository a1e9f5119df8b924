"""Refits of exposed rows agree with eta."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")


from fisherleak.audit.run import Settings, audit

CASES = [("income", "linear", 1e-2), ("income", "linear", 0.0), ("sick", "logistic", 1e-2), ("visits", "poisson", 1e-3)]


@pytest.mark.parametrize(("target", "model", "l2"), CASES)
def test_refits_confirm_eta(frame: Any, target: str, model: str, l2: float) -> None:
    result = audit(frame, Settings(target, model, l2=l2), draws=4, attacks=False)
    assert result.spot is not None
    assert result.spot.rows == 3
    assert result.spot.largest_relative_error < 1e-4

"""Utility under noise, and after balancing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")


import fisherleak as fl
from fisherleak.auditing.run import Settings, audit
from fisherleak.report.summarise import summarise
from fisherleak.training.pipelines import pipeline_of
from report.test_summarise import check_summary


@pytest.mark.long
def test_utility_falls_with_noise_to_that_of_copies(frame: Any) -> None:
    settings = Settings("income")
    result = audit(frame, settings, noise=500.0, draws=400, attacks=False)
    trained = result.trained
    pipeline, _, _ = pipeline_of(trained)
    test = trained.design
    held_out = frame.drop(index=test.rows - 1)
    scores = [
        fl.release(pipeline, fl.Gaussian(500.0), k, public="preprocessing").score(
            held_out[list(pipeline.feature_names_in_)], held_out.income
        )
        for k in range(400)
    ]
    middle = result.tradeoff.points[len(result.tradeoff.points) // 2]
    assert middle.scale == pytest.approx(500.0)
    assert middle.utility == pytest.approx(np.mean(scores), abs=4 * np.std(scores) / 20)
    assert result.tradeoff.without_noise == pytest.approx(
        pipeline.score(held_out[list(pipeline.feature_names_in_)], held_out.income)
    )
    assert result.tradeoff.points[-1].utility < middle.utility < result.tradeoff.without_noise


def test_balancing_makes_rows_equal(frame: Any) -> None:
    result = audit(frame, Settings("sick"), balance=True, draws=4, attacks=False)
    assert result.balance is not None
    assert result.balance.after.sd < 0.1 * result.balance.before.sd
    assert result.balance.before.bins.sum() == result.balance.after.bins.sum() == result.design.n
    check_summary(summarise(result))

"""Utility in words: how its measures are written, and what a curve of noise and utility does not say by itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fisherleak._support.numbers import number, percent

if TYPE_CHECKING:
    from fisherleak.training.utility import Tradeoff


CALLED = {"accuracy": "accuracy", "r2": "R²", "auc": "AUC", "log_loss": "log loss", "deviance": "deviance"}
"""What measures are called in a sentence; others by their own names."""

DRAWN = "That is within the error of the {draws} draws of noise: it is no gain."
HELPS = (
    "That is more than the error of the {draws} draws: noise shrinks what the model learned, and on these {rows} rows that "
    "happens to help. Do not count on it for others."
)


def measured(metric: str, value: float) -> str:
    """A utility with what it is called; accuracy is known by its unit.

    Examples
    --------
    >>> measured("auc", 0.8123), measured("accuracy", 0.83)
    ('AUC 0.812', '83 %')
    """
    return written(metric, value) if metric == "accuracy" else f"{CALLED.get(metric, metric)} {written(metric, value)}"


def written(metric: str, value: float) -> str:
    """The same without what it is called, beside one that says it."""
    return percent(value) if metric == "accuracy" else number(value)


def _size(metric: str, value: float) -> str:
    """The size of a difference."""
    return f"{100 * value:.1f} points" if metric == "accuracy" else number(value)


def gain_in_words(cost: Tradeoff) -> list[str]:
    """That a gain is within its own error, so that no share of it is shown; nothing where it is not."""
    metric, gain = cost.metric.name, cost.without_noise - cost.constant
    if cost.gain is not None or not math.isfinite(gain):
        return []
    better = gain if cost.metric.higher_is_better else -gain
    if better <= 0:
        return ["Without noise the model is no better than the baseline: no share of its gain is shown."]
    error = f"± {_size(metric, cost.unsure_gain)}" if math.isfinite(cost.unsure_gain) else "unknown, of so few rows"
    return [
        f"The gain over the baseline in {CALLED.get(metric, metric)}, {_size(metric, better)}, is within its own error "
        f"({error}, from {number(cost.rows)} rows): no share of it is shown."
    ]


def rise_in_words(cost: Tradeoff) -> list[str]:
    """Why a utility is better somewhere with more noise than with less; nothing where none is, as they are written."""
    found = [(each.metric.name, *_largest_rise(each)) for each in (cost, *cost.also)]
    said = []
    for why, within in ((DRAWN, True), (HELPS, False)):
        told = [
            f"{CALLED.get(name, name)} by {_size(name, rise)} (± {_size(name, error)})"
            for name, rise, error in found
            if rise > 0 and (rise <= error) == within
        ]
        if told:
            reason = why.format(draws=number(cost.draws), rows=number(cost.rows))
            said.append(f"Somewhere here more noise shows a better utility: {' and '.join(told)}. {reason}")
    return said


def _largest_rise(cost: Tradeoff) -> tuple[float, float]:
    """By how much utility is better with more noise than with less, at most and as it is written, and the error of that."""
    metric, sign = cost.metric.name, 1.0 if cost.metric.higher_is_better else -1.0
    least, most, error = (sign * cost.without_noise, 0.0), 0.0, 0.0
    for point in cost.points:
        rise = _as_written(metric, sign * point.utility) - _as_written(metric, least[0])
        if rise > most:
            most, error = rise, math.hypot(point.unsure, least[1])
        least = min(least, (sign * point.utility, point.unsure))
    return most, error


def _as_written(metric: str, value: float) -> float:
    """To the digits that are shown."""
    return round(value, 3) if metric == "accuracy" else float(f"{value:.2e}")

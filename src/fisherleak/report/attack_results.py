"""What attackers get, in the form of ``summary.json``."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np

from fisherleak._progress import track
from fisherleak.errors import FisherleakError
from fisherleak.noise import Gaussian
from fisherleak.tables import Design, Feature
from fisherleak.training import Trained, pipeline_of

__all__ = ["attack_results", "available"]

ATTACKERS = ("WhiteBox", "BlackBox", "Prior", "Ideal")
MOST_ROWS = 500
"""Rows attacked at most, drawn at random."""
MOST_NUMBERS = 20
"""A number with more different values is guessed as one of five typical values."""
NOTES = {
    "WhiteBox": "knows all other data and sees the released coefficients",
    "BlackBox": "knows the row's other values and its label, and queries the released model",
    "Prior": "guesses the most common value and sees no model",
    "Ideal": "learns the value from the other columns and the label: what the population gives away without any model",
}


def available() -> bool:
    """Whether this installation has the attackers."""
    return importlib.util.find_spec("fisherleak.attacks") is not None


def attack_results(
    trained: Trained,
    attributes: Sequence[str],
    scale: float,
    grid: Sequence[float] = (),
    released: Any = None,
    seed: int = 0,
    attackers: Sequence[str] = ATTACKERS,
) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]:
    """Outcomes of every attacker at one noise, and the white-box attacker's accuracy at each scale of a grid.

    ``released`` is a released model to attack in place of the average over releases with noise of that scale.
    """
    if not attributes or not available():
        return [], [[] for _ in grid]
    attacks = importlib.import_module("fisherleak.attacks")
    model, frame, labels = pipeline_of(trained)
    rows = _rows(trained.design, seed)
    features = {feature.name: feature for feature in trained.design.features}
    outcomes: list[dict[str, Any]] = []
    curves: list[list[dict[str, Any]]] = [[] for _ in grid]
    for name in track(attributes, len(attributes), "Attacking"):
        values, note = _candidates(trained.design, features[name])
        options = {"values": values, "sample_weight": trained.weights, "rows": rows}
        for attacker in attackers:
            try:
                attack = getattr(attacks, attacker)(model, frame, labels, name, **options)
                outcome = attack.against(Gaussian(scale) if released is None else released)
            except FisherleakError as error:
                outcomes.append(_failed(attacker, name, str(error)))
                continue
            outcomes.append(_outcome(attacker, outcome, note))
            if attacker == "WhiteBox":
                for k, other in enumerate(grid):
                    accuracy = float(np.mean(attack.accuracy(Gaussian(float(other)))))
                    curves[k].append({"attribute": name, "accuracy": accuracy})
    return outcomes, curves


def _rows(design: Design, seed: int) -> Any:
    if design.n <= MOST_ROWS:
        return np.arange(design.n)
    return np.sort(np.random.default_rng(seed).choice(design.n, MOST_ROWS, replace=False))


def _candidates(design: Design, feature: Feature) -> tuple[list[float] | None, str]:
    if feature.kind == "category":
        return None, ""
    values = design.raw(feature)
    if np.unique(values).size <= MOST_NUMBERS:
        return None, ""
    middles = np.unique(np.quantile(values, [0.1, 0.3, 0.5, 0.7, 0.9]))
    return middles.tolist(), f"; a guess is right if it names the nearest of {middles.size} typical values"


def _outcome(attacker: str, outcome: Any, note: str) -> dict[str, Any]:
    exact = attacker == "WhiteBox" and not outcome.trials
    trials = f", {outcome.trials} release{'s' * (outcome.trials > 1)}" if outcome.trials else ""
    return {
        "attacker": str(outcome.attacker),
        "attribute": str(outcome.attribute),
        **{name: float(getattr(outcome, name)) for name in ("accuracy", "low", "high", "baseline")},
        "method": f"{outcome.n} rows{', expected over the noise' if exact else trials}",
        "note": NOTES[attacker] + note,
    }


def _failed(attacker: str, attribute: str, why: str) -> dict[str, Any]:
    nothing = {"accuracy": None, "low": None, "high": None, "baseline": None}
    return {"attacker": attacker, "attribute": attribute, **nothing, "method": "not run", "note": why}

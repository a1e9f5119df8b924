"""What attackers get out of an audited model: outcomes of each, and the strongest one's accuracy over a grid of noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherleak._support.progress import track
from fisherleak.attacks import Attacker, BlackBox, Ideal, Outcome, Prior, WhiteBox
from fisherleak.attacks.candidates import MOST_NUMBERS
from fisherleak.audit.model import Trained, pipeline_of
from fisherleak.engine.noise import Gaussian
from fisherleak.errors import FisherleakError
from fisherleak.rows.selection import some_rows
from fisherleak.tables import Design, Feature

__all__ = ["ATTACKERS", "Attacked", "attack_all"]

MOST_ROWS = 500
"""Rows attacked at most, drawn at random."""
DRAWS = 100
"""Releases that are simulated where there is no closed form."""
ATTACKERS = {
    "white-box with prior": "knows all other data, the noise and how common each value is (not what the other columns "
    "suggest), and sees the released coefficients",
    "white-box": "knows all other data and sees the released coefficients, but ignores how common values are",
    "black-box": "knows the row's other values and its label, and queries the released model",
    "ideal": "learns the value from the other columns and the label: what the population gives away without any model",
    "prior": "guesses the most common value and sees no model",
}
"""Every attacker by name, with what it knows."""
STRONGEST = "white-box with prior"


@dataclass(frozen=True)
class Attacked:
    """Outcomes at one noise, accuracies of the strongest attacker over a grid, and what was not run and why."""

    outcomes: tuple[tuple[Outcome, str], ...] = ()
    curves: tuple[tuple[dict[str, Any], ...], ...] = ()
    notes: tuple[str, ...] = ()


def attack_all(
    trained: Trained,
    attributes: Sequence[str],
    scale: float,
    grid: Sequence[float] = (),
    released: Any = None,
    seed: int = 0,
) -> Attacked:
    """Run every attacker on every column.

    Parameters
    ----------
    trained : Trained
    attributes : names
    scale : float
        Of the noise on the model's own coefficients.
    grid : scales
        At which the strongest attacker's expected accuracy is wanted.
    released : released model, optional
        Attacked in place of the average over releases with noise of that scale.
    seed : int
        Of the rows that are drawn and of simulations.
    """
    if not attributes:
        return Attacked(curves=((),) * len(grid))
    model, frame, labels = pipeline_of(trained)
    rows = some_rows(trained.design.n, MOST_ROWS, seed)
    features = {feature.name: feature for feature in trained.design.features}
    outcomes: list[tuple[Outcome, str]] = []
    curves: list[list[dict[str, Any]]] = [[] for _ in grid]
    notes: list[str] = []
    for name in track(attributes, len(attributes), "Attacking"):
        values, note = _candidates(trained.design, features[name])
        options = {"values": values, "sample_weight": trained.weights, "rows": rows}
        white_box: WhiteBox | None = None
        for attacker, knows in ATTACKERS.items():
            try:
                if attacker == "white-box" and white_box is not None:
                    attack: Attacker = white_box.with_prior(False)
                else:
                    attack = _made(attacker, model, frame, labels, name, options)
                outcomes.append((_outcome(attack, scale, released, seed), knows + note))
                if attacker == STRONGEST:
                    assert isinstance(attack, WhiteBox)
                    white_box = attack
                    for k, other in enumerate(grid):
                        accuracy = attack.accuracy(Gaussian(float(other)), draws=DRAWS, random_state=seed)
                        curves[k].append({"attribute": name, "accuracy": float(accuracy.mean())})
            except FisherleakError as error:
                notes.append(f"The {attacker} attack on '{name}' was not run: {error}")
    return Attacked(tuple(outcomes), tuple(tuple(curve) for curve in curves), tuple(notes))


def _made(attacker: str, model: Any, frame: Any, labels: Any, name: str, options: dict[str, Any]) -> Attacker:
    if attacker in ("white-box", STRONGEST):
        return WhiteBox(model, frame, labels, name, use_prior=attacker == STRONGEST, **options)
    kinds: dict[str, type[Attacker]] = {"black-box": BlackBox, "ideal": Ideal, "prior": Prior}
    return kinds[attacker](model, frame, labels, name, **options)


def _outcome(attack: Any, scale: float, released: Any, seed: int) -> Outcome:
    noise = Gaussian(scale)
    options: dict[str, Any] = {"draws": DRAWS, "random_state": seed}
    if released is not None and isinstance(attack, WhiteBox):
        options["noise"] = noise
    found: Outcome = attack.against(noise if released is None else released, **options)
    return found


def _candidates(design: Design, feature: Feature) -> tuple[list[float] | None, str]:
    """Values to guess among, and a note: a number with many is guessed as one of a few typical values."""
    if feature.kind == "category":
        return None, ""
    values = design.raw(feature)
    if np.unique(values).size <= MOST_NUMBERS:
        return None, ""
    middles = np.unique(np.quantile(values, [0.1, 0.3, 0.5, 0.7, 0.9]))
    return middles.tolist(), f"; a guess is right if it names the nearest of {middles.size} typical values"

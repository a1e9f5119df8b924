r"""Whether someone's record was in the table: how often the best attacker is right, row by row, or person by person.

The attacker knows all other rows and the row in question, and sees the release. With :math:`\mu` how far leaving the row out
moves the model, in standard deviations of the noise (``removal``; scales of columns move too where they are counted), he
is right :math:`\Phi(\mu / 2)` of the time where presence is as likely as absence, has an AUC of :math:`\Phi(\mu / \sqrt 2)`,
and finds :math:`\Phi(\Phi^{-1}(\alpha) + \mu)` of those present where he wrongly names the part :math:`\alpha` of the absent.

Where rows belong to people, all rows of a person are left out together: "row" below is then a person. Where the rows decide
the noise's covariance, mu is that of equal accuracy (:attr:`fisherleak.Leakage.membership_kind`), at this noise alone, and
there is no AUC.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from fisherleak.auditing.exposure.recognised_by_names import told_by_names
from fisherleak.engine.changes.removal import CLOSE, is_known, is_light
from fisherleak.engine.noise.calibrated import has_own_shape
from fisherleak.engine.norms import one_release
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.leakage.membership.membership_distance import unknown_by_shape
from fisherleak.leakage.membership.recognised import recognised_words
from fisherleak.rows import map_rows, sum_rows
from fisherleak.rows.summary import digest
from fisherleak.tables.design.whose_rows import People
from fisherleak.training.trained_model import Trained

__all__ = ["FALSE_POSITIVES", "NOTABLE", "PresenceFigures", "Told", "presence_of", "told_at"]

FALSE_POSITIVES = 0.01
"""Part of the absent that are wrongly named, at which the part of those found is said."""
NOTABLE = 0.6
"""Rows about which the best attacker is right at least this often are counted."""
MOST_LISTED = 20
CERTAIN = 1e100
"""Stands for an infinite mu in sums: the release tells for certain."""
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Told:
    """What the best attacker gets about one row."""

    row: int
    mu: float
    right: float
    auc: float | None
    found: float | None
    """Part of those present that he names, where he wrongly names ``FALSE_POSITIVES`` of the absent; this and the AUC are not
    known where rows decide the noise's covariance."""


@dataclass(frozen=True)
class PresenceFigures:
    """How well presence can be told at an audit's noise; without figures, why it was not measured."""

    mu: Any = field(repr=False, default=None)
    """(n,), or (people,), at noise of scale 1 in standard units; lazy where the rows are. Times the audit's scale where mu is
    not in proportion to that."""
    mean: float = 0.5
    """How often the best attacker is right, over all rows."""
    high: float | None = None
    """Of one row in twenty he is right more often; none where the rows are not in memory."""
    median: float | None = None
    notable: int = 0
    top: tuple[Told, ...] = field(repr=False, default=())
    note: str = ""
    kind: str = "mu"
    """As ``Leakage.membership_kind``."""
    recognised: int = 0
    """Rows that are told for certain, whatever the noise: their removal changes a public scale or centre, or what is named."""
    recognised_note: str = ""
    """The same in a sentence, with the remedy; nothing where there are none."""

    @property
    def measured(self) -> bool:
        return self.mu is not None


def presence_of(trained: Trained, scale: float, tolerance: float = CLOSE, known_mu: Any = None) -> PresenceFigures:
    """Figures at a noise of some scale in standard units; mu is never below the truth and within the tolerance.

    ``known_mu`` is that at noise of scale 1, where it was found before: it serves every scale of a fixed covariance.
    """
    leak, people = trained.leak, trained.design.people
    by_rows = has_own_shape(leak.noise)
    leak = leak.with_noise(leak.noise.rescaled(scale)) if by_rows else leak
    certain, known, said = _recognised(trained)
    if why := _not_measured(trained, leak, by_rows):
        return PresenceFigures(note=" ".join(filter(None, (why, said))), recognised=known, recognised_note=said)
    kind = leak.membership_kind
    if by_rows or known_mu is None:
        mu = leak.membership(tolerance) if people is None else _without_people(leak, people, tolerance)
        mu = mu * scale if by_rows else mu
    else:
        mu = known_mu
    mu = mu if not known else map_rows(lambda own, more: own + more, mu, certain)

    def right(mu: Any) -> tuple[Any, ...]:
        part = ndtr(0.5 * mu / scale)
        return np.sum(part), np.count_nonzero(part >= NOTABLE)

    total, notable = sum_rows(right, mu)
    top = digest(map_rows(_finite, mu), MOST_LISTED).top
    listed = tuple(told_at(*pair, scale, kind) for pair in top)
    high, median = (None, None) if trained.design.lazy else _quantiles(np.asarray(mu) / scale)
    figures = (mu, float(total) / mu.shape[0], high, median, int(notable), listed)
    return PresenceFigures(*figures, kind=kind, recognised=known, recognised_note=said)


def _not_measured(trained: Trained, leak: Leakage, by_rows: bool) -> str:
    """Why membership is not known, in a sentence; nothing where it is."""
    people = trained.design.people
    if by_rows:
        why = unknown_by_shape(leak, leak.n if people is None else people.count)
        return why and f"Whether someone is in the table is {why}."
    why = _unknown(trained)
    return why and f"Whether someone is in the table was not measured: {why}."


def _recognised(trained: Trained) -> tuple[Any, int, str]:
    """Infinite for rows, or people, whose removal changes the public frame or what is named; how many, and sentences."""
    design = trained.design
    people = design.people
    total = design.n if people is None else people.count
    certain, named = told_by_names(design)
    framed = 0
    for frame in measurement(trained.leak).frames:  # one, or none
        told = frame.told_rows() if people is None else frame.told_sets(people.sets)
        framed += _infinite(told)
        certain = told if certain is None else map_rows(lambda own, more: own + more, certain, told)
    known = framed if not named else _infinite(certain)
    said = (recognised_words(framed, total, people is not None), named)
    return certain, known, " ".join(filter(None, said))


def _infinite(mu: Any) -> int:
    (found,) = sum_rows(lambda mu: (np.count_nonzero(mu),), mu)
    return int(found)


def _quantiles(mu: Vector) -> tuple[float, float]:
    """How often he is right about one row in twenty at least, and about the one in the middle."""
    high, median = np.quantile(ndtr(0.5 * mu), [0.95, 0.5])
    return float(high), float(median)


def told_at(row: int, mu: float, scale: float, kind: str = "mu") -> Told:
    """What a mu at noise of scale 1 is worth at another scale."""
    mu = math.inf if mu >= CERTAIN else mu / scale
    if kind != "mu":
        return Told(row, mu, float(ndtr(0.5 * mu)), None, None)
    found = float(ndtr(ndtri(FALSE_POSITIVES) + mu))
    return Told(row, mu, float(ndtr(0.5 * mu)), float(ndtr(mu / math.sqrt(2.0))), found)


def _finite(mu: Any) -> Any:
    return np.minimum(mu, CERTAIN)


def _without_people(leak: Leakage, people: People, tolerance: float) -> Vector:
    """Mu of leaving out all rows of each person, (people,)."""
    found = leak.membership_by_group(people.of_row, tolerance)
    return np.array([found[k] for k in range(people.count)])


def _unknown(trained: Trained) -> str:
    jacobian, people = one_release(measurement(trained.leak).information), trained.design.people
    sets = None if people is None else people.count
    if not jacobian.noise.normal:
        return "the best test for it has a closed form for normal noise only"
    if trained.design.lazy if jacobian.several else not is_known(jacobian):
        return "with this kind of model every row needs a pass over all others, and these are read part by part"
    if not is_light(jacobian, sets):
        by = "membership()" if people is None else "membership_by_group(person)"
        return f"with this kind of model and so many rows it takes long; fl.measure(…).{by} has it"
    return ""

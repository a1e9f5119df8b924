r"""What an audit asks of a noise: its words, draws that many scales share, and whether a distance can be its work.

A released model lies from its refit by its noise b. For normal noise :math:`|W b|^2 / s^2` follows a chi-squared distribution,
with :math:`W^T W` the information of b at scale 1; for any other noise, |b| is compared with draws.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.stats

from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import Json, Vector
from fisherleak.engine.noise import Gaussian, Noise, check_noise, noise_from_record

PLAIN = Gaussian(1.0)
"""The noise that etas are measured with where no other is asked for."""
UNLIKELY = 1e-6
"""Probability below which a distance is taken as no accident."""
UNALIKE = 1e-3
"""Probability below which single values of a noise are not taken as its draws, and its scale is not confirmed."""
SIMULATED, TAIL = 10_000, 1e-3
"""Draws behind the law of |b| where there is no closed form, and the part of them in either tail."""
NOTICED = 0.95
"""How likely noise of another scale must be noticed for it to be said that it would be."""
AT_ONCE = 2**22
"""Values drawn at a time."""
ALIKE_DRAWS, MOST_SINGLE = 5_000, 2_000
"""Draws that single values of noise that is not normal are compared with, and of how many parameters."""


def as_noise(noise: Any) -> Noise:
    """A noise: the record itself, or Gaussian noise of a scale."""
    if not hasattr(noise, "unit_information_root"):
        return Gaussian(check_positive(noise, "noise"))
    check_noise(noise)
    found: Noise = noise
    return found


def from_card(record: Json, shape: Vector | None = None) -> Noise:
    """The noise that a model card tells of; one without a kind is Gaussian. ``shape`` is put in for one that is only named."""
    check_positive(record["scale"], "scale")
    known = {"kind": name_of(PLAIN), **record}
    return noise_from_record(known if shape is None else known | {"shape": shape})


def name_of(noise: Noise) -> str:
    """Its kind: "Gaussian"."""
    return str(noise.record()["kind"])


def has_shape(noise: Noise) -> bool:
    """Whether more than its kind and its scale decides it."""
    return noise.record().keys() - {"calibrated"} > {"kind", "scale"}


def noise_words(noise: Noise, digits: int) -> str:
    """What is added, at the beginning of a sentence."""
    size = f"{noise.scale:.{digits}g}"
    if has_shape(noise):
        return f"{name_of(noise)} noise of scale {size}, with its own covariance,"
    if noise.normal:
        return f"{name_of(noise)} noise of standard deviation {size}"
    return f"{name_of(noise)} noise of scale {size}"


def unit_draws(noise: Noise, size: int, copies: int, seed: int) -> Vector:
    """Draws at scale 1 for ``size`` parameters, (size, copies)."""
    unit, rng = noise.rescaled(1.0), np.random.default_rng(seed)
    if unit.normal and unit.unit_information_root(size) is None:
        # all values are independent and alike: drawn parameter by parameter, as seeds have always had them
        return unit.draws(size, copies, rng)
    return unit.draws(copies, size, rng).T


@dataclass(frozen=True)
class Distance:
    """How far parameters were moved, in units of how far a noise goes, and what that can tell of its scale.

    Noise of k times the scale goes k times as far. It is noticed with the probability ``NOTICED`` where k is so small that this
    part of its lengths is below the least that can be the noise's work, or so large that they are above the most.
    """

    found: float
    low: float
    high: float
    """The least and the most that can be the noise's work."""
    notices_below: float
    notices_above: float
    """Times the scale: noise of less, or of more, is noticed with the probability ``NOTICED``."""

    @property
    def verdict(self) -> Literal["yes", "too near", "too far"]:
        return "too near" if self.found < self.low else "too far" if self.found > self.high else "yes"


def by_its_noise(noise: Noise, away: Vector) -> Literal["yes", "too near", "too far"]:
    """Whether noise can have moved parameters this way."""
    return distance_of(noise, away).verdict


def distance_of(noise: Noise, away: Vector) -> Distance:
    """How far parameters were moved, beside how far this noise goes."""
    if noise.normal:
        root = noise.unit_information_root(away.size)
        white = away if root is None else root @ away
        low, short, long, high = _normal_limits(away.size)
        typical, length = math.sqrt(away.size), float(np.linalg.norm(white)) / noise.scale
    else:
        own = json.dumps(noise.rescaled(1.0).record(), sort_keys=True)
        low, short, typical, long, high = _known_limits(type(noise), own, away.size)
        length = float(np.linalg.norm(away)) / noise.scale
    return Distance(length / typical, low / typical, high / typical, low / long, high / short)


def near_lines(noise: Noise, away: Sequence[Vector]) -> Distance | None:
    """How near parameters are to the lines that join points, ``away`` from each, as ``distance_of`` has it for one point.

    Of ``low`` one value fewer is counted, and as many trials as there are lines; ``high`` is infinite. None where there is too
    little to tell.
    """
    size, lines = (away[0].size if away else 0), len(away) - 1
    if size < 2 or lines < 1:
        return None
    root = noise.unit_information_root(size) if noise.normal else None
    points = [(each if root is None else root @ each) / noise.scale for each in away]
    length = min(_to_segment(one, other) for one, other in itertools.pairwise(points))
    if noise.normal:
        law = scipy.stats.chi2(size - 1)
        low, long = np.sqrt([law.ppf(UNLIKELY / lines), law.ppf(NOTICED)]).tolist()
        typical = math.sqrt(size - 1)
    else:
        own = json.dumps(noise.rescaled(1.0).record(), sort_keys=True)
        low, _, typical, long, _ = _known_limits(type(noise), own, size - 1)
        low *= lines ** (-1.0 / (size - 1))
    return Distance(length / typical, low / typical, math.inf, low / long, math.inf)


def _to_segment(one: Vector, other: Vector) -> float:
    """The least length of a vector between two."""
    along = other - one
    square = float(along @ along)
    part = min(1.0, max(0.0, -float(one @ along) / square)) if square else 0.0
    return float(np.linalg.norm(one + part * along))


def drawn_alike(noise: Noise, away: Vector) -> float:
    """How likely values so unlike single draws of a noise are.

    A Kolmogorov-Smirnov test of all values, and the largest beside that of so many draws: noise that was put into few
    parameters, and left out of the others, is noticed. Noise that was left out of a few is not, and neither is a direction
    across all of them. Normal noise is tested in the coordinates where it is N(0, 1). Any other is compared with
    ``ALIKE_DRAWS`` draws, which tell no probability below their inverse; of very many parameters some are taken at random.
    """
    if noise.normal:
        root = noise.unit_information_root(away.size)
        values = (away if root is None else root @ away) / noise.scale
        unlike = float(scipy.stats.kstest(values, "norm").pvalue)
        largest = 2.0 * away.size * scipy.stats.norm.sf(np.abs(values).max())
    else:
        chosen = np.random.default_rng().permutation(away.size)[:MOST_SINGLE]
        law = _single_law(type(noise), json.dumps(noise.rescaled(1.0).record(), sort_keys=True), away.size)
        unlike, largest = law.chances(away[np.sort(chosen)] / noise.scale)
    # twice the smaller of two p-values (Bonferroni)
    return min(1.0, 2.0 * min(unlike, float(largest)))


@dataclass(frozen=True)
class SingleLaw:
    """How single values of a noise at scale 1 are spread, and how far those of single draws are from that."""

    values: Vector
    """Sorted, of many draws."""
    distances: Vector
    """Sorted: the largest difference between the distribution of one draw's values and that of ``values``."""
    largest: Vector
    """Sorted: the largest value of one draw."""

    def chances(self, draw: Vector) -> tuple[float, float]:
        """How often draws are farther from the law than this one, and how often their largest value is larger."""
        pairs = ((distance_between(draw, self.values), self.distances), (float(np.abs(draw).max()), self.largest))
        unlike, largest = (
            (1 + known.size - np.searchsorted(known, found)) / (1 + known.size) for found, known in pairs
        )
        return float(unlike), float(largest)


def distance_between(draw: Vector, law: Vector) -> float:
    """The largest difference between the distribution of some values and that of sorted ones (Kolmogorov and Smirnov)."""
    at = np.searchsorted(law, np.sort(draw)) / law.size
    steps = np.arange(draw.size + 1) / draw.size
    return float(max(np.max(steps[1:] - at), np.max(at - steps[:-1])))


@functools.lru_cache(maxsize=16)
def _single_law(kind: type[Noise], record: str, size: int) -> SingleLaw:
    """Simulated once for each kind of noise and number of parameters."""
    noise, rng = kind.from_record(json.loads(record)), np.random.default_rng(0)
    taken = min(size, MOST_SINGLE)
    law = np.sort(noise.draws(-(-AT_ONCE // (4 * size)), size, rng).ravel())
    distances, largest = np.empty(ALIKE_DRAWS), np.empty(ALIKE_DRAWS)
    for k in range(ALIKE_DRAWS):
        draw = noise.draws(1, size, rng)[0, :taken]
        distances[k], largest[k] = distance_between(draw, law), np.abs(draw).max()
    return SingleLaw(law, np.sort(distances), np.sort(largest))


def log_ratio(noise: Noise, away: Vector, other: Noise, other_away: Vector) -> float:
    """Logarithm of how many times as likely parameters are as the work of another noise, or from another fit.

    Where the noise and its fit are as claimed, the ratio is above t with a probability of at most 1 / t (its mean is 1, and
    Markov's inequality); where the others are the truth, it is below 1 / t with at most the same.
    """
    with np.errstate(invalid="ignore"):  # both may be impossible
        return float(other.log_density(other_away) - noise.log_density(away))


def ratios_of_kinds(values: Vector) -> dict[str, float]:
    r"""Logarithms of how many times as likely values are as draws of other laws with deviation 1 than as N(0, 1).

    Laplace: :math:`e^{-\sqrt 2 |x|} / \sqrt 2`; uniform: :math:`1 / \sqrt{12}` up to :math:`\sqrt 3`.
    """
    own = float(scipy.stats.norm.logpdf(values).sum())
    laplace = -float(np.sum(math.sqrt(2.0) * np.abs(values) + math.log(2.0) / 2.0))
    inside = bool(np.abs(values).max() <= math.sqrt(3.0))
    uniform = -values.size * math.log(12.0) / 2.0 if inside else -math.inf
    return {"Laplace": laplace - own, "uniform": uniform - own}


@functools.lru_cache(maxsize=64)
def _normal_limits(size: int) -> tuple[float, ...]:
    """Lengths of normal noise at scale 1, from the law of their squares; without the median, which is about sqrt(size)."""
    law = scipy.stats.chi2(size)
    return tuple(np.sqrt([law.ppf(UNLIKELY), *law.ppf([1 - NOTICED, NOTICED]), law.isf(UNLIKELY)]).tolist())


@functools.lru_cache(maxsize=64)
def _known_limits(kind: type[Noise], record: str, size: int) -> tuple[float, ...]:
    """Simulated once for each kind of noise and number of parameters."""
    return _limits(kind.from_record(json.loads(record)), size)


def _limits(noise: Noise, size: int) -> tuple[float, ...]:
    """Lengths of noise at scale 1: those left with about the probability ``UNLIKELY`` on either side; between them the one that
    the part 1 - ``NOTICED`` is below, the median, and the one that ``NOTICED`` is below.

    Draws tell the quantiles that are less extreme. From there on P(|b| < r) is taken to fall as r^size, the volume of a ball,
    and P(|b| > r) as exp(-r), which is slow enough for any noise with an exponential tail.
    """
    unit, rng = noise.rescaled(1.0), np.random.default_rng(0)
    most = max(1, AT_ONCE // size)
    lengths = np.concatenate(
        [
            np.linalg.norm(unit.draws(min(most, SIMULATED - start), size, rng), axis=1)
            for start in range(0, SIMULATED, most)
        ]
    )
    low, short, middle, long, high = np.quantile(lengths, [TAIL, 1.0 - NOTICED, 0.5, NOTICED, 1.0 - TAIL]).tolist()
    least, most = low * (UNLIKELY / TAIL) ** (1.0 / size), high * math.log(UNLIKELY) / math.log(TAIL)
    return least, short, middle, long, most

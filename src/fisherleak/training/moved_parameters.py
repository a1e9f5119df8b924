r"""How far released parameters are from a fit: apart, in what rows decide and in what is noise alone.

Two things are noise alone, and hide nothing. A coefficient whose feature is zero in every training row, such as that of a
declared category that no row has, is zero in every fit. And with K classes what all classes have in common changes no
prediction: of the parameters :math:`\theta_{1j} \dots \theta_{Kj}` rows decide the K - 1 contrasts between classes, their
coordinates in an orthonormal basis of the vectors that sum to zero. Normal noise N(0, C) is N(0, Q C Q^T) there, with Q the
basis; the law of other noise is that of its draws, and its density an integral over what is in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.pipeline import Pipeline

from fisherleak._support.grids import GAP
from fisherleak._support.namespaces import Json, Vector
from fisherleak.engine.noise import Gaussian, Noise, noise_from_record
from fisherleak.rows import sum_rows
from fisherleak.training.pipelines import framed, own_parameters
from fisherleak.training.trained_model import Trained

FAR = 40.0
"""Scales beyond the middle values up to which a density is integrated."""
POINTS = 801
"""Where it is computed, twice: the second time where the first found most of it."""
MOST_TURNED = 1000
"""Parameters up to which directions of rows are computed."""


def moved_from_fit(trained: Trained, model: Pipeline, noise: Noise) -> tuple[Vector, Noise]:
    """How far a released pipeline is from a fit, and the noise there: in the directions that rows decide alone."""
    by_feature, used = _moved(trained, model)
    classes = by_feature.shape[1]
    if noise.normal:
        return _turned(by_feature, noise, used, contrasts(classes))
    between = by_feature[used] @ contrasts(classes).T
    return between.ravel(), noise if classes == 1 else BetweenClasses(noise, classes)


def moved_by_noise_alone(trained: Trained, model: Pipeline, noise: Noise) -> list[tuple[Vector, Noise]]:
    """The same where no row decides: coefficients of features that no row has, and what all classes have in common.

    Of noise that is not normal the latter has no law of its own: all parameters stand for it.
    """
    by_feature, used = _moved(trained, model)
    classes = by_feature.shape[1]
    found = [] if used.all() else [_turned(by_feature, noise, ~used, np.eye(classes))]
    if classes > 1:
        common = np.full((1, classes), classes**-0.5) if noise.normal else np.eye(classes)
        found.append(_turned(by_feature, noise, used, common))
    return found


def moved_along_rows(trained: Trained, model: Pipeline, noise: Noise) -> list[tuple[Vector, Any]]:
    """How far a released pipeline is from a fit along the half, and the quarter, of all directions that rows vary in most.

    Where columns tell each other, the others change predictions little, and noise in them hides little. The rows choose these
    directions and the noise does not, so that normal noise is normal there, and other noise is compared with its draws. Of
    many parameters, none.
    """
    by_feature, _ = _moved(trained, model)
    features, classes = by_feature.shape
    if by_feature.size > MOST_TURNED:
        return []
    (gram,) = sum_rows(lambda X: (_gram(X),), trained.design.X)
    leading = np.linalg.eigh(np.asarray(gram, dtype=np.float64))[1].T[::-1]
    root, found = noise.unit_information_root(by_feature.size) if noise.normal else None, []
    places = _places(by_feature.size, features - 1).ravel()
    covariance = None if root is None else np.linalg.inv(root.T @ root)[np.ix_(places, places)]
    for part in (features // 2, features // 4):
        turn = np.kron(leading[:part], contrasts(classes))
        if not noise.normal:
            own: Any = AlongRows(noise, turn)
        elif covariance is None:
            own = noise
        else:
            own = Gaussian(noise.scale, np.asarray(turn @ covariance @ turn.T, dtype=np.float64))
        found += [(turn @ by_feature.ravel(), own)] if part else []
    return found


def _gram(X: Any) -> Vector:
    """Products of features, and of a constant, summed over rows."""
    rows = np.column_stack([np.asarray(X, dtype=np.float64), np.ones(X.shape[0])])
    return np.asarray(rows.T @ rows)


def contrasts(classes: int) -> Vector:
    """An orthonormal basis of the vectors over classes that sum to zero, (K - 1, K); of one output, itself."""
    return np.eye(1) if classes == 1 else np.asarray(scipy.linalg.helmert(classes), dtype=np.float64)


def _moved(trained: Trained, model: Pipeline) -> tuple[Vector, NDArray[np.bool_]]:
    """How far a released pipeline is from a fit, by feature and output, intercepts last; and which features rows have."""
    away = framed(trained.design, model) - own_parameters(trained)
    (nonzero,) = sum_rows(lambda X: (np.count_nonzero(np.abs(X) > GAP, axis=0),), trained.design.X)
    width = np.asarray(nonzero).size
    return away[_places(away.size, width)], np.append(np.asarray(nonzero) > 0, True)


def _places(size: int, width: int) -> NDArray[np.int64]:
    """Where each feature's parameters stand, intercepts last, (width + 1, outputs): outputs come after one another."""
    outputs = size // (width + 1)
    coefficients = np.arange(outputs * width).reshape(outputs, width).T
    return np.vstack([coefficients, np.arange(outputs * width, size)])


def _turned(by_feature: Vector, noise: Noise, chosen: NDArray[np.bool_], basis: Vector) -> tuple[Vector, Noise]:
    """Some features' values of a noise in an orthonormal basis over outputs, and what noise these are."""
    away = (by_feature[chosen] @ basis.T).ravel()
    root = noise.unit_information_root(by_feature.size) if noise.normal else None
    if root is None:  # independent, and alike in every direction where they are normal
        return away, noise
    features, outputs = by_feature.shape
    places = _places(by_feature.size, features - 1)[chosen]
    covariance = np.linalg.inv(root.T @ root)[np.ix_(places.ravel(), places.ravel())]
    covariance = covariance.reshape(len(places), outputs, len(places), outputs)
    own = np.einsum("ak,ikjl,bl->iajb", basis, covariance, basis).reshape(away.size, away.size)
    return away, Gaussian(noise.scale, np.asarray(own, dtype=np.float64))


@dataclass(frozen=True)
class AlongRows:
    """Noise on all parameters as some directions see it: its draws, turned; for lengths, which need no density."""

    noise: Noise
    turn: Vector

    normal = False

    @property
    def scale(self) -> float:
        return self.noise.scale

    def rescaled(self, scale: float) -> Self:
        return replace(self, noise=self.noise.rescaled(scale))

    def draws(self, count: int, size: int, rng: np.random.Generator) -> Vector:
        return np.asarray(self.noise.draws(count, self.turn.shape[1], rng) @ self.turn.T)

    def record(self) -> Json:
        return self.noise.record() | {"turn": self.turn.tolist()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(noise_from_record(record), np.asarray(record["turn"]))


@dataclass(frozen=True)
class BetweenClasses:
    """Independent noise on the parameters of all classes, as contrasts between them see it, feature by feature."""

    noise: Noise
    classes: int

    @property
    def scale(self) -> float:
        return self.noise.scale

    @property
    def normal(self) -> bool:
        return self.noise.normal

    def unit_information_root(self, size: int) -> Vector | None:
        return self.noise.unit_information_root(size)

    def rescaled(self, scale: float) -> Self:
        return replace(self, noise=self.noise.rescaled(scale))

    def draw(self, size: int, random_state: int | np.random.Generator | None = None) -> Vector:
        return np.asarray(self.draws(1, size, np.random.default_rng(random_state))[0])

    def draws(self, count: int, size: int, rng: np.random.Generator) -> Vector:
        features = -(-size // (self.classes - 1))
        drawn = self.noise.draws(count, features * self.classes, rng).reshape(count, features, self.classes)
        return np.asarray((drawn @ contrasts(self.classes).T).reshape(count, -1)[:, :size])

    def log_density(self, b: Vector) -> Vector:
        values = b.reshape(*b.shape[:-1], -1, self.classes - 1) @ contrasts(self.classes)
        found = [sum(self._of_feature(each) for each in one) for one in values.reshape(-1, *values.shape[-2:])]
        return np.asarray(found).reshape(b.shape[:-1])

    def _of_feature(self, values: Vector) -> float:
        """Logarithm of the density of K values but for what they have in common, which is integrated over."""
        middle = np.sort(-values)[[(self.classes - 1) // 2, self.classes // 2]]
        reach, inside = FAR * self.scale, -(values.max() + values.min()) / 2
        at = np.sort(np.append(np.linspace(middle[0] - reach, middle[1] + reach, POINTS), inside))
        for _ in range(2):
            logs = self.noise.log_density(values + at[:, None])
            if np.isneginf(logs.max()):
                return -np.inf
            near = np.flatnonzero(logs > logs.max() - FAR)
            at = np.linspace(at[max(0, near[0] - 1)], at[min(at.size - 1, near[-1] + 1)], POINTS)
        logs = self.noise.log_density(values + at[:, None])
        # dt of the coordinate along the unit vector that all classes have in common
        return float(logsumexp(logs) + np.log((at[1] - at[0]) * self.classes**0.5))

    def record(self) -> Json:
        return self.noise.record() | {"between": self.classes}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(noise_from_record(record), int(record["between"]))

"""What all attackers share: how they are asked, and how they are scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, namespace
from fisherleak.attacks.candidates import target_of
from fisherleak.attacks.outcome import Outcome, outcome_of
from fisherleak.engine.erm import Fit
from fisherleak.engine.noise import Noise, check_noise
from fisherleak.errors import InvalidInputError
from fisherleak.models import checked_model, final_estimator
from fisherleak.models.estimators import check_supported, parameters
from fisherleak.protection.release import Released

__all__ = ["Attacker", "part_right"]

Codes = NDArray[np.int64]
Vector = NDArray[np.float64]


class Attacker(ABC):
    """Guesses one attribute of each row from a released model.

    Parameters
    ----------
    model : Fit or fitted scikit-learn model
        The model without noise: needed to know what is being guessed and to score the guesses; an attacker uses only
        what its own description allows.
    X : array or table of shape (n, d)
        The rows it was fitted on.
    y : array of shape (n,)
    attribute : str or int
        The column under attack, of the raw table.
    values : sequence, optional
        Candidates. By default all values that the column has; needed for a numeric column with many values, whose rows then
        count as guessed right where the guess is the nearest candidate.
    sample_weight : array of shape (n,), optional
        The weights the model was fitted with.
    prior : mapping or sequence, optional
        Probability of each candidate. By default the frequencies in the training data.
    rows : mask or positions, optional
        Rows to attack. All by default.
    """

    name = "attacker"

    def __init__(
        self,
        model: Any,
        X: Any,
        y: Any,
        attribute: str | int,
        values: Any = None,
        sample_weight: Any = None,
        prior: Any = None,
        rows: Any = None,
    ) -> None:
        self.target = target_of(model, X, y, attribute, values, sample_weight, prior, rows)

    @property
    def values(self) -> tuple[Any, ...]:
        """Candidate values, in order."""
        return self.target.values

    @property
    def prior(self) -> Vector:
        """Probability of each candidate, (k,)."""
        return self.target.prior

    @property
    def truth(self) -> Array:
        """The attacked rows' own values (or the candidates nearest to them), (m,)."""
        return self.target.chosen(self.target.truth)

    def infer(self, released: Any = None) -> Array:
        """Guesses, in the column's own values.

        Parameters
        ----------
        released : released model, array of parameters, or a list of either
            What :func:`fisherleak.release` gave, or its parameters (coefficients, then the intercept if there is one), (p,)
            or (T, p). The model without noise if not given.

        Returns
        -------
        array of shape (m,), or (T, m) for several
        """
        theta, several = self._parameters(released)
        guesses = self.target.chosen(self._codes(theta))
        return guesses if several else guesses[0, ...]

    def accuracy(self, noise: Noise, draws: int = 100, random_state: Any = 0) -> Array:
        """Expected accuracy of each attacked row when the model is released with this noise, (m,).

        Parameters
        ----------
        noise : Noise
        draws, random_state
            Of the simulation, where there is no closed form.
        """
        return part_right(self._simulated(noise, draws, random_state), axis=0)

    def against(self, released: Any = None, draws: int = 100, random_state: Any = 0) -> Outcome:
        """How often the attacker is right, with an interval and the prior's baseline.

        Parameters
        ----------
        released : as for ``infer``, or a noise
            Against a noise: expected accuracy when the model is released with it.
        draws, random_state
            As for ``accuracy``.
        """
        if hasattr(released, "unit_information_root"):
            return self._against_noise(released, draws, random_state)
        theta, several = self._parameters(released)
        return self._scored(self._right(self._codes(theta)), several)

    def _against_noise(self, noise: Noise, draws: int, random_state: Any) -> Outcome:
        return self._scored(self._simulated(noise, draws, random_state), several=True)

    def _scored(self, right: Array, several: bool) -> Outcome:
        by_trial = host(part_right(right, axis=1)) if several else None
        return outcome_of(self.name, self.target.name, part_right(right, axis=0), by_trial, self.target.baseline)

    def _simulated(self, noise: Noise, draws: int, random_state: Any) -> Array:
        return self._right(self._codes(self._drawn(noise, draws, random_state)))

    def _right(self, codes: Array) -> Array:
        """Where guesses (T, m) are the truth."""
        truth = self.target.truth
        return codes == (host(truth) if isinstance(codes, np.ndarray) else truth)[None, :]

    def _drawn(self, noise: Noise, draws: int, random_state: Any) -> Vector:
        """Parameters of that many releases, (draws, p)."""
        check_noise(noise)
        if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 1:
            raise InvalidInputError(f"draws must be a whole number, one or more; got {draws!r}.")
        theta = self.target.given
        noise.unit_information_root(theta.shape[0])  # refuses a shape of another size
        noise.draw(theta.shape[0], random_state)  # refuses what is no seed
        rng = np.random.default_rng(random_state)
        return np.stack([theta + noise.draw(theta.shape[0], rng) for _ in range(draws)])

    def _parameters(self, released: Any) -> tuple[Vector, bool]:
        """(T, p) parameters, and whether there may be several."""
        own = self.target.given
        if released is None:
            return own[None, :], False
        if isinstance(released, (list, tuple)) and released and not np.isscalar(released[0]):
            return np.concatenate([self._parameters(each)[0] for each in released]), True
        theta = _parameters_of(released, self.target.model)
        if (
            theta.ndim not in (1, 2)
            or theta.shape[-1] != own.shape[0]
            or theta.shape[0] == 0
            or not np.isfinite(theta).all()
        ):
            raise InvalidInputError(
                f"released must have {own.shape[0]} finite parameters, as the model has; got shape {theta.shape}."
            )
        return np.atleast_2d(theta), theta.ndim == 2

    @abstractmethod
    def _codes(self, theta: Vector) -> Array:
        """Guessed candidates for each release (T, p) and attacked row: (T, m)."""


def part_right(right: Array, axis: int) -> Array:
    """Mean of a boolean array along an axis."""
    xp = namespace(right)
    return xp.mean(xp.astype(right, xp.float64), axis=axis)


def _check_same_kind(released: Any, model: Any) -> None:
    """Refuse the release of another kind of model, of other columns or other classes."""
    pairs = [(type(final_estimator(released)).__name__, type(final_estimator(model)).__name__)]
    for name in ("feature_names_in_", "classes_"):
        found = [getattr(each, name, None) for each in (released, model)]
        if all(value is not None for value in found):
            pairs.append((np.asarray(found[0]).tolist(), np.asarray(found[1]).tolist()))
    for theirs, own in pairs:
        if theirs != own:
            raise InvalidInputError(
                f"released is no release of this model: {str(theirs)[:60]} is not {str(own)[:60]}. Pass what release gave."
            )


def _parameters_of(released: Any, model: Any) -> Vector:
    if isinstance(released, Fit):
        return np.asarray(host(released.theta))
    if isinstance(released, Released):
        coef = host(released.coef)
        return coef if released.intercept is None else np.append(coef, released.intercept)
    if hasattr(released, "fit") or hasattr(released, "predict"):
        inner = released if not hasattr(released, "noise_") else released.estimator_
        inner = checked_model(inner)
        estimator = final_estimator(inner)
        check_supported(estimator)
        if not isinstance(model, Fit):
            _check_same_kind(inner, checked_model(model))
        return parameters(estimator)
    try:
        values = np.asarray(host(released) if hasattr(released, "detach") else released)
        if values.dtype.kind == "c":
            raise TypeError("complex")
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"released must be a released model, its parameters, or a list of them; got {type(released).__name__}."
        ) from None

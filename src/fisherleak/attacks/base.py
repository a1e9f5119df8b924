"""What all attackers share: how they are asked, and how they are scored.

An attacker is one method, ``guess``: from released parameters (T, p) to the candidate it takes each attacked row to have,
(T, m). Everything else (reading the model, simulating releases with any noise, intervals) is here.

Also here: how often an attack was right, with an interval and the baseline of a guesser who knows the prior alone.

Mathematics: 9.5, ``docs/mathematics/attacks.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from fisherleak._support.arrays import Array, host, namespace
from fisherleak._support.namespaces import Vector
from fisherleak._support.notebook import panel
from fisherleak.attacks.candidates import Candidates, candidates_of, people_of
from fisherleak.attacks.likelihoods import likelihood_of
from fisherleak.engine.fit.minimise import is_fit
from fisherleak.engine.mechanisms.self_shaped import is_self_shaped
from fisherleak.engine.noise import Noise, check_noise, drawn
from fisherleak.engine.noise.add_noise_and_round import Released, generator
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.models import checked_model, final_estimator
from fisherleak.models.estimators import check_supported
from fisherleak.models.several import all_parameters, outputs_of
from fisherleak.models.steps.scalers import complete, has_scalers, neutral, scaled_parameters, split_outputs
from fisherleak.rows.summary import digest

if TYPE_CHECKING:
    from typing_extensions import TypeIs


LEVEL = 0.975
OFTEN = 0.9
"""Rows that are guessed correctly at least this often count as found."""
CORRELATED = 0.1
"""Between the guesses of a release at least: what simulated attacks have at most, but for a few."""
FEW_RELEASES = 5
"""Releases up to which all rows may have been guessed correctly or wrong together, for all that they say."""


@dataclass(frozen=True)
class Outcome:
    """Accuracy of an attack.

    Attributes
    ----------
    attacker, attribute : str
    accuracy : float
        Part of the rows guessed correctly: observed, or expected over the noise.
    low, high : float
        95 % interval for the accuracy over all training rows, of which the attacked ones are a sample, the model
        held fixed. Where several releases or a noise were attacked, it is the mean over draws of the noise that the interval
        is for. All rows share the draw of a release: a single one deviates from that mean by about ``sd``.
    baseline : float
        Accuracy on the same rows of always guessing the most probable value.
    sd : float or None
        Standard deviation of the accuracy from release to release; None where a single one was attacked.
    n : int
        Rows attacked.
    trials : int or None
        Released models that were attacked; None where the accuracy is an exact expectation (``sd`` is simulated).
    worst, q95, median : float or None
        Of the attacked rows, how often the one that is guessed correctly most often is, one in twenty and the median;
        over several releases only, and for attackers who see one.
    found : int or None
        Rows that are guessed correctly nine times in ten or more.
    """

    attacker: str
    attribute: str
    accuracy: float
    low: float
    high: float
    baseline: float
    sd: float | None
    n: int
    trials: int | None
    worst: float | None = None
    q95: float | None = None
    median: float | None = None
    found: int | None = None

    def __str__(self) -> str:
        varies = "" if self.sd is None else f", ± {self.sd:.1%} from release to release"
        return (
            f"{self.attacker} on {self.attribute}: {self.accuracy:.1%} right "
            f"(95 % interval {self.low:.1%} to {self.high:.1%}{varies}); the prior alone: {self.baseline:.1%}"
        )


def outcome_of(
    attacker: str,
    attribute: str,
    by_row: Array,
    by_trial: Vector | None,
    baseline: float,
    exact: bool = False,
    sees_model: bool = True,
) -> Outcome:
    """An outcome from the mean accuracy of each row and, for several releases, of each release."""
    n = by_row.shape[0]
    rows = digest(by_row)
    several = by_trial is not None and by_trial.shape[0] > 1
    sd = float(by_trial.std(ddof=1)) if by_trial is not None and several else None
    drawn = None if by_trial is None or sd is None or exact else (sd, int(by_trial.shape[0]))
    low, high = _interval(rows.mean, rows.sd or 0.0, n, drawn)
    trials = None if exact else 1 if by_trial is None else int(by_trial.shape[0])
    people = _people(by_row) if sees_model and (exact or several) else (None, None, None, None)
    return Outcome(attacker, attribute, rows.mean, low, high, baseline, sd, n, trials, *people)


def _people(by_row: Array) -> tuple[float, float, float, int]:
    """The row that is guessed correctly most often, one in twenty, the one in the middle, and rows that are found out."""
    xp = namespace(by_row)
    right, last = xp.sort(by_row), int(by_row.shape[0]) - 1  # where the rows are: single numbers leave
    found = int(xp.sum(xp.astype(by_row >= OFTEN, xp.int64)))

    def quantile(part: float) -> float:
        low = math.floor(part * last)
        below, above = float(right[low]), float(right[min(low + 1, last)])
        return below + (part * last - low) * (above - below)

    return float(right[last]), quantile(0.95), quantile(0.5), found


def _interval(mean: float, sd: float, n: int, releases: tuple[float, int] | None) -> tuple[float, float]:
    """From the mean, its spread over n rows, and the spread over T releases where these were drawn."""
    # section 9.5: p~ and the sum of squares about it, of the rows and two more, one right and one wrong
    middle = (n * mean + 1.0) / (n + 2)
    squares = (n - 1) * sd**2 + n * (mean - middle) ** 2 + middle**2 + (1.0 - middle) ** 2
    # t_{n+1}^2 A
    width = _student(n + 1) ** 2 * squares / (n + 1) / (n + 2)
    binary = middle * (1.0 - middle)
    if releases is not None:
        spread, count = releases
        together = 1.0 if count <= FEW_RELEASES else CORRELATED
        # the larger of t_{T-1}^2 B and z^2 rho p~ (1 - p~) / T, T is ``count``
        least = float(ndtri(LEVEL)) ** 2 * together * binary
        width += max(_student(count - 1) ** 2 * spread**2, least) / count
    # h^2 over p~ (1 - p~), as Wilson's interval has z^2 / n
    return _wilson(mean, width / binary)


def _student(freedom: int) -> float:
    return float(stdtrit(freedom, LEVEL))


def _wilson(part: float, width: float) -> tuple[float, float]:
    """Wilson's interval, ``width`` in place of z^2 / n."""
    centre = (part + 0.5 * width) / (1.0 + width)
    half = math.sqrt(width * part * (1.0 - part) + 0.25 * width**2) / (1.0 + width)
    return max(0.0, min(centre - half, part)), min(1.0, max(centre + half, part))


Codes = NDArray[np.int64]
Kind = TypeVar("Kind", bound="Attacker")

GUESSES_AT_ONCE = 2**23
"""Guesses held at a time."""


class Attacker(ABC):
    """Guesses one attribute of each row from a released model.

    Parameters
    ----------
    model : Fit or fitted scikit-learn model
        The model without noise: needed to know what is being guessed and to score the guesses; an attacker uses only
        what its own description allows.
    X : array or table of shape (n, d)
        The rows it was fitted on.
    y : array of shape (n,), or (n, K) for K numbers
    attribute : str, int or tuple
        The column under attack, of the raw table; or "label", where no column is called that: then the row's columns are
        known and its label is guessed. Of K numbers, ``("label", k)`` is the k-th.
    values : sequence, optional
        Candidates. By default all values that the column has; needed for a numeric column with many values, whose rows then
        count as guessed correctly where the guess is the nearest candidate. For a label of many numbers by default the
        medians of ten bins of equal counts.
    sample_weight : array of shape (n,), optional
        The weights the model was fitted with.
    prior : mapping or sequence, optional
        Probability of each candidate, (k,); or of each candidate of each row, (n, k). By default the frequencies in the
        training data.
    rows : mask or positions, optional
        Rows to attack. All by default.
    groups : str or array of shape (n,), optional
        A column of the table, or whose each row is: then people are attacked, in the order of their names, and a value is
        guessed that all rows of a person have. For :class:`WhiteBox` and :class:`Prior`; others refuse it.

    Notes
    -----
    A subclass has a ``name`` and a method :meth:`guess`; ``self.target`` holds what it may need: the ``values`` and their
    ``prior``, ``k`` and ``m``, the attacked ``rows``, the ``features`` and labels ``y`` of all rows, the ``fit``, and
    ``changed(k)``, the features that the attacked rows would have with candidate k.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = LinearRegression().fit(X, y)
    >>> attack = fl.attacks.WhiteBox(model, X, y, "sex", rows=range(50))
    >>> attack.values
    (1.0, 2.0)

    Examples of the methods go on from here.
    """

    name = "attacker"
    sees_model = True
    """Whether the attacker looks at a released model at all."""
    of_people = False
    """Whether the attacker can guess a value that all rows of a person have."""
    by_answers = False
    """Whether the attacker looks at a released model's answers and not at its parameters: its scalers may be folded in then."""

    def __init__(
        self,
        model: Any,
        X: Any,
        y: Any,
        attribute: str | int | tuple[str, int],
        values: Any = None,
        sample_weight: Any = None,
        prior: Any = None,
        rows: Any = None,
        groups: Any = None,
    ) -> None:
        if groups is not None and not self.of_people:
            raise InvalidInputError(
                f"{type(self).__name__} guesses a value of one row: leave groups out, or use WhiteBox. WhiteBox guesses a "
                "value that all rows of a person share."
            )
        target = candidates_of(model, X, y, attribute, values, sample_weight, prior, rows)
        if groups is not None:
            check_alone(rows=rows, prior=prior)
            target = people_of(target, groups)
        self._aim(target)

    def _aim(self, target: Candidates) -> None:
        self.target = target

    def __repr__(self) -> str:
        target = self.target
        return f"{type(self).__name__}({target.name!r}, {target.k} values, {target.m} rows)"

    def _repr_html_(self) -> str:
        target = self.target
        pairs = [
            ("guesses", f"{target.name}, one of {target.k} values"),
            ("of", f"{target.m:,} rows"),
            ("right without the release", f"{target.baseline:.1%}"),
        ]
        return panel(f"Attacker, {self.name}", pairs, "attack.against(noise) says how often it is correct.")

    @property
    def values(self) -> tuple[Any, ...]:
        """Candidate values, in order."""
        return self.target.values

    @property
    def prior(self) -> Vector:
        """Probability of each candidate, (k,): the mean over rows where each has its own."""
        return self.target.prior

    @property
    def truth(self) -> Array:
        """The attacked rows' own values (or the candidates nearest to them), (m,)."""
        return self.target.chosen(self.target.truth)

    @abstractmethod
    def guess(self, theta: Vector, noise: Noise | None = None) -> Array:
        """Which candidate each attacked row is taken to have, for each of several releases.

        Parameters
        ----------
        theta : array of shape (T, p)
            Released parameters.
        noise : Noise, optional
            That of the releases, where it is known.

        Returns
        -------
        integer array of shape (T, m)
            Places in ``values``.

        Examples
        --------
        >>> theta = np.append(model.coef_, model.intercept_)
        >>> attack.guess(theta, fl.Gaussian(0.1))[0, :5]  # places in attack.values
        array([1, 0, 1, 0, 0])
        """

    def infer(self, released: Any = None, noise: Noise | None = None) -> Array:
        """Guesses, in the column's own values.

        Parameters
        ----------
        released : released model, array of parameters, or a list of either
            What :func:`fisherleak.release` gave, or its parameters (coefficients, then the intercept if there is one), (p,)
            or (T, p). The model without noise if not given. Parameters are for the features that the model's preprocessing
            gives; a release whose scalers are folded in is refused by attackers who look at parameters.
        noise : Noise, optional
            What the attacker knows of the noise, where that helps him; a released Fit and a ``PrivateRelease`` bring their own.

        Returns
        -------
        array of shape (m,), or (T, m) for several

        Examples
        --------
        >>> attack.infer(model, fl.Gaussian(0.1))[:5]
        array([2., 1., 2., 1., 1.])
        """
        theta, several = self._parameters(released)
        guesses = self.target.chosen(self.guess(theta, known_noise(released, noise)))
        return guesses if several else guesses[0, ...]

    def accuracy(self, noise: Noise, draws: int = 100, random_state: Any = 0) -> Array:
        """Expected accuracy of each attacked row when the model is released with this noise, (m,).

        Parameters
        ----------
        noise : Noise
        draws, random_state
            Of the simulation, where there is no closed form.

        Examples
        --------
        >>> attack.accuracy(fl.Gaussian(1.0))[:3].round(3)
        array([0.699, 0.623, 0.642])
        """
        by_row, _ = self._tallied(self._drawn(noise, draws, random_state), noise)
        return by_row

    def against(
        self, released: Any = None, draws: int = 100, random_state: Any = 0, noise: Noise | None = None
    ) -> Outcome:
        """How often the attacker is correct, with an interval and the prior's baseline.

        Parameters
        ----------
        released : as for ``infer``, or a noise
            Against a noise: expected accuracy when the model is released with it.
        draws, random_state
            As for ``accuracy``.
        noise : Noise, optional
            As for ``infer``.

        Examples
        --------
        >>> outcome = attack.against(fl.Gaussian(1.0))
        >>> print(f"{outcome.accuracy:.1%} right, {outcome.baseline:.1%} without the model")
        75.8% right, 54.0% without the model
        """
        if hasattr(released, "unit_information_root") or is_self_shaped(released):
            return self._against_noise(released, draws, random_state)
        theta, several = self._parameters(released)
        return self._scored(theta, several, known_noise(released, noise))

    def _against_noise(self, noise: Noise, draws: int, random_state: Any) -> Outcome:
        return self._scored(self._drawn(noise, draws, random_state), True, noise)

    def _scored(self, theta: Vector, several: bool, noise: Noise | None) -> Outcome:
        by_row, by_trial = self._tallied(theta, noise)
        return outcome_of(
            self.name,
            self.target.name,
            by_row,
            by_trial if several else None,
            self.target.baseline,
            sees_model=self.sees_model,
        )

    def _tallied(self, theta: Vector, noise: Noise | None) -> tuple[Array, Vector]:
        """Part of the releases (T, p) that guess each row correctly, (m,), and part of the rows at each release, (T,)."""
        most = max(1, GUESSES_AT_ONCE // self.target.m)
        total, by_trial = None, []
        for start in range(0, theta.shape[0], most):
            right = self._right(self.guess(theta[start : start + most], noise))
            xp = namespace(right)
            count = xp.sum(xp.astype(right, xp.float64), axis=0)
            total = count if total is None else total + count
            by_trial.append(host(part_right(right, axis=1)))
        assert total is not None
        return total / theta.shape[0], np.concatenate(by_trial)

    def _simulated(self, noise: Noise, draws: int, random_state: Any) -> Array:
        """Where simulated releases are guessed correctly, (draws, m)."""
        return self._right(self.guess(self._drawn(noise, draws, random_state), noise))

    def _right(self, codes: Array) -> Array:
        """Where guesses (T, m) are the truth."""
        truth = self.target.truth
        return codes == (host(truth) if isinstance(codes, np.ndarray) else truth)[None, :]

    def _drawn(self, noise: Noise, draws: int, random_state: Any) -> Vector:
        """Parameters of that many releases, (draws, p)."""
        if is_self_shaped(noise):
            mechanism: Any = noise
            target = self.target
            likelihood = likelihood_of(mechanism, target.fit, target.features, target.y, target.rows[:1])
            return likelihood.drawn(check_draws(draws), generator(random_state))
        return self.target.given[None, :] + self._noise_drawn(noise, draws, random_state)

    def _noise_drawn(self, noise: Noise, draws: int, random_state: Any) -> Vector:
        """The noise of that many releases, (draws, p)."""
        check_noise(noise)
        return drawn(noise, check_draws(draws), self.target.given.shape[0], random_state)

    def _parameters(self, released: Any) -> tuple[Vector, bool]:
        return released_parameters(released, self.target.given, self.target.model, self.by_answers)


def aimed(kind: type[Kind], target: Candidates) -> Kind:
    """An attacker of candidates that have been read already, for several attackers of one column."""
    made = kind.__new__(kind)
    made._aim(target)
    return made


def released_parameters(released: Any, own: Vector, model: Any, by_answers: bool = False) -> tuple[Vector, bool]:
    """(T, p) parameters of releases of a model, and whether there may be several; the model's own for None.

    A release whose scalers are folded in is refused, but for ``by_answers``: its parameters are then those with which the
    model, its scalers before it, answers as the release does.
    """
    if released is None:
        return own[None, :], False
    if isinstance(released, (list, tuple)) and released and not np.isscalar(released[0]):
        return np.concatenate([released_parameters(each, own, model, by_answers)[0] for each in released]), True
    theta = _parameters_of(released, model, by_answers)
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


def check_alone(**others: Any) -> None:
    """Refuse what cannot be given with groups."""
    for name, value in others.items():
        if value is not None:
            raise InvalidInputError(f"{name} and groups cannot both be given: leave {name} out.")


def check_draws(draws: Any, name: str = "draws") -> int:
    """A number of releases."""
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 1:
        raise InvalidInputError(f"{name} must be a whole number, one or more; got {draws!r}.")
    return int(draws)


def part_right(right: Array, axis: int) -> Array:
    """Mean of a boolean array along an axis."""
    xp = namespace(right)
    return xp.mean(xp.astype(right, xp.float64), axis=axis)


def known_noise(released: Any, noise: Noise | None) -> Noise | None:
    """The noise that is given, or that all the releases bring along; none where they differ."""
    if noise is None:
        several = isinstance(released, (list, tuple)) and released and not np.isscalar(released[0])
        brought = [
            each.noise if _is_record(each) else getattr(each, "noise_", None)
            for each in (released if several else [released])
        ]
        noise = brought[0] if all(each == brought[0] for each in brought) else None
    if noise is not None and not is_self_shaped(noise):
        check_noise(noise)
    return noise


def _is_record(released: Any) -> TypeIs[Released]:
    return isinstance(released, Released)


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
                f"released is no release of this model: {str(theirs)[:60]} is not {str(own)[:60]}. Pass the model that "
                "release returned."
            )


def _unfolded(theta: Vector, released: Any, model: Any, by_answers: bool) -> Vector:
    """Parameters of a release for features as the model's own scalers leave them."""
    if not has_scalers(model) or has_scalers(released):
        return theta
    if not by_answers:
        raise UnsupportedModelError(
            "released has its scalers folded into its coefficients, and this attacker takes scales and centres as "
            "public. Attack a release with public='preprocessing', or measure this release with public='nothing'."
        )
    _, scales = neutral(model)
    estimator = final_estimator(model)
    known = complete(scales or [], estimator.n_features_in_)
    if outputs_of(estimator) == 1:
        return scaled_parameters(theta, known)
    coef, level = split_outputs(theta, len(known), estimator.fit_intercept)
    by_output = scaled_parameters(coef if level is None else np.column_stack([coef, level]), known)
    return np.append(by_output[:, : len(known)], by_output[:, len(known) :])


def _parameters_of(released: Any, model: Any, by_answers: bool) -> Vector:
    if is_fit(released):
        return np.asarray(host(released.theta))
    if _is_record(released):
        coef = host(released.coef).reshape(-1)
        level = released.intercept
        return coef if level is None else np.append(coef, host(level) if hasattr(level, "shape") else level)
    if hasattr(released, "fit") or hasattr(released, "predict"):
        inner = released if not hasattr(released, "noise_") else released.estimator_
        inner = checked_model(inner)
        estimator = final_estimator(inner)
        check_supported(estimator)
        if is_fit(model):
            return all_parameters(estimator)
        _check_same_kind(inner, checked_model(model))
        return _unfolded(all_parameters(estimator), inner, checked_model(model), by_answers)
    try:
        values = np.asarray(host(released) if hasattr(released, "detach") else released)
        if values.dtype.kind == "c":
            raise TypeError("complex")
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"released must be a released model, its parameters, or a list of them; got {type(released).__name__}."
        ) from None

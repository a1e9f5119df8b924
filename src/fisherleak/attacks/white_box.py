r"""The white-box attack: the model that would have been fitted with each candidate value, against the released one.

The attacker knows everything but one value: all other data, the training procedure, the released :math:`w'` (paper,
equation 19):

.. math:: \hat x = \arg\min_x \| w' - f(\mathcal{D} \setminus x_i \cup x) \|_2

With :math:`\Delta_k` the move of the parameters when the value becomes candidate k and b the noise, k scores
:math:`2 \Delta_k \cdot b - |\Delta_k|^2`. Candidate t beats j where b is on its side of a hyperplane, so that the expected
accuracy is the probability of an orthant: :math:`\Phi(|\Delta| / 2\sigma)` for two values, a bivariate normal for three.
"""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, host, like, namespace, normal_cdf
from fisherleak.attacks.base import Attacker, Vector, part_right
from fisherleak.attacks.orthants import below_both
from fisherleak.attacks.outcome import Outcome, outcome_of
from fisherleak.engine.neighbours import Moves, moves
from fisherleak.engine.noise import Gaussian, Noise, check_noise
from fisherleak.errors import InvalidInputError
from fisherleak.protection.release import Released

__all__ = ["WhiteBox"]

AT_ONCE = 2**23
"""Scores held at a time."""
FEW = 100
"""Draws that tell how much the accuracy varies from release to release."""
DRAWS = 1000
"""Draws of noise where there is no closed form."""


class WhiteBox(Attacker):
    r"""Compares the released parameters with those of a model fitted with each candidate value.

    Knows all the data but the value under attack, one row at a time, and how the model is trained. Parameters as for every
    attacker, and:

    Parameters
    ----------
    use_prior : bool
        The maximum a posteriori attacker: knows the noise and the prior too, and maximises
        :math:`\log p_k - |w' - w_k|^2_{\Sigma^{-1}} / 2\sigma^2`. For values that follow the prior no attacker is right more
        often, and it never falls below the prior alone. Without it, the nearest model wins (the paper's attack), which
        under heavy noise does.

    Notes
    -----
    **What holds, and when.** Preprocessing is taken as fixed and public: candidates pass through it as it was fitted. No
    model is fitted again: moves of the parameters are exact for the squared loss and come with an error bound otherwise
    (``moves``); rows where the steps do not settle are fitted anew. Ties go to the more probable candidate. The attacker
    compares with exact minimisers: what a loose solver leaves short of its minimum stands against him like noise.

    ``accuracy`` is exact for two and three candidates and Gaussian noise, and simulated for more.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = LinearRegression().fit(X, y)
    >>> attack = fl.attacks.WhiteBox(model, X, y, "sex")
    >>> float(attack.against(model).accuracy)
    1.0
    >>> print(attack.against(fl.Gaussian(1.0)))
    white-box on sex: 73.9% right (95 % interval 72.8% to 74.9%, ± 12.7% from release to release); the prior alone: 53.2%
    """

    name = "white-box"

    def __init__(
        self, model: Any, X: Any, y: Any, attribute: str | int, *, use_prior: bool = False, **options: Any
    ) -> None:
        super().__init__(model, X, y, attribute, **options)
        self._use(use_prior)

    def _use(self, prior: bool) -> None:
        self.use_prior = prior
        self.name = "white-box with prior" if prior else "white-box"

    def with_prior(self, use_prior: bool) -> WhiteBox:
        """The same attack with or without the prior; what the parameters' moves cost is paid once."""
        other = copy.copy(self)
        vars(other)["moves"] = self.moves
        other._use(use_prior)
        return other

    @cached_property
    def moves(self) -> tuple[Moves, ...]:
        """For each candidate, how the parameters move if the row has it: a record with values (m, p) and error bounds."""
        target = self.target
        found = []
        for k, value in enumerate(target.values):
            what = f"{target.name} = {value}"
            found.append(moves(target.fit, target.features, target.y, target.rows, target.changed(k), what))
        return tuple(found)

    def infer(self, released: Any = None, noise: Noise | None = None) -> Array:
        """Guesses, in the column's own values: see :meth:`Attacker.infer`.

        Parameters
        ----------
        released
            As for every attacker.
        noise : Noise, optional
            What the attacker with a prior knows of the noise; a released Fit brings its own.
        """
        theta, several = self._parameters(released)
        guesses = self.target.chosen(self._guess(theta, self._known_noise(released, noise)))
        return guesses if several else guesses[0, ...]

    def accuracy(self, noise: Noise, draws: int = DRAWS, random_state: Any = 0, over: str = "rows") -> Array:
        """Expected accuracy of each attacked row when the model is released with this noise, (m,).

        In closed form for two and three candidates and Gaussian noise; simulated with ``draws`` else.

        Parameters
        ----------
        noise : Noise
        draws, random_state
            Of the simulation.
        over : {"rows", "prior"}
            "rows" takes the values that the rows have; "prior" is the mean over values drawn from the prior, everything
            else in the row as it is: what the attacker expects before he sees the model. Closed form only.
        """
        if over not in ("rows", "prior"):
            raise InvalidInputError(f"over must be 'rows' or 'prior'; got {over!r}.")
        if self._has_closed_form(noise):
            return self._exact(noise, over)
        if over == "prior":
            raise InvalidInputError("over='prior' is for two or three candidates and Gaussian noise.")
        return super().accuracy(noise, draws, random_state)

    def _has_closed_form(self, noise: Noise) -> bool:
        return self.target.k <= 3 and isinstance(noise, Gaussian)

    def against(
        self, released: Any = None, draws: int = DRAWS, random_state: Any = 0, noise: Noise | None = None
    ) -> Outcome:
        """How often the attacker is right: see :meth:`Attacker.against`; ``noise`` as for ``infer``."""
        if hasattr(released, "unit_information_root"):
            return self._against_noise(released, draws, random_state)
        theta, several = self._parameters(released)
        return self._scored(self._right(self._guess(theta, self._known_noise(released, noise))), several)

    def _against_noise(self, noise: Noise, draws: int, random_state: Any) -> Outcome:
        if not self._has_closed_form(noise):
            return self._scored(self._simulated(noise, draws, random_state), several=True)
        by_trial = host(part_right(self._simulated(noise, FEW, random_state), axis=1))
        return outcome_of(self.name, self.target.name, self.accuracy(noise), by_trial, self.target.baseline, exact=True)

    def _simulated(self, noise: Noise, draws: int, random_state: Any) -> Array:
        return self._right(self._guess(self._drawn(noise, draws, random_state), noise))

    def _codes(self, theta: Vector) -> Array:
        return self._guess(theta, None)

    def _known_noise(self, released: Any, noise: Noise | None) -> Noise | None:
        if noise is None and isinstance(released, Released):
            noise = released.noise
        if noise is not None:
            check_noise(noise)
        if self.use_prior and noise is None:
            raise InvalidInputError(
                "The attacker with a prior must know the noise of the release: pass noise=fisherleak.Gaussian(scale)."
            )
        return noise

    @cached_property
    def _stacked(self) -> Array:
        """Moves of all candidates, the most probable first, (k, m, p)."""
        xp = namespace(self.moves[0].values)
        return xp.stack([self.moves[k].values for k in self.target.by_prior.tolist()])

    def _guess(self, theta: Vector, noise: Noise | None) -> Array:
        """Argmax over candidates of 2 Delta . b - |Delta|^2, with the prior where it counts; (T, m)."""
        target, delta = self.target, self._stacked
        xp = namespace(delta)
        b = like(theta - host(target.fit.theta)[None, :], delta, xp)
        bonus = np.zeros(target.k)
        if self.use_prior:
            assert noise is not None
            root = noise.unit_information_root(b.shape[1])
            if root is not None:
                whiten = like(root.T, delta, xp)
                delta, b = delta @ whiten, b @ whiten
            with np.errstate(divide="ignore"):
                bonus = 2.0 * noise.scale**2 * np.log(target.prior[target.by_prior])
        offset = like(bonus, delta, xp)[:, None] - xp.vecdot(delta, delta)
        most = max(1, AT_ONCE // (target.k * target.m))
        order = like(target.by_prior, delta, xp)
        across = xp.matrix_transpose(delta)
        parts = []
        for start in range(0, b.shape[0], most):
            some = b[None, start : min(start + most, b.shape[0]), :]
            scores = 2.0 * (some @ across) + offset[:, None, :]
            best = xp.argmax(scores, axis=0)
            parts.append(xp.reshape(xp.take(order, xp.reshape(best, (-1,))), best.shape))
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)

    def _exact(self, noise: Noise, over: str) -> Array:
        """Probability that the true candidate's score is the largest."""
        target, delta = self.target, self._stacked
        xp = namespace(delta)
        root = noise.unit_information_root(delta.shape[2])
        ordered = target.prior[target.by_prior]
        if self.use_prior:
            delta = spread = delta if root is None else delta @ like(root.T, delta, xp)
            with np.errstate(divide="ignore"):
                log_prior = np.log(ordered)
        else:
            # the nearest model by the plain norm, whatever the noise's shape
            spread = delta if root is None else delta @ like(np.linalg.inv(root), delta, xp)
            log_prior = np.zeros(target.k)
        if over == "rows":
            place = xp.take(like(np.argsort(target.by_prior), delta, xp), target.truth)
            # what a solver left short of the minimum stays in every release
            short = target.given - host(target.fit.theta)
            short = short @ root.T if self.use_prior and root is not None else short
            return _ahead_of_all(delta, spread, place, log_prior, noise.scale, like(short, delta, xp))
        total = xp.zeros_like(delta[0, :, 0])
        for k, weight in enumerate(ordered.tolist()):
            if weight > 0:
                place = xp.full_like(target.truth, k)
                total = total + weight * _ahead_of_all(delta - delta[k, ...], spread, place, log_prior, noise.scale)
        return total


def _ahead_of_all(
    delta: Array, spread: Array, true: Array, log_prior: Vector, scale: float, short: Array | float = 0.0
) -> Array:
    """Probability that the true candidate beats the one or two others."""
    xp = namespace(delta)
    k = delta.shape[0]
    found = [_margin(delta, spread, true, (true + shift) % k, log_prior, scale, short) for shift in range(1, k)]
    if k == 2:
        return normal_cdf(found[0][0])
    (first, along), (second, across) = found
    return below_both(first, second, xp.clip(xp.sum(along * across, axis=1), -1.0, 1.0))


def _margin(
    delta: Array, spread: Array, true: Array, other: Array, log_prior: Vector, scale: float, short: Array | float
) -> tuple[Array, Array]:
    """How many standard deviations the truth is ahead of another candidate, (m,), and the direction that decides, (m, p)."""
    xp = namespace(delta)
    k = log_prior.shape[0]
    mine, theirs = _picked(delta, true), _picked(delta, other)
    apart = _picked(spread, true) - _picked(spread, other)
    length = xp.sqrt(xp.sum(apart * apart, axis=1))
    ahead = xp.sum((theirs - mine) * (0.5 * (theirs + mine) - short), axis=1)
    with np.errstate(invalid="ignore"):
        by_prior = np.nan_to_num(scale**2 * (log_prior[:, None] - log_prior[None, :]), posinf=np.inf, neginf=-np.inf)
    ahead = ahead + xp.take(like(by_prior.ravel(), delta, xp), true * k + other)
    # nothing to tell them apart but the prior, and then the order in which ties are broken
    decided = xp.where(ahead != 0, xp.sign(ahead), xp.where(true < other, xp.ones_like(ahead), -1.0))
    safe = xp.where(length > 0, length, 1.0)
    margin = xp.where(length > 0, ahead / (scale * safe), math.inf * decided)
    return margin, apart / safe[:, None]


def _picked(stack: Array, codes: Array) -> Array:
    """Row i of candidate codes[i] in a stack (k, m, p): (m, p)."""
    xp = namespace(stack)
    chosen = stack[0, ...]
    for k in range(1, stack.shape[0]):
        chosen = xp.where((codes == k)[:, None], stack[k, ...], chosen)
    return chosen

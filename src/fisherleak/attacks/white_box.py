r"""The white-box attack: the model that would have been fitted with each candidate value, against the released one.

Mathematics: 9.1, ``docs/mathematics/attacks.md``.

For normal noise its expected accuracy needs no simulation: with :math:`\Delta_k` the move of the parameters when the value
becomes candidate k and b the noise, k scores :math:`2 \Delta_k \cdot b - |\Delta_k|^2`. Candidate t beats j where b is on its
side of a hyperplane, so that the accuracy is the probability of an orthant: :math:`\Phi(|\Delta| / 2\sigma)` for two values, a
bivariate normal for three.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, as_array, by_entries, host, like, namespace, normal_cdf, solver_of
from fisherleak._support.namespaces import Estimator, Namespace, Seed, TableLike, Vector, VectorLike
from fisherleak.attacks.base import GUESSES_AT_ONCE, Attacker, Outcome, aimed, outcome_of, part_right
from fisherleak.attacks.candidates import Candidates
from fisherleak.attacks.likelihoods import by_density, by_distance, likelihood_of
from fisherleak.engine.changes.moves_of_changed_rows import Moves, replacement_moves
from fisherleak.engine.changes.starting_fit import StartingFit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.mechanisms.self_shaped import is_self_shaped
from fisherleak.engine.noise import Noise, check_noise
from fisherleak.errors import InvalidInputError

FEW = 100
"""Draws that tell how much the accuracy varies from release to release."""
BLIND = 1e150
"""Scale of noise under which a release tells nothing."""
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
        :math:`\log p_k + \log f(w' - w_k)`, f the density of the noise; for a Gaussian that is
        :math:`\log p_k - |w' - w_k|^2_{\Sigma^{-1}} / 2\sigma^2`. For values that follow the prior no attacker is correct more
        often, and it never falls below the prior alone. Without it, the nearest model wins (the paper's attack), or the most
        likely one under noise that is known and not normal; under heavy noise both fall below the prior.

    Notes
    -----
    **What holds, and when.** Preprocessing is taken as fixed and public: candidates pass through it as it was fitted, and noise
    acts on the parameters behind it. A release whose scalers are folded in is refused: attack one with
    ``public="preprocessing"``. No model is fitted again: moves of the parameters are exact for the squared loss and come with
    an error bound otherwise (``moves``), a relative one of 1e-4 or less for many rows and the logistic or softmax loss; rows
    where the steps do not settle are fitted again. Ties go to the more probable
    candidate. The attacker compares with exact minimisers: what a loose solver leaves short of its minimum stands against him
    like noise.

    ``accuracy`` is exact for two and three candidates and normal noise, and simulated for more and for noise that is not.
    :class:`fisherleak.Posterior` and :class:`fisherleak.ObjectivePerturbation` are drawn and attacked by their own
    likelihood, which is exact: a candidate moves the mean and the covariance.

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
    white-box on sex: 73.9% right (95 % interval 72.7% to 75.0%, ± 12.7% from release to release); the prior alone: 53.2%
    """

    name = "white-box"
    names = ("white-box", "white-box with prior")
    """Without the prior, and with it."""
    of_people = True
    _shared: StartingFit | None = None
    """What all replacements in the same rows share, where several columns are attacked."""
    _seen: _Seen | None = None
    """The moves as the noise sees them."""
    _refits_scale = False
    """Whether the scale of the attacked column follows from the rows, in NumPy, and is fitted anew with each candidate."""

    def __init__(
        self,
        model: Estimator,
        X: TableLike,
        y: VectorLike,
        attribute: str | int | tuple[str, int],
        *,
        use_prior: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(model, X, y, attribute, **options)
        self._use(use_prior)

    def _use(self, prior: bool) -> None:
        self.use_prior = prior
        self.name = self.names[prior]

    def with_prior(self, use_prior: bool) -> WhiteBox:
        """The same attack with or without the prior; what the parameters' moves cost is paid once."""
        other = copy.copy(self)
        vars(other)["moves"] = self.moves
        other._use(use_prior)
        return other

    @cached_property
    def moves(self) -> tuple[Moves, ...]:
        """For each candidate, how the parameters move if the row has it: a record with values (m, p) and error bounds.

        Where people are attacked, if all of a person's rows have it.
        """
        target = self.target
        shared = self._shared or StartingFit(target.fit, target.features, target.y, target.m * (target.k - 1))
        members, scaled = target.members, target._own_features or () if self._refits_scale else ()
        everyone = None if members is None else np.concatenate(members)
        found = []
        for k, value in enumerate(target.values):
            what = f"{target.name} = {value}"
            by_label = target.encoded is not None
            changed, labels = (None, target.labels(k, everyone)) if by_label else (target.changed(k, everyone), None)
            rows = target.rows if members is None else members
            found.append(replacement_moves(shared, rows, changed, labels, what, scaled))
        return tuple(found)

    def accuracy(self, noise: Noise, draws: int = DRAWS, random_state: Seed = 0, over: str = "rows") -> Array:
        """Expected accuracy of each attacked row when the model is released with this noise, (m,).

        In closed form for two and three candidates and normal noise (``noise.normal``); simulated with ``draws`` else, each
        release scored by the noise's own density.

        Parameters
        ----------
        noise : Noise
        draws, random_state
            Of the simulation.
        over : {"rows", "prior"}
            "rows" takes the values that the rows have; "prior" is the mean over values drawn from the prior, everything
            else in the row as it is: what the attacker expects before he sees the model.
        """
        if over not in ("rows", "prior"):
            raise InvalidInputError(f"over must be 'rows' or 'prior'; got {over!r}.")
        if self._has_closed_form(noise):
            return self._exact(noise, over)
        if over == "prior" and is_self_shaped(noise):
            raise InvalidInputError(
                f"over must be 'rows' for {type(noise).__name__}, whose noise has another covariance with every "
                "value; got 'prior'."
            )
        if over == "prior":
            return self._simulated_over_prior(noise, draws, random_state)
        return super().accuracy(noise, draws, random_state)

    def certain_accuracy(self, noise: Noise) -> Array:
        """How often each row is guessed correctly, (m,), for :func:`fisherleak.calibrate`: it never grows with the scale.

        The accuracy over the rows' own values, or what is left of it under any noise where that is more; over the prior for an
        attacker who has one. Rows that the model does not depend on count as a guess among all candidates. In closed form only.
        """
        if is_self_shaped(noise):
            raise InvalidInputError(
                f"A limit on accuracy needs a closed form, and {type(noise).__name__} has none: limit eta, or use "
                "fisherleak.Gaussian."
            )
        if not self._has_closed_form(noise):
            raise InvalidInputError(
                f"A limit on accuracy is known for normal noise and up to {MOST} candidates; '{self.target.name}' has "
                f"{self.target.k}. Name fewer with values=, or limit eta."
            )
        if self.use_prior:
            return self._exact(noise, "prior")
        found = self._exact(noise, "rows")
        xp = namespace(found)
        # a loose solver may leave the truth behind, where more noise helps the attacker
        found = xp.maximum(found, self._exact(noise.rescaled(BLIND), "rows"))
        still = xp.max(xp.max(xp.abs(self._stacked - self._stacked[0, ...]), axis=2), axis=0) == 0
        return xp.where(still, xp.full_like(found, 1.0 / self.target.k), found)

    def _has_closed_form(self, noise: Noise) -> bool:
        if is_self_shaped(noise):
            return False
        check_noise(noise)
        return self.target.k <= MOST and noise.normal

    def against(
        self, released: Any = None, draws: int = DRAWS, random_state: Seed = 0, noise: Noise | None = None
    ) -> Outcome:
        """How often the attacker is correct: see :meth:`Attacker.against`."""
        return super().against(released, draws, random_state, noise)

    def _against_noise(self, noise: Noise, draws: int, random_state: Seed) -> Outcome:
        if not self._has_closed_form(noise):
            return super()._against_noise(noise, draws, random_state)
        by_trial = host(part_right(self._simulated(noise, FEW, random_state), axis=1))
        return outcome_of(self.name, self.target.name, self.accuracy(noise), by_trial, self.target.baseline, exact=True)

    @cached_property
    def _stacked(self) -> Array:
        """Moves of all candidates, the most probable first, (k, m, p)."""
        xp = namespace(self.moves[0].values)
        return xp.stack([self.moves[k].values for k in self.target.by_prior.tolist()])

    def _as_seen(self, root: Any) -> _Seen:
        """By a root of the noise's information, which is worked out once for noises of one shape."""
        if self._seen is None or not (self._seen.whole is root or np.array_equal(self._seen.whole, root)):
            self._seen = _Seen(root, self._stacked)
        return self._seen

    @property
    def _log_prior(self) -> Vector:
        """Of each candidate, the most probable first, (k, 1) or (k, m); zeros for who ignores it."""
        if not self.use_prior:
            return np.zeros((self.target.k, 1))
        with np.errstate(divide="ignore"):
            return np.log(self.target.weights[self.target.by_prior])

    def guess(self, theta: Vector, noise: Noise | None = None) -> Array:
        """See :meth:`Attacker.guess`; where the noise is not known, the nearest model."""
        if self.use_prior and noise is None:
            raise InvalidInputError(
                "The attacker with a prior must know the noise of the release: pass noise=fisherleak.Gaussian(scale)."
            )
        delta = self._stacked
        xp = namespace(delta)
        best = self._best(delta, theta - host(self.target.fit.theta)[None, :], noise)
        order = like(self.target.by_prior, delta, xp)
        return xp.reshape(xp.take(order, xp.reshape(best, (-1,))), best.shape)

    def _best(self, delta: Array, b: Vector, noise: Noise | None, allowed: Any = None) -> Array:
        """Places, in the order of the prior, of the allowed candidates (k, T, m) that explain noise b (T, p) best: (T, m)."""
        if noise is not None and is_self_shaped(noise):
            return self._best_by_shape(delta, b, noise, allowed)
        if noise is not None and not noise.normal:
            # section 9.1, second formula: log f(b - Delta_k) + log p_k
            return by_density(delta, b, noise, self._log_prior, allowed)
        xp = namespace(delta)
        beside = like(b, delta, xp)
        if not self.use_prior or noise is None:
            # section 9.1, first formula: the least |b - Delta_k|^2
            return by_distance(delta, beside, np.zeros((self.target.k, 1)), allowed)
        root = noise.unit_information_root(b.shape[1])
        if root is not None:
            seen = self._as_seen(root)
            delta = seen.moves if delta is self._stacked else seen.of(delta)
            beside = seen.root(beside.T).T
        # the second formula for normal noise, times 2 sigma^2: -|W (b - Delta_k)|^2 + 2 sigma^2 log p_k
        return by_distance(delta, beside, 2.0 * noise.scale**2 * np.maximum(self._log_prior, NEVER), allowed)

    def _best_by_shape(self, delta: Array, b: Vector, noise: Any, allowed: Any) -> Array:
        """The same by the likelihood of a mechanism whose noise the data shape."""
        if self.target.members is not None:
            raise InvalidInputError(
                f"The likelihood under {type(noise).__name__} is known when one row changes, not when several do: attack rows "
                "one by one, without groups=."
            )
        target, moves, log_prior = self.target, host(delta), self._log_prior
        likelihood = likelihood_of(noise, target.fit, target.features, target.y, target.rows)
        constant = target.fit.intercept is not None
        scores = []
        for place, k in enumerate(target.by_prior.tolist()):
            row = with_constant(np.asarray(host(target.changed(k))), constant, None)
            labels = np.asarray(host(target.labels(k)), dtype=np.float64)
            scores.append(likelihood.ratio(b, moves[place], row, labels) + log_prior[place])
        score = np.stack(scores) if allowed is None else np.where(allowed, np.stack(scores), -np.inf)
        return like(np.argmax(score, axis=0), delta, namespace(delta))

    def _simulated_over_prior(self, noise: Noise, draws: int, random_state: Seed) -> Array:
        """Mean over values from the prior, each row taking each value in turn, of simulated accuracies."""
        b, delta = self._noise_drawn(noise, draws, random_state), self._stacked
        xp = namespace(delta)
        total = xp.zeros_like(delta[0, :, 0])
        most = max(1, GUESSES_AT_ONCE // self.target.m)
        weights = like(self.target.weights[self.target.by_prior], delta, xp)
        for k in range(self.target.k):
            weight = weights[k, :]
            if bool(xp.any(weight > 0)):
                for start in range(0, draws, most):
                    best = self._best(delta - delta[k, ...], b[start : start + most], noise)
                    total = total + weight / draws * xp.sum(xp.astype(best == k, xp.float64), axis=0)
        return total

    def _exact(self, noise: Noise, over: str) -> Array:
        """Probability that the true candidate's score is the largest."""
        target, delta = self.target, self._stacked
        xp = namespace(delta)
        root = noise.unit_information_root(delta.shape[2])
        ordered = like(target.weights[target.by_prior], delta, xp)
        if self.use_prior:
            delta = spread = delta if root is None else self._as_seen(root).moves
        else:
            # the nearest model by the plain norm, whatever the noise's shape
            spread = delta if root is None else self._as_seen(root).through
        if over == "rows":
            place = xp.take(like(np.argsort(target.by_prior), delta, xp), target.truth)
            # what a solver left short of the minimum stays in every release
            short = target.given - host(target.fit.theta)
            short = short @ root.T if self.use_prior and root is not None else short
            return probability_ahead(delta, spread, place, self._log_prior, noise.scale, like(short, delta, xp))
        total = xp.zeros_like(delta[0, :, 0])
        for k in range(target.k):
            weight = ordered[k, :]
            if bool(xp.any(weight > 0)):
                place = xp.full_like(target.truth, k)
                total = total + weight * probability_ahead(
                    delta - delta[k, ...], spread, place, self._log_prior, noise.scale
                )
        return total


def white_box_on(target: Candidates, shared: StartingFit, refits_scale: bool) -> WhiteBox:
    """The attack with a prior on candidates that have been read already; columns of the same rows share a start."""
    made = aimed(WhiteBox, target)
    made._shared, made._refits_scale = shared, refits_scale
    made._use(True)
    return made


@dataclass(frozen=True)
class _Seen:
    """Moves of all candidates (k, m, p) as a root of the noise's information sees them: the same at every scale."""

    whole: Any
    """The root, (p, p)."""
    stacked: Array

    @cached_property
    def root(self) -> Callable[[Array], Array]:
        """Its products from the left."""
        return by_entries(like(self.whole, self.stacked, namespace(self.stacked)))

    @cached_property
    def moves(self) -> Array:
        return self.of(self.stacked)

    @cached_property
    def through(self) -> Array:
        """Each move times the inverse of the root, from the right."""
        xp, solve = namespace(self.stacked), solver_of(np.asarray(self.whole).T)
        return _each(lambda moves: like(solve(host(moves)), self.stacked, xp), self.stacked)

    def of(self, moves: Array) -> Array:
        return _each(self.root, moves)


def _each(product: Callable[[Array], Array], moves: Array) -> Array:
    """Moves (k, m, p), of which each is multiplied from the left."""
    xp = namespace(moves)
    return xp.reshape(product(xp.reshape(moves, (-1, moves.shape[2])).T).T, moves.shape)


# Expected accuracy under normal noise

NEVER = -1e100
"""Log-probability of a candidate that cannot be."""
MOST = 3
"""Candidates for which there is a closed form."""


def probability_ahead(
    delta: Array, spread: Array, true: Array, log_prior: Vector, scale: float, short: Array | float = 0.0
) -> Array:
    """Probability that the true candidate beats the one or two others, (m,).

    Parameters
    ----------
    delta : array of shape (k, m, p)
        Moves of the parameters with each candidate, in the units in which they are compared.
    spread : array of shape (k, m, p)
        The same as the noise sees them: how far their difference is in units of ``scale``.
    true : integer array of shape (m,)
    log_prior : array of shape (k, 1) or (k, m)
        Zeros for an attacker who ignores it.
    scale : float
        Of the noise.
    short : array of shape (p,), optional
        What is in every release beside the noise.
    """
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
    mine, theirs = _picked(delta, true), _picked(delta, other)
    apart = _picked(spread, true) - _picked(spread, other)
    length = xp.sqrt(xp.sum(apart * apart, axis=1))
    ahead = xp.sum((theirs - mine) * (0.5 * (theirs + mine) - short), axis=1)
    # finite in place of minus infinity: two candidates that cannot be are alike, and no finite score makes up for it
    log_prior = np.broadcast_to(np.maximum(log_prior, NEVER), (log_prior.shape[0], delta.shape[1]))
    stack = like(log_prior[:, :, None], delta, xp)
    by_prior = (_picked(stack, true) - _picked(stack, other))[:, 0]
    ahead = ahead + scale**2 * by_prior
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


STRAIGHT = 1e-14
"""1 - rho^2 below which the two variables count as one (or as opposites)."""
FAR = 40.0
"""Margins past which a normal variable never is, in float64."""
_NODES, _WEIGHTS = (x.tolist() for x in np.polynomial.legendre.leggauss(24))


def below_both(h: Any, k: Any, rho: Any) -> Array:
    r"""P(A <= h, B <= k) for standard normals of correlation rho, elementwise; h and k may be infinite.

    By Owen's T function,
    :math:`\Phi_2 = \tfrac12 \Phi(h) + \tfrac12 \Phi(k) - T(h, a_h) - T(k, a_k) - \delta`, with
    :math:`a_h = (k / h - \rho) / \sqrt{1 - \rho^2}` and :math:`\delta = \tfrac12` where h and k have opposite signs.
    """
    h, k, rho = (as_array(x, "margin") for x in (h, k, rho))
    xp = namespace(h, k, rho)
    h, k, rho = xp.broadcast_arrays(*(xp.astype(x, xp.float64) for x in (h, k, rho)))
    rest = (1.0 - rho) * (1.0 + rho)
    straight = ~(rest > STRAIGHT)
    root = xp.sqrt(xp.where(straight, 1.0, rest))
    near_h, near_k = xp.clip(h, -FAR, FAR), xp.clip(k, -FAR, FAR)
    signs = xp.sign(near_h) * xp.sign(near_k)
    apart = (signs < 0) | ((signs == 0) & (near_h + near_k < 0))
    both_zero = (near_h == 0) & (near_k == 0)
    level = (1.0 - rho) / root
    slope_h = xp.where(both_zero, level, _ratio(near_k - rho * near_h, near_h * root, xp))
    slope_k = xp.where(both_zero, level, _ratio(near_h - rho * near_k, near_k * root, xp))
    halves = 0.5 * (normal_cdf(near_h) + normal_cdf(near_k)) - 0.5 * xp.astype(apart, xp.float64)
    inside = halves - owens_t(near_h, slope_h) - owens_t(near_k, slope_k)
    same = normal_cdf(xp.minimum(h, k))
    opposite = xp.clip(normal_cdf(h) + normal_cdf(k) - 1.0, 0.0, None)
    return xp.clip(xp.where(straight, xp.where(rho > 0, same, opposite), inside), 0.0, 1.0)


def _ratio(above: Array, below: Array, xp: Namespace) -> Array:
    """A quotient that is infinite where the divisor is zero."""
    endless = xp.where(above < 0, -math.inf, xp.full_like(above, math.inf))
    return xp.where(below == 0, endless, above / xp.where(below == 0, 1.0, below))


def owens_t(h: Array, a: Array) -> Array:
    r"""Owen's :math:`T(h, a) = \frac1{2\pi}\int_0^a \frac{e^{-h^2(1 + x^2)/2}}{1 + x^2}\,dx`, to rounding; a may be infinite.

    The integrand is smooth on [0, 1], where 24 nodes of Gauss and Legendre are exact to rounding; a past 1 is turned over,
    :math:`T(h, a) = \tfrac12\Phi(h) + \tfrac12\Phi(ah) - \Phi(h)\Phi(ah) - T(ah, 1/a)` for h >= 0 and a > 0.
    """
    xp = namespace(h, a)
    height, size = xp.abs(h), xp.abs(a)
    long = size > 1
    short = xp.where(long, 1.0 / xp.where(long, size, 1.0), size)
    scaled = xp.clip(height * xp.where(height > 0, size, 0.0), None, FAR)
    at = xp.where(long, scaled, height)
    total = xp.zeros_like(height)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        square = 1.0 + (0.5 * (1.0 + node) * short) ** 2
        total = total + 0.5 * weight * xp.exp(-0.5 * at * at * square) / square
    inner = total * short / (2.0 * math.pi)
    first, second = normal_cdf(height), normal_cdf(scaled)
    turned = 0.5 * first + 0.5 * second - first * second - inner
    # at h = 0 the margins are equal and T is an angle
    value = xp.where(height > 0, xp.where(long, turned, inner), xp.atan(size) / (2.0 * math.pi))
    return xp.sign(a) * value

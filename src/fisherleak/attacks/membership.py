"""Membership inference: was this row in the data the model was fitted on?

Mathematics: 9.2, ``docs/mathematics/attacks.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

from fisherleak._support.arrays import Array, device, host, like, namespace, normal_cdf
from fisherleak._support.namespaces import Vector
from fisherleak._support.notebook import panel
from fisherleak.attacks.base import check_draws, known_noise, released_parameters
from fisherleak.attacks.candidates import MOST_VALUES, given_parameters, jacobian_at_minimum, members_of
from fisherleak.attacks.likelihoods import ShapedLikelihood, TiltedLikelihood, likelihood_of, log_density
from fisherleak.engine.changes.changed_rows import Rows
from fisherleak.engine.changes.remade_covariance import FromGram, Reshaped, equivalent_norms
from fisherleak.engine.changes.removal import EXACT, check_normal, removal_moves, removal_norms
from fisherleak.engine.mechanisms.self_shaped import is_self_shaped, rows_decide
from fisherleak.engine.noise import Noise, check_noise, drawn
from fisherleak.engine.noise.add_noise_and_round import generator
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.membership_distance import reshaped_by
from fisherleak.models import as_table
from fisherleak.rows.selection import check_rows

LIKELIHOODS_AT_ONCE = 2**21
"""Scores, or coordinates of noise vectors, held at a time."""


@dataclass(frozen=True)
class MembershipOutcome:
    """How well simulated releases show who was in the data.

    Attributes
    ----------
    accuracy : array of shape (m,)
        Part of the releases, half with the row and half without, that the attacker names correctly.
    auc : array of shape (m,)
        How often a release with the row looks more like one than a release without it.
    true_positive_rate : array of shape (m,)
        Part of the releases with the row that are found, at a threshold that the part ``at`` of those without it passes.
    at : float
        The false positive rate.
    releases : int
        Releases with each row, and without it.
    """

    accuracy: Vector = field(repr=False)
    auc: Vector = field(repr=False)
    true_positive_rate: Vector = field(repr=False)
    at: float
    releases: int

    def __str__(self) -> str:
        return (
            f"membership, {self.releases} releases with and without each row: {self.accuracy.mean():.1%} correct on average, "
            f"{self.accuracy.max():.1%} at worst; true positive rate at {self.at:.1%} false positives "
            f"{self.true_positive_rate.mean():.1%} on average, {self.true_positive_rate.max():.1%} at worst"
        )


class Membership:
    r"""Guesses whether each row was in the data, knowing all the others and the row itself.

    Parameters
    ----------
    model : Fit or fitted scikit-learn model
        The model without noise.
    X : array or table of shape (n, d)
        The rows it was fitted on.
    y : array of shape (n,)
    sample_weight : array of shape (n,), optional
        The weights the model was fitted with.
    rows : mask or positions, optional
        Rows to attack. All by default.
    groups : str or array of shape (n,), optional
        A column of the table, or whose each row is: then people are attacked, in the order of ``people``, and all rows of one
        are in the data together or not at all. "Row" below is a person then.

    Notes
    -----
    **What holds, and when.** No attacker does better, whatever he computes, as long as the noise's scale and covariance do not
    depend on the row. Preprocessing, weights and n l2 are held fixed: without the row the sum of losses has one term less,
    and of a fit with ``per_row`` the penalty is (n - 1) l2.
    A release whose scalers are folded in is refused.
    Closed forms are for normal noise; ``simulate`` and ``infer`` take any. The mu behind them is that of
    :meth:`fisherleak.Leakage.membership`: infinite where there is no model without the row. Where the rows decide the noise's
    covariance, by ``shape="hessian"`` or ``"least-loss"`` say, ``mu`` and ``accuracy`` count that, and ``auc`` and
    ``true_positive_rate`` are refused: ``simulate`` has them.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> attack = fl.attacks.Membership(LinearRegression().fit(X, y), X, y)
    >>> auc = attack.auc(fl.Gaussian(1.0))
    >>> print(f"{auc.mean():.3f} on average, {auc.max():.3f} at worst")
    0.786 on average, 1.000 at worst
    """

    name = "membership"

    def __init__(
        self, model: Any, X: Any, y: Any, sample_weight: Any = None, rows: Any = None, groups: Any = None
    ) -> None:
        table = as_table(X)
        if table.lazy:
            raise InvalidInputError(
                "Attacks need rows in memory; X is a Dask array. Attack a sample that fits: X.compute()."
            )
        # moves start from exact minimisers, so the model must be one too
        self._jacobian = jacobian_at_minimum(model, X, y, sample_weight)
        features = self._jacobian.X
        everyone = namespace(features).arange(table.n, device=device(features))
        self.people: tuple[Any, ...] | None = None
        self._sets: list[NDArray[np.int64]] | None = None
        if groups is not None:
            members = members_of(table, groups, rows)
            self.people, self._sets = tuple(members), list(members.values())
            rows = [own[0] for own in self._sets]
        self.rows = everyone if rows is None else check_rows(rows, table.n, features)
        self._model = model
        self._given: Vector = given_parameters(model)
        self._known: tuple[Noise, Array] | None = None

    def __repr__(self) -> str:
        return f"Membership({self.rows.shape[0]} {self._many})"

    @property
    def _many(self) -> str:
        return "rows" if self._sets is None else "people"

    def _repr_html_(self) -> str:
        pairs = [
            ("tells", f"whether each of {self.rows.shape[0]:,} {self._many} was in the data"),
            ("right by guessing", "50.0%"),
        ]
        return panel("Attacker, membership", pairs, "attack.accuracy(noise) says how often it is correct.")

    @cached_property
    def moves(self) -> Array:
        """How the parameters move when each attacked row is left out, (m, p); infinite where there is no model then."""
        size = self.rows.shape[0] * self._given.shape[0]
        if size > MOST_VALUES:
            raise InvalidInputError(
                f"Moves of {self._given.shape[0]} parameters for {self.rows.shape[0]} {self._many} would need "
                f"{8 * size / 2**30:.0f} GiB: attack fewer rows with rows=."
            )
        return removal_moves(self._jacobian, self._sets or self.rows)

    # closed forms

    def mu(self, noise: Noise) -> Array:
        r"""How far apart releases with and without each row are, in standard deviations of the noise, (m,).

        Examples
        --------
        >>> membership.mu(fl.Gaussian(10.0))[:3].round(3)
        array([0.142, 0.03 , 0.081])
        """
        if rows_decide(noise):
            return self._equivalent(noise)
        check_noise(noise)
        check_normal(noise)
        unit = noise.rescaled(1.0)
        if self._known is None or self._known[0] != unit:
            # lengths of the moves, by the information of the noise at scale 1
            self._known = unit, removal_norms(self._jacobian.with_noise(unit), rows=self.rows, sets=self._sets)
        return self._known[1] / noise.scale

    def _equivalent(self, noise: Any) -> Array:
        """The mu of equal accuracy under noise whose covariance the rows decide, (m,)."""
        reshaped, own = self._reshaped(noise), self._jacobian
        sets = self._sets or [np.asarray([row]) for row in host(self.rows).tolist()]
        found = equivalent_norms(reshaped, own, EXACT, sets)
        return like(found, own.X, namespace(own.X))

    def _reshaped(self, noise: Any) -> Reshaped:
        """The noise as it is made anew without each of the attacked rows; what is not known is refused by name."""
        own = self._jacobian
        if own.several:
            raise InvalidInputError(
                f"The covariance of this {type(noise).__name__} depends on the rows. Membership under such noise is attacked "
                "for models of one output only: use shape='isotropic'."
            )
        if not is_self_shaped(noise):
            return reshaped_by(own, noise, int(self.rows.shape[0]))
        if not own.fit.loss.unit_curvature:
            raise InvalidInputError(
                f"{type(noise).__name__} has a closed form for the squared loss only, and the loss is {own.fit.loss.name}: "
                "simulate it, attack.simulate(noise)."
            )
        return FromGram.of_mechanism(own, noise)

    def auc(self, noise: Noise) -> Array:
        r"""Area under the ROC curve of the best test for each row, (m,): :math:`\Phi(\mu / \sqrt 2)`; chance is 0.5.

        Examples
        --------
        >>> membership.auc(fl.Gaussian(10.0))[:3].round(3)
        array([0.54 , 0.508, 0.523])
        """
        _refuse_curve(noise, "auc")
        return normal_cdf(self.mu(noise) / math.sqrt(2.0))

    def accuracy(self, noise: Noise) -> Array:
        r"""How often the best test is correct where both are as likely, (m,): :math:`\Phi(\mu / 2)`.

        Examples
        --------
        >>> membership.accuracy(fl.Gaussian(10.0))[:3].round(3)
        array([0.528, 0.506, 0.516])
        """
        return normal_cdf(0.5 * self.mu(noise))

    def certain_accuracy(self, noise: Noise) -> Array:
        """The accuracy, as :func:`fisherleak.calibrate` takes it: it never grows with the scale."""
        return self.accuracy(noise)

    def true_positive_rate(self, noise: Noise, at: float | Sequence[float] = 0.01) -> Array:
        r"""Part of those present that the best test finds, at a false positive rate: :math:`\Phi(\Phi^{-1}(\alpha) + \mu)`.

        Parameters
        ----------
        noise : Noise
            A normal one.
        at : float or sequence of float
            False positive rates, alpha.

        Returns
        -------
        array of shape (m,), or (m, k) for several rates

        Examples
        --------
        >>> membership.true_positive_rate(fl.Gaussian(10.0), at=[0.001, 0.01])[0].round(4)
        array([0.0016, 0.0145])
        """
        _refuse_curve(noise, "true_positive_rate")
        mu = self.mu(noise)
        if np.ndim(at) == 0:
            return normal_cdf(_quantile(at) + mu)
        return namespace(mu).stack([normal_cdf(_quantile(rate) + mu) for rate in np.asarray(at).tolist()], axis=-1)

    # any noise

    def infer(self, released: Any = None, noise: Noise | None = None) -> NDArray[np.bool_]:
        """Whether each row is taken to have been in: where the release is likelier with it than without.

        Parameters
        ----------
        released : released model, array of parameters, or a list of either
            As for every attacker; the model without noise if not given.
        noise : Noise, optional
            What the attacker knows of it; a released Fit and a ``PrivateRelease`` bring their own. Without it, the nearer of
            the two models is taken.

        Returns
        -------
        boolean array of shape (m,), or (T, m) for several

        Examples
        --------
        >>> membership.infer(model, fl.Gaussian(0.001))[:3]  # little noise: everyone is found
        array([ True,  True,  True])
        """
        theta, several = released_parameters(released, self._given, self._model)
        b = theta - host(self._jacobian.fit.theta)[None, :]
        known: Any = known_noise(released, noise)
        if rows_decide(known):
            score = self._scores_by_shape(self._likelihood(known), b, range(self.rows.shape[0]))
        else:
            score = self._scores(known, b, slice(0, self.rows.shape[0]))
        return score > 0 if several else score[0] > 0

    def simulate(
        self, noise: Noise, releases: int = 1000, random_state: Any = 0, at: float = 0.01
    ) -> MembershipOutcome:
        """Draw releases with each row and without it, and distinguish them.

        Parameters
        ----------
        noise : Noise
            Any; each release is scored by the noise's own density. :class:`fisherleak.Posterior` and
            :class:`fisherleak.ObjectivePerturbation` too, mean and covariance without the row.
        releases : int
            With each row, and without it.
        random_state : int or Generator
        at : float
            False positive rate of ``true_positive_rate``.

        Examples
        --------
        >>> found = membership.simulate(fl.Gaussian(10.0), releases=50)
        >>> bool(abs(found.accuracy.mean() - membership.accuracy(fl.Gaussian(10.0)).mean()) < 0.05)
        True
        """
        _quantile(at)
        if rows_decide(noise):
            return self._simulated_by_shape(noise, check_draws(releases, "releases"), random_state, at)
        check_noise(noise)
        b = drawn(noise, 2 * check_draws(releases, "releases"), self._given.shape[0], random_state)
        m = self.rows.shape[0]
        most = max(1, LIKELIHOODS_AT_ONCE // (releases * (1 if noise.normal else b.shape[1])))
        parts = []
        for start in range(0, m, most):
            some = slice(start, min(start + most, m))
            present = self._scores(noise, b[:releases], some)
            absent = self._scores(noise, b[releases:], some, without=True)
            parts.append(np.stack(_told(present, absent, at)))
        right, auc, found = np.concatenate(parts, axis=1)
        return MembershipOutcome(right, auc, found, float(at), int(releases))

    def _likelihood(self, mechanism: Any) -> ShapedLikelihood | TiltedLikelihood | NormalLikelihood:
        own = self._jacobian
        if not is_self_shaped(mechanism):
            sets = self._sets or [np.asarray([row]) for row in host(self.rows).tolist()]
            return NormalLikelihood.of(self._reshaped(mechanism), host(own.fit.theta), sets)
        if self._sets is not None:
            raise InvalidInputError(
                f"The likelihood under {type(mechanism).__name__} is known when one row is removed, not when several are: "
                "attack rows one by one, without groups=."
            )
        if own.fit.per_row and own.fit.l2 > 0:
            raise InvalidInputError(
                f"The likelihood under {type(mechanism).__name__} is not known if the penalty shrinks when a row is removed "
                "(the fit's `per_row` is True). For the squared loss, use accuracy(noise), which counts that."
            )
        return likelihood_of(mechanism, own.fit, own.X, own.y, self.rows)

    def _scores_by_shape(
        self, likelihood: ShapedLikelihood | TiltedLikelihood | NormalLikelihood, b: Vector, rows: Sequence[int]
    ) -> Vector:
        """The same under noise that the data shape, (T, rows)."""
        some = list(rows)
        D = host(self.moves)[some]
        part = likelihood.some(some)
        certain = _certain(D, part.known)
        return np.where(certain, np.inf, -part.ratio(b, np.where(certain[:, None], 0.0, D), None))

    def _simulated_by_shape(self, mechanism: Any, releases: int, random_state: Any, at: float) -> MembershipOutcome:
        """Releases without a row have a shape of their own, so that each row has its own draws."""
        likelihood, rng = self._likelihood(mechanism), generator(random_state)
        present = likelihood.drawn(releases, rng) - host(self._jacobian.fit.theta)
        found = []
        for row in range(self.rows.shape[0]):
            move = host(self.moves)[row]
            if _certain(move[None, :], likelihood.some([row]).known)[0]:
                found.append(np.ones((3, 1)))
                continue
            absent = likelihood.without(row, move, releases, rng)
            with_row, without = (self._scores_by_shape(likelihood, b, [row]) for b in (present, absent))
            found.append(np.stack(_told(with_row, without, at)))
        right, auc, told = np.concatenate(found, axis=1)
        return MembershipOutcome(right, auc, told, float(at), releases)

    def _scores(self, noise: Noise | None, b: Vector, rows: slice, without: bool = False) -> Vector:
        """Log-likelihood ratios for membership of some rows, (T, m): what is released is w + b, or w + D + b."""
        D = host(self.moves)[rows]
        certain = _certain(D)
        D = np.where(certain[:, None], 0.0, D)
        if noise is None or noise.normal:
            W = None if noise is None else noise.unit_information_root(b.shape[1])
            D, b = (each if W is None else each @ W.T for each in (D, b))
            # section 9.2 for normal noise, times sigma^2: log f(b) - log f(b - D) = |D|^2 / 2 - b.D, and at b + D in
            # place of b without the row
            score = (-0.5 if without else 0.5) * np.sum(D * D, axis=1) - b @ D.T
        else:
            at = b[:, None, :] + (D if without else 0.0)
            # log f(w' - w) - log f(w' - w - D) of section 9.2
            score = log_density(noise, at) - log_density(noise, at - D)
        return np.where(certain, -np.inf if without else np.inf, score)


def _certain(moves: Vector, known: Any = True) -> NDArray[np.bool_]:
    """Rows without which there is no model, or no ``known`` noise: nothing is released, which reveals their membership."""
    return np.asarray(~(np.isfinite(moves).all(axis=1) & known))


def _told(present: Vector, absent: Vector, at: float) -> tuple[Vector, Vector, Vector]:
    """Accuracy, AUC and true positive rate of scores (T, m) with the rows and without; ties count half."""
    count = present.shape[0]
    right = 0.5 * (np.mean(_step(present), axis=0) + 1.0 - np.mean(_step(absent), axis=0))
    ranks = rankdata(np.concatenate([present, absent]), axis=0)[:count]
    # the part of pairs in which the release with the row has the larger score
    auc = (ranks.sum(axis=0) - 0.5 * count * (count + 1)) / count**2
    threshold = np.quantile(absent, 1.0 - at, axis=0, method="higher")
    return right, auc, np.mean(present > threshold, axis=0)


def _refuse_curve(noise: Any, name: str) -> None:
    if rows_decide(noise):
        raise InvalidInputError(
            f"{name} has a closed form only if the covariance of the noise does not depend on the rows, and that of this "
            f"{type(noise).__name__} does. accuracy(noise) is known; attack.simulate(noise) simulates all figures."
        )


def _step(score: Vector) -> Vector:
    """One where a release looks like one with the row, a half where it looks like neither."""
    return np.asarray(0.5 * (np.sign(score) + 1.0))


def _quantile(at: Any) -> float:
    if isinstance(at, bool) or not isinstance(at, (int, float, np.floating)) or not 0 < at < 1:
        raise InvalidInputError(f"at must be a false positive rate between 0 and 1; got {at!r}.")
    return float(ndtri(at))


@dataclass(frozen=True)
class NormalLikelihood:
    """Releases with Gaussian noise whose covariance the rows decide, compared with those without a row or a set of rows.

    Parameters
    ----------
    theta : array of shape (p,)
        The model.
    white : array of shape (p, p)
        With which the noise has the covariance I.
    covariances : array of shape (m, p, p)
        Those without each row, by ``white``.
    known : array of shape (m,)
        Whether there is one.
    """

    theta: Vector
    white: Vector
    covariances: Vector
    known: NDArray[np.bool_]

    @classmethod
    def of(cls, reshaped: Reshaped, theta: Any, sets: Sequence[Rows]) -> NormalLikelihood:
        made = reshaped.covariances(sets)
        known = np.asarray(np.isfinite(made).all(axis=(1, 2)))
        made = np.where(known[:, None, None], made, np.eye(len(reshaped.white)))
        return cls(np.asarray(theta), reshaped.white, made, known)

    def some(self, rows: Any) -> NormalLikelihood:
        return replace(self, covariances=self.covariances[rows], known=self.known[rows])

    def drawn(self, count: int, rng: np.random.Generator) -> Vector:
        """What is released, (count, p)."""
        z = rng.standard_normal((count, len(self.theta)))
        return np.asarray(self.theta + np.linalg.solve(self.white, z.T).T)

    def ratio(self, b: Vector, moves: Vector, others: None) -> Vector:
        """Log-likelihoods of releases w + b, (T, p), without each row, less those with all: (T, m)."""
        y, m = b @ self.white.T, moves @ self.white.T
        found = []
        for move, covariance in zip(m, self.covariances, strict=True):
            # section 9.2: N(w + D, Sigma_0) against N(w, I), both by ``white``
            root = np.linalg.cholesky(covariance)
            z = np.linalg.solve(root, (y - move).T)
            found.append(0.5 * np.sum(y * y, axis=1) - 0.5 * np.sum(z * z, axis=0) - np.sum(np.log(np.diag(root))))
        return np.stack(found, axis=1)

    def without(self, row: int, move: Vector, count: int, rng: np.random.Generator) -> Vector:
        """What is released without one row, less the model of all: (count, p)."""
        z = rng.standard_normal((count, len(move))) @ np.linalg.cholesky(self.covariances[row]).T
        return np.asarray(move + np.linalg.solve(self.white, z.T).T)

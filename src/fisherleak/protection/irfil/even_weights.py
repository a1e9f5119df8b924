"""Weights with which a whole procedure reveals as much of everyone: their public form, the fits, and the exact derivative.

Mathematics: 8.2, ``docs/mathematics/irfil.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fisherleak._support.namespaces import Vector
from fisherleak.engine.fit.minimise import Fit, fit_at
from fisherleak.errors import InvalidInputError, NotConvergedError
from fisherleak.protection.calibrate.limit_terms import raw_map
from fisherleak.protection.irfil.irfil_iteration import SMALLEST_PART
from fisherleak.protection.irfil.whole_procedure import Curve, Procedure, Split, moves, split, top

SHARP = 32
"""How sharp the kink of the weights is."""
ROUND = 8
"""And that of S."""
SMALL = 1e-2
"""Below which series stand for quotients of small differences."""
MOST_STEPS = 100
CLOSE = 1e-11
"""Newton step at which a round is done, relative to the parameters."""


@dataclass(frozen=True)
class _Known:
    """A number of each row, and how it depends on the state and on the row's own values."""

    value: Vector
    g: Vector
    h: Vector
    share: Vector
    """By S it is -g h^T + share times what is common: (n, p) twice, (n,)."""
    by_theta: Vector
    by_values: Vector


@dataclass(frozen=True)
class _Thresholds:
    """Log of |M x| |grad r| / ||M E|| and the bow of each row."""

    log: _Known
    bow: _Known
    common: Vector
    """(p, p)."""


@dataclass(frozen=True)
class EvenRound:
    """One round: its parameters, the weights at which they are a weighted fit, and S."""

    theta: Vector
    weights: Vector
    eta: Vector
    """With the weights held fixed."""
    curve: Curve
    S: Vector
    A: Vector
    """The derivative of all pulls at given alpha, (p, p)."""
    rho: Vector
    pull: Vector
    by_bow: Vector
    """The derivative of log omega by log alpha is minus the first, by the bow the second."""
    b: Vector
    b_z: Vector
    b_y: Vector
    b_log: Vector
    b_bow: Vector
    """Of b by the predictor, the label, log alpha, the bow."""
    given: _Thresholds | None
    """None for the plain fit."""


@dataclass(frozen=True)
class EvenWeights:
    """Rounds of weights of that form on what a procedure has: its rows, directions, noise and number of rounds."""

    procedure: Procedure

    @property
    def _directions(self) -> Split:
        return split(self.procedure.directions, self.procedure.rows.shape[1])

    @property
    def _penalty(self) -> Vector:
        return np.asarray(self.procedure.risk.penalty, dtype=np.float64)

    @property
    def _y(self) -> Vector:
        return np.asarray(self.procedure.risk.y, dtype=np.float64)

    def run(self) -> list[EvenRound]:
        """The plain fit and as many rounds as there are reweightings."""
        of = self.procedure
        found = [self._plain()]
        for _ in range(of.count):
            found.append(self._next(found[-1]))
        return found

    def etas(self, rounds: Sequence[EvenRound]) -> Vector:
        """Of the whole procedure, (n,)."""
        return self.procedure.norms(self.derivative(rounds), self.procedure.noise)[0]

    def _plain(self) -> EvenRound:
        of = self.procedure
        given = of.counted if of.risk.weights is None else of.risk.weights
        w: Vector = np.asarray(given, dtype=np.float64)
        fit = fit_at(replace(of.risk, weights=w), of.theta, True)
        at = self._curve(np.asarray(fit.theta))
        S, none = self._summed(w * at.a), np.zeros(len(w))
        return EvenRound(
            *(np.asarray(fit.theta), w, self._fixed(fit, w, at), at, S, S, w * at.r, none + 1.0, none),
            *(w * at.a, w * at.a_z, w * at.a_y, none, none, None),
        )

    def _next(self, last: EvenRound) -> EvenRound:
        of = self.procedure
        known, counted = self.thresholds(last), of.counted
        total = float(np.sum(counted if of.risk.weights is None else np.asarray(of.risk.weights)))
        # c, so that the weights sum to what they did, at the residuals of the round before
        log_c = float(np.log(total / np.sum(np.exp(_form(known, last.curve.r, SHARP).log[counted]))))
        theta = self._solved(last.theta, known, log_c)
        at = self._curve(theta)
        sharp, wide = (_form(known, at.r, k) for k in (SHARP, ROUND))
        weights, w = (np.where(counted, np.exp(form.log + log_c), 0.0) for form in (sharp, wide))
        fit = fit_at(replace(of.risk, weights=weights), theta, True)
        # b, the derivative of rho = omega r by the predictor, is omega a times ``pull``, one plus that of log omega by
        # log |r|; S is sum b x x^T + Lambda with the rounder kink, A the same with the sharp one
        falls = _over(wide.pull_r, at.r) * at.a
        S, A = self._summed(w * wide.pull * at.a), self._summed(weights * sharp.pull * at.a)
        return EvenRound(
            *(theta, weights, self._fixed(fit, weights, at), at, S, A, weights * at.r, sharp.pull, sharp.by_bow),
            *(w * wide.pull * at.a, w * (wide.pull * at.a_z + falls * at.a), w * (wide.pull * at.a_y + falls * at.c)),
            *(w * wide.pull_log * at.a, w * wide.pull_bow * at.a, known),
        )

    def _solved(self, theta: Vector, known: _Thresholds, log_c: float) -> Vector:
        """Parameters at which the pulls and the penalty cancel: Newton, halved where that brings them no nearer."""
        X = self.procedure.rows

        def pulls(at: Vector) -> tuple[Vector, Vector]:
            curve = self._curve(at)
            form = _form(known, curve.r, SHARP)
            weights = np.where(self.procedure.counted, np.exp(form.log + log_c), 0.0)
            # sum rho x + Lambda theta, which is zero at the solution (section 8.2, "The fits")
            return X.T @ (weights * curve.r) + self._penalty * at, weights * form.pull * curve.a

        f, slopes = pulls(theta)
        for _ in range(MOST_STEPS):
            A = self._summed(slopes)
            step = np.linalg.solve(A, f)
            size = float(step @ A @ step)
            part = 1.0
            while True:
                trial = theta - part * step
                f_trial, slopes = pulls(trial)
                if float(f_trial @ np.linalg.solve(A, f_trial)) <= (1.0 - 0.1 * part) * size or part < 1e-4:
                    break
                part *= 0.5
            done = size <= CLOSE**2 * float(theta @ A @ theta)
            theta, f = trial, f_trial
            if done:
                return theta
        raise NotConvergedError(
            "IRFIL(account='end-to-end') found no parameters for its weights: use a larger penalty, or "
            "account='weights-fixed'."
        )

    def _curve(self, theta: Vector) -> Curve:
        return Curve.of(self.procedure.risk.loss, self.procedure.rows @ theta, self._y)

    def _summed(self, b: Vector) -> Vector:
        X = self.procedure.rows
        S = (X.T * b) @ X
        return np.asarray(S + np.diag(self._penalty))

    def _root(self, S: Vector) -> Vector:
        """M."""
        root, B = self.procedure.noise.unit_information_root(len(S)), np.linalg.inv(S)
        return np.asarray(B if root is None else root @ B)

    def _fixed(self, fit: Fit, weights: Vector, at: Curve) -> Vector:
        """Etas with the weights held fixed."""
        of, U = self.procedure, raw_map(fit)
        root, B = of.noise.unit_information_root(len(U)), U @ U.T
        N = moves(of.rows, self._directions, at, np.asarray(fit.theta)) * of.there[:, None, :]
        return np.asarray(weights * top((B if root is None else root @ B) @ N)[0] / float(of.noise.scale))

    def thresholds(self, state: EvenRound) -> _Thresholds:
        """At a state: what the weights of the next round are made of."""
        X, (Vx, vy), at = self.procedure.rows, self._directions, state.curve
        M, B, along = self._root(state.S), np.linalg.inv(state.S), Vx.T @ state.theta
        moved = X @ M.T
        lengths = np.sum(moved**2, axis=1)
        # ||M E|| is sizes[0]
        U, sizes, T = np.linalg.svd(M @ Vx, full_matrices=False)
        # classes are never quite fitted: without their label no surface r = 0 is near, and it stands in
        slope = _Slope.of(at, float(along @ along), float(self.procedure.risk.separable or vy @ vy))
        product, counted = np.sqrt(lengths * slope.square), self.procedure.counted
        if not np.all(product[counted] > SMALLEST_PART * product[counted].mean()):
            raise InvalidInputError(
                "account='end-to-end' needs an eta above zero for every row, even if its residual were zero. Some row would "
                "then have an eta of zero: leave such rows out, or use account='weights-fixed'."
            )
        lengths, product = (np.where(counted, x, 1.0) for x in (lengths, product))
        g, h = moved @ M / lengths[:, None], X @ B
        by_values = g @ Vx + np.outer(slope.by_z, along) + np.outer(slope.by_y, vy)
        by_theta = slope.by_z[:, None] * X + np.outer(slope.share, Vx @ along)
        # |M x| |grad r| / ||M E||: alpha of section 8.2 without psi / sin(psi)
        log = _Known(np.log(product / sizes[0]), g, h, np.ones(len(X)), by_theta, by_values)
        common = np.outer(M.T @ U[:, 0] / sizes[0], B @ (Vx @ T[0]))
        return _Thresholds(log, _bowed(self._sine(state, slope, moved / sizes[0], M / sizes[0])), common)

    def _sine(self, state: EvenRound, slope: _Slope, moved: Vector, M: Vector) -> _Known:
        """The square of |P M E grad r| / (||M E|| |grad r|), from M / ||M E|| and what it moves the rows to."""
        X, (Vx, vy), at = self.procedure.rows, self._directions, state.curve
        along, B = Vx.T @ state.theta, np.linalg.inv(state.S)
        pulled, lengths = M @ (Vx @ along), np.sum(moved**2, axis=1)
        near = moved @ pulled / np.where(lengths > 0, lengths, 1.0)
        # P M E (E^T theta), P = I - n n^T with n along M x; grad_x r is a E^T theta
        across = pulled - near[:, None] * moved
        size, scale = np.sum(across**2, axis=1), 1.0 / slope.square
        g, part = 2.0 * slope.share[:, None] * (across @ M), slope.share * size
        by_z, by_y = (
            2.0 * (scale * at.a * size * x - part * y) for x, y in ((at.a_z, slope.by_z), (at.a_y, slope.by_y))
        )
        by_theta = by_z[:, None] * X - np.outer(2.0 * part * slope.share, Vx @ along) + g @ Vx @ Vx.T
        by_values = -near[:, None] * (g @ Vx) + np.outer(by_z, along) + np.outer(by_y, vy)
        return _Known(part, g, (Vx @ along - near[:, None] * X) @ B, 2.0 * part, by_theta, by_values)

    def derivative(self, rounds: Sequence[EvenRound]) -> Vector:
        """Of the last parameters by each row's values, (n, p, m): backwards through all rounds."""
        X, (Vx, vy) = self.procedure.rows, self._directions
        n, p = X.shape
        by_theta, by_S = np.eye(p), np.zeros((p, p, p))
        J = np.zeros((n, p, len(vy)))
        for k in range(len(rounds) - 1, -1, -1):
            at, curve = rounds[k], rounds[k].curve
            bent = np.einsum("jab,na,nb->nj", by_S, X, X, optimize=True)
            # backwards through one round: theta solves sum rho x + Lambda theta = 0, whose derivative by theta is A
            Q = -np.linalg.solve(at.A, (by_theta + (at.b_z[:, None] * bent).T @ X).T).T
            pulled = X @ Q.T
            along = Vx.T @ at.theta
            # by a value of the row: rho x moves with x and with r, S with b and with x x^T
            J += at.rho[:, None, None] * (Q @ Vx)
            J += ((at.weights * at.pull)[:, None] * pulled)[:, :, None] * curve.moved(along, vy)[:, None, :]
            J += bent[:, :, None] * (np.outer(at.b_z, along) + np.outer(at.b_y, vy))[:, None, :]
            J += 2.0 * at.b[:, None, None] * np.einsum("na,jab,bm->njm", X, by_S, Vx, optimize=True)
            if at.given is None:
                break
            # by log alpha, the bow and log c, through rho and through b
            by_log = at.b_log[:, None] * bent - (at.rho * at.pull)[:, None] * pulled
            by_bow = at.b_bow[:, None] * bent + (at.rho * at.by_bow)[:, None] * pulled
            by_c = at.rho @ pulled + at.b @ bent
            J, by_theta, by_S = self._before(rounds[k - 1], at.given, J, (by_log, by_bow, by_c))
        return J * self.procedure.there[:, None, :]

    def _before(
        self, last: EvenRound, known: _Thresholds, J: Vector, adjoint: tuple[Vector, Vector, Vector]
    ) -> tuple[Vector, Vector, Vector]:
        """From log alpha and log c to the state they came from: J with the rows' own part, and the derivatives by it."""
        X, (Vx, vy), curve = self.procedure.rows, self._directions, last.curve
        by_log, by_bow, by_c = adjoint
        form = _form(known, curve.r, SHARP)
        weights = np.where(self.procedure.counted, np.exp(form.log), 0.0)
        # log c is minus the logarithm of the sum of exp(log omega)
        by_omega = -np.outer(weights / weights.sum(), by_c)
        by_r = _over(form.pull - 1.0, curve.r)[:, None] * by_omega
        J = J + by_r[:, :, None] * curve.moved(Vx.T @ last.theta, vy)[:, None, :]
        by_theta = (curve.a[:, None] * by_r).T @ X
        by_S = np.zeros((len(by_theta), *last.S.shape))
        adjoints = (by_log - form.pull[:, None] * by_omega, by_bow + form.by_bow[:, None] * by_omega)
        for each, of in zip(adjoints, (known.log, known.bow), strict=True):
            J = J + each[:, :, None] * of.by_values[:, None, :]
            by_theta = by_theta + each.T @ of.by_theta
            by_S = by_S + np.einsum("j,ab->jab", of.share @ each, known.common)
            by_S = by_S - np.einsum("nj,na,nb->jab", each, of.g, of.h, optimize=True)
        return J, by_theta, 0.5 * (by_S + by_S.transpose(0, 2, 1))


@dataclass(frozen=True)
class _Slope:
    """The squared gradient of r by the values, a^2 |E^T theta|^2 + c^2 |label|^2, and derivatives of half its logarithm."""

    square: Vector
    by_z: Vector
    by_y: Vector
    share: Vector
    """a^2 over the square: by half of |E^T theta|^2."""

    @classmethod
    def of(cls, at: Curve, features: float, label: float) -> _Slope:
        # grad r = [a E^T theta, c]
        square = at.a**2 * features + at.c**2 * label
        safe = np.where(square > 0, square, 1.0)
        by_z = (at.a * at.a_z * features + at.c * at.a_y * label) / safe
        by_y = (at.a * at.a_y * features + at.c * at.c_y * label) / safe
        return cls(safe * (square > 0), by_z, by_y, at.a**2 / safe)


@dataclass(frozen=True)
class _Form:
    """Log omega but for c, and its derivatives: all (n,)."""

    log: Vector
    pull: Vector
    """Minus that by log alpha; one plus that by log |r|."""
    by_bow: Vector
    pull_r: Vector
    pull_log: Vector
    pull_bow: Vector
    """Of omega times ``pull``, over omega, by log |r|, log alpha and the bow."""


def _form(known: _Thresholds, r: Vector, k: int) -> _Form:
    """Omega = sin(psi x) / (|r| sin psi), with x the rounded minimum of |r| / alpha and 1, and the bow psi^2."""
    bow = known.bow.value
    longer, longer_1, _ = _log_sinc(bow)
    log_r = np.log(np.maximum(np.abs(r), np.finfo(np.float64).tiny))
    # alpha of the last formula of section 8.2, with psi / sin(psi)
    log_alpha = known.log.value + longer
    high = np.logaddexp(k * log_alpha, k * log_r)
    # x = (1 + (|r| / alpha)^-k)^(-1/k): ``squared`` is x^2, ``tau`` the derivative of log x by log |r|
    tau, squared = np.exp(k * log_alpha - high), np.exp(2.0 * (log_r - high / k))
    inside, inside_1, cosine_1 = _log_sinc(bow * squared)
    cosine = 1.0 - 2.0 * bow * squared * inside_1
    # d log sin(psi x) / d log |r| = psi x cot(psi x) tau
    pull = cosine * tau
    pull_r = pull * (pull - 1.0 - k * (1.0 - tau)) + 2.0 * bow * squared * cosine_1 * tau**2
    by_bow = longer_1 - squared * inside_1
    pull_bow = pull * by_bow + squared * cosine_1 * tau - longer_1 * (pull_r + pull)
    return _Form(-high / k + longer - inside, pull, by_bow - pull * longer_1, pull_r, -pull_r - pull, pull_bow)


def _bowed(part: _Known) -> _Known:
    """Psi squared from the square of its sine: the series of arcsin^2 to the second term, and what it ends with."""
    # arcsin(sqrt(v))^2 = v + v^2 / 3 + ..., and pi^2 / 4 at v = 1
    v, last = part.value, np.pi**2 / 4.0 - 4.0 / 3.0
    slope = 1.0 + 2.0 * v / 3.0 + 6.0 * last * v**5
    scaled = (slope[:, None] * x for x in (part.by_theta, part.by_values))
    return _Known(v + v**2 / 3.0 + last * v**6, slope[:, None] * part.g, part.h, slope * part.share, *scaled)


def _log_sinc(t: Vector) -> tuple[Vector, Vector, Vector]:
    """-log(sin y / y) of t = y^2, its derivative, and the derivative of y cot y = 1 - 2 t times that."""
    small = t < SMALL
    safe = np.where(small, 1.0, t)
    y = np.sqrt(safe)
    cot = y / np.tan(y)
    value = np.where(small, t / 6.0 + t**2 / 180.0 + t**3 / 2835.0, -np.log(np.sin(y) / y))
    first = np.where(small, 1.0 / 6.0 + t / 90.0 + t**2 / 945.0, (1.0 - cot) / (2.0 * safe))
    cosine = np.where(
        small, -1.0 / 3.0 - 2.0 * t / 45.0 - 2.0 * t**2 / 315.0, (cot - safe / np.sin(y) ** 2) / (2.0 * safe)
    )
    return value, first, cosine


def _over(small: Vector, r: Vector) -> Vector:
    """``small`` / r, which goes to zero with r."""
    return np.asarray(np.where(r == 0.0, 0.0, small / np.where(r == 0.0, 1.0, r)))

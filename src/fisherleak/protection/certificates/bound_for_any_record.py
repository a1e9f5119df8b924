"""A certified bound on eta of any record within the bounds in place of a row, in the model refitted with it.

Mathematics: 6.1, ``docs/mathematics/any-record.md``.

Also here: what certificates rest on: losses whose second derivative is known to behave.

Also here: how far an exchanged row moves the parameters and the curvature, by all rows instead of by the farthest
one.

Mathematics: 6.2, ``docs/mathematics/any-record.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Vector
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.losses import Loss, check_name
from fisherleak.engine.losses.loss import Traits
from fisherleak.errors import InvalidInputError
from fisherleak.protection.calibrate.limit_terms import inverse_root
from fisherleak.protection.certificates.exchange import Exchange, weighted_rows

if TYPE_CHECKING:
    from fisherleak.protection.certificates.bound_quantities import Quantities, Strong


def known_traits(loss: Loss) -> Traits:
    """What is proved of a loss; one of which nothing is known is refused."""
    check_name(loss)
    if loss.traits is None:
        raise InvalidInputError(
            f"over='any-record' supports the package's own losses only, and the loss is {loss.name}: how much one row changes "
            "the Hessian of the others is not known. Use over='max'."
        )
    return loss.traits


LENGTHS = 2.0 ** np.concatenate(
    [np.arange(-9, -2), np.arange(-2, -1, 0.5), np.arange(-1, 1, 0.125), np.arange(1, 5.01, 0.25)]
)
"""Moves that are tabulated: most of them where those of tables lie that can be released."""
FLATTEST = 60.0
"""Exponents from here on are as good as infinite."""


@dataclass(frozen=True)
class Drift:
    """Tables of both changes of the curvature over moves."""

    falls: Vector
    """lambda_-, at each of ``LENGTHS``."""
    grows: Vector
    """lambda_+."""

    def moved(self, gradient: float) -> float:
        """The largest move under a gradient of this length; infinite where none is certain."""
        before, reached = 0.0, 0.0
        for length, fall in zip(LENGTHS.tolist(), self.falls.tolist(), strict=True):
            # section 6.2: the integral of 1 - lambda_- reaches N; lambda_- grows with d, so that its value at the end
            # of each part is taken for all of it
            slope = 1.0 - fall
            if slope <= 0:
                return math.inf
            there = reached + slope * (length - before)
            if there >= gradient:
                return float(before + (gradient - reached) / slope)
            before, reached = length, there
        return math.inf

    def log_factor(self, move: float) -> float:
        """The logarithm of the factors by which A changes under such a move, at most."""
        place = int(np.searchsorted(LENGTHS, move))
        if place == len(LENGTHS) or not self.falls[place] < 1:
            return math.inf
        # the larger of log(1 + lambda_+) and -log(1 - lambda_-), at the next point of the grid
        return max(math.log1p(float(self.grows[place])), -math.log1p(-float(self.falls[place])))


def drift_of(jacobian: Jacobian, q: Quantities, copies: int = 1) -> Drift:
    """The tables of a fit, for any one row leaving: two products of all rows for each length.

    With ``copies`` of every row sums over rows are the same, and each row is shorter.
    """
    fit, (plain, y, omega) = jacobian.fit, weighted_rows(jacobian)
    x, traits = plain @ inverse_root(fit).T, known_traits(fit.loss)
    # without the row that leaves, and with folded scales stretched, A is at least this part of H
    left = math.exp(q.stretch) / (1.0 - q.leverage) if q.leverage < 1 else math.inf
    s = omega * np.asarray(fit.loss.a(plain @ np.asarray(host(fit.centred_theta)), y))
    # l q_j of section 6.2; x is B^1/2 x_j here, and A^-1 <= ``left`` B
    lengths = traits.log_slope * np.sqrt(left * np.sum(x * x, axis=1) / copies)
    most = omega * traits.largest
    falls, grows = [], []
    for length in LENGTHS.tolist() if math.isfinite(left) else ():
        exponent = np.minimum(lengths * length, FLATTEST)
        # s_j (e^(l q_j d) - 1), at most what is left up to omega_j times the largest curvature
        grown = np.where(exponent < FLATTEST, np.minimum(s * np.expm1(exponent), most - s), most - s)
        if not np.isfinite(grown).all():
            break
        # lambda_-(d) and lambda_+(d), the formula of section 6.2, in the metric of B and so times ``left`` in that of A
        falls.append(left * _largest(x, -s * np.expm1(-exponent)))
        grows.append(left * _largest(x, grown))
        if not falls[-1] < 1:
            break
    rest = [math.inf] * (len(LENGTHS) - len(falls))
    return Drift(np.array([*falls, *rest]), np.array([*grows, *rest]))


def _largest(x: Vector, weights: Vector) -> float:
    """The largest eigenvalue of sum weights x x^T, rounded up."""
    product = (x * np.maximum(weights, 0.0)[:, None]).T @ x
    return float(np.linalg.eigvalsh(product)[-1]) * (1.0 + 1e-9) + 1e-12


WIDTH, FINE, COARSE = 0.25, 16.0, 8
"""Intervals of z: of this width up to ``FINE`` from zero, then eight to each doubling."""
LEAST = 2.0**-6
"""Leverages of a new row below which its damping is not looked at; above, intervals by the same eighths of a doubling."""
LABEL_CELLS = 8
"""Intervals of the label, where curvature depends on it."""
ENDS, FAR = 64.0, 1e8
"""Beyond these z only limits count."""
SLOPES = np.concatenate([[0.0], 2.0 ** np.arange(-40.0, 40.01, 0.125)])
"""k of ``most_within``: a public grid."""


@dataclass(frozen=True)
class Extent:
    """How far any exchange goes, at most: what ``worst_record.spread_of`` needs."""

    move: float = 0.0
    """Of the parameters: |c.(w' - w)| <= move |B^1/2 c|."""
    tau: float = 0.0
    """Logarithm of the factors by which A changes."""
    gain: float = 0.0
    """s h of the new row."""
    push: float = 0.0
    far: float = 0.0
    c1: float = 0.0
    c2: float = 0.0
    c3: float = 0.0
    lift: float = 0.0
    lift_e: float = 0.0

    def beside(self, other: Extent) -> Extent:
        return Extent(*(max(getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Bound:
    """The bound, by point and label; and how far exchanges go."""

    value: float
    points: Vector
    """(V,) what each corner brings at most, over labels and intervals; the bound is no larger than the largest."""
    labels: Vector
    """(V,) the label for which it is reached."""
    extent: Extent


@dataclass(frozen=True)
class _Cell:
    """A label or the ends of an interval of labels, and the interval of z (at the present fit) for each point."""

    labels: Vector
    low: Vector
    high: Vector
    slab: bool = False
    """Whether it is one interval of z, the same for all points."""

    def largest(self, function: Callable[[Vector, Vector], Any], z: Vector) -> Vector:
        """Of a function that is monotone in the label, at z: (V,)."""
        return np.asarray(np.max([np.asarray(function(z, np.full_like(z, y))) for y in self.labels], axis=0))

    def together(self) -> _Cell:
        return replace(self, low=np.array([float(self.low.min())]), high=np.array([float(self.high.max())]))

    def most(self, values: Vector, q: Quantities) -> float:
        """The largest value of a convex function over all rows of the cell, by its values at the points."""
        if not self.slab or not np.isfinite(values).all():
            return float(values.max())
        return most_within(values, q.z_low, q.z_high, float(self.low[0]), float(self.high[0]))


@dataclass(frozen=True)
class _Law:
    """The loss, what is proved of it, whether the label counts, and tables by all rows where there are any."""

    loss: Loss
    kind: Traits
    label: bool
    drift: Drift | None

    def farthest_move(self, slope: float, gradient: float) -> float:
        """The less of two bounds: by the farthest row, and by all rows."""
        return min(_solved(slope, gradient), math.inf if self.drift is None else self.drift.moved(gradient))


def bound(exchange: Exchange, q: Quantities, drift: Drift | None = None) -> Bound:
    """The largest ||J|| over points, labels and intervals of z; infinite where nothing can be certified.

    ``drift`` tells moves and curvature by all rows; without it the farthest row does.
    """
    loss = exchange.jacobian.fit.loss
    law = _Law(loss, known_traits(loss), exchange.label, drift)
    best, which = np.zeros_like(q.root), np.full_like(q.root, exchange.labels[0])
    extent, rough, largest = Extent(), [], 0.0
    together, cells = _together(q), list(_cells(q, law, exchange.labels))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        others = _others(together, law, [cell.together() for cell in cells])
        for cell in cells:
            found, far = _at_cell(together, law, cell.together(), others)
            rough.append((_finite(found)[0], cell))
            extent = extent.beside(far)
        # an interval whose bound over all points at once is below the largest needs no look at single points
        for above, cell in sorted(rough, key=lambda each: -each[0]):
            if above <= largest:
                break
            found = _finite(_at_cell(q, law, cell, others)[0])
            largest = max(largest, cell.most(found, q))
            which = np.where(found > best, cell.labels[-1], which)
            best = np.maximum(best, found)
    return Bound(largest, best, which, extent)


def _finite(values: Vector) -> Vector:
    """What overflowed or is undefined is not certified."""
    return np.where(np.isfinite(values), values, math.inf)


def _together(q: Quantities) -> Quantities:
    """One point with the largest quantities of all."""
    names = ("root", "p", "e", "up", "down", "z_high")
    largest: dict[str, Any] = {name: np.array([float(np.max(getattr(q, name)))]) for name in names}
    return replace(q, **largest, z_low=np.array([float(np.min(q.z_low))]), m=np.array([float(np.max(q.m))]))


def bound_by_penalty(exchange: Exchange, strong: Strong, omega: float) -> float:
    """||J|| at most, as no Hessian is below the penalty: for losses whose derivatives are bounded, over all z there are."""
    loss, largest = exchange.jacobian.fit.loss, 0.0
    kind = known_traits(loss)
    for y in np.zeros(1) if kind.by_difference else exchange.labels:
        for low, high in _intervals(-ENDS, ENDS):
            ends = np.array([-math.inf if low == -ENDS else low, math.inf if high == ENDS else high])
            at = np.full(2, y)
            r = float(np.abs(np.asarray(loss.r(np.clip(ends, -FAR, FAR), at))).max())
            peak = np.clip(np.full(2, kind.peak), ends[0], ends[1])
            a, c = (
                float(np.abs(np.asarray(function(peak, at))).max()) * factor
                for function, factor in ((loss.a, 1.0), (loss.c, float(exchange.label)))
            )
            # no Hessian is below the penalty P: ||J|| <= omega ||L P^-1/2|| ||P^-1/2 [r E + a x u^T, c x]||, u = E^T w
            inner = math.hypot(r * strong.whole_e + a * strong.root * strong.u, c * strong.root)
            largest = max(largest, omega * strong.whole * inner)
    return largest


def _cells(q: Quantities, law: _Law, labels: Vector) -> Iterator[_Cell]:
    """Labels by intervals of z; one interval for each point where the loss is quadratic, as all is convex there."""
    if law.loss.quadratic:
        for y in labels:
            yield _Cell(np.array([y]), q.z_low, q.z_high)
        return
    lowest, highest, kind = q.lowest, q.highest, law.kind
    if kind.by_difference:
        lowest, highest, labels = lowest - float(labels.max()), highest - float(labels.min()), np.zeros(1)
    every = np.ones_like(q.root)
    for low, high in _intervals(lowest, highest):
        for some in _label_cells(kind, labels):
            yield _Cell(some, low * every, high * every, slab=not kind.by_difference)


def _label_cells(kind: Traits, labels: Vector) -> list[Vector]:
    """The ends of the labels, as all is convex in them; intervals where curvature and gradient both move with the label."""
    if not kind.by_label or len(labels) < 2:
        return [np.array([y]) for y in labels]
    edges = np.linspace(float(np.min(labels)), float(np.max(labels)), LABEL_CELLS + 1)
    return [edges[k : k + 2] for k in range(LABEL_CELLS)]


def _intervals(lowest: float, highest: float) -> Iterator[tuple[float, float]]:
    """The parts of a range between points that no data decide."""
    near = np.arange(-FINE, FINE + WIDTH / 2, WIDTH)
    most = max(abs(lowest), abs(highest), FINE)
    if not math.isfinite(most):
        yield lowest, highest
        return
    beyond = FINE * 2.0 ** (np.arange(1, COARSE * (math.log2(most / FINE) + 1) + 1) / COARSE)
    edges = np.concatenate([-beyond[::-1], near, beyond])
    inner = edges[(edges > lowest) & (edges < highest)]
    ends = [lowest, *inner.tolist(), highest]
    yield from pairwise(ends)


@dataclass(frozen=True)
class _Others:
    """What rows of the same person that come with a new row do, at most: section 6.11."""

    push: float
    """|B^1/2 g|, g their gradient at the present parameters."""
    gain: float
    """||A^-1/2 C A^-1/2||, C their curvature at the new minimum and A that of the rows that stay, at the present one."""


def _others(q: Quantities, law: _Law, cells: list[_Cell]) -> _Others:
    """For any records within the bounds; nothing where one row is exchanged. ``q`` is one point, of all."""
    if not q.others or not q.leverage < 1:
        return _Others(0.0, 0.0)
    left, grown, widest = 1.0 / (1.0 - q.leverage), math.exp(q.stretch), float(q.root.max())
    loss, kind = law.loss, law.kind
    push = q.omega * widest * max(_largest_gradient(cell, loss) for cell in cells)
    solved = partial(law.farthest_move, kind.log_slope * math.sqrt(left * q.far))
    # all rows that come push, this one too
    moved = solved(grown * (q.push + math.sqrt(left) * (q.pull + (q.others + 1) * push)))
    reach = widest * math.sqrt(left) * moved
    a = max(
        float(cell.largest(loss.a, np.clip(kind.peak, cell.low - reach, cell.high + reach)).max()) for cell in cells
    )
    return _Others(q.others * push, q.others * q.omega * a * left * widest**2)


def _largest_gradient(cell: _Cell, loss: Loss) -> float:
    """|r| at most: it is monotone in z, so that ends decide."""
    return float(max(cell.largest(side, end).max() for end in (cell.low, cell.high) for side in (loss.r, _down(loss))))


def _at_cell(q: Quantities, law: _Law, cell: _Cell, others: _Others) -> tuple[Vector, Extent]:
    """||J|| at most, for every point. What is not convex in x is taken at its largest over all rows of the cell."""
    loss, kind, omega, drift = law.loss, law.kind, q.omega, law.drift
    # section 6.1, "The row that leaves": A^-1 <= ``left`` B for any row; ``slope`` is l q, in the metric of A
    left = 1.0 / (1.0 - q.leverage) if q.leverage < 1 else math.inf
    slope = kind.log_slope * math.sqrt(left * q.far)
    grown, widest = math.exp(q.stretch), cell.most(q.root, q)
    # section 6.1, "Moved curvature": ``first`` is N of the row that leaves and of the scales that it changes (of all rows
    # that leave, and of those that come beside this one, section 6.11); ``solved`` gives d
    first = grown * (q.push + math.sqrt(left) * (q.pull + others.push))
    solved = partial(law.farthest_move, slope)
    leaving = math.sqrt(left) * solved(first)
    size = _largest_gradient(cell, loss)
    # the same with the new row's own gradient omega r x; ``move`` is d in the metric of B
    moved = solved(first + grown * math.sqrt(left) * omega * size * widest)
    move = math.sqrt(left) * moved
    # adding the new row only reduces |r|, so that r moves with the row that leaves alone
    shift = 0.0 if loss.quadratic else widest * leaving
    above = np.maximum(cell.largest(loss.r, cell.high + shift), 0.0)
    below = np.maximum(cell.largest(_down(loss), cell.low - shift), 0.0)
    # a is largest at its peak, or at the end of the cell that is nearest to it, z moved by at most |B^1/2 x| ``move``
    z = np.clip(kind.peak, cell.low - widest * move, cell.high + widest * move)
    a = cell.largest(loss.a, z)
    c = cell.largest(lambda z, y: np.abs(loss.c(z, y)), z) * float(law.label)
    m, more = q.m / omega * np.ones_like(a), q.m_by_move * move / omega
    shifted = q.root * leaving if loss.quadratic else np.zeros_like(a)
    # the logarithm of e^(l q d), or of 1 + lambda_+ and 1 / (1 - lambda_-) of section 6.2, with that of changed scales
    tau = min(slope * moved, math.inf if drift is None else drift.log_factor(moved)) + q.stretch
    terms = _Terms(
        above, below, np.maximum(above, below), a, c, m, shifted, more, tau, move, left, leaving, others.gain
    )
    return _norm(q, terms, cell, loss.quadratic)


@dataclass(frozen=True)
class _Terms:
    """The derivatives of a cell, largest sizes each, and how far parameters and curvature move."""

    above: Vector
    below: Vector
    r: Vector
    a: Vector
    c: Vector
    m: Vector
    drift: Vector
    """How far r moves with the row that leaves, where ``r`` does not say."""
    more: float
    """How far m moves."""
    tau: float
    move: float
    left: float
    leaving: float
    gain: float
    """Curvature that other rows of the same person bring."""

    @property
    def low(self) -> float:
        """A'^-1 is at least this part of A^-1, and at most e^tau of it: A' <= (e^tau + gain) A."""
        return float(1.0 / (np.exp(self.tau) + self.gain))


def _norm(q: Quantities, t: _Terms, cell: _Cell, quadratic: bool) -> tuple[Vector, Extent]:
    omega = q.omega
    value, g, e = _without_own(q, t)
    within = _within(q, t)
    largest = {name: float(np.max(x)) for name, x in (("a", t.a), ("r", t.r + t.drift))}
    largest |= {name: cell.most(x, q) for name, x in (("g", g), ("e", e), ("m", t.m))}
    s, m = omega * largest["a"], largest["m"] + t.more
    # ``end`` is sqrt(h) = |A^-1/2 x| at the new minimum, ``g`` is |L g|, ``e`` is |E^T g|; ``gain`` is s h
    end = math.sqrt(float(np.exp(t.tau)) * t.left) * cell.most(q.root, q)
    gain, ways = s * end**2, 2.0 * s * largest["g"] * largest["e"]
    if quadratic:
        # section 6.1, "The new row's own effect": 2 omega a |r| |L g| |E^T g|, once by s g g^T and once by its move of
        # u. With ||L A^-1/2|| ||A^-1/2 E|| (``within``) it is also at most 2 s h / (1 + s h)^2 <= 1/2 of that times
        # |r|, as r falls by 1 + s h too
        own = min(ways * (largest["r"] + m), within * (0.5 * largest["r"] + m))
        value = np.minimum(value + own, _damped(q, t) + within * m)
    else:
        # the same for other losses, where r need not fall so far: s |L g| |E^T g| / (1 + s h) is at most
        # s h / (1 + s h) of ``within``
        own = (largest["r"] + m) * min(ways, 2.0 * within * (gain / (1.0 + gain) if math.isfinite(gain) else 1.0))
        value = value + own
    pushes = (omega * largest["r"] * end, end**2, s * largest["g"] * end, 0.5 * ways, s * largest["e"] * end)
    return omega * value, Extent(t.move, t.tau, gain, *pushes, s * largest["g"] ** 2, s * largest["e"] ** 2)


def _within(q: Quantities, t: _Terms) -> float:
    """||L A^-1/2|| ||A^-1/2 E||, at most."""
    return float(np.exp(2.0 * t.tau)) * math.sqrt((q.whole**2 + q.lift) * (q.whole_e**2 + q.lift_e))


def _without_own(q: Quantities, t: _Terms) -> tuple[Vector, Vector, Vector]:
    """||J|| / omega at most without the new row's own effect, |L g| and |E^T g|, for every point."""
    both = t.r + t.drift + t.m + t.more
    beta = t.a**2 * q.u**2 + t.c**2
    # A'^-1 between e^-tau and e^tau times A^-1 is cosh(tau) A^-1 + sinh(tau) A^-1/2 U A^-1/2 with ||U|| <= 1; with
    # other new rows it may be lower than e^-tau of it, and these are half the sum and half the difference of the ends
    cosh, sinh = np.cosh(t.tau), np.sinh(t.tau)
    if t.gain:
        cosh, sinh = 0.5 * (np.exp(t.tau) + t.low), 0.5 * (np.exp(t.tau) - t.low)
    # A^-1 = B + s (B x_i)(B x_i)^T / (1 - leverage): ``lift``, ``c1``, ``c2``, ``c3`` bound what its second term adds
    whole, whole_e = math.sqrt(q.whole**2 + q.lift), math.sqrt(q.whole_e**2 + q.lift_e)
    far = math.sqrt(t.left) * q.root
    direct = _two_ranks(q, t, beta) + t.drift * q.direct + t.more * q.columns
    direct = direct + q.c1 * q.root * np.sqrt(beta) + q.c2 * both
    # ||A^-1/2 [a x u^T + (r I + diag(m)) E, c x]||, but for the factor of the row that leaves; diag(m) E counts as
    # max |m| times E, as it may where every value has a column of its own
    crossed = np.sqrt((both * q.whole_e + t.a * q.root * q.u) ** 2 + (t.c * q.root) ** 2)
    g = cosh * (q.p + q.c1 * q.root) + sinh * whole * far
    e = cosh * (q.e + q.c3 * q.root) + sinh * whole_e * far
    # the last term is a |L g| |E^T (w' - w)|: u moves with the row that leaves
    return cosh * direct + sinh * whole * math.sqrt(t.left) * crossed + t.a * g * q.whole_e * t.leaving, g, e


def _damped(q: Quantities, t: _Terms) -> float:
    """The same for the squared loss by intervals of h: 1 / (1 + omega h) multiplies all but m, and the own effect twice."""
    omega = q.omega
    top = omega * float(q.root.max()) ** 2
    count = max(math.ceil(COARSE * math.log2(top / LEAST)), 0) if 0 < top < math.inf else 0
    lows = np.array([0.0, *(LEAST * 2.0 ** (np.arange(count) / COARSE))])
    root = np.sqrt(np.append(lows[1:], max(top, 0.0)) / omega)
    p = np.minimum(float(q.p.max()), q.whole * root)
    up, down = (np.minimum(float(each.max()), p * q.along) for each in (q.up, q.down))
    point = replace(q, root=root, p=p, e=np.minimum(float(q.e.max()), q.whole_e * root), up=up, down=down)
    one = np.ones_like(root)
    above, below = float(t.above.max()) * one, float(t.below.max()) * one
    r, c = np.maximum(above, below), float(t.c.max()) * one
    terms = replace(t, above=above, below=below, r=r, a=one, c=c, m=0.0 * one, drift=root * t.leaving, more=0.0)
    value, g, e = _without_own(point, terms)
    # 1 / (1 + omega h) at the low end of each interval of omega h; the own effect has its square,
    # and 2 omega h / (1 + omega h)^2 <= 1/2
    factor = 1.0 / (1.0 + (t.low if t.gain else math.exp(-t.tau)) * lows)
    own = np.minimum(2.0 * omega * factor**2 * g * e, 0.5 * _within(q, t)) * (r + terms.drift)
    return float(np.max(factor * value + own))


def _two_ranks(q: Quantities, t: _Terms, beta: Vector) -> Vector:
    """||L B [a x u^T + (r + m) E, c x]||: the largest eigenvalue of what is direct, and of rank two beside it."""
    folded = t.m * q.columns
    # the product with its transpose is beta p p^T + p b^T + b p^T + Q Q^T, where p is L B x,
    # Q is L B (r I + diag(m)) E, b is a Q u and beta = a^2 |u|^2 + c^2;
    # ``aligned`` is p.b and ``across`` is |b|, at most
    aligned = t.a * (np.maximum(t.above * q.up, t.below * q.down) + q.p * folded * q.u)
    across = t.a * (t.r * q.along + folded * q.u)
    two = two_ranks(aligned, across, beta, q.p)
    return np.asarray(np.sqrt((t.r * q.direct + folded) ** 2 + two))


def two_ranks(aligned: Vector, across: Vector, beta: Vector | float, p: Vector) -> Vector:
    """The largest eigenvalue of beta a a^T + a b^T + b a^T, with |a| = p, |b| = across and at most a.b = aligned."""
    p2 = p**2
    # in the plane of a and b its trace is beta p^2 + 2 a.b and its determinant (a.b)^2 - p^2 |b|^2
    inside = 0.25 * (beta * p2) ** 2 + aligned * beta * p2 + across**2 * p2
    return np.asarray(aligned + 0.5 * beta * p2 + np.sqrt(inside))


def _solved(slope: float, gradient: float) -> float:
    """D with (1 - exp(-slope d)) / slope = |gradient|; infinite where none is."""
    if slope == 0:
        return gradient
    return -math.log1p(-slope * gradient) / slope if slope * gradient < 1 else math.inf


def _down(loss: Loss) -> Callable[[Vector, Vector], Vector]:
    return lambda z, y: -np.asarray(loss.r(z, y))


def most_within(values: Vector, z_low: Vector, z_high: Vector, low: float, high: float) -> float:
    r"""The largest value over rows with z from low to high, at most.

    ``values`` (V,) are those of a convex function at points whose hull holds all rows, and z_low, z_high (V,) the ends of z
    around each. Never above the largest of the values, never below zero; zero where the interval holds no row.

    A row of the hull of points v is a mean :math:`x = \sum_v \lambda_v v`. A convex f has
    :math:`f(x) \le \sum_v \lambda_v f(v)`, and z = w.x is the same mean of the :math:`z_v`. So with z(x) at most ``high``, for
    every slope k >= 0

    .. math:: f(x) \le \sum_v \lambda_v \big( f(v) - k (z_v - \mathrm{high}) \big)
              \le \max_v \big( f(v) - k (z_v - \mathrm{high}) \big) ,

    and likewise from below. Any slope gives a bound; the best one gives the concave envelope of the points over the interval.
    Slopes are on a public grid, so that the bound grows with f(v), with ``high`` and as z_v falls, exactly.
    """
    top = float(values.max())
    beyond = values >= top  # where the largest is in the interval nothing is gained
    found = top
    if np.min(z_low[beyond]) > high:
        found = min(found, _least(lambda k: float(np.max(values - k * (z_low - high)))))
    if np.max(z_high[beyond]) < low:
        found = min(found, _least(lambda k: float(np.max(values + k * (z_high - low)))))
    return max(found, 0.0)


def _least(above: Callable[[float], float]) -> float:
    """The least of a convex function over the slopes of the grid."""
    first, last = 0, len(SLOPES) - 1
    while first < last:
        middle = (first + last) // 2
        if above(float(SLOPES[middle])) <= above(float(SLOPES[middle + 1])):
            last = middle
        else:
            first = middle + 1
    return above(float(SLOPES[first]))

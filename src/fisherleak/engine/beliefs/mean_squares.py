r"""The mean of eta squared over a normal belief about each value: what van Trees' inequality needs.

For a value of row i with the belief :math:`v \sim N(m, s^2)`, and :math:`\eta(v)` the eta of the model refitted with v in its
place, :math:`\overline{\eta^2} = E\, \eta(v)^2`. Exact for the squared loss (to 1e-4 in the share). For other
losses a bound from above for all cells, and for those of which it is largest the mean itself, by refits (``path_refits``).

Where the covariance of the noise moves with the value there is a second term, which follows from the rows alone: its mean is
taken for all cells (``moving_noise``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, is_lazy, like, namespace
from fisherleak._support.namespaces import Vector
from fisherleak.engine.beliefs.believed_cells import (
    WIDE,
    Beliefs,
    Moving,
    Shared,
    at_offsets,
    cell_maker,
    directions,
    even_nodes,
    folded,
    gauss_nodes,
    peaked_nodes,
    shared_of,
)
from fisherleak.engine.beliefs.moving_noise import Cells, MovingNoise, poles
from fisherleak.engine.beliefs.path_refits import PathPlaces, Paths, refitted_squares
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.rows import map_rows

HELD = 2**18
"""Cells times nodes that are held at a time."""
NEAREST = 2**13
"""Cells of a block: some hundred passes over their numbers stay in a processor's own memory."""
FEWEST_ROWS = 64
STEP = 0.7
"""Of the rule for bounds, in spreads."""
NEAR = 5.5
"""How far, in spreads, bounds and refits go: what lies beyond has a weight of 4e-8."""
REFITS = 0.7
"""Step of refits, in spreads or in the distance of the poles, compared with twice the step."""
SETTLED = 2e-4
"""Part of a mean by which the rules with one and with two steps may differ: in the share a quarter of it at most."""
COARSE = 1.5
"""Distance of the poles, in spreads, below which the step of the rule for bounds may be too long."""
HALVINGS = 5
WORK = 2**22
"""Refits times rows (and outputs) that take a few seconds."""
NODES = 17
"""Refits that a mean takes, mostly."""
BATCH = 2


@dataclass(frozen=True)
class Means:
    """Means of eta squared at noise of scale 1, (n, attributes + 1) with the label last; NaN where they were not asked for.

    ``exact`` says where they are means; elsewhere they are bounds from above. None where all of them are means. ``by_shape``
    are those of the second term, at any scale of the noise; None where its covariance is fixed.
    """

    squares: Array
    exact: NDArray[np.bool_] | None = None
    by_shape: Array | None = None


def means_over(jacobian: Jacobian, beliefs: Beliefs, noise: MovingNoise | None = None) -> Means:
    """The means of all cells; lazy where the rows are. ``noise`` is given where its covariance moves with the value."""
    width = len(beliefs.attributes) + 1
    most = max(FEWEST_ROWS, NEAREST // width)
    known = None if jacobian.several else _CellNumbers.of(jacobian, beliefs, noise)
    arrays = (*jacobian.arrays, beliefs.values)
    squares = map_rows(_block_means(beliefs, known), *arrays, most=most, width=width)
    by_shape = None
    if noise is not None:
        assert known is not None
        by_shape = map_rows(_block_by_shape(beliefs, noise, known), *arrays, most=most, width=width)
    if known is not None and (jacobian.fit.loss.quadratic or jacobian.gradient or is_lazy(squares)):
        return Means(squares, None, by_shape)
    return replace(_refined(jacobian, beliefs, np.array(host(squares)), noise, known), by_shape=by_shape)


@dataclass(frozen=True)
class _CellNumbers:
    """What all cells share, and a function from a block of rows to the numbers of its cells: of models of one output."""

    shared: Shared
    cells: Callable[..., tuple[Cells, Vector, Cells, Moving | None]]

    @classmethod
    def of(cls, jacobian: Jacobian, beliefs: Beliefs, noise: MovingNoise | None) -> _CellNumbers:
        asked = np.flatnonzero(np.isfinite(beliefs.spreads))
        return cls(shared_of(jacobian), cell_maker(jacobian, beliefs, asked, noise))


def _block_means(beliefs: Beliefs, known: _CellNumbers | None) -> Callable[..., Array]:
    """A function from a block of rows, labels and weights to the means, or to bounds, (b, attributes + 1)."""
    spreads = beliefs.spreads[np.isfinite(beliefs.spreads)]
    if known is None:
        return lambda X, y, weights, values: _placed(X, beliefs, np.inf)
    shared = known.shared

    def block(X: Array, y: Array, weights: Array | None, values: Vector | None) -> Array:
        cells, start, label, own = known.cells(X, y, weights, values)
        found = _of_values(shared, cells, start, spreads, own) if spreads.size else np.inf
        last = _of_labels(shared, label, beliefs, own) if np.isfinite(beliefs.label_spread) else np.nan
        return _placed(X, beliefs, found, last)

    return block


def _block_by_shape(beliefs: Beliefs, noise: MovingNoise, known: _CellNumbers) -> Callable[..., Array]:
    """The same of the second term; zero for labels, which move no covariance."""
    spreads, rule = beliefs.spreads[np.isfinite(beliefs.spreads)], _rule(noise)

    def at(some: tuple[Cells, ...], t: Vector) -> Vector:
        return noise.second(some[0], t)

    def block(X: Array, y: Array, weights: Array | None, values: Vector | None) -> Array:
        _, start, _, own = known.cells(X, y, weights, values)
        assert own is not None
        found = _by_poles(at, (own[1],), own[1].omega, start, spreads, rule) if spreads.size else np.inf
        return _placed(X, beliefs, found, 0.0)

    return block


def _placed(X: Array, beliefs: Beliefs, values: Vector | float, last: Vector | float = np.nan) -> Array:
    """Values of the attributes that are asked for, (b, k), and of the label, as the rows are: (b, attributes + 1)."""
    found = np.full((X.shape[0], len(beliefs.attributes) + 1), np.nan)
    found[:, np.flatnonzero(np.isfinite(beliefs.spreads))] = values
    found[:, -1] = last
    return found if isinstance(X, np.ndarray) else like(found, X, namespace(X))


def _mean_over(rule: tuple[Vector, Vector], at: Callable[[float], Vector]) -> Vector:
    """The weighted sum of what is at each node of a rule; infinite where one is no number."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        total: Any = sum(weight * at(place) for place, weight in zip(*rule, strict=True))
    return np.where(np.isnan(total), np.inf, total)


def _of_values(shared: Shared, cells: Cells, start: Vector, spreads: Vector, moving: Moving | None) -> Vector:
    """Means over the beliefs about values: start (b, k) is how far each centre is from the value."""
    if not shared.loss.quadratic:
        if not np.isfinite(shared.slope):
            return np.full(start.shape, np.inf)
        rule = even_nodes(STEP, NEAR)
        found = _mean_over(rule, lambda place: at_offsets(shared, cells, start + place * spreads, moving=moving))
        return np.where(_narrow(shared, cells, spreads, moving), np.inf, found)
    curvature = cells.omega * shared.loss.a(cells.z, cells.y)
    if moving is None:
        return _by_poles(lambda some, t: at_offsets(shared, some[0], t), (cells,), curvature, start, spreads)
    noise, own = moving

    def at(some: tuple[Cells, ...], t: Vector) -> Vector:
        return at_offsets(shared, some[0], t, moving=(noise, some[1]))

    return _by_poles(at, (cells, own), curvature, start, spreads, _rule(noise))


def _rule(noise: MovingNoise) -> tuple[Vector, Vector]:
    """Nodes for cells whose poles are far: more of them where a bound has a kink."""
    return even_nodes(0.5 * STEP, NEAR) if noise.kinked else gauss_nodes()


def _by_poles(
    at: Callable[[tuple[Cells, ...], Vector], Vector],
    cells: tuple[Cells, ...],
    curvature: Vector,
    start: Vector,
    spreads: Vector,
    rule: tuple[Vector, Vector] | None = None,
) -> Vector:
    """Means of what ``at`` gives of some cells and offsets: more nodes where the poles, those of the first, are near."""
    peak, width = np.broadcast_arrays(*poles(cells[0], curvature))
    found = _mean_over(gauss_nodes() if rule is None else rule, lambda place: at(cells, start + place * spreads))
    close = np.nonzero(width < WIDE * spreads)
    if not close[0].size:
        return found
    own = spreads[close[1]]
    nodes = peaked_nodes((peak[close] - start[close]) / own, width[close] / own)
    some = [each.take(close, start.shape) for each in cells]
    step = max(1, HELD // nodes[0].shape[1])
    for k in range(0, own.size, step):
        part = slice(k, k + step)
        t = start[close][part, None] + own[part, None] * nodes[0][part]
        these = tuple(each.part(part) for each in some)
        found[close[0][part], close[1][part]] = (at(these, t) * nodes[1][part]).sum(axis=1)
    return found


def _narrow(shared: Shared, cells: Cells, spreads: Vector, moving: Moving | None) -> NDArray[np.bool_]:
    """Where a path may have a peak that the rule for bounds is too coarse for: refits choose their own step."""
    traits = shared.loss.traits
    largest = np.inf if traits is None else traits.largest
    curvature = cells.omega * (largest if np.isfinite(largest) else shared.loss.a(cells.z, cells.y + 0.0 * cells.z))
    width = poles(cells, curvature)[1]
    if moving is not None:
        width = np.minimum(width, poles(moving[1], moving[1].omega)[1])
    return np.asarray(width < COARSE * spreads)


def _of_labels(shared: Shared, cells: Cells, beliefs: Beliefs, moving: Moving | None) -> Vector:
    """Means over the belief about labels, (b,): they move no covariance."""
    count, still = cells.z.shape[0], np.zeros_like(cells.z)
    if shared.loss.quadratic:  # the parameters are affine in the label
        alone = None if moving is None else (moving[0], moving[1].of_rows)
        return at_offsets(shared, cells, still, cells.y, alone)[:, 0]
    if not np.isfinite(shared.slope):
        return np.full(count, np.inf)

    def at(place: float) -> Vector:
        y = np.full_like(cells.z, beliefs.label_centre + place * beliefs.label_spread)
        return at_offsets(shared, cells, still, y)[:, 0]

    return _mean_over(even_nodes(STEP, NEAR), at)


def _refined(
    jacobian: Jacobian, beliefs: Beliefs, squares: Vector, noise: MovingNoise | None, known: _CellNumbers | None
) -> Means:
    """Bounds replaced by means for the cells that are worst in their column, and then for the others where the work allows it:
    for all of them, or of several outputs, which have no bounds, for as many as it allows.
    """
    exact = np.zeros(squares.shape, dtype=bool)
    asked = np.flatnonzero(~np.isnan(squares).all(axis=0))
    refits = _Refits.of(jacobian, beliefs, noise)
    if known is not None:
        _patch(jacobian, refits, squares, known)
    left = WORK
    scale = np.append(beliefs.spreads, beliefs.label_spread)
    while left > 0:
        wanted = [_most(squares[:, j], exact[:, j]) for j in asked]
        cells = [(int(i), int(j)) for j, rows in zip(asked, wanted, strict=True) for i in rows]
        if not cells:
            if not jacobian.several and np.count_nonzero(~exact & (squares > 0)) * NODES * len(squares) > left:
                break  # a few more of many means would change nothing that is shown
            rest = np.where(exact | np.isnan(squares), -1.0, squares * scale**2)
            order = np.argsort(-rest, axis=None)[: 64 * BATCH]
            cells = [(int(k) // rest.shape[1], int(k) % rest.shape[1]) for k in order if rest.flat[k] > 0]
        if not cells:
            break
        i, j = np.array(cells).T
        # as many as the work allows, those with the largest shares first
        most = max(1, int(left // (NODES * len(squares) * refits.paths.loss.outputs)))
        chosen = np.argsort(-squares[i, j] * scale[j] ** 2, kind="stable")[:most]
        i, j = i[chosen], j[chosen]
        means, work = refits.means(i, j)
        left -= work
        squares[i, j] = np.where(np.isnan(means), squares[i, j], means)
        exact[i, j] = True
    return Means(squares, exact)


def _patch(jacobian: Jacobian, refits: _Refits, squares: Vector, known: _CellNumbers) -> None:
    """Where there is no bound at some places of a path, in the tails of a belief mostly: eta by refits there, in place."""
    beliefs, shared = refits.beliefs, known.shared
    asked = np.flatnonzero(np.isfinite(beliefs.spreads))
    if not np.isinf(squares[:, asked]).any() or not np.isfinite(shared.slope):
        return
    # those that are open, as many as fit: each takes refits of all rows
    rows = np.flatnonzero(np.isinf(squares[:, asked]).any(axis=1))[: max(1, HELD // asked.size)]
    arrays = (*jacobian.arrays, beliefs.values)
    cells, start, _, moving = known.cells(*(None if each is None else np.asarray(host(each))[rows] for each in arrays))
    i, k = np.nonzero(np.isinf(squares[np.ix_(rows, asked)]) & ~_narrow(shared, cells, beliefs.spreads[asked], moving))
    some, places, weight = cells.take((i, k), start.shape), *even_nodes(STEP, NEAR)
    own = None if moving is None else moving[1].take((i, k), start.shape)
    found = np.empty((i.size, places.size))
    for first in range(0, i.size, NEAREST):
        part = slice(first, first + NEAREST)
        t = start[i[part], k[part]][:, None] + beliefs.spreads[asked][k[part]][:, None] * places
        these = None if moving is None or own is None else (moving[0], own.part(part))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found[part] = at_offsets(shared, some.part(part), t, moving=these)
    found = np.where(np.isnan(found), np.inf, found)
    open_ = np.isinf(found)
    order = np.argsort(open_.sum(axis=1), kind="stable")
    chosen = order[np.cumsum(open_[order].sum(axis=1)) * len(squares) <= WORK]
    of, node = np.nonzero(open_[chosen])
    of = chosen[of]
    if of.size:
        found[of, node] = refitted_squares(refits.paths, refits.places(rows[i[of]], asked[k[of]], places[node]))
    total = found @ weight
    squares[rows[i], asked[k]] = np.where(np.isnan(total), np.inf, total)


def _most(squares: Vector, exact: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Rows whose bound is above what is known for certain of any, the largest first, a few at a time."""
    known = np.max(squares, initial=0.0, where=exact & np.isfinite(squares))
    above = np.flatnonzero(~exact & (squares > known))
    return above[np.argsort(-squares[above], kind="stable")][:BATCH]


@dataclass(frozen=True)
class _Refits:
    """Means by refits of some cells."""

    paths: Paths
    beliefs: Beliefs
    speeds: Vector
    """How fast the feature of each moves."""

    @classmethod
    def of(cls, jacobian: Jacobian, beliefs: Beliefs, noise: MovingNoise | None) -> _Refits:
        plain = [
            a if np.isfinite(s) else Attribute(a.name, [j])
            for a, s, j in zip(beliefs.attributes, beliefs.spreads, beliefs.features, strict=True)
        ]
        E = directions(jacobian, plain)
        # and one more, of labels: no value moves
        paths = Paths(jacobian, np.pad(E.T, ((0, 1), (0, 0))), noise)
        return cls(paths, beliefs, E[beliefs.features, np.arange(len(plain))])

    def means(self, i: NDArray[np.int64], j: NDArray[np.int64]) -> tuple[Vector, int]:
        """Of the values (or labels) j of the rows i: NaN where refits did not settle; and the work that it took."""
        found, going, step = np.full(i.size, np.nan), np.arange(i.size), REFITS * self._width(i, j)
        work = 0
        for _ in range(HALVINGS):
            ends = 2 * np.ceil(0.5 * NEAR / step[going]).astype(np.int64)
            places = [each * np.arange(-end, end + 1) for each, end in zip(step[going], ends, strict=True)]
            of = np.repeat(going, [each.size for each in places])
            where = np.concatenate(places)
            squares = refitted_squares(self.paths, self.places(i[of], j[of], where))
            work += of.size * len(self.paths.y) * self.paths.loss.outputs
            weights = np.exp(-0.5 * where**2)
            coarse = np.concatenate([np.arange(each.size) % 2 == 0 for each in places])
            fine, rough = (_mean(of, squares, weights * mask, i.size)[going] for mask in (1.0, coarse))
            with np.errstate(invalid="ignore"):
                settled = np.abs(fine - rough) <= SETTLED * fine
            found[going[settled]] = fine[settled]
            going = going[~settled & np.isfinite(fine)]
            step = step / 2.0
            if not going.size:
                break
        return found, work

    def _width(self, i: NDArray[np.int64], j: NDArray[np.int64]) -> Vector:
        """Distance of the poles of a quadratic loss of the same curvature, in spreads, not above 1."""
        value, L = j < len(self.speeds), self.paths.loss.outputs
        e = self.paths.directions[np.where(value, j, 0)]
        inverse = self.paths.inverse[: e.shape[1], : e.shape[1]] if L > 1 else self.paths.inverse
        curvature = np.asarray(
            self.paths.loss.curvature((self.paths.x @ self.paths.theta.reshape(L, -1).T)[i], self.paths.y[i])
        )
        a = self.paths.omega[i] * np.trace(curvature, axis1=1, axis2=2)
        reach = np.sqrt(np.maximum(a * ((e @ inverse) * e).sum(axis=1), 1e-300)) * np.where(
            value, self.beliefs.spreads[np.where(value, j, 0)], 0.0
        )
        return np.asarray(np.minimum(1.0, 1.0 / np.maximum(reach, 1e-3)))

    def places(self, i: NDArray[np.int64], j: NDArray[np.int64], where: Vector) -> PathPlaces:
        beliefs, jacobian = self.beliefs, self.paths.jacobian
        value = j < len(self.speeds)
        own, (rows, row) = np.where(value, j, 0), np.unique(i, return_inverse=True)
        X = np.asarray(host(jacobian.X))[rows]
        weights = None if jacobian.fit.sample_weight is None else np.asarray(host(jacobian.fit.sample_weight))[rows]
        X = X.astype(np.float64)
        values = None if beliefs.values is None else beliefs.values[rows]
        pairs = folded(jacobian.folding, jacobian.fit, X, weights, beliefs.features, self.speeds)
        linear, square = (np.where(value, each[row, own], 0.0) for each in pairs)
        start = beliefs.offsets(X, values, np.arange(len(self.speeds)), self.speeds)[row, own]
        t = np.where(value, start + where * beliefs.spreads[own], 0.0)
        along = np.where(value, j, len(self.speeds))
        if jacobian.several or value.all():
            return PathPlaces(i, along, t, linear, square)
        y = np.where(value, self.paths.y[i], beliefs.label_centre + where * beliefs.label_spread)
        return PathPlaces(i, along, t, linear, square, y, ~value)


def _mean(of: NDArray[np.int64], squares: Vector, weights: Vector, count: int) -> Vector:
    total, weight = (np.bincount(of, each, count) for each in (weights * squares, weights))
    return np.asarray(total / np.where(weight > 0, weight, 1.0))

r"""Norms where values of a column tie at an order statistic that a scaler or an imputer learned.

A tied value moves the statistic if it rises, or if it falls, or in neither way, so the fit has two derivatives by it. The
change along :math:`\delta` is :math:`J_0 \delta + \sum_s c_s(\delta) v_s`, with :math:`J_0` all that is linear,
:math:`v_s` what the statistic s does and :math:`|c_s| \le |\delta|`. One value has the larger norm of its two sides, and so
has a row of which one value is tied. Everything else has a bound that the norm is never above.

Mathematics: 2.8, ``docs/mathematics/norms.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, like, namespace
from fisherleak._support.namespaces import Sums, Vector
from fisherleak.engine.information import Information, Product, Release, TableInformation
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.folding import APART, DOWN, UP
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.norms.largest_eigenvalues import WANTED
from fisherleak.engine.norms.matrix_free import MatrixFree
from fisherleak.engine.norms.several_outputs import SeveralOutputs, refuse_several
from fisherleak.errors import InvalidInputError

BLOCK_VALUES = 2**22
"""Values of Jacobians that are written out at a time."""


def is_two_sided(jacobian: Jacobian) -> bool:
    """Whether values tie at what preprocessing learned."""
    return jacobian.folding is not None and jacobian.folding.two_sided


@dataclass(frozen=True)
class TwoSided(TableInformation):
    """The information of one release or of several, in one or more of which values tie at an order statistic."""

    cut = WANTED

    @property
    def jacobians(self) -> tuple[Jacobian, ...]:
        if self.several:
            refuse_several(self, "this")
        return self._every

    @property
    def _every(self) -> tuple[Jacobian, ...]:
        return tuple(each.jacobian for each in self.releases)

    @cached_property
    def _ways(self) -> tuple[Information, Information, Information]:
        """The information where values rise, where they fall, and without what ties."""
        kind = SeveralOutputs if self.several else MatrixFree
        up, down, apart = (kind(tuple(Release(_on(J, way)) for J in self._every)) for way in (UP, DOWN, APART))
        return up, down, apart

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        up, down = (np.asarray(host(self._ways[way].example_norms(attributes, label))) for way in (UP, DOWN))
        found = np.maximum(up, down)
        (several,) = np.nonzero(self._tied(attributes) > 1)
        if several.size:
            found[several] = np.maximum(found[several], self._bounds(attributes, label, several))
        return like(found, self._every[0].B, namespace(self._every[0].B))

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        up, down = (np.asarray(host(self._ways[way].cell_norms(attributes))) for way in (UP, DOWN))
        found = np.maximum(up, down)
        for j, attribute in enumerate(attributes):
            (several,) = np.nonzero(self._tied([attribute]) > 1)
            if several.size:
                found[several, j] = np.maximum(found[several, j], self._bounds([attribute], False, several))
        return like(found, self._every[0].B, namespace(self._every[0].B))

    def attribute_norms(self, attributes: Sequence[Attribute]) -> Array:
        found = np.array(host(self._ways[APART].attribute_norms(attributes)), dtype=np.float64)
        for j, attribute in enumerate(attributes):
            if self.two_sided([attribute]):
                found[j] = self.set_norm([attribute], False, None)
        return like(found, self._every[0].B, namespace(self._every[0].B))

    def set_norm(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> float:
        if rows is not None and rows.shape[0] == 1:
            return float(host(self.example_norms(attributes, label))[int(host(rows)[0])])
        return super().set_norm(attributes, label, rows)

    def set_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        """A matrix that J_S J_S^T of any direction of the set is not above: section 2.8."""
        plain, statistics = self._ways[APART].set_product(attributes, label), self._statistics(attributes)
        if not statistics:
            return plain
        count, tables = len(plain.arrays), [J.X for J in self._every]

        def block(*rows: Array | None) -> Sums:
            features = [np.asarray(host(X)) for X in rows[count:]]
            touched = np.array([each.touched(features).sum() for each in statistics], dtype=np.float64)
            return (*plain.block(*rows[:count]), touched)

        def finish(sums: Sums) -> Array:
            G = plain.finish(sums[:-1])
            moved = [each for each, touched in zip(statistics, host(sums[-1]), strict=True) if touched >= each.needed]
            parts = [_joined([each for each in moved if each.attribute == j]) for j in range(len(attributes))]
            C = np.concatenate([part for part in parts if part is not None] or [np.zeros((G.shape[0], 0))], axis=1)
            own, more = np.asarray(host(G)), C @ C.T
            tops = [float(np.linalg.eigvalsh(each)[-1]) for each in (own, more)]
            if not min(tops) > 0:
                return like(own + more, G, namespace(G))
            t = (tops[1] / tops[0]) ** 0.5
            return like((1.0 + t) * own + (1.0 + 1.0 / t) * more, G, namespace(G))

        # no sets are written out, for they have no Jacobian: a product that finds no top says so
        return Product((*plain.arrays, *tables), block, finish, plain.size, lambda sums: None)

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        sides = [self._ways[way].certain(attributes, label, row, norm) for way in (UP, DOWN)]
        return max(*sides, norm * (1.0 + self.error))

    def two_sided(self, attributes: Sequence[Attribute]) -> bool:
        return bool(self._statistics(attributes))

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        statistics = self._statistics(attributes)
        features = [np.asarray(host(J.X))[slice(None) if rows is None else host(rows)] for J in self._every]
        if not any(each.touched(features).any() for each in statistics):
            return self._ways[APART].written_out(attributes, label, rows)
        raise InvalidInputError(
            "Values tie at a quantile, a range or a median that the preprocessing learned, so the information about them is no "
            "single matrix: ask for etas (per_cell, per_example, of), or measure with public='preprocessing'."
        )

    def _statistics(self, attributes: Sequence[Attribute]) -> list[_Statistic]:
        """What tied values of some attributes may move."""
        height = [int(J.B.shape[0]) for J in self._every]
        found = []
        for k, J in enumerate(self._every):
            if not is_two_sided(J):
                continue
            for column, vector, touching in _tied_statistics(J):
                whole = np.concatenate([vector if m == k else np.zeros(size) for m, size in enumerate(height)])
                for j, attribute in enumerate(J.named(attributes)):
                    if column in attribute.columns:
                        along = _directions(attribute, J.X.shape[0])[:, attribute.columns.index(column), :]
                        most = float(np.linalg.norm(along, axis=1).max())
                        found.append(_Statistic(j, k, whole * most, *touching))
        return found

    def _tied(self, attributes: Sequence[Attribute]) -> NDArray[np.int64]:
        """How many values of each row move something in one way and not in the other, (n,).

        Features that one value moves in the same way are one.
        """
        found = np.zeros(self.rows[0].shape[0], dtype=np.int64)
        for j in range(len(attributes)):
            signs, count = [], np.zeros(found.size, dtype=np.int64)
            for J in filter(is_two_sided, self._every):
                own = J.named(attributes)[j]
                along, bent = _directions(own, found.size), _differences(J)[:, list(own.columns)] != 0
                hit = bent & (np.linalg.norm(along, axis=2) > 0)
                count += hit.sum(axis=1)
                signs.append(np.where(hit, np.sign(along[:, :, 0]) if own.size == 1 else np.nan, 0.0))
            if signs:
                every = np.concatenate(signs, axis=1)
                alike = ((every >= 0).all(axis=1) | (every <= 0).all(axis=1)) & (count > 0)
                found += np.where(alike, 1, count)
        return found

    def _bounds(self, attributes: Sequence[Attribute], label: bool, rows: NDArray[np.int64]) -> Vector:
        """Bounds on ||J_i|| of some rows, more than one value of which is tied, (b,)."""
        sizes = [attribute.size for attribute in self._every[0].named(attributes)]
        ends = np.cumsum([0, *sizes]).tolist()
        height = sum(int(J.B.shape[0]) for J in self._every)
        step = max(1, BLOCK_VALUES // (3 * height * (ends[-1] + 1)))
        X = self.rows[0]
        found = []
        for start in range(0, rows.size, step):
            some = rows[start : start + step]
            at = like(some, X, namespace(X))
            up, down = (np.asarray(host(self._ways[way].written_out(attributes, label, at))) for way in (UP, DOWN))
            middle = 0.5 * (up + down)
            columns = [middle[:, :, ends[-1] :]]
            for j, (a, b) in enumerate(pairwise(ends)):
                # J of the attribute at the middle of both sides, and what is between the middle and a side
                own, bent = middle[:, :, a:b], self._between(attributes, j, some)
                m, h = (np.linalg.norm(each, axis=(1, 2)) for each in (own, bent))
                both = (m > 0) & (h > 0)
                t = np.where(both, h / np.where(both, m, 1.0), 1.0)
                t[h == 0] = 0.0
                more = np.where(h > 0, 1.0 + 1.0 / np.where(t > 0, t, 1.0), 0.0)
                columns += [own * np.sqrt(1.0 + t)[:, None, None], bent * np.sqrt(more)[:, None, None]]
            found.append(np.linalg.norm(np.concatenate(columns, axis=2), 2, axis=(1, 2)))
        return np.concatenate(found)

    def _between(self, attributes: Sequence[Attribute], j: int, rows: NDArray[np.int64]) -> Vector:
        """C of one attribute of some rows: what moves with it is below C C^T between its middle and its sides, (b, p, f)."""
        parts = []
        height = [int(J.B.shape[0]) for J in self._every]
        for k, J in enumerate(self._every):
            own = J.named(attributes)[j]
            if not is_two_sided(J):
                continue
            along = np.linalg.norm(_directions(own, J.X.shape[0])[:, :, :], axis=2)
            along = np.broadcast_to(along, (J.X.shape[0], len(own.columns)))[rows]
            half = 0.5 * np.abs(_differences(J)[rows][:, list(own.columns)]) * along
            bumps = np.stack([_bump(J, column) for column in own.columns], axis=1)
            above, below = sum(height[:k]), sum(height[k + 1 :])
            whole = np.pad(bumps, ((above, below), (0, 0)))
            parts.append(whole[None, :, :] * half[:, None, :])
        return _spread(np.concatenate(parts, axis=2))


@dataclass(frozen=True)
class _Statistic:
    """A statistic at which values tie: which attribute and release it is of, what it does at most, and who may move it."""

    attribute: int
    release: int
    vector: Vector
    column: int
    value: float
    by_all: bool
    """Whether every row may move it, through a filled value."""
    needed: int
    """How many rows have to move together for it to move."""

    def touched(self, features: Sequence[Vector]) -> NDArray[np.bool_]:
        """Which rows of a block may move it."""
        X = features[self.release]
        return np.ones(X.shape[0], dtype=bool) if self.by_all else np.asarray(X[:, self.column] == self.value)


def _on(jacobian: Jacobian, way: int) -> Jacobian:
    return replace(jacobian, folding=None if jacobian.folding is None else jacobian.folding.on(way))


def _bump(J: Jacobian, column: int) -> Vector:
    """What a change of the direct effect of one feature does to what is released, (p,)."""
    B = np.asarray(host(J.B))
    if not J.several:
        return np.asarray(B[:, column])
    return np.asarray(np.einsum("rl,l->r", B[:, column :: J.width], np.asarray(host(J.slopes))[:, column]))


def _tied_statistics(J: Jacobian) -> list[tuple[int, Vector, tuple[int, float, bool, int]]]:
    """The statistics of one release at which values tie: feature, what it does, and who moves it."""
    folding = J.folding
    assert folding is not None
    values, shares = (np.asarray(host(each)) for each in (folding.values, folding.shares))
    sides = np.zeros((3, 3, *shares.shape)) if folding.sides is None else np.asarray(host(folding.sides))
    found = []
    for q, k in zip(*np.nonzero((shares != 0) & ~sides[APART].any(axis=0)), strict=True):
        filled = bool(sides[:, 1:, q, k].any())
        together = 1 if folding.needed is None else int(host(folding.needed)[q, k])
        found.append((int(k), shares[q, k] * _bump(J, int(k)), (int(k), float(values[q, k]), filled, together)))
    filling = folding.filling
    if filling is not None and filling.sides is not None:
        own, d = np.asarray(host(filling.sides)), shares.shape[1]
        whole, through = np.asarray(host(filling.shares)), np.asarray(host(filling.through))
        first = int(J.B.shape[1]) - filling.size
        for s, i in zip(*np.nonzero((whole != 0) & (own[APART] == 0)), strict=True):
            k = filling.columns[i]
            carried = through[i] + sides[APART, 2, :, k].sum()
            vector = whole[s, i] * (_bump(J, first + int(i)) + carried * _bump(J, k))
            found.append((k, vector, (k, float(np.asarray(host(filling.values))[s, i]), False, 1)))
        assert d == J.X.shape[1]
    return found


def _differences(J: Jacobian) -> Vector:
    """How far apart the direct effects of features are where values rise and where they fall, (n, p)."""
    rows = (J.X, J.y, J.fit.sample_weight)
    if J.several:
        assert J.folding is not None
        moved = [np.asarray(host(J.folding.on(way).moves(J.X, rows[2]))) for way in (UP, DOWN)]
    else:
        moved = [np.asarray(host(_on(J, way).model.rows(*rows).direct)) for way in (UP, DOWN)]
    return np.asarray(moved[0] - moved[1])


def _directions(attribute: Attribute, n: int) -> Vector:
    """How an attribute moves its columns in every row, (n or 1, columns, m)."""
    given = np.eye(len(attribute.columns)) if attribute.directions is None else np.asarray(attribute.directions)
    return given if given.ndim == 3 else given[None, :, :]


def _joined(statistics: Sequence[_Statistic]) -> Vector | None:
    """C of the statistics that one attribute moves: what they do together is below C C^T."""
    if not statistics:
        return None
    (found,) = _spread(np.stack([each.vector for each in statistics], axis=1)[None])
    return np.asarray(found)


def _spread(vectors: Vector) -> Vector:
    """Columns of (b, p, f) so that any sum of them with factors of at most one in size is below C C^T."""
    sizes = np.linalg.norm(vectors, axis=1)
    total = sizes.sum(axis=1, keepdims=True)
    factors = np.sqrt(np.divide(total, sizes, out=np.zeros_like(sizes), where=sizes > 0))
    return np.asarray(vectors * factors[:, None, :])

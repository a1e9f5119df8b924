"""What a limit on eta is about, in the coordinates in which the loss that noise costs is the trace of its covariance.

Mathematics: 7.1, ``docs/mathematics/noise.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from fisherleak._support.arrays import Array, host, is_lazy, like, namespace
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.information import Information
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute, map_of
from fisherleak.engine.norms import information_of, one_release
from fisherleak.engine.norms.tied_cells import people_cells, tied_squares
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.measurement import measurement
from fisherleak.rows import sum_rows
from fisherleak.rows.selection import rows_by_group
from fisherleak.rows.summary import digest

if TYPE_CHECKING:
    from fisherleak.leakage.leakage import Leakage

Matrix = NDArray[np.float64]

STEP = 1e-4
"""How far a value is moved, in standard deviations of its columns."""
MOST_VALUES = 2**27
"""Values of all groups' matrices that are held at a time: a gigabyte."""


class Units(Protocol):
    """What has an eta that is limited; squares of etas are those under noise of covariance Sigma, from W^T W = Sigma^-1."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many there are, released parameters p, and values m of a unit."""

    def total(self) -> Matrix:
        """The sum of K K^T over all units, (p, p)."""

    def worst(self, W: Matrix, most: int) -> list[tuple[int, float]]:
        """The units with the largest squared etas and these, the largest first."""

    def written_out(self, units: Sequence[int]) -> Matrix:
        """K of some units, (k, p, m)."""


def covering(S: Matrix, fit: Fit) -> Matrix:
    """A covariance of released parameters (p, p) with noise where theirs has none: along what all classes have alike."""
    if fit.frame is None or fit.frame.shape[0] == fit.frame.shape[1]:
        return S
    K, d = fit.coef.shape
    alike = np.full((K, K), 1.0 / K)
    blocks = [np.kron(alike, np.eye(d)), *([] if fit.intercept is None else [alike])]
    # the end of section 7.1: noise along what is added to all classes alike, of the mean variance of the rest, in which
    # S has len(S) (K - 1) / K dimensions
    return np.asarray(S + np.trace(S) / (len(S) * (K - 1) / K) * block_diag(*blocks))


def raw_map(fit: Fit) -> Matrix:
    """U, with U U^T the inverse of the Hessian over the released parameters: (p, p), of several outputs (K p, L p)."""
    return np.asarray(host(fit.uncentred(like(inverse_root(fit).T, fit.coef, namespace(fit.coef)))))


def inverse_root(fit: Fit) -> Matrix:
    """Q with Q^T Q the inverse of the Hessian for rows as they are centred."""
    core = np.linalg.cholesky(host(fit.factor.core))
    return np.asarray(core.T * host(fit.factor.scale)[None, :])


@dataclass(frozen=True)
class SingleRows:
    """Single examples, some of their attributes and the label or not."""

    jacobian: Jacobian
    attributes: tuple[Attribute, ...]
    label: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        jacobian = self.jacobian
        of_label = jacobian.label_size
        values = sum(attribute.size for attribute in self.attributes) + of_label * self.label
        return int(jacobian.X.shape[0]), int(jacobian.fit.centred_theta.shape[0]), values

    @cached_property
    def _plain(self) -> Information:
        return self._under(np.eye(self.shape[1]))

    def _under(self, W: Matrix) -> Information:
        B = self.jacobian.B
        # the Jacobian of a row is U K, U^T its ``inverse_root``; under noise of covariance Sigma its eta is ||W K||
        # (section 7.1)
        return information_of(replace(self.jacobian, B=like(W @ inverse_root(self.jacobian.fit), B, namespace(B))))

    def total(self) -> Matrix:
        product = self._plain.set_product(self.attributes, self.label)
        return np.asarray(host(product.finish(sum_rows(product.block, *product.arrays))))

    def worst(self, W: Matrix, most: int) -> list[tuple[int, float]]:
        found = digest(self._under(W).example_norms(self.attributes, self.label), most).top
        return [(row, norm**2) for row, norm in found]

    def written_out(self, units: Sequence[int]) -> Matrix:
        B = self.jacobian.B
        rows = like(np.asarray(units, dtype=np.int64), B, namespace(B))
        return np.asarray(host(self._plain.written_out(self.attributes, self.label, rows)))


@dataclass(frozen=True)
class JointRows:
    """Sets of examples, each taken jointly, as their matrices K K^T, (groups, p, p)."""

    squares: Matrix

    @property
    def shape(self) -> tuple[int, int, int]:
        count, size, _ = self.squares.shape
        return count, size, size

    def total(self) -> Matrix:
        return np.asarray(self.squares.sum(axis=0))

    def worst(self, W: Matrix, most: int) -> list[tuple[int, float]]:
        # lambda_max(K^T Sigma^-1 K) = lambda_max(W K K^T W^T), as W^T W = Sigma^-1
        tops = np.concatenate([np.linalg.eigvalsh(W @ part @ W.T)[:, -1] for part in self._parts()])
        order = np.argsort(-tops, kind="stable")[:most]
        return [(int(k), float(tops[k])) for k in order]

    def _parts(self) -> list[Matrix]:
        most = max(1, 2**20 // self.shape[1] ** 2)
        return [self.squares[k : k + most] for k in range(0, self.squares.shape[0], most)]

    def written_out(self, units: Sequence[int]) -> Matrix:
        # any root of K K^T stands for K
        s, V = np.linalg.eigh(self.squares[list(units)])
        return np.asarray(V * np.sqrt(np.clip(s, 0.0, None))[:, None, :])


def units_of(leakage: Leakage, over: str, attributes: Any, label: bool | None, groups: Any) -> Units:
    """What ``calibrate`` limits, as units."""
    chosen, counted = measurement(leakage).chosen(attributes, label)
    jacobian = one_release(measurement(leakage).information)
    rows = SingleRows(jacobian, chosen, counted)
    if over == "max":
        if not rows._plain.two_sided(chosen):
            return rows
        # where values tie at what preprocessing learned, a row has a matrix that is a bound, and no Jacobian
        return JointRows(_squares(rows, [np.array([row]) for row in range(leakage.n)], False, "rows"))
    if over == "dataset":
        return JointRows(rows.total()[None, :, :])
    if over not in ("group", "person"):
        raise InvalidInputError(
            f"shape='least-loss' limits over 'max', 'group', 'person' or 'dataset'; got over={over!r}. Limit the largest eta "
            "instead."
        )
    if is_lazy(jacobian.X):
        raise InvalidInputError(
            "shape='least-loss' over groups needs rows in memory; X is a Dask array. Use over='max'."
        )
    members = list(rows_by_group(measurement(leakage).labels(groups), leakage.n).values())
    return JointRows(_squares(rows, members, over == "person"))


def _squares(rows: SingleRows, groups: Sequence[Array], people: bool, what: str = "groups") -> Matrix:
    """Of each group; of people also those in which what is one value moves together, where they have several rows."""
    size, times = rows.shape[1], 3 if people else 1
    if times * len(groups) * size**2 > MOST_VALUES:
        raise InvalidInputError(
            f"{what} are {len(groups)}, whose matrices with {size} parameters would take "
            f"{8 * times * len(groups) * size**2 / 2**30:.0f} GiB. Give fewer {what}, or use shape='hessian'."
        )
    product = rows._plain.set_product(rows.attributes, rows.label)
    sums = (sum_rows(product.block, *product.arrays, rows=members) for members in groups)
    found = np.stack([np.asarray(host(product.finish(total))) for total in sums])
    if not people:
        return found
    own = [np.asarray(host(each), dtype=np.int64) for each in groups]
    return np.concatenate([found, tied_squares(people_cells(rows._plain, rows.attributes, rows.label), own)])


def value_moves(jacobian: Jacobian, attributes: tuple[Attribute, ...], label: bool) -> tuple[Matrix, Matrix]:
    """Steps, (c,), and moves of (features, label), (c, d + 1), by a unit of each value."""
    X, y = np.asarray(host(jacobian.X), dtype=np.float64), np.asarray(host(jacobian.y), dtype=np.float64)
    d = X.shape[1]
    E = map_of(jacobian.named(attributes), d, np.zeros(1)).after(np.eye(d)) if attributes else None
    by_value = np.zeros((0, d + 1)) if E is None else np.column_stack([np.asarray(E).T, np.zeros(E.shape[1])])
    if label:
        by_value = np.concatenate([by_value, np.eye(d + 1)[-1:]])
    data = np.column_stack([X, y])
    spread = data.std(axis=0)
    spread = np.where(spread > 0, spread, np.maximum(np.abs(data).max(axis=0), 1.0))
    sizes = np.max(np.abs(by_value) / spread, axis=1)
    return STEP / np.where(sizes > 0, sizes, 1.0), by_value

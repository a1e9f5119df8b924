r"""The Fisher information of a release about the inputs of a network that lies before it: :math:`J_i = R_i D_i`.

:math:`D_i = \partial f / \partial x_i` (k, P) is the network's derivative, known by products (``row_maps``), and :math:`R_i`
(q, k) says what the release makes of its outputs: the whitened noise of an encoder, the Jacobian of a linear head. Where k is
small the k x k matrix :math:`D_i D_i^T` decides; elsewhere Lanczos' method with :math:`v \mapsto D_i^T R_i^T R_i D_i v`,
whose values can only be too small, so that what decides is certified from above (``certain``). Where :math:`R_i^T R_i` is a sum
of larger terms (heads of several outputs) and a value is small against them, it is computed again without squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fisherleak._support.arrays import Array, host, on_accelerator
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.information import Product, Release, norm_by_product
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.norms.largest_eigenvalues import WANTED, top_by_products, top_of_matrices
from fisherleak.errors import InvalidInputError
from fisherleak.nn.heads import After
from fisherleak.nn.row_maps import RowMap, Tensor, as_given, torch

FEW_OUTPUTS = 32
"""Outputs up to which derivatives are written out: about as many products as Lanczos' method takes."""
ROUNDING = 1e-12
"""Relative error left by rounding in the products of a network in float64."""
BLOCKS = 4
"""Values of what heads make of a batch, in the values of its derivatives."""
CANCELLED = 1e-5
"""A value below this part of the terms that made it is computed again without squares."""
CANCELLED_BY_PRODUCTS = 1e-8
"""The same where the size of a derivative is known from one random direction."""
LARGEST_CERTIFIED = 8192
"""Rows of the largest matrix that is factorised for a certificate."""


@dataclass(frozen=True)
class Through:
    """The information of a release about a network's inputs, at noise of scale 1."""

    network: RowMap
    given: Any
    """The inputs as they were passed: results are of their kind."""
    attributes: tuple[Attribute, ...]
    after: After | None = None
    """R_i, with last columns for the label where it counts; None for the identity."""
    factor: float = 1.0
    inner_error: float = 0.0
    inner_fits: tuple[Fit, ...] = ()
    folded: bool | None = None

    several: ClassVar[bool] = False
    data_dependent: ClassVar[bool] = False
    closed_mechanism: ClassVar[None] = None
    averaged: ClassVar[None] = None
    shares_known: ClassVar[bool] = False

    @property
    def releases(self) -> tuple[Release, ...]:
        return tuple(map(Release, self.jacobians))

    @property
    def jacobians(self) -> tuple[Jacobian, ...]:
        raise InvalidInputError(
            "A leakage about inputs of a network does not support noise with a covariance, or compositions with tables: ask "
            "the leakage of the head about its features."
        )

    @property
    def fits(self) -> tuple[Fit, ...]:
        return self.inner_fits

    @property
    def rows(self) -> tuple[Array, Array]:
        flat = as_given(self.network.X, self.given)
        return flat, flat[:, 0]

    @property
    def error(self) -> float:
        return WANTED + ROUNDING + self.inner_error

    def scaled(self, factor: float) -> Through:
        return replace(self, factor=self.factor * factor)

    def two_sided(self, attributes: Sequence[Attribute]) -> bool:
        return False

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        labels, columns = self._labels(label), self._columns(attributes)
        few = self.network.outputs <= FEW_OUTPUTS
        parts = []
        for start, stop in self.network.batches(min(self._most, self.network.few) if few else self._most):
            rows = torch.arange(start, stop, device=self.network.X.device)
            if columns.shape[0] == 0:
                parts.append(self._of_label(rows))
            elif few:
                parts.append(self._small(rows, columns, labels))
            else:
                parts.append(self._large(rows, columns, labels))
        return as_given(self.factor * torch.sqrt(torch.clip(torch.cat(parts), min=0.0)), self.given)

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        if not all(attribute.size == 1 for attribute in attributes):
            norms = [torch.as_tensor(self.example_norms([attribute], False)) for attribute in attributes]
            return as_given(torch.stack(norms, dim=1), self.given)
        columns, parts = self._columns(attributes), []
        for start, stop in self.network.batches(min(self._most, self.network.few)):
            parts.append(self._cells(torch.arange(start, stop, device=self.network.X.device), columns))
        return as_given(self.factor * torch.sqrt(torch.clip(torch.cat(parts), min=0.0)), self.given)

    def attribute_norms(self, attributes: Sequence[Attribute]) -> Array:
        return as_given(
            torch.tensor([self.set_norm([attribute], False, None) for attribute in attributes], dtype=torch.float64),
            self.given,
        )

    def set_norm(self, attributes: Sequence[Attribute], label: bool, rows: Any) -> float:
        return norm_by_product(self, attributes, label, rows)

    def set_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        """J_S J_S^T: a sum over rows, where the release is one for all of them."""
        columns, device = self._columns(attributes), self.network.X.device
        positions = as_given(torch.arange(self.network.n, device=device), self.given)

        def block(rows: Array) -> tuple[Any, ...]:
            places = torch.as_tensor(rows, device=device)
            total: Any = 0.0
            for some in torch.split(places, self._few_written):
                J = self.factor * self._jacobian(some, columns, self._labels(label))
                total = total + torch.einsum("bqm,brm->qr", J, J)
            return (as_given(total, self.given),)

        return Product((positions,), block, lambda sums: sums[0], self._released)

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        width = sum(attribute.size for attribute in attributes)
        if min(self._released, width) > LARGEST_CERTIFIED:
            return norm * (1.0 + self.error)  # the residual's word only: no matrix of this size is factorised
        J = host(self.written_out(attributes, label, [row]))[0]
        return certified_norm(J, norm, self.error)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Any) -> Array:
        device = self.network.X.device
        places = torch.arange(self.network.n) if rows is None else torch.as_tensor(rows)
        J = self._jacobian(places.to(device), self._columns(attributes), self._labels(label))
        return as_given(self.factor * J, self.given)

    @property
    def _released(self) -> int:
        return self.network.outputs if self.after is None else self.after.released

    @property
    def _most(self) -> int:
        """Rows at a time whose R_i, or their squares, fit."""
        values = 1 if self.after is None else max(1, self.after.values)
        return min(self.network.most, max(1, BLOCKS * self.network.written_values // values))

    @property
    def _few_written(self) -> int:
        """Rows whose J_i are written out at a time."""
        values = self._released * (self.network.outputs + self.network.width)
        return min(self.network.few, max(1, self.network.written_values // max(1, values)))

    def _labels(self, label: bool) -> int:
        """How many columns the label has where it counts."""
        return 0 if self.after is None or not label else self.after.labels

    def _columns(self, attributes: Sequence[Attribute]) -> Tensor:
        columns = [j for attribute in attributes for j in attribute.columns]
        return torch.tensor(columns, dtype=torch.int64, device=self.network.X.device)

    def _jacobian(self, rows: Tensor, columns: Tensor, labels: int) -> Tensor:
        """J_i of some columns, (b, q, m + labels)."""
        D = self.network.written_out(self.network.X[rows])[:, :, columns]
        if self.after is None:
            return D
        R, k = self.after.written(rows), self.network.outputs
        moved = R[:, :, :k] @ D
        return torch.cat([moved, R[:, :, k:].expand(D.shape[0], -1, -1)], dim=2) if labels else moved

    def _of_label(self, rows: Tensor) -> Tensor:
        """The squares of the label alone, (b,): zero where there is none."""
        k = self.network.outputs
        if self.after is None or not self.after.labels:
            return torch.zeros(rows.shape[0], dtype=torch.float64, device=rows.device)
        found = self.after.gram(rows)
        if found is not None:
            return top_of_matrices(found[0][:, k:, k:])
        R = self.after.written(rows)[:, :, k:]
        return top_of_matrices(R.transpose(1, 2) @ R).expand(rows.shape[0])

    def _pieces(self, where: Tensor) -> list[Tensor]:
        """Places where it holds, in parts whose J_i are written out at a time."""
        left = torch.nonzero(where)[:, 0]
        return list(torch.split(left, self._few_written)) if left.shape[0] else []

    def _again(self, squares: Tensor, where: Tensor, rows: Tensor, columns: Tensor, labels: int) -> Tensor:
        """Squares (b,) of some rows from their J_i, without squares before it."""
        for some in self._pieces(where):
            J = self._jacobian(rows[some], columns, labels)
            T = J.transpose(1, 2)
            squares[some] = top_of_matrices(T @ J if J.shape[2] <= J.shape[1] else J @ T)
        return squares

    def _cells(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Squares of the columns of J_i, (b, m)."""
        found = None if self.after is None else self.after.gram(rows)
        if found is None:
            parts = [self._jacobian(some, columns, 0) for some in torch.split(rows, self._few_written)]
            return torch.cat([torch.sum(J * J, dim=1) for J in parts])
        G, k = found[0], self.network.outputs
        D = self.network.written_out(self.network.X[rows])[:, :, columns]
        squares = torch.sum(D * (G[:, :k, :k] @ D), dim=1)
        small = squares < CANCELLED * found[1][:, None] * torch.sum(D * D, dim=1)
        for some in self._pieces(small.any(dim=1)):
            squares[some] = torch.sum(self._jacobian(rows[some], columns, 0) ** 2, dim=1)
        return squares

    def _small(self, rows: Tensor, columns: Tensor, labels: int) -> Tensor:
        """lambda_max(J_i^T J_i) from the k x k matrix D_i D_i^T, (b,)."""
        D = self.network.written_out(self.network.X[rows])[:, :, columns]
        M = D @ D.transpose(1, 2)
        if self.after is None:
            return top_of_matrices(M)
        k = self.network.outputs
        found = self.after.gram(rows)
        if found is not None:
            squares = self._of_gram(D, M, found[0][:, : k + labels, : k + labels], labels)
            small = squares < CANCELLED * found[1] * torch.linalg.matrix_norm(M)
            return self._again(squares, small, rows, columns, labels)
        R, M = self.after.written(rows)[:, :, : k + labels], _padded(M, labels)
        if R.shape[1] <= 2 * M.shape[1]:
            return top_of_matrices(R @ M @ R.transpose(1, 2))
        # many released parameters: the same eigenvalues on the side of the few outputs
        root = R @ _root(M)
        return top_of_matrices(root.transpose(1, 2) @ root)

    def _of_gram(self, D: Tensor, M: Tensor, G: Tensor, labels: int) -> Tensor:
        """lambda_max of D^T G D, with the label's columns beside D: (b,)."""
        if not on_accelerator(D):
            root = _root(_padded(M, labels))
            return top_of_matrices(root.transpose(1, 2) @ G @ root)
        width, k = D.shape[2], D.shape[1]  # there, roots of many small matrices are slow

        def product(state: tuple[Tensor, ...], V: Tensor) -> Tensor:
            D, G = state
            u = torch.cat([(D @ V[:, :width, None])[:, :, 0], V[:, width:]], dim=1)
            u = (G @ u[:, :, None])[:, :, 0]
            return torch.cat([(D.transpose(1, 2) @ u[:, :k, None])[:, :, 0], u[:, k:]], dim=1)

        values, errors = top_by_products(product, (D, G), width + labels)
        for some in torch.nonzero(errors > WANTED)[:, 0].reshape(-1, 1):
            root = _root(_padded(M[some], labels))
            values[some] = top_of_matrices(root.transpose(1, 2) @ G[some] @ root)
        return values

    def _large(self, rows: Tensor, columns: Tensor, labels: int) -> Tensor:
        """The same by products; rows that these do not settle are written out, or raised by their error."""
        k, x, width = self.network.outputs, self.network.X[rows], columns.shape[0]
        found = None if self.after is None else self.after.gram(rows)
        G = None if found is None else found[0][:, : k + labels, : k + labels]
        if self.after is not None and G is None:
            R = self.after.written(rows)[:, :, : k + labels]
            G = R.transpose(1, 2) @ R
        shared = G is not None and G.shape[0] == 1
        state = (x,) if G is None or shared else (x, G)

        def product(state: tuple[Tensor, ...], V: Tensor) -> Tensor:
            at = torch.zeros_like(state[0])
            at[:, columns] = V[:, :width]
            u = torch.cat([self.network.forward(state[0], at), V[:, width:]], dim=1)
            middle = G if shared else state[1] if len(state) > 1 else None
            u = u if middle is None else (middle @ u[:, :, None])[:, :, 0]
            back = self.network.backward(state[0], u[:, :k])[:, columns]
            return torch.cat([back, u[:, k:]], dim=1)

        values, errors = top_by_products(product, state, width + labels)
        left = errors > WANTED
        if found is not None:
            left = left | (values < CANCELLED_BY_PRODUCTS * found[1] * self._probed(x, columns))
        if self._released * self.network.width > self.network.written_values:
            return torch.where(left, values * (1.0 + errors), values)
        return self._again(values, left, rows, columns, labels)

    def _probed(self, x: Tensor, columns: Tensor) -> Tensor:
        """About the sum of squares of D_i, (b,), from one direction."""
        u = np.random.default_rng(0).standard_normal(self.network.outputs)
        across = torch.as_tensor(u, dtype=x.dtype, device=x.device)[None].expand(x.shape[0], -1)
        return torch.sum(self.network.backward(x, across)[:, columns] ** 2, dim=1)


def _padded(M: Tensor, labels: int) -> Tensor:
    """M with the identity of the label's columns after it."""
    if not labels:
        return M
    whole = torch.nn.functional.pad(M, (0, labels, 0, labels))
    places = torch.arange(M.shape[1], M.shape[1] + labels, device=M.device)
    whole[:, places, places] = 1.0
    return whole


def _root(M: Tensor) -> Tensor:
    """A matrix whose product with its transpose is M, of many positive semidefinite ones."""
    values, vectors = torch.linalg.eigh(M)
    return vectors * torch.sqrt(torch.clip(values, min=0.0))[:, None, :]


def certified_norm(J: np.ndarray, norm: float, error: float) -> float:
    """A little more than a norm that was found: a Cholesky factorisation says that ||J|| is not above it."""
    G = J.T @ J if J.shape[1] <= J.shape[0] else J @ J.T
    margin: float = max(error, G.shape[0] ** 2 * float(np.finfo(float).eps))
    try:
        np.linalg.cholesky((norm * (1.0 + margin)) ** 2 * np.eye(G.shape[0]) - G)
    except np.linalg.LinAlgError:
        return float(np.linalg.norm(J, 2)) * (1.0 + margin)
    return norm * (1.0 + margin)

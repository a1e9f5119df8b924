r"""The Fisher information of a release about the inputs of a network that lies before it: :math:`J_i = R_i D_i`.

:math:`D_i = \partial f / \partial x_i` (k, P) is the network's derivative, known by products (``row_maps``), and :math:`R_i`
(q, k) says what the release makes of its outputs: the whitened noise of an encoder, the Jacobian of a linear head. Where k is
small the k x k matrix :math:`D_i D_i^T` decides; elsewhere Lanczos' method with :math:`v \mapsto D_i^T R_i^T R_i D_i v`,
whose values can only be too small, so that what decides is certified from above (``certain``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, host
from fisherleak.engine.erm import Fit
from fisherleak.engine.information import Product
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.norms.lanczos import WANTED, top_by_products
from fisherleak.engine.norms.small import top_of_matrices
from fisherleak.engine.perturbation import Attribute
from fisherleak.errors import InvalidInputError
from fisherleak.nn.library import Tensor, torch
from fisherleak.nn.row_maps import WRITTEN_VALUES, RowMap, as_given

__all__ = ["ROUNDING", "Through", "certified_norm"]

FEW_OUTPUTS = 32
"""Outputs up to which derivatives are written out: about as many products as Lanczos' method takes."""
ROUNDING = 1e-12
"""Relative error left by rounding in the products of a network in float64."""
LARGEST_CERTIFIED = 8192
"""Rows of the largest matrix that is factorised for a certificate."""


@dataclass(frozen=True)
class Through:
    """The information of a release about a network's inputs, at noise of scale 1."""

    network: RowMap
    given: Any
    """The inputs as they were passed: results are of their kind."""
    attributes: tuple[Attribute, ...]
    after: Callable[[Tensor], Tensor] | None = None
    """Positions -> R_i, (b or 1, q, k), with a last column for the label where it counts; None for the identity."""
    labelled: bool = False
    factor: float = 1.0
    inner_error: float = 0.0
    inner_fits: tuple[Fit, ...] = ()

    @property
    def jacobians(self) -> tuple[Jacobian, ...]:
        raise InvalidInputError(
            "A leakage about the inputs of a network has no Jacobian in factors, which composition and shaped noise ask for; "
            "ask the leakage of the head about its features."
        )

    @property
    def folded(self) -> bool | None:
        return None

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

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        label = label and self.labelled
        columns = self._columns(attributes)
        size = self.network.few if self.network.outputs <= FEW_OUTPUTS else self.network.most
        parts = []
        for start, stop in self.network.batches(size):
            rows = torch.arange(start, stop, device=self.network.X.device)
            if self.network.outputs <= FEW_OUTPUTS or columns.shape[0] == 0:
                parts.append(self._small(rows, columns, label))
            else:
                parts.append(self._large(rows, columns, label))
        return as_given(self.factor * torch.sqrt(torch.clip(torch.cat(parts), min=0.0)), self.given)

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        if not all(attribute.size == 1 for attribute in attributes):
            norms = [torch.as_tensor(self.example_norms([attribute], False)) for attribute in attributes]
            return as_given(torch.stack(norms, dim=1), self.given)
        columns, parts = self._columns(attributes), []
        for start, stop in self.network.batches(self.network.few):
            J = self._jacobian(torch.arange(start, stop, device=self.network.X.device), columns, False)
            parts.append(torch.linalg.vector_norm(J, dim=1))
        return as_given(self.factor * torch.cat(parts), self.given)

    def attribute_norms(self, attributes: Sequence[Attribute]) -> Array:
        from fisherleak.engine.information import set_norm

        return as_given(
            torch.tensor([set_norm(self, [attribute], False, None) for attribute in attributes], dtype=torch.float64),
            self.given,
        )

    def set_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        """J_S J_S^T: a sum over rows, where the release is one for all of them."""
        columns, device = self._columns(attributes), self.network.X.device
        positions = as_given(torch.arange(self.network.n, device=device), self.given)

        def block(rows: Array) -> tuple[Any, ...]:
            places = torch.as_tensor(rows, device=device)
            total: Any = 0.0
            for some in torch.split(places, self.network.few):
                J = self.factor * self._jacobian(some, columns, label and self.labelled)
                total = total + torch.einsum("bqm,brm->qr", J, J)
            return (as_given(total, self.given),)

        size = (
            self.network.outputs if self.after is None else int(self.after(torch.zeros(1, dtype=torch.int64)).shape[1])
        )
        return Product((positions,), block, lambda sums: sums[0], size)

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        width = sum(attribute.size for attribute in attributes)
        if min(self.network.outputs, width) > LARGEST_CERTIFIED:
            return norm * (1.0 + self.error)  # the residual's word only: no matrix of this size is factorised
        J = host(self.written_out(attributes, label, [row]))[0]
        return certified_norm(J, norm, self.error)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Any) -> Array:
        device = self.network.X.device
        places = torch.arange(self.network.n) if rows is None else torch.as_tensor(rows)
        J = self._jacobian(places.to(device), self._columns(attributes), label and self.labelled)
        return as_given(self.factor * J, self.given)

    def _columns(self, attributes: Sequence[Attribute]) -> Tensor:
        columns = [j for attribute in attributes for j in attribute.columns]
        return torch.tensor(columns, dtype=torch.int64, device=self.network.X.device)

    def _after(self, rows: Tensor, label: bool) -> Tensor | None:
        """R_i, with its last column only where the label counts."""
        if self.after is None:
            return None
        R = self.after(rows)
        return R[:, :, : self.network.outputs + int(label)]

    def _jacobian(self, rows: Tensor, columns: Tensor, label: bool) -> Tensor:
        """J_i of some columns, (b, q, m + label)."""
        D = self.network.written_out(self.network.X[rows])[:, :, columns]
        R = self._after(rows, label)
        if R is None:
            return D
        moved = R[:, :, : self.network.outputs] @ D
        return torch.cat([moved, R[:, :, -1:].expand(D.shape[0], -1, -1)], dim=2) if label else moved

    def _small(self, rows: Tensor, columns: Tensor, label: bool) -> Tensor:
        """lambda_max(J_i^T J_i) from the k x k matrix D_i D_i^T, (b,)."""
        D = self.network.written_out(self.network.X[rows])[:, :, columns]
        M = D @ D.transpose(1, 2)
        R = self._after(rows, label)
        if R is None:
            return top_of_matrices(M)
        if label:
            M = torch.nn.functional.pad(M, (0, 1, 0, 1))
            M[:, -1, -1] = 1.0
        if R.shape[1] <= 2 * M.shape[1]:
            return top_of_matrices(R @ M @ R.transpose(1, 2))
        # many released parameters: the same eigenvalues on the side of the few outputs
        values, vectors = torch.linalg.eigh(M)
        root = R @ (vectors * torch.sqrt(torch.clip(values, min=0.0))[:, None, :])
        return top_of_matrices(root.transpose(1, 2) @ root)

    def _large(self, rows: Tensor, columns: Tensor, label: bool) -> Tensor:
        """The same by products; rows that these do not settle are written out, or raised by their error."""
        R = self._after(rows, label)
        x = self.network.X[rows]
        G = None if R is None else R.transpose(1, 2) @ R
        shared = G is not None and G.shape[0] == 1
        state = (x,) if G is None or shared else (x, G)
        width = columns.shape[0]

        def product(state: tuple[Tensor, ...], V: Tensor) -> Tensor:
            at = torch.zeros_like(state[0])
            at[:, columns] = V[:, :width]
            u = torch.cat([self.network.forward(state[0], at), V[:, width:]], dim=1)
            middle = G if shared else state[1] if len(state) > 1 else None
            u = u if middle is None else (middle @ u[:, :, None])[:, :, 0]
            back = self.network.backward(state[0], u[:, : self.network.outputs])[:, columns]
            return torch.cat([back, u[:, self.network.outputs :]], dim=1)

        values, errors = top_by_products(product, state, width + int(label))
        left = torch.nonzero(errors > WANTED)[:, 0]
        for some in left.reshape(-1, 1):
            if self.network.outputs * self.network.width > WRITTEN_VALUES:
                values[some] = values[some] * (1.0 + errors[some])
            else:
                J = self._jacobian(rows[some], columns, label)
                values[some] = torch.linalg.matrix_norm(J, ord=2) ** 2
        return values


def certified_norm(J: np.ndarray, norm: float, error: float) -> float:
    """A little more than a norm that was found: a Cholesky factorisation says that ||J|| is not above it."""
    G = J.T @ J if J.shape[1] <= J.shape[0] else J @ J.T
    margin: float = max(error, G.shape[0] ** 2 * float(np.finfo(float).eps))
    try:
        np.linalg.cholesky((norm * (1.0 + margin)) ** 2 * np.eye(G.shape[0]) - G)
    except np.linalg.LinAlgError:
        return float(np.linalg.norm(J, 2)) * (1.0 + margin)
    return norm * (1.0 + margin)

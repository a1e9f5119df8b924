r"""The parameters of a head as a function of one of its inputs, all others fixed, with the derivative that torch follows.

Newton's method finds the minimiser without gradients, in the frame Q of the head's outputs (the number 1 for one output); one
more step, whose gradient by the input is kept, has the minimiser's own derivative there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherleak._support.arrays import host
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.losses.loss import ReducedLoss
from fisherleak.engine.norms import one_release
from fisherleak.errors import UnsupportedModelError
from fisherleak.leakage.leakage import Leakage
from fisherleak.nn.library import Tensor, torch
from fisherleak.nn.row_maps import RowMap

__all__ = ["Refit", "refit_of"]

NEWTON_STEPS = 12
"""At most, of the refit with a candidate in place of an input."""
SETTLED = 1e-11
"""Relative size of a step after which one more is exact."""
SAME_FEATURES = 1e-9
"""Relative difference of features above which something lies between the network and the head."""


@dataclass(frozen=True)
class Refit:
    """For several inputs, each moved by itself: (n, P) -> released parameters (n, K p)."""

    network: RowMap
    features: Tensor
    """(n, p), with the constant where there is an intercept."""
    y: Tensor
    fit: Fit
    rows: tuple[int, ...]

    def __call__(self, x: Tensor) -> Tensor:
        phi = _with_constant(self.network(x), self.fit)
        V, fixed = self._start(phi).expand(phi.shape[0], -1, -1), phi.detach()
        for _ in range(NEWTON_STEPS):
            step = self._step(V, fixed, fixed)
            V = V - step
            if float(step.abs().max()) <= SETTLED * (1.0 + float(V.abs().max())):
                break
        return self._released(V - self._step(V, fixed, phi))

    def _step(self, V: Tensor, fixed: Tensor, phi: Tensor) -> Tensor:
        """Newton's steps of V (m, L, p); the gradient is that at phi, which torch may follow, the Hessian that at ``fixed``."""
        m, L, p = V.shape
        X, places = self.features, torch.tensor(self.rows, device=phi.device)
        r, A = self._derivatives(X @ V.transpose(1, 2), self.y.expand(m, *self.y.shape))
        there = torch.ones(m, X.shape[0], dtype=X.dtype, device=X.device)
        there[torch.arange(m, device=X.device), places] = 0.0  # the input itself is not where it was
        own = self.y[places][:, None]
        _, B = self._derivatives((V @ fixed[:, :, None]).transpose(1, 2), own)
        mine, _ = self._derivatives((V @ phi[:, :, None]).transpose(1, 2), own)
        penalty = self._penalty(phi)
        g = (r * there[:, :, None]).transpose(1, 2) @ X + mine.transpose(1, 2) * phi[:, None, :] + penalty * V
        H = X.new_zeros(m, L, p, L, p)
        outer = fixed[:, :, None] * fixed[:, None, :]
        for k in range(L):
            for j in range(k, L):
                weighed = X[None] * (A[:, :, k, j] * there)[:, :, None]
                H[:, k, :, j, :] = weighed.transpose(1, 2) @ X + B[:, 0, k, j, None, None] * outer
                H[:, j, :, k, :] = H[:, k, :, j, :].clone()
            H[:, k, :, k, :] += torch.diag(penalty)
        return torch.linalg.solve(H.reshape(m, L * p, L * p), g.reshape(m, L * p, 1)).reshape(m, L, p)

    def _derivatives(self, Z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Of the loss by predictors in the frame (m, b, L): the gradient (m, b, L) and the curvature (m, b, L, L)."""
        loss = ReducedLoss(self.fit.loss, self._frame(Z) if self.fit.loss.several else None)
        flat, labels = Z.reshape(-1, Z.shape[2]), y.reshape(-1, *y.shape[2:])
        r, A = loss.gradient(flat, labels), loss.curvature(flat.detach(), labels)
        return r.reshape(Z.shape), A.reshape(*Z.shape, Z.shape[2])

    def _frame(self, beside: Tensor) -> Tensor:
        if not self.fit.loss.several:
            return torch.ones(1, 1).to(beside)
        return torch.as_tensor(host(self.fit.frame)).to(beside)

    def _start(self, beside: Tensor) -> Tensor:
        """V of the fit, (L, p)."""
        coef = torch.as_tensor(host(self.fit.coef)).to(beside)
        coef = coef if coef.ndim == 2 else coef[None]
        if self.fit.intercept is not None:
            level = torch.as_tensor(np.atleast_1d(_values(self.fit.intercept))).reshape(-1, 1).to(beside)
            coef = torch.cat([coef, level], dim=1)
        return self._frame(beside).T @ coef

    def _penalty(self, beside: Tensor) -> Tensor:
        d = int(self.fit.coef.shape[-1])
        values = [self.fit.n * self.fit.l2] * d + [self.fit.n * self.fit.intercept_l2] * int(
            self.fit.intercept is not None
        )
        return torch.tensor(values, dtype=beside.dtype, device=beside.device)

    def _released(self, V: Tensor) -> Tensor:
        """All coefficients, then all intercepts."""
        whole = self._frame(V) @ V
        d, m = int(self.fit.coef.shape[-1]), V.shape[0]
        return torch.cat([whole[:, :, :d].reshape(m, -1), whole[:, :, d:].reshape(m, -1)], dim=1)


def refit_of(head: Leakage, network: RowMap, rows: Sequence[int]) -> Refit:
    """The refit of a head whose leakage about its features is given; what it cannot follow is refused by name."""
    information: Any = head._information
    jacobian = one_release(information)
    fit = jacobian.fit
    if fit.sample_weight is not None or jacobian.folding is not None:
        raise UnsupportedModelError("Reconstruction from a head needs one without sample weights and folded scalers.")
    features = torch.as_tensor(host(jacobian.X)).to(network.X)
    made = network.evaluated()
    apart = made.shape != features.shape or float((made - features).abs().max()) > SAME_FEATURES * (
        1.0 + float(features.abs().max())
    )
    if apart:
        raise UnsupportedModelError(
            "Reconstruction from a head needs one that was fitted on the network's outputs as they are: put steps that lie "
            "between them into the network."
        )
    y = torch.as_tensor(host(jacobian.y)).to(network.X)
    return Refit(network, _with_constant(features, fit), y, fit, tuple(rows))


def _values(numbers: Any) -> Any:
    return host(numbers) if hasattr(numbers, "shape") else np.float64(numbers)


def _with_constant(features: Tensor, fit: Fit) -> Tensor:
    if fit.intercept is None:
        return features
    return torch.cat([features, torch.ones_like(features[:, :1])], dim=1)

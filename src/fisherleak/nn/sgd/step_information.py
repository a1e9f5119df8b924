r"""The information of one step of noisy SGD about the inputs of a batch of watched examples.

.. math:: F = J^T \left[ \alpha (I - P) + \beta P \right] J, \qquad J = \partial g / \partial x,

with P the projection on the gradient g and alpha, beta what a step tells across and along it: written out, along directions, or
its largest eigenvalue by products alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fisherleak.engine.norms.eigenvalues.lanczos import top_by_products
from fisherleak.nn.library import Tensor, torch
from fisherleak.nn.sgd.example_gradients import ExampleGradients

__all__ = ["StepInformation"]


@dataclass(frozen=True)
class StepInformation:
    """A batch of watched examples in one step."""

    gradients: ExampleGradients
    parameters: Any
    x: Tensor
    y: Tensor
    unit: Tensor
    """(b, p): the direction of each gradient."""
    across: Tensor
    along: Tensor

    def matrices(self) -> Tensor:
        """F of every example, (b, P, P)."""
        J = self.gradients.written_out(self.gradients.function(self.y, self.parameters), self.x).to(torch.float64)
        on = torch.einsum("bp,bpm->bm", self.unit.to(torch.float64), J)
        F = self.across[:, None, None] * (J.transpose(1, 2) @ J)
        return F + (self.along - self.across)[:, None, None] * on[:, :, None] * on[:, None, :]

    def along_directions(self, v: Tensor) -> Tensor:
        """v^T F v of every example, (b,)."""
        moved = self.gradients.forward(self.gradients.function(self.y, self.parameters), self.x, v)
        on = torch.sum(moved * self.unit, dim=1).to(torch.float64)
        whole = torch.sum(moved.to(torch.float64) ** 2, dim=1)
        return self.across * (whole - on**2) + self.along * on**2

    def largest(self, tolerance: float) -> Tensor:
        """The largest eigenvalue of F of every example, plus the error that Lanczos' method leaves: (b,)."""
        # weights of the order of one: those of tiny or huge noise leave the range of a network in float32
        size = torch.maximum(self.across, self.along)
        size = torch.where(size > 0, size, torch.ones_like(size))
        across, along = (weights / size for weights in (self.across, self.along))
        state = (self.x, self.y, self.unit, across.to(self.x.dtype), along.to(self.x.dtype))

        def product(state: tuple[Tensor, ...], V: Tensor) -> Tensor:
            x, y, unit, across, along = state
            function = self.gradients.function(y, self.parameters)
            moved = self.gradients.forward(function, x, V.to(x.dtype))
            on = torch.sum(moved * unit, dim=1)
            weighed = across[:, None] * moved + ((along - across) * on)[:, None] * unit
            return self.gradients.backward(function, x, weighed).to(torch.float64)

        values, errors = top_by_products(product, state, self.x.shape[1], tolerance)
        return size * values * (1.0 + errors)

r"""Gradients of single examples by the parameters, and their derivative by the input: :math:`J = \partial g / \partial x`.

Known by products: :math:`J v` is a forward derivative of the gradient, :math:`J^T u` the gradient by x of
:math:`u \cdot g`. The network is a copy without hooks, called with the parameters that the training loop holds at that moment.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fisherleak.engine.norms.largest_eigenvalues import top_by_products
from fisherleak.errors import InvalidInputError
from fisherleak.nn.row_maps import Module, Tensor, check_rows_alone, derivatives, frozen_copy, refuse_training, torch


@dataclass(frozen=True)
class ExampleGradients:
    """Per-example gradients of a loss, at any parameters."""

    live: Module
    """The model that is being trained."""
    bare: Module
    """A copy of it that no hook touches."""
    loss: Callable[[Tensor, Tensor], Tensor]
    shape: tuple[int, ...]
    """Of one input."""

    def parameters(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The parameters that learn and everything else, as they are now."""
        learned = {name: p.detach().clone() for name, p in self.live.named_parameters() if p.requires_grad}
        fixed = {name: p.detach() for name, p in self.live.named_parameters() if not p.requires_grad}
        return learned, {**fixed, **{name: b.detach() for name, b in self.live.named_buffers()}}

    def function(self, y: Tensor, state: tuple[dict[str, Tensor], dict[str, Tensor]]) -> Callable[[Tensor], Tensor]:
        """From flat inputs (b, P) to their gradients (b, p)."""
        learned, fixed = state

        def one(parameters: dict[str, Tensor], x: Tensor, label: Tensor) -> Tensor:
            out = torch.func.functional_call(self.bare, {**parameters, **fixed}, (x.reshape(1, *self.shape),))
            return self.loss(out, label[None]).sum()

        def all_rows(X: Tensor) -> Tensor:
            parts = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0, 0))(learned, X, y)
            return torch.cat([part.reshape(X.shape[0], -1) for part in parts.values()], dim=1)

        return all_rows

    def checked(self, x: Tensor, y: Tensor, state: tuple[dict[str, Tensor], dict[str, Tensor]]) -> Tensor:
        """Gradients (b, p) at flat inputs, finite; what the model or the loss does not take is refused by what it says."""
        refuse_training(self.live)
        try:
            g = self.function(y, state)(x)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            raise InvalidInputError(
                f"The gradient of single examples cannot be computed; model or loss says: {str(error).splitlines()[0]}"
            ) from error
        if not bool(torch.isfinite(g).all()):
            raise InvalidInputError(
                "A gradient of a watched example is not finite: look at its label, or lower the learning rate."
            )
        return g

    def forward(self, gradients: Callable[[Tensor], Tensor], x: Tensor, v: Tensor) -> Tensor:
        """J_i v_i, (b, p)."""
        with derivatives():
            return torch.func.jvp(gradients, (x,), (v,))[1]

    def backward(self, gradients: Callable[[Tensor], Tensor], x: Tensor, u: Tensor) -> Tensor:
        """J_i^T u_i, (b, P)."""
        with derivatives():
            return torch.func.vjp(gradients, x)[1](u)[0]

    def written_out(self, gradients: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """J_i itself, (b, p, P)."""
        basis = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
        return torch.stack([self.forward(gradients, x, e[None].expand_as(x)) for e in basis], dim=2)


def example_gradients(model: Module, loss: Any, shape: tuple[int, ...]) -> ExampleGradients:
    if not isinstance(model, torch.nn.Module):
        raise InvalidInputError(f"model must be a torch module; got {type(model).__name__}.")
    if not callable(loss):
        raise InvalidInputError(f"loss must be a function of (outputs, labels); got {type(loss).__name__}.")
    refuse_training(model)
    if not any(p.requires_grad for p in model.parameters()):
        raise InvalidInputError("model has no parameters that learn: no gradient of it is released.")
    return ExampleGradients(model, copy.deepcopy(model), loss, shape)


def check_model_alone(model: Module, X: Tensor) -> None:
    """Refuse a model whose gradients are not sums over rows: inputs of shape (n, ...)."""
    call, _ = frozen_copy(model)
    check_rows_alone(call, X.to(torch.float64))


@dataclass(frozen=True)
class StepInformation:
    r"""The information of one step of noisy SGD about the inputs of a batch of watched examples.

    .. math:: F = J^T \left[ \alpha (I - P) + \beta P \right] J, \qquad J = \partial g / \partial x,

    with P the projection on the gradient g and alpha, beta what a step tells across and along it: written out, along
    directions, or its largest eigenvalue by products alone.
    """

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

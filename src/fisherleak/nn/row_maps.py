r"""The derivative of a network by its input, row by row, known by products: :math:`D_i = \partial f / \partial x_i`.

Rows do not mix, so one forward-mode product :math:`D_i v_i` and one reverse-mode product :math:`D_i^T u_i` of a whole batch
are those of all its rows at once. The network is a copy of its own, frozen and in float64: what rounding leaves in the
products is far below what is asked of them, whatever the network was trained in.

Also here: torch, loaded when it is first used; where it is not installed, one sentence says what to install.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherleak._support.arrays import as_array, host
from fisherleak.errors import FisherleakError, InvalidInputError

Tensor = Any
"""A ``torch.Tensor``."""
Module = Any
"""A ``torch.nn.Module``, or any function of a batch of rows."""


class _Late:
    """Stands for the library until something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what tools ask of any object, which is no use of torch
            raise AttributeError(name)
        try:
            import torch
        except ImportError:
            raise FisherleakError("fisherleak.nn needs torch: pip install 'fisherleak[torch]'.") from None
        return getattr(torch, name)


torch: Any = _Late()


@contextmanager
def derivatives() -> Iterator[None]:
    """Where derivatives are taken: with plain attention, whose fused kernels have no forward derivative.

    Forward mode loads a part of torch that warns of another part of torch; that is not for users.
    """
    attention, layers = torch.nn.attention, torch.backends.mha
    fused = layers.get_fastpath_enabled()
    with warnings.catch_warnings(), attention.sdpa_kernel(attention.SDPBackend.MATH):
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        layers.set_fastpath_enabled(False)
        try:
            yield
        finally:
            layers.set_fastpath_enabled(fused)


BATCH = 256
"""Rows at a time, where only products are kept."""
WRITTEN_VALUES = 2**24
"""Values of the written-out derivatives of a batch."""
LARGER = 16
"""Factor on both on a GPU, where small batches wait for the host."""
MIXED = 1e-6
"""Relative difference of a row's output alone and in a batch, above which rows are not independent."""


@dataclass(frozen=True)
class RowMap:
    """A frozen network at some inputs."""

    call: Callable[[Tensor], Tensor]
    """From a batch (b, \\*shape) to its outputs (b, ...)."""
    X: Tensor
    """(n, P): inputs, flat, in float64."""
    shape: tuple[int, ...]
    """Of one input."""
    outputs: int
    """k, values of one output."""

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def width(self) -> int:
        """P, values of one input."""
        return int(self.X.shape[1])

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs (b, k) of flat inputs (b, P)."""
        return self.call(x.reshape(x.shape[0], *self.shape)).reshape(x.shape[0], -1)

    def forward(self, x: Tensor, v: Tensor) -> Tensor:
        """D_i v_i, (b, k)."""
        with derivatives():
            return torch.func.jvp(self, (x,), (v,))[1]

    def backward(self, x: Tensor, u: Tensor) -> Tensor:
        """D_i^T u_i, (b, P)."""
        with derivatives():
            return torch.func.vjp(self, x)[1](u)[0]

    def written_out(self, x: Tensor) -> Tensor:
        """D_i itself, (b, k, P), by products on the shorter side."""
        side = min(self.outputs, self.width)
        basis = torch.eye(side, dtype=x.dtype, device=x.device)[:, None, :].expand(side, x.shape[0], side)
        with derivatives():
            if self.outputs <= self.width:
                pull = torch.func.vjp(self, x)[1]
                D = torch.stack([pull(basis[j])[0] for j in range(side)], dim=1)
            else:
                D = torch.stack([torch.func.jvp(self, (x,), (basis[j],))[1] for j in range(side)], dim=2)
        if not bool(torch.isfinite(D).all()):
            raise InvalidInputError(
                "The derivative of module is not finite at some input (a root or a logarithm at zero, say): no eta is known "
                "there."
            )
        return D

    def batches(self, size: int) -> Iterator[tuple[int, int]]:
        """Spans of rows."""
        for start in range(0, self.n, size):
            yield start, min(start + size, self.n)

    def evaluated(self) -> Tensor:
        """Outputs of all inputs, (n, k)."""
        with torch.no_grad():
            return torch.cat([self(self.X[a:b]) for a, b in self.batches(self.most)])

    @property
    def most(self) -> int:
        """Rows at a time, where only products are kept."""
        return BATCH * (LARGER if self.X.device.type != "cpu" else 1)

    @property
    def few(self) -> int:
        """Rows whose derivatives are written out at a time."""
        return min(self.most, max(1, self.written_values // max(1, self.outputs * self.width)))

    @property
    def written_values(self) -> int:
        """Values of the written-out derivatives of a batch."""
        return WRITTEN_VALUES * (LARGER if self.X.device.type != "cpu" else 1)


def row_map(module: Module, X: Any) -> RowMap:
    """A network, frozen, at inputs of shape (n, ...); refused where rows of a batch touch each other."""
    call, where = frozen_copy(module)
    inputs = as_tensor(X, "X", where)
    if inputs.ndim < 2 or inputs.shape[0] == 0:
        raise InvalidInputError(f"X must have a row for each example, (n, ...); got shape {tuple(inputs.shape)}.")
    shape = tuple(int(size) for size in inputs.shape[1:])
    flat = inputs.reshape(inputs.shape[0], math.prod(shape))
    return RowMap(call, flat, shape, check_rows_alone(call, inputs))


def check_rows_alone(call: Callable[[Tensor], Tensor], inputs: Tensor) -> int:
    """How many values a network gives for a row; refused where that depends on other rows, on chance, or is no number.

    The first input is tried alone, twice, and before and behind a row that is made up: data may have equal rows, or one.
    """
    one = inputs[:1]
    drawn = np.random.default_rng(0).standard_normal(tuple(one.shape))
    other = one + torch.as_tensor(drawn, dtype=one.dtype, device=one.device)
    with torch.no_grad():
        alone = call(one)
        if not isinstance(alone, torch.Tensor) or not alone.is_floating_point():
            kind = alone.dtype if isinstance(alone, torch.Tensor) else type(alone).__name__
            raise InvalidInputError(f"module must give one tensor of real numbers for a batch; got {kind}.")
        again, before, behind = call(one), call(torch.cat([one, other])), call(torch.cat([other, one]))
    if alone.ndim == 0 or alone.shape[0] != 1 or before.shape[0] != 2:
        raise InvalidInputError(
            f"module must give one output for each row of a batch; got {tuple(before.shape)} for two."
        )
    if not bool(torch.isfinite(alone).all()):
        raise InvalidInputError("module gives numbers that are not finite for the first row of X.")
    near = MIXED * (1.0 + float(alone.abs().max()))
    if not float((alone - again).abs().max()) <= near:
        raise InvalidInputError(
            "module is random: one row has two outputs. Call module.eval(), and leave out what draws numbers there."
        )
    if not max(float((alone[0] - row).abs().max()) for row in (before[0], behind[1])) <= near:
        raise InvalidInputError(
            "module mixes the rows of a batch: a row's output changes with the row beside it. Use layers that treat rows alone."
        )
    return int(alone[0].numel())


def beside(networks: Sequence[RowMap]) -> RowMap:
    """Networks at the same inputs as one, with their outputs side by side."""
    if len(networks) == 1:
        return networks[0]
    calls, first = [network.call for network in networks], networks[0]

    def call(x: Tensor) -> Tensor:
        return torch.cat([each(x).reshape(x.shape[0], -1) for each in calls], dim=1)

    return RowMap(call, first.X, first.shape, sum(network.outputs for network in networks))


def frozen_copy(module: Module) -> tuple[Callable[[Tensor], Tensor], Any]:
    """A copy of a network in float64 that learns nothing, and the device it is on."""
    if not isinstance(module, torch.nn.Module):
        if not callable(module):
            raise InvalidInputError(f"module must be a torch module or a function; got {type(module).__name__}.")
        return module, None
    refuse_training(module)
    own = copy.deepcopy(module).to(torch.float64).requires_grad_(False)
    return own, next((tensor.device for tensor in (*own.parameters(), *own.buffers())), None)


def refuse_training(module: Module) -> None:
    """Refuse layers that draw numbers or look at the whole batch, in the mode in which they do."""
    layers = torch.nn.modules
    random = (layers.dropout._DropoutNd, layers.batchnorm._NormBase, layers.activation.RReLU)
    busy = [type(part).__name__ for part in module.modules() if part.training and isinstance(part, random)]
    if busy:
        raise InvalidInputError(f"module is in training mode, in which {busy[0]} differs by batch: call module.eval().")


def as_tensor(x: Any, name: str, where: Any = None) -> Tensor:
    """Numbers of any array library as a float64 tensor beside the network, without gradients."""
    values = as_array(x, name)
    if not isinstance(values, torch.Tensor):
        values = torch.as_tensor(np.array(host(values), dtype=np.float64))
    values = values.detach().to(dtype=torch.float64, device=values.device if where is None else where)
    if not bool(torch.isfinite(values).all()):
        raise InvalidInputError(f"{name} must be finite everywhere.")
    return values


def as_given(values: Tensor, X: Any) -> Any:
    """Results as a tensor where the inputs were one, else as a NumPy array."""
    return values if isinstance(X, torch.Tensor) else host(values)

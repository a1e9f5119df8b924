r"""Heads on frozen networks: what a linear model on features phi(x) reveals about the inputs x.

The head's Jacobian by the features (``engine.jacobian``) times the network's derivative, :math:`J_i = R_i D_i` with
:math:`D_i = \partial \phi / \partial x_i`, and the label beside it. R is what ``fl.measure`` knows of the head, for any model
that it reads; the derivative acts by products. eta is in the units of the inputs: pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from fisherleak._support.arrays import Array, host, namespace
from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import VectorLike
from fisherleak.engine.erm import Fit, fit_at
from fisherleak.engine.losses import get_loss
from fisherleak.engine.noise import Noise, check_noise
from fisherleak.engine.perturbation import as_attributes
from fisherleak.engine.risk import Risk
from fisherleak.engine.training_rows import check_training
from fisherleak.errors import InvalidInputError, NotAtMinimumError
from fisherleak.leakage.leakage import Leakage
from fisherleak.models import as_table
from fisherleak.models.minimum import REFUSED
from fisherleak.nn.input_leakage import InputLeakage
from fisherleak.nn.library import Module, Tensor, torch
from fisherleak.nn.row_maps import RowMap, as_given, row_map
from fisherleak.nn.through import Through

__all__ = ["Features", "HeadLeakage", "OnInputs", "head", "on"]


@dataclass(frozen=True)
class Features:
    """A frozen network as a map from inputs of any shape to features.

    Parameters
    ----------
    module : torch module, or function
        From a batch (n, ...) to features (n, ...), which are flattened; rows must not touch each other. It is used in float64,
        in evaluation mode, and taken as public.

    Examples
    --------
    >>> import fisherleak as fl
    >>> fit = fl.minimise(fl.nn.Features(module)(pictures), y, "logistic", 1e-2)  # doctest: +SKIP
    """

    module: Module

    def __call__(self, X: Any) -> Array:
        """Features of inputs (n, ...): (n, d) in float64, of the kind of X."""
        return self.on(X).features

    def on(self, X: Any) -> OnInputs:
        """The features of inputs together with the way back to them: what ``fl.measure`` takes."""
        return OnInputs(row_map(self.module, X), X)


def on(module: Module, X: Any) -> OnInputs:
    """Inputs behind a frozen network, in place of the features that a head was fitted on.

    ``fl.measure(head, fl.nn.on(module, X), y, noise)`` gives etas about the inputs; ``.features`` are what to fit the head on.

    Parameters
    ----------
    module : torch module, function, or Features
    X : array of shape (n, ...)
        Inputs, of NumPy or torch. The head is then one that was fitted on arrays of the same kind.
    """
    return (module if isinstance(module, Features) else Features(module)).on(X)


@dataclass(frozen=True)
class OnInputs:
    """Inputs behind a frozen network. Made by :func:`fisherleak.nn.on`."""

    network: RowMap
    given: Any

    @cached_property
    def features(self) -> Array:
        """(n, d) in float64, of the kind of the inputs."""
        return as_given(self.network.evaluated(), self.given)

    def about_inputs(self, leakage: Leakage, attributes: Any) -> HeadLeakage:
        """The leakage about the inputs, from that about the features."""
        table = as_table(as_given(self.network.X, self.given))
        records = as_attributes(attributes, tuple(self.network.X.shape), table.names)
        if any(attribute.directions is not None for attribute in records):
            raise InvalidInputError("attributes of an input are sets of its values; directions are not supported here.")
        information = leakage._information
        through = Through(
            self.network,
            self.given,
            records,
            _head_of(leakage, self.network),
            labelled=True,
            inner_error=information.error,
            inner_fits=information.fits,
        )
        return HeadLeakage(through, leakage.noise, table, leakage._notes, _head=leakage)


def _head_of(leakage: Leakage, network: RowMap) -> Callable[[Tensor], Tensor]:
    """Positions -> the head's Jacobians by features and label at noise of scale 1, (b, q, d + 1)."""
    information = leakage._information
    attributes, reference = information.attributes, information.rows[0]
    xp = namespace(reference)

    def written(rows: Tensor) -> Tensor:
        places = rows.to(reference.device) if isinstance(reference, torch.Tensor) else xp.asarray(host(rows))
        J = information.written_out(attributes, True, places)
        J = J if isinstance(J, torch.Tensor) else torch.as_tensor(host(J))
        return J.to(dtype=torch.float64, device=network.X.device)

    return written


@dataclass(frozen=True, repr=False)
class HeadLeakage(InputLeakage):
    """What a head on a frozen network reveals about the network's inputs and the labels. Made by ``fl.measure``."""

    _head: Leakage | None = field(default=None, repr=False)

    @property
    def features(self) -> Leakage:
        """The leakage about the features alone, as they leave the network."""
        assert self._head is not None
        return self._head

    def with_noise(self, noise: Noise) -> HeadLeakage:
        """The same head released with other noise."""
        check_noise(noise)
        inner = self.features.with_noise(noise)
        after = _head_of(inner, self._through.network)
        return replace(self, _information=replace(self._through, after=after), _noise=noise, _head=inner)

    def membership(self, tolerance: float = 1e-9) -> Array:
        """How well someone's presence in the data can be told: that of the head on its features."""
        return self.features.membership(tolerance)

    def _what(self) -> str:
        return "a head on a frozen network"

    def __repr__(self) -> str:
        return f"HeadLeakage({self.n} inputs of shape {self._through.network.shape}, {self.noise!r})"


def head(
    linear: Module,
    features: Array,
    y: VectorLike,
    loss: str = "logistic",
    l2: float = 0.0,
    sample_weight: VectorLike = None,
) -> Fit:
    """A trained ``torch.nn.Linear`` of one output as a fit, moved to the exact minimum that it is near.

    Parameters
    ----------
    linear : torch.nn.Linear
        Trained on these features by minimising the mean of the losses plus l2 / 2 times the square of its weights
        (not of its bias).
    features : array of shape (n, d)
        ``fl.nn.on(module, X).features``.
    y : array of shape (n,)
    loss, l2, sample_weight
        As for :func:`fisherleak.minimise`.

    Returns
    -------
    Fit
        Refused, as any other model is, where the parameters are farther than 1e-2 from the minimum.
    """
    if not isinstance(linear, torch.nn.Linear) or linear.out_features != 1:
        raise InvalidInputError(f"linear must be a torch.nn.Linear with one output; got {linear!r}.")
    record = get_loss(loss)
    X, labels, weights = check_training(features, y, sample_weight, record)
    bias = linear.bias is not None
    if X.shape[1] != linear.in_features:
        raise InvalidInputError(f"features must have {linear.in_features} columns, as linear has; got {X.shape[1]}.")
    risk = Risk(X, labels, weights, record, check_positive(l2, "l2", zero=True), bias)
    parts = [linear.weight.detach().ravel(), *([linear.bias.detach()] if bias else [])]
    theta = torch.cat(parts).to(torch.float64)
    xp = namespace(X)
    fit = fit_at(risk, theta.to(X.device) if isinstance(X, torch.Tensor) else xp.asarray(host(theta)), polish=True)
    if not fit.distance <= REFUSED:
        raise NotAtMinimumError(
            f"linear is {fit.distance:.1e} away from the minimum of its objective on these data (at most {REFUSED:g}). Train "
            "it longer, with the loss and l2 given here."
        )
    return fit

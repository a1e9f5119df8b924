r"""Heads on frozen networks: what a linear model on features phi(x) reveals about the inputs x.

The head's Jacobian by the features (``engine.jacobian``) times the network's derivative, :math:`J_i = R_i D_i` with
:math:`D_i = \partial \phi / \partial x_i`, and the label beside it. R is what ``fl.measure`` knows of the head, for any model
that it reads; the derivative acts by products. eta is in the units of the inputs: pixels.

Also here: a trained ``torch.nn.Linear`` as a fit: of one output, of several numbers, or of classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from fisherleak._support.arrays import Array, host, like, namespace
from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import VectorLike
from fisherleak.engine.changes.removal import CLOSE, EXACT
from fisherleak.engine.fit.minimise import Fit, check_determined, fit_at
from fisherleak.engine.fit.risk import Risk
from fisherleak.engine.fit.training_data import training_data
from fisherleak.engine.jacobian.perturbation import Attribute, as_attributes
from fisherleak.engine.losses import LOSSES, OF_SEVERAL, get_loss
from fisherleak.engine.magnitudes import check_penalty
from fisherleak.engine.noise import Noise, check_noise
from fisherleak.errors import InvalidInputError, NotAtMinimumError
from fisherleak.leakage.compositions import label_ratio
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import as_table
from fisherleak.models.read import REFUSED
from fisherleak.nn.heads import Head, Heads
from fisherleak.nn.information_through_network import Through
from fisherleak.nn.input_leakage import InputLeakage
from fisherleak.nn.row_maps import Module, RowMap, Tensor, as_given, beside, row_map, torch


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

    Examples
    --------
    >>> on = fl.nn.on(network, pictures)  # doctest: +SKIP
    >>> leak = fl.measure(fl.minimise(on.features, y, "logistic", 1e-2), on, y, noise=fl.Gaussian(0.1))  # doctest: +SKIP
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
        heads = (Head(leakage, self.network),)
        return HeadLeakage(
            _through(heads, self.given, records), leakage.noise, table, measurement(leakage).notes, _heads=heads
        )


def _through(heads: tuple[Head, ...], given: Any, attributes: tuple[Attribute, ...]) -> Through:
    """The information of one head, or of several, each on its network."""
    told = [measurement(head.leakage).information for head in heads]
    networks: list[RowMap] = []
    for head in heads:
        if not any(head.network is network for network in networks):
            networks.append(head.network)
    edges = [sum(network.outputs for network in networks[:k]) for k in range(len(networks) + 1)]
    after: Head | Heads = heads[0]
    if len(heads) > 1:
        starts = [
            next(edge for edge, network in zip(edges, networks, strict=False) if network is h.network) for h in heads
        ]
        after = Heads(heads, tuple(starts), edges[-1])
    return Through(
        beside(networks),
        given,
        attributes,
        after,
        inner_error=max(information.error for information in told),
        inner_fits=tuple(fit for information in told for fit in information.fits),
        folded=told[0].folded if len(heads) == 1 else None,
    )


@dataclass(frozen=True, repr=False)
class HeadLeakage(InputLeakage):
    """What a head on a frozen network, or several, reveal about inputs and labels. Made by ``fl.measure``, ``fl.compose``."""

    _heads: tuple[Head, ...] = field(default=(), repr=False)

    @property
    def features(self) -> Leakage:
        """The leakage about the features alone, as they leave the network."""
        if len(self._heads) > 1:
            raise InvalidInputError("A composition has features of each head; ask the heads for theirs.")
        return self._heads[0].leakage

    def with_noise(self, noise: Noise) -> HeadLeakage:
        """The same head released with other noise."""
        if self._noise is None:
            raise InvalidInputError("A composition has no single noise to replace; replace it before composing.")
        check_noise(noise)
        heads = (replace(self._heads[0], leakage=self.features.with_noise(noise)),)
        through = _through(heads, self._information.given, self._information.attributes)
        return replace(self, _information=through, _noise=noise, _heads=heads)

    def composed(self, leakages: Sequence[Leakage]) -> HeadLeakage:
        """The leakage of several heads about the same inputs and labels, released independently: what ``fl.compose`` gives."""
        first = self._of_its_kind(leakages[0])
        lead, joined = first._heads[0], []
        for leakage in leakages:
            other = self._of_its_kind(leakage)
            _check_same_inputs(first._information, other._information)
            for head in other._heads:
                unit = 1.0 if head is lead else label_ratio(lead.leakage, head.leakage)
                joined.append(replace(head, weight=1.0 / measurement(head.leakage).scale, unit=unit))
        heads = tuple(joined)
        notes = [note for leakage in leakages for note in measurement(leakage).notes]
        notes += ["label: per unit of the first release's"] * any(head.unit != 1.0 for head in heads)
        through = _through(heads, first._information.given, first._information.attributes)
        return HeadLeakage(through, None, measurement(first).table, tuple(dict.fromkeys(notes)), _heads=heads)

    def _of_its_kind(self, leakage: Leakage) -> HeadLeakage:
        if not isinstance(leakage, HeadLeakage):
            raise InvalidInputError(
                "compose() of heads on networks takes such heads only, about the same inputs; got "
                f"{type(leakage).__name__}. Compose the others apart."
            )
        return leakage

    def membership(self, tolerance: float = CLOSE) -> Array:
        """How well someone's membership in the data shows: that of the heads on their features, squares added up."""
        finest = tolerance if len(self._heads) == 1 else min(tolerance, EXACT)
        found = [head.leakage.membership(finest) for head in self._heads]
        if len(found) == 1:
            return found[0]
        if any(head.leakage.membership_kind != "mu" for head in self._heads):
            raise InvalidInputError(
                "Squares of mu add up for noise whose covariance does not depend on the rows, and that of one of these heads "
                "does: ask each head's leakage by itself."
            )
        xp = namespace(found[0])
        return xp.sqrt(sum((mu**2 for mu in found[1:]), start=found[0] ** 2))

    @property
    def membership_kind(self) -> str:
        """That of the only head; squares of several are added up where each has a mu."""
        return self._heads[0].leakage.membership_kind if len(self._heads) == 1 else "mu"

    def _what(self) -> str:
        return "a head on a frozen network" if len(self._heads) == 1 else f"{len(self._heads)} heads on frozen networks"

    def __repr__(self) -> str:
        noise = f"{len(self._heads)} releases" if self._noise is None else repr(self._noise)
        return f"HeadLeakage({self.n} inputs of shape {self._information.network.shape}, {noise})"


def _check_same_inputs(one: Through, two: Through) -> None:
    if isinstance(one.given, torch.Tensor) != isinstance(two.given, torch.Tensor):
        raise InvalidInputError("compose needs inputs of one library: NumPy arrays and tensors do not mix.")
    alike = one.network.shape == two.network.shape and one.network.X.device == two.network.X.device
    if not alike or not torch.equal(one.network.X, two.network.X):
        raise InvalidInputError("compose needs releases about the same data: the inputs of these networks differ.")
    if one.attributes != two.attributes:
        raise InvalidInputError(
            "compose needs releases about the same data: the attributes of these inputs differ. Pass the same to measure()."
        )


def head(
    linear: Module,
    features: Array,
    y: VectorLike,
    loss: str = "logistic",
    l2: float = 0.0,
    sample_weight: VectorLike = None,
    bias_l2: float = 0.0,
) -> Fit:
    r"""A trained ``torch.nn.Linear`` as a fit, moved to the exact minimum that it is near.

    Parameters
    ----------
    linear : torch.nn.Linear
        Trained on these features by minimising the mean of the losses plus l2 / 2 times the square of its weights (and
        bias_l2 / 2 times that of its bias).
    features : array of shape (n, d)
        ``fl.nn.on(module, X).features``.
    y : array of shape (n,)
        For a linear of K outputs: classes 0 to K - 1 for "softmax", as ``CrossEntropyLoss`` takes them, or numbers (n, K) for
        "squared".
    loss, l2, sample_weight
        As for :func:`fisherleak.minimise`: "softmax" or "squared" for several outputs. The squared loss is half the sum of
        squares over outputs; the mean over all values of ``MSELoss`` is 2 / K times that, so that its weight decay is
        divided by 2 / K to give l2.
    bias_l2 : float
        Where weight decay acts on the bias too, as that of torch's optimisers does.

    Returns
    -------
    Fit
        Refused, as any other model is, where the parameters are farther than 1e-2 from the minimum.

    Examples
    --------
    >>> features = fl.nn.on(network, pictures).features  # doctest: +SKIP
    >>> fit = fl.nn.head(linear, features, y, loss="softmax", l2=1e-2)  # doctest: +SKIP
    """
    if not isinstance(linear, torch.nn.Linear):
        raise InvalidInputError(f"linear must be a torch.nn.Linear; got {type(linear).__name__}.")
    penalty, bias_penalty = check_positive(l2, "l2", zero=True), check_positive(bias_l2, "bias_l2", zero=True)
    check_penalty(penalty)
    if linear.bias is None and bias_penalty > 0:
        raise InvalidInputError(f"bias_l2 is {bias_penalty:g} and linear has no bias: leave bias_l2 out.")
    risk = _risk(linear, features, y, loss, penalty, sample_weight, bias_penalty)
    check_determined(risk)
    fit = fit_at(risk, like(host(_parameters(linear)), risk.X, risk.xp), True)
    if not fit.distance <= REFUSED:
        raise NotAtMinimumError(
            f"linear is {fit.distance:.1e} away from the minimum of its objective on these data (at most {REFUSED:g}). Train "
            "it longer, with the loss and l2 given here."
        )
    return fit


def _parameters(linear: Module) -> Tensor:
    """Weights, output by output, then biases, in float64."""
    parts = [linear.weight.detach().reshape(-1), *([] if linear.bias is None else [linear.bias.detach()])]
    return torch.cat(parts).to(torch.float64)


def _risk(linear: Module, features: Any, y: Any, loss: str, l2: float, weights: Any, bias_l2: float) -> Risk:
    K, bias = int(linear.out_features), linear.bias is not None
    record = get_loss(loss, columns=K > 1) if K == 1 or loss in OF_SEVERAL else None
    if record is None or record.several != (K > 1):
        known, what = (LOSSES, "one output") if K == 1 else (OF_SEVERAL, f"{K} outputs")
        raise InvalidInputError(f"linear has {what}: loss must be one of {', '.join(known)}; got {loss!r}.")
    data = training_data(features, y, weights, record, None, bias)
    classes, labels = data.classes, data.y
    if data.X.shape[1] != linear.in_features:
        raise InvalidInputError(
            f"features must have {linear.in_features} columns, as linear has; got {data.X.shape[1]}."
        )
    if classes is not None and classes.tolist() != list(range(K)):
        raise InvalidInputError(
            f"y must hold all of the classes 0 to {K - 1}, as linear has {K} outputs; got {classes.size} classes, "
            f"{classes[0]} to {classes[-1]}."
        )
    if K > 1 and classes is None and labels.shape[1] != K:
        raise InvalidInputError(f"y must have {K} columns, as linear has outputs; got {labels.shape[1]}.")
    return Risk.on(data, record, l2, bias, bias_l2, per_row=True)  # the losses are a mean: so is the penalty

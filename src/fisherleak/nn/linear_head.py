"""A trained ``torch.nn.Linear`` as a fit: of one output, of several numbers, or of classes."""

from __future__ import annotations

from typing import Any

from fisherleak._support.arrays import Array, host, like
from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import VectorLike
from fisherleak.engine.fit.minimise import Fit, check_determined, fit_at
from fisherleak.engine.fit.risk import Risk
from fisherleak.engine.fit.training_data import training_data
from fisherleak.engine.losses import LOSSES, OF_SEVERAL, get_loss
from fisherleak.engine.magnitudes import check_penalty
from fisherleak.errors import InvalidInputError, NotAtMinimumError
from fisherleak.models.minimum import REFUSED
from fisherleak.nn.library import Module, Tensor, torch

__all__ = ["head"]


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
    _check_width(data.X, linear)
    if classes is not None and classes.tolist() != list(range(K)):
        raise InvalidInputError(
            f"y must hold all of the classes 0 to {K - 1}, as linear has {K} outputs; got {classes.size} classes, "
            f"{classes[0]} to {classes[-1]}."
        )
    if K > 1 and classes is None and labels.shape[1] != K:
        raise InvalidInputError(f"y must have {K} columns, as linear has outputs; got {labels.shape[1]}.")
    return Risk.on(data, record, l2, bias, bias_l2)


def _check_width(X: Array, linear: Module) -> None:
    if X.shape[1] != linear.in_features:
        raise InvalidInputError(f"features must have {linear.in_features} columns, as linear has; got {X.shape[1]}.")

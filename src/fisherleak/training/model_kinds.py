r"""Kinds of model, one record each: what is fitted to a target, and how well it does its work.

A model predicts from :math:`z = w \cdot x + b`. With :math:`\mu` the mean that z stands for, its work is measured by

=========  ============================================================  ==============
kind       measure                                                       constant model
=========  ============================================================  ==============
linear     :math:`1 - \sum (y - z)^2 / \sum (y - \bar y)^2`              :math:`\bar y`
logistic   part of the rows with the right sign of z                     log of odds
Poisson    mean of :math:`2 (y \log(y / \mu) - y + \mu)`                 :math:`\log \bar y`
Gamma      mean of :math:`2 (y / \mu - \log(y / \mu) - 1)`               :math:`\log \bar y`
softmax    part of the rows whose own class has the largest of K scores  log of shares
=========  ============================================================  ==============

and a model of classes also by its AUC, the part of pairs of rows of two classes whose scores are in the right order, a tie
counting one half (of several classes the mean over each against all others, by its probability), and by its log loss, the mean
of :math:`\log \sum_k e^{z_k} - z_y` (of two classes, of :math:`\log (1 + e^z) - y z`). Where classes are uneven the AUC leads:
always answering the larger class is accurate there.

Adding a kind is adding one record to ``KINDS``; the command line then has it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.linear_model import GammaRegressor, LinearRegression, LogisticRegression, PoissonRegressor, Ridge

from fisherleak._support.namespaces import Vector
from fisherleak.engine.losses import Loss, get_loss
from fisherleak.errors import InvalidInputError
from fisherleak.tables import LabelRule
from fisherleak.tables.decide.profile import Numbers
from fisherleak.tables.decide.target import RULES

LARGEST_EXPONENT = 50.0
"""A mean is kept below exp(50), so that hopeless copies have a large deviance and not an infinite one."""


@dataclass(frozen=True)
class Metric:
    """A measure of utility.

    Parameters
    ----------
    name, label : str
        In data, and in words.
    higher_is_better : bool
    of : callable
        (z, y) -> one number for each copy: linear predictors z of shape (m, copies), or (m, K, copies) for several classes,
        and y (m,), as the model sees them.
    """

    name: str
    label: str
    higher_is_better: bool
    of: Callable[[Vector, Vector], Vector]


@dataclass(frozen=True)
class Kind:
    """A kind of model.

    Parameters
    ----------
    name : str
        As ``model=`` has it.
    words : str
        In sentences: "Poisson regression".
    labels : LabelRule
        Which labels it takes, and how they are recognised.
    loss : str or Loss
        What is minimised.
    metric : Metric
        How well it does its work.
    constant : callable
        Mean label (for several classes, the shares of all) -> linear predictor of the model that ignores the rows, both as the
        model sees them.
    estimator : callable, optional
        (rows, l2) -> the scikit-learn model whose minimum is that of ``minimise`` with this l2. Attacks, balancing and
        releases need it.
    estimators : tuple of types
        Those that ``estimator`` gives: what a released model may end with.
    holds : tuple of str
        Types of scikit-learn inside such a model that skops is to trust.
    also : tuple of Metric
        Other measures, told beside the first; ``leading_metric`` says which leads.
    """

    name: str
    words: str
    labels: LabelRule
    loss: str | Loss
    metric: Metric
    constant: Callable[[Any], Any]
    estimator: Callable[[int, float], Any] | None = None
    estimators: tuple[type, ...] = ()
    holds: tuple[str, ...] = ()
    also: tuple[Metric, ...] = ()

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All measures, its own first."""
        return (self.metric, *self.also)

    @property
    def several(self) -> bool:
        """Whether it has a row of parameters for each of three classes or more."""
        return self.labels.classes and self.labels.most > 2


# Measures of utility.


def _explained(z: Vector, y: Vector) -> Vector:
    total = float(np.sum((y - y.mean()) ** 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1.0 - np.sum((z - y[:, None]) ** 2, axis=0) / total)


def _explained_of_each(z: Vector, y: Vector) -> Vector:
    return np.asarray(np.mean([_explained(z[:, k], y[:, k]) for k in range(y.shape[1])], axis=0))


def _right(z: Vector, y: Vector) -> Vector:
    return np.asarray(np.mean((z > 0) == (y[:, None] > 0.5), axis=0))


def _right_class(z: Vector, y: Vector) -> Vector:
    return np.asarray(np.mean(z.argmax(axis=1) == y[:, None], axis=0))


def _log_loss(z: Vector, y: Vector) -> Vector:
    # log(1 + e^z) = max(z, 0) + log(1 + e^-|z|), which never overflows
    return np.asarray(np.mean(np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z))), axis=0) - y @ z / y.size)


def _auc(z: Vector, y: Vector) -> Vector:
    """Part of the pairs of a row of class 1 and one of class 0 in which the former has the larger z; a tie counts one half.

    One sort for each copy: of whole numbers in the order of z whose last bit is the class, so that in a tie class 0 is first.
    """
    bits = np.ascontiguousarray(z.T + 0.0).view(np.int64)  # no negative zero
    ordered = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    keys = np.sort((ordered & ~np.int64(1)) | (y > 0.5), axis=1)
    upper = (keys & 1).astype(bool)
    below = np.cumsum(~upper, axis=1, dtype=np.int32)  # rows of class 0 up to here
    same = np.zeros(keys.shape, dtype=bool)
    same[:, 1:] = (keys[:, 1:] | 1) == (keys[:, :-1] | 1)
    before = np.maximum.accumulate(np.where(same, 0, below - ~upper), axis=1)  # and before all that have the same z
    pairs = float(np.sum(y > 0.5)) * float(np.sum(y <= 0.5))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sum(before + below, axis=1, where=upper, dtype=np.int64) / 2.0 / np.float64(pairs))


def _auc_of_classes(z: Vector, y: Vector) -> Vector:
    shares = z - logsumexp(z, axis=1, keepdims=True)
    each = [_auc(shares[:, k], (y == k).astype(float)) for k in range(z.shape[1]) if 0 < np.sum(y == k) < y.size]
    return np.asarray(np.mean(each, axis=0) if each else np.full(z.shape[2], np.nan))


def _log_loss_of_classes(z: Vector, y: Vector) -> Vector:
    own = np.take_along_axis(z, y.astype(np.int64)[:, None, None], axis=1)
    return np.asarray(np.mean(logsumexp(z - own, axis=1), axis=0))


def _poisson_deviance(z: Vector, y: Vector) -> Vector:
    z = np.clip(z, -LARGEST_EXPONENT, LARGEST_EXPONENT)
    logs = np.log(np.where(y > 0, y, 1.0))
    return np.asarray(2.0 * np.mean(y[:, None] * (logs[:, None] - z) - y[:, None] + np.exp(z), axis=0))


def _gamma_deviance(z: Vector, y: Vector) -> Vector:
    apart = np.log(y)[:, None] - np.clip(z, -LARGEST_EXPONENT, LARGEST_EXPONENT)
    return np.asarray(2.0 * np.mean(np.expm1(apart) - apart, axis=0))


def _log_odds(mean: float) -> float:
    share = min(max(mean, np.finfo(float).tiny), 1.0 - np.finfo(float).epsneg)
    return math.log(share / (1.0 - share))


UNEVEN = 0.6
"""Part of an even share below which a class is rare: of two classes 30 % of the rows."""


def leading_metric(
    metrics: tuple[Metric, ...], rarest: float | None, asked: str | None = None, words: str = "this model"
) -> Metric:
    """The measure that was asked for; where none was the model's own, and of uneven classes the AUC, where there is one.

    ``rarest`` is the share of the rarest class, times their number: 1 where all are alike; None where there are no classes.
    ``words`` is what the model is called.
    """
    names = {metric.name: metric for metric in metrics}
    if asked is None:
        uneven = rarest is not None and rarest < UNEVEN
        return names.get("auc", metrics[0]) if uneven else metrics[0]
    check_metric(asked)
    if asked.replace("-", "_") not in names:
        known = " or ".join(repr(name.replace("_", "-")) for name in names)
        raise InvalidInputError(f"`metric` is {asked!r}, and {words} has none: use {known}, or leave it out.")
    return names[asked.replace("-", "_")]


def check_metric(asked: str | None) -> None:
    """Refuse a measure that no kind of model has."""
    known = dict.fromkeys(metric.name for kind in KINDS for metric in kind.metrics)
    if asked is not None and asked.replace("-", "_") not in known:
        told = ", ".join(name.replace("_", "-") for name in known)
        raise InvalidInputError(f"`metric` must be one of {told}; got {asked!r}.")


# Labels.


def _no_counts(numbers: Numbers) -> str:
    if numbers.low < 0:
        return "has values below zero: `model='poisson'` needs counts."
    if numbers.high > 1e9:
        return "has counts above 1e9: a Poisson model would overflow. Rescale it."
    return ""


def _like_counts(numbers: Numbers) -> str:
    return "whole numbers" if numbers.whole and numbers.low >= 0 else ""


def _not_positive(numbers: Numbers) -> str:
    return "has values of zero or below: `model='gamma'` needs numbers above zero." if numbers.low <= 0 else ""


# Models of scikit-learn.


def _least_squares(n: int, l2: float) -> Any:
    return LinearRegression() if l2 == 0 else Ridge(alpha=n * l2)


def _logistic(n: int, l2: float) -> Any:
    C = math.inf if l2 == 0 else 1.0 / (n * l2)
    return LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10, max_iter=1000)


def _generalised(made: type[Any], n: int, l2: float) -> Any:
    return made(alpha=l2, solver="newton-cholesky", tol=1e-10, max_iter=1000)


KINDS: list[Kind] = [
    Kind(
        name="linear",
        words="linear regression",
        labels=RULES["linear"],
        loss="squared",
        metric=Metric("r2", "R² (part of the variance explained)", True, _explained),
        constant=float,
        estimator=_least_squares,
        estimators=(LinearRegression, Ridge),
    ),
    Kind(
        name="logistic",
        words="logistic regression",
        labels=RULES["logistic"],
        loss="logistic",
        metric=Metric("accuracy", "accuracy (part of the rows classified correctly)", True, _right),
        constant=_log_odds,
        estimator=_logistic,
        estimators=(LogisticRegression,),
        also=(Metric("auc", "AUC", True, _auc), Metric("log_loss", "log loss", False, _log_loss)),
    ),
    Kind(
        name="softmax",
        words="softmax (multinomial logistic) regression",
        labels=RULES["softmax"],
        loss="softmax",
        metric=Metric("accuracy", "accuracy (part of the rows classified correctly)", True, _right_class),
        constant=lambda shares: np.log(np.maximum(shares, np.finfo(float).tiny)),
        estimator=_logistic,
        estimators=(LogisticRegression,),
        also=(
            Metric("auc", "AUC (mean over classes, each against the others)", True, _auc_of_classes),
            Metric("log_loss", "log loss", False, _log_loss_of_classes),
        ),
    ),
    Kind(
        name="poisson",
        words="Poisson regression",
        labels=LabelRule(refuses=_no_counts, suits=_like_counts, meant_for="counts"),
        loss="poisson",
        metric=Metric("deviance", "mean Poisson deviance", False, _poisson_deviance),
        constant=math.log,
        estimator=partial(_generalised, PoissonRegressor),
        estimators=(PoissonRegressor,),
        holds=("sklearn._loss.link.LogLink", "sklearn._loss.loss.HalfPoissonLoss"),
    ),
    Kind(
        name="gamma",
        words="Gamma regression",
        labels=LabelRule(refuses=_not_positive),
        loss="gamma",
        metric=Metric("deviance", "mean Gamma deviance", False, _gamma_deviance),
        constant=math.log,
        estimator=partial(_generalised, GammaRegressor),
        estimators=(GammaRegressor,),
        holds=("sklearn._loss.link.LogLink", "sklearn._loss.loss.HalfGammaLoss"),
    ),
]
"""Every kind of model."""


def kind_of(name: str) -> Kind:
    """The record of that name."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise InvalidInputError(f"model must be one of {', '.join(kind.name for kind in KINDS)}; got {name!r}.")


@dataclass(frozen=True)
class Measures:
    """How well a model does its work, and the model that ignores the rows, as :class:`Kind` has them."""

    metrics: tuple[Metric, ...]
    constant: Callable[[Any], Any]


def measures_of(loss: Loss, classes: int) -> Measures | None:
    """How a model of any loss is scored: of a kind, or one that has none here; None where no measure is known.

    ``classes`` is the number of those that it predicts, zero for numbers. Only scores of a softmax model are logarithms of
    probabilities that add up to one.
    """
    by_loss = {get_loss(kind.loss).name: kind for kind in KINDS}
    if loss.several and not classes:
        return Measures(
            (Metric("r2", "mean R² (part of the variance explained)", True, _explained_of_each),), np.asarray
        )
    own = kind_of("softmax" if classes > 2 else "logistic") if classes else by_loss.get(loss.name)
    if own is None and loss.name.startswith("pseudo_huber"):  # predicts the label itself
        own = kind_of("linear")
    if own is None:
        return None
    return Measures(own.metrics if by_loss.get(loss.name) is own else (own.metric,), own.constant)


def kind_with(loss: Loss) -> Kind | None:
    """The kind that minimises a loss; None where none does."""
    return next((kind for kind in KINDS if get_loss(kind.loss).name == loss.name), None)


def label_rules() -> dict[str, LabelRule]:
    """What each kind asks of its target, by name."""
    return {kind.name: kind.labels for kind in KINDS}

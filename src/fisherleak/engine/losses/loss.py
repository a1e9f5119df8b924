"""What a loss is: its derivatives, its labels, and what is proved of it.

Mathematics: 1.1, ``docs/mathematics/fits.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, like, namespace

Derivative = Callable[[Array, Array], Array]
Matrix = NDArray[np.float64]
FARTHEST = 1e60
"""Linear predictors are cut here: a trial step that is too long by far must not overflow, and no minimum lies there."""


def within_reach(z: Array) -> Array:
    """Linear predictors, cut where nothing is left to tell."""
    return namespace(z).clip(z, -FARTHEST, FARTHEST)


def no_slope(z: Array, y: Array) -> Array:
    """Of a second derivative that does not depend on a variable: zero, of the shape that z and y have together."""
    return namespace(z).zeros_like(z + y)


def _from_zero(y: Array, weights: Array) -> float:
    return 0.0


def _same(z: Array) -> Array:
    return z


@dataclass(frozen=True)
class Labels:
    """The labels a loss accepts.

    Parameters
    ----------
    rule : str
        In words, for the refusal: "0 or 1".
    accepts : callable
        y -> boolean array, true where a label is allowed.
    binary : bool
        Whether exactly two classes are expected.
    """

    rule: str
    accepts: Callable[[Array], Array]
    binary: bool = False


@dataclass(frozen=True)
class Traits:
    """How the derivatives of a loss of one output behave, for every z and every label that it accepts.

    A loss from outside has none, and what needs one is refused by name.

    Parameters
    ----------
    of : tuple of callables
        value, r, a and c: the functions that all of this is true of.
    log_slope : float
        The logarithm of a changes with z by no more than this.
    peak : float
        The z at which a is largest; of a loss of z - y, that difference.
    at_zero : float
        a at no parameters, for a mean of one where it depends on the label: a public number.
    slope, slope_by_label : callable
        (z, y) -> array: the derivatives of a by z and by y.
    width : float, optional
        w of ``ReducedLoss``: the first and second derivatives of a by z are at most sqrt(w) a and w a.
    largest : float
        a is never above it.
    steepest : float
        r is never further from zero.
    of_nothing : float
        The value of no model at all, z = 0, at most.
    by_difference : bool
        Whether all derivatives depend on z - y alone.
    by_label : bool
        Whether a depends on the label as r does: both are affine in it, and their product may be largest between its ends.
    drawn : bool
        Whether the value is minus the logarithm of a law of labels, without a further parameter, whose mean has the slope a:
        labels can be drawn from it, and tell a about z.
    """

    of: tuple[Derivative, Derivative, Derivative, Derivative]
    log_slope: float
    peak: float
    at_zero: float
    slope: Derivative
    slope_by_label: Derivative = no_slope
    width: float | None = None
    largest: float = math.inf
    steepest: float = math.inf
    of_nothing: float = math.inf
    by_difference: bool = False
    by_label: bool = False
    drawn: bool = False

    @property
    def unit(self) -> bool:
        """Whether a is one everywhere."""
        return self.log_slope == 0 and self.at_zero == 1


def identity_curvature(Z: Array, y: Array) -> Array:
    """The curvature of half the squared error of several numbers: the identity for every row, (n, K, K)."""
    xp, K = namespace(Z), Z.shape[1]
    return xp.broadcast_to(like(np.eye(K), Z, xp)[None, :, :], (Z.shape[0], K, K))


@dataclass(frozen=True, repr=False)
class Loss:
    """A convex, twice differentiable loss of (linear predictors, label).

    Parameters
    ----------
    name : str
        Its name in the registry.
    value, r, a, c : callable
        (z, y) -> array: the loss and the derivatives dl/dz, d2l/dz2, d2l/dzdy, all of shape (n,). With a ``frame``, z is (n, K)
        and they are (n,), (n, K), and in the frame (n, L, L) and (1, L, q), the last for all rows alike.
    labels : Labels
        The labels it accepts; of several outputs those of one number, never ``binary``.
    start : callable
        (labels, weights) -> linear predictor of the best constant model, or near it: where the search for an intercept
        starts. A ValueError says that there is none.
    quadratic : bool
        Whether ``a`` and ``c`` are constant, so that one Newton step is exact.
    mean : callable
        Linear predictor -> the label it predicts.
    traits : Traits, optional
        What is proved of these functions, for the package's own losses; that of other functions is not recorded.
    frame : callable, optional
        Of several outputs, K -> Q (K, L): an orthonormal basis of the differences that the loss depends on.
    classes : bool
        Of several outputs, whether labels are codes of classes, (n,), 0 to K - 1; numbers of shape (n, K) otherwise. A class is
        a one-hot vector that moves where its sum stays, so that changing it is a move of length sqrt(2).
    shares : bool
        Whether the classes' probabilities are proportional to the exponentials of the predictors, and add up to one.
    width : float, optional
        w of ``ReducedLoss`` for several outputs, where it is known.
    label_unit : float
        How far the label moves where ``c`` counts one.
    """

    name: str
    value: Derivative
    r: Derivative
    a: Derivative
    c: Derivative
    labels: Labels
    start: Callable[[Array, Array], float] = _from_zero
    quadratic: bool = False
    mean: Callable[[Array], Array] = _same
    traits: Traits | None = None
    frame: Callable[[int], Matrix] | None = None
    classes: bool = False
    shares: bool = False
    width: float | None = None
    label_unit: float = 1.0

    def __post_init__(self) -> None:
        # a copy with other functions keeps nothing that was proved of the first
        if self.traits is not None and self.traits.of != (self.value, self.r, self.a, self.c):
            object.__setattr__(self, "traits", None)

    @property
    def several(self) -> bool:
        """Whether it is of several outputs."""
        return self.frame is not None

    @property
    def of_classes(self) -> bool:
        """Whether its labels are classes, of one output or of several."""
        return self.classes or self.labels.binary

    @property
    def unit_curvature(self) -> bool:
        """Whether a is known to be one everywhere, or the identity."""
        return self.a is identity_curvature if self.several else self.traits is not None and self.traits.unit

    def __repr__(self) -> str:
        return f"Loss({self.name!r})"


@dataclass(frozen=True)
class ReducedLoss:
    r"""A loss of any number of outputs as a function of scores in its frame: z and gradients (b, L), curvatures (b, L, L).

    How fast a curvature changes is known for losses whose third and fourth derivatives are no more than their second,

    .. math:: |\ell'''(v, v, u)| \le \sqrt{w} |v|\, |v|_A |u|_A, \qquad |\ell''''(v, v, v, u)| \le w |v|^2 |v|_A |u|_A ,

    with :math:`|v|_A^2 = v^T A v`: w = 1 for the logistic, Poisson and gamma losses and for one model for each class. For
    softmax :math:`v^T A v` is the variance of v over the classes, and the other two are cumulants, which the range of v
    bounds: w = 2.
    """

    loss: Loss
    frame: Array | None = None
    """Q, (K, L); None for one output."""

    @property
    def scores(self) -> int:
        """K."""
        return 1 if self.frame is None else int(self.frame.shape[0])

    @property
    def outputs(self) -> int:
        """L."""
        return 1 if self.frame is None else int(self.frame.shape[1])

    @property
    def quadratic(self) -> bool:
        return self.loss.quadratic

    @property
    def unit_curvature(self) -> bool:
        return self.loss.unit_curvature

    def predictors(self, z: Array) -> Array:
        """Linear predictors as the loss takes them, (b,) or (b, K), of scores in the frame."""
        return within_reach(z[:, 0] if self.frame is None else z @ self.frame.T)

    def gradient(self, z: Array, y: Array) -> Array:
        r = self.loss.r(self.predictors(z), y)
        # W = Q V: the gradient by scores in the frame is Q^T r (section 1.1); curvatures come in the frame already
        return r[:, None] if self.frame is None else r @ self.frame

    def curvature(self, z: Array, y: Array) -> Array:
        a = self.loss.a(self.predictors(z), y)
        return a[:, None, None] if self.frame is None else a

    @property
    def width(self) -> float | None:
        """w; None where nothing is known of the third derivative."""
        known = self.loss if self.loss.several else self.loss.traits
        return None if known is None else known.width


def reduced_loss(loss: Loss, outputs: int, beside: Array) -> ReducedLoss:
    """A loss of K outputs in its frame, in the library and on the device of an array."""
    Q = None if loss.frame is None else like(loss.frame(outputs), beside, namespace(beside))
    return ReducedLoss(loss, Q)

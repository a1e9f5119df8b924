"""Answers instead of parameters: what an interface has told about the parameters of a model behind it.

Mathematics: 3.6, ``docs/mathematics/mechanisms.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Vector
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.losses import LOSSES, Loss
from fisherleak.engine.noise import Noise, check_noise
from fisherleak.engine.noise.noise import is_alike
from fisherleak.errors import InvalidInputError

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from fisherleak.engine.fit.minimise import Fit


OF = ("score", "probability")
LARGEST_QUERY = 1e50
"""Of a feature of a query, beside noise of scale one or more: fourth powers, which norms need, and their sums are floats."""
FARTHEST = 200.0
"""Logarithm of the mean of a count, at most: past it the curvature of the loss is cut."""
QUERY_VALUES = 2**21
"""Values of the queries that are decomposed at a time."""


def has_law(loss: Loss) -> bool:
    """Whether labels can be drawn from what a model of this loss tells."""
    return loss.traits is not None and loss.traits.drawn


DRAWN = tuple(name for name, loss in LOSSES.items() if has_law(loss))
"""Losses whose labels have a distribution that the model tells: the information of a draw about z is the curvature there."""


@dataclass(frozen=True, eq=False, repr=False)
class Answers:
    r"""Answers to queries, each with noise of its own: passed as ``noise=`` to :func:`fisherleak.measure`.

    Parameters
    ----------
    X_query : array or table of shape (m, columns of X)
        The queries, one row each, as the interface takes them: for a pipeline, rows of the raw table. A query that was asked
        twice, and answered with new noise, stands there twice; one whose first answer was repeated stands there once.
    noise : Noise
        Added to each answer. The draws are independent of each other, except for a Gaussian with a covariance (m, m) over the
        answers: (m K, m K), query by query, for a model of K outputs, which has K answers to a query.
    of : {"score", "probability"}
        What is answered: :math:`z_q = w \cdot x_q`, or, for the logistic loss, :math:`\sigma(z_q)`. For several classes all
        their scores, or, for the softmax loss, all their probabilities.

    Notes
    -----
    **What holds, and when.** Exact for queries that were fixed beforehand, or that depend on earlier answers only (such a query
    adds what it adds along the path that was taken). The attacker knows the queries and, unless ``public="nothing"``, the
    preprocessing. The information is :math:`J^T (\sum_q g_q^2 x_q x_q^T) J`, see ``engine.mechanisms.served``; it may have any
    rank, and eta is zero for what no answer depends on.

    Examples
    --------
    >>> import numpy as np
    >>> import fisherleak as fl
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 3.0, -1.0])
    >>> asked = fl.Answers(np.array([[1.0], [1.0]]), fl.Gaussian(0.1))
    >>> leak = fl.measure(fl.minimise(X, y), X, y, noise=asked)
    >>> leak.per_example().round(3)
    array([4.581, 7.244, 4.581])
    """

    X_query: Any = field(compare=False)
    noise: Noise
    of: str = "score"
    has_scale: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_noise(self.noise)
        if self.of not in OF:
            raise InvalidInputError(f"of must be one of {', '.join(OF)}; got {self.of!r}.")

    def __repr__(self) -> str:
        return f"Answers({_count(self.X_query)} queries, {self.noise!r}, of={self.of!r})"

    @property
    def scale(self) -> float:
        """That of the noise on each answer."""
        return float(self.noise.scale)

    @property
    def normal(self) -> bool:
        """Whether closed forms for normal noise hold: noisy scores are linear in the parameters, probabilities are not."""
        return bool(self.noise.normal) and self.of == "score"

    def rescaled(self, scale: float) -> Answers:
        """The same answers with noise of another scale."""
        return replace(self, noise=self.noise.rescaled(scale))

    def slopes(self, z: Vector, loss: Loss) -> Vector:
        """By how much each answer moves with its score, (m,)."""
        if self.of == "score":
            return np.ones_like(z)
        if not (has_law(loss) and loss.labels.binary):
            raise InvalidInputError(
                f"of='probability' is for the logistic loss, and this model's is {loss.name}: use of='score'."
            )
        # sigma'(z) = p (1 - p) is the curvature of the logistic loss (section 3.6)
        return np.asarray(loss.a(z, z))

    @property
    def what(self) -> str:
        """What is answered to each query."""
        return self.of

    def whitened(self, rows: Vector) -> Vector:
        """Derivatives of the answers, (m, p), in units of their noise at scale 1."""
        if self.independent:
            root = self.noise.unit_information_root(1)
            return rows if root is None else float(root[0, 0]) * rows
        root = self.noise.unit_information_root(rows.shape[0])
        return rows if root is None else root @ rows

    @property
    def independent(self) -> bool:
        """Whether the answers may be taken block by block."""
        return is_alike(self.noise)


@dataclass(frozen=True, eq=False, repr=False)
class SampledLabels:
    r"""Labels drawn from the model's own distribution, one for each query, without noise: passed as ``noise=``.

    Parameters
    ----------
    X_query : array or table of shape (m, columns of X)
        As for :class:`Answers`.

    Notes
    -----
    The draw itself is what hides: a label from Bernoulli(p) holds :math:`p (1 - p)` about its score for the logistic loss, a
    count :math:`e^z` for the Poisson loss, one of several classes :math:`\mathrm{diag}(p) - p p^T` about their scores for the
    softmax loss. Other losses have no distribution, and are refused. There is no scale to calibrate.

    Examples
    --------
    >>> import numpy as np
    >>> import fisherleak as fl
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([0.0, 1.0, 0.0])
    >>> fit = fl.minimise(X, y, "logistic", l2=0.1)
    >>> fl.measure(fit, X, y, noise=fl.SampledLabels(X)).n
    3
    """

    X_query: Any = field(compare=False)
    has_scale: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"SampledLabels({_count(self.X_query)} queries)"

    @property
    def scale(self) -> float:
        """One: there is nothing to scale."""
        return 1.0

    @property
    def normal(self) -> bool:
        return False

    def rescaled(self, scale: float) -> SampledLabels:
        """Refused: a draw from the model has no scale."""
        raise InvalidInputError(
            "SampledLabels has no noise whose scale could be changed: answer fewer queries (fisherleak.queries_until), or "
            "answer with noise (fisherleak.Answers)."
        )

    def slopes(self, z: Vector, loss: Loss) -> Vector:
        """Roots of the information of each draw about its score, (m,)."""
        if not has_law(loss):
            raise InvalidInputError(
                f"SampledLabels is for the losses {' and '.join(DRAWN)}, whose labels have a distribution; this model's loss "
                f"is {loss.name}: use fisherleak.Answers with noise."
            )
        if not loss.labels.binary and np.any(np.abs(z) > FARTHEST):
            raise InvalidInputError(
                f"SampledLabels of counts needs queries with scores between -{FARTHEST:g} and {FARTHEST:g}; some query has a "
                f"score of {z[np.argmax(np.abs(z))]:g}. Drop such queries, or use fisherleak.Answers with noise."
            )
        # g^2 of a draw is the curvature: p (1 - p), or e^z of a count (section 3.6)
        return np.asarray(np.sqrt(loss.a(z, z)))

    @property
    def what(self) -> str:
        """What is answered to each query."""
        return "label"

    def whitened(self, rows: Vector) -> Vector:
        return rows

    @property
    def independent(self) -> bool:
        return True


Interface = Answers | SampledLabels


def _count(X_query: Any) -> int:
    return int(np.shape(X_query)[0]) if np.ndim(X_query) else 0


@dataclass(frozen=True, eq=False)
class Disclosed:
    """What an interface has told of one fit, as what B is whitened by.

    Parameters
    ----------
    by : Interface, or the words of a record
    root : array of shape (p, p)
        W with W^T W the information about the parameters for centred rows, at scale 1.
    scale : float
    """

    by: Any
    root: Vector = field(repr=False)
    scale: float = 1.0

    @property
    def normal(self) -> bool:
        return bool(getattr(self.by, "normal", False))

    def rescaled(self, scale: float) -> Disclosed:
        """The same information in units of another scale."""
        return replace(self, scale=scale)

    def repeated(self, times: float) -> Disclosed:
        """The same answers so many times, each with noise of its own."""
        return replace(self, root=np.sqrt(times) * self.root)


def is_disclosed(noise: object) -> TypeIs[Disclosed]:
    """Whether a Jacobian is whitened by what an interface has told, in place of a noise."""
    return isinstance(noise, Disclosed)


def is_interface(noise: object) -> TypeIs[Interface]:
    """Whether it is what an interface has told instead of the parameters."""
    return isinstance(noise, Interface)


def told_by(by: Interface, features: Vector, fit: Fit) -> Disclosed:
    """The information of answers about a fit, for queries behind its preprocessing, (m, d)."""
    _check_sizes(features, by.scale)
    centre = None if fit.centre is None else np.asarray(host(fit.centre))
    p = int(fit.centred_theta.shape[0])
    outputs, times = 1, 1
    if fit.loss.several:
        outputs = _answers_of_each(by.what, fit)
        # scores with noise of their own tell of each output what they tell of any other: Q^T Q is the identity
        times = fit.reduced_loss.outputs if by.what == "score" and by.independent else 1
    root: Any = np.zeros((0, p // times))
    for block in _blocks(features, p // times, outputs, by.independent):
        rows = with_constant(block, fit.intercept is not None, centre)
        moved = rows if times > 1 else _moves(by, rows, fit)
        # W with W^T W = sum of g_q^2 x_q x_q^T, the rows g_q x_q one block after the other (section 3.6)
        root = np.linalg.qr(np.concatenate([root, by.whitened(moved)]), mode="r")
    root = np.kron(np.eye(times), root) if times > 1 else root
    return Disclosed(by, np.concatenate([root, np.zeros((p - root.shape[0], p))]))


def _check_sizes(features: Vector, scale: float) -> None:
    """Refuse queries whose powers, in units of the noise, leave the range of floats: etas would be infinite or no numbers."""
    too_large = np.abs(features) > LARGEST_QUERY * min(scale, 1.0)
    if np.any(too_large):
        row = int(np.argmax(np.any(too_large, axis=1)))
        raise InvalidInputError(
            f"Row {row} of X_query has a value beyond {LARGEST_QUERY * min(scale, 1.0):g} behind the preprocessing: drop it. "
            f"The limit is {LARGEST_QUERY:g} times the noise scale, and {LARGEST_QUERY:g} for scales above one."
        )


def _moves(by: Interface, rows: Vector, fit: Fit) -> Vector:
    """How each answer moves with the parameters for centred rows, (answers, p)."""
    if fit.loss.several:
        return _several_moves(by.what, rows, fit)
    return np.asarray(by.slopes(rows @ np.asarray(host(fit.centred_theta)), fit.loss)[:, None] * rows)


def _answers_of_each(of: str, fit: Fit) -> int:
    """How many answers a query has, K; refuses what the model does not tell."""
    if of != "score" and not fit.loss.shares:
        what = "SampledLabels" if of == "label" else "of='probability'"
        raise InvalidInputError(
            f"With several outputs, {what} needs the softmax loss, which gives probabilities of classes; this "
            f"model's loss is {fit.loss.name}: use fisherleak.Answers with of='score'."
        )
    return fit.outputs


def _several_moves(of: str, x: Vector, fit: Fit) -> Vector:
    """How the answers to queries move with the reduced parameters, (m K, L p): query by query, output by output.

    ``x`` are the queries as the parameters take them, (m, p), and ``of`` is "score", "probability" or "label".
    """
    K = _answers_of_each(of, fit)
    Q = np.asarray(host(fit.frame))
    V = np.asarray(host(fit.centred_theta)).reshape(Q.shape[1], -1)
    D = np.broadcast_to(Q, (x.shape[0], *Q.shape))
    if of != "score":
        z = (x @ V.T) @ Q.T
        e = np.exp(z - np.max(z, axis=1, keepdims=True))
        p = e / np.sum(e, axis=1, keepdims=True)
        # (e_k - p)^T Q: what is sure moves nothing, and nothing cancels that is larger than p
        D = Q[None, :, :] - (p @ Q)[:, None, :]
        # (diag(p) - p p^T) Q of probabilities, and for a drawn class the rows sqrt(p_k) (e_k - p)^T Q (section 3.6)
        D = (np.sqrt(p) if of == "label" else p)[:, :, None] * D
    return np.reshape(D[:, :, :, None] * x[:, None, None, :], (x.shape[0] * K, -1))


def added(one: Disclosed, other: Disclosed) -> Disclosed:
    """What two lists of answers tell together."""
    root: Any = np.linalg.qr(np.concatenate([one.root, other.root]), mode="r")
    return replace(one, root=root)


def _blocks(features: Vector, parameters: int, outputs: int, independent: bool) -> Iterator[Vector]:
    m = features.shape[0]
    # the root is decomposed again with each block, and should not be most of the work
    step = max(1, QUERY_VALUES // parameters // outputs, parameters // outputs) if independent else max(m, 1)
    for start in range(0, m, step):
        yield features[start : start + step]

r"""Answers of a model of several outputs: how they move with its parameters.

With Q the frame of ``outputs``, V the parameters in it and :math:`z = Q V x` the K scores of a query, each answer moves with
:math:`\mathrm{vec}(V)` by a row of :math:`D \otimes x^T`, D of shape (K, L):

- scores, one for each output: :math:`D = Q`;
- probabilities of classes, :math:`p = \mathrm{softmax}(z)`: :math:`D = (\mathrm{diag}(p) - p p^T)\, Q`;
- one class drawn from them, without noise: :math:`D^T D = Q^T (\mathrm{diag}(p) - p p^T)\, Q`, the information of the draw
  about its scores, as the rows :math:`\sqrt{p_k}\, (e_k - p)^T Q`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.engine.outputs.several_fit import OutputsFit
from fisherleak.errors import InvalidInputError

__all__ = ["answer_rows", "outputs_of_answers"]

Vector = NDArray[np.float64]


def outputs_of_answers(of: str, fit: OutputsFit) -> int:
    """How many answers a query has, K; refuses what the model does not tell."""
    if of != "score" and not fit.loss.shares:
        what = "SampledLabels" if of == "label" else "of='probability'"
        raise InvalidInputError(
            f"{what} of several outputs is for classes with the softmax loss, whose probabilities the model tells; this "
            f"model's loss is {fit.loss.name}: use fisherleak.Answers with of='score'."
        )
    return int(fit.coef.shape[0])


def answer_rows(of: str, x: Vector, fit: OutputsFit) -> Vector:
    """How the answers to queries move with the reduced parameters, (m K, L p): query by query, output by output.

    ``x`` are the queries as the parameters take them, (m, p), and ``of`` is "score", "probability" or "label".
    """
    K = outputs_of_answers(of, fit)
    Q = np.asarray(host(fit.frame))
    V = np.asarray(host(fit.reduced)).reshape(Q.shape[1], -1)
    D = np.broadcast_to(Q, (x.shape[0], *Q.shape))
    if of != "score":
        z = (x @ V.T) @ Q.T
        e = np.exp(z - np.max(z, axis=1, keepdims=True))
        p = e / np.sum(e, axis=1, keepdims=True)
        # (e_k - p)^T Q: what is sure moves nothing, and nothing cancels that is larger than p
        D = Q[None, :, :] - (p @ Q)[:, None, :]
        D = (np.sqrt(p) if of == "label" else p)[:, :, None] * D
    return np.reshape(D[:, :, :, None] * x[:, None, None, :], (x.shape[0] * K, -1))

r"""Preprocessing folded into the model: scalers whose scales the data decide (one more term of the Jacobian).

A model on features divided by scales :math:`s_k(X)`, with a free intercept that takes up every centre, is the model on the
features themselves whose penalty is :math:`\frac{n\lambda}{2} \sum_k s_k^2 w_k^2`. Its coefficients are in raw units, and no
centre or scale is released. Moving a value moves the scale of its column, so that

.. math:: J_i = -B\,[\,(a\, x w^T + r I + \mathrm{diag}(m_i))\, E_i,\; c\, x\,], \qquad
          m_{ik} = n \lambda\, w_k\, \frac{\partial s_k^2}{\partial x_{ik}} .

For a standard deviation the derivative is :math:`2 \omega_i (x_{ik} - \bar x_k) / \sum \omega`; for ranges and quantiles it
is that of the order statistics that decide them. Where several rows share such a value, each of them is charged with all of
it: the larger side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fisherleak._support.arrays import Array, as_real, host, namespace

__all__ = ["Folding"]


@dataclass(frozen=True)
class Folding:
    r"""How each feature's scale moves with the value of a row: small arrays only, so that they can travel to the rows.

    Parameters
    ----------
    slopes, means : arrays of shape (d,)
        :math:`m_k = slopes_k (x_k - means_k)` for scales that are standard deviations; slopes are zero elsewhere.
    weighted : bool
        Whether the standard deviations are weighted, so that a row's weight multiplies its slope.
    values, shares : arrays of shape (q, d)
        :math:`m_k = \sum_q shares_{qk} [x_k = values_{qk}]` for scales made of order statistics.
    frame : array of shape (p, p)
        The space in which noise without a shape acts: (coefficients times their columns' public scales, level at their public
        centres) as a linear map of the raw parameters.
    """

    slopes: Array
    means: Array
    weighted: bool
    values: Array
    shares: Array
    frame: Array
    totals: Array | None = None
    """(d,) weights of all rows behind each standard deviation, zero for scales that no row moves; None where scales are order
    statistics, which do not tell what they are without a row."""

    def moved_by(self, columns: Sequence[int]) -> bool:
        """Whether values of some features move any scale."""
        own = list(columns)
        return bool(host(self.slopes)[own].any() or host(self.shares)[:, own].any())

    def moves(self, X: Array, weights: Array | None) -> Array:
        """M of every row in a block, (b, d)."""
        xp = namespace(self.slopes)
        x = as_real(X, xp)
        moves = self.slopes[None, :] * (x - self.means[None, :])
        if self.weighted and weights is not None:
            moves = moves * weights[:, None]
        for q in range(self.values.shape[0]):
            hit = xp.astype(x == self.values[q, :][None, :], xp.float64)
            moves = moves + hit * self.shares[q, :][None, :]
        return moves

    def left_out(self, X: Array, weights: Array | None, squares: Array) -> Array:
        r"""By how much squared scales change when each row of a block is left out, (b, d).

        With W the total of the weights, :math:`\delta` a value less the mean and s the scale,
        :math:`s^2_{(-i)} = (W s^2 - \omega \delta^2 W / (W - \omega)) / (W - \omega)`.
        """
        assert self.totals is not None
        xp = namespace(self.slopes)
        x = as_real(X, xp)
        moved = self.totals > 0
        total = xp.where(moved, self.totals, 2.0)[None, :]
        omega = xp.ones_like(x[:, :1]) if weights is None or not self.weighted else weights[:, None]
        rest = total - omega
        later = (total * squares[None, :] - omega * (x - self.means[None, :]) ** 2 * total / rest) / rest
        return xp.where(moved[None, :], xp.clip(later, 0.0, None) - squares[None, :], 0.0)

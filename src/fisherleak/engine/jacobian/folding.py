"""Preprocessing folded into the model: scalers whose scales the data decide (one more term of the Jacobian).

Mathematics: 1.3, ``docs/mathematics/fits.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fisherleak._support.arrays import Array, as_real, device, host, namespace

UP, DOWN, APART = range(3)
"""Ways in which order statistics are moved: by a value that rises, by one that falls, and without those at which values tie."""


@dataclass(frozen=True)
class Filling:
    r"""How the values that missing ones are filled with move with the rows, for q columns of the features.

    Parameters
    ----------
    columns : tuple of int
        The columns, in order.
    place : array of shape (q, d)
        One where a filled column is that feature.
    rates : array of shape (q,)
        :math:`\gamma` of means: one over the number of values that are there.
    values, shares : arrays of shape (2, q)
        :math:`\gamma = \sum_s shares_s [x = values_s]` of medians.
    pushes : array of shape (p, q)
        g: what they do to the gradient, through the rows where the column is missing.
    slopes, offsets : arrays of shape (q,)
        The coefficients w_k, and :math:`c_k - \tilde m_k`.
    through : array of shape (q,)
        What they do to the penalty, through the scales of their columns.
    """

    columns: tuple[int, ...]
    place: Array
    rates: Array
    values: Array
    shares: Array
    pushes: Array
    slopes: Array
    offsets: Array
    through: Array
    sides: Array | None = None
    """(3, 2, q) shares by way (``UP``, ``DOWN``, ``APART``), where values of a column tie at a median."""

    def on(self, way: int) -> Filling:
        """The same moved in one way."""
        return self if self.sides is None else replace(self, shares=self.sides[way, ...], sides=None)

    @property
    def size(self) -> int:
        """q, the number of parameters that are released beside those of the model."""
        return len(self.columns)

    def moved(self, X: Array) -> Array:
        """Gamma of the rows in a block, as if none of their values were missing: (b, q)."""
        xp = namespace(self.rates)
        x = as_real(X, xp) @ self.place.T
        assert self.sides is None, "the way in which values move has to be chosen"
        moved = xp.zeros_like(x) + self.rates[None, :]
        for s in range(self.values.shape[0]):
            hit = xp.astype(x == self.values[s, :][None, :], xp.float64)
            moved = moved + hit * self.shares[s, :][None, :]
        return moved

    def extended(self, B: Array) -> Array:
        """B (p, p) with rows for t and columns for the features that are always zero, (p + q, p + q)."""
        xp = namespace(B)
        d = self.place.shape[1]
        # B_+ of section 1.3: below B the rows (c_k - m_k) B_k of t, and beside it the columns B_+ g_k - w_k e_(t_k)
        rows = xp.concat([B, self.offsets[:, None] * (self.place @ B[:d, :])], axis=0)
        directly = xp.concat([xp.zeros_like(self.pushes), _diagonal(self.slopes)], axis=0)
        return xp.concat([rows, rows @ self.pushes - directly], axis=1)


def _diagonal(values: Array) -> Array:
    xp = namespace(values)
    return xp.eye(values.shape[0], dtype=values.dtype, device=device(values)) * values[None, :]


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
    frame : array of shape (p + q, p + q)
        The space in which noise without a shape acts: (coefficients times their columns' public scales, level at their public
        centres, t) as a linear map of what is released in raw units.
    carried : array of shape (2, q, d), optional
        Shares of what a filled value does to order statistics, by rows that have the statistic's value and by all others.
    filling : Filling, optional
        For pipelines with imputers.
    sides : array of shape (3, 3, q, d), optional
        Shares, and ``carried``, by way (``UP``, ``DOWN``, ``APART``), where values of a column tie at an order statistic: what
        one of these does to it then depends on the way that it moves. ``on`` gives the folding of one way.
    needed : array of shape (q, d), optional
        With ``sides``: how many of the values that tie have to move before the order statistic does.
    """

    slopes: Array
    means: Array
    weighted: bool
    values: Array
    shares: Array
    frame: Array
    totals: Array | None = None
    """(d,) weights of all rows behind each standard deviation, zero for scales that no row moves; None where scales are order
    statistics or imputers are folded in, which do not tell what they are without a row."""
    carried: Array | None = None
    filling: Filling | None = None
    sides: Array | None = None
    needed: Array | None = None

    @property
    def two_sided(self) -> bool:
        """Whether some values tie at an order statistic."""
        return self.sides is not None or (self.filling is not None and self.filling.sides is not None)

    def on(self, way: int) -> Folding:
        """The same with order statistics moved in one way."""
        filling = None if self.filling is None else self.filling.on(way)
        if self.sides is None:
            return replace(self, filling=filling)
        own = self.sides[way, ...]
        carried = None if filling is None else own[1:, ...]
        return replace(self, shares=own[0, ...], carried=carried, filling=filling, sides=None, needed=None)

    def moved_by(self, columns: Sequence[int]) -> bool:
        """Whether values of some features move any scale; taken for certain where gaps are filled too."""
        own = list(columns)
        return self.filling is not None or bool(host(self.slopes)[own].any() or host(self.shares)[:, own].any())

    def moves(self, X: Array, weights: Array | None) -> Array:
        """M of every row in a block, (b, d)."""
        assert not self.two_sided, "the way in which values move has to be chosen"
        xp = namespace(self.slopes)
        x = as_real(X, xp)
        # m_ik of section 1.3: standard deviations first, then what filled values do to the scale of their column, then
        # order statistics
        moves = self.slopes[None, :] * (x - self.means[None, :])
        if self.weighted and weights is not None:
            moves = moves * weights[:, None]
        filled = None if self.filling is None else self.filling.moved(X)
        if self.filling is not None:
            moves = moves + (filled * self.filling.through[None, :]) @ self.filling.place
        for q in range(self.values.shape[0]):
            hit = xp.astype(x == self.values[q, :][None, :], xp.float64)
            moves = moves + hit * self.shares[q, :][None, :]
            if self.filling is not None and self.carried is not None:
                by_fill = hit * self.carried[0, q, :][None, :] + (1.0 - hit) * self.carried[1, q, :][None, :]
                moves = moves + by_fill * (filled @ self.filling.place)
        return moves

    def left_out(self, X: Array, weights: Array | None, squares: Array, there: Array | None = None) -> Array:
        r"""By how much squared scales change when each row of a block, or each of its sets of rows, is left out, (b, d).

        With W the total of the weights, :math:`\delta` a value less the mean, s the scale and :math:`W_-` the weights that
        stay, :math:`s^2_{(-S)} = (W s^2 - \sum_S \omega \delta^2 - (\sum_S \omega \delta)^2 / W_-) / W_-`.

        X is (b, d), or (b, k, d) for sets of k rows, with ``weights`` of its first axes and ``there``, one for the rows that
        are in a set and zero for those that fill it up.
        """
        assert self.totals is not None
        xp = namespace(self.slopes)
        x = as_real(X, xp)
        x = x[:, None, :] if x.ndim == 2 else x
        counted = xp.ones_like(x[:, :, 0]) if there is None else there
        if weights is not None and self.weighted:
            counted = counted * (weights[:, None] if weights.ndim == 1 else weights)
        moved = self.totals > 0
        total = xp.where(moved, self.totals, 1.0 + xp.max(xp.sum(counted, axis=1)))[None, :]
        omega, apart = counted[:, :, None], x - self.means[None, None, :]
        rest = total - xp.sum(omega, axis=1)
        known = rest > 0  # a set may be everyone
        rest = xp.where(known, rest, 1.0)
        gone = xp.sum(omega * apart**2, axis=1) + xp.sum(omega * apart, axis=1) ** 2 / rest
        later = xp.where(known, (total * squares[None, :] - gone) / rest, 0.0)
        return xp.where(moved[None, :], xp.clip(later, 0.0, None) - squares[None, :], 0.0)

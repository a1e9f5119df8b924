"""What the gradient of all rows does beyond its Hessian, without a pass over the rows, and how far that may be off.

Mathematics: 4.3, ``docs/mathematics/changes.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, host, like, namespace, row_dots
from fisherleak.engine.changes.changed_rows import after_rows
from fisherleak.engine.fit.risk import Risk, with_constant
from fisherleak.engine.losses.loss import ReducedLoss
from fisherleak.rows import block_elements, gather, map_rows, sum_rows

MOST_PARAMETERS = 200
"""Parameters past which T, (p + 1) p^2 / 2 numbers, is not kept: 32 MB."""
PER_PAIR = 0.5
"""T pays where there are more rows than this for each pair of parameters: a pass over all rows for each move costs more."""
PASSES = 12
"""Products with all rows that a move takes by chord steps, about."""
FOLLOWED = 128
"""Rows that are followed exactly."""
ROWS = 4096
"""Whose part of T is made at a time: a few columns of each."""
STEP = 1e-4
"""Of the differences of A: what is left out is of its square."""


@dataclass(frozen=True)
class _FollowedMoves:
    """Rows that are followed exactly, at the parameters that moves start from."""

    x: Array
    y: Array
    omega: Array
    z: Array
    r: Array
    A: Array


@dataclass(frozen=True)
class Expansion:
    """N(D), and its bounds."""

    loss: ReducedLoss
    risk: Risk
    cubes: Array
    """T by linear forms of the outputs: (f, q, p), pairs of parameters j <= k, twice where they differ; in ``units``."""
    forms: Array
    """The linear forms, (f, L)."""
    units: tuple[Array, Array]
    """Of the outputs, (L,), and of the parameters of each, (p,)."""
    followed: _FollowedMoves
    grams: tuple[Array, Array, Array]
    """Sums over rows of x x^T: with h l and with the weight of |H^-1 (N - T / 2)|, of rows not followed; with w h, of all."""
    terms: Array
    """(n, 2), of rows not followed: the weights of |v|^3 in the second bound and of |v|^6 in the first."""
    widest: float
    """Largest (w l)^(1/2) of the rows that are not followed; ``tallest`` that of all."""
    tallest: float

    @property
    def _width(self) -> float:
        assert self.loss.width is not None
        return self.loss.width

    def beyond(self, moves: Array) -> Array:
        """N(D) of moves (b, L p)."""
        few, p = self.followed.x.shape
        # N(D) = T[D, D] / 2 and, exactly, the rows that are followed (section 4.3)
        return block_by_block(
            lambda some: 0.5 * self._twice(some) + self._exactly(some), moves, p, few * self.loss.scores
        )

    def _twice(self, moves: Array) -> Array:
        """T[D, D]: a correction, to seven digits."""
        xp = namespace(moves)
        by_output, by_parameter = self.units
        scale = by_output[:, None] * by_parameter[None, :]
        V = self.forms @ (xp.reshape(moves, (-1, *scale.shape)) / scale[None, ...])  # (b, f, p)
        V = xp.astype(V, xp.float32)
        found = [pairs_of_columns(V[:, i, :]) @ self.cubes[i, ...] for i in range(V.shape[1])]
        whole = self.forms.T @ xp.astype(xp.stack(found, axis=1), xp.float64)
        return xp.reshape(whole / scale[None, ...], moves.shape)

    def _exactly(self, moves: Array) -> Array:
        """That of the rows that are followed."""
        xp = namespace(moves)
        some, L = self.followed, self.loss.outputs
        b, s = moves.shape[0], some.x.shape[0]
        v = xp.reshape(xp.reshape(moves, (b * L, -1)) @ some.x.T, (b, L, s))
        v = xp.permute_dims(v, (0, 2, 1))  # (b, s, L)
        y = xp.broadcast_to(some.y[None, ...], (b, *some.y.shape))
        y = xp.reshape(y, (b * s, *some.y.shape[1:]))
        r = xp.reshape(self.loss.gradient(xp.reshape(some.z[None, ...] + v, (b * s, L)), y), (b, s, L))
        bent = v * some.A[None, :, 0, :] if L == 1 else xp.sum(some.A[None, ...] * v[:, :, None, :], axis=3)
        # r(z + v) - r - A v of each row, with its weight
        more = some.omega[None, :, None] * r - some.r[None, ...] - bent
        return xp.reshape(xp.reshape(xp.permute_dims(more, (0, 2, 1)), (b * L, s)) @ some.x, (b, -1))

    def left_out(self, moves: Array, across: Array) -> tuple[Array, Array]:
        """Bounds of what is left out of N: in the norm of H^-1, and of H^-1 times it as it is seen; ``across`` is |D|_H."""
        xp = namespace(moves)
        first, second, _ = (self._form(moves, gram) for gram in self.grams)
        # the two bounds of section 4.3, with sqrt(l) |D|_H for the largest move of a score; `first` and `second` are
        # their sums
        grown = self._width / 6.0 * xp.exp(xp.clip(self.widest * across, 0.0, 50.0))
        return grown * across**2 * xp.sqrt(first), grown * across * second

    def left_out_closely(self, moves: Array, across: Array) -> tuple[Array, Array]:
        """The same with the scores of all rows, one product with them each."""
        xp = namespace(moves)
        b, L = moves.shape[0], self.loss.outputs
        V = xp.astype(xp.reshape(moves, (b * L, -1)).T, xp.float32)
        intercept, centre = self.risk.intercept, self.risk.centre

        def block(X: Array, terms: Array) -> tuple[Any, ...]:
            v = xp.astype(with_constant(X, intercept, centre), xp.float32) @ V
            size = v * v if L == 1 else xp.sum(xp.reshape(v * v, (v.shape[0], b, L)), axis=2)
            few = xp.astype(terms, xp.float32)
            cubes = size * xp.sqrt(size)
            sums = (few[:, 0] @ cubes, few[:, 1] @ (cubes * cubes))
            return tuple(xp.astype(each, xp.float64) for each in sums)

        most = max(64, block_elements(moves) // (b * L))
        # the same before |v|^2 <= l |D|_H^2 is used: sums of |v|^3 and |v|^6 (the end of section 4.3)
        cubes, sixths = sum_rows(block, self.risk.X, self.terms, most=most)
        grown = self._width / 6.0 * xp.exp(xp.clip(self.widest * across, 0.0, 50.0))
        return grown * xp.sqrt(sixths), grown * cubes

    def rate(self, moves: Array, across: Array) -> Array:
        """How much of a difference between moves no larger than these is left in N, by the norms of H and H^-1."""
        xp = namespace(moves)
        # (w sum h |v|^2)^(1/2) and what it grows by over such moves (section 4.3)
        return xp.exp(xp.clip(self.tallest * across, 0.0, 50.0)) * xp.sqrt(self._form(moves, self.grams[2]))

    def _form(self, moves: Array, gram: Array) -> Array:
        xp = namespace(moves)
        flat = xp.reshape(moves, (-1, gram.shape[0]))
        return xp.clip(xp.sum(xp.reshape(row_dots(flat @ gram, flat, xp), (moves.shape[0], -1)), axis=1), 0.0, None)


def pays_expansion(risk: Risk, loss: ReducedLoss, moves: int) -> bool:
    """Whether T costs less than it saves over so many moves."""
    n, size = int(risk.X.shape[0]), risk.size
    light = max(PER_PAIR * size * (size + 1) // 2, 4 * FOLLOWED) <= n
    return loss.width is not None and size <= MOST_PARAMETERS and light and moves * PASSES >= size**2 // 2


def expanded(risk: Risk, theta: Array, B: Array, scale: Array, seen: Array, loss: ReducedLoss) -> Expansion:
    """N and its bounds at a fit.

    Parameters
    ----------
    B, scale : arrays of shape (L p, L p) and (L p,)
        H^-1 and the units of the parameters, those of the factor.
    seen : array of shape (released parameters, L p)
        What a move is as it is released.
    """
    xp = namespace(theta)
    make = _row_maker(theta, B, seen @ B, loss, risk.intercept, risk.centre)
    weights = map_rows(make, risk.X, risk.y, risk.weights, width=4)
    chosen = _heaviest(host(weights))
    bulk = np.ones(int(risk.X.shape[0]))
    bulk[chosen] = 0.0
    mask = like(bulk, theta, xp)
    width = float(loss.width or 0.0)

    def block(X: Array, weights: Array, mask: Array) -> tuple[Any, ...]:
        x = with_constant(X, risk.intercept, risk.centre)
        tall = weights[:, 0]
        # weights of x x^T in the three sums of section 4.3: h l, sqrt(l alpha) |H^-1 Z A^(1/2)|, and w h
        by = (mask * tall * weights[:, 1], mask * xp.sqrt(tall) * weights[:, 2], width * weights[:, 1])
        roots = (xp.sqrt(each)[:, None] * x for each in by)
        return tuple(root.T @ root for root in roots)

    first, second, third = sum_rows(block, risk.X, weights, mask)
    leverage = host(weights[:, 0])
    tall = float(np.sqrt(width * leverage.max(initial=0.0)))
    wide = float(np.sqrt(width * (leverage * bulk).max(initial=0.0)))
    followed = _followed(risk, theta, loss, like(chosen, theta, xp))
    grams, terms = (first, second, third), mask[:, None] * weights[:, 2:]
    by_output = xp.reshape(scale, (loss.outputs, -1)) / scale[None, : scale.shape[0] // loss.outputs]
    units = (xp.mean(by_output, axis=1), scale[: by_output.shape[1]])
    cubes, forms = _third(risk, theta, loss, mask, units), like(_linear_forms(loss.outputs)[0], theta, xp)
    return Expansion(loss, risk, cubes, forms, units, followed, grams, terms, wide, tall)


def _heaviest(weights: np.ndarray) -> Any:
    """Rows that weigh most in the bound: by their terms in the trace of its matrix by H^-1."""
    size = weights[:, 2] * weights[:, 0] ** 1.5
    count = min(FOLLOWED, size.shape[0])
    return np.sort(np.argpartition(-size, count - 1)[:count])


def _row_maker(
    theta: Array, B: Array, seen: Array, loss: ReducedLoss, intercept: bool, centre: Array | None
) -> Callable[..., Any]:
    """A function from a block of rows to l, h, the weight of |v|^3 in the second bound, and omega alpha: (b, 4)."""
    xp = namespace(theta)
    L = loss.outputs
    V = xp.reshape(theta, (L, -1))

    def block(X: Array, y: Array, weights: Array | None) -> Array:
        x = with_constant(X, intercept, centre)
        b = x.shape[0]
        omega = xp.ones_like(x[:, 0]) if weights is None else weights
        A = loss.curvature(x @ V.T, y)
        BZ = xp.reshape(after_rows(B, x, L), (b, L, L, -1))
        # N_l = Z^T H^-1 Z, and N2 = |H^-1 Z|^2 as moves are measured
        N = xp.sum(BZ * x[:, None, None, :], axis=3)
        out = after_rows(seen.T, x, L)
        N2 = out @ xp.matrix_transpose(out)
        counted = omega > 0
        top = N[:, 0, 0] if L == 1 else xp.linalg.eigvalsh(N)[:, -1]
        leverage = xp.where(counted, xp.clip(top, 0.0, None), 0.0)
        # h = tr(A N), with the weight; `far` is |H^-1 Z A^(1/2)|, the root of tr(A N2)
        h = omega * xp.clip(xp.sum(A * N, axis=(1, 2)), 0.0, None)
        alpha = xp.clip(A[:, 0, 0] if L == 1 else xp.linalg.eigvalsh(A)[:, -1], 0.0, None)
        far = xp.sqrt(xp.clip(xp.sum(A * N2, axis=(1, 2)), 0.0, None))
        return xp.stack([leverage, h, omega * xp.sqrt(alpha) * far, omega * alpha], axis=1)

    return block


def _followed(risk: Risk, theta: Array, loss: ReducedLoss, chosen: Array) -> _FollowedMoves:
    xp = namespace(theta)
    X, y, weights = gather((risk.X, risk.y, risk.weights), chosen)
    assert X is not None
    assert y is not None
    x = with_constant(X, risk.intercept, risk.centre)
    omega = xp.ones_like(x[:, 0]) if weights is None else weights
    z = x @ xp.reshape(theta, (loss.outputs, -1)).T
    r, A = omega[:, None] * loss.gradient(z, y), omega[:, None, None] * loss.curvature(z, y)
    return _FollowedMoves(x, y, omega, z, r, A)


def _third(risk: Risk, theta: Array, loss: ReducedLoss, mask: Array, units: tuple[Array, Array]) -> Array:
    """T of the rows in the mask by its linear forms, in units of the outputs (L,) and of the parameters (p,): (f, q, p).

    Each cube is symmetric, so that a parameter is multiplied with itself and those after it, in rows that have it.
    """
    xp = namespace(theta)
    L, p = loss.outputs, int(theta.shape[0]) // loss.outputs
    V = xp.reshape(theta, (L, p))
    forms, triples = _linear_forms(L)
    by_output, shared = units
    sizes = np.prod(host(by_output)[np.array(triples)], axis=1)
    # from the entries T_abc of a row's third derivative to the factors of its cubes (w . v)^3, in units of the outputs
    to_forms = like(np.linalg.inv(forms[:, np.array(triples)].prod(axis=2).T) * sizes[None, :], theta, xp)
    shifts = like(STEP * np.eye(L), theta, xp)

    def block(X: Array, y: Array, weights: Array | None, mask: Array) -> tuple[Any, ...]:
        x = with_constant(X, risk.intercept, risk.centre)
        z, omega = x @ V.T, mask if weights is None else mask * weights
        # T_abc = dA_ab / dz_c, by central differences
        slopes = []
        for c in range(L):
            high, low = (loss.curvature(z + sign * shifts[c, :][None, :], y) for sign in (1.0, -1.0))
            slopes.append((omega / (2.0 * STEP))[:, None, None] * (high - low))
        by = xp.stack([slopes[c][:, a, b] for a, b, c in triples], axis=1) @ to_forms.T
        return _cubes(xp.astype(by, xp.float32), xp.astype(x * shared[None, :], xp.float32))

    parts = sum_rows(block, risk.X, risk.y, risk.weights, mask, most=ROWS)
    first, second = np.triu_indices(p)
    twice = np.where(first == second, 1.0, 2.0)[:, None]
    cubes = (_assembled([host(part) for part in parts], place, p) for place in range(forms.shape[0]))
    return xp.astype(like(np.stack([twice * cube[first, second] for cube in cubes]), theta, xp), xp.float32)


def _linear_forms(L: int) -> tuple[Any, list[tuple[int, int, int]]]:
    """As many vectors w (f, L) as a symmetric form of third degree in L numbers has entries, and those entries a <= b <= c.

    Every such form is a sum of cubes of w.v in one way, with w = e_a, e_a + e_b, e_a - e_b and e_a + e_b + e_c, so that
    products take f p^3 / 2 steps instead of (L p)^3 / 2.
    """
    unit = np.eye(L)
    two, three = list(combinations(range(L), 2)), list(combinations(range(L), 3))
    forms = [*unit, *(unit[a] + unit[b] for a, b in two), *(unit[a] - unit[b] for a, b in two)]
    forms += [unit[a] + unit[b] + unit[c] for a, b, c in three]
    return np.array(forms), list(combinations_with_replacement(range(L), 3))


def _cubes(by: Array, x: Array) -> tuple[Array, ...]:
    """Sums over rows of by (b, f) times x x x, for each parameter j with those from it on: p of (f (p - j), p - j)."""
    xp = namespace(x)
    found = []
    for j in range(x.shape[1]):
        has = xp.nonzero(x[:, j])[0]
        sparse = 2 * has.shape[0] < x.shape[0]
        rows, factor = (xp.take(x, has, axis=0), xp.take(by, has, axis=0)) if sparse else (x, by)
        after, factor = rows[:, j:], factor * rows[:, j : j + 1]
        own = xp.reshape(factor[:, :, None] * after[:, None, :], (rows.shape[0], by.shape[1] * after.shape[1]))
        found.append(xp.astype(own.T @ after, xp.float64))
    return tuple(found)


def _assembled(parts: list[Any], place: int, p: int) -> Any:
    """One cube (p, p, p) from what each parameter makes with those from it on, all cubes one below the other."""
    cube = np.empty((p, p, p))
    for j, part in enumerate(parts):
        some = part[place * (p - j) : (place + 1) * (p - j)]
        cube[j, j:, j:] = cube[j:, j, j:] = cube[j:, j:, j] = some
    return cube


def pairs_of_columns(x: Array) -> Array:
    """x_j x_k of rows for all j no larger than k, (m, q)."""
    return namespace(x).concat([x[:, j : j + 1] * x[:, j:] for j in range(x.shape[1])], axis=1)


def block_by_block(function: Callable[[Array], Array], moves: Array, p: int, more: int = 0) -> Array:
    """A function of moves (m, ...), of as many at a time as there is room for."""
    most, count = pairs_at_once(moves, p, more), moves.shape[0]
    parts = [function(moves[start : min(start + most, count), :]) for start in range(0, count, most)]
    return parts[0] if len(parts) == 1 else namespace(moves).concat(parts, axis=0)


def pairs_at_once(x: Array, p: int, more: int = 0) -> int:
    """Moves whose pairs of p parameters, and so many more numbers, are held at a time."""
    return max(512, block_elements(x) // (p * (p + 1) // 2 + more))

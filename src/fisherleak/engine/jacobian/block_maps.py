r"""Perturbation maps of the rows in a block, where they may differ from row to row: :math:`\delta x_i = E_i\,\delta`.

Preprocessing that is not affine (splines, polynomials) gives every row a map of its own. An attribute reaches its own
columns of the features only, so :math:`E_i` (p, m) is never formed: each attribute costs products with its columns alone.
What all rows share has a first dimension of 1 and is stretched by arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, device, host, like, namespace
from fisherleak._support.namespaces import Namespace
from fisherleak.engine.jacobian.perturbation import Attribute


@dataclass(frozen=True)
class Place:
    """Where an attribute moves the features: its columns, and its directions unless they differ from row to row."""

    columns: tuple[int, ...]
    size: int
    local: bool
    directions: NDArray[np.float64] | None
    gaps: bool = False
    """Whether rows tell only if a value is there."""

    def in_rows(self, given: Array) -> Array:
        """The directions of some rows, (b, columns, m), from what differs in them."""
        if not self.gaps:
            return given
        own = np.eye(len(self.columns)) if self.directions is None else np.array(self.directions)
        return given[:, None, None] * like(own, given, namespace(given))[None, :, :]


def places_of(attributes: Sequence[Attribute]) -> tuple[Place, ...]:
    """The attributes without what they hold of every row: small, so that they can travel to where the rows are."""
    return tuple(
        Place(a.columns, a.size, a.local, None if a.local and not a.gaps else a.directions, a.gaps) for a in attributes
    )


def merged(places: Sequence[Place]) -> tuple[Place, ...]:
    """Runs of plain columns as one place."""
    runs: list[Place] = []
    for place in places:
        plain = not place.local and place.directions is None
        if plain and runs and not runs[-1].local and runs[-1].directions is None:
            columns = (*runs[-1].columns, *place.columns)
            runs[-1] = Place(columns, len(columns), False, None)
        else:
            runs.append(place)
    return tuple(runs)


@dataclass(frozen=True)
class BlockMap:
    """E_i of the rows in a block.

    Parameters
    ----------
    places : tuple of Place
    size : int
        p, the number of parameters.
    given : sequence of arrays (b, columns, m)
        The directions of the local attributes in these rows, in order; (b,) of those with gaps.
    reference : array
        Of the library and the device of the rows.
    """

    places: tuple[Place, ...]
    size: int
    given: Sequence[Array]
    reference: Array
    scale: Array | None = None
    """(b, p): E_i is diag(scale_i) times what the places say."""
    known_runs: tuple[Place, ...] | None = None
    """The places merged, where somebody has done it."""

    @property
    def runs(self) -> tuple[Place, ...]:
        return merged(self.places) if self.known_runs is None else self.known_runs

    def after(self, B: Array) -> Array:
        """B E_i as rows: (b or 1, m, k) for B of shape (k, p)."""
        xp = namespace(B)
        parts = []
        for place, directions in self._directions(self.runs):
            own = xp.take(B, self._columns(place), axis=1).T
            if directions is None:
                scale = None if self.scale is None else xp.take(self.scale, self._columns(place), axis=1)
                parts.append(own[None, :, :] if scale is None else scale[:, :, None] * own[None, :, :])
                continue
            directions = self._scaled(place, directions)
            flat = xp.matrix_transpose(directions)
            moved = xp.reshape(flat, (-1, flat.shape[-1])) @ own
            parts.append(xp.reshape(moved, (flat.shape[0], place.size, B.shape[0])))
        return _joined(parts) if parts else xp.zeros((1, 0, B.shape[0]), dtype=B.dtype, device=device(B))

    def pull(self, theta: Array) -> Array:
        """E_i^T theta_i, (b or 1, m), for theta of shape (b or 1, p)."""
        xp = namespace(theta)
        theta = theta if self.scale is None else theta * self.scale
        parts = []
        for place, directions in self._directions(self.runs):
            own = xp.take(theta, self._columns(place), axis=1)
            if directions is None:
                parts.append(own)
            elif own.shape[0] == 1 and place.size == 1:
                parts.append(directions[:, :, 0] @ xp.permute_dims(own, (1, 0)))
            else:
                parts.append(xp.sum(own[:, :, None] * directions, axis=1))
        return _joined(parts) if parts else xp.zeros((1, 0), dtype=theta.dtype, device=device(theta))

    def push(self, change: Array) -> Array:
        """E_i change_i, (b or 1, p), for changes of shape (b or 1, m)."""
        xp = namespace(change)
        parts: list[Array] = []
        columns: list[int] = []
        start = 0
        for place, directions in self._directions(self.runs):
            own = change[:, start : start + place.size]
            start += place.size
            parts.append(own if directions is None else xp.sum(directions * own[:, None, :], axis=2))
            columns += place.columns
        # attributes may share columns, so their parts are added up by a product
        joined = _joined(parts) if parts else change
        moved = self._placed(joined, columns)
        return moved if self.scale is None else moved * self.scale

    def _placed(self, values: Array, columns: Sequence[int]) -> Array:
        """Values of some columns among all p: a product where columns repeat or are out of order."""
        xp = namespace(values)
        if list(columns) != list(range(len(columns))):
            return values @ like(np.eye(self.size)[list(columns)], values, xp)
        rest = xp.zeros((values.shape[0], self.size - len(columns)), dtype=values.dtype, device=device(values))
        return xp.concat([values, rest], axis=1)

    def outer(self, other: BlockMap, weights: Array) -> Array:
        """sum_i weights_i E_i F_i^T over the block, (p, q), with F the map of another release of the same attributes."""
        xp = namespace(weights)
        total = xp.zeros((self.size, other.size), dtype=weights.dtype, device=device(weights))
        plain: list[tuple[int, int]] = []
        single: list[tuple[int, int]] = []
        values: list[Array] = []
        sides = zip(self._directions(self.places), other._directions(other.places), strict=True)
        for (mine, D), (theirs, F) in sides:
            if D is None and F is None:
                plain += zip(mine.columns, theirs.columns, strict=True)
                continue
            left, right = self._flat(mine, D, weights), other._flat(theirs, F, None)
            if left.shape[1] != right.shape[1]:
                rows = weights.shape[0]
                left, right = (_repeated(x, rows * mine.size, mine.size, xp) for x in (left, right))
            block = left @ right.T
            if block.shape == (1, 1):
                single.append((mine.columns[0], theirs.columns[0]))
                values.append(block[0, :])
            else:
                ends = _chosen(self.size, mine.columns, weights), _chosen(other.size, theirs.columns, weights)
                total = total + ends[0] @ block @ ends[1].T
        if plain:
            values.append(self._along(other, plain, weights))
        return total if not values else total + _spread(xp.concat(values), [*single, *plain], total)

    def _along(self, other: BlockMap, pairs: Sequence[tuple[int, int]], weights: Array) -> Array:
        """sum_i weights_i E_i F_i^T at some pairs of columns that are moved as they are: (pairs,)."""
        xp = namespace(weights)
        found = weights[:, None]
        for scale, columns in zip((self.scale, other.scale), zip(*pairs, strict=True), strict=True):
            if scale is not None:
                found = found * xp.take(scale, like(np.asarray(columns, dtype=np.int64), weights, xp), axis=1)
        return xp.broadcast_to(xp.sum(found, axis=0), (len(pairs),))

    def singles(self) -> Iterator[tuple[Array, Array]]:
        """Columns (k,) and directions (b or 1, k) of every place, all of them of one direction."""
        xp = namespace(self.reference)
        for place, directions in self._directions(self.places):
            one = xp.ones((1, 1), dtype=self.reference.dtype, device=device(self.reference))
            yield self._columns(place), one if directions is None else directions[:, :, 0]

    def _flat(self, place: Place, directions: Array | None, weights: Array | None) -> Array:
        """Directions of all rows side by side, times weights: (columns, b m); what rows share is kept once, times the sum."""
        xp = namespace(self.reference)
        if directions is None:
            directions = like(np.eye(len(place.columns)), self.reference, xp)[None, :, :]
        directions = self._scaled(place, directions)
        if weights is not None:
            directions = directions * weights[:, None, None]
        return xp.reshape(xp.permute_dims(directions, (1, 0, 2)), (directions.shape[1], -1))

    def _scaled(self, place: Place, directions: Array) -> Array:
        if self.scale is None:
            return directions
        return directions * namespace(directions).take(self.scale, self._columns(place), axis=1)[:, :, None]

    def _columns(self, place: Place) -> Array:
        return like(np.asarray(place.columns, dtype=np.int64), self.reference, namespace(self.reference))

    def _directions(self, places: Sequence[Place]) -> Iterator[tuple[Place, Array | None]]:
        """Every place with its directions: (b, columns, m), (1, columns, m) where rows share them, None for the identity."""
        given = iter(self.given)
        for place in places:
            if place.local:
                yield place, place.in_rows(next(given))
            elif place.directions is None:
                yield place, None
            else:
                # a copy: torch warns of arrays that cannot be written to
                yield place, like(np.array(place.directions), self.reference, namespace(self.reference))[None, :, :]


def _joined(parts: list[Array]) -> Array:
    """Along the second axis; what rows share is repeated where something else is not."""
    if len(parts) == 1:
        return parts[0]
    xp = namespace(parts[0])
    rows = max(part.shape[0] for part in parts)
    return xp.concat([xp.broadcast_to(part, (rows, *part.shape[1:])) for part in parts], axis=1)


def _repeated(flat: Array, width: int, size: int, xp: Namespace) -> Array:
    return flat if flat.shape[1] == width else xp.tile(flat, (1, width // size))


def _chosen(size: int, columns: Sequence[int], reference: Array) -> Array:
    """Columns of the identity, (size, columns)."""
    found = np.zeros((size, len(columns)))
    found[list(columns), np.arange(len(columns))] = 1.0
    return like(found, reference, namespace(reference))


def _spread(values: Array, places: Sequence[tuple[int, int]], reference: Array) -> Array:
    """A matrix of the shape of another with values at some places, added up where a place recurs."""
    xp = namespace(reference)
    rows, columns = (list(side) for side in zip(*places, strict=True))
    if rows != columns or reference.shape[0] != reference.shape[1]:
        ends = (_chosen(size, side, values) for size, side in zip(reference.shape, (rows, columns), strict=True))
        return (next(ends) * values[None, :]) @ next(ends).T
    sums = like(np.bincount(rows, weights=host(values), minlength=reference.shape[0]), values, xp)
    return xp.eye(sums.shape[0], dtype=values.dtype, device=device(values)) * sums[None, :]

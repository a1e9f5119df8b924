"""Products of maps of two releases, against the maps written out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fisherleak.engine.jacobian.block_maps import BlockMap, Place

Vector = NDArray[np.float64]
ROWS, SIZE = 7, 6


def written_out(block: BlockMap) -> Vector:
    """E_i of every row, (b, p, m)."""
    count = sum(place.size for place in block.places)
    unit = [np.asarray(block.push(np.tile(row, (ROWS, 1)))) for row in np.eye(count)]
    return np.stack(unit, axis=2)


def block_of(columns: list[tuple[int, ...]], rng: np.random.Generator, scaled: bool) -> BlockMap:
    """Plain columns, a mixture of two, a number with gaps, and one that differs from row to row."""
    plain = [Place(own, len(own), False, None) for own in columns[:-3]]
    mixed = Place(columns[-3], 2, False, rng.normal(size=(len(columns[-3]), 2)))
    gaps, local = Place(columns[-2], 1, True, None, gaps=True), Place(columns[-1], 1, True, None)
    given = [rng.integers(0, 2, ROWS).astype(float), rng.normal(size=(ROWS, len(columns[-1]), 1))]
    scale = rng.normal(size=(ROWS, SIZE)) if scaled else None
    return BlockMap((*plain, mixed, gaps, local), SIZE, given, np.zeros(1), scale)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(
    "theirs",
    [
        [(0,), (1,), (0,), (2, 3), (4,), (5,)],
        [(5,), (4,), (3,), (0, 2, 3), (1,), (2, 4)],
    ],
)
def test_outer_products_add_up_over_rows(theirs: list[tuple[int, ...]], scaled: bool) -> None:
    """Columns that two attributes share, and columns that lie elsewhere in the other release."""
    rng = np.random.default_rng(len(theirs[-1]) + 2 * scaled)
    mine = [(0,), (1,), (0,), (2, 3), (4,), (5,)]
    one, two = block_of(mine, rng, scaled), block_of(theirs, rng, scaled)
    weights = rng.normal(size=ROWS)
    E, F = written_out(one), written_out(two)
    expected = np.einsum("i,ipm,iqm->pq", weights, E, F)
    np.testing.assert_allclose(one.outer(two, weights), expected, rtol=1e-12, atol=1e-12)

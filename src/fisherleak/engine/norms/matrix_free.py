r"""Norms of Jacobians that share no eigenbasis: several releases, or preprocessing that is not affine.

The Jacobians of a block of examples are written out and the releases stacked, so their information adds up exactly
(paper, section 3.1): :math:`\sum_k J_k^T J_k = J^T J` with J the stack. Costs O(n d^3) where ``norms`` costs O(n d^2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fisherleak._support.arrays import Array, namespace
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.perturbation import Attribute
from fisherleak.rows import block_elements, map_rows

__all__ = ["Product", "example_norms", "needed", "set_product"]

BLOCKS = 2
"""Values of the written-out Jacobians at a time, in blocks of the usual size."""


@dataclass(frozen=True)
class Product:
    """J_S J_S^T as a sum over rows: a function of blocks, and one that makes the matrix of the sums."""

    arrays: tuple[Array | None, ...]
    block: Callable[..., tuple[Any, ...]]
    finish: Callable[[tuple[Any, ...]], Array]
    most: int | None


def needed(parts: Sequence[Jacobian], attributes: Sequence[Attribute]) -> bool:
    """Whether the fixed-diagonal form of ``norms`` does not apply."""
    return len(parts) > 1 or any(attribute.local for J in parts for attribute in J.named(attributes))


def example_norms(parts: Sequence[Jacobian], attributes: Sequence[Attribute], label: bool) -> Array:
    """||J_i|| of the stack, from the smaller of its two Gram matrices: (n,)."""
    xp = namespace(parts[0].B)
    arrays, write, most = _stack(parts, attributes, label)

    def block(*rows: Array | None) -> Array:
        J = write(*rows)
        T = xp.matrix_transpose(J)
        G = T @ J if J.shape[2] <= J.shape[1] else J @ T
        return xp.sqrt(xp.clip(xp.linalg.eigvalsh(G)[:, -1], 0.0, None))

    return map_rows(block, *arrays, most=most)


def set_product(parts: Sequence[Jacobian], attributes: Sequence[Attribute], label: bool) -> Product:
    """sum_i J_i J_i^T of the stack, over a set of examples: (sum of p, sum of p)."""
    xp = namespace(parts[0].B)
    arrays, write, most = _stack(parts, attributes, label)

    def block(*chosen: Array | None) -> tuple[Any, ...]:
        J = xp.permute_dims(write(*chosen), (1, 0, 2))
        flat = xp.reshape(J, (J.shape[0], -1))
        return (flat @ flat.T,)

    return Product(tuple(arrays), block, lambda sums: sums[0], most)


def _stack(
    parts: Sequence[Jacobian], attributes: Sequence[Attribute], label: bool
) -> tuple[list[Array | None], Callable[..., Array], int]:
    """Row arrays of all releases, a function from their blocks to (b, sum of p, m + label), and a block's rows."""
    xp = namespace(parts[0].B)
    chosen = [J.named(attributes) for J in parts]
    groups = [J.arrays_for(names) for J, names in zip(parts, chosen, strict=True)]
    writers = [J.dense(names, label) for J, names in zip(parts, chosen, strict=True)]

    counts = [len(group) for group in groups]

    def write(*rows: Array | None) -> Array:
        start, blocks = 0, []
        for count, writer in zip(counts, writers, strict=True):
            blocks.append(writer(*rows[start : start + count]))
            start += count
        return blocks[0] if len(blocks) == 1 else xp.concat(blocks, axis=1)

    width = sum(attribute.size for attribute in attributes) + int(label)
    values = width * sum(J.B.shape[0] for J in parts)
    most = max(1, BLOCKS * block_elements(parts[0].B) // max(values, 1))
    return [x for group in groups for x in group], write, most

"""Etas about the inputs of a network: everything a leakage says, and maps of where a picture leaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fisherleak._support.arrays import Array, host, namespace
from fisherleak._support.numbers import number
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.nn.through import Through
from fisherleak.rows.summary import digest

if TYPE_CHECKING:
    import pandas

__all__ = ["InputLeakage"]


@dataclass(frozen=True, repr=False)
class InputLeakage(Leakage):
    """What a release reveals about the inputs of a network: a leakage whose attributes are the values of one input.

    Beside the methods of :class:`fisherleak.Leakage`: :meth:`map` (where a picture leaks) and :meth:`region` (eta of the
    values under a mask).
    """

    _information: Through = field(repr=False)

    def map(self, patch: int | Sequence[int] = 1) -> Array:
        """Eta of every patch of every input: where it leaks.

        Parameters
        ----------
        patch : int or sequence of int
            Side of a patch along each spatial axis: the last two of an input of two axes or more (channels of a patch go
            together), its only one else. Patches at the far edge may be smaller. 1 is one pixel.

        Returns
        -------
        array of shape (n, rows of patches, columns of patches), or (n, patches) for inputs of one axis
        """
        groups, shape = _patches(self._information.network.shape, patch)
        attributes = [Attribute(f"patch {j}", columns) for j, columns in enumerate(groups)]
        cells = self._information.cell_norms(attributes) / self._scale
        return namespace(cells).reshape(cells, (self.n, *shape))

    def region(self, mask: Any) -> Array:
        """Eta of the values of each input under a mask of the shape of one input, taken jointly: (n,)."""
        chosen = np.asarray(host(mask) if hasattr(mask, "detach") else mask)
        if chosen.dtype != bool or chosen.shape != self._information.network.shape or not chosen.any():
            raise InvalidInputError(
                f"mask must be true somewhere and have the shape of one input, {self._information.network.shape}; got "
                f"{chosen.dtype} of shape {chosen.shape}."
            )
        columns = np.flatnonzero(chosen.ravel()).tolist()
        return self._information.example_norms([Attribute("region", columns)], False) / self._scale

    def membership(self, tolerance: float = 0.0) -> Array:
        raise InvalidInputError(
            "membership is about rows of a table and a model fitted on them; ask the leakage of the head about its features."
        )

    def to_frame(self) -> pandas.DataFrame:
        """A pandas table, one row each: ``eta``."""
        import pandas

        return pandas.DataFrame({"eta": host(self.per_example())})

    def summary(self) -> str:
        """A printable digest, with the assumptions under which its numbers hold."""
        eta = digest(self.per_example())
        spread = "" if eta.sd is None else f" ± {number(eta.sd, 4)}"
        lines = [
            f"Fisher information loss of {self._what()}"
            + ("" if self._noise is None else f" with noise {self._noise!r}"),
            f"  about         {self.n} inputs of shape {self._information.network.shape}",
            f"  per example   mean {number(eta.mean, 4)}{spread}, {number(eta.low, 4)} to {number(eta.high, 4)}",
            "  most exposed  " + ", ".join(f"row {row}: {number(value, 4)}" for row, value in eta.top),
            f"  error         {self._information.error:.0e} relative; the largest is certified when noise is calibrated",
            *(f"  note          {note}" for note in self._notes),
            "Holds for unbiased attackers who know the network and all other data, to first order in the input.",
            "It is not differential privacy, and whether a record is in the data is another question.",
        ]
        return "\n".join(lines)

    def _what(self) -> str:
        return "a release"


def _patches(shape: tuple[int, ...], patch: int | Sequence[int]) -> tuple[list[list[int]], tuple[int, ...]]:
    """The columns of each patch, and how the patches lie."""
    spatial = shape[-2:] if len(shape) > 1 else shape
    sides = [patch] * len(spatial) if isinstance(patch, (int, np.integer)) else list(patch)
    whole = all(isinstance(side, (int, np.integer)) and side >= 1 for side in sides)
    if len(sides) != len(spatial) or not whole:
        raise InvalidInputError(f"patch must be a whole number, 1 or more, or {len(spatial)} of them; got {patch!r}.")
    counts = tuple(-(-size // int(side)) for size, side in zip(spatial, sides, strict=True))
    places = np.indices(spatial)
    number = np.ravel_multi_index(tuple(axis // int(side) for axis, side in zip(places, sides, strict=True)), counts)
    numbers = np.broadcast_to(number, shape).ravel()
    order = np.argsort(numbers, kind="stable")
    edges = np.searchsorted(numbers[order], np.arange(1, int(np.prod(counts))))
    return [part.tolist() for part in np.split(order, edges)], counts

r"""Etas about the inputs of a network: everything a leakage says, and maps of where a picture leaks.

Also here: noisy embeddings: what :math:`t = f(x) + b` tells about one input x.

.. math:: \eta = \|W\, \partial f / \partial x\|_2 / \sigma

with :math:`W^T W` the information of the noise at scale 1. Every input is released by itself, so that the information about
several inputs is block diagonal, and eta of a set is the largest of its members'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fisherleak._support.arrays import Array, host, namespace
from fisherleak._support.namespaces import VectorLike
from fisherleak._support.numbers import number
from fisherleak.engine.jacobian.perturbation import Attribute, as_attributes
from fisherleak.engine.noise import Noise, check_noise
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.models import as_table
from fisherleak.nn.heads import Whitening
from fisherleak.nn.information_through_network import Through
from fisherleak.nn.row_maps import Module, Tensor, as_given, row_map, torch
from fisherleak.rows.selection import rows_by_group
from fisherleak.rows.summary import digest

if TYPE_CHECKING:
    import pandas


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


def encoding(module: Module, X: Any, noise: Noise, attributes: Any = None) -> Encoded:
    r"""Measure what noisy embeddings of inputs reveal about these inputs.

    Parameters
    ----------
    module : torch module, or function
        The encoder f: from a batch (n, ...) to embeddings (n, ...). Rows must not touch each other; layers that behave
        differently in training are refused unless in evaluation mode. A frozen copy in float64 is measured.
    X : array of shape (n, ...)
        Inputs of any shape, of NumPy or torch; results are of the same kind.
    noise : Noise
        Added to every value of an embedding, flattened.
    attributes : optional
        Names or sets of the values of one input, flattened, as in :func:`fisherleak.measure`; each is its own if not given.

    Returns
    -------
    Encoded
        With the methods of :class:`fisherleak.Leakage`; ``fl.calibrate(leak, eta=...)`` gives the noise that keeps a limit.

    Notes
    -----
    **What holds, and when.** eta is the root of the largest eigenvalue of the Fisher information of one noisy embedding about
    its input, exact to the error stated (``summary``): 1 / eta is the least standard deviation of an unbiased attacker who
    knows the network. At a kink (ReLU at zero, say) the derivative is the one that torch uses. The network is taken as
    public; what its training reveals is another release. Products with vectors only, so that inputs may have many values;
    rows that Lanczos' method does not settle are written out, or raised by their error where they are too large for that.

    Examples
    --------
    >>> import fisherleak as fl
    >>> leak = fl.nn.encoding(module, pictures, fl.Gaussian(0.1))  # doctest: +SKIP
    >>> leak.map(patch=4)                                          # doctest: +SKIP
    """
    check_noise(noise)
    network = row_map(module, X)
    table = as_table(as_given(network.X, X))
    records = as_attributes(attributes, tuple(network.X.shape), table.names)
    if any(attribute.directions is not None for attribute in records):
        raise InvalidInputError("attributes of an input are sets of its values; directions are not supported here.")
    return Encoded(Through(network, X, records, _whitening(noise, network.outputs, network.X)), noise, table)


def _whitening(noise: Noise, outputs: int, beside: Tensor) -> Whitening | None:
    W = noise.unit_information_root(outputs)
    if W is None:
        return None
    return Whitening(torch.as_tensor(host(W).copy(), dtype=torch.float64, device=beside.device)[None])


@dataclass(frozen=True, repr=False)
class Encoded(InputLeakage):
    """What noisy embeddings reveal about their inputs. Made by :func:`fisherleak.nn.encoding`.

    An input has no label, and inputs are released one by one: eta of a set of inputs is the largest of its members'.
    """

    def with_noise(self, noise: Noise) -> Encoded:
        """The same embeddings with other noise."""
        check_noise(noise)
        through = self._information
        after = _whitening(noise, through.network.outputs, through.network.X)
        return replace(self, _information=replace(through, after=after), _noise=noise)

    def per_label(self) -> Array:
        raise InvalidInputError("An input of an encoder has no label; ask per_example().")

    def per_attribute(self) -> Array:
        """Eta of each attribute over all inputs, (number of attributes,): the largest of a column of :meth:`per_cell`."""
        cells = self.per_cell()
        return namespace(cells).max(cells, axis=0)

    def of(
        self, rows: Any = None, attributes: Sequence[str | int] | str | int | None = None, label: bool | None = None
    ) -> float:
        """Eta of any inputs x any attributes: the largest of the inputs'."""
        etas = host(self.per_example(attributes, label))
        positions = self._rows(rows)
        return float(etas.max() if positions is None else etas[host(positions)].max())

    def by_group(self, labels: VectorLike) -> dict[Any, float]:
        """Eta of each group of inputs, a mapping from group to the largest eta in it."""
        etas = host(self.per_example())
        return {group: float(etas[host(rows)].max()) for group, rows in rows_by_group(labels, self.n).items()}

    def fim(
        self, rows: Any = None, attributes: Sequence[str | int] | str | int | None = None, label: bool | None = None
    ) -> Array:
        """The Fisher information matrix of a few values, block diagonal by input."""
        positions = self._rows(rows)
        places = list(range(self.n)) if positions is None else [int(row) for row in host(positions)]
        blocks = [torch.as_tensor(Leakage.fim(self, [row], attributes, label)) for row in places]
        return as_given(torch.block_diag(*blocks), self._information.given)

    def _what(self) -> str:
        return "an embedding"

    def __repr__(self) -> str:
        return f"Encoded({self.n} inputs of shape {self._information.network.shape}, {self.noise!r})"

r"""Noisy embeddings: what :math:`t = f(x) + b` tells about one input x.

.. math:: \eta = \|W\, \partial f / \partial x\|_2 / \sigma

with :math:`W^T W` the information of the noise at scale 1. Every input is released by itself, so that the information about
several inputs is block diagonal, and eta of a set is the largest of its members'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fisherleak._support.arrays import Array, host, namespace
from fisherleak._support.namespaces import VectorLike
from fisherleak.engine.jacobian.perturbation import as_attributes
from fisherleak.engine.noise import Noise, check_noise
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.models import as_table
from fisherleak.nn.heads import Whitening
from fisherleak.nn.input_leakage import InputLeakage
from fisherleak.nn.library import Module, Tensor, torch
from fisherleak.nn.row_maps import as_given, row_map
from fisherleak.nn.through import Through
from fisherleak.rows.selection import rows_by_group

__all__ = ["Encoded", "encoding"]


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

r"""What a release makes of a network's outputs: :math:`R_i`, written out or as :math:`R_i^T R_i`, and the label beside it.

A head's Jacobian by its features is that of ``fl.measure``. A model of K outputs releases about K d numbers, so that its small
matrices :math:`R_i^T R_i`, (d + labels) on a side, come from a few products for a block of rows (``engine.norms.output_sets``)
and no :math:`R_i` is written. Several heads about the same inputs, on one network or on several, are one head on the outputs of
all networks side by side: blocks on the diagonal, with the label's columns one above the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from fisherleak._support.arrays import Array, host, namespace
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.nn.row_maps import RowMap, Tensor, torch
from fisherleak.rows import gather


class After(Protocol):
    """What follows a network's k outputs, row by row."""

    @property
    def released(self) -> int:
        """q, numbers that are released."""

    @property
    def labels(self) -> int:
        """Columns of the label, after those of the outputs; 0 where there is none."""

    @property
    def values(self) -> int:
        """Values that a row takes, of all that is made for it."""

    def written(self, rows: Tensor) -> Tensor:
        """R_i of some rows, (b or 1, q, k + labels)."""

    def gram(self, rows: Tensor) -> tuple[Tensor, Tensor] | None:
        """R_i^T R_i, (b, k + labels, k + labels), and the size of the terms that made it, (b,); None where R_i is small."""


@dataclass(frozen=True)
class Whitening:
    """The root of a noise's information on an embedding, the same for all rows."""

    root: Tensor
    """(1, k, k)."""

    @property
    def released(self) -> int:
        return int(self.root.shape[1])

    @property
    def labels(self) -> int:
        return 0

    @property
    def values(self) -> int:
        return self.released

    def written(self, rows: Tensor) -> Tensor:
        return self.root

    def gram(self, rows: Tensor) -> None:
        return None


@dataclass(frozen=True)
class Head:
    """One model on features, whitened by its noise at scale 1."""

    leakage: Leakage
    """About the features."""
    network: RowMap
    weight: float = 1.0
    """On the whole of R: one over the scale of the noise, where several releases are added."""
    unit: float = 1.0
    """By how much its label moves where the label that is asked for moves by one."""

    @cached_property
    def released(self) -> int:
        return int(self.written(torch.zeros(1, dtype=torch.int64)).shape[1])

    @property
    def values(self) -> int:
        size = self.network.outputs + self.labels
        return self._grams[1] if self._grams is not None else (self.released + size) * size

    @cached_property
    def labels(self) -> int:
        return measurement(self.leakage).information.releases[0].jacobian.label_size

    def written(self, rows: Tensor) -> Tensor:
        information = measurement(self.leakage).information
        return self._here(information.written_out(information.attributes, True, self._places(rows))) * self._columns

    def gram(self, rows: Tensor) -> tuple[Tensor, Tensor] | None:
        if self._grams is None:
            return None
        jacobian = measurement(self.leakage).information.releases[0].jacobian
        G, terms = self._grams[0](*gather(jacobian.arrays, self._places(rows)))
        by = self._columns
        return self._here(G) * by[:, None] * by[None, :], self._here(terms) * self.weight**2

    @cached_property
    def _grams(self) -> tuple[Callable[..., tuple[Array, Array]], int] | None:
        """From a block of rows to its small matrices; None for one output, and for features whose map differs by row."""
        information: Any = measurement(self.leakage).information
        if not information.several or any(a.local for a in information.attributes):
            return None
        grams: tuple[Callable[..., tuple[Array, Array]], int] = information.grams(information.attributes, True)
        return grams

    @cached_property
    def _columns(self) -> Tensor:
        """The factor of each column of R, (k + labels,)."""
        by = torch.full((self.network.outputs + self.labels,), self.weight, dtype=torch.float64)
        by[self.network.outputs :] *= self.unit
        return by.to(self.network.X.device)

    def _places(self, rows: Tensor) -> Array:
        reference = measurement(self.leakage).information.rows[0]
        if isinstance(reference, torch.Tensor):
            return rows.to(reference.device)
        return namespace(reference).asarray(host(rows))

    def _here(self, values: Any) -> Tensor:
        values = values if isinstance(values, torch.Tensor) else torch.as_tensor(host(values))
        return values.to(dtype=torch.float64, device=self.network.X.device)


@dataclass(frozen=True)
class Heads:
    """Several heads, each on some of the outputs of networks that stand side by side."""

    heads: tuple[Head, ...]
    starts: tuple[int, ...]
    """The first of each head's outputs."""
    outputs: int
    """k, of all networks."""

    @property
    def released(self) -> int:
        return sum(head.released for head in self.heads)

    @property
    def labels(self) -> int:
        return self.heads[0].labels

    @property
    def values(self) -> int:
        return (self.outputs + self.labels) ** 2 + sum(head.values for head in self.heads)

    def written(self, rows: Tensor) -> Tensor:
        parts = []
        for head, places in zip(self.heads, self._places(), strict=True):
            R = head.written(rows)
            whole = R.new_zeros(R.shape[0], R.shape[1], self.outputs + self.labels)
            whole[:, :, places] = R
            parts.append(whole)
        return torch.cat(parts, dim=1)

    def gram(self, rows: Tensor) -> tuple[Tensor, Tensor] | None:
        if all(head._grams is None for head in self.heads):
            return None
        size = self.outputs + self.labels
        total: Any = torch.zeros(rows.shape[0], size, size, dtype=torch.float64, device=self.heads[0].network.X.device)
        terms: Any = 0.0
        for head, places in zip(self.heads, self._places(), strict=True):
            G, own = head.gram(rows) or _squared(head.written(rows))
            total[:, places[:, None], places[None, :]] += G
            terms = terms + own
        return total, terms

    def _places(self) -> list[Tensor]:
        device = self.heads[0].network.X.device
        labels = torch.arange(self.outputs, self.outputs + self.labels, device=device)
        spans: Sequence[tuple[int, int]] = [
            (start, start + head.network.outputs) for start, head in zip(self.starts, self.heads, strict=True)
        ]
        return [torch.cat([torch.arange(*span, device=device), labels]) for span in spans]


def _squared(R: Tensor) -> tuple[Tensor, Tensor]:
    G = R.transpose(1, 2) @ R
    return G, torch.einsum("bii->b", G)

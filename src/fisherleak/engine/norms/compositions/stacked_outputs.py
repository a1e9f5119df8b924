"""Several releases of models of several outputs about the same data: their Jacobians one above the other.

The information of independent releases adds up, so the small matrices of an example are added (``output_grams``); sets of
examples are summed from Jacobians that are written out block by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fisherleak._support.arrays import Array, host, like, namespace
from fisherleak.engine.information import Product, Releases, certain_norm, set_norm
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.norms.several_outputs import (
    SeveralOutputs,
    example_squares,
    refuse_several,
    written_product,
    written_rows,
)
from fisherleak.rows import map_rows

__all__ = ["StackedOutputs"]


@dataclass(frozen=True)
class StackedOutputs(Releases):
    """The information of several independent releases."""

    releases: tuple[SeveralOutputs, ...]

    @property
    def jacobians(self) -> tuple[Jacobian, ...]:
        """None of one output."""
        refuse_several(self.releases[0], "this")
        raise AssertionError

    @property
    def error(self) -> float:
        return max(each.error for each in self.releases)

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        xp = namespace(self.releases[0].jacobian.B)
        squares = example_squares(self.releases, attributes, label)
        return map_rows(lambda x: xp.sqrt(xp.clip(x, 0.0, None)), squares)

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        xp = namespace(self.releases[0].jacobian.B)
        single = all(a.size == 1 for a in attributes)
        if single:
            cells = [each.cell_norms(attributes) for each in self.releases]
            return map_rows(lambda *parts: xp.sqrt(sum(x * x for x in parts)), *cells, width=len(attributes))
        norms = [self.example_norms([attribute], False) for attribute in attributes]
        return map_rows(lambda *parts: xp.stack(parts, axis=1), *norms, width=len(attributes))

    def attribute_norms(self, attributes: Sequence[Attribute]) -> Array:
        B = self.releases[0].jacobian.B
        return like([set_norm(self, [attribute], False, None) for attribute in attributes], B, namespace(B))

    def set_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        return written_product(self.releases, attributes, label)

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        B = self.releases[0].jacobian.B
        J = host(self.written_out(attributes, label, like([row], B, namespace(B))))[0]
        return certain_norm(J, norm, self.error)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        return written_rows(self.releases, attributes, label, rows)

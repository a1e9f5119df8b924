r"""What a balanced model reveals with its weights: they follow from the data, and eta counts that.

Weights of IRFIL are found in ``ROUNDS`` reweightings, each from the etas of a fit. A value of a row moves all of these fits
and, through them, every weight; ``protection.whole_procedure`` has the exact derivative of the last parameters,

.. math:: J_i = \frac{d\,\theta(\omega(D), D)}{d\,(x_i, y_i)} ,

with the scales of columns in the penalty counted where preprocessing is. Eta with the weights held fixed can be far smaller, or
larger: a limit is on :math:`\|J_i\|`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fisherleak.engine.noise import Noise
from fisherleak.errors import NotConvergedError
from fisherleak.protection.irfil.whole_procedure import Procedure

__all__ = ["ROUNDS", "Weighting"]

ROUNDS = 15
"""Reweightings of a balanced model."""
SAME = 1e-6
"""Relative difference up to which weights found twice are the same."""
ERROR = 1e-5
"""Of these etas, relative: differences stand in for the loss's third derivatives."""
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Weighting:
    """How the weights of a balanced model came about, in standard units."""

    procedure: Procedure = field(repr=False)
    weights: Vector = field(repr=False)
    """Of each row, in the last fit."""

    @cached_property
    def _derivative(self) -> Vector:
        rounds = self.procedure.run()
        if not np.allclose(rounds[-1].weights, self.weights, rtol=SAME, atol=0.0):
            raise NotConvergedError(
                "The weights of IRFIL differ from one computation to the next, and no eta that counts them is certain: use a "
                "larger `l2`, or leave `balance` out."
            )
        return self.procedure.derivative(rounds)

    def check(self) -> None:
        """Refuse weights that cannot be counted."""
        _ = self._derivative

    def etas(self, noise: Noise, column: str | None = None) -> Vector:
        """Of each row, or of each person, with the weights counted; of one column alone, or of everything."""
        J, names = self._derivative, [attribute.name for attribute in self.procedure.attributes]
        if column is not None:
            sizes, place = [attribute.size for attribute in self.procedure.attributes], names.index(column)
            J = J[:, :, sum(sizes[:place]) : sum(sizes[: place + 1])]
        eta, owners = self.procedure.norms(J, noise)[0], self.procedure.owners
        return eta if owners is None else eta[np.unique(owners, return_index=True)[1]]

    def largest(self, noise: Noise, column: str | None = None) -> float:
        """One that no eta is above, rounding and differences included."""
        return float(np.max(self.etas(noise, column))) * (1.0 + ERROR)

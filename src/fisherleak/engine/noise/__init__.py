r"""Noise added to the released parameters: a record that says its Fisher information, its density and how it is drawn.

For location noise, :math:`w' = w^* + b`, the information of the release about the data is
:math:`J^T I_b J` with :math:`I_b` the Fisher information of b about its own location (paper,
equation 12, for :math:`I_b = I / \sigma^2`). A noise of ``scale`` s has :math:`I_b(s) = I_b(1) / s^2`.

Adding a noise is adding one file and its record to ``NOISES``; every property test runs on it at once. May import what
``engine`` may, and no other folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fisherleak._support.checks import nearest
from fisherleak.engine.noise.add_noise_and_round import drawn, grid_of, released
from fisherleak.engine.noise.bounded import Bounded
from fisherleak.engine.noise.calibration_record import Noise, check_noise
from fisherleak.engine.noise.gaussian import Gaussian
from fisherleak.engine.noise.laplace import Laplace
from fisherleak.errors import InvalidInputError

__all__ = [
    "NOISES",
    "Bounded",
    "Gaussian",
    "Laplace",
    "Noise",
    "check_noise",
    "drawn",
    "grid_of",
    "noise_from_record",
    "released",
]

NOISES: dict[str, type[Noise]] = {"Gaussian": Gaussian, "Laplace": Laplace, "Bounded": Bounded}
"""Every noise by name."""


def noise_from_record(record: Mapping[str, Any]) -> Noise:
    """The noise that a model card tells of."""
    kind = record.get("kind")
    if kind not in NOISES:
        raise InvalidInputError(f"noise is of kind {kind!r}, which is not known. {nearest(str(kind), list(NOISES))}")
    try:
        return NOISES[str(kind)].from_record(record)
    except KeyError as error:
        raise InvalidInputError(f"noise of kind {kind!r} must have {error}, which its record lacks.") from None

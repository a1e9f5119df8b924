"""Features that something else was turned into, by a frozen network say: what is measured on them is about that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from fisherleak._support.arrays import Array
from fisherleak.leakage.leakage import Leakage

__all__ = ["Behind", "Composing"]


@runtime_checkable
class Behind(Protocol):
    """What may stand for X in :func:`fisherleak.measure` where a model's features are a function of inputs."""

    @property
    def features(self) -> Array:
        """(n, d): what the model was fitted on."""

    def about_inputs(self, leakage: Leakage, attributes: Any) -> Leakage:
        """The leakage about the inputs, from that about the features."""


@runtime_checkable
class Composing(Protocol):
    """A leakage about something before the features, which knows how it is composed with others of its kind."""

    def composed(self, leakages: Sequence[Leakage]) -> Leakage:
        """The leakage of all of them; refused where they are not of one kind."""

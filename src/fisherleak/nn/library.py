"""torch, loaded when it is first used; where it is not installed, one sentence says what to install."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fisherleak.errors import FisherleakError

Tensor = Any
"""A ``torch.Tensor``."""
Module = Any
"""A ``torch.nn.Module``, or any function of a batch of rows."""


class _Late:
    """Stands for the library until something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what tools ask of any object, which is no use of torch
            raise AttributeError(name)
        try:
            import torch
        except ImportError:
            raise FisherleakError("fisherleak.nn needs torch: pip install 'fisherleak[torch]'.") from None
        return getattr(torch, name)


torch: Any = _Late()


@contextmanager
def derivatives() -> Iterator[None]:
    """Where derivatives are taken: with plain attention, whose fused kernels have no forward derivative.

    Forward mode loads a part of torch that warns of another part of torch; that is not for users.
    """
    attention, layers = torch.nn.attention, torch.backends.mha
    fused = layers.get_fastpath_enabled()
    with warnings.catch_warnings(), attention.sdpa_kernel(attention.SDPBackend.MATH):
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        layers.set_fastpath_enabled(False)
        try:
            yield
        finally:
            layers.set_fastpath_enabled(fused)

"""What stands for the system's randomness while tests run: noise is drawn from the system, so that nobody can draw it again."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

__all__ = ["steady"]

DEFAULT_RNG = np.random.default_rng


class _Stream:
    """Bytes that follow from a name."""

    def __init__(self, name: str) -> None:
        self.rng = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))

    def urandom(self, count: int) -> bytes:
        return self.rng.bytes(count)

    def randbits(self, count: int) -> int:
        return int.from_bytes(self.rng.bytes(-(-count // 8)), "little") >> (-count % 8)

    def token_hex(self, count: int) -> str:
        return self.rng.bytes(count).hex()

    def default_rng(self, seed: Any = None) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(self.randbits(64))) if seed is None else DEFAULT_RNG(seed)


@contextmanager
def steady(name: str) -> Iterator[None]:
    """The same chance for all that is drawn under the same name: a test's, or that of a fixture that many tests share."""
    stream = _Stream(name)
    with pytest.MonkeyPatch.context() as patch:
        for place in (
            "fisherleak.engine.noise.add_noise_and_round.os",
            "fisherleak.engine.noise.add_noise_and_round.secrets",
            "fisherleak.protection.certificates.published_scale.secrets",
        ):
            patch.setattr(place, stream)
        patch.setattr(np.random, "default_rng", stream.default_rng)
        np.random.seed(stream.randbits(32))  # noqa: NPY002 (what scikit-learn draws from where random_state is None)
        yield

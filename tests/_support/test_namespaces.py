"""What may be asked of an array library is in the standard."""

from __future__ import annotations

import pytest

from fisherleak._support.namespaces import LinearAlgebra, Namespace


def test_every_name_is_in_the_standard() -> None:
    strict = pytest.importorskip("array_api_strict")
    assert not [name for name in Namespace.__annotations__ if not hasattr(strict, name)]
    assert not [name for name in LinearAlgebra.__annotations__ if not hasattr(strict.linalg, name)]

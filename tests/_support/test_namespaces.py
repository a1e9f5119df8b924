"""What may be asked of an array library is in the standard."""

from __future__ import annotations

import pytest

from fisherleak._support.namespaces import LinearAlgebra, Namespace


def test_every_name_is_in_the_standard() -> None:
    strict = pytest.importorskip("array_api_strict")
    assert set(Namespace.__annotations__) <= set(dir(strict))
    assert set(LinearAlgebra.__annotations__) <= set(dir(strict.linalg))

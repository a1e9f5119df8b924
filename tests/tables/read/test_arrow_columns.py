"""Columns of Arrow tables as numbers and codes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pyarrow as pa

from fisherleak.tables.read.arrow_columns import as_codes, as_numbers


def test_missing_values_of_every_sort() -> None:
    np.testing.assert_array_equal(
        np.isnan(as_numbers(pa.chunked_array([[1.0, None, float("nan")], [2.0]]))), [0, 1, 1, 0]
    )
    coded = as_codes(pa.chunked_array([["b", None], ["a", "b"]]))
    assert (coded.codes.tolist(), coded.levels) == ([1, -1, 0, 1], ("a", "b"))
    coded = as_codes(pa.chunked_array([[2.0, float("nan"), 1.0]]))
    assert (coded.codes.tolist(), coded.levels) == ([1, -1, 0], (1.0, 2.0))
    assert as_numbers(pa.chunked_array([[10**30 + i for i in range(3)]], pa.decimal128(38, 0))).tolist() == [1e30] * 3

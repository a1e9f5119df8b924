"""Tables, summaries and pictures of a leakage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from cases import make

CASE = make("squared", 0, 30, 4)
BLOCKS = {"gene": [1, 2]}


@pytest.fixture(scope="module")
def leak() -> fl.Leakage:
    return CASE.leak(fl.Gaussian(0.5), BLOCKS)


def test_tables_keep_names_and_index() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(CASE.X, columns=["age", "dose", "height", "weight"], index=[f"p{i}" for i in range(30)])
    leak = fl.measure(fl.minimise(table, CASE.y, l2=CASE.l2), table, CASE.y)
    assert leak.attributes == list(table.columns)
    frame = leak.to_frame()
    cells = [f"eta[{name}]" for name in table.columns]
    assert list(frame.columns) == ["eta", *cells, "eta_label", "membership"]
    assert list(frame.index) == list(table.index)
    np.testing.assert_array_equal(frame["eta"], leak.per_example())
    np.testing.assert_array_equal(frame["eta[dose]"], leak.per_cell()[:, 1])
    assert f"row {int(np.argmax(leak.per_example()))} ({frame['eta'].idxmax()}): " in leak.summary()
    eta = leak.per_example()
    figures = f"eta {eta.mean():.4g} on average, {eta.max():.4g} at most"
    assert repr(leak) == f"Leakage(30 examples, 4 attributes, Gaussian(scale=1.0), {figures})"
    blocks = fl.measure(
        fl.minimise(table, CASE.y, l2=CASE.l2), table, CASE.y, attributes={"body": ["height", "weight"]}
    )
    assert blocks.attributes == ["body", "age", "dose"]


def test_summary_says_the_numbers_and_the_assumptions(leak: fl.Leakage) -> None:
    text = leak.summary()
    eta = np.asarray(leak.per_example())
    for expected in (
        f"mean {eta.mean():.4g} ± {eta.std(ddof=1):.4g}",
        f"{leak.dataset():.4g}",
        f"± {1 / eta.max():.4g}",
    ):
        assert expected in text
    for promise in ("unbiased attackers", "not differential privacy", "derived from the data", "Gaussian(scale=0.5)"):
        assert promise in text


def test_plot_draws_every_group_and_its_mean(leak: fl.Leakage) -> None:
    pytest.importorskip("matplotlib")
    ax: Any = leak.plot(np.arange(30) % 2)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1"]
    assert len(ax.lines) == 2
    assert sum(patch.get_height() for patch in ax.patches) == 30
    assert leak.plot(ax=ax) is ax
    with pytest.raises(fl.InvalidInputError, match="groups or person must have one label for each of the 30 rows"):
        leak.plot([1, 2])

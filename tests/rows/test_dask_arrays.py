"""Lazy rows: what is computed, and when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from cases import make
from fisherleak.rows.summary import digest
from often import often
from rows.lazy import Computes, lazy

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")


@pytest.mark.parametrize("loss", often(["logistic", "squared"]))
def test_results_for_rows_are_lazy_and_nothing_long_is_gathered(loss: str, computes: Computes) -> None:
    case = make(loss, 3, 3_000, 4, intercept=True)
    X, y = lazy(case)
    fit = fl.minimise(X, y, loss, case.l2, None, True)
    # checks, start, centre, and for each Newton step one pass; then the moves of the predictions
    assert computes.count <= fit.steps + 7
    before = computes.count
    leak = fl.measure(fit, X, y)
    assert computes.count == before + 2
    results = [leak.per_example(), leak.per_example([0], label=True), leak.per_cell(), leak.per_label()]
    results += [leak.with_noise(fl.Gaussian(0.1)).per_example(), leak.to_frame()]
    assert computes.count == before + 2
    assert [x.shape for x in results[:4]] == [(3_000,), (3_000,), (3_000, 4), (3_000,)]
    assert results[0].chunks == ((100,) * 30,)
    (
        leak.dataset(),
        leak.per_attribute(),
        leak.of(X[:, 0] > 0),
        leak.by_group(X[:, 0] > 0),
        leak.summary(),
        leak.fim([5, 2_900]),
    )
    assert computes.longest < 100
    np.testing.assert_allclose(results[0].compute(), case.leak().per_example(), rtol=1e-12)
    frame = results[-1].compute()
    known = ["membership"] * (loss == "squared")
    assert list(frame.columns) == ["eta", "eta[x0]", "eta[x1]", "eta[x2]", "eta[x3]", "eta_label", *known]
    np.testing.assert_allclose(frame["eta[x2]"], case.leak().per_cell()[:, 2], rtol=1e-12)


@pytest.mark.parametrize("chunks", [1, 7, 1_000])
def test_the_largest_of_many_blocks_come_in_order(chunks: int) -> None:
    values = np.random.default_rng(0).integers(0, 40, 1_000).astype(float)
    found = digest(da.from_array(values, chunks=chunks), most=12)
    order = np.argsort(-values, kind="stable")[:12]
    assert found.top == [(int(row), float(values[row])) for row in order]
    assert (found.low, found.high) == (values.min(), values.max())
    assert found.mean == pytest.approx(values.mean(), rel=1e-13)
    assert found.sd == pytest.approx(values.std(ddof=1), rel=1e-13)


def test_what_leads_to_a_block_is_one_task() -> None:
    """Blocks made for several arrays, cut anew, masked or shared: the sums stay right, and no task makes a block alone."""
    case = make("squared", 3, 1_000, 4)
    both = da.from_array(np.column_stack([case.X, case.y]), chunks=(130, -1)) + 0.0
    X, y = both[:, :-1], both[:, -1]
    sizes: list[int] = []

    class Count(dask.callbacks.Callback):  # type: ignore[misc, name-defined]
        def _start(self, graph: Any) -> None:
            sizes.append(0)

        def _pretask(self, key: Any, graph: Any, state: Any) -> None:
            sizes[-1] += 1

    with Count():
        fit = fl.minimise(X, y, l2=case.l2)
        leak = fl.measure(fit, X, y)
        whole = leak.dataset()
    blocks = both.numblocks[0]
    # a task for each block, its data, the function, and the sum
    assert max(sizes) <= 2 * blocks + 4
    assert whole == pytest.approx(case.leak().dataset(), rel=1e-12)
    other = both.rechunk((77, 2))
    again = fl.measure(fl.minimise(other[:, :-1], y, l2=case.l2), other[:, :-1], y)
    assert again.of(other[:, 0] > 0) == pytest.approx(case.leak().of(case.X[:, 0] > 0), rel=1e-12)


def test_a_pass_over_several_groups_is_one(computes: Computes) -> None:
    case = make("squared", 3, 500, 3)
    X, y = lazy(case)
    leak = fl.measure(fl.minimise(X, y, l2=case.l2), X, y)
    before = computes.count
    groups = np.arange(500) % 7
    found = leak.by_group(da.from_array(groups, chunks=50))
    assert computes.count == before + 2
    assert found == pytest.approx(case.leak().by_group(groups), rel=1e-12)


def test_functions_travel_once_and_without_rows() -> None:
    """The graph has one node with the function, however many blocks there are, and no rows inside it."""
    cloudpickle = pytest.importorskip("cloudpickle")
    case = make("logistic", 3, 20_000, 4, weighted=True, intercept=True)
    X, y = lazy(case, 500)
    weights = da.from_array(case.weights, chunks=500)
    fit = fl.minimise(X, y, "logistic", case.l2, weights, True)
    attributes = [fl.Attribute("pair", [0, 1])]
    leak = fl.measure(fit, X, y, attributes=attributes)
    for result in (
        leak.per_example(),
        leak.per_example(["pair"]),
        leak.per_cell(),
        fl.compose(leak, leak).per_example(),
    ):
        layers = [layer for name, layer in result.dask.layers.items() if name.startswith("fisherleak-")]
        assert layers
        assert sum(len(cloudpickle.dumps(dict(layer))) for layer in layers) < 40_000
        assert sum(len(layer) for layer in layers) <= 8


def test_the_same_numbers_on_many_rows() -> None:
    case = make("logistic", 3, 100_000, 6, intercept=True)
    X, y = lazy(case, 9_999)
    leak = fl.measure(fl.minimise(X, y, "logistic", case.l2, None, True), X, y)
    reference = case.leak()
    np.testing.assert_allclose(leak.per_example().compute(), reference.per_example(), rtol=1e-12)
    assert leak.dataset() == pytest.approx(reference.dataset(), rel=1e-12)


def test_attacks_and_balancing_say_that_they_need_memory() -> None:
    from sklearn.linear_model import Ridge

    case = make("squared", 3, 60, 3)
    X, y = lazy(case)
    with pytest.raises(fl.InvalidInputError, match="Attacks need rows in memory"):
        fl.attacks.WhiteBox(fl.minimise(X, y), X, y, 0)
    with pytest.raises(fl.InvalidInputError, match="IRFIL fits a scikit-learn model"):
        fl.IRFIL(Ridge()).fit(X, case.y)
    with pytest.raises(fl.InvalidInputError, match="plot shows arrays in memory"):
        fl.measure(fl.minimise(X, y), X, y).plot()


def test_errors_of_a_block_are_handed_on() -> None:
    case = make("squared", 3, 60, 3)

    def broken(block: Any) -> Any:
        if block.shape[0] == 10:
            raise LookupError("no such page")
        return block

    X = da.from_array(case.X, chunks=(50, -1)).map_blocks(broken, meta=np.empty((0, 3)))
    with pytest.raises(LookupError, match="no such page"):
        fl.minimise(X, case.y)

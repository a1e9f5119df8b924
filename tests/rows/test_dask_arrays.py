"""Lazy rows: what is computed, and when.

Tables and folders of files, partition by partition.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
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


@pytest.mark.long
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


pd = pytest.importorskip("pandas")
NUMBERS = ["age", "dose", "score"]


@pytest.fixture
def table() -> Any:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 3)), columns=["age", "dose", "score"])
    frame["age"] = frame["age"].round(1) * 10 + 40
    frame["city"] = rng.choice(["Bern", "Basel", "Chur"], 300)
    frame["ill"] = (frame["dose"] + rng.normal(size=300) > 0) * 1
    return frame


def write(table: Any, folder: Path, parts: int = 11) -> Path:
    folder.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(table)), parts)):
        table.iloc[rows].to_parquet(folder / f"part-{k}.parquet", index=False)
    return folder


@pytest.mark.long
def test_a_folder_of_files(table: Any, tmp_path: Path, computes: Computes) -> None:
    pytest.importorskip("pyarrow")
    rows = fl.read_parquet_folder(str(write(table, tmp_path / "visits")))
    assert rows.npartitions == 11  # part-10 is read after part-9
    X, y = rows[NUMBERS], rows["ill"]
    fit = fl.minimise(X, y, "logistic", 1e-3, intercept=True)
    leak = fl.measure(fit, X, y)
    reference = fl.minimise(table[NUMBERS], table["ill"], "logistic", 1e-3, intercept=True)
    expected = fl.measure(reference, table[NUMBERS], table["ill"])
    assert leak.attributes == NUMBERS
    assert leak.by_group(rows["city"]) == pytest.approx(expected.by_group(table["city"]), rel=1e-12)
    assert leak.by_group("age") == pytest.approx(expected.by_group("age"), rel=1e-12)
    assert leak.summary().partition("fit")[0] == expected.summary().partition("fit")[0]
    assert computes.longest < 100
    np.testing.assert_allclose(leak.per_example().compute(), expected.per_example(), rtol=1e-12)
    with pytest.raises(fl.InvalidInputError, match="column 'city' has type"):
        fl.minimise(rows[["age", "city"]], y)


@pytest.mark.long
def test_a_pipeline_is_measured_partition_by_partition(table: Any, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

    rows = fl.read_parquet_folder(str(write(table, tmp_path / "visits")))
    raw = table.drop(columns="ill")
    encode = make_column_transformer((OneHotEncoder(drop="first"), ["city"]), remainder=StandardScaler())
    model = make_pipeline(encode, LogisticRegression(solver="newton-cholesky", tol=1e-10)).fit(raw, table["ill"])
    leak = fl.measure(model, rows.drop(columns="ill"), rows["ill"])
    expected = fl.measure(model, raw, table["ill"])
    assert leak.attributes == expected.attributes
    np.testing.assert_allclose(leak.per_cell().compute(), expected.per_cell(), rtol=1e-9)
    assert leak.by_group("city") == pytest.approx(expected.by_group("city"), rel=1e-9)
    curved = make_pipeline(PolynomialFeatures(2), LogisticRegression(solver="newton-cholesky")).fit(
        table[["dose"]], table["ill"]
    )
    with pytest.raises(fl.UnsupportedModelError, match="'dose' that is not affine"):
        fl.measure(curved, rows[["dose"]], rows["ill"])


@pytest.mark.long
def test_columns_of_pandas_own_types(table: Any, tmp_path: Path) -> None:
    """Labels that are compared text are true and false; groups may be missing."""
    pytest.importorskip("pyarrow")
    text = table.assign(ill=np.where(table["ill"] == 1, "yes", "no"), city=table["city"].where(table["age"] > 30))
    rows = fl.read_parquet_folder(str(write(text, tmp_path / "visits")))
    y = rows["ill"] == "yes"
    fit = fl.minimise(rows[NUMBERS], y, "logistic", 1e-3, intercept=True)
    expected = fl.minimise(table[NUMBERS], table["ill"], "logistic", 1e-3, intercept=True)
    np.testing.assert_allclose(fit.coef, expected.coef, rtol=1e-10)
    found = fl.measure(fit, rows[NUMBERS], y).by_group(rows["city"])
    reference = fl.measure(expected, table[NUMBERS], table["ill"]).by_group(text["city"])
    assert None in found
    assert found == pytest.approx(reference, rel=1e-10)


def test_partitions_may_be_empty(table: Any) -> None:
    dd = pytest.importorskip("dask.dataframe")
    rows = dd.from_pandas(table[[*NUMBERS, "ill"]], npartitions=6)
    rows = rows[rows["age"] > table["age"].iloc[:120].max()]
    kept = table[table["age"] > table["age"].iloc[:120].max()]
    if len(kept) < 8:
        kept = table[table["age"] > 45]
        rows = dd.from_pandas(table[[*NUMBERS, "ill"]], npartitions=6)
        rows = rows[rows["age"] > 45]
    fit = fl.minimise(rows[NUMBERS], rows["ill"], l2=0.1, sample_weight=rows["age"])
    expected = fl.minimise(kept[NUMBERS], kept["ill"], l2=0.1, sample_weight=kept["age"])
    np.testing.assert_allclose(fit.coef, expected.coef, rtol=1e-11)


@pytest.mark.long
def test_bad_files_are_named(table: Any, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = write(table, tmp_path / "visits")
    path = folder / "part-4.parquet"
    good, part = path.read_bytes(), pd.read_parquet(path)

    def train() -> None:
        rows = fl.read_parquet_folder(str(folder / "*.parquet"))
        fl.minimise(rows[NUMBERS], rows["ill"], "logistic", 1e-3)

    train()
    path.write_bytes(good[:-100])
    with pytest.raises(fl.DataError, match=r"part-4\.parquet is a damaged"):
        train()
    # a footer that is whole, over data that are not
    path.write_bytes(good[:4] + b"\xff" * 600 + good[604:])
    with pytest.raises(fl.DataError, match=r"part-4\.parquet is a damaged"):
        train()
    part.drop(columns="dose").to_parquet(path)
    with pytest.raises(fl.InvalidInputError, match=r"part-4\.parquet lacks column 'dose'.*of part-0\.parquet"):
        train()
    part.assign(extra=1.0).to_parquet(path)
    with pytest.raises(fl.InvalidInputError, match=r"part-4\.parquet has column 'extra'"):
        train()
    part.assign(dose="much").to_parquet(path)
    with pytest.raises(fl.InvalidInputError, match=r"part-4\.parquet has type .*string in column 'dose'.*double"):
        train()
    part.assign(dose=np.where(np.arange(len(part)) == 3, np.nan, part["dose"])).to_parquet(path)
    with pytest.raises(fl.InvalidInputError, match=r"part-4\.parquet has nan in row 3, column 'dose'"):
        train()
    with pytest.raises(fl.DataError, match="No Parquet file matches"):
        fl.read_parquet_folder(str(tmp_path / "nowhere" / "*.parquet"))
    with pytest.raises(fl.DataError, match="cannot be opened"):
        fl.read_parquet_folder(str(tmp_path / "nowhere.parquet"))


def test_the_page_on_scale_runs(table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    write(table, tmp_path / "visits")
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
    snippets = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(snippets) == 2
    for code in snippets:
        if "import torch" not in code or importlib.util.find_spec("torch") is not None:
            exec(code, {})  # noqa: S102 - our own page

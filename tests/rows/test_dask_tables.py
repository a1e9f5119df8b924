"""Tables and folders of files, partition by partition."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from rows.lazy import Computes

dask = pytest.importorskip("dask")
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

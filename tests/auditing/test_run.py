"""Audits: figures of the pipeline, and the same ones wherever the rows are."""

from __future__ import annotations

import hashlib
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")

import pandas
import pyarrow as pa
import pyarrow.parquet as pq

import fisherleak as fl
from fisherleak._support.arrays import is_lazy
from fisherleak.auditing.run import audit
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.report.outputs import write_outputs
from fisherleak.report.summarise import summarise
from fisherleak.tables import from_frame, read_table
from fisherleak.tables.read import parquet
from fisherleak.training.pipelines import pipeline_of, standard_noise
from fisherleak.training.trained_model import Settings, train
from report.test_summarise import check_summary
from visits import LITTLE, assert_same, people, without_times, write

CASES = [("income", "linear", 1e-2), ("income", "linear", 0.0), ("sick", "logistic", 1e-2), ("visits", "poisson", 1e-3)]


@pytest.mark.parametrize(("target", "model", "l2"), CASES)
def test_figures_are_those_of_the_pipeline_over_the_raw_table(frame: Any, target: str, model: str, l2: float) -> None:
    table = frame.drop(columns="person")
    settings = Settings(target, model, l2=l2)
    result = audit(table, settings, noise=2.5, draws=4, attacks=False)
    pipeline, raw, labels = pipeline_of(train(fl_raw(table), settings))
    leak = fl.measure(pipeline, raw, labels, noise=fl.Gaussian(2.5), public="nothing")
    cells = leak.per_cell()
    assert [c.feature.name for c in result.columns] == leak.attributes
    figures = summarise(result)["attributes"]
    np.testing.assert_allclose([c["eta_max"] for c in figures], cells.max(axis=0), rtol=1e-8)
    np.testing.assert_allclose([c["eta_mean"] for c in figures], cells.mean(axis=0), rtol=1e-8)
    np.testing.assert_allclose([c["eta_median"] for c in figures], np.median(cells, axis=0), rtol=1e-8)
    np.testing.assert_allclose([c["eta_column"] for c in figures], leak.per_attribute(), rtol=1e-8)
    assert [c["worst_row"] for c in figures] == result.design.rows[cells.argmax(axis=0)].tolist()
    label = [row["eta_label"] for row in summarise(result)["rows"]]
    np.testing.assert_allclose(label, leak.per_label()[result.worst.rows], rtol=1e-8)


def fl_raw(table: Any) -> Any:

    return from_frame(table)


def test_row_figures_do_not_depend_on_units(frame: Any) -> None:
    table = frame.drop(columns="person")
    other = table.assign(age=table.age * 64, income=table.income / 1024)  # scales are on a grid of powers of two
    one = audit(table, Settings("income"), eta=0.5, draws=4, attacks=False)
    two = audit(other, Settings("income"), eta=0.5, draws=4, attacks=False)
    np.testing.assert_allclose(one.eta, two.eta, rtol=1e-7)
    assert one.noise.scale == pytest.approx(1024 * two.noise.scale)
    largest = [summarise(each)["attributes"][0]["eta_max"] for each in (one, two)]
    assert largest[0] == pytest.approx(64 * largest[1])


@pytest.mark.long
def test_noise_is_given_calibrated_or_the_least_that_reveals_a_tenth(frame: Any) -> None:
    settings = Settings("sick")
    free = audit(frame, settings, draws=4, attacks=False)
    shares = [item["revealed"]["max"] for item in summarise(free)["attributes"] if item["revealed"]]
    assert 0.09 < max(shares) <= 0.1
    assert free.noise.chosen == "default"
    assert audit(frame, settings, eta=0.25, draws=4, attacks=False).eta.max() == pytest.approx(0.25)
    assert audit(frame, settings, max_eta=0.25, draws=4, attacks=False).eta.max() <= 0.25
    given = audit(frame, settings, noise=0.3, draws=4, attacks=False)
    assert given.noise.scale == 0.3
    assert given.noise.chosen == "given"


@pytest.mark.long
@pytest.mark.parametrize(
    "settings", [Settings("ill", id="person", group="city"), Settings("cost", categories=("code",))]
)
def test_figures_are_the_same_wherever_the_rows_are(folder: Path, tmp_path: Path, settings: Settings) -> None:
    here = audit(folder, settings, noise=2.0, max_eta=0.05, draws=4, attacks=False)
    away = audit(str(folder / "*.parquet"), settings, LITTLE, noise=2.0, max_eta=0.05, draws=4, attacks=False)
    assert is_lazy(away.design.X)
    assert not is_lazy(here.design.X)
    one, other = (summarise(each, show_values=True) for each in (here, away))
    check_summary(other)
    one["data"]["source"] = other["data"]["source"]
    one["title"] = other["title"]
    assert_same(without_times(one), without_times(other))
    assert any("never in one memory" in sentence for sentence in other["assumptions"])
    for name, result, summary in (("here", here, one), ("away", away, other)):
        write_outputs(result, summary, tmp_path / name)
    frames = [pandas.read_parquet(tmp_path / name / "leakage.parquet") for name in ("here", "away")]
    told = {"membership"} if settings.target == "cost" else set()  # other losses need a pass over all rows for each
    assert set(frames[1].columns) == {"row", "eta", "eta_label"} | ({"id"} if settings.id else set()) | told
    for name in frames[1].columns:
        if name == "id":
            assert frames[0]["id"].tolist() == frames[1]["id"].tolist()
        else:
            np.testing.assert_allclose(frames[1][name], frames[0][name], rtol=1e-9)


@pytest.mark.long
def test_a_table_in_one_file_is_read_in_parts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "PART_BYTES", 60_000)
    table = people(3_000)
    table.to_parquet(tmp_path / "t.parquet", row_group_size=500)
    table.to_csv(tmp_path / "t.csv", index=False)
    settings = Settings("cost", id="person")
    given: Any = {"noise": 0.5, "draws": 4, "attacks": False}
    results = [audit(tmp_path / "t.csv", settings, **given)]
    results += [audit(tmp_path / name, settings, LITTLE, **given) for name in ("t.parquet", "t.csv")]
    for result in results[1:]:
        assert result.design.X.numblocks[0] > 1 or result.design.source == "t.csv"
        np.testing.assert_allclose(result.eta.compute(), results[0].eta, rtol=1e-9)


@pytest.mark.long
def test_files_may_differ_in_types_that_hold_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 300
    k, x, c = rng.integers(0, 4, n), rng.normal(size=n).round(1), rng.choice(["a", "b"], n)
    y = (x + k + rng.normal(size=n) > 1.5).astype(int)
    plain = pa.table({"k": k, "x": x, "c": c, "e": np.where(x > 0, "p", "q"), "y": y})
    kinds: list[list[Any]] = [
        [pa.int64(), pa.float64(), pa.string(), pa.string(), pa.int64()],
        [pa.float64(), pa.float32(), pa.dictionary(pa.int32(), pa.string()), pa.large_string(), pa.decimal128(6, 2)],
        [pa.decimal128(6, 2), pa.float64(), pa.string(), pa.string(), pa.decimal128(6, 1)],
    ]
    (tmp_path / "many").mkdir()
    for j, types in enumerate(kinds):
        part = plain.slice(100 * j, 100)
        columns = []
        for column, kind in zip(part.columns, types, strict=True):
            if pa.types.is_decimal(kind):
                columns.append(pa.array([Decimal(value) for value in column.to_pylist()], kind))
            else:
                columns.append(column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind))
        pq.write_table(pa.table(columns, names=plain.column_names), tmp_path / "many" / f"{j}.parquet")
    missing = plain.slice(0, 3).set_column(3, "e", pa.nulls(3))
    pq.write_table(missing, tmp_path / "many" / "3.parquet")
    settings = Settings("y", categories=("k",), group="k")
    results = [audit(tmp_path / "many", settings, room, noise=0.5, draws=4, attacks=False) for room in (None, LITTLE)]
    for result in results:
        assert result.design.target.classes == (0.0, 1.0)
        assert [group.name for group in result.groups] == ["0", "1", "2", "3"]
        assert result.design.dropped == ()
        assert [(item.column, item.count) for item in result.design.filled] == [("e", 3)]
    np.testing.assert_allclose(results[1].eta.compute(), results[0].eta, rtol=1e-9)


@pytest.mark.long
def test_figures_do_not_depend_on_how_a_table_is_cut(tmp_path: Path) -> None:
    """A spread of exactly 1.25 is a tie in two digits; a vague name that restarts in every file is no identifier's."""
    rng = np.random.default_rng(8)
    k = np.repeat([0.0, 2.5], 800)
    rng.shuffle(k)
    x = rng.normal(size=1_600)
    again = np.arange(1_600) % 400
    table = pandas.DataFrame(
        {"x": x, "k": k, "sample_no": again, "patient_id": again, "y": x + k + rng.normal(size=1_600)}
    )
    table.to_parquet(tmp_path / "one.parquet")
    whole = audit(tmp_path / "one.parquet", Settings("y", held_out=0.0), draws=4, attacks=False)
    assert [f.name for f in whole.design.features] == ["x", "k", "sample_no"]
    for files in (4, 37):
        write(table, tmp_path / str(files), files)
        for room in (None, LITTLE):
            result = audit(tmp_path / str(files), Settings("y", held_out=0.0), room, draws=4, attacks=False)
            named = {f.name: f.scale for f in result.design.features}  # columns of several files come in names' order
            assert named == {f.name: f.scale for f in whole.design.features}
            assert result.noise.scale == pytest.approx(whole.noise.scale, rel=1e-9)
    other = table.assign(sample_no=rng.permutation(1_600), patient_id=rng.permutation(1_600))
    write(other, tmp_path / "ids")
    for room in (None, LITTLE):
        result = audit(tmp_path / "ids", Settings("y"), room, draws=4, attacks=False)
        assert sorted(f.name for f in result.design.features) == ["k", "sample_no", "x"]


@pytest.mark.long
def test_files_at_an_address(folder: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    for path in folder.iterdir():
        store.pipe(f"/visits/{path.name}", path.read_bytes())
    here = audit(folder, Settings("ill"), draws=4, attacks=False)
    for pattern in ("memory://visits", "memory://visits/*.parquet"):
        for room in (None, LITTLE):
            away = audit(pattern, Settings("ill"), room, draws=4, attacks=False)
            assert away.design.sha256 == here.design.sha256
            assert away.rows.digest.high == pytest.approx(here.rows.digest.high, rel=1e-12)
    with pytest.raises(DataError, match="nothing cannot be opened"):
        read_table("memory://nothing")
    with pytest.raises(DataError, match="cannot be opened"):
        read_table("nosuchprotocol://x/*.parquet")


@pytest.mark.long
def test_the_checksum_of_a_folder_is_that_of_sha256sum(folder: Path) -> None:
    result = audit(folder, Settings("cost"), draws=4, attacks=False)
    files = [f"part-{k}.parquet" for k in range(11)]
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in files]
    once = hashlib.sha256("".join(lines).encode()).hexdigest()
    assert result.design.sha256 == once
    assert audit(folder, Settings("cost"), LITTLE, draws=4, attacks=False).design.sha256 == once


def test_identifiers_that_repeat_are_refused(tmp_path: Path) -> None:
    table = people(400)
    write(table.assign(person=[f"p{k % 390}" for k in range(400)]), tmp_path / "across", files=4)
    with pytest.raises(InvalidInputError, match="repeats 10 of its 400 values"):
        audit(tmp_path / "across", Settings("ill", id="person"), draws=4, attacks=False)
    with pytest.raises(InvalidInputError, match="'person' repeats values"):
        audit(tmp_path / "across", Settings("ill", id="person"), LITTLE, draws=4, attacks=False)
    write(table.assign(person=[np.nan, *np.arange(399.0)]), tmp_path / "missing", files=4)
    for room in (None, LITTLE):
        with pytest.raises(InvalidInputError, match="'person' has 1 missing value"):
            audit(tmp_path / "missing", Settings("ill", id="person"), room, draws=4, attacks=False)
    write(table, tmp_path / "good", files=4)
    result = audit(tmp_path / "good", Settings("ill", id="person"), LITTLE, draws=4, attacks=False)
    assert any("a sample was looked at" in note for note in result.design.notes)


def test_an_attacker_that_fails_stops_no_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be attacked is said; a value that one training row has is attacked like any other."""
    table = pandas.DataFrame({"b": [0] * 9 + [1], "x": np.arange(10.0) ** 2, "y": np.arange(10.0)})
    result = audit(table, Settings("y", categories=("b",)), attributes=["b"], draws=4)
    assert {outcome.attacker for outcome, _ in result.attacked.outcomes} >= {"no model, other columns", "prior"}

    def fail(*_: Any, **__: Any) -> Any:
        raise ValueError("a learner of its own mind")

    monkeypatch.setattr("fisherleak.attacks.population_attacker.Ideal.guess", fail)
    result = audit(table, Settings("y", categories=("b",)), attributes=["b"], draws=4)
    assert any("no model, other columns attack on 'b' failed (ValueError)" in note for note in result.attacked.notes)


@pytest.mark.long
def test_a_pipeline_with_pooled_levels_is_the_model_and_takes_any_level_for_a_pooled_one() -> None:
    rng = np.random.default_rng(0)
    state = np.array([f"S{k:02d}" for k in np.minimum(np.arange(900) % 90, 59)], dtype=object)
    flag = rng.choice(["a", "b"], 900)
    table = pandas.DataFrame({"state": state, "flag": flag, "x": rng.normal(size=900), "y": rng.normal(size=900)})
    trained = train(from_frame(table), Settings("y", held_out=0.0, public="preprocessing"))
    model, frame, labels = pipeline_of(trained)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn says which are not known
        known = model.predict(frame[frame["state"] == "(other)"])
        new = model.predict(frame[frame["state"] == "(other)"].assign(state="nowhere"))
    np.testing.assert_allclose(new, known)
    noise = standard_noise(trained, fl.Gaussian(trained.unit))
    eta = fl.measure(model, frame, labels, noise).per_example(["flag"])
    np.testing.assert_allclose(eta, trained.leak.per_example(["flag"]), rtol=1e-5)
    notes = audit(table, Settings("y"), attributes=["flag"], draws=4).attacked.notes
    assert not [note for note in notes if "'flag'" in note]


def test_a_quick_look_is_said_and_learns_nothing() -> None:
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"b": rng.choice(["u", "v"], 300), "x": rng.normal(size=300), "y": rng.normal(size=300)})
    attacked = audit(table, Settings("y"), attributes=["b"], draws=4, quick=True).attacked
    assert "no model, other columns" not in {outcome.attacker for outcome, _ in attacked.outcomes}
    assert {outcome.n for outcome, _ in attacked.outcomes} == {100}
    assert any("A quick look" in note for note in attacked.notes)

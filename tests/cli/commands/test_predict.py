"""Predictions of a released model on a table: the file's own, whatever way a table is written, and every refusal's remedy."""

from __future__ import annotations

import csv
import io
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pandas
import skops.io

from copies import copied_release
from fisherleak.cli import main
from releasing.cards.test_signatures import write_keys
from steady import steady

Command = Callable[..., Any]


def hospital(rows: int = 600, seed: int = 0) -> pandas.DataFrame:
    """Visits with a missing lab value, diagnoses of which some are rare, wards that begin with a zero, and dates."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, 21) ** 2
    table = pandas.DataFrame(
        {
            "patient_id": [f"{k:05d}" for k in np.sort(rng.integers(0, rows // 2, rows))],
            "age": rng.integers(20, 95, rows),
            "crp": rng.gamma(2.0, 7.0, rows).round(2),
            "diagnosis": rng.choice([f"D{k:02d}" for k in range(20)], rows, p=shares / shares.sum()),
            "ward": rng.choice(["01", "02", "ICU"], rows),
            "grade": rng.choice([1, 2, 3], rows),
            "insured": rng.choice([True, False], rows),
            "day": pandas.date_range("2024-01-01", periods=rows).strftime("%Y-%m-%d"),
        }
    )
    risk = 0.05 * (table.age - 60) + 0.08 * (table.crp - 14) + (table.ward == "ICU")
    table.loc[rng.random(rows) < 0.15, "crp"] = np.nan
    table["outcome"] = np.where(rng.random(rows) < 1 / (1 + np.exp(-risk)), "back", "home")
    table["cost"] = (900 + 12 * table.age + rng.normal(0, 90, rows)).round(2)
    table["state"] = rng.choice(["fair", "good", "poor"], rows)
    return table


OPTIONS = ("--category", "grade", "--drop", "patient_id", "--drop", "day", "--bounds", "age=0:110", "--noise", "0.01")
DROPS = {
    "outcome": ("cost", "state"),
    "cost": ("outcome", "state"),
    "state": ("outcome", "cost"),
}


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model of two classes, one of numbers, one of three classes, and one that has no answer where a number is missing."""
    folder = tmp_path_factory.mktemp("released")
    hospital().to_csv(folder / "visits.csv", index=False)
    found = {}
    with steady("hospital"):
        for name, target, more in [
            ("outcome", "outcome", ("--sign", write_keys(folder)["private"])),
            ("cost", "cost", ()),
            ("state", "state", ()),
            ("whole", "cost", ("--missing", "drop")),
        ]:
            found[name] = folder / f"{name}.skops"
            left = [word for each in DROPS[target] for word in ("--drop", each)]
            line = ("release", folder / "visits.csv", "--target", target, *OPTIONS, *left, *more, "--out", found[name])
            assert main([*map(str, line), "--over", "max", "--quiet"]) == 0
    return found


def table_of(text: str) -> pandas.DataFrame:
    return pandas.read_csv(io.StringIO(text), dtype={"patient_id": str})


def by_the_file(model: Path, frame: pandas.DataFrame) -> Any:
    """The released file on its own, as people without this package use it."""
    card = json.loads(model.with_name(f"{model.name}.json").read_text(encoding="utf-8"))
    return skops.io.load(model, trusted=card["model"]["trusted_types"]), frame


@pytest.fixture
def new(tmp_path: Path) -> Path:
    path = tmp_path / "new.csv"
    hospital(40, seed=5).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", ["outcome", "cost", "state"])
def test_predictions_are_those_of_the_file(
    fisherleak: Command, released: dict[str, Path], new: Path, name: str
) -> None:
    done = fisherleak("predict", released[name], new, "--id", "patient_id")
    assert done.status == 0, done.err
    found, frame = table_of(done.out), hospital(40, seed=5)
    model, _ = by_the_file(released[name], frame)
    assert found["patient_id"].tolist() == frame["patient_id"].tolist()  # 00017 is not 17
    assert len(found) == 40
    if name == "cost":
        assert list(found) == ["patient_id", "prediction"]
        assert found["prediction"].to_numpy() == pytest.approx(model.predict(frame), rel=1e-12)
        return
    assert list(found) == ["patient_id", "prediction", *(f"probability_{each}" for each in model.classes_)]
    assert found["prediction"].tolist() == model.predict(frame).tolist()
    assert found.iloc[:, 2:].to_numpy() == pytest.approx(model.predict_proba(frame), rel=1e-12)


def test_what_was_done_is_said(fisherleak: Command, released: dict[str, Path], new: Path) -> None:
    frame = pandas.read_csv(new, dtype=str)
    frame.loc[0, "age"], frame.loc[1, "age"] = "200", "-1"
    frame.loc[2, "diagnosis"], frame.loc[3, "diagnosis"], frame.loc[4, "ward"] = "D99", None, "attic"
    frame["crp"] = "1.5"
    frame.loc[:5, "crp"] = None
    frame["remark"] = "x"
    frame.to_csv(new, index=False)
    done = fisherleak("predict", released["outcome"], new)
    assert (done.status, done.out.count("\n")) == (0, 41)
    for sentence in (
        "Predicted 'outcome' for 40 rows of new.csv with 'outcome.skops'.",
        "Missing numbers count as the public centre of their column, on the model card: 'crp' (6 rows).",
        "Missing categories count as the first on the model card: 'diagnosis' (1 row, as '(other)').",
        "Numbers outside the declared bounds were taken as they are: 'age' (2 rows).",
        "'ward' (1 row, as '01')",
        "Columns that the model does not use were ignored: 'patient_id', 'day', 'outcome', 'cost', 'state' and 1 more.",
        "no signature was checked (--key PUB checks one)",
        "Columns written: prediction, probability_back, probability_home.",
    ):
        assert sentence in done.err, sentence
    assert "attic" not in done.err  # a cell
    assert "D99" not in done.err
    assert fisherleak("predict", released["outcome"], new, "--quiet").err == ""


def cells(*lines: str) -> str:
    return "age,crp,diagnosis,ward,grade,insured\n" + "\n".join(lines) + "\n"


PLAIN = cells("51,1234.5,D01,02,2,true", "52,12.5,D02,01,1,false", "53,,D03,ICU,3,true")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (PLAIN, ()),
        # German notation, in another order of columns, with blanks around a name
        (
            "ward; crp ;insured;grade;age;diagnosis\n02;1.234,5;true;2;51;D01\n01;12,5;false;1;52;D02\nICU;;true;3;53;D03\n",
            (),
        ),
        (cells("51,$1234.5,D01,02,2.0,True", "52,12.5,D02,01,1.0,False", "53,n.a.,D03,ICU,3.0,True"), ()),
        # all wards are numbers here: 02 stays 02
        (cells("51,1234.5,D01,02,2,true", "52,12.5,D02,01,1,false"), ("first two",)),
        (cells('51,"1,234.5",D01,02,2,true', "52,12.5,D02,01,1,false", "53,?,D03,ICU,3,true"), ()),
        (cells("51,1234.5,D01,02,2,TRUE", "52,12.5,D02,01,1,FALSE", "53,,D03,ICU,3,TRUE"), ()),
    ],
)
def test_tables_may_be_written_in_other_ways(
    fisherleak: Command, released: dict[str, Path], tmp_path: Path, text: str, options: tuple[str, ...]
) -> None:
    for name, content in (("plain.csv", PLAIN), ("other.csv", text)):
        (tmp_path / name).write_text(content, encoding="utf-8")
    plain = fisherleak("predict", released["outcome"], tmp_path / "plain.csv").out.splitlines()
    done = fisherleak("predict", released["outcome"], tmp_path / "other.csv")
    assert done.status == 0, done.err
    assert done.out.splitlines() == (plain[:3] if options else plain)


def test_parquet_is_read_too(fisherleak: Command, released: dict[str, Path], new: Path, tmp_path: Path) -> None:
    frame = pandas.read_csv(new, dtype={"ward": str, "patient_id": str})
    frame.to_parquet(tmp_path / "new.parquet")
    rows = [fisherleak("predict", released["state"], path).out for path in (new, tmp_path / "new.parquet")]
    assert rows[0] == rows[1]


def test_rows_that_lack_a_number_have_no_prediction_where_training_left_them_out(
    fisherleak: Command, released: dict[str, Path], new: Path
) -> None:
    frame = pandas.read_csv(new)
    done = fisherleak("predict", released["whole"], new)
    found = list(csv.DictReader(io.StringIO(done.out)))
    lacking = frame["crp"].isna()
    assert 0 < lacking.sum() < 40
    assert [row["prediction"] == "" for row in found] == lacking.tolist()
    assert f"{lacking.sum()} rows lack a number and have no prediction" in done.err


# Refusals, each with its remedy


REFUSED: dict[str, tuple[str, tuple[str, ...], str, str, tuple[str, ...]]] = {
    "a column is missing": (
        PLAIN.replace("diagnosis", "diagnoses"),
        (),
        "has no column 'diagnosis', which the model needs. Did you mean 'diagnoses'?",
        PLAIN,
        (),
    ),
    "several are": (
        "age,name\n1,a\n",
        (),
        "has no column 'crp' and 4 more that the model needs.",
        PLAIN,
        (),
    ),
    "no number in a column of numbers": (
        cells("old,1,D01,02,2,true", "young,2,D02,01,1,false"),
        (),
        "Column 'age' of new.csv holds no number, and the model takes numbers there",
        cells(",1,D01,02,2,true", "52,2,D02,01,1,false"),
        (),
    ),
    "dates in a column of numbers": (
        cells("2024-01-01,1,D01,02,2,true", "2024-01-02,2,D02,01,1,false"),
        (),
        "Column 'age' of new.csv holds date32[day], and the model takes numbers there: write numbers.",
        PLAIN,
        (),
    ),
    "an infinite number": (
        cells("51,1.5,D01,02,2,true", "52,inf,D02,01,1,false"),
        (),
        "Column 'crp' of new.csv has an infinite value in row 2",
        cells("51,1.5,D01,02,2,true", "52,,D02,01,1,false"),
        (),
    ),
    "a decimal mark that nothing settles": (
        cells('51,"1,234",D01,02,2,true', '52,"5,678",D02,01,1,false'),
        (),
        "say which, with --decimal . or --decimal ,.",
        cells('51,"1,234",D01,02,2,true', '52,"5,678",D02,01,1,false'),
        ("--decimal", ","),
    ),
    "an id that is not there": (PLAIN, ("--id", "ages"), "Did you mean 'age'?", PLAIN, ("--id", "age")),
    "an id that is written": (
        PLAIN.replace("age", "age,prediction").replace("\n5", "\n5,5"),
        ("--id", "prediction"),
        "has the name of a column that is written",
        PLAIN,
        ("--id", "age"),
    ),
    "no header": (
        PLAIN.partition("\n")[2],
        (),
        "seems to have no header",
        PLAIN.partition("\n")[2],
        ("--columns", "age,crp,diagnosis,ward,grade,insured"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_a_remedy_that_works(
    fisherleak: Command, released: dict[str, Path], tmp_path: Path, case: str
) -> None:
    text, options, says, mended, remedy = REFUSED[case]
    path = tmp_path / "new.csv"
    path.write_text(text, encoding="utf-8")
    done = fisherleak("predict", released["outcome"], path, *options)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert says in done.err
    path.write_text(mended, encoding="utf-8")
    done = fisherleak("predict", released["outcome"], path, *remedy)
    assert done.status == 0, done.err


@pytest.mark.long
def test_the_decimal_mark_decides(fisherleak: Command, released: dict[str, Path], tmp_path: Path) -> None:
    text, path = REFUSED["a decimal mark that nothing settles"][0], tmp_path / "new.csv"
    rows = []
    for content, mark in ((text, ","), (cells("51,1.234,D01,02,2,true", "52,5.678,D02,01,1,false"), "."), (text, ".")):
        path.write_text(content, encoding="utf-8")
        rows.append(fisherleak("predict", released["cost"], path, "--decimal", mark).out)
    assert rows[0] == rows[1] != rows[2]


@pytest.mark.long
def test_files_appear_whole_and_are_not_overwritten(
    fisherleak: Command, released: dict[str, Path], new: Path, tmp_path: Path
) -> None:
    out = tmp_path / "far" / "out.csv"
    done = fisherleak("predict", released["outcome"], new, "--out", out)
    assert (done.status, done.out) == (0, "")
    assert f"The predictions are in {out}." in done.err
    assert out.read_text(encoding="utf-8") == fisherleak("predict", released["outcome"], new).out
    done = fisherleak("predict", released["outcome"], new, "--out", out)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "--overwrite" in done.err
    assert fisherleak("predict", released["outcome"], new, "--out", out, "--overwrite").status == 0
    for place in (new, released["outcome"], released["outcome"].with_name("outcome.skops.json")):
        before = place.read_bytes()
        done = fisherleak("predict", released["outcome"], new, "--out", place, "--overwrite")
        assert (done.status, place.read_bytes()) == (2, before)
        assert "is read by this command: choose another file." in done.err
    assert [path.name for path in out.parent.iterdir()] == ["out.csv"]


# Files that are not what they say


def changed_card(model: Path) -> None:
    card = model.with_name(f"{model.name}.json")
    text = card.read_text(encoding="utf-8")
    assert '"D02"' in text
    card.write_text(text.replace('"D02"', '"D77"'), encoding="utf-8")


def a_pickle(model: Path) -> None:
    model.write_bytes(pickle.dumps({"model": 1}))


def without_card(model: Path) -> None:
    model.with_name(f"{model.name}.json").unlink()


def with_a_tail(model: Path) -> None:
    model.write_bytes(model.read_bytes() + b"\0")


def a_folder(model: Path) -> None:
    model.unlink()
    model.mkdir()


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        (changed_card, 1, "was changed"),
        (with_a_tail, 1, "is not the model that its model card describes"),
        (a_pickle, 1, "is not the model that its model card describes"),
        (without_card, 2, "is missing"),
        (lambda model: model.unlink(), 2, "does not exist"),
        (a_folder, 2, "is a folder"),
        (lambda model: model.with_name(f"{model.name}.json").write_text("{"), 2, "is damaged"),
    ],
)
def test_only_what_verifies_predicts(
    fisherleak: Command,
    released: dict[str, Path],
    new: Path,
    tmp_path: Path,
    change: Callable[[Path], None],
    status: int,
    says: str,
) -> None:
    model = copied_release(released["outcome"], tmp_path)
    change(model)
    done = fisherleak("predict", model, new, "--out", tmp_path / "out.csv")
    assert (done.status, done.out, done.err.count("\n")) == (status, "", 1)
    assert says in done.err
    assert not (tmp_path / "out.csv").exists()


def test_a_key_must_have_signed(fisherleak: Command, released: dict[str, Path], new: Path, tmp_path: Path) -> None:
    keys = write_keys(tmp_path)  # the same each time
    assert (
        "the key has signed the model card"
        in fisherleak("predict", released["outcome"], new, "--key", keys["public"]).err
    )
    done = fisherleak("predict", released["outcome"], new, "--key", keys["other"])
    assert (done.status, done.out) == (1, "")
    assert "was signed with another key" in done.err


# Wide tables, and the help


def test_eighty_columns_are_not_all_listed(fisherleak: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({f"reading {k}": rng.normal(size=400).round(3) for k in range(80)})
    frame["y"] = (frame.sum(axis=1) + rng.normal(size=400)).round(3)
    frame.to_csv(tmp_path / "wide.csv", index=False)
    model = tmp_path / "wide.skops"
    line = ("release", tmp_path / "wide.csv", "--target", "y", "--noise", "0.01", "--out", model)
    assert fisherleak(*line).status == 0
    frame.iloc[:3, :80] = np.nan
    frame[[f"note {k}" for k in range(80)]] = 1
    frame.to_csv(tmp_path / "new.csv", index=False)
    done = fisherleak("predict", model, tmp_path / "new.csv")
    assert (done.status, done.out.count("\n")) == (0, 401)
    assert "'reading 4' (3 rows) and 75 more." in done.err
    assert "'note 3' and 76 more." in done.err
    assert max(map(len, done.err.splitlines())) < 440


def test_help_says_what_is_written(fisherleak: Command) -> None:
    done = fisherleak("predict", "--help-all")
    text = re.sub(r"\s+", " ", done.out)
    assert done.status == 0
    for words in (
        "MODEL",
        "TABLE",
        "--out FILE",
        "--id COLUMN",
        "--key PUB",
        "the probability of each",
        "does not verify",
    ):
        assert words in text


def test_a_model_of_one_column_reads_a_table_of_one(fisherleak: Command, tmp_path: Path) -> None:
    """A file of one column may have an unusual delimiter: naming one settles it."""
    hospital()[["age", "cost"]].to_csv(tmp_path / "t.csv", index=False)
    model, one = tmp_path / "m.skops", tmp_path / "one.csv"
    assert fisherleak("release", tmp_path / "t.csv", "--target", "cost", "--noise", "1", "--out", model).status == 0
    one.write_text("age\n50\n61\n", encoding="utf-8")
    done = fisherleak("predict", model, one)
    assert (done.status, done.out) == (2, "")
    assert "--delimiter names the delimiter" in done.err
    done = fisherleak("predict", model, one, "--delimiter", ",")
    assert (done.status, done.out.count("\n")) == (0, 3)


def test_standard_input_and_other_languages(
    fisherleak: Command, released: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        PLAIN.replace("age,", "name,age,")
        .replace("\n51", "\nŁódź,51")
        .replace("\n52", '\n"a,b",52')
        .replace("\n53", "\n,53")
    )
    (tmp_path / "new.csv").write_text(text, encoding="utf-8")
    with (tmp_path / "new.csv").open(encoding="utf-8") as file:
        monkeypatch.setattr("sys.stdin", file)
        done = fisherleak("predict", released["cost"], "-", "--id", "name")
    assert done.status == 0, done.err
    assert [row["name"] for row in csv.DictReader(io.StringIO(done.out))] == ["Łódź", "a,b", ""]


@pytest.mark.parametrize("cell", [{"x": 1}, ["D01"]], ids=["record", "list"])
def test_a_category_of_lists_or_records_is_refused(
    fisherleak: Command, released: dict[str, Path], tmp_path: Path, cell: Any
) -> None:
    pytest.importorskip("pyarrow")
    table = hospital(40, seed=5)
    table.assign(diagnosis=[cell] * len(table)).to_parquet(tmp_path / "new.parquet", index=False)
    done = fisherleak("predict", released["outcome"], tmp_path / "new.parquet")
    assert (done.status, "'diagnosis' of new.parquet holds lists or records" in done.err) == (2, True)

"""Files of other programs, and text files in other forms."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.cli import main
from fisherleak.errors import FisherleakError
from fisherleak.tables import Choices, design_of, from_frame, read_table
from fisherleak.tables.read.foreign import EXTRAS

FRAME = pandas.DataFrame(
    {"age": np.arange(60.0) % 7 + 0.5, "city": ["New York", "Rome"] * 30, "y": np.arange(60.0) ** 2}
)


@pytest.mark.parametrize(
    "kind", ["feather", "stata", "json lines", "json array", "blanks", "R with blanks", "R with tabs"]
)
def test_the_same_table_in_every_form(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    if kind == "feather":
        FRAME.to_feather(path)
    elif kind == "stata":
        FRAME.to_stata(path, write_index=False)
    elif kind == "json lines":
        FRAME.to_json(path, orient="records", lines=True)
    elif kind == "json array":
        FRAME.to_json(path, orient="records", indent=2)
    else:
        named = kind != "blanks"
        text = FRAME.to_csv(sep="\t" if "tabs" in kind else " ", index=named)
        path.write_text(text.lstrip(" \t") if named else "\n" + text.replace(" ", "   "))
    if kind == "blanks":
        path.write_text(path.read_text().replace("New   York", "New York"))
    raw = read_table(path)
    found = design_of(raw, Choices("y"), held_out=0.0)
    assert [feature.name for feature in found.features] == ["age", "city"]
    assert found.n == 60
    assert found.features[1].levels == ("New York", "Rome")
    if named_by_r := kind.startswith("R"):
        assert any("called 'rownames'" in note for note in raw.notes) is named_by_r
        assert next(column for column in found.columns if column.name == "rownames").kind == "ignored"


@pytest.mark.parametrize(("content", "needed"), [("xlsx", "openpyxl"), ("sav", "pyreadstat"), ("rds", "pyreadr")])
def test_what_is_needed_is_named(content: str, needed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"t.{content}"
    if content == "xlsx":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("xl/workbook.xml", "<workbook/>")
    else:
        path.write_bytes({"sav": b"$FL2@(#) ", "rds": b"X\n\x00\x00\x00\x03"}[content] + bytes(60))
    monkeypatch.setitem(sys.modules, needed, None)
    with pytest.raises(FisherleakError, match=rf"needs {needed}.*pip install 'fisherleak\[{EXTRAS[needed]}\]'"):
        read_table(path)


@pytest.mark.parametrize(
    "orient", ["columns", "split", "table", "lists", "records over lines", "an answer", "an answer over lines"]
)
def test_json_by_columns_is_the_same_table(orient: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    if orient == "lists":
        path.write_text(json.dumps(FRAME.to_dict(orient="list"), indent=1))
    elif "answer" in orient:
        path.write_text(json.dumps({"people": FRAME.to_dict("records")}, indent=1 if "lines" in orient else None))
    elif orient == "records over lines":
        FRAME.to_json(path, orient="records", indent=1)
    else:
        write: Any = FRAME.to_json
        write(path, orient=orient, index=orient != "table")
    raw = read_table(path)
    assert raw.names == ("age", "city", "y")
    found = design_of(raw, Choices("y"), held_out=0.0)
    np.testing.assert_allclose(found.labels(), FRAME["y"])
    (tmp_path / "odd.json").write_text('{"a": 1,\n "b": 2}')
    with pytest.raises(FisherleakError, match="neither one object on each line nor columns"):
        read_table(tmp_path / "odd.json")
    (tmp_path / "lists.json").write_text(json.dumps([["age", "y"], ["secret", 2]]))
    with pytest.raises(FisherleakError, match="is JSON of lists") as refusal:
        read_table(tmp_path / "lists.json")
    assert "secret" not in str(refusal.value)


def test_labels_of_stata_are_categories_where_every_value_has_one(tmp_path: Path) -> None:
    frame = FRAME.drop(columns="city").assign(sex=np.arange(60) % 2 + 1, score=np.arange(60) % 5)
    labels: Any = {"sex": {1: "male", 2: "female"}, "score": {0: "none", 4: "all"}}
    frame.to_stata(tmp_path / "t.dta", write_index=False, value_labels=labels)
    raw = read_table(tmp_path / "t.dta")
    found = {feature.name: feature for feature in design_of(raw, Choices("y"), held_out=0.0).features}
    assert found["sex"].levels == ("female", "male")
    assert found["score"].kind == "number"
    assert "Labels of values in t.dta are taken as categories: 'sex'." in raw.notes[0]
    assert "These columns hold the values: 'score'" in raw.notes[1]


def test_labels_of_spss_are_categories_where_every_value_has_one(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip(
        "pyreadstat", reason="SPSS files need pyreadstat, in the environment of the corpus"
    )
    frame = FRAME.assign(sex=np.arange(60) % 2 + 1.0, score=np.arange(60) % 5 + 0.0, unit=np.arange(60) % 3 + 0.0)
    frame.loc[3, "sex"] = np.nan
    labels = {"sex": {1.0: "male", 2.0: "female"}, "score": {4.0: "all"}, "unit": {0.0: "a", 1.0: "b", 2.0: "b"}}
    pyreadstat.write_sav(frame, str(tmp_path / "t.sav"), variable_value_labels=labels)
    raw = read_table(tmp_path / "t.sav")
    design = design_of(raw, Choices("y"), held_out=0.0)
    found = {feature.name: feature for feature in design.features}
    assert found["city"].levels == ("New York", "Rome")
    assert found["sex"].levels == ("female", "male")
    assert found["score"].kind == "number"
    assert found["unit"].levels == ("a (0)", "b (1)", "b (2)")
    assert [(item.column, item.count) for item in design.filled] == [("sex", 1)]
    assert any("'sex', 'unit'" in note for note in raw.notes)


@pytest.mark.parametrize("packed", ["", "gzip", "bzip2", "xz"])
def test_files_of_r_are_read(packed: str, tmp_path: Path) -> None:
    pyreadr = pytest.importorskip("pyreadr", reason="files of R need pyreadr, in the environment of the corpus")
    frame = FRAME.assign(city=FRAME["city"].astype("category"))
    pyreadr.write_rds(str(tmp_path / "t.rds"), frame)
    pack: Any = {"": bytes, "gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}[packed]
    (tmp_path / "t.rds").write_bytes(pack((tmp_path / "t.rds").read_bytes()))
    raw = read_table(tmp_path / "t.rds")
    assert raw.names == ("age", "city", "y")
    assert design_of(raw, Choices("y"), held_out=0.0).features[1].levels == ("New York", "Rome")


def test_a_frame_of_a_file_of_r_is_named(tmp_path: Path) -> None:
    pyreadr = pytest.importorskip("pyreadr", reason="files of R need pyreadr, in the environment of the corpus")
    pyreadr.write_rdata(str(tmp_path / "t.rda"), FRAME, df_name="people")
    assert read_table(tmp_path / "t.rda", sheet="people").rows == 60
    with pytest.raises(FisherleakError, match=r"`sheet` is 'visits', and t.rda has the data frames 'people'"):
        read_table(tmp_path / "t.rda", sheet="visits")


def test_a_frame_of_several_types_is_refused_without_its_cell() -> None:
    with pytest.raises(FisherleakError, match=r"The column 'age' of .* holds values of several types") as refusal:
        from_frame(pandas.DataFrame({"age": [1.5, "secret", 2.5], "y": [1, 2, 3]}))
    assert "secret" not in str(refusal.value)


def test_names_match_without_the_blanks_around_them(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(FRAME.to_csv(index=False).replace("age,city,y", "age, city , y"))
    command = [
        "audit",
        str(tmp_path / "t.csv"),
        "--target",
        "y",
        "--drop",
        "city",
        "--quiet",
        "--no-attacks",
        "--draws",
        "2",
    ]
    assert main([*command, "--out", str(tmp_path / "a" / "b" / "out")]) == 0
    assert (tmp_path / "a" / "b" / "out" / "report.html").is_file()


def test_columns_that_determine_each_other_are_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    FRAME.assign(years=FRAME["age"] * 2).to_csv(tmp_path / "t.csv", index=False)
    assert main(["audit", str(tmp_path / "t.csv"), "--target", "y", "--l2", "0", "--no-attacks"]) == 2
    said = capfd.readouterr().err
    assert "'age'" in said or "'years'" in said

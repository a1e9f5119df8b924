"""Files of other programs, and text files in other forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.cli import main
from fisherleak.errors import FisherleakError
from fisherleak.tables import Choices, design_of, read_table

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


def test_a_workbook_is_read_or_says_what_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    try:
        FRAME.to_excel(path, index=False)
    except ImportError:
        import zipfile

        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("xl/workbook.xml", "<workbook/>")
        with pytest.raises(FisherleakError, match="pip install openpyxl"):
            read_table(path)
    else:
        assert read_table(path).names == ("age", "city", "y")


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

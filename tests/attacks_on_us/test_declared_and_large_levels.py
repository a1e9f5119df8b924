"""Categories that are declared by the thousand, or are whole numbers that floats cannot tell apart; a setting that is free."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest

from fisherleak.auditing.unconfirmed_on_cards import _given_settings
from fisherleak.cli import main
from fisherleak.errors import InvalidInputError
from fisherleak.releasing.files.released_files import load_model, save_model
from fisherleak.tables import design_of, from_frame, read_table
from fisherleak.tables.decide.choices import MOST_DECLARED, Choices
from fisherleak.training.trained_model import Settings

BOUNDS = (("a", (-10.0, 10.0)), ("y", (-10.0, 10.0)))


def table(first: int) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.normal(size=120).round(3)
    c = [first + k for k in rng.integers(0, 4, 120).tolist()]
    return pandas.DataFrame({"a": a, "c": c, "y": (a + rng.normal(size=120)).round(3)})


@pytest.mark.parametrize("first", [2**62, 2**63 - 8])
def test_categories_that_are_one_as_floats_are_released(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table(first).to_csv("t.csv", index=False)
    bounds = [option for name, _ in BOUNDS for option in ("--bounds", f"{name}=-10:10")]
    given = ["t.csv", "--target", "y", "--category", "c", "--noise", "1", *bounds, "--out", "m.skops"]
    assert main(["release", *given]) == 0, capsys.readouterr().err
    levels = [column.get("levels") for column in load_model(Path("m.skops")).card["columns"]]
    assert [first + k for k in range(4)] in levels
    assert main(["verify", "m.skops"]) == 0
    assert main(["predict", "m.skops", "t.csv", "--out", "p.csv"]) == 0, capsys.readouterr().err


def test_too_many_declared_categories_are_refused_before_anything_is_computed() -> None:
    levels = tuple(f"level {k}" for k in range(MOST_DECLARED // 2))
    rest = (*levels, "one more")
    frame = table(0).assign(c=levels[:4] * 30, d=levels[:3] * 40)
    with pytest.raises(InvalidInputError, match="lists 2001 categories, and at most 2000"):
        design_of(from_frame(frame), Choices("y", levels=(("c", levels), ("d", rest))))
    assert design_of(from_frame(frame), Choices("y", levels=(("c", levels[:9]),)), held_out=0.0).n == 120


@pytest.mark.parametrize("missing", ["impute", "drop"])
def test_an_audit_names_what_becomes_of_missing_cells_among_what_was_given(missing: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    table(0).drop(columns="c").to_csv(path, index=False)
    out = tmp_path / "m.skops"
    save_model(read_table(path), Settings("y", missing=missing, bounds=BOUNDS), out, noise=1.0, random_state=0)
    assert ("missing" in _given_settings(load_model(out))) is (missing == "drop")


def of_sixty(without: int | None = None, slip: int | None = None) -> pandas.DataFrame:
    """Sixty categories, of which two have as many rows as the least frequent of the fifty that a guess would keep."""
    names = [f"m{k:02d}" for k in range(58)] + ["aa", "zz"]
    cat = [name for k, name in enumerate(names) for _ in range(14 if k < 48 else 6 if k < 58 else 13 - (name == "aa"))]
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame({"x": rng.normal(size=len(cat)).clip(-3, 3).round(2), "cat": cat})
    frame["y"] = (frame.x + 8.0 * (frame.cat == "zz") - 8.0 * (frame.cat == "aa")).round(2)
    if slip is not None:
        frame.loc[slip, "cat"] = "slip"
    return frame if without is None else frame.drop(index=without)


@pytest.mark.parametrize("declared", [60, 50], ids=["all", "some"])
def test_categories_that_are_declared_are_used_whatever_the_rows(declared: int) -> None:
    """More than fifty categories are pooled where nobody declares them: then one row can decide which."""
    whole = of_sixty()
    names = sorted(whole.cat.unique())
    choices = Choices("y", levels=(("cat", tuple(names[-declared:])),), rare=5)

    def rows_of(frame: pandas.DataFrame) -> dict[str, int]:
        """How many rows have each category that the model has a coefficient for."""
        design = design_of(from_frame(frame), choices, "linear", 0.0)
        (feature,) = (feature for feature in design.features if feature.name == "cat")
        return dict(zip(feature.levels[1:], np.asarray(design.X)[:, feature.columns].sum(axis=0), strict=True))

    last = int(whole.index[whole.cat == "zz"][0])
    for frame in (whole, of_sixty(without=last), of_sixty(slip=last)):
        own = rows_of(frame)
        assert len(own) >= 59
        assert own == {name: np.sum(frame.cat == name) for name in own}


def test_declared_categories_of_a_column_with_too_many_texts_are_refused_by_name() -> None:
    frame = pandas.DataFrame({"c": [f"t{k % 1100}" for k in range(2400)], "y": np.arange(2400) % 7 + 0.5})
    with pytest.raises(InvalidInputError, match="`levels` names 'c', which has 1100 different values: at most 1000"):
        design_of(from_frame(frame), Choices("y", levels=(("c", ("t0", "t1")),)), "linear", 0.0)

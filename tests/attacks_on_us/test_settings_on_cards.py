"""Two tables that differ in one row, or in a cell of a column that is left out, and one command: what their cards tell apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("skops")

from attacks_on_us.test_hidden_in_files import audited
from fisherleak.errors import InvalidInputError
from fisherleak.releasing.cards.names_on_cards import trained_as_read
from fisherleak.releasing.cards.signatures import card_path
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.releasing.files.verification import verify
from fisherleak.tables import RawTable, from_frame
from fisherleak.training.trained_model import Settings
from often import often

pytestmark = pytest.mark.usefixtures("quick_audits")
Json = dict[str, Any]
ROWS, SOMEONE = 121, 100


def table() -> Any:
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame({f"x{k}": rng.normal(50, 10, ROWS).clip(5, 95).round(1) for k in range(6)})
    frame["y"] = (frame.to_numpy() @ rng.normal(0, 0.2, 6) + rng.normal(0, 3, ROWS)).round(1)
    frame["hiv"] = (frame.index == SOMEONE).astype(int)
    frame["city"] = rng.choice(["Bonn", "Genua", "Rom"], ROWS)
    frame.loc[[SOMEONE, 3, 5, 9, 11], "city"] = "Oslo"
    frame["sort"] = rng.choice(["a", "b"], ROWS)
    frame["name"] = [f"person {k}" for k in range(ROWS)]
    return frame


FRAME = table()
BOUNDS = (*((f"x{k}", (0.0, 100.0)) for k in range(6)), ("y", (-200.0, 200.0)))
OTHERS = ("hiv", "name")


def with_text(column: str, *texts: str) -> Any:
    """A column as text, and other texts in the rows from someone's on."""
    frame = FRAME.assign(**{column: FRAME[column].astype(str)})
    frame.loc[SOMEONE : SOMEONE + len(texts) - 1, column] = texts
    return frame


def changed(column: str, value: Any, frame: Any = FRAME) -> Any:
    """Another value in one cell."""
    found = frame.copy()
    found.loc[SOMEONE, column] = value
    return found


TOTAL = pandas.concat(
    [FRAME.assign(name="person"), FRAME.select_dtypes("number").sum().round(1).to_frame().T.assign(name="Total")]
).assign(city=lambda f: f.city.fillna("Rom"), sort=lambda f: f.sort.fillna("a"))
TWINS: dict[str, tuple[Any, Any, Json]] = {
    "drop, a row less": (FRAME, FRAME.drop(index=SOMEONE), {"drop": (*OTHERS, "city")}),
    "drop, a cell of a constant": (FRAME, changed("hiv", 0), {"drop": OTHERS}),
    "drop, a cell of texts": (FRAME, changed("sort", "c"), {"drop": (*OTHERS, "sort")}),
    "drop, a constant text": (
        FRAME.assign(sort="a"),
        changed("sort", "b", FRAME.assign(sort="a")),
        {"drop": (*OTHERS, "sort")},
    ),
    "some levels": (FRAME, FRAME.drop(index=SOMEONE), {"drop": OTHERS, "levels": (("city", ("Oslo",)),)}),
    "all levels": (
        FRAME,
        FRAME.drop(index=SOMEONE),
        {"drop": OTHERS, "levels": (("city", ("Bonn", "Genua", "Oslo", "Rom")),)},
    ),
    "numbers": (
        with_text("x0", *["below"] * 3),
        with_text("x0", *["below"] * 2),
        {"drop": OTHERS, "numbers": ("x0",)},
    ),
    "numbers, many texts": (
        with_text("x0", *[f"text {k}" for k in range(13)]),
        with_text("x0", *[f"text {k}" for k in range(12)]),
        {"drop": OTHERS, "numbers": ("x0",)},
    ),
    "numbers of two": (
        FRAME.assign(x5=FRAME.index % 2),
        changed("x5", 2, FRAME.assign(x5=FRAME.index % 2)),
        {"drop": OTHERS, "numbers": ("x5",)},
    ),
    "categories": (
        FRAME.assign(sort=["a"] * 60 + [f"c{k}" for k in range(61)]),
        FRAME.assign(sort=["a"] * 61 + [f"c{k}" for k in range(60)]),
        {"drop": OTHERS, "categories": ("sort", "city"), "levels": (("sort", ("a", "b")),)},
    ),
    "unite": (FRAME, changed("sort", FRAME.sort[SOMEONE].upper()), {"drop": OTHERS, "unite": ("sort",)}),
    "unite of what is left out": (FRAME, changed("name", "PERSON 1"), {"drop": OTHERS, "unite": ("name",)}),
    "decimal": (
        with_text("x0", "1.234,5"),
        with_text("x0"),
        {"drop": OTHERS, "decimal": ".", "numbers": ("x0",)},
    ),
    "a total": (
        TOTAL,
        changed("x0", 6.0, TOTAL.reset_index(drop=True)),
        {"drop": OTHERS, "keep_total": True, "bounds": ()},
    ),
}
UNLIKE = ("data", "source"), ("model", "file_sha256"), ("digest", "value")
"""What two releases have in any case."""


def released(frame: Any, path: Path, settings: Settings, **how: Any) -> Json:
    save_model(from_frame(frame), settings, path, random_state=0, **how)
    found: Json = json.loads(card_path(path).read_text(encoding="utf-8"))
    for part, name in UNLIKE:
        del found[part][name]
    return found


@pytest.mark.parametrize("way", often(TWINS, 5))
def test_no_row_decides_which_declarations_a_card_has(way: str, tmp_path: Path) -> None:
    one, other, given = TWINS[way]
    settings = Settings("y", model="linear", held_out=0.0, **{"bounds": BOUNDS, **given})
    cards = [released(f, tmp_path / f"{k}.skops", settings, noise=0.05) for k, f in enumerate((one, other))]
    if given.get("bounds") == ():  # a total moves scales that are not declared
        cards = [card["settings"] for card in cards]
    assert cards[0] == cards[1]
    for k, frame in enumerate((one, other)):
        path = tmp_path / f"{k}.skops"
        assert verify(path).failed is None
        retrain(load_model(path), from_frame(frame))


@pytest.mark.long
def test_a_cell_of_a_column_that_is_left_out_decides_no_claim(tmp_path: Path) -> None:
    """That replaced rows bring a column back is no matter where it was left out; an audit of either passes."""
    rng = np.random.default_rng(2)
    frame = pandas.DataFrame({"a": rng.normal(50, 10, 2000).clip(10, 90).round(1), "hiv": np.arange(2000) == SOMEONE})
    frame = frame.assign(hiv=frame.hiv.astype(int), y=(frame.a + rng.normal(0, 5, 2000)).clip(0, 120).round(1))
    twins, how = (frame, changed("hiv", 0, frame), frame), {"eta": 2.0, "shape": "isotropic"}
    bounds, found = (("a", (0.0, 100.0)), ("y", (0.0, 120.0))), []
    for k, drop in enumerate([("hiv",), ("hiv",), ()]):
        settings = Settings("y", model="linear", held_out=0.0, l2=1.0, bounds=bounds, drop=drop)
        found.append(released(twins[k], tmp_path / f"{k}.skops", settings, **how)["noise"]["calibrated"]["probability"])
        assert audited(tmp_path / f"{k}.skops", from_frame(twins[k])).failed is None
    assert found[0] == found[1]
    assert found[2] == 1.0  # where nobody left it out, four more rows of it bring it back


def test_what_is_left_out_costs_no_rows(tmp_path: Path) -> None:
    """A column that cannot be used is as one that is left out: a model card says neither, and rows that lack it stay."""
    frame = changed("hiv", None).assign(hiv=lambda f: f.hiv.where(f.index % 2 == 0))
    asked = Settings("y", held_out=0.0, missing="drop", rare=5)
    trained, settings = trained_as_read(from_frame(frame), asked)
    assert trained.design.n == ROWS
    assert settings.drop == ("hiv",)
    assert any("'hiv' is not used" in each for each in trained.design.decided)
    path = tmp_path / "m.skops"
    save_model(from_frame(frame), asked, path, noise=0.5, random_state=0)
    assert retrain(load_model(path), from_frame(frame)).design.n == ROWS


@pytest.fixture(scope="module")
def marked() -> RawTable:
    """Numbers that either mark reads, and a column that is not used and settles it."""
    rng = np.random.default_rng(2)
    texts = [f"{k},{m:03d}" for k, m in zip(rng.integers(1, 9, ROWS), rng.integers(0, 999, ROWS), strict=True)]
    number = [f"{k},5" for k in range(ROWS)]
    return from_frame(FRAME.assign(x0=texts, id=number))


def test_marks_that_a_column_settles_which_is_left_out_are_refused(marked: RawTable, tmp_path: Path) -> None:
    path = tmp_path / "m.skops"
    asked = Settings("y", held_out=0.0, drop=(*OTHERS, "id"))
    save_model(marked, asked, path, noise=0.5, random_state=0)
    retrain(load_model(path), marked)
    with pytest.raises(InvalidInputError, match=r"[Gg]ive `decimal`"):
        _with_another_reading(marked, tmp_path / "n.skops")


def _with_another_reading(marked: RawTable, path: Path) -> None:
    frame = pandas.DataFrame({name: marked.parts[0].read((name,)).column(0).to_pylist() for name in marked.names})
    frame["id"] = [f"{k + 1},0" for k in range(ROWS)]  # an identifier, which is not used whether it is left out or not
    save_model(from_frame(frame), Settings("y", held_out=0.0, drop=(*OTHERS, "id")), path, noise=0.5, random_state=0)

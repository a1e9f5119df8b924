"""What the runner keeps, skips and writes, with small items in place of the paper's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fisherleak as fl
from fisherleak.reproduce import ITEMS, Comparison, Item, reproduce
from fisherleak.reproduce import reproduction as run_module


def _draw(numbers: Any, work: Any) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    axes.plot(numbers["values"])
    return figure


def _compare(numbers: Any) -> list[Comparison]:
    return [Comparison("a | b", str(numbers["values"]), "published")]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two items that note when they are computed."""
    order: list[str] = []

    def item(name: str) -> Item:
        def compute(work: Any) -> dict[str, Any]:
            order.append(name)
            return {"values": [1, 2]}

        return Item(name, f"Title of {name}", {"l2": 0.1}, compute, _compare, _draw if name == "one" else None)

    items = {name: item(name) for name in ("one", "two")}
    monkeypatch.setattr(run_module, "ITEMS", items)
    return order


def test_everything_is_written(made: list[str], tmp_path: Path) -> None:
    said: list[str] = []
    page = reproduce(out=tmp_path / "new", say=said.append)
    assert made == ["one", "two"]
    assert sorted(path.name for path in page.parent.iterdir()) == [
        "RESULTS.md",
        "one.json",
        "one.pdf",
        "one.png",
        "two.json",
    ]
    text = page.read_text()
    assert "## Title of one" in text
    assert "a \\| b" in text
    assert "![Title of one](one.png)" in text
    assert json.loads((page.parent / "two.json").read_text())["numbers"] == {"values": [1, 2]}
    assert said == ["1 of 2: Title of one", "2 of 2: Title of two"]


def test_finished_items_are_kept_unless_asked(made: list[str], tmp_path: Path) -> None:
    reproduce(["one"], out=tmp_path)
    reproduce(["all"], out=tmp_path)
    assert made == ["one", "two"]
    assert "## Title of one" in (tmp_path / "RESULTS.md").read_text()
    reproduce(["two"], out=tmp_path, again=True)
    assert made == ["one", "two", "two"]


@pytest.mark.long
def test_what_is_damaged_missing_or_made_with_other_settings_is_made_again(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reproduce(out=tmp_path)
    (tmp_path / "one.png").unlink()
    (tmp_path / "two.json").write_text("{")
    reproduce(out=tmp_path)
    assert made == ["one", "two"] * 2
    (tmp_path / "one.pdf").write_bytes(b"")
    record = json.loads((tmp_path / "two.json").read_text())
    (tmp_path / "two.json").write_text(json.dumps({**record, "numbers": {}}))
    reproduce(out=tmp_path)
    assert made == ["one", "two"] * 3
    other = {name: replace(item, settings={"l2": 0.2}) for name, item in vars(run_module)["ITEMS"].items()}
    monkeypatch.setattr(run_module, "ITEMS", other)
    reproduce(out=tmp_path)
    assert made == ["one", "two"] * 4
    (tmp_path / "data").mkdir()
    reproduce("two", data_home=tmp_path / "data", out=tmp_path)
    assert made[8:] == ["two"]


def test_an_interrupted_run_goes_on_where_it_stopped(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(numbers: Any, work: Any) -> Any:
        raise KeyboardInterrupt

    items = dict(vars(run_module)["ITEMS"])
    broken = {**items, "two": replace(items["two"], draw=interrupted)}
    monkeypatch.setattr(run_module, "ITEMS", broken)
    with pytest.raises(KeyboardInterrupt):
        reproduce(out=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.json", "one.pdf", "one.png"]
    monkeypatch.setattr(run_module, "ITEMS", items)
    reproduce(out=tmp_path)
    assert made == ["one", "two", "two"]


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(fl.InvalidInputError, match=r"There is no item 'figure8'. Did you mean 'figure"):
        reproduce(["figure8"], out=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(fl.DataError, match="cannot be made"):
        reproduce(["table1"], out=tmp_path / "file" / "below")
    with pytest.raises(fl.DataError):
        reproduce(["figure1"], data_home=tmp_path, out=tmp_path / "out")


def test_every_item_of_the_paper_is_there() -> None:
    assert {"table1", "overlap", *(f"figure{k}" for k in range(1, 8))} <= set(ITEMS)
    for name, item in ITEMS.items():
        assert item.name == name
        json.dumps(item.settings)

"""Templates are compiled once, and again when anything changes that their code was made from."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment, FileSystemLoader
from jinja2.bccache import bc_magic

from fisherleak.report.page_templates import CompiledTemplates


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a template and a module that may write bytecode beside them."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "page.html.j2").write_text("{{ 2 | twice }}{{ text }}", encoding="utf-8")
    (tmp_path / "filters.py").write_text("twice = 2", encoding="utf-8")
    return tmp_path


def rendered(folder: Path, times: int = 2) -> str:
    environment = Environment(  # as a run of its own would make it
        loader=FileSystemLoader(folder), autoescape=True, bytecode_cache=CompiledTemplates(folder.glob("*.py"))
    )
    environment.filters["twice"] = lambda number: times * number
    return environment.get_template("page.html.j2").render(text="<b>")


def kept(folder: Path) -> list[Path]:
    return [*folder.rglob("__pycache__/*")]


def test_second_run_compiles_nothing_and_gives_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rendered(folder)
    assert first == "4&lt;b&gt;"
    assert [path.name.split(".")[0] for path in kept(folder)] == ["page"]
    monkeypatch.setattr(Environment, "_generate", lambda *_, **__: pytest.fail("compiled again"))
    assert rendered(folder) == first


@pytest.mark.parametrize("changed", ["page.html.j2", "filters.py"])
def test_what_changes_is_compiled_again(folder: Path, changed: str) -> None:
    rendered(folder)
    with (folder / changed).open("a", encoding="utf-8") as file:
        file.write("!")
    assert rendered(folder, times=3) == ("6&lt;b&gt;!" if changed.endswith("j2") else "6&lt;b&gt;")


@pytest.mark.parametrize("part", [0, 3, 20, 60, 200])
def test_file_that_is_not_whole_is_replaced(folder: Path, part: int) -> None:
    rendered(folder)
    (path,) = kept(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:part])
    assert rendered(folder) == "4&lt;b&gt;"
    assert path.read_bytes() == whole


def test_no_pickle_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever puts one there has nothing run: it is replaced."""
    rendered(folder)
    (path,) = kept(folder)
    whole = path.read_bytes()
    path.write_bytes(bc_magic + pickle.dumps("text"))
    for name in ("load", "loads"):
        monkeypatch.setattr(pickle, name, lambda *_, **__: pytest.fail("a pickle was read"))
    assert rendered(folder) == "4&lt;b&gt;"
    assert path.read_bytes() == whole


def test_nothing_is_written_where_python_writes_no_bytecode(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert rendered(folder) == "4&lt;b&gt;"
    assert kept(folder) == []


def test_folder_that_cannot_be_written_is_left_alone(folder: Path) -> None:
    (folder / "__pycache__").write_text("a file where the folder would be", encoding="utf-8")
    assert rendered(folder) == "4&lt;b&gt;"
    assert sorted(path.name for path in folder.iterdir()) == ["__pycache__", "filters.py", "page.html.j2"]


def test_pythons_own_prefix_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(folder / "elsewhere"))
    assert rendered(folder) == "4&lt;b&gt;"
    assert kept(folder) == []
    assert len([*(folder / "elsewhere").rglob("page.html*.pyc")]) == 1


def test_templates_that_are_no_files_are_compiled_each_time(folder: Path) -> None:
    environment = Environment(
        loader=DictLoader({"page": "{{ text }}"}), autoescape=True, bytecode_cache=CompiledTemplates([])
    )
    assert environment.get_template("page").render(text="<") == "&lt;"
    assert kept(folder) == []

"""A loss and a data set from outside the package, as their pages add them: with public names only."""

from __future__ import annotations

import ast
import importlib
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fisherleak as fl

ROOT = Path(__file__).parent.parent
PAGES = ["docs/add-a-loss.md", "docs/add-a-data-set.md"]


def snippets(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def executed(page: str, **names: Any) -> dict[str, Any]:
    for code in snippets(page):
        exec(code, names)  # noqa: S102 - our own pages
    return names


@pytest.mark.parametrize("page", PAGES)
def test_pages_use_public_names_only(page: str) -> None:
    for code in snippets(page):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom):
                assert node.module is not None
                names = [*node.module.split("."), *(alias.name for alias in node.names)]
                if node.module.startswith("fisherleak."):
                    home = importlib.import_module(node.module)
                    assert {alias.name for alias in node.names} <= set(home.__all__)
            elif isinstance(node, ast.Attribute):
                names = [node.attr]
            else:
                continue
            assert not [name for name in names if name.startswith("_")], names


def test_a_loss() -> None:
    names = executed("docs/add-a-loss.md")
    X, y = names["X"], names["y"]
    assert names["fit"].gradient <= 1e-10
    moved, step = X.copy(), 1e-5
    moved[7, 1] += step
    other = fl.minimise(moved, y, loss=names["log_cosh"], l2=1e-2)
    slope = np.linalg.norm(np.asarray(other.coef) - np.asarray(names["fit"].coef)) / step
    assert names["leak"].per_cell()[7, 1] == pytest.approx(slope / 0.1, rel=1e-3)


def test_a_data_set(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    names = executed("docs/add-a-data-set.md")
    assert repr(names["data"]) == "Dataset('cars', 30 training and 10 test examples)"
    assert names["leak"].per_example().shape == (30,)
    with pytest.raises(fl.DataError, match="is missing"):
        names["load_cars"](data_home=tmp_path / "elsewhere")
    (names["folder"] / "cars" / "cars.csv").write_text("age,weight,passed\n1,2,perhaps\n")
    with pytest.raises(fl.DataError, match="is damaged"):
        names["load_cars"](data_home=names["folder"])
    shutil.rmtree(names["folder"])

"""What is loaded when: public names on first use, and nothing that nobody asked for."""

from __future__ import annotations

import ast
import importlib
import json
import rlcompleter
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import fisherleak as fl

LATE = {
    *("pandas", "dask", "distributed", "pyarrow", "matplotlib", "rich", "jinja2", "pooch", "skops", "typer", "numba"),
}
HEAVY = {*LATE, "numpy", "scipy", "sklearn", "narwhals", "array_api_compat"}
LEARN = "import sklearn.compose, sklearn.ensemble, sklearn.impute, sklearn.linear_model, sklearn.model_selection"
FOLDERS = ["fisherleak.auditing", "fisherleak.cli", "fisherleak.nn", "fisherleak.reproduce", "fisherleak.tables"]


def loaded_by(code: str, after: str = "") -> set[str]:
    """The heavy packages that code loads in a process of its own, beside those that were there before."""
    names = "{name.partition('.')[0] for name in sys.modules}"
    script = f"{after}\nimport json, sys\nbefore = {names}\n{code}\nprint(json.dumps(sorted({names} - before)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return HEAVY & set(json.loads(done.stdout.splitlines()[-1]))


def test_the_package_loads_nothing() -> None:
    assert loaded_by("import fisherleak; dir(fisherleak); fisherleak.FisherleakError") == set()


def test_the_mathematics_load_arrays_only() -> None:
    assert not loaded_by("import fisherleak as fl; fl.minimise, fl.Laplace, fl.bounds") & {*LATE, "sklearn"}


def test_a_fit_and_its_noise_load_no_more() -> None:
    code = "import fisherleak as fl; fl.minimise([[0.0], [1.0], [2.0]], [0.0, 1.0, 1.0], 'squared', 0.1)"
    assert not loaded_by(code) & (LATE - {"numba"})


def test_all_public_names_load_what_scikit_learn_loads() -> None:
    used = "fl.measure(fl.minimise(X, [0.0, 1.0, 1.0], 'squared', 0.1), X, [0.0, 1.0, 1.0]).summary()"
    names = "import fisherleak as fl\nfor name in fl.__all__: getattr(fl, name)\nX = [[0.0], [1.0], [2.0]]"
    assert not loaded_by(f"{names}\n{used}", after=LEARN) & (LATE - {"numba"})


def test_the_report_loads_its_templates_when_it_is_made() -> None:
    assert not loaded_by("import fisherleak.report") & {"jinja2", "numpy"}


def test_tab_completion_shows_the_public_names_and_no_others() -> None:
    for _ in range(2):  # also after they were used
        assert set(dir(fl)) == {*fl.__all__, "__version__"}
        for name in fl.__all__:
            assert getattr(fl, name) is not None
    completer = rlcompleter.Completer({"fl": fl})
    found: list[str] = []
    while (text := completer.complete("fl.", len(found))) is not None:
        found.append(text.partition("(")[0].removeprefix("fl."))
    assert set(found) == set(fl.__all__)
    with pytest.raises(AttributeError, match="module 'fisherleak' has no attribute 'nose'"):
        fl.nose  # noqa: B018


def test_a_star_brings_all_public_names() -> None:
    names: dict[str, Any] = {}
    exec("from fisherleak import *", names)  # noqa: S102 - our own package
    assert set(fl.__all__) <= set(names)


@pytest.mark.parametrize("name", fl.__all__)
def test_importing_a_name_as_a_module_gives_a_module_or_fails(name: str) -> None:
    names: dict[str, Any] = {}
    try:
        exec(f"import fisherleak.{name} as m", names)  # noqa: S102 - our own package
    except ModuleNotFoundError:
        return
    assert isinstance(names["m"], ModuleType)
    assert not isinstance(getattr(fl, name), FunctionType)


# the lists that say where names live


def typed_imports(module: ModuleType) -> dict[str, str]:
    """Names that type checkers see, and the modules they come from."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    found: dict[str, str] = {}
    for block in blocks:
        for node in block.body:
            assert isinstance(node, ast.ImportFrom)
            for alias in node.names:
                assert alias.asname == alias.name, "only 'as' makes it a name of this module"
                found[alias.name] = str(node.module)
    return found


def lazy_homes(module: ModuleType) -> dict[str, str]:
    """Names that are loaded on first use, and the modules they come from."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    (call,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazily"
    ]
    homes = ast.literal_eval(call.args[1])
    return {name: home for home, names in homes.items() for name in names}


def test_the_three_lists_of_public_names_agree() -> None:
    homes = {name: f"fisherleak.{home}" for home, names in fl._HOMES.items() for name in names}
    homes |= dict.fromkeys(fl._ROOMS, "fisherleak")
    assert typed_imports(fl) == homes
    assert set(homes) == set(fl.__all__)
    assert len(set(fl.__all__)) == len(fl.__all__)


@pytest.mark.parametrize("folder", FOLDERS)
def test_lazy_folders_have_one_list_twice(folder: str) -> None:
    module = importlib.import_module(folder)
    homes = lazy_homes(module)
    assert typed_imports(module) == homes
    assert set(homes) <= set(module.__all__)
    assert dir(module) == sorted(module.__all__)
    assert module.__file__ is not None
    beside = {path.stem for path in Path(module.__file__).parent.iterdir()}
    assert not set(homes) & beside, "the import of a module would take the name's place"
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match=f"module '{folder}' has no attribute 'nose'"):
        module.nose  # noqa: B018

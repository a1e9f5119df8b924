"""Files beside the code agree with it: oldest versions, licences, the citation, what a source release holds."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import re
import tomllib
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import fisherleak as fl

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# tested in the newest version only
NOT_OLDEST = {"corpus", "docs", "lint", "opacus", "r", "spss", "torch"}
# what a dependency's oldest version needs, and we do not
OF_OTHERS = {"pyparsing"}


def lower_bounds() -> dict[str, str]:
    extras = PROJECT["project"]["optional-dependencies"]
    lines = [*PROJECT["project"]["dependencies"]]
    lines += [line for name, extra in extras.items() if name not in NOT_OLDEST for line in extra]
    wanted = [Requirement(line) for line in lines if not line.startswith("fisherleak[")]
    return {each.name: str(each.specifier) for each in wanted}


def oldest() -> dict[str, Requirement]:
    lines = (ROOT / "requirements-oldest.txt").read_text(encoding="utf-8").splitlines()
    pinned = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert not any(each.extras for each in pinned), "constraints have no extras"
    return {each.name: each for each in pinned}


def test_every_lower_bound_is_one_that_is_tested() -> None:
    pinned = oldest()
    for name, bound in lower_bounds().items():
        assert re.fullmatch(r">=[0-9.]+", bound), f"{name} needs a lower bound and no more; got {bound!r}"
        assert name in pinned, f"{name} has no line in requirements-oldest.txt"
        assert Version(bound.removeprefix(">=")) in pinned[name].specifier, f"{name}{bound}, but tested {pinned[name]}"


def test_the_description_links_to_nothing_that_an_index_does_not_have() -> None:
    own = importlib.metadata.metadata("fisherleak")
    assert own["Description-Content-Type"] == "text/markdown"
    text = str(own["Description"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](docs/" in readme
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert not [each for each in links if not each.startswith("https://")]
    assert "audit your own model" in text
    assert text.splitlines()[0] == readme.splitlines()[0]


def test_nothing_else_is_pinned() -> None:
    assert set(oldest()) - set(lower_bounds()) == OF_OTHERS


def test_extras_do_not_disagree() -> None:
    found: dict[str, set[str]] = {}
    for extra in PROJECT["project"]["optional-dependencies"].values():
        for line in extra:
            wanted = Requirement(line)
            found.setdefault(wanted.name, set()).add(str(wanted.specifier))
    assert not {name: bounds for name, bounds in found.items() if len(bounds) > 1}


def names_of_dependencies(tree: ast.Module) -> set[tuple[str, str]]:
    """Modules that are imported under a name at the top of a file, and what is asked of them: ("numpy", "linalg.norm")."""
    bound = {
        (alias.asname or alias.name.partition(".")[0]): (alias.name if alias.asname else alias.name.partition(".")[0])
        for node in tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, _, path = ast.unparse(node).partition(".")
            if root in bound and re.fullmatch(r"[\w.]+", path):
                found.add((bound[root], path))
    return found


def test_every_name_that_the_source_asks_of_a_module_is_there() -> None:
    """In the oldest versions too: not every line runs with them."""
    asked = set()
    for path in (ROOT / "src").rglob("*.py"):
        asked |= names_of_dependencies(ast.parse(path.read_text(encoding="utf-8")))
    assert ("numpy", "linalg.norm") in asked
    for module, name in sorted(asked):
        try:
            loaded = importlib.import_module(module)
        except ImportError:
            continue  # an extra that is not installed
        reduce(getattr, name.split("."), loaded)  # says what is not there


def test_what_the_oldest_versions_are_not_asked_is_there() -> None:
    lines = (ROOT / "tests" / "versionless.txt").read_text(encoding="utf-8").splitlines()
    for path in (line for line in lines if line and not line.startswith("#")):
        assert (ROOT / "tests" / path).exists(), f"tests/versionless.txt names {path}, which is not there"


def test_a_source_release_holds_what_is_named() -> None:
    for path in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]:
        assert (ROOT / path.removeprefix("/")).exists(), path


def test_licences_of_what_is_vendored_are_named() -> None:
    assert PROJECT["project"]["license"] == "BSD-3-Clause AND Apache-2.0"
    for pattern in PROJECT["project"]["license-files"]:
        assert list(ROOT.glob(pattern)), pattern


@pytest.mark.parametrize("field", [f"version: {fl.__version__}", "license: BSD-3-Clause"])
def test_the_citation_is_of_this_version(field: str) -> None:
    assert field in (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()

"""Whoever takes a released object apart finds nothing that depends on one row but the noisy parameters.

The walker goes through attributes, containers, arrays and what arrays are views of. It is set on releases of a table and of the
same table with one row changed, with the same noise: what differs between the two depends on that row.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sklearn import linear_model as lm
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

import fisherleak as fl
from attacks_on_us.walker import copied_with_noise, leaves
from copies import trusted_types
from fisherleak.releasing.files.released_files import save_model
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings
from releasable import ESTIMATORS, NUMBERS, labels, people, pipelines

NOISE = fl.Gaussian(0.5)
ROW = 17
ACCOUNTED = re.compile(
    r"^(\.steps\[\d+\]\[1\])?(\.estimators_\[\d+\])?\.(coef_|intercept_)(\.base)?(\[\d+\])*$"
    r"|^\.steps.*\.statistics_(\.base)?\[\d+\]$"
)
"""The noisy parameters of the last step, and what imputers fill in, with noise of its own: what was measured."""
DECLARED = re.compile(
    r"\.(mean_|scale_|min_|center_|components_|explained_variance_|statistics_|bsplines_|_cache|variances_)\b"
)
"""What steps learned and need to transform a row, where preprocessing is declared public."""


def differing(one: Any, other: Any) -> list[str]:
    """Ways to leaves that are not the same in two objects, or in one of them only."""
    first, second = dict(leaves(one)), dict(leaves(other))
    return sorted(path for path in first.keys() | second.keys() if not same(first.get(path), second.get(path)))


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and (one == other or (one != one and other != other))


def both(make: Callable[[], Any], columns: list[str], kind: str) -> list[Any]:
    """The model fitted on a table, and on the table with one row changed."""
    fitted = []
    for changed in (None, ROW):
        table = people(changed=changed)
        y = labels(kind, table, None if kind in ("classes", "three") else changed)
        if kind in ("classes", "three") and changed is not None:
            y[changed] = "ill" if y[changed] == "well" else "well"
        fitted.append(make().fit(table[columns], y))
    return fitted


def unaccounted(one: Any, other: Any, declared: bool = False) -> list[str]:
    return [
        path for path in differing(one, other) if not ACCOUNTED.match(path) and not (declared and DECLARED.search(path))
    ]


@pytest.mark.parametrize(("make", "columns", "kind", "public"), pipelines())
def test_nothing_of_one_row_is_in_a_release_but_the_noisy_parameters(
    make: Callable[[], Any], columns: list[str], kind: str, public: str
) -> None:
    one, other = (fl.release(model, NOISE, random_state=3, public=public) for model in both(make, columns, kind))
    assert unaccounted(one, other, declared=public == "preprocessing") == []
    assert any(ACCOUNTED.match(path) for path in differing(one, other))  # the walker gets there


@pytest.mark.parametrize("last", ESTIMATORS)
def test_the_walker_finds_what_copies_hold(last: type) -> None:
    estimator, kind = ESTIMATORS[last]
    one, other = both(lambda: make_pipeline(StandardScaler(), estimator()), NUMBERS, kind)
    found = unaccounted(copied_with_noise(one, NOISE), copied_with_noise(other, NOISE))
    assert ".steps[0][1].mean_[0]" in found
    assert ".steps[0][1].var_[2]" in found


@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler])
def test_the_shell_releases_nothing_else_either(scaler: type) -> None:
    def shell() -> Any:
        return fl.PrivateRelease(make_pipeline(scaler(), lm.Ridge()), over="max", eta=1.0, random_state=3)

    one, other = both(shell, NUMBERS, "real")
    assert unaccounted(one.estimator_, other.estimator_) == []
    assert not any(isinstance(step, scaler) for _, step in one.estimator_.steps)


def test_a_saved_file_holds_nothing_but_noisy_parameters(tmp_path: Path) -> None:
    io = pytest.importorskip("skops.io")
    found = []
    for name, changed in (("one", None), ("other", ROW)):
        table = people(changed=changed)
        table["dose"] = labels("real", table, changed)
        path = tmp_path / f"{name}.skops"
        save_model(from_frame(table), Settings("dose"), path, noise=0.5, random_state=3)
        found.append(io.load(path, trusted=sorted(trusted_types())))
    assert unaccounted(found[0], found[1]) == []


@pytest.mark.parametrize("shape", ["isotropic", "hessian"])
def test_a_model_from_a_frontier_holds_nothing_else_either(shape: str) -> None:
    """The shape of the rows themselves is in no part of what leaves."""
    found = []
    for changed in (None, ROW):
        table = people(changed=changed)
        y = labels("real", table, changed)
        options: dict[str, Any] = {"penalties": (10.0,), "weightings": ("none",), "shapes": (shape,)}
        frontier = fl.protect(make_pipeline(StandardScaler(), lm.Ridge()), table[NUMBERS], y, over="max", **options)
        found.append(frontier.release(choice=frontier.points[0], random_state=3))
    assert unaccounted(found[0], found[1]) == []
    assert differing(found[0], found[1])


@pytest.mark.parametrize("mechanism", [fl.Posterior(1.0), fl.ObjectivePerturbation(1.0)])
def test_a_draw_of_a_mechanism_is_its_parameters_and_the_mechanism(mechanism: Any) -> None:
    found = []
    for changed in (None, ROW):
        table = people(changed=changed)
        fit = fl.minimise(table[NUMBERS].to_numpy(), labels("real", table, changed), l2=0.1, intercept=True)
        found.append(fl.release(fit, mechanism, 3))
    differences = differing(found[0], found[1])
    assert differences
    assert all(re.match(r"^\.(coef|intercept)(\.base)?(\[\d+\])*$", path) for path in differences)


def test_a_minimiser_of_a_perturbed_objective_holds_nothing_of_the_rows_it_was_solved_on() -> None:
    found = []
    for changed in (None, ROW):
        table = people(changed=changed)
        X, y = table[NUMBERS].to_numpy(), (labels("real", table, changed) > 0) * 1.0
        fit = fl.minimise(X, y, "logistic", l2=0.1)
        found.append(fl.release(fit, fl.ObjectivePerturbation(1.0), 3, rows=(X, y)))
    differences = differing(found[0], found[1])
    assert differences
    assert all(re.match(r"^\.(coef|intercept)(\.base)?(\[\d+\])*$", path) for path in differences)


ENTRANCES = ("make_release", "released_by_rule", "draw_parameters")
PATHS = {"protection/release/procedure.py"}
"""Where noise is added to parameters that leave. A new place must be attacked here before it is listed."""
CALLERS = {
    "protection/release/release.py": "test_nothing_of_one_row_is_in_a_release_but_the_noisy_parameters",
    "protection/release/private_release.py": "test_the_shell_releases_nothing_else_either",
    "protection/frontier/frontier_candidates.py": "test_a_model_from_a_frontier_holds_nothing_else_either",
    "releasing/files/released_files.py": "test_a_saved_file_holds_nothing_but_noisy_parameters",
}
"""Who calls it, and the test that takes apart what they make."""


def imports_of(text: str) -> set[tuple[str, str]]:
    """Every (module, name) that is imported from, at any depth and however it is written."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom))
    return {(node.module or "", alias.name) for node in nodes for alias in node.names}


@pytest.mark.long
def test_every_way_out_is_attacked() -> None:
    source = Path(fl.__file__).parent
    texts = {path.relative_to(source).as_posix(): path.read_text(encoding="utf-8") for path in source.rglob("*.py")}
    found = {name: imports_of(text) for name, text in texts.items()}
    noise = {f"fisherleak.engine.noise{rest}" for rest in ("", ".add_noise_and_round")}
    adds = {name for name, pairs in found.items() if pairs & {(module, "released") for module in noise}}
    assert adds - {"engine/noise/__init__.py"} == PATHS, "a module adds noise to what leaves and is not in PATHS"
    makers = {("fisherleak.protection.release.procedure", name) for name in ENTRANCES}
    calls = {name for name, pairs in found.items() if pairs & makers}
    assert calls == {*CALLERS}, "a module makes releases and is not in CALLERS"
    assert all(test in globals() for test in CALLERS.values())

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import fisherleak as fl
from fisherleak.engine.noise.calibration_record import Calibration

NAMES = {
    *("LOSSES", "Attribute", "FisherleakError", "Fit", "Gaussian", "InvalidInputError", "Labels", "Leakage", "Loss"),
    *("LooseFitWarning", "NotAtMinimumError", "UnsupportedModelError"),
    *("NearSingularWarning", "Noise", "NotConvergedError", "SeparableClassesError", "SingularHessianError"),
    *("bounds", "calibrate", "compose", "measure", "minimise", "pseudo_huber", "release", "trim"),
    *("IRFIL", "PrivateRelease", "ReleaseReport", "Released", "Trimmed", "DataError", "datasets", "attacks", "nn"),
    *("ClusterError", "read_parquet_folder", "Bounded", "Laplace", "NOISES", "CountedEtas", "counted"),
    *("UncountedScaleWarning", "Answers", "SampledLabels", "queries_until", "Ledger"),
    *("Frontier", "Protected", "protect", "UncountedChoiceWarning"),
    *("gradients", "Posterior", "ObjectivePerturbation", "SeededReleaseWarning"),
    *("ModelAudit", "audit"),
}
METHODS = {
    *(
        "above_average",
        "attributes",
        "by_group",
        "by_person",
        "dataset",
        "fim",
        "fits",
        "n",
        "noise",
        "of",
        "per_attribute",
        "per_cell",
    ),
    *(
        "membership",
        "membership_by_group",
        "membership_kind",
        "people",
        "epsilon",
        "tradeoff",
        "per_example",
        "per_label",
        "plot",
        "report",
        "revealed",
        "sizes",
        "summary",
        "to_frame",
        "with_noise",
    ),
}


def test_public_names_are_frozen() -> None:
    """A name goes in or out only on purpose, with a line in the changelog."""
    assert set(fl.__all__) == NAMES
    assert {name for name in dir(fl.Leakage) if not name.startswith("_")} == METHODS


def test_version_is_that_of_the_package() -> None:
    assert fl.__version__ == importlib.metadata.version("fisherleak")


def test_every_module_says_what_it_is() -> None:
    for module in pkgutil.walk_packages(fl.__path__, "fisherleak."):
        assert importlib.import_module(module.name).__doc__


SHOWN = [
    fl.Leakage,
    fl.ModelAudit,
    fl.Frontier,
    fl.Ledger,
    fl.Trimmed,
    fl.attacks.Attacker,
    fl.attacks.Membership,
]
"""Classes whose users call methods: those of estimators are scikit-learn's, those of noises are for whoever writes one."""


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.__name__)
def test_every_method_has_an_example(shown: type) -> None:
    methods = {name: value for name, value in vars(shown).items() if inspect.isfunction(value) and name[0] != "_"}
    assert methods
    asked = {name for name, value in methods.items() if ">>>" not in (value.__doc__ or "")}
    assert asked <= {"certain_accuracy"}, asked


@pytest.mark.parametrize("name", [name for name in fl.__all__ if inspect.isfunction(getattr(fl, name))])
def test_every_function_has_an_example(name: str) -> None:
    assert ">>>" in (getattr(fl, name).__doc__ or "")


# names of version 0.2, which work until 0.4
RENAMED = "`over='admissible'` is called `over='any-record'` now: write that. The old name works until version 0.4."


def _asked_by_old_and_new_word() -> dict[str, Callable[[str], Any]]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (60, 2))
    y = X @ [0.5, -0.2] + rng.uniform(-0.1, 0.1, 60)
    bounds: dict[str, Any] = {"x0": (-1, 1), "x1": (-1, 1), "label": (-1, 1)}
    leak = fl.measure(fl.minimise(X, y, l2=1.0), X, y)
    seeded: dict[str, Any] = {"bounds": bounds, "random_state": 0}
    one: dict[str, Any] = {"penalties": [60.0], "weightings": ["none"], "shapes": ["isotropic"]}

    def fitted(model: Any) -> Any:
        return model.fit(X, y).estimator_.coef_

    return {
        "calibrate": lambda over: fl.calibrate(leak, 5.0, over, **seeded),
        "protect": lambda over: fl.protect(Ridge(60.0), X, y, 9.0, over=over, bounds=bounds, **one).task.over,
        "PrivateRelease": lambda over: fitted(fl.PrivateRelease(Ridge(60.0), 9.0, over=over, **seeded)),
        "Protected": lambda over: fitted(fl.Protected(Ridge(60.0), 9.0, over=over, **seeded, **one)),
    }


@pytest.mark.parametrize("name", ["calibrate", "protect", "PrivateRelease", "Protected"])
def test_the_old_word_for_any_record_is_read_with_one_warning(name: str) -> None:
    asked = _asked_by_old_and_new_word()[name]
    with pytest.warns(FutureWarning, match="any-record") as caught:
        old = asked("admissible")
    said = [each for each in caught if each.category is FutureWarning]
    assert [str(each.message) for each in said] == [RENAMED]
    assert said[0].filename == __file__  # where the user wrote it
    assert np.array_equal(old, asked("any-record")) if isinstance(old, np.ndarray) else old == asked("any-record")


def test_files_keep_the_word_of_version_0_2() -> None:
    """Cards and ledgers of 0.2.0 are compared with what would be written now: their format is the same."""
    told = Calibration("any-record", 1.0, step=2.0)
    assert told.record()["over"] == "admissible"
    for again in (Calibration.from_record(told.record()), Calibration("admissible", 1.0, step=2.0)):
        assert again == told
        assert again.over == "any-record"
        assert again.counted


def test_the_outcome_of_a_membership_attack_has_its_old_name_too() -> None:
    with pytest.warns(FutureWarning, match="`fisherleak.attacks.MembershipOutcome` now: write that") as caught:
        assert getattr(fl.attacks, "Presence") is fl.attacks.MembershipOutcome  # noqa: B009 - typing does not know it
    assert caught[0].filename == __file__
    assert "Presence" not in fl.attacks.__all__

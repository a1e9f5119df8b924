from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil

import pytest

import fisherleak as fl

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
}
METHODS = {
    *(
        "above_average",
        "attributes",
        "by_group",
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

"""Measure, limit and equalise what a trained model reveals about the people in its training data.

The public names, each loaded from its home when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fisherleak import attacks as attacks
    from fisherleak import bounds as bounds
    from fisherleak import datasets as datasets
    from fisherleak import nn as nn
    from fisherleak.auditing.fitted_models.model_audit import ModelAudit as ModelAudit
    from fisherleak.auditing.fitted_models.model_audit import audit as audit
    from fisherleak.engine.fit.minimise import Fit as Fit
    from fisherleak.engine.fit.minimise import minimise as minimise
    from fisherleak.engine.jacobian.perturbation import Attribute as Attribute
    from fisherleak.engine.losses import LOSSES as LOSSES
    from fisherleak.engine.losses import Labels as Labels
    from fisherleak.engine.losses import Loss as Loss
    from fisherleak.engine.losses import pseudo_huber as pseudo_huber
    from fisherleak.engine.mechanisms.interface_answers import Answers as Answers
    from fisherleak.engine.mechanisms.interface_answers import SampledLabels as SampledLabels
    from fisherleak.engine.mechanisms.self_shaped import ObjectivePerturbation as ObjectivePerturbation
    from fisherleak.engine.mechanisms.self_shaped import Posterior as Posterior
    from fisherleak.engine.noise import NOISES as NOISES
    from fisherleak.engine.noise import Bounded as Bounded
    from fisherleak.engine.noise import Gaussian as Gaussian
    from fisherleak.engine.noise import Laplace as Laplace
    from fisherleak.engine.noise import Noise as Noise
    from fisherleak.engine.noise.add_noise_and_round import Released as Released
    from fisherleak.errors import ClusterError as ClusterError
    from fisherleak.errors import DataError as DataError
    from fisherleak.errors import FisherleakError as FisherleakError
    from fisherleak.errors import InvalidInputError as InvalidInputError
    from fisherleak.errors import LooseFitWarning as LooseFitWarning
    from fisherleak.errors import NearSingularWarning as NearSingularWarning
    from fisherleak.errors import NotAtMinimumError as NotAtMinimumError
    from fisherleak.errors import NotConvergedError as NotConvergedError
    from fisherleak.errors import SeededReleaseWarning as SeededReleaseWarning
    from fisherleak.errors import SeparableClassesError as SeparableClassesError
    from fisherleak.errors import SingularHessianError as SingularHessianError
    from fisherleak.errors import UncountedChoiceWarning as UncountedChoiceWarning
    from fisherleak.errors import UncountedScaleWarning as UncountedScaleWarning
    from fisherleak.errors import UnsupportedModelError as UnsupportedModelError
    from fisherleak.leakage.compositions import compose as compose
    from fisherleak.leakage.leakage import Leakage as Leakage
    from fisherleak.leakage.measure import gradients as gradients
    from fisherleak.leakage.measure import measure as measure
    from fisherleak.leakage.query_budget import queries_until as queries_until
    from fisherleak.protection.calibrate.calibration import calibrate as calibrate
    from fisherleak.protection.calibrate.etas_with_noise_counted import CountedEtas as CountedEtas
    from fisherleak.protection.calibrate.etas_with_noise_counted import counted as counted
    from fisherleak.protection.frontier.frontier import Frontier as Frontier
    from fisherleak.protection.frontier.protected import Protected as Protected
    from fisherleak.protection.frontier.protected import protect as protect
    from fisherleak.protection.irfil.irfil import IRFIL as IRFIL
    from fisherleak.protection.ledger.ledger import Ledger as Ledger
    from fisherleak.protection.release.private_release import PrivateRelease as PrivateRelease
    from fisherleak.protection.release.private_release import ReleaseReport as ReleaseReport
    from fisherleak.protection.release.release import release as release
    from fisherleak.protection.trimming import Trimmed as Trimmed
    from fisherleak.protection.trimming import trim as trim
    from fisherleak.tables.read.parquet_folder import read_parquet_folder as read_parquet_folder

__version__ = "0.2.0"

_ERRORS = (
    *("ClusterError", "DataError", "FisherleakError", "InvalidInputError", "LooseFitWarning", "NearSingularWarning"),
    *(
        "NotAtMinimumError",
        "NotConvergedError",
        "SeededReleaseWarning",
        "SeparableClassesError",
        "SingularHessianError",
    ),
    *("UncountedChoiceWarning", "UncountedScaleWarning", "UnsupportedModelError"),
)
_HOMES: dict[str, tuple[str, ...]] = {
    "auditing.fitted_models.model_audit": ("ModelAudit", "audit"),
    "engine.fit.minimise": ("Fit", "minimise"),
    "engine.losses": ("LOSSES", "Labels", "Loss", "pseudo_huber"),
    "engine.mechanisms.self_shaped": ("ObjectivePerturbation", "Posterior"),
    "engine.mechanisms.interface_answers": ("Answers", "SampledLabels"),
    "engine.noise.add_noise_and_round": ("Released",),
    "engine.noise": ("NOISES", "Bounded", "Gaussian", "Laplace", "Noise"),
    "engine.jacobian.perturbation": ("Attribute",),
    "errors": _ERRORS,
    "leakage.query_budget": ("queries_until",),
    "leakage.compositions": ("compose",),
    "leakage.leakage": ("Leakage",),
    "leakage.measure": ("gradients", "measure"),
    "protection.calibrate.calibration": ("calibrate",),
    "protection.calibrate.etas_with_noise_counted": ("CountedEtas", "counted"),
    "protection.frontier.frontier": ("Frontier",),
    "protection.frontier.protected": ("Protected", "protect"),
    "protection.irfil.irfil": ("IRFIL",),
    "protection.ledger.ledger": ("Ledger",),
    "protection.release.private_release": ("PrivateRelease", "ReleaseReport"),
    "protection.release.release": ("release",),
    "protection.trimming": ("Trimmed", "trim"),
    "tables.read.parquet_folder": ("read_parquet_folder",),
}
"""Where each public name lives, below this package. Adding one is adding it here and above, for type checkers."""
_ROOMS = ("attacks", "bounds", "datasets", "nn")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "IRFIL",
    "LOSSES",
    "NOISES",
    "Answers",
    "Attribute",
    "Bounded",
    "ClusterError",
    "CountedEtas",
    "DataError",
    "FisherleakError",
    "Fit",
    "Frontier",
    "Gaussian",
    "InvalidInputError",
    "Labels",
    "Laplace",
    "Leakage",
    "Ledger",
    "LooseFitWarning",
    "Loss",
    "ModelAudit",
    "NearSingularWarning",
    "Noise",
    "NotAtMinimumError",
    "NotConvergedError",
    "ObjectivePerturbation",
    "Posterior",
    "PrivateRelease",
    "Protected",
    "ReleaseReport",
    "Released",
    "SampledLabels",
    "SeededReleaseWarning",
    "SeparableClassesError",
    "SingularHessianError",
    "Trimmed",
    "UncountedChoiceWarning",
    "UncountedScaleWarning",
    "UnsupportedModelError",
    "attacks",
    "audit",
    "bounds",
    "calibrate",
    "compose",
    "counted",
    "datasets",
    "gradients",
    "measure",
    "minimise",
    "nn",
    "protect",
    "pseudo_huber",
    "queries_until",
    "read_parquet_folder",
    "release",
    "trim",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"fisherleak.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'fisherleak' has no attribute '{name}'")
    value = getattr(import_module(f"fisherleak.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

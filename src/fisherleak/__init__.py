"""Measure, limit and equalise what a trained model reveals about the people in its training data."""

from fisherleak import attacks, bounds, datasets
from fisherleak.calibrate import calibrate
from fisherleak.composition import compose
from fisherleak.erm import Fit, minimise
from fisherleak.errors import (
    ClusterError,
    DataError,
    FisherleakError,
    InvalidInputError,
    LooseFitWarning,
    NearSingularWarning,
    NotAtMinimumError,
    NotConvergedError,
    SeparableClassesError,
    SingularHessianError,
    UnsupportedModelError,
)
from fisherleak.irfil import IRFIL
from fisherleak.leakage import Leakage, measure
from fisherleak.losses import LOSSES, Labels, Loss, pseudo_huber
from fisherleak.models.folders import read_parquet_folder
from fisherleak.noise import Gaussian, Noise
from fisherleak.perturbation import Attribute
from fisherleak.private import PrivateRelease, ReleaseReport
from fisherleak.release import Released, release
from fisherleak.trimming import Trimmed, trim

__version__ = "0.1.0"

__all__ = [
    "IRFIL",
    "LOSSES",
    "Attribute",
    "ClusterError",
    "DataError",
    "FisherleakError",
    "Fit",
    "Gaussian",
    "InvalidInputError",
    "Labels",
    "Leakage",
    "LooseFitWarning",
    "Loss",
    "NearSingularWarning",
    "Noise",
    "NotAtMinimumError",
    "NotConvergedError",
    "PrivateRelease",
    "ReleaseReport",
    "Released",
    "SeparableClassesError",
    "SingularHessianError",
    "Trimmed",
    "UnsupportedModelError",
    "attacks",
    "bounds",
    "calibrate",
    "compose",
    "datasets",
    "measure",
    "minimise",
    "pseudo_huber",
    "read_parquet_folder",
    "release",
    "trim",
]

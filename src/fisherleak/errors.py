"""The refusals and warnings that users see, by name.

Every message is one sentence or two: the name, the value, the rule, the remedy.
"""

from __future__ import annotations


class FisherleakError(Exception):
    """Base class of everything this package refuses."""


class InvalidInputError(FisherleakError, ValueError):
    """An argument breaks a rule; the message names it, its value, the rule and the remedy."""


class DataError(FisherleakError, OSError):
    """A data set's file is missing, damaged, or cannot be downloaded; the message says which and what to do."""


class ClusterError(FisherleakError, RuntimeError):
    """A cluster that works on lazy rows was lost or gave up; the message says why and what to do."""


class UnsupportedModelError(InvalidInputError):
    """A model or transformer is not covered; the message names its class, the reason and the remedy."""


class NotAtMinimumError(InvalidInputError):
    """A model is not at the minimum of its own objective on the data given."""


class NotConvergedError(FisherleakError, RuntimeError):
    """No minimum was reached, so the Jacobian of the minimiser does not exist here."""


class SeparableClassesError(NotConvergedError):
    """The classes are linearly separable and the loss has no finite minimiser without l2."""


class SingularHessianError(FisherleakError, ValueError):
    """The Hessian has no usable inverse: the parameters are not determined by the data."""


class NearSingularWarning(UserWarning):
    """The Hessian is so badly conditioned that few digits of eta can be trusted."""


class LooseFitWarning(UserWarning):
    """A model stopped so far from its minimum that its etas there are not those of the minimum."""


class SeededReleaseWarning(UserWarning):
    """A release was drawn with a seed: someone who knows or guesses it can draw the same noise and subtract it."""


class UncountedChoiceWarning(UserWarning):
    """A release follows a choice, or weights, that were learned from the rows, which eta does not count."""


class UncountedScaleWarning(UserWarning):
    """A release has a noise scale that was computed from the rows present: it reveals a little about one of them."""

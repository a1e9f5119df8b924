"""PrivateRelease: fit, measure, calibrate and perturb in one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fisherleak._support.arrays import host
from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import Estimator, Seed, TableLike, VectorLike
from fisherleak._support.numbers import number
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import ANY_RECORD, read_over
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.models.wrapper import Wrapper, fit_weighted, one_target
from fisherleak.protection.release.model_bounds import public_fills, with_public_fills
from fisherleak.protection.release.procedure import ReleaseRequest, make_release, released_by_rule, warn_of_seed
from fisherleak.protection.release.release import (
    FittedModel,
    check_public,
    check_releasable,
    counted_levels,
    measured_model,
)

Vector = NDArray[np.float64]
OVER = (ANY_RECORD, "max", "mean", "dataset")
PENALTY = ("chosen", "own")


@dataclass(frozen=True)
class ReleaseReport:
    """What a :class:`PrivateRelease` reveals, without anything of the unperturbed model.

    Attributes
    ----------
    eta : array of shape (n,)
        Per-example eta of the release over the values that were limited.
    limit : float
    over : str
    dataset : float
        Eta of the whole data set, all attributes and labels.
    """

    eta: Vector = field(repr=False)
    limit: float
    over: str
    dataset: float

    def summary(self) -> str:
        """In words."""
        return (
            f"Released with eta over {self.over} at most {self.limit:g}: per example mean "
            f"{number(float(self.eta.mean()), 4)}, largest {number(float(self.eta.max()), 4)}; whole data "
            f"{number(self.dataset, 4)}. Derived from the data: not to be published with the model."
        )


class PrivateRelease(Wrapper):
    """Fit, measure, calibrate and perturb in one ``fit``.

    Parameters
    ----------
    estimator : scikit-learn model
        Any that :func:`fisherleak.measure` reads.
    eta : float
        The limit on Fisher information loss.
    over : {"any-record", "max", "mean", "dataset"}
        What is limited, as in :func:`fisherleak.calibrate`. By default the eta of any record within the bounds, so that no row
        decides the noise's scale; with the others that scale reveals something about the row that decides it, and
        ``UncountedScaleWarning`` says so.
    attributes : names, optional
        The attributes that count, without the label. Everything, with the label, by default. Not for "dataset".
    noise : Noise, optional
        The kind of noise, any of ``fl.NOISES``; its scale is replaced. ``fl.Gaussian`` by default.
    polish : bool
        Move the model to its exact minimum before it is measured and perturbed. Always done for ``over="any-record"``, whose
        limit holds there.
    keep_unperturbed : bool
        Keep ``unperturbed_`` (the model without noise) and make ``leakage_`` a full :class:`Leakage`, which holds it too.
    random_state : int or Generator, optional
        For tests only, with a warning: see :func:`fisherleak.release`.
    public : {"nothing", "levels", "preprocessing"}
        What is declared public of what a pipeline learned beside the model's parameters, as in :func:`fisherleak.release`: by
        default nothing, and eta counts end to end. Categories that an encoder learned, and classes of y, are accepted where at
        least five rows have each; with "levels", always.
    bounds : mapping, optional
        For "any-record": the values that could be there, as in :func:`fisherleak.calibrate`. What is not declared is taken from
        the rows, on a coarse grid on which the two values farthest out agree.
    rows_per_person : int, optional
        For "any-record", with ``fit(X, y, person=…)``: how many rows a person may have. The limit then is on all of them
        together.
    penalty : {"chosen", "own"}
        With ``bounds``, for a limit on whole rows: "chosen" replaces the estimator's penalty by the one with which penalty and
        noise are predicted to cost least together, and gives the noise the covariance that goes with it, by the same rule as
        :func:`fisherleak.protect`. Public numbers decide both. "own" keeps the estimator's penalty, and noise that is the
        same on all; so does a ``noise`` of your own.

    Attributes
    ----------
    estimator_ : scikit-learn model
        The released model: the only one to pass on.
    noise_ : Noise
    filled_ : dict
        By column, the centre of its bounds, which gaps are filled with where the estimator's imputer would have learned a mean
        or median (see :func:`fisherleak.protect`).
    leakage_ : ReleaseReport or Leakage
        Derived from the data: do not publish it with the model. Copies and pickles have it with ``keep_unperturbed`` only.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = fl.PrivateRelease(Ridge(), eta=5.0).fit(X, y)
    >>> bool(model.leakage_.eta.max() <= 5.0)
    True
    """

    def __init__(
        self,
        estimator: Estimator,
        eta: float = 1.0,
        over: str = ANY_RECORD,
        attributes: Sequence[str | int] | None = None,
        noise: Noise | None = None,
        polish: bool = False,
        keep_unperturbed: bool = False,
        random_state: Seed = None,
        public: str = "nothing",
        bounds: Mapping[str, Any] | None = None,
        rows_per_person: int | None = None,
        penalty: str = "chosen",
    ) -> None:
        self.estimator = estimator
        self.eta = eta
        self.over = over
        self.attributes = attributes
        self.noise = noise
        self.polish = polish
        self.keep_unperturbed = keep_unperturbed
        self.random_state = random_state
        self.public = public
        self.bounds = bounds
        self.rows_per_person = rows_per_person
        self.penalty = penalty

    def fit(self, X: TableLike, y: VectorLike, sample_weight: VectorLike = None, person: VectorLike = None) -> Self:
        """Fit the estimator, find the noise for the limit, and keep a model built with it.

        ``person`` says whose row each is, with ``rows_per_person``.
        """
        over = self._checked_over()
        warn_of_seed(self.random_state)
        y = one_target(self.estimator, y)
        counted = over == ANY_RECORD and self.public != "preprocessing"
        estimator = with_public_fills(self.estimator, X, self.bounds) if counted else self.estimator

        def fitted(unfitted: Any) -> FittedModel:
            model = fit_weighted(unfitted, X, y, sample_weight)
            check_releasable(model)
            declared = counted_levels(model, X, y, self.public, person)
            # a limit for any record is proved at the minimum, and what a solver leaves can follow one value
            polish = self.polish or over == ANY_RECORD
            return measured_model(model, X, y, self.noise, sample_weight, polish, declared)

        request = ReleaseRequest(
            self.eta,
            over=over,
            attributes=self.attributes,
            bounds=self.bounds,
            random_state=self.random_state,
            person=person,
            rows_per_person=self.rows_per_person,
        )
        if self.bounds is not None and self.noise is None and self.penalty == "chosen":
            made = released_by_rule(estimator, fitted, request)
        else:
            made = make_release(lambda _: fitted(clone(estimator)), request)
        self.noise_, self.estimator_ = made.noise, made.model
        self.filled_ = public_fills(made.fitted.model)
        model, quiet = made.fitted.model, made.fitted.measured.with_noise(self.noise_)
        self.leakage_: Leakage | ReleaseReport
        if "unperturbed_" in vars(self):
            delattr(self, "unperturbed_")
        if self.keep_unperturbed:
            self.unperturbed_, self.leakage_ = model, quiet
        else:
            eta = np.asarray(host(quiet.per_example(self.attributes)))
            self.leakage_ = ReleaseReport(eta, float(self.eta), over, quiet.dataset())
        return self

    def _checked_over(self) -> str:
        """What the limit is on; refuses options that do not go together."""
        check_positive(self.eta, "eta")
        check_public(self.public)
        if self.penalty not in PENALTY:
            raise InvalidInputError(f"penalty must be one of {', '.join(PENALTY)}; got {self.penalty!r}.")
        over = read_over(self.over, OVER)
        if self.bounds is not None and over != ANY_RECORD:
            raise InvalidInputError(f"bounds are for over='any-record' only; got over={over!r}.")
        if over == "dataset" and self.attributes is not None:
            raise InvalidInputError("attributes cannot be given with over='dataset', which counts everything.")
        return over

    def __getstate__(self) -> Any:
        # an estimator that was passed in fitted would carry the unperturbed model along, and exact etas tell of the rows
        state = dict(super().__getstate__())
        if not self.keep_unperturbed:
            state["estimator"] = clone(self.estimator)
            state.pop("leakage_", None)
        return state

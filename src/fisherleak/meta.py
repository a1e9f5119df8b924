"""Scikit-learn shells: IRFIL, PrivateRelease and trim, thin over ``reweight``, ``leakage`` and ``release``."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, has_fit_parameter

from fisherleak._array import host
from fisherleak._check import check_positive, check_weights, rows_by_group
from fisherleak._progress import track
from fisherleak.calibrate import calibrate
from fisherleak.erm import fit_at
from fisherleak.errors import InvalidInputError, LooseFitWarning, UnsupportedModelError
from fisherleak.jacobian import jacobian_of
from fisherleak.leakage import Leakage, measure
from fisherleak.models import Table, as_table, final_estimator
from fisherleak.models.reading import LOOSE, prepare, risk_of
from fisherleak.noise import Gaussian, Noise
from fisherleak.release import release, set_parameters
from fisherleak.reweight import Balance, balance, example_targets, group_targets

__all__ = ["IRFIL", "PrivateRelease", "ReleaseReport", "Trimmed", "trim"]

Vector = NDArray[np.float64]
WEIGHTINGS = ("example", "group", "hybrid")


def fit_weighted(model: Any, X: Any, y: Any, weights: Any) -> Any:
    """Fit a model, a pipeline or a search with example weights for its last step."""
    if weights is None:
        return model.fit(X, y)
    inner, path = model, ""
    while hasattr(inner, "estimator") or isinstance(inner, Pipeline):
        if isinstance(inner, Pipeline):
            name, inner = inner.steps[-1]
            path += f"{name}__"
        else:
            inner = inner.estimator
    if not has_fit_parameter(inner, "sample_weight"):
        raise UnsupportedModelError(f"{type(inner).__name__} takes no sample_weight, which is needed here.")
    key = "sample_weight" if get_config()["enable_metadata_routing"] else f"{path}sample_weight"
    return model.fit(X, y, **{key: weights})


def _one_target(estimator: Any, y: Any) -> Any:
    """One label for each row; of two classes for a classifier."""
    if y is None:
        raise InvalidInputError("y is None: this estimator requires y to be passed, but the target y is None.")
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        return y  # the estimator says it best
    if is_classifier(estimator) and type_of_target(y, input_name="y") == "multiclass":
        raise UnsupportedModelError(
            "Only binary classification is supported. The type of the target is multiclass. Fit one class against the rest."
        )
    return y


def _has(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A method that is there where the estimator has it."""

    def check(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    decorate: Callable[[Callable[..., Any]], Callable[..., Any]] = available_if(check)
    return decorate


class _Wrapper(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """What both meta-estimators share: they predict as ``estimator_`` does."""

    estimator: Any
    estimator_: Any

    def predict(self, X: Any) -> Any:
        """Predictions of ``estimator_``."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @_has("predict_proba")
    def predict_proba(self, X: Any) -> Any:
        """Class probabilities of ``estimator_``."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @_has("decision_function")
    def decision_function(self, X: Any) -> Any:
        """Linear predictor of ``estimator_``."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score of ``estimator_``."""
        check_is_fitted(self)
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.estimator_.score(X, y, **options))

    @property
    def classes_(self) -> Any:
        """Classes of ``estimator_``."""
        return self.estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """Columns seen in fit."""
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """Names of the columns seen in fit."""
        return self.estimator_.feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = copy.deepcopy(inner.classifier_tags)
        tags.regressor_tags = copy.deepcopy(inner.regressor_tags)
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_class = False
        tags.target_tags = replace(inner.target_tags, multi_output=False)
        tags.input_tags = replace(inner.input_tags, sparse=False)
        return tags


class IRFIL(_Wrapper):
    """Iteratively reweighted Fisher information loss: a model that reveals as much about every example.

    Parameters
    ----------
    estimator : scikit-learn model
        Any that :func:`fisherleak.measure` reads and that takes ``sample_weight``.
    n_iter : int
        Reweightings after the first, plain fit.
    attributes : names, optional
        Equalise what is revealed about these attributes alone, without the label. Everything, with the label, by default.
    weighting : {"example", "group", "hybrid"}
        "example" divides each weight by the example's eta (the paper's algorithm). "group" divides by the mean eta of its
        group, which makes the groups' means equal and leaves differences within groups. "hybrid" divides by the geometric
        mean of the two: it ends where "example" ends, and treats groups first.
    min_weight, max_weight : float, optional
        Limits on the weights, in units of their mean. A row at a limit keeps its eta.
    tol : float
        Stop when the standard deviation of eta, relative to its mean, is at most this.
    accelerate : bool
        Anderson mixing of the log weights: far fewer iterations to a small spread.

    Attributes
    ----------
    weights_ : array of shape (n,)
        Example weights of the last fit; their mean is that of ``sample_weight``.
    history_ : dict of arrays
        ``mean``, ``sd``, ``max`` and ``min`` of eta (noise of scale 1) and the training ``score``, for the plain fit and
        after each reweighting.
    estimator_ : scikit-learn model
        Fitted with ``weights_``.

    Notes
    -----
    **What equal eta does not mean.** Eta is computed with the weights held fixed, but the weights depend on the data too.
    The sensitivity of the whole procedure, weights included, can be larger or smaller than the eta reported: on a medical
    data set between 0.7 and 3.1 times. Equal etas say that the *last fit* leans equally on every example, not that the
    procedure leaks equally about everyone.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = fl.IRFIL(Ridge(alpha=0.1), n_iter=10).fit(X, y)
    >>> bool(model.history_["sd"][-1] < 0.05 * model.history_["sd"][0])
    True
    """

    def __init__(
        self,
        estimator: Any,
        n_iter: int = 15,
        attributes: Sequence[str | int] | None = None,
        weighting: str = "example",
        min_weight: float = 0.0,
        max_weight: float | None = None,
        tol: float = 0.0,
        accelerate: bool = False,
    ) -> None:
        self.estimator = estimator
        self.n_iter = n_iter
        self.attributes = attributes
        self.weighting = weighting
        self.min_weight = min_weight
        self.max_weight = max_weight
        self.tol = tol
        self.accelerate = accelerate

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit, measure, reweight, and fit again.

        Parameters
        ----------
        X : array or table of shape (n, d)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            Where the weights start; a weight of zero stays zero.
        groups : str or array of shape (n,), optional
            For "group" and "hybrid": a column of the table, or the group of each row. The classes of y by default.
        """
        limits = self._checked()
        y = _one_target(self.estimator, y)
        first = fit_weighted(clone(self.estimator), X, y, sample_weight)
        table = as_table(X)
        prepared = prepare(first, table)
        if getattr(prepared.estimator, "class_weight", None) == "balanced":
            raise UnsupportedModelError(
                "IRFIL with class_weight='balanced' is not supported: it undoes the weights of whole classes. "
                "Pass class_weight as a dict, or leave it out."
            )
        targets = self._targets(table, np.asarray(y), groups, hasattr(final_estimator(first), "classes_"))
        start = check_weights(sample_weight, np.empty((table.n, 1)))
        weights = np.ones(table.n) if start is None else np.asarray(start)
        shadow = copy.deepcopy(first)
        history: dict[str, list[float]] = {name: [] for name in ("mean", "sd", "max", "min", "score")}

        def etas(weights: Vector, theta: Any) -> tuple[Vector, Any]:
            risk, initial = risk_of(prepared, y, weights)
            fit = fit_at(risk, initial if theta is None else theta, polish=True)
            jacobian = jacobian_of(fit, risk.X, risk.y, Gaussian(1.0), prepared.attributes)
            leak = Leakage((jacobian,), Gaussian(1.0), table)
            return np.asarray(host(leak.per_example(self.attributes))), np.asarray(host(fit.theta))

        points = balance(etas, weights, self.n_iter, targets, limits, self.accelerate)
        point: Balance | None = None
        for point in track(points, self.n_iter + 1, "Reweighting"):
            set_parameters(final_estimator(shadow), point.state)
            self._note(history, point, shadow, X, y)
            if point.spread <= self.tol:
                break
        assert point is not None
        self.weights_ = point.weights
        self.history_ = {name: np.array(values) for name, values in history.items()}
        self.estimator_ = fit_weighted(clone(self.estimator), X, y, self.weights_)
        self._warn_if_loose(table, y)
        return self

    def _checked(self) -> tuple[float, float]:
        if self.weighting not in WEIGHTINGS:
            raise InvalidInputError(f"weighting must be one of {', '.join(WEIGHTINGS)}; got {self.weighting!r}.")
        if isinstance(self.n_iter, bool) or not isinstance(self.n_iter, (int, np.integer)) or self.n_iter < 0:
            raise InvalidInputError(f"n_iter must be a whole number, zero or more; got {self.n_iter!r}.")
        check_positive(self.tol, "tol", zero=True)
        low = check_positive(self.min_weight, "min_weight", zero=True)
        high = np.inf if self.max_weight is None else check_positive(self.max_weight, "max_weight")
        if not low <= 1.0 <= high:
            raise InvalidInputError(
                f"min_weight and max_weight are in units of the mean weight and must enclose 1; got {low:g} and {high:g}."
            )
        return low, high

    def _targets(self, table: Table, y: NDArray[Any], groups: Any, classifier: bool) -> Any:
        if self.weighting == "example":
            if groups is not None:
                raise InvalidInputError("groups are for weighting='group' or 'hybrid'; leave them out.")
            return example_targets
        if groups is None:
            if not classifier:
                raise InvalidInputError(f"weighting={self.weighting!r} needs groups: fit(X, y, groups=...).")
            groups = y
        members = list(rows_by_group(table.named(groups) if isinstance(groups, str) else groups, table.n).values())
        if self.weighting == "group":
            return lambda eta, counted: group_targets(eta, counted, members)
        return lambda eta, counted: np.sqrt(example_targets(eta, counted) * group_targets(eta, counted, members))

    @staticmethod
    def _note(history: dict[str, list[float]], point: Balance, model: Any, X: Any, y: Any) -> None:
        eta = point.eta[point.weights > 0]
        history["mean"].append(float(eta.mean()))
        history["sd"].append(float(eta.std(ddof=1)) if eta.size > 1 else 0.0)
        history["max"].append(float(eta.max()))
        history["min"].append(float(eta.min()))
        history["score"].append(float(model.score(X, y)))

    def _warn_if_loose(self, table: Table, y: Any) -> None:
        risk, theta = risk_of(prepare(self.estimator_, table), y, self.weights_)
        distance = fit_at(risk, theta, polish=False).distance
        if distance > LOOSE:
            warnings.warn(
                f"estimator_ stopped at a distance of {distance:.1e} from its minimum, so its etas differ from history_ by "
                "about that part. Give the estimator a smaller tol or more iterations.",
                LooseFitWarning,
                stacklevel=3,
            )


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


class PrivateRelease(_Wrapper):
    """Fit, measure, calibrate and perturb in one ``fit``.

    Parameters
    ----------
    estimator : scikit-learn model
        Any that :func:`fisherleak.measure` reads.
    eta : float
        The limit on Fisher information loss.
    over : {"max", "mean", "dataset"}
        What is limited, as in :func:`fisherleak.calibrate`.
    attributes : names, optional
        The attributes that count, without the label. Everything, with the label, by default. Not for "dataset".
    noise : Noise, optional
        The kind of noise; its scale is replaced. ``fl.Gaussian`` by default.
    polish : bool
        Measure at the exact minimum where the estimator stopped close to it.
    keep_unperturbed : bool
        Keep ``unperturbed_`` (the model without noise) and make ``leakage_`` a full :class:`Leakage`, which holds it too.
    random_state : int or Generator, optional
        For tests only: see :func:`fisherleak.release`.

    Attributes
    ----------
    estimator_ : scikit-learn model
        The released model: the only one to pass on.
    noise_ : Noise
    leakage_ : ReleaseReport or Leakage
        Derived from the data: do not publish it with the model.

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
        estimator: Any,
        eta: float = 1.0,
        over: str = "max",
        attributes: Sequence[str | int] | None = None,
        noise: Noise | None = None,
        polish: bool = False,
        keep_unperturbed: bool = False,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.eta = eta
        self.over = over
        self.attributes = attributes
        self.noise = noise
        self.polish = polish
        self.keep_unperturbed = keep_unperturbed
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the estimator, find the noise for the limit, and keep a perturbed copy."""
        check_positive(self.eta, "eta")
        y = _one_target(self.estimator, y)
        model = fit_weighted(clone(self.estimator), X, y, sample_weight)
        leak = measure(model, X, y, self.noise, sample_weight, polish=self.polish)
        self.noise_ = calibrate(leak, self.eta, self.over, attributes=self.attributes)
        quiet = leak.with_noise(self.noise_)
        self.estimator_ = release(model, self.noise_, self.random_state)
        self.leakage_: Leakage | ReleaseReport
        if self.keep_unperturbed:
            self.unperturbed_, self.leakage_ = model, quiet
        else:
            eta = np.asarray(host(quiet.per_example(self.attributes)))
            self.leakage_ = ReleaseReport(eta, float(self.eta), self.over, quiet.dataset())
        return self


@dataclass(frozen=True)
class Trimmed:
    """What dropping the most exposed rows did.

    Attributes
    ----------
    estimator : scikit-learn model
        Fitted on the rows that were kept.
    kept : array of bool of shape (n,)
    before : array of shape (n,)
        Eta of every row in the first model.
    after : array of shape (number kept,)
        Eta of the rows kept, in the model without the others.
    limit : float
    """

    estimator: Any
    kept: NDArray[np.bool_]
    before: Vector = field(repr=False)
    after: Vector = field(repr=False)
    limit: float

    @property
    def above(self) -> int:
        """Rows kept whose eta is above the limit now."""
        return int(np.sum(self.after > self.limit))

    def summary(self) -> str:
        """In words, what happened to those who stayed."""
        stayed = self.before[self.kept]
        worse = int(np.sum(self.after > stayed))
        return (
            f"Dropped {int(np.sum(~self.kept))} of {self.kept.size} rows above {self.limit:g}. Of the {stayed.size} that stay, "
            f"{worse} are more exposed than before: mean eta {stayed.mean():.4g} -> {self.after.mean():.4g}, largest "
            f"{stayed.max():.4g} -> {self.after.max():.4g}, {self.above} above the limit now. That a row was dropped is "
            "itself something the model reveals."
        )


def trim(
    estimator: Any,
    X: Any,
    y: Any,
    max_eta: float,
    noise: Noise | None = None,
    sample_weight: Any = None,
    attributes: Sequence[str | int] | None = None,
) -> Trimmed:
    """Drop the rows above a limit, fit again, measure again, and say what that did to everyone else.

    Parameters
    ----------
    estimator : scikit-learn model
        Not fitted, or fitted: it is cloned.
    X, y : the table and its labels
    max_eta : float
        Rows with an eta above it are dropped.
    noise : Noise, optional
        ``fl.Gaussian(1.0)`` by default.
    sample_weight : array of shape (n,), optional
    attributes : names, optional
        The values that count; everything, with the label, by default.

    Returns
    -------
    Trimmed

    Notes
    -----
    Dropping rows raises the leakage about many that stay, since fewer rows determine the model, and some may now be above the
    limit: ``Trimmed.above`` counts them. Trimming protects those it drops only if that they were dropped may be known.
    """
    limit = check_positive(max_eta, "max_eta")
    table, labels = as_table(X), np.asarray(y)
    weights = check_weights(sample_weight, np.empty((table.n, 1)))
    model = fit_weighted(clone(estimator), X, y, weights)
    before = np.asarray(host(measure(model, X, y, noise, weights, polish=True).per_example(attributes)))
    kept = before <= limit
    if not kept.any():
        raise InvalidInputError(
            f"max_eta is {limit:g}, below the least eta of any row ({before.min():.4g}): none would stay."
        )
    rest, remaining = table.rows(kept).values, None if weights is None else weights[kept]
    model = fit_weighted(clone(estimator), rest, labels[kept], remaining)
    leak = measure(model, rest, labels[kept], noise, remaining, polish=True)
    return Trimmed(model, kept, before, np.asarray(host(leak.per_example(attributes))), limit)

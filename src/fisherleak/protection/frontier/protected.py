"""Protected: the best model under a limit, chosen, fitted and released in one ``fit``.

Also here: what is asked of ``protect``: arguments checked, and the rows split by a rule that no value of a row
decides.

Also here: what a limit costs: candidates of every penalty, weighting and shape of noise, fitted and scored.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.multiclass import type_of_target

from fisherleak._support.checks import check_flag, check_limit, check_part, check_positive
from fisherleak._support.namespaces import Estimator, Json, Seed, TableLike, VectorLike
from fisherleak._support.progress import stage, track
from fisherleak.engine.noise.add_noise_and_round import generator
from fisherleak.engine.noise.calibration_record import ANY_RECORD, calibration_of, read_over
from fisherleak.errors import InvalidInputError
from fisherleak.models import Table, as_table
from fisherleak.models.rebuilt import FEW
from fisherleak.models.steps.levels import check_common_classes
from fisherleak.models.wrapper import Wrapper, one_target
from fisherleak.protection.calibrate.calibration import check_rows_per_person
from fisherleak.protection.calibrate.shapes import ISOTROPIC, SHAPES, check_fills_have_noise
from fisherleak.protection.certificates.declared_bounds import checked_bounds, with_gaps_filled
from fisherleak.protection.certificates.worst_record import copies_enough
from fisherleak.protection.frontier.counted_choice import SHARE, CountedChoice
from fisherleak.protection.frontier.frontier import Compared, Frontier
from fisherleak.protection.frontier.frontier_candidates import (
    WEIGHTINGS,
    Candidate,
    FrontierPoint,
    Scorer,
    Task,
    bounded_as,
    fitted_all,
    looked_at,
    polished,
    release_by_rule,
    with_public_penalties,
)
from fisherleak.protection.release.model_bounds import with_public_fills
from fisherleak.protection.release.procedure import warn_of_seed
from fisherleak.protection.release.release import check_public

Rows = NDArray[np.int64]
SHAPES_OVER = dict.fromkeys((ANY_RECORD, "max"), ("isotropic", "hessian", "least-loss"))
"""Shapes that are tried, by whom a limit is on."""
WEIGHTINGS_OVER = {ANY_RECORD: ("none",), "max": tuple(WEIGHTINGS)}
"""Weights that are tried, likewise: what these tell is not counted."""
PENALTIES = (1.0, 10.0, 100.0)
"""Factors of the estimator's own penalty, for the rows present."""
FEWEST_ROWS = 20
"""Below this none are held out."""


def protect_arguments(
    estimator: Estimator,
    X: TableLike,
    y: VectorLike,
    eta: float,
    over: str,
    groups: VectorLike,
    penalties: Sequence[float] | None,
    weightings: Sequence[str] | None,
    shapes: Sequence[str] | None,
    bounds: Mapping[str, Any] | None,
    public: str,
    random_state: Seed,
) -> Task:
    """The task. Penalties that are not given are none yet where the limit is on any record within the bounds."""
    limit = check_limit(eta)
    _check_estimator(estimator)
    check_public(public)
    if over != ANY_RECORD and bounds is not None:
        raise InvalidInputError(f"bounds are for over='any-record' only; got over={over!r}.")
    checked_bounds(bounds)
    known = SHAPES_OVER[over] if shapes is None else _listed(shapes, "shapes", SHAPES)
    weighted = listed_weightings(WEIGHTINGS_OVER[over] if weightings is None else weightings)
    factors = (
        () if penalties is None and over == ANY_RECORD else _factors(PENALTIES if penalties is None else penalties)
    )
    if as_table(X).lazy:
        raise InvalidInputError("protect fits scikit-learn models, which need rows in memory; X is Dask's.")
    if not (hasattr(X, "iloc") or hasattr(X, "__getitem__")):
        X = np.asarray(X)
    groups = as_table(X).labels(groups) if isinstance(groups, str) else groups
    named = getattr(y, "name", None)
    y = one_target(estimator, y)
    _check_fittable(estimator, X, y)
    if over == ANY_RECORD and public != "preprocessing":
        estimator = with_public_fills(estimator, X, bounds)
    if public == "nothing" and is_classifier(estimator) and type_of_target(y) in ("binary", "multiclass"):
        check_common_classes(estimator, y, FEW, groups)
    return Task(
        estimator, X, y, limit, over, groups, factors, weighted, known, bounds, public, random_state, target=named
    )


def people_in_rows(groups: VectorLike, person: VectorLike, rows_per_person: int | None, over: str) -> VectorLike:
    """Whose rows are whose, by either name; refuses what does not go together."""
    if over == ANY_RECORD and groups is not None:
        raise InvalidInputError(
            "groups go with over='max': no bound is known for groups of any records within the bounds. For people give "
            "person= and rows_per_person=."
        )
    if groups is not None and person is not None:
        raise InvalidInputError(
            "groups and person are both given, and each says whose rows are whose: leave out groups."
        )
    if over == ANY_RECORD and (person is None) != (rows_per_person is None):
        raise InvalidInputError(
            "person and rows_per_person go together: whose row each is, and how many rows a person may have."
        )
    if over != ANY_RECORD and rows_per_person is not None:
        raise InvalidInputError(f"rows_per_person is for over='any-record' only; got over={over!r}: leave it out.")
    return groups if person is None else person


def _check_estimator(estimator: Any) -> None:
    """A model with its options, not a class or a name of one."""
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        got = f"the class {estimator.__name__}" if isinstance(estimator, type) else repr(estimator)
        raise InvalidInputError(f"estimator must be a scikit-learn model, Ridge(1.0) say; got {got}.")


def listed_weightings(weightings: Any) -> tuple[str, ...]:
    """What users may pass as ``weightings=``."""
    return _listed(weightings, "weightings", tuple(WEIGHTINGS))


def _listed(given: Any, name: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """Some of a few names, as users list them."""
    rule = f"{name} must be a list of some of {', '.join(allowed)}"
    if isinstance(given, str) or not isinstance(given, Iterable):
        remedy = f" Write {name}=['{given}']." if given in allowed else ""
        raise InvalidInputError(f"{rule}; got {given!r}.{remedy}")
    items = list(given)
    for item in items:
        if not (isinstance(item, str) and item in allowed):
            shown = repr(item) if isinstance(item, str | int | float | None) else type(item).__name__
            raise InvalidInputError(f"{rule}; got {shown} in it.")
    if not items:
        raise InvalidInputError(f"{rule}; got an empty one.")
    return tuple(items)


def _factors(penalties: Any) -> tuple[float, ...]:
    rule = "penalties must be a list of factors of the estimator's own penalty"
    if isinstance(penalties, str) or not isinstance(penalties, Iterable):
        raise InvalidInputError(f"{rule}, [1, 10] say; got {penalties!r}.")
    factors = tuple(check_positive(penalty, "penalties") for penalty in penalties)
    if not factors:
        raise InvalidInputError(f"{rule}, [1, 10] say; got an empty one.")
    return factors


def _check_rows(estimator: Any, X: Any, y: Any) -> None:
    """As many rows as labels, some of each, and numbers where nothing encodes text."""
    table, labels = as_table(X), len(np.asarray(y))
    if table.n != labels:
        raise InvalidInputError(
            f"y must have one label for each row of X; got inconsistent numbers of samples: {table.n} rows and {labels} labels."
        )
    if not labels:
        raise InvalidInputError("X has no rows: found array with 0 sample(s), and a minimum of 1 is required.")
    if hasattr(estimator, "steps") or hasattr(estimator, "estimator"):
        return
    text = next((name for j, name in enumerate(table.names) if _is_text(table, j)), None)
    if text is not None:
        raise InvalidInputError(
            f"Column '{text}' cannot be read as numbers, and {type(estimator).__name__} takes numbers only: encode it with a "
            "OneHotEncoder in a Pipeline, or leave it out."
        )


def _is_text(table: Table, position: int) -> bool:
    """Whether a column holds text that is no number."""
    return not table.holds_numbers(position) and any(
        isinstance(value, str) for value in table.column(position).tolist()
    )


def _check_fittable(estimator: Estimator, X: Any, y: Any) -> None:
    """Refuse what no estimator of this kind can be fitted on, before anything is."""
    _check_rows(estimator, X, y)
    labels = np.asarray(y)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        count = int(np.sum(~np.isfinite(labels)))
        raise InvalidInputError(
            f"Input y contains NaN or infinity: {count} of {len(labels)} labels. Drop these rows, or fill in what is missing."
        )
    if is_classifier(estimator) and len(labels) and len(kinds := np.unique(labels)) == 1:
        raise InvalidInputError(
            f"y has one class only ({kinds.tolist()[0]!r} in all {len(labels)} rows), and a classifier needs rows of two "
            "classes."
        )
    wrong = 0 if _may_fill(estimator) else _rows_with_gaps(X)
    if wrong:
        raise InvalidInputError(
            f"Input X contains NaN or infinity in {wrong} of {len(labels)} rows, and {type(estimator).__name__} takes numbers "
            "only: drop these rows, or fill them with a SimpleImputer in a Pipeline."
        )


def _may_fill(estimator: Estimator) -> bool:
    """Whether missing cells may be taken: by the estimator itself, or by imputers, encoders or single columns of its steps."""
    if not hasattr(estimator, "steps"):
        return bool(get_tags(estimator).input_tags.allow_nan)
    own = ("missing_values", "handle_unknown", "transformers", "transformer_list", "func")
    return any(hasattr(part, name) for part in estimator.get_params(deep=True).values() for name in own)


def _rows_with_gaps(X: Any) -> int:
    """Rows of an array of numbers that hold one that is not finite, or of a frame that lack a value."""
    if hasattr(X, "isna"):
        return int(np.asarray(X.isna()).reshape(len(X), -1).any(axis=1).sum())
    if not (isinstance(X, np.ndarray) and X.dtype.kind == "f" and len(X)):
        return 0
    return int(np.sum(~np.isfinite(X.reshape(len(X), -1)).all(axis=1)))


def split_of(task: Task, held_out: float) -> tuple[Rows, Rows]:
    """Rows to train on and to look at; the same where there are too few. No value of a row decides where it goes."""
    share = check_part(held_out, "held_out", 0.9)
    n = len(task.y)
    if share == 0:
        return np.arange(n), np.arange(n)
    if n < FEWEST_ROWS:
        warnings.warn(
            f"No rows are held out, since {n} rows are too few to split ({FEWEST_ROWS} are needed). Losses and scores are "
            "those of the rows that models are fitted on. Use held_out=0 to leave out this warning.",
            UserWarning,
            stacklevel=3,
        )
        return np.arange(n), np.arange(n)
    held = np.floor((np.arange(n) + 1) * share) > np.floor(np.arange(n) * share)
    if not held.any():
        raise InvalidInputError(
            f"held_out must be 0, or at least {1 / n:.2g} so that one of {n} rows is held out; got {held_out!r}."
        )
    order = task.rng().permutation(n)
    return np.sort(order[~held]), np.sort(order[held])


NO_BOUND = "No useful bound holds"
"""How refusals begin that another limit does not mend."""


def protect(
    estimator: Estimator,
    X: TableLike,
    y: VectorLike,
    eta: float = 1.0,
    *,
    over: str = ANY_RECORD,
    groups: VectorLike = None,
    person: VectorLike = None,
    rows_per_person: int | None = None,
    penalties: Sequence[float] | None = None,
    weightings: Sequence[str] | None = None,
    shapes: Sequence[str] | None = None,
    bounds: Mapping[str, Any] | None = None,
    public: str = "nothing",
    held_out: float = 0.25,
    random_state: Seed = None,
) -> Frontier:
    r"""What a limit costs: held-out loss against eta, over penalties, weights and covariances of noise.

    Parameters
    ----------
    estimator : scikit-learn model
        Any that :func:`fisherleak.measure` reads, with its penalty as ``alpha`` or ``C``.
    X, y : array or table of shape (n, d), and labels
    eta : float
        The limit. Etas from a fourth of it to four times it are looked at.
    over : {"any-record", "max"}
        Whose etas are limited, as in :func:`fisherleak.calibrate`: of any record within the bounds, or of the rows present.
    groups : array of shape (n,), optional
        With ``over="max"``: the person (or group) of each row; the limit is then on everyone (:meth:`Leakage.by_person`).
    person : str or array of shape (n,), optional
        Whose row each is, or the column of X that says so.
        With "max" as ``groups``; with "any-record" ``rows_per_person`` goes with it.
    rows_per_person : int, optional
        How many rows a person may have: the limit is on all of them together, whichever records within the bounds they are.
        A choice among candidates is not counted for people: ``penalties`` must be left out, or name one candidate with
        ``shapes=["hessian"]``, say.
    penalties : sequence of float, optional
        Factors of the estimator's own penalty: a public grid, 1, 10 and 100 by default with "max". With "any-record" the
        penalties by default are in place of the estimator's own: from the l2 where penalty and noise cost least by public
        numbers (parameters, rows to two digits, bounds, limit), each three times the one before, up to 10. ``release`` then
        takes the one with the least predicted cost.
    weightings : sequence of {"none", "half", "full"}, optional
        Powers 0, 1/2 and 1 of the weights of :class:`fisherleak.IRFIL`; all of them with "max", "none" with "any-record".
    shapes : sequence, optional
        Of "isotropic", "hessian" and "least-loss"; those whose noise is counted by default ("least-loss" with "max" only).
    bounds : mapping, optional
        For "any-record", as in :func:`fisherleak.calibrate`.
    public : {"nothing", "levels", "preprocessing"}
        As in :func:`fisherleak.release`.
    held_out : float
        Part of the rows on which losses are measured, between 0 and 0.9; they are trained on in ``release``. With 0, and with a
        warning of fewer than 20 rows, losses are those of the rows that models are fitted on.
    random_state : int or Generator, optional
        Of the split and of noisy copies; 0 if not given, so that the frontier is repeatable. ``release`` draws again.

    Returns
    -------
    Frontier

    Notes
    -----
    **Which candidate is released.** With ``over="any-record"`` and no ``penalties``, ``release`` takes penalty and covariance
    by the rule of ``fisherleak release --eta``: the penalty for which penalty and noise are predicted to cost least together,
    and the covariance of the rows' inverse Hessian where it keeps the limit. Nothing but public numbers and scales on a public
    grid decides that, so that eta is spent on the noise alone. The losses on held-out rows are for you to look at.

    **Missing values.** With ``over="any-record"`` an imputer that learns a mean or median is replaced: gaps are filled with the
    centre of the declared bounds, which no row moves, and a feature shows who lacks a column that at least 5 % of the rows
    lack, as in ``fisherleak release``. :attr:`Frontier.filled` says with what. An imputer with a constant within the bounds
    stays as it is.

    **What eta counts.** Elsewhere which candidate is best is learned from the rows. ``release`` draws among the candidates
    without weights, so that this is counted in what eta promises (:meth:`Frontier.choose`).
    IRFIL's weights are learned from the rows too, and not counted: a candidate that has them is released by name,
    ``release(choice=…)``, or as the best of all, ``release(counted=False)``, and ``UncountedChoiceWarning`` says so.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> frontier = fl.protect(Ridge(1.0), X, y / y.std(), eta=1.0, over="max", weightings=["none"])
    >>> frontier.best().loss <= max(point.loss for point in frontier.points if point.eta == 1.0)
    True
    """
    over = read_over(over, SHAPES_OVER)
    groups = people_in_rows(groups, person, rows_per_person, over)
    asked = protect_arguments(
        estimator, X, y, eta, over, groups, penalties, weightings, shapes, bounds, public, random_state
    )
    if rows_per_person is not None:
        check_rows_per_person(
            asked.groups, len(asked.y), rows_per_person
        )  # of all rows, some of which are held out below
    points: list[FrontierPoint] = []
    refused: list[str] = []
    plainly: list[Candidate] = []
    margins: dict[tuple[float, str], float] = {}
    with stage("Protecting"):
        task = with_public_penalties(replace(asked, rows_per_person=rows_per_person))
        train, test = split_of(task, held_out)
        inner = bounded_as(task, task.part(train))
        plain = polished(inner.as_given, 1.0, None)
        if ISOTROPIC not in task.shapes:
            check_fills_have_noise(plain.measured)
        scorer = Scorer(task, test, plain.measured.fits[0].loss)
        count = len(task.penalties) * (1 + len(task.weightings) * len(task.shapes))
        for found in track(_looked_at(inner, scorer, refused, plainly, margins), count, "Protecting"):
            points += found
    if not points:
        raise InvalidInputError(f"No candidate keeps the limit: {_remedy(task, inner, refused)}.")
    loss, score = scorer.of(scorer.predictor(plain.model)[:, None])
    compared = Compared(tuple(plainly), scorer, (train, test), margins)
    count = 0 if len(test) == len(task.y) else len(test)
    return Frontier(tuple(points), loss, score, count, tuple(refused), task, compared)


def _looked_at(
    task: Task,
    scorer: Scorer,
    refused: list[str],
    plainly: list[Candidate],
    margins: dict[tuple[float, str], float],
) -> Iterator[list[FrontierPoint]]:
    """Points step by step: nothing yet where candidates of a penalty were fitted, then those of each shape of each.

    Candidates without weights are kept in ``plainly``, and the margins of their bounds in ``margins``.
    """
    for penalty in task.penalties:
        candidates = fitted_all(task, penalty, refused)
        plainly += [each for each in candidates if WEIGHTINGS[each.weighting] == 0]
        yield []
        for candidate in candidates:
            for shape in task.shapes:
                found, margin = looked_at(candidate, shape, scorer, refused)
                if WEIGHTINGS[candidate.weighting] == 0:
                    margins[candidate.penalty, shape] = margin
                yield found


def _remedy(task: Task, inner: Task, refused: Sequence[str]) -> str:
    """What lets a candidate keep the limit, and why the first does not; a bound on any record does not follow the limit."""
    first, unbounded, _ = refused[0].partition(NO_BOUND)
    if unbounded and all(NO_BOUND in each for each in refused):
        over = "" if task.rows_per_person else ", or use over='max'"
        return (
            f"declare narrower bounds, use more rows{over}. {_people_enough(task, inner)}The first: {first}{NO_BOUND}"
        )
    largest = max(task.penalties)
    larger = f"try larger penalties, penalties=[{10 * largest:g}, {100 * largest:g}] say, or a larger eta"
    said = larger if task.given is None else "use a larger eta, declare narrower bounds, or use more rows"
    return f"{said}. The first: {refused[0].removesuffix('.')}"


def _people_enough(task: Task, inner: Task) -> str:
    """How many people like these would do, with the largest penalty and as many rows held out."""
    if task.rows_per_person is None:
        return ""
    leak = with_gaps_filled(polished(inner, max(inner.penalties), None).measured, inner.bounds)
    times, people = copies_enough(leak, inner.bounds, task.rows_per_person), len(set(np.asarray(task.groups).tolist()))
    return "" if times is None else f"{times * people:,} people like these would not be refused; there are {people:,}. "


OPTIONS = ("over", "penalties", "weightings", "shapes", "bounds", "public", "random_state")
"""What ``protect`` is given."""


class Protected(Wrapper):
    """Release a most accurate candidate that keeps everyone below a limit, with its choice counted.

    Parameters
    ----------
    estimator : scikit-learn model
        Any that :func:`fisherleak.measure` reads.
    eta : float
        The limit.
    over : {"any-record", "max"}
        Whose etas are limited.
    penalties, weightings, shapes, bounds, public, held_out
        As in :func:`fisherleak.protect`; without IRFIL's weights by default, since what these reveal is not counted.
    counted : bool
        Where public numbers do not decide, draw the candidate so that the choice is counted
        (:meth:`fisherleak.Frontier.choose`). False takes the best one, and ``UncountedChoiceWarning`` says that eta does not
        count it.
    share : float
        Part of the limit that a counted choice may use.
    random_state : int or Generator, optional
        For tests only, with ``SeededReleaseWarning``: without one the noise is made of the operating system's randomness.

    Attributes
    ----------
    estimator_ : scikit-learn model
        The released model: the only one to pass on.
    choice_ : FrontierPoint
        What was chosen, with its held-out loss (NaN where public numbers decide, and nothing is held out). Derived from the
        data, and in no copy or pickle.
    promise_ : dict or None
        What may be passed on with the model: what was chosen, the limit, and how it is shared between choice and noise. None
        where the choice is not counted.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = fl.Protected(Ridge(), eta=5.0, penalties=[1.0], weightings=["none"], shapes=["hessian"])
    >>> model.fit(X, y / y.std()).choice_.shape
    'hessian'
    >>> model.promise_["eta_choice"]  # one candidate: nothing to choose
    0.0
    """

    def __init__(
        self,
        estimator: Estimator,
        eta: float = 1.0,
        over: str = ANY_RECORD,
        penalties: Sequence[float] | None = None,
        weightings: Sequence[str] = ("none",),
        shapes: Sequence[str] | None = None,
        bounds: Mapping[str, Any] | None = None,
        public: str = "nothing",
        held_out: float = 0.25,
        counted: bool = True,
        share: float = SHARE,
        random_state: Seed = None,
    ) -> None:
        self.estimator = estimator
        self.eta = eta
        self.over = over
        self.penalties = penalties
        self.weightings = weightings
        self.shapes = shapes
        self.bounds = bounds
        self.public = public
        self.held_out = held_out
        self.counted = counted
        self.share = share
        self.random_state = random_state

    def fit(self, X: TableLike, y: VectorLike) -> Self:
        """Look at all candidates, and release one, fitted on all rows."""
        weightings = listed_weightings(self.weightings)
        if check_flag(self.counted, "counted") and set(weightings) != {"none"}:
            raise InvalidInputError(
                f"weightings must be ['none'] where the choice is counted, since what IRFIL's weights reveal is not; got "
                f"{list(weightings)!r}. Leave them out, or use counted=False, which warns."
            )
        asked = (self.estimator, X, y, self.eta)
        options = {name: getattr(self, name) for name in OPTIONS} | {"over": read_over(self.over, SHAPES_OVER)}
        rng = None if self.random_state is None else generator(self.random_state)
        self.promise_: Json | None
        task = with_public_penalties(protect_arguments(*asked, **options, groups=None))
        if self.counted and task.by_rule:
            warn_of_seed(self.random_state)
            return self._by_rule(task, rng)
        frontier = protect(*asked, **options, held_out=self.held_out)
        if self.counted:
            choice = frontier.choose(share=self.share, random_state=rng)
            self.choice_, self.promise_ = choice.point, choice.record()
            self.estimator_ = frontier.release(choice=choice, random_state=rng)
        else:
            self.choice_, self.promise_ = frontier.best(), None
            self.estimator_ = frontier.release(random_state=rng, counted=False)
        return self

    def _by_rule(self, task: Task, rng: Seed) -> Self:
        """Release with the penalty and the covariance that public numbers decide."""
        made = release_by_rule(task, task.eta, rng)
        penalty, shape = made.decided[0].l2, str(made.shape)
        self.choice_ = FrontierPoint(penalty, "none", shape, task.eta, made.noise.scale, math.nan, None)
        told = calibration_of(made.noise)
        chance = 1.0 if told is None or told.probability is None else told.probability
        choice = CountedChoice(self.choice_, task.eta, 0.0, task.eta, task.over, len(task.penalties), None, chance)
        self.promise_ = choice.record()
        self.estimator_ = made.model
        return self

    def __getstate__(self) -> Any:
        # an estimator that was passed in fitted would carry the model without noise along
        state = dict(super().__getstate__())
        state["estimator"] = clone(self.estimator)
        state.pop("choice_", None)  # its loss is exact
        return state

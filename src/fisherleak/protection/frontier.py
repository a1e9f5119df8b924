r"""The most accurate model that keeps everyone below a limit: held-out loss against eta, over what can be chosen.

A limit can be kept with a larger penalty, with weights that lean equally on all rows (IRFIL), and with noise of another shape,
and these act together. ``protect`` tries a public grid of all three. The linear predictor of a noisy model is
:math:`z + s\,z_b`, with s the noise's scale and :math:`z_b` that of noise of scale 1, so that few draws of a candidate serve
every eta: :math:`s(\eta) \propto 1 / \sqrt{\eta^2 - \eta_2^2}`, with :math:`\eta_2` what a counted shape tells by itself.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.multiclass import type_of_target

from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import Estimator, Seed, TableLike, VectorLike
from fisherleak._support.notebook import panel
from fisherleak._support.progress import track
from fisherleak.engine.calibrated import ADMISSIBLE
from fisherleak.errors import FisherleakError, InvalidInputError, UncountedChoiceWarning
from fisherleak.models import as_table
from fisherleak.models.levels import check_common_classes
from fisherleak.models.rebuilt import FEW
from fisherleak.models.wrapper import one_target
from fisherleak.protection.calibration import publishable
from fisherleak.protection.contenders import (
    WEIGHTINGS,
    FrontierPoint,
    Scorer,
    Task,
    calibrated_model,
    fitted_all,
    looked_at,
    polished,
)
from fisherleak.protection.release import built, check_public
from fisherleak.protection.shapes import SHAPES

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas

__all__ = ["Frontier", "protect"]

Rows = NDArray[np.int64]
SHAPES_OVER = {ADMISSIBLE: ("isotropic", "hessian"), "max": ("isotropic", "hessian", "least-loss")}
"""Shapes that are tried: the counted ones, or all."""
WIDE = 20.0
"""Losses beyond this many times that without noise are drawn on a logarithmic axis."""
FEWEST_ROWS = 20
"""Below this none are held out."""


@dataclass(frozen=True)
class Frontier:
    """Held-out loss against eta for every candidate. Derived from the data, which it holds: it stays in the house.

    Attributes
    ----------
    points : tuple of FrontierPoint
    loss, score : float
        Of the estimator as it was given, without noise, on the same rows.
    held_out : int
        Held-out rows; 0 where there are so few that training rows stand for them.
    refused : tuple of str
        Candidates that keep no limit, and why.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> frontier = fl.protect(Ridge(1.0), X, y / y.std(), eta=1.0, over="max", penalties=[1.0], weightings=["none"])
    >>> sorted({point.shape for point in frontier.points})
    ['hessian', 'isotropic', 'least-loss']

    Examples of the methods go on from here.
    """

    points: tuple[FrontierPoint, ...] = field(repr=False)
    loss: float
    score: float | None
    held_out: int
    refused: tuple[str, ...] = field(repr=False)
    task: Task = field(repr=False)

    def _repr_html_(self) -> str:
        pairs: list[tuple[str, object]] = []
        for eta in sorted({point.eta for point in self.points}):
            best = self.best(eta)
            how = f"{best.shape} noise, penalty × {best.penalty:g}, {best.weighting} weights"
            pairs.append((f"eta {eta:g}", f"loss {best.loss:.4g}: {how}"))
        measured = f"{self.held_out:,} held-out rows" if self.held_out else "training rows"
        pairs.append(("without noise", f"loss {self.loss:.4g}"))
        return panel(f"Frontier, least loss on {measured}", pairs, "Derived from the data: it stays in the house.")

    def best(self, eta: float | None = None) -> FrontierPoint:
        """The candidate of the least held-out loss at the largest eta looked at that is not above the one asked for.

        Examples
        --------
        >>> frontier.best(0.5).eta
        0.5
        """
        limit = self.task.eta if eta is None else check_positive(eta, "eta")
        known = sorted({point.eta for point in self.points if point.eta <= limit * (1.0 + 1e-12)})
        if not known:
            raise InvalidInputError(
                f"eta must be at least {min(point.eta for point in self.points):g}, the least that was looked at; got "
                f"{limit:g}. Call protect with a smaller one."
            )
        return min((point for point in self.points if point.eta == known[-1]), key=lambda point: point.loss)

    def frame(self) -> pandas.DataFrame:
        """One row for each candidate and eta.

        Examples
        --------
        >>> frontier.frame().groupby("shape").size().to_dict()
        {'hessian': 5, 'isotropic': 5, 'least-loss': 5}
        """
        try:
            import pandas
        except ImportError:
            raise FisherleakError("frame needs pandas: pip install 'fisherleak[frames]'.") from None
        return pandas.DataFrame([asdict(point) for point in self.points])

    def plot(self, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Held-out loss against eta, one line for each weighting and shape at its best penalty; dashed without noise.

        Examples
        --------
        >>> frontier.plot().figure.savefig("frontier.png")  # doctest: +SKIP
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise FisherleakError("plot needs matplotlib: pip install 'fisherleak[plot]'.") from None
        if ax is None:
            ax = Figure(figsize=(6.4, 4.0), layout="constrained").add_subplot()
        styles = {"none": "-", "half": "-.", "full": ":"}
        lines = self._lines()
        for (weighting, shape), line in lines.items():
            name = shape if weighting == "none" else f"{shape}, {weighting} weights"
            colour = f"C{self.task.shapes.index(shape)}"
            ax.plot(list(line), list(line.values()), styles[weighting], color=colour, label=name)
        ax.axhline(self.loss, linestyle="--", color="grey", label="without noise")
        etas = sorted({point.eta for point in self.points})
        ax.set_xscale("log")
        if max(max(line.values()) for line in lines.values()) > WIDE * self.loss > 0:
            ax.set_yscale("log")
        ax.set_xticks(etas, [f"{eta:g}" for eta in etas])
        ax.minorticks_off()
        ax.set_xlabel("limit on Fisher information loss η")
        ax.set_ylabel("held-out loss")
        ax.legend(fontsize="small")
        return ax

    def _lines(self) -> dict[tuple[str, str], dict[float, float]]:
        """The least loss over penalties by eta, for every weighting and shape."""
        found: dict[tuple[str, str], dict[float, float]] = {}
        for point in sorted(self.points, key=lambda point: point.eta):
            line = found.setdefault((point.weighting, point.shape), {})
            line[point.eta] = min(point.loss, line.get(point.eta, math.inf))
        return found

    def release(self, eta: float | None = None, choice: FrontierPoint | None = None, random_state: Seed = None) -> Any:
        """The best candidate, or a given one, fitted on all rows, calibrated anew to the limit, and released.

        Parameters
        ----------
        eta : float, optional
            The limit; that of ``protect`` by default.
        choice : FrontierPoint, optional
            A candidate that was chosen on grounds other than these rows: then its choice needs no warning.
        random_state : int or Generator, optional
            For tests only.

        Returns
        -------
        scikit-learn model
            As from :func:`fisherleak.release`. What eta does not count is said by warnings: ``UncountedChoiceWarning`` for a
            choice among several candidates and for weights, ``UncountedScaleWarning`` for noise that the rows present decide.

        Examples
        --------
        >>> chosen = next(point for point in frontier.points if point.shape == "isotropic" and point.eta == 1.0)
        >>> frontier.release(choice=chosen)  # doctest: +SKIP
        """
        limit = self.task.eta if eta is None else check_positive(eta, "eta")
        chosen = self.best(limit) if choice is None else choice
        _warn_of_choice(chosen, choice is None and self.task.count > 1)
        model, noise = calibrated_model(self.task, chosen, limit, random_state)
        return built(model, publishable(noise), random_state, self.task.declared)


def protect(
    estimator: Estimator,
    X: TableLike,
    y: VectorLike,
    eta: float = 1.0,
    *,
    over: str = ADMISSIBLE,
    groups: VectorLike = None,
    penalties: Sequence[float] = (1.0, 10.0, 100.0),
    weightings: Sequence[str] = ("none", "half", "full"),
    shapes: Sequence[str] | None = None,
    bounds: Mapping[str, Any] | None = None,
    public: str = "nothing",
    held_out: float = 0.25,
    random_state: Seed = None,
) -> Frontier:
    r"""What a limit costs: held-out loss against eta, over penalties, weights and shapes of noise.

    Parameters
    ----------
    estimator : scikit-learn model
        Any that :func:`fisherleak.measure` reads, with its penalty as ``alpha`` or ``C``.
    X, y : array or table of shape (n, d), and labels
    eta : float
        The limit. Etas from a fourth of it to four times it are looked at.
    over : {"admissible", "max"}
        Whose etas are limited, as in :func:`fisherleak.calibrate`: of whoever could be in the table, or of the rows present.
    groups : array of shape (n,), optional
        With ``over="max"``: the group (or person) of each row; the limit is then on every group.
    penalties : sequence of float
        Factors of the estimator's own penalty: a public grid.
    weightings : sequence of {"none", "half", "full"}
        Powers 0, 1/2 and 1 of the weights of :class:`fisherleak.IRFIL`.
    shapes : sequence, optional
        Of "isotropic", "hessian" and "least-loss"; those whose noise is counted by default ("least-loss" with "max" only).
    bounds : mapping, optional
        For "admissible", as in :func:`fisherleak.calibrate`.
    public : {"nothing", "levels", "preprocessing"}
        As in :func:`fisherleak.release`.
    held_out : float
        Part of the rows on which losses are measured, between 0 and 0.9; they are trained on in ``release``.
    random_state : int or Generator, optional
        Of the split and of noisy copies; 0 if not given, so that the frontier is repeatable. ``release`` draws anew.

    Returns
    -------
    Frontier

    Notes
    -----
    **What eta does not count.** Which candidate is best is learned from the rows, and so are IRFIL's weights. ``release`` says
    so (``UncountedChoiceWarning``); a candidate chosen beforehand, ``release(choice=…)``, with weighting "none" and
    ``over="admissible"`` has all of it counted.

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
    task = _task(estimator, X, y, eta, over, groups, penalties, weightings, shapes, bounds, public, random_state)
    train, test = _split(task, held_out)
    inner = task.part(train)
    plain, leak = polished(inner, 1.0, None)
    scorer = Scorer(task, test, leak.fits[0].loss)
    points: list[FrontierPoint] = []
    refused: list[str] = []
    count = len(task.penalties) * (1 + len(task.weightings) * len(task.shapes))
    for found in track(_looked_at(inner, scorer, refused), count, "Protecting"):
        points += found
    if not points:
        raise InvalidInputError(f"No candidate keeps the limit. The first: {refused[0]}")
    loss, score = scorer.of(scorer.predictor(plain)[:, None])
    return Frontier(tuple(points), loss, score, 0 if len(test) == len(task.y) else len(test), tuple(refused), task)


def _looked_at(task: Task, scorer: Scorer, refused: list[str]) -> Iterator[list[FrontierPoint]]:
    """Points step by step: nothing yet where candidates of a penalty were fitted, then those of each shape of each."""
    for penalty in task.penalties:
        candidates = fitted_all(task, penalty, refused)
        yield []
        for candidate in candidates:
            for shape in task.shapes:
                yield looked_at(candidate, shape, scorer, refused)


def _task(
    estimator: Estimator,
    X: TableLike,
    y: VectorLike,
    eta: float,
    over: str,
    groups: VectorLike,
    penalties: Sequence[float],
    weightings: Sequence[str],
    shapes: Sequence[str] | None,
    bounds: Mapping[str, Any] | None,
    public: str,
    random_state: Seed,
) -> Task:
    limit = check_positive(eta, "eta")
    check_public(public)
    if over not in SHAPES_OVER:
        raise InvalidInputError(f"over must be one of {', '.join(SHAPES_OVER)}; got {over!r}.")
    if over == ADMISSIBLE and groups is not None:
        raise InvalidInputError("groups go with over='max': no bound is known for a group that could be there.")
    if over != ADMISSIBLE and bounds is not None:
        raise InvalidInputError(f"bounds are for over='admissible' only; got over={over!r}.")
    known = SHAPES_OVER[over] if shapes is None else tuple(shapes)
    for name, given, allowed in (("shapes", known, SHAPES), ("weightings", tuple(weightings), tuple(WEIGHTINGS))):
        wrong = [item for item in given if item not in allowed]
        if wrong or not given:
            raise InvalidInputError(
                f"{name} must be some of {', '.join(allowed)}; got {wrong[0] if wrong else 'none'!r}."
            )
    if as_table(X).lazy:
        raise InvalidInputError("protect fits scikit-learn models, which need rows in memory; X is Dask's.")
    if not (hasattr(X, "iloc") or hasattr(X, "__getitem__")):
        X = np.asarray(X)
    factors = tuple(check_positive(penalty, "penalties") for penalty in penalties)
    if not factors:
        raise InvalidInputError("penalties must be factors of the estimator's own penalty; got none.")
    y = one_target(estimator, y)
    if public == "nothing" and is_classifier(estimator) and type_of_target(y) in ("binary", "multiclass"):
        check_common_classes(estimator, y, FEW)
    return Task(estimator, X, y, limit, over, groups, factors, tuple(weightings), known, bounds, public, random_state)


def _split(task: Task, held_out: float) -> tuple[Rows, Rows]:
    """Rows to train on and to look at; the same where there are too few. Classes are split alike."""
    if not 0 <= held_out <= 0.9:
        raise InvalidInputError(f"held_out must be between 0 and 0.9; got {held_out!r}.")
    n = len(task.y)
    if n < FEWEST_ROWS or held_out == 0:
        return np.arange(n), np.arange(n)
    order = task.rng().permutation(n)
    if is_classifier(task.estimator):
        order = order[np.argsort(np.unique(np.asarray(task.y)[order], return_inverse=True)[1], kind="stable")]
    held = np.floor((np.arange(n) + 1) * held_out) > np.floor(np.arange(n) * held_out)
    return np.sort(order[~held]), np.sort(order[held])


def _warn_of_choice(chosen: FrontierPoint, among_several: bool) -> None:
    """Say what of a choice was learned from the rows and is not counted."""
    said = []
    if among_several:
        said.append("Which penalty, weighting and shape are best was learned from the rows")
    if WEIGHTINGS[chosen.weighting] > 0:
        said.append("IRFIL's weights were computed from the rows")
    if said:
        warnings.warn(
            f"{', and '.join(said)}, which eta does not count: name a candidate beforehand, with weighting 'none', to have all "
            "of it counted.",
            UncountedChoiceWarning,
            stacklevel=3,
        )

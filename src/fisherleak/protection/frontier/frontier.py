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

from fisherleak._support.checks import check_flag, check_part, check_positive
from fisherleak._support.namespaces import Estimator, Seed, TableLike, VectorLike
from fisherleak._support.notebook import panel
from fisherleak._support.pickles import Pickled
from fisherleak._support.progress import track
from fisherleak.engine.noise.add_noise_and_round import generator
from fisherleak.engine.noise.calibrated import ADMISSIBLE
from fisherleak.errors import FisherleakError, InvalidInputError, UncountedChoiceWarning
from fisherleak.protection.frontier.counted_choice import SHARE, CountedChoice, drawn_choice
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
    release_candidate,
)
from fisherleak.protection.frontier.protect_arguments import asked_task, split_of
from fisherleak.protection.release.procedure import warn_of_seed

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas

__all__ = ["Frontier", "protect"]

Rows = NDArray[np.int64]
WIDE = 20.0
"""Losses beyond this many times that without noise are drawn on a logarithmic axis."""


@dataclass(frozen=True)
class Compared:
    """What a choice is drawn from: models without weights, how they are scored, rows to train on and rows held out."""

    candidates: tuple[Candidate, ...]
    scorer: Scorer
    rows: tuple[Rows, Rows]
    margins: Mapping[tuple[float, str], float]
    """Of the bounds behind their noise, by penalty and shape: how far each is from one that would be refused."""


@dataclass(frozen=True)
class Frontier(Pickled):
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
    compared: Compared = field(repr=False)

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
        return min(self._at(eta), key=lambda point: point.loss)

    def _at(self, eta: float | None) -> list[FrontierPoint]:
        """Points at the largest eta looked at that is not above one."""
        limit = self.task.eta if eta is None else check_positive(eta, "eta")
        known = sorted({point.eta for point in self.points if point.eta <= limit * (1.0 + 1e-12)})
        if not known:
            raise InvalidInputError(
                f"eta must be at least {min(point.eta for point in self.points):g}, the least that was looked at; got "
                f"{limit:g}. Call protect with a smaller one."
            )
        return [point for point in self.points if point.eta == known[-1]]

    def choose(self, eta: float | None = None, share: float = SHARE, random_state: Seed = None) -> CountedChoice:
        r"""A good candidate without IRFIL's weights, drawn so that the choice itself is counted.

        Parameters
        ----------
        eta : float, optional
            The limit that the choice and the released model keep together; that of ``protect`` by default.
        share : float
            Part of the limit that the choice may tell, between 0 and 1: more is a better choice, and more noise.
        random_state : int or Generator, optional
            For tests only, with ``SeededReleaseWarning``.

        Returns
        -------
        CountedChoice
            For ``release(choice=…)``; its ``record()`` may be passed on.

        Notes
        -----
        With :math:`U_k` the held-out loss of candidate k without noise, its slope cut where one row would decide, and
        the price of its noise on a public grid, :math:`c_k`, candidate k is drawn with a probability in proportion to
        :math:`\exp(-(U_k + c_k) / b)`. That tells of a row exactly :math:`\mathrm{Cov}_k(\nabla U_k) / b^2`, by
        its own loss where it is held out and through the fits where it is not, and b is such that nobody's eta of it is above
        :math:`\eta_{choice}`, the share of eta: of the rows present with ``over="max"``, of any admissible row in place of any
        other with "admissible". The noise then keeps :math:`\sqrt{\eta^2 - \eta_{choice}^2}`.

        **What holds, and when.** Every call is a choice of its own and adds to what is told: draw once. b and the prices are
        on a grid with a random public offset, which every choice draws anew and ``record()`` tells: given the offset they are
        constant under small changes of a row, whatever the table, where bounds are declared. So is which candidates keep the
        limit: one whose bound is near one that is refused is left out, how near by the same offset, and one whose limit comes
        near what its shape tells fades out by its price. How often exchanging a whole row changes any of these has no bound,
        and ``probability`` says 1. With "max" the scales and shapes of the noise are taken as given, as a release of it warns.

        Examples
        --------
        >>> choice = frontier.choose(eta=1.0)
        >>> round(choice.eta_choice, 3), round(choice.eta_noise, 3)
        (0.3, 0.954)
        """
        warn_of_seed(random_state)
        return self._drawn(eta, share, random_state)

    def _drawn(self, eta: float | None, share: float, random_state: Seed) -> CountedChoice:
        """A counted choice."""
        limit = self.task.eta if eta is None else check_positive(eta, "eta")
        share = check_part(share, "share", 1, ", a part of the limit", ends=False)
        points = [point for point in self._at(limit) if WEIGHTINGS[point.weighting] == 0]
        if not points:
            raise InvalidInputError(
                "No candidate without weights was looked at, and what IRFIL's weights tell is not counted: call protect with "
                "weightings=['none'], or use counted=False, which warns."
            )
        rng = None if random_state is None else generator(random_state)
        compared = self.compared
        margins = [compared.margins[point.penalty, point.shape] for point in points]
        return drawn_choice(compared.candidates, points, margins, compared.scorer, compared.rows, limit, share, rng)

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

    def release(
        self,
        eta: float | None = None,
        choice: FrontierPoint | CountedChoice | None = None,
        random_state: Seed = None,
        *,
        counted: bool = True,
    ) -> Any:
        """A good candidate, or a given one, fitted on all rows, calibrated anew to the limit, and released.

        Parameters
        ----------
        eta : float, optional
            The limit; that of ``protect`` by default. A counted choice has its own.
        choice : CountedChoice or FrontierPoint, optional
            From :meth:`choose`, which is called if not given; or a candidate that was chosen on grounds other than these rows.
        random_state : int or Generator, optional
            For tests only, with ``SeededReleaseWarning``.
        counted : bool
            False releases the best candidate of all, weights included, and ``UncountedChoiceWarning`` says what of it was
            learned from the rows and is not counted.

        Returns
        -------
        scikit-learn model
            As from :func:`fisherleak.release`. What eta does not count is said by warnings: ``UncountedChoiceWarning`` for
            weights and for ``counted=False``, ``UncountedScaleWarning`` for noise that the rows present decide.

        Examples
        --------
        >>> frontier.release(choice=frontier.choose(eta=1.0))  # doctest: +SKIP
        """
        warn_of_seed(random_state)
        rng = None if random_state is None else generator(random_state)
        if not isinstance(choice, FrontierPoint | CountedChoice | None):
            raise InvalidInputError(f"choice must be from choose(), or one of the frontier's points; got {choice!r}.")
        if check_flag(counted, "counted") and choice is None:
            choice = self._drawn(eta, SHARE, rng)
        if isinstance(choice, CountedChoice):
            if eta is not None and eta != choice.eta:
                raise InvalidInputError(f"eta must be that of the choice, {choice.eta:g}, or left out; got {eta!r}.")
            choice.check_among(self.task, self.points)
            chosen, limit = choice.point, choice.eta_noise
        else:
            limit = self.task.eta if eta is None else check_positive(eta, "eta")
            chosen = self.best(limit) if choice is None else choice
            _warn_of_choice(chosen, choice is None and self.task.count > 1)
        return release_candidate(self.task, chosen, limit, rng).model


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
        Part of the rows on which losses are measured, between 0 and 0.9; they are trained on in ``release``. With 0, and with a
        warning of fewer than 20 rows, losses are those of the rows that models are fitted on.
    random_state : int or Generator, optional
        Of the split and of noisy copies; 0 if not given, so that the frontier is repeatable. ``release`` draws anew.

    Returns
    -------
    Frontier

    Notes
    -----
    **What eta counts.** Which candidate is best is learned from the rows. ``release`` draws among the candidates without
    weights, so that this is counted in what eta promises (:meth:`Frontier.choose`); with ``over="admissible"`` all of it is.
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
    task = asked_task(estimator, X, y, eta, over, groups, penalties, weightings, shapes, bounds, public, random_state)
    train, test = split_of(task, held_out)
    inner = bounded_as(task, task.part(train))
    plain = polished(inner, 1.0, None)
    scorer = Scorer(task, test, plain.measured.fits[0].loss)
    points: list[FrontierPoint] = []
    refused: list[str] = []
    plainly: list[Candidate] = []
    margins: dict[tuple[float, str], float] = {}
    count = len(task.penalties) * (1 + len(task.weightings) * len(task.shapes))
    for found in track(_looked_at(inner, scorer, refused, plainly, margins), count, "Protecting"):
        points += found
    if not points:
        largest = max(task.penalties)
        raise InvalidInputError(
            f"No candidate keeps the limit: try larger penalties, penalties=[{10 * largest:g}, {100 * largest:g}] say, or a "
            f"larger eta. The first: {refused[0]}"
        )
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

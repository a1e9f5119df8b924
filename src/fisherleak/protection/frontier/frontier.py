r"""The most accurate model that keeps everyone below a limit: held-out loss against eta, over what can be chosen.

A limit can be kept with a larger penalty, with weights that expose all rows equally (IRFIL), and with noise of another shape,
and these act together. ``protect`` tries a public grid of all three. The linear predictor of a noisy model is
:math:`z + s\,z_b`, with s the noise's scale and :math:`z_b` that of noise of scale 1, so that few draws of a candidate serve
every eta: :math:`s(\eta) \propto 1 / \sqrt{\eta^2 - \eta_2^2}`, with :math:`\eta_2` what a counted shape tells by itself.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.checks import check_flag, check_part, check_positive
from fisherleak._support.namespaces import Seed
from fisherleak._support.notebook import Shown
from fisherleak._support.pickles import Pickled
from fisherleak.engine.noise.add_noise_and_round import generator
from fisherleak.errors import FisherleakError, InvalidInputError, UncountedChoiceWarning
from fisherleak.protection.frontier.counted_choice import SHARE, CountedChoice, drawn_choice
from fisherleak.protection.frontier.frontier_candidates import (
    WEIGHTINGS,
    Candidate,
    FrontierPoint,
    Scorer,
    Task,
    release_by_rule,
    release_candidate,
)
from fisherleak.protection.release.model_bounds import public_fills
from fisherleak.protection.release.procedure import warn_of_seed

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas


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
class Frontier(Shown, Pickled):
    """Held-out loss against eta for every candidate. Derived from the data, which it holds: keep it internal.

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

    def _shown(self) -> tuple[str, list[tuple[str, object]], str]:
        pairs: list[tuple[str, object]] = []
        for eta in sorted({point.eta for point in self.points}):
            best = self.best(eta)
            of = "×" if self.task.given is None else "l2"
            weights = "" if best.weighting == "none" else f", {best.weighting} weights"
            how = f"{best.shape} noise, penalty {of} {best.penalty:g}{weights}"
            pairs.append((f"eta {eta:g}", f"loss {best.loss:.4g}: {how}"))
        measured = f"{self.held_out:,} held-out rows" if self.held_out else "training rows"
        pairs.append(("without noise", f"loss {self.loss:.4g}"))
        pairs.append(("baseline", f"loss {self.baseline:.4g}"))
        if self.filled:
            names = ", ".join(f"{name} {value:g}" for name, value in self.filled.items())
            pairs.append(("gaps", f"filled with the centre of the bounds, not with what an imputer learns: {names}"))
        return f"Frontier, least loss on {measured}", pairs, "Derived from the data: keep it internal."

    @property
    def filled(self) -> dict[str, float]:
        """By column, the centre of its bounds, which gaps are filled with where an imputer would learn a mean or median.

        Examples
        --------
        >>> frontier.filled  # no imputer
        {}
        """
        return public_fills(self.compared.candidates[0].fitted.model) if self.compared.candidates else {}

    @property
    def baseline(self) -> float:
        """Loss of always predicting the mean, or how frequent the classes are: a release above it is useless.

        Examples
        --------
        >>> frontier.loss < frontier.baseline
        True
        """
        return self.compared.scorer.baseline

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
            Part of the limit that the choice may use, between 0 and 1: more is a better choice, and more noise.
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
        :math:`\exp(-(U_k + c_k) / b)`. That reveals about a row exactly :math:`\mathrm{Cov}_k(\nabla U_k) / b^2`, by
        its own loss where it is held out and through the fits where it is not, and b is such that no row's eta of it is above
        :math:`\eta_{choice}`, the share of eta: of the rows present with ``over="max"``, of any record within the
        bounds in place of any row with "any-record". The noise then keeps :math:`\sqrt{\eta^2 - \eta_{choice}^2}`.

        **What holds, and when.** Every call is a choice of its own and adds to what is revealed: draw once. b and the prices
        are on a grid with a random public offset, which every choice draws again and ``record()`` states: given the offset
        they are constant under small changes of a row, whatever the table, where bounds are declared. So is which candidates
        keep the limit: one whose bound is near one that is refused is left out, how near by the same offset, and one whose
        limit comes near what its covariance reveals fades out by its price. How often exchanging a whole row changes any of
        these has no bound, and ``probability`` says 1. With "max" the scales and shapes of the noise are taken as given, as a
        release of it warns.

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
                "No candidate without weights was looked at, and what IRFIL's weights reveal is not counted: call protect with "
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
        """Held-out loss against eta, one line for each weighting and covariance at its best penalty; dashed without noise.

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
        """A good candidate, or a given one, fitted on all rows, calibrated again to the limit, and released.

        Parameters
        ----------
        eta : float, optional
            The limit; that of ``protect`` by default. A counted choice has its own.
        choice : CountedChoice or FrontierPoint, optional
            From :meth:`choose`; or a candidate that was chosen on grounds other than these rows. If not given, public numbers
            decide penalty and covariance where ``protect`` was given no penalties and the limit is on any record within the
            bounds, which reveals nothing; elsewhere :meth:`choose` is called.
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
            if self.task.by_rule:
                limit = self.task.eta if eta is None else check_positive(eta, "eta")
                return release_by_rule(self.task, limit, rng).model
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

    def save(
        self,
        path: Any,
        sign: Any = None,
        ledger: Any = None,
        *,
        eta: float | None = None,
        limit: float | None = None,
        overwrite: bool = False,
    ) -> Any:
        """Release, and write the files of ``fisherleak release``: the model and its model card.

        Every call draws a release of its own, which adds to what is revealed: save once.

        Parameters
        ----------
        path : str or Path
            The model's file; its model card is ``path`` + ".json".
        sign : str or Path, optional
            An Ed25519 private key (PEM) to sign the model card with.
        ledger : str or Path, optional
            A ledger to record the release on, before any file is written; ``limit`` is on all that it records.
        eta : float, optional
            The limit; that of ``protect`` by default.
        overwrite : bool

        Returns
        -------
        Path
            Where it was written.

        Notes
        -----
        For ``over="any-record"`` with bounds of every numeric column, of a StandardScaler, alone or beside a OneHotEncoder
        in a ColumnTransformer, before the model; a SimpleImputer may stand before the scaler, and gaps are filled with the
        centre of the bounds. Other steps are refused by name. With ``person`` the limit is on all rows of a person. A card
        counts in units of the bounds, (high - low) / sqrt(12). Its limit is eta times the least of these, which keeps the limit
        in the columns' own units; where columns have very different units that takes more noise than ``release``.

        Examples
        --------
        >>> frontier.save("model.skops")  # doctest: +SKIP
        """
        asked = self.task.eta if eta is None else check_positive(eta, "eta")
        # a folder below this one: loaded when called
        saved = import_module("fisherleak.releasing.files.saved_frontier")
        return saved.save_protected(self.task, asked, path, sign, ledger, limit, overwrite)


def _warn_of_choice(chosen: FrontierPoint, among_several: bool) -> None:
    """Say what of a choice was learned from the rows and is not counted."""
    said = []
    if among_several:
        said.append("Which penalty, weighting and covariance are best was learned from the rows")
    if WEIGHTINGS[chosen.weighting] > 0:
        said.append("IRFIL's weights were computed from the rows")
    if said:
        warnings.warn(
            f"{', and '.join(said)}, which eta does not count: name a candidate beforehand, with weighting 'none', to have all "
            "of it counted.",
            UncountedChoiceWarning,
            stacklevel=3,
        )

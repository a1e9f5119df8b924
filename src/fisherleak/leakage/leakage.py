"""What a release reveals about its training data: etas, shares revealed and membership, and the same with other noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from fisherleak._support.arrays import Array, host, is_lazy, like, namespace
from fisherleak._support.checks import check_positive
from fisherleak.bounds import epsilon, misses
from fisherleak.engine.changes.removal import CLOSE, EXACT
from fisherleak.engine.information import Information
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.mechanisms.interface_answers import Disclosed, Interface, is_interface, told_by
from fisherleak.engine.mechanisms.self_shaped import SelfShaped, is_self_shaped
from fisherleak.engine.noise import check_noise
from fisherleak.engine.noise.calibration_record import Frame, declared_frame
from fisherleak.engine.norms import with_other_noise
from fisherleak.engine.norms.averaged_over_draws import shaped_by
from fisherleak.engine.norms.data_shaped import DataShaped
from fisherleak.errors import InvalidInputError
from fisherleak.leakage import show
from fisherleak.leakage.etas import EtasOfValues
from fisherleak.leakage.measurement import refuse_lazy_groups
from fisherleak.leakage.membership_distance import (
    RowsFrame,
    acting_in,
    certain,
    membership_kind_of,
    membership_of,
)
from fisherleak.leakage.rows_of_people import (
    refuse_people,
)
from fisherleak.leakage.shares import rms_etas, share_of
from fisherleak.rows.selection import rows_by_group

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas
    from typing_extensions import TypeIs


@dataclass(frozen=True, repr=False)
class Leakage(EtasOfValues):
    """What one release, or several, reveal about the data. Made by :func:`measure` and ``compose``.

    Every method returns eta (not its square): the square root of the largest eigenvalue of the Fisher information
    matrix of the data values asked for, everything else taken as known to the attacker.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = LinearRegression().fit(X, y)
    >>> leak = fl.measure(model, X, y, noise=fl.Gaussian(10.0))
    >>> leak
    Leakage(442 examples, 10 attributes, Gaussian(scale=10.0), eta 1.412 on average, 5.136 at most)

    Examples of the methods go on from here.
    """

    # the same model, released otherwise

    def with_noise(self, noise: Any) -> Leakage:
        """The same model released with other noise, or known by answers to queries alone.

        Examples
        --------
        >>> leak.with_noise(fl.Gaussian(20.0)).per_example()[:3].round(4)  # half of those at 10
        array([0.9365, 0.2539, 0.6283])
        """
        if self._noise is None:
            raise InvalidInputError("A composition has no single noise to replace; replace it before composing.")
        if is_interface(noise):
            return self._served(noise)
        if is_self_shaped(noise):
            return replace(self, _information=self._shaped(noise), _noise=noise)
        check_noise(noise)
        frame = declared_frame(noise)
        if frame != self._frame:
            return self._acting_in(frame).with_noise(noise)
        return replace(self, _information=with_other_noise(self._information, noise), _noise=noise)

    def _acting_in(self, frame: Frame) -> Leakage:
        """The same model with noise in a frame that declared bounds give to some features."""
        if not self._frames:
            raise InvalidInputError(
                "noise was calibrated with bounds for a pipeline whose scalers were counted: measure that pipeline with "
                "public='nothing'."
            )
        return replace(self, _information=acting_in(self._information, self._frames, frame), _frame=frame)

    def _shaped(self, mechanism: SelfShaped) -> Information:
        """The same model released by a mechanism whose noise the data shape."""
        if self._information.several:
            return DataShaped.of_outputs(self._information.releases[0].jacobian, mechanism)
        averaged = self._information.averaged
        if averaged is not None and averaged.is_of(mechanism):
            return averaged  # its draws are solved for already
        return shaped_by(self._jacobian, mechanism)

    @property
    def _jacobian(self) -> Jacobian:
        """Of the one model, whatever it is released by."""
        alone = self._noise is not None and not self._information.several
        return self._information.releases[0].jacobian if alone else self._information.jacobians[0]

    def _served(self, by: Interface) -> Leakage:
        """The same model behind an interface."""
        if self._queried is None:
            raise InvalidInputError(
                f"{type(by).__name__} needs to know how queries become features: pass a leakage of rows from "
                "fisherleak.measure, not one of inputs of a network."
            )
        return self._told(by, told_by(by, self._queried.features(by.X_query), self.fits[0]))

    def _told(self, by: Interface, found: Disclosed) -> Leakage:
        """The same model, known by what has been told of it."""
        return replace(self, _information=with_other_noise(self._information, found), _noise=by)

    # beliefs about values

    def revealed(
        self,
        attributes: Sequence[str | int] | str | int | None = None,
        spread: Mapping[str, float] | None = None,
    ) -> Array:
        r"""Share of each value revealed, (n, number of attributes), from 0 to 1, on average over a belief about the value.

        .. math:: \frac{s^2 \overline{\eta^2}}{1 + s^2 \overline{\eta^2}}, \qquad
                  \overline{\eta^2} = E_{v \sim N(m, s^2)}\, \eta(v)^2,

        with :math:`\eta(v)` the eta of the model refitted with v in place: that of the value itself is another, ``per_cell()``.
        An attacker who knows all other data and believes that the value is normal around m with spread s learns at most this
        part of its variance, on average over that belief and the noise (van Trees' inequality). NaN for attributes of several
        dimensions, encoded categories say, for columns of 0 and 1, which are guessed or not (attacks say how often), for
        columns behind steps that are not affine, for cells that were missing, and where no value is seen: behind steps that mix
        columns of Dask rows, and for attributes of a ``Fit`` that share all their features.

        Parameters
        ----------
        attributes : names or numbers, optional
            All if not given.
        spread : mapping of name to number, optional
            s, in the column's unit; its own standard deviation where not given. A column of 0 and 1 that is named here counts
            as a number. The centre m is the column's mean.

        Notes
        -----
        **What holds, and when.** Exact for the squared loss, to 1e-4. For other losses the values that are largest in their
        column are exact, by refits, and all others are exact or upper bounds (1 where there is none). It is an average over
        the belief: nothing is said about an attacker's error at one value of v.

        **Data-dependent covariance.** For ``shape="hessian"`` and ``"least-loss"`` with ``over="any-record"``,
        :class:`fisherleak.Posterior` and :class:`fisherleak.ObjectivePerturbation` (squared loss) the noise is computed again
        with each v, its scale kept, and eta counts what its covariance reveals: unlike ``per_cell()``, which holds a
        Gaussian's covariance fixed. An upper bound for least loss. Noise that follows the most exposed rows (these covariances
        with ``over="max"``) is refused.

        Examples
        --------
        >>> leak.revealed("bmi")[:3, 0].round(4)
        array([0.0043, 0.0082, 0.0033])
        """
        if self._people is not None:
            raise InvalidInputError(
                "revealed is about single values, and a person may have a value in several rows: measure without person=, or "
                "use per_cell() for the etas of a person's columns."
            )
        chosen, _ = self._chosen(attributes, None)
        own = show.attribute_spreads(self, self._table, spread or {})
        places = [self.attributes.index(attribute.name) for attribute in chosen]
        asked = np.full(own.shape, np.nan)
        asked[places] = own[places]
        rms = rms_etas(self, asked)
        xp = namespace(rms)
        if is_lazy(rms):
            exposure = rms[:, places] * own[places]
        else:
            exposure = xp.take(rms, like(places, rms, xp), axis=1) * like(own[places], rms, xp)
        return share_of(exposure)

    # membership

    def membership(self, tolerance: float = CLOSE) -> Array:
        r"""How well someone's membership in the data shows, (n,): mu of leaving each row out.

        .. math:: \mu_i = |W (w_{(-i)} - w)| / \sigma

        with :math:`w_{(-i)}` the minimiser without row i and :math:`W^T W` the information of the noise at scale 1. The best
        test between "row i was in" and "it was not", by someone who knows all other rows and row i itself, has an AUC of
        :math:`\Phi(\mu / \sqrt 2)`, is right :math:`\Phi(\mu / 2)` of the time at equal odds and has a true positive rate of
        :math:`\Phi(\Phi^{-1}(\alpha) + \mu)` at the false positive rate alpha: see :class:`fisherleak.attacks.Membership`.

        Parameters
        ----------
        tolerance : float
            How far a value may be above the truth, relative to it, for losses other than the squared. No value is below it:
            what a value is off at most is added. The default is enough to be shown; policies, compositions and
            :class:`fisherleak.attacks.Membership` use 1e-8, which often needs a pass over all rows for each row.

        Notes
        -----
        **What holds, and when.** Exact for normal noise whose covariance does not depend on the row. Where the rows decide its
        covariance (``shape="hessian"`` or ``"least-loss"`` of the table's own rows, :class:`fisherleak.Posterior`,
        :class:`fisherleak.ObjectivePerturbation`) there is no mu: the noise is computed again without the row, and the result
        is the mu that has the accuracy of the best test at even odds, :math:`2 \Phi^{-1}(accuracy)`; ``membership_kind`` says
        so. A scale that present rows decided (``over="max"``) for a covariance that is public is held fixed. So are weights
        and n l2: the row leaves the sum of losses, and nothing else changes. (Of a fit with ``per_row``, as tables and
        ``PoissonRegressor`` are trained, (n - 1) l2.) Measured end to end (``public="nothing"``) it leaves the scalers too:
        their standard deviations are those of the other rows. A row without weight, in the loss and in the scalers, has a mu
        of zero. Infinite where there is no minimum without the row (the only one of its class, say): such a release shows it
        with certainty. For several independent releases the squares of mu add up.

        **Scales and centres.** End to end, noise without a covariance acts in units of the columns' scales and at their
        centres, both from the rows on a public grid. A release shows them, so a row whose removal moves one of them is
        recognised: its mu is infinite. Noise of ``fl.calibrate(..., over="any-record", bounds=...)`` takes them from the
        bounds instead. With ``public="preprocessing"`` scales and centres are taken as public: that is the assumption, and
        rows that move them are not named.

        Examples
        --------
        >>> leak.membership()[:3].round(4)
        array([0.1417, 0.0298, 0.0806])
        """
        tolerance = check_positive(tolerance, "tolerance")
        sets = None if self._people is None else list(self._people.rows)
        return certain(membership_of(self, tolerance, sets), self._shown_frames, sets)

    @property
    def membership_kind(self) -> str:
        """What :meth:`membership` gives: "mu", or, where rows decide the noise's covariance, "equivalent" or "upper bound".

        "equivalent" is the mu that has the accuracy of the best test at even odds. Such numbers do not add up, and no AUC or
        true positive rate follows from them. "upper bound" is one that the equivalent is not above. What is not known is
        refused, as :meth:`membership` does.

        Examples
        --------
        >>> leak.membership_kind
        'mu'
        """
        return membership_kind_of(self)

    def membership_by_group(self, labels: Any, tolerance: float = CLOSE) -> dict[Any, float]:
        r"""How well an attacker knows whether a group, such as one person's rows, was in the data: mu of leaving it out.

        .. math:: \mu_S = |W (w_{(-S)} - w)| / \sigma

        As :meth:`membership`, with all rows of the set S in place of row i: the attacker knows everyone else's rows, and these.
        Any number of groups is possible, for rows in memory.

        Parameters
        ----------
        labels : str or array of shape (n,)
            A column of the table, or the group (or person) of each row, numbers or text.
        tolerance : float
            As for :meth:`membership`.

        Returns
        -------
        dict
            From group to mu; infinite where there is no minimum without the group, or where its removal moves a public scale
            or centre.

        Examples
        --------
        >>> clinic = np.arange(442) % 40
        >>> round(leak.membership_by_group(clinic)[0], 4)
        0.6346
        """
        tolerance = check_positive(tolerance, "tolerance")
        refuse_lazy_groups(self._information.rows[0])
        members = rows_by_group(self._labels(labels), self.n)
        sets = [host(rows) for rows in members.values()]
        found = certain(host(membership_of(self, tolerance, sets)), self._shown_frames, sets)
        return dict(zip(members, found.tolist(), strict=True))

    def epsilon(self, delta: float = 1e-5) -> Array:
        r"""What someone from differential privacy asks, of each row (or person) and for this table: epsilon at a delta, (n,).

        The two releases, with the row and without it, are distinguished by no test better than this epsilon and delta allow:
        :func:`fisherleak.bounds.epsilon` of :meth:`membership`, as exact as it can be.

        Parameters
        ----------
        delta : float
            Above 0 and below 1.

        Notes
        -----
        **What holds, and when.** Everything that :meth:`membership` assumes. It is computed from these rows, and says nothing
        about tables that could have been: it is not differential privacy, and it must not be published. Of a composition it is
        that of all releases together. Where rows decide the noise's covariance there is no mu, and it is refused.

        Examples
        --------
        >>> leak.epsilon(delta=1e-5)[:3].round(3)
        array([0.498, 0.091, 0.269])
        """
        return epsilon(self._mu("epsilon"), delta)

    def tradeoff(self, alpha: float) -> Array:
        r"""The least part of cases in which a test misses that a row (or person) is in the data, (n,), by its false alarms.

        .. math:: \Phi(\Phi^{-1}(1 - \alpha) - \mu_i)

        Parameters
        ----------
        alpha : float
            How often the test says "in the data" of a release without the row; above 0 and below 1.

        Notes
        -----
        What holds, and when, is as for :meth:`epsilon`.

        Examples
        --------
        >>> leak.tradeoff(0.05)[:3].round(4)
        array([0.9336, 0.9469, 0.9411])
        """
        return misses(self._mu("tradeoff"), alpha)

    def _mu(self, who: str) -> Array:
        """Mu of each row or person, as exact as it can be, for numbers that follow from it alone."""
        if self.membership_kind != "mu":
            raise InvalidInputError(
                f"{who} is computed from mu, which is not known for a data-dependent covariance of the noise. Use "
                "membership(), which says how often the best test is correct, or noise with shape='isotropic'."
            )
        return self.membership(EXACT)

    # for people

    def __repr__(self) -> str:
        count = len(self.fits)
        noise = f"{count} release{'s' * (count > 1)}" if self._noise is None else repr(self._noise)
        return f"Leakage({show.whom(self)}, {len(self.attributes)} attributes, {noise}{show.in_brief(self)})"

    def _repr_html_(self) -> str:
        return show.html(self)

    def report(
        self,
        path: Any,
        *,
        title: str | None = None,
        groups: Any = None,
        max_eta: float | None = None,
        spread: Mapping[str, float] | None = None,
        overwrite: bool = False,
    ) -> Any:
        """The page that ``fisherleak audit`` writes, for this model: one HTML file that opens offline.

        Verdict, the most exposed rows by their number (or index label), shares revealed and errors by column, groups,
        membership where it is known, and a slider for the noise. Values of rows are not on it; it is derived from the data all
        the same, without noise: keep it internal. Utility and attacks are not measured here: they need held-out rows and time.

        Parameters
        ----------
        path : str or Path
        title : str, optional
        groups : str or array of shape (n,), optional
            A column of the table, or the group of each row.
        max_eta : float, optional
            A limit on every row's eta; the verdict says whether it passed.
        spread : mapping of name to number, optional
            As for :meth:`revealed`.
        overwrite : bool

        Returns
        -------
        Path
            Where it was written.

        Examples
        --------
        >>> leak.report("report.html", title="Diabetes", groups="sex", max_eta=2.0)  # doctest: +SKIP
        """
        if self._people is not None:
            raise InvalidInputError(
                "report shows rows, and this leakage is about people: fl.audit(model, X, y, noise, person=ids).report(path)."
            )
        # a folder further down docs/design.md: loaded when called
        return import_module("fisherleak.report.outputs").write_report(
            self, path, title=title, groups=self._labels(groups), max_eta=max_eta, spread=spread, overwrite=overwrite
        )

    def to_frame(self) -> pandas.DataFrame:
        """A pandas table (Dask's for lazy rows), one row each: ``eta``, ``eta[name]`` of each attribute, ``eta_label``.

        And ``membership``, where it is known: for normal noise, and for lazy rows with the squared loss. A cell that was
        missing has no eta: NaN.

        Examples
        --------
        >>> list(leak.to_frame().columns[[0, 1, -2, -1]])
        ['eta', 'eta[age]', 'eta_label', 'membership']
        """
        frame: pandas.DataFrame = show.to_frame(self, self._table.index if self._people is None else self.people)
        return frame

    def summary(self) -> str:
        """A printable digest, with the assumptions under which its numbers hold.

        Examples
        --------
        >>> print(leak.summary().splitlines()[0])
        Fisher information loss of a release with noise Gaussian(scale=10.0)
        """
        return show.summary(self, self._table, self._notes)

    def plot(self, groups: Any = None, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Histogram of per-example eta, by group (a column or labels) where given, with dashed means.

        Examples
        --------
        >>> leak.plot(groups="sex")  # doctest: +SKIP
        """
        if groups is not None:
            refuse_people(self, "plot with groups")
        return show.plot(self, self._labels(groups), ax)

    @property
    def _shown_frames(self) -> tuple[RowsFrame, ...]:
        """The frames that the release tells."""
        left = [frame.without(self._frame) for frame in self._frames if frame.shows(self._noise)]
        return tuple(frame for frame in left if frame is not None)


def is_leakage(given: object) -> TypeIs[Leakage]:
    """Whether it is a leakage, and no attack, matrix or name."""
    return isinstance(given, Leakage)


def check_leakage(given: object, who: str) -> None:
    """Refuse what is no leakage about rows by the name of what takes one."""
    if not is_leakage(given):
        raise InvalidInputError(f"{who} takes a leakage from fisherleak.measure; got {type(given).__name__}.")
    refuse_people(given, who)

r"""Fisher information loss of a noisy model about its training data, at every granularity.

The Fisher information that released parameters :math:`w' = w^* + b` hold about any set S of data values is
:math:`J_S^T I_b J_S`, and (paper, definition 1 and equation 13)

.. math:: \eta(S) = \|J_S\|_2 / \sigma

for Gaussian noise of scale sigma. 1 / eta(S) is the least standard deviation with which an unbiased
attacker who knows everything outside S can recover a value (or any unit combination of values) in S.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from fisherleak._support.arrays import Array, host, is_lazy, like, namespace
from fisherleak._support.checks import check_positive
from fisherleak._support.pickles import Pickled
from fisherleak.engine.changes.removal import CLOSE
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.information import Information, group_norms, norms_of_sets, set_norm
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute, chosen_attributes
from fisherleak.engine.mechanisms.self_shaped import SelfShaped, is_self_shaped
from fisherleak.engine.mechanisms.served import Disclosed, Interface, is_interface, told_by
from fisherleak.engine.noise import Noise, check_noise
from fisherleak.engine.noise.calibrated import Frame, declared_frame, keeps_calibration
from fisherleak.engine.norms import with_other_noise
from fisherleak.engine.norms.averaged import shaped_by
from fisherleak.engine.norms.compositions.shaped_releases import ShapedOutputs
from fisherleak.errors import InvalidInputError
from fisherleak.leakage import show
from fisherleak.leakage.membership.membership_distance import membership_of, presence_kind, refuse_lazy_groups
from fisherleak.leakage.membership.recognised import RowsFrame, acting_in, certain
from fisherleak.leakage.shares import rms_etas, share_of
from fisherleak.models import Queried, Table
from fisherleak.rows.selection import check_rows, distinct, lazy_labels, missing, rows_by_group

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas
    from typing_extensions import TypeIs

__all__ = ["Leakage", "check_leakage", "is_leakage"]

LARGEST_FIM = 20_000
"""Values past which a Fisher information matrix would not fit in ordinary memory."""


@dataclass(frozen=True, repr=False)
class Leakage(Pickled):
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

    _information: Information = field(repr=False)
    _noise: Noise | Interface | SelfShaped | None
    _table: Table = field(repr=False)
    _notes: tuple[str, ...] = field(default=(), repr=False)
    _absent: Any = field(default=None, repr=False)
    """(n, number of attributes): cells that were missing and that an imputer filled; None where there are none."""
    _queried: Queried | None = field(default=None, repr=False)
    """How queries to the model become its features; None where that is not known."""
    _frames: tuple[RowsFrame, ...] = field(default=(), repr=False)
    """Public centres and scales that come from the rows: who moves them is recognised."""
    _frame: Frame = field(default=(), repr=False)
    """Those that declared bounds give instead, with the noise that was calibrated with them."""

    # what is measured

    @property
    def attributes(self) -> list[str]:
        """Names of the attributes, in order; a one-hot encoded column is one attribute."""
        return [attribute.name for attribute in self._information.attributes]

    @property
    def sizes(self) -> list[int]:
        """Dimension of each attribute: 1 for a number, one per direction for an encoded category."""
        return [attribute.size for attribute in self._information.attributes]

    @property
    def noise(self) -> Any:
        """The noise of the release, or the answers that were measured."""
        if self._noise is None:
            raise InvalidInputError("A composition has a noise for each release; ask the releases for theirs.")
        return self._noise

    @property
    def above_average(self) -> float:
        """By which part the eta of the most exposed row, where it is an upper limit, is above its average; else zero.

        Of objective perturbation that is averaged over draws: 0.2 says that the limit is 1.2 times the average, and more
        ``draws`` bring it nearer. Noise that is calibrated to such limits is larger than needed by about that part.
        """
        averaged = self._information.averaged
        if averaged is None or not self.n:
            return 0.0
        row, _ = averaged.largest_norm(averaged.attributes, True)
        return averaged.above_average(row)

    @property
    def n(self) -> int:
        """Number of examples."""
        return int(self._information.rows[0].shape[0])

    @property
    def fits(self) -> list[Fit]:
        """The fits whose releases are measured."""
        return list(self._information.fits)

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

    def _not_framed(self, names: Collection[str]) -> Leakage:
        """The same, with columns of these names in the rows' frame whatever their bounds."""
        return replace(self, _frames=tuple(frame.unnamed(names) for frame in self._frames)) if names else self

    def _within(self, bounds: Mapping[str, Any] | None) -> Leakage:
        """The same with the frame that declared bounds give, where a noise can remember it."""
        kept = keeps_calibration(self._noise)
        found = tuple(each for frame in self._frames if not frame.published for each in frame.within(bounds or {}))
        return self._acting_in(found) if kept and found != self._frame else self

    def _shaped(self, mechanism: SelfShaped) -> Information:
        """The same model released by a mechanism whose noise the data shape."""
        if self._information.several:
            return ShapedOutputs.of(self._information.releases[0].jacobian, mechanism)
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
                f"{type(by).__name__} needs a leakage that knows how queries become features: one of fisherleak.measure on "
                "rows, not behind a network."
            )
        return self._told(by, told_by(by, self._queried.features(by.X_query), self.fits[0]))

    def _told(self, by: Interface, found: Disclosed) -> Leakage:
        """The same model, known by what has been told of it."""
        return replace(self, _information=with_other_noise(self._information, found), _noise=by)

    # one number per example, cell, attribute, group

    def per_example(
        self, attributes: Sequence[str | int] | str | int | None = None, label: bool | None = None
    ) -> Array:
        """Eta of each example, (n,), over all its values or over some attributes.

        Parameters
        ----------
        attributes : names or numbers, optional
            All attributes and the label if not given.
        label : bool, optional
            Whether the label counts. By default it does only when no attributes are named.

        Examples
        --------
        >>> leak.per_example()[:3].round(4)
        array([1.873 , 0.5077, 1.2566])
        >>> leak.per_example(["age", "bmi"])[:3].round(4)
        array([0.0197, 0.0242, 0.0159])
        """
        chosen, label = self._chosen(attributes, label)
        return self._information.example_norms(chosen, label) / self._scale

    def per_cell(self) -> Array:
        """Eta of every attribute of every example, (n, number of attributes); NaN for cells that were missing.

        A cell that an imputer filled belongs to no one: it has no eta, and adds nothing to that of its row.

        Examples
        --------
        >>> leak.per_cell()[0, :3].round(5)  # age, sex and bmi of the first row
        array([0.00166, 0.06502, 0.01959])
        """
        cells = self._information.cell_norms(self._information.attributes) / self._scale
        if self._absent is None:
            return cells
        xp = namespace(cells)
        return xp.where(like(self._absent, cells, xp), xp.full_like(cells, float("nan")), cells)

    def per_label(self) -> Array:
        """Eta of each example's label alone, (n,).

        Examples
        --------
        >>> leak.per_label()[:3].round(5)
        array([0.00253, 0.0042 , 0.00219])
        """
        return self._information.example_norms((), True) / self._scale

    def per_attribute(self) -> Array:
        """Eta of each attribute over all examples jointly, (number of attributes,).

        Examples
        --------
        >>> leak.per_attribute()[:3].round(4)
        array([0.0324, 3.4142, 0.7205])
        """
        return self._information.attribute_norms(self._information.attributes) / self._scale

    def of(
        self, rows: Any = None, attributes: Sequence[str | int] | str | int | None = None, label: bool | None = None
    ) -> float:
        """Eta of any rows x any attributes, taken jointly.

        Parameters
        ----------
        rows : mask or positions, optional
            Positions count from 0, whatever the table's index. All rows if not given.
        attributes : names or numbers, optional
            All attributes and the labels if not given.
        label : bool, optional
            Whether the labels count. By default they do only when no attributes are named.

        Examples
        --------
        >>> round(leak.of(rows=[0, 1], attributes=["bmi"]), 4)
        0.0309
        """
        chosen, label = self._chosen(attributes, label)
        return set_norm(self._information, chosen, label, self._rows(rows)) / self._scale

    def by_group(self, labels: Any) -> dict[Any, float]:
        """Eta of each sub-population, its rows taken jointly, as a mapping from group to eta.

        Any number of groups is possible: where several rows belong to one person, ``by_group(person)`` is the eta of each
        person. Rows in memory are sorted by group once and each is read once, so that the work does not grow with the number
        of groups but for one eigenvalue of each.

        Parameters
        ----------
        labels : str or array of shape (n,)
            A column of the table, or the group (or person) of each row, numbers or text.

        Examples
        --------
        >>> {sex: round(eta, 3) for sex, eta in leak.by_group("sex").items()}
        {1.0: 27.287, 2.0: 23.534}
        """
        labels = self._labels(labels)
        X = self._information.rows[0]
        if is_lazy(X):
            labels = lazy_labels(labels, X)
            groups = distinct(labels)
            norms = group_norms(self._information, labels, groups, missing)
            return {group: norm / self._scale for group, norm in zip(groups, norms, strict=True)}
        members = rows_by_group(labels, self.n)
        xp = namespace(X)
        sets = [rows if namespace(rows) is xp else check_rows(rows, self.n, X) for rows in members.values()]
        norms = norms_of_sets(self._information, self._information.attributes, True, sets)
        return {group: norm / self._scale for group, norm in zip(members, norms, strict=True)}

    def dataset(self) -> float:
        """Eta of everything: all attributes and labels of all rows.

        Examples
        --------
        >>> round(leak.dataset(), 3)
        36.033
        """
        return self.of()

    def fim(
        self, rows: Any = None, attributes: Sequence[str | int] | str | int | None = None, label: bool | None = None
    ) -> Array:
        """The Fisher information matrix of a few values.

        Ordered row by row: for each row its attributes (in order; a block has a column per direction), then its label.
        The matrix of more values than released parameters is singular: the variance of any unbiased estimate of a unit
        combination of the values is at least 1 / eta^2, but a bound through the inverse exists only in its range.

        Examples
        --------
        >>> F = leak.fim(rows=[0], attributes=["age", "bmi"])
        >>> bool(np.isclose(np.linalg.eigvalsh(F)[-1], leak.per_example(["age", "bmi"])[0] ** 2))
        True
        """
        chosen, label = self._chosen(attributes, label)
        positions = self._rows(rows)
        rows_asked = self.n if positions is None or is_lazy(positions) else positions.shape[0]
        count = rows_asked * (sum(a.size for a in chosen) + int(label))
        if count > LARGEST_FIM:
            raise InvalidInputError(
                f"The Fisher information matrix of {count} values has {count**2:.1e} entries; ask for fewer rows or "
                "attributes (eta of any set is cheap: use of())."
            )
        J = self._information.written_out(chosen, label, positions) / self._scale
        xp = namespace(J)
        flat = xp.reshape(xp.permute_dims(J, (1, 0, 2)), (J.shape[1], -1))
        return flat.T @ flat

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
        dimensions, encoded categories say, for columns of 0 and 1, which are guessed or not (an attacker tells how often), for
        columns behind steps that are not affine, and for cells that were missing.

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

        **Data-dependent covariance.** For ``shape="hessian"`` and ``"least-loss"`` with ``over="admissible"``,
        :class:`fisherleak.Posterior` and :class:`fisherleak.ObjectivePerturbation` (squared loss) the noise is made anew with
        each v, its scale kept, and eta counts what its covariance tells: unlike ``per_cell()``, which holds a Gaussian's shape
        fixed. An upper bound for least loss. Noise that follows the most exposed rows (these shapes with ``over="max"``) is
        refused.

        Examples
        --------
        >>> leak.revealed("bmi")[:3, 0].round(4)
        array([0.0043, 0.0082, 0.0033])
        """
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

    # presence

    def membership(self, tolerance: float = CLOSE) -> Array:
        r"""How well someone's presence in the data can be told, (n,): mu of leaving each row out.

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
        shape (``shape="hessian"`` or ``"least-loss"`` of the table's own rows, :class:`fisherleak.Posterior`,
        :class:`fisherleak.ObjectivePerturbation`) there is no mu: the noise is made anew without the row, and given is the mu
        that has the accuracy of the best test at even odds, :math:`2 \Phi^{-1}(accuracy)`; ``membership_kind`` says so. A scale
        that present rows decided (``over="max"``) for a shape that is public is held fixed. So are weights and n l2: the row
        leaves the sum of losses, and nothing else changes. Measured end to end (``public="nothing"``) it leaves the scalers
        too: their standard deviations are those of the other rows. A row without weight, in the loss and in the scalers, has a
        mu of zero. Infinite where there is no minimum without the row (the only one of its class, say): such a release tells
        for certain. For several independent releases the squares of mu add up.

        **Scales and centres.** End to end, noise without a shape acts in units of the columns' scales and at their centres,
        both from the rows on a public grid. A release shows them, so a row whose removal moves one of them is recognised: its
        mu is infinite. Noise of ``fl.calibrate(..., over="admissible", bounds=...)`` takes them from the bounds instead. With
        ``public="preprocessing"`` scales and centres are taken as public: that is the assumption, and rows that move them are
        not named.

        Examples
        --------
        >>> leak.membership()[:3].round(4)
        array([0.1417, 0.0298, 0.0806])
        """
        return certain(membership_of(self, check_positive(tolerance, "tolerance")), self._shown_frames)

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
        return presence_kind(self)

    def membership_by_group(self, labels: Any, tolerance: float = CLOSE) -> dict[Any, float]:
        r"""How well it can be told whether a group, a person with several rows say, was in the data: mu of leaving it out.

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

    # for people

    def __repr__(self) -> str:
        count = len(self.fits)
        noise = f"{count} release{'s' * (count > 1)}" if self._noise is None else repr(self._noise)
        return f"Leakage({self.n} examples, {len(self.attributes)} attributes, {noise}{show.in_brief(self)})"

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

        Verdict, the most exposed rows by their number (or index label), shares revealed and errors by column, groups, presence
        where it is known, and a slider for the noise. Values of rows are not on it; it is derived from the data all the same,
        without noise, and stays in the house. Utility and attacks are not measured here: they need held-out rows and time.

        Parameters
        ----------
        path : str or Path
        title : str, optional
        groups : str or array of shape (n,), optional
            A column of the table, or the group of each row.
        max_eta : float, optional
            A limit on every row's eta, which the verdict is held against.
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
        # a room below this one: loaded when called
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
        frame: pandas.DataFrame = show.to_frame(self, self._table.index)
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
        return show.plot(self, self._labels(groups), ax)

    # how arguments are read

    @property
    def _scale(self) -> float:
        # a composition carries each release's scale in its Jacobian
        if self._noise is None or self._information.data_dependent:
            return 1.0
        return float(self._noise.scale)

    @property
    def _shown_frames(self) -> tuple[RowsFrame, ...]:
        """The frames that the release tells."""
        left = [frame.without(self._frame) for frame in self._frames if frame.shows(self._noise)]
        return tuple(frame for frame in left if frame is not None)

    def _certain(self, attributes: Any, label: bool | None, top: Sequence[tuple[int, float]]) -> float:
        """An eta that the most exposed examples are certainly not above; ``top`` are their rows and etas."""
        chosen, counted = self._chosen(attributes, label)
        scale = self._scale
        return max(self._information.certain(chosen, counted, row, eta * scale) for row, eta in top) / scale

    def _chosen(
        self, attributes: Sequence[str | int] | str | int | None, label: bool | None
    ) -> tuple[tuple[Attribute, ...], bool]:
        return chosen_attributes(self._information.attributes, attributes, label)

    def _rows(self, rows: Any) -> Array | None:
        if rows is None:
            return None
        return check_rows(rows, self.n, self._information.rows[0])

    def _labels(self, labels: Any) -> Any:
        return self._table.labels(labels) if isinstance(labels, str) else labels


def is_leakage(given: object) -> TypeIs[Leakage]:
    """Whether it is a leakage, and no attack, matrix or name."""
    return isinstance(given, Leakage)


def check_leakage(given: object, who: str) -> None:
    """Refuse what is no leakage by the name of what takes one."""
    if not is_leakage(given):
        raise InvalidInputError(f"{who} takes a leakage from fisherleak.measure; got {type(given).__name__}.")

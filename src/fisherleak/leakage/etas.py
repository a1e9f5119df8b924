r"""Fisher information loss of a noisy model about its training data, at every granularity.

The Fisher information that released parameters :math:`w' = w^* + b` hold about any set S of data values is
:math:`J_S^T I_b J_S`, and (paper, definition 1 and equation 13)

.. math:: \eta(S) = \|J_S\|_2 / \sigma

for Gaussian noise of scale sigma. 1 / eta(S) is the least standard deviation with which an unbiased
attacker who knows everything outside S can recover a value (or any unit combination of values) in S.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fisherleak._support.arrays import Array, host, is_lazy, like, namespace
from fisherleak._support.pickles import Pickled
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.information import Information, group_norms, norms_of_sets
from fisherleak.engine.jacobian.perturbation import Attribute, chosen_attributes
from fisherleak.engine.mechanisms.interface_answers import Interface
from fisherleak.engine.mechanisms.self_shaped import SelfShaped
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import Frame
from fisherleak.engine.norms.tied_cells import norms_of_people
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.measurement import refuse_lazy_groups
from fisherleak.leakage.membership_distance import RowsFrame
from fisherleak.leakage.rows_of_people import RowsOfPeople, columns_of_people, etas_of_people, jointly_of_people
from fisherleak.rows.selection import check_rows, distinct, lazy_labels, missing, rows_by_group

if TYPE_CHECKING:
    from fisherleak.models import Queried, Table

LARGEST_FIM = 20_000
"""Values past which a Fisher information matrix would not fit in ordinary memory."""


@dataclass(frozen=True, repr=False)
class EtasOfValues(Pickled):
    """Eta of rows, cells, columns, people and any other set of values: what :class:`Leakage` says of a release."""

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
    _people: RowsOfPeople | None = field(default=None, repr=False)
    """Whose rows are whose, where people are measured; None where rows are."""
    _raw: bool = field(default=False, repr=False)
    """Whether its attributes are columns of the table, whatever steps stand between these and the model."""
    _away: Array | None = field(default=None, repr=False)
    """From the minimum to the parameters that a solver left, as ``centred_theta`` has them; None where they are the same."""

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
    def people(self) -> list[Any] | None:
        """Those who are measured, in order, where ``person=`` said whose rows are whose; None where rows are measured."""
        return None if self._people is None else list(self._people.names)

    @property
    def fits(self) -> list[Fit]:
        """The fits whose releases are measured."""
        return list(self._information.fits)

    def per_example(
        self, attributes: Sequence[str | int] | str | int | None = None, label: bool | None = None
    ) -> Array:
        """Eta of each example, (n,), over all its values or over some attributes.

        Of each person, in the order of ``people``, where ``person=`` was given: all rows of a person are one
        (:meth:`by_person`). So it is with every method that gives a number for each example.

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
        if self._people is not None:
            return etas_of_people(self, chosen, label)
        return self._information.example_norms(chosen, label) / self._scale

    def per_cell(self) -> Array:
        """Eta of every attribute of every example, (n, number of attributes); NaN for cells that were missing.

        A cell that an imputer filled belongs to no one: it has no eta, and adds nothing to that of its row.

        Examples
        --------
        >>> leak.per_cell()[0, :3].round(5)  # age, sex and bmi of the first row
        array([0.00166, 0.06502, 0.01959])
        """
        if self._people is not None:
            return columns_of_people(self)[:, :-1]
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
        if self._people is not None:
            return columns_of_people(self)[:, -1]
        return self._information.example_norms((), True) / self._scale

    def per_attribute(self) -> Array:
        """Eta of each attribute over all examples jointly, (number of attributes,).

        Examples
        --------
        >>> leak.per_attribute()[:3].round(4)
        array([0.0324, 3.4142, 0.7205])
        """
        alone = self._of_columns()
        return alone if self._people is None else like(self._jointly(host(alone))[1:], alone, namespace(alone))

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
        return self._information.set_norm(chosen, label, self._rows(rows)) / self._scale

    def by_group(self, labels: Any) -> dict[Any, float]:
        """Eta of each sub-population, its rows taken jointly, as a mapping from group to eta.

        Any number of groups is possible. Rows in memory are sorted by group once and each is read once, so that the work does
        not grow with the number of groups but for one eigenvalue of each. Every cell counts by itself: where several rows
        belong to one person, and have values in common, use :meth:`by_person`.

        Parameters
        ----------
        labels : str or array of shape (n,)
            A column of the table, or the group of each row, numbers or text.

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
        members, sets = self._sets(labels)
        norms = norms_of_sets(self._information, self._information.attributes, True, sets)
        return {group: norm / self._scale for group, norm in zip(members, norms, strict=True)}

    def _sets(self, labels: Any) -> tuple[dict[Any, Array], list[Array]]:
        """The rows of each group, and the same where the table is."""
        members = rows_by_group(labels, self.n)
        return members, self._where_rows_are(members.values())

    def _where_rows_are(self, sets: Collection[Any]) -> list[Array]:
        X = self._information.rows[0]
        xp = namespace(X)
        return [rows if namespace(rows) is xp else check_rows(rows, self.n, X) for rows in sets]

    def by_person(self, labels: Any) -> dict[Any, float]:
        r"""Eta of each person, all rows of a person taken jointly, as a mapping from person to eta.

        The larger of :math:`\|J_S\|_2 / \sigma`, as in :meth:`by_group`, and :math:`\|J_S T\|_2 / \sigma`, in which cells of
        one column (or labels) of the person that hold the same value move together: a height that stands in all rows of a
        person is one number, and rows that are written twice are one row. For rows in memory.

        Parameters
        ----------
        labels : str or array of shape (n,)
            A column of the table, or the person of each row, numbers or text.

        Examples
        --------
        >>> person = np.arange(442) // 4
        >>> round(leak.by_group(person)[0], 4), round(leak.by_person(person)[0], 4)
        (2.5642, 2.5871)
        """
        refuse_lazy_groups(self._information.rows[0], "by_person")
        members, sets = self._sets(self._labels(labels))
        norms = norms_of_people(self._information, sets)
        return {person: norm / self._scale for person, norm in zip(members, norms, strict=True)}

    def dataset(self) -> float:
        """Eta of everything: all attributes and labels of all rows.

        Examples
        --------
        >>> round(leak.dataset(), 3)
        36.033
        """
        return self.of() if self._people is None else float(self._jointly(host(self._of_columns()))[0])

    def _of_columns(self) -> Array:
        return self._information.attribute_norms(self._information.attributes) / self._scale

    def _jointly(self, columns: Any) -> Any:
        """Eta of everything, then of each attribute, with what is one value of a person moving together."""
        assert self._people is not None
        rows = self._people.rows
        return jointly_of_people(self, np.array([self.of()]), columns, rows, np.zeros(len(rows), dtype=np.int64))

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

    @property
    def _scale(self) -> float:
        # a composition carries each release's scale in its Jacobian
        if self._noise is None or self._information.data_dependent:
            return 1.0
        return float(self._noise.scale)

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

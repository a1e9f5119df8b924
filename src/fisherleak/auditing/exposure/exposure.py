"""Who and what is exposed: eta of rows and of groups of rows; ``columns`` has that of columns.

All figures come from sums over blocks of rows, so that rows may be in memory or lazy; medians and quantiles come from a
sample of rows where there are many. Everything here is at noise of scale 1 in standard units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import Sums, Vector, VectorLike
from fisherleak._support.progress import track
from fisherleak.auditing.exposure.columns import ColumnFigures, LabelFigures, Sample, column_figures
from fisherleak.auditing.exposure.revealed import Yardsticks
from fisherleak.errors import NotConvergedError
from fisherleak.releasing.cards.enough_people import FEWEST_ROWS
from fisherleak.rows import blocks_of, each_block, gather, map_rows, sum_rows
from fisherleak.rows.selection import some_rows
from fisherleak.rows.summary import Digest, digest
from fisherleak.tables import Design, Feature, Moments
from fisherleak.training.people import column_etas, joint_etas, people_by_group, person_names, rows_by_person
from fisherleak.training.trained_model import Trained

Timed = Callable[[str, Callable[[], Any]], Any]
MEDIAN_ROWS = 100_000
"""Rows from which medians and quantiles are taken at most."""
MEDIAN_VALUES = 2**24
"""Values of these rows at most."""
MOST_LISTED = 1000
"""Rows that are listed at most, the most exposed first."""
BINS = 40
WORST_ROWS = 50


@dataclass(frozen=True)
class Spread:
    """How the etas of some rows are spread: their moments, and how many lie in each bin."""

    moments: Moments
    bins: NDArray[np.int64] = field(repr=False)

    @property
    def count(self) -> int:
        return self.moments.count

    @property
    def mean(self) -> float:
        return self.moments.mean

    @property
    def sd(self) -> float:
        """With n - 1; zero for a single row."""
        return (self.moments.squares / (self.count - 1)) ** 0.5 if self.count > 1 else 0.0

    @property
    def largest(self) -> float:
        return self.moments.high


@dataclass(frozen=True)
class RowFigures:
    """Eta of every row, or of every person where rows belong to people: then "row" below, and a row's place, are a person's.

    Attributes
    ----------
    eta : array of shape (n,)
        Lazy where the rows are.
    digest : Digest
        With the ``MOST_LISTED`` most exposed rows.
    low, middle, high : float
        The quantiles 0.05, 0.5 and 0.95 of a sample of rows, or of all people.
    sample : Sample
    """

    eta: Any = field(repr=False)
    digest: Digest = field(repr=False)
    low: float
    middle: float
    high: float
    sample: Sample = field(repr=False)

    @property
    def top(self) -> NDArray[np.int64]:
        return np.array([row for row, _ in self.digest.top], dtype=np.int64)


@dataclass(frozen=True)
class GroupFigures:
    name: str
    joint: float
    spread: Spread


@dataclass(frozen=True)
class Worst:
    """The most exposed rows, at noise of scale 1: eta, that of the label, and of the cells in their columns' units."""

    rows: NDArray[np.int64]
    eta: Vector = field(repr=False)
    eta_label: Vector = field(repr=False)
    cells: Vector = field(repr=False)
    members: tuple[NDArray[np.int64], ...] = field(repr=False)
    """The training rows of each: one, or all of a person's."""
    X: Vector = field(repr=False)
    """Features of these rows, one after the other."""
    rms: Vector | None = field(default=None, repr=False)
    """Root mean squares of the cells' etas over what is believed of the values; None where they are not known."""


@dataclass(frozen=True)
class LeakageRows:
    """Some training rows in their order: numbers in the table, identifiers, and etas at some noise.

    ``cells`` has a column for each feature, in the column's own unit; none where rows are not in memory, for it is as large as
    the table.
    """

    numbers: NDArray[np.int64]
    ids: NDArray[Any] | None
    eta: Vector
    cells: Vector | None
    eta_label: Vector
    persons: NDArray[Any] | None = None
    eta_person: Vector | None = None
    """What the row's person is called, and that person's eta; none where rows do not belong to people."""
    membership: Vector | None = None
    """How far apart releases with and without the row, or all rows of its person, are, in standard deviations of the noise.

    None where not measured."""


@dataclass(frozen=True)
class Gate:
    """A limit on the eta of every row, and how many are above it."""

    max_eta: float
    count: int


@dataclass(frozen=True)
class Exposure:
    """Who and what is exposed, at noise of scale 1."""

    rows: RowFigures
    spread: Spread | None
    """Of all rows, where there are no groups."""
    edges: Vector
    columns: tuple[ColumnFigures, ...]
    label: LabelFigures
    people: int
    """Rows with a number, or a label that is one, of which more than half is revealed."""
    groups: tuple[GroupFigures, ...]
    worst: Worst

    def named(self, listed: NDArray[np.int64]) -> NDArray[np.int64]:
        """All rows that are named, with those that are listed."""
        figures: list[ColumnFigures | LabelFigures] = [*self.columns, self.label]
        single = [row for figure in figures for row in (figure.worst, figure.rms.worst)]
        return np.unique([*listed.tolist(), *self.worst.rows.tolist(), *single])


def exposure_of(trained: Trained, rows: RowFigures, sticks: Yardsticks, rms: Any, timed: Timed) -> Exposure:
    """All figures; ``rms`` is that of ``revealed.rms_of_values``, ``timed(name, step)`` runs a step and counts its seconds."""
    count = trained.design.n if trained.design.people is None else trained.design.people.count
    edges = edges_of(rows.digest.low, rows.middle, rows.digest.high, count)
    groups = timed("groups", lambda: group_figures(trained, rows.eta, edges))
    (spread,) = (None,) if groups else timed("rows", lambda: spreads_of(rows.eta, edges))
    columns, label, people = timed("columns", lambda: column_figures(trained, rows.sample, sticks, rms))
    worst = timed("rows", lambda: worst_rows(trained, rows, rms))
    return Exposure(rows, spread, edges, columns, label, people, groups, worst)


def row_figures(trained: Trained, seed: int) -> RowFigures:
    """Eta of every row, in two passes: over all rows, and for a sample of them."""
    eta = trained.each_eta()
    found = digest(eta, MOST_LISTED)
    if not np.isfinite([found.mean, found.high]).all():
        raise NotConvergedError("The figures overflow: bring the columns to ordinary units, or use a larger `l2`.")
    n = trained.design.n
    rows = some_rows(n, min(MEDIAN_ROWS, max(1, MEDIAN_VALUES // int(trained.design.X.shape[1]))), seed)
    lazy, people = trained.design.lazy, trained.design.people
    known = None if lazy or people is not None else np.asarray(eta)[rows]
    sample = Sample(rows, trained.take(None if rows.size == n and not lazy else rows), known)
    some = sample.eta if people is None else eta
    low, middle, high = (float(x) for x in np.quantile(some, [0.05, 0.5, 0.95]))
    return RowFigures(eta, found, low, middle, high, sample)


def edges_of(low: float, middle: float, high: float, count: int) -> Vector:
    """Edges of bins between the least and the largest of ``count`` values; by ratio where they are skewed."""
    if not high > low * (1 + 1e-9):
        low, high = 0.9 * low, 1.1 * high if high > 0 else 1.0
    bins = int(np.clip(np.sqrt(count), 8, BINS))
    skewed = low > 0 and high > 20 * middle
    edges = np.geomspace(low, high, bins + 1) if skewed else np.linspace(low, high, bins + 1)
    edges[0], edges[-1] = low, high
    return np.asarray(edges)


def spreads_of(eta: Any, edges: Vector, groups: VectorLike = None, count: int = 1) -> list[Spread | None]:
    """The spread of eta in each group, None for a group without rows, in one pass."""

    def block(eta: Any, groups: VectorLike) -> Sums:
        chosen = [eta] if groups is None else [eta[groups == k] for k in range(count)]
        return ([_spread(np.asarray(some), edges) for some in chosen],)

    def join(a: Sums, b: Sums) -> Sums:
        return ([Spread(x.moments + y.moments, x.bins + y.bins) for x, y in zip(a[0], b[0], strict=True)],)

    (found,) = sum_rows(block, eta, groups, join=join)
    return [spread if spread.count else None for spread in found]


def _spread(eta: Vector, edges: Vector) -> Spread:
    return Spread(Moments.of(eta), np.histogram(np.clip(eta, edges[0], edges[-1]), edges)[0])


def group_figures(trained: Trained, eta: Any, edges: Vector) -> tuple[GroupFigures, ...]:
    """By the column that was asked for, by class, or not at all."""
    design = trained.design
    labels, names = design.groups, list(design.group_names)
    if labels is None and design.target.classes and design.people is None:  # a person may have rows of both classes
        labels, names = map_rows(_whole, design.y), [str(name) for name in design.target.classes]
    if labels is None:
        return ()
    if design.people is None:
        spreads = spreads_of(eta, edges, labels, len(names))
    else:
        who, own, _ = people_by_group(design.people, labels)
        spreads = spreads_of(np.asarray(eta)[who], edges, own, len(names))
    joint = trained.leak.by_group(labels) if design.people is None else joint_etas(trained, labels, len(names))[0]
    found = [
        GroupFigures(name, float(joint[k]), spread)
        for k, (name, spread) in enumerate(zip(names, spreads, strict=True))
        if spread is not None
    ]
    return _without_few(found, "rows" if design.people is None else "people")


def _without_few(groups: Sequence[GroupFigures], who: str) -> tuple[GroupFigures, ...]:
    """The same with a number in place of the name of a group of few: it would tell of them."""
    few = [group for group in groups if group.spread.count < FEWEST_ROWS]
    told = {
        group.name: f"(fewer than {FEWEST_ROWS} {who}{f', {k}' if k > 1 else ''})" for k, group in enumerate(few, 1)
    }
    return tuple(replace(group, name=told.get(group.name, group.name)) for group in groups)


def _whole(y: VectorLike) -> Any:
    return y.astype(np.int64)


def own_units(features: Sequence[Feature], cells: Vector) -> Vector:
    """Cells in standard units, turned into those of their columns."""
    return np.asarray(cells / np.array([feature.scale for feature in features]))


def worst_rows(trained: Trained, rows: RowFigures, rms: Any = None) -> Worst:
    chosen, people = rows.top[:WORST_ROWS], trained.design.people
    eta = np.array([eta for _, eta in rows.digest.top[:WORST_ROWS]])
    if people is not None:
        every = rows_by_person(people)
        members = tuple(every[k] for k in chosen)
        cells = column_etas(trained, members)
        X = trained.take(np.concatenate(members)).X
        return Worst(chosen, eta, cells[:, -1], own_units(trained.design.features, cells[:, :-1]), members, X)
    block = trained.take(chosen)
    return Worst(
        rows=chosen,
        eta=eta,
        eta_label=np.asarray(block.leak.per_label()),
        cells=own_units(trained.design.features, block.cells()),
        members=tuple(chosen[:, None]),
        X=block.X,
        rms=None if rms is None else own_units(trained.design.features, np.asarray(gather([rms], chosen)[0])[:, :-1]),
    )


def leakage_rows(trained: Trained, rows: RowFigures, scale: float, mu: Any = None) -> Iterator[LeakageRows]:
    """All training rows, some at a time, from their etas (and mu) at scale 1 to those at a scale in standard units.

    Where rows belong to people, the etas of ``rows`` and ``mu`` are those of the people.
    """
    design, eta, people = trained.design, rows.eta, trained.design.people
    known = rows.sample.cells if people is None and rows.sample.is_all(design) else None
    label = trained.leak.per_label() if known is None else known[:, -1]
    whose = None if people is None else people.names[people.of_row]
    joint = None if people is None else eta[people.of_row] / scale
    eta = eta if people is None else trained.leak.per_example()
    mu = mu if people is None or mu is None else mu[people.of_row]
    cells, data = (None, trained.arrays) if known is None else (known[:, :-1], ())
    arrays = (design.rows, design.ids, whose, joint, eta, label, mu, cells, *(() if design.lazy else data))
    blocks = each_block(arrays, trained.block)
    for _, (numbers, ids, who, theirs, own, of_label, membership, found, *some) in track(
        blocks, blocks_of(eta, trained.block), "Writing"
    ):
        found = trained.measured(*some).cells() if some else found
        found = None if found is None else own_units(design.features, found) / scale
        told = None if membership is None else membership / scale
        yield LeakageRows(numbers, ids, own / scale, found, of_label / scale / design.target.unit, who, theirs, told)


def names_of(design: Design, rows: NDArray[np.int64]) -> dict[int, tuple[int, str | None]]:
    """Number in the table, and identifier, of some training rows, or of some people: that of the first row, and the name."""
    if design.people is not None:
        return person_names(design.people, design.rows, rows.tolist())
    found: list[Any] = gather([design.rows, design.ids], rows)
    numbers, ids = found
    texts = [None] * rows.size if ids is None else [str(value) for value in ids]
    return {int(row): (int(numbers[k]), texts[k]) for k, row in enumerate(rows)}


def gate_of(rows: RowFigures, scale: float, limit: float) -> Gate:
    """How many rows are above a limit: counted again only where not all of them are among the most exposed."""
    limit = check_positive(limit, "max_eta")
    above = [eta for _, eta in rows.digest.top if eta / scale > limit]
    if len(above) < len(rows.digest.top):
        return Gate(limit, len(above))
    (count,) = sum_rows(lambda eta: (np.count_nonzero(eta / scale > limit),), rows.eta)
    return Gate(limit, int(count))

r"""Whether someone's record was in the table: how often the best attacker is correct, row by row, or person by person.

The attacker knows all other rows and the row in question, and sees the release. With :math:`\mu` how far leaving the row out
moves the model, in standard deviations of the noise (``removal``; scales of columns move too where they are counted), he
is right :math:`\Phi(\mu / 2)` of the time where both are as likely, has an AUC of :math:`\Phi(\mu / \sqrt 2)`,
and finds :math:`\Phi(\Phi^{-1}(\alpha) + \mu)` of those present where he wrongly names the part :math:`\alpha` of the absent.

Where rows belong to people, all rows of a person are left out together: "row" below is then a person. Where the rows decide
the noise's covariance, mu is that of equal accuracy (:attr:`fisherleak.Leakage.membership_kind`), at this noise alone, and
there is no AUC.

Also here: rows that are recognised by what a release names: without one of them it would have other categories,
columns or classes.

A release names categories and classes that ``FEWEST_ROWS`` rows share, and has a column, or a feature that tells who lacks one,
where enough rows are behind it. Noise hides none of that. So who is one of just enough is told for certain. Kinds of columns
and the number of rows are taken as public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from fisherleak._support.grids import GAP
from fisherleak._support.namespaces import TableLike, Vector
from fisherleak.bounds import epsilon, mu_of_epsilon
from fisherleak.engine.changes.removal import CLOSE, is_known, is_light
from fisherleak.engine.noise.calibration_record import has_own_shape
from fisherleak.engine.norms import one_release
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.leakage.membership_distance import recognised_words, unknown_by_shape
from fisherleak.releasing.cards.enough_people import FEWEST_IN_ALL, FEWEST_ROWS, sharing_classes
from fisherleak.rows import map_rows, sum_rows
from fisherleak.rows.summary import digest
from fisherleak.tables import Design, Feature
from fisherleak.tables.design.gaps import Gaps, has_feature
from fisherleak.tables.design.whose_rows import People
from fisherleak.training.trained_model import Trained

ROUNDING = 1e-12
"""Relative, of a number in its column's unit."""
MOST_SAID = 3
"""Columns that sentences are about."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Naming:
    """Something that a release has only as long as all of some rows are there."""

    rows: Callable[[Any, Any], Mask]
    """Which of a block of features and labels these are."""
    without: str
    """What is so without one of them, and the remedy."""
    at_most: bool = False
    """Whether it holds of some of these only: nobody counted of which."""


def told_by_names(design: Design) -> tuple[Any, str]:
    """Infinite for every row, or person, without whom a release would name other things, zero for others; and sentences.

    None and nothing where there are no such rows.
    """
    found, people = [*_namings(design)], design.people
    if not found:
        return None, ""
    total, who = (design.n, "rows") if people is None else (people.count, "people")

    def block(X: TableLike, y: TableLike) -> NDArray[np.float64]:
        masks = [naming.rows(np.asarray(X), np.asarray(y)) for naming in found]
        return np.where(np.any(masks, axis=0), np.inf, 0.0)

    said = [
        f"{'Up to ' * naming.at_most}{_count(design, naming):,} of {total:,} {who} can be recognised with certainty: "
        f"{naming.without}"
        for naming in found[:MOST_SAID]
    ]
    more = len(found) - MOST_SAID
    said += [f"The same holds for {more} more column{'s' * (more > 1)}."] if more > 0 else []
    told = map_rows(block, design.X, design.y)
    if people is not None:
        told = np.where(np.bincount(people.of_row, np.isinf(told), people.count) > 0, np.inf, 0.0)
    return told, " ".join(said)


def _count(design: Design, naming: Naming) -> int:
    if design.people is not None:
        own = naming.rows(np.asarray(design.X), np.asarray(design.y))
        return int(np.unique(design.people.of_row[own]).size)
    (count,) = sum_rows(lambda X, y: (naming.rows(np.asarray(X), np.asarray(y)).sum(),), design.X, design.y)
    return int(count)


def _namings(design: Design) -> Iterator[Naming]:
    numbers = [feature for feature in design.features if feature.kind == "number"]
    edge = {name for name, what in design.unsettled.items() if what == "use"}
    loose = _counted_loosely(design)
    yield from (_levels(f, f.name in edge, f.name in loose) for f in design.features if f.leaving)
    for feature in numbers:
        yield from _gaps(design, feature)
    for feature in numbers:
        yield from (_thin(feature, value, design.people is not None) for value in feature.nearly_all)
    if design.people is not None and design.people.count == FEWEST_IN_ALL:
        yield Naming(
            lambda X, _: np.ones(len(X), dtype=bool),
            "without one of them there are too few people for a release. Add people.",
        )
    rare = [k for k, count in enumerate(sharing_classes(design)) if count == FEWEST_ROWS]
    if rare:
        without = (
            f"without one of them a class of the target '{design.target.name}' has too few for a release. Unite it with "
            "another class in the table, or leave its rows out."
        )
        yield Naming(lambda _, y: np.isin(y, rare), without)


def _counted_loosely(design: Design) -> set[str]:
    """Columns whose categories are kept by how frequent they are, where people have several rows.

    Of these is known who may change which are kept: all who have one that their largest number of rows could move.
    """
    if design.people is None or int(design.people.sizes.max()) == 1:
        return set()
    leaving = {feature.name for feature in design.features if feature.leaving}
    return leaving & {column.name for column in design.columns if column.kept is not None}


def _levels(feature: Feature, edge: bool, loose: bool) -> Naming:
    columns, leaving = list(feature.columns), feature.leaving

    def rows(X: Any, _: Any) -> Mask:
        block = X[:, columns]
        place = np.where(block.max(axis=1) == 1.0, block.argmax(axis=1) + 1, 0)
        return np.asarray(np.isin(place, leaving) & (block[:, 0] != GAP))

    if edge:
        own = [feature.name]
        without = f"without one of them a release would leave '{feature.name}' out, as a column of names."
        return Naming(rows, f"{without} Keep it with `categories={own!r}`, or leave it out with `drop={own!r}`.")
    return Naming(
        rows,
        f"without one of them a release {'might' if loose else 'would'} name other categories of '{feature.name}'. Declare all "
        "of them with `levels`, '(missing)' too where some are missing.",
        loose,
    )


def _gaps(design: Design, feature: Feature) -> Iterator[Naming]:
    """Of a number: who lacks it, or has it, where one less adds or removes the feature that tells so, or the release."""
    gaps, (place,) = feature.gaps, feature.columns

    def changes(lacking: int, having: int) -> bool:
        left = Gaps(gaps.rows, gaps.lacking - lacking, gaps.having - having)
        few = left.having < FEWEST_IN_ALL <= gaps.having
        return has_feature(left) != has_feature(gaps) or (few and left.lacking > 0)

    both = design.people is not None and changes(1, 1)  # someone with rows of either sort
    lacks, has = changes(1, 0) or both, changes(0, 1) or both
    if gaps.rows and (lacks or has):
        yield Naming(
            lambda X, _: np.where(X[:, place] == GAP, lacks, has),
            f"without one of them a release would have another set of features for '{feature.name}', whose values some lack. "
            f"Leave such rows out with `missing='drop'`, or the column with `drop={[feature.name]!r}`.",
        )


def _thin(feature: Feature, value: float, at_most: bool) -> Naming:
    """Who has another number than nearly all; of people with several rows some of them may leave the column as it is."""
    (place,) = feature.columns
    common = (value - feature.centre) / feature.scale
    return Naming(
        lambda X, _: (X[:, place] != GAP) & ~np.isclose(X[:, place], common, rtol=ROUNDING, atol=ROUNDING),
        f"without one of them a release would leave '{feature.name}' out. Leave it out with `drop={[feature.name]!r}`.",
        at_most,
    )


FALSE_POSITIVES = 0.01
"""Part of the absent that are wrongly named, at which the part of those found is said."""
NOTABLE = 0.6
"""Rows about which the best attacker is right at least this often are counted."""
MOST_LISTED = 20
CERTAIN = 1e100
"""Stands for an infinite mu in sums: the release tells for certain."""


def accuracy_of(mu: Any) -> Any:
    """How often the best attacker is correct about membership, Phi(mu / 2), where both answers are as likely."""
    return ndtr(0.5 * mu)


def auc_of(mu: Any) -> Any:
    """The area under the attacker's ROC curve, Phi(mu / sqrt(2))."""
    return ndtr(mu / math.sqrt(2.0))


def found_of(mu: Any) -> Any:
    """The share of those present that the attacker finds, where it wrongly names ``FALSE_POSITIVES`` of the absent."""
    return ndtr(ndtri(FALSE_POSITIVES) + mu)


@dataclass(frozen=True)
class Told:
    """What the best attacker gets about one row."""

    row: int
    mu: float
    right: float
    auc: float | None
    found: float | None
    """Part of those present that he names, where he wrongly names ``FALSE_POSITIVES`` of the absent; this and the AUC are not
    known where rows decide the noise's covariance."""


@dataclass(frozen=True)
class MembershipFigures:
    """How well membership can be seen at an audit's noise; without figures, why it was not measured."""

    mu: Any = field(repr=False, default=None)
    """(n,), or (people,), at noise of scale 1 in standard units; lazy where the rows are. Times the audit's scale where mu is
    not in proportion to that."""
    mean: float = 0.5
    """How often the best attacker is correct, over all rows."""
    high: float | None = None
    """Of one row in twenty he is correct more often; none where the rows are not in memory."""
    median: float | None = None
    notable: int = 0
    top: tuple[Told, ...] = field(repr=False, default=())
    note: str = ""
    kind: str = "mu"
    """As ``Leakage.membership_kind``."""
    recognised: int = 0
    """Rows that are told for certain, whatever the noise: their removal changes a public scale or centre, or what is named."""
    recognised_note: str = ""
    """The same in a sentence, with the remedy; nothing where there are none."""
    recognised_at_most: bool = False
    """Whether they are so many at most, so that every figure is an upper bound."""

    @property
    def measured(self) -> bool:
        return self.mu is not None


def membership_figures(
    trained: Trained, scale: float, tolerance: float = CLOSE, known_mu: Any = None
) -> MembershipFigures:
    """Figures at a noise of some scale in standard units; mu is never below the truth and within the tolerance.

    ``known_mu`` is that at noise of scale 1, where it was found before: it serves every scale of a fixed covariance.
    """
    leak, people = trained.leak, trained.design.people
    by_rows = has_own_shape(leak.noise)
    leak = leak.with_noise(leak.noise.rescaled(scale)) if by_rows else leak
    certain, known, said = _recognised(trained)
    told: Any = {
        "recognised": known,
        "recognised_note": said,
        "recognised_at_most": bool(_counted_loosely(trained.design)),
    }
    if why := _not_measured(trained, leak, by_rows):
        return MembershipFigures(note=" ".join(filter(None, (why, said))), **told)
    kind = leak.membership_kind
    if by_rows or known_mu is None:
        mu = leak.membership(tolerance) if people is None else _without_people(leak, people, tolerance)
        mu = mu * scale if by_rows else mu
    else:
        mu = known_mu
    mu = mu if not known else map_rows(lambda own, more: own + more, mu, certain)

    def right(mu: Any) -> tuple[Any, ...]:
        part = accuracy_of(mu / scale)
        return np.sum(part), np.count_nonzero(part >= NOTABLE)

    total, notable = sum_rows(right, mu)
    top = digest(map_rows(_finite, mu), MOST_LISTED).top
    listed = tuple(told_at(*pair, scale, kind) for pair in top)
    high, median = (None, None) if trained.design.lazy else _quantiles(np.asarray(mu) / scale)
    figures = (mu, float(total) / mu.shape[0], high, median, int(notable), listed)
    return MembershipFigures(*figures, kind=kind, **told)


def _not_measured(trained: Trained, leak: Leakage, by_rows: bool) -> str:
    """Why membership is not known, in a sentence; nothing where it is."""
    people = trained.design.people
    if by_rows:
        why = unknown_by_shape(leak, leak.n if people is None else people.count)
        return why and f"Whether someone is in the table is {why}."
    why = _unknown(trained)
    return why and f"Whether someone is in the table was not measured: {why}."


def _recognised(trained: Trained) -> tuple[Any, int, str]:
    """Infinite for rows, or people, whose removal changes the public frame or what is named; how many, and sentences."""
    design = trained.design
    people = design.people
    total = design.n if people is None else people.count
    certain, named = told_by_names(design)
    framed = 0
    for frame in measurement(trained.leak).frames:  # one, or none
        told = frame.told_rows() if people is None else frame.told_sets(people.sets)
        framed += _infinite(told)
        certain = told if certain is None else map_rows(lambda own, more: own + more, certain, told)
    known = framed if not named else _infinite(certain)
    said = (recognised_words(framed, total, people is not None), named)
    return certain, known, " ".join(filter(None, said))


def _infinite(mu: Any) -> int:
    (found,) = sum_rows(lambda mu: (np.count_nonzero(mu),), mu)
    return int(found)


def _quantiles(mu: Vector) -> tuple[float, float]:
    """How often it is correct about one row in twenty at least, and about the one in the middle."""
    high, median = np.quantile(accuracy_of(mu), [0.95, 0.5])
    return float(high), float(median)


def told_at(row: int, mu: float, scale: float, kind: str = "mu") -> Told:
    """What a mu at noise of scale 1 is worth at another scale."""
    mu = math.inf if mu >= CERTAIN else mu / scale
    if kind != "mu":
        return Told(row, mu, float(accuracy_of(mu)), None, None)
    return Told(row, mu, float(accuracy_of(mu)), float(auc_of(mu)), float(found_of(mu)))


def told_right(mu: Any, changes: Any = 0.0) -> Any:
    """How often the best attacker is correct about rows, from the parameters and from the scale on a model card.

    ``mu`` is at the noise itself, and ``changes`` is p, how likely a release without the row has another scale. The grid's
    offset is drawn without the rows. Given it, another scale tells for certain, and the same one leaves the parameters, whose
    distributions are 2 Phi(mu / 2) - 1 apart in total variation. So over offsets both together are at most
    (1 - p)(2 Phi(mu / 2) - 1) + p apart, and it is correct 1/2 and half of that: Phi + p (1 - Phi).
    """
    right = accuracy_of(mu)
    return right + changes * (1.0 - right)


def most_told(membership: MembershipFigures, changes: Vector | None, scale: float) -> tuple[int, float]:
    """The row about whose membership it is correct most often, and how often, with what the scale tells where that is known."""
    if changes is None or not membership.measured:
        return (membership.top[0].row, membership.top[0].right) if membership.top else (0, 0.5)
    right = told_right(np.asarray(membership.mu) / scale, changes)
    return int(np.argmax(right)), float(np.max(right))


def epsilons_of(
    mu: Any, most: tuple[int, float], changes: Vector | None, delta: float, limit: float, scale: float = 1.0
) -> tuple[float, int, int]:
    """At a delta: the largest epsilon of a row, whose it is, and how many are above a limit.

    ``mu`` is at noise of scale 1, the row with the most and its mu at the noise itself. If a release without a row has another
    scale on its card with a probability of at most p, that tells for certain, and the parameters have (delta - p) / (1 - p)
    left: delta of both together is at most p + (1 - p) delta of the parameters.
    """
    if changes is not None:
        moved = float(changes.max())
        if moved >= delta:
            return math.inf, int(changes.argmax()), int(np.count_nonzero(changes >= delta))
        delta = (delta - moved) / (1.0 - moved)
    bound = mu_of_epsilon(limit, delta)
    (above,) = sum_rows(lambda mu: (np.count_nonzero(~(mu / scale <= bound)),), mu)
    largest = math.inf if math.isnan(most[1]) else float(epsilon(most[1], delta))
    return largest, most[0], int(above)


def _finite(mu: Any) -> Any:
    return np.minimum(mu, CERTAIN)


def _without_people(leak: Leakage, people: People, tolerance: float) -> Vector:
    """Mu of leaving out all rows of each person, (people,)."""
    found = leak.membership_by_group(people.of_row, tolerance)
    return np.array([found[k] for k in range(people.count)])


def _unknown(trained: Trained) -> str:
    jacobian, people = one_release(measurement(trained.leak).information), trained.design.people
    sets = None if people is None else people.count
    if not jacobian.noise.normal:
        return "the best test for it has a closed form for normal noise only"
    if trained.design.lazy if jacobian.several else not is_known(jacobian):
        return "with this kind of model every row needs a pass over all others, and these are read part by part"
    if not is_light(jacobian, sets):
        by = "membership()" if people is None else "membership_by_group(person)"
        return f"with this kind of model and so many rows it takes long; fl.measure(…).{by} has it"
    return ""

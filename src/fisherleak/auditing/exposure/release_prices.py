"""What a release keeps of the model at a limit on eta, by the rule of ``fisherleak release --eta`` and with isotropic noise.

Penalty, covariance and scale are those that the release procedure decides, without a draw. For the rows present, noises
with a data-dependent covariance stand beside isotropic noise at the same limit, with their membership; none is advised.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

from fisherleak.auditing.exposure.membership_of_rows import membership_figures
from fisherleak.auditing.records import Price, Prices
from fisherleak.engine.noise.calibration_record import ANY_RECORD, HESSIAN, has_own_shape, read_over
from fisherleak.errors import FisherleakError, InvalidInputError
from fisherleak.protection.calibrate.shapes import ISOTROPIC, LEAST_LOSS, SHAPES
from fisherleak.protection.release.procedure import PUBLIC_NUMBERS, ReleaseRequest, planned_release
from fisherleak.releasing.table_model import OVER, TableModel, checked_request
from fisherleak.rows.summary import digest
from fisherleak.training.trained_model import Trained
from fisherleak.training.utility import tradeoff

LIMITS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""That are tried beside the one that is asked for."""
UNASKED = 1.0
"""The limit that a release is advised with where none was set."""
MOST_WORK = 200_000
"""Rows times parameters up to which all of them are tried, with membership; past it the one that is asked for, by the rule."""
MOST_PARAMETERS = 50
"""Past which it is that limit too: a covariance of least loss is a search over their squares."""
MOST_CELLS = 1_000_000
"""Cells of a table past which none is."""
MOST_COLUMNS = 1_000
"""Columns past which none is: bounds on any record take products of that many columns, squared, for each of them."""
LARGE = "The table is large, so what a release by `eta` keeps of the model was not computed. `fisherleak release` prints it."
FEW = "The table is large or has many columns, so one limit was tried, by the rule alone and without membership."


@dataclass(frozen=True)
class Priced:
    """What the prices are asked for: whose etas, which covariance, and the limit that comes first."""

    over: str = ANY_RECORD
    shape: str | None = None
    rows_per_person: int | None = None
    eta: float | None = None
    draws: int = 100
    metric: str | None = None
    few: bool = False
    """Whether only the limit that is asked for is tried."""

    @property
    def limit(self) -> float:
        return UNASKED if self.eta is None else self.eta


def check_release(over: str, shape: str | None, rows_per_person: int | None) -> str:
    """What a release limits; refuses options of it that are none, before anything long is begun."""
    over = read_over(over, OVER)
    if shape is not None and shape not in SHAPES:
        raise InvalidInputError(f"`shape` must be one of {', '.join(SHAPES)}; got {shape!r}.")
    if rows_per_person is not None and rows_per_person < 1:
        raise InvalidInputError(f"rows_per_person must be a whole number, 1 or more; got {rows_per_person!r}.")
    return over


def prices_of(release: Callable[[], TableModel] | None, asked: Priced, present: float) -> Prices:
    """What limits cost; ``present`` is the largest eta of a row at the audited noise. ``release`` reads the table again."""
    if release is None:
        return Prices(asked.over, asked.limit, asked.shape, note=LARGE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the model that is audited were said
        try:
            table = release()
            _request(table, asked, asked.limit, asked.shape)
        except FisherleakError as error:
            return Prices(asked.over, asked.limit, asked.shape, note=refused_words(error))
        return _prices(table, asked, present)


def tries_several(trained: Trained) -> bool:
    """Whether a model is small enough that more limits are tried than the one that is asked for."""
    count = trained.parameters
    return count <= MOST_PARAMETERS and trained.design.n * count <= MOST_WORK


def _prices(table: TableModel, asked: Priced, present: float) -> Prices:
    small = tries_several(table.trained)
    every = small and not asked.few
    found: list[Price] = []
    refusals: dict[float, str] = {}
    for eta in sorted({asked.limit, *(LIMITS if every else ())}):
        try:
            found += _at_limit(table, asked, eta, small)
        except FisherleakError as error:
            refusals[eta] = refused_words(error)
    beside = _for_rows_present(table, asked, present) if every else ()
    said = [refusals[eta] for eta in [*([asked.limit] if asked.limit in refusals else ()), *refusals][:1]]
    return Prices(
        asked.over, asked.limit, asked.shape, tuple(found), beside, " ".join([*said, *([] if small else [FEW])])
    )


def _at_limit(table: TableModel, asked: Priced, eta: float, small: bool) -> list[Price]:
    """By the rule, or with the covariance that was asked for, and isotropic noise where that is another release.

    The rule may come to isotropic noise at another penalty than it takes where that is asked for.
    """
    first = _price(table, asked, eta, asked.shape, True, small)
    if asked.shape == ISOTROPIC or not small:
        return [first]
    try:
        plain = _price(table, asked, eta, ISOTROPIC, False, small)
    except FisherleakError:
        return [first]
    own, other = ((each.covariance, each.l2, each.scale) for each in (first, plain))
    return [first] if own == other else [first, plain]


def _for_rows_present(table: TableModel, asked: Priced, eta: float) -> tuple[Price, ...]:
    """Every covariance at one limit for the rows present."""
    found = []
    for shape in (ISOTROPIC, HESSIAN, LEAST_LOSS):
        try:
            found.append(_price(table, replace(asked, over="max", rows_per_person=None), eta, shape, False, True))
        except FisherleakError:
            continue
    return tuple(found)


def _request(table: TableModel, asked: Priced, eta: float, shape: str | None) -> ReleaseRequest:
    request = ReleaseRequest(
        eta,
        over=asked.over,
        shape=shape,
        strategy=PUBLIC_NUMBERS.name,
        penalty_given=False,
        carded=True,
        planned=True,
        random_state=table.settings.seed,
        rows_per_person=asked.rows_per_person,
    )
    return checked_request(request, table.settings)


def _price(table: TableModel, asked: Priced, eta: float, shape: str | None, by_rule: bool, membership: bool) -> Price:
    request = _request(table, asked, eta, shape)
    plan = planned_release(lambda penalty: table.fitted(penalty, request, False), request, table)
    trained, scale = plan.fitted.trained.with_noise(plan.noise), float(plan.noise.scale)
    (point,) = tradeoff(trained, [scale], asked.draws, table.settings.seed, asked.metric).points
    unit = scale / trained.unit
    counted = trained.shaped_at is not None or not has_own_shape(plan.noise)
    largest = digest(trained.each_eta(), 1).high / unit if membership and counted else None
    told = membership_figures(trained, unit) if membership else None
    right, median = (told.top[0].right, told.median) if told is not None and told.measured else (None, None)
    return Price(eta, plan.shape or ISOTROPIC, by_rule, trained.l2, scale, point, largest, right, median)


def refused_words(error: FisherleakError) -> str:
    """Why there is no such release: the refusal's first sentence."""
    first, _, _ = str(error).partition(". ")
    return f"No release by `eta`: {first.rstrip('.')}."

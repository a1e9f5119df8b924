"""An audit: from a table to what a linear model of it reveals, what noise costs, and whether a limit is kept.

Etas of rows, groups and the whole data are in standard units (``model``); etas of single columns in the column's own.
"""

from __future__ import annotations

import os
import secrets
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, Never

import numpy as np

from fisherleak._support.checks import check_range, nearest
from fisherleak._support.namespaces import TableLike, Vector
from fisherleak._support.progress import doing, told_when_long
from fisherleak.attacks.population_attacker import Learned
from fisherleak.auditing.attackers import ATTACKED_ROWS, ATTACKED_VALUES, attack_all
from fisherleak.auditing.exposure.exposure import (
    Exposure,
    RowFigures,
    edges_of,
    exposure_of,
    gate_of,
    names_of,
    row_figures,
    spreads_of,
)
from fisherleak.auditing.exposure.membership_of_rows import MembershipFigures, membership_figures, most_told
from fisherleak.auditing.exposure.moves_between_values import MOST_TOLD, value_steps
from fisherleak.auditing.exposure.release_prices import (
    MOST_CELLS,
    MOST_COLUMNS,
    Priced,
    check_release,
    prices_of,
    tries_several,
)
from fisherleak.auditing.exposure.revealed import prior_spreads, rms_of_values, squares_of_values
from fisherleak.auditing.fitted_models.under_attack import table_under_attack
from fisherleak.auditing.policy.advice import Again, choose_noise, passing_noise
from fisherleak.auditing.policy.applied_rules import AppliedRules, apply_policy, yardsticks_at
from fisherleak.auditing.policy.disclosed_beside_noise import refuse_uncounted
from fisherleak.auditing.policy.judged import judged_table
from fisherleak.auditing.policy.policy import Policy
from fisherleak.auditing.policy.rules import judge
from fisherleak.auditing.policy.stated_rules import columns_named
from fisherleak.auditing.records import Attacked, Audit, Balanced, NoiseChoice, Plan, Prices
from fisherleak.auditing.spotcheck import SpotCheck, spot_check
from fisherleak.engine.changes.removal import CLOSE, EXACT
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import ANY_RECORD, has_own_shape
from fisherleak.errors import InvalidInputError
from fisherleak.releasing.scale_rule import changes_of_scale
from fisherleak.releasing.table_model import TableModel, check_same_model, read_for_release
from fisherleak.tables import Design, RawTable, Room, from_frame, read_table
from fisherleak.training.balancing import reweighted
from fisherleak.training.defaults import DRAWS
from fisherleak.training.model_kinds import check_metric
from fisherleak.training.noise_words import as_noise
from fisherleak.training.people import dataset_eta, varying
from fisherleak.training.trained_model import Settings, Trained, estimator_for, train
from fisherleak.training.utility import GRID, led_metric, tradeoff, utility_at

DOING = {
    "fit": "Reading and fitting",
    "rows": "Measuring rows",
    "groups": "Measuring groups",
    "shares": "Averaging over priors",
    "columns": "Measuring columns",
    "dataset": "Measuring all data",
    "utility": "Adding noise",
    "balance": "Balancing",
    "refits": "Refitting",
    "membership": "Leaving rows out",
    "scale": "Finding the noise without each row",
    "attacks": "Attacking",
    "advice": "Looking for a noise that passes",
    "prices": "Comparing limits",
}
"""What each step is called while it runs."""
QUICKER = {
    "attacks": "`attacks=False` leaves it out, `quick=True` makes it shorter.",
    "prices": "`quick=True` tries one limit.",
    "refits": "`quick=True` refits one row.",
    "balance": "Without `balance` it is left out.",
}
FEWER = "It is quick with fewer columns, categories or classes: `drop` leaves a column out."
"""What would make a step quick."""


def as_raw(table: TableLike, texts: Collection[str] = ()) -> RawTable:
    """A path, a frame, or a table that was read already: which stays; others are for one use, with ``texts`` as they stand."""
    if isinstance(table, RawTable):
        return table
    return (read_table(table, texts=texts) if isinstance(table, (str, os.PathLike)) else from_frame(table)).once()


def audit(
    table: TableLike,
    settings: Settings,
    room: Room | None = None,
    *,
    noise: float | Noise | None = None,
    eta: float | None = None,
    max_eta: float | None = None,
    attributes: Sequence[str] | None = None,
    attacks: bool = True,
    balance: bool = False,
    draws: int = DRAWS,
    quick: bool = False,
    spread: Mapping[str, float] | None = None,
    policy: Policy | None = None,
    metric: str | None = None,
    over: str = ANY_RECORD,
    shape: str | None = None,
    rows_per_person: int | None = None,
    **unknown: Never,
) -> Audit:
    """Fit a linear model to a table and measure what it reveals.

    Parameters
    ----------
    table : path, frame or RawTable
    settings : Settings
        The target, the kind of model, and what columns are.
    room : Room, optional
        Where rows may lie: those that do not fit stay where they are and are read for every pass. The memory that is
        free by default.
    noise, eta, max_eta, attributes, attacks, balance, draws, quick, spread, policy, metric, over, shape, rows_per_person
        As in :class:`Plan`.
    """
    for name in unknown:
        known = [
            item.name
            for item in fields(Plan)
            if item.name not in ("noise_note", "released", "unconfirmed", "covariance", "scale_rule")
        ]
        raise InvalidInputError(f"audit has no option '{name}'. {nearest(name, known)}")
    check_options(noise, eta, max_eta, draws, metric)
    over = check_release(over, shape, rows_per_person)
    if policy is not None and (over, shape, rows_per_person) != (ANY_RECORD, None, None):
        raise InvalidInputError(
            "`over`, `shape` and `rows_per_person` are for an audit that compares releases. With a policy no releases are "
            "compared, and rules are checked at the noise of the audit: leave them out."
        )
    plan = Plan(
        *(noise, eta, max_eta, attributes, attacks, balance, draws),
        quick=quick,
        spread=spread or {},
        policy=policy,
        metric=metric,
        over=over,
        shape=shape,
        rows_per_person=rows_per_person,
    )
    clock, raw, here = _Clock(), [as_raw(table, settings.id_columns)], Room.here() if room is None else room
    if policy is not None:
        with _recorded() as caught:
            trained, settings = clock("fit", lambda: _trained_for_release(raw.pop(), settings, here))
        return audit_trained(trained, settings, plan, clock.seconds, _sentences(caught))
    again = None if _is_large(raw[0]) else replace(raw[0], parts=tuple(raw[0].parts))
    with _recorded() as caught:
        trained = clock("fit", lambda: train(raw.pop(), settings, here))
    release = None if again is None or trained.design.lazy else lambda: read_for_release(again, settings, known=trained)
    return audit_trained(trained, settings, plan, clock.seconds, _sentences(caught), release)


def _trained_for_release(raw: RawTable, settings: Settings, room: Room) -> tuple[Trained, Settings]:
    """What rules are checked on: the model that a release of this table trains, and nothing else.

    A release forms no groups. Rare categories of a column that does are not pooled; refused where a release would pool them.
    """
    found = read_for_release(raw, settings, room, stated=True)
    if settings.group is not None:
        alone = read_for_release(raw, replace(settings, group=None), room, stated=True).trained.design
        check_same_model(alone, found.trained.design, settings.group)
    return found.trained, found.settings


def _is_large(raw: RawTable) -> bool:
    """Whether what releases by a limit cost takes too long."""
    return raw.rows * len(raw.names) > MOST_CELLS or len(raw.names) > MOST_COLUMNS


def check_options(
    noise: float | Noise | None = None,
    eta: float | None = None,
    max_eta: float | None = None,
    draws: int = DRAWS,
    metric: str | None = None,
) -> None:
    """Refuse numbers, and names, that break a rule before anything long is begun."""
    check_metric(metric)
    scale = None if noise is None else as_noise(noise).scale
    for name, value in (("noise", scale), ("eta", eta), ("max_eta", max_eta)):
        if value is not None:
            check_range(value, name)
    if noise is not None and eta is not None:
        raise InvalidInputError("`noise` and `eta` cannot both be given: either decides the other.")
    if not 2 <= draws <= 100_000:
        raise InvalidInputError(f"draws must be between 2 and 100000; got {draws}.")


def audit_trained(
    trained: Trained,
    settings: Settings,
    plan: Plan,
    seconds: Mapping[str, float] | None = None,
    said: Sequence[str] = (),
    release: Callable[[], TableModel] | None = None,
) -> Audit:
    """Measure a fitted model; ``seconds`` and ``said`` are the times and warnings of fitting it.

    ``release`` reads the table as a release does.
    """
    check_options(plan.noise, plan.eta, plan.max_eta, plan.draws, plan.metric)
    led_metric(trained, plan.metric)  # refuses one that the kind of model does not have
    refuse_uncounted(trained, plan)
    applied, named = apply_policy(trained.design, settings, plan), columns_named(settings, plan)
    chosen, asked = attacked_columns(trained.design, plan.attributes)
    _check_possible(trained, asked, plan.balance)
    if applied is not None:
        plan = replace(plan, spread=applied.spreads)
        chosen, asked = _with_those_of_rules(trained.design, chosen, asked, applied)
    if plan.noise is not None:
        trained = trained.with_noise(as_noise(plan.noise))
    clock, seed = _Clock(seconds), settings.seed
    # who orders the rows or tries seeds would decide which are attacked, and which noise utility is measured with; the same
    # ones wherever rules are checked again
    key = seed if applied is None else secrets.randbits(64)
    if plan.policy is not None and plan.policy.section("utility"):
        plan = replace(plan, draws=max(plan.draws, DRAWS))
    with _recorded() as caught:
        rows = clock("rows", lambda: row_figures(trained, seed))
        spreads = plan.spread if applied is None else applied.spreads
        squares = clock("shares", lambda: squares_of_values(trained, prior_spreads(trained, spreads)))
        rms = rms_of_values(trained, squares)
        choice = choose_noise(trained, plan, rows, rms)
        sticks = yardsticks_at(trained, choice.scale, plan, applied)
        found = exposure_of(trained, rows, sticks, rms, clock)
        cost = clock("utility", lambda: tradeoff(trained, choice.scale * GRID, plan.draws, key, plan.metric))
        lead = cost.metric.name
        even = (
            clock("balance", lambda: _balance(trained, found.rows, choice, plan, seed, lead)) if plan.balance else None
        )
        spot = None if trained.design.lazy else clock("refits", lambda: _checked(trained, found.rows, plan))
        gate = None if plan.max_eta is None else gate_of(found.rows, choice.scale / trained.unit, plan.max_eta)
        # a rule on membership decides by it, and all else only shows it
        ruled = plan.policy is not None and bool(plan.policy.section("membership"))
        tolerance = EXACT if ruled else CLOSE
        stepped = () if applied is None else applied.with_eta(trained.design)
        steps = clock("columns", lambda: value_steps(trained, stepped))
        membership = clock("membership", lambda: membership_figures(trained, choice.scale / trained.unit, tolerance))
        changes = clock("scale", lambda: _scale_changes(trained, plan)) if ruled else None
    listed = found.rows.top if gate is not None and gate.count else found.worst.rows
    longest = (row for each in steps.values() for row in each.worst)
    told_best, _ = most_told(membership, changes, choice.scale / trained.unit)
    listed = np.array([*listed, *(item.row for item in membership.top), *longest, told_best], dtype=np.int64)
    told, grid = _told(trained, found), [point.scale for point in cost.points]

    learned: dict[str, Learned] = {}  # the same at every noise

    def attack(trained: Trained, noise: Noise, grid: Sequence[float]) -> Attacked:
        return _attacked(trained, plan, chosen, asked, noise, grid, seed, key, told, learned)

    attacked = clock("attacks", lambda: attack(trained, choice.noise, grid))
    done = Audit(
        settings=settings,
        trained=trained,
        noise=choice,
        rows=found.rows,
        spread=found.spread,
        edges=found.edges,
        dataset=clock("dataset", lambda: dataset_eta(trained)),
        columns=found.columns,
        label=found.label,
        people=found.people,
        yardsticks=sticks,
        groups=found.groups,
        worst=found.worst,
        names=clock("rows", lambda: names_of(trained.design, found.named(listed))),
        tradeoff=cost,
        attributes=chosen,
        attacked=attacked,
        spot=spot,
        balance=even,
        gate=gate,
        membership=membership,
        draws=plan.draws,
        warnings=(*said, *_sentences(caught), *_cautions(trained), *_unknown(trained, membership)),
        seconds=clock.seconds,
        released=plan.released,
        unconfirmed=plan.unconfirmed,
        covariance=plan.covariance,
        scale_changes=changes,
        steps=steps,
        named=named,
    )
    if applied is None:
        if plan.released:
            return done
        quicker = QUICKER["prices"] if tries_several(trained) and not plan.quick else FEWER
        return replace(done, prices=clock("prices", lambda: _prices(done, plan, release), quicker))
    done = replace(done, policy=applied.policy, rules=judge(applied, judged_table(done)))
    if all(rule.passed for rule in done.rules) and not (gate and gate.count):
        return done
    again = Again(done, applied, plan, attack, squares, key)
    return replace(done, passing=clock("advice", lambda: passing_noise(again)), seconds=clock.seconds)


def _prices(done: Audit, plan: Plan, release: Callable[[], TableModel] | None) -> Prices:
    """What releases by a limit keep: the one that was set first, on rows or by the gate."""
    limit = plan.max_eta if plan.max_eta is not None else plan.eta
    asked = Priced(
        plan.over, plan.shape, plan.rows_per_person, limit, plan.draws, done.tradeoff.metric.name, plan.quick
    )
    return prices_of(release, asked, done.rows.digest.high / done.unit_scale)


def _scale_changes(trained: Trained, plan: Plan) -> Vector | None:
    """Of every row, where a released file's card tells a scale that rows have a part in."""
    return None if plan.scale_rule is None else changes_of_scale(trained, plan.scale_rule)


def _checked(trained: Trained, rows: RowFigures, plan: Plan) -> SpotCheck | None:
    plain = trained.design.people is None and trained.weighting is None  # refits keep the weights
    own = rows.eta if plain else trained.leak.per_example()
    return spot_check(trained, np.asarray(own), 1 if plan.quick else 3)


def _attacked(
    trained: Trained,
    plan: Plan,
    columns: Sequence[str],
    asked: bool,
    noise: Noise,
    grid: Sequence[float],
    seed: int,
    key: int,
    told: Mapping[str, int],
    learned: dict[str, Learned],
) -> Attacked:
    """What attackers get, or why they were not run."""
    nothing = Attacked(curves=((),) * len(grid))
    if not plan.attacks or trained.design.lazy:
        return nothing
    if trained.kind.estimator is None:
        note = f"No attack was run: no model of scikit-learn has the minimum of a {trained.kind.words}."
        return replace(nothing, notes=(note,))
    large = trained.design.X.size > ATTACKED_VALUES or trained.design.n > ATTACKED_ROWS
    if large and not asked:
        note = "The table is large, so no attack was run; name a column with `attributes` to have one."
        return replace(nothing, notes=(note,))
    label = trained.design.target.name
    aims = columns if large or label in columns else (*columns, label)
    exposed = {name: row for name, row in told.items() if not large or name in aims}
    return attack_all(
        table_under_attack(trained),
        aims,
        noise,
        grid,
        seed=seed,
        quick=plan.quick,
        told=exposed,
        learned=learned,
        key=key,
    )


def _told(trained: Trained, found: Exposure) -> dict[str, int]:
    """The columns of yes and no, and categories, that are most exposed, each with the row that is; a class with its own."""
    several = [each for each in found.columns if each.feature.yes_no or each.feature.kind == "category"]
    several.sort(key=lambda each: -each.largest)
    told = {each.feature.name: each.worst for each in several[:MOST_TOLD]}
    target = trained.design.target
    return told | ({target.name: found.label.worst} if target.classes else {})


def _check_possible(trained: Trained, attributes: bool, balance: bool) -> None:
    design = trained.design
    for asked, name in ((attributes, "attributes"), (balance, "balance")):
        if asked and design.lazy:
            raise InvalidInputError(
                f"`{name}` needs all rows in memory, and {design.n} rows of {design.X.shape[1]} features are read part by "
                "part: leave it out. Or use fewer rows, enough memory (`room`) and no cluster."
            )
    if attributes or balance:
        estimator_for(trained)  # refuses a kind without one


def attacked_columns(design: Design, asked: Sequence[str] | None) -> tuple[tuple[str, ...], bool]:
    """The columns to attack and whether they were asked for; at most two with few values by default.

    The target may be asked for as well; audits attack it in any case, where they attack at all.
    """
    names = [feature.name for feature in design.features]
    if asked:
        bare = {name.strip(): name for name in names}
        asked = [name if name in names else bare.get(name.strip(), name) for name in asked]
        for name in asked:
            if name not in (*names, design.target.name):
                raise InvalidInputError(
                    f"`attributes` names '{name}', which the model does not use. {nearest(name, names)}"
                )
        for feature in design.features:
            if feature.name in asked and feature.of is not None:
                raise InvalidInputError(
                    f"`attributes` names '{feature.name}', a feature that only says where '{feature.of}' is missing: "
                    f"name '{feature.of}'."
                )
        return tuple(dict.fromkeys(asked)), True
    few = [feature.name for feature in design.features if feature.few]
    differ = {*varying(design, few)}  # those that are the same in all rows of a person first
    order = [column.name for column in design.columns]
    return tuple(sorted(few, key=lambda name: (name in differ, order.index(name)))[:2]), False


def _with_those_of_rules(
    design: Design, chosen: tuple[str, ...], asked: bool, applied: AppliedRules
) -> tuple[tuple[str, ...], bool]:
    """The columns to attack under a policy: those that its rules need and those of every audit; options only add some."""
    if not applied.attacked:
        return chosen, asked
    usual = attacked_columns(design, None)[0]
    return tuple(dict.fromkeys((*chosen, *usual, *applied.attacked))), True


def _balance(trained: Trained, rows: RowFigures, choice: NoiseChoice, plan: Plan, seed: int, metric: str) -> Balanced:
    even = reweighted(trained)
    after = row_figures(even, seed)
    low, high = min(rows.digest.low, after.digest.low), max(rows.digest.high, after.digest.high)
    people = trained.design.people
    sides = (rows.sample.eta, after.sample.eta) if people is None else (rows.eta, after.eta)
    count = 2 * (trained.design.n if people is None else people.count)
    edges = edges_of(low, float(np.median(np.concatenate(sides))), high, count)
    (one,), (two,) = spreads_of(rows.eta, edges), spreads_of(after.eta, edges)
    assert one is not None
    assert two is not None
    return Balanced(
        iterations=15,
        before=one,
        after=two,
        edges=edges,
        utility_before=utility_at(trained, choice.scale, plan.draws, seed, metric),
        utility_after=utility_at(even, choice.scale, plan.draws, seed, metric),
    )


def _cautions(trained: Trained) -> list[str]:
    design = trained.design
    cautions = []
    if design.n < 100:
        cautions.append(
            f"There are only {design.n} training rows: what a model of so few rows reveals is a matter of chance."
        )
    if design.people is not None and design.people.count < 100 <= design.n:
        cautions.append(
            f"There are only {design.people.count} people in the training rows: what a model of so few reveals is a matter of "
            "chance."
        )
    if trained.parameters > design.n:
        cautions.append(
            f"The model has more parameters ({trained.parameters}) than training rows ({design.n}): only l2 determines it."
        )
    if has_own_shape(trained.leak.noise) and trained.shaped_at is None:
        cautions.append(
            "These rows decided the covariance of the noise. What the covariance reveals by itself is not counted here."
        )
    if trained.weights is not None:
        who, told = ("rows", "row") if design.people is None else ("people", "person")
        others = (
            f"Only the eta of each {told} counts that; all else holds" if trained.weighting else "Every eta here holds"
        )
        cautions.append(f"IRFIL's weights of {who} follow from the data. {others} the weights fixed.")
    lost = design.rows_read - design.n - design.held_out
    if 2 * lost > design.rows_read:
        cautions.append(f"More than half of the rows ({lost} of {design.rows_read}) were dropped: see why above.")
    return cautions


def _unknown(trained: Trained, membership: MembershipFigures) -> list[str]:
    """That membership is not known where the rows decide the noise's covariance."""
    return [membership.note] if has_own_shape(trained.leak.noise) and not membership.measured else []


def _sentences(caught: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(" ".join(str(item.message).split()) for item in caught))


@contextmanager
def _recorded() -> Iterator[list[warnings.WarningMessage]]:
    """The warnings of a block, which go into the audit and not to the screen."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


class _Clock:
    """Seconds that each step took, by name."""

    def __init__(self, known: Mapping[str, float] | None = None) -> None:
        self.seconds = dict(known or {})

    def __call__(self, name: str, step: Callable[[], Any], quicker: str | None = None) -> Any:
        start = time.perf_counter()
        with doing(DOING[name]), told_when_long(DOING[name], quicker or QUICKER.get(name, FEWER)):
            result = step()
        self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 4)
        return result

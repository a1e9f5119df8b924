"""An audit: from a table to what a linear model of it reveals, what noise costs, and whether a limit is kept.

Etas of rows, groups and the whole data are in standard units (``model``); etas of single columns in the column's own.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.checks import check_positive, nearest
from fisherleak._support.progress import doing
from fisherleak.audit.defaults import DRAWS
from fisherleak.audit.exposure import (
    ColumnFigures,
    Gate,
    GroupFigures,
    RowFigures,
    Spread,
    Worst,
    column_figures,
    edges_of,
    gate_of,
    group_figures,
    names_of,
    row_figures,
    spreads_of,
    worst_rows,
)
from fisherleak.audit.model import Settings, Trained, calibrated_scale, reweighted, train
from fisherleak.audit.spotcheck import SpotCheck, spot_check
from fisherleak.audit.utility import Tradeoff, tradeoff, utility_at
from fisherleak.errors import InvalidInputError
from fisherleak.tables import Design, RawTable, Room, from_frame, read_table

__all__ = [
    "Audit",
    "Balanced",
    "NoiseChoice",
    "Settings",
    "as_raw",
    "attacked_columns",
    "audit",
    "audit_trained",
    "choose_noise",
]

Vector = NDArray[np.float64]
GRID = np.logspace(-2, 2, 33)
"""Scales at which utility is measured, in units of the chosen one."""
DOING = {
    "fit": "Reading and fitting",
    "rows": "Measuring rows",
    "groups": "Measuring groups",
    "columns": "Measuring columns",
    "dataset": "Measuring all data",
    "utility": "Adding noise",
    "balance": "Balancing",
    "refits": "Refitting",
}
"""What each step is called while it runs."""


@dataclass(frozen=True)
class NoiseChoice:
    """The scale of the noise on the model's own coefficients, and how it came about."""

    scale: float
    chosen: Literal["given", "calibrated", "default"]
    note: str


@dataclass(frozen=True)
class Balanced:
    """The same model reweighted by IRFIL: etas before and after at noise of scale 1, their bins, and utility."""

    iterations: int
    before: Spread
    after: Spread
    edges: Vector = field(repr=False)
    utility_before: float
    utility_after: float


@dataclass(frozen=True)
class Audit:
    """All figures of an audit, at noise of scale 1 in standard units; ``report.summarise`` brings them to its noise."""

    settings: Settings
    trained: Trained
    noise: NoiseChoice
    rows: RowFigures = field(repr=False)
    spread: Spread | None = field(repr=False)
    """Of all rows, where there are no groups."""
    edges: Vector = field(repr=False)
    dataset: float
    columns: tuple[ColumnFigures, ...] = field(repr=False)
    groups: tuple[GroupFigures, ...] = field(repr=False)
    worst: Worst = field(repr=False)
    names: dict[int, tuple[int, str | None]] = field(repr=False)
    """Number in the table, and identifier, of every training row that is named."""
    tradeoff: Tradeoff = field(repr=False)
    attributes: tuple[str, ...]
    attributes_asked: bool
    spot: SpotCheck | None
    balance: Balanced | None
    gate: Gate | None
    draws: int
    warnings: tuple[str, ...]
    seconds: dict[str, float]

    @property
    def design(self) -> Design:
        return self.trained.design

    @property
    def unit_scale(self) -> float:
        """The noise in standard units."""
        return self.noise.scale / self.trained.unit

    @property
    def eta(self) -> Any:
        """Eta of every training row at the audit's noise, (n,); lazy where the rows are."""
        return self.rows.eta / self.unit_scale


def as_raw(table: Any) -> RawTable:
    """A path, a frame, or a table that was read already."""
    if isinstance(table, RawTable):
        return table
    return read_table(table) if isinstance(table, (str, os.PathLike)) else from_frame(table)


def audit(table: Any, settings: Settings, room: Room | None = None, **options: Any) -> Audit:
    """Fit a linear model to a table and measure what it reveals.

    Parameters
    ----------
    table : path, frame or RawTable
    settings : Settings
        The target, the kind of model, and what columns are.
    room : Room, optional
        Where rows may lie: those that do not fit stay where they are and are read for every pass. The memory that is
        free by default.
    **options
        As in :func:`audit_trained`.
    """
    check_options(**options)
    room = Room.here() if room is None else room
    clock = _Clock()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained = clock("fit", lambda: train(as_raw(table), settings, room))
    return audit_trained(trained, settings, seconds=clock.seconds, said=_sentences(caught), **options)


def check_options(
    noise: float | None = None,
    eta: float | None = None,
    max_eta: float | None = None,
    draws: int = DRAWS,
    **others: Any,
) -> None:
    """Refuse numbers that break a rule before anything long is begun."""
    for name, value in (("noise", noise), ("eta", eta), ("max_eta", max_eta)):
        if value is not None:
            check_positive(value, name)
    if noise is not None and eta is not None:
        raise InvalidInputError("noise and eta cannot both be given: either decides the other.")
    if not 2 <= draws <= 100_000:
        raise InvalidInputError(f"draws must be between 2 and 100000; got {draws}.")


def audit_trained(
    trained: Trained,
    settings: Settings,
    *,
    noise: float | None = None,
    eta: float | None = None,
    max_eta: float | None = None,
    attributes: Sequence[str] | None = None,
    balance: bool = False,
    draws: int = DRAWS,
    noise_note: str = "The scale was given.",
    seconds: dict[str, float] | None = None,
    said: Sequence[str] = (),
) -> Audit:
    """Measure a fitted model.

    Parameters
    ----------
    trained : Trained
    settings : Settings
    noise : float, optional
        Scale of the noise on every coefficient and the intercept.
    eta : float, optional
        Choose the least noise with which no row's eta is above this.
    max_eta : float, optional
        The gate: rows above it are listed. Without ``noise`` and ``eta`` it chooses the noise too.
    attributes : names, optional
        Columns to attack; at most two with few values by default.
    balance : bool
        Also reweight with IRFIL and compare.
    draws : int
        Noisy copies behind each point of utility.
    noise_note : str
        Where a given noise comes from, in a sentence.
    """
    check_options(noise, eta, max_eta, draws)
    chosen, asked = attacked_columns(trained.design, attributes)
    _check_in_memory(trained.design, asked, balance)
    clock = _Clock(seconds)
    seed = settings.seed
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = clock("rows", lambda: row_figures(trained, seed))
        choice = choose_noise(trained, noise, eta, max_eta, noise_note, rows.digest.high)
        scale = choice.scale / trained.unit
        edges = edges_of(rows.digest.low, rows.middle, rows.digest.high, trained.design.n)
        groups = clock("groups", lambda: group_figures(trained, rows.eta, edges))
        (spread,) = (None,) if groups else clock("rows", lambda: spreads_of(rows.eta, edges))
        figures = clock("columns", lambda: column_figures(trained, rows.sample))
        worst = clock("rows", lambda: worst_rows(trained, rows))
        cost = clock("utility", lambda: tradeoff(trained, choice.scale * GRID, draws, seed))
        even = clock("balance", lambda: _balance(trained, rows, choice, draws, seed)) if balance else None
        spot = None if trained.design.lazy else clock("refits", lambda: spot_check(trained, np.asarray(rows.eta)))
        gate = None if max_eta is None else gate_of(rows, scale, max_eta)
        listed = rows.top if gate is not None and gate.count else worst.rows
        named = np.unique([*listed.tolist(), *worst.rows.tolist(), *(figure.worst for figure in figures)])
    return Audit(
        settings=settings,
        trained=trained,
        noise=choice,
        rows=rows,
        spread=spread,
        edges=edges,
        dataset=clock("dataset", trained.leak.dataset),
        columns=figures,
        groups=groups,
        worst=worst,
        names=clock("rows", lambda: names_of(trained.design, named)),
        tradeoff=cost,
        attributes=chosen,
        attributes_asked=asked,
        spot=spot,
        balance=even,
        gate=gate,
        draws=draws,
        warnings=(*said, *_sentences(caught), *_cautions(trained)),
        seconds=clock.seconds,
    )


def _check_in_memory(design: Design, attributes: bool, balance: bool) -> None:
    for asked, name in ((attributes, "--attribute"), (balance, "--balance")):
        if asked and design.lazy:
            raise InvalidInputError(
                f"{name} needs all rows in memory, and {design.n} rows of {design.X.shape[1]} features are read part by part: "
                "leave it out, or take fewer rows, without --cluster and with enough --memory."
            )


def choose_noise(
    trained: Trained, noise: float | None, eta: float | None, max_eta: float | None, note: str, largest: float
) -> NoiseChoice:
    """The noise that was given, or the least that keeps a limit, or that at which the most exposed row has an eta of 1.

    ``largest`` is the largest eta of a row at noise of scale 1.
    """
    if noise is not None:
        return NoiseChoice(float(noise), "given", note)
    limit = eta if eta is not None else max_eta
    target = 1.0 if limit is None else limit
    scale = calibrated_scale(trained, target, largest=largest)
    if limit is not None:
        note = f"The least scale at which no row's eta is above {target:g}."
        if eta is None:
            note += " The gate is met by construction; give the noise you plan to use with --noise to test it."
        return NoiseChoice(scale, "calibrated", note)
    note = "Nothing was asked for, so the scale is that at which the most exposed row has an eta of 1. It is no advice."
    return NoiseChoice(scale, "default", note)


def attacked_columns(design: Design, asked: Sequence[str] | None) -> tuple[tuple[str, ...], bool]:
    """The columns to attack and whether they were asked for; at most two with few values by default."""
    names = [feature.name for feature in design.features]
    if asked:
        for name in asked:
            if name not in names:
                raise InvalidInputError(
                    f"--attribute names '{name}', which the model does not use. {nearest(name, names)}"
                )
        return tuple(dict.fromkeys(asked)), True
    few = [feature.name for feature in design.features if feature.few]
    order = [column.name for column in design.columns]
    return tuple(sorted(few, key=order.index)[:2]), False


def _balance(trained: Trained, rows: RowFigures, choice: NoiseChoice, draws: int, seed: int) -> Balanced:
    even = reweighted(trained)
    after = row_figures(even, seed)
    low, high = min(rows.digest.low, after.digest.low), max(rows.digest.high, after.digest.high)
    edges = edges_of(low, float(np.median([*rows.sample.eta, *after.sample.eta])), high, 2 * trained.design.n)
    (one,), (two,) = spreads_of(rows.eta, edges), spreads_of(after.eta, edges)
    assert one is not None
    assert two is not None
    return Balanced(
        iterations=15,
        before=one,
        after=two,
        edges=edges,
        utility_before=utility_at(trained, choice.scale, draws, seed),
        utility_after=utility_at(even, choice.scale, draws, seed),
    )


def _cautions(trained: Trained) -> list[str]:
    design = trained.design
    cautions = []
    if design.n < 100:
        cautions.append(
            f"There are only {design.n} training rows: what a model of so few rows reveals is a matter of chance."
        )
    if trained.fit.coef.shape[0] + 1 > design.n:
        cautions.append(
            f"The model has more parameters ({trained.fit.coef.shape[0] + 1}) than training rows ({design.n}): only l2 "
            "determines it."
        )
    lost = sum(count for _, count in design.dropped)
    if 2 * lost > design.rows_read:
        cautions.append(f"More than half of the rows ({lost} of {design.rows_read}) were dropped: see why above.")
    return cautions


def _sentences(caught: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(" ".join(str(item.message).split()) for item in caught))


class _Clock:
    """Seconds that each step took, by name."""

    def __init__(self, known: dict[str, float] | None = None) -> None:
        self.seconds = dict(known or {})

    def __call__(self, name: str, step: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        with doing(DOING[name]):
            result = step()
        self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 4)
        return result

"""An audit: from a table to what a linear model of it reveals, what noise costs, and whether a limit is kept.

    from fisherleak.audit import Settings, audit
    from fisherleak.report.summarise import summarise

    summary = summarise(audit("people.csv", Settings(target="income"), max_eta=1.0))

Etas of rows, groups and the whole data are in standard units (``training``); etas of single columns in the column's own.
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

from fisherleak._check import check_positive, nearest
from fisherleak.errors import InvalidInputError
from fisherleak.exposure import ColumnFigures, GroupFigures, column_figures, finite, grouped, own_units
from fisherleak.spotcheck import SpotCheck, spot_check
from fisherleak.tables import Design, Feature, RawTable, from_frame, read_table
from fisherleak.tradeoff import Tradeoff, tradeoff, utility_at
from fisherleak.training import Settings, Trained, calibrated_scale, reweighted, train

__all__ = [
    "Audit",
    "Balanced",
    "Gate",
    "NoiseChoice",
    "Settings",
    "as_raw",
    "attacked_columns",
    "audit",
    "audit_trained",
    "choose_noise",
]

Vector = NDArray[np.float64]
WORST_ROWS = 50
DRAWS = 100
GRID = np.logspace(-2, 2, 33)
"""Scales at which utility is measured, in units of the chosen one."""
FEW_VALUES = 10
"""A column with at most so many different values is attacked by default."""


@dataclass(frozen=True)
class NoiseChoice:
    """The scale of the noise on the model's own coefficients, and how it came about."""

    scale: float
    chosen: Literal["given", "calibrated", "default"]
    note: str


@dataclass(frozen=True)
class Balanced:
    """The same model reweighted by IRFIL: etas before and after at the same noise, and utility."""

    iterations: int
    before: Vector = field(repr=False)
    after: Vector = field(repr=False)
    utility_before: float
    utility_after: float


@dataclass(frozen=True)
class Gate:
    """A limit on the eta of every row, and the rows above it, the most exposed first."""

    max_eta: float
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class Audit:
    """All figures of an audit. ``report.summarise`` makes a plain dictionary of it."""

    settings: Settings
    trained: Trained
    noise: NoiseChoice
    eta: Vector = field(repr=False)
    eta_label: Vector = field(repr=False)
    dataset: float
    columns: tuple[ColumnFigures, ...] = field(repr=False)
    groups: tuple[GroupFigures, ...] = field(repr=False)
    grouped_by: str | None
    worst: NDArray[np.int64] = field(repr=False)
    worst_cells: Vector = field(repr=False)
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


def as_raw(table: Any) -> RawTable:
    """A path, a frame, or a table that was read already."""
    if isinstance(table, RawTable):
        return table
    return read_table(table) if isinstance(table, (str, os.PathLike)) else from_frame(table)


def audit(table: Any, settings: Settings, **options: Any) -> Audit:
    """Fit a linear model to a table and measure what it reveals.

    Parameters
    ----------
    table : path, frame or RawTable
    settings : Settings
        The target, the kind of model, and what columns are.
    **options
        As in :func:`audit_trained`.
    """
    check_options(**options)
    clock = _Clock()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained = clock("fit", lambda: train(as_raw(table), settings))
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
    clock = _Clock(seconds)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plain = clock("rows", lambda: finite(np.asarray(trained.leak.per_example())))
        choice = choose_noise(trained, noise, eta, max_eta, noise_note)
        scale = choice.scale / trained.unit
        worst = np.argsort(-plain, kind="stable")[:WORST_ROWS]
        by, groups = clock("groups", lambda: grouped(trained, plain, scale))
        figures = clock("columns", lambda: column_figures(trained, scale, settings.seed))
        label = np.asarray(trained.leak.per_label()) / scale / trained.unit
        cost = clock("utility", lambda: tradeoff(trained, choice.scale * GRID, draws, settings.seed))
        even = clock("balance", lambda: _balance(trained, plain, choice, draws, settings.seed)) if balance else None
        spot = clock("refits", lambda: spot_check(trained, plain))
    return Audit(
        settings=settings,
        trained=trained,
        noise=choice,
        eta=plain / scale,
        eta_label=label,
        dataset=trained.leak.dataset() / scale,
        columns=figures,
        groups=groups,
        grouped_by=by,
        worst=worst,
        worst_cells=own_units(trained, trained.cells_of(worst)) / scale,
        tradeoff=cost,
        attributes=chosen,
        attributes_asked=asked,
        spot=spot,
        balance=even,
        gate=None if max_eta is None else _gate(plain / scale, max_eta),
        draws=draws,
        warnings=(*said, *_sentences(caught), *_cautions(trained)),
        seconds=clock.seconds,
    )


def choose_noise(
    trained: Trained, noise: float | None, eta: float | None, max_eta: float | None, note: str = ""
) -> NoiseChoice:
    """The noise that was given, or the least that keeps a limit, or that at which the most exposed row has an eta of 1."""
    if noise is not None:
        return NoiseChoice(float(noise), "given", note)
    limit = eta if eta is not None else max_eta
    target = 1.0 if limit is None else limit
    scale = calibrated_scale(trained, target)
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
    few = [feature.name for feature in design.features if _has_few(design, feature)]
    order = [column.name for column in design.columns]
    return tuple(sorted(few, key=order.index)[:2]), False


def _has_few(design: Design, feature: Feature) -> bool:
    if feature.kind == "category":
        return len(feature.levels) <= FEW_VALUES
    values = design.X[:, feature.columns[0]]
    return np.unique(values[:1000]).size <= FEW_VALUES and np.unique(values).size <= FEW_VALUES


def _balance(trained: Trained, plain: Vector, choice: NoiseChoice, draws: int, seed: int) -> Balanced:
    even = reweighted(trained)
    scale = choice.scale / trained.unit
    return Balanced(
        iterations=15,
        before=plain / scale,
        after=finite(np.asarray(even.leak.per_example())) / scale,
        utility_before=utility_at(trained, choice.scale, draws, seed),
        utility_after=utility_at(even, choice.scale, draws, seed),
    )


def _gate(eta: Vector, limit: float) -> Gate:
    limit = check_positive(limit, "max_eta")
    above = np.flatnonzero(eta > limit)
    return Gate(limit, above[np.argsort(-eta[above], kind="stable")])


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
        result = step()
        self.seconds[name] = round(time.perf_counter() - start, 4)
        return result

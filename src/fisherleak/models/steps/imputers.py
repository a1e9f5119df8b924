r"""Imputers before a scaler or the model: which cells they filled, and how what they filled them with is counted.

A filled cell belongs to no one: it has no eta. With preprocessing public, the values that cells were filled with are constants.
End to end, a mean or median moves with the values that are there, and with it the features of all rows that lack one
(``Filling`` of ``engine.jacobian.folding``); it leaves as one more noisy parameter, :math:`t_k = w_k (c_k - \tilde m_k)`, from
which :func:`noisy_fill` computes what a released imputer holds. A constant is the user's own and public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn import impute

from fisherleak._support.arrays import like, namespace
from fisherleak._support.namespaces import Estimator, Vector
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.fit.risk import Risk
from fisherleak.engine.jacobian import Model
from fisherleak.engine.jacobian.folding import APART, Filling
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.models.frames import Table

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Mask = NDArray[np.bool_]
STRATEGIES = ("mean", "median", "constant")
"""Of SimpleImputer: those whose filled values are supported."""
ANOTHER = 1e-6
"""Relative difference past which what was filled in is not the mean or median of the rows; tables may be in float32."""


FEWEST, SHARE = 5, 0.05
"""Rows that lack a number, and that have it, and the share that lacks it, for an indicator that no row alone decides; as
``tables.design.gaps`` has it for tables."""


class CentreImputer(impute.SimpleImputer):  # type: ignore[misc]
    """Fills gaps with public centres, one for each column, and tells who lacks a column that many lack.

    What :func:`fisherleak.protect` puts in the place of an imputer that learns a mean or median, as a table's model has it. A
    released model has a SimpleImputer in its place.
    """

    def __init__(self, centres: Sequence[float] = (), missing_values: float = math.nan) -> None:
        super().__init__(missing_values=missing_values, strategy="mean", add_indicator=True)
        self.centres = centres

    def fit(self, X: Any, y: Any = None) -> CentreImputer:
        """Learns which columns have an indicator, and no number."""
        super().fit(X, y)
        values = np.asarray(X, dtype=np.float64)
        gone = np.isnan(values) if math.isnan(self.missing_values) else values == self.missing_values
        lacking = gone.sum(axis=0)
        often = np.minimum(lacking, len(gone) - lacking) >= FEWEST
        self.indicator_ = indicator_of(self, np.flatnonzero(often & (lacking >= SHARE * len(gone))))
        self.statistics_ = np.array(self.centres, dtype=np.float64)
        return self


def indicator_of(step: Estimator, columns: NDArray[np.int64]) -> Any:
    """An imputer's indicator of missing values in some of its columns: that of an imputer of one row that lacks these."""
    mark = step.missing_values
    numeric = isinstance(mark, (int, float, np.number))
    # a value that is not the mark: of numbers one or zero, of texts any other
    there: Any = float(mark == 0) if numeric else f"not {mark}"
    row = np.full((1, step.n_features_in_), there, dtype=np.float64 if numeric else object)
    row[0, columns] = mark
    made = impute.SimpleImputer(
        missing_values=mark, strategy="constant", fill_value=there, add_indicator=True, keep_empty_features=True
    )
    return made.fit(row).indicator_


def has_public_centres(step: Any) -> TypeIs[CentreImputer]:
    """Whether an imputer fills gaps with public centres, and learned none."""
    return isinstance(step, CentreImputer)


@dataclass(frozen=True)
class Fill:
    """What the missing values of one feature are filled with."""

    strategy: str
    value: float

    @property
    def learned(self) -> bool:
        """Whether it moves with the data."""
        return self.strategy != "constant"


def is_foldable(step: Estimator) -> bool:
    """Whether an imputer's filled values are known: a SimpleImputer of a mean, a median or a constant."""
    return type(step) is CentreImputer or (type(step) is impute.SimpleImputer and step.strategy in STRATEGIES)


def fills_of(step: Estimator) -> list[Fill | None]:
    """For each feature that a fitted imputer gives, what its missing values are filled with; None for indicators."""
    strategy = f"(strategy={step.strategy!r})" if hasattr(step, "strategy") else ""
    if any(isinstance(value, str) for value in np.ravel(getattr(step, "statistics_", ())).tolist()):
        raise UnsupportedModelError(
            f"{type(step).__name__}{strategy} fills columns of text, and a filled category is nobody's: leave it out, since "
            "OneHotEncoder takes missing values as a category."
        )
    if not is_foldable(step):
        raise UnsupportedModelError(
            f"{type(step).__name__}{strategy} learned from the data, and what it learned cannot be folded into the model: use "
            "SimpleImputer with strategy 'mean', 'median' or 'constant', or take preprocessing as public."
        )
    values = [float(value) for value in step.statistics_]
    names = getattr(step, "feature_names_in_", range(len(values)))
    empty = [name for name, value in zip(names, values, strict=True) if math.isnan(value)]
    if empty:
        raise InvalidInputError(f"Column '{empty[0]}' has no value at all, so SimpleImputer leaves it out: drop it.")
    indicators = 0 if step.indicator_ is None else len(step.indicator_.features_)
    strategy = "constant" if has_public_centres(step) else step.strategy
    return [*(Fill(strategy, value) for value in values), *[None] * indicators]


def absent_cells(step: Estimator, table: Table) -> dict[int, Mask]:
    """The cells that an imputer fills in columns that hold numbers, by column; those without any are left out."""
    if not is_foldable(step):
        return {}
    mark = step.missing_values
    if not isinstance(mark, (int, float, np.number)):
        return {}
    found = {}
    for j in range(len(table.names)):
        if table.holds_numbers(j):
            x = table.numbers(j)
            absent = np.isnan(x) if math.isnan(mark) else x == mark
            if absent.any():
                found[j] = absent
    return found


def absent_features(attributes: Sequence[Attribute], absent: Mapping[str, Mask], shape: tuple[int, int]) -> Mask:
    """Which features of which rows were filled, (n, d), from the raw columns that feed them."""
    mask = np.zeros(shape, dtype=bool)
    for attribute in attributes:
        if attribute.name in absent:
            mask[:, list(attribute.columns)] = absent[attribute.name][:, None]
    return mask


def filling_of(
    risk: Risk,
    fit: Fit,
    fills: Sequence[Fill | None],
    centres: Sequence[float],
    absent: Mask,
    spreads: tuple[Vector, Vector, bool],
) -> Filling | None:
    """How the filled values of a risk in raw units move with the rows, at its minimiser; None where nothing was learned.

    ``centres`` are the public centres of the features, ``absent`` (n, d) says which were filled, and ``spreads`` are the
    slopes, the means and whether they are weighted, of the scales that are standard deviations.
    """
    columns = [k for k, fill in enumerate(fills) if fill is not None and fill.learned]
    if not columns:
        return None
    X = np.asarray(risk.X, dtype=np.float64)
    part = Model(fit.centred_theta, fit.loss, fit.intercept is not None, fit.centre).rows(risk.X, risk.y, risk.weights)
    x, r, a, coef = (np.asarray(value) for value in (part.x, part.r, part.a, fit.coef))
    q, d = len(columns), X.shape[1]
    place, pushes = np.eye(d)[columns], np.zeros((x.shape[1], q))
    rates, offsets, through = np.zeros(q), np.zeros(q), np.zeros(q)
    values, shares, sides = np.full((2, q), np.nan), np.zeros((2, q)), np.zeros((3, 2, q))
    slopes, means, weighted = spreads
    for i, k in enumerate(columns):
        gone, fill = absent[:, k], fills[k]
        assert fill is not None
        value = filled_value(X[:, k], gone, fill)
        there = X[~gone, k]
        rates[i], values[:, i], places = _movers(there, fill, value, risk.parameter_names[k])
        for s, at in enumerate(places):
            shares[s, i] = 1.0 / len(places)
            sides[:, s, i] = shares[s, i] * statistic_moves(there, values[s, i], at, np.zeros(there.size, bool))[:, 0]
        pushes[:, i] = coef[k] * (x[gone].T @ a[gone])
        pushes[k, i] += r[gone].sum()
        offsets[i] = value - centres[k]
        heavy = float(np.asarray(risk.weights)[gone].sum()) if weighted and risk.weights is not None else gone.sum()
        through[i] = slopes[k] * heavy * (value - means[k])
    xp = namespace(risk.X)
    arrays = (place, rates, values, shares, pushes, coef[columns], offsets, through)
    found = Filling(tuple(columns), *(like(value, risk.X, xp) for value in arrays))
    return replace(found, sides=like(sides, risk.X, xp)) if np.any((shares != 0) & (sides[APART] == 0)) else found


def filled_value(x: Vector, gone: Mask, fill: Fill) -> float:
    """What stands in the cells that were filled, in the type of the table; what would stand there if there are none."""
    return float(x[gone][0]) if gone.any() else fill.value


def statistic_moves(x: Vector, value: float, place: int, filled: Mask, by_size: bool = False) -> NDArray[np.float64]:
    """How much the order statistic of a column at a place moves with a row, in each way, (3, 3).

    By the row's own value; by the filled value, of rows that have the statistic's value; and by it, of all others. Of values
    that tie, one that rises moves the last of them in order alone, and one that falls the first. Cells that were ``filled``
    move together, and by less than a row's own value. ``by_size``: the statistic is the largest size.
    """
    ties = np.abs(x) == abs(value) if by_size else x == value
    together = int(np.sum(filled & (x == value)))
    alone = int(np.sum(ties)) - together
    last = alone + together - 1
    at = last if by_size else place - int(np.sum(x < value))
    if alone == 0:  # filled cells alone, which move it in every way
        return np.tile([0.0, 0.0, float(together > 0)], (3, 1))
    rises = (at == last, together and alone - 1 <= at < last, at >= alone)
    falls = (at == 0, together and 1 <= at <= together, at < together)
    up, down = (falls, rises) if by_size and value < 0 else (rises, falls)
    return np.array([up, down, (last == 0, 0, 0)], dtype=np.float64)


def _movers(there: Vector, fill: Fill, value: float, name: str) -> tuple[float, Vector, list[int]]:
    """One over the number of values behind a mean; for a median, the values that decide it and their places in order."""
    order = np.sort(there)
    middle = [(order.size - 1) // 2, order.size // 2]
    known = float(np.mean(there)) if fill.strategy == "mean" else float(np.mean(order[middle]))
    if abs(known - value) > ANOTHER * float(np.max(np.abs(there))):
        raise InvalidInputError(
            f"SimpleImputer was not fitted on these rows: the {fill.strategy} of {name} is {known:.6g}, not {value:.6g}. Pass "
            "the table it was fitted on."
        )
    if fill.strategy == "mean":
        return 1.0 / there.size, np.full(2, np.nan), []
    return 0.0, order[middle], middle


def with_fills(attributes: Sequence[Attribute], filling: Filling | None, size: int) -> tuple[Attribute, ...]:
    """Attributes that also move the filled values of their columns: features from ``size`` on."""
    if filling is None:
        return tuple(attributes)
    places = {column: size + q for q, column in enumerate(filling.columns)}
    found = []
    for attribute in attributes:
        own = [k for k, column in enumerate(attribute.columns) if column in places]
        if not own:
            found.append(attribute)
            continue
        directions = np.eye(len(attribute.columns)) if attribute.directions is None else attribute.directions
        columns = [*attribute.columns, *(places[attribute.columns[k]] for k in own)]
        both = np.concatenate([directions, directions[..., own, :]], axis=-2)
        coded, affine = attribute.coded, attribute.affine
        found.append(Attribute(attribute.name, columns, both, attribute.encoding, coded=coded, affine=affine))
    return tuple(found)


def noisy_fill(coef: Any, filled: Any, centres: Any) -> Vector:
    r"""What a released imputer fills in, from noisy parameters alone: :math:`c'_k = \tilde m_k + t'_k / w'_k`, (q,).

    Parameters
    ----------
    coef : array of shape (q,)
        Noisy raw coefficients w' of the columns that are imputed.
    filled : array of shape (q,)
        Noisy t'.
    centres : array of shape (q,)
        The public centres of these columns.

    Notes
    -----
    A row that lacks k then gets the score :math:`w'_k \tilde m_k + t'_k` for it. Where w' is exactly zero no value
    can say t', and the centre is filled in.
    """
    w, t, m = (np.asarray(value, dtype=np.float64) for value in (coef, filled, centres))
    return np.where(w != 0, m + t / np.where(w != 0, w, 1.0), m)

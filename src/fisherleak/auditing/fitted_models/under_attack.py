"""What attackers have to know of a model: that of a table, or one that was fitted elsewhere, as one record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.checks import nearest
from fisherleak._support.namespaces import Vector
from fisherleak.attacks.candidate_values import MOST_NUMBERS
from fisherleak.attacks.candidates import jacobian_at_minimum
from fisherleak.auditing.fitted_models.summary_of_leakage import categories_of
from fisherleak.engine.jacobian import Jacobian, held_levels
from fisherleak.engine.noise import Noise
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import Table
from fisherleak.tables.design.whose_rows import People
from fisherleak.training.people import who_differs
from fisherleak.training.pipelines import freed_pipeline, known_pipeline, pipeline_of, standard_noise
from fisherleak.training.trained_model import Trained

MOST_COLUMNS = 2
"""Columns that are attacked where none are named."""
MOST_LEVELS = 50
"""Categories of a column that is attacked, or told apart, where none are named."""


@dataclass(frozen=True)
class AttackedColumn:
    """A column whose values are guessed: its numbers (None for categories), how many categories, which cells are missing."""

    numbers: Vector | None
    levels: int = 0
    missing: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class UnderAttack:
    """A model that attackers know, with all data but the value that they guess.

    Attributes
    ----------
    model, frame, labels, weights
        Fitted, and what it was fitted on.
    n, outputs, parameters : int
    label : str
        What the label is called.
    label_numbers : callable
        The labels, where they are numbers; None for classes.
    column : callable
        A column by name.
    read : callable
        The model at its minimum.
    noise_on : callable
        A noise as it is on the parameters of ``model``.
    called : callable
        What a row is called in sentences.
    scaled_by_rows : names
        Columns whose scale the attacker has to learn too.
    people : People, optional
        Whose rows they are.
    differing : callable
        People whose rows differ in a column.
    released : model, optional
        A release of it with its own parameters, attacked in place of the average over releases.
    most_common : bool
        Whether the value that most rows of a person have is guessed, in all of these rows; in all rows of each person else.
    """

    model: Any
    frame: Any = field(repr=False)
    labels: Any = field(repr=False)
    weights: Any = field(repr=False)
    n: int
    outputs: int
    parameters: int
    label: str
    label_numbers: Callable[[], Vector | None] = field(repr=False)
    column: Callable[[str], AttackedColumn] = field(repr=False)
    read: Callable[[], Jacobian] = field(repr=False)
    noise_on: Callable[[Noise], Noise] = field(repr=False)
    called: Callable[[int], str] = field(repr=False)
    scaled_by_rows: frozenset[str] = frozenset()
    people: People | None = field(default=None, repr=False)
    differing: Callable[[str], NDArray[np.bool_]] = field(default=lambda name: np.zeros(0, dtype=bool), repr=False)
    released: Any = field(default=None, repr=False)
    most_common: bool = False

    @property
    def several_rows(self) -> bool:
        """Whether rows belong to people of whom some have several."""
        return self.people is not None and self.people.count < self.n

    def varying(self, names: Sequence[str]) -> list[str]:
        """Those of some columns in which rows of one person differ."""
        return [name for name in names if self.differing(name).any()]


# The model of a table


def table_under_attack(trained: Trained, released: Any = None) -> UnderAttack:
    """The pipeline of a table's model; ``released`` is a release of it, as its file has it."""
    design = trained.design
    model, frame, labels = pipeline_of(trained)
    numbers = [feature.name for feature in design.features if feature.kind == "number"]

    def column(name: str) -> AttackedColumn:
        feature = next(feature for feature in design.features if feature.name == name)
        missing = design.lacking(feature) if feature.filled else None
        own = design.raw(feature) if feature.kind == "number" else None
        return AttackedColumn(own, len(feature.levels), missing)

    def read() -> Jacobian:
        # no model of scikit-learn has a penalty on the intercepts of several classes: read without, then moved
        found = jacobian_at_minimum(freed_pipeline(trained, model), frame, labels, trained.weights)
        own = trained.fit.intercept_l2
        return held_levels(found, own) if own and found.several else found

    def called(row: int) -> str:
        if design.people is not None:
            return f"the rows of '{design.people.names[design.people.of_row[row]]}'"
        return f"row {int(design.rows[row])}"

    return UnderAttack(
        model=model,
        frame=frame,
        labels=labels,
        weights=trained.weights,
        n=design.n,
        outputs=trained.outputs,
        parameters=trained.parameters,
        label=design.target.name,
        label_numbers=lambda: None if design.target.classes else np.asarray(design.labels(), dtype=np.float64),
        column=column,
        read=read,
        noise_on=lambda noise: standard_noise(trained, noise),
        called=called,
        scaled_by_rows=frozenset(numbers if trained.public == "nothing" else ()),
        people=design.people,
        differing=lambda name: who_differs(design, name),
        released=None if released is None else known_pipeline(trained, model, released),
    )


# A model that was fitted elsewhere


def columns_to_attack(
    leak: Leakage, asked: Sequence[str] | str | None, label: str, can_be: Callable[[str], bool] = lambda name: True
) -> tuple[str, ...]:
    """The columns of a fitted model to attack, without the label: those that are named, or at most two with few values.

    ``can_be`` says of each whether it can be attacked, where none are named.
    """
    table = measurement(leak).table
    if asked is not None:
        asked = [name for name in ([asked] if isinstance(asked, str) else asked) if name != label]
        for name in asked:
            if name not in table.names:
                raise InvalidInputError(
                    f"attributes names '{name}', which is no column of X. {nearest(str(name), table.names)}"
                )
        return tuple(dict.fromkeys(asked))
    categories = categories_of(leak)
    few = [
        j for j, name in enumerate(table.names) if name in leak.attributes and _has_few(table, j, name in categories)
    ]
    return tuple([name for j in few if can_be(name := table.names[j])][:MOST_COLUMNS])


def _has_few(table: Table, position: int, category: bool) -> bool:
    values = table.column(position)
    if category or not table.is_numeric(position):
        return 1 < len(set(values.tolist())) <= MOST_LEVELS
    there = values.astype(np.float64)
    return 1 < np.unique(there[~np.isnan(there)]).size <= MOST_NUMBERS

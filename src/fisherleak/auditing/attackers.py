"""What attackers get out of an audited model: outcomes of each, and the strongest one's accuracy over a grid of noise.

White-box attackers compare parameters behind the scaling of the columns as it was fitted, with the noise as it is there. Where
it is not public, the scale of the column that they guess is fitted anew with each candidate: that of no other column moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Json
from fisherleak._support.progress import track
from fisherleak.attacks import Attacker, BlackBox, Ideal, Informed, Outcome, Prior, Served, WhiteBox
from fisherleak.attacks.base import aimed
from fisherleak.attacks.candidate_values import MOST_NUMBERS
from fisherleak.attacks.candidates import candidates_of
from fisherleak.attacks.population_attacker import Learned
from fisherleak.attacks.white_box import white_box_on
from fisherleak.auditing.exposure.moves_between_values import FEW_ROWS, MOST_MOVES, SOME_ROWS, Apart, apart_by, in_noise
from fisherleak.auditing.fitted_models.under_attack import UnderAttack
from fisherleak.auditing.records import INFORMED, SERVED, WITH_PRIOR, WITHOUT_PRIOR, Attacked
from fisherleak.engine.changes.starting_fit import StartingFit
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.noise import Noise
from fisherleak.errors import FisherleakError
from fisherleak.rows.selection import some_rows
from fisherleak.training.noise_words import as_noise
from fisherleak.training.people import one_row_each, rows_by_person

Attribute = str | tuple[str, int]
ATTACKED_VALUES, ATTACKED_ROWS = 5_000_000, 100_000
"""Values in the features, and rows, past which attacks run only where they are asked for."""
MOST_ROWS = 500
"""Rows attacked at most, drawn at random."""
DRAWS = 100
"""Releases that are simulated where there is no closed form."""
QUICK_ROWS, QUICK_DRAWS = 100, 20
"""The same where a quick look is wanted."""
MANY_PARAMETERS = 300
"""Parameters of a model of several classes past which few rows are attacked."""
QUICK = "A quick look: at most 100 rows are attacked, in 20 simulated releases, and nothing is learned from the other columns."
QUICK_PEOPLE = "A quick look: at most 100 people are attacked, and nothing is learned from the other columns."
LEARNERS = ("white-box, other columns", "no model, other columns")
OF_PEOPLE = (
    "Three kinds of attackers guess for all rows of a person together: those who know all other data, those who learn from "
    "other columns (means over a person's rows), and the prior. Attackers who query the model or see its answer guess a value "
    "of one row, and were not run."
)
VARYING = (
    "A person's rows differ in {names}: attackers guess these values row by row, and know all other rows of the person."
)
TOGETHER = "The value that most rows of a person have in {names} is also guessed, in all of these rows together."
ATTACKERS = {
    "white-box, other columns": "knows all other data and the noise, and what the rest of the row suggests about the value, "
    "and sees the released coefficients",
    "white-box with prior": "knows all other data, the noise and how common each value is (not what the rest of the row "
    "suggests), and sees the released coefficients",
    "white-box": "knows all other data, and sees the released coefficients, but ignores how common values are",
    "white-box, served answer": "knows what the white-box attacker with prior knows, and the answer that the released model "
    "gives for the record itself (its class, or its exact score, which can reveal the value even if the release hides it)",
    "black-box": "knows the rest of the row, and queries the released model",
    "no model, other columns": "learns from other rows what the rest of a row says about the value: what the population "
    "reveals without any model",
    "prior": "guesses the most common value and sees no model",
}
"""Every attacker by name, with what it knows."""
KNOWN = "known"
"""The attacker whose moves others share."""
NOT_ON_LABELS = (SERVED,)
"""Attackers of columns only: the answer served for a record follows from its columns, and says no more about its label."""
OF_SEVERAL_ROWS = (INFORMED, WITH_PRIOR, WITHOUT_PRIOR, Ideal.name, Prior.name)
"""Attackers of people who have several rows: exact where all of them change together."""


def attack_all(
    under: UnderAttack,
    attributes: Sequence[str],
    noise: float | Noise,
    grid: Sequence[float] = (),
    seed: int = 0,
    quick: bool = False,
    told: Mapping[str, int] | None = None,
    learned: dict[str, Learned] | None = None,
    key: int | None = None,
) -> Attacked:
    """Run every attacker on every column, and on the label.

    Parameters
    ----------
    under : UnderAttack
        The model, as attackers know it.
    attributes : names
        Columns; the target's name is its label.
    noise : float or Noise
        On the model's own coefficients; a number is the scale of Gaussian noise.
    grid : scales
        At which the strongest attacker's expected accuracy is wanted.
    seed : int
        Of simulations, and of the rows that are drawn unless ``key`` is given.
    quick : bool
        Fewer rows and simulated releases, and no attacker who learns from the other columns.
    told : mapping of column to row
        Columns whose values are told apart by exact moves in that row too, the most exposed one; those that are not attacked
        in some rows and in that one.
    learned : mapping of column to Learned
        What learners said at another noise, which is no other at this one; what they say now is entered.
    key : int
        Of the rows that are drawn: one that nobody could know beforehand where a rule is about them.

    Where rows belong to people, a row above is a person, by place. Columns in which rows of one person differ are attacked row
    by row, and once more in all rows of each person that have the value which most of theirs have.
    """
    differ = list(dict.fromkeys(under.varying([*attributes, *(told or {})])))
    if differ and under.people is not None:
        first, options = one_row_each(under.people), (noise, grid, seed, quick)
        alike = [name for name in attributes if name not in differ]
        own = {name: row for name, row in (told or {}).items() if name not in differ}
        exposed = {name: int(first[row]) for name, row in (told or {}).items() if name in differ}
        by_row = replace(
            under, people=None, differing=lambda _: np.zeros(0, bool), called=lambda row: f"training row {row + 1}"
        )
        rest = [name for name in attributes if name in differ]
        seen = {name: row for name, row in (told or {}).items() if name in differ}
        together = replace(under, differing=lambda _: np.zeros(0, bool), most_common=True)
        return _both(
            attack_all(under, alike, *options, told=own, learned=learned, key=key),
            attack_all(by_row, rest, *options, told=exposed, learned=learned, key=key),
            attack_all(together, rest, *options, told=seen, learned={}, key=key),
            differ,
        )
    if not attributes and not told:
        return Attacked(curves=((),) * len(grid))
    added, exposed = under.noise_on(as_noise(noise)), dict(told or {})
    columns = len({*attributes, *exposed})
    known, key = {} if learned is None else learned, seed if key is None else key
    attacks = _Attacks(under, added, tuple(grid), seed, key, quick, columns, known)
    found = [attacks.on(name, exposed.pop(name, None)) for name in track(attributes, len(attributes), "Attacking")]
    found += [attacks.apart(name, row) for name, row in track(exposed.items(), len(exposed), "Telling apart")]
    curves = zip(*(each.curve for each in found), strict=True)
    return Attacked(
        tuple(outcome for each in found for outcome in each.outcomes),
        tuple(tuple(point for point in points if point is not None) for points in curves),
        (*_left_out(under, attributes, quick), *(note for each in found for note in each.notes)),
        tuple(each.apart for each in found if each.apart is not None),
        "rows" if under.people is None else "people",
    )


def _both(people: Attacked, rows: Attacked, together: Attacked, differ: Sequence[str]) -> Attacked:
    """Attacks on people; in columns in which rows of some differ on single rows, and on the rows that have one value."""
    names = ", ".join(f"'{name}'" for name in differ)
    said = [VARYING.format(names=names), TOGETHER.format(names=names)]
    points = [list(at) for at in zip(rows.curves, together.curves, strict=True)]
    return Attacked(
        (*people.outcomes, *rows.outcomes, *together.outcomes),
        tuple((*one, *_larger(*both)) for one, both in zip(people.curves, points, strict=True)),
        tuple(dict.fromkeys((*people.notes, *said, *rows.notes, *together.notes))),
        (*people.distinguishable, *_stronger(rows.distinguishable, together.distinguishable)),
        "people",
        tuple(differ),
        tuple(outcome for outcome, _ in together.outcomes),
    )


def _larger(rows: Sequence[Json], people: Sequence[Json]) -> list[Json]:
    """Of two points of one column the one at which the attacker is correct more often."""
    best = sorted((*rows, *people), key=lambda point: point["accuracy"])
    return [*{point["attribute"]: point for point in best}.values()]


def _stronger(rows: Sequence[Apart], people: Sequence[Apart]) -> list[Apart]:
    """Of two tests of one column the one that is correct more often."""
    best = sorted((*rows, *people), key=lambda apart: apart.worst)
    return [*{apart.attribute: apart for apart in best}.values()]


def _left_out(under: UnderAttack, attributes: Sequence[str], quick: bool) -> list[str]:
    """What holds for all columns: said once."""
    if not under.several_rows:
        return [QUICK] * quick
    return [QUICK_PEOPLE] * quick + [OF_PEOPLE] * bool(attributes)


@dataclass(frozen=True)
class _OnColumn:
    """Outcomes of every attacker on a column, the strongest one's accuracy over the grid, what was not run, and moves."""

    outcomes: list[tuple[Outcome, str]]
    curve: list[Json | None]
    notes: list[str]
    apart: Apart | None


@dataclass(frozen=True)
class _Attacks:
    """Attacks on the columns of one model."""

    under: UnderAttack
    noise: Noise
    grid: tuple[float, ...]
    seed: int
    key: int
    quick: bool
    columns: int
    learned: dict[str, Learned]

    @property
    def draws(self) -> int:
        return QUICK_DRAWS if self.quick else DRAWS

    @property
    def most(self) -> int:
        """Rows that are attacked at most: few where the model may have to be fitted again for each, and is large."""
        if self.under.outputs > 1 and self.under.parameters > MANY_PARAMETERS:
            return FEW_ROWS
        return QUICK_ROWS if self.quick else MOST_ROWS

    def _without(self, attacker: str, label: bool) -> bool:
        if self.under.several_rows and attacker not in OF_SEVERAL_ROWS:
            return True
        return (self.quick and attacker in LEARNERS) or (label and attacker in NOT_ON_LABELS)

    def on(self, name: str, exposed: int | None = None) -> _OnColumn:
        """Every attacker on a column, or on the label; values are told apart in the most exposed row too."""
        aim = _aim(self.under, name, self.most, self.key)
        outcomes: list[tuple[Outcome, str]] = []
        curve: list[dict[str, Any] | None] = [None] * len(self.grid)
        notes: list[str] = []
        made: dict[str, Any] = {}
        for attacker, knows in ATTACKERS.items():
            if self._without(attacker, aim.label):
                continue
            try:
                if KNOWN not in made:
                    made[KNOWN] = self._known(aim)
                made[attacker] = self._made(attacker, made, self.learned.get(name))
                attack = made[attacker]
                if attacker == INFORMED:
                    self.learned[name] = attack.learned
                outcomes.append((replace(self._outcome(attack), attribute=name), knows))
                if attacker in (INFORMED, WITH_PRIOR) and curve[:1] in ([None], []):
                    curve = [self._at(attack, name, scale) for scale in self.grid]
            except FisherleakError as error:
                notes.append(f"The {attacker} attack on '{name}' was not run: {error}")
            except (ArithmeticError, IndexError, ValueError, np.linalg.LinAlgError) as error:
                # of a learner, or of a table that nobody thought of: figures of the model stand without it
                notes.append(f"The {attacker} attack on '{name}' failed ({type(error).__name__}), and is left out.")
        if aim.note and outcomes:
            notes.append(aim.note)
        known = made.get(KNOWN)
        apart = None
        if known is not None and outcomes and not aim.note:
            # where there is no model without some value, notes of the attackers who need it say so
            with suppress(FisherleakError):
                apart = _apart([known, *self._at_row(aim, exposed)], self.noise, name)
        return _OnColumn(outcomes, curve, notes, apart)

    def _at_row(self, aim: _Aim, row: int | None) -> list[WhiteBox]:
        """The same attack on one more row."""
        if row is None or row in aim.rows or not self.noise.normal:
            return []
        return [self._known(replace(aim, rows=np.array([row])))]

    def apart(self, name: str, row: int) -> _OnColumn:
        """How well values of a column are told apart, in some rows and in one that is named."""
        levels = 0 if name == self.under.label else self.under.column(name).levels
        few = max(FEW_ROWS, MOST_MOVES // max(levels, 1))
        aim = _aim(self.under, name, min(SOME_ROWS, self.most, few), self.key)
        aim = replace(aim, rows=np.union1d(aim.rows, [row]))
        nothing: list[Json | None] = [None] * len(self.grid)
        try:
            return _OnColumn([], nothing, [], _apart([self._known(aim)], self.noise, name))
        except FisherleakError as error:
            return _OnColumn([], nothing, [f"How well '{name}' is guessed was not measured: {error}"], None)

    @cached_property
    def _read(self) -> Jacobian:
        """The model at its minimum, the same for every column and attacker."""
        return self.under.read()

    @cached_property
    def _shared(self) -> StartingFit:
        """What moves of the parameters share, whatever the column."""
        count = self.most * self.columns
        return StartingFit(self._read.fit, self._read.X, self._read.y, count, called=self.under.called)

    def _known(self, aim: _Aim) -> WhiteBox:
        """The white-box attacker with the prior, of whom others have candidates and moves."""
        under, people, rows = self.under, self.under.people, aim.rows
        own = (under.model, under.frame, under.labels, aim.attribute, aim.values, under.weights)
        rows = rows if people is None else one_row_each(people)[rows]
        target = candidates_of(*own, None, rows, self._read)
        if people is not None and under.several_rows:
            every = rows_by_person(people)
            every = _most_common(every, host(target.codes)) if under.most_common else every
            target = target.of_people([every[k] for k in aim.rows.tolist()], every)
        return white_box_on(target, self._shared, not aim.label and aim.attribute in under.scaled_by_rows)

    @staticmethod
    def _made(attacker: str, made: dict[str, Any], learned: Learned | None) -> Attacker:
        """An attacker by name; candidates, moves of parameters and what learners learned are paid once."""
        known, informed = made[KNOWN], made.get(INFORMED)
        shared: dict[str, Callable[[], Attacker]] = {
            INFORMED: lambda: Informed.like(known, learned),
            WITH_PRIOR: lambda: known,
            WITHOUT_PRIOR: lambda: known.with_prior(False),
            SERVED: lambda: Served.like(known),
        }
        if informed is not None:
            shared[Ideal.name] = lambda: Ideal.like(known, informed.learned)
        if attacker in shared:
            return shared[attacker]()
        kinds: dict[str, type[Attacker]] = {BlackBox.name: BlackBox, Ideal.name: Ideal, Prior.name: Prior}
        return aimed(kinds[attacker], known.target)

    def _outcome(self, attack: Attacker) -> Outcome:
        if self.under.released is None:
            return attack.against(self.noise, self.draws, self.seed)
        return attack.against(self.under.released, self.draws, self.seed, self.noise)

    def _at(self, attack: WhiteBox, name: str, scale: float) -> Json:
        accuracy = attack.accuracy(self.noise.rescaled(float(scale)), draws=self.draws, random_state=self.seed)
        return {"attribute": name, "accuracy": float(accuracy.mean())}


@dataclass(frozen=True)
class _Aim:
    """What is guessed: a column or the label, among which values, in which rows; a sentence where values are typical ones.

    Where rows belong to people, ``rows`` are people, by their place.
    """

    attribute: Attribute
    values: list[float] | None
    rows: Any
    note: str
    label: bool = False


def _aim(under: UnderAttack, name: str, most: int, seed: int) -> _Aim:
    chosen = np.arange(under.n if under.people is None else under.people.count)
    if name == under.label:
        typical = _typical(under.label_numbers(), "nearest")  # not every loss takes every number as a label
        rows = chosen[some_rows(chosen.size, most, seed)]
        return _Aim(("label", 0), typical, rows, _nearest_of(name, typical), True)
    column = under.column(name)
    if column.missing is not None:
        people = under.people
        chosen = chosen[~(column.missing if people is None else column.missing[one_row_each(people)])[chosen]]
    rows = chosen[some_rows(chosen.size, most, seed)]
    if column.numbers is None:
        return _Aim(name, None, rows, "")
    values = column.numbers if column.missing is None else column.numbers[~column.missing]
    typical = _typical(values, "linear")
    if typical is None and column.missing is not None:
        return _Aim(name, np.unique(values).tolist(), rows, "")
    return _Aim(name, typical, rows, _nearest_of(name, typical))


def _typical(values: Any, between: Literal["linear", "nearest"]) -> list[float] | None:
    """A few typical numbers of many, to guess among; none where all are few, or there are no numbers."""
    if values is None or np.unique(values).size <= MOST_NUMBERS:
        return None
    found: list[float] = np.unique(np.quantile(values, [0.1, 0.3, 0.5, 0.7, 0.9], method=between)).tolist()
    return found


def _nearest_of(name: str, typical: list[float] | None) -> str:
    return (
        ""
        if typical is None
        else f"A guess of '{name}' is correct if it names the nearest of {len(typical)} typical values."
    )


def _most_common(sets: Sequence[NDArray[np.int64]], codes: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Of the rows of each person those with the value that most of them have; all of them where each value is missing."""
    found = []
    for rows in sets:
        there = codes[rows][codes[rows] >= 0]
        found.append(rows[codes[rows] == np.bincount(there).argmax()] if there.size else rows)
    return found


def _apart(attacks: Sequence[WhiteBox], noise: Noise, name: str) -> Apart | None:
    """From the moves of attacks on all values of a column, in other rows each; none where the noise is not normal."""
    if not noise.normal:
        return None
    mu = [in_noise([host(each.values) for each in attack.moves], noise) for attack in attacks]
    return apart_by(name, np.concatenate(mu))

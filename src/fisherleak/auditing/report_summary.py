"""What a report shows, as one record: ``report.summarise`` and ``summary_of_leakage`` write it, pages and terminals read it.

Its JSON is of schema "fisherleak.summary/2". Fields that earlier versions did not write have a default,
and files of schema 1 are read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Any, ClassVar

from fisherleak._support.namespaces import Json
from fisherleak.auditing.plain_records import LEFT_OUT, Record, read_record
from fisherleak.errors import InvalidInputError

SCHEMA, EARLIER = "fisherleak.summary/2", "fisherleak.summary/1"
IN_PYTHON, NO_FILE = "a table in Python", "not taken"
"""Source and hash of rows that were measured from Python."""
Numbers = tuple[float | None, ...]


class DroppedRows(Record):
    reason: str
    count: int


class MissingCells(Record):
    column: str
    count: int
    filled: str
    as_: str


class TableColumn(Record):
    """A column of the table, and what it was taken for."""

    name: str
    kind: str
    assumed: bool
    note: str
    categories: int | None
    renamed: ClassVar[Mapping[str, str]] = {"levels": "categories"}


class RepeatedId(Record):
    """An identifier of people that repeats, where nobody said whose rows these are: until then etas are of rows."""

    column: str
    values: int
    rows: int
    note: str


class Data(Record, kw_only=True):
    source: str
    sha256: str
    rows_read: int
    rows_used: int
    dropped: tuple[DroppedRows, ...] = ()
    missing: tuple[MissingCells, ...] = ()
    target: str
    classes: tuple[str, ...] | None = None
    id_column: str | None = None
    group_column: str | None = None
    person_column: str | None = None
    people: int | None = None
    """None where every row stands for itself."""
    repeated: RepeatedId | None = field(default=None, metadata=LEFT_OUT)
    in_memory: bool = True
    train_rows: int
    test_rows: int
    columns: tuple[TableColumn, ...]


class DescribedModel(Record):
    kind: str
    assumed: bool
    description: str
    l2: float
    parameters: int
    intercept: bool
    public: str = "preprocessing"


class AddedNoise(Record, kw_only=True):
    kind: str = "Gaussian"
    scale: float
    chosen: str
    """"given", "calibrated" or "default"."""
    note: str
    by_shape: float | None = None
    """The largest eta that the noise's shape tells by itself."""


class EtaFigures(Record):
    mean: float
    sd: float
    median: float
    min: float
    max: float
    q05: float
    q95: float


class HistogramGroup(Record):
    name: str
    count: int
    mean: float
    counts: tuple[int, ...]


class Histogram(Record):
    edges: tuple[float, ...]
    groups: tuple[HistogramGroup, ...]


class Etas(Record):
    dataset: float
    examples: EtaFigures
    histogram: Histogram


def row_called(row: int, own: str | None) -> str:
    """What a row is called: by its own name, if it has one, and its number."""
    return f"row {row}" if own is None else f"{own} (row {row})"


class NamedRow(Record):
    """A row by its number in the table, or the first row of a person."""

    row: int
    id: str | None

    @property
    def label(self) -> str:
        return str(self.row) if self.id is None else self.id

    @property
    def called(self) -> str:
        return row_called(self.row, self.id)


class ExposedRow(NamedRow, kw_only=True):
    eta: float
    eta_label: float
    cells: Numbers
    revealed: Numbers | None = None
    """The share of every value; None for a category, and where it is not known."""
    values: dict[str, str] | None = None
    rows: int | None = field(default=None, metadata=LEFT_OUT)
    """How many a person has."""


class RevealedShare(Record):
    """How much of a number is revealed: the largest share, those of one row in twenty and of half, and how many above half."""

    spread: float
    max: float
    q95: float
    median: float
    count: int
    row: int | None = None
    id: str | None = field(default=None, metadata=LEFT_OUT)
    person: str | None = field(default=None, metadata=LEFT_OUT)


class ModelColumn(Record):
    """A column of the model, in its own unit."""

    name: str
    kind: str
    """"number" or "category"."""
    eta_column: float
    eta_max: float
    eta_mean: float
    eta_median: float
    error_least: float | None
    error_typical: float | None
    spread: float | None
    worst_row: int
    yes_no: bool = field(default=False, metadata=LEFT_OUT)
    step: float = field(default=1.0, metadata=LEFT_OUT)
    """How far the two numbers of a yes or no are apart."""
    worst_id: str | None = field(default=None, metadata=LEFT_OUT)
    worst_person: str | None = field(default=None, metadata=LEFT_OUT)
    revealed: RevealedShare | None = None

    def exposure(self, eta: float) -> float:
        """Eta in units of the column's spread; eta itself where there is none."""
        return eta * (self.spread or 1.0)


class Label(Record):
    name: str
    kind: str
    eta_max: float
    eta_mean: float
    eta_median: float
    worst_row: int
    worst_id: str | None = field(default=None, metadata=LEFT_OUT)
    worst_person: str | None = field(default=None, metadata=LEFT_OUT)
    revealed: RevealedShare | None = None


class ExposedPeople(Record):
    """How many have a number of which more than a share is revealed; whether that is known."""

    count: int
    share: float
    measured: bool


class Group(Record):
    name: str
    count: int
    eta_joint: float
    eta_mean: float
    eta_sd: float
    eta_max: float


class CurvePoint(Record):
    """Utility at one scale of the noise, and the range of nine draws in ten."""

    scale: float
    utility: float | None
    low: float | None
    high: float | None


class ExpectedAttack(Record):
    attribute: str
    accuracy: float | None


class AttackedPoint(CurvePoint):
    attacks: tuple[ExpectedAttack, ...]


class MeasuredUtility(Record):
    """One measure of utility."""

    metric: str
    label: str
    higher_is_better: bool
    without_noise: float | None
    baseline: float | None
    renamed: ClassVar[Mapping[str, str]] = {"constant": "baseline"}

    def is_useful(self, value: float) -> bool:
        """Whether a utility is better than that of the baseline."""
        assert self.baseline is not None
        return value > self.baseline if self.higher_is_better else value < self.baseline


class SecondCurve(MeasuredUtility):
    points: tuple[CurvePoint, ...]


class UtilityCurve(MeasuredUtility, kw_only=True):
    held_out: bool
    draws: int
    interval: str = ""
    points: tuple[AttackedPoint, ...]
    also: tuple[SecondCurve, ...] = field(default=(), metadata=LEFT_OUT)
    """The same by other measures."""
    note: str = field(default="", metadata=LEFT_OUT)
    """What the curve does not say: a gain over the baseline, or a rise with noise, within its own error."""

    def at(self, scale: float) -> float | None:
        """Utility at a scale, on a straight line in its logarithm between those that were tried."""
        points = [(point.scale, point.utility) for point in self.points if point.utility is not None]
        for (low, before), (high, after) in pairwise(points):
            if low <= scale <= high:
                part = math.log(scale / low) / math.log(high / low) if high > low else 0.0
                return before + part * (after - before)
        return None


class OfferedNoise(Record):
    """A noise at which no more than a share of any number is revealed; ``kept`` is the part of the gain over the baseline."""

    share: float
    noise: float
    utility: float | None
    kept: float | None


class PriceAtLimit(Record, kw_only=True):
    """A release at a limit on eta, and what it keeps of the model; ``kept`` is the part of the gain over the baseline."""

    eta: float
    covariance: str
    """"isotropic", "hessian" or "least-loss"."""
    by_rule: bool
    """Whether it is the release of ``fisherleak release --eta`` with the options of the audit."""
    l2: float
    noise: float
    utility: float | None
    low: float | None
    high: float | None
    kept: float | None
    eta_present: float | None
    """The largest of a row that is present; None where what the covariance reveals by itself is not counted."""
    membership: float | None
    """How often an attacker is correct about a row that is present, at most: by the parameters and the covariance."""
    membership_median: float | None
    best: bool = False
    """Whether it keeps most at its limit, among those whose covariance is counted, or isotropic: the one to release with."""
    command: str | None = field(default=None, metadata=LEFT_OUT)


class ReleasePrices(Record, kw_only=True):
    """What releases by a limit keep: of any record within the bounds, or of the rows present; and noises for these alone."""

    over: str
    limits: tuple[PriceAtLimit, ...] = ()
    present: tuple[PriceAtLimit, ...] = ()
    note: str = ""


class AttackResult(Record, kw_only=True):
    attacker: str
    attribute: str
    accuracy: float
    low: float
    high: float
    baseline: float
    worst: float | None = None
    q95: float | None = None
    median: float | None = None
    found: int | None = None
    method: str
    note: str


def attacked_whole(attacks: Sequence[AttackResult]) -> list[str]:
    """Beside each attack: whether it guessed for single rows or for all rows of a person, where a column has both."""
    both = {attack.attribute: set[str]() for attack in attacks}
    of = [attack.method.partition(",")[0].partition(" ")[2] for attack in attacks]
    for attack, whose in zip(attacks, of, strict=True):
        both[attack.attribute].add(whose)
    words = {"rows": "single rows", "people": "all rows of a person"}
    return [
        words.get(whose, "") if len(both[each.attribute]) > 1 else "" for each, whose in zip(attacks, of, strict=True)
    ]


class DistinguishableColumn(Record):
    """How often the best test is correct between a value of a column and the one most unlike it."""

    attribute: str
    rows: int
    worst: float
    q95: float
    median: float
    error_least: float | None


class EtaMoments(Record):
    mean: float
    sd: float
    max: float


class BeforeAndAfter(Record):
    edges: tuple[float, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


class Equalised(Record):
    """The same model reweighted by IRFIL."""

    iterations: int
    before: EtaMoments
    after: EtaMoments
    histogram: BeforeAndAfter
    utility_before: float | None
    utility_after: float | None
    note: str


class GateRow(NamedRow):
    eta: float
    rows: int | None = field(default=None, metadata=LEFT_OUT)


class CheckedGate(Record):
    """A limit on the eta of every row, and the rows above it."""

    max_eta: float
    exceeded: bool
    count: int
    rows: tuple[GateRow, ...]


class CheckedRule(Record):
    rule: str
    passed: bool
    limit: Any
    value: Any
    count: int | None
    row: int | None
    noise: float | None
    note: str


class CheckedPolicy(Record, kw_only=True):
    """What became of every rule of a policy, those that failed first."""

    source: str
    sha256: str
    passed: bool
    count: int
    passed_count: int
    noise: float | None
    note: str = ""
    rules: tuple[CheckedRule, ...]
    renamed: ClassVar[Mapping[str, str]] = {"kept": "passed_count"}


class StatedRule(Record):
    """A line of a policy as it is written, or a limit on rows that was given, and whether it passed."""

    section: str
    column: str | None
    """Of [columns]: a name, or "*"."""
    key: str
    limit: Any
    passed: bool
    delta: float | None = field(default=None, metadata=LEFT_OUT)
    """Of a limit on epsilon."""


class Stated(Record, kw_only=True):
    """What those who asked for the audit stated: no row decides any of it, but for whether a rule passed."""

    columns: tuple[str, ...] = ()
    """That the command or the policy names."""
    rules: tuple[StatedRule, ...] = ()
    scale: float | None = None
    """Of the noise, where it was given."""
    shaped: bool = field(default=False, metadata=LEFT_OUT)
    """Whether the noise has a covariance of its own, without which its scale says nothing."""
    eta: float | None = None
    """The limit that the noise was computed from."""
    unsettled: str = ""
    """What one row might decide of a page that is handed out, with a remedy; nothing where all is stated."""


class MemberRow(NamedRow, kw_only=True):
    rows: int | None = field(default=None, metadata=LEFT_OUT)
    mu: float | None
    accuracy: float
    auc: float | None
    found: float | None
    renamed: ClassVar[Mapping[str, str]] = {"right": "accuracy"}


class MembershipFound(Record, kw_only=True):
    """How often the best test is correct about whether a row was in the table; the rows it knows best first."""

    kind: str = "mu"
    accuracy_mean: float
    accuracy_max: float
    accuracy_q95: float | None = None
    accuracy_median: float | None = None
    notable: float
    count: int
    false_positives: float
    recognised: int = 0
    recognised_at_most: bool = False
    """Whether fewer may be recognised, so that accuracies are upper bounds."""
    note: str = ""
    rows: tuple[MemberRow, ...]
    renamed: ClassVar[Mapping[str, str]] = {
        f"right_{each}": f"accuracy_{each}" for each in ("mean", "max", "q95", "median")
    }


class Next(Record):
    """The noise, or the limit, to release with, why, and the command for it and for any other."""

    noise: float | None = None
    note: str = ""
    command: str | None = None
    command_for: tuple[str, ...] | None = None
    """What stands before and after the noise."""
    eta: float | None = field(default=None, metadata=LEFT_OUT)
    """The limit to release with in its place."""


class RefitCheck(Record):
    rows: int
    largest_relative_error: float
    note: str


class Diagnostics(Record):
    gradient: float
    distance: float
    condition: float
    steps: int
    warnings: tuple[str, ...]
    finite_difference: RefitCheck | None = None
    seconds: dict[str, float] = field(default_factory=dict)


class ConfirmedRelease(Record):
    """What was confirmed of a released model, in sentences."""

    confirmed: tuple[str, ...]
    unconfirmed: tuple[str, ...]
    failed: str | None


class Summary(Record, kw_only=True):
    """All that a report shows; parts that are None, or empty, were not asked for or cannot be known."""

    schema: str = SCHEMA
    created: str
    title: str
    command: str | None
    seed: int | None
    versions: dict[str, str]
    assumptions: tuple[str, ...]
    data: Data
    model: DescribedModel
    noise: AddedNoise
    eta: Etas
    rows: tuple[ExposedRow, ...]
    attributes: tuple[ModelColumn, ...]
    label: Label | None = None
    people: ExposedPeople | None = None
    groups: tuple[Group, ...]
    tradeoff: UtilityCurve
    choices: tuple[OfferedNoise, ...] = ()
    prices: ReleasePrices | None = field(default=None, metadata=LEFT_OUT)
    attacks: tuple[AttackResult, ...]
    distinguishable: tuple[DistinguishableColumn, ...] = ()
    balance: Equalised | None
    gate: CheckedGate | None
    policy: CheckedPolicy | None = None
    membership: MembershipFound | None = None
    next: Next = Next()
    diagnostics: Diagnostics
    released: ConfirmedRelease | None = field(default=None, metadata=LEFT_OUT)
    stated: Stated | None = field(default=None, metadata=LEFT_OUT)
    renamed: ClassVar[Mapping[str, str]] = {"told_apart": "distinguishable"}

    @property
    def values(self) -> tuple[ModelColumn | Label, ...]:
        """Columns of the model, and the label behind them."""
        return self.attributes if self.label is None else (*self.attributes, self.label)

    @property
    def raw_units(self) -> bool:
        """Whether etas of rows count every number in the unit of its column: so they are measured in Python."""
        return self.data.source == IN_PYTHON and self.data.sha256 == NO_FILE

    @property
    def whose(self) -> str:
        """What is measured: people, each with one row or all that are said to be theirs; or rows, where several are one's."""
        return "rows" if self.data.people is None and self.data.repeated is not None else "people"

    @property
    def without_share(self) -> tuple[str, ...]:
        """Numbers, the target too, of which no share is known while that of others is."""
        if self.people is None or not self.people.measured:
            return ()
        listed = (*self.attributes, *(() if self.label is None else (self.label,)))
        yes_no = {each.name for each in self.attributes if each.yes_no}
        return tuple(
            each.name for each in listed if each.kind == "number" and each.revealed is None and each.name not in yes_no
        )

    @property
    def number_measured(self) -> int:
        """How many have an eta: training rows, or people where several rows belong to one."""
        return self.data.train_rows if self.data.people is None else self.data.people


def read_summary(summary: Mapping[str, Any] | Summary) -> Summary:
    """The record of a summary of JSON types, also of one that an earlier version wrote."""
    if isinstance(summary, Summary):
        return summary
    if not isinstance(summary, Mapping) or summary.get("schema") not in (SCHEMA, EARLIER):
        found = summary.get("schema") if isinstance(summary, Mapping) else type(summary).__name__
        raise InvalidInputError(
            f"A report is made from a summary of schema {SCHEMA!r}; got {found!r}. Run the audit again."
        )
    if summary["schema"] == EARLIER:
        summary = _in_words_of_now(summary)
    cost = summary.get("tradeoff")
    if isinstance(cost, Mapping) and isinstance(cost.get("also"), Mapping):  # one, as until version 0.2
        summary = {**summary, "tradeoff": {**cost, "also": [cost["also"]]}}
    return read_record(Summary, summary, "summary")


def _in_words_of_now(summary: Mapping[str, Any]) -> Json:
    """A summary of schema 1 with the words of schema 2 for its values; names of fields are read with the records."""
    made: Json = {**summary, "schema": SCHEMA}
    prices, checks = summary.get("prices"), summary.get("diagnostics")
    if isinstance(prices, Mapping) and prices.get("over") == "admissible":
        made["prices"] = {**prices, "over": "any-record"}
    if isinstance(checks, Mapping) and isinstance(checks.get("seconds"), Mapping):
        seconds = {"membership" if step == "presence" else step: took for step, took in checks["seconds"].items()}
        made["diagnostics"] = {**checks, "seconds": seconds}
    return made

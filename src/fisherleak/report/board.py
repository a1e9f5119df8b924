"""One page of an audit that may be handed out: what was stated, which rules passed, utility to two digits, and no row.

It reads what no row decides (``Stated``), and of the data: the rows to two digits, utility to two digits, and whether each rule
passed. Nothing else of a summary reaches it, so that nothing else of the data can.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fisherleak._support.numbers import CALLED, MINUS, NOTHING, number, two_digits
from fisherleak.auditing.policy.policy import EVERY
from fisherleak.auditing.report_summary import MeasuredUtility, SecondCurve, Stated, StatedRule, Summary, UtilityCurve
from fisherleak.errors import InvalidInputError
from fisherleak.report.render import page_without_scripts
from fisherleak.report.view import clipped

MOST_RULES, MOST_COLUMNS, LONGEST = 16, 30, 60
"""Rules, columns and letters of a name that are shown: the page is one sheet of paper."""
NO_NOISE = (
    "A board page needs a noise scale that you choose: the default scale is computed from the data and reveals a little "
    "about one row. Add `noise`."
)
UNSETTLED = "A board page cannot be made: {}"
EARLIER = (
    "This summary does not say what was declared and what was computed from rows: run the audit again for a board page."
)
NO_BREAK = "\N{NO-BREAK SPACE}"
SHARES = {"max_revealed", "max_attack", "max_right", "max_accuracy", "max_gain"}
"""Keys whose limit is a share."""
OF_VALUE = {
    "max_revealed": "Share revealed, on average, of {}",
    "min_error": "Least error of an attacker about {}",
    "max_eta": "η of {}",
    "max_attack": "How often the best attacker guesses correctly: {}",
}
OF_MODEL = {
    "rows.max_eta": "η of any {one}",
    "groups.max_eta_joint": "η of any group, all of it together",
    "groups.max_eta_mean": "Mean η of any group",
    "groups.max_ratio": "Mean η of the most exposed group, as a multiple of the least exposed",
    "membership.max_right": "How often the best test of membership is correct (chance: 50 %)",
    "membership.max_epsilon": "Epsilon of membership, for this table",
    "attacks.max_accuracy": "How often the best attacker guesses any category correctly",
    "attacks.max_gain": "How much more often any category is guessed correctly than without the model",
    "utility.min": "Utility with the noise",
    "utility.max": "Utility with the noise (less is better)",
    "utility.max_loss": "Utility that the noise costs",
}
EVERY_VALUE = {
    "max_revealed": "any numeric value without a rule of its own",
    "max_attack": "any category, or numeric column of few values, without a rule of its own",
}


@dataclass(frozen=True)
class BoardRule:
    """What a rule is about, what is known of it, and whether it passed."""

    what: str
    known: str
    passed: bool


@dataclass(frozen=True)
class BoardUtility:
    """One measure, to two digits."""

    name: str
    with_noise: str
    without: str
    baseline: str
    better: str


@dataclass(frozen=True)
class Board:
    """All that the page shows."""

    created: str
    version: str
    target: str
    one: str
    count: str
    verdict: str
    columns: tuple[str, ...]
    more_columns: int
    noise: str
    rules: tuple[BoardRule, ...]
    more_rules: tuple[int, int]
    """Rules that are not shown: passed, and failed."""
    utility: tuple[BoardUtility, ...]
    scored_on: str
    counted: bool
    """Whether what preprocessing learned is counted."""
    raw_units: bool
    """Whether a limit on rows is in the units of the columns; rules of a policy are not."""

    @property
    def keys(self) -> frozenset[str]:
        """What the rules are about, for the words that explain it."""
        told = {"η": "eta", "Share": "share", "membership": "membership", "Epsilon": "epsilon", "guess": "attack"}
        return frozenset(word for text, word in told.items() for rule in self.rules if text in rule.what)


def board_page(summary: Summary) -> str:
    """The page as the text of one HTML file, in the style of the report and without scripts."""
    return page_without_scripts("board.html.j2", {"board": board_of(summary)})


def board_of(summary: Summary) -> Board:
    """What the page shows; refused where one row might decide more of it than the documentation lists."""
    stated, data = summary.stated, summary.data
    if stated is None:
        raise InvalidInputError(EARLIER)
    if stated.unsettled:
        raise InvalidInputError(UNSETTLED.format(stated.unsettled))
    noise = _noise(summary, stated)
    one = "row" if data.people is None else "person"
    raw_units = summary.raw_units and (summary.gate is not None or stated.eta is not None)
    # a limit beside the policy is the first
    units = [
        " in the units of the columns" if raw_units and summary.gate and k == 0 else ""
        for k in range(len(stated.rules))
    ]
    rules = sorted(
        (_rule(*pair, data.target, one) for pair in zip(stated.rules, units, strict=True)), key=lambda rule: rule.passed
    )
    shown, left = rules[:MOST_RULES], rules[MOST_RULES:]
    people = "" if data.people is None else f" of about {number(two_digits(data.people))} people"
    passed = sum(rule.passed for rule in left)
    return Board(
        created=summary.created[:10],
        version=summary.versions.get("fisherleak", ""),
        target=clipped(data.target, LONGEST),
        one=one,
        count=f"about {number(two_digits(data.train_rows))} rows{people}",
        verdict=_verdict(rules),
        columns=tuple(clipped(name, LONGEST) for name in stated.columns[:MOST_COLUMNS]),
        more_columns=len(stated.columns[MOST_COLUMNS:]),
        noise=noise,
        rules=tuple(shown),
        more_rules=(passed, len(left) - passed),
        utility=tuple(_utility(summary)),
        scored_on="rows that the model was not fitted on" if summary.tradeoff.held_out else "the rows it was fitted on",
        counted=summary.model.public == "nothing",
        raw_units=raw_units,
    )


def _noise(summary: Summary, stated: Stated) -> str:
    """The noise as it was stated. A scale that was computed from the rows is a measured maximum, and stays out."""
    kind = summary.noise.kind
    if stated.scale is not None and stated.shaped:
        return f"{kind} noise of scale {stated.scale:.6g}, with its own covariance, is added to the model's parameters."
    if stated.scale is not None:
        return f"{kind} noise of scale σ = {stated.scale:.6g} is added to every parameter of the model."
    if stated.eta is not None:
        whose = "row" if summary.data.people is None else "person"
        if summary.released is not None:
            return (
                f"{kind} noise was added when the model was released, for a limit of {stated.eta:.6g} on the η of every "
                f"{whose}. The model card has its scale and covariance, and says for whom the limit holds."
            )
        units = " in the units of the columns" * summary.raw_units
        return (
            f"The least {kind} noise that keeps the η of every {whose}{units} at {stated.eta:.6g} or below is added to the "
            "model's parameters. Its scale was computed from the data and is not shown."
        )
    raise InvalidInputError(NO_NOISE)


def _verdict(rules: list[BoardRule]) -> str:
    failed = sum(not rule.passed for rule in rules)
    if not rules:
        return "No rule was set, so this page cannot say whether the model may be published."
    if failed:
        return f"Failed: {failed} of {len(rules)} rule{'s' * (len(rules) > 1)}."
    return "Passed: the one rule." if len(rules) == 1 else f"Passed: all {len(rules)} rules."


def _rule(rule: StatedRule, units: str, target: str, one: str) -> BoardRule:
    what, key = f"{rule.section}.{rule.key}", rule.key
    if rule.section == "require":
        said = ", ".join(map(str, rule.limit)) if isinstance(rule.limit, (list, tuple)) else str(rule.limit)
        said = "" if rule.limit is True else f": {clipped(said, LONGEST)}"
        return BoardRule(f"Required setting, {key.replace('_', ' ')}{said}", "", rule.passed)
    if rule.section in ("columns", "label"):
        name = target if rule.column is None else rule.column
        own = OF_VALUE[key].format(EVERY_VALUE[key] if rule.column == EVERY else f"“{clipped(name, LONGEST)}”")
    else:
        own = OF_MODEL[what].format(one=one) + units + ("" if rule.delta is None else f", at delta {rule.delta:g}")
    limit = f"{100 * rule.limit:.6g} %" if key in SHARES else f"{rule.limit:.6g}".replace("-", MINUS)
    limit = f"± {limit}" if key == "min_error" else limit
    words = ("at least", "below") if key == "min" or key.startswith("min_") else ("at most", "above")
    return BoardRule(own, f"{words[not rule.passed]} {limit}".replace(" ", NO_BREAK), rule.passed)


def _utility(summary: Summary) -> Iterator[BoardUtility]:
    """Every measure that the kind of model has, in one order: which of them leads may depend on the rows."""
    cost, scale = summary.tradeoff, summary.noise.scale
    order = [*CALLED]
    every: list[UtilityCurve | SecondCurve] = [cost, *cost.also]
    known = [each for each in every if each.points]
    known.sort(key=lambda each: order.index(each.metric) if each.metric in order else len(order))
    for each in known:
        near = min(each.points, key=lambda point: abs(math.log(point.scale / scale)))
        called = CALLED.get(each.metric, each.metric)
        yield BoardUtility(
            name=called[0].upper() + called[1:],
            with_noise=_two_digits(each, near.utility),
            without=_two_digits(each, each.without_noise),
            baseline=_two_digits(each, each.baseline),
            better="more" if each.higher_is_better else "less",
        )


def _two_digits(cost: MeasuredUtility, value: float | None) -> str:
    """Whole hundredths of what is at most 1, and two digits of the others."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if cost.metric == "accuracy":
        return f"{100 * value:.0f} %"
    if abs(value) < 1:
        said = f"{value:.2f}"
        return "0.00" if said == "-0.00" else said.replace("-", MINUS)
    return number(float(value), 2)

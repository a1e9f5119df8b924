"""Functions that read a summary's record, for tests that hold its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fisherleak.auditing.fitted_models import summary_of_leakage as of_leakage
from fisherleak.auditing.plain_records import as_json
from fisherleak.auditing.report_summary import read_summary
from fisherleak.cli import _print_audit
from fisherleak.report import sentences, verdict
from report import sample

Json = Mapping[str, Any]


def verdict_of(summary: Json) -> verdict.Verdict | None:
    return verdict.verdict_of(read_summary(summary))


def choices_in_words(summary: Json) -> list[tuple[str, str, str]]:
    return verdict.choices_in_words(read_summary(summary))


def utility_between(summary: Json, scale: float) -> float | None:
    return read_summary(summary).tradeoff.at(scale)


def show_audit(summary: Json) -> None:
    _print_audit.show_audit(read_summary(summary), verbose=True)


def summary_of_leakage(*leak: Any, **options: Any) -> dict[str, Any]:
    made: dict[str, Any] = as_json(of_leakage.summary_of_leakage(*leak, **options))
    return made


def columns_used(part: Json) -> int:
    """Of a summary with these columns and attributes, which are told by their names."""
    made = sample.summary()
    column, attribute = made["data"]["columns"][0], made["attributes"][0]
    made["data"]["columns"] = [column | own for own in part["data"]["columns"]]
    made["attributes"] = [attribute | own for own in part["attributes"]]
    return sentences.columns_used(read_summary(made))

"""The record of what a report shows: its JSON is what was read, values are plain, and what earlier versions lack is filled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.auditing import report_summary as record
from fisherleak.auditing.plain_records import Record, as_json
from fisherleak.auditing.report_summary import Summary, read_summary
from report import sample

REPORTS = sorted((Path(__file__).parents[2] / "docs" / "reports").glob("*.json"))


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_what_was_read_is_written_byte_for_byte(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    written = json.dumps(as_json(read_summary(json.loads(text))), indent=1, allow_nan=False, ensure_ascii=False)
    assert written == text.rstrip("\n")


def not_held(schema: dict[str, Any], kind: type[Record], path: str) -> Iterator[str]:
    """Names of a schema that a record has no field for."""
    hints = get_type_hints(kind)
    for name, own in schema.get("properties", {}).items():
        field = next((each for each in hints if each.rstrip("_") == name), None)
        if field is None:
            yield f"{path}.{name}"
            continue
        parts = [part for part in (hints[field], *get_args(hints[field])) if isinstance(part, type)]
        for part in (part for part in parts if issubclass(part, Record)):
            for choice in (own, *own.get("oneOf", ())):
                yield from not_held(choice.get("items", choice), part, f"{path}.{name}")


def test_the_record_has_what_the_published_schema_lists() -> None:
    published = json.loads(files("fisherleak.report").joinpath("summary.schema.json").read_text(encoding="utf-8"))
    assert list(not_held(published, Summary, "summary")) == []
    published["properties"]["gate"]["oneOf"][0]["properties"]["rows"]["items"]["properties"]["age"] = {}
    assert list(not_held(published, Summary, "summary")) == ["summary.gate.rows.age"]


def test_every_part_is_a_frozen_record() -> None:
    held = [kind for kind in vars(record).values() if isinstance(kind, type) and issubclass(kind, Record)]
    kinds = [kind for kind in held if kind is not Record]
    assert len(kinds) > 30
    for kind in kinds:
        assert is_dataclass(kind)
        assert getattr(kind, "__dataclass_params__").frozen  # noqa: B009 - typing does not know it
    assert {each.name for each in fields(Summary)} >= {"rows", "attributes", "label", "tradeoff", "next"}


def test_values_are_plain_and_what_is_not_finite_is_none() -> None:
    given: dict[str, Any] = {"name": "a", "count": np.int64(2), "mean": np.float64("nan"), "counts": np.array([1, 1])}
    made: Any = record.HistogramGroup(**given)
    assert as_json(made) == {"name": "a", "count": 2, "mean": None, "counts": [1, 1]}
    assert [type(value) for value in (made.count, made.counts, made.counts[0])] == [int, tuple, int]
    with pytest.raises(AttributeError):
        made.count = 3


def test_fields_of_people_are_written_only_for_people() -> None:
    row = record.GateRow(row=3, id=None, eta=1.0)
    assert as_json(row) == {"row": 3, "id": None, "eta": 1.0}
    assert row.label == "3"
    person = record.GateRow(row=3, id="Ann", eta=1.0, rows=2)
    assert list(as_json(person)) == ["row", "id", "eta", "rows"]
    assert person.label == "Ann"


@pytest.mark.long
def test_what_earlier_versions_did_not_write_is_filled() -> None:
    made = sample.summary()
    for name in ("label", "people", "distinguishable", "policy", "membership", "next"):
        del made[name]
    del made["model"]["public"]
    found = read_summary(made)
    assert (found.label, found.people, found.distinguishable, found.policy, found.membership) == (
        None,
        None,
        (),
        None,
        None,
    )
    assert (found.noise.kind, found.model.public, found.next.note) == ("Gaussian", "preprocessing", "")
    assert (found.values, found.number_measured) == (found.attributes, made["data"]["train_rows"])
    assert read_summary(found) is found


def test_keys_that_are_not_known_are_left_out() -> None:
    made = sample.summary()
    assert read_summary(made | {"later": 1}) == read_summary(made)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("tradeoff", 3, "'tradeoff' of a summary is an object; got int"),
        ("groups", [1], "'groups' of a summary is an object; got int"),
        ("model", {"kind": "linear"}, "The summary has no 'assumed'"),
        ("versions", {"numpy": float("nan")}, "A summary holds NaN"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(place: str, value: Any, said: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=said):
        read_summary(sample.summary() | {place: value})


def test_one_other_measure_of_earlier_files_is_a_list_of_one() -> None:
    made = sample.summary()
    curve = {
        name: made["tradeoff"][name] for name in ("metric", "label", "higher_is_better", "without_noise", "baseline")
    }
    made["tradeoff"]["also"] = curve | {"points": made["tradeoff"]["points"]}
    (other,) = read_summary(made).tradeoff.also
    assert (other.metric, len(other.points)) == (curve["metric"], len(made["tradeoff"]["points"]))


def as_schema_1(made: Any, kind: type[Record] = Summary) -> Any:
    """JSON of a summary with the names that fields had in schema 1."""
    if isinstance(made, list):
        return [as_schema_1(each, kind) for each in made]
    before = {now: old for old, now in kind.renamed.items()}
    hints = get_type_hints(kind)
    done = {}
    for name, value in made.items():
        held = (
            [part for part in (hints[name], *get_args(hints[name])) if isinstance(part, type)] if name in hints else []
        )
        inner = next((part for part in held if issubclass(part, Record)), None)
        done[before.get(name, name)] = value if inner is None or value is None else as_schema_1(value, inner)
    return done


def test_summaries_of_schema_1_are_read() -> None:
    now = sample.summary()
    now["diagnostics"]["seconds"] = {"fit": 1.0, "membership": 2.0}
    earlier = as_schema_1(now) | {"schema": "fisherleak.summary/1"}
    earlier["diagnostics"]["seconds"] = {"fit": 1.0, "presence": 2.0}
    now["prices"] = {"over": "any-record"}
    earlier["prices"] = {"over": "admissible"}
    text = json.dumps(earlier)
    for old in ("told_apart", "right_max", "right", "constant", "levels", "presence"):
        assert f'"{old}"' in text
    assert read_summary(earlier) == read_summary(now)


def test_fields_have_their_old_names_too_with_a_warning() -> None:
    found: Any = read_summary(sample.summary())
    with pytest.warns(FutureWarning, match="`told_apart` of Summary is called `distinguishable` now"):
        assert found.told_apart is found.distinguishable
    with pytest.warns(FutureWarning, match="`baseline` now"):
        assert found.tradeoff.constant == found.tradeoff.baseline
    with pytest.raises(AttributeError, match="'Summary' object has no attribute 'membersip'"):
        _ = found.membersip


def test_attacks_on_single_rows_and_on_whole_people_are_told_apart_where_a_column_has_both() -> None:
    first = read_summary(sample.summary()).attacks[0]
    both = [
        replace(first, attribute=name, method=f"{count}, 100 releases")
        for name, count in (("sex", "3 rows"), ("sex", "2 people"), ("age", "2 people"))
    ]
    assert record.attacked_whole(both) == ["single rows", "all rows of a person", ""]
    assert record.attacked_whole(both[2:]) == [""]

"""Kinds of columns: guessed, and said."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pyarrow as pa

from fisherleak.tables import Choices, from_frame
from fisherleak.tables.decide.column_kinds import decide
from fisherleak.tables.decide.fewer_rows import use_unsettled
from fisherleak.tables.decide.profile import profiles_of
from tables.small import kinds, many


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.arange(60.0), "number"),
        (np.arange(60), "number"),
        (pa.array([Decimal(i) for i in range(60)], pa.decimal128(5, 2)), "number"),
        (pa.array([True, False] * 30), "category"),
        (["a", "b"] * 30, "category"),
        (pa.array(["a", "b"] * 30).dictionary_encode(), "category"),
        (pa.array(["a", "b"] * 30, pa.large_string()), "category"),
        ([f"name {i}" for i in range(60)], "ignored"),
        (["a"] * 60, "ignored"),
        (pa.array(range(60), pa.date32()), "ignored"),
        (pa.array(range(60), pa.timestamp("s")), "ignored"),
        ([[1]] * 60, "ignored"),
        ([b"x"] * 60, "ignored"),
    ],
)
def test_kinds(values: Any, kind: str) -> None:
    assert kinds(many(x=values))["x"] == kind


def test_two_numbers_are_measured_as_yes_or_no_whatever_they_are() -> None:
    turns = np.arange(60) % 2
    raw = from_frame(many(vip=turns, half=turns / 2, two=turns + 1, three=np.arange(60) % 3, gap=[0, 1, None] * 20))

    def measured(**said: Any) -> dict[str, tuple[str, bool]]:
        choices = Choices("y", **said)
        return {c.name: (c.kind, c.yes_no) for c in decide(raw, profiles_of(raw, choices, False), choices)}

    found = measured()
    assert {name for name, (_, yes_no) in found.items() if yes_no} == {"vip", "half", "two", "gap"}
    assert found["vip"] == found["gap"] == ("number", True)
    assert measured(numbers=("vip",))["vip"] == ("number", False)
    assert measured(categories=("vip",))["vip"] == ("category", False)


def test_numbers_called_id_are_identifiers_only_if_they_differ() -> None:
    assert kinds(many(id=np.arange(60)))["id"] == "ignored"
    assert kinds(many(patient_id=np.arange(1, 61)))["patient_id"] == "ignored"
    assert kinds(many(id=np.arange(60) % 7))["id"] == "number"
    assert kinds(many(id=np.arange(60)), numbers=("id",))["id"] == "number"
    assert kinds(many(year=np.arange(60)))["year"] == "number"


IDS = {
    **{
        name: np.arange(1, 61)
        for name in ("PID", "MemberID", "pidnum", "PassengerId", "SSN", "MRN", "subject", "obs", "X")
    },
    **{
        name: np.arange(1, 61)
        for name in ("...1", "Unnamed: 0", "__index_level_0__", "Case.No", "hhid", "subjid", "X.1", "ID2", "patient_no")
    },
    "row id": np.arange(60) + 0.0,
    "patient": np.random.default_rng(0).permutation(60) * 7919,
    "id": np.where(np.arange(60) == 30, 29, np.arange(60)),
    "nr": np.where(np.arange(60) == 30, np.nan, np.arange(60)),
    "person": np.repeat(np.arange(30), 2),
    **{name: np.where(np.arange(60) == 17, 17.5, np.arange(1, 61)) for name in ("SubjID", "X.2", "rownames")},
    "clientid": np.where(np.arange(60) == 17, 3.25, np.random.default_rng(0).permutation(60) * 7919),
    "X.3": np.random.default_rng(0).permutation(60) + 5,
    "X.4": np.where(np.arange(60) == 17, 17.5, np.random.default_rng(0).permutation(60)),
    "Unnamed: 1": np.random.default_rng(0).permutation(60) * 7919,
    "__index_level_1__": np.random.default_rng(0).permutation(60),
    "__index_level_2__": np.random.default_rng(0).normal(size=60),
    "subj_id": np.random.default_rng(0).permutation(np.repeat(np.arange(30), 2)),
    "schoolid": np.tile(np.arange(30) * 7919, 2),
    "ptid": np.where(np.arange(60) == 17, 8.5, np.repeat(np.arange(30), 2)),
}


SHUFFLED = np.random.default_rng(0).permutation(np.repeat(np.arange(30), 2))
IDS |= {
    **dict.fromkeys(("RANDID", "HospID", "TagID", "X.ID", "pupilNR", "PatNr", "FIPS", "AreaKey"), SHUFFLED * 7919),
    **dict.fromkeys(("Kundennummer", "Matrikelnr", "Schülernr", "Versicherten-Nr."), SHUFFLED * 7919),  # German
    **dict.fromkeys(("numero_dossier", "N° dossier", "num_client", "id_élève", "matricule"), SHUFFLED * 7919),  # French
    **dict.fromkeys(("id_paciente", "Número de cliente", "expediente_nro"), SHUFFLED * 7919),  # Spanish
    **dict.fromkeys(("numero_paziente", "codice_assistito", "matricola"), SHUFFLED * 7919),  # Italian
    **dict.fromkeys(("num_aluno", "Nº utente", "codigo_funcionario"), SHUFFLED * 7919),  # Portuguese
    **{name: np.arange(60) for name in ("kid", "no", "Telefon", "lfd. Nr.", "V1", "x1")},
    "insured": 7_560_000_000_000 + SHUFFLED * 104_729,  # 13 digits
    "reach": 41_790_000_000 + np.random.default_rng(0).permutation(60) * 7919,  # telephone numbers
    "number": 100_000_000 + 13 * np.arange(60),
}


@pytest.mark.parametrize("name", IDS)
def test_identifiers_by_name_and_content_are_left_out_unless_they_are_asked_for(name: str) -> None:
    table = many(**{name: IDS[name], "z": np.arange(60.0) ** 2})
    assert kinds(table)[name] == "ignored"
    assert kinds(table, numbers=(name,))[name] == "number"


@pytest.mark.parametrize(
    "name",
    ["acid", "paid", "covid", "grid", "x", "X2", "year", "humid", "solid", "covid2", "COVID2", "PAID", "members"],
)
def test_content_alone_makes_no_identifier(name: str) -> None:
    assert kinds(many(**{name: np.arange(1, 61)}))[name] == "number"


def test_a_name_alone_makes_no_identifier() -> None:
    rng = np.random.default_rng(0)
    assert kinds(many(case=rng.integers(0, 3, 60)))["case"] == "number"
    assert kinds(many(X=7 * rng.permutation(60)))["X"] == "number"
    assert kinds(many(X=rng.integers(0, 60, 60)))["X"] == "number"
    assert kinds(many(subject=rng.normal(size=60)))["subject"] == "number"
    for generic in ("x1", "X1", "X", "V1", "x.1"):  # a patient's age, say
        assert kinds(many(**{generic: 18 + 7 * rng.permutation(60)}))[generic] == "number"
        assert kinds(many(**{generic: rng.permutation(60)}))[generic] == "ignored"
    for count in ("num_patients", "no_of_children", "education-num", "nchild"):
        assert kinds(many(**{count: rng.integers(0, 60, 60)}))[count] == "number"
    assert kinds(many(account=np.where(np.arange(60) % 20 == 0, 0.5, 0) + np.arange(60)))["account"] == "number"
    many_each = rng.permutation(np.repeat(np.arange(30), 2))
    for vague in ("no", "case", "index", "account", "suizid"):
        assert kinds(many(**{vague: many_each}))[vague] == "number"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("time_ms", 1_500_000_000_000 + np.arange(60) * 7919),
        ("population", 10 ** (7 + np.arange(60) % 4) + 13 * np.arange(60)),  # of several lengths
        ("price", 90_000_000 + 7919 * np.arange(60)),
        ("area", 1_500_000_000.5 + np.arange(60) * 7919),
    ],
)
def test_long_numbers_that_are_measured_stay(name: str, values: Any) -> None:
    assert kinds(many(**{name: values}))[name] == "number"


def test_many_people_whose_rows_stand_together_are_an_identifier() -> None:
    """More of them than are followed: their number is an estimate."""
    who = np.repeat(np.random.default_rng(0).permutation(6_000) * 11, 2)
    table = pa.table({"tkid": who, "y": np.arange(12_000.0) % 977})
    assert kinds(table)["tkid"] == "ignored"
    raw = from_frame(table)
    assert "`person='tkid'`" in decide(raw, profiles_of(raw, Choices("y"), False), Choices("y"))[0].note


def test_whether_one_row_settles_that_a_number_is_used() -> None:
    def settled(name: str, values: Any, one: int = 1) -> bool:
        raw = from_frame(many(**{name: values}))
        profiles = profiles_of(raw, Choices("y"), False)
        return name not in use_unsettled(raw, decide(raw, profiles, Choices("y")), profiles, Choices("y"), one)

    assert settled("id", np.arange(60))
    assert settled("id", np.arange(60) % 6)
    assert not settled("id", np.r_[np.arange(20), np.arange(20), np.arange(19), 20])  # without 20 it has twenty values
    assert settled("id", np.arange(60) // 2)
    assert settled("age", np.arange(60) % 6)
    assert settled("x1", np.arange(60) // 2 / 4)  # of 44 fractions all but a slip would have to go
    assert not settled("x1", np.r_[0.5, 1.5, np.arange(2, 60)])  # of two all but a slip
    assert not settled("reach", 10**9 + np.r_[-1, np.arange(59)])  # without the first all have as many digits


def test_the_note_on_somebody_with_several_rows_names_person() -> None:
    shuffled = np.random.default_rng(0).permutation(np.repeat(np.arange(30), 2))
    raw = from_frame(many(id=shuffled, person_no=np.repeat(np.arange(30), 2)))
    found = decide(raw, profiles_of(raw, Choices("y"), False), Choices("y"))
    assert "`person='id'`" in found[0].note
    assert "`numbers` keeps it" in found[0].note
    assert "`person='person_no'`" in found[1].note
    assert kinds(many(id=shuffled), categories=("id",))["id"] == "category"


def test_text_that_names_what_several_rows_belong_to_is_left_out() -> None:
    assert kinds(many(subject=[f"s{k // 2}" for k in range(60)]))["subject"] == "ignored"
    assert kinds(many(town=[f"s{k // 2}" for k in range(60)]))["town"] == "category"


def test_columns_called_by_their_place_are_not_called_identifiers() -> None:
    places = [f"place {k % 27}" for k in range(60)]
    table = pa.table({"column 1": places, "column 2": np.arange(60) * 7 % 61, "y": np.arange(60.0)})
    assert kinds(table)["column 1"] == "ignored"  # the one column that has no name
    raw = from_frame(table.rename_columns(["column 1", "column 2", "column 3"]))
    found = decide(raw, profiles_of(raw, Choices("column 3"), False), Choices("column 3"))
    assert [column.kind for column in found] == ["category", "number", "target"]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ([f"{40 + k}.5 kg" for k in range(60)], "numbers with units"),
        ([f"<{k}.0" if k % 5 == 0 else f"{k}.5" for k in range(60)], "`numbers` takes what is a number"),
        ([f"{1 + k % 28}.4.20{10 + k}" for k in range(60)], "are dates"),
        ([f"{1 + k % 12}/3/20{10 + k}" for k in range(60)], "are dates"),
        ([f"Street {k}" for k in range(60)], "as names and identifiers do"),
        ([f"{k}B{k * 7}" for k in range(60)], "as names and identifiers do"),
    ],
)
def test_amounts_and_dates_as_text_are_called_that(cells: list[str], reason: str) -> None:
    raw = from_frame(many(x=cells))
    column = decide(raw, profiles_of(raw, Choices("y"), False), Choices("y"))[0]
    assert column.kind == "ignored"
    assert reason in column.note


def test_an_empty_column_is_left_out_like_a_constant_one() -> None:
    table = many(e=pa.nulls(60), f=pa.array([None] * 60, pa.float64()), z=np.arange(60.0))
    assert (kinds(table)["e"], kinds(table)["f"]) == ("ignored", "ignored")

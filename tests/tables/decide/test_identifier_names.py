"""Names of identifiers in six languages, of people and of others; counts, words and codes are none."""

from __future__ import annotations

import pytest

from fisherleak.tables.decide.identifier_names import looks_called_id, names_people, names_somebody

PEOPLE = {
    "English": ("patient_id", "RANDID", "pupilNR", "MRN", "customer no.", "member_code", "passport_no", "id"),
    "German": ("Kundennummer", "PatNr", "Matrikelnr", "Schülernr", "Versicherten-Nr.", "PersNr"),
    "French": ("numero_dossier", "numéro patient", "N° patient", "id_élève", "numéro_sécu", "matricule"),
    "Spanish": ("id_paciente", "Nº de cliente", "nro_expediente", "expediente", "cod_cliente", "cédula", "NHC"),
    "Italian": ("numero_paziente", "paziente", "codice_assistito", "cod_paziente", "matricola"),
    "Portuguese": ("num_aluno", "codigo_utente", "id_doente", "matrícula"),
}


@pytest.mark.parametrize("language", PEOPLE)
def test_people(language: str) -> None:
    assert all(map(names_people, PEOPLE[language]))
    assert all(map(names_somebody, PEOPLE[language]))
    assert all(map(looks_called_id, PEOPLE[language]))


@pytest.mark.parametrize(
    "name",
    ["HospID", "school_id", "FIPS", "AreaKey", "Kontonr", "TagID", "X.ID", "telefono", "StudyNo", "admission_number"],
)
def test_others_than_people(name: str) -> None:
    assert names_somebody(name)
    assert not names_people(name)


@pytest.mark.parametrize("name", ["no", "case", "index", "kid", "suizid", "Unnamed: 0", "lfd. Nr."])
def test_names_that_may_be_something_else(name: str) -> None:
    assert looks_called_id(name)
    assert not names_somebody(name)


@pytest.mark.parametrize(
    "name",
    [
        "num_patients",
        "no_of_children",
        "education-num",
        "casino",
        "platinum",
        "COVID2",
        "paid",
        "code",
        "pcode",
        "order",
    ],
)
def test_counts_words_and_codes(name: str) -> None:
    assert not looks_called_id(name)

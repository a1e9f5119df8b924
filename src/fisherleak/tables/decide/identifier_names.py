"""Names of columns that number rows, people or records, in English, German, French, Spanish, Italian and Portuguese.

A name decides nothing alone: ``column_kinds`` holds it against the values. Some names are an identifier's and nothing else
(``names_somebody``); generic ones (``X``, ``x1``) may be anything.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

__all__ = ["INDEX_LEVEL", "bare_name", "called_ids", "is_generic", "looks_called_id", "names_people", "names_somebody"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PEOPLE = {
    "English": "person patient pat pt p subject subj sub individual indiv member client customer cust user student stud pupil "
    "child kid mother teacher employee emp worker staff respondent resp participant rand applicant borrower nhs passport",
    "German": "kunde kunden patienten mitglied mitglieder mitglieds schueler kind versicherten versicherte versicherungs "
    "mitarbeiter personal personen pers matrikel probanden proband teilnehmer klienten klient bewohner",
    "French": "eleve etudiant assure adherent salarie enfant sujet individu beneficiaire dossier personne secu "
    "securitesociale",
    "Spanish": "paciente cliente alumno estudiante empleado socio sujeto persona afiliado trabajador expediente",
    "Italian": "paziente studente alunno dipendente assistito soggetto cartella tessera",
    "Portuguese": "aluno estudante funcionario utente doente sujeito pessoa prontuario",
}
"""Whom a number may belong to, in small letters without accents."""
RECORDS = {
    "English": "household hh family fam school class clinic hospital hosp firm company account acct policy insurance claim "
    "record case area region tract tag site centre center plot cluster store branch transaction order invoice ticket tax "
    "phone contract serial code study loan chart admission",
    "German": "fall akten vertrags vertrag konto haushalts haushalt steuer sozialversicherungs rechnungs betriebs telefon "
    "handy bezirks gemeinde",
    "French": "menage compte contrat facture telephone commune etablissement",
    "Spanish": "hogar cuenta contrato factura telefono historia historiaclinica municipio",
    "Italian": "famiglia conto contratto fattura pratica comune polizza",
    "Portuguese": "domicilio conta processo fatura telefone municipio",
}
"""What else a number may belong to: records, households, places."""
NUMBERS = "no nr num number nbr nummer numero nro id ids"
"""Words for a number that something is called by, before or behind it."""
ALONE = _words(
    "accountnumber ahv ahvnr aktenzeichen bsn codeid codicefiscale countyfips cpf dni fips fipscode geoid guid handy hhid "
    "iban id idcode identifiant identificador identificativo identifikator idno idnr idnum ids kennung matricola matricula "
    "matricule matrikel memberno mobile mrn ndossier nhs nhsnumber nif nino nir nosub nss participant passport patient "
    "person personalnummer phone pid pidnum pidp ptid ptno respondent seqn ssn steuerid studentno subj subject subjno subno "
    "subnum svnr telefon telefone telefono telephone uid uuid versichertennr paciente paziente expediente dossier utente "
    "prontuario cedula cpr curp nhc nip pesel admno"
)
"""Names that are an identifier's and nothing else, as far as values agree."""
VAGUE = _words(
    "account case caseno casenum casenumber index key kid laufendenummer laufnr level0 lfdnr no nr nro num numero "
    "numerodordre nummer obs observation obsno obsnum recno record row rownames rownum rownumber rows seqno serial serialno "
    "sno subjectno zeile"
)
"""Names of identifiers and row numbers that are also those of something else."""
ID_ENDS = re.compile(
    r"(?:^|[^A-Za-z])(?:id|ID|Id|uuid|guid|ssn|mrn|SSN|MRN|key|KEY|Key)\d?$|[a-z](?:ID|Id|KEY|Key)\d?$|^[A-Z]+ID\d?$"
)
ID_STARTS = re.compile(r"^(?:id|ID)[_. ]")
ID_WORDS = _words(
    "acid aid amid aminoacid android arid asteroid bid covid fluid grid hid humid hybrid invalid laid lid lipid liquid maid "
    "mid opioid overpaid paid plaid prepaid raid rapid rid said skid solid spheroid steroid thyroid timid typhoid unpaid "
    "valid void"
)
"""Words that end in id and are none."""
ROW_NAMES = re.compile(r"^(?:X|X\.\d+|\.\.\.\d+|[Uu]nnamed.*|column \d+'*|__index_level_\d+__)$")
"""What programs call a column of row numbers that has no name."""
GENERIC = re.compile(r"^(?:[Xx](?:\.?\d+)?|[Vv]1)$")
"""Those of them that are also what predictors are called."""
INDEX_LEVEL = re.compile(r"^__index_level_\d+__$")
"""What pandas calls an index without a name in a file."""
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "°": "o"})
BY_PLACE = re.compile(r"^column \d+'*$")
"""What columns are called here that have no name."""


def _either_way(words: dict[str, str]) -> re.Pattern[str]:
    """A word with one for a number behind it, or before it: Kundennummer, numero_dossier, id_paciente."""
    some = "|".join(sorted({word for own in words.values() for word in own.split()}, key=len, reverse=True))
    number = "|".join(sorted(NUMBERS.split(), key=len, reverse=True))
    long = "|".join(word for word in some.split("|") if len(word) > 3)  # pcode is no person's
    # singular: num_patients is a count
    return re.compile(
        rf"(?:{some})s?(?:{number})|(?:{long})s?code|(?:{number}|codigo|codice|code?)(?:de|du|del|do|da|di)?(?:{some})"
    )


OF_PEOPLE, OF_RECORDS = _either_way(PEOPLE), _either_way(RECORDS)
PERSONAL = _words(
    "ahv ahvnr bsn codicefiscale cpf dni guid id idcode idno idnr idnum ids matricola matricula matricule matrikel mrn nhs "
    "nhsno nhsnumber nino nir nosub nss participant patient person pid pidnum pidp respondent ssn subject svnr uid uuid "
    "paciente paziente expediente dossier utente prontuario cedula cpr curp nhc nip pesel"
)
"""Those of people, and of no household, school or firm."""


def bare_name(name: str) -> str:
    """A name in small letters without accents, umlauts and signs."""
    plain = name.strip().lower().translate(UMLAUTS)
    letters = unicodedata.normalize("NFKD", plain)
    return re.sub(r"[\W_]", "", "".join(c for c in letters if not unicodedata.combining(c)))


def looks_called_id(name: str) -> bool:
    """Whether a column's name is one of those that identifiers and row numbers have."""
    bare = bare_name(name)
    if bare in VAGUE or ROW_NAMES.match(name.strip()) or bare in ("x1", "v1"):
        return True
    joined = bare.endswith("id") and bare.isalpha() and bare not in ID_WORDS
    return names_somebody(name) or joined or bool(ID_STARTS.match(name.strip()))


def names_somebody(name: str) -> bool:
    """Whether a name is that of an identifier and of nothing else: id, person, school_id; not no, case, index."""
    bare = bare_name(name)
    if bare.rstrip("0123456789") in ID_WORDS:
        return False
    known = bare in ALONE or OF_PEOPLE.fullmatch(bare) or OF_RECORDS.fullmatch(bare)
    return bool(known or (bare not in VAGUE and ID_ENDS.search(name.strip())))


def names_people(name: str) -> bool:
    """Whether a name is that of an identifier of people and of nothing else."""
    bare = bare_name(name)
    return bare in PERSONAL or OF_PEOPLE.fullmatch(bare) is not None


def is_generic(name: str) -> bool:
    """Whether a name may be a program's for row numbers, or anybody's for a predictor: X, X.1, x1, V1."""
    return GENERIC.match(name.strip()) is not None


def called_ids(names: Sequence[str]) -> frozenset[str]:
    """The columns that are called as identifiers are; none where all are called by their place, as without a header."""
    by_place = len(names) > 1 and all(BY_PLACE.match(name) for name in names)
    return frozenset() if by_place else frozenset(name for name in names if looks_called_id(name))

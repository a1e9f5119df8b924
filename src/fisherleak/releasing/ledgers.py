"""A release of a table on a ledger, and a ledger compared with a table: in the columns' own units, limits in standard ones.

The card of a release has its number on the ledger and a mark, which is keyed with the ledger's key and made of the number, the
checksum of the model's file, the digest of the rest of the card and that of the ledger's entry. Marks of earlier releases are
made without the entry, or without the card. A ledger that was rolled back lacks the release, or has another one at its number.
Nothing inside a file tells that it is an older copy of itself: only what was given out since does.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.json import plain
from fisherleak._support.level_types import check_ids_exact, id_text
from fisherleak._support.namespaces import Json
from fisherleak.engine.jacobian.perturbation import Attribute, Encoding
from fisherleak.engine.losses import get_loss
from fisherleak.engine.noise import Noise
from fisherleak.engine.norms import information_of
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import as_table
from fisherleak.protection.ledger.carried_totals import entry_digest
from fisherleak.protection.ledger.ledger import Ledger, record_release
from fisherleak.protection.ledger.ledger_entries import recordable
from fisherleak.protection.ledger.ledger_file import HALF, entries_of, mark_of, mark_with, read_content, records_of
from fisherleak.protection.ledger.spent_on_rows import (
    UnreadRows,
    Whose,
    check_people,
    held_against,
    largest_people,
    person_columns,
)
from fisherleak.releasing.cards.signatures import card_path, digest_of, file_digest, read_card
from fisherleak.tables import RawTable
from fisherleak.tables.decide.choices import spelled
from fisherleak.tables.design.design import Design, design_of
from fisherleak.tables.read.written_cells import WrittenCells, written_cells
from fisherleak.training.model_kinds import label_rules
from fisherleak.training.trained_model import Settings, Trained


@dataclass(frozen=True)
class Spent:
    """What all recorded releases reveal about the rows of a table, in standard units.

    Attributes
    ----------
    releases : list of dict
        Number, time, words, number of rows and largest eta of each.
    ids : array of shape (n,)
        Of the rows: by the column that names them, or their numbers in the table.
    eta : array of shape (n,)
        Of each row, all its releases together.
    left : int
        Rows of releases that are no longer in the table: the ledger keeps their record.
    renamed : int
        Rows that have the values of a recorded row under another id, and carry its total.
    people : bool
        Whether ids and etas are of people, all rows of each together.
    """

    releases: list[Json]
    ids: NDArray[Any]
    eta: NDArray[np.float64]
    left: int
    renamed: int
    people: bool = False


def spend(
    path: Path, trained: Trained, settings: Settings, noise: Noise, limit: float | None, cells: WrittenCells
) -> int:
    """Record the release of a model with noise on its own coefficients, unless it takes anyone past a limit.

    ``cells`` are those of the table before it was read.
    """
    if trained.design.filled:
        raise InvalidInputError(
            f"`ledger` needs rows without missing values, and '{trained.design.filled[0].column}' has some that are filled. "
            "When the ledger reads the table again, other rows may give another centre. Use `missing='drop'`."
        )
    recordable(trained.leak.with_noise(noise))
    leak = trained.leak.with_noise(noise.rescaled(noise.scale / trained.unit))
    label = (trained.design.target.centre, trained.design.target.scale)
    own, ids = _in_own_units(leak, trained), _ids(trained.design)
    with entries_of(path):
        return record_release(
            *(path, own, ids, None if trained.design.target.classes else label, limit),
            *(_units(trained.design), _about(settings)),
            cells=_cells(cells, trained.design),
            unread=_unread(cells, trained.design, settings)[0],
            whose=_whose(cells, trained.design, settings),
        )


def id_columns(path: Path) -> frozenset[str]:
    """The columns that releases on a ledger knew rows and people by: a file's cells are text there."""
    with entries_of(path):
        told = [each["about"]["settings"] for each in Ledger(path).entries if each["about"]] if path.exists() else []
        return frozenset(each[role].strip() for each in told for role in ("id", "person") if each.get(role))


def spent_on(path: Path, raw: RawTable) -> Spent:
    """What the releases on a ledger have told about the rows of a table, read as for the last of them.

    Recorded rows that are in the table, and that this reading leaves out, are told of too.
    """
    ledger, cells = Ledger(path), written_cells(raw)
    with entries_of(path):
        settings = replace(_settings(ledger), held_out=0.0)
        design = design_of(raw, settings.choices, settings.model, 0.0, settings.seed, None, label_rules())
        ids = _ids(design)
        own = (design.frame(), design.labels(), ids, _cells(cells, design), design.target.name)
        unread, _ = _unread(cells, design, settings)
        asked = held_against(ledger.path, *own, unread)
        units, about = _units(design), _about(settings)
        if person_columns(ledger.entries):
            whose = _whose(cells, design, settings)
            check_people(path, ledger.entries, whose)
            totals = largest_people(asked.by_people(whose, units, about))
            names, found = np.array([*totals], dtype=object), np.array([*totals.values()])
            return Spent(ledger.entries, names, found, asked.left, asked.known.renamed, people=True)
        recorded = [row for row, names in enumerate(asked.unread) if names]
        others = np.array([unread.ids[row] for row in recorded], dtype=object)
        return Spent(
            ledger.entries,
            np.concatenate([ids, others]) if recorded else ids,
            np.concatenate([asked.etas(units, about), asked.etas_unread(units, about)[recorded]]),
            asked.left,
            asked.known.renamed,
        )


def _about(settings: Settings) -> Json:
    return {"settings": plain(asdict(settings))}


def _settings(ledger: Ledger) -> Settings:
    told = [entry["about"]["settings"] for entry in ledger.entries if entry["about"]]
    if not told:
        raise InvalidInputError(
            f"'{ledger.path}' records no release of this command: check it against its table in Python, "
            "fisherleak.Ledger(path).leakage(X, y)."
        )
    return Settings.from_record(told[-1])


def _ids(design: Design) -> NDArray[Any]:
    return np.asarray(host(design.rows if design.ids is None else design.ids))


def _cells(cells: WrittenCells, design: Design) -> WrittenCells:
    return cells.of(host(design.rows), design.target.name)


def _unread(cells: WrittenCells, design: Design, settings: Settings) -> tuple[UnreadRows, list[int]]:
    """Rows of the table whose ids are not among those that were read, and their numbers."""
    column = spelled(cells.names, settings.choices).id
    every = list(range(1, cells.length + 1)) if column is None else [str(cell) for cell in cells[column]]
    read = set(map(id_text, _ids(design).tolist()))
    numbers = [row + 1 for row, name in enumerate(every) if id_text(name) not in read]
    return UnreadRows([every[row - 1] for row in numbers], cells.of(numbers, design.target.name)), numbers


def _whose(cells: WrittenCells, design: Design, settings: Settings) -> Whose:
    """Whose the rows of a table are, by a column of it; 7, 007 and 7.0 are one."""
    groups = (host(design.rows), _unread(cells, design, settings)[1])

    def whose(column: str) -> tuple[list[str], list[str]] | None:
        own = spelled(cells.names, replace(settings.choices, person=column)).person
        if own not in cells.names:
            return None
        found = [cells.of(rows, own)[own] for rows in groups]
        for each in found:
            check_ids_exact(f"Column '{own}'", each)
        read, unread = ([id_text(str(cell)) for cell in each] for each in found)
        return read, unread

    return whose


def _units(design: Design) -> Mapping[str, float]:
    """How many of its own units make a standard one, by column; that of the label under an empty name."""
    found = {feature.name: feature.scale for feature in design.features if feature.kind == "number"}
    return found | {"": 1.0 if design.target.classes else design.target.unit}


def _in_own_units(leak: Leakage, trained: Trained) -> Leakage:
    """The leakage about raw columns: numbers per unit of their own, categories by their levels."""
    design, attributes = trained.design, []
    for feature in design.features:
        if feature.kind == "number":
            attributes.append(Attribute(feature.name, feature.columns, [[1.0 / feature.scale]]))
            continue
        matrix = np.eye(len(feature.levels))[1:]
        attributes.append(Attribute(feature.name, feature.columns, None, Encoding(tuple(feature.levels), matrix)))
    known = measurement(leak).information.jacobians[0]
    fit = replace(known.fit, loss=get_loss(trained.kind.loss))  # by the label in its own unit
    jacobian = replace(known, fit=fit, attributes=tuple(attributes))
    return Leakage(information_of(jacobian), leak.noise, as_table(design.frame()))


def recorded_on(ledger: Path, model: Path) -> tuple[str, bool]:
    """In a sentence, whether a ledger records the release of a model, and whether it does."""
    card = read_card(card_path(model))
    claim = card.get("ledger")
    content = read_content(ledger)
    if claim is None:
        return (
            f"The model card of '{model}' names no release on a ledger: it was released without one, or before 0.2.0.",
            False,
        )
    number, own = _claimed(claim)
    if number is None or own is None:
        return f"The model card of '{model}' says wrongly which release on a ledger it is: it was changed.", False
    records = records_of(content)
    count = len(records)
    covers = _covered(content, number, own, marked_part(card, file_digest(model)), file_digest(model))
    if covers is None:
        return (
            f"'{model}' was not recorded on '{ledger}': it is a release of another ledger, or its model card was changed.",
            False,
        )
    if number > count or records[number - 1].get("mark") != own:
        held = f"{count} {'release' if count == 1 else 'releases'}"
        there = f"it records {held} only" if number > count else f"it has another release as number {number}"
        return (
            f"'{ledger}' was rolled back: '{model}' was recorded on it as release {number}, and {there}. An older copy was put "
            "back; restore the latest one, for what was released since is not counted.",
            False,
        )
    if covers == ENTRY and not _as_recorded(content, number, own, marked_part(card, file_digest(model))):
        return (
            f"'{ledger}' was changed: what it says of release {number} is not what was recorded when '{model}' was released. "
            "Restore a copy from before.",
            False,
        )
    return f"'{ledger}' records this release, as number {number} of {count}: {covers}.", True


ENTRY = "file, model card and the ledger's own entry"
CARD_ONLY = "file and model card; its mark was made without the rest of the entry, which may have been changed"
FILE_ONLY = "its file; its mark was made without the model card, which may have been changed"
"""What a mark covers: those that earlier versions made are of less."""


def _covered(content: Json, number: int, own: str, marked: str, checksum: str) -> str | None:
    """What a mark on a model card is made of beside its number; None where this ledger did not make it."""
    whole, file_only = (mark_of(content, number, each) for each in (marked, checksum))
    known = {ENTRY: (own[:HALF], whole[:HALF]), CARD_ONLY: (own, whole), FILE_ONLY: (own, file_only)}
    # a mark that is whole without the entry has the same first half
    return next(
        (each for each in (CARD_ONLY, ENTRY, FILE_ONLY) if hmac.compare_digest(*(m.encode() for m in known[each]))),
        None,
    )


def _as_recorded(content: Json, number: int, own: str, marked: str) -> bool:
    """Whether the entry of a release is the one that its mark was made with."""
    try:
        digest = entry_digest(records_of(content)[number - 1])
    except (LookupError, TypeError, ValueError):
        return False
    return hmac.compare_digest(own.encode(), mark_with(content, number, marked, digest).encode())


def marked_part(card: Mapping[str, Any], checksum: str) -> str:
    """What a mark is made of beside the number: the checksum of the model's file, and all of the model card but the mark."""
    return f"{checksum}, card {digest_of({key: value for key, value in card.items() if key != 'ledger'})}"


def _claimed(claim: Any) -> tuple[int | None, str | None]:
    """The number and the mark that a model card claims, where it has both."""
    if not isinstance(claim, Mapping):
        return None, None
    number, mark = claim.get("release"), claim.get("mark")
    whole = isinstance(number, int) and not isinstance(number, bool) and number > 0
    made = isinstance(mark, str) and re.fullmatch("[0-9a-f]{64}", mark) is not None
    return number if whole else None, mark if made else None

"""A release of a table on a ledger, and a ledger held against a table: in the columns' own units, limits in standard ones.

The card of a release has its number on the ledger and a mark, which is keyed with the ledger's key and made of the number, the
checksum of the model's file, the digest of the rest of the card and that of the ledger's entry. Marks of earlier releases are
made without the entry, or without the card. A ledger that was rolled back lacks the release, or has another one at its number.
Nothing inside a file tells that it is an older copy of itself: only what was given out since does.
"""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.json import plain
from fisherleak._support.namespaces import Json
from fisherleak.engine.encodings import Encoding
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.noise import Noise
from fisherleak.engine.norms import information_of
from fisherleak.errors import DataError, FisherleakError, InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import as_table
from fisherleak.protection.ledger.carried_totals import entry_digest
from fisherleak.protection.ledger.ledger import Ledger, held_against, mark_release, record_release
from fisherleak.protection.ledger.ledger_entries import recordable
from fisherleak.protection.ledger.ledger_file import HALF, count_of, mark_of, mark_with, read_content
from fisherleak.releasing.cards.signatures import card_path, digest_of, file_digest, read_card
from fisherleak.tables import RawTable
from fisherleak.tables.design.design import Design, design_of
from fisherleak.training.model_kinds import label_rules
from fisherleak.training.trained_model import Settings, Trained

__all__ = ["Spent", "mark", "marked_part", "recorded_on", "spend", "spent_on"]


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
    """

    releases: list[Json]
    ids: NDArray[Any]
    eta: NDArray[np.float64]
    left: int
    renamed: int


@contextlib.contextmanager
def _entries_of(path: Path) -> Iterator[None]:
    """Refuse a ledger of which an entry does not hold what entries do: its digest is right, and someone wrote into it."""
    try:
        yield
    except FisherleakError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise DataError(
            f"'{path}' is damaged: an entry does not hold what entries do. Restore it from a copy."
        ) from None


def spend(path: Path, trained: Trained, settings: Settings, noise: Noise, limit: float | None) -> int:
    """Record the release of a model with noise on its own coefficients, unless it takes anyone past a limit."""
    if trained.design.filled:
        raise InvalidInputError(
            f"`ledger` needs rows without gaps, and '{trained.design.filled[0].column}' has missing values that are filled: a "
            "ledger reads the table again for other rows, with other centres. Use `missing='drop'`."
        )
    recordable(trained.leak.with_noise(noise))
    leak = trained.leak.with_noise(noise.rescaled(noise.scale / trained.unit))
    label = (trained.design.target.centre, trained.design.target.scale)
    own, ids = _in_own_units(leak, trained.design), _ids(trained.design)
    with _entries_of(path):
        return record_release(
            *(path, own, ids, None if trained.design.target.classes else label, limit),
            *(_units(trained.design), _about(settings)),
        )


def mark(path: Path, number: int, file_digest: str) -> Json:
    """Tie the file of a recorded release to its number on the ledger; what its card says of that."""
    return mark_release(path, number, file_digest)


def spent_on(path: Path, raw: RawTable) -> Spent:
    """What the releases on a ledger have told about the rows of a table, read as for the last of them."""
    ledger = Ledger(path)
    with _entries_of(path):
        settings = replace(_settings(ledger), held_out=0.0)
        design = design_of(raw, settings.choices, settings.model, 0.0, settings.seed, None, label_rules())
        ids = _ids(design)
        asked = held_against(ledger.path, design.frame(), design.labels(), ids)
        etas = asked.etas(_units(design), _about(settings))
        return Spent(ledger.entries, ids, etas, asked.left, asked.known.renamed)


def _about(settings: Settings) -> Json:
    return {"settings": plain(asdict(settings))}


def _settings(ledger: Ledger) -> Settings:
    told = [entry["about"]["settings"] for entry in ledger.entries if entry["about"]]
    if not told:
        raise InvalidInputError(
            f"'{ledger.path}' records no release of this command: hold it against its table in Python, "
            "fisherleak.Ledger(path).leakage(X, y)."
        )
    known = {item.name for item in fields(Settings)}
    given = {"missing": "drop"} | told[-1]  # as it was before ledgers said so
    return Settings(**{name: _tuples(value) for name, value in given.items() if name in known})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _ids(design: Design) -> NDArray[Any]:
    return np.asarray(host(design.rows if design.ids is None else design.ids))


def _units(design: Design) -> Mapping[str, float]:
    """How many of its own units make a standard one, by column; that of the label under an empty name."""
    found = {feature.name: feature.scale for feature in design.features if feature.kind == "number"}
    return found | {"": 1.0 if design.target.classes else design.target.scale}


def _in_own_units(leak: Leakage, design: Design) -> Leakage:
    """The leakage about raw columns: numbers per unit of their own, categories by their levels."""
    attributes = []
    for feature in design.features:
        if feature.kind == "number":
            attributes.append(Attribute(feature.name, feature.columns, [[1.0 / feature.scale]]))
            continue
        matrix = np.eye(len(feature.levels))[1:]
        attributes.append(Attribute(feature.name, feature.columns, None, Encoding(tuple(feature.levels), matrix)))
    jacobian = replace(measurement(leak).information.jacobians[0], attributes=tuple(attributes))
    return Leakage(information_of(jacobian), leak.noise, as_table(design.frame()))


def recorded_on(ledger: Path, model: Path) -> tuple[str, bool]:
    """In a sentence, whether a ledger records the release of a model, and whether it does."""
    card = read_card(card_path(model))
    claim = card.get("ledger")
    content = read_content(ledger)
    if claim is None:
        return (
            f"The card of '{model}' names no release on a ledger: it was released without one, or before 0.2.0.",
            False,
        )
    number, own = _claimed(claim)
    if number is None or own is None:
        return f"The card of '{model}' says wrongly which release on a ledger it is: it was changed.", False
    count, records = count_of(content), [*content["carried"], *content["entries"]]
    covers = _covered(content, number, own, marked_part(card, file_digest(model)), file_digest(model))
    if covers is None:
        return (
            f"'{model}' was not recorded on '{ledger}': it is a release of another ledger, or its card was changed.",
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


ENTRY = "file, card and what was recorded of it"
CARD_ONLY = "file and card; its mark was made without what was recorded of it, which can be another"
FILE_ONLY = "its file; its mark was made without the card, which can be another"
"""What a mark covers: those that earlier versions made are of less."""


def _covered(content: Json, number: int, own: str, marked: str, checksum: str) -> str | None:
    """What a mark on a card is made of beside its number; None where this ledger did not make it."""
    whole, file_only = (mark_of(content, number, each) for each in (marked, checksum))
    known = {ENTRY: (own[:HALF], whole[:HALF]), CARD_ONLY: (own, whole), FILE_ONLY: (own, file_only)}
    # a mark that is whole without the entry has the same first half
    return next(
        (each for each in (CARD_ONLY, ENTRY, FILE_ONLY) if hmac.compare_digest(*(m.encode() for m in known[each]))),
        None,
    )


def _as_recorded(content: Json, number: int, own: str, marked: str) -> bool:
    """Whether the entry of a release is the one that its mark was made with."""
    entry = [*content["carried"], *content["entries"]][number - 1]
    try:
        digest = entry_digest(entry)
    except (LookupError, TypeError, ValueError):
        return False
    return hmac.compare_digest(own.encode(), mark_with(content, number, marked, digest).encode())


def marked_part(card: Mapping[str, Any], checksum: str) -> str:
    """What a mark is made of beside the number: the checksum of the model's file, and all of the card but the mark."""
    return f"{checksum}, card {digest_of({key: value for key, value in card.items() if key != 'ledger'})}"


def _claimed(claim: Any) -> tuple[int | None, str | None]:
    """The number and the mark that a card claims, where it has both."""
    if not isinstance(claim, Mapping):
        return None, None
    number, mark = claim.get("release"), claim.get("mark")
    whole = isinstance(number, int) and not isinstance(number, bool) and number > 0
    return number if whole else None, mark if isinstance(mark, str) else None

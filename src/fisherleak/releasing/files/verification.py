"""Whether a released model, its model card and a signature belong together, and hold nothing else; no table is needed.

What the model card claims of the data is another question, which an audit of the table answers (``confirmations``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sklearn.pipeline import Pipeline

from fisherleak._support.atomic import NO_MODEL, refuse_missing
from fisherleak._support.namespaces import Json
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.releasing.any_record_noise import declared_ends
from fisherleak.releasing.cards.card_checks import check_card, computed_before
from fisherleak.releasing.cards.card_fields import CARD, EARLIER
from fisherleak.releasing.cards.names_on_cards import DECLARATIONS
from fisherleak.releasing.cards.signatures import (
    card_path,
    file_digest,
    read_card,
    signature_of,
    unsealed,
    verification_key,
)
from fisherleak.releasing.files.earlier_files import free_digits
from fisherleak.releasing.files.rebuilt_files import check_rebuilt, check_size
from fisherleak.releasing.ledgers import recorded_on
from fisherleak.releasing.shaping import covariance_words

WHOLE = (
    "The file is the one that follows from its model card and parameters, and the model card has no unusual fields. "
    "Nothing else is in either. The file was built again and compared byte for byte, or node by node where other versions of "
    "scikit-learn or skops wrote it. Names, categories and settings are as the publisher gave them; an audit checks them "
    "against the table."
)
WHOLE_EARLIER = (
    "File and model card are of version 0.1.0: fields, sentences, members, arrays, attributes and parameters (but for the last "
    "digits of intercepts) were checked."
)
OTHER_SKOPS = "The file says that {} wrote it, which is another than here: that was compared with nothing."
EARLIEST = "The model card is of schema 1: digests and signature were checked."
FREE_OF_EARLIEST = (
    "Anything else in the file and on its model card: either can carry other data. Release the model again."
)
UNSIGNED = (
    "The model card is of schema 1, of which only a signature can be checked: file and model card can hold anything. Give the "
    "publisher's key with `key`, or release the model again."
)
CLAIMS = (
    "What the model card claims about the data: an audit of the table with this released model checks that. The claims are "
    "noise (kind, scale, whether it was given), limit, bounds, scales and centres from rows, number of rows, whether rows were "
    "reweighted, columns, categories, settings, the name of the table and versions of packages."
)
OTHER_NAMES = "Whether the table has the columns that only {} of the model card names: the model does not use them."
DECLARED = (
    "The exact declared bounds (columns: {}): the publisher gave them. An audit checks that no row is beyond them."
)
AS_GIVEN = (
    "Whether the table needs the declarations under {}. They stand as they were given, and no audit shows it either."
)
LEDGER = "The release's number and mark on a ledger: `ledger` checks them."
OTHER_ENTRIES = (
    "Whether the ledger's entries are true. Someone who holds the ledger can change its entries, and also this one if they "
    "make its model card anew (and sign it). The model card of each release shows whether its own entry was changed after that."
)
NO_SIGNATURE = (
    "Whether the model card is the one that was released: only a signature shows that. Someone who changes a model "
    "card can compute its "
    "digest again. A release makes a signature with `sign`, and verifying with `key` checks it."
)
NO_KEY = (
    "Whose key signed the model card: give the publisher's key with `key`. Someone who changes a model card can sign "
    "it again with a key "
    "of their own, and can choose digits of key and signature."
)


@dataclass(frozen=True)
class Verification:
    """What holds of a released model and its card, in sentences, the first thing that does not, and what was not checked."""

    confirmed: tuple[str, ...]
    failed: str | None = None
    unchecked: tuple[str, ...] = ()


def verify(path: Path, key: Path | None = None, ledger: Path | None = None) -> Verification:
    """Check a released model against its card, and the card against its digest and signature; nothing is loaded from it.

    Parameters
    ----------
    path : Path
        The model's file; its model card is ``path`` + ".json".
    key : Path, optional
        The publisher's public key. The model card must then be signed with its private one.
    ledger : Path, optional
        The ledger that must record this release.
    """
    if path.is_dir():
        raise InvalidInputError(f"'{path}' is a folder: a released model is a file.")
    if path.exists() and not path.is_file():
        raise DataError(f"'{path}' is no regular file (a pipe or a device): it is not read. Name a file.")
    refuse_missing(path, NO_MODEL)
    given = None if key is None else verification_key(key)
    card = read_card(card_path(path))
    confirmed: list[str] = []
    checks: tuple[Callable[[], tuple[str, bool]], ...] = (
        lambda: _file(path, card),
        lambda: _content(path, card),
        lambda: signature_of(card, card_path(path), key, given),
        lambda: _whole(path, card, given is not None),
        *([] if ledger is None else [lambda: recorded_on(ledger, path)]),
    )
    for check in checks:
        sentence, holds = check()
        if not holds:
            return Verification(tuple(confirmed), sentence)
        confirmed.append(sentence)
    return Verification(tuple(confirmed), unchecked=_left_open(card, key is not None, ledger is not None))


def _left_open(card: Json, by_key: bool, by_ledger: bool) -> tuple[str, ...]:
    """What stands on a model card and was compared with nothing."""
    known = card["schema"] != EARLIER[0]  # of schema 1 nothing says what its fields hold
    found = [*(free_digits(card) if known else [FREE_OF_EARLIEST]), CLAIMS]
    if known and (others := _other_names(card)):
        found.append(OTHER_NAMES.format(", ".join(others)))
    if known and (given := [f"settings.{name}" for name in DECLARATIONS if card["settings"][name]]):
        found.append(AS_GIVEN.format(", ".join(given)))
    if known and (covariance := covariance_words(card)):
        found.append(covariance)
    if known:
        found += computed_before(card)
    if known and (declared := declared_ends(card)):
        found.append(DECLARED.format(declared))
    if "ledger" in card:
        found.append(OTHER_ENTRIES if by_ledger else LEDGER)
    if not by_key:
        found.append(NO_KEY if "signature" in card else NO_SIGNATURE)
    return tuple(found)


def _other_names(card: Json) -> list[str]:
    """Settings that name columns which the model does not use."""
    settings = card["settings"]
    own = {settings["target"], *(column["name"] for column in card["columns"])}
    single = [name for name in ("id", "group", "person") if settings[name] not in (None, *own)]
    lists = [name for name in ("numbers", "categories", "drop", "unite") if not {*settings[name]} <= own]
    return [f"settings.{name}" for name in lists + single]


def whole_model(path: Path, card: Json) -> tuple[Pipeline, str]:
    """The model in a file, built anew, and what was checked; refuses anything in file or card that is not accounted for."""
    check_card(card, f"'{card_path(path)}'")
    built, skops = check_rebuilt(path, card)
    checked = WHOLE if card["schema"] == CARD else WHOLE_EARLIER
    return built, checked if skops is None else f"{checked} {OTHER_SKOPS.format(skops)}"


def _file(path: Path, card: Json) -> tuple[str, bool]:
    model = card.get("model")
    try:
        check_size(path, card)
    except DataError as error:
        return str(error), False
    if not isinstance(model, dict) or file_digest(path) != model.get("file_sha256"):
        return f"'{path}' is not the model that its model card describes: one of them was changed or damaged.", False
    return "The file has the checksum that its model card states.", True


def _content(path: Path, card: Json) -> tuple[str, bool]:
    wrong = unsealed(card, card_path(path))
    return (
        ("The model card has the digest that was computed when it was written.", True)
        if wrong is None
        else (wrong, False)
    )


def _whole(path: Path, card: Json, signed: bool) -> tuple[str, bool]:
    if card["schema"] == EARLIER[0]:
        return (EARLIEST, True) if signed else (UNSIGNED, False)
    try:
        return whole_model(path, card)[1], True
    except (DataError, InvalidInputError) as error:
        return str(error), False

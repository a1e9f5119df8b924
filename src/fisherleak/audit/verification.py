"""Whether a released model, its card and a signature belong together, and hold nothing else; no table is needed.

What the card claims of the data is another question, which an audit of the table answers (``confirmations``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sklearn.pipeline import Pipeline

from fisherleak._support.namespaces import Json
from fisherleak.audit.card_checks import check_card
from fisherleak.audit.rebuilt_files import check_rebuilt
from fisherleak.audit.signatures import (
    CARD,
    EARLIER,
    card_path,
    file_digest,
    read_card,
    signature_of,
    unsealed,
    verification_key,
)
from fisherleak.errors import DataError, InvalidInputError

__all__ = ["WHOLE", "WHOLE_EARLIER", "Verification", "verify", "whole_model"]

WHOLE = (
    "The file is the one that its card and its parameters give, byte for byte, or node by node where other versions of "
    "scikit-learn or skops wrote it, and the card has the fields and sentences that cards have: nothing else is in either. "
    "Names, levels and settings are as whoever released it gave them; an audit holds them against the table."
)
WHOLE_EARLIER = (
    "File and card are of version 0.1.0: fields, sentences, members, arrays, attributes and parameters were checked. The "
    "numbers, times and orders that skops wrote into the file were not, and can carry other data."
)
UNCHECKED = (
    "The card is of schema 1: digests and signature were checked, and nothing else of file or card. Either can carry other "
    "data; release the model again."
)


@dataclass(frozen=True)
class Verification:
    """What holds of a released model and its card, in sentences, and the first thing that does not."""

    confirmed: tuple[str, ...]
    failed: str | None = None


def verify(path: Path, key: Path | None = None) -> Verification:
    """Check a released model against its card, and the card against its digest and signature; nothing is loaded from it.

    Parameters
    ----------
    path : Path
        The model's file; its card is ``path`` + ".json".
    key : Path, optional
        The publisher's public key. The card must then be signed with its private one.
    """
    if path.is_dir():
        raise InvalidInputError(f"'{path}' is a folder: a released model is a file.")
    if not path.is_file():
        raise DataError(f"'{path}' does not exist: name the file of a released model.")
    given = None if key is None else verification_key(key)
    card = read_card(card_path(path))
    confirmed: list[str] = []
    checks: tuple[Callable[[], tuple[str, bool]], ...] = (
        lambda: _file(path, card),
        lambda: _content(path, card),
        lambda: signature_of(card, card_path(path), key, given),
        lambda: _whole(path, card),
    )
    for check in checks:
        sentence, holds = check()
        if not holds:
            return Verification(tuple(confirmed), sentence)
        confirmed.append(sentence)
    return Verification(tuple(confirmed))


def whole_model(path: Path, card: Json) -> tuple[Pipeline, str]:
    """The model in a file, built anew, and what was checked; refuses anything in file or card that is not accounted for."""
    check_card(card, f"'{card_path(path)}'")
    return check_rebuilt(path, card), WHOLE if card["schema"] == CARD else WHOLE_EARLIER


def _file(path: Path, card: Json) -> tuple[str, bool]:
    model = card.get("model")
    if not isinstance(model, dict) or file_digest(path) != model.get("file_sha256"):
        return f"'{path}' is not the model that its card describes: one of them was changed or damaged.", False
    return "The model's file is the one that the card describes, by its checksum.", True


def _content(path: Path, card: Json) -> tuple[str, bool]:
    wrong = unsealed(card, card_path(path))
    return ("The card says what it said when it was written, by its digest.", True) if wrong is None else (wrong, False)


def _whole(path: Path, card: Json) -> tuple[str, bool]:
    if card["schema"] == EARLIER[0]:
        return UNCHECKED, True
    try:
        return whole_model(path, card)[1], True
    except (DataError, InvalidInputError) as error:
        return str(error), False

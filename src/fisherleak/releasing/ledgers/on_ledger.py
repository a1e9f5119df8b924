"""Whether a ledger still records a release: an older copy of it, put back, does not.

The card of a release has its number on the ledger and a mark, which is keyed with the ledger's key and made of the number, the
checksum of the model's file and the digest of the rest of the card. Marks of earlier releases are made without the card. A
ledger that was rolled back lacks the release, or has another one at its number. Nothing inside a file tells that it
is an older copy of itself: only what was given out since does.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fisherleak.protection.ledger.ledger_file import count_of, mark_of, read_content
from fisherleak.releasing.cards.signatures import card_path, digest_of, file_digest, read_card

__all__ = ["marked_part", "recorded_on"]


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
    number, mark = _claimed(claim)
    if number is None or mark is None:
        return f"The card of '{model}' says wrongly which release on a ledger it is: it was changed.", False
    count = count_of(content)
    checksum = file_digest(model)
    whole, file_only = (
        hmac.compare_digest(mark.encode(), mark_of(content, number, marked).encode())
        for marked in (marked_part(card, checksum), checksum)
    )
    if not whole and not file_only:
        return (
            f"'{model}' was not recorded on '{ledger}': it is a release of another ledger, or its card was changed.",
            False,
        )
    records = [*content["carried"], *content["entries"]]
    if number > count or records[number - 1].get("mark") != mark:
        held = f"{count} {'release' if count == 1 else 'releases'}"
        there = f"it records {held} only" if number > count else f"it has another release as number {number}"
        return (
            f"'{ledger}' was rolled back: '{model}' was recorded on it as release {number}, and {there}. An older copy was put "
            "back; restore the latest one, for what was released since is not counted.",
            False,
        )
    what = "file and card" if whole else "its file; its mark was made without the card, which can be another"
    return f"'{ledger}' records this release, as number {number} of {count}: {what}.", True


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

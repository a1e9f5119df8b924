"""What vouches for a model card: a digest of its content, and a signature of whoever released the model.

The content of a model card is all of it but ``digest`` and ``signature``, as JSON with sorted keys, no blanks and escapes for
what is not ASCII. The digest is its SHA-256 and notices accidents. The signature (Ed25519) is of the whole card, its digest and
the key too, but for the signature's own value; the content holds the checksum of the model's file. Who has the public key
notices every change of either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fisherleak._support.atomic import NO_KEY
from fisherleak._support.namespaces import Json
from fisherleak.errors import DataError, FisherleakError, InvalidInputError
from fisherleak.releasing.cards.card_fields import ALGORITHM, CARD, DIGEST, EARLIER, HASH, SIGNATURE
from fisherleak.releasing.files.model_files import MOST_DEPTH, is_text_of, loaded_json, read_at_most

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


SIGNED = b"fisherleak.card/3, signed\n"
SIGNED_EARLIER = b"fisherleak.card/1, signed\n"
"""Stand before what is signed, so that a signature of something else is never one of a card."""
APART = ("digest", "signature")
MOST_BYTES, MOST_PARTS = 2**24, 2**17
"""Of a card, at most: bytes, and lists and records. Larger ones are neither read nor written. 5,000 columns with names of 100
characters, bounds and a limit on each take 5 MB and 20,000 parts, a covariance of 700 parameters 15 MB."""
KEY_BYTES = 2**14
"""Of a key's file, at most: one has about a hundred."""
MAKE_ONE = "make one with 'openssl genpkey -algorithm ed25519 -out key.pem'"


def card_path(path: Path) -> Path:
    """MODEL.json beside MODEL."""
    if not path.name:
        raise InvalidInputError(f"'{path}' is a folder: name a file.")
    return path.with_name(path.name + ".json")


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_of(card: Mapping[str, Any]) -> bytes:
    """What is digested: the same bytes for the same content, however the file is laid out."""
    return _plainly({key: value for key, value in card.items() if key not in APART})


def _plainly(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _signed_part(card: Mapping[str, Any]) -> bytes:
    """What is signed: all of a model card but the signature's own value; of earlier schemas, its content."""
    if card.get("schema") in EARLIER:
        return SIGNED_EARLIER + content_of(card)
    signature = {key: value for key, value in card["signature"].items() if key != "value"}
    return SIGNED + _plainly({**card, "signature": signature})


def digest_of(card: Mapping[str, Any]) -> str:
    """SHA-256 of a model card's content, in hexadecimal."""
    return hashlib.sha256(content_of(card)).hexdigest()


def sealed(card: Mapping[str, Any], key: Ed25519PrivateKey | None = None) -> Json:
    """The model card with its digest, and with a signature where there is a key."""
    done = {key: value for key, value in card.items() if key not in APART}
    done["digest"] = {"algorithm": HASH, "value": digest_of(card)}
    if key is not None:
        done["signature"] = {"algorithm": ALGORITHM, "public_key": key.public_key().public_bytes_raw().hex()}
        done["signature"]["value"] = key.sign(_signed_part(done)).hex()
    return done


def card_text(card: Mapping[str, Any]) -> bytes:
    """The model card's file: there is one for each card."""
    return json.dumps(card, indent=2, allow_nan=False, ensure_ascii=False).encode("utf-8")


def too_large(data: bytes) -> bool:
    """Whether a card's text has more bytes, lists or records than any card: lists take many times their text in memory."""
    return len(data) > MOST_BYTES or data.count(b"[") + data.count(b"{") > MOST_PARTS


def read_card(path: Path) -> Json:
    """A model card as it stands in its file; refuses what is none, and a file that says it in other than the one way."""
    try:
        data = read_at_most(path, MOST_BYTES, "a model card")
    except FileNotFoundError:
        raise DataError(
            f"The model card '{path}' is missing, and the model cannot be checked without it. Put the model card that was "
            "written with the model beside it."
        ) from None
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"The model card '{path}' cannot be read: {error.strerror}.") from None
    if too_large(data):
        raise DataError(
            f"'{path}' has more lists and records than a model card can have ({MOST_PARTS:,}): it is not read."
        )
    card = loaded_json(data)
    if card is None:
        raise DataError(
            f"The model card '{path}' is damaged: it is not JSON with each key once, finite numbers and at most "
            f"{MOST_DEPTH} levels."
        )
    if not isinstance(card, dict) or card.get("schema") not in (CARD, *EARLIER):
        raise InvalidInputError(f"'{path}' is no model card of schema {CARD}.")
    if card["schema"] != EARLIER[0] and not is_text_of(data, card, ascii_only=False):
        raise DataError(
            f"The model card '{path}' is not laid out as model cards are written: blanks, escapes or digits may carry "
            "other data. Do not "
            "pass it on; release the model again."
        )
    return card


# keys


@dataclass(frozen=True)
class _Crypto:
    """What is used of the package ``cryptography``."""

    ed25519: Any
    serialization: Any
    invalid: type[Exception]

    @classmethod
    def loaded(cls) -> _Crypto:
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric import ed25519
        except ImportError:
            raise FisherleakError("Signatures need cryptography: pip install 'fisherleak[sign]'.") from None
        return cls(ed25519, serialization, InvalidSignature)


def signing_key(path: Path) -> Ed25519PrivateKey:
    """A private key for signatures, from a PEM file that is not encrypted."""
    data = _pem(path)
    if b"ENCRYPTED" in data:
        raise InvalidInputError(
            f"The key '{path}' is encrypted, and no passphrase is asked for: give one that is not, and keep it safe."
        )
    crypto = _Crypto.loaded()
    try:
        key = crypto.serialization.load_pem_private_key(data, None)
    except Exception:  # the package has many ways to say that it is none
        raise InvalidInputError(f"'{path}' holds no private key in PEM (PKCS8): {MAKE_ONE}.") from None
    if not isinstance(key, crypto.ed25519.Ed25519PrivateKey):
        raise InvalidInputError(f"The key '{path}' is not an {ALGORITHM} key, which signatures need: {MAKE_ONE}.")
    return cast("Ed25519PrivateKey", key)


def verification_key(path: Path) -> Ed25519PublicKey:
    """A public key, from a PEM file."""
    data = _pem(path)
    if b"PRIVATE KEY" in data:
        raise InvalidInputError(
            f"'{path}' holds a private key, which only its owner should have: "
            "give the public one ('openssl pkey -in key.pem -pubout -out public.pem')."
        )
    crypto = _Crypto.loaded()
    try:
        key = crypto.serialization.load_pem_public_key(data)
    except Exception:
        raise InvalidInputError(
            f"'{path}' holds no public key in PEM: ask the publisher of the model for it."
        ) from None
    if not isinstance(key, crypto.ed25519.Ed25519PublicKey):
        raise InvalidInputError(
            f"The key '{path}' is not an {ALGORITHM} key, which signatures of model cards are made with."
        )
    return cast("Ed25519PublicKey", key)


def _pem(path: Path) -> bytes:
    try:
        return read_at_most(path, KEY_BYTES, "a key")
    except FileNotFoundError:
        raise DataError(NO_KEY.format(path)) from None
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"The key '{path}' cannot be read: {error.strerror}.") from None


# verification


def unsealed(card: Mapping[str, Any], path: Path) -> str | None:
    """Why a model card is not as it was written, by its digest, or None."""
    digest: Any = card.get("digest")
    wrong = DIGEST(digest, "digest")
    if wrong is not None:
        return f"The model card '{path}' was changed after it was written: it says under '{wrong}' what no digest says there."
    if digest["value"] != digest_of(card):
        return f"The model card '{path}' was changed after it was written: its digest is that of other content."
    return None


def signature_of(
    card: Mapping[str, Any], path: Path, key: Path | None, given: Ed25519PublicKey | None
) -> tuple[str, bool]:
    """What a card's signature vouches for, in a sentence, and whether it holds; ``given`` is the key in the file ``key``."""
    signature: Any = card.get("signature")
    if "signature" not in card:
        if key is not None:
            return f"The model card '{path}' has no signature, so that '{key}' cannot confirm who released it.", False
        return "There is no signature: nothing shows who made the file and its model card.", True
    crypto = _Crypto.loaded()
    if SIGNATURE(signature, "signature") is not None:
        return f"The signature of '{path}' is damaged, or has more in it than an {ALGORITHM} signature.", False
    claimed, value = (bytes.fromhex(signature[name]) for name in ("public_key", "value"))
    if given is not None and given.public_bytes_raw() != claimed:
        return f"The model card '{path}' was signed with another key than that of '{key}'.", False
    if not _is_key(claimed):
        return (
            f"The model card '{path}' is signed with a key under which anyone can sign: the signature may carry other "
            "data. Do not "
            "pass it on; release the model again.",
            False,
        )
    if not _signed(crypto, claimed, value, _signed_part(card)):
        return f"The signature of '{path}' is not one of this model card: one of the two was changed.", False
    if given is None:
        return (
            f"The model card is signed. Only its publisher can say whose key it is, an {ALGORITHM} key: {claimed.hex()}.",
            True,
        )
    return f"Model card and model were signed with the private key that belongs to '{key}'.", True


FIELD = 2**255 - 19
_EIGHTH = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
SMALL_ORDER = (0, 1, FIELD - 1, _EIGHTH, FIELD - _EIGHTH)
"""Second coordinates of the eight points of the curve that are nothing eight times over: under such a key anyone can sign."""


def _is_key(key: bytes) -> bool:
    """Whether a public key is written in its one way, and is no point under which every text has signatures."""
    place = int.from_bytes(key, "little") % 2**255
    return place < FIELD and place not in SMALL_ORDER


def _signed(crypto: _Crypto, key: bytes, value: bytes, content: bytes) -> bool:
    try:
        crypto.ed25519.Ed25519PublicKey.from_public_bytes(key).verify(value, content)
    except (crypto.invalid, ValueError):
        return False
    return True

"""What vouches for a card: a digest of its content, and a signature of whoever released the model.

The content of a card is all of it but ``digest`` and ``signature``, as JSON with sorted keys, no blanks and escapes for
what is not ASCII. The digest is its SHA-256 and notices accidents. The signature (Ed25519) is of ``SIGNED`` and the content,
which holds the checksum of the model's file: who has the public key notices every change of either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fisherleak._support.namespaces import Json
from fisherleak.errors import DataError, FisherleakError, InvalidInputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = ["Verification", "card_path", "digest_of", "read_card", "sealed", "signing_key", "verification_key", "verify"]

CARD = "fisherleak.card/2"
EARLIER = ("fisherleak.card/1",)
"""Cards whose digests and signatures can still be verified."""
SIGNED = b"fisherleak.card/1, signed\n"
"""Stands before what is signed, so that a signature of something else is never one of a card."""
APART = ("digest", "signature")
ALGORITHM = "Ed25519"
MAKE_ONE = "make one with 'openssl genpkey -algorithm ed25519 -out key.pem'"


@dataclass(frozen=True)
class Verification:
    """What holds of a released model and its card, in sentences, and the first thing that does not."""

    confirmed: tuple[str, ...]
    failed: str | None = None


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
    """What is digested and signed: the same bytes for the same content, however the file is laid out."""
    content = {key: value for key, value in card.items() if key not in APART}
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest_of(card: Mapping[str, Any]) -> str:
    """SHA-256 of a card's content, in hexadecimal."""
    return hashlib.sha256(content_of(card)).hexdigest()


def sealed(card: Mapping[str, Any], key: Ed25519PrivateKey | None = None) -> Json:
    """The card with its digest, and with a signature where there is a key."""
    done = {**card, "digest": {"algorithm": "SHA-256", "value": digest_of(card)}}
    if key is not None:
        done["signature"] = {
            "algorithm": ALGORITHM,
            "public_key": key.public_key().public_bytes_raw().hex(),
            "value": key.sign(SIGNED + content_of(card)).hex(),
        }
    return done


def read_card(path: Path) -> Json:
    """A card as it stands in its file; refuses what is none."""
    try:
        card = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_once, parse_constant=_no_number)
    except FileNotFoundError:
        raise DataError(f"The card '{path}' is missing: without it nobody knows how the model came about.") from None
    except OSError as error:
        raise DataError(f"The card '{path}' cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise DataError(f"The card '{path}' is damaged: it is not JSON with each key once.") from None
    if not isinstance(card, dict) or card.get("schema") not in (CARD, *EARLIER):
        raise InvalidInputError(f"'{path}' is no card of schema {CARD}.")
    return card


def _once(pairs: list[tuple[str, Any]]) -> Json:
    """Readers differ in which of two values they take: a card that has both says two things."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _no_number(name: str) -> float:
    raise ValueError(name)


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
        raise InvalidInputError(f"The key '{path}' is not an {ALGORITHM} key, which signatures of cards are made with.")
    return cast("Ed25519PublicKey", key)


def _pem(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"The key '{path}' does not exist: name a PEM file.") from None
    except OSError as error:
        raise DataError(f"The key '{path}' cannot be read: {error.strerror}.") from None


# verification


def verify(path: Path, key: Path | None = None) -> Verification:
    """Hold a released model against its card, and the card against its digest and signature; nothing is loaded from it.

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
    for check in (_file, _content, _signature):
        sentence, holds = check(path, card, key, given)
        if not holds:
            return Verification(tuple(confirmed), sentence)
        confirmed.append(sentence)
    return Verification(tuple(confirmed))


def _file(path: Path, card: Mapping[str, Any], key: Path | None, given: Any) -> tuple[str, bool]:
    model = card.get("model")
    if not isinstance(model, Mapping) or file_digest(path) != model.get("file_sha256"):
        return f"'{path}' is not the model that its card describes: one of them was changed or damaged.", False
    return "The model's file is the one that the card describes, by its checksum.", True


def _content(path: Path, card: Mapping[str, Any], key: Path | None, given: Any) -> tuple[str, bool]:
    digest = card.get("digest")
    if not isinstance(digest, Mapping) or digest.get("value") != digest_of(card):
        return (
            f"The card '{card_path(path)}' was changed after it was written: its digest is that of other content.",
            False,
        )
    return "The card says what it said when it was written, by its digest.", True


def _signature(path: Path, card: Mapping[str, Any], key: Path | None, given: Any) -> tuple[str, bool]:
    signature = card.get("signature")
    if signature is None:
        if key is not None:
            return (
                f"The card '{card_path(path)}' has no signature, so that '{key}' cannot confirm who released it.",
                False,
            )
        return "There is no signature: file and card belong together, and nothing tells who made them.", True
    crypto = _Crypto.loaded()
    try:
        claimed, value = (bytes.fromhex(signature[name]) for name in ("public_key", "value"))
        own = crypto.ed25519.Ed25519PublicKey.from_public_bytes(claimed)
    except (KeyError, TypeError, ValueError):
        return f"The signature of '{card_path(path)}' is damaged.", False
    if given is not None and given.public_bytes_raw() != claimed:
        return f"The card '{card_path(path)}' was signed with another key than that of '{key}'.", False
    if not _signed(crypto, own, value, content_of(card)):
        return f"The signature of '{card_path(path)}' is not one of this card: card or signature were changed.", False
    if given is None:
        return (
            f"The card is signed with the {ALGORITHM} key {claimed.hex()}; whose key that is only its publisher can tell.",
            True,
        )
    return f"Card and model were signed with the private key that belongs to '{key}'.", True


def _signed(crypto: _Crypto, key: Any, value: bytes, content: bytes) -> bool:
    try:
        key.verify(value, SIGNED + content)
    except crypto.invalid:
        return False
    return True

"""A digest is of what a model card says, and not of how it is laid out; a signature is of one model card with one key."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fisherleak.errors import DataError, InvalidInputError
from fisherleak.releasing.cards.card_fields import CARD, EARLIER
from fisherleak.releasing.cards.signatures import (
    digest_of,
    read_card,
    sealed,
    signature_of,
    signing_key,
    verification_key,
)
from fisherleak.releasing.files.verification import verify

PKCS8, PEM, PLAIN = (
    serialization.PrivateFormat.PKCS8,
    serialization.Encoding.PEM,
    serialization.NoEncryption(),
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
cards = st.dictionaries(st.text(), values, max_size=5)


@pytest.mark.long
@given(cards, st.randoms())
def test_a_digest_is_of_the_content(card: dict[str, Any], random: Any) -> None:
    order = list(card)
    random.shuffle(order)
    shuffled = {key: card[key] for key in order}
    again = json.loads(json.dumps(shuffled, indent=3, ensure_ascii=False))
    assert digest_of(again) == digest_of(card) == digest_of(sealed(card))
    assert digest_of({**card, "one more": 1}) != digest_of(card)


@pytest.mark.long
@given(cards)
def test_a_signature_is_of_one_card(card: dict[str, Any]) -> None:
    key = Ed25519PrivateKey.generate()
    done = sealed(card, key)
    assert done["signature"] == sealed(card, key)["signature"]
    assert done["signature"] != sealed({**card, "one more": 1}, key)["signature"]
    assert done["signature"]["value"] != sealed(card, Ed25519PrivateKey.generate())["signature"]["value"]


@functools.cache
def key_files() -> dict[str, bytes]:
    """Contents that are keys, and some that are not."""
    key, large = Ed25519PrivateKey.generate(), rsa.generate_private_key(65537, 2048)
    passphrase = serialization.BestAvailableEncryption(b"secret")
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    return {
        "private": key.private_bytes(PEM, PKCS8, PLAIN),
        "public": key.public_key().public_bytes(PEM, public),
        "encrypted": key.private_bytes(PEM, PKCS8, passphrase),
        "rsa": large.private_bytes(PEM, PKCS8, PLAIN),
        "rsa public": large.public_key().public_bytes(PEM, public),
        "other": Ed25519PrivateKey.generate().public_key().public_bytes(PEM, public),
        "text": b"hello",
        "empty": b"",
    }


def write_keys(folder: Path) -> dict[str, Path]:
    for name, data in key_files().items():
        (folder / f"{name}.pem").write_bytes(data)
    return {name: folder / f"{name}.pem" for name in (*key_files(), "nowhere")}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("encrypted", "is encrypted, and no passphrase is asked for"),
        ("rsa", "is not an Ed25519 key"),
        ("public", "holds no private key"),
        ("text", "holds no private key"),
        ("empty", "holds no private key"),
        ("nowhere", "does not exist"),
    ],
)
def test_bad_private_keys(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises((InvalidInputError, DataError), match=says):
        signing_key(write_keys(tmp_path)[name])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("private", "holds a private key, which only its owner should have"),
        ("rsa public", "is not an Ed25519 key"),
        ("text", "holds no public key"),
        ("nowhere", "does not exist"),
    ],
)
def test_bad_public_keys(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises((InvalidInputError, DataError), match=says):
        verification_key(write_keys(tmp_path)[name])


def test_a_card_says_each_thing_once(tmp_path: Path) -> None:
    for text in ('{"schema": "fisherleak.card/1", "a": 1, "a": 2}', '{"schema": "fisherleak.card/1", "a": NaN}'):
        (tmp_path / "card.json").write_text(text)
        with pytest.raises(DataError, match="not JSON with each key once"):
            read_card(tmp_path / "card.json")


def saved(folder: Path, key: Ed25519PrivateKey | None) -> Path:
    from fisherleak.releasing.cards.signatures import file_digest

    (folder / "m.skops").write_bytes(b"a model")
    card = {"schema": "fisherleak.card/1", "model": {"file_sha256": file_digest(folder / "m.skops")}, "eta": 0.5}
    (folder / "m.skops.json").write_text(json.dumps(sealed(card, key)))
    return folder / "m.skops"


def test_verification_needs_everything_to_belong_together(tmp_path: Path) -> None:
    keys = write_keys(tmp_path)
    key = signing_key(keys["private"])
    path = saved(tmp_path, key)
    assert verify(path, keys["public"]).failed is None
    assert "signed with the private key that belongs to" in verify(path, keys["public"]).confirmed[-2]
    # of the first schema only digests and a signature are checked: without a key nobody answers for the rest
    assert "can hold anything" in str(verify(path).failed)
    assert "Anything else in the file and on its model card" in verify(path, keys["public"]).unchecked[0]
    assert key.public_key().public_bytes_raw().hex() in verify(path).confirmed[-1]
    assert "another key" in str(verify(path, keys["other"]).failed)
    card = json.loads((tmp_path / "m.skops.json").read_text())
    forgeries: dict[str, dict[str, Any]] = {
        "its digest is that of other content": {**card, "eta": 0.1},
        "not one of this model card": {**sealed({**card, "eta": 0.1}), "signature": card["signature"]},
        "is damaged": {**card, "signature": {"public_key": "00", "value": "zz"}},
        "not the model that its model card describes": sealed({**card, "model": {"file_sha256": "0"}}, key),
    }
    for says, forged in forgeries.items():
        (tmp_path / "m.skops.json").write_text(json.dumps(forged))
        for given_key in (None, keys["public"]):
            assert says in str(verify(path, given_key).failed)
    stolen = sealed({**card, "eta": 0.1}, Ed25519PrivateKey.generate())
    (tmp_path / "m.skops.json").write_text(json.dumps(stolen))
    assert "can hold anything" in str(verify(path).failed)  # somebody signed it, and without a key nobody knows who
    more: dict[str, dict[str, Any]] = {
        "under 'digest.table'": {**card, "digest": {**card["digest"], "table": "1,2,3"}},
        "under 'digest.algorithm'": {**card, "digest": {**card["digest"], "algorithm": "none"}},
        "more in it than": {**card, "signature": {**card["signature"], "table": "1,2,3"}},
        "is damaged, or": {**card, "signature": {**card["signature"], "algorithm": "none"}},
    }
    for says, forged in more.items():
        (tmp_path / "m.skops.json").write_text(json.dumps(forged))
        assert says in str(verify(path, keys["public"]).failed)
    (tmp_path / "m.skops.json").write_text(json.dumps(stolen))
    assert "another key" in str(verify(path, keys["public"]).failed)


def test_without_a_signature(tmp_path: Path) -> None:
    path = saved(tmp_path, None)
    assert "There is no signature" in verify(path).confirmed[-1]
    assert "has no signature" in str(verify(path, write_keys(tmp_path)["public"]).failed)


def test_a_signature_of_this_schema_is_of_the_whole_card() -> None:
    """Of digest, algorithm and key too: whoever changes one of them needs the private key."""
    key = Ed25519PrivateKey.generate()
    done = sealed({"schema": CARD, "a": 1}, key)
    where = Path("m.json")
    assert signature_of(done, where, None, None)[1]
    for name in ("digest", "signature"):
        for part in done[name]:
            old = done[name][part]
            other = {**done, name: {**done[name], part: old[:-1] + ("0" if old[-1] != "0" else "1")}}
            assert not signature_of(other, where, None, None)[1]
    assert not signature_of({**done, "digest": {**done["digest"], "table": ""}}, where, None, None)[1]
    assert not signature_of({**done, "table": ""}, where, None, None)[1]
    earlier = sealed({"schema": EARLIER[1], "a": 1}, key)
    assert signature_of(earlier, where, None, None)[1]
    assert not signature_of({**earlier, "schema": CARD}, where, None, None)[1]

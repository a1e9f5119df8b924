"""Signed releases: 0 with what was confirmed, 1 where something does not belong together, 2 for bad usage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("cryptography")

from copies import copied_release
from fisherleak.cli import main
from fisherleak.releasing.cards.signatures import card_text
from releasing.cards.test_signatures import write_keys
from steady import steady

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def signed_once(tmp_path_factory: pytest.TempPathFactory, frame: Any, keys: dict[str, Path]) -> Path:
    folder = tmp_path_factory.mktemp("signed")
    frame.to_csv(folder / "people.csv", index=False)
    options = ("--target", "income", "--eta", "0.5", "--over", "max", "--sign", str(keys["private"]))
    with steady("signed"):
        assert main(["release", str(folder / "people.csv"), *options, "--out", str(folder / "model.skops")]) == 0
    return folder / "model.skops"


@pytest.fixture
def signed(signed_once: Path, tmp_path: Path) -> Path:
    return copied_release(signed_once, tmp_path)


def test_a_signed_release_verifies(fisherleak: Command, people: Path, signed: Path, keys: dict[str, Path]) -> None:
    again = signed.with_name("again.skops")
    done = fisherleak("release", people, "--target", "income", "--eta", 1, "--out", again, "--sign", keys["private"])
    assert (done.status, done.err) == (0, "")
    assert "Signed:" in done.out
    done = fisherleak("verify", signed, "--key", keys["public"])
    assert (done.status, done.err) == (0, "")
    assert done.out.count("\n") >= 4
    assert "were signed with the private key" in done.out
    assert fisherleak("verify", signed, "--quiet").out == ""
    document = json.loads(fisherleak("verify", signed, "--json").out)
    assert (document["verified"], document["failed"], len(document["confirmed"])) == (True, None, 4)
    assert fisherleak("audit", people, "--released", signed, "--quiet", "--no-attacks", "--draws", "4").status == 0
    assert keys["private"].read_bytes().split(b"\n")[1] not in signed.with_name("model.skops.json").read_bytes()


def changed_card(signed: Path) -> None:
    card = signed.with_name("model.skops.json")
    card.write_text(card.read_text(encoding="utf-8").replace('"limit": 0.5', '"limit": 0.1'), encoding="utf-8")


def changed_model(signed: Path) -> None:
    signed.write_bytes(signed.read_bytes() + b"\0")


def unsigned(signed: Path) -> None:
    card = signed.with_name("model.skops.json")
    content = json.loads(card.read_text(encoding="utf-8"))
    del content["signature"]
    card.write_bytes(card_text(content))


def laid_out_anew(signed: Path) -> None:
    card = signed.with_name("model.skops.json")
    card.write_text(json.dumps(json.loads(card.read_text(encoding="utf-8")), sort_keys=True), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "key", "status", "says"),
    [
        (lambda signed: None, "public", 0, ""),
        (laid_out_anew, "public", 2, "not laid out as model cards are written"),
        (changed_card, "public", 1, "was changed after it was written"),
        (changed_model, "public", 1, "is not the model that its model card describes"),
        (unsigned, "public", 1, "has no signature"),
        (lambda signed: None, "other", 1, "was signed with another key"),
        (lambda signed: None, "private", 2, "holds a private key"),
        (lambda signed: None, "text", 2, "holds no public key"),
        (lambda signed: None, "nowhere", 2, "does not exist"),
        (lambda signed: signed.unlink(), "public", 2, "does not exist"),
        (lambda signed: signed.with_name("model.skops.json").unlink(), "public", 2, "is missing"),
        (lambda signed: signed.with_name("model.skops.json").write_text("{"), "public", 2, "is damaged"),
    ],
)
def test_what_does_not_verify(
    fisherleak: Command,
    signed: Path,
    keys: dict[str, Path],
    change: Callable[[Path], None],
    key: str,
    status: int,
    says: str,
) -> None:
    change(signed)
    done = fisherleak("verify", signed, "--key", keys[key], "--quiet")
    assert (done.status, done.out) == (status, "")
    assert done.err.count("\n") == (status > 0)
    assert says in done.err


@pytest.mark.parametrize("name", ["encrypted", "rsa", "public", "text", "nowhere"])
def test_a_bad_key_is_refused_before_anything_is_written(
    fisherleak: Command, people: Path, tmp_path: Path, keys: dict[str, Path], name: str
) -> None:
    options = ("--target", "income", "--eta", "0.5", "--out", tmp_path / "m.skops", "--sign", keys[name])
    done = fisherleak("release", people, *options)
    assert (done.status, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert not list(tmp_path.glob("m.skops*"))


def test_the_key_is_not_overwritten(fisherleak: Command, people: Path, keys: dict[str, Path]) -> None:
    before = keys["private"].read_bytes()
    options = ("--target", "income", "--eta", "0.5", "--out", keys["private"], "--sign", keys["private"], "--overwrite")
    assert "which is read by this command" in fisherleak("release", people, *options).err
    assert keys["private"].read_bytes() == before

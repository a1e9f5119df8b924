"""Covariances in which every digit is free, files that take a thousand times their size in memory, cards that end in a crash."""

from __future__ import annotations

import io
import json
import os
import struct
import tomllib
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("skops")
pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attacks_on_us.test_cards_and_ledgers import card_of, rewritten
from attacks_on_us.test_hidden_in_files import audited, mended
from copies import copied_release
from fisherleak.auditing.policy.policy import policy_of, read_policy
from fisherleak.auditing.records import Plan
from fisherleak.auditing.run import audit_trained
from fisherleak.cli import main
from fisherleak.engine.noise import Gaussian
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.releasing.cards.card_checks import check_card
from fisherleak.releasing.cards.card_fields import EARLIER
from fisherleak.releasing.cards.signatures import card_path, sealed
from fisherleak.releasing.files.earlier_files import as_earlier
from fisherleak.releasing.files.model_files import MOST_DEPTH, WHEN, _zipped, is_text_of, loaded_json
from fisherleak.releasing.files.rebuilt_files import most_bytes
from fisherleak.releasing.files.released_files import load_model, save_model
from fisherleak.releasing.files.verification import verify
from fisherleak.releasing.ledgers import spent_on
from fisherleak.releasing.shaping import covariance_words
from fisherleak.tables import RawTable, from_frame, read_table
from fisherleak.training.trained_model import Settings, train

pytestmark = pytest.mark.usefixtures("quick_audits")
Json = dict[str, Any]
ROWS, WIDTH = 200, 4
FITTED = Settings("y", held_out=0.0)


@pytest.fixture(scope="module")
def raw() -> RawTable:
    rng = np.random.default_rng(2)
    frame = {f"x{j}": rng.normal(50, 10, ROWS).round(1) for j in range(WIDTH)}
    frame["y"] = (frame["x0"] - frame["x1"] + rng.normal(0, 5, ROWS)).round(1)
    return from_frame(pandas.DataFrame(frame))


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory, raw: RawTable) -> Path:
    path = tmp_path_factory.mktemp("made") / "m.skops"
    save_model(raw, FITTED, path, noise=2.0, random_state=0)
    return path


@pytest.fixture
def made(tmp_path: Path, made_once: Path) -> Path:
    return copied_release(made_once, tmp_path)


# A covariance that was given


def spread_out(bits: int = 0) -> Any:
    """A covariance of all parameters, with other last digits where there are bits to hide."""
    own = np.diag(np.arange(1.0, WIDTH + 2)) + 0.25
    hidden = np.random.default_rng(4).integers(0, 2**bits, own.shape) * 2.0**-40
    return own + hidden + hidden.T


@pytest.fixture(scope="module")
def shaped_once(tmp_path_factory: pytest.TempPathFactory, raw: RawTable) -> Path:
    path = tmp_path_factory.mktemp("shaped") / "m.skops"
    save_model(raw, FITTED, path, noise=Gaussian(2.0, spread_out()), random_state=0)
    return path


@pytest.fixture
def shaped(tmp_path: Path, shaped_once: Path) -> Path:
    return copied_release(shaped_once, tmp_path)


NAMED = f"The covariance of the noise, {WIDTH + 1} x {WIDTH + 1} numbers in every digit: it was given"


def test_a_covariance_that_was_given_is_named(shaped: Path, raw: RawTable) -> None:
    """Its digits are whoever released the model to choose: two columns of a table fit in."""
    assert load_model(shaped).noise == Gaussian(2.0, spread_out())
    for bits in (0, 30):
        rewritten(shaped, lambda card: card["noise"].update(shape=spread_out(bits).tolist()))  # noqa: B023
        found = verify(shaped)
        assert found.failed is None
        assert [each.startswith(NAMED) for each in found.unchecked].count(True) == 1
        confirmed = audited(shaped, raw)
        assert confirmed.failed is None
        assert [each.startswith(NAMED) for each in confirmed.unconfirmed].count(True) == 1


def test_no_covariance_is_named_where_there_is_none(made: Path, raw: RawTable) -> None:
    assert not any("covariance" in each for each in verify(made).unchecked)
    assert not any("covariance" in each for each in audited(made, raw).unconfirmed)


def _unsymmetric(shape: Any) -> None:
    shape[0][1] += 1e-9


def _whole(shape: Any) -> None:
    shape[1][2] = shape[2][1] = 1
    shape[0][0] = 2


def _signed(shape: Any) -> None:
    shape[1][2] = shape[2][1] = -0.0


@pytest.mark.parametrize("change", [_unsymmetric, _whole, _signed, lambda shape: shape[0].append(0.0)])
def test_a_covariance_is_written_in_one_way(change: Callable[[Any], None], shaped: Path) -> None:
    mended(shaped, change=lambda card: change(card["noise"]["shape"]))
    assert "under 'noise.shape" in str(verify(shaped).failed)


def test_zeros_of_a_covariance_have_no_sign(tmp_path: Path, raw: RawTable) -> None:
    """What a Python user gives is written in the one way."""
    given = np.diag(np.arange(1.0, WIDTH + 2)) * np.where(np.eye(WIDTH + 1), 1.0, -1.0)
    save_model(raw, FITTED, tmp_path / "m.skops", noise=Gaussian(2.0, given), random_state=0)
    assert "-0.0" not in json.dumps(card_of(tmp_path / "m.skops")["noise"])
    assert verify(tmp_path / "m.skops").failed is None


def test_a_source_of_a_covariance_goes_with_a_limit(shaped: Path) -> None:
    """`release` refuses public rows with a given noise: a model card that has both names them for show."""
    rewritten(shaped, lambda card: card["shape"].update({"name": "hessian", "from": "public.csv"}))
    assert "under 'shape.from'" in str(verify(shaped).failed)


@pytest.mark.parametrize("written", [lambda grid: [grid] * (WIDTH + 1), int], ids=["a list", "a whole number"])
def test_a_grid_is_written_in_one_way(written: Callable[[float], Any], tmp_path: Path, raw: RawTable) -> None:
    path = tmp_path / "m.skops"
    save_model(raw, FITTED, path, noise=2.0**50, random_state=0)
    assert verify(path).failed is None
    mended(path, change=lambda card: card.update(grid=written(card["grid"])))
    assert "under 'grid'" in str(verify(path).failed)


def test_a_covariance_of_version_0_1_0_is_read_and_named(shaped: Path) -> None:
    """Its model cards may have zeros with a sign, and what rounding left on either side."""
    card = as_earlier(card_of(shaped))
    _unsymmetric(card["noise"]["shape"])
    _signed(card["noise"]["shape"])
    check_card(sealed(card), "'m.skops.json'")
    assert str(covariance_words(card)).startswith(NAMED)


@pytest.mark.parametrize("source", ["given", "public.csv"])
def test_a_policy_states_where_a_covariance_comes_from(source: str, raw: RawTable) -> None:
    """The name of public rows is as free as the digits are."""
    plan = Plan(5.0, attacks=False, released=True, covariance=source)
    rules = "[rows]\nmax_eta = 1e9\n[require]\nreleased = true\n"

    def released(policy: str) -> Any:
        stated = replace(plan, policy=policy_of(tomllib.loads(policy)))
        return {rule.name: rule for rule in audit_trained(train(raw, FITTED), FITTED, stated).rules}

    refused = released(rules)["require.released"]
    assert not refused.passed
    assert f"write covariance = ['{source}'] under [require]" in refused.words
    remedy = refused.words.partition("write ")[2].partition(" under")[0]
    allowed = released(f"{rules}{remedy}\n")
    assert allowed["require.released"].passed
    assert allowed["require.covariance"].passed
    assert not released(f'{rules}covariance = ["other.csv"]\n')["require.covariance"].passed


@pytest.mark.long
def test_the_command_line_refuses_a_covariance_that_no_policy_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    pandas.DataFrame(rng.normal(50, 10, (80, 21)).round(1)).rename(columns=lambda j: f"x{j}").to_csv(
        "t.csv", index=False
    )
    noise = Gaussian(2.0, np.diag(np.arange(1.0, 22.0)))
    save_model(read_table("t.csv"), Settings("x0", held_out=0.0), Path("m.skops"), noise=noise, random_state=0)
    for stated, status in (("", 1), ('covariance = ["given"]\n', 0)):
        Path("policy.toml").write_text(f"[rows]\nmax_eta = 1e9\n[require]\nreleased = true\n{stated}", encoding="utf-8")
        line = [
            "audit",
            "t.csv",
            "--released",
            "m.skops",
            "--policy",
            "policy.toml",
            "--draws",
            "2",
            "--no-attacks",
            "-v",
        ]
        assert main(line) == status, capsys.readouterr()
        said = " ".join("".join(capsys.readouterr()).split())
        assert ("write covariance = ['given'] under [require]" in said) == (status == 1)
        assert "The covariance of the noise, 21 x 21 numbers in every digit: it was given" in said


# Files that take more memory than they have bytes


def nested(depth: int, size: int) -> bytes:
    """Ones within lists: laid out as skops does, each has twice as many blanks before it as it is deep."""
    return b'{"a":' + b"[" * depth + b",".join([b"1"] * (size // 2)) + b"]" * depth + b"}"


@pytest.mark.parametrize("depth", [850, MOST_DEPTH - 1], ids=["deep", "as deep as is read"])
def test_a_file_takes_little_more_memory_than_its_size(depth: int, made: Path) -> None:
    """Written anew as a whole, 850 levels would take 1,700 times the file: 2.8 GB of 1.5 MB."""
    size = int(0.99 * most_bytes(card_of(made))) - 2000
    mended(made, _zipped([(zipfile.ZipInfo("schema.json", WHEN), nested(depth, size))]))
    tracemalloc.start()
    try:
        assert "not written as skops writes it" in str(verify(made).failed)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


def test_entries_of_an_archive_are_counted_before_they_are_read(made: Path) -> None:
    """Empty members lie on each other: each takes 50 bytes of the file, and an object of many times that."""
    names, end = [f"{k:05}" for k in range(20_000)], struct.Struct("<4sHHHHIIH")
    local = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 0, 0, 33, 0, 0, 0, 5, 0) + names[0].encode()
    entry = struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 788, 20, 0, 0, 0, 33, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0)
    entries = b"".join(entry + name.encode() for name in names)
    data = local + entries + end.pack(b"PK\5\6", 0, 0, len(names), len(names), len(entries), len(local), 0)
    assert len(zipfile.ZipFile(io.BytesIO(data)).infolist()) == len(names)
    mended(made, data)
    assert "more than one member for each 1,024 bytes" in str(verify(made).failed)


def test_a_text_is_compared_up_to_the_first_difference() -> None:
    content = {"a": [1, {"b": "ä"}], "c": 2.5}
    for ascii_only in (True, False):
        text = json.dumps(content, indent=2, ensure_ascii=ascii_only).encode()
        assert is_text_of(text, content, ascii_only)
        for other in (text[:-1], text + b" ", text.replace(b"2.5", b"2.50"), json.dumps(content).encode()):
            assert not is_text_of(other, content, ascii_only)


def test_brackets_in_strings_are_no_levels() -> None:
    text = json.dumps({"[" * 200 + '"\\': ["{" * 200] * 3}).encode()
    assert loaded_json(text) == json.loads(text)
    assert loaded_json(b"[" * MOST_DEPTH + b"]" * MOST_DEPTH) is not None
    assert loaded_json(b"[" * (MOST_DEPTH + 1) + b"]" * (MOST_DEPTH + 1)) is None
    assert loaded_json(b'"' + b'\\"' * 500_000) is None  # one that is never closed is looked at once


# Cards and keys that ended in a crash, or never


@pytest.mark.parametrize("depth", [MOST_DEPTH + 1, 975])
def test_a_card_of_the_first_schema_that_is_nested_deep_is_refused(depth: int, made: Path) -> None:
    card = card_of(made) | {"schema": EARLIER[0], "columns": []}
    whole = json.dumps(sealed(card)).replace('"columns": []', f'"columns": {"[" * depth}{"]" * depth}')
    card_path(made).write_text(whole, encoding="utf-8")
    with pytest.raises(DataError, match=f"at most {MOST_DEPTH} levels"):
        verify(made)


@pytest.mark.parametrize("mark", ["\ud800", "", "a" * 63, "A" * 64, "ä" * 64, 5], ids=ascii)
def test_a_mark_that_is_none_is_refused(mark: Any, tmp_path: Path, raw: RawTable) -> None:
    path, ledger, public = (tmp_path / name for name in ("m.skops", "ledger", "public.pem"))
    private = Ed25519PrivateKey.generate()
    public.write_bytes(private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    save_model(raw, FITTED, path, noise=20.0, ledger=ledger, random_state=0)
    card = card_of(path) | {"schema": EARLIER[0], "ledger": {"release": 1, "mark": mark}}
    card_path(path).write_text(json.dumps(sealed(card, private)), encoding="utf-8")
    assert "says wrongly which release on a ledger it is" in str(verify(path, public, ledger).failed)


@pytest.mark.parametrize("odd", ["NaN", "1e999", "[" * 950 + "]" * 950], ids=["NaN", "infinite", "deep"])
def test_a_ledger_that_cannot_be_written_again_is_damaged(odd: str, tmp_path: Path, raw: RawTable) -> None:
    """Python reads more than it writes."""
    path, ledger = tmp_path / "m.skops", tmp_path / "ledger"
    save_model(raw, FITTED, path, noise=20.0, ledger=ledger, random_state=0)
    ledger.write_text(ledger.read_text(encoding="utf-8")[:-1] + f', "note": {odd}}}', encoding="utf-8")
    for read in (lambda: verify(path, ledger=ledger), lambda: spent_on(ledger, raw)):
        with pytest.raises(DataError, match="is damaged"):
            read()


def test_of_a_policy_no_more_is_read_than_one_has(tmp_path: Path) -> None:
    _large(tmp_path / "policy.toml")
    with pytest.raises(InvalidInputError, match="has more than 1,000,000 bytes"):
        read_policy(tmp_path / "policy.toml")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
@pytest.mark.parametrize("make", [_pipe, _large])
def test_a_key_is_a_small_file(make: Callable[[Path], None], made: Path, tmp_path: Path, raw: RawTable) -> None:
    key = tmp_path / "key.pem"
    make(key)
    says = "no regular file|larger than a key can be"
    with pytest.raises(DataError, match=says):
        verify(made, key=key)
    with pytest.raises(DataError, match=says):
        save_model(raw, FITTED, tmp_path / "n.skops", noise=2.0, sign=key)
    with pytest.raises(DataError, match="no regular file"):
        verify(made, key=Path(os.devnull))

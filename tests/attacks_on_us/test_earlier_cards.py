"""Digits that cards of version 0.1.0 leave open, and trees of many small pieces: what is hidden in them, and what they take."""

from __future__ import annotations

import contextlib
import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("skops")

from attacks_on_us.test_cards_and_ledgers import card_of, rewritten
from attacks_on_us.test_hidden_in_files import audited, earlier_file, mended, refused
from copies import copied_release
from fisherleak.cli import main
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.protection.ledger import ledger as ledger_module
from fisherleak.protection.ledger.ledger import Ledger
from fisherleak.protection.ledger.ledger_file import _digest
from fisherleak.releasing.cards.card_fields import EARLIER
from fisherleak.releasing.files import model_files
from fisherleak.releasing.files.earlier_files import IN_FILE, free_digits
from fisherleak.releasing.files.model_files import PART_BYTES, PIECE_BYTES, WHEN, ModelFile, _zipped
from fisherleak.releasing.files.model_nodes import last_step
from fisherleak.releasing.files.rebuilt_files import most_bytes
from fisherleak.releasing.files.released_files import save_model
from fisherleak.releasing.files.verification import verify
from fisherleak.releasing.ledgers import spent_on
from fisherleak.tables import RawTable, from_frame
from fisherleak.training.trained_model import Settings

pytestmark = pytest.mark.usefixtures("quick_audits")
Json = dict[str, Any]
ROWS, WIDTH = 200, 4
FITTED = Settings("y", held_out=0.0)


def table(width: int = WIDTH) -> Any:
    rng = np.random.default_rng(2)
    frame = {f"x{j}": rng.normal(50, 10, ROWS).round(1) for j in range(width)}
    frame["y"] = (frame["x0"] - frame["x1"] + rng.normal(0, 5, ROWS)).round(1)
    return pandas.DataFrame(frame)


@pytest.fixture(scope="module")
def raw() -> RawTable:
    return from_frame(table())


@pytest.fixture(scope="module")
def limited_once(tmp_path_factory: pytest.TempPathFactory, raw: RawTable) -> Path:
    path = tmp_path_factory.mktemp("limited") / "m.skops"
    save_model(raw, FITTED, path, eta=5.0, shape="isotropic", random_state=0)
    return path


@pytest.fixture
def limited(tmp_path: Path, limited_once: Path) -> Path:
    """A release of the present version with a limit and with bounds from rows."""
    return copied_release(limited_once, tmp_path)


@pytest.fixture
def earlier(limited: Path) -> Path:
    """The same as version 0.1.0 wrote it."""
    earlier_file(limited, FITTED)
    return limited


# Cards of version 0.1.0


INTERCEPT, SCALE = "the last digits of the intercept", "the last digits of the noise scale"
PROBABILITY = "every digit of the probability of another noise scale"
OF_ROWS = f"every digit of the bounds from rows of {WIDTH + 1} columns"


def moved(number: float, steps: int) -> float:
    """A number so many units in its last place farther up."""
    return number + steps * math.ulp(number)


def test_what_an_earlier_card_leaves_open_is_named(earlier: Path, raw: RawTable) -> None:
    [named] = [each for each in verify(earlier).unchecked if "version 0.1.0" in each]
    for part in (INTERCEPT, SCALE, PROBABILITY, OF_ROWS):
        assert part in named
    assert named.endswith("they can carry other data. Release the model again.")
    found = audited(earlier, raw)
    assert found.failed is None
    [named] = [each for each in found.unconfirmed if each.startswith("Of a file of version 0.1.0")]
    assert all(part in named for part in (INTERCEPT, SCALE, PROBABILITY))
    assert "bounds" not in named  # an audit computes them again


def test_what_an_earlier_file_can_hide_is_said_without_being_asked(
    earlier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kilobytes fit into the numbers of its nodes: only ``-v`` said so."""
    table().to_csv(tmp_path / "t.csv", index=False)
    for words in (
        ["verify", str(earlier)],
        ["audit", str(tmp_path / "t.csv"), "--released", str(earlier), "--no-attacks"],
    ):
        assert main([*words, *(["--out", str(tmp_path / "out")] if words[0] == "audit" else [])]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "f a file of version 0.1.0 and its model card, the numbers, times, orders and system in the file" in said
        assert "they can carry other data" in said


def test_no_more_is_named_than_a_card_has(limited: Path) -> None:
    assert free_digits(card_of(limited)) == []
    assert not any("0.1.0" in each for each in verify(limited).unchecked)
    given = card_of(limited) | {"schema": EARLIER[-1], "noise": {"kind": "Gaussian", "scale": 2.0}}
    [named] = free_digits(given)
    assert INTERCEPT in named
    assert "scale" not in named
    assert "bounds" not in named


def test_predict_names_them(earlier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table().to_csv(tmp_path / "t.csv", index=False)
    assert main(["predict", str(earlier), str(tmp_path / "t.csv"), "--out", str(tmp_path / "p.csv")]) == 0
    said = " ".join("".join(capsys.readouterr()).split())
    assert f"Not checked: Of a file of version 0.1.0 and its model card, {IN_FILE}, {INTERCEPT}" in said


@pytest.mark.parametrize("end", ["low", "high"])
def test_a_row_in_the_ends_of_bounds_from_rows_of_an_earlier_card(end: str, earlier: Path, raw: RawTable) -> None:
    """Any two ends that differ by a part in 1e9 passed: 22 bits each."""

    def hide(card: Json) -> None:
        bound = card["noise"]["calibrated"]["bounds"]["x2"]
        assert bound["from"] == "rows"
        bound[end] = moved(bound[end], 1)

    mended(earlier, change=hide)
    assert verify(earlier).failed is None  # no table, no bounds: it says so
    assert "has other bounds than a new release of this table" in str(audited(earlier, raw).failed)


def test_a_row_in_the_noise_scale_of_an_earlier_card(earlier: Path) -> None:
    mended(earlier, change=lambda card: card["noise"].update(scale=moved(card["noise"]["scale"], 1000)))
    assert "under 'noise.calibrated.offset'" in str(verify(earlier).failed)


def with_intercept(path: Path, change: Callable[[float], float]) -> None:
    """The same file with another intercept."""
    card = card_of(path)
    file = ModelFile.read(path, most_bytes(card), card["model"]["file_sha256"], card["schema"] in EARLIER)
    node = last_step(file.tree)["intercept_"]
    node["content"] = json.dumps(change(json.loads(node["content"])))
    mended(path, file.encoded())


def sizes(path: Path) -> tuple[float, float]:
    """The sum of |coefficient x centre|, and the intercept."""
    card = card_of(path)
    file = ModelFile.read(path, most_bytes(card), card["model"]["file_sha256"], card["schema"] in EARLIER)
    last = last_step(file.tree)
    coef = np.frombuffer(file.arrays[last["coef_"]["file"]][-8 * WIDTH :])
    centres = np.array([column["centre"] for column in card["columns"]])
    return float(np.abs(coef * centres).sum()), float(json.loads(last["intercept_"]["content"]))


@pytest.mark.parametrize("way", [-1, 1])
def test_a_row_in_the_intercept_of_an_earlier_file(way: int, earlier: Path) -> None:
    """Of four columns about 14 bits were free; sums of floats round a few units in the last place of their largest term."""
    total, intercept = sizes(earlier)
    away = 2 * (WIDTH + 2) * math.ulp(max(total, abs(intercept)))
    with_intercept(earlier, lambda own: own + way * away)
    assert "parameters that are off the model card's grid" in str(verify(earlier).failed)


def test_an_intercept_of_an_earlier_file_may_be_summed_in_floats(earlier: Path) -> None:
    with_intercept(earlier, lambda own: moved(own, 1))
    assert verify(earlier).failed is None


@pytest.mark.parametrize("way", [-1, 1])
def test_the_intercept_of_a_present_file_has_no_free_digit(way: int, limited: Path) -> None:
    with_intercept(limited, lambda own: moved(own, way))
    assert "parameters that are off the model card's grid" in str(verify(limited).failed)


def test_a_policy_that_asks_for_a_released_file_refuses_an_earlier_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table(20).to_csv("t.csv", index=False)
    Path("policy.toml").write_text("[rows]\nmax_eta = 1e9\n[require]\nreleased = true\n", encoding="utf-8")
    line = ["audit", "t.csv", "--released", "m.skops", "--policy", "policy.toml", "--draws", "2", "--no-attacks"]
    save_model(from_frame(table(20)), FITTED, Path("m.skops"), noise=2.0, random_state=0)
    rewritten(Path("m.skops"), lambda card: card["data"].update(source="t.csv"))
    assert main(line) == 0, capsys.readouterr()
    capsys.readouterr()
    earlier_file(Path("m.skops"), FITTED)
    assert main(line) == 1
    said = " ".join("".join(capsys.readouterr()).split())
    assert "its model card is of version 0.1.0, which leaves digits open. Release the model again." in said
    assert "the policy 'policy.toml' failed: require.released." in said


# Trees of many small pieces


def repeated(piece: bytes, size: int) -> bytes:
    return b'{"a":[' + b",".join([piece] * (size // (len(piece) + 1))) + b"]}"


def keyed(size: int) -> bytes:
    return b"{" + b",".join(b'"%06d":1' % k for k in range(size // 11)) + b"}"


SMALL: dict[str, Callable[[int], bytes]] = {
    "strings": lambda size: repeated(b'"00000"', size),
    "numbers": lambda size: repeated(b"0.1", size),
    "keys": keyed,
    "records": lambda size: repeated(b'{"a":"                                                "}', size),
    "strings with quotes": lambda size: repeated(rb'"\""', size),
    "strings that end in a backslash": lambda size: repeated(rb'"\\"', size),
}


@pytest.mark.parametrize("way", SMALL)
def test_a_tree_of_many_small_pieces_is_never_parsed(
    way: str, limited: Path, raw: RawTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parsed, each takes up to twenty times its text: a file of 100 MB took 2.6 GB."""
    size = int(0.9 * most_bytes(card_of(limited)))
    mended(limited, _zipped([(zipfile.ZipInfo("schema.json", WHEN), SMALL[way](size))]))
    monkeypatch.setattr(model_files, "loaded_json", lambda text: pytest.fail("parsed"))
    assert "too many pieces for its size" in refused(limited, raw)


@pytest.mark.parametrize(
    "text", [b'"' + b'\\"' * 200_000, b'"a"' * 200_000, b" " * 500_000], ids=["open", "strings", "blanks"]
)
def test_marks_are_looked_for_once(text: bytes) -> None:
    """A place that is looked at again for every one before it would take minutes."""
    assert not model_files._too_dense(text)
    assert [*model_files._marks(b'{"a,[": ["]", 1], "\\"}": {}}')] == [*b"{:[,],:{}}"]


def test_honest_trees_have_twice_the_room(tmp_path: Path, limited: Path) -> None:
    """The smallest model there is, and one whose names are full of marks."""
    odd = table(2).rename(columns={"x0": "[{,:" * 200, "x1": '"\\' * 300})
    save_model(from_frame(odd), FITTED, tmp_path / "odd.skops", noise=2.0, random_state=0)
    assert verify(tmp_path / "odd.skops").failed is None
    one = table(2)[["x0", "y"]]
    save_model(from_frame(one), FITTED, tmp_path / "one.skops", noise=2.0, random_state=0)
    for path in (limited, tmp_path / "one.skops"):
        with zipfile.ZipFile(path) as archive:
            text = archive.read("schema.json")
        marks = [*model_files._marks(text)]
        opening = sum(mark in b"[{" for mark in marks)
        pieces = len(marks) - opening  # as many close
        assert len(text) > 1.9 * PART_BYTES * opening
        assert len(text) > 1.9 * PIECE_BYTES * pieces


# Ledgers that never end, and that have no number


@pytest.fixture
def ledger(tmp_path: Path, raw: RawTable) -> Path:
    path = tmp_path / "ledger.json"
    save_model(raw, FITTED, tmp_path / "first.skops", noise=2.0, ledger=path, random_state=0)
    return path


SAME: dict[str, Callable[[Path], Path]] = {
    "the same name": lambda path: path,
    "a link to it": lambda path: linked(path.with_name("other.json"), path),
    "another way to it": lambda path: path.parent / ".." / path.parent.name / path.name,
}


def linked(path: Path, to: Path) -> Path:
    path.symlink_to(to)
    return path


@pytest.mark.parametrize("way", SAME)
@pytest.mark.parametrize("there", [True, False], ids=["there", "missing"])
def test_a_ledger_is_not_carried_to_itself(
    way: str, there: bool, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two locks on one file was waited for without end."""
    before = ledger.read_bytes()
    if not there:
        ledger.unlink()
    taken: list[Path] = []

    def held(path: Path) -> Any:
        taken.append(path)
        return contextlib.nullcontext()

    monkeypatch.setattr(ledger_module, "held", held)
    with pytest.raises(InvalidInputError, match="is there already: name a file that is not"):
        Ledger(ledger).carry_to(SAME[way](ledger))
    assert not taken
    assert not there or ledger.read_bytes() == before


def test_a_link_that_leads_back_to_itself(tmp_path: Path, ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table().to_csv(tmp_path / "t.csv", index=False)
    loop = linked(tmp_path / "loop", linked(tmp_path / "back", tmp_path / "loop"))
    release = ["release", str(tmp_path / "t.csv"), "--target", "y", "--noise", "2", "--out"]
    for line in (
        [*release, str(loop)],
        [*release, str(tmp_path / "n.skops"), "--ledger", str(loop)],
        ["ledger", str(ledger), "--carry-to", str(loop)],
        ["predict", str(tmp_path / "first.skops"), str(tmp_path / "t.csv"), "--out", str(loop)],
    ):
        assert main(line) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert "should not happen" not in said
        assert "loop" in said


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_total_that_is_no_number_passes_no_limit(ledger: Path, tmp_path: Path, raw: RawTable) -> None:
    """An eta that is no number is not above a limit: release 2 passed, though release 1 had spent it."""
    content = json.loads(ledger.read_text(encoding="utf-8"))
    content["entries"][0]["folding"]["slopes"][0] = 1e300
    ledger.write_text(json.dumps(content | {"digest": _digest(content)}), encoding="utf-8")
    with pytest.raises(DataError, match=r"no number|damaged"):
        save_model(raw, FITTED, tmp_path / "m.skops", noise=2.0, ledger=ledger, limit=100.0, random_state=1)
    with pytest.raises(DataError, match=r"no number|damaged"):
        spent_on(ledger, raw)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_release_whose_eta_is_past_numbers_is_not_a_damaged_ledger(tmp_path: Path, raw: RawTable) -> None:
    with pytest.raises(InvalidInputError, match="Use more noise"):
        save_model(
            raw, FITTED, tmp_path / "m.skops", noise=1e-160, ledger=tmp_path / "new.json", limit=1.0, random_state=1
        )
    assert not (tmp_path / "new.json").exists()

"""Cards that claim another penalty, settings that name other columns, noise that is none, and files that are no files."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("skops")

from attacks_on_us.test_hidden_in_files import audited, mended
from copies import copied_release
from fisherleak.engine.noise import Gaussian, Laplace, grid_of
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.models.several import all_parameters
from fisherleak.protection.ledger.ledger_file import mark_of, read_content, write_content
from fisherleak.releasing.cards.card_fields import EARLIER
from fisherleak.releasing.cards.cards import model_of, sentences_of
from fisherleak.releasing.cards.signatures import card_path, card_text, digest_of, file_digest, sealed
from fisherleak.releasing.files import released_files, verification
from fisherleak.releasing.files.model_files import ModelFile
from fisherleak.releasing.files.rebuilt_files import most_bytes
from fisherleak.releasing.files.released_files import load_model, save_model
from fisherleak.releasing.files.verification import verify
from fisherleak.tables import RawTable, from_frame
from fisherleak.training.noise_words import near_lines
from fisherleak.training.pipelines import own_parameters, parameters_as_released, pipeline_with
from fisherleak.training.trained_model import Settings, train
from often import often

pytestmark = pytest.mark.usefixtures("quick_audits")
Json = dict[str, Any]
ROWS = 300


def card_of(path: Path) -> Json:
    found: Json = json.loads(card_path(path).read_text(encoding="utf-8"))
    return found


def rewritten(path: Path, change: Callable[[Json], Any], parameters: Any = None) -> None:
    """A model card with other fields, its sentences with them, and a file for that card."""
    card = card_of(path)
    change(card)
    data = None
    if parameters is not None:
        data = ModelFile.of(pipeline_with(model_of(card), parameters)).encoded()
    chosen = copy.deepcopy(card["assumptions"][len(sentences_of(card_of(path))) :])
    card["assumptions"] = [*sentences_of(card), *chosen]

    def exchanged(old: Any) -> None:
        old.clear()
        old.update(card)

    mended(path, data, exchanged)


# The penalty of the card


@pytest.fixture(scope="module")
def plain() -> RawTable:
    """Thirty numbers whose coefficients noise of scale 0.5 hides."""
    rng = np.random.default_rng(11)
    frame = {f"x{i}": rng.normal(50, 10, ROWS).round(1) for i in range(30)}
    frame["y"] = 60 + sum((column - 50) * 0.02 for column in frame.values()) + rng.normal(0, 8, ROWS)
    return from_frame(pandas.DataFrame(frame).round(2))


FITTED = Settings("y", held_out=0.0, l2=1e-4)


@pytest.mark.long
def test_a_card_with_a_larger_penalty_makes_no_eta_smaller(tmp_path: Path, plain: RawTable) -> None:
    path = tmp_path / "m.skops"
    save_model(plain, FITTED, path, noise=0.5, random_state=0)
    honest = audited(path, plain)
    assert honest.failed is None
    assert any("That the model was fitted with `l2=0.0001`" in each for each in honest.unconfirmed)
    raw = parameters_as_released(model_of(card_of(path)), _in_frame(path))
    rewritten(path, lambda card: card["settings"].update(l2=100.0), raw)
    assert verify(path).failed is None
    failed = audited(path, plain).failed
    assert failed is not None
    assert "says that `l2` is 100" in failed


def _in_frame(path: Path) -> Any:
    saved = load_model(path)
    columns = saved.card["columns"]
    raw = all_parameters(saved.model[-1])
    scales, centres = (np.array([column[name] for column in columns]) for name in ("scale", "centre"))
    return np.append(raw[:-1] * scales, raw[-1] + raw[:-1] @ centres)


def test_a_penalty_that_noise_hides_is_named_with_its_eta(tmp_path: Path, plain: RawTable) -> None:
    path = tmp_path / "m.skops"
    save_model(plain, dataclasses.replace(FITTED, l2=1.0), path, noise=2.0, random_state=0)
    found = audited(path, plain)
    (said,) = [each for each in found.unconfirmed if "fitted with `l2=1`" in each]
    assert "`l2` from 1e-06 to 10000" in said
    assert "its largest eta would be" in said
    assert "Noise below 0." in said


def test_a_fit_without_noise_is_none_with_noise_around_another(tmp_path: Path, plain: RawTable) -> None:
    """The distance between two fits passes as noise; along the fits with all penalties it is none."""
    path = tmp_path / "m.skops"
    save_model(plain, FITTED, path, noise=0.5, random_state=0)
    exact, shrunken = (own_parameters(train(plain, dataclasses.replace(FITTED, l2=l2))) for l2 in (3e-3, 100.0))
    scale = float(2.0 ** (round(4 * np.log2(np.sqrt(np.mean((exact - shrunken) ** 2)))) / 4))
    grid = float(grid_of(Gaussian(scale), exact.size)[0])

    def change(card: Json) -> None:
        card["settings"]["l2"] = 100.0
        card["noise"] = {"kind": "Gaussian", "scale": scale}
        card["grid"] = grid

    card = card_of(path)
    change(card)
    rewritten(path, change, parameters_as_released(model_of(card), np.rint(exact / grid) * grid))
    assert verify(path).failed is None
    failed = audited(path, plain).failed
    assert failed is not None
    assert "holds less noise than its model card claims" in failed


@pytest.mark.parametrize("noise", [Gaussian(1.5), Laplace(1.5)])
def test_noise_is_as_far_from_lines_as_it_is_said(noise: Any) -> None:
    """Honest noise around a point of a path is never found too near; noise of the part that is said to be noticed is."""
    rng = np.random.default_rng(3)
    path = [np.outer([np.cos(t), np.sin(t)], np.ones(12)).ravel() * 4 for t in np.linspace(0, 2, 8)]
    draws = noise.draws(400, 24, rng)
    found: list[Any] = [near_lines(noise, [draw - point + path[2] for point in path]) for draw in draws]
    assert all(each is not None and each.found > each.low for each in found)
    part = found[0].notices_below
    assert 0.2 < part < 0.6
    middle = (path[4] + path[5]) / 2
    near: list[Any] = [near_lines(noise, [part * draw + middle - point for point in path]) for draw in draws]
    assert np.mean([each.found < each.low for each in near]) > 0.9


# Names of columns


@pytest.fixture(scope="module")
def people() -> Any:
    rng = np.random.default_rng(5)
    frame = pandas.DataFrame({f"n{i}": rng.normal(50, 10, ROWS).round(1) for i in range(6)})
    frame["code"] = rng.integers(1, 4, ROWS)
    frame["flag"] = rng.integers(0, 2, ROWS)
    frame["city"] = rng.choice(["Bern", "Chur", "Zug"], ROWS)
    frame.loc[:2, "city"] = "Genf"
    frame["still"] = 3.0
    frame["sort"] = rng.choice(["a", "b"], ROWS)
    frame["Name"] = [f"person {i}" for i in range(ROWS)]
    frame["y"] = (frame.n0 * 0.3 + rng.normal(0, 5, ROWS)).round(2)
    return frame


NAMED = Settings(
    "y",
    held_out=0.0,
    numbers=("n0", "n3", "flag"),
    categories=("code", "city"),
    drop=("Name", "n5", "still"),
    levels=(("city", ("Bern", "Genf")), ("code", ("1", "2", "3", "4"))),
    unite=("sort",),
    seed=7,
    keep_total=True,
    decimal=".",
)


@pytest.fixture(scope="module")
def named_once(tmp_path_factory: pytest.TempPathFactory, people: Any) -> Path:
    path = tmp_path_factory.mktemp("named") / "m.skops"
    save_model(from_frame(people), NAMED, path, noise=2.0, random_state=0)
    return path


@pytest.fixture
def named(tmp_path: Path, named_once: Path) -> Path:
    return copied_release(named_once, tmp_path)


def test_a_card_names_columns_once(named: Path, people: Any) -> None:
    """Its columns say what is left out, a number or a category; what else was declared stands there as it was given."""
    settings = card_of(named)["settings"]
    given = {name: settings[name] for name in ("numbers", "categories", "drop", "seed", "keep_total", "decimal")}
    assert given == {"numbers": [], "categories": [], "drop": [], "seed": 0, "keep_total": True, "decimal": "."}
    assert settings["unite"] == ["sort"]
    assert settings["levels"] == [["city", ["Bern", "Genf"]], ["code", ["1", "2", "3", "4"]]]
    found = audited(named, from_frame(people))
    assert found.failed is None
    (said,) = [each for each in found.unconfirmed if each.startswith("The exact values of settings")]
    assert "l2, levels, decimal, unite, keep_total" in said
    assert any("under settings.levels, settings.decimal" in each for each in verify(named).unchecked)


@pytest.mark.parametrize(
    "change",
    often(
        [
            {"numbers": ["flag"]},
            {"drop": ["Name", "n5"]},
            {"categories": ["city", "code"]},
            {"unite": ["Name"]},
            {"levels": [["city", ["Bern", "Genf"]], ["Name", ["b"]]]},
        ],
        3,
    ),
    ids=str,
)
def test_names_of_other_columns_are_refused(change: Json, named: Path, people: Any) -> None:
    rewritten(named, lambda card: card["settings"].update(change))
    assert f"'settings.{next(iter(change))}'" in str(verify(named).failed)
    with pytest.raises(DataError, match=f"'settings.{next(iter(change))}'"):
        audited(named, from_frame(people))


def test_a_seed_without_held_out_rows_is_refused(named: Path, people: Any) -> None:
    rewritten(named, lambda card: card["settings"].update(seed=5))
    with pytest.raises(InvalidInputError, match=r"'settings\.seed'"):
        audited(named, from_frame(people))


@pytest.mark.parametrize("change", [{"l2": 1}, {"l2": -0.0}, {"intercept_l2": 0}, {"intercept_l2": -0.0}], ids=str)
def test_a_penalty_is_written_in_one_way(change: Json, tmp_path: Path, people: Any) -> None:
    path = tmp_path / "m.skops"
    save_model(from_frame(people), dataclasses.replace(NAMED, l2=1, intercept_l2=0), path, noise=2.0, random_state=0)
    assert str(card_of(path)["settings"]["l2"]) == "1.0"
    assert verify(path).failed is None
    rewritten(path, lambda card: card["settings"].update(change))
    assert f"'settings.{next(iter(change))}'" in str(verify(path).failed)


# Noise alone, and numbers beside the noise


@pytest.mark.parametrize("shape", [None, "hessian"])
def test_coefficients_of_categories_that_no_row_has_are_noise(shape: str | None, tmp_path: Path, people: Any) -> None:
    path, more = tmp_path / "m.skops", tuple(f"g{k}" for k in range(8))
    settings = dataclasses.replace(NAMED, levels=(("city", ("Bern", "Chur", "Genf", "Zug", *more)),), numbers=())
    how: Json = {"noise": 2.0} if shape is None else {"eta": 1.0, "over": "max", "shape": shape}
    save_model(from_frame(people), settings, path, random_state=0, **how)
    assert audited(path, from_frame(people)).failed is None
    card = card_of(path)
    raw = all_parameters(load_model(path).model[-1]).copy()
    grid = card["grid"] if isinstance(card["grid"], float) else max(card["grid"])
    at = _places_of(card, "city", more)
    raw[at] = np.arange(1, 9) * 2.0**40 * grid
    rewritten(path, lambda card: None, raw)
    assert verify(path).failed is None
    with pytest.raises(InvalidInputError, match=r"parameters that no row of .* decides"):
        audited(path, from_frame(people))


def _places_of(card: Json, name: str, levels: tuple[str, ...]) -> list[int]:
    at = 0
    for column in card["columns"]:
        if column["name"] == name:
            return [at + column["levels"].index(level) - 1 for level in levels]
        at += 1 if column["kind"] == "number" else len(column["levels"]) - 1
    raise KeyError(name)


@pytest.fixture(scope="module")
def few() -> RawTable:
    rng = np.random.default_rng(2)
    frame = pandas.DataFrame(rng.normal(50, 10, (2000, 2)).clip(10, 90).round(1), columns=["a", "b"])
    frame["y"] = (frame.a + rng.normal(0, 5, len(frame))).clip(0, 120).round(1)
    return from_frame(frame)


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory, few: RawTable) -> Path:
    path = tmp_path_factory.mktemp("bounded") / "m.skops"
    bounds = (("a", (0.0, 100.0)), ("b", (0.0, 100.0)), ("y", (0.0, 120.0)))
    settings = Settings("y", held_out=0.0, l2=1.0, bounds=bounds, model="linear")
    save_model(few, settings, path, eta=2.0, shape="isotropic", attribute=["a", "b"], random_state=0)
    return path


@pytest.mark.parametrize("chance", [0.0, 1.2345678901234567e-17, 0.013, 0.011111, 1, 0.33])
def test_no_probability_of_another_scale_is_on_a_card(chance: float, bounded: Path, tmp_path: Path) -> None:
    """It follows from all rows, and no noise is on it."""
    path = copied_release(bounded, tmp_path)
    rewritten(path, lambda card: card["noise"]["calibrated"].update(probability=chance))
    assert "noise.calibrated.probability" in str(verify(path).failed)


def test_which_columns_a_limit_is_on_is_not_confirmed(bounded: Path, few: RawTable) -> None:
    found = audited(bounded, few)
    assert found.failed is None
    assert any("Which columns the limit is on, 2 of 3" in each for each in found.unconfirmed)


# Ledgers


@pytest.fixture
def on_ledger(tmp_path: Path, few: RawTable) -> tuple[Path, Path]:
    path, ledger = tmp_path / "m.skops", tmp_path / "ledger.json"
    save_model(few, Settings("y", held_out=0.0), path, noise=2.0, ledger=ledger, random_state=0)
    return path, ledger


def test_the_mark_of_a_ledger_covers_the_card(on_ledger: tuple[Path, Path]) -> None:
    path, ledger = on_ledger
    assert (
        verify(path, ledger=ledger)
        .confirmed[-1]
        .endswith("as number 1 of 1: file, model card and the ledger's own entry.")
    )
    grid = float(grid_of(Gaussian(2.1), 3)[0])
    rewritten(path, lambda card: card["noise"].update(scale=2.1))
    assert card_of(path)["grid"] == grid
    assert verify(path).failed is None
    assert "was not recorded on" in str(verify(path, ledger=ledger).failed)


def test_marks_that_were_made_without_the_card_still_hold(on_ledger: tuple[Path, Path]) -> None:
    path, ledger = on_ledger
    content = read_content(ledger)
    mark = mark_of(content, 1, file_digest(path))
    content["entries"][0]["mark"] = mark
    write_content(ledger, content)
    rewritten(path, lambda card: card["ledger"].update(mark=mark))
    found = verify(path, ledger=ledger)
    assert found.failed is None
    assert "its mark was made without the model card" in found.confirmed[-1]


@pytest.mark.parametrize(
    "odd",
    [
        {"entries": 5},
        {"entries": ["a"]},
        {"entries": None},
        {"carried": None},
        {"carried": [1]},
        {"key": "zz"},
        {"key": 5},
        {"key": None},
    ],
    ids=str,
)
def test_a_ledger_that_is_none_is_refused(odd: Json, on_ledger: tuple[Path, Path]) -> None:
    path, ledger = on_ledger
    write_content(ledger, read_content(ledger) | odd)
    with pytest.raises(DataError, match="is damaged"):
        verify(path, ledger=ledger)


def test_a_ledger_of_brackets_is_refused(on_ledger: tuple[Path, Path]) -> None:
    path, ledger = on_ledger
    ledger.write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(DataError, match="is damaged"):
        verify(path, ledger=ledger)


# Cards and files that are none


@pytest.mark.parametrize(
    "change",
    [
        {"settings": "x"},
        {"columns": ["x"]},
        {"columns": 5},
        {"settings": {"numbers": [[1]]}},
        {"settings": {"id": [1]}},
        {"settings": {"target": [1]}},
        {"model": {"parameters": "x"}},
    ],
    ids=str,
)
def test_a_card_of_the_first_schema_may_hold_anything(change: Json, named: Path) -> None:
    card = card_of(named) | {"schema": EARLIER[0]}
    for name, value in change.items():
        card[name] = card[name] | value if isinstance(value, dict) else value
    del card["digest"]
    card_path(named).write_text(json.dumps(card | {"digest": {"algorithm": "SHA-256", "value": digest_of(card)}}))
    assert "of schema 1, of which only a signature can be checked" in str(verify(named).failed)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
@pytest.mark.parametrize("which", ["model", "card", "ledger"])
def test_a_pipe_is_not_waited_for(which: str, named: Path, people: Any) -> None:
    ledger = named.with_name("ledger.json")
    place = {"model": named, "card": card_path(named), "ledger": ledger}[which]
    place.unlink(missing_ok=True)
    os.mkfifo(place, 0o600)
    with pytest.raises(DataError, match="is no regular file"):
        verify(named, ledger=ledger if which == "ledger" else None)
    if which != "ledger":
        with pytest.raises(DataError, match="is no regular file"):
            load_model(named)


def test_a_huge_file_is_not_hashed(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("it was read"))
    with named.open("r+b") as file:
        file.truncate(2**36)
    assert "it is not read" in str(verify(named).failed)
    with pytest.raises(DataError, match=r"it is not read|no skops file"):
        load_model(named)


def test_many_columns_and_classes_let_no_large_file_in(named: Path) -> None:
    card = card_of(named)
    number = card["columns"][0]
    card["columns"] = [number | {"name": str(k)} for k in range(4999)]
    card["target"]["classes"] = [f"{k:05d}" for k in range(100)]
    card["model"]["parameters"] = 100 * 5000
    assert most_bytes(card) < 2**28


def test_what_is_read_is_what_was_hashed(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is exchanged between its checksum and its content."""
    hidden = named.read_bytes() + b"a table"
    checksum = hashlib.sha256(hidden).hexdigest()
    mended(named, None, lambda card: None)
    card = card_of(named)
    card["model"]["file_sha256"] = checksum
    card_path(named).write_bytes(card_text(sealed(card)))
    for module in (verification, released_files):
        monkeypatch.setattr(module, "file_digest", lambda path: checksum)
    assert "was exchanged while" in str(verify(named).failed)
    with pytest.raises(DataError, match="was exchanged while"):
        load_model(named)

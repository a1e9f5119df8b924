"""Noise that all classes share, cards of version 0.1.0 that declare, sentences with other numbers, keys that sign anything."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.stats

pytest.importorskip("pyarrow")
pytest.importorskip("skops")

from attacks_on_us.test_cards_and_ledgers import card_of, rewritten
from attacks_on_us.test_hidden_in_files import audited, earlier_file, in_tree, mended
from fisherleak.auditing.unconfirmed_on_cards import SIGNER
from fisherleak.engine.noise import Gaussian, Laplace
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.protection.ledger.ledger import Ledger
from fisherleak.protection.ledger.ledger_file import mark_of, read_content, write_content
from fisherleak.releasing.any_record_noise import declared_ends
from fisherleak.releasing.cards.card_checks import check_card
from fisherleak.releasing.cards.cards import model_of
from fisherleak.releasing.cards.signatures import _EIGHTH, FIELD, file_digest
from fisherleak.releasing.files.released_files import load_model, save_model
from fisherleak.releasing.files.verification import DECLARED, NO_KEY, OTHER_ENTRIES, verify
from fisherleak.releasing.ledgers import marked_part, spent_on
from fisherleak.tables import RawTable, from_frame
from fisherleak.training.moved_parameters import BetweenClasses, moved_from_fit
from fisherleak.training.pipelines import framed, own_parameters, parameters_as_released
from fisherleak.training.trained_model import Settings, train
from often import often
from releasing.cards.test_signatures import write_keys

Json = dict[str, Any]
ROWS, CLASSES, WIDTH = 300, 3, 12


# Noise that is the same for every class


@pytest.fixture(scope="module")
def kinds() -> RawTable:
    """Twelve numbers and three classes."""
    rng = np.random.default_rng(5)
    X, W = rng.normal(size=(ROWS, WIDTH)), rng.normal(size=(WIDTH, CLASSES))
    frame = {f"x{j}": np.round(50 + 10 * X[:, j], 1) for j in range(WIDTH)}
    frame["kind"] = np.array(["a", "b", "c"])[(X @ W + rng.gumbel(size=(ROWS, CLASSES))).argmax(1)]
    return from_frame(pandas.DataFrame(frame))


CLASSED = Settings("kind", held_out=0.0, l2=0.01)


def by_class(values: Any) -> Any:
    """Values by class and feature, intercepts last, in the order of parameters."""
    return np.append(values[:, :-1].ravel(), values[:, -1])


def with_parameters(path: Path, parameters: Any) -> None:
    """The same release with other parameters, in the frame and on its grid."""
    card = card_of(path)
    on_grid = np.rint(parameters / np.asarray(card["grid"])) * np.asarray(card["grid"]) + 0.0
    rewritten(path, lambda card: None, parameters_as_released(model_of(card), on_grid))


@pytest.fixture
def softmax(tmp_path: Path, kinds: RawTable) -> Path:
    path = tmp_path / "m.skops"
    save_model(kinds, CLASSED, path, noise=0.5, random_state=0)
    return path


@pytest.mark.long
def test_noise_that_all_classes_share_hides_nothing(softmax: Path, kinds: RawTable) -> None:
    """Each value has the model card's noise, and no difference between classes has any."""
    assert audited(softmax, kinds).failed is None
    quantiles = scipy.stats.norm.ppf((np.arange(WIDTH + 1) + 0.5) / (WIDTH + 1))
    shared = 0.5 * np.random.default_rng(3).permutation(quantiles)
    with_parameters(softmax, own_parameters(train(kinds, CLASSED)) + by_class(np.tile(shared, (CLASSES, 1))))
    assert verify(softmax).failed is None
    with pytest.raises(InvalidInputError, match="holds no noise of the scale that its model card claims"):
        audited(softmax, kinds)


def test_what_all_classes_share_is_noise(softmax: Path, kinds: RawTable) -> None:
    """It changes no prediction, and could be anything else."""
    found = framed(train(kinds, CLASSED).design, load_model(softmax).model)
    with_parameters(softmax, found + by_class(np.tile(np.arange(WIDTH + 1.0), (CLASSES, 1))))
    assert verify(softmax).failed is None
    with pytest.raises(InvalidInputError, match="what all classes have in common"):
        audited(softmax, kinds)


@pytest.mark.parametrize("noise", [Gaussian(0.5), Gaussian(0.5, np.diag(np.arange(1.0, 40.0))), Laplace(0.5)], ids=repr)
def test_honest_noise_between_classes_is_its_own(noise: Any, softmax: Path, kinds: RawTable) -> None:
    """Two contrasts for each feature count, with the covariance or the density that the noise has there."""
    trained, model = train(kinds, CLASSED), load_model(softmax).model
    own = framed(trained.design, model) - own_parameters(trained)
    away, between = moved_from_fit(trained, model, noise)
    assert away.size == (CLASSES - 1) * (WIDTH + 1)
    centred = own[:-CLASSES].reshape(CLASSES, WIDTH)
    centred = np.column_stack([centred, own[-CLASSES:]])
    assert np.sum(away**2) == pytest.approx(np.sum((centred - centred.mean(0)) ** 2))
    assert np.isfinite(between.log_density(away))
    drawn = between.draws(4000, away.size, np.random.default_rng(0))
    assert drawn.std() == pytest.approx(noise.draws(4000, own.size, np.random.default_rng(1)).std(), rel=0.05)


@pytest.mark.long
def test_the_density_between_classes_is_a_density() -> None:
    noise = BetweenClasses(Laplace(0.7), 3)
    line = np.linspace(-8, 8, 33)
    points = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    total = np.exp(noise.log_density(points)).sum() * (line[1] - line[0]) ** 2
    assert total == pytest.approx(1.0, abs=0.02)
    gaussian = BetweenClasses(Gaussian(0.7), 4)
    b = np.random.default_rng(0).normal(size=(3, 9))
    assert gaussian.log_density(b) == pytest.approx(Gaussian(0.7).log_density(b), rel=1e-6)


@pytest.mark.long
def test_laplace_noise_on_classes_still_passes(tmp_path: Path, kinds: RawTable) -> None:
    path = tmp_path / "m.skops"
    save_model(kinds, CLASSED, path, noise=Laplace(0.5), random_state=0)
    assert audited(path, kinds).failed is None


@pytest.mark.long
def test_noise_that_cancels_between_columns_hides_nothing(tmp_path: Path) -> None:
    """Twelve numbers, each twice in other units: noise that one adds the other takes away."""
    rng = np.random.default_rng(0)
    frame = {f"x{j}": rng.normal(50, 10, ROWS).round(1) for j in range(WIDTH)}
    frame |= {f"z{j}": (frame[f"x{j}"] / 2.54).round(1) for j in range(WIDTH)}
    frame["y"] = (sum(frame.values()) / 10 + rng.normal(0, 20, ROWS)).round(1)
    raw, path, settings = (
        from_frame(pandas.DataFrame(frame)),
        tmp_path / "m.skops",
        Settings("y", held_out=0.0, l2=0.01),
    )
    save_model(raw, settings, path, noise=2.0, random_state=0)
    assert audited(path, raw).failed is None
    trained = train(raw, settings)
    at = {feature.name: feature for feature in trained.design.features}
    drawn, noise = (
        2.0 * rng.permutation(scipy.stats.norm.ppf((np.arange(WIDTH) + 0.5) / WIDTH)),
        np.zeros(2 * WIDTH + 1),
    )
    for j in range(WIDTH):
        one, other = at[f"x{j}"], at[f"z{j}"]
        noise[one.columns[0]], noise[other.columns[0]] = drawn[j], -drawn[j] * 2.54 * other.scale / one.scale
    with_parameters(path, own_parameters(trained) + noise)
    assert verify(path).failed is None
    with pytest.raises(InvalidInputError, match="holds no noise of the scale that its model card claims"):
        audited(path, raw)


# Bounds and sentences of cards


@pytest.fixture(scope="module")
def few() -> RawTable:
    rng = np.random.default_rng(2)
    frame = pandas.DataFrame({f"x{k}": rng.normal(50, 10, ROWS).round(1) for k in range(3)})
    frame["city"] = rng.choice(["Bern", "Zug"], ROWS)
    frame["y"] = (frame.sum(axis=1, numeric_only=True) + rng.normal(0, 10, ROWS)).round(1)
    return from_frame(frame)


ENDS = (*((name, (0.0, 100.0)) for name in ("x0", "x1", "x2")), ("y", (0.0, 300.0)))
CHOOSING: Json = {"eta": 3.0, "choose_l2": True, "random_state": 0}


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory, few: RawTable) -> Path:
    """A limit for any record within declared bounds, with a penalty and a covariance that were not given."""
    path = tmp_path_factory.mktemp("limited") / "m.skops"
    save_model(few, Settings("y", held_out=0.0, bounds=ENDS), path, **CHOOSING)
    return path


@pytest.fixture
def chosen(tmp_path: Path, limited: Path) -> Path:
    path = tmp_path / "m.skops"
    for suffix in ("", ".json"):
        Path(f"{path}{suffix}").write_bytes(Path(f"{limited}{suffix}").read_bytes())
    return path


@pytest.mark.long
def test_declared_bounds_are_named(chosen: Path, few: RawTable) -> None:
    """Also of a model card that says that version 0.1.0 wrote it, whose settings have none."""
    assert DECLARED.format(4) in verify(chosen).unchecked
    assert any("declared bounds (columns: 4)" in each for each in audited(chosen, few).unconfirmed)
    without_choice(chosen)
    earlier_file(chosen)

    def change(card: Json) -> None:
        card["noise"]["calibrated"]["bounds"]["x1"]["high"] = 100.0500053004731

    mended(chosen, None, change)
    found = verify(chosen)
    assert found.failed is None
    assert DECLARED.format(4) in found.unchecked
    saved = load_model(chosen)
    assert declared_ends(saved.card) == 4


def without_choice(path: Path) -> None:
    """The sentences on what was not given are other ones where bounds decide no scale."""

    def change(card: Json) -> None:
        card["assumptions"] = [each for each in card["assumptions"] if not each.startswith("No ")]

    mended(path, None, change)


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("x1", {"low": 100.0, "high": 3.0, "from": "declared"}),
        ("x1", {"levels": ["no", "yes"], "from": "rows"}),
        ("x1", {"classes": 77, "from": "declared"}),
        ("y", {"classes": 77, "from": "declared"}),
        ("city", {"levels": ["Bern", "Zug"], "from": "declared"}),
        ("city", {"low": 0.501, "high": 0.777, "from": "rows"}),
    ],
)
def test_bounds_that_no_card_of_version_0_1_0_has_are_refused(name: str, bound: Json, chosen: Path) -> None:
    without_choice(chosen)
    earlier_file(chosen)
    assert verify(chosen).failed is None
    mended(chosen, None, lambda card: card["noise"]["calibrated"]["bounds"].update({name: bound}))
    assert "'noise.calibrated.bounds'" in str(verify(chosen).failed)


def test_sentences_on_what_was_not_given_are_written_again(chosen: Path) -> None:
    said = [each for each in card_of(chosen)["assumptions"] if each.startswith("No ")]
    assert len(said) == 2
    assert verify(chosen).failed is None
    own = card_of(chosen)
    for sentence in said:
        for place, digit in ((k, each) for k, each in enumerate(sentence) if each.isdigit()):
            other = sentence[:place] + str((int(digit) + 1) % 10) + sentence[place + 1 :]
            card = {**own, "assumptions": [other if each == sentence else each for each in own["assumptions"]]}
            with pytest.raises(DataError, match="'assumptions'"):
                check_card(card, "")
    for odd in (said[::-1], [*said, said[0]], [said[1], said[1]]):
        card = {**own, "assumptions": [*own["assumptions"][:-2], *odd]}
        with pytest.raises(DataError, match="'assumptions'"):
            check_card(card, "")


@pytest.mark.parametrize(
    "given", [{}, {"public": "preprocessing"}, {"drop": ("city",)}, {"bounds": ENDS[1:2]}], ids=str
)
@pytest.mark.parametrize("limit", often([{"eta": 1.0}, {"eta": 8.0}, {"eta": 0.1, "attribute": "x1"}]), ids=str)
def test_honest_sentences_are_those_of_the_card(given: Json, limit: Json, few: RawTable, tmp_path: Path) -> None:
    """A release holds them against its model card before it writes either."""
    path = tmp_path / "m.skops"
    settings: Json = {"l2": 1.0} | given
    save_model(few, Settings("y", held_out=0.0, **settings), path, **CHOOSING | limit)
    assert any(each.startswith("No shape was given.") for each in card_of(path)["assumptions"])
    assert verify(path).failed is None


def test_a_card_without_a_limit_has_no_sentence_on_a_choice(chosen: Path, few: RawTable, tmp_path: Path) -> None:
    said = [each for each in card_of(chosen)["assumptions"] if each.startswith("No ")]
    path = tmp_path / "given.skops"
    save_model(few, Settings("y", held_out=0.0, bounds=ENDS), path, noise=5.0, random_state=0)
    mended(path, None, lambda card: card["assumptions"].extend(said))
    assert "'assumptions'" in str(verify(path).failed)


# Signatures


@pytest.mark.parametrize("key", [1, 1 | 1 << 255, FIELD - 1, 0, _EIGHTH, FIELD - _EIGHTH, FIELD + 1, FIELD])
def test_keys_under_which_anyone_signs_are_refused(key: int, chosen: Path, few: RawTable) -> None:
    """Of the neutral point every text has the signature (s B, s), whatever s is: here zero."""
    pytest.importorskip("cryptography")
    signature = {
        "algorithm": "Ed25519",
        "public_key": key.to_bytes(32, "little").hex(),
        "value": "01" + "00" * 63,
    }
    mended(chosen, None, lambda card: card.update(signature=signature))
    assert "under which anyone can sign" in str(verify(chosen).failed)
    assert key > 1 or "under which anyone can sign" in str(audited(chosen, few).failed)


@pytest.mark.long
def test_an_audit_says_who_signed(few: RawTable, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    keys, path = write_keys(tmp_path), tmp_path / "m.skops"
    save_model(few, Settings("y", held_out=0.0), path, noise=9.0, random_state=0, sign=keys["private"])
    found = audited(path, few)
    assert found.failed is None
    key = card_of(path)["signature"]["public_key"]
    assert f"an Ed25519 key: {key}" in found.confirmed[0]
    assert SIGNER in found.unconfirmed
    assert NO_KEY in verify(path).unchecked
    assert NO_KEY not in verify(path, keys["public"]).unchecked


# Ledgers that were edited


@pytest.fixture
def on_ledger(tmp_path: Path, few: RawTable) -> tuple[Path, Path]:
    path, ledger = tmp_path / "m.skops", tmp_path / "ledger.json"
    save_model(few, Settings("y", held_out=0.0), path, noise=2.0, ledger=ledger, random_state=0)
    return path, ledger


def smaller_etas(entry: Json) -> None:
    entry["eta"] = [eta / 1000 for eta in entry["eta"]]


def smaller_matrix(entry: Json) -> None:
    entry["B"] = [[value / 1000 for value in row] for row in entry["B"]]


def fewer_columns(entry: Json) -> None:
    entry["columns"][0].pop("sources")


@pytest.mark.parametrize("change", [smaller_etas, smaller_matrix, fewer_columns])
def test_an_edited_entry_is_noticed(change: Callable[[Json], None], on_ledger: tuple[Path, Path]) -> None:
    path, ledger = on_ledger
    found = verify(path, ledger=ledger)
    assert "file, model card and the ledger's own entry" in found.confirmed[-1]
    assert OTHER_ENTRIES in found.unchecked
    content = read_content(ledger)
    change(content["entries"][0])
    write_content(ledger, content)
    failed = str(verify(path, ledger=ledger).failed)
    assert f"'{ledger}' was changed: what it says of release 1 is not what was recorded" in failed


def test_an_entry_that_was_carried_over_is_as_it_was(on_ledger: tuple[Path, Path], tmp_path: Path) -> None:
    path, ledger = on_ledger
    new = Ledger(ledger).carry_to(tmp_path / "new.json").carry_to(tmp_path / "newer.json").path
    assert "file, model card and the ledger's own entry" in verify(path, ledger=new).confirmed[-1]
    content = read_content(new)
    smaller_etas(content["carried"][0])
    write_content(new, content)
    assert "is not what was recorded" in str(verify(path, ledger=new).failed)


def test_marks_that_were_made_without_the_entry_still_hold(on_ledger: tuple[Path, Path]) -> None:
    path, ledger = on_ledger
    content = read_content(ledger)
    mark = mark_of(content, 1, marked_part(card_of(path), file_digest(path)))
    content["entries"][0]["mark"] = mark
    write_content(ledger, content)
    rewritten(path, lambda card: card["ledger"].update(mark=mark))
    found = verify(path, ledger=ledger)
    assert found.failed is None
    assert "its mark was made without the rest of the entry" in found.confirmed[-1]


@pytest.mark.parametrize(
    "change",
    [{"weights": -1}, {"rows": None}, {"theta": "x"}, {"B": [[1.0]]}, {"columns": [1]}, {"labels": {}}, {"about": 5}],
)
def test_an_entry_that_is_none_is_refused(
    change: Json, on_ledger: tuple[Path, Path], few: RawTable, tmp_path: Path
) -> None:
    _, ledger = on_ledger
    content = read_content(ledger)
    content["entries"][0] |= change
    write_content(ledger, content)
    with pytest.raises((DataError, InvalidInputError)):
        spent_on(ledger, few)
    with pytest.raises((DataError, InvalidInputError)):
        save_model(
            few, Settings("y", held_out=0.0), tmp_path / "n.skops", noise=2.0, ledger=ledger, limit=1e6, random_state=0
        )


# Digits


def test_the_scale_is_that_of_its_offset(chosen: Path, few: RawTable) -> None:
    scale = card_of(chosen)["noise"]["scale"]
    assert any(each.startswith("The limit, in every digit: it was given") for each in audited(chosen, few).unconfirmed)
    rewritten(chosen, lambda card: card["noise"].update(scale=scale * (1 + 1e-12)))
    assert "'noise.calibrated.offset'" in str(verify(chosen).failed)


OTHER_SKOPS = "0.12.0" if version("skops") == "0.11.0" else "0.11.0"


@pytest.mark.parametrize(
    ("other", "passes"), [(OTHER_SKOPS, True), ("5000.5300.4731.dev411", False), ("0.999.0", False)]
)
def test_another_version_of_skops_is_said(other: str, passes: bool, chosen: Path) -> None:
    mended(chosen, in_tree(lambda tree: tree.update(_skops_version=other))(chosen))
    found = verify(chosen)
    assert (found.failed is None) == passes
    assert not passes or f"says that skops {other}, protocol 2 wrote it" in found.confirmed[-1]
    assert passes or "a version of skops that there is none of" in str(found.failed)

"""Data in what versions of a file differ in, in bounds, shares and versions on a card; files that cost time; noise of another kind."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("skops")

from attacks_on_us.test_hidden_in_files import (
    FRAME,
    SETTINGS,
    attributes,
    audited,
    drawer,
    members_of,
    mended,
    refused,
    said,
    table,
)
from fisherleak.auditing.unconfirmed_on_cards import EACH_PARAMETER, LEFT_OUT
from fisherleak.errors import InvalidInputError
from fisherleak.releasing.cards.card_checks import _bounds_are_of
from fisherleak.releasing.cards.card_fields import wrong_place
from fisherleak.releasing.cards.cards import model_of, sentences_of
from fisherleak.releasing.cards.signatures import card_path
from fisherleak.releasing.files import model_nodes, rebuilt_files
from fisherleak.releasing.files.model_files import ModelFile
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.releasing.files.verification import verify
from fisherleak.tables import RawTable, from_frame
from fisherleak.training.noise_words import UNALIKE, UNLIKELY, ratios_of_kinds
from fisherleak.training.pipelines import own_parameters, parameters_as_released, pipeline_with

pytestmark = pytest.mark.usefixtures("quick_audits")
Json = dict[str, Any]
BOUNDS = (("age", (0.0, 120.0)), ("dose", (-100.0, 100.0)))


@pytest.fixture(scope="module")
def raw() -> RawTable:
    return from_frame(FRAME)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory, raw: RawTable) -> Path:
    """A limit for any record within the bounds: two declared, one from rows."""
    path = tmp_path_factory.mktemp("limited") / "m.skops"
    settings = dataclasses.replace(SETTINGS, bounds=BOUNDS, l2=1.0)
    save_model(raw, settings, path, eta=1.0, shape="isotropic", random_state=0)
    return path


@pytest.fixture
def released(tmp_path: Path, limited: Path) -> Path:
    path = tmp_path / "m.skops"
    path.write_bytes(limited.read_bytes())
    card_path(path).write_bytes(card_path(limited).read_bytes())
    return path


def card_of(path: Path) -> Json:
    found: Json = json.loads(card_path(path).read_text(encoding="utf-8"))
    return found


# What versions differ in


def nodes(node: Any) -> Iterator[Json]:
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(child)
    if isinstance(node, dict):
        yield node


def objects(tree: Json) -> list[Json]:
    """The attributes of every object."""
    found = [node["content"] for node in nodes(tree) if node.get("__loader__") == "ObjectNode"]
    return [each for each in found if isinstance(each.get("content"), dict)]


def typed(attributes: Json) -> None:
    """As many types of keys as keys."""
    one = attributes["key_types"]["content"][0]
    attributes["key_types"]["content"] = [copy.deepcopy(one) for _ in attributes["content"]]


def without_version(tree: Json) -> None:
    for each in objects(tree)[1:-1:2]:
        each["content"].pop("_sklearn_version", None)
        typed(each)


def with_types(tree: Json) -> None:
    for each in objects(tree)[::2]:
        each["content"].setdefault("_fill_dtype", None)
        typed(each)


def under(version: str, change: Callable[[Json], Any]) -> Callable[[Json], Any]:
    """The same in a file that says that another version of scikit-learn wrote it."""

    def done(tree: Json) -> None:
        for each in objects(tree):
            if "_sklearn_version" in each["content"]:
                each["content"]["_sklearn_version"]["content"] = json.dumps(version)
        change(tree)

    return done


def wrapper(tree: Json, **more: Any) -> None:
    """The list of columns that are left in the wrapper of version 1.6, with other values than it has."""
    columns = attributes(tree, 0)["_remainder"]["content"]
    held = {"data": columns[2], **{name: said(value) for name, value in more.items()}}
    own = {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "content": held}
    inner = {**own, "key_types": copy.deepcopy(tree["content"]["key_types"]), "__id__": 1}
    typed(inner)
    columns[2] = {
        "__class__": "_RemainderColsList",
        "__module__": "sklearn.compose._column_transformer",
        "__loader__": "ObjectNode",
        "content": inner,
        "__id__": 1,
    }


OTHER = "1.7.2"
VERSIONS: dict[str, Callable[[Json], Any]] = {
    "versions left out": under(OTHER, without_version),
    "types of what is filled": under(OTHER, with_types),
    "an attribute of a later version": under("1.6.1", lambda t: attributes(t, 1).update(xp=said(None))),
    "wrapper of another version": under("1.8.0", lambda t: wrapper(t, future_dtype="str")),
    "wrapper with less": under("1.6.1", lambda t: wrapper(t, warning_enabled=True)),
    "wrapper with other values": under(
        "1.6.1", lambda t: wrapper(t, future_dtype=None, warning_enabled=False, warning_was_emitted=False)
    ),
}


@pytest.mark.parametrize("way", VERSIONS)
def test_attributes_are_those_that_the_version_writes(way: str, released: Path, raw: RawTable) -> None:
    members = members_of(released)
    tree = json.loads(members.pop("schema.json"))
    VERSIONS[way](tree)
    written = json.loads(tree["content"]["content"]["_sklearn_version"]["content"])
    mended(released, ModelFile(tree, members).numbered().encoded(), drawer("versions.scikit-learn", written))
    assert "holds" in refused(released, raw)


def test_every_attribute_has_one_value_in_each_version() -> None:
    """Absent where it is to be there, or there where it is not, with a value of another version: each is a difference."""
    for (kind, name), values in model_nodes.BY_VERSION.items():
        for version, text in ((v, t) for v in ("1.6.1", "1.7.2", "1.8.0", "1.9.1") for t in (None, *values.values())):
            number = model_nodes._numbers(version)
            own = next(value for since, value in reversed(values.items()) if number >= since)
            held = {} if text is None else {name: model_nodes._said(text)}
            made = {"__class__": kind, "content": {"content": held}}
            left = model_nodes._whatever_version(made, version)["content"]["content"]
            found = {name, f"no {name}"} & left.keys()
            assert (not found) == (text == own), (kind, name, version, text)


# The card


CARDS: dict[str, tuple[Callable[[Json], Any], str]] = {
    "bounds that nobody declared": (
        lambda card: card["noise"]["calibrated"]["bounds"]["weight"].update({"from": "declared"}),
        "noise.calibrated.bounds",
    ),
    "declared bounds as from rows": (
        lambda card: card["noise"]["calibrated"]["bounds"]["age"].update({"from": "rows"}),
        "noise.calibrated.bounds",
    ),
    "last digits of declared bounds": (
        lambda card: card["noise"]["calibrated"]["bounds"]["age"].update(high=120.0 + 1e-9),
        "noise.calibrated.bounds",
    ),
    "declared levels": (
        lambda card: card["noise"]["calibrated"]["bounds"]["city"].update({"from": "declared"}),
        "noise.calibrated.bounds",
    ),
    "a whole number": (drawer("settings.bounds.0.1.0", 0), "settings.bounds[0][1][0]"),
    "a zero with a sign": (drawer("settings.bounds.0.1.0", -0.0), "settings.bounds[0][1][0]"),
    "digits of a share": (drawer("settings.held_out", 0.12345678), "settings.held_out"),
    "a share of one row": (drawer("settings.held_out", 0.0034), "settings.held_out"),
    "a share with a sign": (drawer("settings.held_out", -0.0), "settings.held_out"),
    "a long name": (drawer("data.source", "\U0001f600" * 64), "data.source"),
    "four numbers of a version": (drawer("versions.numpy", "1.2.3.4"), "versions.numpy"),
    "five digits of a version": (drawer("versions.numpy", "12345.1"), "versions.numpy"),
    "a zero before a version": (drawer("versions.numpy", "02.1"), "versions.numpy"),
    "digits behind a version": (drawer("versions.numpy", "2.1rc98765"), "versions.numpy"),
}


@pytest.mark.parametrize("way", CARDS)
def test_numbers_of_a_card_have_one_way(way: str, released: Path, raw: RawTable) -> None:
    change, place = CARDS[way]
    mended(released, None, change)
    assert f"'{place}'" in refused(released, raw)


@pytest.mark.long
def test_last_digits_of_bounds_from_rows_are_refused_by_an_audit(released: Path, raw: RawTable) -> None:
    assert audited(released, raw).failed is None
    bound = card_of(released)["noise"]["calibrated"]["bounds"]["weight"]
    assert bound["from"] == "rows"
    mended(released, None, drawer("noise.calibrated.bounds.weight.low", float(np.nextafter(bound["low"], 1e9))))
    assert verify(released).failed is None
    assert "other bounds than a new release" in str(audited(released, raw).failed)


def test_classes_of_bounds_are_those_of_the_target() -> None:
    card: Json = {"schema": "fisherleak.card/3", "settings": {"bounds": [], "levels": []}, "columns": []}
    card["target"] = {"name": "sick", "classes": ["no", "yes"]}
    assert _bounds_are_of(card, {"sick": {"classes": 2, "from": "declared"}})
    assert not _bounds_are_of(card, {"sick": {"classes": 3, "from": "declared"}})
    assert not _bounds_are_of(card, {"sick": {"classes": 2, "from": "rows"}})


@pytest.mark.parametrize("version", ["2.4", "2025.12.0", "3.14.0rc2", "1.10.dev0", "2.3.3.post1", "0.2.0"])
def test_versions_of_packages_have_their_place(version: str, released: Path) -> None:
    card = card_of(released)
    card["versions"]["numpy"] = version
    assert wrong_place(card) is None


def test_shares_that_a_release_refuses(tmp_path: Path, raw: RawTable) -> None:
    with pytest.raises(InvalidInputError, match=r"`held_out` is 0.123: .* from 0.05 to 0.9 in steps of 0.01"):
        save_model(raw, dataclasses.replace(SETTINGS, held_out=0.123), tmp_path / "m.skops", noise=1.0)


@pytest.mark.long
def test_rows_that_are_left_out_are_counted(tmp_path: Path) -> None:
    """Held out, without a label, or with a missing cell where such rows are dropped: none of their etas is measured."""
    frame = table()
    frame.loc[:1, "dose"] = np.nan
    raw, path = from_frame(frame), tmp_path / "m.skops"
    settings = dataclasses.replace(SETTINGS, missing="drop", held_out=0.25)
    save_model(raw, settings, path, noise=2.0, random_state=0)
    assert audited(path, raw).failed is None
    left = 300 - retrain(load_model(path), raw).design.n
    assert left > 80
    assert LEFT_OUT.format(left) in audited(path, raw).unconfirmed


# Time and memory


def those_used(tree: Json, members: dict[str, bytes]) -> dict[str, bytes]:
    used = {node["file"] for node in nodes(tree) if isinstance(node.get("file"), str)}
    return {name: data for name, data in members.items() if name in used}


def planted(path: Path, value: Any) -> bytes:
    """Both attributes that are compared with one another hold the same."""
    members = members_of(path)
    tree = json.loads(members.pop("schema.json"))
    fitted = next(each["content"] for each in objects(tree) if "_fit_dtype" in each["content"])
    fitted["_fill_dtype"] = fitted["_fit_dtype"] = value
    return ModelFile(tree, those_used(tree, members)).numbered().encoded()


def test_long_keys_are_refused_before_anything_is_compared(
    released: Path, raw: RawTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fisherleak.releasing.files.model_files.LONGEST_KEY", 10**9)
    data = planted(released, {".content" * 4000: [0] * 1000})
    monkeypatch.undo()
    mended(released, data)
    monkeypatch.setattr(rebuilt_files, "decoded", lambda file: pytest.fail("compared"))
    assert "a key of more than 100 characters" in refused(released, raw)


def test_equal_parts_are_compared_without_their_places(released: Path) -> None:
    """Time that grows with the file, however deep and however named its parts are."""
    value: Any = [0] * 20_000
    for _ in range(100):
        value = {".content" * 12: value}
    began = time.process_time()
    assert model_nodes._alike(value, copy.deepcopy(value))
    assert not model_nodes._alike(value, {".content" * 12: value})
    assert time.process_time() - began < 1.0


def test_a_small_file_never_costs_the_time_of_a_large_one(
    released: Path, raw: RawTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model card of 400 categories, and a file with as many steps, each next to nothing."""
    count = 400

    def many(card: Json) -> None:
        card["columns"] = [
            {"name": f"q{k}", "kind": "category", "levels": ["a", "b"], "pooled": False} for k in range(count)
        ]
        card["settings"].update(numbers=[], categories=[], drop=[], bounds=[], levels=[])
        card["model"]["parameters"] = count + 1
        del card["noise"]["calibrated"]
        card["eta"].update(limit=None)
        card["target"].update(unit=1.0)  # one without bounds is on the public grid
        card["assumptions"] = sentences_of(card)

    members = members_of(released)
    tree = json.loads(members.pop("schema.json"))
    attributes(tree, 0)["transformers"]["content"] = [{"a": "x" * 60} for _ in range(count)]
    coef = io.BytesIO()
    np.save(coef, np.zeros(count))
    members[attributes(tree, 1)["coef_"]["file"]] = coef.getvalue()
    mended(released, ModelFile(tree, those_used(tree, members)).numbered().encoded(), many)
    monkeypatch.setattr(rebuilt_files, "pipeline_with", lambda *given: pytest.fail("built"))
    assert "another number of columns" in refused(released, raw)


# Noise of another kind


def test_kinds_of_noise_are_told_apart_or_not() -> None:
    rng = np.random.default_rng(0)
    few, many = rng.normal(size=37), rng.normal(size=2000)
    assert ratios_of_kinds(few)["Laplace"] > np.log(UNALIKE)
    assert max(ratios_of_kinds(many).values()) < np.log(UNALIKE)
    assert ratios_of_kinds(rng.laplace(size=2000) / np.sqrt(2.0))["Laplace"] > -np.log(UNLIKELY)
    assert ratios_of_kinds(rng.uniform(-1.7, 1.7, 2000))["uniform"] > -np.log(UNLIKELY)
    grid = np.linspace(-12.0, 12.0, 2401)
    normal = np.exp(-(grid**2) / 2.0) / np.sqrt(2.0 * np.pi)
    for kind in ("Laplace", "uniform"):  # densities, each with deviation 1
        density = normal * [np.exp(ratios_of_kinds(np.array([x]))[kind]) for x in grid]
        assert density.sum() * 0.01 == pytest.approx(1.0, abs=0.01)
        assert (density * grid**2).sum() * 0.01 == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("kind", ["Laplace", "uniform"])
def test_noise_of_another_kind_under_a_limit_is_not_confirmed(kind: str, released: Path, raw: RawTable) -> None:
    """And so is noise that single parameters may lack."""
    saved = load_model(released)
    trained = retrain(saved, raw)
    theta, rng, model = own_parameters(trained), np.random.default_rng(3), model_of(saved.card)
    drawn = {"Laplace": rng.laplace(size=theta.size) / np.sqrt(2.0), "uniform": rng.uniform(-1.7, 1.7, theta.size)}[
        kind
    ]
    steps = np.broadcast_to(np.asarray(saved.card["grid"]), theta.shape)
    moved = np.rint((theta + saved.scale * drawn) / steps) * steps + 0.0
    mended(released, ModelFile.of(pipeline_with(model, parameters_as_released(model, moved))).encoded())
    found = audited(released, raw)
    assert found.failed is None
    (sentence,) = [each for each in found.unconfirmed if each.startswith("That the noise is Gaussian")]
    assert kind in sentence
    assert not any("The noise is Gaussian" in each for each in found.confirmed)
    assert EACH_PARAMETER in found.unconfirmed

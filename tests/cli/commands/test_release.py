"""Released models: saved, loaded, refitted, and refused when they are not what they claim."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas
import skops.io as skops_io
from sklearn.pipeline import Pipeline

from copies import copied_release, trusted_types
from fisherleak.cli import main
from fisherleak.engine.noise import grid_of
from fisherleak.errors import InvalidInputError
from fisherleak.protection.certificates.published_scale import STEP, nearest_on_grid, seven_digits
from fisherleak.releasing.cards.cards import one_where_alike, sentences_of
from fisherleak.releasing.cards.signatures import card_path, card_text, digest_of, sealed
from fisherleak.releasing.files.model_files import ModelFile
from fisherleak.releasing.files.released_files import load_model, retrain
from fisherleak.tables import read_table
from fisherleak.training.noise_words import from_card
from fisherleak.training.pipelines import PublicModel, framed, own_parameters, parameters_as_released, pipeline_with
from fisherleak.training.trained_model import Settings
from often import often
from report.test_summarise import check_summary
from steady import steady

Command = Callable[..., Any]
FAST = ("--draws", "4", "--no-attacks")


def load(path: Path) -> Any:
    untrusted = skops_io.get_untrusted_types(file=path)
    assert set(untrusted) <= trusted_types()
    return skops_io.load(path, trusted=untrusted)


@pytest.mark.parametrize(("target", "model"), [("income", "linear"), ("sick", "logistic"), ("visits", "poisson")])
@pytest.mark.parametrize("balance", often([True, False]))
def test_round_trip(
    fisherleak: Command, people: Path, frame: Any, tmp_path: Path, target: str, model: str, balance: bool
) -> None:
    out = tmp_path / "model.skops"
    options = ("--target", target, "--model", model, "--eta", "0.5", "--out", out, *["--balance"] * balance)
    done = fisherleak("release", people, *options, "--json")
    assert done.status == 0, done.err
    assert "Column 'person' is not used" in done.err
    card = json.loads(done.out)
    decided = next(sentence for sentence in card["assumptions"] if sentence.startswith("Kinds of columns"))
    assert decided.endswith("eta does not count that.")  # no option says what the column 'person' is
    assert json.loads((tmp_path / "model.skops.json").read_text(encoding="utf-8")) == card
    assert {p.name for p in tmp_path.iterdir()} == {"people.csv", "model.skops", "model.skops.json"}
    assert card["noise"]["scale"] > 0
    assert card["balanced"] == balance
    assert card["data"]["rows"] == 120
    released = load(out)
    assert isinstance(released, Pipeline)
    predictions = released.predict(pandas.read_csv(people)[list(released.feature_names_in_)])
    assert len(predictions) == 120
    summary = json.loads(fisherleak("audit", people, "--released", out, "--json", *FAST).out)
    check_summary(summary)
    assert summary["noise"]["scale"] == card["noise"]["scale"]
    assert 0.42 < summary["eta"]["examples"]["max"] <= 0.5  # the scale is rounded up to a power of 2^(1/4)
    assert summary["model"]["public"] == "nothing"
    assert 4 * np.log2(card["noise"]["scale"]) == pytest.approx(round(4 * np.log2(card["noise"]["scale"])))
    assert summary["data"]["train_rows"] == 120


@pytest.mark.long
def test_the_release_holds_noise_and_nothing_of_the_model_before_it(
    fisherleak: Command, people: Path, tmp_path: Path
) -> None:
    differences: list[Any] = []
    for k in range(12):
        out = tmp_path / f"m{k}.skops"
        assert fisherleak("release", people, "--target", "income", "--eta", "0.5", "--out", out, "--quiet").status == 0
        saved = load_model(out)
        if not differences:  # the same for all
            trained = retrain(saved, read_table(people))
            theta = own_parameters(trained)
        differences.append((framed(trained.design, saved.model) - theta) / saved.scale)
        members = zipfile.ZipFile(out)
        contents = (
            b"".join(members.read(name) for name in members.namelist()) + (tmp_path / f"m{k}.skops.json").read_bytes()
        )
        for value in theta:
            assert np.float64(value).tobytes() not in contents
            assert repr(float(value)).encode() not in contents
    draws = np.concatenate(differences)
    assert len({d.tobytes() for d in differences}) == 12
    # 12 models x 8 parameters: the right scale passes, one that is off by a third would not
    assert abs(draws.std() - 1) < 4 / np.sqrt(2 * draws.size) < 0.33
    assert abs(draws.mean()) < 4 / np.sqrt(draws.size)


def test_a_limit_on_one_column_is_in_its_unit(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.skops"
    options = ("--target", "income", "--attribute", "age", "--eta", "0.1", "--out", out, "--json")
    card = json.loads(fisherleak("release", people, *options).out)
    assert "'age'" in card["eta"]["limit_on"]
    summary = json.loads(fisherleak("audit", people, "--released", out, "--json", *FAST).out)
    age = next(attribute for attribute in summary["attributes"] if attribute["name"] == "age")
    assert 0.084 < age["eta_max"] <= 0.1
    assert 10.0 <= age["error_least"] < 11.9


def test_settings_travel_with_the_card(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.skops"
    options = (
        "--l2",
        "0.3",
        "--drop",
        "weight",
        "--category",
        "sick",
        "--held-out",
        "0.25",
        "--seed",
        "5",
        "--id",
        "person",
    )
    assert fisherleak("release", people, "--target", "income", "--eta", "1", "--out", out, *options).status == 0
    summary = json.loads(fisherleak("audit", people, "--released", out, "--json", *FAST).out)
    direct = json.loads(fisherleak("audit", people, "--target", "income", *options, "--eta", "1", "--json", *FAST).out)
    by_noise = [found["eta"]["dataset"] * found["noise"]["scale"] for found in (summary, direct)]
    assert by_noise[0] == pytest.approx(by_noise[1])
    assert summary["rows"][0]["id"] == direct["rows"][0]["id"]
    assert summary["data"]["test_rows"] == 30


@pytest.mark.long
def test_a_limit_on_several_columns_holds_for_each(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    """The noise is that of the column which needs most, whatever the order."""
    scales = {}
    for columns in (("age",), ("weight",), ("age", "weight"), ("weight", "age"), ("age", "city", "weight", "age")):
        out = tmp_path / f"{'-'.join(columns)}.skops"
        options = ("--target", "income", *(f"--attribute={name}" for name in columns), "--eta", "0.1", "--out", out)
        card = json.loads(fisherleak("release", people, *options, "--json").out)
        scales[columns] = card["noise"]["scale"]
        own = [column["name"] for column in card["columns"]]
        assert card["eta"]["limit_columns"] == [name for name in own if name in columns]
        assert all(f"'{name}'" in card["eta"]["limit_on"] for name in columns)
    assert scales["age", "weight"] == scales["weight", "age"] == max(scales["age",], scales["weight",])
    summary = json.loads(fisherleak("audit", people, "--released", out, "--json", *FAST).out)
    etas = {attribute["name"]: attribute["eta_max"] for attribute in summary["attributes"]}
    assert max(etas["age"], etas["city"], etas["weight"]) <= 0.1
    assert "each in its own unit" in " ".join(summary["released"]["confirmed"])


# Predictions where this package is not

PREDICT = """
import importlib.abc, json, sys


class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "fisherleak":
            raise ImportError("blocked")


if sys.argv[3] == "blocked":
    sys.meta_path.insert(0, Blocked())
import pandas, skops.io

card = json.load(open(sys.argv[1] + ".json", encoding="utf-8"))
model = skops.io.load(sys.argv[1], trusted=card["model"]["trusted_types"])
print(json.dumps(model.predict(pandas.read_csv(sys.argv[2])).tolist()))
assert "fisherleak" not in sys.modules
"""


def coded(path: Path, n: int = 90) -> pandas.DataFrame:
    """Categories of every sort that a file can hold."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "age": rng.integers(20, 80, n),
            "code": rng.choice([1, 2, 5], n),
            "dose": rng.choice([0.5, 1.0, 1.5], n),
            "member": rng.choice([True, False], n),
            "city": rng.choice(["Bonn", "Köln"], n),
            "y": rng.normal(size=n),
            "count": rng.integers(0, 9, n),
            "group": rng.choice([3, 4], n),
        }
    )
    frame.to_csv(path, index=False)
    return frame


@pytest.mark.parametrize(
    ("target", "model"),
    [
        pytest.param("y", "linear", marks=pytest.mark.long),
        pytest.param("count", "poisson", marks=pytest.mark.long),
        pytest.param("group", "logistic", marks=pytest.mark.long),
    ],
)
def test_a_release_predicts_from_the_raw_table_anywhere(
    fisherleak: Command, tmp_path: Path, target: str, model: str
) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "m.skops"
    coded(table)
    options = ("--target", target, "--model", model, "--category", "code", "--category", "dose")
    assert fisherleak("release", table, *options, "--eta", "5", "--out", out, "--quiet").status == 0
    saved = load_model(out)
    trained = retrain(saved, read_table(table))
    theta = framed(trained.design, saved.model)
    z = trained.design.X @ theta[:-1] + theta[-1]
    expected = {"linear": z, "poisson": np.exp(z), "logistic": np.where(z > 0, 4, 3)}[model]
    for where in ("blocked", "here"):
        command = [sys.executable, "-c", PREDICT, str(out), str(table), where]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        np.testing.assert_allclose(json.loads(done.stdout), expected, rtol=1e-9)


def test_predictions_whatever_types_the_columns_have(fisherleak: Command, tmp_path: Path) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "m.skops"
    frame = coded(table)
    options = ("--target", "y", "--category", "code", "--category", "dose", "--eta", "5", "--out", out, "--quiet")
    assert fisherleak("release", table, *options).status == 0
    model = load(out)
    expected = model.predict(pandas.read_csv(table))
    names = ["code", "dose", "member", "city"]
    for other in (
        frame.astype({"code": float}),
        frame.astype(dict.fromkeys(names, object)),
        frame.astype(dict.fromkeys(names, "category")),
        frame.convert_dtypes(),
        frame[frame.columns[::-1]],
        pandas.read_csv(table, dtype_backend="pyarrow"),
    ):
        np.testing.assert_array_equal(model.predict(other), expected)


@pytest.mark.parametrize(
    ("column", "value", "first"),
    [("code", np.nan, 1), ("code", 3, 1), ("city", "Trier", "Bonn"), ("city", None, "Bonn")],
)
def test_new_levels_count_as_the_first(
    fisherleak: Command, tmp_path: Path, column: str, value: Any, first: Any
) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "m.skops"
    frame = coded(table)
    options = ("--target", "y", "--category", "code", "--eta", "5", "--out", out, "--quiet")
    assert fisherleak("release", table, *options).status == 0
    expected = frame.copy()
    frame.loc[3, column] = value
    model = load(out)
    expected.loc[3, column] = first
    np.testing.assert_allclose(model.predict(frame), model.predict(expected), rtol=1e-12)
    known = frame.drop(index=3)
    others = np.delete(model.predict(pandas.read_csv(table)), 3)
    np.testing.assert_allclose(model.predict(known), others, rtol=1e-12)


def test_missing_numbers_count_as_their_public_centres(fisherleak: Command, tmp_path: Path) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "m.skops"
    frame = coded(table)
    assert fisherleak("release", table, "--target", "y", "--eta", "5", "--out", out, "--quiet").status == 0
    card = json.loads(out.with_name("m.skops.json").read_text(encoding="utf-8"))
    centre = next(column["centre"] for column in card["columns"] if column["name"] == "age")
    filled, model = frame.astype({"age": float}), load(out)
    gaps = filled.copy()
    filled.loc[3, "age"], gaps.loc[3, "age"] = centre, np.nan
    np.testing.assert_allclose(model.predict(gaps), model.predict(filled), rtol=1e-12)


# Forgeries


@pytest.fixture(scope="module")
def released_once(tmp_path_factory: pytest.TempPathFactory, frame: Any) -> Path:
    folder = tmp_path_factory.mktemp("released")
    frame.to_csv(folder / "people.csv", index=False)
    options = ("--target", "income", "--eta", "0.5", "--over", "max", "--out", str(folder / "model.skops"), "--quiet")
    with steady("released"):
        assert main(["release", str(folder / "people.csv"), *options]) == 0
    return folder / "model.skops"


@pytest.fixture
def released(released_once: Path, tmp_path: Path) -> Path:
    return copied_release(released_once, tmp_path)


def rewrite(path: Path, model: Any) -> None:
    """Another model under the same card, its checksum mended: what a forger would do."""
    path.write_bytes(ModelFile.of(model).encoded())
    card = json.loads(card_path(path).read_text(encoding="utf-8"))
    card["model"]["file_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    card_path(path).write_bytes(card_text(sealed(card)))


def refusal(fisherleak: Command, people: Path, released: Path) -> str:
    done = fisherleak("audit", people, "--released", released)
    assert done.status == 2
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert "should not happen" not in done.err
    return str(done.err)


def test_another_table_is_refused(fisherleak: Command, people: Path, released: Path) -> None:
    lines = people.read_text(encoding="utf-8").splitlines(keepends=True)
    people.write_text("".join(lines[:-10]), encoding="utf-8")
    assert "is not the table that 'model.skops' was released from" in refusal(fisherleak, people, released)


def test_nothing_exact_of_the_table_is_published(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    """An exact mean, or a checksum, gives the one value away that an attacker does not know."""
    out = tmp_path / "model.skops"
    card = json.loads(fisherleak("release", people, "--target", "sick", "--eta", "0.5", "--out", out, "--json").out)
    assert "sha256" not in card["data"]
    frame = pandas.read_csv(people)
    for column in card["columns"]:
        if column["kind"] == "number":
            steps = 4 * np.log2(column["scale"])
            assert steps == pytest.approx(round(steps), abs=1e-9)
            assert column["centre"] / column["scale"] == pytest.approx(round(column["centre"] / column["scale"]))
            assert column["scale"] == pytest.approx(frame[column["name"]].std(ddof=0), rel=2**0.125 - 1)


def floats_in(value: Any, seen: set[int]) -> set[float]:
    """Every number in an object and in all that it holds."""
    if id(value) in seen or value is None or isinstance(value, (str, bytes, bool, type)):
        return set()
    seen.add(id(value))
    if isinstance(value, (int, float, np.number)):
        return {float(value)}
    if isinstance(value, np.ndarray):
        return (
            set(value.astype(float).ravel().tolist()) if value.dtype.kind in "fiu" else floats_in(value.tolist(), seen)
        )
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, (list, tuple, set)) else []
    items = [*items, *vars(value).values()] if hasattr(value, "__dict__") else items
    return set().union(*(floats_in(item, seen) for item in items))


def test_two_tables_differ_in_their_parameters_alone(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    """Whatever else a file or a model card holds does not depend on the values of the table."""
    frame = pandas.read_csv(people)
    frame.assign(age=frame.age + 0.01 * np.arange(len(frame)) / len(frame)).to_csv(tmp_path / "other.csv", index=False)
    found, cards = [], []
    for table in (people, tmp_path / "other.csv"):
        out = tmp_path / f"{table.stem}.skops"
        assert fisherleak("release", table, "--target", "sick", "--eta", "0.5", "--out", out, "--quiet").status == 0
        model = load(out)
        own = {*model[-1].coef_.ravel().tolist(), *model[-1].intercept_.tolist()}
        found.append(floats_in(model, set()) - own)
        card = json.loads(card_path(out).read_text(encoding="utf-8"))
        del card["model"]["file_sha256"], card["digest"], card["data"]["source"]
        cards.append(card)
    assert found[0] == found[1]
    assert cards[0] == cards[1]


FIELDS = {
    *("schema", "balanced", "counted", "grid", "assumptions", "versions", "digest"),
    *("model.file_sha256", "model.kind", "model.parameters", "model.trusted_types"),
    *(f"settings.{item.name}" for item in dataclasses.fields(Settings)),
    *("columns.name", "columns.kind", "columns.scale", "columns.centre", "columns.levels", "columns.pooled"),
    *(
        "target.name",
        "target.unit",
        "target.classes",
        "data.source",
        "data.rows",
        "noise.kind",
        "noise.scale",
        "noise.calibrated",
    ),
    *("eta.limit", "eta.limit_on", "eta.limit_columns", "shape.name", "shape.from"),
}
"""Every field of a model card; a new one wants a line in docs/promises.md that says why it may leave."""


def test_every_field_of_a_card_is_known_and_explained(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.skops"
    card = json.loads(fisherleak("release", people, "--target", "sick", "--eta", "0.5", "--out", out, "--json").out)
    found = set()
    for key, value in card.items():
        parts = value if isinstance(value, list) else [value]
        inner = {name for part in parts if isinstance(part, dict) for name in part}
        whole = key in ("versions", "digest") or not inner
        found |= {key} if whole else {f"{key}.{name}" for name in inner}
    assert found == FIELDS
    page = (Path(__file__).parents[3] / "docs" / "promises.md").read_text(encoding="utf-8")
    for name in FIELDS:
        assert f"`{name.split('.')[0]}`" in page or f"`{name}`" in page, name


def test_rare_levels_are_pooled_unless_they_are_declared(fisherleak: Command, tmp_path: Path) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "m.skops"
    frame = coded(table)
    frame.loc[:5, "city"] = ["Trier", "Worms"] * 3
    frame.loc[5:10, "code"] = [9, 8] * 3
    frame.to_csv(table, index=False)
    options = ("release", table, "--target", "y", "--category", "code", "--eta", "5", "--out", out, "--overwrite")
    done = fisherleak(*options, "-v")
    assert "Categories of 'code' and 'city'" in done.out
    card = json.loads(card_path(out).read_text(encoding="utf-8"))
    levels = {column["name"]: (column["levels"], column["pooled"]) for column in card["columns"] if "levels" in column}
    assert levels["city"] == (["(other)", "Bonn", "Köln"], True)
    assert levels["code"] == (["(other)", 1, 2, 5], True)
    assert levels["member"][1] is False
    assert b"Trier" not in out.read_bytes() + card_path(out).read_bytes()
    model = load(out)
    assert np.isfinite(model.predict(pandas.read_csv(table))).all()
    new = frame.assign(city="Ulm", code=77)
    np.testing.assert_array_equal(model.predict(new), model.predict(frame.assign(city="Trier", code=9)))
    assert fisherleak("audit", table, "--released", out, *FAST).status == 0
    assert fisherleak(*options, "--levels", "city=Bonn,Köln,Trier,Worms", "--levels", "code=8,9", "--quiet").status == 0
    card = json.loads(card_path(out).read_text(encoding="utf-8"))
    levels = {column["name"]: (column["levels"], column["pooled"]) for column in card["columns"] if "levels" in column}
    assert levels["city"] == (["Bonn", "Köln", "Trier", "Worms"], False)
    assert levels["code"] == ([1, 2, 5, 8, 9], False)
    assert fisherleak("audit", table, "--released", out, *FAST).status == 0


def test_levels_of_very_few_rows_count_as_the_first(fisherleak: Command, tmp_path: Path) -> None:
    """A level for the rest would be one of fewer than five rows, and tell of them by being there."""
    table, out = tmp_path / "t.csv", tmp_path / "m.skops"
    frame = coded(table)
    frame.loc[3, "city"] = "Trier"
    frame.to_csv(table, index=False)
    done = fisherleak("release", table, "--target", "y", "--eta", "5", "--out", out, "-v")
    assert "Categories that are not listed count as the first" in done.out
    assert "those of 'city' as 'Bonn'" in done.out
    card = json.loads(card_path(out).read_text(encoding="utf-8"))
    (city,) = (column for column in card["columns"] if column["name"] == "city")
    assert (city["levels"], city["pooled"]) == (["Bonn", "Köln"], False)
    assert np.isfinite(load(out).predict(pandas.read_csv(table))).all()  # and nothing warns
    assert fisherleak("audit", table, "--released", out, *FAST).status == 0


def test_a_table_of_very_few_rows_is_not_released(fisherleak: Command, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    coded(table, 29)
    done = fisherleak("release", table, "--target", "y", "--noise", "5", "--out", tmp_path / "m.skops")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "A release needs at least 30 training rows" in done.err


def test_a_class_of_very_few_rows_is_not_released(fisherleak: Command, tmp_path: Path) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "m.skops"
    frame = coded(table)
    for rows, status in ((4, 2), (5, 0)):
        frame.assign(y=np.where(np.arange(len(frame)) < rows, "ill", "well")).to_csv(table, index=False)
        done = fisherleak("release", table, "--target", "y", "--noise", "5", "--out", out, "--quiet")
        assert done.status == status
        assert (status == 0) == ("one of them has 4 training rows" not in done.err)


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        (["city"], "must be COLUMN=CATEGORY"),
        (["nobody=a"], "names the column 'nobody'"),
        (["city=a,a"], "each of them once"),
        (["city=a", "city=b"], "each of them once"),
        (["code=x"], "whose values are numbers"),
    ],
)
def test_levels_that_cannot_be_declared(fisherleak: Command, tmp_path: Path, levels: list[str], says: str) -> None:
    coded(tmp_path / "t.csv")
    given = [word for each in levels for word in ("--levels", each)]
    options = ("--target", "y", "--category", "code", "--eta", "5", "--out", tmp_path / "m.skops")
    done = fisherleak("release", tmp_path / "t.csv", *options, *given)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert says in done.err


def test_a_card_of_an_earlier_version_is_refused(fisherleak: Command, people: Path, released: Path) -> None:
    edited(released, lambda card: card.update(schema="fisherleak.card/1"))
    assert "centres and scales that were not counted" in refusal(fisherleak, people, released)


def test_a_release_under_the_papers_assumption_says_so(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.skops"
    options = ("--target", "income", "--eta", "0.5", "--out", out, "--public", "preprocessing", "--json")
    card = json.loads(fisherleak("release", people, *options).out)
    assert "taken as public and not counted" in card["counted"]
    done = fisherleak("audit", people, "--released", out, "-v", *FAST)
    assert done.status == 0
    assert "with preprocessing taken as public" in done.out


def test_the_table_is_not_overwritten(fisherleak: Command, people: Path) -> None:
    before = people.read_bytes()
    done = fisherleak("release", people, "--target", "sick", "--eta", "0.5", "--out", people, "--overwrite")
    assert done.status == 2
    assert "which is read by this command" in done.err
    assert people.read_bytes() == before


def test_a_release_says_what_it_costs(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    for eta, useless in (("100", False), ("0.001", True)):
        out = tmp_path / f"{eta}.skops"
        done = fisherleak("release", people, "--target", "income", "--eta", eta, "--out", out)
        assert "for the baseline" in done.out
        assert ("better than the baseline" in done.out) == useless
        assert ("Allow a larger --eta, declare narrower --bounds" in " ".join(done.out.split())) == useless


def test_a_changed_file_is_refused(fisherleak: Command, people: Path, released: Path) -> None:
    data = bytearray(released.read_bytes())
    data[len(data) // 2] ^= 1
    released.write_bytes(bytes(data))
    assert "not the model that its model card describes" in refusal(fisherleak, people, released)


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9])
def test_a_damaged_file_with_a_mended_card_is_refused(
    fisherleak: Command, people: Path, released: Path, keep: float
) -> None:
    members = zipfile.ZipFile(released)
    contents = {name: members.read(name) for name in members.namelist()}
    with zipfile.ZipFile(released, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data[: int(keep * len(data))])
    card = json.loads(card_path(released).read_text(encoding="utf-8"))
    card["model"]["file_sha256"] = hashlib.sha256(released.read_bytes()).hexdigest()
    card_path(released).write_bytes(card_text(card))
    assert "which no model that was released with this model card has" in refusal(fisherleak, people, released)


def test_a_model_without_noise_is_noticed(fisherleak: Command, people: Path, released: Path) -> None:
    saved = load_model(released)
    trained = retrain(saved, read_table(people))
    grid = saved.card["grid"]
    exact = PublicModel.of(trained)
    rewrite(
        released, pipeline_with(exact, parameters_as_released(exact, np.rint(own_parameters(trained) / grid) * grid))
    )
    assert "holds no noise" in refusal(fisherleak, people, released)


def test_a_model_that_is_too_far_is_noticed(fisherleak: Command, people: Path, released: Path) -> None:
    saved = load_model(released)
    trained, grid = retrain(saved, read_table(people)), saved.card["grid"]
    far = np.rint(own_parameters(trained) / grid) * grid + 2.0**20 * grid
    rewrite(released, pipeline_with(PublicModel.of(trained), parameters_as_released(PublicModel.of(trained), far)))
    assert "farther from its refit than its noise explains" in refusal(fisherleak, people, released)


def test_foreign_types_are_refused_by_name(fisherleak: Command, people: Path, released: Path) -> None:
    from functools import partial

    from sklearn.preprocessing import FunctionTransformer

    rewrite(released, Pipeline([("odd", FunctionTransformer(partial(zipfile.ZipFile, "x")))]))
    assert "holds another model" in refusal(fisherleak, people, released)


def test_other_scikit_learn_models_are_refused(fisherleak: Command, people: Path, released: Path) -> None:
    from sklearn.linear_model import Lasso

    rewrite(released, Lasso())
    assert "holds another model" in refusal(fisherleak, people, released)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("l2", "much"),
        ("l2", -1.0),
        ("held_out", "x"),
        ("seed", -1),
        ("target", "nobody"),
        ("unknown", 1),
        ("drop", ["no"]),
    ],
)
def test_a_forged_card_is_refused(fisherleak: Command, people: Path, released: Path, key: str, value: Any) -> None:
    card = json.loads(card_path(released).read_text(encoding="utf-8"))
    card["settings"][key] = value
    card_path(released).write_bytes(card_text(card))
    refusal(fisherleak, people, released)


# What the card claims


def edited(released: Path, change: Callable[[dict[str, Any]], Any], digest: bool = True) -> None:
    """A model card that says something else, its digest mended or not."""
    card = json.loads(card_path(released).read_text(encoding="utf-8"))
    change(card)
    if digest:
        card["digest"]["value"] = digest_of(card)
    card_path(released).write_bytes(card_text(card))


def test_an_audit_says_what_it_confirmed_and_what_it_cannot(fisherleak: Command, people: Path, released: Path) -> None:
    done = fisherleak("audit", people, "--released", released, "-v", *FAST)
    assert (done.status, done.err) == (0, "")
    for words in (
        "matches its model card",
        "from a new fit (1 is typical of noise of the model card's scale)",
        "Measured again",
        "The limit of 0.5 on every row",
    ):
        assert words in done.out
    assert "Columns, units, grid and what is counted are the same as in a new release" in done.out
    assert "That the noise was drawn afresh" in done.out
    assert "The probability that replacing one person" not in done.out  # of noise for whoever could be in the table
    assert "The model card's sentences" not in done.out
    assert "That nobody else has the model without noise" in done.out


def test_sentences_of_another_version_are_held_against_ours_too(
    fisherleak: Command, people: Path, released: Path
) -> None:
    def change(card: dict[str, Any]) -> None:
        card["assumptions"] = ["As we said then."]
        card["versions"]["fisherleak"] = "0.0.9"

    edited(released, change)
    assert "It was written by fisherleak 0.0.9" in refusal(fisherleak, people, released)


def step_below(scale: float) -> float:
    return seven_digits(nearest_on_grid(scale / STEP, 0.0))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda card: card["eta"].update(limit=0.2),
            "claims a limit of 0.2 on every row, in standard units, and a new",
        ),
        (lambda card: card["eta"].update(limit=2.0), "its noise fits a limit of 0.4"),
        (lambda card: card["noise"].update(scale=step_below(card["noise"]["scale"])), "the limit does not hold"),
        (lambda card: card.pop("digest"), "under 'digest'"),
        (lambda card: card["eta"].update(limit="low"), "under 'eta.limit'"),
        (lambda card: card["eta"].update(limit_columns=["age"]), "under 'eta.limit_on'"),
        (lambda card: card["eta"].update(limit_columns=["nobody"]), "under 'eta.limit_columns'"),
        (lambda card: card.pop("eta"), "under 'eta'"),
        (lambda card: card["columns"][0].update(scale=1600.0), "under 'columns[0].scale'"),
        (lambda card: card["target"].update(unit=7.0), "under 'target.unit'"),
        (lambda card: card["target"].update(unit=card["target"]["unit"] * 2), "says other things under target"),
        (lambda card: card.update(grid=1e-9), "under 'grid'"),
        (lambda card: card.update(counted="Differentially private."), "under 'counted'"),
        (lambda card: card.update(assumptions=["This is anonymous."]), "under 'assumptions'"),
        (lambda card: card["shape"].update(name="least-loss"), "under 'shape'"),
    ],
)
def test_claims_that_do_not_follow(
    fisherleak: Command, people: Path, released: Path, change: Callable[[dict[str, Any]], Any], says: str
) -> None:
    def with_sentences(card: dict[str, Any]) -> None:
        change(card)
        if "under '" not in says:
            card["noise"].get("calibrated", {})["eta"] = card["eta"]["limit"]
            card["grid"] = one_where_alike(grid_of(from_card(card["noise"]), card["model"]["parameters"]).tolist())
            card["assumptions"] = sentences_of(card)

    edited(released, with_sentences, digest=says != "under 'digest'")
    done = fisherleak("audit", people, "--released", released, "--quiet", *FAST)
    assert (done.status in (1, 2), done.out) == (True, "")
    assert done.err.count("\n") == 1
    assert says in done.err


def test_a_card_that_was_changed_by_hand(fisherleak: Command, people: Path, released: Path) -> None:
    edited(released, lambda card: card["target"].update(unit=card["target"]["unit"] * 2), digest=False)
    done = fisherleak("audit", people, "--released", released, *FAST)
    assert done.status == 1
    assert "was changed after it was written" in done.err


def test_an_interrupted_release_leaves_nothing(
    fisherleak: Command, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = Path.replace
    count = iter(range(9))

    def fail(self: Path, to: Path) -> Path:
        if next(count) == 1:
            raise KeyboardInterrupt
        return true(self, to)

    monkeypatch.setattr(Path, "replace", fail)
    done = fisherleak("release", people, "--target", "income", "--eta", "0.5", "--out", tmp_path / "model.skops")
    assert (done.status, done.err) == (2, "fisherleak: interrupted; nothing was written.\n")
    assert {p.name for p in tmp_path.iterdir()} == {"people.csv"}


def test_overwriting_is_asked_for(fisherleak: Command, people: Path, released: Path) -> None:
    before = released.read_bytes()
    options = ("release", people, "--target", "income", "--eta", "0.5", "--out", released)
    assert fisherleak(*options).status == 2
    assert released.read_bytes() == before
    assert fisherleak(*options, "--overwrite").status == 0
    assert released.read_bytes() != before
    assert fisherleak("audit", people, "--released", released, "--quiet").status == 0


def test_a_model_from_python_has_the_same_refusals(released: Path, people: Path) -> None:
    released.with_name(released.name + ".json").write_text("{}", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="no model card of schema"):
        load_model(released)


@pytest.mark.long
def test_noise_and_shapes_on_the_command_line(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.skops"
    base = ("release", people, "--target", "income", "--out", out, "--overwrite")
    frame = pandas.read_csv(people)
    numbers = frame.select_dtypes("number").columns
    frame[numbers] = frame[numbers].apply(
        lambda column: column.sample(frac=1, random_state=len(column.name)).to_numpy()
    )
    others = tmp_path / "others.csv"
    frame.to_csv(others, index=False)
    done = fisherleak(*base, "--noise", "2")
    assert done.status == 0
    assert "none: the noise was given" in done.out
    assert fisherleak("audit", people, "--released", out, "--quiet", *FAST).status == 0
    for options, shape in (
        (("--over", "max", "--shape", "hessian"), {"name": "hessian", "from": None}),
        (("--over", "max", "--shape-from", others), {"name": "hessian", "from": "others.csv"}),
    ):
        done = fisherleak(*base, "--eta", "0.5", *options, "--json")
        assert done.status == 0, done.err
        assert "Column 'person' is not used" in done.err
        assert json.loads(done.out)["shape"] == shape
        assert fisherleak("audit", people, "--released", out, "--quiet", *FAST).status == 0
        assert fisherleak("verify", out).status == 0
    for wrong, says in (
        (("--eta", "1", "--noise", "1"), "either --eta or --noise"),
        (("--eta", "1", "--shape", "round"), "--shape must be one of"),
        (("--eta", "1", "--shape-from", people), "or use --shape hessian, whose covariance is not published"),
        (("--noise", "1", "--shape", "hessian"), "--shape goes with a limit --eta"),
    ):
        done = fisherleak(*base, *wrong)
        assert done.status == 2
        assert says in done.err


@pytest.mark.long
def test_a_penalty_is_chosen_by_public_numbers_unless_it_is_given(
    fisherleak: Command, people: Path, tmp_path: Path
) -> None:
    base = ("release", people, "--target", "income", "--over", "any-record", "--eta", "1", "--overwrite")
    done = fisherleak(*base, "--out", tmp_path / "m.skops", "-v")
    assert (done.status, done.err) == (0, "")
    told = re.search(r"No penalty was given\. It is l2 = (\S+),", " ".join(done.out.split()))
    assert told is not None
    chosen = json.loads((tmp_path / "m.skops.json").read_text(encoding="utf-8"))["settings"]["l2"]
    assert float(told[1]) == chosen > 0.01
    assert fisherleak("audit", people, "--released", tmp_path / "m.skops", "--quiet", *FAST).status == 0
    done = fisherleak(*base, "--out", tmp_path / "m.skops", "--l2", "0.5", "--json")
    assert json.loads(done.out)["settings"]["l2"] == 0.5
    assert "No penalty" not in done.out


def test_a_file_in_the_first_words_of_this_version_is_verified_and_audited(
    fisherleak: Command, people: Path, tmp_path: Path
) -> None:
    """Sentences of model cards have other words now; those of files that are out are read, and no third ones."""
    from fisherleak.releasing.files.earlier_files import in_first_words

    model = tmp_path / "m.skops"
    assert fisherleak("release", people, "--target", "sick", "--noise", "0.5", "--out", model, "--quiet").status == 0
    place = Path(f"{model}.json")
    card = json.loads(place.read_text(encoding="utf-8"))
    assert card["assumptions"][0] == "Without noise, eta is infinite."
    first = in_first_words(card["assumptions"])
    assert first[0].startswith("Before the noise")
    place.write_bytes(card_text(sealed(card | {"assumptions": first})))
    done = fisherleak("verify", model)
    assert (done.status, "The wording of the model card's sentences" in " ".join(done.out.split())) == (0, True)
    done = fisherleak("audit", people, "--released", model, "-v", *FAST)
    assert (done.status, "The wording of the model card's sentences" in " ".join(done.out.split())) == (0, True), (
        done.err
    )
    place.write_bytes(card_text(sealed(card | {"assumptions": [*first[:1], *card["assumptions"][1:]]})))
    assert fisherleak("verify", model).status == 1

"""Released models: saved, loaded, refitted, and refused when they are not what they claim."""

from __future__ import annotations

import hashlib
import json
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

from fisherleak.audit.model import own_parameters
from fisherleak.audit.released_files import load_model, retrain, trusted_types
from fisherleak.audit.signatures import card_path, digest_of
from fisherleak.errors import InvalidInputError
from fisherleak.models.estimators import parameters
from fisherleak.tables import read_table
from report.test_summarise import check_summary

Command = Callable[..., Any]
FAST = ("--draws", "4", "--no-attacks")


def load(path: Path) -> Any:
    untrusted = skops_io.get_untrusted_types(file=path)
    assert set(untrusted) <= trusted_types()
    return skops_io.load(path, trusted=untrusted)


@pytest.mark.parametrize(("target", "model"), [("income", "linear"), ("sick", "logistic"), ("visits", "poisson")])
@pytest.mark.parametrize("balance", [False, True])
def test_round_trip(
    fisherleak: Command, people: Path, frame: Any, tmp_path: Path, target: str, model: str, balance: bool
) -> None:
    out = tmp_path / "model.skops"
    options = ("--target", target, "--model", model, "--eta", "0.5", "--out", out, *["--balance"] * balance)
    done = fisherleak("release", people, *options, "--json")
    assert (done.status, done.err) == (0, "")
    card = json.loads(done.out)
    assert json.loads((tmp_path / "model.skops.json").read_text(encoding="utf-8")) == card
    assert {p.name for p in tmp_path.iterdir()} == {"people.csv", "model.skops", "model.skops.json"}
    assert card["noise"]["scale"] > 0
    assert card["eta"]["after"]["max"] <= 0.5
    assert card["eta"]["before_noise"] is None
    assert (card["eta"]["before_balancing"] is not None) == balance
    assert card["data"]["rows"] == 120
    released = load(out)
    assert isinstance(released, Pipeline)
    predictions = released.predict(pandas.read_csv(people)[list(released.feature_names_in_)])
    assert len(predictions) == 120
    summary = json.loads(fisherleak("audit", people, "--released", out, "--json", *FAST).out)
    check_summary(summary)
    assert summary["noise"]["scale"] == card["noise"]["scale"]
    assert 0.45 < summary["eta"]["examples"]["max"] <= 0.5  # the scale is rounded up to two digits
    assert summary["eta"]["examples"]["max"] == pytest.approx(card["eta"]["after"]["max"], rel=0.05)
    assert float(f"{card['noise']['scale']:.1e}") == card["noise"]["scale"]
    assert summary["data"]["train_rows"] == 120


def test_the_release_holds_noise_and_nothing_of_the_model_before_it(
    fisherleak: Command, people: Path, tmp_path: Path
) -> None:
    differences = []
    for k in range(20):
        out = tmp_path / f"m{k}.skops"
        assert fisherleak("release", people, "--target", "income", "--eta", "0.5", "--out", out, "--quiet").status == 0
        saved = load_model(out)
        trained = retrain(saved, read_table(people))
        theta = own_parameters(trained)
        differences.append((parameters(saved.model[-1]) - theta) / saved.scale)
        members = zipfile.ZipFile(out)
        contents = (
            b"".join(members.read(name) for name in members.namelist()) + (tmp_path / f"m{k}.skops.json").read_bytes()
        )
        for value in theta:
            assert np.float64(value).tobytes() not in contents
            assert repr(float(value)).encode() not in contents
    draws = np.concatenate(differences)
    assert len({d.tobytes() for d in differences}) == 20
    # 20 models x 8 parameters: the right scale passes, one that is off by a third would not
    assert abs(draws.std() - 1) < 4 / np.sqrt(2 * draws.size) < 0.33
    assert abs(draws.mean()) < 4 / np.sqrt(draws.size)


def test_a_limit_on_one_column_is_in_its_unit(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.skops"
    options = ("--target", "income", "--attribute", "age", "--eta", "0.1", "--out", out, "--json")
    card = json.loads(fisherleak("release", people, *options).out)
    assert "'age'" in card["eta"]["limit_on"]
    summary = json.loads(fisherleak("audit", people, "--released", out, "--json", *FAST).out)
    age = next(attribute for attribute in summary["attributes"] if attribute["name"] == "age")
    assert 0.09 < age["eta_max"] <= 0.1
    assert 10.0 <= age["error_least"] < 11.2


def test_settings_travel_with_the_card(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.skops"
    options = (
        "--l2",
        "0.3",
        "--drop",
        "weight",
        "--category",
        "visits",
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


def test_a_limit_on_several_columns_holds_for_each(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    """The noise is that of the column which needs most, whatever the order."""
    scales = {}
    for columns in (("age",), ("weight",), ("age", "weight"), ("weight", "age"), ("age", "city", "weight", "age")):
        out = tmp_path / f"{'-'.join(columns)}.skops"
        options = ("--target", "income", *(f"--attribute={name}" for name in columns), "--eta", "0.1", "--out", out)
        card = json.loads(fisherleak("release", people, *options, "--json").out)
        scales[columns] = card["noise"]["scale"]
        assert card["eta"]["limit_columns"] == list(dict.fromkeys(columns))
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


@pytest.mark.parametrize(("target", "model"), [("y", "linear"), ("count", "poisson"), ("group", "logistic")])
def test_a_release_predicts_from_the_raw_table_anywhere(
    fisherleak: Command, tmp_path: Path, target: str, model: str
) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "m.skops"
    coded(table)
    options = ("--target", target, "--model", model, "--category", "code", "--category", "dose")
    assert fisherleak("release", table, *options, "--eta", "5", "--out", out, "--quiet").status == 0
    saved = load_model(out)
    trained = retrain(saved, read_table(table))
    theta = parameters(saved.model[-1])
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
    ("column", "value", "says"),
    [
        ("age", np.nan, "contains NaN"),
        ("code", np.nan, "unknown categories"),
        ("code", 3, "unknown categories"),
        ("city", "Trier", "unknown categories"),
        ("city", None, "unknown categories"),
    ],
)
def test_rows_that_no_model_can_predict_are_refused(
    fisherleak: Command, tmp_path: Path, column: str, value: Any, says: str
) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "m.skops"
    frame = coded(table)
    options = ("--target", "y", "--category", "code", "--eta", "5", "--out", out, "--quiet")
    assert fisherleak("release", table, *options).status == 0
    frame.loc[3, column] = value
    model = load(out)
    with pytest.raises(ValueError, match=says):
        model.predict(frame)
    known = frame.drop(index=3)
    others = np.delete(model.predict(pandas.read_csv(table)), 3)
    np.testing.assert_allclose(model.predict(known), others, rtol=1e-12)


# Forgeries


@pytest.fixture
def released(fisherleak: Command, people: Path, tmp_path: Path) -> Path:
    out = tmp_path / "model.skops"
    assert fisherleak("release", people, "--target", "income", "--eta", "0.5", "--out", out, "--quiet").status == 0
    return out


def rewrite(path: Path, model: Any) -> None:
    """Another model under the same card, its checksum mended: what a forger would do."""
    skops_io.dump(model, path)
    card_path = path.with_name(path.name + ".json")
    card = json.loads(card_path.read_text(encoding="utf-8"))
    card["model"]["file_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    card_path.write_text(json.dumps(card), encoding="utf-8")


def refusal(fisherleak: Command, people: Path, released: Path) -> str:
    done = fisherleak("audit", people, "--released", released)
    assert done.status == 2
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert "should not happen" not in done.err
    return str(done.err)


def test_another_table_is_refused(fisherleak: Command, people: Path, released: Path) -> None:
    lines = people.read_text(encoding="utf-8").splitlines(keepends=True)
    people.write_text("".join(lines[:-1]), encoding="utf-8")
    assert "is not the table that 'model.skops' was released from" in refusal(fisherleak, people, released)


def test_nothing_exact_of_the_table_is_published(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    """An exact mean, or a checksum, gives the one value away that an attacker does not know."""
    out = tmp_path / "model.skops"
    card = json.loads(fisherleak("release", people, "--target", "sick", "--eta", "0.5", "--out", out, "--json").out)
    assert "sha256" not in card["data"]
    scaler = load(out)[0].named_transformers_["numbers"]
    names = list(scaler.feature_names_in_)
    frame = pandas.read_csv(people)[names]
    assert not {"var_", "n_samples_seen_"} & set(vars(scaler))
    for name, centre, scale in zip(names, scaler.mean_, scaler.scale_, strict=True):
        step = 10.0 ** np.floor(np.log10(scale))
        assert float(f"{scale:.1e}") == scale
        assert centre / step == pytest.approx(round(centre / step))
        assert abs(centre - frame[name].mean()) <= 0.5001 * step
        assert scale == pytest.approx(frame[name].std(ddof=0), rel=0.06)


def test_the_table_is_not_overwritten(fisherleak: Command, people: Path) -> None:
    before = people.read_bytes()
    done = fisherleak("release", people, "--target", "sick", "--eta", "0.5", "--out", people, "--overwrite")
    assert done.status == 2
    assert "is the table itself" in done.err
    assert people.read_bytes() == before


def test_a_release_says_what_it_costs(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    for eta, useless in (("100", False), ("0.001", True)):
        out = tmp_path / f"{eta}.skops"
        done = fisherleak("release", people, "--target", "income", "--eta", eta, "--out", out)
        assert "for a constant" in done.out
        assert ("no better than a constant" in done.out) == useless


def test_a_changed_file_is_refused(fisherleak: Command, people: Path, released: Path) -> None:
    data = bytearray(released.read_bytes())
    data[len(data) // 2] ^= 1
    released.write_bytes(bytes(data))
    assert "not the model that its card describes" in refusal(fisherleak, people, released)


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9])
def test_a_damaged_file_with_a_mended_card_is_refused(
    fisherleak: Command, people: Path, released: Path, keep: float
) -> None:
    members = zipfile.ZipFile(released)
    contents = {name: members.read(name) for name in members.namelist()}
    with zipfile.ZipFile(released, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data[: int(keep * len(data))])
    card_path = released.with_name(released.name + ".json")
    card = json.loads(card_path.read_text(encoding="utf-8"))
    card["model"]["file_sha256"] = hashlib.sha256(released.read_bytes()).hexdigest()
    card_path.write_text(json.dumps(card), encoding="utf-8")
    assert "damaged" in refusal(fisherleak, people, released)


def test_a_model_without_noise_is_noticed(fisherleak: Command, people: Path, released: Path) -> None:
    saved = load_model(released)
    theta = own_parameters(retrain(saved, read_table(people)))
    saved.model[-1].coef_, saved.model[-1].intercept_ = theta[:-1], theta[-1]
    rewrite(released, saved.model)
    assert "holds no noise" in refusal(fisherleak, people, released)


def test_a_model_that_is_too_far_is_noticed(fisherleak: Command, people: Path, released: Path) -> None:
    saved = load_model(released)
    saved.model[-1].coef_ = saved.model[-1].coef_ + 50 * saved.scale
    rewrite(released, saved.model)
    assert "farther from its refit than its noise explains" in refusal(fisherleak, people, released)


def test_foreign_types_are_refused_by_name(fisherleak: Command, people: Path, released: Path) -> None:
    from functools import partial

    from sklearn.preprocessing import FunctionTransformer

    rewrite(released, Pipeline([("odd", FunctionTransformer(partial(zipfile.ZipFile, "x")))]))
    assert "functools.partial" in refusal(fisherleak, people, released)


def test_other_scikit_learn_models_are_refused(fisherleak: Command, people: Path, released: Path) -> None:
    from sklearn.linear_model import Lasso

    rewrite(released, Lasso())
    assert "holds a Lasso" in refusal(fisherleak, people, released)


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
    card_path = released.with_name(released.name + ".json")
    card = json.loads(card_path.read_text(encoding="utf-8"))
    card["settings"][key] = value
    card_path.write_text(json.dumps(card), encoding="utf-8")
    refusal(fisherleak, people, released)


# What the card claims


def edited(released: Path, change: Callable[[dict[str, Any]], Any], digest: bool = True) -> None:
    """A card that says something else, its digest mended or not."""
    card = json.loads(card_path(released).read_text(encoding="utf-8"))
    change(card)
    if digest:
        card["digest"]["value"] = digest_of(card)
    card_path(released).write_text(json.dumps(card), encoding="utf-8")


def test_an_audit_says_what_it_confirmed_and_what_it_cannot(fisherleak: Command, people: Path, released: Path) -> None:
    done = fisherleak("audit", people, "--released", released, *FAST)
    assert (done.status, done.err) == (0, "")
    for words in ("matches its card", "times as far from a new fit", "Measured anew", "The limit of 0.5 on every row"):
        assert words in done.out
    assert "That the noise was drawn afresh" in done.out
    assert "That nobody else has the model without noise" in done.out


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda card: card["eta"].update(limit=0.2),
            "claims a limit of 0.2 on every row, in standard units, and a new",
        ),
        (lambda card: card["eta"].update(limit=2.0), "its noise is that for a limit of 0.4"),
        (lambda card: card["eta"].update(limit="low"), "lacks its etas or its limit"),
        (lambda card: card["eta"].update(limit_columns=["age"]), "which do not agree"),
        (lambda card: card["eta"].update(limit_columns=["nobody"]), "lacks its etas or its limit"),
        (
            lambda card: card["eta"]["after"].update(max=0.1),
            "claims a largest eta of 0.1, and a new measurement gives 0.4",
        ),
        (lambda card: card["eta"]["after"].update(mean=0.01), "claims a mean eta of 0.01"),
        (lambda card: card["eta"].pop("after"), "lacks its etas"),
        (lambda card: card["noise"].update(scale=card["noise"]["scale"] * 0.8), "claims a largest eta"),
        (lambda card: card.pop("digest"), "changed after it was written"),
    ],
)
def test_claims_that_do_not_follow(
    fisherleak: Command, people: Path, released: Path, change: Callable[[dict[str, Any]], Any], says: str
) -> None:
    edited(released, change, digest=says != "changed after it was written")
    done = fisherleak("audit", people, "--released", released, "--quiet", *FAST)
    assert (done.status, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert says in done.err
    summary = json.loads(fisherleak("audit", people, "--released", released, "--json", *FAST).out)
    assert says in summary["released"]["failed"]


def test_a_card_that_was_changed_by_hand(fisherleak: Command, people: Path, released: Path) -> None:
    edited(released, lambda card: card["assumptions"].append("This is anonymous."), digest=False)
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
    with pytest.raises(InvalidInputError, match="no card of schema"):
        load_model(released)

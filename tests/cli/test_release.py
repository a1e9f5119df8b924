"""Released models: saved, loaded, refitted, and refused when they are not what they claim."""

from __future__ import annotations

import hashlib
import json
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
    for name, centre, scale, variance in zip(names, scaler.mean_, scaler.scale_, scaler.var_, strict=True):
        step = 10.0 ** np.floor(np.log10(scale))
        assert float(f"{scale:.1e}") == scale
        assert variance == scale**2
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

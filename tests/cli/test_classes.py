"""Targets of three classes through every command: chosen by themselves, released, verified, audited again."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.cli import main
from fisherleak.protection.certificates.worst_record import NoUsefulBoundError
from fisherleak.protection.release.penalty_and_shape import PENALTIES, PublicPenalty
from fisherleak.releasing.any_record_noise import AnyRecordLimit, least_admitted
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings, train
from report.test_summarise import check_summary


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A table of three classes with gaps, two rows to a person; and the same with classes coded 1, 2, 3."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    n = 160
    x = rng.normal(size=(n, 2))
    scores = x @ np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]) + rng.gumbel(size=(n, 3))
    frame = pandas.DataFrame({"age": (40 + 10 * x[:, 0]).round(1), "dose": x[:, 1].round(3)})
    frame["town"] = rng.choice(["Bonn", "Genua"], n)
    frame["who"] = [f"p{k // 2}" for k in range(n)]
    frame["outcome"] = np.array(["ill", "well", "worse"])[scores.argmax(axis=1)]
    frame["code"] = 1 + scores.argmax(axis=1)
    frame.loc[rng.random(n) < 0.05, "dose"] = np.nan
    frame.loc[rng.random(n) < 0.05, "town"] = None
    frame.drop(columns="code").to_csv("t.csv", index=False)
    frame.drop(columns="outcome").to_csv("coded.csv", index=False)
    return frame


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.long
def test_an_audit_of_text_and_of_codes(tables: Any, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--drop", "who", "--draws", "4", "--json", "--quick"]
    assert main(["audit", "t.csv", "--target", "outcome", "--noise", "0.5", "--out", "r", *options]) == 0
    summary = said(capsys)
    check_summary(summary)
    assert summary["model"]["kind"] == "softmax"
    assert summary["model"]["parameters"] == 3 * 6  # two features tell who lacks a number
    assert summary["data"]["classes"] == ["ill", "well", "worse"]
    assert [group["name"] for group in summary["groups"]] == ["ill", "well", "worse"]
    assert any(
        "'outcome' has 3 values ('ill', 'well', 'worse'), so the model is softmax" in note
        for note in summary["assumptions"]
    )
    assert any("another class is a change of length √2" in note for note in summary["assumptions"])
    cost = summary["tradeoff"]
    assert cost["metric"] == "accuracy"
    auc, loss = cost["also"]
    assert (auc["metric"], loss["label"]) == ("auc", "log loss")
    assert auc["without_noise"] > auc["baseline"] == 0.5
    assert loss["without_noise"] < loss["baseline"] == pytest.approx(np.log(3), abs=0.1)
    assert summary["membership"]["accuracy_max"] > 0.5
    assert summary["diagnostics"]["finite_difference"]["largest_relative_error"] < 1e-4
    assert "Log loss" in Path("r/report.html").read_text(encoding="utf-8")
    assert main(["audit", "coded.csv", "--target", "code", "--noise", "0.5", *options]) == 0
    coded = said(capsys)
    assert coded["eta"]["examples"]["max"] == pytest.approx(summary["eta"]["examples"]["max"], rel=1e-9)
    assert any("taken as codes of 3 classes" in n and "--model linear for amounts" in n for n in coded["assumptions"])
    assert main(["audit", "coded.csv", "--target", "code", "--model", "linear", "--noise", "0.5", *options]) == 0
    assert said(capsys)["model"]["kind"] == "linear"


@pytest.mark.long
def test_people_groups_and_a_gate(tables: Any, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["audit", "t.csv", "--target", "outcome", "--noise", "0.5", "--draws", "4", "--no-attacks", "--quiet"]
    assert main([*call, "--person", "who", "--max-eta", "100"]) == 0
    assert main([*call, "--drop", "who", "--group", "town", "--max-eta", "0.01"]) == 1
    Path("p.toml").write_text('[membership]\nmax_right = 0.99\n[require]\nmodel = "softmax"\n')
    bounds = ["--bounds", "age=-100:200", "--bounds", "dose=-20:20"]
    # a category of five rows, or just enough who lack a number, would tell who is there
    assert main([*call, "--drop", "who", "--missing", "drop", "--drop", "town", "--policy", "p.toml", *bounds]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("shape", ["hessian", "least-loss"])
def test_shaped_noise_of_several_classes_is_told_by_its_name_and_confirmed(
    tables: Any, capsys: pytest.CaptureFixture[str], shape: str
) -> None:
    call = ["release", "t.csv", "--target", "outcome", "--drop", "who", "--out", "m.skops"]
    assert main([*call, "--over", "max", "--eta", "0.5", "--shape", shape]) == 0
    card = json.loads(Path("m.skops.json").read_text(encoding="utf-8"))
    assert card["noise"]["shape"] == shape  # the matrix is in no file
    assert main(["audit", "t.csv", "--released", "m.skops", "--no-attacks", "--draws", "4", "-v"]) == 0
    assert "The limit of 0.5 on every row, in standard units follows" in " ".join(capsys.readouterr().out.split())


@pytest.mark.long
def test_a_release_predicts_from_the_raw_table(tables: Any, capsys: pytest.CaptureFixture[str]) -> None:
    skops = pytest.importorskip("skops.io")
    call = ["release", "t.csv", "--target", "outcome", "--drop", "who", "--out"]
    assert main([*call, "m.skops", "--over", "max", "--eta", "0.5"]) == 0
    assert "log loss" in capsys.readouterr().out
    card = json.loads(Path("m.skops.json").read_text(encoding="utf-8"))
    model = skops.load("m.skops", trusted=card["model"]["trusted_types"])
    whole = tables.dropna()
    assert model[-1].coef_.shape == (3, 4)  # one feature tells who lacks a number
    assert set(model.predict(whole)) <= {"ill", "well", "worse"}
    np.testing.assert_allclose(model.predict_proba(whole).sum(axis=1), 1.0)
    assert main(["verify", "m.skops"]) == 0
    assert main(["audit", "t.csv", "--released", "m.skops", "--no-attacks", "--draws", "4", "-v"]) == 0
    assert "The limit of 0.5 on every row, in standard units follows" in " ".join(capsys.readouterr().out.split())
    assert main([*call, "b.skops", "--over", "max", "--eta", "0.5", "--balance"]) == 2
    assert "cannot be given with a limit --eta for several classes" in capsys.readouterr().err
    assert main([*call, "b.skops", "--noise", "0.5", "--balance"]) == 0
    assert main(["audit", "t.csv", "--released", "b.skops", "--no-attacks", "--quiet", "--draws", "4"]) == 0
    assert main([*call, "n.skops", "--noise", "1e-9"]) == 0
    near = skops.load("n.skops", trusted=card["model"]["trusted_types"])
    assert np.mean(near.predict(whole) == whole["outcome"]) > 0.5
    capsys.readouterr()
    assert main([*call, "l.skops", "--over", "max", "--eta", "0.5", "--ledger", "l.json"]) == 2
    assert "--ledger needs rows without missing values" in capsys.readouterr().err


@pytest.mark.long
def test_a_release_for_whoever_could_be_there(tables: Any, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["release", "t.csv", "--target", "outcome", "--drop", "who", "--public", "preprocessing", "--eta", "0.5"]
    call += ["--bounds", "age=0:80", "--bounds", "dose=-4:4", "--out", "a.skops"]
    assert main([*call, "--l2", "0.0001"]) == 2
    refusal = capsys.readouterr().err
    assert "use a larger l2 or more rows, or --over max" in refusal
    named = re.search(
        r"With these bounds --l2 (\S+) is the least of 0.01, 0.02, 0.05, 0.1, … 10 that is enough", refusal
    )
    assert named is not None
    settings = Settings("outcome", held_out=0.0, rare=5, drop=("who",), public="preprocessing")
    weaker = replace(settings, l2=PENALTIES[PENALTIES.index(float(named[1])) - 1])
    with pytest.raises(NoUsefulBoundError):
        least_admitted(
            train(from_frame(pandas.read_csv("t.csv")), weaker),
            weaker,
            AnyRecordLimit(0.5, bounds={"age": (0, 80), "dose": (-4, 4)}),
        )
    assert main([*call, "--l2", named[1]]) == 0
    card = json.loads(Path("a.skops.json").read_text(encoding="utf-8"))
    assert card["noise"]["calibrated"]["bounds"]["outcome"] == {"classes": 3, "from": "declared"}
    assert main(["audit", "t.csv", "--released", "a.skops", "--no-attacks", "--draws", "4", "-v"]) == 0
    assert "follows for any record within the model card's bounds" in " ".join(capsys.readouterr().out.split())


@pytest.mark.long
def test_without_a_penalty_numbers_on_the_card_decide_it(tables: Any, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["release", "t.csv", "--target", "outcome", "--drop", "who", "--public", "preprocessing", "--eta", "0.05"]
    bounds = ["--bounds", "age=0:80", "--bounds", "dose=-4:4"]
    assert main([*call, *bounds, "--out", "a.skops", "-v"]) == 0
    card = json.loads(Path("a.skops.json").read_text(encoding="utf-8"))
    size, rows = card["model"]["parameters"], card["data"]["rows"]
    assert (size, rows) == (15, 160)
    ends = [card["noise"]["calibrated"]["bounds"][name] for name in ("age", "dose")]
    units = {column["name"]: column for column in card["columns"]}
    far = [
        max(abs(end - units[name]["centre"]) for end in (each["low"], each["high"])) / units[name]["scale"]
        for name, each in zip(("age", "dose"), ends, strict=True)
    ]
    deviations = np.sqrt(12.0) * np.array(far)  # a declared column is taken to vary by a twelfth of its width
    longest = float(np.sqrt(1.0 + np.sum(deviations**2) + 1.0))  # of the level, and of any town but the first
    assert card["settings"]["l2"] == PublicPenalty(size, rows, 0.05, longest, 3).l2
    assert card["settings"]["intercept_l2"] == card["settings"]["l2"]
    told = f"No penalty was given. It is l2 = {card['settings']['l2']:g}, which is 4 cbrt(2 p R^2 / (3 n^2 eta^2))"
    assert any(told in sentence for sentence in card["assumptions"])
    assert any("The intercept of every class" in sentence for sentence in card["assumptions"])
    shown = " ".join(capsys.readouterr().out.split())
    assert told in shown
    assert "Nothing but numbers of this card decides it; --l2 chooses another." in shown
    assert "no better than the baseline" in shown
    assert "--shape hessian" not in shown  # several classes have none to try
    assert main(["audit", "t.csv", "--released", "a.skops", "--no-attacks", "--draws", "4", "--quiet"]) == 0
    for more in (["--l2", "1", *bounds], ["--over", "max"]):
        assert main([*call, *more, "--out", "b.skops", "--overwrite"]) == 0
        other = json.loads(Path("b.skops.json").read_text(encoding="utf-8"))
        assert other["settings"]["l2"] == (1.0 if "--l2" in more else 0.01)
        assert other["settings"]["intercept_l2"] == (1.0 if "--l2" in more else 0.0)
        assert not any("was not given" in sentence for sentence in other["assumptions"])
    capsys.readouterr()


def test_what_classes_are_refused(tables: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "t.csv", "--target", "outcome", "--model", "logistic"]) == 2
    assert "use --model softmax" in capsys.readouterr().err
    tables["outcome"] = np.where(np.arange(160) == 7, "rare", tables["outcome"])
    tables.loc[7, "dose"] = np.nan
    tables.drop(columns=["code", "who"]).to_csv("gone.csv", index=False)
    assert main(["audit", "gone.csv", "--target", "outcome", "--missing", "drop"]) == 2
    assert "Class 'rare'" in capsys.readouterr().err


@pytest.mark.long
def test_iris_is_released_for_whoever_could_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    table, model = str(tmp_path / "iris.csv"), str(tmp_path / "iris.skops")
    iris = datasets.load_iris(as_frame=True)
    iris.frame.assign(target=iris.target_names[iris.target]).to_csv(table, index=False)
    assert main(["release", table, "--target", "target", "--eta", "1", "--out", model, "-v"]) == 0
    assert "It is l2 = 1.1, which is 4 cbrt(2 p R^2 / (3 n^2 eta^2))" in " ".join(capsys.readouterr().out.split())
    assert main(["verify", model]) == 0
    assert main(["attack", table, "--released", model, "--attribute", "target", "--quick"]) == 0
    assert "white-box with prior" in capsys.readouterr().out

"""Answers to a log of queries: the etas of the library, the release's own where it answers, and refusals in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import fisherleak as fl
from fisherleak.auditing.query_log import query_features
from fisherleak.protection.certificates.data_dependent_covariance import shape_term
from fisherleak.releasing.files.released_files import load_model, retrain
from fisherleak.tables import read_table
from fisherleak.training.trained_model import Settings, train

Command = Callable[..., Any]


@pytest.fixture
def queries(people: Path, tmp_path: Path) -> Path:
    """Ten rows of the table, the first of them twice."""
    rows = pandas.read_csv(people).iloc[[0, *range(10)]]
    path = tmp_path / "queries.csv"
    rows.to_csv(path, index=False)
    return path


def asked(fisherleak: Command, *given: object) -> Any:
    done = fisherleak("answers", *given, "--json")
    assert done.status in (0, 1), done.err
    return json.loads(done.out)


@pytest.mark.parametrize(
    ("target", "options", "noise"),
    [
        ("income", ["--noise", 500], fl.Gaussian(500.0)),
        ("sick", ["--noise", 0.2, "--of", "probability"], fl.Gaussian(0.2)),
        ("sick", ["--of", "label"], None),
    ],
)
def test_etas_are_those_of_the_library(
    fisherleak: Command, people: Path, queries: Path, target: str, options: list[object], noise: Any
) -> None:
    said = asked(
        fisherleak, people, queries, "--target", target, "--id", "person", "--public", "preprocessing", *options
    )
    assert (said["queries"], said["distinct"]) == (11, 10)
    settings = Settings(target, held_out=0.0, id="person", public="preprocessing")
    trained = train(read_table(people), settings)
    X, y, unit = np.asarray(trained.design.X), np.asarray(trained.design.y), trained.unit
    asked_for = query_features(trained.design, read_table(queries))
    assert asked_for.shape == (11, X.shape[1])
    assert np.array_equal(asked_for[1:], X[[list(trained.design.rows).index(k) for k in range(1, 11)]])
    of = options[options.index("--of") + 1] if "--of" in options else "score"
    by = (
        fl.SampledLabels(asked_for)
        if noise is None
        else fl.Answers(asked_for, noise.rescaled(noise.scale / unit), str(of))
    )
    eta = np.asarray(fl.measure(trained.fit, X, y, noise=by).per_example())
    assert said["eta"]["max"] == pytest.approx(eta.max(), rel=1e-8)
    assert said["eta"]["mean"] == pytest.approx(eta.mean(), rel=1e-8)
    assert said["most_exposed"][0]["id"] == trained.design.ids[int(np.argmax(eta))]


def test_a_release_answers_no_more_than_it_holds(
    fisherleak: Command, people: Path, queries: Path, tmp_path: Path
) -> None:
    """Queries that look everywhere tell the release itself, however often they are asked; fewer tell less."""
    model = tmp_path / "m.skops"
    options = ("--target", "income", "--id", "person", "--eta", 0.5, "--over", "max", "--l2", 0.1, "--out", model)
    assert fisherleak("release", people, *options).status == 0
    whole = json.loads(fisherleak("audit", people, "--released", model, "--no-attacks", "--json").out)
    every = tmp_path / "every.csv"
    table = pandas.read_csv(people)
    pandas.concat([table, table]).to_csv(every, index=False)
    all_of_it = asked(fisherleak, people, every, "--released", model)
    assert all_of_it["eta"]["max"] == pytest.approx(whole["eta"]["examples"]["max"], rel=1e-6)
    one = tmp_path / "one.csv"
    table.iloc[[3]].to_csv(one, index=False)
    single = asked(fisherleak, people, one, "--released", model)
    assert 0 < single["eta"]["max"] < 0.9 * all_of_it["eta"]["max"]
    assert single["times"] is None


@pytest.mark.parametrize(("shape", "eta"), [("hessian", 0.06), ("least-loss", 0.2)])
def test_a_shape_of_the_rows_own_is_counted(fisherleak: Command, tmp_path: Path, shape: str, eta: float) -> None:
    """At a small limit most of eta is what the shape tells: answers and audits of the release say both terms."""
    rng = np.random.default_rng(0)
    x = np.clip(rng.normal(size=(400, 2)), -2.5, 2.5)
    x[0] = [2.5, -2.5]
    y = np.clip(x @ [1.0, -0.5] + 0.5 * rng.normal(size=400), -3.5, 3.5)
    frame = pandas.DataFrame({"a": 10 + 2 * x[:, 0], "b": x[:, 1], "t": y}).round(3)
    table, queries, model = tmp_path / "t.csv", tmp_path / "q.csv", tmp_path / "m.skops"
    frame.to_csv(table, index=False)
    frame.iloc[:8, :2].to_csv(queries, index=False)
    bounds = [part for each in ("a=5:15", "b=-2.5:2.5", "t=-4:4") for part in ("--bounds", each)]
    options = (
        "--target",
        "t",
        "--eta",
        eta,
        "--over",
        "any-record",
        "--l2",
        0.1,
        "--shape",
        shape,
        *bounds,
        "--out",
        model,
    )
    assert fisherleak("release", table, *options).status == 0
    told = asked(fisherleak, table, queries, "--released", model)["eta"]["max"]
    audited = json.loads(fisherleak("audit", table, "--released", model, "--no-attacks", "--json").out)
    assert told == pytest.approx(audited["eta"]["examples"]["max"], rel=1e-9)  # they look along all directions
    trained = train(read_table(table), load_model(model).settings)
    noise = load_model(model).noise_on(trained)
    rows = shape_term(trained.leak._information.jacobians[0], noise).rows(trained.design.X)
    assert rows.max() < told <= eta  # the limit is on both
    assert any("Etas of rows and of their values count that" in sentence for sentence in audited["assumptions"])
    assert audited["noise"]["by_shape"] == pytest.approx(rows.max())
    assert fisherleak("audit", table, "--released", model, "--no-attacks", "--out", tmp_path / "out").status == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "is the same at every σ" in page
    assert "Etas are exactly proportional" not in page


def test_nothing_stands_for_what_a_shape_of_least_loss_tells(fisherleak: Command, tmp_path: Path, people: Path) -> None:
    """It is not known, and the term of another shape would be a number that looks right."""
    model = tmp_path / "m.skops"
    shaped = ("--over", "max", "--shape", "least-loss", "--out", model)
    assert fisherleak("release", people, "--target", "income", "--id", "person", "--eta", 0.5, *shaped).status == 0
    audited = json.loads(fisherleak("audit", people, "--released", model, "--no-attacks", "--json").out)
    trained = retrain(load_model(model), read_table(people))
    noise = load_model(model).noise_on(trained)
    alone = max(trained.with_noise(noise).leak.per_example()) * trained.unit / noise.scale
    assert audited["eta"]["examples"]["max"] == pytest.approx(alone)
    assert any(
        "What the covariance reveals by itself is not counted here" in said
        for said in audited["diagnostics"]["warnings"]
    )


def test_gaps_of_queries_are_filled_as_the_model_fills_them(fisherleak: Command, people: Path, queries: Path) -> None:
    frame = pandas.read_csv(people)
    frame.loc[::9, "age"] = np.nan
    frame.to_csv(people, index=False)
    trained = train(read_table(people), Settings("income", held_out=0.0, id="person"))
    age = next(f for f in trained.design.features if f.name == "age")
    told = next(f for f in trained.design.features if f.of == "age")
    frame.iloc[:9].to_csv(queries, index=False)
    X = query_features(trained.design, read_table(queries))
    assert X[:, told.columns[0]].tolist() == [1.0] + [0.0] * 8
    assert X[0, age.columns[0]] == 0.0
    assert asked(fisherleak, people, queries, "--target", "income", "--id", "person", "--noise", 500)["queries"] == 9


def test_a_limit_names_who_is_past_it_and_how_often_the_log_could_be_asked(
    fisherleak: Command, people: Path, queries: Path
) -> None:
    options = (people, queries, "--target", "income", "--id", "person", "--noise", 500)
    free = asked(fisherleak, *options)
    largest = free["eta"]["max"]
    tight = fisherleak("answers", *options, "--max-eta", 0.99 * largest)
    assert tight.status == 1
    assert free["most_exposed"][0]["id"] in tight.out
    wide = asked(fisherleak, *options, "--max-eta", 3.5 * largest)
    assert wide["past_limit"] == []
    assert wide["times"] == 12


def test_the_worst_values_are_named_by_id(fisherleak: Command, people: Path, queries: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers"
    options = (people, queries, "--target", "income", "--noise", 500)
    done = fisherleak("answers", *options, "--id", "person", "--out", out)
    table = pandas.read_csv(people)
    document = json.loads((out / "answers.json").read_text(encoding="utf-8"))
    worst = done.out.split("Worst value of a column")[1]
    page = (out / "report.html").read_text(encoding="utf-8")
    for column in document["columns"]:
        assert column["id"] == table["person"][column["row"] - 1]
        assert f"<td>{column['id']}</td>" in page
    for column in document["columns"][:5]:
        assert column["id"] in worst
    assert asked(fisherleak, *options)["columns"][0]["id"].startswith("row ")


def test_files_are_whole_and_escaped(fisherleak: Command, people: Path, queries: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers"
    done = fisherleak("answers", people, queries, "--target", "income", "--noise", 500, "--out", out)
    assert (done.status, done.err) == (0, "")
    assert sorted(path.name for path in out.iterdir()) == ["answers.json", "answers.parquet", "report.html"]
    document = json.loads((out / "answers.json").read_text(encoding="utf-8"))
    rows = pandas.read_parquet(out / "answers.parquet")
    assert rows["eta"].max() == document["eta"]["max"]
    worst = document["columns"][0]
    assert rows[f"eta[{worst['name']}]"].max() == pytest.approx(worst["eta"])
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "script-src &#39;none&#39;" in page
    assert fisherleak("answers", people, queries, "--target", "income", "--noise", 500, "--out", out).status == 2


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        (lambda frame: frame.drop(columns="age"), ["--noise", 1], "has no column 'age'"),
        (lambda frame: frame.assign(age=np.inf), ["--noise", 1], "Column 'age' of queries.csv has no number in row 1"),
        (
            lambda frame: frame.assign(city="Atlantis"),
            ["--noise", 1],
            "Column 'city' of queries.csv has a category that the table lacks",
        ),
        (lambda frame: frame.iloc[:0], ["--noise", 1], "and no rows"),
        (lambda frame: frame, [], "--of score and --of probability need --noise"),
        (lambda frame: frame, ["--of", "label", "--noise", 1], "--of score and --of probability need --noise"),
        (lambda frame: frame, ["--of", "smoke", "--noise", 1], "must be one of score, probability, label"),
        (lambda frame: frame, ["--of", "probability", "--noise", 1], "--of probability is for models of classes"),
    ],
)
def test_bad_logs_are_refused_in_one_sentence(
    fisherleak: Command, people: Path, queries: Path, change: Any, options: list[object], says: str
) -> None:
    change(pandas.read_csv(queries)).to_csv(queries, index=False)
    done = fisherleak("answers", people, queries, "--target", "income", *options)
    assert done.status == 2
    assert done.err.count("\n") == 1
    assert says in done.err

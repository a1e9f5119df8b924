"""The gate of fitted models, and pages that are handed out: people and groups written in two ways, scales that rows decided."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import fisherleak as fl
from fisherleak.cli import main

RNG = np.random.default_rng(3)
X = pandas.DataFrame(RNG.normal(size=(80, 2)).round(3).clip(-3, 3), columns=["a", "b"])
Y = pandas.Series((X.a - X.b + RNG.normal(size=80)).round(3).clip(-7, 7), name="cost")
MODEL = Ridge(alpha=5.0).fit(X, Y)


def test_one_person_written_in_three_ways_is_one() -> None:
    plain = pandas.Series(np.arange(80) // 4, name="who")
    ways: list[Callable[[int], Any]] = [int, float, lambda k: f"{k:03d}", str]
    mixed = pandas.Series([ways[row % 4](who) for row, who in enumerate(plain)], name="who", dtype=object)
    found = [fl.audit(MODEL, X, Y, 0.5, person=person, attacks=False).summary for person in (plain, mixed)]
    assert [each.data.people for each in found] == [20, 20]
    assert found[0].eta.examples.max == pytest.approx(found[1].eta.examples.max)
    assert found[0].membership is not None
    assert found[1].membership is not None
    assert found[0].membership.accuracy_max == pytest.approx(found[1].membership.accuracy_max)


def test_groups_that_are_written_alike_are_refused() -> None:
    group = pandas.Series([1, "1", 2, 2] * 20, name="ward", dtype=object)
    policy = {"groups": {"max_ratio": 2.0}, "require": {"group": "ward", "public": "preprocessing"}}
    with pytest.raises(fl.InvalidInputError, match="written alike"):
        fl.audit(MODEL, X, Y, 0.5, group=group, policy=policy, attacks=False)
    assert fl.audit(MODEL, X, Y, 0.5, group=group.astype(str), policy=policy, attacks=False).passed is not None


@pytest.mark.parametrize("over", ["max", "any-record"])
def test_a_board_of_a_released_file_shows_no_scale_that_rows_decided(
    over: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    X.assign(cost=Y).to_csv("t.csv", index=False)
    ends = [text for name, end in (("a", 3), ("b", 3), ("cost", 7)) for text in ("--bounds", f"{name}=-{end}:{end}")]
    limit = ["--eta", "2", "--over", over, "--l2", "3"]
    assert main(["release", "t.csv", "--target", "cost", *ends, *limit, "--out", "m.skops", "--quiet"]) == 0
    line = ["audit", "t.csv", "--released", "m.skops", "--board", "b.html", "--no-attacks", "--quiet"]
    assert main(line) == 0
    page = Path("b.html").read_text(encoding="utf-8")
    assert "σ =" not in page
    assert "for a limit of 2 on the η of every row" in page


def test_an_empty_cell_of_a_workbook(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    table = X.assign(cost=Y)
    table.loc[2, "a"] = np.nan
    table.to_excel(tmp_path / "t.xlsx", index=False)
    assert main(["audit", str(tmp_path / "t.xlsx"), "--target", "cost", "--noise", "1", "--no-attacks", "--quiet"]) == 0


def test_weights_and_penalties_that_rows_decide_are_refused() -> None:
    policy = {"membership": {"max_right": 0.99}, "require": {"public": "preprocessing"}}
    sick = Y.median() < Y
    weighted = LogisticRegression(C=0.1, class_weight="balanced", solver="newton-cholesky", tol=1e-10).fit(X, sick)
    with pytest.raises(fl.InvalidInputError, match="Fit with class_weight=None"):
        fl.audit(weighted, X, sick, 0.5, policy=policy, attacks=False)
    searched = GridSearchCV(Ridge(), {"alpha": [1.0, 5.0]}, cv=3).fit(X, Y)
    for model in (searched, RidgeCV([1.0, 5.0]).fit(X, Y)):
        with pytest.raises(fl.InvalidInputError, match="searched for its parameters"):
            fl.audit(model, X, Y, 0.5, policy=policy, attacks=False)
    assert fl.audit(MODEL, X, Y, 0.5, policy=policy, attacks=False).passed is not None  # the remedy


def _with_clipped_steps() -> Pipeline:
    """Steps of a thousandth between bins: at every row nothing moves, and the model knows the bin of each."""
    edges = np.arange(-2.0, 2.5, 0.5)
    names = [f"step{k}" for k in range(edges.size)]
    steps = ColumnTransformer(
        [*((name, MinMaxScaler(clip=True), ["a"]) for name in names), ("b", StandardScaler(), ["b"])]
    )
    steps.fit(X)
    for name, edge in zip(names, edges + 0.00025, strict=True):
        steps.named_transformers_[name].fit(pandas.DataFrame({"a": [edge - 1e-4, edge + 1e-4]}))
    return Pipeline([("steps", steps), ("ridge", Ridge(1.0).fit(steps.transform(X), Y))])


def test_a_step_that_clips_hides_no_column() -> None:
    model = _with_clipped_steps()
    rules = {"max_revealed": 0.1, "min_error": 0.1, "spread": 1.0, "kind": "number"}
    policy = {"columns": {"a": rules}, "require": {"public": "preprocessing"}}
    with pytest.raises(fl.InvalidInputError, match="a step clips some of its values"):
        fl.audit(model, X, Y, 0.01, policy=policy, public="preprocessing", attacks=False)
    columns = fl.audit(model, X, Y, 0.01, public="preprocessing", attacks=False).summary.attributes
    # nothing moves at the rows, and what a larger change would do is not known: no share of zero
    assert [column.revealed for column in columns if column.name == "a"] == [None]


def test_a_fit_with_weights_of_its_own_is_refused() -> None:
    near = np.exp(-((X.a - X.a[7]) ** 2))
    fit = fl.minimise(X.to_numpy(), Y.to_numpy(), l2=0.01, sample_weight=near.to_numpy(), intercept=True)
    with pytest.raises(fl.InvalidInputError, match=r"cannot be checked with weights"):
        fl.audit(fit, X.to_numpy(), Y.to_numpy(), 1.5, policy={"rows": {"max_eta": 50.0}}, public="nothing")


ORDERS: dict[str, Callable[[Any], Any]] = {
    "backwards": lambda rows: rows[::-1],
    "one row more": lambda rows: np.concatenate([rows[::-1], rows[:1] + 1]),
    "fewer digits": lambda rows: rows[::-1].astype(np.float32),
}


@pytest.mark.parametrize("order", ORDERS)
def test_training_rows_in_another_order_are_not_held_out(order: str) -> None:
    rows, labels = X.to_numpy(), Y.to_numpy()
    model = Ridge(1.0).fit(rows, labels)
    policy: dict[str, Any] = {"require": {"held_out": 0.2, "public": "preprocessing"}}
    policy["rows"] = {"max_eta": 1e9}
    given: dict[str, Any] = {"policy": policy, "attacks": False}
    found = fl.audit(model, rows, labels, 0.5, X_test=ORDERS[order](rows), y_test=ORDERS[order](labels), **given)
    assert not dict(found.rules.passed)["require.held_out"]
    new = np.random.default_rng(0).normal(size=(40, 3))
    honest = fl.audit(model, rows, labels, 0.5, X_test=new[:, :2], y_test=new[:, 2], **given)
    assert dict(honest.rules.passed)["require.held_out"]


def test_gaps_that_are_filled_with_any_number_are_refused() -> None:
    gaps = X.mask(np.arange(80)[:, None] % 9 == [3, 4])
    model = make_pipeline(SimpleImputer(strategy="constant", fill_value=-9999.0), Ridge(1.0)).fit(gaps, Y)
    with pytest.raises(fl.InvalidInputError, match=r"strategy='constant'.* shows? that it was missing"):
        fl.audit(model, gaps, Y, 0.5, policy={"columns": {"a": {"min_error": 0.001}}}, attacks=False)
    plain = make_pipeline(SimpleImputer(), Ridge(1.0)).fit(gaps, Y)
    policy = {"columns": {"a": {"min_error": 0.001}}, "require": {"public": "preprocessing"}}
    assert fl.audit(plain, gaps, Y, 0.5, policy=policy, attacks=False).passed


@pytest.mark.parametrize("strategy", ["constant", "mean"])
def test_values_that_an_imputer_takes_as_gaps_are_refused(strategy: str) -> None:
    """Cells that it fills have no eta, whatever it fills them with: their own value, too."""
    value = float(X.a[3])
    step = SimpleImputer(missing_values=value, strategy=strategy, fill_value=value)
    model = make_pipeline(step, Ridge(1.0)).fit(X, Y)
    with pytest.raises(fl.InvalidInputError, match="no rule covers the cells that it fills"):
        fl.audit(model, X, Y, 0.5, policy={"columns": {"a": {"max_eta": 1.0}}}, public="nothing", attacks=False)


def test_a_cell_in_what_a_solver_left_is_refused() -> None:
    """Measured is the minimum; released are the parameters as they are."""
    model = Ridge(1.0, solver="lsqr", tol=1e-10, max_iter=10_000).fit(X, Y)
    policy = {"rows": {"max_eta": 1e9}, "require": {"public": "preprocessing"}}
    assert fl.audit(model, X, Y, 0.05, policy=policy, attacks=False).passed
    model.coef_ = np.add(model.coef_, [0.004 * float(X.a.max()), 0.0])
    model.intercept_ = float(Y.mean() - X.mean() @ model.coef_)
    with pytest.raises(fl.InvalidInputError, match="noise deviations from its minimum"):
        fl.audit(model, X, Y, 0.05, policy=policy, attacks=False)


ROWS: dict[str, Any] = {"rows": {"max_eta": 1e9}, "require": {"public": "preprocessing"}}
ODD: dict[str, tuple[dict[str, Any], str]] = {
    "a column that is no text": ({"policy": ROWS | {"columns": {0: {"max_eta": 1.0}}}}, "the name 0, which is no text"),
    "a section that is no text": ({"policy": {0: {"max_eta": 1.0}}}, "the name 0, which is no text"),
    "a rule that is no text": ({"policy": {"rows": {0: 1.0}}}, "the name 0, which is no text"),
    "a path that no system has": ({"policy": "a\0b"}, "cannot be read: embedded null"),
    "a frame of groups": ({"policy": ROWS, "group": X[["a"]]}, "group must have one value for each row"),
    "texts for numbers": ({"policy": ROWS, "X_test": X[:5], "y_test": ["a"] * 5}, "y_test must hold numbers"),
    "a spread of text": ({"policy": ROWS, "spread": {"a": "wide"}}, "spread of 'a' must be a number"),
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_arguments_are_refused_in_one_sentence(odd: str) -> None:
    given, sentence = ODD[odd]
    with pytest.raises(fl.InvalidInputError, match=sentence):
        fl.audit(MODEL, X, Y, 0.5, attacks=False, **given)


@pytest.mark.parametrize("second", [False, True], ids=["alone", "beside a nearly flat way"])
def test_values_that_a_step_clips_are_refused_whatever_else_they_feed(second: bool) -> None:
    rng = np.random.default_rng(0)
    x = np.where(rng.random(120) < 0.5, 4.0, -1.0) + 0.5 * rng.normal(size=120)
    frame = pandas.DataFrame({"x": x.round(3), "z": rng.normal(size=120).round(3)})
    cost = pandas.Series((x + frame.z).round(3), name="cost")
    ways: list[Any] = [("range", MinMaxScaler(clip=True), ["x"]), ("z", "passthrough", ["z"])]
    ways += [("far", MinMaxScaler(feature_range=(0, 1e-4)), ["x"])] * second
    known = ColumnTransformer(ways).fit(pandas.DataFrame({"x": [1.0, 2.0], "z": [0.0, 1.0]}))
    model = Pipeline([("features", known), ("model", Ridge().fit(known.transform(frame), cost))])
    policy = {"columns": {"x": {"min_error": 1.0}}, "require": {"public": "preprocessing"}}
    with pytest.raises(fl.InvalidInputError, match="'x': a step clips some of its values"):
        fl.audit(model, frame, cost, fl.Gaussian(0.004), policy=policy, attacks=False)
    for clip in (True, False):  # fitted on all rows it clips none of them, and others still
        ways[0] = ("range", MinMaxScaler(clip=clip), ["x"])
        wide = ColumnTransformer(ways).fit(frame)
        model = Pipeline([("features", wide), ("model", Ridge().fit(wide.transform(frame), cost))])
        with pytest.raises(fl.InvalidInputError, match="not affine") if clip else nullcontext():
            fl.audit(model, frame, cost, fl.Gaussian(0.004), policy=policy, attacks=False)


def test_rules_are_refused_for_three_classes_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were measured and attacked, and then ended in a sentence that named nothing."""
    three = np.digitize(Y, [-1.0, 1.0])
    model = LogisticRegression(tol=1e-10, max_iter=10_000).fit(X, three)
    monkeypatch.setattr("fisherleak.auditing.fitted_models.model_audit.exposures_of", None)
    policy = {"membership": {"max_right": 0.9}, "require": {"public": "preprocessing"}}
    with pytest.raises(fl.InvalidInputError, match="a fitted model of three or more classes: rules are known for"):
        fl.audit(model, X, three, fl.Gaussian(5.0), policy=policy)


def test_a_board_says_that_nothing_is_taken_as_public_where_nothing_was_declared(tmp_path: Path) -> None:
    for public, says in (("nothing", "counted with the model"), ("preprocessing", "taken as public and not counted")):
        found = fl.audit(MODEL, X, Y, 0.5, public=public, attacks=False)
        found.board(tmp_path / f"{public}.html")
        page = " ".join((tmp_path / f"{public}.html").read_text(encoding="utf-8").split())
        assert f"What preprocessing learned from the data is {says}." in page
        assert ("preprocessing public" in " ".join(found.summary.assumptions)) == (public == "preprocessing")

"""Missing cells: what stands for them, that it is counted, and that one person's gap does not show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")

import pandas
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import fisherleak as fl
from drawn import released_pipeline
from fisherleak.auditing import Settings, audit
from fisherleak.auditing.attackers import attack_all
from fisherleak.auditing.fitted_models.under_attack import table_under_attack
from fisherleak.auditing.run import attacked_columns
from fisherleak.auditing.spotcheck import spot_check
from fisherleak.errors import InvalidInputError
from fisherleak.releasing.files.released_files import load_model, save_model
from fisherleak.tables import Choices, Room, design_of, from_frame, read_table
from fisherleak.tables.design.gaps import MISSING, Gaps, gap_name, has_feature, has_level
from fisherleak.training.pipelines import own_parameters
from fisherleak.training.trained_model import Trained, train

NUMBERS = ["age", "pressure", "dose"]
LITTLE = Room(1000)
L2 = 0.05


def visits(n: int = 90, seed: int = 0) -> Any:
    """Numbers with many gaps, one and none; a category and a truth value with some, another with one."""
    rng = np.random.default_rng(seed)
    age, pressure, dose = rng.normal(50, 12, n), rng.normal(0, 1, n), rng.exponential(2, n)
    city, sex = rng.choice(["a", "b", "c"], n).astype(object), rng.choice(["f", "m"], n).astype(object)
    smokes = rng.choice([True, False], n).astype(object)
    score = age / 12 + pressure + 2.0 * (city == "a") + rng.normal(size=n)
    age[rng.permutation(n)[: n // 4]] = np.nan
    pressure[3], sex[5] = np.nan, None
    city[rng.permutation(n)[: n // 8]], smokes[rng.permutation(n)[: n // 8]] = None, None
    columns = {"age": age, "pressure": pressure, "dose": dose, "city": city, "sex": sex, "smokes": smokes}
    return pandas.DataFrame(columns | {"score": score, "ill": np.where(score > np.median(score), "yes", "no")})


def fitted(frame: Any, target: str, **settings: Any) -> Trained:
    other = {"score": "ill", "ill": "score"}[target]
    return train(from_frame(frame), Settings(target, l2=L2, held_out=0.0, drop=(other,), **settings))


def test_rules_rest_on_five_people() -> None:
    assert [has_level(Gaps(9, k, 90)) for k in (4, 5)] == [False, True]
    assert [has_feature(Gaps(9, *pair)) for pair in ((4, 40), (5, 40), (5, 96), (40, 4))] == [False, True, False, False]
    assert gap_name("age", ["age", "age (missing)"]) == "age (missing)'"


def test_rows_are_lost_only_where_the_target_is_missing_and_all_is_said() -> None:
    frame = visits()
    frame.loc[7, "score"] = np.nan
    design = fitted(frame, "score").design
    assert design.n == 89
    assert design.dropped == (("the target 'score' is missing", 1),)
    assert {item.column: (item.count, item.kind) for item in design.filled} == {
        "age": (22, "number"),
        "pressure": (1, "number"),
        "city": (11, "level"),
        "sex": (1, "few"),
        "smokes": (11, "level"),
    }
    assert [feature.name for feature in design.features if feature.of] == ["age (missing)"]
    assert [feature.levels for feature in design.features if feature.name == "city"] == [(MISSING, "a", "b", "c")]
    told = " ".join(design.notes)
    assert all(f"'{name}' ({count} row" in told for name, count in (("age", 22), ("sex", 1), ("smokes", 11)))
    assert "`missing='drop'`" in told
    assert fitted(frame, "score", missing="drop").design.n < 60
    with pytest.raises(InvalidInputError, match="`missing` must be one of impute, drop; got 'mean'"):
        fitted(frame, "score", missing="mean")


def pipeline_by_hand(trained: Trained) -> Any:
    """Impute, scale, encode and fit, in scikit-learn alone, on the raw table."""
    design = trained.design
    numbers = {feature.name: feature.centre for feature in design.features if feature.kind == "number"}
    steps: list[Any] = [
        (name, make_pipeline(SimpleImputer(strategy="constant", fill_value=centre), StandardScaler()), [name])
        for name, centre in numbers.items()
    ]
    for feature in design.features:
        if feature.kind == "category" and feature.of is None:
            texts = FunctionTransformer(_texts, kw_args={"first": str(feature.levels[0])})
            encoder = OneHotEncoder(drop="first", categories=[np.array([str(v) for v in feature.levels], dtype=object)])
            steps.append((feature.name, make_pipeline(texts, encoder), [feature.name]))
    steps += [(f.name, MissingIndicator(features="all"), [f.of]) for f in design.features if f.of is not None]
    last = (
        LogisticRegression(C=1 / (design.n * L2), tol=1e-12, max_iter=10_000, solver="newton-cholesky")
        if design.target.classes
        else Ridge(alpha=design.n * L2)
    )
    return Pipeline([("columns", ColumnTransformer(steps, sparse_threshold=0.0)), ("model", last)])


def _texts(X: Any, first: str) -> Any:
    return np.array([[first if pandas.isna(value) else str(value)] for value in X.iloc[:, 0]], dtype=object)


@pytest.mark.parametrize("target", ["score", "ill"])
def test_the_model_is_the_pipeline_of_scikit_learn_and_predicts_raw_rows_with_gaps(target: str) -> None:
    frame = visits()
    trained = fitted(frame, target)
    released = released_pipeline(trained, fl.Gaussian(1e-10 * trained.unit), 0)
    known = pipeline_by_hand(trained).fit(frame, frame[target])
    frame.loc[0, ["dose", "smokes", "city"]] = [np.nan, None, None]  # dose has gaps in new rows only
    frame = frame.drop(index=5)  # who lacks a category that fewer than five people lack is warned about
    if target == "score":
        np.testing.assert_allclose(released.predict(frame), known.predict(frame), rtol=1e-7)
    else:
        np.testing.assert_allclose(released.decision_function(frame), known.decision_function(frame), atol=1e-5)


@pytest.mark.parametrize(("target", "public"), [("score", "nothing"), ("ill", "nothing"), ("ill", "preprocessing")])
def test_etas_are_those_of_refits_of_the_whole_procedure(target: str, public: str) -> None:
    """Numbers of rows with and without gaps are moved in the raw table, and everything is fitted again."""
    frame = visits()
    trained = fitted(frame, target, public=public)
    design = trained.design
    scales = {feature.name: feature.scale for feature in design.features}
    cells = trained.measured(design.X, design.y).cells()
    whole = np.asarray(trained.leak.per_example(NUMBERS))
    rows = [0, 3, int(np.flatnonzero(np.isnan(frame.age))[0]), int(np.argmax(np.asarray(trained.each_eta())))]
    for row in rows:
        moves = []
        for j, name in enumerate(NUMBERS):
            if np.isnan(frame.loc[row, name]):
                assert np.isnan(cells[row, j])  # none, not zero
                continue
            moved = _moved(frame, row, name, 1e-4 * scales[name], target, trained, public) / 2e-4
            assert np.linalg.norm(moved) == pytest.approx(cells[row, j], rel=2e-5)
            moves.append(moved)
        assert np.linalg.norm(np.array(moves), 2) == pytest.approx(whole[row], rel=2e-5)
    check = spot_check(trained, np.asarray(trained.leak.per_example()))
    assert check is not None
    assert check.largest_relative_error < 1e-4


def _moved(frame: Any, row: int, name: str, step: float, target: str, trained: Trained, public: str) -> Any:
    """How far the parameters of the noise's frame move, in the label's unit; where scaling is public it stays as it was."""
    ends = []
    for sign in (1.0, -1.0):
        other = frame.copy()
        other.loc[row, name] += sign * step
        if public == "nothing":
            ends.append(own_parameters(fitted(other, target)))
        else:
            ends.append(_fit_with_known_scales(other, target, trained))
    return (ends[0] - ends[1]) / trained.unit


def _fit_with_known_scales(frame: Any, target: str, trained: Trained) -> Any:
    from fisherleak.training.trained_model import spreads_in
    from refits import minimise_scaled

    X = fitted(frame, target).design.X
    return np.asarray(
        minimise_scaled(X, trained.design.y, trained.kind.loss, L2, None, True, spreads_in(trained.design)[1]).theta
    )


@pytest.mark.long
def test_parts_and_lazy_rows_give_the_same_as_rows_in_memory(tmp_path: Path) -> None:
    frame = visits(400)
    settings = Settings("ill", l2=L2, drop=("score",))
    for k in range(2):
        (tmp_path / "folder").mkdir(exist_ok=True)
        frame.iloc[200 * k : 200 * k + 200].to_parquet(tmp_path / "folder" / f"{k}.parquet", row_group_size=70)
    whole = audit(from_frame(frame), settings, noise=0.5, draws=4, attacks=False)
    lazy = audit(read_table(tmp_path / "folder"), settings, LITTLE, noise=0.5, draws=4, attacks=False)
    assert lazy.design.lazy
    assert lazy.design.filled == whole.design.filled
    np.testing.assert_allclose(np.asarray(lazy.eta), whole.eta, rtol=1e-9)
    # columns of several files come in the order of their names
    there, here = ({c.feature.name: (c.largest, c.mean) for c in audited.columns} for audited in (lazy, whole))
    assert there.keys() == here.keys()
    np.testing.assert_allclose([there[name] for name in here], list(here.values()), rtol=1e-9)


def test_one_persons_gap_shows_in_no_release(tmp_path: Path) -> None:
    """Names, levels and steps of a release are the same whether one person lacks a value or nobody does."""
    frame = visits(120).drop(columns=["age", "city", "smokes", "ill"])
    full = frame.assign(pressure=frame.pressure.fillna(0.1), sex=frame.sex.fillna("f"))
    told: list[Any] = []
    for table in (frame, full):
        path = tmp_path / f"{len(told)}.skops"
        card, _ = save_model(from_frame(table), Settings("score", held_out=0.0), path, noise=1.0)
        model = load_model(path).model
        told.append([card["columns"], card["model"]["parameters"], card["assumptions"], repr(model[0])])
    assert told[0] == told[1]


@pytest.mark.long
def test_people_and_not_rows_decide_where_rows_belong_to_people() -> None:
    frame = visits(120).drop(columns=["ill"])
    frame["who"] = np.repeat(np.arange(30), 4)
    frame["sex"] = np.where(frame.who < 2, None, frame.sex.fillna("f"))  # eight rows of two people
    frame["age"] = np.where(frame.who < 4, np.nan, frame.age.fillna(40.0))
    settings = Settings("score", held_out=0.0, person="who")
    trained = train(from_frame(frame), settings)
    assert {item.column: item.kind for item in trained.design.filled}["sex"] == "few"
    assert not any(feature.of for feature in trained.design.features)
    done = audit(from_frame(frame), settings, draws=4)
    assert all(np.isfinite(figures.largest) and np.isfinite(figures.mean) for figures in done.columns)


def test_attackers_guess_values_that_are_there(tmp_path: Path) -> None:
    trained = fitted(visits(), "ill")
    outcomes = attack_all(table_under_attack(trained), ["age", "sex"], 1.0, quick=True).outcomes
    assert {outcome.n for outcome, _ in outcomes if outcome.attribute == "age"} == {68}
    assert {outcome.n for outcome, _ in outcomes if outcome.attribute == "sex"} == {89}
    with pytest.raises(InvalidInputError, match="only says where 'age' is missing"):
        attacked_columns(trained.design, ["age (missing)"])
    with pytest.raises(InvalidInputError, match="`ledger` needs rows without missing values"):
        save_model(
            from_frame(visits()),
            Settings("ill", drop=("score",), held_out=0.0),
            tmp_path / "m.skops",
            noise=1.0,
            ledger=tmp_path / "l.json",
        )


def test_declared_pooled_and_empty_columns() -> None:
    frame = visits(120).assign(none=np.nan, zip=[f"z{k // 12}" for k in range(120)])
    frame.loc[:2, "zip"] = None
    told = Choices("score", drop=("ill",), levels=(("sex", ("f", "m", MISSING)), ("zip", ("z1", "z2", "z3"))), rare=13)
    design = design_of(from_frame(frame), told, held_out=0.0)
    levels = {feature.name: feature.levels for feature in design.features}
    assert levels["sex"] == (MISSING, "f", "m")
    assert levels["zip"][0] == "(other)"
    assert {item.column: item.kind for item in design.filled}["zip"] == "pooled"
    assert next(column for column in design.columns if column.name == "none").kind == "ignored"
    assert design.n == 120

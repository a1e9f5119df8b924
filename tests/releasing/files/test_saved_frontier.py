"""``fl.protect(…).save``: the files of ``fisherleak release``, for models whose form a model card knows."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas
import pytest
import skops.io
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

import fisherleak as fl
from fisherleak.cli import main
from fisherleak.protection.frontier.frontier import Frontier
from fisherleak.protection.frontier.frontier_candidates import with_public_penalties
from fisherleak.protection.frontier.protected import protect_arguments
from fisherleak.releasing.files.released_files import load_model

RNG = np.random.default_rng(3)
ROWS = 400
TABLE = pandas.DataFrame(
    {
        "age": RNG.integers(20, 80, ROWS).astype(float),
        "dose": np.round(RNG.uniform(0, 20, ROWS), 1),
        "site": RNG.choice(["north", "south", "west"], ROWS),
    }
)
Y = pandas.Series(
    np.clip(0.05 * TABLE.age - 0.2 * TABLE.dose + (TABLE.site == "west") + RNG.normal(size=ROWS), -9, 9), name="score"
)
BOUNDS: Any = {"age": (20.0, 80.0), "dose": (0.0, 20.0), "label": (-9.0, 9.0)}
UNBOUNDED = {name: BOUNDS[name] for name in ("dose", "label")}
NUMBERS = TABLE[["age", "dose"]]
MIXED = make_column_transformer((StandardScaler(), ["age", "dose"]), (OneHotEncoder(drop="first"), ["site"]))


def asked(estimator: Any, X: Any = NUMBERS, y: Any = Y, **options: Any) -> Frontier:
    """A frontier that looked at no candidate: what is saved does not depend on them."""
    given: Any = {
        "penalties": None,
        "weightings": None,
        "shapes": None,
        "bounds": BOUNDS,
        "public": "nothing",
    } | options
    over, people = given.pop("over", "any-record"), given.pop("person", None)
    most = given.pop("rows_per_person", None)
    asked = protect_arguments(estimator, X, y, 1.0, over, groups=people, random_state=None, **given)
    task = with_public_penalties(replace(asked, rows_per_person=most))
    return Frontier((), 0.0, None, 0, (), task, cast(Any, None))


@pytest.mark.long
def test_what_is_saved_is_verified_audited_and_predicts_without_us(tmp_path: Path) -> None:
    path = fl.protect(make_pipeline(MIXED, Ridge()), TABLE, Y, eta=1.0, bounds=BOUNDS).save(tmp_path / "m.skops")
    card = json.loads((tmp_path / "m.skops.json").read_text())
    assert [column["name"] for column in card["columns"]] == ["age", "dose", "site"]
    assert (card["target"]["name"], card["model"]["kind"]) == ("score", "linear")
    # the least unit is one, that of a category
    assert card["eta"]["limit"] == 1.0
    assert main(["verify", str(path)]) == 0
    table = tmp_path / "table.csv"
    TABLE.assign(score=Y).to_csv(table, index=False)
    assert main(["audit", str(table), "--released", str(path), "--out", str(tmp_path / "audit")]) == 0
    alone = skops.io.load(path, trusted=card["model"]["trusted_types"])
    np.testing.assert_array_equal(alone.predict(TABLE), load_model(path).model.predict(TABLE))
    assert alone.score(TABLE, Y) > 0.5 * make_pipeline(MIXED, Ridge()).fit(TABLE, Y).score(TABLE, Y)


def test_the_limit_of_the_card_is_in_units_of_the_bounds(tmp_path: Path) -> None:
    saved = asked(make_pipeline(StandardScaler(), Ridge())).save(tmp_path / "m.skops", eta=0.3)
    card = json.loads((tmp_path / "m.skops.json").read_text())
    assert saved == tmp_path / "m.skops"
    assert card["eta"]["limit"] == pytest.approx(0.3 * 18.0 / math.sqrt(12.0))
    assert {name: tuple(ends) for name, ends in card["settings"]["bounds"]} == {
        "age": (20.0, 80.0),
        "dose": (0.0, 20.0),
        "score": (-9.0, 9.0),
    }
    with pytest.raises(fl.InvalidInputError, match="exists"):
        asked(make_pipeline(StandardScaler(), Ridge())).save(tmp_path / "m.skops")


def test_a_saved_model_that_is_of_no_use_says_so_and_its_remedy_works(tmp_path: Path) -> None:
    """By one draw its score can look fine."""
    noise = pandas.Series(np.random.default_rng(0).normal(size=ROWS), name="score")
    frontier = asked(make_pipeline(StandardScaler(), Ridge()), y=noise, bounds=BOUNDS | {"label": (-4.0, 4.0)})
    with pytest.warns(
        UserWarning, match=r"on average no better than the baseline: R² −\d.*without noise R² 0\.\d+\. Use"
    ):
        frontier.save(tmp_path / "m.skops", eta=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked(make_pipeline(StandardScaler(), Ridge())).save(tmp_path / "n.skops", eta=1.0)


def with_gaps(**options: Any) -> Any:
    numbers = make_pipeline(SimpleImputer(**options), StandardScaler())
    return make_pipeline(make_column_transformer((numbers, ["age", "dose"]), (OneHotEncoder(), ["site"])), Ridge())


@pytest.mark.parametrize(
    "options",
    [{}, {"strategy": "median", "add_indicator": True}, {"strategy": "constant", "fill_value": 50.0}],
    ids=["mean", "median", "constant"],
)
def test_gaps_of_a_saved_model_get_the_centre_of_the_bounds(tmp_path: Path, options: Any) -> None:
    gaps = TABLE.assign(dose=TABLE.dose.where(np.arange(ROWS) % 7 > 0))
    bounds = BOUNDS | {"dose": (0.0, 100.0)}
    with pytest.warns(
        UserWarning, match="Missing values of 'dose' are filled with the centre of the bounds, which is far"
    ):
        path = asked(with_gaps(**options), gaps, bounds=bounds).save(tmp_path / "m.skops")
    card = json.loads((tmp_path / "m.skops.json").read_text())
    assert [column["name"] for column in card["columns"]] == ["age", "dose", "site", "dose (missing)"]
    alone = skops.io.load(path, trusted=card["model"]["trusted_types"])
    np.testing.assert_array_equal(alone[0].named_transformers_["numbers"].statistics_, [50.0, 50.0])
    assert np.isfinite(alone.predict(gaps)).all()
    assert main(["verify", str(path)]) == 0


def test_a_value_that_no_card_knows_is_refused_and_its_remedy_works(tmp_path: Path) -> None:
    gaps = TABLE.assign(dose=TABLE.dose.where(np.arange(ROWS) % 7 > 0))
    with pytest.raises(
        fl.UnsupportedModelError, match=r"gaps of column 'age' with 20, .*bounds, 50. Use SimpleImputer\(\)"
    ):
        asked(with_gaps(strategy="constant", fill_value=20.0), gaps).save(tmp_path / "m.skops")
    assert asked(with_gaps(), gaps).save(tmp_path / "m.skops").exists()


def test_all_rows_of_a_person_are_limited_by_what_is_saved(tmp_path: Path) -> None:
    model = make_pipeline(StandardScaler(), Ridge())
    asked(model, person=np.arange(ROWS) // 2, rows_per_person=2).save(tmp_path / "m.skops", eta=5.0)
    asked(model).save(tmp_path / "one.skops", eta=5.0)
    card, one = (json.loads((tmp_path / name).read_text()) for name in ("m.skops.json", "one.skops.json"))
    assert card["noise"]["calibrated"]["rows_per_person"] == 2
    # the rule may take another penalty or covariance for people: beside the same ones noise is larger
    rule = [(each["settings"]["l2"], each["shape"]["name"]) for each in (card, one)]
    assert card["noise"]["scale"] > 1.5 * one["noise"]["scale"] or rule[0] != rule[1]
    table = tmp_path / "t.csv"
    TABLE.assign(score=Y, person=np.arange(ROWS) // 2).to_csv(table, index=False)
    audited = ["audit", str(table), "--released", str(tmp_path / "m.skops"), "--no-attacks", "--max-eta"]
    limit = card["eta"]["limit"]
    assert main([*audited, f"{limit:.9g}"]) == 0
    assert main(["verify", str(tmp_path / "m.skops")]) == 0
    # people that were given with a name are looked for under it
    whose = pandas.Series(np.arange(ROWS) // 2, name="patient_id")
    asked(model, person=whose, rows_per_person=2).save(tmp_path / "n.skops", eta=5.0)
    TABLE.assign(score=Y, patient_id=whose).to_csv(table, index=False)
    assert main(["audit", str(table), "--released", str(tmp_path / "n.skops"), "--no-attacks"]) == 0


@pytest.mark.parametrize(
    ("estimator", "options", "says"),
    [
        (Ridge(), {}, "A model without a StandardScaler before it cannot be on a model card yet"),
        (make_pipeline(MinMaxScaler(), Ridge()), {}, r"The step MinMaxScaler\(\) cannot be on a model card yet"),
        (
            make_pipeline(StandardScaler(), RidgeClassifier()),
            {"y": Y > 0},
            "RidgeClassifier cannot be on a model card yet",
        ),
        (
            make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced")),
            {"y": Y > 0, "bounds": {name: BOUNDS[name] for name in ("age", "dose")}},
            "LogisticRegression with class_weight='balanced' cannot be on a model card yet",
        ),
        (make_pipeline(StandardScaler(), Ridge()), {"bounds": UNBOUNDED}, "bounds of 'age' are not declared"),
        (
            make_pipeline(StandardScaler(), Ridge()),
            {"penalties": [1.0]},
            "save needs counted preprocessing",
        ),
        (make_pipeline(StandardScaler(), Ridge()), {"y": Y.rename("age")}, "y has the name 'age'"),
    ],
)
def test_what_cannot_be_on_a_card_is_refused_by_name(
    tmp_path: Path, estimator: Any, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(fl.FisherleakError, match=says):
        asked(estimator, **options).save(tmp_path / "m.skops")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "rule", [{"min_frequency": 0.4}, {"max_categories": 2}, {"min_frequency": 5, "max_categories": 2}], ids=str
)
def test_a_pool_by_a_share_or_a_number_of_categories_is_refused(tmp_path: Path, rule: dict[str, Any]) -> None:
    """Both were left out in silence: the file named categories that the pipeline pools, with their coefficients."""
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", **rule)
    columns = make_column_transformer((StandardScaler(), ["age", "dose"]), (encoder, ["site"]))
    with pytest.raises(fl.UnsupportedModelError, match=f"OneHotEncoder with {next(reversed(rule))}=.* on a model card"):
        asked(make_pipeline(columns, Ridge()), TABLE).save(tmp_path / "m.skops")
    assert not list(tmp_path.iterdir())


def test_a_pool_of_declared_categories_is_refused(tmp_path: Path) -> None:
    """The file named every declared category, with a coefficient of each, where the pipeline has one for the pooled ones."""
    sites = sorted(set(TABLE["site"]))
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5, categories=[sites])
    columns = make_column_transformer((StandardScaler(), ["age", "dose"]), (encoder, ["site"]))
    with pytest.raises(fl.UnsupportedModelError, match="min_frequency=5 and categories that are declared"):
        asked(make_pipeline(columns, Ridge()), TABLE).save(tmp_path / "m.skops")
    assert not list(tmp_path.iterdir())

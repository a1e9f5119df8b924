"""Shapes of a release's noise: from public rows, or from the table's own, which no file holds and an audit computes again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("skops")

import pandas

import fisherleak as fl
from fisherleak.auditing.confirmations import confirm
from fisherleak.auditing.exposure.columns import Sample, largest_of_columns
from fisherleak.auditing.records import Plan
from fisherleak.auditing.run import audit_trained
from fisherleak.errors import DataError
from fisherleak.protection.calibrate.limit_terms import raw_map
from fisherleak.releasing.any_record_noise import AnyRecordLimit, public_numbers
from fisherleak.releasing.cards.signatures import card_path, card_text
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.releasing.shaping import own_rows_shape, public_rows_shape
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings, train
from often import often

SETTINGS = Settings("income", l2=0.1, held_out=0.0, rare=5)
BOUNDS = {"age": (0.0, 100.0), "height": (100.0, 240.0), "income": (0.0, 90.0)}


def people(n: int = 1500, seed: int = 0, stretch: float = 1.0) -> pandas.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n).astype(float)
    city = rng.choice(["Bonn", "Genua", "Porto"], n, p=[0.9, 0.06, 0.04])
    income = 20.0 + 0.3 * age + 5.0 * (city == "Bonn") + rng.normal(0.0, 4.0, n)
    height = 170.0 + stretch * (rng.normal(0.0, 4.0, n) + 0.2 * (age - 54.0))
    return pandas.DataFrame({"age": age, "height": height, "city": city, "income": income})


TABLE = people()


def again(path: Path, table: pandas.DataFrame = TABLE) -> Any:
    saved = load_model(path)
    trained = retrain(saved, from_frame(table))
    plan = Plan(noise=saved.noise_on(trained), attacks=False, draws=4)
    return saved, confirm(saved, audit_trained(trained, saved.settings, plan))


def saved_with(path: Path, **options: Any) -> tuple[Any, Any]:
    return save_model(from_frame(TABLE), SETTINGS, path, eta=0.5, random_state=0, **options)


@pytest.mark.long
def test_the_shape_of_the_hessian_costs_less_and_is_confirmed(tmp_path: Path) -> None:
    _, plain = saved_with(tmp_path / "plain.skops", bounds=BOUNDS, shape="isotropic")
    card, cost = saved_with(tmp_path / "m.skops", bounds=BOUNDS, shape="hessian")
    assert plain.points[0].utility < cost.points[0].utility < cost.without_noise
    assert card["shape"] == {"name": "hessian", "from": None}
    assert card["noise"]["shape"] == "hessian"
    assert any("counted: the limit is on both together" in sentence for sentence in card["assumptions"])
    saved, found = again(tmp_path / "m.skops")
    assert found.failed is None
    assert any("follows for any record within the model card's bounds" in sentence for sentence in found.confirmed)
    written = card_path(tmp_path / "m.skops").read_text(encoding="utf-8")
    for value in own_rows_shape(train(from_frame(TABLE), SETTINGS), "hessian").ravel():
        assert repr(float(value)) not in written
    with pytest.raises(fl.InvalidInputError, match="the record does not contain it"):
        _ = saved.noise


def test_a_card_whose_limit_or_shape_was_changed_fails(tmp_path: Path) -> None:
    path = tmp_path / "m.skops"
    saved_with(path, shape="hessian")
    card = json.loads(card_path(path).read_text(encoding="utf-8"))
    for name, says in (("least-loss", "under 'shape.name'"), ("round", "under 'noise.shape'")):
        card["noise"]["shape"] = name
        card_path(path).write_bytes(card_text(card))
        with pytest.raises(DataError, match=says):
            load_model(path)


@pytest.mark.parametrize("shape", often(["hessian", "least-loss", None]))
@pytest.mark.parametrize("over", often(["any-record", "max"]))
def test_shapes_from_public_rows_are_on_the_card_and_confirmed(tmp_path: Path, shape: Any, over: str) -> None:
    path, public = tmp_path / "m.skops", from_frame(people(900, 5))
    bounds = BOUNDS if over == "any-record" else None
    card, _ = saved_with(path, over=over, bounds=bounds, shape=shape, shape_from=public)
    assert card["shape"] == {"name": shape or "hessian", "from": public.source}
    assert np.asarray(card["noise"]["shape"]).shape == (5, 5)
    assert any("taken as public" in sentence for sentence in card["assumptions"])
    saved, found = again(path)
    assert found.failed is None
    np.testing.assert_array_equal(saved.noise.shape, saved.noise_on(train(from_frame(TABLE), SETTINGS)).shape)


@pytest.mark.parametrize("shape", ["hessian", "least-loss"])
def test_shapes_of_rows_that_decide_are_named_as_not_counted(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "m.skops"
    card, _ = saved_with(path, over="max", shape=shape)
    assert card["noise"]["shape"] == shape
    assert any("by itself is not counted" in sentence for sentence in card["assumptions"])
    _, found = again(path)
    assert found.failed is None


def test_a_shape_from_rows_in_other_units_is_that_of_raw_parameters() -> None:
    trained = train(from_frame(TABLE), SETTINGS)
    public = people(900, 5, stretch=7.0)
    there = train(from_frame(public), SETTINGS)
    assert there.design.features[1].scale != trained.design.features[1].scale
    found = public_rows_shape(trained, SETTINGS, from_frame(public), "hessian")

    def raw(design: Any, S: Any) -> Any:
        A = np.eye(5)
        for k, feature in enumerate(design.features[:2]):
            A[k, k], A[4, k] = feature.scale, feature.centre
        back = np.linalg.inv(A)
        return back @ S @ back.T

    U = raw_map(there.fit)
    ratio = raw(trained.design, found) / raw(there.design, U @ U.T)
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-8)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shape": "round"}, "`shape` must be one of least-loss, isotropic, hessian; got 'round'"),
        ({"shape": "hessian", "eta": None, "noise": 1.0}, "`shape` goes with a limit `eta`"),
        ({"shape": "isotropic", "shape_from": TABLE}, "`shape_from` names public rows"),
        ({"shape": "least-loss", "eta": 1e-3}, "cannot be certified with `shape='least-loss'`"),
        ({"shape_from": TABLE.drop(columns="age")}, "has no column 'age'"),
        (
            {"shape_from": TABLE},
            "`shape_from` must come from public rows, and most of these are rows of the table itself",
        ),
        ({"shape_from": TABLE.sample(800, random_state=0)}, "most of these are rows of the table itself"),
        (
            {"shape_from": TABLE.replace({"city": {"Porto": "Trier"}})},
            "has the category 'Trier' in column 'city', which the table lacks",
        ),
    ],
)
def test_refusals(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    given = {"eta": 0.5} | options
    if "shape_from" in given:
        given["shape_from"] = from_frame(given["shape_from"])
    with pytest.raises(fl.InvalidInputError, match=says):
        save_model(from_frame(TABLE), SETTINGS, tmp_path / "m.skops", **given)
    assert not list(tmp_path.iterdir())


RICH, OTHERS = (
    table.assign(rich=np.where(table.income > 40, "yes", "no")).drop(columns="income")
    for table in (TABLE, people(700, 1))
)
CLASSES = Settings("rich", l2=0.1, held_out=0.0, rare=5)


@pytest.mark.parametrize("public", often([True, False]))
def test_classifiers_take_their_shape_from_public_rows_or_their_own(public: bool, tmp_path: Path) -> None:
    options: Any = {"eta": 0.5, "bounds": {"age": (10.0, 100.0), "height": (130.0, 210.0)}, "random_state": 0}
    given = {"shape_from": from_frame(OTHERS)} if public else {"shape": "hessian"}
    card, _ = save_model(from_frame(RICH), CLASSES, tmp_path / "m.skops", **options, **given)
    assert card["shape"]["name"] == "hessian"
    assert isinstance(card["noise"]["shape"], list if public else str)
    assert again(tmp_path / "m.skops", RICH)[1].failed is None


@pytest.mark.long
def test_the_default_shape_follows_from_what_a_card_tells_anyway(tmp_path: Path) -> None:
    """Rows for each parameter, about: no value of the table decides it. A ledger takes the same noise on all."""
    names = []
    for ledger in (None, tmp_path / "ledger.json"):
        card, _ = saved_with(tmp_path / "m.skops", ledger=ledger, overwrite=True)
        names.append(card["shape"]["name"])
    assert names == ["least-loss", "isotropic"]
    trained = train(from_frame(people(1500)), SETTINGS)
    for limit, shape in ((5.0, "least-loss"), (0.1, "isotropic")):
        numbers = replace(public_numbers(trained, AnyRecordLimit(limit, bounds=BOUNDS)), rows=100)
        assert numbers.shape(trained.l2).shape == shape


@pytest.mark.long
def test_levels_that_the_table_pools_are_pooled_in_public_rows(tmp_path: Path) -> None:
    table = TABLE.copy()
    table.loc[:5, "city"] = ["Trier", "Ulm", "Worms"] * 2
    for public in (people(900, 5), people(900, 5).replace({"city": {"Porto": "Xanten"}})):
        path = tmp_path / "m.skops"
        options: Any = {"eta": 0.5, "bounds": BOUNDS, "shape_from": from_frame(public), "overwrite": True}
        card, _ = save_model(from_frame(table), SETTINGS, path, **options)
        assert np.asarray(card["noise"]["shape"]).shape == (6, 6)
        assert again(path, table)[1].failed is None


def test_what_a_shape_tells_is_counted_in_tables_that_are_walked_over_too(tmp_path: Path) -> None:
    path = tmp_path / "m.skops"
    saved_with(path, bounds=BOUNDS, shape="hessian")
    saved = load_model(path)
    plain = retrain(saved, from_frame(TABLE))
    trained = plain.with_noise(saved.noise_on(plain))
    everyone, few = np.arange(trained.design.n), np.arange(9)
    whole, some = Sample(everyone, trained.take(None)), Sample(few, trained.take(few))
    np.testing.assert_allclose(
        largest_of_columns(trained, some, None)[1], largest_of_columns(trained, whole, None)[1], rtol=1e-12
    )

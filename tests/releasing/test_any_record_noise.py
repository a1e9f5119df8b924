"""Releases are calibrated to whoever could be in the table: bounds in the columns' own units, a scale that no row decides.

What one row can change beside the noise: the kind of model, levels, and columns that are left out.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import fisherleak as fl
from fisherleak.auditing.confirmations import confirm
from fisherleak.auditing.records import Plan
from fisherleak.auditing.run import audit_trained
from fisherleak.protection.certificates.worst_record import NoUsefulBoundError
from fisherleak.releasing import any_record_noise as admitted
from fisherleak.releasing.any_record_noise import (
    AnyRecordLimit,
    _feature_settled,
    admitted_noise,
    kind_settled,
    least_admitted,
    public_numbers,
)
from fisherleak.releasing.cards.signatures import card_path
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.tables import Design, from_frame
from fisherleak.training.trained_model import Settings, calibrated_scale, train, trained_on
from fisherleak.training.utility import tradeoff

pytest.importorskip("pandas")
pytest.importorskip("skops")


SETTINGS = Settings("income", l2=0.1, held_out=0.0, rare=5)


def people(n: int = 1500, seed: int = 0) -> pandas.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n).astype(float)
    city = rng.choice(["Bonn", "Genua", "Porto"], n)
    income = 20.0 + 0.3 * age + 5.0 * (city == "Bonn") + rng.normal(0.0, 4.0, n)
    return pandas.DataFrame({"age": age, "height": rng.normal(170.0, 9.0, n), "city": city, "income": income})


@pytest.fixture(scope="module")
def table() -> pandas.DataFrame:
    return people()


def with_row(table: pandas.DataFrame, row: int, **values: Any) -> pandas.DataFrame:
    changed = table.copy()
    for name, value in values.items():
        changed.loc[row, name] = value
    return changed


def test_whoever_could_be_there_is_below_the_limit(table: pandas.DataFrame) -> None:
    trained = train(from_frame(table), SETTINGS)
    bounds = {"age": (0.0, 120.0), "height": (100.0, 240.0), "income": (0.0, 100.0)}
    noise = admitted_noise(trained, SETTINGS, AnyRecordLimit(0.5, bounds=bounds), 0)
    assert noise.scale > calibrated_scale(trained, 0.5)
    for values in (
        {"age": 120.0, "height": 240.0, "city": "Porto", "income": 0.0},
        {"age": 0.0, "height": 100.0, "city": "Bonn", "income": 100.0},
        {"age": 120.0, "height": 100.0, "city": "Genua", "income": 100.0},
    ):
        other = train(from_frame(with_row(table, 7, **values)), SETTINGS)
        eta = np.asarray(other.leak.with_noise(fl.Gaussian(noise.scale / other.unit)).per_example())
        # the units of rows are public ones, and may be others in the other table
        assert other.unit == trained.unit
        assert eta[7] <= 0.5


def test_a_small_change_does_not_show_in_the_scale(table: pandas.DataFrame) -> None:
    found = {
        admitted_noise(train(from_frame(changed), SETTINGS), SETTINGS, AnyRecordLimit(0.5), 3).scale
        for changed in (table, with_row(table, 3, age=table.age[3] + 1e-3), with_row(table, 9, height=171.2345))
    }
    assert len(found) == 1


@pytest.mark.parametrize(("from_edge", "settled"), [(1e-5, False), (0.05, True)])
def test_one_row_that_moves_a_public_scale_is_in_the_probability(from_edge: float, settled: bool) -> None:
    """Just below an edge of its grid a standard deviation passes it with one row replaced, and with it all of the noise."""
    rng = np.random.default_rng(5)
    x, z = np.clip(rng.normal(size=(2, 4000)), -3, 3)
    x = (x - x.mean()) / x.std() * 2.0 ** (2.5 / 4) * (1 - from_edge)
    x[0] = 0.0
    table = pandas.DataFrame({"x": x, "z": z, "y": np.clip(0.5 * x + z + rng.normal(size=4000), -6, 6)})
    settings = Settings("y", l2=0.1, held_out=0.0, rare=5)
    bounds = {"x": (-7.0, 7.0), "z": (-3.5, 3.5), "y": (-7.0, 7.0)}
    own, other = (train(from_frame(each), settings) for each in (table, with_row(table, 0, x=7.0)))
    scales = [{f.name: f.scale for f in each.design.features}["x"] for each in (own, other)]
    assert (scales[0] == scales[1]) == settled
    _, told = least_admitted(own, settings, AnyRecordLimit(0.5, bounds=bounds))
    assert (told["probability"] < 1.0) == settled
    # a card claims nothing of it, since it follows from all rows
    released: Any = admitted_noise(own, settings, AnyRecordLimit(0.5, bounds=bounds), 0)
    assert released.calibrated.probability == 1.0


def test_a_limit_on_columns_is_in_their_units(table: pandas.DataFrame) -> None:
    trained = train(from_frame(table), SETTINGS)
    one = admitted_noise(trained, SETTINGS, AnyRecordLimit(0.01, ["age"]), 0)
    both = admitted_noise(trained, SETTINGS, AnyRecordLimit(0.01, ["age", "height"]), 0)
    assert both.scale >= one.scale > calibrated_scale(trained, 0.01, "age")


@pytest.mark.long
def test_the_card_lists_bounds_in_the_columns_units(table: pandas.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "m.skops"
    options: Any = {"eta": 0.5, "bounds": {"age": (0.0, 120.0)}, "shape": "isotropic", "random_state": 0}
    card, _ = save_model(from_frame(table), SETTINGS, path, **options)
    told = card["noise"]["calibrated"]
    assert json.loads(card_path(path).read_text(encoding="utf-8"))["noise"]["calibrated"] == told
    assert (told["over"], told["eta"]) == ("admissible", 0.5)
    assert told["bounds"]["age"] == {
        "low": pytest.approx(0.0, abs=1e-9),
        "high": pytest.approx(120.0),
        "from": "declared",
    }
    height = told["bounds"]["height"]
    assert height["from"] == "rows"
    assert height["low"] <= table.height.min() < table.height.max() <= height["high"]
    assert told["bounds"]["city"] == {"levels": ["Bonn", "Genua", "Porto"], "from": "rows"}
    assert set(told["bounds"]) == {"age", "height", "city", "income"}
    assert 0.0 < told["probability"] <= 1.0
    claimed = next(each for each in card["assumptions"] if "random offset" in each)
    assert ("with a probability of at most" in claimed) == (told["probability"] < 1.0)
    assert "confidential" not in json.dumps(card)
    saved = load_model(path)
    again = retrain(saved, from_frame(table))
    found = confirm(saved, audit_trained(again, saved.settings, Plan(noise=saved.noise, attacks=False, draws=4)))
    assert found.failed is None
    assert any("follows for any record within the model card's bounds" in sentence for sentence in found.confirmed)
    stretched = replace(saved, card={**saved.card, "eta": {**saved.card["eta"], "limit": 0.4}})
    failed = confirm(
        stretched, audit_trained(again, saved.settings, Plan(noise=saved.noise, attacks=False, draws=4))
    ).failed
    assert failed is not None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"bounds": {"nobody": (0.0, 1.0)}}, "`bounds` name 'nobody', which is no column"),
        ({"bounds": {"city": (0.0, 1.0)}}, "'city' is a category: use `levels`"),
        ({"bounds": {"age": (20.0, 60.0)}}, r"Column 'age' has values outside the bounds \(20, 60\)"),
        ({"over": "mean"}, "over must be one of any-record, max; got 'mean'"),
        ({"bounds": {"age": (0.0, math.nan)}}, r"`bounds` of 'age' must be two finite numbers"),
        ({"bounds": {"age": (-1e308, 1e308)}}, r"`bounds` of 'age' must be .* with a finite difference"),
        ({"bounds": {"age": (0, 10**400)}}, r"`bounds` of 'age' must be two finite numbers"),
    ],
)
def test_bad_bounds_are_one_sentence(
    table: pandas.DataFrame, tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(fl.InvalidInputError, match=says):
        save_model(from_frame(table), SETTINGS, tmp_path / "m.skops", eta=0.5, **options)
    assert not list(tmp_path.iterdir())


def test_a_table_without_a_useful_bound_is_refused_and_the_rows_present_can_be_limited(tmp_path: Path) -> None:
    small, path = people(30), tmp_path / "m.skops"
    settings = Settings("income", l2=1e-6, held_out=0.0)
    with pytest.raises(fl.InvalidInputError, match="`over='max'`"):
        save_model(from_frame(small), settings, path, eta=0.5)
    card, _ = save_model(from_frame(small), settings, path, eta=0.5, over="max")
    assert card["noise"]["calibrated"] == {"over": "max", "eta": 0.5}
    assert any("it reveals a little about the" in sentence for sentence in card["assumptions"])


BOUNDS = {"age": (0.0, 120.0), "height": (100.0, 240.0), "income": (0.0, 100.0)}


@pytest.mark.long
def test_a_penalty_that_is_not_given_is_made_of_numbers_of_the_card(table: pandas.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "m.skops"
    save_model(from_frame(table), SETTINGS, path, eta=0.1, bounds=BOUNDS, choose_l2=True, random_state=0)
    card = json.loads(card_path(path).read_text(encoding="utf-8"))
    longest = 1.0 + 2 * 36.0 + 1.0  # the intercept, two numbers whose bounds are six deviations away, and a category
    wanted = (card["model"]["parameters"] * longest) ** 0.5 / (card["data"]["rows"] * card["eta"]["limit"])
    first = float(f"{wanted:.1e}")
    assert 0.05 < first < 1.0
    assert card["settings"]["l2"] in (first, float(f"{3 * first:.1e}"), float(f"{9 * first:.1e}"))
    (told,) = (sentence for sentence in card["assumptions"] if "No penalty was given" in sentence)
    assert f"l2 = {card['settings']['l2']:g}," in told
    again = retrain(load_model(path), from_frame(table))
    assert again.l2 == again.fit.l2 == card["settings"]["l2"]


def test_rows_with_the_same_columns_have_the_same_penalty(table: pandas.DataFrame) -> None:
    rng = np.random.default_rng(1)
    shuffled = pandas.DataFrame({name: rng.permutation(table[name]) for name in table})
    found = {
        public_numbers(train(from_frame(each), SETTINGS), AnyRecordLimit(0.1, bounds=BOUNDS)).penalty()
        for each in (table, shuffled)
    }
    assert len(found) == 1


@pytest.mark.long
def test_a_given_penalty_and_other_limits_are_left_alone(table: pandas.DataFrame, tmp_path: Path) -> None:
    ways: list[dict[str, Any]] = [
        {"eta": 0.1, "bounds": BOUNDS},
        {"eta": 0.1, "over": "max", "choose_l2": True},
        {"eta": 0.1, "attribute": "age", "bounds": BOUNDS, "choose_l2": True},
        {"noise": 1.0, "choose_l2": True},
    ]
    for way in ways:
        card, _ = save_model(from_frame(table), SETTINGS, tmp_path / "m.skops", overwrite=True, random_state=0, **way)
        assert card["settings"]["l2"] == SETTINGS.l2
        assert not any("No penalty" in sentence for sentence in card["assumptions"])


@pytest.mark.long
def test_adult_is_released_by_default_within_three_tenths_of_a_point(data_folder: Path, tmp_path: Path) -> None:
    data = fl.datasets.load_adult(data_home=data_folder)
    table = data.X.assign(income=np.where(data.y == 1, ">50K", "<=50K"))
    settings = Settings("income", held_out=0.0)
    card, cost = save_model(from_frame(table), settings, tmp_path / "m.skops", eta=0.5, choose_l2=True, random_state=0)
    assert card["shape"]["name"] == "hessian"
    assert 0.01 < card["settings"]["l2"] < 0.02
    right = cost.led_by("accuracy")
    assert right.points[0].utility > right.without_noise - 0.003 > right.constant + 0.07


def test_models_of_many_parameters_are_told_that_nothing_larger_is_left_to_try(
    table: pandas.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admitted, "MOST_TRIED", 1)
    for l2, said in ((10.0, "No `l2` up to 10 is enough"), (0.1, "No larger `l2` is tried beyond 1 parameters")):
        trained = train(from_frame(table), replace(SETTINGS, l2=l2))
        assert said in admitted._enough(trained, AnyRecordLimit(0.5))


def test_a_refusal_names_columns_without_which_a_bound_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitted, "MOST_TRIED", 1)
    rng = np.random.default_rng(5)
    x = rng.normal(size=(160, 2))
    scores = x @ np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]) + rng.gumbel(size=(160, 3))
    kinds = pandas.DataFrame(
        {"age": x[:, 0], "dose": x[:, 1], "kind": np.array(["a", "b", "c"])[scores.argmax(axis=1)]}
    )
    settings = Settings("kind", l2=0.5, held_out=0.0)
    bounds = {"age": (-4.0, 4.0), "dose": (-50.0, 50.0)}
    trained = train(from_frame(kinds), settings)
    told = (
        r"Column 'dose' reaches farthest: leave it out with `drop`\. No larger .*; with `over='max'` keep `l2=0\.5`\.$"
    )
    with pytest.raises(NoUsefulBoundError, match=told):
        admitted_noise(trained, settings, AnyRecordLimit(0.5, bounds=bounds), 0)
    without = replace(settings, drop=("dose",))
    limit = AnyRecordLimit(0.5, bounds={"age": (-4.0, 4.0)})
    noise = admitted_noise(train(from_frame(kinds), without), without, limit, 0)
    assert noise.scale > 0
    assert admitted._far_columns(trained, {"age": (-4.0, 4.0), "dose": (-4.0, 4.0)}) == ""
    both = admitted._far_columns(trained, {"age": (-60.0, 60.0), "dose": (-50.0, 50.0)})
    assert both == "Columns 'age' and 'dose' reach farthest: leave these out with `drop`."


@pytest.mark.long
def test_warfarin_patients_keep_most_of_their_model_at_a_limit_of_one(data_folder: Path) -> None:
    """Bounds declared, penalty and shape by public numbers; means over draws and grids, of the split of six that costs most."""
    table = pandas.read_csv(data_folder / "iwpc" / "iwpc-scaled.csv")
    bounds = {"age": (-4.0, 3.0), "height": (-5.0, 4.0), "weight": (-3.0, 8.0), "dose": (-3.0, 9.0)}
    own: Any = {"categories": ("cyp2c9",), "rare": 5, "bounds": tuple(bounds.items())}
    settings = Settings("dose", held_out=0.25, seed=4, **own)
    first = train(from_frame(table), settings)
    limit = AnyRecordLimit(1.0, bounds=bounds)
    l2 = public_numbers(first, limit).penalty().l2
    trained = trained_on(first.kind, first.design, l2, None, first.public)
    shape = public_numbers(trained, limit).shape(l2).shape
    assert shape == "least-loss"
    found = []
    for offset in range(4):
        noise = admitted_noise(trained, settings, replace(limit, shape=shape), offset)
        cost = tradeoff(trained.with_noise(noise), [noise.scale], 200, offset)
        assert cost.held_out
        found.append(cost.points[0].utility)
    assert np.mean(found) > 0.43
    assert cost.without_noise - np.mean(found) < 0.012


pytest.importorskip("pandas")

ROWS = 300


def design(settings: Settings, **columns: Any) -> Design:
    z = np.random.default_rng(0).uniform(-1, 1, size=ROWS)
    frame = pandas.DataFrame({"a": z.round(3), **columns})
    return train(from_frame(frame), settings).design


def labels(*counts: int, first: float = 1.0, odd: tuple[float, ...] = ()) -> Any:
    """Whole numbers from the first, each in so many rows, the rest in the last; some rows with other values."""
    values = [first + k for k, count in enumerate(counts) for _ in range(count)]
    return np.array([*odd, *values, *[first + len(counts)] * ROWS])[:ROWS]


@pytest.mark.parametrize(
    ("y", "settled"),
    [
        (labels(60, 60, 60, 60), True),  # codes of five classes
        (labels(60, 60, 60, 5), False),  # one row less of the fourth, and they are numbers
        (labels(60, 60, 60, 60, odd=(2.5,)), False),  # one row less, and they are codes
        (labels(60, 60, 60, 60, odd=(2.5, 2.5)), True),
        (labels(60, 60, 60, 4), False),  # one row more of the fourth
        (labels(60, 2, 60, 2), True),
        (labels(150, first=0.0), True),  # yes or no
        (labels(150, first=0.0, odd=(7.0,)), False),
        (labels(60, 60, 60, odd=(20.0,)), False),  # one row less
        (np.resize([0.0, 2.0, 4.0], ROWS), True),  # no row makes a run of them
        (np.resize([-1.0, 0.0, 1.0], ROWS), True),
        (np.linspace(0.0, 5.0, ROWS), True),
        (np.resize(["yes", "no"], ROWS), True),
    ],
)
def test_the_kind_of_model(y: Any, settled: bool) -> None:
    assert kind_settled(design(Settings("y", held_out=0.0), y=y)) == settled


def test_a_kind_that_was_given_stays() -> None:
    y = labels(60, 60, 60, 60, odd=(2.5,))
    assert kind_settled(design(Settings("y", model="linear", held_out=0.0), y=y))


@pytest.mark.parametrize(("few", "settled"), [(0, True), (3, False), (4, False), (5, False), (6, True)])
def test_levels_and_columns_that_few_rows_decide(few: int, settled: bool) -> None:
    level = np.array(["A"] * few + ["B", "C"] * ROWS)[:ROWS]
    flag = np.array([1] * few + [0] * ROWS)[:ROWS]
    y = np.random.default_rng(1).normal(size=ROWS)
    settings = Settings("y", held_out=0.0, rare=5)
    for column in ({"t": level}, {"f": flag}):
        made = design(settings, **column, y=y)
        assert (
            not made.thin and all(_feature_settled(made, settings, feature) for feature in made.features)
        ) == settled

"""Units, scales, centres and bounds on cards: those that a limit is in, and no other digits where other fields decide them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("skops")

from attacks_on_us.test_cards_and_ledgers import card_of
from attacks_on_us.test_hidden_in_files import audited, mended
from copies import copied_release
from fisherleak._support.grids import units_within
from fisherleak.leakage.measurement import measurement
from fisherleak.releasing.cards.card_fields import FROM_BOUNDS, FROM_ROWS
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.releasing.files.verification import verify
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings

pytestmark = pytest.mark.usefixtures("quick_audits")
Json = dict[str, Any]
COLUMNS = (("age", (0.0, 110.0)), ("bmi", (5.0, 50.0)))
RANGES = {"gamma": (0.0005, 0.1), "poisson": (0.0, 30.0), "linear": (0.0, 30.0)}
ROWS = 300
BEFORE = "an earlier version wrote 1"


def table(kind: str) -> Any:
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame({"age": rng.integers(20, 90, ROWS) + 0.0, "bmi": rng.normal(25, 4, ROWS).round(1)})
    mean = np.exp(0.01 * frame["age"])
    if kind == "gamma":
        frame["y"] = (mean * rng.gamma(9, 1 / 9, ROWS) * 0.004).round(6)
    else:
        frame["y"] = np.minimum(rng.poisson(1.6 * mean), 9) + 0.0
        frame.loc[[5, 6], "y"] = [15.0, 17.0]
    return frame


def settings(kind: str, declared: bool) -> Settings:
    bounds = (*COLUMNS, ("y", RANGES[kind])) if declared else COLUMNS
    return Settings("y", kind, l2=5.0, held_out=0.0, bounds=bounds)


@pytest.fixture(scope="module", params=[(kind, declared) for kind in RANGES for declared in (True, False)])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, bool]:
    kind, declared = request.param
    path = tmp_path_factory.mktemp("unit") / "m.skops"
    save_model(from_frame(table(kind)), settings(kind, declared), path, eta=1.0, over="max", random_state=0)
    return path, kind, declared


@pytest.fixture
def release(made: tuple[Path, str, bool], tmp_path: Path) -> Path:
    return copied_release(made[0], tmp_path)


def test_the_unit_of_the_target_is_that_of_the_limit(release: Path, made: tuple[Path, str, bool]) -> None:
    """Of counts and amounts the card said 1, and its limit was on changes by about their standard deviation."""
    _, kind, declared = made
    card, raw = card_of(release), from_frame(table(kind))
    trained = retrain(load_model(release), raw)
    assert card["target"]["unit"] == trained.design.target.unit
    if declared:
        assert card["target"]["unit"] == units_within(*RANGES[kind])[1]
    assert verify(release).failed is None
    assert audited(release, raw).failed is None


def test_the_limit_holds_in_the_unit_of_the_card(tmp_path: Path) -> None:
    """Refits with another label: a limit of 1 was said to be per unit of 1, in which the largest eta was 44."""
    frame, path = table("gamma"), tmp_path / "m.skops"
    save_model(from_frame(frame), settings("gamma", declared=False), path, eta=1.0, over="max", random_state=0)
    card, l2, y = card_of(path), 5.0, frame["y"].to_numpy()
    columns = [(frame[own["name"]] - own["centre"]) / own["scale"] for own in card["columns"]]
    Z, penalty = (
        np.column_stack([*columns, np.ones(ROWS)]),
        np.diag([l2 * float(np.var(own)) for own in columns] + [0.0]),
    )

    def fitted(y: Any) -> Any:
        theta = np.array([0.0, 0.0, math.log(y.mean())])
        for _ in range(30):
            ratio = y * np.exp(-Z @ theta)
            gradient = Z.T @ (1 - ratio) / ROWS + penalty @ theta
            theta = theta - np.linalg.solve((Z * ratio[:, None]).T @ Z / ROWS + penalty, gradient)
        return theta

    step, own, largest = 1e-7, fitted(y), 0.0
    for row in range(0, ROWS, 10):
        moved = np.linalg.norm(fitted(y + step * (np.arange(ROWS) == row)) - own) / step
        largest = max(largest, float(moved / card["noise"]["scale"]))
    assert largest > 2.0  # per unit of 1
    assert largest * card["target"]["unit"] <= 1.0


def test_a_range_that_comes_from_the_rows_is_not_said_to_follow_from_bounds(
    release: Path, made: tuple[Path, str, bool]
) -> None:
    said = card_of(release)["assumptions"]
    assert (FROM_BOUNDS in said) == made[2]
    assert (FROM_ROWS in said) != made[2]


@pytest.mark.parametrize("kind", ["poisson", "linear"])
def test_a_row_that_moves_the_unit_of_the_target_is_recognised(kind: str, tmp_path: Path) -> None:
    """A unit from the rows is on the card: whoever moves it is known to be there."""
    frame = table(kind)
    frame.loc[6, "y"] = 400.0
    path = tmp_path / "m.skops"
    save_model(from_frame(frame), settings(kind, declared=False), path, eta=1.0, over="max", random_state=0)
    trained = retrain(load_model(path), from_frame(frame))
    mu = np.asarray(trained.leak.membership())
    assert trained.design.unbounded == ("y",)
    frames = measurement(trained.leak).shown_frames
    assert math.isinf(float(frames[0].told_rows()[6]))
    assert mu.shape == (ROWS,)


HIDDEN: dict[str, tuple[str, Callable[[Json], Any]]] = {
    "unit": ("target.unit", lambda card: card["target"].update(unit=1.71228010389)),
    "last digit of the unit": (
        "target.unit",
        lambda card: card["target"].update(unit=card["target"]["unit"] * (1 + 1e-12)),
    ),
    "scale": ("columns[0].scale", lambda card: card["columns"][0].update(scale=31.50711)),
    "centre": ("columns[1].centre", lambda card: card["columns"][1].update(centre=27.5000001)),
    "bounds": ("settings.bounds", lambda card: card["settings"]["bounds"][0][1].reverse()),
}


@pytest.mark.parametrize("way", HIDDEN)
def test_a_row_in_what_other_fields_decide(way: str, release: Path) -> None:
    field, change = HIDDEN[way]
    mended(release, None, change)
    assert f"under '{field}'" in str(verify(release).failed)


@pytest.mark.parametrize("place", ["unit", "scale", "centre"])
def test_a_row_in_a_scale_or_centre_from_the_rows(place: str, tmp_path: Path) -> None:
    path = tmp_path / "m.skops"
    own = dataclasses.replace(settings("linear", declared=False), bounds=())
    save_model(from_frame(table("linear")), own, path, noise=0.1, random_state=0)

    def moved(card: Json) -> None:
        record = card["target"] if place == "unit" else card["columns"][0]
        record[place] *= 1 + 1e-12

    mended(path, None, moved)
    assert f".{place}'" in str(verify(path).failed)


def test_the_unit_of_classes_is_one(tmp_path: Path) -> None:
    frame, path = table("poisson"), tmp_path / "m.skops"
    frame["y"] = np.where(frame["y"] > 3, "yes", "no")
    own = Settings("y", "logistic", l2=5.0, held_out=0.0, bounds=COLUMNS)
    save_model(from_frame(frame), own, path, noise=0.1, random_state=0)
    assert verify(path).failed is None
    mended(path, None, lambda card: card["target"].update(unit=1.5))
    assert "under 'target.unit'" in str(verify(path).failed)


def test_ends_of_bounds_from_rows_are_in_order(tmp_path: Path) -> None:
    path = tmp_path / "m.skops"
    save_model(
        from_frame(table("linear")),
        settings("linear", declared=False),
        path,
        eta=5.0,
        shape="isotropic",
        random_state=0,
    )

    def exchange(card: Json) -> None:
        bound = card["noise"]["calibrated"]["bounds"]["y"]
        bound["low"], bound["high"] = bound["high"], bound["low"]

    mended(path, None, exchange)
    assert "under 'noise.calibrated.bounds'" in str(verify(path).failed)


def as_before(card: Json) -> None:
    """As a version before wrote it."""
    card["target"]["unit"] = 1.0
    card["assumptions"] = [FROM_BOUNDS if said == FROM_ROWS else said for said in card["assumptions"]]


def test_files_that_are_out_already_verify_and_what_is_open_is_named(
    release: Path, made: tuple[Path, str, bool]
) -> None:
    if made[1] == "linear":
        return
    mended(release, None, as_before)
    found = verify(release)
    assert found.failed is None
    assert any(BEFORE in each for each in found.unchecked)
    audit = audited(release, from_frame(table(made[1])))
    assert audit.failed is None
    assert any(BEFORE in each for each in audit.unconfirmed)

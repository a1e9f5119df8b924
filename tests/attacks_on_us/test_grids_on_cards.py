"""The grid of a release whose noise the rows shape: it follows from the model card, and tells no covariance and no number of rows."""

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

from attacks_on_us.test_cards_and_ledgers import card_of, rewritten
from attacks_on_us.test_hidden_in_files import audited, mended
from copies import copied_release
from fisherleak._support.numbers import most_of_two_digits
from fisherleak.engine.noise import Gaussian, grid_of
from fisherleak.releasing.any_record_noise import AnyRecordLimit, declared_on, least_admitted
from fisherleak.releasing.cards.cards import model_of, one_where_alike
from fisherleak.releasing.files.model_files import ModelFile
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.releasing.files.verification import verify
from fisherleak.tables import RawTable, from_frame
from fisherleak.training.noise_words import from_card
from fisherleak.training.pipelines import framed, parameters_as_released, pipeline_with
from fisherleak.training.trained_model import Settings

pytestmark = pytest.mark.usefixtures("quick_audits")
Json = dict[str, Any]
BOUNDS = (("age", (0.0, 110.0)), ("bmi", (5.0, 50.0)), ("y", (0.0, 60.0)))
SETTINGS = Settings(
    "y",
    "linear",
    l2=1.0,
    held_out=0.0,
    bounds=BOUNDS,
    categories=("ill",),
    levels=(("ill", ("none", "flu", "cold", "hiv")),),
)
SHAPES = ("hessian", "least-loss")
BEFORE = "an earlier version computed"


def table(rows: int = 1025) -> Any:
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame({"age": rng.integers(20, 90, rows) + 0.0, "bmi": rng.normal(25, 4, rows).round(1)})
    frame["ill"] = rng.choice(["none", "flu", "cold"], rows)
    frame["y"] = (frame["bmi"] + rng.normal(0, 3, rows)).round(1)
    return frame


@pytest.fixture(scope="module")
def raw() -> RawTable:
    return from_frame(table())


def saved(path: Path, frame: Any, shape: str, over: str, settings: Settings = SETTINGS) -> Json:
    eta = 1.3 if over == "max" else 4.0
    save_model(from_frame(frame), settings, path, eta=eta, over=over, shape=shape, random_state=0, overwrite=True)
    return card_of(path)


@pytest.fixture(scope="module", params=[(shape, over) for shape in SHAPES for over in ("any-record", "max")])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("grid") / "m.skops"
    saved(path, table(), *request.param)
    return path


@pytest.fixture
def release(made: Path, tmp_path: Path) -> Path:
    return copied_release(made, tmp_path)


def calibrated(path: Path) -> Json:
    found: Json = card_of(path)["noise"]["calibrated"]
    return found


def test_it_follows_from_the_card(release: Path, raw: RawTable) -> None:
    card, found = card_of(release), verify(release)
    assert found.failed is None
    assert not any(BEFORE in each for each in found.unchecked)
    assert isinstance(card["grid"], float)
    audit = audited(release, raw)
    assert audit.failed is None
    assert not any(BEFORE in each for each in audit.unconfirmed)
    # and the noise is nowhere less
    kept = load_model(release)
    noise = kept.noise_on(retrain(kept, raw))
    assert isinstance(noise, Gaussian)
    assert noise.shape is not None
    assert card["noise"]["calibrated"]["least"] <= math.sqrt(np.linalg.eigvalsh(noise.shape)[0])
    assert card["grid"] <= grid_of(Gaussian(noise.scale, noise.shape), len(noise.shape)).min()
    assert from_card(card["noise"], noise.shape).scale == noise.scale


@pytest.mark.parametrize("over", ["any-record", "max"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_less_that_makes_a_power_of_two(shape: str, over: str, tmp_path: Path) -> None:
    """1024 and 1025 rows are 1000 in two digits, and the grid was finer with 1025."""
    frame, path = table(), tmp_path / "m.skops"
    cards = [saved(path, each, shape, over) for each in (frame, frame[1:])]
    assert cards[0]["data"]["rows"] == cards[1]["data"]["rows"] == 1000
    first, second = (each["noise"]["calibrated"]["least"] for each in cards)
    assert first == second


def test_whether_one_person_has_a_category(tmp_path: Path) -> None:
    """Each parameter had a grid of its own noise: a declared category that one person has, and nobody, gave two grids."""
    one, settings = table(400), dataclasses.replace(SETTINGS, l2=3e-4)
    one.loc[77, "ill"] = "hiv"
    relative = []
    for frame in (one, one.assign(ill=one["ill"].replace("hiv", "flu"))):
        card = saved(tmp_path / "m.skops", frame, "hessian", "max", settings)
        relative.append((card["grid"] / card["noise"]["scale"], card["noise"]["calibrated"]["least"]))
        assert isinstance(card["grid"], float)
    assert math.log2(relative[0][0] / relative[1][0]) == pytest.approx(0, abs=1)  # of the scale, no other
    assert relative[0][1] == relative[1][1]


HIDDEN: dict[str, Callable[[Json], Any]] = {
    "in a list of steps": lambda card: card.update(
        grid=[card["grid"] / 2.0**k for k in range(card["model"]["parameters"])]
    ),
    "in one step": lambda card: card.update(grid=card["grid"] * 2.0**-200),
}


@pytest.mark.parametrize("way", HIDDEN)
def test_a_row_in_the_grid(way: str, release: Path) -> None:
    mended(release, None, HIDDEN[way])
    assert "under 'grid'" in str(verify(release).failed)


def test_digits_of_the_least_deviation_are_named_or_refused(release: Path) -> None:
    told = calibrated(release)
    rewritten(release, lambda card: card["noise"]["calibrated"].update(least=told["least"] * 1.0512345))
    found = verify(release)
    if told["over"] == "max":
        assert "under 'noise.calibrated.least'" in str(found.failed)
    else:
        assert found.failed is None
        assert any("'noise.calibrated.least'" in each and BEFORE in each for each in found.unchecked)


def test_a_card_without_its_least_deviation_is_refused_by_that_name(release: Path) -> None:
    """It was refused under the bounds, which are as they should be; noise for the rows alone could once lack it."""
    told = calibrated(release)
    rewritten(release, lambda card: card["noise"]["calibrated"].pop("least"))
    named = "under 'noise.calibrated.least' what no model card says" in str(verify(release).failed)
    assert named == (told["over"] != "max")


def as_before(path: Path, raw: RawTable) -> None:
    """The file that a version before wrote: with a least deviation from the exact number of rows, or a grid of its own."""
    kept = load_model(path)
    trained = retrain(kept, raw)
    noise, card, theta = kept.noise_on(trained), card_of(path), framed(trained.design, kept.model)
    told = card["noise"]["calibrated"]
    if told["over"] == "max":
        assert isinstance(noise, Gaussian)
        del told["least"]
        steps = grid_of(Gaussian(noise.scale, noise.shape), theta.size)
    else:
        shape = card["shape"]["name"]
        limit = AnyRecordLimit(told["eta"], bounds=declared_on(card), shape=shape)
        _, anew = least_admitted(trained, kept.settings, limit)
        power = 0.5 if shape == "hessian" else 0.75
        told["least"] = anew["least"] * (most_of_two_digits(1000) / 2048) ** power
        steps = np.full(theta.size, math.ldexp(1.0, math.frexp(noise.scale * told["least"])[1] - 1) / 1024)
    model = model_of(card)
    data = ModelFile.of(pipeline_with(model, parameters_as_released(model, np.rint(theta / steps) * steps))).encoded()
    mended(
        path,
        data,
        lambda card: card.update(noise=card["noise"] | {"calibrated": told}, grid=one_where_alike(steps.tolist())),
    )


def test_files_that_are_out_already_verify_and_what_is_open_is_named(release: Path, raw: RawTable) -> None:
    as_before(release, raw)
    found = verify(release)
    assert found.failed is None
    assert any(BEFORE in each for each in found.unchecked)
    audit = audited(release, raw)
    assert audit.failed is None
    assert any(BEFORE in each for each in audit.unconfirmed)
    told = calibrated(release)
    if told["over"] == "max":
        return
    rewritten(release, lambda card: card["noise"]["calibrated"].update(least=told["least"] * (1 + 1e-6)))
    assert "other bounds" in str(audited(release, raw).failed)

"""The noise in an audit: drawn, measured, released and checked as the noise itself says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import fisherleak as fl
from fisherleak.auditing import Settings, audit
from fisherleak.engine.noise import NOISES, Noise
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.releasing.cards.signatures import card_path, card_text
from fisherleak.releasing.files.model_files import ModelFile
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.report.render import render
from fisherleak.report.summarise import summarise
from fisherleak.tables import from_frame
from fisherleak.training.noise_words import as_noise, by_its_noise, distance_of, name_of, noise_words, unit_draws
from fisherleak.training.pipelines import PublicModel, framed, own_parameters, parameters_as_released, pipeline_with
from fisherleak.training.trained_model import spreads_in, train
from refits import minimise_scaled

pytestmark = pytest.mark.usefixtures("quick_audits")

SHAPE = np.diag([1.0, 4.0, 0.5]) + 0.1
KINDS: dict[str, Noise] = {
    **{name: kind.from_record({"kind": name, "scale": 0.3}) for name, kind in NOISES.items()},
    "shaped": fl.Gaussian(0.3, SHAPE),
}
SETTINGS = Settings("sick", l2=1e-2)


@pytest.fixture(scope="module")
def table(people: Any) -> Any:
    return people[["age", "weight", "sick"]]


@pytest.fixture(scope="module", params=KINDS.values(), ids=list(KINDS))
def noise(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def audited(noise: Noise, table: Any) -> Any:
    return audit(table, SETTINGS, noise=noise, draws=2000, attacks=False)


def test_etas_are_those_of_the_noise(noise: Noise, table: Any) -> None:
    result = audit(table, replace(SETTINGS, public="preprocessing"), noise=noise, draws=4, attacks=False)
    design = result.design
    fit = minimise_scaled(design.X, design.y, "logistic", 1e-2, None, True, spreads_in(design)[1])
    leak = fl.measure(fit, design.X, design.y, noise)
    np.testing.assert_allclose(result.eta, leak.per_example(), rtol=1e-8)
    assert result.dataset / result.unit_scale == pytest.approx(leak.dataset())
    worst = result.worst.cells[0] * [feature.scale for feature in design.features] / result.unit_scale
    np.testing.assert_allclose(worst, leak.per_cell()[result.worst.rows[0]], rtol=1e-7)
    assert result.spot is not None
    assert result.spot.largest_relative_error < 1e-4


def test_a_number_is_the_scale_of_gaussian_noise(table: Any) -> None:
    one, two = (audit(table, SETTINGS, noise=noise, draws=4) for noise in (0.3, fl.Gaussian(0.3)))
    assert one.tradeoff == two.tradeoff
    assert one.attacked == two.attacked
    np.testing.assert_array_equal(one.eta, two.eta)
    assert as_noise(0.3) == fl.Gaussian(0.3)
    wrong: list[Any] = [0, -1.0, "much", True, fl.Gaussian]
    for noise in wrong:
        with pytest.raises(InvalidInputError, match="noise must be"):
            audit("nothing.csv", SETTINGS, noise=noise)


def test_draws_of_a_seed_are_as_they_were() -> None:
    """Utility under plain Gaussian noise is the same from version to version."""
    np.testing.assert_array_equal(
        unit_draws(fl.Gaussian(3.0), 5, 7, seed=2), np.random.default_rng(2).standard_normal((5, 7))
    )


def test_utility_is_that_of_releases_with_the_noise(noise: Noise, audited: Any) -> None:
    design, theta = audited.design, audited.trained.fit.theta
    noisy = theta + noise.draws(2000, theta.size, np.random.default_rng(5))
    z = design.X_test @ noisy[:, :-1].T + noisy[:, -1]
    right = np.mean((z > 0) == (design.y_test[:, None] > 0.5), axis=0)
    middle = audited.tradeoff.points[len(audited.tradeoff.points) // 2]
    assert middle.scale == pytest.approx(0.3)
    assert middle.utility == pytest.approx(right.mean(), abs=5 * right.std() / np.sqrt(1000))


def test_the_report_names_the_noise(noise: Noise, audited: Any) -> None:
    summary = summarise(audited)
    kind = noise.record()["kind"]
    assert summary["noise"]["kind"] == kind
    assert any(f"{kind} noise of " in sentence for sentence in summary["assumptions"])
    page = render(summary)
    assert f"{kind} noise of scale" in page
    assert ("Gaussian noise" in page) == (kind == "Gaussian")


def test_words_say_what_a_scale_is() -> None:
    assert noise_words(fl.Gaussian(0.5), 4) == "Gaussian noise of standard deviation 0.5"
    assert noise_words(fl.Laplace(0.5), 4) == "Laplace noise of scale 0.5"
    assert "with its own covariance" in noise_words(fl.Gaussian(0.5, np.eye(2)), 4)


@pytest.mark.parametrize("size", [3, 40])
def test_the_right_noise_is_believed_and_a_wrong_one_is_not(noise: Noise, size: int) -> None:
    if isinstance(noise, fl.Gaussian) and noise.shape is not None:
        noise = fl.Gaussian(0.3, np.diag(np.arange(1.0, size + 1)))
    drawn = noise.draws(300, size, np.random.default_rng(0))
    assert {by_its_noise(noise, b) for b in drawn} == {"yes"}
    lengths = np.linalg.norm(drawn, axis=1)
    long = drawn[lengths > np.median(lengths)][:50]
    assert {by_its_noise(noise, 20.0 * b) for b in long} == {"too far"}
    assert {by_its_noise(noise, 1e-3 * b) for b in drawn[:50]} == {"too near"}
    assert by_its_noise(noise, 0.0 * drawn[0]) == "too near"


def test_a_release_carries_its_noise(noise: Noise, table: Any, tmp_path: Path) -> None:
    raw, path = from_frame(table), tmp_path / "model.skops"
    card, cost = save_model(raw, SETTINGS, path, noise=noise)
    assert card["noise"] == json.loads(card_path(path).read_text(encoding="utf-8"))["noise"] == noise.record()
    assert card["eta"]["limit"] is None
    assert any(noise_words(noise, 6) in sentence for sentence in card["assumptions"])
    assert cost.points[0].scale == noise.scale
    saved = load_model(path)
    assert saved.noise == noise
    trained = retrain(saved, raw)
    assert by_its_noise(noise, framed(trained.design, saved.model) - own_parameters(trained)) == "yes"
    for away, says in ((0.0, "holds no noise"), (2.0**20, "farther from its refit")):
        _forge(path, trained, away)
        with pytest.raises(InvalidInputError, match=says):
            retrain(load_model(path), raw)


def _forge(path: Path, trained: Any, away: float) -> None:
    """The model without noise, so many steps of its grid away, under the same card with its checksum mended."""
    import hashlib

    card = json.loads(card_path(path).read_text(encoding="utf-8"))
    public, grid = PublicModel.of(trained), np.asarray(card["grid"])
    theta = (np.rint(own_parameters(trained) / grid) + away) * grid
    path.write_bytes(ModelFile.of(pipeline_with(public, parameters_as_released(public, theta))).encoded())
    card["model"]["file_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    card_path(path).write_bytes(card_text(card))


@pytest.mark.parametrize("noise", [fl.Gaussian(2.0), fl.Laplace(2.0), fl.Bounded(2.0)], ids=name_of)
@pytest.mark.parametrize("size", [2, 9, 40])
def test_which_noise_would_be_noticed(noise: Noise, size: int) -> None:
    """Noise of the scales that are said to be noticed is, 95 % of the time; with two parameters hardly any is."""
    known = distance_of(noise, np.ones(size))
    for times, verdict in ((known.notices_below, "too near"), (known.notices_above, "too far")):
        drawn = noise.rescaled(2.0 * times).draws(600, size, np.random.default_rng(1))
        seen = np.mean([distance_of(noise, b).verdict == verdict for b in drawn])
        assert seen == pytest.approx(0.95, abs=0.03)
    assert (known.notices_below < 0.001) == (size == 2)
    assert (known.notices_below > 0.25) == (size == 40)


def test_a_release_has_a_limit_or_a_noise(table: Any, tmp_path: Path) -> None:
    raw, path = from_frame(table), tmp_path / "model.skops"
    both: list[dict[str, Any]] = [{}, {"eta": 1.0, "noise": 1.0}]
    for options in both:
        with pytest.raises(InvalidInputError, match="either `eta` or `noise`"):
            save_model(raw, SETTINGS, path, **options)
    with pytest.raises(InvalidInputError, match="`attribute` goes with a limit"):
        save_model(raw, SETTINGS, path, noise=1.0, attribute="age")
    assert not list(tmp_path.iterdir())


def test_a_card_of_an_unknown_noise_is_refused(table: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    save_model(from_frame(table), SETTINGS, path, eta=1.0, over="max")
    card = json.loads(card_path(path).read_text(encoding="utf-8"))
    noises: list[dict[str, Any]] = [
        {"kind": "Cauchy", "scale": 1.0},
        {"kind": "Laplace", "scale": -1.0},
        {"kind": "Laplace"},
        {"scale": 2.0},
    ]
    for noise in noises:
        card_path(path).write_bytes(card_text({**card, "noise": noise}))
        with pytest.raises(DataError, match="under 'noise"):
            load_model(path)


def test_a_model_is_trained_once_for_any_noise(table: Any) -> None:
    trained = train(from_frame(table), SETTINGS)
    assert trained.with_noise(fl.Gaussian(5.0)) is trained
    assert trained.with_noise(fl.Laplace(5.0)).fit is trained.fit

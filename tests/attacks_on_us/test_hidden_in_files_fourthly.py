"""Noise that all classes share, cards of version 0.1.0 that declare, sentences with other numbers, keys that sign anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.stats

pytest.importorskip("pyarrow")
pytest.importorskip("skops")

from attacks_on_us.test_hidden_in_files import audited
from attacks_on_us.test_hidden_in_files_thirdly import card_of, rewritten
from fisherleak.engine.noise import Gaussian, Laplace
from fisherleak.errors import InvalidInputError
from fisherleak.releasing.cards.cards import model_of
from fisherleak.releasing.files.released_files import load_model, save_model
from fisherleak.releasing.files.verification import verify
from fisherleak.tables import RawTable, from_frame
from fisherleak.training.moved_parameters import BetweenClasses, moved_from_fit
from fisherleak.training.pipelines import framed, own_parameters, parameters_as_released
from fisherleak.training.trained_model import Settings, train

Json = dict[str, Any]
ROWS, CLASSES, WIDTH = 300, 3, 12


# Noise that is the same for every class


@pytest.fixture(scope="module")
def kinds() -> RawTable:
    """Twelve numbers and three classes."""
    rng = np.random.default_rng(5)
    X, W = rng.normal(size=(ROWS, WIDTH)), rng.normal(size=(WIDTH, CLASSES))
    frame = {f"x{j}": np.round(50 + 10 * X[:, j], 1) for j in range(WIDTH)}
    frame["kind"] = np.array(["a", "b", "c"])[(X @ W + rng.gumbel(size=(ROWS, CLASSES))).argmax(1)]
    return from_frame(pandas.DataFrame(frame))


CLASSED = Settings("kind", held_out=0.0, l2=0.01)


def by_class(values: Any) -> Any:
    """Values by class and feature, intercepts last, in the order of parameters."""
    return np.append(values[:, :-1].ravel(), values[:, -1])


def with_parameters(path: Path, parameters: Any) -> None:
    """The same release with other parameters, in the frame and on its grid."""
    card = card_of(path)
    on_grid = np.rint(parameters / np.asarray(card["grid"])) * np.asarray(card["grid"]) + 0.0
    rewritten(path, lambda card: None, parameters_as_released(model_of(card), on_grid))


@pytest.fixture
def softmax(tmp_path: Path, kinds: RawTable) -> Path:
    path = tmp_path / "m.skops"
    save_model(kinds, CLASSED, path, noise=0.5, random_state=0)
    return path


def test_noise_that_all_classes_share_hides_nothing(softmax: Path, kinds: RawTable) -> None:
    """Each value has the card's noise, and no difference between classes has any."""
    assert audited(softmax, kinds).failed is None
    quantiles = scipy.stats.norm.ppf((np.arange(WIDTH + 1) + 0.5) / (WIDTH + 1))
    shared = 0.5 * np.random.default_rng(3).permutation(quantiles)
    with_parameters(softmax, own_parameters(train(kinds, CLASSED)) + by_class(np.tile(shared, (CLASSES, 1))))
    assert verify(softmax).failed is None
    with pytest.raises(InvalidInputError, match="holds no noise of the scale that its card claims"):
        audited(softmax, kinds)


def test_what_all_classes_share_is_noise(softmax: Path, kinds: RawTable) -> None:
    """It changes no prediction, and could be anything else."""
    found = framed(train(kinds, CLASSED).design, load_model(softmax).model)
    with_parameters(softmax, found + by_class(np.tile(np.arange(WIDTH + 1.0), (CLASSES, 1))))
    assert verify(softmax).failed is None
    with pytest.raises(InvalidInputError, match="what all classes have in common"):
        audited(softmax, kinds)


@pytest.mark.parametrize("noise", [Gaussian(0.5), Gaussian(0.5, np.diag(np.arange(1.0, 40.0))), Laplace(0.5)], ids=repr)
def test_honest_noise_between_classes_is_its_own(noise: Any, softmax: Path, kinds: RawTable) -> None:
    """Two contrasts for each feature count, with the covariance or the density that the noise has there."""
    trained, model = train(kinds, CLASSED), load_model(softmax).model
    own = framed(trained.design, model) - own_parameters(trained)
    away, between = moved_from_fit(trained, model, noise)
    assert away.size == (CLASSES - 1) * (WIDTH + 1)
    centred = own[:-CLASSES].reshape(CLASSES, WIDTH)
    centred = np.column_stack([centred, own[-CLASSES:]])
    assert np.sum(away**2) == pytest.approx(np.sum((centred - centred.mean(0)) ** 2))
    assert np.isfinite(between.log_density(away))
    drawn = between.draws(4000, away.size, np.random.default_rng(0))
    assert drawn.std() == pytest.approx(noise.draws(4000, own.size, np.random.default_rng(1)).std(), rel=0.05)


def test_the_density_between_classes_is_a_density() -> None:
    noise = BetweenClasses(Laplace(0.7), 3)
    line = np.linspace(-8, 8, 33)
    points = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    total = np.exp(noise.log_density(points)).sum() * (line[1] - line[0]) ** 2
    assert total == pytest.approx(1.0, abs=0.02)
    gaussian = BetweenClasses(Gaussian(0.7), 4)
    b = np.random.default_rng(0).normal(size=(3, 9))
    assert gaussian.log_density(b) == pytest.approx(Gaussian(0.7).log_density(b), rel=1e-6)


def test_laplace_noise_on_classes_still_passes(tmp_path: Path, kinds: RawTable) -> None:
    path = tmp_path / "m.skops"
    save_model(kinds, CLASSED, path, noise=Laplace(0.5), random_state=0)
    assert audited(path, kinds).failed is None

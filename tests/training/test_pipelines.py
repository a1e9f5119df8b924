"""One model in three spaces: where noise acts, in raw units, and behind a scaler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pandas

import fisherleak as fl
from drawn import released_pipeline
from fisherleak._support.grids import public_units
from fisherleak.auditing import Settings
from fisherleak.auditing.attackers import attack_all
from fisherleak.auditing.fitted_models.under_attack import table_under_attack
from fisherleak.models.steps.scalers import Scale, frame_of
from fisherleak.tables import from_frame
from fisherleak.training.pipelines import framed, known_pipeline, own_parameters, pipeline_of, standard_noise
from fisherleak.training.trained_model import Trained, train

SMALL = 1e-9


@pytest.fixture(scope="module")
def trained(people: Any) -> Trained:
    return train(from_frame(people[["age", "weight", "city", "income"]]), Settings("income", l2=0.1, held_out=0.0))


def test_units_are_those_in_which_a_pipeline_is_measured_end_to_end() -> None:
    """The space of the noise is the same on the command line as in ``fl.measure``."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        scale = 10.0 ** rng.uniform(-8, 8)
        centre = scale * rng.normal(0, 1e4)
        frame = frame_of([Scale("", centre, scale, True)], True)
        public = public_units(centre, scale)
        assert public[1] == frame[0, 0]
        assert public[0] == pytest.approx(frame[1, 0], rel=1e-12)
        assert abs(np.log2(public[1] / scale)) <= 0.125 + 1e-9
        assert abs(public[0] - centre) <= 0.5001 * public[1]


def test_all_three_predict_alike(trained: Trained, people: Any) -> None:
    model, frame, labels = pipeline_of(trained)
    released = released_pipeline(trained, fl.Gaussian(SMALL * trained.unit), 0)
    np.testing.assert_allclose(released.predict(people), model.predict(frame), rtol=1e-7)
    np.testing.assert_allclose(framed(trained.design, released), own_parameters(trained), rtol=1e-6, atol=1e-4)
    known = known_pipeline(trained, model, released)
    np.testing.assert_allclose(known[-1].coef_, model[-1].coef_, rtol=1e-6)
    again = model.fit(frame, labels)
    np.testing.assert_allclose(again.predict(frame), released.predict(people), rtol=1e-7)


@pytest.mark.long
def test_noise_acts_where_it_is_measured(trained: Trained) -> None:
    """Releases vary as the noise says in the frame, and not in raw units."""
    noise = fl.Gaussian(700.0)
    theta = own_parameters(trained)
    drawn = np.array([framed(trained.design, released_pipeline(trained, noise, k)) - theta for k in range(100)]) / 700.0
    np.testing.assert_allclose(np.cov(drawn.T), np.eye(theta.size), atol=0.5)


def test_attackers_see_the_noise_as_it_is_behind_the_scaler(trained: Trained) -> None:
    model, frame, labels = pipeline_of(trained)
    for noise in (fl.Gaussian(300.0), fl.Laplace(300.0)):
        turned = standard_noise(trained, noise)
        leak = fl.measure(model, frame, labels, noise=turned)
        own = train(
            from_frame(frame.assign(income=labels)), Settings("income", l2=0.1, held_out=0.0, public="preprocessing")
        )
        expected = own.with_noise(noise).leak.per_label() / (300.0 / own.unit) / own.unit
        np.testing.assert_allclose(leak.per_label(), expected, rtol=1e-6)
        b = turned.draws(5, 4, np.random.default_rng(0))
        assert turned.log_density(b).shape == (5,)
        assert turned.rescaled(2.0).scale == 2.0
        assert type(turned).from_record(turned.record()).log_density(b) == pytest.approx(turned.log_density(b))
        assert turned.draw(4, 0).shape == (4,)


def test_a_release_is_attacked_as_the_average_over_releases(trained: Trained) -> None:
    """A released model in raw units is compared with models behind the scaler only after it is brought there."""
    noise = fl.Gaussian(1e-3)
    released = released_pipeline(trained, noise, 0)
    found = attack_all(table_under_attack(trained, released), ["city"], noise)
    white = [outcome for outcome, _ in found.outcomes if outcome.attacker.startswith("white-box")]
    assert [outcome.accuracy for outcome in white] == [
        1.0
    ] * 4  # by the prior or by what other columns suggest, of one release and on average


def test_nothing_of_the_rows_is_in_the_template(people: Any) -> None:
    """Two tables with the same columns and levels give the same file but for its parameters."""
    one, two = (
        released_pipeline(train(from_frame(table), Settings("sick", held_out=0.0)), fl.Gaussian(0.1), 0)
        for table in (
            people[["age", "city", "sick"]],
            people[["age", "city", "sick"]].iloc[::-1].assign(age=people.age * 1.3),
        )
    )
    for name, value in vars(one[-1]).items():
        if name not in ("coef_", "intercept_"):
            np.testing.assert_array_equal(
                np.asarray(value, dtype=object), np.asarray(vars(two[-1])[name], dtype=object)
            )
    assert "alpha" not in vars(one[-1]) or one[-1].alpha == two[-1].alpha
    assert list(pandas.unique(people.city)) != []

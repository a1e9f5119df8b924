"""What all attackers share: how they are asked, what they take, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline

import fisherleak as fl
from attacks.clinic import ATTACKERS, DOSE, TABLE, parameters, pipeline
from fisherleak.models.steps.scalers import complete, neutral, scaled_parameters


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_attackers_are_interchangeable(attacker: type[fl.attacks.Attacker]) -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    noise = fl.Gaussian(0.01)
    attack = attacker(model, TABLE, DOSE, "gene", rows=np.arange(60))
    one, *others = [fl.release(model, noise, seed, public="preprocessing") for seed in range(3)]
    stack = [one, *others]
    assert attack.infer(one).shape == (60,)
    assert attack.infer(stack).shape == (3, 60)
    assert (attack.infer(stack)[0] == attack.infer(one)).all()
    assert (attack.infer(np.stack([parameters(each) for each in stack])) == attack.infer(stack)).all()
    assert set(attack.infer(one)) <= {"CC", "CT", "TT"}
    outcome = attack.against(stack)
    assert outcome.trials == 3
    assert outcome.n == 60
    assert outcome.accuracy == pytest.approx(np.mean(attack.infer(stack) == TABLE["gene"].to_numpy()[:60]))
    assert outcome.baseline == pytest.approx(np.mean(TABLE["gene"][:60] == "CT"))
    assert outcome.low < outcome.accuracy < outcome.high or outcome.accuracy in (0.0, 1.0)
    assert attack.accuracy(noise).shape == (60,)
    assert str(attack.against(noise)).startswith(attack.name)


def test_arrays_fits_and_other_frames() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=80), rng.integers(0, 2, size=80)])
    y = X @ [1.0, 0.5] + rng.normal(size=80)
    fit = fl.minimise(X, y, l2=1e-3, intercept=True)
    by_fit = fl.attacks.WhiteBox(fit, X, y, 1)
    by_model = fl.attacks.WhiteBox(Ridge(alpha=80e-3).fit(X, y), X, y, 1)
    np.testing.assert_allclose(by_fit.moves[0].values, by_model.moves[0].values, atol=1e-12)
    released = fl.release(fit, fl.Gaussian(1e-9))
    assert (by_fit.infer(released) == X[:, 1]).all()
    knowing = fl.attacks.WhiteBox(fit, X, y, 1, use_prior=True)
    assert (knowing.infer(released) == X[:, 1]).all()
    model = pipeline(LinearRegression())
    frame = pl.DataFrame({name: TABLE[name].tolist() for name in TABLE})
    guesses = fl.attacks.WhiteBox(model.fit(frame, DOSE), frame, DOSE, "gene").infer()
    assert (guesses == TABLE["gene"]).all()
    typed = TABLE.astype({"gene": "category", "smoker": "category"}).set_axis(np.arange(120) * 3, axis=0)
    assert (fl.attacks.WhiteBox(model.fit(typed, DOSE), typed, DOSE, "gene").infer() == TABLE["gene"]).all()


def test_a_released_shell_can_be_attacked() -> None:
    shell = fl.PrivateRelease(
        pipeline(Ridge(alpha=0.5)), over="max", eta=5.0, keep_unperturbed=True, public="preprocessing"
    ).fit(TABLE, DOSE)
    attack = fl.attacks.WhiteBox(shell.unperturbed_, TABLE, DOSE, "gene")
    assert (attack.infer(shell) == attack.infer(shell.estimator_)).all()


def test_releases_with_scalers_folded_in_are_attacked_by_their_answers_or_refused() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    folded = fl.release(model, fl.Gaussian(1e-9), 0, public="levels")
    kinds: list[Any] = list(ATTACKERS)
    for attacker in kinds:
        attack = attacker(model, TABLE, DOSE, "gene")
        if attacker.by_answers:
            assert (attack.infer(folded) == attack.infer(model)).all()
            assert (attack.infer([folded, model]) == attack.infer(model)).all()
    noisy = fl.release(model, fl.Gaussian(0.3), 1, public="levels")
    black_box = fl.attacks.BlackBox(model, TABLE, DOSE, "gene")
    _, scales = neutral(model)
    theta = scaled_parameters(parameters(noisy), complete(scales or [], 4))
    features = np.column_stack([model[0].transform(TABLE), np.ones(len(TABLE))])
    np.testing.assert_allclose(features @ theta, noisy.predict(TABLE), rtol=1e-10)
    assert (black_box.infer(noisy) == black_box.infer(theta)).all()
    for refused in (fl.attacks.WhiteBox(model, TABLE, DOSE, "gene"), fl.attacks.Membership(model, TABLE, DOSE)):
        with pytest.raises(fl.UnsupportedModelError, match=r"scalers folded in.*public='preprocessing'"):
            refused.infer(folded)
    encoded = pipeline(Ridge(alpha=0.5))[:1].set_params(columntransformer__numbers="passthrough")
    without = make_pipeline(*encoded, Ridge(alpha=0.5)).fit(TABLE, DOSE)  # no scaler: nothing was folded
    near = fl.release(without, fl.Gaussian(1e-9), 0, public="levels")
    assert (fl.attacks.WhiteBox(without, TABLE, DOSE, "gene").infer(near) == TABLE["gene"]).all()


def test_refusals_of_releases() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    attack = fl.attacks.WhiteBox(model, TABLE, DOSE, "gene")
    for released in (np.zeros(3), np.full(5, np.nan), "model", np.zeros((1, 2, 5))):
        with pytest.raises(fl.InvalidInputError, match="released must"):
            attack.infer(released)
    with pytest.raises(fl.InvalidInputError, match="must know the noise"):
        fl.attacks.WhiteBox(model, TABLE, DOSE, "gene", use_prior=True).infer(model)
    with pytest.raises(fl.InvalidInputError, match="draws"):
        fl.attacks.BlackBox(model, TABLE, DOSE, "gene").against(fl.Gaussian(1.0), draws=0)
    with pytest.raises(fl.InvalidInputError, match="over must be"):
        attack.accuracy(fl.Gaussian(1.0), over="columns")


def test_releases_of_other_models_are_refused() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    attack = fl.attacks.WhiteBox(model, TABLE, DOSE, "gene")
    other_kind = pipeline(LinearRegression()).fit(TABLE, DOSE)
    other_order = pipeline(Ridge(alpha=0.5)).fit(TABLE[["smoker", "gene", "age"]], DOSE)
    for other in (other_kind, other_order):
        with pytest.raises(fl.InvalidInputError, match="released is no release of this model"):
            attack.infer(other)


def test_bad_noise_and_seeds() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    knowing = fl.attacks.WhiteBox(model, TABLE, DOSE, "gene", use_prior=True)
    no_noises: list[Any] = [0.1, fl.Gaussian]
    for noise in no_noises:
        with pytest.raises(fl.InvalidInputError, match="noise must be a noise"):
            knowing.infer(model, noise=noise)
    black_box = fl.attacks.BlackBox(model, TABLE, DOSE, "gene")
    with pytest.raises(fl.InvalidInputError, match="random_state"):
        black_box.accuracy(fl.Gaussian(1.0), random_state="abc")
    with pytest.raises(fl.InvalidInputError, match="shape must cover"):
        black_box.accuracy(fl.Gaussian(1.0, np.eye(2)))
    for released in (np.zeros((0, 5)), np.zeros(5, dtype=complex)):
        with pytest.raises(fl.InvalidInputError, match="released must"):
            knowing.infer(released, noise=fl.Gaussian(1.0))

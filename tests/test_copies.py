"""Everything that is made can be pickled, copied and sent to another process, and is worth as much there."""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

import fisherleak as fl
from cases import EVERY_ATTACKER, make
from copies import copies

X, Y = (part[:80] for part in load_diabetes(return_X_y=True))
SEX = {"attribute": 1}
NOISE = fl.Laplace(2.0)
LOSSES = [*fl.LOSSES.values(), fl.pseudo_huber(1.3)]


@pytest.mark.parametrize("loss", LOSSES, ids=[*fl.LOSSES, "pseudo_huber(1.3)"])
def test_losses(loss: fl.Loss) -> None:
    z, y = np.linspace(-3.0, 3.0, 7), np.ones(7)
    for other in copies(loss):
        assert other == loss
        for function in ("value", "r", "a", "c"):
            np.testing.assert_array_equal(getattr(other, function)(z, y), getattr(loss, function)(z, y))
        np.testing.assert_array_equal(other.mean(z), loss.mean(z))
        np.testing.assert_array_equal(other.labels.accepts(y), loss.labels.accepts(y))
        assert other.start(y * 0.5, y) == loss.start(y * 0.5, y)
    assert fl.pseudo_huber(1.3) == fl.pseudo_huber(1.3) != fl.pseudo_huber(1.0)


@pytest.mark.parametrize("loss", list(fl.LOSSES))
def test_fits_and_what_they_leak(loss: str) -> None:
    case = make(loss, weighted=True, intercept=True)
    fit, leak = case.fit(), case.leak(NOISE)
    for other in copies(fit):
        np.testing.assert_array_equal(other.theta, fit.theta)
        measured = fl.measure(other, case.X, case.y, NOISE)
        np.testing.assert_array_equal(measured.per_example(), leak.per_example())
    for other in copies(leak):
        assert other.noise == NOISE
        np.testing.assert_array_equal(other.per_example(), leak.per_example())
        assert other.dataset() == leak.dataset()
    for other in copies(fl.release(fit, NOISE, 0)):
        assert other.noise == NOISE
        np.testing.assert_array_equal(other.coef, fl.release(fit, NOISE, 0).coef)


ATTACKERS = [
    *((kind, {}) for kind in EVERY_ATTACKER),
    (fl.attacks.WhiteBox, {"use_prior": True}),
]


@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
@pytest.mark.parametrize(("attacker", "options"), ATTACKERS)
def test_attackers(attacker: Any, options: dict[str, Any], used: bool) -> None:
    attack = attacker(Ridge().fit(X, Y), X, Y, **SEX, **options)
    if used:
        attack.accuracy(NOISE, draws=2)
    for other in copies(attack):
        assert other.name == attack.name
        np.testing.assert_array_equal(other.infer(noise=NOISE), attack.infer(noise=NOISE))
        np.testing.assert_array_equal(other.accuracy(NOISE, draws=20), attack.accuracy(NOISE, draws=20))
        assert other.against(fl.Gaussian(1.0)) == attack.against(fl.Gaussian(1.0))


@pytest.mark.parametrize("keep", [False, True])
def test_private_releases(keep: bool) -> None:
    shell = fl.PrivateRelease(Ridge(), over="max", eta=5.0, noise=NOISE, keep_unperturbed=keep, random_state=0).fit(
        X, Y
    )
    for other in copies(shell):
        assert other.noise_ == shell.noise_
        np.testing.assert_array_equal(other.predict(X), shell.predict(X))
        # exact etas tell of the rows: they go along where the unperturbed model does
        assert hasattr(other, "leakage_") == keep
        assert not keep or other.leakage_.summary() == shell.leakage_.summary()
        np.testing.assert_array_equal(other.fit(X, Y).predict(X), shell.predict(X))


def test_irfil_and_trimmed() -> None:
    model = fl.IRFIL(Ridge(), n_iter=3, noise=NOISE).fit(X, Y)
    for other in copies(model):
        assert other.noise == NOISE
        np.testing.assert_array_equal(other.weights_, model.weights_)
        np.testing.assert_array_equal(other.history_["sd"], model.history_["sd"])
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
    trimmed = fl.trim(Ridge(), X, Y, max_eta=1e3)
    for other in copies(trimmed):
        assert other.summary() == trimmed.summary()


@pytest.mark.long
def test_in_another_process() -> None:
    cases = [make(loss) for loss in ("squared", "pseudo_huber", "logistic")]
    fits = [case.fit() for case in cases]
    attack = fl.attacks.WhiteBox(Ridge().fit(X, Y), X, Y, **SEX, use_prior=True)
    with joblib.parallel_config("loky", n_jobs=2):
        leaks = joblib.Parallel()(
            joblib.delayed(fl.measure)(fit, case.X, case.y, NOISE) for fit, case in zip(fits, cases, strict=True)
        )
        etas = joblib.Parallel()(joblib.delayed(leak.per_example)() for leak in leaks)
        (accuracy,) = joblib.Parallel()([joblib.delayed(attack.accuracy)(NOISE, draws=50)])
    for case, leak, eta in zip(cases, leaks, etas, strict=True):
        np.testing.assert_allclose(leak.per_example(), case.leak(NOISE).per_example(), rtol=1e-14)
        np.testing.assert_allclose(eta, leak.per_example(), rtol=1e-14)
    np.testing.assert_array_equal(accuracy, attack.accuracy(NOISE, draws=50))

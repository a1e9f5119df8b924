"""Whether a row was in: closed forms, and simulated releases that are told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression, Ridge

import fisherleak as fl
from attacks.clinic import DOSE, MODELS, TABLE
from cases import make
from copies import copies
from fisherleak.protection.calibrate.remade_noise import MadeAnew

NOISE = fl.Gaussian(0.02)
SHAPED = fl.Gaussian(0.02, np.diag([1.0, 4.0, 0.5, 1.0]) + 0.2)


def attack_on(loss: str = "squared", **options: Any) -> fl.attacks.Membership:
    case = make(loss, 2, 40, 3, intercept=True)
    return fl.attacks.Membership(case.fit(), case.X, case.y, **options)


@pytest.mark.parametrize("noise", [NOISE, SHAPED])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_closed_forms_are_those_of_the_leakage(loss: str, noise: fl.Gaussian) -> None:
    case = make(loss, 2, 40, 3, intercept=True)
    attack = attack_on(loss)
    mu = case.leak(noise).membership(1e-8)
    np.testing.assert_allclose(attack.mu(noise), mu, rtol=1e-9)
    np.testing.assert_allclose(attack.auc(noise), norm.cdf(mu / np.sqrt(2)), rtol=1e-9)
    np.testing.assert_allclose(attack.accuracy(noise), norm.cdf(mu / 2), rtol=1e-9)
    rates = [0.001, 0.01, 0.1]
    expected = norm.cdf(norm.ppf(rates)[None, :] + mu[:, None])
    np.testing.assert_allclose(attack.true_positive_rate(noise, rates), expected, rtol=1e-7)
    np.testing.assert_allclose(attack.true_positive_rate(noise), expected[:, 1], rtol=1e-7)
    some = attack_on(loss, rows=[3, 5])
    np.testing.assert_allclose(some.mu(noise), mu[[3, 5]], rtol=1e-9)


@pytest.mark.parametrize("noise", [NOISE, SHAPED])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_simulated_releases_are_told_as_often_as_the_closed_form_says(loss: str, noise: fl.Gaussian) -> None:
    """100,000 releases each way: a mu that was 5 % off would be noticed in each of the rows."""
    attack = attack_on(loss, rows=np.arange(4))
    plain = np.asarray(attack.mu(noise))
    noise = noise.rescaled(float(plain.max()) * noise.scale)  # the largest mu is 1
    count = 100_000
    found = attack.simulate(noise, count, random_state=1)
    mu = plain / plain.max()
    for simulated, law in ((found.accuracy, 0.5), (found.auc, np.sqrt(0.5))):
        within = 4 * np.sqrt(0.25 / count)
        np.testing.assert_allclose(simulated, norm.cdf(law * mu), atol=within)
        worst = int(np.argmax(mu))
        for factor in (0.95, 1.05):
            assert abs(simulated[worst] - norm.cdf(law * factor)) > within
    np.testing.assert_allclose(found.true_positive_rate, attack.true_positive_rate(noise), atol=0.01)


def test_models_without_the_row_are_recognised() -> None:
    """A release of the model without the row, with little noise, is taken for what it is; so is one with it."""
    case = make("squared", 2, 40, 3)
    attack = fl.attacks.Membership(case.fit(), case.X, case.y)
    quiet = fl.Gaussian(1e-9)
    assert attack.infer(fl.release(case.fit(), quiet, 0)).all()
    assert attack.infer().all()
    for row in (0, 7):
        weights = np.ones(40)
        weights[row] = 0.0
        other = fl.minimise(case.X, case.y, l2=case.l2, sample_weight=weights)
        said = attack.infer(np.stack([np.asarray(other.theta), np.asarray(case.fit().theta)]), noise=quiet)
        assert said.shape == (2, 40)
        assert not said[0, row]
        assert said[1].all()


def test_noise_that_is_not_normal_is_simulated_by_its_own_density() -> None:
    """Laplace noise in one dimension: the best test at equal odds is right 1 - exp(-|D| / 2 s) / 2 of the time."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 1))
    y = 2 * X[:, 0] + rng.normal(size=30)
    attack = fl.attacks.Membership(fl.minimise(X, y, l2=0.01), X, y)
    noise = fl.Laplace(0.05)
    found = attack.simulate(noise, releases=20_000)
    expected = 1 - 0.5 * np.exp(-np.abs(attack.moves[:, 0]) / (2 * 0.05))
    np.testing.assert_allclose(found.accuracy, expected, atol=0.01)
    assert attack.infer(fl.release(fl.minimise(X, y, l2=0.01), noise, 0)).shape == (30,)
    for closed in (attack.auc, attack.accuracy, attack.true_positive_rate):
        with pytest.raises(fl.InvalidInputError, match="noise must be normal for membership"):
            closed(noise)


def test_rows_without_a_model_are_certain() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), (np.arange(40) == 3) * 1.0
    attack = fl.attacks.Membership(fl.minimise(X, y, "logistic", 1e-2, intercept=True), X, y, rows=[2, 3])
    assert attack.auc(NOISE)[1] == attack.accuracy(NOISE)[1] == attack.true_positive_rate(NOISE)[1] == 1
    found = attack.simulate(fl.Gaussian(10.0), releases=50)
    assert found.auc[1] == found.accuracy[1] == found.true_positive_rate[1] == 1
    assert found.accuracy[0] < 1


def test_a_row_without_which_no_covariance_is_known_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    covariances = MadeAnew.covariances

    def one_is_lost(self: MadeAnew, sets: Any) -> Any:
        found = covariances(self, sets)
        found[0] = np.nan
        return found

    monkeypatch.setattr(MadeAnew, "covariances", one_is_lost)
    case = make("squared", 2, 40, 3, intercept=True)
    leak = fl.measure(case.fit(), case.X, case.y, fl.Gaussian(1.0))
    found = attack_on(rows=[2, 3]).simulate(fl.calibrate(leak, 0.1, shape="hessian"), releases=50, random_state=0)
    assert found.auc[0] == found.accuracy[0] == found.true_positive_rate[0] == 1
    assert found.accuracy[1] < 0.7


def test_a_row_without_weight_cannot_be_told() -> None:
    case = make("squared", 2, 40, 3, weighted=True)
    attack = fl.attacks.Membership(case.fit(), case.X, case.y, case.weights, rows=[20])
    assert attack.auc(NOISE)[0] == attack.accuracy(NOISE)[0] == 0.5
    assert attack.true_positive_rate(NOISE, 0.1)[0] == pytest.approx(0.1)
    found = attack.simulate(NOISE, releases=10)
    assert found.auc[0] == found.accuracy[0] == 0.5


@pytest.mark.parametrize("name", ["linear", "logistic", "poisson"])
def test_pipelines(name: str) -> None:
    model, y = MODELS[name]
    model = model.fit(TABLE, y)
    attack = fl.attacks.Membership(model, TABLE, y)
    expected = fl.measure(model, TABLE, y, NOISE).membership(1e-8)
    np.testing.assert_allclose(attack.mu(NOISE), expected, rtol=1e-5)
    assert "correct on average" in str(attack.simulate(NOISE, releases=5))


def test_copies_are_worth_as_much() -> None:
    model, y = MODELS["linear"]
    for used in (False, True):
        attack = fl.attacks.Membership(model.fit(TABLE, y), TABLE, y)
        if used:
            attack.simulate(NOISE, releases=3)
            attack.auc(NOISE)
        for other in copies(attack):
            np.testing.assert_array_equal(other.auc(NOISE), attack.auc(NOISE))
            np.testing.assert_array_equal(other.simulate(NOISE, 9).auc, attack.simulate(NOISE, 9).auc)


@pytest.mark.parametrize(
    ("misuse", "words"),
    [
        (lambda a: a.true_positive_rate(NOISE, 0.0), "at must be a false positive rate between 0 and 1; got 0.0"),
        (lambda a: a.true_positive_rate(NOISE, [0.1, 2]), "got 2"),
        (lambda a: a.simulate(NOISE, releases=0), "releases must be a whole number"),
        (lambda a: a.auc(1.0), "noise must be a noise such as"),
        (lambda a: a.infer(np.zeros(9)), "released must have 4 finite parameters"),
    ],
)
def test_misuse_is_refused_by_name(misuse: Any, words: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=words):
        misuse(attack_on())


def test_lazy_rows_and_loose_models() -> None:
    da = pytest.importorskip("dask.array")
    case = make("squared", 2, 40, 3)
    with pytest.raises(fl.InvalidInputError, match="Attacks need rows in memory"):
        fl.attacks.Membership(Ridge().fit(case.X, case.y), da.from_array(case.X, chunks=20), case.y)
    y = (np.median(DOSE) < DOSE).astype(int)
    X = TABLE[["age"]]
    loose, tight = (LogisticRegression(tol=tol, max_iter=1000).fit(X, y) for tol in (1e-4, 1e-12))
    mu = [fl.attacks.Membership(model, X, y).mu(NOISE) for model in (loose, tight)]
    np.testing.assert_allclose(mu[0], mu[1], rtol=1e-6)


@pytest.mark.parametrize("kind", ["softmax", "two numbers"])
def test_several_outputs_move_as_without_the_row(kind: str) -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(45, 3))
    y: Any = np.argmax(X @ rng.normal(size=(3, 3)) + rng.gumbel(size=(45, 3)), axis=1)
    loss = kind
    if kind == "two numbers":
        loss, y = "squared", X @ rng.normal(size=(3, 2)) + rng.normal(size=(45, 2))
    fit = fl.minimise(X, y, loss, 1e-2, intercept=True)
    attack = fl.attacks.Membership(fit, X, y, rows=[0, 7, 30])
    for at, row in enumerate([0, 7, 30]):
        weights = (np.arange(45) != row) * 1.0
        true = fl.minimise(X, y, loss, 1e-2, weights, intercept=True).theta - fit.theta
        np.testing.assert_allclose(attack.moves[at], true, atol=1e-7 * np.abs(true).max())
    shape = np.diag(np.linspace(0.5, 2.0, fit.theta.shape[0]))
    for noise in (fl.Gaussian(0.05), fl.Gaussian(0.05, shape)):
        mu = fl.measure(fit, X, y, noise).membership(1e-8)[[0, 7, 30]]
        np.testing.assert_allclose(attack.mu(noise), mu, rtol=1e-6)
        told = attack.simulate(noise.rescaled(noise.scale * float(mu.max())), 20_000)
        expected = attack.auc(noise.rescaled(noise.scale * float(mu.max())))
        assert np.abs(told.auc - expected).max() < 0.015
    assert attack.infer().all()


def test_the_only_row_of_a_class_is_told_for_certain() -> None:
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    y[5] = 2
    attack = fl.attacks.Membership(fl.minimise(X, y, "softmax", 1e-2, intercept=True), X, y, rows=[4, 5])
    assert np.isfinite(attack.mu(NOISE)[0])
    assert np.isinf(attack.mu(NOISE)[1])
    assert attack.auc(NOISE)[1] == 1.0


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_people_are_in_with_all_their_rows_or_not_at_all(loss: str) -> None:
    """Closed forms are those of the leakage, and simulated releases of fits without a person are told as often."""
    case = make(loss, 2, 40, 3, intercept=True)
    who = np.arange(40) % 7
    attack = attack_on(loss, groups=who)
    mu = case.leak(NOISE).membership_by_group(who, 1e-8)
    assert attack.people == tuple(mu)
    assert repr(attack) == "Membership(7 people)"
    np.testing.assert_allclose(attack.mu(NOISE), list(mu.values()), rtol=1e-9)
    rest = who != 2
    other = fl.minimise(case.X[rest], case.y[rest], case.loss, case.l2 * 40 / rest.sum(), None, True)
    np.testing.assert_allclose(attack.moves[2], other.theta - case.fit().theta, rtol=1e-6, atol=1e-9)
    noise = NOISE.rescaled(float(attack.mu(NOISE).max()) * NOISE.scale)
    found = attack.simulate(noise, 20_000, random_state=1)
    np.testing.assert_allclose(found.accuracy, attack.accuracy(noise), atol=4 * np.sqrt(0.25 / 20_000))
    assert attack.infer(case.fit(), fl.Gaussian(1e-6)).all()
    assert not attack.infer(other, fl.Gaussian(1e-6))[2]


def test_people_and_rows_are_not_attacked_at_once() -> None:
    with pytest.raises(fl.InvalidInputError, match="rows and groups cannot both be given"):
        attack_on(rows=[1], groups=np.arange(40))
    with pytest.raises(
        fl.InvalidInputError, match="under Posterior is known when one row is removed, not when several are"
    ):
        attack_on(groups=np.arange(40) % 5).simulate(fl.Posterior(1.0), 10)  # type: ignore[arg-type]


def test_people_of_several_classes() -> None:
    rng = np.random.default_rng(0)
    X, who = rng.normal(size=(60, 2)), np.arange(60) % 6
    y = np.argmax(X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(60, 3)), axis=1)
    fit = fl.minimise(X, y, "softmax", 1e-2, intercept=True)
    mu = fl.measure(fit, X, y, NOISE).membership_by_group(who, 1e-8)
    np.testing.assert_allclose(fl.attacks.Membership(fit, X, y, groups=who).mu(NOISE), list(mu.values()), rtol=1e-6)

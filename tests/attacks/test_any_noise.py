"""Attackers under noise that is not normal, against brute force: own refits, own density, own draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fisherleak as fl
from cases import EVERY_ATTACKER
from fisherleak._support.arrays import host
from fisherleak.attacks import likelihoods

Vector = NDArray[np.float64]
N, P, L2 = 40, 8, 0.02
SCALE = 0.2
DRAWS = 1500


@dataclass(frozen=True)
class Problem:
    """A binary column among others, and the parameters that a fit has when one row takes one value: (2, n, p)."""

    X: Vector
    y: Vector
    prior: Vector
    refits: Vector

    def attack(self, use_prior: bool, **options: Any) -> fl.attacks.WhiteBox:
        fit = fl.minimise(self.X, self.y, l2=L2)
        return fl.attacks.WhiteBox(fit, self.X, self.y, 0, use_prior=use_prior, **options)


def solved(X: Vector, y: Vector) -> Vector:
    return np.asarray(np.linalg.solve(X.T @ X + N * L2 * np.eye(P), X.T @ y), dtype=np.float64)


def problem(values: int = 2) -> Problem:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, P))
    X[:, 0] = rng.choice(values, size=N, p=[0.7, 0.3] if values == 2 else None)
    # small residuals beside a large coefficient: a value moves all parameters, and densities differ most from distances
    y = X @ np.append(5.0, rng.normal(size=P - 1)) + 0.3 * rng.normal(size=N)
    refits = np.empty((values, N, P))
    for value in range(values):
        for i in range(N):
            other = X.copy()
            other[i, 0] = value
            refits[value, i] = solved(other, y)
    return Problem(X, y, np.bincount(X[:, 0].astype(int)) / N, refits)


def laplace_log_density(b: Vector) -> Vector:
    return np.asarray(-np.abs(b).sum(axis=-1) / SCALE - b.shape[-1] * np.log(2 * SCALE))


def brute_force(case: Problem, released: Vector, prior: Vector) -> NDArray[np.int64]:
    """The most probable value of each row, given releases (T, n, p) that each row sees."""
    score = [laplace_log_density(released - refit) + np.log(p) for refit, p in zip(case.refits, prior, strict=True)]
    return np.asarray(np.argmax(score, axis=0))


@pytest.mark.parametrize("use_prior", [False, True])
def test_guesses_are_those_of_brute_force(use_prior: bool) -> None:
    case = problem()
    attack = case.attack(use_prior)
    noise = fl.Laplace(SCALE)
    released = solved(case.X, case.y) + np.random.default_rng(1).laplace(scale=SCALE, size=(DRAWS, P))
    prior = case.prior if use_prior else np.ones(2)
    expected = brute_force(case, released[:, None, :], prior)
    np.testing.assert_array_equal(attack.infer(released, noise=noise), expected)
    right = (expected == case.X[:, 0]).mean(axis=0)
    outcome = attack.against(released, noise=noise)
    assert outcome.accuracy == pytest.approx(right.mean())
    # other draws of the same noise: all rows share a release, so that the error is that of releases
    by_release = (expected == case.X[:, 0]).mean(axis=1)
    error = by_release.std() * np.sqrt(2 / DRAWS)
    assert attack.accuracy(noise, draws=DRAWS).mean() == pytest.approx(right.mean(), abs=5 * error)
    assert attack.against(noise, draws=DRAWS).accuracy == pytest.approx(right.mean(), abs=5 * error)
    assert attack.against(noise, draws=50).trials == 50


def test_the_most_probable_value_is_right_as_often_as_can_be() -> None:
    """Values from the prior: true MAP by brute force, the attacker, and one who takes the noise for a Gaussian."""
    case = problem()
    rng = np.random.default_rng(2)
    truth = rng.choice(2, size=(DRAWS, N), p=case.prior)
    own = case.refits[truth, np.arange(N)]
    b = rng.laplace(scale=SCALE, size=(DRAWS, P))
    best = (brute_force(case, own + b[:, None, :], case.prior) == truth).mean(axis=1)
    knowing = case.attack(use_prior=True)
    expected = knowing.accuracy(fl.Laplace(SCALE), draws=DRAWS, over="prior").mean()
    assert expected == pytest.approx(best.mean(), abs=5 * best.std() * np.sqrt(2 / DRAWS))
    # the same releases, scored by distance with the right variance
    variance = 2 * SCALE**2
    apart = [np.log(p) - ((own + b[:, None] - refit) ** 2).sum(axis=2) / (2 * variance)
             for refit, p in zip(case.refits, case.prior, strict=True)]  # fmt: skip
    by_distance = (np.argmax(apart, axis=0) == truth).mean(axis=1)
    lost = best - by_distance
    assert lost.mean() > 10 * lost.std() / np.sqrt(DRAWS)
    assert lost.mean() > 0.02
    assert best.mean() > case.prior.max() + 0.02


def test_the_attacker_who_takes_it_for_a_gaussian_is_worse_on_the_same_draws() -> None:
    case = problem()
    released = solved(case.X, case.y) + np.random.default_rng(3).laplace(scale=SCALE, size=(DRAWS, P))
    plain = case.attack(use_prior=False)
    truth = case.X[:, 0]
    by_density = (plain.infer(released, noise=fl.Laplace(SCALE)) == truth).mean(axis=1)
    by_distance = (plain.infer(released) == truth).mean(axis=1)
    lost = by_density - by_distance
    assert lost.mean() > 5 * lost.std() / np.sqrt(DRAWS)


def test_no_row_is_below_the_prior() -> None:
    case = problem()
    for scale in (1e-3, 0.2, 1.0, 100.0):
        accuracy = case.attack(use_prior=True).accuracy(fl.Laplace(scale), draws=400, over="prior")
        assert (accuracy > case.prior.max() - 5 * np.sqrt(0.25 / 400)).all()
    assert case.attack(use_prior=True).accuracy(fl.Laplace(1e3), over="prior").mean() == pytest.approx(case.prior.max())


@pytest.mark.parametrize("use_prior", [False, True])
def test_over_the_prior_simulation_and_closed_form_agree(use_prior: bool) -> None:
    attack = problem(3).attack(use_prior)
    for noise in (fl.Gaussian(0.3), fl.Gaussian(0.1, np.diag(np.arange(1.0, P + 1)))):
        simulated = attack._simulated_over_prior(noise, 4000, 0)
        assert np.abs(simulated - attack.accuracy(noise, over="prior")).max() < 5 * np.sqrt(0.25 / 4000)


def test_more_candidates_than_a_closed_form_has_over_the_prior() -> None:
    case = problem(4)
    attack = case.attack(use_prior=True)
    accuracy = attack.accuracy(fl.Gaussian(0.2), draws=300, over="prior")
    assert accuracy.shape == (N,)
    assert accuracy.mean() > case.prior.max()


def test_memory_is_bounded_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(3)
    attack, noise = case.attack(use_prior=True), fl.Laplace(SCALE)
    sizes: list[int] = []

    def watched(self: Any, b: Vector) -> Vector:
        sizes.append(b.size)
        return laplace_log_density(b)

    whole = attack.accuracy(noise, draws=70)
    monkeypatch.setattr(fl.Laplace, "log_density", watched)
    for coordinates in (1, 7 * P, 100 * P):
        monkeypatch.setattr(likelihoods, "COORDINATES", coordinates)
        monkeypatch.setattr("fisherleak.attacks.base.GUESSES_AT_ONCE", 9 * N)
        np.testing.assert_array_equal(attack.accuracy(noise, draws=70), whole)
        assert max(sizes) <= max(coordinates, P)
        sizes.clear()


@pytest.mark.parametrize("attacker", EVERY_ATTACKER)
@pytest.mark.parametrize("kind", list(fl.NOISES))
def test_every_attacker_takes_every_noise(attacker: type[fl.attacks.Attacker], kind: str) -> None:
    case = problem()
    attack = attacker(fl.minimise(case.X, case.y, l2=L2), case.X, case.y, 0)
    noise = fl.NOISES[kind].from_record({"kind": kind, "scale": SCALE})
    accuracy = attack.accuracy(noise, draws=40)
    assert accuracy.shape == (N,)
    outcome = attack.against(noise, draws=40)
    assert outcome.low <= outcome.accuracy <= outcome.high
    releases = attack.target.given + noise.draws(3, P, np.random.default_rng(5))
    np.testing.assert_array_equal(attack._drawn(noise, 3, 5), releases)
    wrong: list[Any] = [0.1, kind, object()]
    for missing in wrong:
        with pytest.raises(fl.InvalidInputError, match="noise must be a noise"):
            attack.accuracy(missing)


def test_every_array_library_has_the_same_guesses(to_backend: Callable[[Any], Any]) -> None:
    case = problem()
    released = solved(case.X, case.y) + np.random.default_rng(4).laplace(scale=SCALE, size=(30, P))
    X, y = to_backend(case.X), to_backend(case.y)
    for use_prior in (False, True):
        attack = fl.attacks.WhiteBox(fl.minimise(X, y, l2=L2), X, y, 0, use_prior=use_prior)
        guesses = attack.infer(released, noise=fl.Laplace(SCALE))
        assert type(guesses) is type(X)
        np.testing.assert_array_equal(host(guesses), case.attack(use_prior).infer(released, noise=fl.Laplace(SCALE)))
        for over in ("rows", "prior"):
            accuracy = attack.accuracy(fl.Laplace(SCALE), draws=20, over=over)
            expected = case.attack(use_prior).accuracy(fl.Laplace(SCALE), draws=20, over=over)
            np.testing.assert_allclose(host(accuracy), expected, rtol=1e-12)


def test_releases_bring_their_noise() -> None:
    case = problem()
    fit = fl.minimise(case.X, case.y, l2=L2)
    noise = fl.Laplace(SCALE)
    for use_prior in (False, True):
        attack = case.attack(use_prior)
        several = [fl.release(fit, noise, seed) for seed in range(20)]
        parameters = np.stack([each.coef for each in several])
        expected = attack.infer(parameters, noise=noise)
        np.testing.assert_array_equal(attack.infer(several), expected)
        np.testing.assert_array_equal(attack.infer(several[0]), expected[0])
    mixed = [fl.release(fit, noise, 0), fl.release(fit, fl.Gaussian(SCALE), 0)]
    np.testing.assert_array_equal(
        case.attack(False).infer(mixed), case.attack(False).infer(np.stack([each.coef for each in mixed]))
    )
    with pytest.raises(fl.InvalidInputError, match="must know the noise"):
        case.attack(True).infer(mixed)


def test_a_shell_brings_its_noise() -> None:
    from sklearn.linear_model import Ridge

    case = problem()
    options: dict[str, Any] = {
        "eta": 1.0,
        "over": "max",
        "noise": fl.Laplace(1.0),
        "keep_unperturbed": True,
        "random_state": 0,
    }
    shell = fl.PrivateRelease(Ridge(alpha=N * L2, fit_intercept=False), **options).fit(case.X, case.y)
    attack = fl.attacks.WhiteBox(shell.unperturbed_, case.X, case.y, 0, use_prior=True)
    np.testing.assert_array_equal(attack.infer(shell), attack.infer(shell.estimator_, noise=shell.noise_))


def test_densities_that_cannot_rank_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = problem().attack(use_prior=True)
    for wrong in (lambda self, b: np.full(b.shape[:-1], np.nan), lambda self, b: np.zeros(b.shape)):
        monkeypatch.setattr(fl.Laplace, "log_density", wrong)
        with pytest.raises(fl.InvalidInputError, match=r"Laplace\.log_density must give one number below infinity"):
            attack.accuracy(fl.Laplace(1.0), draws=3)


def test_noise_that_rules_candidates_out() -> None:
    """A density of zero is minus infinity: what cannot have been is never guessed while another can."""

    class Uniform(fl.Laplace):
        def draws(self, count: int, size: int, rng: np.random.Generator) -> Vector:
            return rng.uniform(-self.scale, self.scale, size=(count, size))

        def log_density(self, b: Vector) -> Vector:
            return np.where((np.abs(b) <= self.scale).all(axis=-1), -b.shape[-1] * np.log(2 * self.scale), -np.inf)

    case = problem()
    attack = case.attack(use_prior=True)
    noise = Uniform(SCALE)
    released = attack._drawn(noise, 200, 0)
    possible = np.abs(released[:, None, None, :] - case.refits[None]).max(axis=3) <= SCALE  # (T, 2, n)
    guesses = attack.infer(released, noise=noise).astype(int)
    assert np.take_along_axis(possible, guesses[:, None, :], axis=1).all()
    only = possible.sum(axis=1) == 1
    assert (guesses == case.X[:, 0])[only].all()
    assert (guesses[~only] == np.argmax(case.prior)).all()

"""A noise is what it says: its information is the covariance of its score, its draws follow its density."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import ks_2samp, kstest

import fisherleak as fl
from cases import make
from copies import copies
from fisherleak.engine.noise import check_noise, drawn, grid_of, noise_from_record, released
from fisherleak.engine.noise.noise import is_alike

Vector = NDArray[np.float64]
DRAWS = 200_000
ONE_BY_ONE = 50_000
ON_THE_LINE = 120_000
SHAPE = np.array([[2.0, 0.9], [0.9, 0.7]])
SIZE = 2


@dataclass(frozen=True)
class Logistic:
    """Defined outside the package: logistic noise, whose information is a third of the identity."""

    scale: float

    def __post_init__(self) -> None:
        if not (isinstance(self.scale, float) and 0 < self.scale < math.inf):
            raise fl.InvalidInputError(f"scale must be a finite number greater than zero; got {self.scale!r}.")

    @property
    def normal(self) -> bool:
        return False

    def unit_information_root(self, size: int) -> Vector:
        return np.eye(size) / math.sqrt(3.0)

    def rescaled(self, scale: float) -> Logistic:
        return replace(self, scale=scale)

    def draw(self, size: int, random_state: Any = None) -> Vector:
        return np.asarray(self.draws(1, size, np.random.default_rng(random_state))[0])

    def draws(self, count: int, size: int, rng: np.random.Generator) -> Vector:
        return rng.logistic(scale=self.scale, size=(count, size))

    def log_density(self, b: Vector) -> Vector:
        u = np.abs(b) / self.scale
        return np.asarray(np.sum(-u - 2.0 * np.log1p(np.exp(-u)) - math.log(self.scale), axis=-1))

    def record(self) -> dict[str, Any]:
        return {"kind": "Own", "scale": self.scale}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Logistic:
        return cls(record["scale"])


def made(kind: str, scale: float) -> fl.Noise:
    return fl.NOISES[kind].from_record({"kind": kind, "scale": scale})


@pytest.fixture
def logistic() -> Iterator[type[Logistic]]:
    """One file and one list: the class above, and its name in NOISES while a test runs."""
    fl.NOISES["Own"] = Logistic
    yield Logistic
    del fl.NOISES["Own"]


CASES: dict[str, Any] = {name: made(name, 0.3) for name in fl.NOISES} | {
    "shaped Gaussian": fl.Gaussian(0.3, SHAPE),
    "one from outside": Logistic(0.3),
}
every_noise = pytest.mark.parametrize("noise", CASES.values(), ids=CASES.keys())


def information(noise: fl.Noise, size: int = SIZE) -> Vector:
    root = noise.unit_information_root(size)
    return (np.eye(size) if root is None else root.T @ root) / noise.scale**2


def on_the_line(noise: Any) -> Any:
    """The same noise on one parameter."""
    return replace(noise, shape=SHAPE[:1, :1]) if getattr(noise, "shape", None) is not None else noise


def off(noise: Any, factor: float) -> Any:
    return noise.rescaled(noise.scale * factor)


# Information, density and draws agree


def whitened(noise: fl.Noise, claimed: fl.Noise) -> Vector:
    """Covariance of the score, by finite differences of the density, in units of the information that is claimed."""
    b, weights = sample(noise)
    h = 1e-5 * noise.scale
    score = np.stack([(noise.log_density(b + h * e) - noise.log_density(b - h * e)) / (2 * h) for e in np.eye(SIZE)])
    score *= np.sqrt(weights)
    assert np.abs((score * np.sqrt(weights)).mean(axis=1)).max() < 5 * score.std() / math.sqrt(DRAWS)
    root = np.linalg.inv(np.linalg.cholesky(information(claimed)))
    return np.asarray(root @ (score @ score.T / DRAWS) @ root.T)


def sample(noise: fl.Noise) -> tuple[Vector, Vector]:
    """Draws with weights. The score of bounded noise has no fourth moment, so that draws of its own would settle slowly."""
    rng = np.random.default_rng(0)
    if not isinstance(noise, fl.Bounded):
        return noise.draws(DRAWS, SIZE, rng), np.ones(DRAWS)
    b = 0.9999 * noise.limit * rng.uniform(-1.0, 1.0, (DRAWS, SIZE))
    return b, np.exp(noise.log_density(b)) * (2.0 * noise.limit) ** SIZE


@every_noise
def test_information_is_the_covariance_of_the_score(noise: fl.Noise) -> None:
    np.testing.assert_allclose(whitened(noise, noise), np.eye(SIZE), atol=0.015)


@every_noise
@pytest.mark.parametrize("share", [0.95, 1.05])
def test_information_five_percent_off_is_rejected(noise: fl.Noise, share: float) -> None:
    wrong = off(noise, share**-0.5)
    assert information(wrong)[0, 0] == pytest.approx(share * information(noise)[0, 0])
    assert np.abs(whitened(noise, wrong) - np.eye(SIZE)).max() > 0.03


def nodes(scale: float) -> tuple[Vector, Vector]:
    """Points and weights over the real line, from panels that meet where a density may have a kink: at zero and one scale."""
    x, w = np.polynomial.legendre.leggauss(8)
    edges = np.sort(np.append(np.linspace(0.0, 8.0, 25), np.arcsinh(1.0)))
    t = np.concatenate([0.5 * (b - a) * x + 0.5 * (a + b) for a, b in pairwise(edges)])
    w = np.concatenate([0.5 * (b - a) * w for a, b in pairwise(edges)])
    points, weights = scale * np.sinh(t), scale * np.cosh(t) * w
    return np.concatenate([-points[::-1], points]), np.concatenate([weights[::-1], weights])


@every_noise
def test_density_integrates_to_one(noise: Any) -> None:
    for one in (off(on_the_line(noise), 1.05), on_the_line(noise)):
        x, w = nodes(one.scale)
        assert w @ np.exp(one.log_density(x[:, None])) == pytest.approx(1.0, abs=1e-9)
    plane = np.exp(noise.log_density(np.stack(np.meshgrid(x, x), axis=-1)))
    assert w @ plane @ w == pytest.approx(1.0, abs=1e-6)


def ks(noise: Any, claimed: Any) -> float:
    """Chance of draws as far from the claimed density's distribution as these."""
    x, w = nodes(claimed.scale)
    below = np.cumsum(w * np.exp(claimed.log_density(x[:, None])))
    b = noise.draws(ON_THE_LINE, 1, np.random.default_rng(1))[:, 0]
    # between nodes the sum is half a weight short
    return float(kstest(b, lambda at: np.interp(at, x, below - 0.5 * np.diff(below, prepend=0.0))).pvalue)


@every_noise
def test_draws_follow_the_density(noise: Any) -> None:
    one = on_the_line(noise)
    assert ks(one, one) > 1e-3
    for factor in (0.95, 1.05):
        assert ks(off(one, factor), one) < 1e-6


@every_noise
def test_parameters_are_drawn_with_the_density_s_covariance(noise: Any) -> None:
    """Moments over the plane, by quadrature, against those of the draws; a scale 5 % off is told apart."""
    x, w = nodes(noise.scale)
    plane = np.stack(np.meshgrid(x, x), axis=-1)
    mass = np.exp(noise.log_density(plane)) * np.outer(w, w)
    covariance = np.einsum("ij,ija,ijb->ab", mass, plane, plane)
    size = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    for factor, close in ((0.95, False), (1.0, True), (1.05, False)):
        drawn_ones = off(noise, factor).draws(DRAWS, SIZE, np.random.default_rng(2))
        apart = np.abs(np.cov(drawn_ones.T) - covariance) / size
        assert (apart.max() < 0.025) == close


# Records, copies, scales, seeds


@every_noise
def test_a_record_brings_the_noise_back(noise: fl.Noise, logistic: type[Logistic]) -> None:
    record = json.loads(json.dumps(noise.record()))
    assert record["kind"] in fl.NOISES
    assert noise_from_record(record) == noise


@every_noise
def test_copies_are_equal_and_do_as_the_original(noise: fl.Noise) -> None:
    for other in (*copies(noise), copy.copy(noise)):
        assert other == noise
        assert hash(other) == hash(noise)
        np.testing.assert_array_equal(other.draw(SIZE, 3), noise.draw(SIZE, 3))
        if isinstance(other, fl.Gaussian) and other.shape is not None:
            assert not other.shape.flags.writeable
    assert noise != off(noise, 2.0)


@every_noise
@pytest.mark.parametrize("factor", [1e-6, 0.5, 3.0, 1e9])
def test_a_scale_multiplies_the_noise_and_divides_the_root_of_its_information(noise: Any, factor: float) -> None:
    other = off(noise, factor)
    assert type(other) is type(noise)
    assert other.scale == noise.scale * factor
    np.testing.assert_allclose(information(other), information(noise) / factor**2, rtol=1e-12)
    b = noise.draws(50, SIZE, np.random.default_rng(0))
    np.testing.assert_allclose(other.draws(50, SIZE, np.random.default_rng(0)), factor * b, rtol=1e-12)
    np.testing.assert_allclose(other.log_density(factor * b), noise.log_density(b) - SIZE * math.log(factor), rtol=1e-9)


@every_noise
@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, "0.1", None, True, np.array([1.0])])
def test_bad_scales_are_refused(noise: fl.Noise, scale: Any) -> None:
    with pytest.raises(fl.InvalidInputError, match=r"(scale|limit) must be"):
        noise.rescaled(scale)


@every_noise
def test_seeds_repeat_and_no_seed_does_not(noise: fl.Noise) -> None:
    np.testing.assert_array_equal(noise.draw(SIZE, 3), noise.draw(SIZE, 3))
    assert (noise.draw(SIZE) != noise.draw(SIZE)).all()


@every_noise
def test_many_draws_are_single_draws_in_a_row(noise: fl.Noise) -> None:
    one, many = np.random.default_rng(5), np.random.default_rng(5)
    in_a_row = np.stack([noise.draw(SIZE, one) for _ in range(6)])
    # a matrix product of one row may round otherwise than one of many
    np.testing.assert_allclose(noise.draws(6, SIZE, many), in_a_row, rtol=1e-13)
    np.testing.assert_array_equal(drawn(noise, 6, SIZE, 5), noise.draws(6, SIZE, np.random.default_rng(5)))


@every_noise
def test_what_says_that_it_is_alike_is_the_same_on_each_number_and_tells_nothing_of_others(noise: Any) -> None:
    """Grids and blocks of answers take what holds for one number as what holds for all."""
    b = noise.draws(50, SIZE, np.random.default_rng(0))
    if is_alike(noise):
        np.testing.assert_allclose(information(noise), information(noise, 1)[0, 0] * np.eye(SIZE), rtol=1e-12)
        np.testing.assert_allclose(
            noise.log_density(b), noise.log_density(b.reshape(-1, 1)).reshape(b.shape).sum(axis=1)
        )
        drawn_one_by_one = noise.draws(50 * SIZE, 1, np.random.default_rng(0)).reshape(b.shape)
        np.testing.assert_array_equal(b, drawn_one_by_one)
    assert is_alike(noise) == (noise not in (CASES["shaped Gaussian"], CASES["one from outside"]))


def test_answers_with_noise_that_is_alike_are_taken_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A noise from outside says so as the package's own do; one that does not is taken whole, and tells the same."""

    class Alike(Logistic):
        alike = True

    sizes: list[int] = []
    root = Logistic.unit_information_root

    def seen(noise: Logistic, size: int) -> Vector:
        sizes.append(size)
        return root(noise, size)

    monkeypatch.setattr(Logistic, "unit_information_root", seen)
    case = make("squared", n=30)
    fit = case.fit()
    etas = []
    for kind, own in ((Logistic, 30), (Alike, 1)):
        sizes.clear()
        etas.append(fl.measure(fit, case.X, case.y, fl.Answers(case.X, kind(0.3))).per_example())
        assert set(sizes) == {own}
    np.testing.assert_allclose(etas[1], etas[0], rtol=1e-10)
    sizes.clear()
    alike: Any = Alike(0.3)
    grid_of(alike, 500)
    assert sizes == [1]


def test_what_is_no_noise_is_told_what_it_lacks() -> None:
    class Half:
        scale = 1.0
        normal = True

        def unit_information_root(self, size: int) -> None:
            return None

    with pytest.raises(
        fl.InvalidInputError, match="Half lacks draw, draws, from_record, log_density, record, rescaled"
    ):
        check_noise(Half())
    for thing in (0.1, fl.Laplace, "Laplace", None):
        with pytest.raises(fl.InvalidInputError, match="noise must be a noise such as"):
            check_noise(thing)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"kind": "Laplas", "scale": 1.0}, "'Laplas', which is not known. Did you mean 'Laplace'"),
        ({"scale": 1.0}, "noise is of kind None"),
        ({"kind": "Laplace"}, "'Laplace' must have 'scale', which its record lacks"),
        ({"kind": "Gaussian", "scale": "wide"}, "scale must be a number"),
        ({"kind": "Gaussian", "scale": 1.0, "shape": [[1.0, 0.0], [1.0]]}, "shape must be"),
    ],
)
def test_records_that_tell_of_no_noise(record: dict[str, Any], message: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=message):
        noise_from_record(record)


def test_draws_of_another_shape_are_refused_by_name(logistic: type[Logistic]) -> None:
    class Wrong(Logistic):
        def draws(self, count: int, size: int, rng: np.random.Generator) -> Vector:
            return rng.logistic(size=size)

    case = make("squared")
    wrong: Any = Wrong(1.0)
    with pytest.raises(fl.InvalidInputError, match=r"Wrong.draws\(1, 3, rng\) must give 1 x 3 finite numbers"):
        fl.release(case.fit(), wrong)


# What is released


@every_noise
@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e12])
def test_what_is_released_lies_on_a_grid(noise: Any, factor: float) -> None:
    noise = off(noise, factor)
    grid = grid_of(noise, SIZE)
    np.testing.assert_array_equal(np.frexp(grid)[0], 0.5)  # powers of two
    theta = np.array([math.pi, -math.e]) * factor
    for seed in (None, 3):
        found = released(theta, noise, seed)
        np.testing.assert_array_equal(np.fmod(found, grid), 0.0)
    assert np.all(np.abs(found - theta - noise.draw(SIZE, 3)) <= 0.51 * grid)
    # as coarse as can be at 1024 steps in the standard deviation of each parameter, all others known
    least = 1.0 / np.sqrt(np.diag(information(noise)))
    assert np.all((least / 2048 < grid) & (grid <= least / 1024))


def test_the_grid_hides_last_bits_in_whatever_shape() -> None:
    """A direction with next to no noise would ask for a grid as fine as floats are."""
    root = np.linalg.inv(np.linalg.cholesky(np.array([[1.0, 1.0 - 1e-14], [1.0 - 1e-14, 1.0]])))
    thin: Any = SimpleNamespace(scale=1.0, unit_information_root=lambda size: root)
    assert np.all((grid_of(thin, 2) >= 2.0**-31) & (grid_of(thin, 2) <= 2.0**-29))
    np.testing.assert_array_equal(grid_of(fl.Gaussian(1.0, np.diag([4.0, 1.0])), 2), [2.0**-9, 2.0**-10])
    assert grid_of(fl.Bounded(1.0), 10**6).shape == (10**6,)  # without a matrix of that size
    np.testing.assert_array_equal(grid_of(fl.Bounded(1.0), 3), grid_of(fl.Bounded(1.0), 1)[0])
    np.testing.assert_array_equal(grid_of(fl.Gaussian(1.0), 2), 2.0**-10)
    assert grid_of(fl.Gaussian(5e-324), 1) == 5e-324


def test_large_parameters_stay_and_hopeless_ones_are_refused() -> None:
    theta = np.array([1e9, 1.0])
    assert abs(released(theta, fl.Gaussian(1e-3), 0) - theta).max() < 1e-2
    with pytest.raises(fl.InvalidInputError, match=r"noise of scale 1e-06 is too small beside a parameter of 1e\+09"):
        released(theta, fl.Gaussian(1e-6), 0)
    with pytest.raises(fl.InvalidInputError, match=r"noise of scale 1e-09 is too small beside a parameter of 1e\+09"):
        released(theta, fl.Gaussian(1e-9), 0)


@every_noise
def test_without_a_seed_the_law_is_the_same(noise: Any) -> None:
    """From the system's randomness as from a seed."""
    one, other = drawn(noise, 20_000, SIZE), noise.draws(20_000, SIZE, np.random.default_rng(0))
    for k in range(SIZE):
        assert ks_2samp(one[:, k], other[:, k]).pvalue > 1e-4
    correlations = [float(np.asarray(np.corrcoef(values.T))[0, 1]) for values in (one, other)]
    assert correlations[0] == pytest.approx(correlations[1], abs=0.05)


@pytest.mark.parametrize("kind", [*fl.NOISES, "Own"])
def test_a_noise_from_a_list_goes_all_the_way(kind: str, logistic: type[Logistic]) -> None:
    """Measure, calibrate, release, attack: nothing else has to know the noise."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), rng.integers(0, 2, size=60)])
    y = X @ [1.0, 0.5] + rng.normal(size=60)
    fit = fl.minimise(X, y, l2=1e-2, intercept=True)
    unit = made(kind, 1.0)
    leak = fl.measure(fit, X, y, unit)
    share = information(unit, 3)[0, 0]
    np.testing.assert_allclose(leak.per_example(), math.sqrt(share) * fl.measure(fit, X, y).per_example(), rtol=1e-12)
    noise = fl.calibrate(leak, eta=2.0)
    assert type(noise) is type(unit)
    assert 2.0 * (1 - 1e-9) < leak.with_noise(noise).per_example().max() <= 2.0
    given = fl.release(fit, noise.rescaled(noise.scale), 3)
    assert given.noise == noise
    moved = np.append(given.coef, given.intercept) - fit.theta
    np.testing.assert_allclose(moved, noise.draw(3, 3), atol=0.51 * grid_of(noise, 3).min())
    for use_prior in (False, True):
        attack = fl.attacks.WhiteBox(fit, X, y, 1, use_prior=use_prior)
        accuracy = attack.accuracy(noise, draws=300)
        assert accuracy.shape == (60,)
        assert 0.5 < accuracy.mean() < 1.0
        assert attack.accuracy(off(noise, 1e-6), draws=50).min() == 1.0
        assert attack.infer(given).shape == (60,)
    with_it = fl.IRFIL(_ridge(), n_iter=3, noise=noise).fit(X, y)
    plain = fl.IRFIL(_ridge(), n_iter=3).fit(X, y)
    np.testing.assert_allclose(with_it.weights_, plain.weights_, rtol=1e-9)
    np.testing.assert_allclose(
        with_it.history_["mean"], math.sqrt(share) / noise.scale * plain.history_["mean"], rtol=1e-9
    )
    private = fl.PrivateRelease(_ridge(), over="max", eta=2.0, noise=unit).fit(X, y)
    assert type(private.noise_) is type(unit)
    assert isinstance(private.leakage_, fl.ReleaseReport)
    assert private.leakage_.eta.max() <= 2.0
    assert fl.trim(_ridge(), X, y, max_eta=1e9, noise=noise).kept.all()


def _ridge() -> Any:
    from sklearn.linear_model import Ridge

    return Ridge(alpha=0.6)


def test_weights_follow_the_shape_of_the_noise() -> None:
    """Directions that the noise hides do not count: IRFIL levels eta as it is with this noise."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    noise = fl.Gaussian(0.5, np.diag([1e4, 1.0, 1.0]))
    model = fl.IRFIL(_ridge(), n_iter=30, accelerate=True, noise=noise).fit(X, y)
    eta = fl.measure(model.estimator_, X, y, noise, sample_weight=model.weights_).per_example()
    assert eta.std() < 1e-3 * eta.mean()
    assert model.history_["mean"][-1] == pytest.approx(eta.mean(), rel=1e-6)
    other = fl.measure(model.estimator_, X, y, sample_weight=model.weights_).per_example()
    assert other.std() > 1e-2 * other.mean()
    number: Any = 0.1
    with pytest.raises(fl.InvalidInputError, match="noise must be a noise"):
        fl.IRFIL(_ridge(), noise=number).fit(X, y)


def distance(noise: fl.Gaussian, claimed: fl.Gaussian) -> float:
    """How far the score's covariance is from the claimed matrix, in standard errors of its trace."""
    case = make("logistic", 3, 20, 2, intercept=True)
    leak = case.leak(claimed)
    rows = [2, 9]
    J = leak._information.jacobians[0].dense(leak._information.jacobians[0].attributes, True)(
        case.X[rows], case.y[rows], None
    )
    flat = np.moveaxis(np.asarray(J), 0, 1).reshape(3, -1)
    rng = np.random.default_rng(0)
    theta = np.asarray(leak.fits[0].theta)
    released = theta + np.stack([noise.draw(3, rng) for _ in range(ONE_BY_ONE)])
    # score of a Gaussian release by the data, under the claimed sigma
    score: NDArray[np.float64] = (released - theta) @ flat / claimed.scale**2
    squares = (score**2).sum(axis=1)
    fim = np.asarray(leak.fim(rows))
    np.testing.assert_allclose(score.mean(axis=0), 0.0, atol=6 * score.std() / np.sqrt(ONE_BY_ONE))
    if noise.scale == claimed.scale:
        np.testing.assert_allclose(np.cov(score.T), fim, atol=0.02 * np.trace(fim))
    return float((squares.mean() - np.trace(fim)) / (squares.std() / np.sqrt(ONE_BY_ONE)))


def test_the_right_sigma_is_accepted() -> None:
    assert abs(distance(fl.Gaussian(0.2), fl.Gaussian(0.2))) < 5


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_a_sigma_five_percent_off_is_rejected(factor: float) -> None:
    assert abs(distance(fl.Gaussian(0.2 * factor), fl.Gaussian(0.2))) > 10

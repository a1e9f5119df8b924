"""Nobody tells better than stated whether a row was in the data where the rows decide the covariance of the noise.

The attacker makes the noise anew without the row, by the same call or by its formula, draws releases with the row and without
it, and takes the likelier of the two: no test is right more often.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import sqrtm
from scipy.special import ndtr
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from often import often

pytestmark = pytest.mark.usefixtures("quick_audits")
Vector = NDArray[np.float64]
DRAWS = 20_000
CLOSE = 0.005
"""As near as said is to what the attacker reaches, with more than four standard errors of so many draws."""
Pair = tuple[Vector, Vector]
"""Mean and covariance of a release."""


@dataclass(frozen=True)
class Data:
    X: Vector
    y: Vector
    loss: str
    l2: float
    weights: Vector | None = None

    def fit(self) -> Any:
        return fl.minimise(self.X, self.y, self.loss, l2=self.l2, sample_weight=self.weights, intercept=True)

    def leak(self) -> Any:
        return fl.measure(self.fit(), self.X, self.y, sample_weight=self.weights)

    def without(self, rows: list[int]) -> Data:
        """The others, with the same n l2."""
        weights = None if self.weights is None else np.delete(self.weights, rows)
        l2 = self.l2 * len(self.y) / (len(self.y) - len(rows))
        return Data(np.delete(self.X, rows, axis=0), np.delete(self.y, rows), self.loss, l2, weights)

    def gram(self) -> Vector:
        """G: the rows, and the penalty over the curvature at no parameters."""
        A = np.column_stack([self.X, np.ones(len(self.y))])
        omega = np.ones(len(self.y)) if self.weights is None else self.weights
        free = np.append(np.ones(self.X.shape[1]), 0.0)
        a = {"squared": 1.0, "logistic": 0.25}[self.loss]
        return np.asarray((A * omega[:, None]).T @ A + len(self.y) * self.l2 / a * np.diag(free))


def made(name: str) -> Data:
    """Three made tables: rows far out, weights, and classes."""
    rng = np.random.default_rng(len(name))
    n = {"far out": 150, "weighted": 200, "classes": 250}[name]
    X = np.clip(rng.standard_t(3 if name == "far out" else 30, size=(n, 3)), -5, 5) + np.array([0.0, 1.0, 0.0])
    y = X @ [1.0, -0.5, 0.0] + rng.normal(size=n)
    y[3] += 5.0
    if name == "classes":
        return Data(X, (y > 0.3).astype(float), "logistic", 0.5)
    return Data(X, np.clip(y, -6, 6), "squared", 0.5, rng.uniform(0.3, 1.0, n) if name == "weighted" else None)


def folded() -> Data:
    """Rows near each other, for scales that move little when one is another."""
    rng = np.random.default_rng(3)
    X = np.clip(rng.normal(size=(400, 3)), -2, 2) * [1.0, 2.0, 0.5]
    y = np.clip(X @ [1.0, -0.5, 0.0] + rng.normal(size=400), -3, 3)
    y[3] = 6.0
    return Data(X, y, "squared", 0.75)


def breast_cancer(columns: int, l2: float) -> Data:
    X, y = load_breast_cancer(return_X_y=True)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    return Data(np.clip(Z, -3, 3)[:, :columns], y.astype(float), "logistic", l2)


def best_test(one: Pair, other: Pair) -> float:
    """How often the likelier of p and q is right, over draws of both: 1/2 + E_p (1 - q / p)+ / 2, and the same of q."""
    rng, pairs = np.random.default_rng(0), (one, other)
    roots = [np.linalg.cholesky(S) for _, S in pairs]

    def density(t: Vector, k: int) -> Vector:
        z = np.linalg.solve(roots[k], (t - pairs[k][0]).T)
        return np.asarray(-0.5 * np.sum(z * z, axis=0) - np.sum(np.log(np.diag(roots[k]))))

    right = []
    for k, (mean, _) in enumerate(pairs):
        t = mean + rng.standard_normal((DRAWS, len(mean))) @ roots[k].T
        right.append(0.5 - 0.5 * float(np.mean(np.expm1(np.minimum(density(t, 1 - k) - density(t, k), 0.0)))))
    return sum(right) / 2


def covariance(noise: Any) -> Vector:
    return np.asarray(noise.scale**2 * noise.shape)


def anew(data: Data, noise: Any) -> Vector:
    """The covariance that noise of a kind and name has for other rows."""
    G, told = data.gram(), noise.calibrated
    B = np.linalg.inv(G)
    if isinstance(noise, fl.Posterior):
        return np.asarray(noise.temperature * B)
    if isinstance(noise, fl.ObjectivePerturbation):
        C = np.eye(len(G)) if noise.shape is None else noise.shape
        return np.asarray(noise.scale**2 * B @ C @ B)
    if told is None or told.shape is None:
        return covariance(noise) if noise.shape is not None else np.asarray(noise.scale**2 * np.eye(len(G)))
    if told.over != "any-record":
        return covariance(fl.calibrate(data.leak(), told.eta, told.over, shape=told.shape))
    if told.shape == "hessian":
        return np.asarray(noise.scale**2 * B)
    raise AssertionError("least loss for anyone needs the rows that were there")


def for_anyone(data: Data, noise: Any, rows: list[int]) -> Vector:
    """S = G^-1 (G # N) G^-1 without rows, N from S with all of them: M = G S G, N = M G^-1 M."""
    G, G0 = data.gram(), data.without(rows).gram()
    M = G @ noise.shape @ G
    N = M @ np.linalg.inv(G) @ M
    root: Vector = np.real(sqrtm(G0))
    back, B0 = np.linalg.inv(root), np.linalg.inv(G0)
    middle = root @ np.real(sqrtm(back @ N @ back)) @ root
    return np.asarray(noise.scale**2 * B0 @ middle @ B0)


def reached(data: Data, noise: Any, rows: list[int]) -> float:
    """What the attacker reaches about some rows."""
    shape = getattr(noise.calibrated, "shape", None)
    both = data, data.without(rows)
    own = covariance(noise) if shape is not None else anew(data, noise)
    other = for_anyone(data, noise, rows) if shape == "least-loss-for-anyone" else anew(both[1], noise)
    return best_test(*zip((each.fit().theta for each in both), (own, other), strict=True))


PUBLIC = np.diag([1.0, 2.0, 0.5, 3.0])
NOISES: dict[str, Callable[[Any], Any]] = {
    "isotropic": lambda leak: fl.calibrate(leak, 0.5, shape="isotropic"),
    "isotropic, any-record": lambda leak: fl.calibrate(leak, 3.0, "any-record", shape="isotropic"),
    "matrix": lambda leak: fl.calibrate(leak, 0.5, shape=PUBLIC),
    "hessian": lambda leak: fl.calibrate(leak, 0.5, shape="hessian"),
    "hessian, any-record": lambda leak: fl.calibrate(leak, 6.0, "any-record", shape="hessian", random_state=0),
    "least-loss": lambda leak: fl.calibrate(leak, 0.5, shape="least-loss"),
    "least-loss, dataset": lambda leak: fl.calibrate(leak, 2.0, "dataset", shape="least-loss"),
    "least-loss, any-record": lambda leak: fl.calibrate(leak, 9.0, "any-record", shape="least-loss", random_state=0),
    "Posterior": lambda leak: fl.Posterior(0.3),
    "ObjectivePerturbation": lambda leak: fl.ObjectivePerturbation(4.0),
    "ObjectivePerturbation of a shape": lambda leak: fl.ObjectivePerturbation(4.0, shape=PUBLIC),
}
DECIDED = [name for name in NOISES if not name.startswith(("isotropic", "matrix"))]


def asked(data: Data, noise: Any, rows: list[int]) -> Vector:
    attack = fl.attacks.Membership(data.fit(), data.X, data.y, data.weights, rows=rows)
    return np.asarray(attack.accuracy(noise))


@pytest.mark.parametrize("table", ["far out", *often(["classes", "weighted"])])
@pytest.mark.parametrize("name", NOISES)
def test_nobody_is_right_more_often_than_stated(name: str, table: str) -> None:
    data = made(table)
    if table == "classes" and name in ("Posterior", "ObjectivePerturbation", "ObjectivePerturbation of a shape"):
        pytest.skip("exact for the squared loss only")
    leak = data.leak()
    noise = NOISES[name](leak)
    rows = [3, int(np.argmax(np.abs(data.X).max(axis=1))), 10]
    said = asked(data, noise, rows)
    shaped = leak.with_noise(noise)
    assert shaped.membership_kind == ("equivalent" if name in DECIDED else "mu")
    for row, right in zip(rows, said, strict=True):
        assert reached(data, noise, [row]) == pytest.approx(right, abs=CLOSE), (name, table, row)
    if not name.startswith("least-loss") or name.endswith("any-record"):
        np.testing.assert_allclose(ndtr(0.5 * shaped.membership(1e-8)[rows]), said, atol=2e-5)


def test_shapes_from_public_rows_are_public() -> None:
    data, others = made("far out"), made("weighted")
    noise: Any = fl.calibrate(data.leak(), 0.5, shape=others.leak())
    assert data.leak().with_noise(noise).membership_kind == "mu"
    (said,) = asked(data, noise, [3])
    assert reached(data, noise, [3]) == pytest.approx(said, abs=CLOSE)


@pytest.mark.parametrize("name", often(["hessian, any-record", "hessian", "least-loss", "least-loss, any-record"]))
def test_breast_cancer(name: str) -> None:
    shape, _, allowed = name.partition(", ")
    data = breast_cancer(5, 1.0) if allowed else breast_cancer(30, 0.1)
    leak = data.leak()
    over: dict[str, Any] = {"over": "any-record", "random_state": 0} if allowed else {}
    noise: Any = fl.calibrate(leak, 20.0 if allowed else 0.3, shape=shape, **over)
    rows = [int(np.argmax(leak.per_example())), 5]
    for row, said in zip(rows, asked(data, noise, rows), strict=True):
        assert reached(data, noise, [row]) == pytest.approx(said, abs=CLOSE)


@pytest.mark.parametrize(("eta", "fixed", "right"), [(0.05, 0.527, 0.809), (0.5, 0.750, 0.870)])
def test_warfarin(eta: float, fixed: float, right: float, data_folder: Path) -> None:
    """Noise of least loss follows row 2158: without the row it is far smaller, and held fixed nobody would know."""
    loaded = fl.datasets.load_iwpc(data_home=data_folder)
    X = np.asarray(loaded.preprocessing.fit_transform(loaded.X), dtype=np.float64)
    fit = fl.minimise(X, loaded.y, l2=0.01)
    leak = fl.measure(fit, X, loaded.y)
    noise: Any = fl.calibrate(leak, eta, shape="least-loss")
    public = leak.with_noise(fl.Gaussian(noise.scale, noise.shape))
    assert ndtr(0.5 * public.membership()[2158]) == pytest.approx(fixed, abs=1e-3)
    (said,) = fl.attacks.Membership(fit, X, loaded.y, rows=[2158]).accuracy(noise)
    assert said == pytest.approx(right, abs=CLOSE)
    others = np.arange(len(loaded.y)) != 2158
    there = fl.minimise(X[others], loaded.y[others], l2=0.01 * len(loaded.y) / others.sum())
    anew: Any = fl.calibrate(fl.measure(there, X[others], loaded.y[others]), eta, shape="least-loss")
    assert best_test((fit.theta, covariance(noise)), (there.theta, covariance(anew))) == pytest.approx(said, abs=CLOSE)
    with pytest.raises(fl.InvalidInputError, match=r"computed again without each of 3855 rows.*ask about some"):
        leak.with_noise(noise).membership()
    assert "membership    not known: its covariance, shape='least-loss'" in leak.with_noise(noise).summary()
    assert "membership" not in leak.with_noise(noise).to_frame()


@pytest.mark.parametrize("name", ["hessian", "hessian, any-record", "least-loss", "least-loss, any-record"])
def test_sets_of_rows_are_left_out_together(name: str) -> None:
    data = made("classes")
    leak = data.leak()
    noise, person = NOISES[name](leak), np.append(np.arange(3), np.arange(len(data.y) - 3) // 50 + 3)
    person[[3, 17, 40]] = 0
    rows = np.flatnonzero(person == 0).tolist()
    said = ndtr(0.5 * leak.with_noise(noise).membership_by_group(person, 1e-8)[0])
    assert reached(data, noise, rows) == pytest.approx(said, abs=CLOSE)
    attack = fl.attacks.Membership(data.fit(), data.X, data.y, groups=person)
    assert attack.people is not None
    assert attack.accuracy(noise)[attack.people.index(0)] == pytest.approx(said, abs=1e-9)


@pytest.mark.parametrize("name", ["hessian", "least-loss"])
def test_at_another_scale_the_scale_stays_and_the_shape_is_made_anew(name: str) -> None:
    data = made("far out")
    noise = NOISES[name](data.leak()).rescaled(0.7)
    (said,) = asked(data, noise, [3])
    left = data.without([3])
    other = fl.calibrate(left.leak(), 1.0, shape=name).rescaled(0.7)
    pairs = (data.fit().theta, covariance(noise)), (left.fit().theta, covariance(other))
    assert best_test(*pairs) == pytest.approx(said, abs=CLOSE)


@pytest.mark.parametrize("shape", ["hessian", "least-loss"])
def test_folded_scales_move_the_shape_too(shape: str) -> None:
    """Raw coefficients, whose penalty follows the columns' standard deviations: those of the others without the row."""
    data = folded()
    model = make_pipeline(StandardScaler(), Ridge(alpha=300.0)).fit(data.X, data.y)
    leak = fl.measure(model, data.X, data.y, public="nothing")
    noise: Any = fl.calibrate(leak, 30.0, "any-record", shape=shape, random_state=0)
    said = ndtr(0.5 * leak.with_noise(noise).membership())

    def known(X: Vector, y: Vector) -> tuple[Vector, Vector]:
        A = np.column_stack([X, np.ones(len(y))])
        G = A.T @ A + 300.0 * np.diag([*X.var(axis=0), 0.0])
        return np.asarray(np.linalg.solve(G, A.T @ y), dtype=np.float64), np.asarray(G)

    (w1, G1), N = known(data.X, data.y), None
    for row in (3, int(np.argmax(np.abs(data.X).max(axis=1)))):
        w0, G0 = known(np.delete(data.X, row, axis=0), np.delete(data.y, row))
        S0 = np.linalg.inv(G0)
        if shape == "least-loss":
            M = G1 @ noise.shape @ G1
            N = M @ np.linalg.inv(G1) @ M
            root: Vector = np.real(sqrtm(G0))
            back = np.linalg.inv(root)
            S0 = S0 @ root @ np.real(sqrtm(back @ N @ back)) @ root @ S0
        assert best_test((w1, covariance(noise)), (w0, noise.scale**2 * S0)) == pytest.approx(said[row], abs=CLOSE)


@pytest.mark.parametrize("bounded", ["rows", "sets"])
def test_upper_bounds_say_so_and_are_not_below(bounded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = folded()
    model = make_pipeline(StandardScaler(), Ridge(alpha=300.0)).fit(data.X, data.y)
    leak = fl.measure(model, data.X, data.y, public="nothing")
    shaped = leak.with_noise(fl.calibrate(leak, 30.0, "any-record", shape="hessian", random_state=0))
    person = np.arange(400) // 2

    def found() -> Vector:
        return shaped.membership() if bounded == "rows" else np.array([*shaped.membership_by_group(person).values()])

    exact = found()
    assert shaped.membership_kind == "equivalent"
    monkeypatch.setattr("fisherleak.engine.changes.remade_covariance.WORK", 10)
    above = found()
    assert shaped.membership_kind == "upper bound"
    assert np.all(above >= exact)
    assert np.median(ndtr(above / 2) - ndtr(exact / 2)) < 0.1
    assert "upper bounds" in shaped.summary()


@pytest.mark.parametrize("name", ["hessian, any-record", "least-loss", "Posterior"])
def test_simulated_attacks_agree_and_curves_without_a_closed_form_are_refused(name: str) -> None:
    data = made("far out")
    noise = NOISES[name](data.leak())
    attack = fl.attacks.Membership(data.fit(), data.X, data.y, rows=[3, 10])
    found = attack.simulate(noise, releases=20_000)
    np.testing.assert_allclose(found.accuracy, attack.accuracy(noise), atol=0.012)
    for ask in (attack.auc, attack.true_positive_rate):
        with pytest.raises(fl.InvalidInputError, match="simulate"):
            ask(noise)
    assert attack.infer(data.fit(), noise).shape == (2,)


@pytest.mark.parametrize("name", DECIDED)
def test_what_is_no_mu_is_not_added_up(name: str, tmp_path: Path) -> None:
    data = made("far out")
    leak = data.leak()
    shaped = leak.with_noise(NOISES[name](leak))
    if isinstance(shaped.noise, fl.Posterior | fl.ObjectivePerturbation):
        both = fl.compose(shaped, leak)  # etas add up, and membership does not
        for ask in (both.membership, lambda: both.membership_kind):
            with pytest.raises(fl.InvalidInputError, match=type(shaped.noise).__name__):
                ask()
        assert "not known" in both.summary()
        return
    with pytest.raises(fl.InvalidInputError, match="follows from the rows themselves"):
        fl.compose(shaped, leak)
    with pytest.raises(fl.InvalidInputError, match="follows from the rows themselves"):
        fl.Ledger(tmp_path / "ledger.json").add(shaped, ids=np.arange(150))


def test_noise_that_other_rows_shaped_or_that_was_read_back_is_refused_by_name() -> None:
    data, others = made("far out"), made("weighted")
    from_others: Any = fl.calibrate(others.leak(), 6.0, "any-record", shape="hessian", random_state=0)
    with pytest.raises(fl.InvalidInputError, match=r"shape='hessian'.*calibrate again on this leakage"):
        data.leak().with_noise(from_others).membership()
    kept: Any = fl.calibrate(data.leak(), 0.5, shape="least-loss")
    copy = deepcopy(kept)
    assert copy.calibrated.asked is None
    with pytest.raises(fl.InvalidInputError, match=r"shape='least-loss'.*calibrate again on this leakage"):
        data.leak().with_noise(copy).membership()


def test_a_row_without_which_nothing_is_determined_is_told_for_certain() -> None:
    X = np.column_stack([np.append(1.0, np.zeros(30)), np.random.default_rng(0).normal(size=31)])
    y = np.random.default_rng(1).normal(size=31)
    leak = fl.measure(LinearRegression(fit_intercept=False).fit(X, y), X, y)
    for noise in (fl.Posterior(0.5), fl.calibrate(leak, 5.0, shape="hessian")):
        mu = leak.with_noise(noise).membership()
        assert mu[0] == np.inf
        assert np.isfinite(mu[1:]).all()


def test_the_digest_says_that_a_scale_by_the_rows_is_held_fixed() -> None:
    leak = made("far out").leak()
    assert "scale held fixed, though these rows decided it" in leak.with_noise(fl.calibrate(leak, 0.5)).summary()
    assert "held fixed, though these rows decided it" not in leak.with_noise(fl.Gaussian(0.5)).summary()
    hessian = leak.with_noise(NOISES["hessian, any-record"](leak))
    assert "covariance is computed again without the row" in hessian.summary()
    assert "membership" in hessian.to_frame()

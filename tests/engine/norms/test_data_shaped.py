"""Noise that the data shape: both terms of its information against refits, closed forms and the score of its draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from cases import Case, make, moved, parameters, slanted
from copies import copies
from fisherleak.engine.mechanisms.self_shaped import MECHANISMS

Vector = NDArray[np.float64]
CASES: dict[str, Any] = {"Posterior": fl.Posterior(0.3), "ObjectivePerturbation": fl.ObjectivePerturbation(1.7)}
every_mechanism = pytest.mark.parametrize("mechanism", CASES.values(), ids=CASES.keys())
STEP = 1e-5


def test_every_mechanism_is_tested() -> None:
    assert set(CASES) == set(MECHANISMS)


def distribution(case: Case, mechanism: Any) -> tuple[Vector, Vector]:
    """Mean and covariance of what is released, from the rows: nothing of the engine but the minimiser."""
    X = np.column_stack([case.X, np.ones(len(case.X))]) if case.intercept else case.X
    omega = np.ones(len(X)) if case.weights is None else case.weights
    penalty = np.full(X.shape[1], len(X) * case.l2)
    penalty[3:] = 0.0
    B = np.linalg.inv((X * omega[:, None]).T @ X + np.diag(penalty))
    if isinstance(mechanism, fl.Posterior):
        return parameters(case.fit()), mechanism.temperature * B
    C = np.eye(len(B)) if mechanism.shape is None else mechanism.shape
    return parameters(case.fit()), mechanism.scale**2 * B @ C @ B


def by_differences(case: Case, mechanism: Any, values: list[tuple[int, int | None]]) -> Vector:
    """The Fisher information of values by differences of mean and covariance."""
    _, S = distribution(case, mechanism)
    inverse = np.linalg.inv(S)
    means, shapes = [], []
    for row, column in values:
        sides = [distribution(moved(case, row, column, s * STEP), mechanism) for s in (1, -1)]
        means.append((sides[0][0] - sides[1][0]) / (2 * STEP))
        shapes.append(inverse @ (sides[0][1] - sides[1][1]) / (2 * STEP))
    m = np.stack(means)
    return np.asarray(m @ inverse @ m.T + 0.5 * np.einsum("aij,bji->ab", np.stack(shapes), np.stack(shapes)))


def values_of(rows: list[int]) -> list[tuple[int, int | None]]:
    return [(row, column) for row in rows for column in (0, 1, 2, None)]


def top(F: Vector) -> float:
    return float(np.sqrt(np.linalg.eigvalsh(F)[-1]))


@every_mechanism
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_both_terms_are_those_of_refits(mechanism: Any, intercept: bool, weighted: bool) -> None:
    check_both_terms(make("squared", n=12, weighted=weighted, intercept=intercept, l2=0.05), mechanism)


@pytest.mark.parametrize("intercept", [False, True])
def test_both_terms_of_a_shaped_objective_are_those_of_refits(intercept: bool) -> None:
    mechanism = fl.ObjectivePerturbation(1.7, shape=slanted(3 + intercept))
    check_both_terms(make("squared", n=12, weighted=True, intercept=intercept, l2=0.05), mechanism)


def check_both_terms(case: Case, mechanism: Any) -> None:
    leak = case.leak(mechanism)
    F = by_differences(case, mechanism, values_of(list(range(12))))
    np.testing.assert_allclose(leak.fim(), F, rtol=1e-5, atol=1e-6 * np.abs(F).max())
    blocks = F.reshape(12, 4, 12, 4)
    single = np.stack([blocks[i, :, i, :] for i in range(12)])
    np.testing.assert_allclose(leak.per_example(), [top(f) for f in single], rtol=1e-5)
    np.testing.assert_allclose(leak.per_example(["x1", "x2"]), [top(f[1:3, 1:3]) for f in single], rtol=1e-5)
    np.testing.assert_allclose(leak.per_cell(), np.sqrt(single[:, [0, 1, 2], [0, 1, 2]]), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(leak.per_label(), np.sqrt(single[:, 3, 3]), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(leak.per_attribute(), [top(blocks[:, j, :, j]) for j in range(3)], rtol=1e-5)
    assert leak.dataset() == pytest.approx(top(F), rel=1e-5)
    some = [1, 4, 7]
    part = blocks[some][:, :, some].reshape(12, 12)
    assert leak.of(rows=some) == pytest.approx(top(part), rel=1e-5)
    assert leak.by_group(np.isin(np.arange(12), some))[True] == pytest.approx(top(part), rel=1e-5)


def test_a_shaped_objective_is_drawn_recorded_and_copied() -> None:
    case = make("squared", n=40, intercept=True, l2=0.05)
    way = fl.ObjectivePerturbation(1.7, shape=slanted(4))
    _, S = distribution(case, way)
    drawn = way.released_draws(case.fit(), 40_000, np.random.default_rng(0))
    np.testing.assert_allclose(np.cov(drawn.T), S, atol=0.03 * np.abs(S).max())
    assert way.least_deviation(case.fit()) == pytest.approx(np.sqrt(np.linalg.eigvalsh(S)[0]), rel=1e-6)
    for other in (*copies(way), fl.ObjectivePerturbation.from_record(way.record()), way.rescaled(3.0).rescaled(1.7)):
        assert other == way
        assert hash(other) == hash(way)
        np.testing.assert_array_equal(other.shape, way.shape)
    assert way != fl.ObjectivePerturbation(1.7) != fl.ObjectivePerturbation(1.7, shape=np.eye(4))
    alone, plain = (case.leak(fl.ObjectivePerturbation(1.7, shape=C)).per_example() for C in (np.eye(4), None))
    np.testing.assert_allclose(alone, plain, rtol=1e-9)
    found: Any = fl.calibrate(case.leak(way), 3.0)
    assert found.shape is not None
    assert np.max(case.leak(found).per_example()) == pytest.approx(3.0, rel=1e-2)


@pytest.mark.parametrize("rows", [40, 50_000])
def test_a_shape_holds_for_any_number_of_rows_and_of_outputs(rows: int) -> None:
    """Where compiled kernels know no shape, products do; K equal numbers have K times the information."""
    case = make("squared", n=rows, intercept=True, l2=0.05)
    way = fl.ObjectivePerturbation(1.7, shape=slanted(4))
    leak = case.leak(way)
    np.testing.assert_allclose(leak.per_example()[:5], [top(leak.fim(rows=[k])) for k in range(5)], rtol=1e-7)
    if rows < 100:
        twice = fl.minimise(case.X, np.column_stack([case.y, case.y]), l2=case.l2, intercept=True)
        both = fl.measure(twice, case.X, np.column_stack([case.y, case.y]), way)
        columns = ["x0", "x1", "x2"]
        np.testing.assert_allclose(both.per_example(columns), np.sqrt(2.0) * leak.per_example(columns), rtol=1e-7)


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        (np.eye(3), "shape must cover the 4 released parameters; got 3 rows"),
        (np.zeros((4, 4)), "shape must be positive definite"),
        (np.triu(np.ones((4, 4))), "shape must be symmetric"),
    ],
)
def test_shapes_of_objectives_that_are_none_are_refused(shape: Vector, says: str) -> None:
    case = make("squared", n=12, intercept=True)
    with pytest.raises(fl.InvalidInputError, match=says):
        np.asarray(case.leak(fl.ObjectivePerturbation(1.0, shape=shape)).per_example())


@every_mechanism
def test_large_sets_are_those_of_their_matrix(mechanism: Any) -> None:
    leak = make("squared", n=90, weighted=True, intercept=True).leak(mechanism)
    assert leak.dataset() == pytest.approx(top(leak.fim()), rel=1e-8)
    assert leak.per_attribute()[1] == pytest.approx(top(leak.fim(attributes=["x1"])), rel=1e-8)


@every_mechanism
def test_many_columns_and_blocks_are_those_of_their_matrices(mechanism: Any) -> None:
    case = make("squared", n=80, d=30, intercept=True)
    blocks = {"pair": [3, 4], "many": fl.Attribute.one_hot("many", [10, 11, 12])}
    leak = case.leak(mechanism, blocks)
    assert leak.per_example()[7] == pytest.approx(top(leak.fim(rows=[7])), rel=1e-9)
    cells = leak.per_cell()[7]
    for j, name in enumerate(leak.attributes):
        assert cells[j] == pytest.approx(top(leak.fim(rows=[7], attributes=[name])), rel=1e-8)


HOSTILE: dict[str, dict[str, Any]] = {
    "plain": {},
    "weighted, with rows of no weight": {"weighted": True, "intercept": True},
    "two attributes": {"chosen": ["x1", "x2"], "label": False},
    "one column": {"d": 1, "l2": 0.0},
    "one column, no label": {"d": 1, "intercept": True, "l2": 0.0, "chosen": ["x0"], "label": False},
    "units apart": {"units": [1e-6, 1.0, 1e6], "intercept": True},
    "blocks": {"d": 6, "attributes": {"pair": [0, 1], "many": fl.Attribute.one_hot("many", [2, 3, 4])}},
    "rows without residual or features": {"zeros": True},
    "a column that one row has": {"d": 6, "rare": True},
}


def hostile(case: dict[str, Any], mechanism: Any) -> tuple[fl.Leakage, Any, Any]:
    options = dict(case)
    chosen, label, attributes = options.pop("chosen", None), options.pop("label", None), options.pop("attributes", None)
    units, zeros, rare = options.pop("units", None), options.pop("zeros", False), options.pop("rare", False)
    made = make("squared", n=60, **options)
    X = made.X if units is None else made.X * np.asarray(units)
    if zeros:
        X[3] = 0.0
        made.y[4] = 0.0
    if rare:
        X[1:, 0] = 0.0
    other = Case(X, made.y, "squared", made.l2, made.weights, made.intercept)
    return other.leak(mechanism, attributes), chosen, label


@pytest.mark.parametrize("case", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("kind", [fl.Posterior, fl.ObjectivePerturbation])
@pytest.mark.parametrize(
    "scale", [1e-4, 1.0, 1e8, *(pytest.param(x, marks=pytest.mark.long) for x in (1e-2, 30.0, 1e3))]
)
def test_compiled_kernels_find_what_products_find(
    case: dict[str, Any], kind: Any, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fisherleak.engine.norms.kernels.secular_numba")
    leak, chosen, label = hostile(case, kind(scale))
    products = leak.per_example(chosen, label)
    monkeypatch.setattr("fisherleak.engine.norms.data_shaped.COMPILED_FROM", 0)
    np.testing.assert_allclose(leak.per_example(chosen, label), products, rtol=1e-9, atol=1e-12 * products.max())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("label", [False, True])
@pytest.mark.parametrize("scale", [1e-3, 0.3, 3.0, 30.0, 100.0, 1e4])
def test_the_compiled_kernel_of_objective_perturbation_is_that_of_dense_matrices(
    weighted: bool, intercept: bool, label: bool, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows settled by the kernel itself, to ten digits, at scales where either term leads and in between."""
    pytest.importorskip("fisherleak.engine.norms.kernels.secular_numba")
    monkeypatch.setattr("fisherleak.engine.norms.data_shaped.COMPILED_FROM", 0)
    leak = make("squared", n=40, d=17, weighted=weighted, intercept=intercept).leak(fl.ObjectivePerturbation(scale))
    information: Any = leak._information
    kernel, _ = information._alone(information._parts(information.attributes), information.attributes, label)
    tops = kernel(*information.releases[0].jacobian.arrays)
    roots = information.written_out(information.attributes, label, None)
    dense = [np.linalg.norm(root, 2) for root in roots]
    np.testing.assert_allclose(np.sqrt(tops), dense, rtol=1e-10)
    np.testing.assert_allclose(leak.per_example(label=label), dense, rtol=1e-10)


def with_a_direction_that_the_penalty_decides(mechanism: Any, intercept: bool, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Rows say hardly anything along it, and many have their top eigenvalue beside its pole."""
    pytest.importorskip("fisherleak.engine.norms.kernels.secular_numba")
    monkeypatch.setattr("fisherleak.engine.norms.data_shaped.COMPILED_FROM", 0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    X[:, 0] *= 1e-5
    y = X @ np.array([0.2, 1.0, 0.5, -1.0, 0.3]) + rng.normal(size=300)
    return fl.measure(fl.minimise(X, y, l2=1e-4, intercept=intercept), X, y, mechanism)


def settled_and_dense(leak: Any) -> tuple[Any, Any]:
    """Etas by the kernel alone, and by dense matrices."""
    of: Any = leak._information
    kernel, _ = of._alone(of._parts(of.attributes), of.attributes, True)
    tops = kernel(*of.releases[0].jacobian.arrays)
    return np.sqrt(tops), np.array([np.linalg.norm(root, 2) for root in of.written_out(of.attributes, True, None)])


@pytest.mark.parametrize("temperature", [1e-3, 0.3, 10.0])
def test_eigenvalues_beside_a_pole_are_settled_by_the_kernel_of_posterior_sampling_itself(
    temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    leak = with_a_direction_that_the_penalty_decides(fl.Posterior(temperature), False, monkeypatch)
    settled, dense = settled_and_dense(leak)
    assert np.isnan(settled).sum() <= 15
    np.testing.assert_allclose(leak.per_example(), dense, rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 10.0, 100.0, 300.0, 1e3, 1e4])
@pytest.mark.parametrize("intercept", [False, True])
def test_eigenvalues_beside_a_pole_are_settled_by_the_kernel_of_objective_perturbation_itself(
    scale: float, intercept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above the pole and below it, but for a few."""
    leak = with_a_direction_that_the_penalty_decides(fl.ObjectivePerturbation(scale), intercept, monkeypatch)
    settled, dense = settled_and_dense(leak)
    known = ~np.isnan(settled)
    assert np.sum(~known) <= 6
    np.testing.assert_allclose(settled[known], dense[known], rtol=1e-12)
    np.testing.assert_allclose(leak.per_example(), dense, rtol=1e-10)


def test_the_closed_forms() -> None:
    case = make("squared", weighted=True, l2=0.1)
    B, x, omega = distribution(case, fl.Posterior(1.0))[1], case.X[3], float(case.weights[3])  # type: ignore[index]
    u = B @ x
    h, k, big = x @ u, B @ u, 1e12
    found = case.leak(fl.Posterior(big)).fim(rows=[3], attributes=[0, 1, 2])
    np.testing.assert_allclose(found, omega**2 * (np.outer(u, u) + h * B), rtol=1e-7)
    found = case.leak(fl.ObjectivePerturbation(big)).fim(rows=[3], attributes=[0, 1, 2])
    second = 2 * (np.outer(u, u) + h * B) + x @ x * B @ B + u @ u * np.eye(3) + np.outer(x, k) + np.outer(k, x)
    np.testing.assert_allclose(found, omega**2 * second, rtol=1e-7)


def test_without_the_second_term_it_is_gaussian_noise_of_that_shape() -> None:
    case = make("squared", intercept=True)
    for mechanism in CASES.values():
        small = mechanism.rescaled(1e-6 * mechanism.scale)
        plain = case.leak(fl.Gaussian(1.0, distribution(case, small)[1])).per_example()
        np.testing.assert_allclose(case.leak(small).per_example(), plain, rtol=1e-6)


# The mechanism's own draws


@every_mechanism
def test_fim_is_the_covariance_of_the_score_of_its_draws_and_five_percent_off_is_rejected(mechanism: Any) -> None:
    case = make("squared", n=10, intercept=True, l2=0.05)
    drawn = mechanism.released_draws(case.fit(), 60_000, np.random.default_rng(0))
    score = []
    for column in (0, 1, 2, None):
        sides = [log_density(drawn, *distribution(moved(case, 2, column, s * 1e-4), mechanism)) for s in (1, -1)]
        score.append((sides[0] - sides[1]) / 2e-4)
    covariance = np.stack(score) @ np.stack(score).T / len(drawn)
    fim = case.leak(mechanism).fim(rows=[2])
    root = np.linalg.inv(np.linalg.cholesky(fim + 1e-9 * np.trace(fim) * np.eye(4)))
    away = np.abs(root @ covariance @ root.T - np.eye(4)).max()
    assert away < 0.035
    direction = np.linalg.eigh(fim)[1][:, -1]
    share = float(direction @ covariance @ direction) / float(direction @ fim @ direction)
    assert share == pytest.approx(1.0, abs=0.02)
    assert min(abs(share / 0.95 - 1.0), abs(share / 1.05 - 1.0)) > 0.02


def log_density(t: Vector, mean: Vector, S: Vector) -> Vector:
    L = np.linalg.cholesky(S)
    white = np.linalg.solve(L, (t - mean).T)
    return np.asarray(-0.5 * np.sum(white**2, axis=0) - np.sum(np.log(np.diag(L))))


def test_objective_perturbation_solves_the_perturbed_problem() -> None:
    case = make("squared", n=15, intercept=True, l2=0.05)
    fit = case.fit()
    (t,) = fl.ObjectivePerturbation(2.0).released_draws(fit, 1, np.random.default_rng(3))
    b = 2.0 * np.random.default_rng(3).standard_normal(4)
    X = np.column_stack([case.X, np.ones(15)])
    gradient = X.T @ (X @ t - case.y) + 15 * 0.05 * np.append(t[:3], 0.0) + b
    np.testing.assert_allclose(gradient, 0.0, atol=1e-9)


@every_mechanism
def test_released_parameters_are_draws_in_a_public_number_of_bits(mechanism: Any) -> None:
    fit = make("squared", n=15, intercept=True).fit()
    noisy = fl.release(fit, mechanism, random_state=5)
    (exact,) = mechanism.released_draws(fit, 1, np.random.default_rng(5))
    found = np.append(noisy.coef, noisy.intercept)
    np.testing.assert_allclose(found, exact, rtol=2.0**-30)
    bits = np.frexp(found)[0] * 2.0**30
    np.testing.assert_array_equal(bits, np.rint(bits))
    assert noisy.noise == mechanism
    assert not np.array_equal(fl.release(fit, mechanism).coef, fl.release(fit, mechanism).coef)


# Calibration, and what is refused


@every_mechanism
@pytest.mark.parametrize("over", ["max", "mean", "dataset"])
def test_the_least_scale_keeps_a_limit_and_a_little_less_does_not(mechanism: Any, over: Any) -> None:
    leak = make("squared", intercept=True).leak(mechanism)
    of: Any = {
        "max": lambda x: x.per_example().max(),
        "mean": lambda x: x.per_example().mean(),
        "dataset": fl.Leakage.dataset,
    }
    limit = 0.8 * of[over](leak)
    found: Any = fl.calibrate(leak, limit, over)
    assert of[over](leak.with_noise(found)) <= limit
    assert of[over](leak.with_noise(found.rescaled(0.999 * found.scale))) > limit
    assert found.calibrated.over == over
    with pytest.warns(fl.UncountedScaleWarning):
        fl.release(leak.fits[0], found)


@every_mechanism
def test_a_limit_below_the_price_of_the_shape_is_refused_with_that_price(mechanism: Any) -> None:
    leak = make("squared", n=12).leak(mechanism)
    floor = leak.with_noise(mechanism.rescaled(1e9)).per_example().max()
    with pytest.raises(fl.InvalidInputError, match=rf"eta cannot be below {floor:.4g}"):
        fl.calibrate(leak, 0.9 * floor)


@every_mechanism
def test_what_is_not_exact_is_refused_by_name(mechanism: Any) -> None:
    case, name = make("squared"), type(mechanism).__name__
    leak = case.leak(mechanism)
    scaled = make_pipeline(StandardScaler(), Ridge()).fit(case.X, case.y)
    attempts: list[Any] = [
        lambda: make("pseudo_huber").leak(mechanism),
        lambda: fl.calibrate(leak, 1.0, "any-record"),
        lambda: fl.calibrate(leak, 1.0, shape="least-loss"),
        lambda: fl.measure(scaled, case.X, case.y, mechanism, public="nothing"),
        lambda: fl.release(scaled, mechanism),
        lambda: fl.release(make("logistic").fit(), mechanism),
        lambda: fl.PrivateRelease(Ridge(), eta=1.0, noise=mechanism).fit(case.X, case.y),
        lambda: fl.IRFIL(Ridge(), noise=mechanism).fit(case.X, case.y),
        lambda: fl.counted(leak, 1.0),
    ]
    for k, attempt in enumerate(attempts):
        with pytest.raises(fl.InvalidInputError, match=name):
            print(k, attempt())
    assert name in leak.summary()


@every_mechanism
def test_models_of_scikit_learn_and_copies(mechanism: Any) -> None:
    case = make("squared", intercept=True)
    model = Ridge(alpha=len(case.y) * case.l2).fit(case.X, case.y)
    leak = fl.measure(model, case.X, case.y, mechanism)
    np.testing.assert_allclose(leak.per_example(), case.leak(mechanism).per_example(), rtol=1e-8)
    for copied in copies(leak):
        np.testing.assert_array_equal(copied.per_example(), leak.per_example())
    np.testing.assert_allclose(leak.with_noise(fl.Gaussian(1.0)).per_example(), case.leak().per_example(), rtol=1e-8)
    assert MECHANISMS[type(mechanism).__name__].from_record(mechanism.record()) == mechanism
    if isinstance(mechanism, fl.Posterior):
        labels = (case.y > 0) * 1
        with pytest.raises(fl.InvalidInputError, match="logistic"):
            fl.measure(LogisticRegression(tol=1e-8).fit(case.X, labels), case.X, labels, mechanism)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "1"])
def test_scales_that_are_none_are_refused(bad: Any) -> None:
    for kind in MECHANISMS.values():
        with pytest.raises(fl.InvalidInputError, match="must be a"):
            kind(bad)


@pytest.mark.long
def test_on_iwpc_posterior_sampling_costs_a_sixtieth_of_isotropic_noise(data_folder: Any) -> None:
    """At a largest eta of 1, everything counted; excess loss is tr(H S) / 2."""
    data = fl.datasets.load_iwpc(data_home=data_folder)
    X, y = np.asarray(data.preprocessing.fit_transform(data.X), dtype=float), np.asarray(data.y, dtype=float)
    fit = fl.minimise(X, y, l2=1e-3)
    leak = fl.measure(fit, X, y)
    H = np.linalg.inv(fit.factor.inverse())
    isotropic = fl.calibrate(leak, 1.0).scale ** 2 * np.trace(H)
    drawn: Any = fl.calibrate(leak.with_noise(fl.Posterior(1.0)), 1.0)
    assert leak.with_noise(drawn).per_example().max() <= 1.0
    assert isotropic >= 60.0 * drawn.temperature * len(H)
    perturbed: Any = fl.calibrate(leak.with_noise(fl.ObjectivePerturbation(1.0)), 1.0)
    assert isotropic >= 50.0 * perturbed.scale**2 * np.trace(np.linalg.inv(H))

"""Answers tell what their likelihood says: against dense matrices, refits, closed forms and the score of drawn answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fisherleak as fl
from cases import Case, dense_jacobian, flat, make, moved, norms, parameters
from copies import copies
from fisherleak._support.arrays import host

Vector = NDArray[np.float64]
RNG = np.random.default_rng(7)
QUERIES = RNG.normal(size=(6, 3))
SHAPE = np.eye(6) + 0.4
WAYS: dict[str, Any] = {
    "scores": (lambda Q: fl.Answers(Q, fl.Gaussian(0.3)), "squared"),
    "scores of classes": (lambda Q: fl.Answers(Q, fl.Gaussian(0.3)), "logistic"),
    "scores with Laplace noise": (lambda Q: fl.Answers(Q, fl.Laplace(0.3)), "poisson"),
    "scores with bounded noise": (lambda Q: fl.Answers(Q, fl.Bounded(0.3)), "gamma"),
    "scores with dependent noise": (lambda Q: fl.Answers(Q, fl.Gaussian(0.3, SHAPE)), "pseudo_huber"),
    "probabilities": (lambda Q: fl.Answers(Q, fl.Gaussian(0.02), of="probability"), "logistic"),
    "labels": (fl.SampledLabels, "logistic"),
    "counts": (fl.SampledLabels, "poisson"),
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


def answered(case: Case, by: Any, Q: Vector) -> Vector:
    """Root of the information about the parameters as they are released, (m, p), written out."""
    theta = parameters(case.fit())
    rows = np.column_stack([Q, np.ones(len(Q))]) if case.intercept else Q
    z = rows @ theta
    p = 1.0 / (1.0 + np.exp(-z))
    if isinstance(by, fl.SampledLabels):
        return np.asarray(np.sqrt(p * (1 - p) if case.loss == "logistic" else np.exp(z))[:, None] * rows)
    rows = (p * (1 - p))[:, None] * rows if by.of == "probability" else rows
    root = by.noise.unit_information_root(len(Q))
    return np.asarray((rows if root is None else root @ rows) / by.noise.scale)


@every_way
@pytest.mark.parametrize("intercept", [False, True])
def test_every_eta_is_that_of_the_dense_jacobian_of_the_answers(way: Any, intercept: bool) -> None:
    make_way, loss = way
    case = make(loss, weighted=True, intercept=intercept)
    by = make_way(QUERIES)
    leak = case.leak(by)
    J = answered(case, by, QUERIES) @ dense_jacobian(case, case.fit())
    np.testing.assert_allclose(leak.per_example(), norms(J), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(leak.per_cell(), np.linalg.norm(J[:, :, :-1], axis=1), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(leak.per_label(), np.linalg.norm(J[:, :, -1], axis=1), rtol=1e-8, atol=1e-12)
    whole = [np.linalg.norm(J[:, :, j], 2) for j in range(3)]
    np.testing.assert_allclose(leak.per_attribute(), whole, rtol=1e-8)
    assert leak.dataset() == pytest.approx(np.linalg.norm(flat(J), 2), rel=1e-8)
    groups = np.arange(40) % 3
    assert leak.by_group(groups)[1] == pytest.approx(np.linalg.norm(flat(J[groups == 1]), 2), rel=1e-8)
    some = flat(J[[2, 5]])
    np.testing.assert_allclose(leak.fim(rows=[2, 5]), some.T @ some, rtol=1e-7, atol=1e-9 * np.abs(some).max() ** 2)


def test_answers_to_unit_vectors_are_a_release_and_repeats_are_several() -> None:
    case = make("logistic")
    once = case.leak(fl.Gaussian(0.5)).per_example()
    np.testing.assert_allclose(case.leak(fl.Answers(np.eye(3), fl.Gaussian(0.5))).per_example(), once, rtol=1e-10)
    often = fl.Answers(np.tile(np.eye(3), (25, 1)), fl.Gaussian(0.5))
    np.testing.assert_allclose(case.leak(often).per_example(), 5.0 * once, rtol=1e-10)


def test_order_of_queries_and_size_of_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make("logistic", intercept=True)
    Q = RNG.normal(size=(50, 3))
    whole = case.leak(fl.SampledLabels(Q)).per_example()
    np.testing.assert_allclose(case.leak(fl.SampledLabels(Q[::-1])).per_example(), whole, rtol=1e-10)
    monkeypatch.setattr("fisherleak.engine.mechanisms.interface_answers.QUERY_VALUES", 21)
    np.testing.assert_allclose(case.leak(fl.SampledLabels(Q)).per_example(), whole, rtol=1e-10)


@pytest.mark.parametrize("Q", [np.zeros((0, 3)), np.zeros((4, 3))], ids=["no query", "queries of nothing"])
def test_what_is_not_told_is_zero_at_every_granularity(Q: Vector) -> None:
    leak = make("squared").leak(fl.Answers(Q, fl.Gaussian(0.1)))
    etas = [leak.per_example(), leak.per_cell(), leak.per_label(), leak.per_attribute(), leak.fim(rows=[0])]
    assert all(np.all(eta == 0) for eta in etas)
    assert leak.dataset() == 0
    assert set(leak.by_group(np.arange(40) % 2).values()) == {0.0}
    assert "any number" in leak.summary()


def test_one_query_tells_one_direction() -> None:
    """Two columns that share no row: asked about the first alone, nobody learns about the second."""
    X = np.zeros((20, 2))
    X[:10, 0], X[10:, 1] = RNG.normal(size=(2, 10)) + 2.0
    y = X.sum(axis=1) + RNG.normal(size=20)
    leak = fl.measure(fl.minimise(X, y, l2=0.1), X, y, fl.Answers(np.array([[1.0, 0.0]]), fl.Gaussian(0.1)))
    np.testing.assert_array_less(0.01, leak.per_label()[:10])
    assert np.all(leak.per_label()[10:] == 0)
    F = leak.fim(rows=[0, 1])
    assert np.linalg.matrix_rank(F) == 1
    assert leak.of(rows=[0, 1]) == pytest.approx(np.sqrt(np.linalg.eigvalsh(F)[-1]))


# The likelihood itself


def log_likelihood(by: Any, answers: Vector, z: Vector, loss: str) -> Vector:
    if isinstance(by, fl.SampledLabels):
        return np.asarray(answers @ z - np.sum(np.logaddexp(0, z) if loss == "logistic" else np.exp(z)))
    clean = 1 / (1 + np.exp(-z)) if by.of == "probability" else z
    return np.asarray(by.noise.log_density(answers - clean))


def draws(by: Any, z: Vector, loss: str, count: int) -> Vector:
    rng = np.random.default_rng(1)
    if isinstance(by, fl.SampledLabels):
        if loss == "poisson":
            return np.asarray(rng.poisson(np.exp(z), (count, len(z))) * 1.0)
        return np.asarray((rng.random((count, len(z))) < 1 / (1 + np.exp(-z))) * 1.0)
    clean = 1 / (1 + np.exp(-z)) if by.of == "probability" else z
    return np.asarray(clean + by.noise.draws(count, len(z), rng))


# the score of bounded noise has no fourth moment; its information has a test of its own
@pytest.mark.parametrize("way", [WAYS[name] for name in WAYS if "bounded" not in name])
def test_fim_is_the_covariance_of_the_score_and_five_percent_off_is_rejected(way: Any) -> None:
    """Likelihoods of drawn answers, differentiated through refits on moved data: nothing of the engine but the minimiser."""
    make_way, loss = way
    case = make(loss, intercept=True)
    by = make_way(QUERIES)
    rows = np.column_stack([QUERIES, np.ones(len(QUERIES))])
    count, h = 60_000, 1e-4
    drawn = draws(by, rows @ parameters(case.fit()), loss, count)
    score = []
    for column in range(3):
        up, down = (rows @ parameters(moved(case, 3, column, s * h).fit()) for s in (1, -1))
        difference = log_likelihood(by, drawn, up, loss) - log_likelihood(by, drawn, down, loss)
        score.append(difference / (2 * h))
    fim = case.leak(by).fim(rows=[3], attributes=[0, 1, 2])
    covariance = np.stack(score) @ np.stack(score).T / count
    top = np.linalg.eigh(fim)[1][:, -1]
    share = float(top @ covariance @ top) / float(top @ fim @ top)
    assert share == pytest.approx(1.0, abs=0.025)
    assert abs(share / 0.95 - 1.0) > 0.025
    assert abs(share / 1.05 - 1.0) > 0.02


# What else is asked of a leakage


def test_membership_of_noisy_scores_is_that_of_the_move_of_the_scores() -> None:
    case = make("squared", intercept=True)
    leak = case.leak(fl.Answers(QUERIES, fl.Gaussian(0.3)))
    rows = np.column_stack([QUERIES, np.ones(len(QUERIES))])
    n, theta = len(case.y), parameters(case.fit())
    for i in (0, 17):
        weights = np.ones(n)
        weights[i] = 0.0
        without = parameters(replace(case, weights=weights).fit())
        assert leak.membership(1e-8)[i] == pytest.approx(np.linalg.norm(rows @ (without - theta)) / 0.3, rel=1e-6)


@pytest.mark.parametrize("by", [fl.SampledLabels(QUERIES), fl.Answers(QUERIES, fl.Gaussian(0.1), of="probability")])
def test_membership_of_what_is_not_normal_is_refused_by_name(by: Any) -> None:
    leak = make("logistic").leak(by)
    with pytest.raises(fl.InvalidInputError, match=type(by).__name__):
        leak.membership(1e-8)
    assert "membership" not in leak.to_frame()


def test_a_release_and_answers_compose_to_the_sum_of_their_information() -> None:
    case = make("logistic", intercept=True)
    by, noise = fl.SampledLabels(QUERIES), fl.Gaussian(2.0)
    J = dense_jacobian(case, case.fit())
    stacked = np.concatenate([answered(case, by, QUERIES) @ J, J / 2.0], axis=1)
    both = fl.compose(case.leak(by), case.leak(noise))
    np.testing.assert_allclose(both.per_example(), norms(stacked), rtol=1e-8)


def test_noise_on_answers_is_calibrated_to_a_limit() -> None:
    leak = make("logistic").leak(fl.Answers(QUERIES, fl.Laplace(1.0), of="probability"))
    found: Any = fl.calibrate(leak, eta=0.5)
    assert isinstance(found, fl.Answers)
    assert leak.with_noise(found).per_example().max() == pytest.approx(0.5)
    assert leak.with_noise(found).per_example().max() <= 0.5
    with pytest.raises(fl.InvalidInputError, match="SampledLabels has no noise"):
        fl.calibrate(make("logistic").leak(fl.SampledLabels(QUERIES)), eta=0.5)


@pytest.mark.parametrize("options", [{"shape": "hessian"}, {"over": "any-record"}])
def test_calibrations_for_parameters_refuse_answers(options: Any) -> None:
    leak = make("squared").leak(fl.Answers(QUERIES, fl.Gaussian(1.0)))
    with pytest.raises(fl.InvalidInputError, match="this leakage is of Answers"):
        fl.calibrate(leak, eta=0.5, **options)


def test_copies_measure_the_same() -> None:
    leak = make("logistic").leak(fl.Answers(QUERIES, fl.Gaussian(0.3)))
    for copied in copies(leak):
        np.testing.assert_array_equal(copied.per_example(), leak.per_example())


@pytest.mark.parametrize(
    ("attempt", "reason"),
    [
        (lambda: fl.Answers(QUERIES, fl.Gaussian(1.0), of="class"), "of must be one of"),
        (lambda: fl.Answers(QUERIES, 0.1), "noise must be a noise"),  # type: ignore[arg-type]
        (lambda: make("squared").leak(fl.SampledLabels(QUERIES)), "squared"),
        (lambda: make("poisson").leak(fl.Answers(QUERIES, fl.Gaussian(1.0), "probability")), "logistic loss"),
        (lambda: make("squared").leak(fl.Answers(QUERIES[:, :2], fl.Gaussian(1.0))), "3 columns"),
        (lambda: make("squared").leak(fl.Answers(np.full((1, 3), np.nan), fl.Gaussian(1.0))), "finite"),
        (
            lambda: fl.release(make("squared").fit(), WAYS["labels"][0](QUERIES)),
            "SampledLabels describes answers to queries",
        ),
        (lambda: make("squared").leak(fl.Answers(QUERIES, fl.Gaussian(1.0, np.eye(2)))), "shape must cover the 6"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(attempt: Any, reason: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=reason):
        attempt()


def in_memory(x: Any) -> Any:
    return x.compute() if hasattr(x, "compute") else host(x)


def test_rows_of_every_library_give_the_same(to_rows: Any) -> None:
    case = make("logistic", intercept=True)
    X, y = to_rows(case.X), to_rows(case.y)
    fit = fl.minimise(X, y, "logistic", case.l2, intercept=True)
    for by in (fl.SampledLabels(QUERIES), fl.Answers(QUERIES, fl.Bounded(0.5), of="probability")):
        leak, expected = fl.measure(fit, X, y, by), case.leak(by)
        np.testing.assert_allclose(in_memory(leak.per_example()), expected.per_example(), rtol=1e-8)
        np.testing.assert_allclose(in_memory(leak.per_cell()), expected.per_cell(), rtol=1e-8)
        assert leak.dataset() == pytest.approx(expected.dataset(), rel=1e-8)

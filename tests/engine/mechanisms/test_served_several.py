"""Answers of models of several outputs: against refits, drawn answers, closed forms and models of one output."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from often import often

Vector = NDArray[np.float64]
RNG = np.random.default_rng(11)
N, D, K = 25, 3, 3
X = RNG.normal(size=(N, D))
CLASSES = np.argmax(X @ RNG.normal(size=(D, K)) + RNG.gumbel(size=(N, K)), axis=1)
NUMBERS = X @ RNG.normal(size=(D, K)) + RNG.normal(size=(N, K))
WEIGHTS = RNG.gamma(2.0, 0.5, size=N)
QUERIES = RNG.normal(size=(4, D))
SHAPE = np.eye(4 * K) + 0.3
WAYS: dict[str, Any] = {
    "scores of classes": (fl.Answers(QUERIES, fl.Gaussian(0.3)), "softmax"),
    "scores of numbers": (fl.Answers(QUERIES, fl.Laplace(0.3)), "squared"),
    "scores with dependent noise": (fl.Answers(QUERIES, fl.Gaussian(0.3, SHAPE)), "softmax"),
    "probabilities": (fl.Answers(QUERIES, fl.Gaussian(0.02), of="probability"), "softmax"),
    "labels": (fl.SampledLabels(QUERIES), "softmax"),
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


def fitted(loss: str, X: Vector = X, intercept: bool = True, weights: Any = None) -> fl.Fit:
    return fl.minimise(X, CLASSES if loss == "softmax" else NUMBERS, loss, 0.05, weights, intercept)


def measured(loss: str, by: Any, **more: Any) -> fl.Leakage:
    fit = fitted(loss, **more)
    return fl.measure(fit, X, CLASSES if loss == "softmax" else NUMBERS, by)


def scores(fit: Any, Q: Vector = QUERIES) -> Vector:
    return np.asarray(Q @ fit.coef.T + (0.0 if fit.intercept is None else fit.intercept))


def shares(z: Vector) -> Vector:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def root_of(by: Any, z: Vector) -> Vector:
    """W with W^T W the information about the scores of all queries, (rows, m K), written out."""
    p = shares(z)
    if isinstance(by, fl.SampledLabels):
        whole = np.zeros((z.size, z.size))
        for q, own in enumerate(p):
            place = slice(q * K, (q + 1) * K)
            whole[place, place] = np.diag(own) - np.outer(own, own)
        values, vectors = np.linalg.eigh(whole)
        return np.asarray(np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T)
    J = np.eye(z.size)
    if by.of == "probability":
        for q, own in enumerate(p):
            place = slice(q * K, (q + 1) * K)
            J[place, place] = np.diag(own) - np.outer(own, own)
    root = by.noise.unit_information_root(z.size)
    return np.asarray((J if root is None else root @ J) / by.noise.scale)


@cache
def moves(loss: str, intercept: bool) -> Vector:
    """The Jacobian of the scores by each feature, (m K, n d), by differences of refits."""
    h, columns = 1e-5, []
    weights = WEIGHTS if intercept else None
    for i in range(N):
        for j in range(D):
            sides = []
            for sign in (1, -1):
                moved = X.copy()
                moved[i, j] += sign * h
                sides.append(scores(fitted(loss, moved, intercept, weights)).ravel())
            columns.append((sides[0] - sides[1]) / (2 * h))
    return np.stack(columns, axis=1)


@every_way
@pytest.mark.parametrize("intercept", often([True, False]))
def test_every_eta_is_that_of_refits(way: Any, intercept: bool) -> None:
    by, loss = way
    weights = WEIGHTS if intercept else None
    leak = measured(loss, by, intercept=intercept, weights=weights)
    root = root_of(by, scores(fitted(loss, X, intercept, weights)))
    J = (root @ moves(loss, intercept)).reshape(-1, N, D)
    single = [np.linalg.norm(J[:, i, :], 2) for i in range(N)]
    np.testing.assert_allclose(leak.per_example(leak.attributes), single, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(leak.per_cell(), np.linalg.norm(J, axis=0), rtol=1e-5, atol=1e-7)
    whole = [np.linalg.norm(J[:, :, j], 2) for j in range(D)]
    np.testing.assert_allclose(leak.per_attribute(), whole, rtol=1e-5)
    some = J[:, [2, 5], :].reshape(J.shape[0], -1)
    assert leak.of([2, 5], leak.attributes) == pytest.approx(np.linalg.norm(some, 2), rel=1e-5)
    np.testing.assert_allclose(leak.fim([2, 5], leak.attributes), some.T @ some, rtol=1e-4, atol=1e-6)


def test_labels_of_numbers_count() -> None:
    by, loss = WAYS["scores of numbers"]
    fit: Any = fitted(loss)
    h, moved = 1e-5, NUMBERS.copy()
    moved[3, 1] += h
    J = (scores(fl.minimise(X, moved, loss, 0.05, None, True)) - scores(fit)) / h / by.noise.scale
    # the same for every output, so that a label of one has the norm of them all
    assert measured(loss, by).per_label()[3] == pytest.approx(np.linalg.norm(J), rel=1e-4)


@pytest.mark.parametrize("name", ["scores of classes", "probabilities", "labels", "scores of numbers"])
def test_fim_is_the_covariance_of_the_score_and_five_percent_off_is_rejected(name: str) -> None:
    by, loss = WAYS[name]
    rng = np.random.default_rng(4)
    count, h = 60_000, 1e-4
    z = scores(fitted(loss))
    if isinstance(by, fl.SampledLabels):
        edges = np.cumsum(shares(z), axis=1)
        drawn = (rng.random((count, len(z), 1)) > edges[None]).sum(axis=2)
    else:
        clean = shares(z) if by.of == "probability" else z
        drawn = clean.ravel() + by.noise.draws(count, z.size, rng)

    def log_likelihood(there: Vector) -> Vector:
        if isinstance(by, fl.SampledLabels):
            logs = np.log(shares(there))
            return np.asarray(sum(logs[q][drawn[:, q]] for q in range(len(there))))
        return np.asarray(by.noise.log_density(drawn - (shares(there) if by.of == "probability" else there).ravel()))

    score = []
    for column in range(D):
        sides = []
        for sign in (1, -1):
            moved = X.copy()
            moved[3, column] += sign * h
            sides.append(log_likelihood(scores(fitted(loss, moved))))
        score.append((sides[0] - sides[1]) / (2 * h))
    leak = measured(loss, by)
    fim = leak.fim([3], leak.attributes)
    covariance = np.stack(score) @ np.stack(score).T / count
    top = np.linalg.eigh(fim)[1][:, -1]
    share = float(top @ covariance @ top) / float(top @ fim @ top)
    assert share == pytest.approx(1.0, abs=0.025)
    assert min(abs(share / 0.95 - 1.0), abs(share / 1.05 - 1.0)) > 0.02


def test_scores_of_unit_vectors_are_a_release_and_numbers_are_models_of_one_output() -> None:
    noise = fl.Gaussian(0.5)
    for loss in ("softmax", "squared"):
        once = measured(loss, noise, intercept=False).per_example()
        asked = measured(loss, fl.Answers(np.eye(D), noise), intercept=False)
        np.testing.assert_allclose(asked.per_example(), once, rtol=1e-9)
    by = fl.Answers(QUERIES, noise)
    each = [
        fl.measure(fl.minimise(X, NUMBERS[:, k], "squared", 0.05, None, True), X, NUMBERS[:, k], by) for k in range(K)
    ]
    single = measured("squared", by)
    np.testing.assert_allclose(single.per_cell() ** 2, sum(leak.per_cell() ** 2 for leak in each), rtol=1e-9)


def test_two_classes_through_softmax_are_those_of_the_logistic_loss() -> None:
    """At half the penalty; labels and their draws are the same, and a row's features have 1/sqrt 2 of nothing here."""
    y = (CLASSES > 0) * 1
    by = fl.SampledLabels(QUERIES)
    one = fl.measure(fl.minimise(X, y * 1.0, "logistic", 0.05, None, True), X, y, by)
    two = fl.measure(fl.minimise(X, y, "softmax", 0.1, None, True), X, y, by)
    np.testing.assert_allclose(two.per_example(two.attributes), one.per_example(one.attributes), rtol=1e-8)


def test_blocks_of_queries_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    Q = RNG.normal(size=(50, D))
    for way in (fl.SampledLabels(Q), fl.Answers(Q, fl.Gaussian(0.2))):
        whole = measured("softmax", way).per_example()
        monkeypatch.setattr("fisherleak.engine.mechanisms.interface_answers.QUERY_VALUES", 21)
        np.testing.assert_allclose(measured("softmax", way).per_example(), whole, rtol=1e-9)


def test_membership_of_scores_is_their_move() -> None:
    by = fl.Answers(QUERIES, fl.Gaussian(0.3))
    for loss in ("softmax", "squared"):
        weights = np.ones(N)
        weights[7] = 0.0
        # n l2 is kept: the same penalty, one row without weight
        moved = scores(fitted(loss, weights=weights)) - scores(fitted(loss))
        mu = measured(loss, by).membership(1e-8)[7]
        assert mu == pytest.approx(np.linalg.norm(moved) / 0.3, rel=1e-3)


def test_until_a_limit_is_as_many_queries_as_can_be_answered() -> None:
    leak = measured("softmax", None)
    for noise, of in ((fl.Gaussian(1.0), "score"), (fl.Gaussian(0.2), "probability"), (None, "label")):
        once = leak.with_noise(fl.SampledLabels(QUERIES) if noise is None else fl.Answers(QUERIES, noise, of))
        limit = 7.001 * once.per_example().max()
        found = fl.queries_until(leak, QUERIES, noise, limit, of)
        assert 49 * len(QUERIES) <= found < 50 * len(QUERIES)
    assert fl.queries_until(leak, np.zeros((2, D)), fl.Gaussian(1.0)) < math.inf  # the intercepts answer


def test_frames_pipelines_compositions_and_copies_of_scikit_learn() -> None:
    frame = pd.DataFrame(X, columns=list("abc"))
    model = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10, max_iter=1000)).fit(frame, CLASSES)
    asked = frame.iloc[:5]
    by = fl.Answers(asked, fl.Gaussian(0.1), of="probability")
    leak = fl.measure(model, frame, CLASSES, by)
    scaled = model[:-1].transform(frame)
    bare = fl.measure(model[-1], scaled, CLASSES, fl.Answers(scaled[:5], fl.Gaussian(0.1), of="probability"))
    np.testing.assert_allclose(leak.per_label(), bare.per_label(), rtol=1e-8)
    both = fl.compose(leak, leak.with_noise(fl.Gaussian(2.0)))
    parts = leak.per_label() ** 2, leak.with_noise(fl.Gaussian(2.0)).per_label() ** 2
    assert np.all(both.per_label() ** 2 <= sum(parts) * (1 + 1e-9))
    assert np.all(both.per_label() >= leak.per_label() * (1 - 1e-9))
    whole = fl.measure(model, frame, CLASSES, by, public="nothing")
    assert np.all(whole.per_example() > 0)
    found = fl.calibrate(leak, eta=0.5)
    assert leak.with_noise(found).per_example().max() <= 0.5


def test_end_to_end_answers_are_those_of_refitted_pipelines() -> None:
    frame = pd.DataFrame(X, columns=list("abc"))

    def pipeline(values: Any) -> Any:
        return make_pipeline(StandardScaler(), Ridge(alpha=2.0)).fit(values, NUMBERS)

    leak = fl.measure(pipeline(frame), frame, NUMBERS, fl.Answers(frame.iloc[:4], fl.Gaussian(0.1)), public="nothing")
    h, values = 1e-5, X.copy()
    values[6, 1] += h
    moved = pd.DataFrame(values, columns=list("abc"))
    J = (pipeline(moved).predict(frame.iloc[:4]) - pipeline(frame).predict(frame.iloc[:4])) / h / 0.1
    assert leak.per_cell()[6, 1] == pytest.approx(np.linalg.norm(J), rel=1e-4)


def test_what_a_model_does_not_tell_is_refused_by_name() -> None:
    for by in (fl.SampledLabels(QUERIES), fl.Answers(QUERIES[:0], fl.Gaussian(1.0), of="probability")):
        with pytest.raises(fl.InvalidInputError, match="softmax"):
            measured("squared", by)
    with pytest.raises(fl.InvalidInputError, match="shape must cover the 12"):
        measured("softmax", fl.Answers(QUERIES, fl.Gaussian(1.0, np.eye(4))))

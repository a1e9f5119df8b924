"""The number of queries until a limit: by counting, by the closed form of repeats, and on the safe side."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from cases import make

QUERIES = np.random.default_rng(5).normal(size=(9, 3))


def counted(case: Any, limit: float, make_way: Any) -> int:
    """Ask one query after the other until someone is above the limit."""
    count = 0
    while True:
        asked = np.stack([QUERIES[k % 9] for k in range(count + 1)])
        if case.leak(make_way(asked)).per_example().max() > limit:
            return count
        count += 1


@pytest.mark.parametrize(
    ("loss", "of", "noise", "limit"),
    [
        ("squared", "score", fl.Gaussian(1.0), 0.7),
        ("squared", "score", fl.Bounded(9.0), 0.7),
        ("logistic", "probability", fl.Laplace(0.1), 1.0),
        ("logistic", "label", None, 0.8),
        ("squared", "score", fl.Gaussian(1.0), 0.01),
    ],
)
def test_the_number_is_that_of_counting(loss: str, of: str, noise: Any, limit: float) -> None:
    case = make(loss, intercept=True)
    ways = (lambda Q: fl.SampledLabels(Q)) if noise is None else (lambda Q: fl.Answers(Q, noise, of))
    expected = counted(case, limit, ways)
    assert fl.queries_until(case.leak(), QUERIES, noise, limit, of) == expected


def test_repeats_of_one_query_follow_the_root() -> None:
    leak = make("squared").leak()
    once = leak.with_noise(fl.Answers(QUERIES[:1], fl.Gaussian(1.0))).per_example().max()
    assert fl.queries_until(leak, QUERIES[:1], fl.Gaussian(1.0), 100.5 * once) == math.floor(100.5**2)


def test_attributes_that_count_may_be_chosen() -> None:
    leak = make("squared").leak()
    few = fl.queries_until(leak, QUERIES, fl.Gaussian(1.0), 1.0)
    assert fl.queries_until(leak, QUERIES, fl.Gaussian(1.0), 1.0, attributes=[0]) > few


def test_answers_that_tell_nothing_never_reach_it() -> None:
    assert fl.queries_until(make("squared").leak(), np.zeros((2, 3)), fl.Gaussian(1.0)) == math.inf


@pytest.mark.parametrize(
    ("attempt", "reason"),
    [
        (lambda leak: fl.queries_until(leak, QUERIES, None), "noise must be given"),
        (lambda leak: fl.queries_until(leak, QUERIES, fl.Gaussian(1.0), of="label"), "noise must be None"),
        (lambda leak: fl.queries_until(leak, QUERIES, fl.Gaussian(1.0), of="class"), "of must be one of"),
        (lambda leak: fl.queries_until(leak, QUERIES[:0], fl.Gaussian(1.0)), "no rows"),
        (lambda leak: fl.queries_until(leak, QUERIES, fl.Gaussian(1.0), eta=0.0), "eta"),
        (lambda leak: fl.queries_until(fl.compose(leak, leak), QUERIES, fl.Gaussian(1.0)), "one model"),
        (lambda leak: fl.queries_until(leak, QUERIES, fl.Gaussian(1.0, np.eye(9))), "independent"),
        (lambda leak: fl.queries_until(leak.noise, QUERIES, fl.Gaussian(1.0)), "takes a leakage"),
    ],
)
def test_what_does_not_fit_is_refused(attempt: Any, reason: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=reason):
        attempt(make("squared").leak())


@pytest.mark.long
def test_random_queries_on_adult_follow_repeated_releases(data_folder: Any) -> None:
    """Queries of second moment C hold as much as releases with noise of covariance C^-1, one for each."""
    data = fl.datasets.load_adult(data_home=data_folder)
    X, y = np.asarray(data.preprocessing.fit_transform(data.X), dtype=float), np.asarray(data.y, dtype=float)
    leak = fl.measure(fl.minimise(X, y, "logistic", 1e-3, intercept=True), X, y)
    rows = np.column_stack([X, np.ones(len(X))])
    p = 1 / (1 + np.exp(-rows @ np.asarray(leak.fits[0].theta)))
    values, vectors = np.linalg.eigh((rows * (p * (1 - p))[:, None]).T @ rows / len(X))
    covariance = (vectors / np.maximum(values, 1e-9 * values[-1])) @ vectors.T
    once = leak.with_noise(fl.Gaussian(1.0, 0.5 * (covariance + covariance.T))).per_example()
    rng = np.random.default_rng(0)
    for power, error in [(3, 0.2), (4, 0.05), (5, 0.015)]:
        Q = X[rng.integers(0, len(X), 10**power)]
        eta = leak.with_noise(fl.SampledLabels(Q)).per_example()
        assert np.mean(eta) == pytest.approx(10 ** (power / 2) * np.mean(once), rel=error)
        assert eta.max() == pytest.approx(10 ** (power / 2) * once.max(), rel=2 * error)

"""The white box against true refits, simulations and closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline

import fisherleak as fl
from attacks.clinic import DOSE, HIGH, MODELS, TABLE, parameters, pipeline
from fisherleak._support.arrays import host


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("attribute", ["gene", "smoker"])
def test_white_box_is_that_of_true_refits(name: str, attribute: str) -> None:
    model, y = MODELS[name]
    model = clone(model).fit(TABLE, y)
    rows = [0, 7, 50, 119]
    attack = fl.attacks.WhiteBox(model, TABLE, y, attribute, rows=rows)
    prepared = model[:-1].transform(TABLE)
    for at, row in enumerate(rows):
        for k, value in enumerate(attack.values):
            other = TABLE.copy()
            other.loc[row, attribute] = value
            features = prepared.copy()
            features[row] = model[:-1].transform(other)[row]
            fresh = clone(model[-1]).fit(features, y)
            move = parameters(make_pipeline("passthrough", fresh)) - parameters(model)
            np.testing.assert_allclose(attack.moves[k].values[at], move, atol=2e-6 * max(1e-3, np.abs(move).max()))


def test_without_noise_every_value_is_found() -> None:
    for model, y in MODELS.values():
        model = clone(model).fit(TABLE, y)
        for attribute in ("gene", "smoker"):
            attack = fl.attacks.WhiteBox(model, TABLE, y, attribute)
            assert (attack.infer() == TABLE[attribute]).all()
            assert attack.against(model).accuracy == 1.0


@pytest.mark.parametrize("use_prior", [False, True])
@pytest.mark.parametrize("shaped", [False, True])
@pytest.mark.parametrize("attribute", ["gene", "smoker"])
def test_closed_form_is_the_simulation_s_mean(attribute: str, shaped: bool, use_prior: bool) -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    shape = None
    if shaped:
        root = np.random.default_rng(1).normal(size=(5, 5))
        shape = root @ root.T + 0.3 * np.eye(5)
    attack = fl.attacks.WhiteBox(model, TABLE, DOSE, attribute, use_prior=use_prior)
    for scale in (1e-3, 0.02, 1.0):
        noise = fl.Gaussian(scale, shape)
        exact = attack.accuracy(noise)
        draws = 4000
        simulated = np.mean(attack._simulated(noise, draws, 0), axis=0)
        assert np.abs(exact - simulated).max() < 5 * np.sqrt(0.25 / draws)
        outcome = attack.against(noise)
        assert outcome.accuracy == pytest.approx(exact.mean())
        assert outcome.low <= outcome.accuracy <= outcome.high
        assert outcome.trials is None


def test_many_values_are_simulated() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    attack = fl.attacks.WhiteBox(model, TABLE, DOSE, "age", values=[20, 40, 60, 80])
    accuracy = attack.accuracy(fl.Gaussian(0.01), draws=200)
    assert accuracy.shape == (120,)
    assert 0.25 < accuracy.mean() < 1.0
    assert attack.against(fl.Gaussian(0.01), draws=50).trials == 50


def test_a_prior_never_hurts_who_uses_it() -> None:
    """For values drawn from the prior: per row, never below the prior and never below the nearest model."""
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    for attribute in ("gene", "smoker"):
        plain, knowing = (
            fl.attacks.WhiteBox(model, TABLE, DOSE, attribute, use_prior=use_prior) for use_prior in (False, True)
        )
        for scale in np.logspace(-4, 2, 13):
            noise = fl.Gaussian(float(scale))
            least = knowing.accuracy(noise, over="prior") + 1e-9
            assert (least >= knowing.prior.max()).all()
            assert (least >= plain.accuracy(noise, over="prior")).all()
    assert plain.accuracy(fl.Gaussian(1e3)).mean() < 0.53 < plain.prior.max()


def test_binary_formulas_of_the_paper_s_setting() -> None:
    """Phi(|Delta| / 2 sigma), and with a prior p Phi(D/2 + L/D) + (1 - p) Phi(D/2 - L/D)."""
    from scipy.stats import norm

    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    attack = fl.attacks.WhiteBox(model, TABLE, DOSE, "smoker")
    sigma = 0.05
    length = np.linalg.norm(attack.moves[0].values + attack.moves[1].values, axis=1)  # one of the two is zero
    np.testing.assert_allclose(attack.accuracy(fl.Gaussian(sigma)), norm.cdf(length / (2 * sigma)), rtol=1e-12)
    knowing = fl.attacks.WhiteBox(model, TABLE, DOSE, "smoker", use_prior=True)
    D, p = length / sigma, knowing.prior[0]
    L = np.log(p / (1 - p))
    expected = p * norm.cdf(D / 2 + L / D) + (1 - p) * norm.cdf(D / 2 - L / D)
    np.testing.assert_allclose(knowing.accuracy(fl.Gaussian(sigma), over="prior"), expected, rtol=1e-10)


def test_rows_without_weight_leave_only_the_prior() -> None:
    weights = np.ones(120)
    weights[:20] = 0.0
    model = clone(pipeline(Ridge(alpha=0.5))).fit(TABLE, DOSE, ridge__sample_weight=weights)
    attack = fl.attacks.WhiteBox(model, TABLE, DOSE, "gene", sample_weight=weights)
    mode = attack.values[int(np.argmax(attack.prior))]
    noise = fl.Gaussian(1e-6)
    for guesses in (attack.infer(), attack.infer(fl.release(model, noise, public="preprocessing"))):
        assert (guesses[:20] == mode).all()
        assert (guesses[20:] == TABLE["gene"][20:]).all()
    np.testing.assert_array_equal(attack.accuracy(noise)[:20], TABLE["gene"][:20] == mode)


def test_what_a_loose_solver_left_is_in_every_release() -> None:
    """Exact accuracies are those of the model that is released, not of the exact minimum."""
    loose = pipeline(LogisticRegression(C=2.0, tol=1e-4)).fit(TABLE, HIGH)
    attack = fl.attacks.WhiteBox(loose, TABLE, HIGH, "gene")
    assert attack.against().accuracy == attack.against(loose).accuracy
    for scale in (1e-9, 1e-3):
        noise = fl.Gaussian(scale)
        releases = [fl.release(loose, noise, seed, public="preprocessing") for seed in range(200)]
        sampled = attack.against(releases)
        assert attack.against(noise).accuracy == pytest.approx(sampled.accuracy, abs=0.02)


CLASSES = np.array(["high", "low", "middle"])[np.digitize(DOSE, np.quantile(DOSE, [0.33, 0.7]))]
SEVERAL = {
    "softmax": (pipeline(LogisticRegression(C=2.0, tol=1e-12, solver="newton-cg", max_iter=500)), CLASSES),
    "classes by ridge": (pipeline(RidgeClassifier()), CLASSES),
    "two numbers": (pipeline(Ridge(alpha=0.5)), np.column_stack([DOSE, TABLE.age / 10 + DOSE**2])),
}


def refit_moves(model: Any, y: Any, row: int, label: Any, table: Any = TABLE) -> Any:
    """The move of all parameters, coefficients output by output and then intercepts, by a fit with one other row."""
    features, labels = (
        model[:-1].transform(table),
        np.array(y, dtype=object if np.asarray(y).dtype.kind == "U" else None),
    )
    labels[row] = label
    labels = labels.astype(str) if labels.dtype == object else labels
    fresh = clone(model[-1]).fit(features, labels)
    return np.append(fresh.coef_.ravel(), fresh.intercept_) - np.append(model[-1].coef_.ravel(), model[-1].intercept_)


@pytest.mark.parametrize("name", list(SEVERAL))
def test_several_outputs_move_as_true_refits_do(name: str) -> None:
    model, y = SEVERAL[name]
    model = clone(model).fit(TABLE, y)
    rows = [0, 50, 119]
    attack = fl.attacks.WhiteBox(model, TABLE, y, "gene", rows=rows)
    for at, row in enumerate(rows):
        for k, value in enumerate(attack.values):
            other = TABLE.copy()
            other.loc[row, "gene"] = value
            move = refit_moves(model, y, row, y[row], other)
            np.testing.assert_allclose(attack.moves[k].values[at], move, atol=1e-4 * max(1e-3, np.abs(move).max()))
    assert (attack.infer() == TABLE["gene"].to_numpy()[rows]).all()


@pytest.mark.parametrize("name", [*SEVERAL, "linear", "logistic", "ridge classifier", "poisson"])
def test_the_label_s_moves_are_those_of_true_refits(name: str) -> None:
    model, y = (SEVERAL | MODELS)[name]
    model = clone(model).fit(TABLE, y)
    rows, second = [3, 60, 111], np.asarray(y).ndim == 2
    attack = fl.attacks.WhiteBox(model, TABLE, y, ("label", 1) if second else "label", rows=rows)
    for at, row in enumerate(rows):
        for k, value in list(enumerate(attack.values))[:4]:
            label = np.array([y[row, 0], value]) if second else value
            move = refit_moves(model, y, row, label)
            np.testing.assert_allclose(attack.moves[k].values[at], move, atol=1e-4 * max(1e-3, np.abs(move).max()))


@pytest.mark.parametrize("use_prior", [False, True])
@pytest.mark.parametrize(("name", "attribute"), [("softmax", "smoker"), ("softmax", "label"), ("two numbers", "gene")])
def test_closed_forms_of_several_outputs_are_the_simulation_s_mean(name: str, attribute: str, use_prior: bool) -> None:
    model, y = SEVERAL[name]
    attack = fl.attacks.WhiteBox(clone(model).fit(TABLE, y), TABLE, y, attribute, use_prior=use_prior)
    for scale in (3e-3, 0.1):
        noise = fl.Gaussian(scale)
        simulated = np.mean(attack._simulated(noise, 3000, 0), axis=0)
        assert np.abs(attack.accuracy(noise) - simulated).max() < 5 * np.sqrt(0.25 / 3000)


def test_releases_of_several_classes_are_attacked_with_their_own_noise() -> None:
    model, y = SEVERAL["softmax"]
    model = clone(model).fit(TABLE, y)
    attack = fl.attacks.WhiteBox(model, TABLE, y, "label")
    released = fl.release(model, fl.Gaussian(1e-6), 0, public="preprocessing")
    assert (attack.infer(released) == y).all()
    assert attack.against(fl.Laplace(1e-6), draws=20).accuracy == 1.0
    with pytest.raises(fl.InvalidInputError, match="Posterior"):
        attack.accuracy(fl.Posterior(0.1))  # type: ignore[arg-type]


def test_many_rows_of_many_libraries_move_alike() -> None:
    """The way by the third derivative, where arrays know no more than the standard says."""
    strict = pytest.importorskip("array_api_strict")
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(1100, 2)), rng.random(1100) < 0.4])
    y = np.argmax(X @ rng.normal(size=(3, 3)) + rng.gumbel(size=(1100, 3)), axis=1)
    found = []
    for xp in (np, strict):
        rows, labels = xp.asarray(X), xp.asarray(y)
        fit = fl.minimise(rows, labels, loss="softmax", l2=1e-3, intercept=True)
        attack = fl.attacks.WhiteBox(fit, rows, labels, 2)
        found.append(host(attack.moves[0].values))
        assert attack.moves[0].refitted == 0
    np.testing.assert_allclose(found[0], found[1], atol=1e-6 * np.abs(found[0]).max())


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_people_take_a_value_in_all_their_rows(loss: str) -> None:
    """Against a fit with the other value in all rows of a person, and how often releases of it are told in simulation."""
    rng = np.random.default_rng(5)
    who, own = np.arange(60) % 12, rng.integers(0, 2, 12)
    X = np.column_stack([rng.normal(size=(60, 2)), own[who]])
    score = X @ [0.5, -0.3, 0.8] + rng.normal(size=60)
    y = {"squared": score, "logistic": (score > 0) * 1.0, "softmax": np.digitize(score, [-0.5, 0.8]) * 1.0}[loss]
    weights = rng.uniform(0.4, 2.0, 60)
    fit = fl.minimise(X, y, loss, 1e-2, weights, True)
    attack = fl.attacks.WhiteBox(fit, X, y, 2, sample_weight=weights, groups=who)
    assert (attack.target.m, attack.truth.tolist()) == (12, own.tolist())
    np.testing.assert_allclose(attack.prior, [np.mean(own == 0), np.mean(own == 1)])
    moves = []
    for person in range(12):
        other = X.copy()
        other[who == person, 2] = 1 - own[person]
        moves.append(np.ravel(fl.minimise(other, y, loss, 1e-2, weights, True).theta) - np.ravel(fit.theta))
        found = attack.moves[1 - own[person]].values[person]
        assert np.linalg.norm(found - moves[-1]) <= 1e-4 * np.linalg.norm(moves[-1])
        assert not attack.moves[own[person]].values[person].any()
    noise = fl.Gaussian(float(np.linalg.norm(moves[0])))
    expected = norm.cdf(np.linalg.norm(moves, axis=1) / 2 / noise.scale)
    np.testing.assert_allclose(attack.accuracy(noise), expected, rtol=1e-4)
    drawn = np.random.default_rng(1).normal(0, noise.scale, (20_000, moves[0].size)) + np.ravel(fit.theta)
    right = np.mean(attack.infer(drawn) == own[None, :], axis=0)
    np.testing.assert_allclose(right, expected, atol=4 * np.sqrt(0.25 / 20_000))


def test_what_differs_within_a_person_is_refused() -> None:
    X = np.column_stack([np.arange(12) % 2, np.arange(12) % 3]).astype(float)
    y, who = np.sin(np.arange(12)), np.arange(12) % 3
    fit = fl.minimise(X, y, l2=1e-2)
    with pytest.raises(fl.InvalidInputError, match=r"one value in all rows of a person; '.*' has several for 0"):
        fl.attacks.WhiteBox(fit, X, y, 0, groups=who)
    with pytest.raises(fl.InvalidInputError, match="BlackBox guesses a value of one row: leave groups out"):
        fl.attacks.BlackBox(fit, X, y, 1, groups=who)
    with pytest.raises(fl.InvalidInputError, match="prior and groups cannot both be given"):
        fl.attacks.WhiteBox(fit, X, y, 1, groups=who, prior=[0.2, 0.3, 0.5])
    assert fl.attacks.Prior(fit, X, y, 1, groups=who).infer().shape == (3,)

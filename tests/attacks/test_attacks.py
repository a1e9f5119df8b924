"""Attackers against true refits, simulations and what they are allowed to know."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import fisherleak as fl
from cases import EVERY_ATTACKER


def people(n: int = 120, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(seed)
    gene = rng.choice(["CC", "CT", "TT"], size=n, p=[0.3, 0.45, 0.25])
    smoker = rng.choice(["no", "yes"], size=n, p=[0.7, 0.3])
    age = rng.normal(50.0, 12.0, size=n).round()
    table = pd.DataFrame({"age": age, "gene": gene, "smoker": smoker})
    dose = 0.05 * age + np.select([gene == "CT", gene == "TT"], [1.0, 2.0], 0.0) + 0.5 * (smoker == "yes")
    return table, dose + rng.normal(size=n)


def pipeline(last: Any, drop: Any = "first") -> Any:
    encoder = OneHotEncoder(drop=drop, sparse_output=False)
    steps = [("numbers", StandardScaler(), ["age"]), ("categories", encoder, ["gene", "smoker"])]
    return make_pipeline(ColumnTransformer(steps), last)


TABLE, DOSE = people()
HIGH = (np.median(DOSE) < DOSE).astype(int)
MODELS = {
    "linear": (pipeline(Ridge(alpha=0.5)), DOSE),
    "no intercept": (pipeline(Ridge(alpha=0.5, fit_intercept=False), drop=None), DOSE),
    "logistic": (pipeline(LogisticRegression(C=2.0, tol=1e-12, solver="newton-cholesky")), HIGH),
    "ridge classifier": (pipeline(RidgeClassifier()), np.where(HIGH == 1, "high", "low")),
    "poisson": (pipeline(PoissonRegressor(alpha=0.1, tol=1e-12, solver="newton-cholesky")), np.round(np.exp(DOSE / 4))),
    "mixed": (make_pipeline(ColumnTransformer([("codes", OrdinalEncoder(), ["gene", "smoker"])], remainder="passthrough"),
                            StandardScaler(), PCA(3), Ridge()), DOSE),
}  # fmt: skip


def parameters(model: Any) -> Any:
    last = model[-1]
    return np.append(np.ravel(last.coef_), np.ravel(last.intercept_)) if last.fit_intercept else np.ravel(last.coef_)


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


def test_numbers_are_guessed_to_the_nearest_candidate() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    attack = fl.attacks.WhiteBox(model, TABLE, DOSE, "age", values=[60.0, 30.0])
    assert (attack.truth == np.where(TABLE["age"] > 45, 60.0, 30.0)).all()
    assert attack.against().accuracy > 0.9
    exact, simulated = attack.accuracy(fl.Gaussian(0.01)), attack._simulated(fl.Gaussian(0.01), 4000, 0).mean(axis=0)
    assert np.abs(exact - simulated).max() < 5 * np.sqrt(0.25 / 4000)


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
    for guesses in (attack.infer(), attack.infer(fl.release(model, noise))):
        assert (guesses[:20] == mode).all()
        assert (guesses[20:] == TABLE["gene"][20:]).all()
    np.testing.assert_array_equal(attack.accuracy(noise)[:20], TABLE["gene"][:20] == mode)


@pytest.mark.parametrize("attacker", EVERY_ATTACKER)
def test_attackers_are_interchangeable(attacker: type[fl.attacks.Attacker]) -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    noise = fl.Gaussian(0.01)
    attack = attacker(model, TABLE, DOSE, "gene", rows=np.arange(60))
    one, stack = fl.release(model, noise, 0), [fl.release(model, noise, seed) for seed in range(3)]
    assert attack.infer(one).shape == (60,)
    assert attack.infer(stack).shape == (3, 60)
    assert (attack.infer(stack)[0] == attack.infer(one)).all()
    assert (attack.infer(np.stack([parameters(each) for each in stack])) == attack.infer(stack)).all()
    assert set(attack.infer(one)) <= {"CC", "CT", "TT"}
    outcome = attack.against(stack)
    assert outcome.trials == 3
    assert outcome.n == 60
    assert outcome.accuracy == pytest.approx(np.mean(attack.infer(stack) == TABLE["gene"].to_numpy()[:60]))
    assert outcome.baseline == pytest.approx(np.mean(TABLE["gene"][:60] == "CT"))
    assert outcome.low < outcome.accuracy < outcome.high or outcome.accuracy in (0.0, 1.0)
    assert attack.accuracy(noise).shape == (60,)
    assert str(attack.against(noise)).startswith(attack.name)


def test_black_box_regression_is_prior_times_density() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    attack = fl.attacks.BlackBox(model, TABLE, DOSE, "gene")
    residual = DOSE - model.predict(TABLE)
    variance = (residual**2).sum() / (120 - 5)
    scores = []
    for value, prior in zip(attack.values, attack.prior, strict=True):
        miss = model.predict(TABLE.assign(gene=value)) - DOSE
        scores.append(np.log(prior) - miss**2 / (2 * variance))
    assert (attack.infer() == np.array(attack.values)[np.argmax(scores, axis=0)]).all()


@pytest.mark.parametrize("name", ["logistic", "ridge classifier"])
def test_black_box_classification_is_prior_times_confusion(name: str) -> None:
    model, y = MODELS[name]
    model = clone(model).fit(TABLE, y)
    attack = fl.attacks.BlackBox(model, TABLE, y, "smoker")
    said = model.predict(TABLE)
    scores = []
    for value, prior in zip(attack.values, attack.prior, strict=True):
        answer = model.predict(TABLE.assign(smoker=value))
        scores.append([prior * np.mean(said[y == truth] == a) for truth, a in zip(y, answer, strict=True)])
    scores = np.array(scores)
    clear = np.abs(scores[0] - scores[1]) > 1e-12
    assert (attack.infer()[clear] == np.array(attack.values)[np.argmax(scores, axis=0)][clear]).all()


def test_ideal_never_trains_on_the_row_it_guesses() -> None:
    """Noise has nothing to learn: a learner scored on its own rows would find it all the same."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"coin": rng.choice(["head", "tail"], size=400), "x": rng.normal(size=400)})
    y = rng.normal(size=400)
    steps = [("coin", OneHotEncoder(drop="first"), ["coin"]), ("x", "passthrough", ["x"])]
    model = make_pipeline(ColumnTransformer(steps, sparse_threshold=0), Ridge()).fit(table, y)
    assert fl.attacks.Ideal(model, table, y, "coin").against().accuracy < 0.62


def test_arrays_fits_and_other_frames() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=80), rng.integers(0, 2, size=80)])
    y = X @ [1.0, 0.5] + rng.normal(size=80)
    fit = fl.minimise(X, y, l2=1e-3, intercept=True)
    by_fit = fl.attacks.WhiteBox(fit, X, y, 1)
    by_model = fl.attacks.WhiteBox(Ridge(alpha=80e-3).fit(X, y), X, y, 1)
    np.testing.assert_allclose(by_fit.moves[0].values, by_model.moves[0].values, atol=1e-12)
    released = fl.release(fit, fl.Gaussian(1e-9))
    assert (by_fit.infer(released) == X[:, 1]).all()
    knowing = fl.attacks.WhiteBox(fit, X, y, 1, use_prior=True)
    assert (knowing.infer(released) == X[:, 1]).all()
    model = pipeline(LinearRegression())
    frame = pl.DataFrame({name: TABLE[name].tolist() for name in TABLE})
    guesses = fl.attacks.WhiteBox(model.fit(frame, DOSE), frame, DOSE, "gene").infer()
    assert (guesses == TABLE["gene"]).all()
    typed = TABLE.astype({"gene": "category", "smoker": "category"}).set_axis(np.arange(120) * 3, axis=0)
    assert (fl.attacks.WhiteBox(model.fit(typed, DOSE), typed, DOSE, "gene").infer() == TABLE["gene"]).all()


def test_a_released_shell_can_be_attacked() -> None:
    shell = fl.PrivateRelease(pipeline(Ridge(alpha=0.5)), eta=5.0, keep_unperturbed=True).fit(TABLE, DOSE)
    attack = fl.attacks.WhiteBox(shell.unperturbed_, TABLE, DOSE, "gene")
    assert (attack.infer(shell) == attack.infer(shell.estimator_)).all()


REFUSALS = [
    ({"attribute": "gne"}, "There is no column 'gne'. Did you mean 'gene'?"),
    ({"attribute": 7}, "attribute must be a name or a number from 0 to 2; got 7"),
    ({"attribute": "age"}, "Column 'age' is numeric with .* different values: pass the candidates"),
    ({"attribute": "age", "values": [1.0]}, "at least two different candidates"),
    ({"attribute": "age", "values": [30, np.nan]}, "must be finite numbers"),
    ({"attribute": "gene", "values": ["CC", "GG"]}, "'GG', which column 'gene' never has"),
    ({"attribute": "gene", "values": ["CC", "CT"]}, "values must cover every attacked row: row [0-9]+ has 'TT'"),
    ({"attribute": "gene", "prior": [0.5, 0.5]}, "one probability for each of the 3 candidates"),
    ({"attribute": "gene", "prior": {"CC": 1.0}}, "'CT' has none"),
    ({"attribute": "gene", "prior": [-1.0, 1.0, 1.0]}, "prior must be a finite number, zero or more"),
    ({"attribute": "gene", "prior": ["a", "b", "c"]}, "prior must hold probabilities"),
    ({"attribute": "gene", "values": 5}, "values must be a list of candidates"),
    ({"attribute": "gene", "values": "CC"}, "values must be a list of candidates"),
    ({"attribute": "gene", "values": [["CC"], ["CT"]]}, "values must be single candidates"),
    ({"attribute": "age", "values": [10**400, 1]}, "must be finite numbers"),
    ({"attribute": "age", "values": ["20", "40"]}, "must be finite numbers"),
    ({"attribute": "gene", "rows": [500]}, "rows must be from 0 to 119; got 500"),
]


@pytest.mark.parametrize(("options", "message"), REFUSALS)
def test_refusals_name_the_value_and_the_remedy(options: dict[str, Any], message: str) -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    with pytest.raises(fl.InvalidInputError, match=message):
        fl.attacks.WhiteBox(model, TABLE, DOSE, **options)


def test_a_constant_column_has_nothing_to_infer() -> None:
    table = TABLE.assign(clinic="north")
    encoder = OneHotEncoder(sparse_output=False)
    model = make_pipeline(ColumnTransformer([("all", encoder, ["gene", "clinic"])]), Ridge()).fit(table, DOSE)
    with pytest.raises(
        fl.InvalidInputError, match="Column 'clinic' has one value only \\(north\\): there is nothing to infer"
    ):
        fl.attacks.WhiteBox(model, table, DOSE, "clinic")


def test_refusals_of_releases() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    attack = fl.attacks.WhiteBox(model, TABLE, DOSE, "gene")
    for released in (np.zeros(3), np.full(5, np.nan), "model", np.zeros((1, 2, 5))):
        with pytest.raises(fl.InvalidInputError, match="released must"):
            attack.infer(released)
    with pytest.raises(fl.InvalidInputError, match="must know the noise"):
        fl.attacks.WhiteBox(model, TABLE, DOSE, "gene", use_prior=True).infer(model)
    with pytest.raises(fl.InvalidInputError, match="draws"):
        fl.attacks.BlackBox(model, TABLE, DOSE, "gene").against(fl.Gaussian(1.0), draws=0)
    with pytest.raises(fl.InvalidInputError, match="over must be"):
        attack.accuracy(fl.Gaussian(1.0), over="columns")


def test_a_prior_is_matched_by_value() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    counts = TABLE["gene"].value_counts(normalize=True)  # the most frequent first, unlike the candidates
    by_series = fl.attacks.Prior(model, TABLE, DOSE, "gene", prior=counts)
    np.testing.assert_allclose(by_series.prior, fl.attacks.Prior(model, TABLE, DOSE, "gene").prior)
    huge = fl.attacks.Prior(model, TABLE, DOSE, "gene", prior=[1e308] * 3)
    np.testing.assert_allclose(huge.prior, 1 / 3)


def test_what_a_loose_solver_left_is_in_every_release() -> None:
    """Exact accuracies are those of the model that is released, not of the exact minimum."""
    loose = pipeline(LogisticRegression(C=2.0, tol=1e-4)).fit(TABLE, HIGH)
    attack = fl.attacks.WhiteBox(loose, TABLE, HIGH, "gene")
    assert attack.against().accuracy == attack.against(loose).accuracy
    for scale in (1e-9, 1e-3):
        noise = fl.Gaussian(scale)
        sampled = attack.against([fl.release(loose, noise, seed) for seed in range(200)])
        assert attack.against(noise).accuracy == pytest.approx(sampled.accuracy, abs=0.02)


def test_a_missing_number_is_no_candidate() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"kids": rng.integers(0, 4, size=100).astype(float), "x": rng.normal(size=100)})
    table.loc[4, "kids"] = np.nan
    y = rng.normal(size=100)
    steps = [("kids", OneHotEncoder(drop="first", sparse_output=False), ["kids"]), ("x", "passthrough", ["x"])]
    model = make_pipeline(ColumnTransformer(steps), Ridge()).fit(table, y)
    for values in (None, [0, 1, 2, 3]):
        with pytest.raises(fl.InvalidInputError, match="row 4 has nan in column 'kids'"):
            fl.attacks.WhiteBox(model, table, y, "kids", values=values)
        rest = np.delete(np.arange(100), 4)
        attack = fl.attacks.WhiteBox(model, table, y, "kids", values=values, rows=rest)
        assert (attack.infer() == table["kids"].to_numpy()[rest]).all()


def test_candidates_that_do_not_fit_the_column_s_type() -> None:
    X = np.random.default_rng(0).integers(0, 3, size=(50, 2)).astype(np.uint8)
    y = X @ [1.0, 2.0] + np.random.default_rng(1).normal(size=50)
    model = Ridge().fit(X, y)
    for values in ([np.float32(0.5), np.float32(1.5)], [-1, 300]):
        attack = fl.attacks.WhiteBox(model, X, y, 0, values=values)
        assert attack.target.changed(0)[0, 0] == float(values[0])
        assert attack.target.changed(1)[0, 0] == float(values[1])


def test_releases_of_other_models_are_refused() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    attack = fl.attacks.WhiteBox(model, TABLE, DOSE, "gene")
    other_kind = pipeline(LinearRegression()).fit(TABLE, DOSE)
    other_order = pipeline(Ridge(alpha=0.5)).fit(TABLE[["smoker", "gene", "age"]], DOSE)
    for other in (other_kind, other_order):
        with pytest.raises(fl.InvalidInputError, match="released is no release of this model"):
            attack.infer(other)


def test_bad_noise_and_seeds() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    knowing = fl.attacks.WhiteBox(model, TABLE, DOSE, "gene", use_prior=True)
    for noise in (0.1, fl.Gaussian):
        with pytest.raises(fl.InvalidInputError, match="noise must be a noise"):
            knowing.infer(model, noise=noise)
    black_box = fl.attacks.BlackBox(model, TABLE, DOSE, "gene")
    with pytest.raises(fl.InvalidInputError, match="random_state"):
        black_box.accuracy(fl.Gaussian(1.0), random_state="abc")
    with pytest.raises(fl.InvalidInputError, match="shape must cover"):
        black_box.accuracy(fl.Gaussian(1.0, np.eye(2)))
    for released in (np.zeros((0, 5)), np.zeros(5, dtype=complex)):
        with pytest.raises(fl.InvalidInputError, match="released must"):
            knowing.infer(released, noise=fl.Gaussian(1.0))


def test_too_many_candidates_are_refused_before_memory_runs_out() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 40)), rng.normal(size=3000)
    with pytest.raises(fl.InvalidInputError, match="would need 3 GiB"):
        fl.attacks.WhiteBox(Ridge().fit(X, y), X, y, 0, values=np.linspace(0, 1, 3000))


def test_ideal_learns_from_everyone_and_not_worse_than_the_black_box() -> None:
    table, y = people(600)
    model = pipeline(Ridge(alpha=0.5)).fit(table, y)
    everyone = fl.attacks.Ideal(model, table, y, "gene")
    few = fl.attacks.Ideal(model, table, y, "gene", rows=np.arange(20))
    assert (few.infer() == everyone.infer()[:20]).all()
    black_box = fl.attacks.BlackBox(model, table, y, "gene")
    assert everyone.against().accuracy >= black_box.against().accuracy - 0.03


@pytest.mark.parametrize("releases", [None, 1, 20])
def test_intervals_cover(releases: int | None) -> None:
    """Attack samples of a population of rows: about 95 of 100 intervals hold the accuracy over all rows and noise."""
    table, y = people(3000)
    model = pipeline(Ridge(alpha=0.5)).fit(table, y)
    noise = fl.Gaussian(1e-3)
    everyone = fl.attacks.WhiteBox(model, table, y, "smoker")
    fixed = fl.release(model, noise, 0)
    true = everyone.against(noise if releases != 1 else fixed).accuracy
    rng = np.random.default_rng(0)
    held, widths = [], []
    for seed in range(100):
        rows = rng.choice(3000, size=150, replace=False)
        attack = fl.attacks.WhiteBox(model, table, y, "smoker", rows=rows)
        released: Any = noise
        if releases == 1:
            released = fixed
        elif releases is not None:
            released = attack._drawn(noise, releases, seed)
        outcome = attack.against(released)
        held.append(outcome.low <= true <= outcome.high)
        widths.append(outcome.high - outcome.low)
    assert 88 <= sum(held) <= 100
    assert np.mean(widths) < 0.2

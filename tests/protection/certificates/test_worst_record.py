"""Calibration to the worst record within the bounds: the bound holds for models fitted with such rows, and a search comes near it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, PolynomialFeatures, StandardScaler

import fisherleak as fl
from cases import Case, make
from copies import copies
from fisherleak.protection.certificates.declared_bounds import allowed_records
from fisherleak.protection.certificates.exchange import exchange_in
from fisherleak.protection.certificates.worst_record import WorstRecord, certified, worst_record
from often import often
from realdata import image_features

Vector = NDArray[np.float64]
LABELS = {"squared": (-4.0, 5.0), "pseudo_huber": (-20.0, 20.0), "poisson": (0.0, 6.0), "gamma": (0.1, 5.0)}
BOX = (-2.5, 2.5)


def problem(loss: str, seed: int, **options: Any) -> tuple[Case, dict[str, Any]]:
    """A random problem within bounds, and these."""
    case = make(loss, seed, **options)
    d = case.X.shape[1]
    bounds: dict[str, Any] = {f"x{j}": BOX for j in range(d)}
    y = case.y
    if loss in LABELS:
        bounds["label"] = LABELS[loss]
        y = np.clip(y, *LABELS[loss])
    return replace(case, X=np.clip(case.X, *BOX), y=y), bounds


def in_place(case: Case, row: int, x: Vector, y: float, noise: fl.Noise | None = None) -> float:
    """Eta of a row in the model fitted anew with it in place of another."""
    X, labels = case.X.copy(), case.y.copy()
    X[row], labels[row] = x, y
    return float(replace(case, X=X, y=labels).leak(noise).per_example()[row])


def below(case: Case, bounds: dict[str, Any], seed: int, upper: float, count: int = 12) -> None:
    """The bound is above every eta of refits with random and extreme rows in place of random and extreme ones."""
    leak = case.leak()
    labels = allowed_records(leak._information.jacobians[0], leak._table, bounds).labels
    rng = np.random.default_rng(seed)
    n, d = case.X.shape
    eta = np.asarray(leak.per_example())
    rows = [int(np.argmax(eta)), int(np.argmin(eta)), int(np.argmax(np.linalg.norm(case.X, axis=1)))]
    low, high = np.array([bounds[f"x{j}"] for j in range(d)]).T
    for k in range(count):
        row = rows[k % 3] if k % 2 else int(rng.integers(n))
        x = rng.choice([0.0, 1.0], d) if k % 3 else rng.random(d)
        assert in_place(case, row, low + x * (high - low), float(rng.choice(labels))) <= upper


def holds(case: Case, bounds: dict[str, Any], seed: int, count: int = 12) -> WorstRecord:
    """And the search ends between the largest eta present and the bound."""
    worst = worst_record(exchange_in(case.leak(), bounds))
    below(case, bounds, seed, worst.upper, count)
    assert worst.present <= worst.lower <= worst.upper
    return worst


SIZES = {"squared": 60, "logistic": 400, "poisson": 2500, "gamma": 4000, "pseudo_huber": 1500}


QUICK = [(loss, True, False) for loss in fl.LOSSES] + [("squared", False, True), ("logistic", True, True)]
EVERY = [(loss, intercept, weighted) for loss in fl.LOSSES for intercept in (False, True) for weighted in (False, True)]
SLOW = [each for each in EVERY if each not in QUICK]


@pytest.mark.parametrize(
    ("loss", "intercept", "weighted"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.long) for each in SLOW)]
)
def test_the_bound_holds_for_refits(loss: str, intercept: bool, weighted: bool) -> None:
    n = SIZES[loss] * (3 if weighted else 1)
    case, bounds = problem(loss, 1, n=n, l2=0.1, intercept=intercept, weighted=weighted)
    worst = holds(case, bounds, 2)
    reached = worst.reached
    eta = in_place(case, reached.row, reached.features, reached.label)
    assert reached.eta == pytest.approx(eta, rel=1e-6)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_for_many_rows_the_bound_is_near_what_the_search_finds(loss: str) -> None:
    case, bounds = problem(loss, 3, n=4000, l2=0.1)
    worst = worst_record(exchange_in(case.leak(), bounds))
    assert worst.upper < 1.25 * worst.lower


def hostile() -> dict[str, Case]:
    rng = np.random.default_rng(5)
    X = np.clip(rng.normal(size=(80, 3)), *BOX)
    alone, twins, rare = X.copy(), X.copy(), X.copy()
    alone[:, 2] = 0.0
    alone[7, 2] = 2.0
    twins[:, 2] = np.clip(twins[:, 1] + 1e-4 * rng.normal(size=80), *BOX)
    rare[:, 2] = (np.arange(80) < 6) * 1.0
    y = np.clip(X @ [0.5, -0.3, 0.2] + rng.normal(size=80), -4.0, 5.0)
    cases = {
        "leverage near one": Case(alone, y, "squared", 1e-3, None, True),
        "collinear": Case(twins, y, "squared", 1e-2, None, False),
        "rare level": Case(rare, y, "squared", 1e-2, None, True),
        "hardly any penalty": Case(X, y, "squared", 1e-9, None, True),
        "heavy row": Case(X, y, "squared", 1e-2, np.where(np.arange(80) == 3, 20.0, 1.0), True),
    }
    return cases


@pytest.mark.parametrize("name", list(hostile()))
def test_the_bound_holds_in_hostile_cases(name: str) -> None:
    bounds: dict[str, Any] = {f"x{j}": BOX for j in range(3)} | {"label": LABELS["squared"]}
    case = hostile()[name]
    upper = certified(exchange_in(case.leak(), bounds)).upper
    below(case, bounds, 0, upper, count=24)
    if name in ("collinear", "rare level"):
        assert math.isfinite(upper)


def test_few_rows_of_a_classification_are_bounded_by_the_penalty() -> None:
    case, bounds = problem("logistic", 4, n=30, l2=0.2)
    worst = holds(case, bounds, 1)
    assert worst.spread == np.inf


def test_a_ball_holds_for_refits() -> None:
    case = make("logistic", 2, n=500, l2=0.05)
    radius = float(np.linalg.norm(case.X, axis=1).max())
    worst = worst_record(exchange_in(case.leak(), {"norm": radius}))
    rng = np.random.default_rng(0)
    for k in range(20):
        x = rng.normal(size=3)
        assert in_place(case, k, radius * x / np.linalg.norm(x), float(k % 2)) <= worst.upper
    assert worst.reached.eta == pytest.approx(
        in_place(case, worst.reached.row, worst.reached.features, worst.reached.label), rel=1e-6
    )


@pytest.mark.parametrize("d", [16, 20])
def test_boxes_with_too_many_corners_are_bounded_by_norms(d: int) -> None:
    case, bounds = problem("squared", 0, n=300, d=d, l2=0.1)
    holds(case, bounds, 0, count=8)


NOISES = [fl.Gaussian(0.3), fl.Laplace(2.0), fl.Gaussian(0.7, np.diag([1.0, 2.0, 3.0]))]


@pytest.mark.parametrize("noise", NOISES, ids=["Gaussian", "Laplace", "shaped"])
def test_calibrated_noise_keeps_the_limit_for_whoever_could_be_there(noise: Any) -> None:
    case, bounds = problem("squared", 6, n=80, l2=0.1)
    found: Any = fl.calibrate(case.leak(noise), eta=0.5, over="any-record", bounds=bounds)
    assert type(found) is type(noise)
    assert case.leak(found).per_example().max() <= 0.5
    rng = np.random.default_rng(0)
    for row in range(6):
        x = rng.choice(BOX, 3)
        assert in_place(case, row, x, float(rng.choice(LABELS["squared"])), found) <= 0.5


@pytest.mark.long
def test_values_that_count_are_those_of_per_example() -> None:
    case, bounds = problem("squared", 6, n=200, l2=0.1)
    scales = [
        worst_record(exchange_in(case.leak(), bounds, attributes, label)).upper
        for attributes, label in ((["x1"], None), (["x1"], True), (None, None), ((), True))
    ]
    assert scales[0] < scales[1] <= scales[2]
    assert scales[3] <= scales[1]


# what leaves, and what does not


def test_what_leaves_holds_no_exact_number_of_the_data() -> None:
    case, bounds = problem("squared", 6, n=80, l2=0.1)
    noise: Any = fl.calibrate(case.leak(), eta=0.5, over="any-record", bounds=bounds)
    secret = noise.calibrated.confidential
    assert secret.present <= secret.lower <= secret.upper
    record = noise.record()
    assert json.loads(json.dumps(record)) == record
    assert record["calibrated"]["bounds"]["x0"] == {"low": BOX[0], "high": BOX[1], "from": "declared"}
    assert set(record["calibrated"]) == {"over", "eta", "bounds", "step", "offset", "probability"}
    for other in [*copies(noise), fl.release(case.fit(), noise, 0).noise, type(noise).from_record(record)]:
        assert other == noise
        assert other.calibrated == noise.calibrated
        assert other.calibrated.confidential is None
    assert noise.rescaled(2.0).calibrated is None


@pytest.mark.parametrize("over", ["max", "mean", "dataset"])
def test_a_release_with_a_scale_that_rows_decide_warns(over: str) -> None:
    case = make("squared")
    noise: Any = fl.calibrate(case.leak(), 0.5, over)
    assert noise.calibrated.over == over
    with pytest.warns(fl.UncountedScaleWarning, match=rf"over='{over}'.*use over='any-record'"):
        fl.release(case.fit(), noise)
    fl.release(case.fit(), noise.rescaled(1.0))


# pipelines


def people(n: int = 2000) -> tuple[Any, Vector]:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(
        {
            "age": rng.uniform(18, 90, n).round(1),
            "height": np.clip(rng.normal(170, 9, n), 140, 210),
            "city": rng.choice(["Bonn", "Genua", "Kiel"], n),
        }
    )
    return X, np.asarray(0.1 * X.age + 0.05 * X.height + (X.city == "Bonn") + rng.normal(size=n))


PEOPLE: dict[str, Any] = {"age": (18, 90), "height": (140, 210), "city": ["Bonn", "Genua", "Kiel"]}


def folded(estimator: Any) -> Any:
    encoder = OneHotEncoder(sparse_output=False)
    return make_pipeline(make_column_transformer((StandardScaler(), ["age", "height"]), (encoder, ["city"])), estimator)


EXACT: Any = {"solver": "newton-cholesky", "tol": 1e-10, "max_iter": 5000}
ESTIMATORS: dict[str, Any] = {
    "squared": Ridge(alpha=30.0),
    "logistic": LogisticRegression(C=0.05, **EXACT),
    "poisson": PoissonRegressor(alpha=0.2, **EXACT),
}


@pytest.mark.parametrize("public", ["preprocessing", "nothing"])
@pytest.mark.parametrize("loss", often(ESTIMATORS))
def test_the_bound_holds_for_refits_of_whole_pipelines(loss: str, public: str) -> None:
    X, y = people()
    labels: dict[str, Any] = {"squared": (5, 25), "logistic": None, "poisson": (0, 12)}
    made = {"squared": y, "logistic": (y > np.median(y)) * 1.0, "poisson": np.clip(np.round(y - 10), 0, 12)}
    y = np.asarray(made[loss], dtype=np.float64)
    bounds = PEOPLE | ({} if labels[loss] is None else {"label": labels[loss]})
    leak = fl.measure(folded(ESTIMATORS[loss]).fit(X, y), X, y, public=public)
    worst = worst_record(exchange_in(leak, bounds))
    frame = leak._information.jacobians[0].folding
    rng = np.random.default_rng(1)
    for row in range(4):
        table, then = X.copy(), y.copy()
        table.loc[row] = [float(rng.choice([18, 90])), float(rng.choice([140, 210])), rng.choice(PEOPLE["city"])]
        then[row] = rng.choice(worst.certified.exchange.labels)
        refit = fl.measure(folded(ESTIMATORS[loss]).fit(table, then), table, then, public=public)
        again = refit._information.jacobians[0].folding
        assert (frame is None) == (again is None)
        assert frame is None or np.array_equal(frame.frame, again.frame)  # type: ignore[union-attr]
        assert refit.per_example()[row] <= worst.upper
    assert worst.upper < 3 * worst.lower


def test_what_has_no_bound_is_refused_by_name() -> None:
    X, y = people(300)
    numbers = X[["age", "height"]]
    poly = make_pipeline(PolynomialFeatures(2), StandardScaler(), Ridge(10.0)).fit(numbers, y)
    scaled = make_pipeline(MinMaxScaler(), Ridge(1.0)).fit(numbers, y)
    case = make("squared", 0)
    steep = replace(fl.LOSSES["squared"], name="steep", quadratic=False, traits=None)
    other = fl.measure(fl.minimise(case.X, case.y, steep, l2=0.1), case.X, case.y)
    refusals: list[tuple[fl.Leakage, str]] = [
        (fl.measure(poly, numbers, y), "'age' is preprocessed by a step that is not affine.*over='max'"),
        (fl.measure(scaled, numbers, y, public="nothing"), "supports scales that are standard deviations only"),
        (fl.compose(case.leak(), case.leak()), "for one release"),
        (other, "own losses only, and the loss is steep"),
    ]
    for leak, message in refusals:
        bounds = {"label": (-100, 100)}
        with pytest.raises(fl.InvalidInputError, match=message):
            fl.calibrate(leak, 1.0, over="any-record", bounds=bounds)
    case, limits = problem("poisson", 0, n=40, l2=1e-3)
    with pytest.raises(fl.InvalidInputError, match="No useful bound"):
        fl.calibrate(case.leak(), 1.0, over="any-record", bounds=limits)
    with pytest.raises(fl.InvalidInputError, match="bounds and random_state are for over='any-record'"):
        fl.calibrate(case.leak(), 1.0, bounds=limits)


def test_lazy_rows_are_refused_by_name() -> None:
    dask = pytest.importorskip("dask.array")
    case = make("squared", 0)
    X, y = dask.from_array(case.X, chunks=20), dask.from_array(case.y, chunks=20)
    with pytest.raises(fl.InvalidInputError, match=r"rows in memory.*X\.compute"):
        fl.calibrate(fl.measure(fl.minimise(X, y, l2=0.1), X, y), 1.0, over="any-record")


# real data: what the promise costs, and that an attacker who is given everything does not beat it


def real(name: str, folder: Any) -> tuple[fl.Leakage, dict[str, Any]]:
    """A leakage, and bounds by the observed ranges (for pictures, the largest norm)."""
    if name == "iwpc":
        data = fl.datasets.load_iwpc(data_home=folder)
        model = make_pipeline(data.preprocessing, Ridge(1e-2 * len(data.y), fit_intercept=False)).fit(data.X, data.y)
        bounds: dict[str, Any] = {c: (data.X[c].min(), data.X[c].max()) for c in ("age", "height", "weight")}
        return fl.measure(model, data.X, data.y), bounds | {"label": (data.y.min(), data.y.max())}
    if name == "mnist":
        X, y, _, _ = image_features("mnist", folder)
        leak = fl.measure(fl.minimise(X, y, "logistic", l2=8e-4), X, y)
        return leak, {"norm": float(np.linalg.norm(X, axis=1).max())}
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
        X = X / X.std(axis=0)
        leak = fl.measure(fl.minimise(X, y - y.mean(), l2=0.1), X, y - y.mean())
        return leak, {"norm": float(np.linalg.norm(X, axis=1).max()), "label": (-200.0, 200.0)}
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    leak = fl.measure(fl.minimise(X, y * 1.0, "logistic", l2=0.1), X, y * 1.0)
    return leak, {"norm": float(np.linalg.norm(X, axis=1).max())}


PRICES = {"iwpc": 1.75, "mnist": 2.3, "diabetes": 4.5, "breast cancer": 3.0}


@pytest.mark.long
@pytest.mark.parametrize("name", list(PRICES))
def test_the_price_on_real_data(name: str, data_folder: Any) -> None:
    leak, bounds = real(name, data_folder)
    worst = worst_record(exchange_in(leak, bounds))
    price = worst.upper / worst.present
    print(f"{name}: upper {price:.3f}, lower {worst.lower / worst.present:.3f} of the largest eta present")
    assert 1.0 <= price <= PRICES[name]


@pytest.mark.long
@pytest.mark.parametrize("name", ["iwpc", "mnist", "diabetes"])
def test_an_attacker_who_is_given_everything_does_not_beat_the_limit(name: str, data_folder: Any) -> None:
    """Everything counted: the parameters, and the scale, which the attacker computes for every candidate.

    The attacker knows all rows but the most exposed one, that row but for how far it lies along its most exposed direction,
    and the grid's offset. A candidate is excluded where the scale on the grid would be another; among the others the
    likeliest is the guess. Its error over releases is not below 1 / eta.
    """
    leak, bounds = real(name, data_folder)
    bounds = {key: 1.1 * b if key == "norm" else (b[0] - 0.2, b[1] + 0.2) for key, b in bounds.items()}
    jacobian = leak._information.jacobians[0]
    X, y, fit = np.array(jacobian.X), np.array(jacobian.y), jacobian.fit
    if name == "iwpc":
        low, high = X.min(axis=0) - 0.2, X.max(axis=0) + 0.2
        bounds = {f"x{j}": ends for j, ends in enumerate(zip(low, high, strict=True))} | {"label": bounds["label"]}
    row = int(np.argmax(np.asarray(leak.per_example())))
    plain = fl.measure(fl.minimise(X, y, fit.loss, fit.l2), X, y)
    _, _, ways = np.linalg.svd(np.asarray(plain.fim([row], plain.attributes)))
    limit, thetas, scales = 50.0, [], []
    steps = np.linspace(-4.0, 4.0, 9) / limit
    for step in steps:
        moved = X.copy()
        moved[row] += step * ways[0]
        near = fl.minimise(moved, y, fit.loss, fit.l2)
        noise = fl.calibrate(fl.measure(near, moved, y), limit, over="any-record", bounds=bounds, random_state=1)
        thetas.append(near.theta)
        scales.append(noise.scale)
    scale, truth = scales[4], thetas[4]
    fine = np.linspace(steps[0], steps[-1], 801)
    possible = np.interp(fine, steps, np.array(scales) == scale) == 1.0
    means = np.stack([np.interp(fine, steps, np.array(thetas)[:, k]) for k in range(len(truth))], axis=1)[possible]
    released = truth + scale * np.random.default_rng(0).normal(size=(4000, len(truth)))
    far = np.sum(means**2, axis=1)[None, :] - 2.0 * released @ means.T
    error = float(np.sqrt(np.mean(fine[possible][np.argmin(far, axis=1)] ** 2)))
    print(f"{name}: error {error * limit:.2f} / eta, {possible.mean():.0%} of the candidates have the same scale")
    assert error >= 0.97 / limit


def test_weights_that_follow_from_labels_are_refused() -> None:
    """One row that leaves a rare class would double the weights of the others: the bound holds them as they are."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (60, 2)), np.array([1] * 20 + [0] * 40)
    bounds: Any = {"x0": (-1.0, 1.0), "x1": (-1.0, 1.0)}

    def measured(weighting: Any) -> fl.Leakage:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=1e-2, tol=1e-10, class_weight=weighting)).fit(X, y)
        return fl.measure(model, X, y)

    for shape in ("isotropic", "hessian", "least-loss", None):
        with pytest.raises(fl.InvalidInputError, match="class_weight='balanced' computes them from the labels"):
            fl.calibrate(measured("balanced"), 1.0, "any-record", shape=shape, bounds=bounds)
    assert fl.calibrate(measured({0: 0.75, 1: 1.5}), 1.0, "any-record", bounds=bounds).scale > 0
    assert fl.calibrate(measured("balanced"), 1.0).scale > 0
    for spread in (1.0, rng.uniform(1, 2, 60)):  # a row of weight 1 that joins class 1 has a weight of 20
        weights = np.where(y == 1, 0.01, 1.0) * spread
        both = LogisticRegression(C=1e-2, tol=1e-10, class_weight={0: 1.0, 1: 20.0}).fit(X, y, weights)
        with pytest.raises(fl.InvalidInputError, match="with class_weight and sample_weight a row's weight changes"):
            fl.calibrate(fl.measure(both, X, y, sample_weight=weights), 1.0, "any-record", bounds=bounds)

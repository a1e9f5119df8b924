"""Releases that encode one category differently: brought to common coordinates, or refused by name.

Releases of models of several outputs about the same data: the information adds up.

Several releases: information adds up.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import linear_model as lm
from sklearn import preprocessing as pre
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from cases import Case, dense_jacobian, flat, make, norms

pandas = pytest.importorskip("pandas")
N = 30
ALPHA = 0.7
LEVELS = ["Aix", "Bonn", "Cork", "Dax"]


def table() -> Any:
    rng = np.random.default_rng(0)
    city = rng.choice(LEVELS[:3], N).astype(object)
    city[:2] = "Dax"
    return pandas.DataFrame({"city": city, "dose": rng.gamma(2.0, 1.0, N), "smoker": rng.choice([0.0, 1.0], N)})


FRAME = table()
Y = 0.4 * FRAME["dose"].to_numpy() + (FRAME["city"] == "Bonn") + 0.3 * np.random.default_rng(1).normal(size=N)
Y = np.asarray(Y)
LABELS = (np.median(Y) < Y).astype(float)


def encoder(drop: Any = None, order: Any = "auto", **options: Any) -> pre.OneHotEncoder:
    categories = order if isinstance(order, str) else [list(order)]
    return pre.OneHotEncoder(drop=drop, categories=categories, sparse_output=False, **options)


ENCODERS: dict[str, Any] = {
    "full": encoder(),
    "full, turned round": encoder(order=LEVELS[::-1]),
    "first": encoder("first"),
    "Bonn": encoder(["Bonn"]),
    "last": encoder("first", LEVELS[::-1]),
    "rare": encoder(min_frequency=3),
    "rare and first": encoder("first", min_frequency=3),
    "codes": pre.OrdinalEncoder(),
    "codes, then first": make_pipeline(pre.OrdinalEncoder(categories=[LEVELS[::-1]]), encoder("first")),
    "scaled": make_pipeline(encoder("first"), pre.StandardScaler()),
    "components": make_pipeline(encoder(), PCA(2)),
}


def pipeline(city: Any) -> Pipeline:
    parts = ColumnTransformer([("city", city, ["city"]), ("others", "passthrough", ["dose", "smoker"])])
    return make_pipeline(parts, lm.Ridge(alpha=ALPHA)).fit(FRAME, Y)


def levels_to_features(model: Pipeline) -> Any:
    """How the features move with the one-hot vector of the city: those of a row with each level, side by side."""
    row = FRAME.iloc[[0] * len(LEVELS)].assign(city=LEVELS)
    return np.asarray(model[:-1].transform(row)).T


@functools.cache
def refitted(name: str) -> Any:
    """(n, p, 5): derivatives of the parameters by the city's one-hot vector in its tangent space, dose, smoker and label."""
    model = pipeline(ENCODERS[name])
    X = np.asarray(model[:-1].transform(FRAME))
    basis = np.linalg.svd(np.ones((1, len(LEVELS))))[2][1:].T
    moves = [*(levels_to_features(model) @ basis).T]
    for j in (-2, -1):
        moves.append(np.eye(X.shape[1])[j])
    step, columns = 1e-5, []

    def fitted(X: Any, y: Any) -> Any:
        Z = np.column_stack([X, np.ones(N)])
        return np.linalg.solve(Z.T @ Z + np.diag([ALPHA] * X.shape[1] + [0.0]), Z.T @ y)

    for row in range(N):
        here = np.eye(N)[row]
        ends = [[fitted(X + s * np.outer(here, move), Y) for s in (step, -step)] for move in moves]
        ends.append([fitted(X, Y + s * here) for s in (step, -step)])
        columns.append(np.stack([(a - b) / (2 * step) for a, b in ends], axis=1))
    return np.stack(columns)


PAIRS = [
    ("first", "last"),
    ("first", "full"),
    ("full", "Bonn"),
    ("full", "full, turned round"),
    ("rare", "first"),
    ("rare", "rare and first"),
    ("codes", "last"),
    ("codes, then first", "Bonn"),
    ("scaled", "last"),
    ("components", "first"),
]


@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_information_is_added_in_the_tangent_space_of_the_levels(one: str, two: str) -> None:
    leaks = [fl.measure(pipeline(ENCODERS[k]), FRAME, Y, fl.Gaussian(s)) for k, s in ((one, 0.5), (two, 2.0))]
    J = np.concatenate([refitted(one) / 0.5, refitted(two) / 2.0], axis=1)
    leak = fl.compose(*leaks)
    assert leak.attributes == ["city", "dose", "smoker"]
    assert leak.sizes == [3, 1, 1]
    city = J[:, :, :3]
    np.testing.assert_allclose(leak.per_cell()[:, 0], norms(city), rtol=1e-5)
    np.testing.assert_allclose(leak.per_example(), norms(J), rtol=1e-5)
    np.testing.assert_allclose(leak.per_label(), norms(J[:, :, 5:]), rtol=1e-5)
    assert leak.of(attributes="city") == pytest.approx(np.linalg.norm(flat(city), 2), rel=1e-5)
    assert leak.dataset() == pytest.approx(np.linalg.norm(flat(J), 2), rel=1e-5)
    assert fl.compose(*leaks[::-1]).dataset() == pytest.approx(leak.dataset(), rel=1e-12)
    said = "city: per unit of the one-hot vector of its categories" in leak.summary()
    assert said == (two != "full, turned round")


def test_a_third_release_joins_a_composition() -> None:
    leaks = [fl.measure(pipeline(ENCODERS[name]), FRAME, Y) for name in ("first", "last", "full")]
    together = fl.compose(*leaks)
    for order in itertools.permutations(leaks):
        nested = fl.compose(fl.compose(*order[:2]), order[2])
        np.testing.assert_allclose(nested.per_example(), together.per_example(), rtol=1e-11)
        np.testing.assert_allclose(
            fl.compose(order[0], fl.compose(*order[1:])).per_cell(), together.per_cell(), rtol=1e-10
        )


@pytest.mark.parametrize("name", [*ENCODERS])
def test_the_same_encoding_keeps_its_unit(name: str) -> None:
    leak = fl.measure(pipeline(ENCODERS[name]), FRAME, Y)
    twice = fl.compose(leak, leak)
    assert twice.sizes == leak.sizes
    np.testing.assert_allclose(twice.per_cell(), np.sqrt(2) * leak.per_cell(), rtol=1e-11)
    assert "one-hot" not in twice.summary()


def test_another_order_of_the_same_kept_levels_keeps_the_unit() -> None:
    one = fl.measure(pipeline(encoder(["Aix"])), FRAME, Y)
    two = fl.measure(pipeline(encoder(["Aix"], [LEVELS[k] for k in (2, 0, 3, 1)])), FRAME, Y)
    np.testing.assert_allclose(two.per_cell(), one.per_cell(), rtol=1e-11)
    np.testing.assert_allclose(fl.compose(one, two).per_cell(), fl.compose(one, one).per_cell(), rtol=1e-10)
    np.testing.assert_allclose(fl.compose(one, two).per_example(), fl.compose(one, one).per_example(), rtol=1e-10)


def test_a_number_that_another_release_knows_as_levels() -> None:
    def smoker(step: Any) -> fl.Leakage:
        parts = ColumnTransformer(
            [("smoker", step, ["smoker"]), ("city", encoder("first"), ["city"]), ("x", "passthrough", ["dose"])]
        )
        return fl.measure(make_pipeline(parts, lm.Ridge(alpha=1.0)).fit(FRAME, Y), FRAME, Y)

    number, level, both = smoker("passthrough"), smoker(encoder("if_binary")), smoker(encoder())
    np.testing.assert_allclose(
        fl.compose(number, level).per_example(), fl.compose(number, number).per_example(), rtol=1e-10
    )
    # the one-hot vector moves by (-1, 1) / sqrt 2, so the number by 1 / sqrt 2
    cells = np.hypot(number.per_cell()[:, 2] / np.sqrt(2), both.per_cell()[:, 2])
    np.testing.assert_allclose(fl.compose(number, both).per_cell()[:, 2], cells, rtol=1e-10)


def test_a_release_that_leaves_the_category_out_reveals_nothing_about_it() -> None:
    parts = ColumnTransformer([("dose", "passthrough", ["dose"])])
    without = fl.measure(make_pipeline(parts, lm.Ridge()).fit(FRAME, Y), FRAME, Y)
    leak = fl.measure(pipeline(ENCODERS["first"]), FRAME, Y)
    for together in (fl.compose(leak, without), fl.compose(without, leak)):
        np.testing.assert_allclose(together.per_cell()[:, 0], leak.per_cell()[:, 0], rtol=1e-11)


def test_levels_that_differ_are_refused_by_name() -> None:
    leak = fl.measure(pipeline(ENCODERS["first"]), FRAME, Y)
    more = fl.measure(pipeline(encoder("first", [*LEVELS, "Elm"])), FRAME, Y)
    with pytest.raises(fl.InvalidInputError, match=r"'city'.*'Elm'.*same categories"):
        fl.compose(leak, more)
    union = FeatureUnion([("codes", pre.OrdinalEncoder()), ("levels", encoder("first"))])
    twice = fl.measure(pipeline(union), FRAME, Y)
    np.testing.assert_allclose(fl.compose(twice, twice).per_cell(), np.sqrt(2) * twice.per_cell(), rtol=1e-11)
    assert fl.compose(twice, leak).sizes == [3, 1, 1]


def test_blocks_of_plain_arrays_must_hold_the_same_values() -> None:
    """Without encoders nobody knows the levels: the values of the columns must say that the coordinates are the same."""
    full = np.eye(4)[[LEVELS.index(name) for name in FRAME["city"]]]

    def plain(columns: Any, attribute: Any, names: str = "x") -> fl.Leakage:
        X = np.column_stack([columns, FRAME["dose"]])
        X = pandas.DataFrame(X, columns=[f"{names}{j}" for j in range(X.shape[1])])
        records = [attribute, fl.Attribute("dose", [X.shape[1] - 1])]
        return fl.measure(fl.minimise(X, Y, l2=0.1), X, Y, attributes=records)

    first = plain(full[:, 1:], fl.Attribute("city", [0, 1, 2]))
    for other in (
        plain(full[:, :3], fl.Attribute("city", [0, 1, 2]), "z"),
        plain(full, fl.Attribute.one_hot("city", [0, 1, 2, 3])),
        plain(full[:, 1:], fl.Attribute("city", [1, 0, 2])),
        plain(full[:, 1:], fl.Attribute("city", [0, 1, 2], 2 * np.eye(3))),
    ):
        with pytest.raises(fl.InvalidInputError, match=r"attribute 'city' may be encoded differently"):
            fl.compose(first, other)
    scaled = plain(3.0 * full[:, 1:] + 1, fl.Attribute("city", [0, 1, 2], 3 * np.eye(3)), "z")
    assert fl.compose(first, scaled).sizes == [3, 1]
    parts = ColumnTransformer([("city", encoder("first"), ["city"]), ("others", "passthrough", ["dose"])])
    X = FRAME[["city", "dose"]]
    with pytest.raises(fl.InvalidInputError, match=r"attribute 'city' may be encoded differently"):
        fl.compose(first, fl.measure(make_pipeline(parts, lm.Ridge()).fit(X, Y), X, Y))


# Labels


def classifiers(weights: Any = None) -> tuple[fl.Leakage, fl.Leakage]:
    X = FRAME[["dose", "smoker"]]
    exact = lm.LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12).fit(X, LABELS)
    return fl.measure(exact, X, LABELS), fl.measure(lm.RidgeClassifier(alpha=2.0).fit(X, LABELS), X, LABELS)


def test_labels_of_two_values_in_other_units_are_one_label() -> None:
    logistic, ridge = classifiers()
    X = FRAME[["dose", "smoker"]]
    by_hand = fl.measure(lm.Ridge(alpha=2.0).fit(X, LABELS), X, LABELS)
    leak = fl.compose(logistic, ridge)
    # the sign moves by 2 where the label moves by 1
    np.testing.assert_allclose(leak.per_label(), np.hypot(logistic.per_label(), 2 * ridge.per_label()), rtol=1e-10)
    np.testing.assert_allclose(2 * ridge.per_label(), 2 * by_hand.per_label(), rtol=1e-10)
    J = np.concatenate(
        [
            logistic._information.written_out(logistic._information.attributes, True, None),
            ridge._information.written_out(ridge._information.attributes, True, None) * [1, 1, 2],
        ],
        axis=1,
    )
    np.testing.assert_allclose(leak.per_example(), norms(J), rtol=1e-10)
    assert leak.dataset() == pytest.approx(np.linalg.norm(flat(J), 2), rel=1e-10)
    assert "label: per unit of the first release's" in leak.summary()
    back = fl.compose(ridge, logistic)
    np.testing.assert_allclose(back.per_label(), leak.per_label() / 2, rtol=1e-10)
    np.testing.assert_allclose(
        fl.compose(leak, ridge).per_label(), fl.compose(logistic, ridge, ridge).per_label(), rtol=1e-10
    )
    linear = fl.measure(lm.LinearRegression().fit(X, 1 - 2 * LABELS), X, 1 - 2 * LABELS)
    np.testing.assert_allclose(
        fl.compose(logistic, linear).per_label(), np.hypot(logistic.per_label(), 2 * linear.per_label()), rtol=1e-10
    )


def test_labels_that_are_not_the_same_two_values_are_refused() -> None:
    logistic, _ = classifiers()
    X = FRAME[["dose", "smoker"]]
    flipped = LABELS.copy()
    flipped[3] = 1 - flipped[3]
    for y in (2 * flipped - 1, np.where(np.arange(N) == 5, 3.0, 2 * LABELS - 1), Y):
        with pytest.raises(fl.InvalidInputError, match="labels y differ"):
            fl.compose(logistic, fl.measure(lm.LinearRegression().fit(X, y), X, y))


X, Y_OUTPUTS_TOGETHER = load_iris(return_X_y=True)
EXACT: Any = {"tol": 1e-12, "max_iter": 100_000, "solver": "newton-cg"}


def stacked(*leakages: fl.Leakage) -> Any:
    parts = []
    for leak in leakages:
        J = leak._information.written_out(leak._information.attributes, True, None)
        parts.append(J / leak.noise.scale)
    return np.concatenate(parts, axis=1)


def test_information_of_two_releases_adds_up() -> None:
    one = fl.measure(
        fl.minimise(X, Y_OUTPUTS_TOGETHER, loss="softmax", l2=1e-2, intercept=True),
        X,
        Y_OUTPUTS_TOGETHER,
        fl.Gaussian(0.5),
    )
    two = fl.measure(
        fl.minimise(X, Y_OUTPUTS_TOGETHER, loss="softmax", l2=1e-1), X, Y_OUTPUTS_TOGETHER, fl.Gaussian(2.0)
    )
    both, J = fl.compose(one, two), stacked(one, two)
    np.testing.assert_allclose(both.per_example(), np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-10)
    np.testing.assert_allclose(both.per_cell(), np.linalg.norm(J[:, :, :4], axis=1), rtol=1e-10)
    assert both.dataset() == pytest.approx(np.linalg.norm(np.concatenate(list(J), axis=1), 2), rel=1e-10)
    assert both.per_attribute()[2] == pytest.approx(np.linalg.norm(J[:, :, 2], 2), rel=1e-10)
    np.testing.assert_allclose(both.membership(1e-8), np.hypot(one.membership(1e-8), two.membership(1e-8)), rtol=1e-10)
    assert "2 independent releases" in both.summary()
    assert list(both.to_frame().columns)[-1] == "membership"


def test_the_same_release_twice_is_one_with_less_noise() -> None:
    leak = fl.measure(
        fl.minimise(X, Y_OUTPUTS_TOGETHER, loss="softmax", l2=1e-2), X, Y_OUTPUTS_TOGETHER, fl.Gaussian(2.0)
    )
    twice = fl.compose(leak, leak)
    np.testing.assert_allclose(twice.per_example(), np.sqrt(2.0) * leak.per_example(), rtol=1e-12)
    np.testing.assert_allclose(fl.compose(twice, leak).per_example(), np.sqrt(3.0) * leak.per_example(), rtol=1e-12)


def test_labels_are_in_the_unit_of_the_first_release() -> None:
    softmax = fl.measure(lm.LogisticRegression(**EXACT).fit(X, Y_OUTPUTS_TOGETHER), X, Y_OUTPUTS_TOGETHER)
    signs = fl.measure(lm.RidgeClassifier().fit(X, Y_OUTPUTS_TOGETHER), X, Y_OUTPUTS_TOGETHER)
    label = np.hypot(softmax.per_label(), 2.0 * signs.per_label())
    both = fl.compose(softmax, signs).per_label()
    assert np.all(both <= label * (1 + 1e-12))
    assert np.all(both >= np.maximum(softmax.per_label(), 2.0 * signs.per_label()) * (1 - 1e-12))
    np.testing.assert_allclose(fl.compose(signs, softmax).per_label(), both / 2.0, rtol=1e-10)


def test_releases_behind_different_scalers_share_raw_columns() -> None:
    plain = fl.measure(lm.LogisticRegression(**EXACT).fit(X, Y_OUTPUTS_TOGETHER), X, Y_OUTPUTS_TOGETHER)
    scaled = fl.measure(
        make_pipeline(StandardScaler(), lm.LogisticRegression(**EXACT)).fit(X, Y_OUTPUTS_TOGETHER),
        X,
        Y_OUTPUTS_TOGETHER,
    )
    both = fl.compose(plain, scaled)
    np.testing.assert_allclose(both.per_cell(), np.hypot(plain.per_cell(), scaled.per_cell()), rtol=1e-10)


def test_other_labels_rows_and_kinds_are_refused() -> None:
    leak = fl.measure(fl.minimise(X, Y_OUTPUTS_TOGETHER, loss="softmax", l2=1e-2), X, Y_OUTPUTS_TOGETHER)
    other = (Y_OUTPUTS_TOGETHER + 1) % 3
    with pytest.raises(fl.InvalidInputError, match="labels y differ"):
        fl.compose(leak, fl.measure(fl.minimise(X, other, loss="softmax", l2=1e-2), X, other))
    with pytest.raises(fl.InvalidInputError, match="labels y differ"):
        fl.compose(
            leak, fl.measure(fl.minimise(X, np.eye(3)[Y_OUTPUTS_TOGETHER], l2=1e-2), X, np.eye(3)[Y_OUTPUTS_TOGETHER])
        )
    with pytest.raises(fl.InvalidInputError, match="values of their tables differ"):
        fl.compose(
            leak,
            fl.measure(fl.minimise(X + 1.0, Y_OUTPUTS_TOGETHER, loss="softmax", l2=1e-2), X + 1.0, Y_OUTPUTS_TOGETHER),
        )
    one = fl.measure(fl.minimise(X, Y_OUTPUTS_TOGETHER > 0, loss="logistic", l2=1e-2), X, Y_OUTPUTS_TOGETHER > 0)
    for pair in ((leak, one), (one, leak)):
        with pytest.raises(fl.UnsupportedModelError, match="models of one output"):
            fl.compose(*pair)
    with pytest.raises(fl.UnsupportedModelError, match="any-record"):
        fl.calibrate(fl.compose(leak, leak), 1.0, over="any-record")
    with pytest.raises(fl.InvalidInputError, match="no single noise"):
        fl.compose(leak, leak).with_noise(fl.Gaussian(1.0))


def stacked_compose(*pairs: tuple[Any, float]) -> Any:
    return np.concatenate([dense_jacobian(case, case.fit()) / scale for case, scale in pairs], axis=1)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 4), weighted=st.booleans())
def test_information_adds_up_exactly(seed: int, d: int, weighted: bool) -> None:
    first = make("logistic", seed, d=d, weighted=weighted)
    second = make("logistic", seed, d=d, intercept=True, l2=0.3)
    J = stacked_compose((first, 0.5), (second, 2.0))
    leak = fl.compose(first.leak(fl.Gaussian(0.5)), second.leak(fl.Gaussian(2.0)))
    np.testing.assert_allclose(leak.per_example(), np.linalg.svd(J, compute_uv=False)[:, 0], rtol=1e-11)
    assert leak.dataset() == pytest.approx(np.linalg.norm(flat(J), 2), rel=1e-12)
    np.testing.assert_allclose(leak.per_cell(), np.linalg.norm(J[:, :, :d], axis=1), rtol=1e-11)
    np.testing.assert_allclose(leak.per_label(), np.linalg.norm(J[:, :, d], axis=1), rtol=1e-11)
    np.testing.assert_allclose(leak.per_attribute(), [np.linalg.norm(J[:, :, j].T, 2) for j in range(d)], rtol=1e-11)
    rows = [1, 4]
    np.testing.assert_allclose(leak.fim(rows), flat(J[rows]).T @ flat(J[rows]), rtol=1e-9, atol=1e-14)


def test_never_more_than_the_root_of_squares_and_often_less() -> None:
    first, second = make("logistic", 5).leak(), make("logistic", 5, l2=3.0).leak()
    together = np.asarray(fl.compose(first, second).per_example())
    bound = np.sqrt(np.asarray(first.per_example()) ** 2 + np.asarray(second.per_example()) ** 2)
    assert (together <= bound * (1 + 1e-12)).all()
    assert (together < bound * (1 - 1e-6)).any()


def test_the_same_model_twice_is_root_two() -> None:
    leak = make("gamma", 5).leak()
    twice = fl.compose(leak, leak)
    np.testing.assert_allclose(twice.per_example(), math.sqrt(2) * leak.per_example(), rtol=1e-12)
    assert twice.dataset() == pytest.approx(math.sqrt(2) * leak.dataset(), rel=1e-12)
    np.testing.assert_allclose(fl.compose(twice, leak).per_attribute(), math.sqrt(3) * leak.per_attribute(), rtol=1e-12)
    assert "2 independent releases" in twice.summary()


def test_blocks_compose() -> None:
    attributes = [fl.Attribute("v", [0, 2])]
    first, second = make("squared", 5), make("squared", 5, l2=3.0)
    leak = fl.compose(first.leak(attributes=attributes), second.leak(attributes=attributes))
    J = stacked_compose((first, 1.0), (second, 1.0))[:, :, [0, 2]]
    np.testing.assert_allclose(leak.per_cell()[:, 0], np.linalg.svd(J, compute_uv=False)[:, 0], rtol=1e-11)
    assert leak.of(attributes="v") == pytest.approx(np.linalg.norm(flat(J), 2), rel=1e-12)


def test_releases_may_see_the_same_attributes_through_other_features() -> None:
    """One model on the columns, one on a linear map of them; attributes are the columns of both."""
    first = make("squared", 5)
    mix = np.random.default_rng(0).normal(size=(2, 3))
    X = first.X @ mix.T
    raw = [fl.Attribute(f"x{j}", [0, 1], mix[:, j : j + 1]) for j in range(3)]
    leak = fl.compose(first.leak(), fl.measure(fl.minimise(X, first.y, l2=0.1), X, first.y, attributes=raw))
    mixed = Case(X, first.y, "squared", 0.1, None, False)
    J = np.concatenate([dense_jacobian(first, first.fit()), dense_jacobian(mixed, mixed.fit(), mix)], axis=1)
    np.testing.assert_allclose(leak.per_example(), np.linalg.svd(J, compute_uv=False)[:, 0], rtol=1e-11)
    assert leak.dataset() == pytest.approx(np.linalg.norm(flat(J), 2), rel=1e-12)


def test_what_cannot_be_composed() -> None:
    leak = make("squared", 1).leak()
    with pytest.raises(fl.InvalidInputError, match="at least one"):
        fl.compose()
    with pytest.raises(fl.InvalidInputError, match=r"same data: 40 rows .* are not 50 rows"):
        fl.compose(leak, make("squared", 1, n=50).leak())
    with pytest.raises(fl.InvalidInputError, match="values of their tables differ"):
        fl.compose(leak, make("squared", 2).leak())
    case = make("squared", 1)
    other = Case(case.X, -case.y, "squared", case.l2, None, False)
    with pytest.raises(fl.InvalidInputError, match="labels y differ"):
        fl.compose(leak, other.leak())
    assert fl.compose(leak) is leak
    both = fl.compose(leak, leak)
    with pytest.raises(fl.InvalidInputError, match="noise for each release"):
        fl.calibrate(both, 0.1)
    with pytest.raises(fl.InvalidInputError, match="no single noise"):
        both.with_noise(fl.Gaussian(1.0))


def test_a_shape_of_the_rows_own_is_not_composed() -> None:
    case = make("squared")
    leak = case.leak()
    bounds = dict.fromkeys((*leak.attributes, "label"), (-5.0, 5.0))
    shaped = leak.with_noise(fl.calibrate(leak, 1.0, "any-record", shape="hessian", bounds=bounds, random_state=0))
    assert "what it reveals by itself is not in these etas" in shaped.summary()
    assert fl.compose(shaped) is shaped
    for pair in ((shaped, leak), (leak, shaped)):
        with pytest.raises(fl.InvalidInputError, match="follows from the rows themselves"):
            fl.compose(*pair)

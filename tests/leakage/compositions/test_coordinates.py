"""Releases that encode one category differently: brought to common coordinates, or refused by name."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from sklearn import linear_model as lm
from sklearn import preprocessing as pre
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline

import fisherleak as fl
from cases import flat, norms

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
    said = "city: per unit of the one-hot vector of its levels" in leak.summary()
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
        with pytest.raises(fl.InvalidInputError, match=r"attribute 'city' .* same coordinates"):
            fl.compose(first, other)
    scaled = plain(3.0 * full[:, 1:] + 1, fl.Attribute("city", [0, 1, 2], 3 * np.eye(3)), "z")
    assert fl.compose(first, scaled).sizes == [3, 1]
    parts = ColumnTransformer([("city", encoder("first"), ["city"]), ("others", "passthrough", ["dose"])])
    X = FRAME[["city", "dose"]]
    with pytest.raises(fl.InvalidInputError, match=r"attribute 'city' .* same coordinates"):
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

"""Attributes are the columns of the raw table, through every transformer that can be attributed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import linear_model as lm
from sklearn import preprocessing as pre
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline

import fisherleak as fl
from fisherleak.models.several import all_parameters as parameters
from fisherleak.models.steps.transformers import READERS

pandas = pytest.importorskip("pandas")
N = 60
NUMBERS = ["age", "dose", "weight"]


def table() -> Any:
    rng = np.random.default_rng(0)
    return pandas.DataFrame(
        {
            "age": rng.integers(20, 90, N).astype(float),
            "city": rng.choice(["Aix", "Bonn", "Cork"], N),
            "dose": rng.gamma(2.0, 3.0, N),
            "smoker": rng.choice([True, False], N),
            "weight": rng.normal(70, 12, N),
        },
        index=[f"patient {i}" for i in range(N)],
    )


FRAME = table()
Y = 0.05 * FRAME["age"] + 0.3 * FRAME["dose"] + (FRAME["city"] == "Bonn") + np.random.default_rng(1).normal(size=N)
Y = Y.to_numpy()


def refitted_columns(model: Pipeline, row: int, name: str, step: float) -> Any:
    """d parameters / d raw value by refitting the last step on the table with one value moved, preprocessing kept."""
    ends = []
    for sign in (1, -1):
        moved = FRAME.copy()
        moved.iloc[row, moved.columns.get_loc(name)] += sign * step
        features = model[:-1].transform(moved)
        features = features.toarray() if hasattr(features, "toarray") else features
        ends.append(parameters(lm.Ridge(alpha=model[-1].alpha).fit(features, Y)))
    return (ends[0] - ends[1]) / (2 * step)


def numbers_through(*steps: Any) -> Pipeline:
    """A pipeline that takes the three numeric columns through some steps, then ridge regression."""
    chosen = ColumnTransformer([("numbers", make_pipeline(*steps), NUMBERS)])
    return make_pipeline(chosen, lm.Ridge(alpha=0.5)).fit(FRAME, Y)


NUMERIC: dict[str, tuple[Any, ...]] = {
    "standard": (pre.StandardScaler(),),
    "standard without": (pre.StandardScaler(with_std=False),),
    "robust": (pre.RobustScaler(),),
    "robust without": (pre.RobustScaler(with_scaling=False),),
    "min max": (pre.MinMaxScaler(),),
    "max abs": (pre.MaxAbsScaler(),),
    "pca": (pre.StandardScaler(), PCA(2)),
    "pca whitened": (PCA(3, whiten=True),),
    "svd": (TruncatedSVD(2),),
    "polynomial": (pre.StandardScaler(), pre.PolynomialFeatures(2, include_bias=False)),
    "polynomial and pca": (pre.StandardScaler(), pre.PolynomialFeatures(3), PCA(4)),
    "interactions": (pre.MinMaxScaler(), pre.PolynomialFeatures(2, interaction_only=True)),
    "splines": (pre.SplineTransformer(n_knots=4, degree=3),),
    "splines of polynomials": (
        pre.StandardScaler(),
        pre.PolynomialFeatures(2, include_bias=False),
        pre.SplineTransformer(n_knots=3),
    ),
    "selected": (pre.StandardScaler(), VarianceThreshold(), SelectKBest(f_regression, k=2)),
    "imputers": (SimpleImputer(), KNNImputer(), pre.FunctionTransformer()),
    "union": (
        FeatureUnion([("a", pre.StandardScaler()), ("b", pre.PolynomialFeatures(2)), ("c", "drop")]),
        pre.StandardScaler(),
    ),
    "passed": ("passthrough",),
}


@pytest.mark.parametrize("steps", NUMERIC.values(), ids=NUMERIC.keys())
def test_raw_numbers_through_every_transformer(steps: tuple[Any, ...]) -> None:
    model = numbers_through(*steps)
    leak = fl.measure(model, FRAME, Y)
    assert leak.attributes == list(FRAME.columns)
    cells = np.asarray(leak.per_cell())
    for row in (0, 31):
        for name in NUMBERS:
            numeric = refitted_columns(model, row, name, 1e-3)
            assert cells[row, leak.attributes.index(name)] == pytest.approx(
                np.linalg.norm(numeric), rel=1e-5, abs=1e-12
            )
    # columns that the model never sees leak nothing
    assert (cells[:, [leak.attributes.index("city"), leak.attributes.index("smoker")]] == 0).all()
    assert leak.per_attribute()[leak.attributes.index("city")] == 0


def test_every_reader_is_tested() -> None:
    tested = {type(step) for steps in NUMERIC.values() for step in steps}
    also = {"OneHotEncoder", "OrdinalEncoder", "ColumnTransformer", "Pipeline", "IncrementalPCA", "SelectPercentile"}
    also |= {"CentreImputer"}  # protection/release/test_fills_of_bounds.py
    assert {kind.__name__ for kind in READERS} <= {kind.__name__ for kind in tested} | also


def encoded_matrix(model: Pipeline) -> Any:
    features = model[:-1].transform(FRAME)
    return features.toarray() if hasattr(features, "toarray") else np.asarray(features)


@pytest.mark.parametrize(
    "encoder",
    [
        pre.OneHotEncoder(),
        pre.OneHotEncoder(drop="first"),
        pre.OneHotEncoder(drop="if_binary", sparse_output=False),
        pre.OneHotEncoder(drop=["Bonn", True]),
        pre.OneHotEncoder(min_frequency=22, handle_unknown="infrequent_if_exist"),
        pre.OrdinalEncoder(),
    ],
)
def test_categories_are_the_block_they_feed(encoder: Any) -> None:
    preprocess = make_column_transformer((encoder, ["city", "smoker"]), (pre.StandardScaler(), NUMBERS))
    model = make_pipeline(preprocess, lm.Ridge(alpha=0.5)).fit(FRAME, Y)
    features = encoded_matrix(model)
    names = model[0].get_feature_names_out()
    blocks = {
        name: [j for j, feature in enumerate(names) if feature.split("__")[1].startswith(name)]
        for name in ("city", "smoker")
    }
    # where no level was dropped the indicators always sum to one
    full = {name: len(block) > 1 and np.allclose(features[:, block].sum(axis=1), 1.0) for name, block in blocks.items()}
    records = [fl.Attribute.one_hot(n, b) if full[n] else fl.Attribute(n, b) for n, b in blocks.items()]
    plain = fl.measure(lm.Ridge(alpha=0.5).fit(features, Y), features, Y, attributes=records)
    leak = fl.measure(model, FRAME, Y)
    for name in ("city", "smoker"):
        np.testing.assert_allclose(leak.per_example([name]), plain.per_example([name]), rtol=1e-10)
        assert leak.of(attributes=[name]) == pytest.approx(plain.of(attributes=[name]), rel=1e-10)
    np.testing.assert_allclose(leak.per_example(["city", "smoker"]), plain.per_example(["city", "smoker"]), rtol=1e-10)


def test_categories_behind_pca_follow_the_chain_rule() -> None:
    preprocess = make_column_transformer(
        (pre.OneHotEncoder(drop="first", sparse_output=False), ["city"]), (pre.StandardScaler(), NUMBERS)
    )
    model = make_pipeline(preprocess, PCA(3), lm.Ridge(alpha=0.5)).fit(FRAME, Y)
    features = encoded_matrix(model)
    by_hand = fl.Attribute("city", range(3), model[1].components_[:, :2])
    plain = fl.measure(lm.Ridge(alpha=0.5).fit(features, Y), features, Y, attributes=[by_hand])
    np.testing.assert_allclose(fl.measure(model, FRAME, Y).per_example("city"), plain.per_example("city"), rtol=1e-10)


def test_one_column_on_two_ways() -> None:
    """A number that is scaled here and bent there moves both; it stays one attribute in its raw unit."""
    both = ColumnTransformer(
        [("plain", pre.StandardScaler(), ["age", "dose"]), ("bent", pre.SplineTransformer(n_knots=3), ["age"])]
    )
    model = make_pipeline(both, lm.Ridge(alpha=0.5)).fit(FRAME, Y)
    leak = fl.measure(model, FRAME, Y)
    numeric = refitted_columns(model, 7, "age", 1e-3)
    assert leak.per_cell()[7, 0] == pytest.approx(np.linalg.norm(numeric), rel=1e-5)
    levels = ColumnTransformer(
        [("number", "passthrough", ["smoker", "age"]), ("levels", pre.OneHotEncoder(), ["smoker"])]
    )
    model = make_pipeline(levels, lm.Ridge(alpha=0.5)).fit(FRAME, Y)
    features = encoded_matrix(model).astype(float)
    tangent = np.zeros((3, 2))
    tangent[0, 0], tangent[1:, 1] = 1.0, [np.sqrt(0.5), -np.sqrt(0.5)]
    record = fl.Attribute("smoker", [0, 2, 3], tangent)
    plain = fl.measure(lm.Ridge(alpha=0.5).fit(features, Y), features, Y, attributes=[record])
    np.testing.assert_allclose(
        fl.measure(model, FRAME, Y).per_example("smoker"), plain.per_example("smoker"), rtol=1e-10
    )


SELECTIONS: list[Any] = [
    ["age", "dose", "weight"],
    [0, 2, 4],
    np.array([True, False, True, False, True]),
    make_column_selector(dtype_include=float),
    slice("age", "dose"),
]


@pytest.mark.parametrize("columns", SELECTIONS)
def test_columns_may_be_chosen_in_every_way(columns: Any) -> None:
    frame = FRAME.drop(columns=["city"]) if isinstance(columns, slice) else FRAME
    chosen = ColumnTransformer([("numbers", pre.StandardScaler(), columns)], remainder="drop")
    model = make_pipeline(chosen, lm.Ridge()).fit(frame, Y)
    names = ["age", "dose"] if isinstance(columns, slice) else NUMBERS
    by_name = make_pipeline(ColumnTransformer([("numbers", pre.StandardScaler(), names)]), lm.Ridge()).fit(frame, Y)
    np.testing.assert_allclose(
        fl.measure(model, frame, Y).per_cell(), fl.measure(by_name, frame, Y).per_cell(), rtol=1e-12
    )


def test_the_rest_may_pass_and_frames_may_flow_inside() -> None:
    frame = FRAME[[*NUMBERS, "smoker"]].astype(float)
    passing = make_column_transformer((pre.StandardScaler(), ["age"]), remainder="passthrough")
    plain = make_pipeline(passing, lm.Ridge()).fit(frame, Y)
    framed = make_pipeline(passing, lm.Ridge()).set_output(transform="pandas").fit(frame, Y)
    expected = fl.measure(plain, frame, Y)
    np.testing.assert_allclose(fl.measure(framed, frame, Y).per_cell(), expected.per_cell(), rtol=1e-10)
    numeric = refitted_like(plain, frame, 5, "dose")
    assert expected.per_cell()[5, 1] == pytest.approx(np.linalg.norm(numeric), rel=1e-5)


def refitted_like(model: Pipeline, frame: Any, row: int, name: str) -> Any:
    ends = []
    for sign in (1, -1):
        moved = frame.copy()
        moved.iloc[row, moved.columns.get_loc(name)] += sign * 1e-3
        ends.append(parameters(lm.Ridge().fit(model[:-1].transform(moved), Y)))
    return (ends[0] - ends[1]) / 2e-3


def test_polars_frames_and_bare_arrays() -> None:
    polars = pytest.importorskip("polars")
    model = numbers_through(pre.StandardScaler())
    reference = np.asarray(fl.measure(model, FRAME, Y).per_cell())
    other = polars.DataFrame({name: FRAME[name].to_numpy() for name in FRAME.columns})
    fitted = make_pipeline(ColumnTransformer([("numbers", pre.StandardScaler(), NUMBERS)]), lm.Ridge(alpha=0.5)).fit(
        other, Y
    )
    leak = fl.measure(fitted, other, Y)
    np.testing.assert_allclose(leak.per_cell(), reference, rtol=1e-12)
    assert leak.by_group("city").keys() == {"Aix", "Bonn", "Cork"}
    assert list(leak.to_frame().index) == list(range(N))
    array = FRAME[NUMBERS].to_numpy()
    bare = fl.measure(make_pipeline(pre.StandardScaler(), lm.Ridge(alpha=0.5)).fit(array, Y), array, Y)
    assert bare.attributes == ["x0", "x1", "x2"]
    np.testing.assert_allclose(bare.per_cell(), reference[:, [0, 2, 4]], rtol=1e-12)


def test_names_order_and_index_survive() -> None:
    leak = fl.measure(numbers_through(pre.StandardScaler()), FRAME, Y)
    frame = leak.to_frame()
    assert list(frame.index) == list(FRAME.index)
    assert list(frame.columns) == ["eta", *(f"eta[{name}]" for name in FRAME.columns), "eta_label", "membership"]
    by_name, by_labels = leak.by_group("city"), leak.by_group(FRAME["city"])
    assert by_name == by_labels
    position = int(np.argmax(leak.per_example()))
    assert f"row {position} ({frame['eta'].idxmax()}): " in leak.summary()
    assert leak.of(position) == pytest.approx(frame["eta"].max(), rel=1e-10)


def test_a_search_over_a_pipeline() -> None:
    chosen = ColumnTransformer([("numbers", pre.StandardScaler(), NUMBERS)])
    search = GridSearchCV(make_pipeline(chosen, lm.Ridge()), {"ridge__alpha": [0.5, 5.0]}, cv=3).fit(FRAME, Y)
    best = fl.measure(search.best_estimator_, FRAME, Y)
    np.testing.assert_array_equal(fl.measure(search, FRAME, Y).per_cell(), best.per_cell())


def test_iwpc_by_column_name(data_folder: Path) -> None:
    """The raw warfarin table: a gene is the block of its indicators, in and behind principal components."""
    frame = pandas.read_csv(data_folder / "iwpc" / "iwpc-scaled.csv")
    y = frame.pop("dose").to_numpy()
    numbers = ["age", "height", "weight"]
    rest = [name for name in frame.columns if name not in numbers]
    encode = make_column_transformer(
        (pre.StandardScaler(), numbers), (pre.OneHotEncoder(drop="first", sparse_output=False), rest)
    )
    model = make_pipeline(encode, lm.Ridge(alpha=1e-3 * len(y))).fit(frame, y)
    features = model[:-1].transform(frame)
    names = [name.split("__")[1] for name in model[0].get_feature_names_out()]
    block = [j for j, name in enumerate(names) if name.startswith("vkorc1")]
    assert len(block) == 2
    plain = fl.measure(lm.Ridge(alpha=1e-3 * len(y)).fit(features, y), features, y, attributes={"vkorc1": block})
    leak = fl.measure(model, frame, y)
    np.testing.assert_allclose(leak.per_example(["vkorc1"]), plain.per_example(["vkorc1"]), rtol=1e-10)

    turned = make_pipeline(encode, PCA(8), lm.Ridge(alpha=1e-3 * len(y))).fit(frame, y)
    components, scale = turned[1].components_, turned[0].named_transformers_["standardscaler"].scale_
    by_hand = [
        fl.Attribute("vkorc1", range(8), components[:, block]),
        fl.Attribute("age", range(8), components[:, :1] / scale[0]),
    ]
    features = turned[:-1].transform(frame)
    expected = fl.measure(lm.Ridge(alpha=1e-3 * len(y)).fit(features, y), features, y, attributes=by_hand)
    raw = fl.measure(turned, frame, y)
    for name in ("vkorc1", "age"):
        np.testing.assert_allclose(raw.per_example([name]), expected.per_example([name]), rtol=1e-9)


def test_a_column_chosen_twice_moves_both_copies() -> None:
    array = FRAME[NUMBERS].to_numpy()
    twice = make_pipeline(ColumnTransformer([("n", pre.StandardScaler(), [0, 0, 1])]), lm.Ridge()).fit(array, Y)
    leak = fl.measure(twice, array, Y)
    for row in (0, 3):
        ends = []
        for sign in (1, -1):
            moved = array.copy()
            moved[row, 0] += sign * 1e-3
            ends.append(parameters(lm.Ridge().fit(twice[:-1].transform(moved), Y)))
        assert leak.per_cell()[row, 0] == pytest.approx(np.linalg.norm(ends[0] - ends[1]) / 2e-3, rel=1e-5)
    union = FeatureUnion([("a", "passthrough"), ("b", "passthrough")])
    both = make_pipeline(union, pre.OneHotEncoder(), lm.Ridge()).fit(FRAME[["city"]], Y)
    assert len(fl.measure(both, FRAME[["city"]], Y)._information.jacobians[0].attributes[0].columns) == 6


@pytest.mark.parametrize(
    "imputer", [SimpleImputer(missing_values=-1, strategy="most_frequent"), KNNImputer(missing_values=-1)]
)
def test_imputers_that_filled_another_mark_are_noticed(imputer: Any) -> None:
    frame = FRAME[NUMBERS].copy()
    frame.iloc[:6, 0] = -1.0
    model = make_pipeline(imputer, pre.StandardScaler(), lm.Ridge()).fit(frame, Y)
    with pytest.raises(fl.InvalidInputError, match=r"filled 6 missing values of column 'age' \(first in row 0\)"):
        fl.measure(model, frame, Y)


def test_names_survive_between_column_transformers() -> None:
    first = ColumnTransformer(
        [("s", pre.StandardScaler(), ["age"])], remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    second = ColumnTransformer([("p", pre.PolynomialFeatures(2), ["age"])], remainder="passthrough")
    frame = FRAME[NUMBERS]
    model = make_pipeline(first, second, lm.Ridge()).fit(frame, Y)
    numeric = refitted_like(model, frame, 4, "age")
    assert fl.measure(model, frame, Y).per_cell()[4, 0] == pytest.approx(np.linalg.norm(numeric), rel=1e-5)


def test_text_that_looks_like_numbers_stays_text() -> None:
    frame = FRAME.assign(code=np.array(["0", "1", "2"])[np.arange(N) % 3])[["code", "age"]]
    encode = make_pipeline(SimpleImputer(strategy="most_frequent"), pre.OneHotEncoder(drop="first"))
    model = make_pipeline(ColumnTransformer([("c", encode, ["code"])], remainder="passthrough"), lm.Ridge()).fit(
        frame, Y
    )
    assert fl.measure(model, frame, Y).per_example("code").shape == (N,)


def test_one_column_as_number_and_as_levels_behind_a_mixture() -> None:
    ways = [("s", pre.StandardScaler(), ["smoker"]), ("o", pre.OneHotEncoder(sparse_output=False), ["smoker"])]
    model = make_pipeline(ColumnTransformer([*ways, ("a", "passthrough", ["age"])]), PCA(3), lm.Ridge()).fit(FRAME, Y)
    assert fl.measure(model, FRAME, Y)._information.jacobians[0].attributes[3].columns == (0, 1, 2)


def test_values_outside_the_knots_are_refused() -> None:
    outside = numbers_through(pre.SplineTransformer(knots=np.array([[40.0] * 3, [50.0] * 3, [60.0] * 3])))
    with pytest.raises(fl.UnsupportedModelError, match="'age' has values outside the knots"):
        fl.measure(outside, FRAME, Y)


STEPWISE = [
    pre.SplineTransformer(n_knots=4, degree=0),
    pre.KBinsDiscretizer(4, strategy="uniform", encode="ordinal"),
    pre.Binarizer(threshold=40.0),
    pre.QuantileTransformer(n_quantiles=20),
    pre.PowerTransformer(),
]


@pytest.mark.parametrize("step", STEPWISE, ids=lambda step: type(step).__name__)
def test_steps_and_unknown_curves_are_refused_by_name(step: Any) -> None:
    """A piecewise constant feature has a slope of zero and reveals its column all the same."""
    with pytest.raises(fl.UnsupportedModelError, match=type(step).__name__):
        fl.measure(numbers_through(step), FRAME, Y)


def one_sided(model: Pipeline, frame: Any, row: int, name: str, step: float) -> float:
    """|d parameters / d raw value| towards one side, by refitting the last step."""
    ends = []
    for size in (step, 0.0):
        moved = frame.copy()
        moved.iloc[row, moved.columns.get_loc(name)] += size
        ends.append(parameters(lm.Ridge(alpha=model[-1].alpha).fit(model[:-1].transform(moved), Y)))
    return float(np.linalg.norm(ends[0] - ends[1]) / abs(step))


KNOTS = np.array([[0.0], [32.0], [64.0], [80.0], [128.0]])
BENT: dict[str, Any] = {
    "degree 1": (pre.SplineTransformer(knots=KNOTS, degree=1),),
    "behind a scaler": (pre.MinMaxScaler(), pre.SplineTransformer(knots=KNOTS / 128, degree=1)),
    "before components": (pre.SplineTransformer(knots=KNOTS, degree=1), PCA(2)),
    "beside itself": (
        FeatureUnion([("a", pre.SplineTransformer(knots=KNOTS, degree=1)), ("b", pre.StandardScaler())]),
    ),
}


@pytest.mark.parametrize("steps", BENT.values(), ids=BENT.keys())
def test_at_a_knot_the_side_that_leaks_more_counts(steps: Any) -> None:
    frame = FRAME[["age"]].copy()
    frame.iloc[:22, 0] = [*np.repeat([32.0, 64.0, 80.0, 45.0], 5), 0.0, 128.0]
    model = make_pipeline(*steps, lm.Ridge(alpha=0.5)).fit(frame, Y)
    cells = np.asarray(fl.measure(model, frame, Y).per_cell())[:, 0]
    sides = np.array([[one_sided(model, frame, row, "age", side * 1e-5) for side in (1, -1)] for row in range(20)])
    np.testing.assert_allclose(cells[:20], sides.max(axis=1), rtol=1e-4)
    # neither side alone would do
    assert (sides[:15, 0] > 1.05 * sides[:15, 1]).any()
    assert (sides[:15, 1] > 1.05 * sides[:15, 0]).any()


def test_at_the_ends_of_a_range_the_side_within_counts() -> None:
    frame = FRAME[["age"]]
    low, high = int(np.argmin(frame["age"])), int(np.argmax(frame["age"]))
    for step in (pre.MinMaxScaler(clip=True), pre.SplineTransformer(n_knots=3, extrapolation="constant")):
        model = make_pipeline(step, lm.Ridge(alpha=0.5)).fit(frame, Y)
        cells = np.asarray(fl.measure(model, frame, Y).per_cell())[:, 0]
        for row, inwards in ((low, 1e-5), (high, -1e-5)):
            assert cells[row] == pytest.approx(one_sided(model, frame, row, "age", inwards), rel=1e-4)
            assert one_sided(model, frame, row, "age", -inwards) == 0


def test_a_clipped_value_beyond_the_range_moves_nothing() -> None:
    frame = FRAME[["age", "dose"]]
    scaler = pre.MinMaxScaler(clip=True).fit(frame[(frame["age"] > 30) & (frame["age"] < 80)])
    model = Pipeline([("scale", scaler), ("ridge", lm.Ridge().fit(scaler.transform(frame), Y))])
    cells = np.asarray(fl.measure(model, frame, Y).per_cell())
    clipped = (frame.to_numpy() < scaler.data_min_) | (frame.to_numpy() > scaler.data_max_)
    assert clipped.any(axis=0).all()
    assert (cells[clipped] == 0).all()
    assert (cells[~clipped] > 0).all()


def test_lazy_frames_are_refused_with_the_remedy() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(fl.InvalidInputError, match=r"pass X\.collect"):
        fl.measure(numbers_through(pre.StandardScaler()), polars.DataFrame({"age": [1.0]}).lazy(), Y)

"""Categories in released models: one person's category does not show, and every value that is not named has its documented place.

Nothing here may be silent and wrong: a seed says that it protects nothing, and integers as text are the integers.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import fisherleak as fl
from copies import trusted_types
from fisherleak.releasing.files.released_files import save_model
from fisherleak.tables import from_frame, read_table
from fisherleak.training.pipelines import own_parameters
from fisherleak.training.trained_model import Settings, train
from releasable import POOLED

NOISE = fl.Gaussian(0.5)
QUIET = fl.Gaussian(1e-7)
N = 120
RNG = np.random.default_rng(8)
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(50.0, 10.0, N),
        "city": RNG.choice(["Bonn", "Kiel", "Ulm"], N).astype(object),
        "code": RNG.choice([2, 3, 10], N),
    }
)
Y = 0.1 * TABLE["age"] + 3.0 * (TABLE["city"] == "Kiel") + TABLE["code"] + RNG.normal(size=N)
ONE = TABLE.assign(city=["Gera", *TABLE["city"][1:]])
"""The same with a city that one person has."""


def pipeline(encoder: Any, last: Any = None) -> Any:
    columns = ColumnTransformer([("n", StandardScaler(), ["age"]), ("c", encoder, ["city"])])
    return make_pipeline(columns, Ridge() if last is None else last)


# One person's category


def test_the_number_of_coefficients_does_not_tell_that_one_person_has_a_category() -> None:
    """A pool for rare categories is there for that person's sake: without the rows nobody can say, and both are refused."""
    fitted = [pipeline(OneHotEncoder(**POOLED)).fit(table, Y) for table in (TABLE, ONE)]
    assert [model[-1].coef_.size for model in fitted] == [4, 5]
    for model in fitted:
        with pytest.raises(fl.UnsupportedModelError, match=r"learned its categories.*rows=\(X, y\)"):
            fl.release(model, NOISE)
    assert fl.release(fitted[0], NOISE, rows=(TABLE, Y))[-1].coef_.size == 4
    with pytest.raises(
        fl.UnsupportedModelError, match="Column 'city' has rare categories that only 1 of the rows have"
    ):
        fl.release(fitted[1], NOISE, rows=(ONE, Y))


@pytest.mark.parametrize("encoder", [OneHotEncoder(), OneHotEncoder(handle_unknown="ignore"), OrdinalEncoder()])
def test_a_category_of_one_person_is_not_named(encoder: Any) -> None:
    model = pipeline(encoder).fit(ONE, Y)
    with pytest.raises(fl.UnsupportedModelError, match=r"learned its categories.*rows=\(X, y\)"):
        fl.release(model, NOISE)
    with pytest.raises(fl.UnsupportedModelError, match="Column 'city' has a category that only 1 of the rows have"):
        fl.release(model, NOISE, rows=(ONE, Y))
    assert fl.release(pipeline(encoder).fit(TABLE, Y), NOISE, rows=(TABLE, Y))[-1].coef_.shape


CITIES = ["Bonn", "Gera", "Kiel", "Ulm"]
REMEDIES: dict[str, Callable[[], Any]] = {
    "categories=…": lambda: fl.release(pipeline(OneHotEncoder(categories=[CITIES])).fit(ONE, Y), NOISE),
    "categories=…, pooled": lambda: fl.release(
        pipeline(OneHotEncoder(categories=[CITIES], **POOLED)).fit(ONE, Y), NOISE, rows=(ONE, Y)
    ),
    "unite them": lambda: fl.release(
        pipeline(OneHotEncoder(**POOLED)).fit(ONE.replace("Gera", "Ulm"), Y),
        NOISE,
        rows=(ONE.replace("Gera", "Ulm"), Y),
    ),
    "leave these rows out": lambda: fl.release(
        pipeline(OneHotEncoder()).fit(ONE[1:], Y[1:]), NOISE, rows=(ONE[1:], Y[1:])
    ),
    "public='levels'": lambda: fl.release(pipeline(OneHotEncoder()).fit(ONE, Y), NOISE, public="levels"),
}


@pytest.mark.parametrize("remedy", REMEDIES)
def test_every_remedy_that_is_named_works(remedy: str) -> None:
    assert np.isfinite(REMEDIES[remedy]().predict(ONE[1:])).all()


def test_declared_categories_are_there_whoever_has_them() -> None:
    """Pooled far from their counts, or not at all: one person more or less changes nothing but noisy numbers."""
    for options in ({}, POOLED):
        sizes = set()
        for table in (TABLE, ONE):
            model = pipeline(OneHotEncoder(categories=[CITIES], **options)).fit(table, Y)
            sizes.add(fl.release(model, NOISE, rows=(table, Y))[-1].coef_.size)
        assert len(sizes) == 1


def test_a_class_of_few_rows_is_not_named_where_rows_are_given() -> None:
    classes = np.where(np.arange(N) < 4, "ill", "well")
    model = pipeline(OneHotEncoder(), LogisticRegression(C=0.1)).fit(TABLE, classes)
    with pytest.raises(fl.UnsupportedModelError, match="y has a class that only 4 of the rows have"):
        fl.release(model, NOISE, rows=(TABLE, classes))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (
            lambda: fl.release(Ridge().fit(TABLE[["age"]], Y), NOISE, rows=(TABLE, Y), public="preprocessing"),
            "leave it out",
        ),
        (
            lambda: fl.release(pipeline(OneHotEncoder()).fit(TABLE, Y), NOISE, public="levels", rows=(TABLE, Y)),
            "with public='nothing'",
        ),
        (lambda: fl.release(pipeline(OneHotEncoder()).fit(TABLE, Y), NOISE, rows=TABLE), r"a pair \(X, y\)"),
    ],
)
def test_rows_that_nothing_is_done_with_are_refused(call: Callable[[], Any], reason: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=reason):
        call()


# Seeds

X = TABLE[["age"]].to_numpy() / 10.0
LABELS = (Y.median() < Y).to_numpy().astype(float)
LINEAR = fl.minimise(X, Y.to_numpy(), "squared", l2=0.1)
CLASSES = fl.minimise(X - X.mean(), LABELS, "logistic", l2=0.1)
MODEL = Ridge().fit(X, Y)


def candidates(**options: Any) -> Any:
    return fl.protect(Ridge(), X, Y, 5.0, penalties=[1.0, 10.0], weightings=["none"], shapes=["isotropic"], **options)


SEEDED: dict[str, Callable[[Any], Any]] = {
    "release": lambda seed: fl.release(MODEL, NOISE, seed),
    "release of a Fit": lambda seed: fl.release(LINEAR, NOISE, seed),
    "release of a posterior": lambda seed: fl.release(LINEAR, fl.Posterior(1.0), seed),
    "release by a perturbed objective": lambda seed: fl.release(
        CLASSES, fl.ObjectivePerturbation(1.0), seed, rows=(X - X.mean(), LABELS)
    ),
    "PrivateRelease": lambda seed: fl.PrivateRelease(Ridge(), eta=5.0, random_state=seed).fit(X, Y),
    "Protected": lambda seed: fl.Protected(
        Ridge(), eta=5.0, penalties=[1.0], shapes=["isotropic"], random_state=seed
    ).fit(X, Y),
    "Frontier.release": lambda seed: candidates().release(random_state=seed),
    "Frontier.choose": lambda seed: candidates().choose(random_state=seed),
}


@pytest.mark.parametrize("name", SEEDED)
def test_a_seeded_release_says_that_it_protects_nothing(name: str) -> None:
    for seed in (0, np.random.default_rng(0)):
        with pytest.warns(fl.SeededReleaseWarning, match="protects nothing.*tests only"):
            SEEDED[name](seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error", fl.SeededReleaseWarning)
        SEEDED[name](None)


def test_a_file_that_is_drawn_with_a_seed_says_so(tmp_path: Path) -> None:
    pytest.importorskip("skops")
    with pytest.warns(fl.SeededReleaseWarning):
        saved(tmp_path, TABLE, random_state=0)


# What files do with values that they do not name


def saved(folder: Path, table: pd.DataFrame, **options: Any) -> Any:
    """The model in a file, of a table in a file, with hardly any noise."""
    io = pytest.importorskip("skops.io")
    table.assign(y=Y).to_parquet(folder / "t.parquet")
    settings = Settings("y", held_out=0.0, categories=("code",), missing=options.pop("missing", "impute"))
    noise = fl.Gaussian(1e-6)
    save_model(read_table(folder / "t.parquet"), settings, folder / "m.skops", noise=noise, overwrite=True, **options)
    return io.load(folder / "m.skops", trusted=sorted(trusted_types()))


def first_of(table: pd.DataFrame, column: str, value: Any) -> pd.DataFrame:
    """The table with one value in one cell."""
    values = table[column].astype(object)
    values.iloc[0] = value
    return table.assign(**{column: values})


def test_a_table_predicts_its_own_rows_as_it_was_trained_without_a_warning(tmp_path: Path) -> None:
    """A city too rare to be named counted as the first one in training, and does so in the file."""
    table = first_of(ONE, "code", 77)
    design = train(from_frame(table.assign(y=Y)), Settings("y", held_out=0.0, categories=("code",), rare=5))
    theta = own_parameters(design)
    model = saved(tmp_path, table)
    np.testing.assert_allclose(model.predict(table), np.asarray(design.design.X) @ theta[:-1] + theta[-1], atol=1e-3)
    np.testing.assert_allclose(
        model.predict(table), model.predict(first_of(first_of(table, "code", 2), "city", "Bonn"))
    )


@pytest.mark.parametrize("drop", [None, "first", "if_binary", ["Bonn"]])
def test_rows_of_pooled_categories_are_predicted_without_a_warning(drop: Any) -> None:
    table = TABLE.assign(city=[*("Gera", "Jena", "Gera", "Jena", "Gera"), *TABLE["city"][5:]])
    model = pipeline(OneHotEncoder(**POOLED, drop=drop)).fit(table, Y)
    released = fl.release(model, QUIET, rows=(table, Y))
    np.testing.assert_allclose(released.predict(table), model.predict(table), atol=1e-4)
    np.testing.assert_allclose(released.predict(first_of(table, "city", "Wien")), model.predict(table), atol=1e-4)
    assert released[0].get_feature_names_out().tolist() == model[0].get_feature_names_out().tolist()


POOL = TABLE.assign(city=[*("Gera", "Jena", "Gera", "Jena", "Gera"), *TABLE["city"][5:]])
GAPS = TABLE.assign(city=TABLE["city"].mask(np.arange(N) < 6))


@pytest.mark.parametrize(
    ("table", "column", "value", "same"),
    [
        (TABLE, "city", "Wien", "Bonn"),
        (TABLE, "city", None, "Bonn"),
        (TABLE, "city", np.nan, "Bonn"),
        (POOL, "city", "Wien", "Gera"),
        (POOL, "city", None, "Jena"),
        (GAPS, "city", "Wien", None),
        (TABLE, "code", 99, 2),
        (TABLE, "code", None, 2),
        (TABLE, "code", 2.5, 2),
    ],
)
def test_new_and_missing_categories_have_their_documented_place(
    table: pd.DataFrame, column: str, value: Any, same: Any, tmp_path: Path
) -> None:
    model = saved(tmp_path, table)
    found, expected = (model.predict(first_of(table, column, cell)) for cell in (value, same))
    np.testing.assert_array_equal(found, expected)


def test_missing_numbers_are_public_centres_or_are_refused(tmp_path: Path) -> None:
    """As the rows were treated in training: filled inside the model, or left out with ``missing='drop'``."""
    lacking = TABLE.assign(age=[np.nan, *TABLE["age"][1:]])
    filled = saved(tmp_path, TABLE)
    centre = filled[0].named_transformers_["numbers"].statistics_[0]
    np.testing.assert_array_equal(
        filled.predict(lacking), filled.predict(TABLE.assign(age=[centre, *TABLE["age"][1:]]))
    )
    with pytest.raises(ValueError, match="contains NaN"):
        saved(tmp_path, TABLE, missing="drop").predict(lacking)


# Integers as text

CODES: dict[str, Callable[[pd.Series[Any]], Any]] = {
    "int": lambda codes: codes,
    "float": lambda codes: codes.astype(float),
    "text": lambda codes: codes.astype(str),
    "objects": lambda codes: codes.astype(str).astype(object),
    "category of texts": lambda codes: codes.astype(str).astype("category"),
    "small int": lambda codes: codes.astype("int8"),
}


@pytest.mark.parametrize("stored", ["int", "float", "text"])
def test_integers_as_text_are_the_same_category(stored: str, tmp_path: Path) -> None:
    """However the codes were stored where the model was trained, and however they are where it predicts."""
    trained = TABLE.assign(code=CODES[stored](TABLE["code"]))
    model = saved(tmp_path, trained)
    expected = model.predict(trained)
    assert np.ptp(expected[TABLE["code"] == 10]) < np.ptp(expected)
    for read in CODES.values():
        np.testing.assert_array_equal(model.predict(TABLE.assign(code=read(TABLE["code"]))), expected)
    gap = first_of(TABLE.assign(code=TABLE["code"].astype(str)), "code", None)
    np.testing.assert_array_equal(model.predict(gap)[1:], expected[1:])
    with pytest.raises(ValueError, match="could not convert string to float"):
        model.predict(first_of(TABLE, "code", "unknown"))


def test_a_table_has_the_same_categories_whether_its_codes_are_text_or_not(tmp_path: Path) -> None:
    """In the order of numbers, so that 2 and not "10" is the first, whose place a value takes that is not named."""
    levels = []
    for stored in ("int", "float", "text"):
        table = TABLE.assign(code=CODES[stored](TABLE["code"]))
        design = train(from_frame(table.assign(y=Y)), Settings("y", held_out=0.0, categories=("code",), rare=5)).design
        (feature,) = (feature for feature in design.features if feature.name == "code")
        levels.append([str(level) for level in feature.levels])
    assert levels == [["2", "3", "10"]] * 3


@pytest.mark.parametrize("codes", [("02", "2", "2.0"), ("*", "1", "2"), ("1", "2", "5+"), (2**60, 2**60 + 1, 7)])
def test_codes_that_are_not_written_as_small_numbers_stay_what_they_are(codes: Any, tmp_path: Path) -> None:
    """No program writes an integer as "02", and floats do not hold 2^60 + 1: such codes stay apart from the others."""
    table = TABLE.assign(code=TABLE["code"].map(dict(zip((2, 3, 10), codes, strict=True))))
    model = saved(tmp_path, table)
    design = train(from_frame(table.assign(y=Y)), Settings("y", held_out=0.0, categories=("code",), rare=5))
    theta = own_parameters(design)
    np.testing.assert_allclose(model.predict(table), np.asarray(design.design.X) @ theta[:-1] + theta[-1], atol=1e-3)


@pytest.mark.long
def test_files_predict_where_this_package_is_not(tmp_path: Path) -> None:
    model = saved(tmp_path, TABLE)
    TABLE.assign(code=TABLE["code"].astype(str)).to_parquet(tmp_path / "people.parquet")
    trusted = sorted(trusted_types())
    program = (
        "import sys; sys.modules['fisherleak'] = None; import pandas, skops.io, numpy; "
        "model = skops.io.load('m.skops', trusted=[t for t in skops.io.get_untrusted_types(file='m.skops') if t in "
        f"{trusted}]); "
        "numpy.save('found.npy', model.predict(pandas.read_parquet('people.parquet')))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=tmp_path, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), model.predict(TABLE))


# How one person wrote a value


def written(truth: Any) -> pd.DataFrame:
    """0, 1 and 2, where the first 1 is written in some way."""
    cells: list[Any] = np.resize([0, 1, 2], N).tolist()
    cells[1] = truth
    return TABLE.assign(city=pd.Series(cells, dtype=object))


def released(table: pd.DataFrame) -> Any:
    return fl.release(pipeline(OneHotEncoder()).fit(table, Y), NOISE, rows=(table, Y))


def protected(table: pd.DataFrame) -> Any:
    return fl.protect(pipeline(OneHotEncoder()), table, Y, over="max")


def passed(table: pd.DataFrame) -> Any:
    policy = {"membership": {"max_right": 0.9}, "columns": {"city": {"max_attack": 0.9, "kind": "category"}}}
    model = pipeline(OneHotEncoder()).fit(table, Y)
    return fl.audit(model, table, Y, noise=fl.Gaussian(20.0), policy=policy, public="nothing", attacks=False)


@pytest.mark.parametrize("leave", [released, protected, passed])
def test_one_person_who_wrote_true_for_1_is_not_seen_by_the_type_of_a_category(leave: Callable[..., Any]) -> None:
    with pytest.raises(fl.UnsupportedModelError, match="'city' has equal values of several types"):
        leave(written(True))


def test_whole_numbers_written_in_two_ways_are_one() -> None:
    levels = [released(written(cell))[0].transformers_[1][1].categories_[0] for cell in (1, 1.0, np.int8(1))]
    assert [each.dtype.kind for each in levels] == ["i", "i", "i"]


def test_a_rule_on_rows_names_the_column_of_x_that_has_several_types() -> None:
    """Nothing that leaves is limited there, so that the encoder's categories are not looked at."""
    table = written(True)
    policy = {"rows": {"max_eta": 1.0}, "require": {"public": "preprocessing"}}
    with pytest.raises(fl.InvalidInputError, match=r"^The column 'city' of X holds values of several types"):
        fl.audit(pipeline(OneHotEncoder()).fit(table, Y), table, Y, noise=NOISE, policy=policy, attacks=False)

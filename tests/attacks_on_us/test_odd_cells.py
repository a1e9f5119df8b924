"""One odd cell decides types, widths and flags of a whole column; none of them may leave with a model that does not name it.

Every test has two tables that differ in one cell, whose level is pooled or which is a gap, and the same noise.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import fisherleak as fl
from attacks_on_us.test_object_walker import differing, unaccounted
from copies import trusted_types
from fisherleak.releasing.files.released_files import save_model
from fisherleak.tables import from_frame, read_table
from fisherleak.training.trained_model import Settings
from releasable import POOLED

NOISE = fl.Gaussian(0.5)
N = 120
RNG = np.random.default_rng(5)
STAGE = np.where(np.arange(N) % 20 == 0, 9, RNG.integers(1, 4, size=N))
STAGE[[0, 20, 40]] = 7  # two levels of three rows each: rare, and pooled
AGE = RNG.normal(50.0, 10.0, size=N)
Y = 0.1 * AGE + STAGE + RNG.normal(size=N)


def both(make: Callable[[], Any], one: Any, other: Any, public: str = "nothing") -> list[Any]:
    return [fl.release(make().fit(table, Y), NOISE, random_state=3, public=public) for table in (one, other)]


def staged(stage: Any) -> pd.DataFrame:
    return pd.DataFrame({"stage": stage, "age": AGE})


def with_cell(values: Any, cell: Any, dtype: Any) -> Any:
    changed = np.asarray(values).astype(dtype)
    changed[0] = cell
    return changed


@pytest.mark.parametrize("cell", [7.5, np.nan], ids=["fraction", "gap"])
def test_whole_numbers_are_whole_whatever_is_pooled(cell: float) -> None:
    """One of the pooled cells makes the column one of floats."""

    def make() -> Any:
        return make_pipeline(ColumnTransformer([("c", OneHotEncoder(**POOLED), ["stage"])], remainder="drop"), Ridge())

    tables = staged(STAGE), staged(with_cell(STAGE, cell, float))
    exact = [make().fit(table, Y) for table in tables]
    assert [model[0].named_transformers_["c"].categories_[0].dtype.kind for model in exact] == ["i", "f"]
    one, other = both(make, *tables, public="levels")
    assert unaccounted(one, other) == []
    for model in exact:  # and each takes either
        quiet = fl.release(model, fl.Gaussian(1e-6), 0, public="levels")
        for table in tables:
            np.testing.assert_allclose(quiet.predict(table)[1:], model.predict(tables[0])[1:], atol=1e-4)


@pytest.mark.parametrize("encoder", [OneHotEncoder, OrdinalEncoder])
def test_declared_levels_have_the_types_that_they_were_declared_with(encoder: Any) -> None:
    unknown = (
        {"handle_unknown": "ignore"}
        if encoder is OneHotEncoder
        else {"handle_unknown": "use_encoded_value", "unknown_value": -1}
    )

    def make() -> Any:
        return make_pipeline(encoder(categories=[[1, 2, 3]], **unknown), Ridge())

    one, other = both(make, staged(STAGE)[["stage"]], staged(with_cell(STAGE, 7.5, float))[["stage"]])
    assert unaccounted(one, other) == []
    assert np.isfinite(other.predict(staged(STAGE)[["stage"]])).all()


def test_texts_have_no_common_width() -> None:
    cities = np.array(["Bonn", "Kiel", "Ulm"])[RNG.integers(0, 3, size=N)]
    one = np.column_stack([with_cell(cities, "Aach", "<U24"), cities.astype("<U24")]).astype("<U4")
    other = np.column_stack([with_cell(cities, "Castrop-Rauxel im Wald", "<U24"), cities.astype("<U24")])

    def make() -> Any:
        return make_pipeline(OneHotEncoder(**POOLED), Ridge())

    assert [make().fit(table, Y)[0].categories_[1].dtype.str for table in (one, other)] == ["<U4", "<U24"]
    released = both(make, one, other, "levels")
    assert unaccounted(*released) == []
    np.testing.assert_array_equal(
        *(np.isfinite(model.predict(table)) for model, table in zip(released, (one, other), strict=True))
    )


def test_classes_have_the_width_that_they_need() -> None:
    X, wide = np.column_stack([AGE, STAGE]), np.where(np.median(Y) < Y, "ill", "well").astype("<U40")
    released = fl.release(RidgeClassifier().fit(X, wide), NOISE)
    assert released.classes_.dtype.str == "<U4"
    assert set(released.predict(X)) <= {"ill", "well"}


def test_whether_a_table_is_sparse_is_not_told() -> None:
    """Scikit-learn counts the indicators that are one, and remembers on which side of a threshold they are."""
    one, other = (np.column_stack([with_cell(STAGE.clip(1, 3), cell, float), AGE]) for cell in (9.0, 1.0))
    density = (2 * N - 0.5) / (4 * N)

    def make() -> Any:
        encoder = OneHotEncoder(categories=[[1.0, 2.0, 3.0]], handle_unknown="ignore")
        columns = ColumnTransformer([("c", encoder, [0]), ("n", StandardScaler(), [1])], sparse_threshold=density)
        return make_pipeline(columns, Ridge())

    assert [make().fit(table, Y)[0].sparse_output_ for table in (one, other)] == [True, False]
    released = both(make, one, other)
    assert unaccounted(*released) == []
    for table, model in zip((one, other), released, strict=True):
        assert np.isfinite(model.predict(table)).all()


def test_encoders_alone_stay_sparse() -> None:
    table = np.column_stack([STAGE.clip(1, 3), STAGE.clip(2, 3)])
    columns = ColumnTransformer([("c", OneHotEncoder(categories=[[1, 2, 3], [2, 3]]), [0, 1])])
    model = make_pipeline(columns, Ridge()).fit(table, Y)
    released = fl.release(model, fl.Gaussian(1e-6), 0)
    assert released[0].sparse_output_ is True
    np.testing.assert_allclose(released.predict(table), model.predict(table), atol=1e-4)


@pytest.mark.parametrize(
    "imputer", [SimpleImputer(strategy="constant", fill_value=2), SimpleImputer(), SimpleImputer(strategy="median")]
)
def test_a_gap_does_not_show_in_an_imputer(imputer: Any) -> None:
    """One gap makes whole numbers floats, and fills one cell: the released imputer is the same but for noisy numbers."""

    def make() -> Any:
        return make_pipeline(imputer, StandardScaler(), Ridge())

    one, other = both(make, staged(STAGE)[["stage"]], staged(with_cell(STAGE, np.nan, float))[["stage"]])
    assert unaccounted(one, other) == []
    assert differing(one, other)
    for table in (staged(STAGE)[["stage"]], staged(with_cell(STAGE, np.nan, float))[["stage"]]):
        assert np.isfinite(one.predict(table)).all()
        assert np.isfinite(other.predict(table)).all()


# Files and cards of the command line


def people(**columns: Any) -> pd.DataFrame:
    """Numbers are in the middle of a step of the grid of scales, so that one row does not move them over an edge."""
    rng = np.random.default_rng(1)
    own: dict[str, Any] = {
        "age": (50.0 + 2.0**3.25 * (AGE - AGE.mean()) / AGE.std()).round(1),
        "stage": STAGE,
        "city": rng.choice(["Bonn", "Kiel", "Ulm"], N).astype(object),
        "flag": np.where(np.arange(N) < 40, 1, 0),
        "y": ((Y - Y.mean()) / Y.std()).round(3),
    }
    return pd.DataFrame(own | columns)


BASE = people()
NOBODY = np.zeros(N, dtype=int)
ODD: dict[str, tuple[pd.DataFrame, pd.DataFrame]] = {
    "fraction among codes": (BASE, people(stage=with_cell(STAGE, 7.5, float))),
    "gap among codes": (BASE, people(stage=with_cell(STAGE, np.nan, float))),
    "text among numbers": (BASE, people(age=with_cell(BASE["age"], "old", object))),
    "a city of one person": (BASE, people(city=with_cell(BASE["city"], "Castrop-Rauxel", object))),
    "a flag of one person": (people(flag=NOBODY), people(flag=with_cell(NOBODY, 1, int))),
}


def saved(folder: Path, table: pd.DataFrame, in_memory: bool) -> tuple[Any, Any]:
    """The model and the model card that leave, without checksums."""
    io = pytest.importorskip("skops.io")
    folder.mkdir()
    table.to_csv(folder / "t.csv", index=False)
    raw = from_frame(table) if in_memory else read_table(folder / "t.csv")
    settings = Settings("y", categories=("stage",))
    card, _ = save_model(raw, settings, folder / "m.skops", noise=0.5, random_state=3)
    told = {name: value for name, value in card.items() if name not in ("digest", "model", "data")}
    told["kind"], told["parameters"] = card["model"]["kind"], card["model"]["parameters"]
    return io.load(folder / "m.skops", trusted=sorted(trusted_types())), told


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "in_memory"),
    # a frame of texts and numbers in one column is refused
    [(case, in_memory) for case in ODD for in_memory in (False, True) if not (in_memory and case.startswith("text"))],
)
def test_a_saved_model_and_its_card_do_not_tell_of_an_odd_cell(case: str, in_memory: bool, tmp_path: Path) -> None:
    (one, first), (other, second) = (saved(tmp_path / str(k), table, in_memory) for k, table in enumerate(ODD[case]))
    assert unaccounted(one, other) == []
    assert differing(first, second) == []
    for model, table in zip((one, other), ODD[case], strict=True):
        known = table[table.notna().all(axis=1) & pd.to_numeric(table["age"], errors="coerce").notna()]
        assert np.isfinite(
            model.predict(known.astype({"age": float}))
        ).all()  # levels that are not named warn of nothing


def test_codes_that_are_text_for_one_cell_are_refused(tmp_path: Path) -> None:
    """Its level is not named, and all that are would be texts where they were numbers."""
    people(stage=with_cell(STAGE, "x", object)).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(fl.InvalidInputError, match="Column 'stage' holds numbers, and text in too few rows"):
        save_model(
            read_table(tmp_path / "t.csv"), Settings("y", categories=("stage",)), tmp_path / "m.skops", noise=0.5
        )

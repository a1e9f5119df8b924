"""UCI Adult: census records of 1994, and whether a person earns more than 50,000 dollars."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fisherleak.datasets._files import Dataset, Source, check_contents, locate, parse_csv, read_bytes
from fisherleak.errors import DataError

if TYPE_CHECKING:
    import pandas


CONTENTS = {
    "adult.data": "sha256:5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "sha256:a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
SOURCE = Source(
    folder="adult",
    urls={file: f"https://archive.ics.uci.edu/ml/machine-learning-databases/adult/{file}" for file in CONTENTS},
    checksums=CONTENTS,
)
COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
]
NUMBERS = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
MARRIED = ["Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent"]


def load_adult(as_published: bool = False, data_home: str | os.PathLike[str] | None = None) -> Dataset:
    """Census records and incomes.

    Parameters
    ----------
    as_published : bool
        Keep the marital status and the relationship as they are published. By default they are as in the paper: marital
        status merged to "married" and "unmarried", relationship removed.
    data_home : path, optional
        A folder with ``adult/adult.data`` and ``adult/adult.test``; downloaded if not given and FISHERLEAK_DATA is not set.

    Returns
    -------
    Dataset
        Pandas tables without the rows that have a missing value ("?"), and labels 0 (at most 50,000 dollars) and 1.

    Examples
    --------
    >>> data = fl.datasets.load_adult()  # doctest: +SKIP
    >>> leak = fl.measure(fl.minimise(data.X, data.y, l2=1e-3), data.X, data.y, noise=fl.Gaussian(1.0))  # doctest: +SKIP
    """
    paths = locate(SOURCE, list(CONTENTS), data_home)
    parts: list[Any] = []
    for file, path in paths.items():
        contents = read_bytes(path)
        check_contents(contents, CONTENTS[file], path)
        parts += read_adult(contents, path, as_published)
    X, y, X_test, y_test = parts
    return Dataset("adult", X, y, X_test, y_test, list(X.columns), _pipeline(X))


def read_adult(contents: bytes, path: Path, as_published: bool) -> tuple[pandas.DataFrame, NDArray[np.int64]]:
    """The table and the labels of one file: a comment may come first, labels may end in a dot."""
    options = {"names": COLUMNS, "header": None, "comment": "|", "skipinitialspace": True, "na_values": []}
    table = parse_csv(io.BytesIO(contents), path, COLUMNS, keep_default_na=False, **options)
    income = table.pop("income").astype(str).str.rstrip(".")
    strange = sorted(set(income) - {"<=50K", ">50K"})
    if strange:
        raise DataError(f"{path} has the income {strange[0]!r}; published are '<=50K' and '>50K'.")
    known = ~(table == "?").any(axis=1)
    table = table[known].reset_index(drop=True)
    y: NDArray[np.int64] = np.asarray(income[known] == ">50K").astype(np.int64)
    if not as_published:
        table["marital-status"] = np.where(table["marital-status"].isin(MARRIED), "married", "unmarried")
        table = table.drop(columns="relationship")
    return table, y


def _pipeline(table: pandas.DataFrame) -> Any:
    """Numbers standardised, categories one-hot encoded without their last level: 86 columns for the paper's table."""
    categories = [name for name in table.columns if name not in NUMBERS]
    last = [max(table[name].unique()) for name in categories]
    encoder = OneHotEncoder(drop=last, sparse_output=False, handle_unknown="ignore")
    steps = [("numbers", StandardScaler(), NUMBERS), ("categories", encoder, categories)]
    return ColumnTransformer(steps, verbose_feature_names_out=False)

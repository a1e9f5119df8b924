"""Finding and downloading the publishers' files."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fisherleak.errors import DataError

__all__ = ["Source", "check_contents", "locate", "read_bytes"]


@dataclass(frozen=True)
class Source:
    """Where files come from.

    Parameters
    ----------
    folder : str
        Their folder below the data home.
    urls : dict
        File -> address. For an archive, all files of it have its address.
    checksums : dict
        File (or, for an archive, its own name) -> "md5:…" or "sha256:…" of what is downloaded; empty where only the
        decompressed contents have a published one.
    archive : bool
        Whether the address is that of a tar archive.
    """

    folder: str
    urls: dict[str, str]
    checksums: dict[str, str]
    archive: bool = False


def locate(source: Source, files: Sequence[str], data_home: str | os.PathLike[str] | None) -> dict[str, Path]:
    """Paths of files: below ``data_home`` if given, else below FISHERLEAK_DATA if set, else in the cache."""
    home = data_home if data_home is not None else os.environ.get("FISHERLEAK_DATA") or None
    if home is not None:
        folder = Path(home) / source.folder
        paths = {file: folder / file for file in files}
        missing = [path for path in paths.values() if not path.is_file()]
        if missing:
            origin = "data_home" if data_home is not None else "FISHERLEAK_DATA"
            raise DataError(f"{missing[0]} is missing. Put it there, or leave {origin} out to download it.")
        return paths
    return {file: _download(source, file) for file in files}


def _download(source: Source, file: str) -> Path:
    import pooch

    url = source.urls[file]
    folder = Path(pooch.os_cache("fisherleak")) / source.folder
    name = url.rpartition("/")[2] if source.archive else file
    processor = pooch.Untar(members=[file], extract_dir=".") if source.archive else None
    try:
        pooch.retrieve(
            url,
            known_hash=source.checksums[name] or None,
            fname=name.rpartition("/")[2],
            path=(folder / name).parent,
            processor=processor,
            downloader=pooch.HTTPDownloader(progressbar=_Bar(name) if sys.stderr.isatty() else False, timeout=30),
        )
    except Exception as error:  # pooch passes on whatever its transport raises
        reason = " ".join(str(error).split())[:160]
        raise DataError(
            f"{name} could not be downloaded from {url} ({type(error).__name__}: {reason}). Get it by other means, put it in "
            f"DIR/{source.folder} and pass data_home=DIR or set FISHERLEAK_DATA=DIR."
        ) from None
    return folder / file


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, or a refusal in one sentence."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def check_contents(contents: bytes, expected: str, path: Path) -> None:
    """Hold contents against a published checksum."""
    kind, _, digest = expected.partition(":")
    found = hashlib.new(kind, contents, usedforsecurity=False).hexdigest()
    if found != digest:
        raise DataError(
            f"{path} is damaged: its contents have {kind} {found}, published is {digest}. Delete it and try again."
        )


class _Bar:
    """A progress bar in the form that pooch drives."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self.total = 0
        self._bar = Progress(console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(f"Downloading {name}")
        self._bar.start()

    def update(self, count: int) -> None:
        self._bar.update(self._task, advance=count, total=self.total or None)

    def reset(self) -> None:
        self._bar.reset(self._task)

    def close(self) -> None:
        self._bar.stop()

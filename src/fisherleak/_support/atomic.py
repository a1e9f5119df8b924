"""Files that appear whole or not at all: written in a folder beside their place, then renamed into it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from fisherleak.errors import DataError, InvalidInputError

NO_TABLE = "'{}' does not exist: check the name, or use - for standard input."
NO_LEDGER = "'{}' does not exist: record a release in it first."
NO_MODEL = "'{}' does not exist: name the file of a released model."
NO_KEY = "The key '{}' does not exist: name a PEM file."
LEDGER = b'"schema": "fisherleak.ledger/'
"""What stands in every ledger, and in no other file that is written here."""
NO_POLICY = "The policy '{}' does not exist: name a TOML file."


def refuse_missing(name: str | os.PathLike[str], sentence: str) -> None:
    """Refuse a file that is not there; whatever else is wrong with a name is left to those who open it."""
    try:
        Path(name).stat()
    except FileNotFoundError:
        raise DataError(sentence.format(name)) from None
    except (OSError, ValueError):
        return


def resolved(path: Path) -> Path:
    """The file that a name stands for, symbolic links followed."""
    try:
        return path.resolve()
    except RuntimeError:  # of Python before 3.13
        raise DataError(f"'{path}' is a symbolic link that leads back to itself: choose another place.") from None


def check_folder_place(folder: Path, overwrite: bool) -> None:
    """Refuse, before any work, a folder that could not be written."""
    _check_parent(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InvalidInputError(f"'{folder}' is a file, not a folder: choose another place.")
    _check_writable(folder)
    if any(folder.iterdir()) and not overwrite:
        raise InvalidInputError(
            f"The folder '{folder}' is not empty: choose another one, or allow it with `overwrite=True`."
        )


def check_file_place(path: Path, overwrite: bool) -> None:
    """Refuse, before any work, a file that could not be written."""
    _check_parent(path)
    if path.is_dir():
        raise InvalidInputError(f"'{path}' is a folder: name a file.")
    if path.exists() and not overwrite:
        raise InvalidInputError(f"'{path}' exists: choose another file, or allow it with `overwrite=True`.")
    if path.is_file() and LEDGER in path.read_bytes():
        raise InvalidInputError(
            f"'{path}' is a ledger, and a ledger is never overwritten: its totals would be lost. Choose another file."
        )


def _check_parent(place: Path) -> None:
    """Folders above a place are made where they are missing, as far as that is possible."""
    above = next(folder for folder in place.absolute().parents if folder.exists())
    if not above.is_dir():
        raise InvalidInputError(
            f"The folder '{place.parent}' does not exist, and '{above.name}' is a file: choose another place."
        )
    _check_writable(above)


def _check_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataError(f"The folder '{folder}' cannot be written to: choose another place.")


@contextmanager
def written_whole(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """A temporary folder; when the block ends well, its files of these names move into ``folder``.

    If anything fails, or is interrupted, nothing is left behind and files that were there before are there again.
    """
    made = not folder.exists()
    new = _missing_above(folder)
    try:
        for each in new:
            each.mkdir(exist_ok=True)
        beside = folder.parent if made else folder
        temporary = Path(tempfile.mkdtemp(prefix=".fisherleak-", dir=beside))
    except OSError as error:
        _remove_empty(new)
        raise _refusal(folder, error) from None
    try:
        try:
            yield temporary
            if made:
                folder.mkdir()
            _move_in(temporary, folder, names)
        except BaseException:
            if made:
                shutil.rmtree(folder, ignore_errors=True)
            raise
    except (DataError, BrokenPipeError):
        raise
    except OSError as error:
        raise _refusal(folder, error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        _remove_empty(new)  # all of them hold something if the block ended well


def _missing_above(folder: Path) -> list[Path]:
    """Folders above one that are not there, the outermost first."""
    return [each for each in reversed(folder.parents) if not each.exists()]


def _remove_empty(folders: Sequence[Path]) -> None:
    for each in reversed(folders):
        with suppress(OSError):
            each.rmdir()


def _move_in(temporary: Path, folder: Path, names: Sequence[str]) -> None:
    old = temporary / "before"
    old.mkdir()
    moved: list[str] = []
    try:
        for name in names:
            if (folder / name).exists():
                (folder / name).replace(old / name)
            moved.append(name)
            (temporary / name).replace(folder / name)
    except BaseException:
        for name in moved:
            (folder / name).unlink(missing_ok=True)
        for path in old.iterdir():
            path.replace(folder / path.name)
        raise


def _refusal(folder: Path, error: OSError) -> DataError:
    reason = (error.strerror or type(error).__name__).lower()
    return DataError(f"'{folder}' could not be written ({reason}): nothing was written.")

"""A confidential file that several processes may change at once: locked, replaced whole, for its owner's eyes only.

Whoever changes it holds a lock on a file beside it, which the system gives back even if the process is killed. The new content
is written to another file, brought to the disk, and renamed over the old one: at every moment the file is one version or the
next, and a change is there for good once it was made. A symbolic link is the file that it points to; a file with a second name
(a hard link) is refused, since that name would keep the old version.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fisherleak.errors import DataError

__all__ = ["held", "read_private", "replace_whole"]

OWNER = 0o600


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """The lock of a file, waited for; nothing is left of it where the file was not made."""
    file = path.resolve()
    lock = file.with_name(f".{file.name}.lock")
    try:
        descriptor = _locked(lock, path)
    except OSError as error:
        raise _refusal(path, error) from None
    try:
        yield
    finally:
        if not file.exists():
            lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path, path: Path) -> int:
    """The descriptor of a lock that is held, and that no one has taken away since it was opened."""
    try:
        import fcntl
    except ImportError:
        raise DataError(f"'{path}' cannot be locked on this system: a ledger needs POSIX locks.") from None
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, OWNER)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                return descriptor
        os.close(descriptor)


def read_private(path: Path) -> str | None:
    """The text of a file that nobody but its owner may read; None where there is none yet."""
    try:
        if path.is_dir():
            raise DataError(f"'{path}' is a folder: name a file in it.")
        found = path.stat()
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISREG(found.st_mode):
            raise DataError(f"'{path}' is no regular file (a pipe or a device): name a file.")
        if mode & ~OWNER:
            raise DataError(
                f"'{path}' is confidential, and others than its owner may read or change it (mode {mode:o}): chmod 600 it."
            )
        if found.st_nlink > 1:
            raise DataError(
                f"'{path}' is one file under {found.st_nlink} names (hard links), and a change would reach this one alone: "
                "remove the others."
            )
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise DataError(f"'{path}' is damaged: it is no text. Restore it from a copy.") from None
    except DataError:
        raise
    except OSError as error:
        raise _refusal(path, error) from None


def replace_whole(path: Path, text: str) -> None:
    """Replace a file whose lock is held, or make it."""
    file = path.resolve()
    fresh = file.with_name(f".{file.name}.new")
    try:
        with contextlib.suppress(FileNotFoundError):  # of a process that was killed
            fresh.unlink()
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER)
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        fresh.replace(file)
        _settle(file.parent)
    except OSError as error:
        raise _refusal(path, error) from None


def _settle(folder: Path) -> None:
    """Bring a renaming to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refusal(path: Path, error: Any) -> DataError:
    return DataError(f"'{path}' cannot be read or written: {error.strerror}. Choose another place.")

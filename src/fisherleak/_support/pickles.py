"""Pickles that say which version wrote them: those of another version are refused by it, before anything else is read.

Folders and names of records change from version to version, so that a pickle is for the version that wrote it: for other
processes, caches and copies. Released models, cards and ledgers are files that later versions read.
"""

from __future__ import annotations

import sys
from typing import Any

from fisherleak.errors import InvalidInputError


class Stamp:
    """The version that writes a pickle; checked where it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return stamp_of, (_own_version(),)


def stamp_of(written: str) -> Stamp:
    """The stamp of a version; refuses every version but this one."""
    own = _own_version()
    if written != own:
        raise InvalidInputError(
            f"This pickle was written by fisherleak {written}, and this is {own}: make the object again, or read the pickle "
            f"with version {written}."
        )
    return Stamp()


def _own_version() -> str:
    """The package's, which is loaded wherever a part of it is."""
    return str(sys.modules["fisherleak"].__version__)


class Pickled:
    """A base of records that people keep: their pickles begin with the version."""

    def __reduce__(self) -> tuple[Any, ...]:
        # the stamp comes before the class, whose module another version may not have
        return empty, (Stamp(), type(self)), self.__getstate__()


def empty(_: Stamp, kind: type[Any]) -> Any:
    """An instance without its state, which follows in the pickle."""
    return object.__new__(kind)

"""Copies that should be as good as the original."""

from __future__ import annotations

import copy
import pickle
import shutil
from pathlib import Path
from typing import Any

from fisherleak.releasing.cards.cards import TRUSTED
from fisherleak.training.model_kinds import KINDS


def copies(thing: Any) -> list[Any]:
    """Through a pickle, and a deep copy."""
    return [pickle.loads(pickle.dumps(thing)), copy.deepcopy(thing)]  # noqa: S301 - our own bytes


def copied_release(model: Path, folder: Path) -> Path:
    """A released model and its model card in another folder, to change at will."""
    for path in (model, model.with_name(f"{model.name}.json")):
        shutil.copy(path, folder)
    return folder / model.name


def trusted_types() -> set[str]:
    """Types that a released model of any kind may hold beside those that skops knows."""
    return TRUSTED.union(*(kind.holds for kind in KINDS))

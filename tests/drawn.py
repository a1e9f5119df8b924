"""A trained model as it would leave, without a file and a card."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from fisherleak.engine.noise import Noise
from fisherleak.protection.release.procedure import ReleaseRequest, make_release
from fisherleak.releasing.table_model import TableModel
from fisherleak.training.trained_model import Settings, Trained

__all__ = ["released_pipeline"]


def released_pipeline(trained: Trained, noise: Noise, random_state: Any = None) -> Pipeline:
    """By the procedure of every release, with the noise that is given."""
    table = TableModel(trained, Settings(trained.design.target.name))
    request = ReleaseRequest(noise=noise, carded=True, random_state=random_state)
    return make_release(lambda penalty: table, request).model

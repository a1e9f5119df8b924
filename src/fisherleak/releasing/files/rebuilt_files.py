"""Whether a model's file holds what its model card accounts for and nothing else: it is built again from these, and compared.

All of a released model but its parameters follows from its card. The parameters are read off their places, compared with the
card's grid, and put into a model that is built anew. The file must be that model's, byte for byte. Where it was written with
other versions of scikit-learn or skops, the nodes of both are compared: what versions name differently is in one table, and a
node, key, attribute or member that is not known is refused.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from fisherleak._support.namespaces import Json, Vector
from fisherleak.errors import DataError
from fisherleak.models.estimators import set_parameters
from fisherleak.releasing.cards.card_fields import CARD
from fisherleak.releasing.cards.cards import model_of
from fisherleak.releasing.files.earlier_files import typed_as
from fisherleak.releasing.files.model_files import ModelFile, holds
from fisherleak.releasing.files.model_nodes import decoded, differing, last_step, scikit_learn_of, steps_of
from fisherleak.training.pipelines import PublicModel, frame_of_features, off_the_grid, pipeline_with

MODEL_BYTES, NUMBER_BYTES, CATEGORY_BYTES, LEVEL_BYTES = 2**20, 2**14, 2**18, 2**13
PARAMETER_BYTES, CHARACTER_BYTES = 2**6, 2**6
"""What a file takes at most: for itself, and for every number, category, level or class, parameter and character of a name or
level (some times what any of them took)."""
MOST_BYTES = 2**29
"""Of any file of a model, whatever its model card says."""
ENCODER_BYTES, INDICATOR_BYTES = 24_000, 14_000
"""What a category's encoder takes at least, and an indicator of gaps: two thirds of the least that any took. A card cannot make
a small file cost the time of a large one."""


SKOPS = re.compile(r"0\.[1-9][0-9]?\.[0-9]")
"""Versions of skops that there are."""


def check_rebuilt(path: Path, card: Json) -> tuple[Pipeline, str | None]:
    """The model in a file, built anew, and the version of skops where it is another than here.

    Refuses a file that is not the one that its model card and its parameters on the grid give.

    Nothing is loaded from the file but the numbers in it: a file of other versions of scikit-learn or skops gives the model of
    the version that runs.
    """
    try:
        return _model_in(path, card)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):  # of nodes that no model has
        raise holds(path, "another model") from None


def _model_in(path: Path, card: Json) -> tuple[Pipeline, str | None]:
    earlier, model = card["schema"] != CARD, model_of(card)
    file = ModelFile.read(path, most_bytes(card), card["model"]["file_sha256"], earlier)
    _check_sizes(path, file, model)
    model = typed_as(model, file) if earlier else model
    built = pipeline_with(model, np.zeros(model.parameters))
    raw = _parameters(path, file, built[-1])
    _check_grid(path, model, raw, card["grid"], earlier)
    set_parameters(built[-1], raw)
    own = ModelFile.of(built)
    same = own.same_as(file)
    wrong = None if same else next(differing(decoded(file), decoded(own)), None)
    if wrong is None and scikit_learn_of(file.tree) != card["versions"]["scikit-learn"]:
        wrong = "another version of scikit-learn than its model card"
    if wrong is None and not same and _versions(file) == _versions(own):
        wrong = "attributes that this version of scikit-learn does not write so"
    protocol, skops, _ = _versions(file)
    other = [protocol, skops] != _versions(own)[:2]
    if wrong is None and other and SKOPS.fullmatch(skops) is None:
        wrong = "a version of skops that there is none of"
    if wrong is not None:
        raise holds(path, wrong)
    return built, f"skops {skops}, protocol {protocol}" if other else None


def _check_sizes(path: Path, file: ModelFile, model: PublicModel) -> None:
    """Refuse a file with other numbers of columns or parameters than its model card, before anything of that size is built."""
    numbers = sum(feature.kind == "number" for feature in model.features)
    steps = len(model.features) - numbers + (numbers > 0)
    coef = file.arrays[last_step(file.tree)["coef_"]["file"]]
    outputs = len(model.classes) if model.kind.several else 1
    gaps = sum(feature.of is not None for feature in model.features)
    least = ENCODER_BYTES * (len(model.features) - numbers - gaps) + INDICATOR_BYTES * gaps
    found = len(steps_of(file.tree)[0]["transformers"]["content"])
    if found != steps or len(coef) < 8 * (model.parameters - outputs) or path.stat().st_size < least:
        raise holds(path, "another number of columns or parameters than its model card")


def most_bytes(card: Json) -> int:
    """Of a file with this model card; of one with a model card that nobody checks, as of schema 1, what any file has."""
    try:
        texts = len(json.dumps([card["columns"], card["target"]]))
        kinds = [column["kind"] for column in card["columns"]]
        levels = sum(len(column.get("levels", ())) for column in card["columns"]) + len(card["target"]["classes"] or ())
        size = int(card["model"]["parameters"])
    except (LookupError, TypeError, ValueError, AttributeError):
        return MOST_BYTES
    columns = sum(NUMBER_BYTES if kind == "number" else CATEGORY_BYTES for kind in kinds)
    own = MODEL_BYTES + columns + LEVEL_BYTES * levels + PARAMETER_BYTES * size + CHARACTER_BYTES * texts
    return min(own, MOST_BYTES)


def check_size(path: Path, card: Json) -> None:
    """Refuse a file that is larger than a model with this model card, before any of it is read."""
    most = most_bytes(card)
    if path.stat().st_size > most:
        raise DataError(
            f"'{path}' is larger than a model with this model card can be ({most:,} bytes): it is not read."
        )


# Parameters


def _parameters(path: Path, file: ModelFile, blank: Any) -> Vector:
    """Coefficients and intercepts, read off where an estimator with all of them zero has them; arrays are never decoded."""
    try:
        found = [_values(file, last_step(file.tree)[name], getattr(blank, name)) for name in ("coef_", "intercept_")]
    except (KeyError, IndexError, TypeError, ValueError):
        raise holds(path, "another model") from None
    raw = np.concatenate(found)
    if not np.isfinite(raw).all():
        raise holds(path, "parameters that are not finite")
    return raw


def _values(file: ModelFile, node: Json, like: Any) -> Vector:
    if not isinstance(like, np.ndarray):
        number = json.loads(node["content"])
        if type(number) is not float:
            raise TypeError
        return np.array([number])
    buffer = io.BytesIO()
    np.save(buffer, like, allow_pickle=False)
    data, zeros = file.arrays[node["file"]], buffer.getvalue()
    head = len(zeros) - like.nbytes
    if len(data) != len(zeros) or data[:head] != zeros[:head]:
        raise ValueError
    return np.frombuffer(data[head:], dtype="<f8").astype(np.float64)


def _check_grid(path: Path, model: PublicModel, raw: Vector, grid: Any, earlier: bool) -> None:
    """Refuse parameters whose last digits the noise and its grid did not make.

    Earlier versions summed intercepts in floats, whose order a machine decides: theirs may be off by what that rounds.
    """
    steps = np.broadcast_to(np.asarray(grid, dtype=np.float64), raw.shape)
    try:
        with np.errstate(all="ignore"):
            away = off_the_grid(model, raw, steps)
    except (OverflowError, ValueError):
        raise holds(path, "parameters that are too large") from None
    outputs = len(model.classes) if model.kind.several else 1
    room = np.zeros(raw.size)
    if earlier:
        room[-outputs:] = _rounded_in_intercepts(model, raw) / steps[-outputs:]
    off = int(np.sum(~(away <= room)))
    if off:
        raise holds(path, f"{off} of {raw.size} parameters that are off the model card's grid")


def _rounded_in_intercepts(model: PublicModel, raw: Vector) -> Vector:
    """How far intercepts b = level - sum c m, summed in floats, are from the level's own, for each output.

    A sum of k products in any order is off by k u sum |c m|, u = 2^-53, its difference from the level by u |b|; here, every
    product by u |c m| and their sum with b by u |b + sum c m|.
    """
    frame = frame_of_features(model.features)
    coef, below = frame.by_output(raw)
    terms, unit = np.abs(coef * frame.centres), np.finfo(float).eps / 2
    levels = np.abs(below + (coef * frame.centres).sum(axis=1))
    rounded = (np.count_nonzero(terms, axis=1) + 1) * terms.sum(axis=1) + np.abs(below) + levels
    return np.asarray(unit * rounded)


def _versions(file: ModelFile) -> list[Any]:
    """Of skops and scikit-learn, as a file says them."""
    return [
        file.tree.get("protocol"),
        file.tree.get("_skops_version"),
        scikit_learn_of(file.tree),
    ]

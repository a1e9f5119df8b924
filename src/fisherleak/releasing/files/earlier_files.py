"""Files of version 0.1.0, whose cards have levels and classes as texts: the types that they have are read off the file."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.level_types import typed_levels
from fisherleak._support.namespaces import Json
from fisherleak.protection.release.penalty_and_shape import DEVIATIONS
from fisherleak.releasing.cards.card_fields import EARLIER, FROM_BOUNDS, FROM_ROWS, ROWS_TOLD
from fisherleak.releasing.files.model_files import ModelFile
from fisherleak.releasing.files.model_nodes import last_step, steps_of
from fisherleak.tables import Feature
from fisherleak.training.pipelines import PublicModel

ON_GRIDS = (
    "Scales and centres of columns are on a grid of powers of 2^(1/4), ranges that were not declared end on coarse grids, "
    "and the number of rows has two digits: a person who moves one of them across an edge of its grid, by an outlier say, "
    "is told by that, and eta does not count it."
)

OF_EARLIER = "Of a file of version 0.1.0 and its model card, "
FREE = OF_EARLIER + "{}: they can carry other data. Release the model again."
IN_FILE = "the numbers, times, orders and system in the file, the order of lists on the model card"


FIRST_WORDS = {
    "with its own covariance,": "with a shape of its own,",
    "Without noise, eta is infinite.": "Before the noise there is no finite eta: the model without it determines its data as "
    "well as it can be determined.",
    "and to the intercept at the centres": "and to the level at the centres",
    "Names, kinds and categories of columns": "Names, kinds and levels of columns",
    "An audit measures membership.": "How well presence can be told is measured beside it, by an audit.",
    "for any record within the bounds under noise": "for whoever could be in the table, within the bounds under noise",
    "it reveals a little about the": "it tells about the",
    "The intercept of every class": "The level of every class",
    "Categories of ": "Levels of ",
    "Categories that are not listed": "Levels that are not listed",
    "The noise has the covariance of": "The noise has the shape of",
    "by the table's rows, for any record within the bounds": "by the table's own rows, for whoever could be there",
    "which is not published. What the covariance reveals": "which is not told. What the shape tells",
    "which is not published; what it reveals": "which is not told; what it tells",
    "since with a data-dependent covariance no bound": "since with the shape of the rows' own no bound",
    "by the rows, for any record within the bounds, since their inverse Hessian would reveal": "by the rows, for whoever could "
    "be there, since the rows' own inverse Hessian would tell",
    "that of the inverse Hessian, since it reveals an eta": "that of the rows' own inverse Hessian, since it tells an eta",
    "since a data-dependent covariance would reveal an eta": "since the rows' own shape would tell an eta",
}
"""What sentences of cards say, and what they said in the first files of version 0.2.0, which are still read."""


def in_first_words(sentences: Iterable[str]) -> list[str]:
    """Sentences of a card as those files have them."""
    found = []
    for sentence in sentences:
        for now, first in FIRST_WORDS.items():
            sentence = sentence.replace(now, first)
        found.append(sentence)
    return found


def free_digits(card: Json, by_table: bool = False) -> list[str]:
    """What nothing decides in a file of version 0.1.0 and on its card; with ``by_table``, what no table decides either."""
    if card["schema"] != EARLIER[-1]:
        return []
    told = card["noise"].get("calibrated") or {}
    of_rows = sum(bound["from"] == "rows" and "low" in bound for bound in (told.get("bounds") or {}).values())
    several = len(card["target"]["classes"] or ()) > 2
    found = [
        IN_FILE,
        f"the last digits of the intercept{'s' * several}",
        *["the last digits of the noise scale"] * bool(told),
    ]
    found += ["every digit of the probability of another noise scale"] * (told.get("probability") is not None)
    found += [f"every digit of the bounds from rows of {of_rows} columns"] * (of_rows > 0 and not by_table)
    return [FREE.format(", ".join(found))]


def said_before(sentences: Sequence[str]) -> list[str]:
    """Sentences of a model card in the words of version 0.1.0."""
    units = {
        f" {DEVIATIONS}": "",
        "all in standard deviations": "in standard units",
        "standard deviations": "standard units",
    }
    found = []
    for sentence in in_first_words(sentences):
        for now, before in units.items():
            sentence = sentence.replace(now, before)
        if sentence != ROWS_TOLD:
            found.append(ON_GRIDS if sentence in (FROM_ROWS, FROM_BOUNDS) else sentence)
    return found


def as_earlier(card: Json) -> Json:
    """A model card as version 0.1.0 wrote it: levels and classes as texts, and no word on which number a gap is of."""
    columns = [
        {
            key: [str(level) for level in value] if key == "levels" else value
            for key, value in column.items()
            if key != "of"
        }
        for column in card["columns"]
    ]
    classes = card["target"]["classes"]
    target = {**card["target"], "classes": None if classes is None else [str(name) for name in classes]}
    settings = {name: value for name, value in card["settings"].items() if name != "bounds"}
    done = {**card, "assumptions": said_before(card["assumptions"])}
    done |= {"schema": EARLIER[-1], "settings": settings, "columns": columns, "target": target}
    done["versions"] = {**card["versions"], "fisherleak": "0.1.0"}
    return {name: value for name, value in done.items() if name not in ("ledger", "digest", "signature")}


def typed_as(model: PublicModel, file: ModelFile) -> PublicModel:
    """The model by the rules of 0.1.0, with levels and classes of the types that are in the file; texts where none are."""
    model = replace(model, first_named=True)
    try:
        steps = steps_of(file.tree)[0]["transformers"]["content"]
        nodes = {json.loads(step["content"][0]["content"]): step["content"][1:] for step in steps}
        classes = last_step(file.tree).get("classes_")
        categories = [feature for feature in model.features if feature.kind == "category"]
        numbers = [feature.name for feature in model.features if feature.kind == "number"]
        made = {f.name: _typed(f, nodes[f"category {k + 1}"], file, numbers) for k, f in enumerate(categories)}
        if classes is not None:
            model = replace(model, classes=_as_in(model.classes, np.array, classes, file))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return model
    return replace(model, features=tuple(made.get(feature.name, feature) for feature in model.features))


def _typed(feature: Feature, step: list[Json], file: ModelFile, numbers: Sequence[str]) -> Feature:
    transformer, columns = step
    if transformer["__class__"] == "MissingIndicator":
        of = json.loads(columns["content"][0]["content"])
        return replace(feature, of=of) if of in numbers else feature
    (node,) = transformer["content"]["content"]["categories"]["content"]
    first = feature.levels[:1] if feature.open else ()
    return replace(feature, levels=(*first, *_as_in(feature.levels[len(first) :], typed_levels, node, file)))


def _as_in(texts: tuple[str, ...], made: Callable[[Any], NDArray[Any]], node: Json, file: ModelFile) -> tuple[Any, ...]:
    """Values of these texts whose array is the node's."""
    data = file.arrays.get(node.get("file", ""))
    return next((values for values in _readings(texts) if data is not None and _saved(made(values)) == data), texts)


def _readings(texts: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """Texts as truth values, whole numbers and numbers, where they are such."""
    for read in ({"True": True, "False": False}.__getitem__, int, float):
        try:
            yield tuple(read(text) for text in texts)
        except (KeyError, ValueError):
            continue


def _saved(array: NDArray[Any]) -> bytes | None:
    if array.dtype == object:
        return None
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()

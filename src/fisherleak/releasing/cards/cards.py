"""Cards of released models: how a model came about, in fields and in sentences.

Nothing on a card is computed exactly from the rows: what depends on them is on a public grid (centres, scales, the noise),
rounded (how many there are) or taken as public by whoever releases (names, levels).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fisherleak._support.json import plain, versions
from fisherleak._support.level_types import plain_level
from fisherleak._support.namespaces import Json
from fisherleak._support.numbers import two_digits
from fisherleak.engine.noise import Noise, grid_of
from fisherleak.engine.noise.calibration_record import HESSIAN, IN_FILES, calibration_of
from fisherleak.protection.calibrate.shapes import ISOTROPIC, LEAST_LOSS
from fisherleak.protection.certificates.published_scale import seven_digits
from fisherleak.releasing.cards.card_fields import CARD, FROM_BOUNDS, FROM_ROWS, PACKAGES, ROWS_TOLD
from fisherleak.tables import Feature
from fisherleak.tables.decide.cell_text import OTHER
from fisherleak.training.defaults import COUNTED
from fisherleak.training.model_kinds import kind_of
from fisherleak.training.noise_words import from_card, noise_words
from fisherleak.training.pipelines import PublicModel
from fisherleak.training.trained_model import Settings, Trained

TRUSTED = {"numpy.dtype", "sklearn._loss.link.Interval", "sklearn.compose._column_transformer._RemainderColsList"}
"""Types that any released model may hold and that some versions of skops do not know; an imputer holds a dtype."""
STEPS = 4
"""Steps of the grid of scales in a factor of two."""


def limited_words(columns: Sequence[str] | None, person: str | None = None, most: int | None = None) -> str:
    """What a limit is on; ``most`` rows of a person where it is for any record."""
    if person is not None and most is not None:
        rows = "with one row each" if most == 1 else f"all rows together, at most {most} of them"
        return f"every person (by '{person}'), {rows}, in standard units"
    if person is not None:
        return f"every person (by '{person}'), all rows together, in standard units"
    if columns is None:
        return "every row, in standard units"
    names = " and of ".join(f"'{name}'" for name in columns)
    return f"every value of {names}, {'each in' if len(columns) > 1 else 'in'} its own unit"


def rows_per_person_on(card: Json) -> int | None:
    """How many rows a person may have where a limit is for any record, one where nothing says more; None elsewhere."""
    told = card["noise"].get("calibrated")
    if card["settings"]["person"] is None or told is None or told["over"] != IN_FILES:
        return None
    return int(told.get("rows_per_person", 1))


def limit_of_one_row(card: Json) -> float:
    """The part of a card's limit that one row has, where a person may have several."""
    return float(card["eta"]["limit"]) / (rows_per_person_on(card) or 1)


def card_of(
    trained: Trained,
    settings: Settings,
    noise: Noise,
    limit: float | None,
    columns: tuple[str, ...] | None,
    digest: str,
    shaped: tuple[str, str | None] = (ISOTROPIC, None),
    chosen: Sequence[str] = (),
) -> Json:
    """The card; ``chosen`` says how what was not given was chosen."""
    design, target = trained.design, trained.design.target
    size = trained.parameters
    # in the model's order: the order in which they were named says nothing
    known = [*(feature.name for feature in design.features), target.name]
    columns = columns if columns is None else tuple(sorted(columns, key=known.index))
    card = {
        "schema": CARD,
        "model": {
            "file_sha256": digest,
            "kind": design.target.kind,
            "parameters": size,
            "trusted_types": sorted(TRUSTED.union(trained.kind.holds)),
        },
        "settings": {**asdict(settings), "model": design.target.kind},
        "balanced": trained.weights is not None,
        "counted": COUNTED[trained.public],
        "columns": [_column(feature) for feature in design.features],
        "target": {
            "name": target.name,
            "unit": target.unit,
            "classes": [plain_level(name) for name in target.classes] or None,
        },
        "data": {"source": design.source, "rows": two_digits(design.n)},
        "noise": noise.record(),
        "grid": one_where_alike(grid_of(noise, size).tolist()),
        "eta": {"limit": limit, "limit_on": "", "limit_columns": columns},
        "shape": {"name": shaped[0], "from": shaped[1]},
        "assumptions": [],
        "versions": {name: version.partition("+")[0] for name, version in versions(PACKAGES).items()},
    }
    done: dict[str, Any] = plain(card)
    done["eta"]["limit_on"] = limited_words(columns, settings.person, rows_per_person_on(done))
    done["assumptions"] = [*sentences_of(done), *chosen]
    return done


HELD = (
    "The intercept of every class at the columns' centres has the penalty that coefficients have: what every parameter has, "
    "no row can take away."
)
"""Said of releases whose intercepts are not free."""


def _column(feature: Feature) -> Json:
    """A column of the model: where noise acts on a number, or the levels of a category."""
    if feature.kind == "number":
        return {"name": feature.name, "kind": feature.kind, "scale": feature.scale, "centre": feature.centre}
    levels = [plain_level(level) for level in feature.levels]
    own = {"name": feature.name, "kind": feature.kind, "levels": levels, "pooled": bool(feature.pooled)}
    return own if feature.of is None else own | {"of": feature.of}


def model_of(card: Json) -> PublicModel:
    """All of the released model but its parameters, as its card describes it."""
    features, at = [], 0
    for column in card["columns"]:
        width = 1 if column["kind"] == "number" else len(column["levels"]) - 1
        places, known = tuple(range(at, at + width)), (column["name"], column["kind"])
        at += width
        if column["kind"] == "number":
            features.append(Feature(*known, places, column["centre"], column["scale"]))
        else:
            levels, pooled = tuple(column["levels"]), int(column["pooled"])
            features.append(Feature(*known, places, levels=levels, pooled=pooled, of=column.get("of")))
    settings, classes = card["settings"], tuple(card["target"]["classes"] or ())
    return PublicModel(
        kind_of(card["model"]["kind"]), settings["l2"], tuple(features), classes, settings["missing"] == "impute"
    )


def one_where_alike(steps: list[float]) -> float | list[float]:
    """Of each parameter; one number where all have the same."""
    return steps[0] if len(set(steps)) == 1 else steps


def up_to_the_grid(scale: float) -> float:
    """To a power of 2^(1/4): small changes of the data do not move it, and more noise than asked for keeps the limit."""
    power = math.ceil(STEPS * math.log2(scale) - 1e-9)
    rounded = 2.0 ** (power / STEPS)
    return seven_digits(rounded if rounded >= scale else 2.0 ** ((power + 1) / STEPS))


def _scale_words(noise: Noise, whose: str = "row") -> str:
    """Whether anybody decides the noise's scale."""
    told = calibration_of(noise)
    if told is None or not (told.counted or told.by_present_rows):
        return "The noise's scale was given."
    if not told.counted:
        return (
            "The noise's scale was computed from the rows that are there, and rounded up to a power of 2^(1/4): it reveals "
            f"a little about the {whose} that decides it, which eta does not count."
        )
    likely = (
        f"with a probability of at most {told.probability:g}, kinds of columns being as they are"
        if told.probability is not None and told.probability < 1
        else "with a probability that nothing is claimed of"
    )
    if whose == "person":
        several = (
            "its row" if told.rows_per_person is None else f"all its rows together, at most {told.rows_per_person}"
        )
        return (
            f"The limit holds for any person, {several}, whatever records within the bounds under noise they are. The noise's "
            "scale is on a grid of powers of 2^(1/4) with a random offset: small changes of the data never show, and replacing "
            f"the rows of one person changes it {likely}."
        )
    return (
        "The limit holds for any record within the bounds under noise, in place of any row. The noise's "
        "scale is on a grid of powers of 2^(1/4) with a random offset: small changes of the data never show, and replacing one "
        f"person's row changes it {likely}."
    )


def unbounded(card: Json) -> bool:
    """Whether a number, or a target of numbers, has no declared bounds."""
    numbers = [column["name"] for column in card["columns"] if column["kind"] == "number"]
    numbers += [card["target"]["name"]] * (card["target"]["classes"] is None)
    return not {*numbers} <= {name for name, _ in card["settings"].get("bounds", ())}


def frame_from_rows(card: Json) -> bool:
    """Whether a scale or a centre where noise acts has no declared bounds: a target that the model takes as it is has none."""
    target, given = card["target"]["name"], {name for name, _ in card["settings"].get("bounds", ())}
    standardised = kind_of(card["model"]["kind"]).labels.standardised
    own = card["settings"] | {"bounds": [(name, None) for name in (given if standardised else given | {target})]}
    return unbounded(card | {"settings": own})


def sentences_of(card: Json) -> list[str]:
    """What a card says in words: all of it follows from its other fields, so that anyone can write it again."""
    record, people = card["noise"], card["settings"]["person"] is not None
    noise = from_card(record, np.eye(1) if isinstance(record.get("shape"), str) else None)
    told = calibration_of(noise)
    limited = card["eta"]["limit"] is not None
    limit = f"The limit is on {card['eta']['limit_on']}" if limited else "There is no limit: the noise was given"
    sentences = [
        "Without noise, eta is infinite.",
        f"{noise_words(noise, 6)} was added to every coefficient times its column's scale and to the intercept at the centres, "
        "then rounded to the grid; scales and centres are those under columns. The file's coefficients are in the columns' own "
        "units.",
        f"{limit}. Standard units count every number in its column's scale.",
        f"{card['counted']} Names, kinds and categories of columns, l2 and the noise are public.",
        "Kinds of columns, and of the model, that were not given with `numbers`, `categories` and `model` follow from the "
        "rows: one cell unlike all others, such as a third class, can decide one, and eta does not count that.",
        "This is not differential privacy and not anonymity. An audit measures membership.",
        _scale_words(noise, "person" if people else "row"),
        FROM_ROWS if unbounded(card) else FROM_BOUNDS,
        ROWS_TOLD,
        "Every further release from the same data adds to what is revealed.",
    ]
    shape = card["shape"]
    if shape["name"] != ISOTROPIC:
        sentences.insert(7, _shape_words(shape["name"], shape["from"], counted=told is not None and told.counted))
    if card["settings"]["intercept_l2"]:
        sentences.append(HELD)
    if people:
        sentences.append(
            "All rows of a person count as one set: attackers are taken to know everyone else's rows, and how many rows each "
            "person has."
        )
    return [*sentences, *_level_words(card["columns"]), *_weight_words(card["balanced"], people, limited)]


def _shape_words(shape: str, source: str | None, counted: bool) -> str:
    """What a model card says of the covariance."""
    words = {HESSIAN: "the inverse Hessian", LEAST_LOSS: "least loss"}
    if shape == ISOTROPIC:
        return "The noise is the same on all of these."
    if source is not None:
        return f"The noise has the covariance of {words[shape]} for the rows of {source}, which are taken as public."
    if counted:
        whom = (
            " by the table's rows, for any record within the bounds"
            if shape == LEAST_LOSS
            else " for the table's own rows"
        )
        return (
            f"The noise has the covariance of {words[shape]}{whom}, which is not published. What the covariance reveals "
            "by itself is counted: the limit is on both together."
        )
    return (
        f"The noise has the covariance of {words[shape]} for the table's own rows, which is not published; what it reveals by "
        "itself is not counted."
    )


def _level_words(columns: Sequence[Json]) -> list[str]:
    """What becomes of levels that are not listed."""
    categories = [column for column in columns if column["kind"] == "category"]
    pooled = [f"'{column['name']}'" for column in categories if column["pooled"]]
    named = [f"those of '{c['name']}' as '{c['levels'][0]}'" for c in categories if not c["pooled"]]
    found = []
    if pooled:
        found.append(
            f"Categories of {' and '.join(pooled)} that are not listed, too rare to be named or new, count as '{OTHER}'."
        )
    if named:
        found.append(f"Categories that are not listed count as the first: {', '.join(named)}.")
    return found


def _weight_words(balanced: bool, people: bool, limited: bool) -> list[str]:
    if not balanced:
        return []
    told = "the limit counts that, for those who are there" if limited else "no eta is claimed"
    return [f"{'People' if people else 'Rows'} were reweighted by IRFIL. The weights follow from the data; {told}."]

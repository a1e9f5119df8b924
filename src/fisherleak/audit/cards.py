"""Cards of released models: how a model came about, in fields and in sentences.

Nothing on a card is computed exactly from the rows: what depends on them is on a public grid (centres, scales, the noise),
rounded (how many there are) or taken as public by whoever releases (names, levels).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fisherleak._support.json import plain, versions
from fisherleak._support.namespaces import Json
from fisherleak.audit.kinds import KINDS
from fisherleak.audit.model import COUNTED, Settings, Trained
from fisherleak.audit.noises import noise_words
from fisherleak.audit.shaping import ISOTROPIC, shape_words
from fisherleak.audit.signatures import CARD
from fisherleak.engine.noise import Noise, grid_of
from fisherleak.tables import Feature
from fisherleak.tables.features import OTHER

__all__ = ["card_of", "limited_words", "trusted_types", "two_digits", "up_to_the_grid"]

TRUSTED = {"numpy.dtype", "sklearn._loss.link.Interval", "sklearn.compose._column_transformer._RemainderColsList"}
"""Types that any released model may hold and that some versions of skops do not know; an imputer holds a dtype."""
STEPS = 4
"""Steps of the grid of scales in a factor of two."""


def trusted_types() -> set[str]:
    """Types that a released model of any kind may hold beside those that skops knows."""
    return TRUSTED.union(*(kind.holds for kind in KINDS))


def limited_words(columns: Sequence[str] | None, person: str | None = None) -> str:
    """What a limit is on."""
    if person is not None:
        return f"every person (by '{person}'), all rows together, in standard units"
    if columns is None:
        return "every row, in standard units"
    names = " and of ".join(f"'{name}'" for name in columns)
    return f"every value of {names}, {'each in' if len(columns) > 1 else 'in'} its own unit"


def card_of(
    trained: Trained,
    settings: Settings,
    noise: Noise,
    limit: float | None,
    columns: tuple[str, ...] | None,
    digest: str,
    shaped: tuple[str, str | None] = (ISOTROPIC, None),
    chosen: Sequence[str] = (),
    recorded: Json | None = None,
) -> Json:
    """The card; ``chosen`` says how what was not given was chosen, ``recorded`` where on a ledger the release is."""
    design, target = trained.design, trained.design.target
    what, size = limited_words(columns, settings.person), trained.parameters
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
            "unit": target.scale,
            "classes": [str(name) for name in target.classes] or None,
        },
        "data": {"source": design.source, "rows": two_digits(design.n)},
        "noise": noise.record(),
        "grid": _grid(grid_of(noise, size).tolist()),
        "eta": {"limit": limit, "limit_on": what, "limit_columns": columns},
        "shape": {"name": shaped[0], "from": shaped[1]},
        "assumptions": [
            *_assumptions(trained, noise, None if limit is None else what, shaped),
            *chosen,
        ],
        "versions": versions(),
        **({} if recorded is None else {"ledger": recorded}),
    }
    done: dict[str, Any] = plain(card)
    return done


HELD = (
    "The level of every class at the columns' centres has the penalty that coefficients have: what every parameter has, no row "
    "can take away."
)
"""Said of releases whose intercepts are not free."""


FROM_ROWS = (
    "Bounds were not declared for every numeric column. Without them, scales, centres and ranges come from the rows, on grids. "
    "A row whose removal changes one of them can be recognised with certainty, which eta does not count. Declare `bounds` to "
    "avoid that."
)
FROM_BOUNDS = "Scales and centres of columns follow from declared bounds alone: no row changes them."
"""What is said of the frame: by the bounds that were declared, never by the rows."""


def _column(feature: Feature) -> Json:
    """A column of the model: where noise acts on a number, or the levels of a category."""
    if feature.kind == "number":
        return {"name": feature.name, "kind": feature.kind, "scale": feature.scale, "centre": feature.centre}
    levels = [str(level) for level in feature.levels]
    return {"name": feature.name, "kind": feature.kind, "levels": levels, "pooled": bool(feature.pooled)}


def _grid(steps: list[float]) -> float | list[float]:
    """Of each parameter; one number where all have the same."""
    return steps[0] if len(set(steps)) == 1 else steps


def up_to_the_grid(scale: float) -> float:
    """To a power of 2^(1/4): small changes of the data do not move it, and more noise than asked for keeps the limit."""
    power = math.ceil(STEPS * math.log2(scale) - 1e-9)
    rounded = 2.0 ** (power / STEPS)
    return rounded if rounded >= scale else float(2.0 ** ((power + 1) / STEPS))


def two_digits(rows: int) -> int:
    """To two digits: the exact number tells whether someone is among them whose others are known."""
    return int(float(f"{rows:.1e}"))


def _scale_words(noise: Noise, whose: str = "row") -> str:
    """Whether anybody decides the noise's scale."""
    told = getattr(noise, "calibrated", None)
    if told is None or not (told.counted or told.by_present_rows):
        return "The noise's scale was given."
    if not told.counted:
        return (
            "The noise's scale was computed from the rows that are there, and rounded up to a power of 2^(1/4): it tells about "
            f"the {whose} that decides it, which eta does not count."
        )
    likely = (
        f"with a probability of at most {told.probability:g}, kinds of columns being as they are"
        if told.probability < 1
        else "with a probability that nothing is claimed of"
    )
    return (
        "The limit holds for whoever could be in the table, within the bounds under noise, in place of any row. The noise's "
        "scale is on a grid of powers of 2^(1/4) with a random offset: small changes of the data never show, and replacing one "
        f"person's row changes it {likely}."
    )


def _assumptions(trained: Trained, noise: Noise, limited: str | None, shaped: tuple[str, str | None]) -> list[str]:
    design = trained.design
    limit = "There is no limit: the noise was given" if limited is None else f"The limit is on {limited}"
    sentences = [
        "Before the noise there is no finite eta: the model without it determines its data as well as it can be determined.",
        f"{noise_words(noise, 6)} was added to every coefficient times its column's scale and to the level at the centres, "
        "then rounded to the grid; scales and centres are those under columns. The file's coefficients are in the columns' own "
        "units.",
        f"{limit}. Standard units count every number in its column's scale.",
        f"{COUNTED[trained.public]} Names, kinds and levels of columns, l2 and the noise are public.",
        "Kinds of columns, and of the model, that were not given with `numbers`, `categories` and `model` follow from the "
        "rows: one cell unlike all others, such as a third class, can decide one, and eta does not count that.",
        "This is not differential privacy and not anonymity. How well presence can be told is measured beside it, by an audit.",
        _scale_words(noise, "row" if design.people is None else "person"),
        FROM_BOUNDS if not design.unbounded else FROM_ROWS,
        "The number of rows is taken as public; two digits of it are here.",
        "Every further release from the same data adds to what is revealed.",
    ]
    if shaped[0] != ISOTROPIC:
        told = getattr(noise, "calibrated", None)
        sentences.insert(7, shape_words(*shaped, counted=told is not None and told.counted))
    if trained.fit.intercept_l2:
        sentences.append(HELD)
    if design.people is not None:
        sentences.append(
            "All rows of a person count as one set: attackers are taken to know everyone else's rows, and how many rows each "
            "person has."
        )
    pooled = [f"'{feature.name}'" for feature in design.features if feature.pooled]
    if pooled:
        sentences.append(
            f"Levels of {' and '.join(pooled)} that are not listed, too rare to be named or new, count as '{OTHER}'."
        )
    named = [f"those of '{f.name}' as '{f.levels[0]}'" for f in design.features if f.levels and not f.pooled]
    if named:
        sentences.append(f"Levels that are not listed count as the first: {', '.join(named)}.")
    if trained.weights is not None:
        who = "Rows" if design.people is None else "People"
        told = "no eta is claimed" if limited is None else "the limit counts that, for those who are there"
        sentences.append(f"{who} were reweighted by IRFIL. The weights follow from the data; {told}.")
    return sentences


# loading

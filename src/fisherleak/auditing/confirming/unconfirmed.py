"""What stands on a card, or is in a released model, that no audit can confirm: in sentences, with how much of it there is."""

from __future__ import annotations

import numpy as np

from fisherleak._support.json import versions
from fisherleak.auditing.records import Audit
from fisherleak.engine.noise.calibrated import calibration_of
from fisherleak.releasing.cards.enough_people import FEWEST_ROWS
from fisherleak.releasing.cards.signatures import CARD
from fisherleak.releasing.files.released_files import SavedModel
from fisherleak.releasing.noise.any_record_noise import declared_ends

__all__ = ["EACH_PARAMETER", "GIVEN", "LEFT_OUT", "SIGNER", "SOURCE", "UNCONFIRMED", "left_open"]

UNCONFIRMED = (
    "That the noise was drawn afresh and forgotten: whoever drew it can have kept it, and noise that is known hides nothing.",
    "That nobody else has the model without noise, or another release of the same data: what each reveals adds up.",
    "That every value of the table is as it was, and every row's weight as the card says: what changes the fit by less than "
    "the noise hides passes too.",
)
GIVEN = (
    "That the noise's scale was given, as the card says: whoever released the model can have computed it from the rows, and "
    "then it tells about the row that decides it."
)
OFFSET = (
    "That the offset of the noise's scale is random, in every digit: whoever released the model can have chosen it."
)
LIMITED = (
    "Which columns the limit is on, {} of {}: they were given, and noise for some of them can be enough for others."
)
LIMIT_GIVEN = "The limit, in every digit: it was given{}."
LEAST = ", and the last digits of the least deviation under 'noise.calibrated.least' are rounding"
SETTINGS_GIVEN = "Settings that the table does not decide, in every digit: {}. They were given."
NAMED_BEFORE = (
    "Columns and categories that settings name without changing anything, and the probability of another noise scale: version "
    "0.1.0 wrote all that were given, and computed it otherwise."
)
PUBLIC_SHAPE = "Where the covariance of the noise on the card comes from: public rows were not read."
MARK = "The release's mark on its ledger: `fisherleak verify` with the ledger holds it against that."
SIGNER = (
    "Whose key signed the card: key and signature can be chosen, in every digit. `fisherleak verify` with the publisher's key "
    "checks both."
)
MISSING_TEXTS = (
    "That cells of the table hold each of the {} texts for missing cells that the card names: they were given."
)
SOURCE = "The name of the table on the card: this one has another."
DECLARED = "Declared bounds of {} columns, in every digit: they were given, and no row is beyond them."
UNUSED = (
    "Declared categories that no training row has: {}. Their names were given, and their coefficients are noise alone, which "
    "can be chosen: nothing in the table bears either out."
)
CHOSEN_BEFORE = "Numbers in the card's sentences on what was not given: version 0.1.0 computed some of them otherwise."
EACH_PARAMETER = (
    "That each parameter has its noise: tests of all of them together can pass where more than half have none, and the others "
    "have more."
)
LEFT_OUT = (
    "That {} rows of the table, which the card's settings leave out, are not in the fit: what the model would reveal about "
    "them is not measured."
)
VERSIONS = "The versions of {} on the card: here are others."
SKOPS_WROTE = "Numbers, times and orders that skops wrote into a file of version 0.1.0: they can carry other data."


def left_open(saved: SavedModel, audit: Audit) -> list[str]:
    """What else is on this card that is not held against anything."""
    told = calibration_of(audit.noise.noise)
    found = [EACH_PARAMETER]
    found += [GIVEN] if told is None else [OFFSET] if getattr(told, "counted", False) else []
    if isinstance(saved.card["noise"].get("shape"), list):
        found.append(PUBLIC_SHAPE)
    found.append(SETTINGS_GIVEN.format(", ".join(_given_settings(saved))))
    if saved.card["eta"]["limit"] is not None:
        found.append(LIMIT_GIVEN.format(LEAST if getattr(told, "least", None) is not None else ""))
    limited = saved.card["eta"]["limit_columns"]
    if limited is not None:
        found.append(LIMITED.format(len(limited), len(audit.design.features) + 1))
    if "ledger" in saved.card:
        found.append(MARK)
    if "signature" in saved.card:
        found.append(SIGNER)
    if saved.card["data"]["source"] != audit.design.source:
        found.append(SOURCE)
    if saved.settings.na:
        found.append(MISSING_TEXTS.format(len(saved.settings.na)))
    declared = declared_ends(saved.card)
    if declared:
        found.append(DECLARED.format(declared))
    if audit.design.rows_read > audit.design.n:
        found.append(LEFT_OUT.format(audit.design.rows_read - audit.design.n))
    here = versions()
    others = [name for name, own in saved.card["versions"].items() if own != here.get(name)]
    if others:
        found.append(VERSIONS.format(", ".join(others)))
    found += _unused_levels(saved, audit)
    return found if saved.card["schema"] == CARD else [*found, CHOSEN_BEFORE, NAMED_BEFORE, SKOPS_WROTE]


def _given_settings(saved: SavedModel) -> list[str]:
    """Settings of which many values would give this card's other fields."""
    own = saved.settings
    given = {
        "rare": own.rare > FEWEST_ROWS,
        "id": own.id,
        "group": own.group,
        "held_out": own.held_out,
        "seed": own.seed,
    }
    return ["l2", *(name for name, value in given.items() if value)]


def _unused_levels(saved: SavedModel, audit: Audit) -> list[str]:
    """How many declared categories no training row has, by column."""
    declared, found = dict(saved.settings.levels), []
    for feature in audit.design.features:
        if feature.name not in declared or feature.kind != "category":
            continue
        own = audit.design.X[:, list(feature.columns)]
        counts = [float(count) for count in np.asarray(own.sum(axis=0)).ravel()]
        counts = [audit.design.n - sum(counts), *counts]
        named = {*declared[feature.name]}
        unused = sum(count == 0 and str(level) in named for level, count in zip(feature.levels, counts, strict=True))
        found += [f"{unused} of '{feature.name}'"] * (unused > 0)
    return [UNUSED.format(", ".join(found))] if found else []

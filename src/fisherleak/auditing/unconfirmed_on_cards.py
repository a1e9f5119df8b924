"""What stands on a card, or is in a released model, that no audit can confirm: in sentences, with how much of it there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fisherleak._support.json import versions
from fisherleak.auditing.records import Audit
from fisherleak.engine.noise.calibration_record import calibration_of
from fisherleak.releasing.any_record_noise import declared_ends
from fisherleak.releasing.cards.card_checks import computed_before
from fisherleak.releasing.cards.card_fields import CARD, PACKAGES
from fisherleak.releasing.cards.cards import rows_per_person_on
from fisherleak.releasing.cards.enough_people import FEWEST_ROWS
from fisherleak.releasing.cards.names_on_cards import DECLARATIONS
from fisherleak.releasing.files.earlier_files import free_digits
from fisherleak.releasing.shaping import covariance_words

if TYPE_CHECKING:
    from fisherleak.releasing.files.released_files import SavedModel

UNCONFIRMED = (
    "That the noise was drawn afresh and forgotten: its author may have kept it, and noise that is known hides nothing.",
    "That nobody else has the model without noise, or another release of the same data: what each reveals adds up.",
    "That every value of the table is as it was, and every row's weight as the model card says: a change that moves "
    "the fit by less than the noise is not noticed.",
)
TOO_FEW = (
    "Gaussian noise can be confirmed on 18 parameters or more that rows decide. A smaller model must be released by someone "
    "who answers for the data, under a policy without this rule."
)
OF_EARLIER = (
    "That nothing else is in the file: its model card is of version 0.1.0, which leaves digits open. Release the model "
    "again."
)
GIVEN = (
    "That the noise's scale was given, as the model card says: the publisher may have computed it from "
    "the rows, and "
    "then it reveals something about the row that decides it."
)
OFFSET = "That the offset of the noise's scale is random, in every digit: the publisher may have chosen it."
LIMITED = (
    "Which columns the limit is on, {} of {}: they were given, and noise for some of them can be enough for others."
)
ROWS_PER_PERSON = (
    "How many rows a person may have, {}: it was given, and nobody in the table has more. The limit is on all."
)
LIMIT_GIVEN = "The limit, in every digit: it was given."
SETTINGS_GIVEN = "The exact values of settings that do not follow from the table: {}. They were given."
KINDS_GIVEN = (
    "Why the model does not use other columns (by an option, or because of their values), and whether kinds of columns were "
    "declared: the model card says neither."
)
NAMED_BEFORE = (
    "Columns and categories that settings name without changing anything: version 0.1.0 wrote all that were given."
)
MARK = "The release's number and mark on its ledger: `fisherleak verify` with the ledger compares both."
SIGNER = (
    "Whose key signed the model card: key and signature can be chosen, in every digit. `fisherleak verify` with the "
    "publisher's key "
    "checks both."
)
MISSING_TEXTS = (
    "That cells of the table hold each of the {} texts for missing cells that the model card names: they were given."
)
SOURCE = "The name of the table on the model card: this one has another."
DECLARED = "The exact declared bounds (columns: {}): they were given, and no row is beyond them."
UNUSED = (
    "Declared categories that no training row has: {}. Their names were given, and their coefficients are noise alone, which "
    "can be chosen: nothing in the table confirms either."
)
CHOSEN_BEFORE = (
    "Numbers in the model card's sentences on what was not given: version 0.1.0 computed some of them otherwise."
)
EACH_PARAMETER = (
    "That each parameter has its noise: tests of all of them together can pass where more than half have none, and the others "
    "have more."
)
LEFT_OUT = (
    "That {} rows of the table, which the model card's settings leave out, are not in the fit: what the model would "
    "reveal about "
    "them is not measured."
)
VERSIONS = "The versions of {} on the model card: this system has others."


def left_open(saved: SavedModel, audit: Audit) -> list[str]:
    """What else is on this model card that is not compared with anything."""
    told = calibration_of(audit.noise.noise)
    found = [EACH_PARAMETER]
    found += [GIVEN] if told is None else [OFFSET] if getattr(told, "counted", False) else []
    if covariance := covariance_words(saved.card):
        found.append(covariance)
    found.append(SETTINGS_GIVEN.format(", ".join(_given_settings(saved))))
    if saved.card["eta"]["limit"] is not None:
        found.append(LIMIT_GIVEN)
    found += computed_before(saved.card)
    each = rows_per_person_on(saved.card)
    if each is not None:
        found.append(ROWS_PER_PERSON.format(each))
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
    here, there = versions(PACKAGES), saved.card["versions"]
    others = [name for name in dict.fromkeys((*here, *there)) if there.get(name) != here.get(name)]
    if others:
        found.append(VERSIONS.format(", ".join(others)))
    found += _unused_levels(saved, audit)
    if saved.card["schema"] == CARD:
        return [*found, KINDS_GIVEN]
    return [*found, *free_digits(saved.card, by_table=True), CHOSEN_BEFORE, NAMED_BEFORE]


def _given_settings(saved: SavedModel) -> list[str]:
    """Settings of which many values would give this model card's other fields."""
    own = saved.settings
    given = {
        "rare": own.rare > FEWEST_ROWS,
        "id": own.id,
        "group": own.group,
        "person": own.person,
        "held_out": own.held_out,
        "missing": own.missing == "drop",
        "seed": own.seed,
        **{name: getattr(own, name) for name in DECLARATIONS},
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

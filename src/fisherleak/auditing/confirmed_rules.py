"""What stands on a card, or is in a released model, that no audit can confirm: in sentences, with how much of it there is.

Also here: what the noise's scale on a card follows from, read off the card, so that it can be found again without a
row.

Also here: whether released parameters fit the `l2` of their card, or lie where a fit with another one puts them.

Whoever writes a card chooses its `l2`. A model without noise that was fitted with another `l2` lies away from the card's fit,
as if by noise; and etas at a larger `l2` are smaller. So the released parameters are compared with all fits along a grid of
penalties, joined by straight lines. Noise b around the card's fit is at least as far from any line as from one through that
fit, where :math:`|b|^2` loses one degree of freedom: of m lines none is nearer than the quantile :math:`p / m` with a
probability of at least 1 - p.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sklearn.pipeline import Pipeline

from fisherleak._support.json import versions
from fisherleak._support.namespaces import Vector
from fisherleak._support.numbers import number
from fisherleak.auditing.records import Audit
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import FOR_ANYONE, IN_FILES, calibration_of
from fisherleak.errors import FisherleakError
from fisherleak.protection.calibrate.shapes import ISOTROPIC, LEAST_LOSS
from fisherleak.protection.release.penalty_and_shape import NO_SHAPE, NOT_GIVEN, PublicPenalty
from fisherleak.releasing.any_record_noise import AnyRecordLimit, Shape, declared_ends, declared_on, public_numbers
from fisherleak.releasing.cards.card_checks import computed_before
from fisherleak.releasing.cards.card_fields import CARD, PACKAGES
from fisherleak.releasing.cards.cards import rows_per_person_on
from fisherleak.releasing.cards.enough_people import FEWEST_ROWS
from fisherleak.releasing.cards.names_on_cards import DECLARATIONS
from fisherleak.releasing.files.earlier_files import free_digits
from fisherleak.releasing.files.released_files import SavedModel
from fisherleak.releasing.shaping import ScaleRule, covariance_words
from fisherleak.training.moved_parameters import moved_from_fit
from fisherleak.training.noise_words import NOTICED, UNALIKE, UNLIKELY, Distance, log_ratio, near_lines
from fisherleak.training.trained_model import Trained, with_penalty

UNCONFIRMED = (
    "That the noise was drawn afresh and forgotten: its author may have kept it, and noise that is known hides nothing.",
    "That nobody else has the model without noise, or another release of the same data: what each reveals adds up.",
    "That every value of the table is as it was, and every row's weight as the model card says: what changes the fit "
    "by less than "
    "the noise hides passes too.",
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
SETTINGS_GIVEN = "Settings that the table does not decide, in every digit: {}. They were given."
KINDS_GIVEN = (
    "Whether columns that the model does not use were left out as asked or by their rows, and whether kinds of columns were "
    "declared: a model card names the columns that are used, and says neither."
)
NAMED_BEFORE = (
    "Columns and categories that settings name without changing anything: version 0.1.0 wrote all that were given."
)
MARK = "The release's mark on its ledger: `fisherleak verify` with the ledger compares it."
SIGNER = (
    "Whose key signed the model card: key and signature can be chosen, in every digit. `fisherleak verify` with the "
    "publisher's key "
    "checks both."
)
MISSING_TEXTS = (
    "That cells of the table hold each of the {} texts for missing cells that the model card names: they were given."
)
SOURCE = "The name of the table on the model card: this one has another."
DECLARED = "Declared bounds of {} columns, in every digit: they were given, and no row is beyond them."
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


def scale_rule(saved: SavedModel, trained: Trained, noise: Noise) -> ScaleRule | None:
    """None where a limit on any record within the bounds did not decide the scale."""
    record = saved.card["noise"].get("calibrated")
    if record is None or record["over"] != IN_FILES:
        return None
    return ScaleRule(limit_on(saved), tuple(_tried(saved, trained, noise)))


def limit_on(saved: SavedModel) -> AnyRecordLimit:
    """What the model card says of a limit for any record."""
    limit, columns = float(saved.card["eta"]["limit"]), saved.card["eta"]["limit_columns"]
    limited = None if columns is None else tuple(columns)
    most = rows_per_person_on(saved.card)
    return AnyRecordLimit(limit, limited, declared_on(saved.card), shape_on(saved), most)


def shape_on(saved: SavedModel) -> Shape:
    """What the model card says of the noise's shape: a matrix, the name that asks for it, or nothing."""
    shape = saved.card["noise"].get("shape")
    if isinstance(shape, str):
        return LEAST_LOSS if shape == FOR_ANYONE else shape
    return shape if shape is None else np.asarray(shape)


def _tried(saved: SavedModel, trained: Trained, noise: Noise) -> Iterator[tuple[float, Shape]]:
    """Each penalty with the shape at which a release looked at a scale, as ``make_release`` compares them."""
    said, l2 = [str(each) for each in saved.card["assumptions"]], float(saved.settings.l2)
    numbers = public_numbers(trained, limit_on(saved))
    by_rule = any(each.startswith(NO_SHAPE) for each in said)

    def shape(l2: float, compared: bool) -> Shape:
        if not by_rule:
            return shape_on(saved)
        found = numbers.shape(l2)
        name = (found.by_the_hessian() if compared else found).shape
        return None if name == ISOTROPIC else name

    penalties: tuple[PublicPenalty, ...] = ()
    if any(each.startswith(NOT_GIVEN) for each in said):
        penalties = replace(numbers.penalty(), alone=saved.card["shape"]["from"] is not None).compared()
    place = next((k for k, each in enumerate(penalties) if each.l2 == l2), 0)
    if len(penalties) < 2:
        yield l2, shape(l2, compared=False)
        return
    name = saved.card["shape"]["name"]
    for k, each in enumerate(penalties[: place + 2]):
        # the next is not looked at where its penalty alone costs more than all of this one; of least loss that is not known
        paid = k > place and name != LEAST_LOSS and numbers.penalty_cost(each.l2) >= numbers.cost(noise.scale, name, l2)
        if not paid:
            yield each.l2, shape(each.l2, compared=True)
    if shape(l2, compared=False) != shape(l2, compared=True):
        yield l2, shape(l2, compared=False)


GRID = tuple(10.0**power for power in range(-6, 5))
"""Penalties that fits are compared at: below and above these, fits move little."""
TOO_LARGE = 1.2
"""Times the largest eta: a likelier penalty with which it is this much larger refutes a model card's."""


@dataclass(frozen=True)
class OtherFits:
    """How far released parameters are from fits with other penalties."""

    penalties: tuple[float, ...]
    away: tuple[Vector, ...]
    """From the fit with each of them, in the parameters that rows decide."""
    own: Vector
    """From the fit with the model card's."""
    noise: Noise

    @cached_property
    def ratios(self) -> list[float]:
        """Logarithms of how many times as likely the parameters are from each of them as from the model card's."""
        return [log_ratio(self.noise, self.own, self.noise, each) for each in self.away]

    @property
    def ratio(self) -> float:
        """The logarithm of their mean: as that of one of them it is above t with a probability of at most exp(-t)."""
        return float(np.logaddexp.reduce(self.ratios)) - math.log(len(self.ratios)) if self.ratios else -math.inf

    @property
    def likeliest(self) -> float:
        return self.penalties[int(np.argmax(self.ratios))]


def other_fits(trained: Trained, model: Pipeline, noise: Noise) -> OtherFits:
    """Fit the same rows with every penalty of the grid; those without a minimum are left out."""
    away, held = {}, bool(trained.fit.intercept_l2)
    for l2 in GRID:
        try:
            fit = with_penalty(trained, l2, l2 * held)
        except FisherleakError:
            continue
        away[l2] = moved_from_fit(fit, model, noise)[0]
    own, noise = moved_from_fit(trained, model, noise)
    return OtherFits(tuple(away), tuple(away.values()), own, noise)


def penalty_confirmed(
    name: str, l2: float, fits: OtherFits, eta: float, largest: Callable[[float], float | None]
) -> tuple[str, bool | None]:
    """Whether the `l2` of a model card is that of its model, as far as the noise lets anyone tell.

    ``eta`` is the largest at the model card's penalty; ``largest`` gives that at another one.
    """
    known = near_lines(fits.noise, fits.away)
    if known is not None and known.found < known.low:
        return (
            f"'{name}' lies {known.found:.2g} times as far from fits with `l2` of about {fits.likeliest:g} as noise of the "
            f"card's scale goes, and at least {known.low:.2g} times would come from such noise: it holds less noise than its "
            f"model card claims, and was not fitted with `l2={l2:g}`. Do not pass it on.",
            False,
        )
    if fits.ratio > -math.log(UNALIKE):
        there = largest(fits.likeliest)
        if fits.ratio > -math.log(UNLIKELY) or (there is not None and there > TOO_LARGE * eta):
            return (
                f"The model card of '{name}' says that `l2` is {l2:g}: with {fits.likeliest:g} its parameters are more than "
                f"{1 / (UNLIKELY if fits.ratio > -math.log(UNLIKELY) else UNALIKE):,.0f} times as likely, and its largest eta "
                f"is {'not known' if there is None else number(there)} in place of {number(eta)}. The model card was changed.",
                False,
            )
    return _as_far_as_told(l2, fits, known, largest)


def _as_far_as_told(
    l2: float, fits: OtherFits, known: Distance | None, largest: Callable[[float], float | None]
) -> tuple[str, bool | None]:
    """Which other penalties the noise rules out, and which noise would have been noticed around any of them."""
    power = (
        "Whether noise was left out of a fit with another `l2` was not tested."
        if known is None
        else f"Noise below {known.notices_below:.2g} times the model card's scale around a fit with any `l2` would be noticed, "
        f"{100 * NOTICED:g} % of the time."
    )
    left = [one for one, ratio in zip(fits.penalties, fits.ratios, strict=True) if not ratio < math.log(UNALIKE)]
    if not left:
        return f"The model was fitted with `l2={l2:g}`: others are less than {UNALIKE:g} times as likely. {power}", True
    there = largest(min(left)) if min(left) < l2 else None
    more = "" if there is None else f" Fitted with `l2={min(left):g}`, its largest eta would be {number(there)}."
    between = f"from {min(left):g} to {max(left):g}" if len(left) > 1 else f"of {left[0]:g}"
    return (
        f"That the model was fitted with `l2={l2:g}`, as the model card says and as etas here take it: the noise hides the "
        f"difference from fits with `l2` {between}.{more} {power}",
        None,
    )

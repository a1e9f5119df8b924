"""What an audit of a released model confirms of its model card, and what no audit can.

A card claims a noise and a limit, and describes the model. The description is compared with one of a new fit, the noise against
the distance from that fit, the limit against a new measurement, end to end, at that noise. Since the noise was the least that
keeps the limit, rounded up to a power of 2^(1/4), the largest eta lies between the limit and a sixth below it.

Whoever writes a card chooses its `l2`. A model without noise that was fitted with another `l2` lies away from the card's fit,
as if by noise; and etas at a larger `l2` are smaller. So the released parameters are compared with all fits along a grid of
penalties, joined by straight lines. Noise b around the card's fit is at least as far from any line as from one through that
fit, where :math:`|b|^2` loses one degree of freedom: of m lines none is nearer than the quantile :math:`p / m` with a
probability of at least 1 - p.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from fisherleak._support.namespaces import Json, Vector
from fisherleak._support.numbers import most_of_two_digits, number, two_digits
from fisherleak.auditing.records import Audit
from fisherleak.auditing.unconfirmed_on_cards import OF_EARLIER, TOO_FEW, UNCONFIRMED, left_open
from fisherleak.engine.noise import NOISES, Noise
from fisherleak.engine.noise.calibration_record import HESSIAN, calibration_of
from fisherleak.errors import FisherleakError
from fisherleak.protection.certificates.published_scale import STEP
from fisherleak.protection.release.penalty_and_shape import NO_SHAPE, NOT_GIVEN
from fisherleak.releasing.any_record_noise import least_admitted, public_numbers
from fisherleak.releasing.cards.card_checks import has_first_words, least_follows, said_of_unit_before, unit_before
from fisherleak.releasing.cards.card_fields import CARD
from fisherleak.releasing.cards.cards import card_of, limited_words, rows_per_person_on
from fisherleak.releasing.cards.signatures import card_path, signature_of, unsealed
from fisherleak.releasing.files.earlier_files import as_earlier, in_first_words
from fisherleak.releasing.files.released_files import SavedModel
from fisherleak.releasing.scale_rule import limit_on
from fisherleak.rows.summary import digest
from fisherleak.training.moved_parameters import moved_from_fit
from fisherleak.training.noise_words import (
    NOTICED,
    UNALIKE,
    UNLIKELY,
    Distance,
    distance_of,
    drawn_alike,
    from_card,
    log_ratio,
    near_lines,
    ratios_of_kinds,
)
from fisherleak.training.pipelines import framed, own_parameters
from fisherleak.training.trained_model import Trained, trained_on, with_penalty

SMALLEST_NOTICED = 0.25
"""Noise of this part of the stated scale must be noticed for the scale to be confirmed: all etas are four times as large there,
which turns a limit of 0.25 into 1. On 18 parameters or more Gaussian noise of that part is noticed."""
CLOSE = 1e-6
"""Relative difference of scales that is rounding."""
ROUNDING = 1e-9
"""Relative difference that is rounding of sums."""
ROUNDED_UP = 1.2
"""Noise that is rounded up to a power of 2^(1/4) is at most this much more than is needed, with room for other sums."""
HOW = {"nothing": "end to end", "preprocessing": "with preprocessing taken as public"}
DESCRIBED = ("counted", "balanced", "columns", "target", "grid")
"""Fields of a model card that follow from its table, its settings and its noise."""
SOME_WITHOUT = "Noise left out of some parameters can pass: only who released the model can say, with a signature."


@dataclass(frozen=True)
class Confirmation:
    """In sentences: what holds of a release, what cannot be known, and the first claim that does not follow."""

    confirmed: tuple[str, ...]
    unconfirmed: tuple[str, ...] = UNCONFIRMED
    failed: str | None = None


def confirm(saved: SavedModel, audit: Audit) -> Confirmation:
    """Hold a card against the audit of its model, which was fitted again from its table and measured at the card's noise."""
    checks: tuple[Callable[[SavedModel, Audit], tuple[str, bool | None] | None], ...] = (
        _unchanged,
        _noise,
        _penalty,
        _kind,
        _weights,
        _figures,
        _limit,
        _described,
    )
    confirmed: list[str] = []
    weak: list[str] = []
    for check in checks:
        try:
            found = check(saved, audit)
        except (KeyError, TypeError, ValueError, OverflowError):
            found = f"The model card of '{saved.path.name}' lacks its limit: release again.", False
        if found is None:
            continue
        sentence, holds = found
        if holds is False:
            return Confirmation(tuple(confirmed), failed=sentence)
        (weak if holds is None else confirmed).append(sentence)
    return Confirmation(tuple(confirmed), (*weak, *UNCONFIRMED, *left_open(saved, audit)))


def _unchanged(saved: SavedModel, audit: Audit) -> tuple[str, bool]:
    wrong = unsealed(saved.card, card_path(saved.path))
    if wrong is not None:
        return wrong, False
    signed, holds = signature_of(saved.card, card_path(saved.path), None, None)
    if not holds:
        return signed, False
    return (
        f"The model's file matches its model card by its checksum, and the model card its own digest. {signed} {saved.whole}",
        True,
    )


def _described(saved: SavedModel, audit: Audit) -> tuple[str, bool]:
    """The fields and sentences that describe the model, compared with those of a new card."""
    card, claims, shaped = saved.card, saved.card["eta"], saved.card["shape"]
    columns = None if claims["limit_columns"] is None else tuple(claims["limit_columns"])
    limit = None if claims["limit"] is None else float(claims["limit"])
    own = (audit.trained, saved.settings, audit.noise.noise, limit, columns, "", (shaped["name"], shaped["from"]))
    again = card_of(*own, _chosen_told(saved, audit, limit))
    now = card["schema"] == CARD
    again = again if now else as_earlier(again)
    if unit_before(card):
        again["target"]["unit"] = 1.0
        again["assumptions"] = said_of_unit_before(card, again["assumptions"])
    if has_first_words(card):
        again["assumptions"] = in_first_words(again["assumptions"])
    # as texts, since Python takes true for 1
    wrong = [n for n in (*DESCRIBED, *["assumptions"] * now) if json.dumps(card[n]) != json.dumps(again[n])]
    if wrong:
        return (
            f"The model card of '{saved.path.name}' says other things under {' and '.join(wrong)} than a new release "
            "of this table "
            "with its settings and noise would: it was changed, or the table was.",
            False,
        )
    return "Columns, units, grid and what is counted are the same as in a new release of this table.", True


def _chosen_told(saved: SavedModel, audit: Audit, limit: float | None) -> tuple[str, ...]:
    """What a model card says of a penalty and of a shape that were not given, where it says something."""
    said = [str(each) for each in saved.card["assumptions"]]
    found: list[str] = []
    if limit is None or not any(each.startswith((NOT_GIVEN, NO_SHAPE)) for each in said):
        return ()
    numbers = public_numbers(audit.trained, limit_on(saved))
    if any(each.startswith(NOT_GIVEN) for each in said):
        taken = replace(numbers.penalty(), alone=saved.card["shape"]["from"] is not None).reaching(saved.settings.l2)
        found += [] if taken is None else [taken.words()]
    if any(each.startswith(NO_SHAPE) for each in said):
        possible = numbers.shape(audit.trained.l2).possible_ones()
        found += [each.words() for each in possible if each.shape == saved.card["shape"]["name"]][:1]
    return tuple(found)


def _noise(saved: SavedModel, audit: Audit) -> tuple[str, bool | None]:
    return noise_confirmed(saved, audit.trained, audit.noise.noise)


def why_unconfirmed(saved: SavedModel, trained: Trained, noise: Noise) -> str:
    """Why a policy that asks for a released file does not pass this one, with what to do; nothing where it can."""
    if saved.card["schema"] != CARD:
        return OF_EARLIER
    found, holds = noise_confirmed(saved, trained, noise)
    return "" if holds else f"{found} {TOO_FEW}"


def noise_confirmed(saved: SavedModel, trained: Trained, noise: Noise) -> tuple[str, bool | None]:
    """The distance from a new fit, and which noise it would have noticed: where that is little, nothing is confirmed."""
    away, noise = moved_from_fit(trained, saved.model, noise)
    known = distance_of(noise, away)
    sentence = (
        f"The released parameters are at a distance of {known.found:.2f} from a new fit (1 is typical of noise of the model "
        f"card's scale). Distances from {known.low:.2f} to {known.high:.2f} can come from such noise."
    )
    power = (
        f"would notice noise below {known.notices_below:.2g} or above {known.notices_above:.2g} times the model card's scale, "
        f"{100 * NOTICED:g} % of the time"
    )
    if known.verdict != "yes":
        return sentence, False
    if known.notices_below < SMALLEST_NOTICED or known.notices_above > 1.0 / SMALLEST_NOTICED:
        return (
            f"That the noise has the model card's scale. {sentence} With {away.size} parameters that rows decide, this test "
            f"{power}. A "
            "confirmation needs a test that notices noise of a quarter, and of four times, the scale.",
            None,
        )
    alike = drawn_alike(noise, away)
    if alike < UNALIKE:
        return (
            f"That every parameter has noise of the model card's scale. {sentence} Single values are not like draws of it "
            f"(p = {alike:.1g}): some parameters may have less.",
            None,
        )
    return f"{sentence} This test {power}. Single values are like draws of it (p = {alike:.2g}). {SOME_WITHOUT}", True


def _penalty(saved: SavedModel, audit: Audit) -> tuple[str, bool | None]:
    """The model card's `l2` beside others, and how large etas are at the least that the noise does not rule out."""
    own, noise = audit.trained, audit.noise.noise

    def largest(l2: float) -> float | None:
        if own.weights is not None:
            return None
        other = trained_on(own.kind, own.design, l2, None, own.public, l2 * bool(own.fit.intercept_l2))
        return digest(other.with_noise(noise).each_eta(), 1).high / audit.unit_scale

    eta = audit.rows.digest.high / audit.unit_scale
    return penalty_confirmed(saved.path.name, own.l2, other_fits(own, saved.model, noise), eta, largest)


def _kind(saved: SavedModel, audit: Audit) -> tuple[str, bool | None]:
    """The kind of the noise, beside others of its scale; with a shape or a limit, beside others of its standard deviation."""
    record = saved.card["noise"]
    away, noise = moved_from_fit(audit.trained, saved.model, audit.noise.noise)
    if record.keys() <= {"kind", "scale"}:
        kind, same, others = str(record["kind"]), "scale", [kind for kind in NOISES if kind != record["kind"]]
        unlike = [moved_from_fit(audit.trained, saved.model, from_card({**record, "kind": other})) for other in others]
        ratios = {k: log_ratio(noise, away, law, own) for k, (own, law) in zip(others, unlike, strict=True)}
    else:
        root = noise.unit_information_root(away.size)
        kind, same = "Gaussian", "standard deviation"
        ratios = ratios_of_kinds((away if root is None else root @ away) / noise.scale)
    likeliest = max(ratios, key=lambda other: ratios[other])
    if ratios[likeliest] > -math.log(UNLIKELY):
        return (
            f"The model card of '{saved.path.name}' says that the noise is {kind}: {likeliest} noise of the same "
            f"{same} is more than "
            f"{1 / UNLIKELY:,.0f} times as likely. The model card was changed.",
            False,
        )
    left = [other for other, ratio in ratios.items() if not ratio < math.log(UNALIKE)]
    if left:
        return (
            f"That the noise is {kind}: with {away.size} parameters that rows decide, {' or '.join(left)} noise of the same "
            f"{same} is not ruled out.",
            None,
        )
    return (
        f"The noise is {kind}: {' and '.join(ratios)} noise of the same {same} is less than 0.001 times as likely.",
        True,
    )


def _weights(saved: SavedModel, audit: Audit) -> tuple[str, bool | None] | None:
    """Of a model card that says that rows were reweighted: the distance from the fit with weights beside that without."""
    own = audit.trained
    if not saved.card["balanced"]:
        return None
    plain = trained_on(own.kind, own.design, own.l2, None, own.public, own.fit.intercept_l2)
    noise, found = audit.noise.noise, framed(audit.design, saved.model)
    ratio = log_ratio(noise, found - own_parameters(own), noise, found - own_parameters(plain))
    if ratio > -math.log(UNLIKELY):
        return (
            f"The model card of '{saved.path.name}' says that rows were reweighted: from the fit without weights its "
            "noise is more "
            f"than {1 / UNLIKELY:,.0f} times as likely. The model card was changed.",
            False,
        )
    if not ratio < math.log(UNALIKE):
        return (
            "That rows were reweighted: the noise hides the difference from the fit without weights. Etas here are those with "
            "weights.",
            None,
        )
    return "Rows were reweighted: from the fit without weights this noise is less than 0.001 times as likely.", True


def _figures(saved: SavedModel, audit: Audit) -> tuple[str, bool]:
    rows, scale = audit.rows.digest, audit.unit_scale
    whose = "row" if audit.design.people is None else "person"
    return (
        f"Measured again at the model card's noise, {HOW[audit.trained.public]}, the mean eta of a {whose} is "
        f"{number(rows.mean / scale)} and the largest {number(rows.high / scale)}.",
        True,
    )


def _limit(saved: SavedModel, audit: Audit) -> tuple[str, bool]:
    claims = saved.card["eta"]
    if claims["limit"] is None:
        return "The model card claims no limit.", True
    limit, columns = float(claims["limit"]), claims["limit_columns"]
    words = limited_words(columns, saved.settings.person, rows_per_person_on(saved.card))
    told = calibration_of(audit.noise.noise)
    held = audit.trained.shape is not None and told is not None and told.over == "max"
    largest = _largest(audit, columns) if not held else _with_shape_held(audit, columns)
    if claims["limit_on"] != words:
        return (
            f"The model card of '{saved.path.name}' says in two ways what its limit is on, which do not agree.",
            False,
        )
    if not largest * (1 - 1e-9) <= limit:
        return (
            f"The model card of '{saved.path.name}' claims a limit of {limit:g} on {words}, and a new measurement gives "
            f"{number(largest)}: the limit does not hold.",
            False,
        )
    if told is not None and told.counted:
        return _admitted(saved, audit, limit, words)
    if limit > ROUNDED_UP * largest:
        return (
            f"The model card of '{saved.path.name}' claims a limit of {limit:g} on {words}, and its noise fits a limit of "
            f"{largest:.2g}: one of them was changed.",
            False,
        )
    follows = f"The limit of {limit:g} on {words} follows: the largest eta there is {number(largest)}"
    if not held:
        return f"{follows}.", True
    both = number(_largest(audit, columns))
    return (
        f"{follows}, without what the noise's covariance reveals by itself, as the model card says. With it, it is {both}.",
        True,
    )


def _admitted(saved: SavedModel, audit: Audit, limit: float, words: str) -> tuple[str, bool]:
    """A limit for any record within the bounds: certified anew within the model card's bounds."""
    try:
        needed, told = least_admitted(audit.trained, saved.settings, limit_on(saved))
    except FisherleakError as error:
        return f"The model card of '{saved.path.name}' claims a limit that cannot be certified again: {error}", False
    if not needed * (1 - CLOSE) <= saved.scale <= needed * STEP * (1 + CLOSE):
        return (
            f"The model card of '{saved.path.name}' claims a limit of {limit:g} on {words}, for any record within the "
            "bounds. That needs "
            f"a noise scale of {number(needed)}, and the model has {number(saved.scale)}.",
            False,
        )
    claimed = saved.card["noise"]["calibrated"]
    now = saved.card["schema"] == CARD
    same = _alike(claimed["step"], told["step"]) and (
        claimed.get("least") is None or least_follows(saved.card) or _least_as_before(saved, audit, told)
    )
    if not _same_bounds(claimed["bounds"], told["bounds"], now) or not same:
        return (
            f"The model card of '{saved.path.name}' has other bounds than a new release of this table with its "
            "settings: they were "
            "changed, or the table was.",
            False,
        )
    return (
        f"The limit of {limit:g} on {words} follows for any record within the model card's bounds.",
        True,
    )


def _least_as_before(saved: SavedModel, audit: Audit, told: Json) -> bool:
    """Whether the least deviation is that of an earlier version, which rounded the number of rows up to a power of two."""
    rows, power = audit.design.n, 0.5 if saved.card["noise"]["shape"] == HESSIAN else 0.75
    ratio = most_of_two_digits(two_digits(rows)) / 2.0 ** math.ceil(math.log2(rows))
    return _alike(saved.card["noise"]["calibrated"]["least"], told["least"] * ratio**power)


def _same_bounds(claimed: Json, own: Json, now: bool) -> bool:
    """Whether bounds are written as the same text; version 0.1.0 took declared ends to standard units and back."""

    def same(name: str) -> bool:
        rounded = not now and claimed[name]["from"] == "declared"
        return _alike(claimed[name], own[name]) if rounded else json.dumps(claimed[name]) == json.dumps(own[name])

    return [*claimed] == [*own] and all(map(same, own))


def _alike(claimed: Any, own: Any) -> bool:
    """Whether two records are the same, but for the rounding of sums."""
    if isinstance(claimed, dict) and isinstance(own, dict):
        return claimed.keys() == own.keys() and all(_alike(claimed[name], own[name]) for name in own)
    if isinstance(claimed, (list, tuple)) and isinstance(own, (list, tuple)):
        return len(claimed) == len(own) and all(_alike(one, other) for one, other in zip(claimed, own, strict=True))
    if isinstance(claimed, (int, float)) and isinstance(own, (int, float)):
        return abs(claimed - own) <= ROUNDING * max(abs(claimed), abs(own))
    return bool(claimed == own)


def _with_shape_held(audit: Audit, columns: list[str] | None) -> float:
    """The largest eta of what a limit is on, of the noise's mean alone: a limit on the rows present holds its shape fixed."""
    leak, unit = audit.trained.leak, {feature.name: feature.scale for feature in audit.design.features}
    of = [(None, 1.0)] if columns is None else [([name], unit.get(name, 1.0)) for name in columns]
    return max(digest(leak.per_example(names), 1).high / own for names, own in of) / audit.unit_scale


def _largest(audit: Audit, columns: list[str] | None) -> float:
    """The largest eta of what a limit is on."""
    if columns is None:
        return audit.rows.digest.high / audit.unit_scale
    if audit.trained.weighting is not None:
        unit = {feature.name: feature.scale for feature in audit.design.features}
        noise, own = audit.trained.leak.noise, audit.trained.weighting
        return max(own.largest(noise, name) / unit.get(name, 1.0) for name in columns) / audit.unit_scale
    found = {figures.feature.name: figures.largest / audit.unit_scale for figures in audit.columns}
    return max(found[name] for name in columns)


# The penalty of the card against those of other fits

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
            f"'{name}' is at a distance of {known.found:.2g} from fits with `l2` of about {fits.likeliest:g} (1 is typical of "
            f"noise of the model card's scale), and such noise gives at least {known.low:.2g}. It holds less noise than its "
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

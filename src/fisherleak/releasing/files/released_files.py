"""Released models in files: saved with skops beside a JSON card, and built anew from card and parameters where they are read.

A card says how the model came about, so that someone with the same table can fit it again and measure it. Nothing on it is
computed exactly from the rows: what depends on them is on a public grid (centres, scales, the noise), rounded (how many there
are) or taken as public by whoever releases (names, levels); docs/promises.md lists every field. No object is loaded from a
file.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from fisherleak._support.atomic import NO_MODEL, check_file_place, refuse_missing, written_whole
from fisherleak._support.namespaces import Json
from fisherleak._support.numbers import two_digits
from fisherleak._support.progress import stage
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import ANY_RECORD, FOR_ANYONE
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.models.several import all_parameters
from fisherleak.protection.calibrate.shapes import OWN
from fisherleak.protection.ledger.ledger import mark_release
from fisherleak.protection.release.procedure import PUBLIC_NUMBERS, ReleaseRequest, make_release, warn_of_seed
from fisherleak.releasing.any_record_noise import shape_of_card
from fisherleak.releasing.cards.card_fields import (
    CARD,
    EARLIER,
    LONGEST,
    LONGEST_MISSING,
    LONGEST_SOURCE,
    MOST_MISSING,
    wrong_place,
)
from fisherleak.releasing.cards.cards import card_of
from fisherleak.releasing.cards.enough_people import bounds_of_few, check_enough
from fisherleak.releasing.cards.names_on_cards import SORTED, as_on_card, as_read, canonical_settings, used_on
from fisherleak.releasing.cards.signatures import (
    MOST_BYTES,
    MOST_PARTS,
    card_path,
    card_text,
    file_digest,
    read_card,
    sealed,
    signing_key,
    too_large,
)
from fisherleak.releasing.files.model_files import ModelFile
from fisherleak.releasing.files.rebuilt_files import check_size
from fisherleak.releasing.files.verification import whole_model
from fisherleak.releasing.ledgers import marked_part, spend
from fisherleak.releasing.shaping import own_rows_shape
from fisherleak.releasing.table_model import (
    check_same_model,
    checked_request,
    limited_columns,
    named_shape,
    read_for_release,
)
from fisherleak.tables import Design, RawTable, Room
from fisherleak.tables.read.written_cells import written_cells
from fisherleak.training.balancing import balanced_again, check_balance
from fisherleak.training.moved_parameters import moved_along_rows, moved_by_noise_alone, moved_from_fit
from fisherleak.training.noise_words import UNLIKELY, by_its_noise, drawn_alike, from_card
from fisherleak.training.pipelines import own_parameters
from fisherleak.training.trained_model import Settings, Trained, train
from fisherleak.training.utility import Tradeoff, tradeoff

DRAWS = 100
"""Noisy copies whose average utility tells what the noise costs."""


@dataclass(frozen=True)
class SavedModel:
    """A released model and its card."""

    path: Path
    model: Pipeline
    card: dict[str, Any]
    whole: str = ""
    """What was checked of file and card, in a sentence."""

    @property
    def noise(self) -> Noise:
        """On the model's own coefficients, where the model card holds it whole."""
        return from_card(self.card["noise"])

    def noise_on(self, trained: Trained) -> Noise:
        """The same, with a shape that the model card only names computed again from the rows."""
        claims, named = self.card.get("eta"), self.card["noise"].get("shape")
        if not isinstance(named, str):
            return from_card(self.card["noise"])
        if named == FOR_ANYONE:
            return from_card(self.card["noise"], shape_of_card(self.card, trained))
        columns = claims.get("limit_columns") if isinstance(claims, dict) else None
        return from_card(self.card["noise"], own_rows_shape(trained, named, columns))

    @property
    def scale(self) -> float:
        return float(self.card["noise"]["scale"])

    @property
    def settings(self) -> Settings:
        return Settings.from_record(self.card["settings"])


def save_model(
    raw: RawTable,
    settings: Settings,
    path: Path,
    *,
    eta: float | None = None,
    noise: float | Noise | None = None,
    attribute: str | Sequence[str] | None = None,
    over: str = ANY_RECORD,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    balance: bool = False,
    shape: str | None = None,
    shape_from: RawTable | None = None,
    rows_per_person: int | None = None,
    choose_l2: bool = False,
    overwrite: bool = False,
    sign: Path | None = None,
    ledger: Path | None = None,
    limit: float | None = None,
    random_state: int | None = None,
    tell: Callable[[Sequence[str]], object] | None = None,
    warn: Callable[[str], object] | None = None,
) -> tuple[Json, Tradeoff]:
    """Train, calibrate, perturb, and write the released model and its card; give back the card and what the noise costs.

    Parameters
    ----------
    raw, settings
        The table, and what decides the model.
    path : Path
        The model's file; its model card is ``path`` + ".json". The model before the noise is never written.
    eta : float, optional
        The limit: on every row in standard units (on all rows of every person where ``settings.person`` says whose rows
        they are), or on every value of ``attribute`` in its own unit. The least Gaussian noise
        that keeps it is added, rounded up on a grid of powers of 2^(1/4).
    noise : float or Noise, optional
        The noise to add in place of a limit; a number is the scale of Gaussian noise.
    attribute : str or sequence of str, optional
        The column, or columns, that the limit is on: it holds for every value of each.
    over : {"any-record", "max"}
        Whose etas the limit is on: of any record within the bounds in place of any row, so that no row decides the noise's
        scale; or of the rows that are there, whose scale reveals something about the row that decides it.
    bounds : mapping, optional
        In the columns' own units: (low, high) of numbers and of the target. The centre and scale in which noise acts on a
        column follow from them, so that no row moves these. For "any-record" they say who could be in the table; others are
        then taken from the rows, on a coarse grid on which the two values farthest out agree.
    balance : bool
        Reweight with IRFIL before. The weights follow from the data, and a limit counts that: with ``over="max"`` only, for one
        output, and without a ledger.
    shape : {"isotropic", "hessian", "least-loss"}, optional
        Of the noise, in the frame where it acts. From the table's own rows "hessian" and "least-loss" are counted with
        ``over="any-record"``; the former is the default there where public numbers say so (``PublicShape``) and without
        ``ledger``; "isotropic" is elsewhere, "hessian" with ``shape_from``. ``over="max"`` takes both, uncounted.
    shape_from : RawTable, optional
        Public rows with the same columns, from which the shape is computed instead: nothing of it needs counting.
    rows_per_person : int, optional
        With ``settings.person`` and ``over="any-record"``: how many rows a person may have. The limit holds for all of them
        together, whichever records within the bounds they are. A person with more rows is refused.
    choose_l2 : bool
        In place of ``settings.l2`` take the penalty that public numbers give (``PublicPenalty``), where a limit is on
        every row that could be there (of several classes: on whatever); elsewhere nothing changes.
    overwrite : bool
    sign : Path, optional
        An Ed25519 private key (PEM) to sign the model card with, and with it the model.
    ledger : Path, optional
        A ledger to record the release on, before any file is written: what fails later was counted, never the other way round.
    limit : float, optional
        With ``ledger``: refuse the release if it takes any row's eta, all recorded releases counted, past this, in
        standard units.
    random_state : int, optional
        For tests only: noise that can be drawn again protects nothing, and ``SeededReleaseWarning`` says so.
    tell : callable, optional
        Is given what was decided about the table, in sentences, as soon as it is read: no model card has them.
    warn : callable, optional
        Is given each sentence about declared bounds that tell something, or fill gaps with what no one has.
    """
    warn_of_seed(random_state)
    if limit is not None and ledger is None:
        raise InvalidInputError("`limit` is on all releases that a ledger records: give `ledger` too.")
    asked = ReleaseRequest(
        *(eta, noise, over, limited_columns(attribute)),
        shape=shape,
        shape_from=shape_from,
        strategy=PUBLIC_NUMBERS.name,
        penalty_given=not choose_l2,
        on_ledger=ledger is not None,
        carded=True,
        random_state=random_state,
        rows_per_person=rows_per_person,
    )
    request = checked_request(asked, settings)
    if balance:
        check_balance(over, eta is not None, named_shape(request) in OWN and shape_from is None, ledger is not None)
    for place in (path, card_path(path)):
        check_file_place(place, overwrite)
    key = None if sign is None else signing_key(sign)
    declared = settings.bounds if bounds is None else tuple(bounds.items())
    cells = None if ledger is None else written_cells(raw)  # before rows are read: that can change a table in place
    with stage("Reading and fitting"):
        table = read_for_release(raw, replace(settings, bounds=declared))
    if tell is not None:
        tell(table.trained.design.decided)
    if warn is not None:
        for said in (*_bounds_that_tell(table.trained.design), *_fills_far_off(table.trained.design)):
            warn(said)
    made = make_release(
        lambda penalty: table.fitted(penalty, request, balance),
        request,
        read=table,
        before_draw=lambda found, noise: (
            None
            if ledger is None or cells is None
            else spend(ledger, found.trained, found.settings, noise, limit, cells)
        ),
    )
    trained, settings = made.fitted.trained.with_noise(made.noise), made.fitted.settings
    shaped = (made.shape or named_shape(request), None if shape_from is None else shape_from.source)
    words = [each.words() for each in made.decided]
    on_card = as_on_card(settings, [feature.name for feature in trained.design.features])

    def card(digest: str) -> Json:
        told = card_of(trained, on_card, made.noise, request.eta, request.attributes, digest, shaped, words)
        marked = (
            None
            if ledger is None or made.recorded is None
            else mark_release(ledger, made.recorded, marked_part(told, digest))
        )
        return sealed(told if marked is None else told | {"ledger": marked}, key)

    return _written(made.model, path, card), tradeoff(trained, [made.noise.scale], DRAWS, settings.seed)


def _bounds_that_tell(design: Design) -> list[str]:
    """A warning where declared bounds are values of single rows."""
    found = ", ".join(f"'{name}'" for name in bounds_of_few(design))
    if not found:
        return []
    return [
        f"A declared bound of {found} is the least or largest value in the table. The model card shows it, and so the value of "
        "those who have it: declare bounds that are known without the table."
    ]


def _fills_far_off(design: Design) -> list[str]:
    """A warning where what stands for missing values is unlike the values that are there."""
    found = ", ".join(f"'{feature.name}'" for feature in design.features if feature.filled_far)
    if not found:
        return []
    return [
        f"Missing values of {found} are filled with the centre of the bounds, which is far from the other values. Declare "
        "bounds whose centre lies among the values, write the column's logarithm, or leave such rows out."
    ]


def _written(released: Any, path: Path, card: Callable[[str], Json]) -> Json:
    """Write the model and its model card, which holds the model's digest, both or neither; give back the card."""
    names = [path.name, card_path(path).name]
    with written_whole(path.parent, names) as folder:
        (folder / path.name).write_bytes(ModelFile.of(released).encoded())
        told = card(file_digest(folder / path.name))
        text = card_text(told)
        (folder / names[1]).write_bytes(text)
        _check_own(folder / path.name, told, text)
    return told


def _check_own(path: Path, card: Json, text: bytes) -> None:
    """Refuse to write what no audit would pass."""
    if too_large(text):
        raise InvalidInputError(
            f"The model card would have {len(text):,} bytes: at most {MOST_BYTES:,}, and {MOST_PARTS:,} lists and "
            "records, are read. "
            "Shorten names of columns and categories, leave columns out with `drop`, or leave out `shape_from`: its "
            "covariance is written out on the model card, other covariances are only named."
        )
    wrong = wrong_place(card)
    if wrong is not None:
        raise InvalidInputError(
            f"The model card would say more under '{wrong}' than a model card may: shorten this name, category or text, "
            "or leave it out "
            f"(names and categories have at most {LONGEST} characters, names of files {LONGEST_SOURCE}; of texts for "
            "missing cells "
            f"there are at most {MOST_MISSING}, of {LONGEST_MISSING} characters each)."
        )
    whole_model(path, card)


def load_model(path: Path) -> SavedModel:
    """A released model with its model card; refuses damaged, foreign and changed files in one sentence."""
    _check_readable(path)
    card = read_card(card_path(path))
    if card["schema"] == EARLIER[0]:
        raise InvalidInputError(
            f"The model card '{card_path(path)}' is of schema {card['schema']}: such a release holds centres and "
            "scales that were "
            "not counted, and cannot be measured end to end. Release again."
        )
    model = card.get("model")
    check_size(path, card)
    if not isinstance(model, dict) or file_digest(path) != model.get("file_sha256"):
        raise DataError(
            f"'{path}' is not the model that its model card describes: it was changed or damaged. Release it again."
        )
    built, checked = whole_model(path, card)
    return SavedModel(path, built, card, checked)


def _check_readable(path: Path) -> None:
    if path.is_dir():
        raise InvalidInputError(f"'{path}' is a folder: a released model is a file.")
    refuse_missing(path, NO_MODEL)
    if not path.is_file():
        raise DataError(f"'{path}' is no regular file (a pipe or a device): it is not read. Name a file.")
    try:
        whole = zipfile.is_zipfile(path)
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}.") from None
    if not whole:
        raise DataError(
            f"'{path}' is damaged or no skops file: only models that were released with a model card are loaded, never pickles."
        )


def retrain(saved: SavedModel, raw: RawTable, room: Room | None = None, group: str | None = None) -> Trained:
    """Fit the model again from the table it was released from, and check that the release belongs to it.

    ``group`` names a column whose groups of rows are measured: it must leave the model as it is.

    The released parameters must lie from the refit as far as their noise goes. Too near means that there is no noise, too far
    that the model or the table is another. A table that differs by less than the noise hides passes: a checksum of it would
    give every single value away.
    """
    settings = saved.settings
    if saved.card["schema"] == CARD:  # before rows are read: that can change a table in place
        settings = as_read(settings, raw, used_on(saved.card), room)
    again = raw if group is None else replace(raw, parts=tuple(raw.parts))  # reading can let go of parts
    trained = train(raw, settings, room)
    if two_digits(trained.design.n) != saved.card["data"].get("rows"):
        raise InvalidInputError(
            f"{raw.source} is not the table that '{saved.path.name}' was released from: it has {trained.design.n} rows to "
            f"train on, the model card says about {saved.card['data'].get('rows')}."
        )
    if saved.card["balanced"]:
        if trained.design.lazy:
            raise InvalidInputError(
                f"'{saved.path.name}' was balanced, which needs all rows of {raw.source} in memory."
            )
        claims = saved.card.get("eta")
        trained = balanced_again(trained, isinstance(claims, dict) and claims.get("limit") is not None)
    check_enough(trained.design)
    _check_names(saved, canonical_settings(settings, raw.names, trained), raw.source)
    _check_distance(saved, trained, raw.source)
    if group is None or group == settings.group:
        return trained
    grouped = train(again, replace(settings, group=group), room, trained).design
    check_same_model(trained.design, grouped, group)
    return replace(trained, design=grouped)


def _check_names(saved: SavedModel, own: Settings, source: str) -> None:
    """Refuse settings that name columns or levels otherwise than a release of this table does."""
    now = saved.card["schema"] == CARD
    own = as_on_card(own, used_on(saved.card)) if now else own
    for name in saved.card["settings"]:
        found, made = getattr(saved.settings, name), getattr(own, name)
        if found != made and (now or name not in SORTED or len(found) != len(made) or {*found} != {*made}):
            raise InvalidInputError(
                f"The model card of '{saved.path.name}' says something else under 'settings.{name}' than a release of {source} "
                "would: it may carry other data. Do not pass it on; release the model again."
            )


def _check_distance(saved: SavedModel, trained: Trained, source: str) -> None:
    theta, refit = all_parameters(saved.model[-1]), own_parameters(trained)
    if theta.shape != refit.shape:
        raise InvalidInputError(
            f"'{saved.path.name}' has {theta.size} parameters, its refit another number: release it again."
        )
    away, noise = moved_from_fit(trained, saved.model, saved.noise_on(trained))
    for alone, own in moved_by_noise_alone(trained, saved.model, saved.noise_on(trained)):
        chance = drawn_alike(own, alone)
        if by_its_noise(own, alone) == "too far" or chance < UNLIKELY:
            raise InvalidInputError(
                f"'{saved.path.name}' has parameters that no row of {source} decides (coefficients of declared categories that "
                "no row has, or what all classes have in common), and its noise does not explain them: they may carry other "
                "data. Do not pass it on; release the model again."
            )
    found, alike = by_its_noise(noise, away), drawn_alike(noise, away)
    if found == "yes" and alike < UNLIKELY:
        raise InvalidInputError(
            f"'{saved.path.name}' has the noise that its model card claims in few of its parameters only: do not pass it on."
        )
    along = moved_along_rows(trained, saved.model, saved.noise_on(trained))
    if found == "too near" or any(by_its_noise(own, part) == "too near" for part, own in along):
        raise InvalidInputError(
            f"'{saved.path.name}' holds no noise of the scale that its model card claims: do not pass it on."
        )
    if found == "too far":
        raise InvalidInputError(
            f"'{saved.path.name}' is farther from its refit than its noise explains: it is no release of {source}."
        )

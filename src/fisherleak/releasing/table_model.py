"""A trained model of a table as it is released: what is asked of it, its penalty, its noise, and the pipeline that leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sklearn.pipeline import Pipeline

from fisherleak._support.checks import check_limit
from fisherleak._support.namespaces import Vector
from fisherleak.engine.noise import Gaussian, Noise
from fisherleak.engine.noise.calibration_record import ANY_RECORD, HESSIAN, Calibration, read_over, remembering
from fisherleak.errors import InvalidInputError
from fisherleak.protection.calibrate.shapes import ISOTROPIC, OWN
from fisherleak.protection.certificates.data_dependent_covariance import check_grid
from fisherleak.protection.release.penalty_and_shape import PublicNumbers, PublicPenalty
from fisherleak.protection.release.procedure import DecidedByPublicNumbers, ReleaseRequest
from fisherleak.releasing.any_record_noise import AnyRecordLimit, admitted_noise, least_of, public_numbers, reach_of
from fisherleak.releasing.cards.card_fields import LEAST_HELD_OUT, MOST_HELD_OUT, is_share
from fisherleak.releasing.cards.cards import up_to_the_grid
from fisherleak.releasing.cards.enough_people import FEWEST_ROWS, check_enough
from fisherleak.releasing.cards.names_on_cards import trained_as_read
from fisherleak.releasing.shaping import check_shape, own_rows_shape, public_rows_shape
from fisherleak.tables import Design, RawTable, Room
from fisherleak.training.balancing import balanced, reweighted
from fisherleak.training.noise_words import as_noise
from fisherleak.training.pipelines import PublicModel, own_parameters, parameters_as_released, pipeline_with
from fisherleak.training.trained_model import Settings, Trained, calibrated_scale, trained_on

OVER = (ANY_RECORD, "max")
"""Whose etas a limit may be on."""


@dataclass(frozen=True)
class TableModel(DecidedByPublicNumbers):
    """A trained model of a table, and the settings that its model card will have."""

    trained: Trained
    settings: Settings
    base: TableModel | None = field(default=None, repr=False)
    """The model of the same rows before its penalty was decided."""

    @cached_property
    def reach(self) -> tuple[float, float]:
        """How far records within the bounds reach, which no penalty changes."""
        return reach_of(self.trained, self.trained.design.declared) if self.base is None else self.base.reach

    def fitted(self, penalty: PublicPenalty | None, request: ReleaseRequest, balance: bool) -> TableModel:
        """The same with a penalty that was decided, measured with a noise that was given, and balanced if asked for."""
        trained, settings = self.trained, self.settings
        l2 = settings.l2 if penalty is None else penalty.l2
        # of several classes, for any record within the bounds, intercepts have the penalty of the coefficients
        held = l2 if trained.kind.several and request.limits_anyone else settings.intercept_l2
        if (l2, held) != (settings.l2, settings.intercept_l2):
            settings = replace(settings, l2=l2, intercept_l2=held)
            trained = trained_on(trained.kind, trained.design, l2, None, trained.public, held)
        trained = trained if request.noise is None else trained.with_noise(request.noise)
        if balance:
            trained = reweighted(trained) if request.eta is None else balanced(trained)
        return TableModel(trained, settings, self)

    @property
    def takes_columns(self) -> bool:
        """Of several classes the label decides the penalty."""
        return self.trained.kind.several

    def _numbers(self, request: ReleaseRequest) -> PublicNumbers:
        return public_numbers(self.trained, self._asked(request), self.reach)

    def _asked(self, request: ReleaseRequest, shape: Any = None) -> AnyRecordLimit:
        assert request.eta is not None
        bounds = self.trained.design.declared
        return AnyRecordLimit(request.eta, request.attributes, bounds, shape, request.rows_per_person)

    def calibrated(self, request: ReleaseRequest, shape: str | None) -> Noise:
        """The least noise that keeps the limit."""
        assert request.eta is not None
        trained, how, limited = self.trained, shape or named_shape(request), request.attributes
        public = None
        if request.shape_from is not None:
            public = public_rows_shape(trained, self.settings, request.shape_from, how, limited)
        if not request.limits_anyone:
            return _calibrated(trained, request.eta, limited, how, public)
        matrix = None if how == ISOTROPIC else how if public is None else public
        # where penalties are compared, larger ones come next
        single = (request.penalty_given or trained.kind.several or limited is not None) and not request.planned
        own = (trained, self.settings, self._asked(request, matrix), request.random_state, single)
        return admitted_noise(*own, searched=not request.planned)

    def _l2(self, request: ReleaseRequest) -> float:
        return self.trained.l2

    def acted_on(self, noise: Noise) -> tuple[Vector, None]:
        """Parameters in the frame of the columns' public scales and centres."""
        return own_parameters(self.trained), None

    def built(self, noisy: Vector, noise: Noise) -> Pipeline:
        """The pipeline that may leave: these parameters in raw units, and names and levels of columns."""
        model = PublicModel.of(self.trained)
        return pipeline_with(model, parameters_as_released(model, noisy))


def read_for_release(
    raw: RawTable,
    settings: Settings,
    room: Room | None = None,
    *,
    stated: bool = False,
    known: Trained | None = None,
) -> TableModel:
    """The model of a table as a release trains it: rare levels are pooled; refuses a table that is too small.

    ``known`` is a model of the same table, whose fit is taken where it is the same.
    """
    settings = replace(settings, rare=max(settings.rare, FEWEST_ROWS))
    trained, settings = trained_as_read(raw, settings, room, stated=stated, known=known)
    if not is_share(settings.held_out):
        raise InvalidInputError(
            f"`held_out` is {settings.held_out:g}: a release holds out no rows, or a share from {LEAST_HELD_OUT:g} to "
            f"{MOST_HELD_OUT:g} in steps of 0.01. Give such a share, or 0."
        )
    check_enough(trained.design)
    return TableModel(trained, settings)


def check_same_model(alone: Design, grouped: Design, group: str) -> None:
    """Refuse groups of rows that give the model other rows or features; ``alone`` is the table without groups."""
    if (alone.n, alone.features, alone.target) != (grouped.n, grouped.features, grouped.target):
        raise InvalidInputError(
            f"`group` is '{group}'. A release has no groups and would use that column differently, so rules that "
            "pass here would not hold for it. Leave `group` out, or keep all categories of the column with "
            f"`categories={[group]!r}`."
        )


def named_shape(request: ReleaseRequest) -> str:
    """The covariance that was asked for, or what stands for none."""
    return request.shape or (ISOTROPIC if request.shape_from is None else HESSIAN)


def checked_request(request: ReleaseRequest, settings: Settings) -> ReleaseRequest:
    """The request with its limit as a number and its noise as a record; refuses what does not go together."""
    if (request.eta is None) == (request.noise is None):
        raise InvalidInputError("A release needs either `eta` or `noise`: either decides the other.")
    if request.noise is not None and request.attributes is not None:
        raise InvalidInputError(
            "`attribute` goes with a limit `eta`: leave `attribute` out, or give `eta` in place of `noise`."
        )
    request = replace(request, over=read_over(request.over, OVER))
    _check_people(settings, request)
    check_shape(named_shape(request), request.noise is not None, request.shape_from is not None)
    eta = None if request.eta is None else check_limit(request.eta)
    return replace(request, eta=eta, noise=None if request.noise is None else as_noise(request.noise))


def limited_columns(attribute: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """The columns that a limit is on; None for whole rows."""
    if attribute is None:
        return None
    names = (attribute,) if isinstance(attribute, str) else tuple(dict.fromkeys(attribute))
    if not names:
        raise InvalidInputError("`attribute` names no column: name one, or leave it out to limit whole rows.")
    return names


def _check_people(settings: Settings, request: ReleaseRequest) -> None:
    """Refuse what is about single rows where a release is about people."""
    most = request.rows_per_person
    if most is not None and (settings.person is None or not request.limits_anyone):
        raise InvalidInputError(
            f"`rows_per_person` is {most}, and it needs `person` and a limit `eta` for any record within the bounds: "
            f"{'give `person`' if settings.person is None else 'leave out `noise` or `over`'}, or leave `rows_per_person` out."
        )
    if settings.person is None:
        return
    if request.limits_anyone and most is None:
        raise InvalidInputError(
            f"`person` ('{settings.person}') with `eta` needs `rows_per_person` too: how many rows a person may have. The "
            "limit then holds for that many records of one person, whatever they are within the bounds. Or `over='max'` limits "
            "the people present."
        )
    if request.attributes is not None:
        raise InvalidInputError(
            "`attribute` cannot be given with `person`: it limits the value of a column in every single row; leave it out to "
            "limit all rows of a person together."
        )


def _calibrated(
    trained: Trained, limit: float, columns: tuple[str, ...] | None, shape: str, public: Any = None
) -> Noise:
    own = shape in OWN and public is None
    matrix = own_rows_shape(trained, shape, columns) if own else public
    if matrix is not None:
        trained = trained.with_noise(Gaussian(1.0, matrix))
    scales = [calibrated_scale(trained, limit, column) for column in (columns or (None,))]
    scale = up_to_the_grid(max(scales))
    told = Calibration("max", limit, shape=shape if own else None, least=least_of(trained, shape) if own else None)
    noise: Noise = remembering(trained.leak.noise.rescaled(scale), told)
    if own:
        check_grid(noise, shape)
    return noise

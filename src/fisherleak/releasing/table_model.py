"""A trained model of a table as it is released: what is asked of it, its penalty, its noise, and the pipeline that leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from fisherleak._support.checks import check_positive
from fisherleak.engine.noise import Gaussian, Noise
from fisherleak.engine.noise.calibrated import ADMISSIBLE, Calibration
from fisherleak.errors import InvalidInputError
from fisherleak.protection.calibrate.calibration import remembering
from fisherleak.protection.data_dependent.hessian_shape import HESSIAN
from fisherleak.protection.release.penalty_and_shape import PublicPenalty, PublicShape
from fisherleak.protection.release.procedure import ReleaseRequest
from fisherleak.releasing.cards.cards import two_digits, up_to_the_grid
from fisherleak.releasing.noise.any_record_noise import admitted_noise, public_penalty, public_shape
from fisherleak.releasing.noise.shaping import ISOTROPIC, OWN, check_shape, own_rows_shape, public_rows_shape
from fisherleak.training.balancing import balanced, reweighted
from fisherleak.training.noise_words import as_noise
from fisherleak.training.pipelines import PublicModel, own_parameters, parameters_as_released, pipeline_with
from fisherleak.training.trained_model import Settings, Trained, calibrated_scale, trained_on

__all__ = ["TableModel", "checked_request", "limited_columns", "named_shape"]

OVER = (ADMISSIBLE, "max")
"""Whose etas a limit may be on."""
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class TableModel:
    """A trained model of a table, and the settings that its card will have."""

    trained: Trained
    settings: Settings

    def fitted(self, penalty: PublicPenalty | None, request: ReleaseRequest, balance: bool) -> TableModel:
        """The same with a penalty that was decided, measured with a noise that was given, and balanced if asked for."""
        trained, settings = self.trained, self.settings
        l2 = settings.l2 if penalty is None else penalty.l2
        # of several classes, for whoever could be there, intercepts have the penalty of the coefficients
        held = l2 if trained.kind.several and _limits_anyone(request) else settings.intercept_l2
        if (l2, held) != (settings.l2, settings.intercept_l2):
            settings = replace(settings, l2=l2, intercept_l2=held)
            trained = trained_on(trained.kind, trained.design, l2, None, trained.public, held)
        trained = trained if request.noise is None else trained.with_noise(request.noise)
        if balance:
            trained = reweighted(trained) if request.eta is None else balanced(trained)
        return TableModel(trained, settings)

    def public_penalty(self, request: ReleaseRequest) -> PublicPenalty | None:
        """The penalty that public numbers give; None where the limit is not on every row that could be there."""
        trained, limited = self.trained, request.attributes
        if request.eta is None or not _limits_anyone(request) or not (limited is None or trained.kind.several):
            return None
        rows = two_digits(trained.design.n)
        return public_penalty(trained, rows, request.eta, trained.design.declared, limited)

    def public_shape(self, request: ReleaseRequest) -> PublicShape | None:
        """The covariance by public numbers; None where one was asked for, or where the rule is not for this limit."""
        asked = request.shape is not None or request.shape_from is not None
        if request.eta is None or asked or not _limits_anyone(request):
            return None
        design = self.trained.design
        return public_shape(self.trained, two_digits(design.n), request.eta, request.attributes, design.declared)

    def calibrated(self, request: ReleaseRequest, shape: str | None) -> Noise:
        """The least noise that keeps the limit."""
        assert request.eta is not None
        trained, how, limited = self.trained, shape or named_shape(request), request.attributes
        public = None
        if request.shape_from is not None:
            public = public_rows_shape(trained, self.settings, request.shape_from, how, limited)
        if not _limits_anyone(request):
            return _calibrated(trained, request.eta, limited, how, public)
        matrix = None if how == ISOTROPIC else how if public is None else public
        bounds, seed = trained.design.declared, request.random_state
        return admitted_noise(trained, self.settings, request.eta, limited, bounds, seed, matrix)

    def acted_on(self, noise: Noise) -> tuple[Vector, None]:
        """Parameters in the frame of the columns' public scales and centres."""
        return own_parameters(self.trained), None

    def built(self, noisy: Vector, noise: Noise) -> Pipeline:
        """The pipeline that may leave: these parameters in raw units, and names and levels of columns."""
        model = PublicModel.of(self.trained)
        return pipeline_with(model, parameters_as_released(model, noisy))


def named_shape(request: ReleaseRequest) -> str:
    """The covariance that was asked for, or what stands for none."""
    return request.shape or (ISOTROPIC if request.shape_from is None else HESSIAN)


def _limits_anyone(request: ReleaseRequest) -> bool:
    """Whether there is a limit, and on any record within the bounds."""
    return request.eta is not None and request.over == ADMISSIBLE


def checked_request(request: ReleaseRequest, settings: Settings, ledger: Path | None) -> ReleaseRequest:
    """The request with its limit as a number and its noise as a record; refuses what does not go together."""
    if (request.eta is None) == (request.noise is None):
        raise InvalidInputError("A release needs either `eta` or `noise`: either decides the other.")
    if request.noise is not None and request.attributes is not None:
        raise InvalidInputError("`attribute` is the column that the limit `eta` is on; `noise` has no limit.")
    if request.over not in OVER:
        raise InvalidInputError(f"over must be one of {', '.join(OVER)}; got {request.over!r}.")
    _check_people(settings, request, ledger)
    check_shape(named_shape(request), request.noise is not None, request.shape_from is not None)
    eta = None if request.eta is None else check_positive(request.eta, "eta")
    return replace(request, eta=eta, noise=None if request.noise is None else as_noise(request.noise))


def limited_columns(attribute: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """The columns that a limit is on; None for whole rows."""
    if attribute is None:
        return None
    names = (attribute,) if isinstance(attribute, str) else tuple(dict.fromkeys(attribute))
    if not names:
        raise InvalidInputError("`attribute` names no column: name one, or leave it out to limit whole rows.")
    return names


def _check_people(settings: Settings, request: ReleaseRequest, ledger: Path | None) -> None:
    """Refuse what is about single rows where a release is about people."""
    if settings.person is None:
        return
    if _limits_anyone(request):
        raise InvalidInputError(
            "`over='admissible'` cannot be given with `person`: it certifies a limit for one row in place of another, not for "
            "all rows of a person; `over='max'` limits the people who are there."
        )
    if request.attributes is not None:
        raise InvalidInputError(
            "`attribute` cannot be given with `person`: it limits the value of a column in every single row; leave it out to "
            "limit all rows of a person together."
        )
    if ledger is not None:
        raise InvalidInputError(
            "`ledger` cannot be given with `person`: it adds up what releases reveal row by row; leave one of them out."
        )


def _calibrated(
    trained: Trained, limit: float, columns: tuple[str, ...] | None, shape: str, public: Any = None
) -> Noise:
    own = shape in OWN and public is None
    matrix = own_rows_shape(trained, shape, columns) if own else public
    if matrix is not None:
        trained = trained.with_noise(Gaussian(1.0, matrix))
    scales = [calibrated_scale(trained, limit, column) for column in (columns or (None,))]
    noise = trained.leak.noise.rescaled(up_to_the_grid(max(scales)))
    return remembering(noise, Calibration("max", limit, shape=shape if own else None))

"""What a release is asked to keep, and the noise that follows: a limit, on whom and on what, or the noise itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fisherleak._support.checks import check_positive
from fisherleak.engine.noise import Gaussian, Noise
from fisherleak.engine.noise.calibrated import ADMISSIBLE, Calibration
from fisherleak.errors import InvalidInputError
from fisherleak.protection.calibrate.calibration import remembering
from fisherleak.protection.data_dependent.hessian_shape import HESSIAN
from fisherleak.releasing.cards.cards import two_digits, up_to_the_grid
from fisherleak.releasing.noise.any_record_noise import admitted_noise, public_penalty, public_shape
from fisherleak.releasing.noise.default_shape import PublicShape
from fisherleak.releasing.noise.penalties import PublicPenalty
from fisherleak.releasing.noise.shaping import ISOTROPIC, OWN, check_shape, own_rows_shape, public_rows_shape
from fisherleak.tables import RawTable
from fisherleak.training.noise_words import as_noise
from fisherleak.training.trained_model import Settings, Trained, calibrated_scale

__all__ = ["AskedNoise", "limited_columns"]

OVER = (ADMISSIBLE, "max")
"""Whose etas a limit may be on."""


@dataclass(frozen=True)
class AskedNoise:
    """What decides the noise of a release: a limit, on whom and on what, or the noise itself; and its shape."""

    eta: float | None
    noise: float | Noise | None
    limited: tuple[str, ...] | None
    over: str
    shape: str | None
    shape_from: RawTable | None

    def check(self, settings: Settings, ledger: Path | None) -> None:
        """Refuse what does not go together, before anything is read."""
        if self.noise is not None and self.limited is not None:
            raise InvalidInputError("`attribute` is the column that the limit `eta` is on; `noise` has no limit.")
        _check_over(self.over)
        _check_people(settings, self.over, self.eta, self.limited, ledger)
        check_shape(self.named, self.noise is not None, self.shape_from is not None)
        if self.eta is not None:
            check_positive(self.eta, "eta")
        if self.noise is not None:
            as_noise(self.noise)

    @property
    def target(self) -> float | None:
        return None if self.eta is None else float(self.eta)

    @property
    def given(self) -> Noise | None:
        return None if self.noise is None else as_noise(self.noise)

    @property
    def named(self) -> str:
        """The shape that was asked for, or what stands for none."""
        return self.shape or (ISOTROPIC if self.shape_from is None else HESSIAN)

    def unasked(self, trained: Trained, ledger: Path | None) -> PublicShape | None:
        """The shape by public numbers; None where one was asked for, or where the rule is not for this limit."""
        limits_anyone = self.target is not None and self.over == ADMISSIBLE and ledger is None
        if self.target is None or self.shape is not None or self.shape_from is not None or not limits_anyone:
            return None
        return public_shape(trained, two_digits(trained.design.n), self.target, self.limited, trained.design.declared)

    def penalty(self, trained: Trained) -> PublicPenalty | None:
        """The penalty that public numbers give; none where the limit is not on every row that could be there."""
        if self.target is None or self.over != ADMISSIBLE or not (self.limited is None or trained.kind.several):
            return None
        return public_penalty(trained, two_digits(trained.design.n), self.target, trained.design.declared, self.limited)

    def holds_levels(self, trained: Trained) -> bool:
        """Whether intercepts have the penalty of the coefficients: of several classes, for whoever could be there."""
        return trained.kind.several and self.target is not None and self.over == ADMISSIBLE

    def noise_for(self, trained: Trained, settings: Settings, how: str, random_state: int | None) -> Noise:
        """The noise itself, or the least that keeps the limit."""
        if self.given is not None or self.target is None:
            return as_noise(self.given)
        public = None
        if self.shape_from is not None:
            public = public_rows_shape(trained, settings, self.shape_from, how, self.limited)
        if self.over != ADMISSIBLE:
            return _calibrated(trained, self.target, self.limited, how, public)
        matrix = None if how == ISOTROPIC else how if public is None else public
        bounds = trained.design.declared
        return admitted_noise(trained, settings, self.target, self.limited, bounds, random_state, matrix)


def limited_columns(attribute: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """The columns that a limit is on; None for whole rows."""
    if attribute is None:
        return None
    names = (attribute,) if isinstance(attribute, str) else tuple(dict.fromkeys(attribute))
    if not names:
        raise InvalidInputError("`attribute` names no column: name one, or leave it out to limit whole rows.")
    return names


def _check_over(over: str) -> None:
    if over not in OVER:
        raise InvalidInputError(f"over must be one of {', '.join(OVER)}; got {over!r}.")


def _check_people(
    settings: Settings, over: str, eta: float | None, columns: tuple[str, ...] | None, ledger: Path | None
) -> None:
    """Refuse what is about single rows where a release is about people."""
    if settings.person is None:
        return
    if eta is not None and over == ADMISSIBLE:
        raise InvalidInputError(
            "`over='admissible'` cannot be given with `person`: it certifies a limit for one row in place of another, not for "
            "all rows of a person; `over='max'` limits the people who are there."
        )
    if columns is not None:
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

"""Balanced models: IRFIL's weights for a model of a table, of rows or of people, and what they add to its etas."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from fisherleak._support.namespaces import Vector
from fisherleak._support.progress import track
from fisherleak.engine.fit.risk import Risk
from fisherleak.engine.fit.training_data import TrainingData
from fisherleak.engine.noise.calibration_record import ANY_RECORD
from fisherleak.engine.norms import one_release
from fisherleak.errors import InvalidInputError, NearSingularWarning, NotConvergedError
from fisherleak.leakage.measurement import measurement
from fisherleak.protection.irfil.irfil_iteration import balance
from fisherleak.protection.irfil.whole_procedure import Procedure
from fisherleak.training.trained_model import ROUNDS, Trained, Weighting, estimator_for, spreads_in, trained_on


def check_balance(over: str, limited: bool, own_shape: bool, ledger: bool) -> None:
    """Refuse promises that nothing is known of with weights from the data."""
    if limited and over == ANY_RECORD:
        raise InvalidInputError(
            "`balance` cannot be given with `over='any-record'`: how far another record moves everyone's weights is "
            "not bounded. Use `over='max'`, which counts the weights for the rows present, or leave `balance` out."
        )
    if limited and own_shape:
        raise InvalidInputError(
            "`balance` cannot be given with a `shape` computed from the table's rows: how it depends on the weights is "
            "not counted. Use `shape='isotropic'`, or `shape_from` public rows."
        )
    if ledger:
        raise InvalidInputError(
            "`balance` cannot be given with `ledger`: a ledger adds up releases whose weights are fixed, and these follow from "
            "the data. Leave one of them out."
        )


def reweighted(trained: Trained) -> Trained:
    """The same model with the weights of IRFIL, which reveals as much about every row, or person, the weights held fixed."""
    estimator_for(trained)  # refuses a kind without one
    design, noise, people = trained.design, trained.leak.noise, trained.design.people

    def measured(weights: Vector, _: Any) -> tuple[Vector, Trained]:
        # all rows of a person have that person's weight
        own = weights if people is None else weights[people.of_row]
        made = trained_on(trained.kind, design, trained.l2, own, trained.public, trained.fit.intercept_l2)
        made = made.with_noise(noise)
        return np.asarray(made.each_eta()), made

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearSingularWarning)  # said of the plain fit
        points = track(
            balance(measured, np.ones(design.n if people is None else people.count), ROUNDS), ROUNDS + 1, "Reweighting"
        )
        *_, last = points
    found: Trained = last.state
    return found


def balanced(trained: Trained) -> Trained:
    """The same, with etas of rows, or of people, that count how the weights follow from the data.

    That is known for models of one output, of as many rows and columns as memory holds at once; others are refused.
    """
    if trained.kind.several:
        raise InvalidInputError(
            "`balance` cannot be given with a limit `eta` for several classes: how the weights follow from the data is "
            "counted for one output only. Give `noise`, which promises nothing, or leave `balance` out."
        )
    procedure = _procedure(trained)
    made = reweighted(trained)
    assert made.weights is not None
    weighting = Weighting(procedure, made.weights)
    weighting.check()
    return replace(made, weighting=weighting)


def balanced_again(trained: Trained, limited: bool) -> Trained:
    """A released model fitted again: where its model card claims no limit, weights that cannot be counted are held fixed."""
    try:
        return balanced(trained)
    except (InvalidInputError, NotConvergedError):
        if limited:
            raise
    return reweighted(trained)


def _procedure(trained: Trained) -> Procedure:
    """The reweightings of a plain model, as they are differentiated."""
    design, people, folding = trained.design, trained.design.people, trained.folding
    jacobian = one_release(measurement(trained.leak).information)
    data, attributes = TrainingData(jacobian.X, jacobian.y, np.ones(design.n)), jacobian.attributes
    risk = Risk.on(data, trained.fit.loss, trained.l2, True, scales=spreads_in(design)[1])
    return Procedure(
        risk,
        np.asarray(trained.fit.theta),
        trained.leak.noise,
        *(attributes, attributes, True, ROUNDS),
        moved=None if folding is None or folding.totals is None else np.asarray(folding.totals) > 0,
        owners=None if people is None else people.of_row,
    )

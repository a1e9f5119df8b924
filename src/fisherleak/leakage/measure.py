r"""From a fitted model and its training data to a :class:`Leakage`: the data are checked, the model read, its Jacobian kept.

Also here: what one noisy gradient reveals about the rows it was computed from, a client's update in federated learning. A
client with rows of its own and parameters w from elsewhere sends :math:`g = \sum_i \omega_i r_i x_i + b`. Row i moves it by

.. math:: J_i = \omega_i\,[\,a_i x_i w^T E + r_i E,\; c_i x_i\,],

the Jacobian of a release without :math:`H^{-1}` in front, so all else is as for a release. w need not be a minimum of anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from fisherleak._support.arrays import Array, device, host, namespace
from fisherleak._support.namespaces import Estimator, TableLike, VectorLike
from fisherleak._support.progress import stage
from fisherleak.engine.fit.factored_hessian import Factor
from fisherleak.engine.fit.minimise import Fit, is_fit
from fisherleak.engine.fit.risk import Risk
from fisherleak.engine.fit.training_data import training_data
from fisherleak.engine.jacobian import jacobian_of
from fisherleak.engine.jacobian.folding import Folding
from fisherleak.engine.jacobian.perturbation import Attribute, as_attributes
from fisherleak.engine.mechanisms.interface_answers import Disclosed, Interface, is_interface, told_by
from fisherleak.engine.mechanisms.self_shaped import SelfShaped, is_self_shaped
from fisherleak.engine.noise import Gaussian, Noise, check_noise
from fisherleak.engine.noise.calibration_record import declared_frame
from fisherleak.engine.norms import information_of
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import looseness_of
from fisherleak.leakage.membership_distance import FrameColumn, RowsFrame
from fisherleak.leakage.rows_of_people import rows_of_people
from fisherleak.models import Queried, Reading, Table, as_table, read
from fisherleak.models.preprocessed import prepare
from fisherleak.models.read import risk_of

PUBLIC = ("preprocessing", "nothing")


class BehindNetwork(Protocol):
    """What may stand for X in :func:`fisherleak.measure` where a model's features are a function of inputs."""

    @property
    def features(self) -> Array:
        """(n, d): what the model was fitted on."""

    def about_inputs(self, leakage: Leakage, attributes: Any) -> Leakage:
        """The leakage about the inputs, from that about the features."""


def measure(
    model: Estimator,
    X: TableLike,
    y: VectorLike,
    noise: Noise | Interface | SelfShaped | None = None,
    sample_weight: VectorLike = None,
    attributes: Any = None,
    polish: bool | None = None,
    public: str = "preprocessing",
    person: VectorLike | str = None,
) -> Leakage:
    """Measure what a model, released with noise on its parameters, reveals about its training data.

    Parameters
    ----------
    model : Fit or fitted scikit-learn model
        A fit from :func:`fisherleak.minimise`, or a fitted linear model of scikit-learn, alone, at the end of a Pipeline
        or inside a search.
    X : array or table of shape (n, d)
        The rows the model was fitted on: for a pipeline the raw table, whose columns are the attributes. For a head on a
        frozen network ``fl.nn.on(module, inputs)``: etas are then about the inputs.
    y : array of shape (n,)
        Their labels; of shape (n, K) for a model of K numbers. The label of a model of three or more classes is the one-hot
        vector of its class, moved where its sum stays: changing a class is a move of length sqrt 2.
    noise : Noise, optional
        Added to every released parameter; ``fl.Gaussian(1.0)`` if not given. Or what an interface has answered instead of the
        parameters: :class:`fisherleak.Answers`, :class:`fisherleak.SampledLabels`. Or a mechanism whose noise the data shape,
        with that counted: :class:`fisherleak.Posterior` (squared loss), :class:`fisherleak.ObjectivePerturbation`.
    sample_weight : array of shape (n,), optional
        The weights the model was fitted with. Taken from a Fit if not given.
    attributes : optional
        Names (one per column), a mapping from names to columns, such as ``{"vkorc1": [11, 12]}``, or a list of
        :class:`fisherleak.Attribute`. Columns left out are attributes of their own. Not for pipelines, whose attributes
        are the raw columns.
    polish : bool, optional
        Whether to move a scikit-learn model to the exact minimum of its objective before measuring; the model itself is
        not changed. By default models of iterative solvers are moved, and those of direct solvers are there already. How
        far it was is ``leak.fits[0].distance``, and ``leak.summary()`` says what that does to eta. True moves every model,
        False measures the parameters as they are and refuses those farther away than 1e-2.

    public : {"preprocessing", "nothing"}
        What the attacker is taken to know of what a pipeline learned beside the model's parameters. "preprocessing": all that
        the steps before the model learned, the paper's assumption. "nothing": end to end; scalers are folded into the model,
        whose coefficients are then in raw units, and what a value does to the scale of its column is counted. A SimpleImputer
        of a mean or median before them is folded in too: for each column that it fills, t = w (c - m), with c what it fills
        in, w the raw coefficient and m the column's centre on the public grid, is one more released parameter. Levels of
        encoders and constants that are filled in are public all the same; other steps that learned something are refused.
        Noise without a shape then acts on (coefficients times their columns' scales, level at their centres, t), scales and
        centres on a public grid; a shape is over raw coefficients, the raw intercept, then t. Either way, a cell that was
        missing and was filled has no eta.
    person : str or array of shape (n,), optional
        A column of X, or whose row each is. All rows of a person are one: whatever gives a number for each row gives one for
        each person then, in the order of ``leak.people``. For tables in memory.

    Returns
    -------
    Leakage

    Notes
    -----
    **What holds, and when.** Every eta is exact, to rounding, for the model's own training procedure: the minimiser
    of the weighted, l2-penalised sum of losses, with the weights, l2, attributes' encoding and any preprocessing taken
    as fixed and public. The attacker may know all other data. How well membership can be seen is measured beside
    it (:meth:`Leakage.membership`). What FIL does not give: differential privacy, or a bound on biased estimators (for these
    see ``fisherleak.bounds``).

    **Loose fits.** A solver that stops early leaves etas that can be wrong by orders of magnitude for rare groups, so the
    etas are those of the minimiser that it was on its way to. ``fl.release`` adds its noise to the parameters as given: fit
    with a small tol if the two are to be the same, as a ``LooseFitWarning`` says where single etas differ by half.

    **Data that are not its own.** A model is refused if it cannot have stopped where it is on these data: by distance if
    its solver is direct (1e-6), by its own stopping rule if that is a gradient (lbfgs, newton-cg and newton-cholesky stop
    below ``tol``), and else by distance (1e-2). Changes of the data that move the mean gradient by less than ``tol``, such
    as a label or two of ten thousand, cannot be distinguished from a loose fit.

    Examples
    --------
    >>> import numpy as np
    >>> import fisherleak as fl
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 3.0, -1.0])
    >>> leak = fl.measure(fl.minimise(X, y), X, y, noise=fl.Gaussian(0.1))
    >>> leak.per_example().round(3)
    array([3.239, 5.122, 3.239])
    """
    noise = Gaussian(1.0) if noise is None else noise
    # asked of its type: a table may have a column of that name
    behind: BehindNetwork | None = X if hasattr(type(X), "about_inputs") else None
    if is_self_shaped(noise) and behind is None:
        return measure(model, X, y, None, sample_weight, attributes, polish, public, person).with_noise(noise)
    if not is_interface(noise):
        check_noise(noise)
    assert not is_self_shaped(noise)
    if public not in PUBLIC:
        raise InvalidInputError(f"public must be one of {', '.join(PUBLIC)}; got {public!r}.")
    if behind is not None:
        if person is not None:
            raise InvalidInputError("person is for tables, and X holds inputs of a network: leave it out.")
        check_noise(noise)
        about_features = measure(model, behind.features, y, noise, sample_weight, None, polish, public)
        return behind.about_inputs(about_features, attributes)
    table = as_table(X)
    people = None if person is None else rows_of_people(person, table)
    with stage("Measuring"):
        found = _measured(read(model, table, y, sample_weight, polish, public), model, table, noise, attributes)
    return found if people is None else replace(found, _people=people)


def measure_own(
    model: Estimator,
    X: TableLike,
    y: VectorLike,
    noise: Noise | None,
    sample_weight: VectorLike,
    polish: bool,
    public: str = "preprocessing",
) -> Leakage:
    """As :func:`measure`, for a scikit-learn model that is known to have been fitted on these data."""
    noise = Gaussian(1.0) if noise is None else noise
    check_noise(noise)
    table = as_table(X)
    # noise is calibrated by what is measured: the etas are those of the minimum, polished parameters or not
    reading = read(model, table, y, sample_weight, polish or None, public, own_data=True)
    return _measured(reading, model, table, noise, None, quiet=polish)


def _measured(
    reading: Reading, model: Estimator, table: Table, noise: Noise | Interface, attributes: Any, quiet: bool = False
) -> Leakage:
    names = table.names if table.is_frame else None
    queried = Queried(None if is_fit(model) else model, names, len(table.names), reading.folding is not None)
    # what the Jacobian is whitened by: the noise, or what answers to queries tell of this fit
    whitening = told_by(noise, queried.features(noise.X_query), reading.fit) if is_interface(noise) else noise
    records = larger_side(reading, whitening)
    piped = _is_piped(model)
    if attributes is not None:
        if piped:
            raise InvalidInputError("attributes of a pipeline are the columns of its table; leave attributes out.")
        records = as_attributes(attributes, reading.data.X.shape, table.names)
    reading = replace(reading, attributes=records)
    loose = None if reading.other is None else looseness_of(reading, reading.other, whitening, noise.scale)
    if loose is not None and not quiet:
        loose.warn(stacklevel=3)
    notes = () if loose is None else (loose.note(),)
    frames = () if reading.folding is None else _frames(reading, reading.folding, table)
    absent = _absent(reading) if reading.absent else None
    information = reading.information(whitening)
    found = Leakage(information, noise, table, notes, absent, queried, _frames=frames, _raw=piped)
    if reading.other is not None and not quiet:  # who is quiet releases what is measured
        found = replace(found, _away=reading.other.centred_theta - reading.fit.centred_theta)
    # noise that was calibrated with declared bounds acts in the frame that they give
    return found.with_noise(noise) if declared_frame(noise) else found


def _is_piped(model: Estimator) -> bool:
    """Whether attributes are the columns of the table, whatever steps stand between these and the model."""
    return isinstance(model, Pipeline) or hasattr(model, "best_estimator_")


def _frames(reading: Reading, folding: Folding, table: Table) -> tuple[RowsFrame, ...]:
    """Centres and scales that folded scalers learned, in whose frame noise without a shape acts."""
    X, filled = np.asarray(host(reading.data.X)), folding.filling is not None
    names: dict[int, str] = {}
    for attribute in () if filled else reading.attributes:  # bounds give nothing to what an imputer filled
        if attribute.name in table.names and table.is_numeric(table.names.index(attribute.name)):
            values = table.numbers(table.names.index(attribute.name))
            there = ~np.isnan(values)
            names |= {k: attribute.name for k in attribute.columns if np.array_equal(X[there, k], values[there])}
    columns = tuple(
        FrameColumn(
            *(k, scale.public[1], scale.public[0]),
            centred=scale.centred,
            scaled=scale.scaled,
            name=names.get(k),
            by_moments=scale.by_moments and not filled,
        )
        for k, scale in enumerate(reading.scales)
        if scale.centred or scale.scaled
    )
    weights = reading.fit.sample_weight if folding.weighted else None
    return (RowsFrame(X, reading.data.y, weights, columns),) if columns else ()


def _absent(reading: Reading) -> NDArray[np.bool_]:
    """Which cells were missing, (n, number of attributes)."""
    none = np.zeros(reading.data.X.shape[0], dtype=bool)
    return np.column_stack([reading.absent.get(attribute.name, none) for attribute in reading.attributes])


# Columns whose preprocessing has a kink: in every row, the side that leaks more counts.
#
# At a kink a feature has two derivatives, and an attacker may move the value to either side; eta is the larger of the two.


def larger_side(reading: Reading, noise: Noise | Disclosed) -> tuple[Attribute, ...]:
    """The attributes of a reading, each with the derivative of the side on which its eta is larger, row by row."""
    if reading.other_side is None:
        return reading.attributes
    sides = (reading.attributes, reading.other_side)
    right, left = (_cells(reading, noise, side) for side in sides)
    pairs = zip(*sides, strict=True)
    return tuple(_joined(a, b, left[:, j] > right[:, j]) if a.local or b.local else a for j, (a, b) in enumerate(pairs))


def _cells(reading: Reading, noise: Noise | Disclosed, side: tuple[Attribute, ...]) -> NDArray[np.float64]:
    information = replace(reading, attributes=side).information(noise)
    return np.asarray(host(information.cell_norms(side)))


def _joined(first: Attribute, second: Attribute, use_second: NDArray[np.bool_]) -> Attribute:
    if first.columns == second.columns and np.array_equal(_local(first, first.columns), _local(second, first.columns)):
        return first
    columns = tuple(dict.fromkeys(first.columns + second.columns))
    directions = np.where(use_second[:, None, None], _local(second, columns), _local(first, columns))
    return Attribute(first.name, columns, directions)


def _local(attribute: Attribute, columns: tuple[int, ...]) -> NDArray[np.float64]:
    """Directions for some columns, zero where the attribute does not feed them."""
    given = np.eye(attribute.size) if attribute.directions is None else attribute.directions
    spread = np.zeros((*given.shape[:-2], len(columns), given.shape[-1]))
    spread[..., [columns.index(j) for j in attribute.columns], :] = given
    return spread


# The gradient of a client

SEVERAL = "Gradients are measured for models of one output, and this one has several: fit one class against the rest."


def gradients(
    model: Estimator,
    X: TableLike,
    y: VectorLike,
    noise: Noise,
    sample_weight: VectorLike = None,
    attributes: Any = None,
) -> Leakage:
    r"""Measure what one noisy gradient of a model's loss reveals about the rows it is computed from.

    Parameters
    ----------
    model : Fit or fitted scikit-learn model
        Its parameters are where the gradient is taken; it may have been fitted on other rows, and need not be at a minimum.
    X : array or table of shape (n, d)
        The client's rows; for a pipeline the raw table.
    y : array of shape (n,)
        Their labels. With a Fit, rows of one class, or a single row, will do.
    noise : Noise
        Added to the *sum* of the rows' gradients by coefficients, then the intercept. Noise of scale s on their mean is noise
        of scale n s here.
    sample_weight : array of shape (n,), optional
        What each row's gradient is multiplied by.
    attributes : optional
        As for :func:`fisherleak.measure`; not for pipelines.

    Returns
    -------
    Leakage
        Of the gradient, with the same methods. ``calibrate`` finds the least noise for it, ``compose`` adds up several.

    Notes
    -----
    **What holds, and when.** Exact. The attacker knows the parameters, the preprocessing, the weights and all other rows. The
    penalty's gradient reveals nothing about rows. Several rounds add up (:func:`fisherleak.compose`), along the path that was
    taken. ``membership`` is that of a row whose gradient is left out of the sum.

    Examples
    --------
    >>> import numpy as np
    >>> import fisherleak as fl
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 3.0, -1.0])
    >>> fit = fl.minimise(X, y)
    >>> fl.gradients(fit, np.array([[1.5]]), np.array([2.0]), fl.Gaussian(1.0)).per_example().round(3)
    array([2.5])
    """
    check_noise(noise)
    table = as_table(X)
    if is_fit(model):
        if model.loss.several:
            raise UnsupportedModelError(SEVERAL)
        risk, theta = _of_fit(model, X, y, sample_weight, table), model.theta
        records = as_attributes(attributes, risk.X.shape, table.names)
    else:
        prepared = prepare(model, table)
        if prepared.absent or prepared.other_side is not None:
            raise InvalidInputError(
                "Gradients are measured for complete rows and differentiable preprocessing: fill missing values before, or "
                "measure on the features behind the preprocessing."
            )
        risk, theta = risk_of(prepared, y, sample_weight)
        if risk.loss.several:
            raise UnsupportedModelError(SEVERAL)
        records = prepared.attributes
        if attributes is not None:
            raise InvalidInputError(
                "Gradients of a scikit-learn model are measured about the columns of its table: leave attributes out."
            )
    jacobian = jacobian_of(_at(risk, theta), risk.X, risk.y, noise, records)
    return Leakage(information_of(replace(jacobian, gradient=True)), noise, table, _raw=_is_piped(model))


def _of_fit(fit: Fit, X: TableLike, y: VectorLike, sample_weight: VectorLike, table: Table) -> Risk:
    """The client's rows under the loss of a fit; labels of one class are enough for a gradient."""
    d = fit.coef.shape[0]
    if len(table.names) != d:
        raise InvalidInputError(
            f"X must have the {d} columns that the model has coefficients for; got {len(table.names)}."
        )
    names = table.names if table.is_frame else None
    loss = replace(fit.loss, labels=replace(fit.loss.labels, binary=False))
    data = training_data(X, y, sample_weight, loss, names, fit.intercept is not None)
    return Risk.on(data, fit.loss, fit.l2, fit.intercept is not None, fit.intercept_l2)


def _at(risk: Risk, theta: Array) -> Fit:
    """The parameters as a fit whose Hessian is the identity, so that nothing stands before the gradient."""
    xp = namespace(theta)
    d, p = risk.X.shape[1], theta.shape[0]
    one = xp.ones(p, dtype=xp.float64, device=device(theta))
    last = float(theta[d]) if risk.intercept else None
    return Fit(
        coef=theta[:d],
        intercept=last,
        loss=risk.loss,
        l2=risk.l2,
        n=risk.X.shape[0],
        sample_weight=risk.weights,
        factor=Factor(one, xp.eye(p, dtype=xp.float64, device=device(theta)), 1.0),
        gradient=0.0,
        distance=0.0,
        steps=0,
        objective=float(np.nan),
        intercept_l2=risk.intercept_l2,
        level=last,
    )

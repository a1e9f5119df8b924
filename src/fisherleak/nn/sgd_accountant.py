r"""Fisher information of noisy SGD about single training inputs, added up along the path of training.

A step releases the sum of clipped gradients plus :math:`N(0, s^2 I)`, s = noise multiplier x clip. Given the parameters before
it, it holds about the input x of an example

.. math:: F = \frac{1}{s^2} J^T \left[ A \alpha^2 (I - P) + L \beta^2 P \right] J, \qquad J = \partial g / \partial x,

with P the projection on its gradient g, A and L from the chance of being in the batch (3.7) and alpha and beta from
the clipping (``CLIPS``). The scores of the steps are a martingale, so the information of the whole training is the mean over
paths of the sum of F along the path.

Also here: what one noisy sum of gradients tells about the gradient of an example that may or may not be in it.

Mathematics: 3.7, ``docs/mathematics/mechanisms.md``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr

from fisherleak._support.arrays import Array, as_array, host
from fisherleak._support.checks import check_positive, nearest
from fisherleak._support.namespaces import Vector
from fisherleak.engine.norms.largest_eigenvalues import top_of_matrices
from fisherleak.errors import InvalidInputError
from fisherleak.nn.example_gradients import ExampleGradients, StepInformation, check_model_alone, example_gradients
from fisherleak.nn.row_maps import Module, Tensor, as_given, torch
from fisherleak.nn.training_runs import count_steps, fingerprint, read_state, write_state
from fisherleak.rows.selection import check_rows

REACH = 12.0
"""Standard deviations that the integrals cover."""
STEP = 0.02
"""Of the integrals, where the sigmoid is no steeper than the density."""
NODES = 1025
"""Of a table, at least, over the lengths that clipping leaves."""
WIDEST = 0.004
"""Space between nodes, at most: information is then at most 2e-4 above the truth, eta 1e-4."""
TOLD = 40.0
"""Past so many standard deviations of the noise it shows who is in, and the bound q is reached to rounding."""
INTEGRAND_VALUES = 2**21
"""Values of the integrands at a time."""


def subsampled_information(sample_rate: float, rho: Vector) -> tuple[Vector, Vector]:
    """A (across) and L (along) of a gradient of rho standard deviations of the noise, exact to rounding."""
    rho = np.atleast_1d(np.asarray(rho, dtype=np.float64))
    if sample_rate == 1.0:
        return np.ones_like(rho), np.ones_like(rho)
    # the poles of the sigmoid are pi / rho away from the real line: the error is exp(-2 pi^2 / (rho step))
    step = min(STEP, 0.5 / max(float(rho.max(initial=0.0)), 1e-300))
    t = np.arange(-REACH, REACH + step, step)
    density = step * np.exp(-0.5 * t * t) / np.sqrt(2.0 * np.pi)
    # section 3.7: E[omega(t)] and E[omega(t) t^2] by the trapezoidal rule
    weights = np.stack([density, density * t * t], axis=1)
    found = []
    for part in np.array_split(rho, max(1, rho.size * t.size // INTEGRAND_VALUES)):
        # omega(t), the probability that the example was in
        omega = expit(logit(sample_rate) + part[:, None] * t[None, :] + 0.5 * part[:, None] ** 2)
        found.append(sample_rate * (omega @ weights))
    both = np.concatenate(found)
    return both[:, 0], both[:, 1]


@dataclass(frozen=True)
class Subsampling:
    """A and L at equally spaced rho, raised so that what lies between them is not below the truth."""

    sample_rate: float
    largest: float
    """The largest rho."""
    across: Vector
    along: Vector

    def at(self, rho: Vector) -> tuple[Vector, Vector]:
        """Both, interpolated on the safe side and never above q."""
        if float(np.max(rho, initial=0.0)) > self.largest * (1.0 + 1e-9):
            raise InvalidInputError(
                f"rho must be at most {self.largest:g}, the largest in this table; got {float(np.max(rho)):g}."
            )
        nodes, top = np.linspace(0.0, min(self.largest, TOLD), self.across.size), self.sample_rate
        across, along = (np.interp(rho, nodes, values) for values in (self.across, self.along))
        return np.where(rho > TOLD, top, across), np.where(rho > TOLD, top, along)

    @property
    def worst(self) -> float:
        """The larger of both over all rho of the table."""
        if self.largest > TOLD:
            return self.sample_rate
        return float(max(self.across.max(), self.along.max()))


@lru_cache(maxsize=32)
def subsampling_table(sample_rate: float, largest: float, sampling: str = "poisson") -> Subsampling:
    r"""For gradients of up to ``largest`` standard deviations of the noise.

    A straight line misses a curve by at most :math:`h^2 \max |f''| / 8`; twice that, from second differences of the
    neighbours, is added to every node.
    """
    if sampling == "fixed":
        return Subsampling(sample_rate, largest, np.full(2, sample_rate), np.full(2, sample_rate))
    reach = min(largest, TOLD)
    both = subsampled_information(sample_rate, np.linspace(0.0, reach, max(NODES, math.ceil(reach / WIDEST) + 1)))
    return Subsampling(sample_rate, largest, *(_raised(values, sample_rate) for values in both))


def _raised(values: Vector, top: float) -> Vector:
    second = np.abs(np.diff(values, 2))
    wide = np.concatenate([second[:1], second[:1], second, second[-1:], second[-1:]])
    # second differences are h^2 f'': a quarter is twice h^2 f'' / 8
    margin: Vector = 0.25 * np.max(np.stack([wide[k : k + values.size] for k in range(3)]), axis=0)
    return np.asarray(np.minimum(values + margin + 1e-14 * values, top))


# clipping multiplies g by a function of its length: its derivative by g is alpha across g and beta along it


def _hard(length: Vector, most: float) -> tuple[Vector, Vector, Vector]:
    """By min(1, C / |g|): 1 and 1 up to C, C / |g| and 0 beyond; at the kink the unclipped side, the larger one, counts."""
    inside = length <= most
    shrunk = np.where(inside, 1.0, most / np.where(inside, most, length))
    return shrunk, np.where(inside, 1.0, 0.0), np.minimum(length, most)


def _smooth(length: Vector, most: float) -> tuple[Vector, Vector, Vector]:
    """By 1 / (1 + gelu(|g| / C - 1)), Guo et al. 2022: never longer than 1.1153 C."""
    u = length / most - 1.0
    below = ndtr(u)
    shrunk = 1.0 / (1.0 + u * below)
    slope = below + u * np.exp(-0.5 * u * u) / np.sqrt(2.0 * np.pi)
    # the derivative of |g| s(|g|) is s + |g| s', with s' = -s^2 d(u Phi(u)) / du / C
    return shrunk, shrunk - shrunk**2 * slope * length / most, length * shrunk


CLIPS: dict[str, Callable[[Vector, float], tuple[Vector, Vector, Vector]]] = {"hard": _hard, "smooth": _smooth}
"""(lengths, C) -> alpha, beta and lengths after clipping."""
LONGEST = {"hard": 1.0, "smooth": 1.1154}
"""Largest length after clipping, in C, rounded up."""


SAMPLINGS = ("poisson", "fixed")
KEEPS = ("auto", "matrix", "norm")
MATRIX_VALUES = 2**24
"""Values of the matrices of all examples up to which they are kept by themselves."""
SMALLEST_SCALE = 1e-100
"""Of the noise: squares of smaller numbers, or of larger than its inverse, leave the range of float64."""
MATRIX_WIDTH = 128
"""Values of an input up to which writing its matrix out costs about what Lanczos' method does."""


@dataclass(frozen=True)
class Watched:
    """The examples whose information is added up."""

    gradients: ExampleGradients
    X: Tensor
    """(n, P), flat."""
    y: Tensor
    given: Any


class SGDAccountant:
    r"""Add up what noisy SGD reveals about the inputs of chosen training examples.

    Parameters
    ----------
    model : torch module
        The model that is trained, as it is before an engine wraps it. Parameters that do not learn are public.
    loss : callable
        (outputs of a batch, labels) -> loss; called on one example at a time, so means and sums are the same.
    sample_rate : float
        q, the chance of an example to be in a batch.
    noise_multiplier, max_grad_norm : float
        Noise of standard deviation noise_multiplier x max_grad_norm is added to the sum of gradients clipped to max_grad_norm.
    clip : {"hard", "smooth"}
        :math:`g \min(1, C/|g|)`, or :math:`g / (1 + \mathrm{gelu}(|g|/C - 1))` of Guo et al. 2022.
    sampling : {"poisson", "fixed"}
        Poisson sampling, counted to 1e-4 and never below, or batches of a fixed size, which show who is in them:
        :math:`q / s^2`.
    keep : {"auto", "matrix", "norm"}
        Whether the steps' matrices are added up (eta along the path, within 1e-4 and never below), or their largest
        eigenvalues (never less). By default matrices where they are small.
    every : int
        Measure every so many steps and count each as that many: an *estimate* of the sum.
    tolerance : float
        Relative error of an eigenvalue at which Lanczos' method stops; what is left of it is added.
    directions : int
        Random directions for :meth:`dfil` in each step, where no matrices are stored; drawn again every time.
    batch : int
        Examples at a time.
    random_state : int, optional
        For these directions.

    Notes
    -----
    **What holds, and when.** :meth:`per_example` is about the path that was walked: an attacker sees all parameters along it
    (or all noisy gradients), knows all other data and who else was in each batch, and estimates the input without bias. Over
    many trainings the mean of the squares is the information of the training as a whole; one path is one draw of it.
    :meth:`bound` holds for every path, and needs a constant that only some models have. Neither is differential privacy:
    the numbers are themselves computed from the data.

    Examples
    --------
    >>> accountant = SGDAccountant(model, loss, 0.01, 1.1, 1.0).watch(X, y)  # doctest: +SKIP
    >>> for batch in loader:                                                # doctest: +SKIP
    ...     accountant.step()                                               # before the parameters move
    ...     noisy_step(model, batch)
    """

    def __init__(
        self,
        model: Module,
        loss: Callable[[Tensor, Tensor], Tensor],
        sample_rate: float,
        noise_multiplier: float,
        max_grad_norm: float,
        *,
        clip: str = "hard",
        sampling: str = "poisson",
        keep: str = "auto",
        every: int = 1,
        tolerance: float = 1e-3,
        directions: int = 1,
        batch: int = 256,
        random_state: int | None = None,
    ) -> None:
        self.sample_rate = _check_rate(sample_rate)
        self.noise_multiplier = check_positive(noise_multiplier, "noise_multiplier")
        self.max_grad_norm = check_positive(max_grad_norm, "max_grad_norm")
        self.tolerance = check_positive(tolerance, "tolerance")
        self.clip, self.sampling = _one_of(clip, "clip", CLIPS), _one_of(sampling, "sampling", SAMPLINGS)
        self.every, self.directions, self.batch = (
            _check_count(value, name)
            for value, name in ((every, "every"), (directions, "directions"), (batch, "batch"))
        )
        self.keep = _one_of(keep, "keep", KEEPS)
        self.steps = 0
        self._gradients = example_gradients(model, loss, ())
        self._random = np.random.default_rng(random_state)
        self._watched: Watched | None = None
        self._state: dict[str, Tensor] = {}
        self._worst = 0.0

    # what is watched, and the loop

    def watch(self, X: Any, y: Any, rows: Any = None) -> SGDAccountant:
        """Choose the examples: inputs (n, ...), labels, and optionally which rows of these. Gives back the accountant."""
        if self.steps:
            raise InvalidInputError(f"watch must come before the first step; {self.steps} steps are counted already.")
        own = next(self._gradients.live.parameters())
        inputs, labels = (_beside(values, name, own) for values, name in ((X, "X"), (y, "y")))
        if inputs.ndim < 2 or inputs.shape[0] != labels.shape[0]:
            raise InvalidInputError(
                f"X must have a row for each of the {labels.shape[0]} labels; got shape {tuple(inputs.shape)}."
            )
        if rows is not None:
            places = check_rows(rows, int(inputs.shape[0]), inputs)
            inputs, labels = inputs[places], labels[places]
        if inputs.shape[0] == 0:
            raise InvalidInputError("rows must choose at least one example.")
        shape = tuple(int(size) for size in inputs.shape[1:])
        gradients = ExampleGradients(self._gradients.live, self._gradients.bare, self._gradients.loss, shape)
        flat = inputs.to(own.dtype).reshape(inputs.shape[0], math.prod(shape))
        if not bool(torch.isfinite(flat).all()):
            raise InvalidInputError("X must be finite everywhere.")
        check_model_alone(gradients.live, inputs[:1])
        gradients.checked(flat[:1], labels[:1], gradients.parameters())
        self._watched = Watched(gradients, flat, labels, X)
        n, P = flat.shape
        if self.keep == "auto":
            self.keep = "matrix" if P <= MATRIX_WIDTH and n * P * P <= MATRIX_VALUES else "norm"
        zeros = {"matrix": (n, P, P)} if self.keep == "matrix" else {"norm": (n,), "trace": (n,)}
        self._state = {name: torch.zeros(size, dtype=torch.float64, device=own.device) for name, size in zeros.items()}
        return self

    def step(self, noise_multiplier: float | None = None, sample_rate: float | None = None) -> None:
        """Count one noisy step at the parameters that the model has now: call it before they move.

        Parameters
        ----------
        noise_multiplier, sample_rate : float, optional
            Of this step, where they differ from those given at the start.
        """
        noise = (
            self.noise_multiplier if noise_multiplier is None else check_positive(noise_multiplier, "noise_multiplier")
        )
        rate = self.sample_rate if sample_rate is None else _check_rate(sample_rate)
        table = subsampling_table(rate, LONGEST[self.clip] / noise, self.sampling)
        scale = _check_scale(noise * self.max_grad_norm)
        if self.steps % self.every == 0:
            self._account(table, scale)
        self.steps += 1
        self._worst += table.worst / scale**2

    def attach(self, privacy_engine: Any) -> SGDAccountant:
        """Count every step of an Opacus ``PrivacyEngine``, beside its epsilon: call it before ``make_private``.

        Each step's noise multiplier and sample rate are the engine's; its clip must be ``max_grad_norm``, the same for all
        parameters together (``clipping="flat"``). With ``poisson_sampling=False`` it takes an accountant of
        ``sampling="fixed"``. Gives back the accountant.
        """
        count_steps(self, privacy_engine)
        return self

    # what was revealed

    def per_example(self) -> Array:
        """Eta of each watched input along the path, (n,): ``kind`` says what it is."""
        watched = self._examples()
        squares = top_of_matrices(self._state["matrix"]) if self.keep == "matrix" else self._state["norm"]
        return as_given(torch.sqrt(torch.clip(squares, min=0.0)), watched.given)

    def dfil(self) -> Array:
        """The mean over coordinates of the information about an input, trace / P (their dFIL, not its root): (n,).

        The mean squared error per coordinate of an unbiased attacker is at least 1 / dfil. From the matrices where they are
        kept, else an unbiased estimate by random directions.
        """
        watched = self._examples()
        trace = torch.einsum("bii->b", self._state["matrix"]) if self.keep == "matrix" else self._state["trace"]
        return as_given(trace / watched.X.shape[1], watched.given)

    def fim(self) -> Array:
        """The information matrices along the path, (n, P, P), where they are kept."""
        watched = self._examples()
        if self.keep != "matrix":
            raise InvalidInputError("fim needs the matrices: make the accountant with keep='matrix'.")
        return as_given(self._state["matrix"], watched.given)

    def bound(self, largest: float) -> float:
        r"""Eta of any example on *every* path of so many steps.

        Parameters
        ----------
        largest : float
            A constant that the norm of the derivative of the clipped gradient by the input never exceeds, whatever the
            parameters and the input. Many models have none: the squared loss of a linear model with free weights, for one.
        """
        return math.sqrt(self._worst) * check_positive(largest, "largest", zero=True)

    @property
    def kind(self) -> str:
        """What ``per_example`` is, in words."""
        what = (
            "information along this path, matrices added up"
            if self.keep == "matrix"
            else "bound on the information along this path: largest eigenvalues of the steps added up"
        )
        return what if self.every == 1 else f"{what}; an estimate from one step in {self.every}"

    def __repr__(self) -> str:
        count = 0 if self._watched is None else self._watched.X.shape[0]
        return f"SGDAccountant({count} examples, {self.steps} steps, {self.kind})"

    # between processes

    def save(self, path: Any, overwrite: bool = False) -> None:
        """Write all that was added up to a file (NumPy's .npz with JSON beside the arrays; nothing is pickled)."""
        arrays = {name: host(values) for name, values in self._state.items()}
        write_state(path, arrays, self._record(), overwrite)

    def resume(self, path: Any) -> SGDAccountant:
        """Go on from such a file, with the same settings and the same examples watched. Gives back the accountant."""
        arrays, record = read_state(path)
        own = self._record()
        fixed = [name for name in own if name not in ("steps", "worst", "random")]
        other = [name for name in fixed if record.get(name) != json.loads(json.dumps(own[name]))]
        if other:
            raise InvalidInputError(
                f"{other[0]} is {own[other[0]]!r} here and {record.get(other[0])!r} in the file: resume with the same."
            )
        self._state = {
            name: torch.as_tensor(arrays[name].copy(), device=values.device) for name, values in self._state.items()
        }
        self.steps, self._worst = int(record["steps"]), float(record["worst"])
        self._random.bit_generator.state = record["random"]
        return self

    def _record(self) -> dict[str, Any]:
        watched = self._examples()
        names = ("sample_rate", "noise_multiplier", "max_grad_norm", "clip", "sampling", "keep", "every", "directions")
        return {name: getattr(self, name) for name in names} | {
            "examples": fingerprint(host(watched.X), host(watched.y)),
            "steps": self.steps,
            "worst": self._worst,
            "random": self._random.bit_generator.state,
        }

    # one step

    def _examples(self) -> Watched:
        if self._watched is None:
            raise InvalidInputError("No examples are watched: call watch(X, y) first.")
        return self._watched

    def _account(self, table: Subsampling, scale: float) -> None:
        watched = self._examples()
        parameters = watched.gradients.parameters()
        for start in range(0, watched.X.shape[0], self.batch):
            span = slice(start, start + self.batch)
            x, y = watched.X[span], watched.y[span]
            g = watched.gradients.checked(x, y, parameters)
            across, along = self._weights(g, table, scale)
            length = torch.linalg.vector_norm(g, dim=1)
            unit = g / torch.where(length > 0, length, torch.ones_like(length))[:, None]
            part = StepInformation(watched.gradients, parameters, x, y, unit, across, along)
            if self.keep == "matrix":
                self._state["matrix"][span] += self.every * part.matrices()
            else:
                self._state["norm"][span] += self.every * part.largest(self.tolerance)
                self._state["trace"][span] += self.every * self._trace(part)

    def _weights(self, g: Tensor, table: Subsampling, scale: float) -> tuple[Tensor, Tensor]:
        """A alpha^2 / s^2 and L beta^2 / s^2 of every example."""
        length = host(torch.linalg.vector_norm(g.to(torch.float64), dim=1))
        alpha, beta, clipped = CLIPS[self.clip](length, self.max_grad_norm)
        A, L = table.at(np.minimum(clipped / scale, table.largest))
        weights = (A * alpha**2 / scale**2, L * beta**2 / scale**2)
        across, along = (torch.as_tensor(values, dtype=torch.float64, device=g.device) for values in weights)
        return across, along

    def _trace(self, part: StepInformation) -> Tensor:
        total: Any = 0.0
        for _ in range(self.directions):
            signs = self._random.integers(0, 2, size=tuple(part.x.shape)) * 2.0 - 1.0
            total = total + part.along_directions(torch.as_tensor(signs, dtype=part.x.dtype, device=part.x.device))
        return total / self.directions


def _beside(values: Any, name: str, own: Tensor) -> Tensor:
    given = as_array(values, name)
    tensor = given if isinstance(given, torch.Tensor) else torch.as_tensor(np.array(host(given)))
    return tensor.detach().to(own.device)


def _check_rate(value: Any) -> float:
    rate = check_positive(value, "sample_rate")
    if rate > 1.0:
        raise InvalidInputError(f"sample_rate must be at most 1; got {rate}.")
    return rate


def _check_scale(scale: float) -> float:
    """The standard deviation of the noise, whose square must be a number."""
    if not SMALLEST_SCALE <= scale <= 1.0 / SMALLEST_SCALE:
        raise InvalidInputError(
            f"noise_multiplier x max_grad_norm must lie between {SMALLEST_SCALE:g} and {1.0 / SMALLEST_SCALE:g}; got {scale:g}."
        )
    return scale


def _check_count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidInputError(f"{name} must be a whole number, 1 or more; got {value!r}.")
    return int(value)


def _one_of(value: Any, name: str, names: Any) -> str:
    if value not in names:
        raise InvalidInputError(f"{name} is {value!r}, which is not known. {nearest(str(value), list(names))}")
    return str(value)

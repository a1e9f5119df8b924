r"""An attacker who rebuilds inputs from a noisy release by an optimiser, beside the bounds that no attacker beats.

The release of one input is :math:`t = m(x) + b`: an embedding, the gradient of one example, or the parameters of a head fitted
with it. With a Gaussian prior on x the attacker takes the most likely input, the minimum of

.. math:: |W (t - m(x))|^2 / 2 \sigma^2 + |(x - \mu) / \tau|^2 / 2 ,

found by a quasi-Newton method. Van Trees' inequality bounds the mean squared error of *every* attacker over inputs that are
drawn from the prior by the mean of the diagonal of :math:`(E[F] + \tau^{-2})^{-1}`, F the Fisher information of the release.

Also here: the parameters of a head as a function of one of its inputs, all others fixed, with the derivative that
torch follows.

Newton's method finds the minimiser without gradients, in the frame Q of the head's outputs (the number 1 for one output); one
more step, whose gradient by the input is kept, has the minimiser's own derivative there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, host
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.losses.loss import ReducedLoss
from fisherleak.engine.noise import Gaussian, Noise, drawn
from fisherleak.engine.norms import one_release
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.leakage.leakage import Leakage
from fisherleak.nn.input_leakage import Encoded
from fisherleak.nn.last_layer import HeadLeakage
from fisherleak.nn.row_maps import Module, RowMap, Tensor, as_given, torch
from fisherleak.nn.sgd_accountant import SGDAccountant

NEWTON_STEPS = 12
"""At most, of the refit with a candidate in place of an input."""
SETTLED = 1e-11
"""Relative size of a step after which one more is exact."""
SAME_FEATURES = 1e-9
"""Relative difference of features above which something lies between the network and the head."""


@dataclass(frozen=True)
class Refit:
    """For several inputs, each moved by itself: (n, P) -> released parameters (n, K p)."""

    network: RowMap
    features: Tensor
    """(n, p), with the constant where there is an intercept."""
    y: Tensor
    fit: Fit
    rows: tuple[int, ...]

    def __call__(self, x: Tensor) -> Tensor:
        phi = _with_constant(self.network(x), self.fit)
        V, fixed = self._start(phi).expand(phi.shape[0], -1, -1), phi.detach()
        for _ in range(NEWTON_STEPS):
            step = self._step(V, fixed, fixed)
            V = V - step
            if float(step.abs().max()) <= SETTLED * (1.0 + float(V.abs().max())):
                break
        return self._released(V - self._step(V, fixed, phi))

    def _step(self, V: Tensor, fixed: Tensor, phi: Tensor) -> Tensor:
        """Newton's steps of V (m, L, p); the gradient is that at phi, which torch may follow, the Hessian that at ``fixed``."""
        m, L, p = V.shape
        X, places = self.features, torch.tensor(self.rows, device=phi.device)
        r, A = self._derivatives(X @ V.transpose(1, 2), self.y.expand(m, *self.y.shape))
        there = torch.ones(m, X.shape[0], dtype=X.dtype, device=X.device)
        there[torch.arange(m, device=X.device), places] = 0.0  # the input itself is not where it was
        own = self.y[places][:, None]
        _, B = self._derivatives((V @ fixed[:, :, None]).transpose(1, 2), own)
        mine, _ = self._derivatives((V @ phi[:, :, None]).transpose(1, 2), own)
        penalty = self._penalty(phi)
        g = (r * there[:, :, None]).transpose(1, 2) @ X + mine.transpose(1, 2) * phi[:, None, :] + penalty * V
        H = X.new_zeros(m, L, p, L, p)
        outer = fixed[:, :, None] * fixed[:, None, :]
        for k in range(L):
            for j in range(k, L):
                weighed = X[None] * (A[:, :, k, j] * there)[:, :, None]
                H[:, k, :, j, :] = weighed.transpose(1, 2) @ X + B[:, 0, k, j, None, None] * outer
                H[:, j, :, k, :] = H[:, k, :, j, :].clone()
            H[:, k, :, k, :] += torch.diag(penalty)
        return torch.linalg.solve(H.reshape(m, L * p, L * p), g.reshape(m, L * p, 1)).reshape(m, L, p)

    def _derivatives(self, Z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Of the loss by predictors in the frame (m, b, L): the gradient (m, b, L) and the curvature (m, b, L, L)."""
        loss = ReducedLoss(self.fit.loss, self._frame(Z) if self.fit.loss.several else None)
        flat, labels = Z.reshape(-1, Z.shape[2]), y.reshape(-1, *y.shape[2:])
        r, A = loss.gradient(flat, labels), loss.curvature(flat.detach(), labels)
        return r.reshape(Z.shape), A.reshape(*Z.shape, Z.shape[2])

    def _frame(self, beside: Tensor) -> Tensor:
        if not self.fit.loss.several:
            return torch.ones(1, 1).to(beside)
        return torch.as_tensor(host(self.fit.frame)).to(beside)

    def _start(self, beside: Tensor) -> Tensor:
        """V of the fit, (L, p)."""
        coef = torch.as_tensor(host(self.fit.coef)).to(beside)
        coef = coef if coef.ndim == 2 else coef[None]
        if self.fit.intercept is not None:
            level = torch.as_tensor(np.atleast_1d(_values(self.fit.intercept))).reshape(-1, 1).to(beside)
            coef = torch.cat([coef, level], dim=1)
        return self._frame(beside).T @ coef

    def _penalty(self, beside: Tensor) -> Tensor:
        d = int(self.fit.coef.shape[-1])
        values = [self.fit.n * self.fit.l2] * d + [self.fit.n * self.fit.intercept_l2] * int(
            self.fit.intercept is not None
        )
        return torch.tensor(values, dtype=beside.dtype, device=beside.device)

    def _released(self, V: Tensor) -> Tensor:
        """All coefficients, then all intercepts."""
        whole = self._frame(V) @ V
        d, m = int(self.fit.coef.shape[-1]), V.shape[0]
        return torch.cat([whole[:, :, :d].reshape(m, -1), whole[:, :, d:].reshape(m, -1)], dim=1)


def refit_of(head: Leakage, network: RowMap, rows: Sequence[int]) -> Refit:
    """The refit of a head whose leakage about its features is given; what it cannot follow is refused by name."""
    information: Any = head._information
    jacobian = one_release(information)
    fit = jacobian.fit
    if fit.sample_weight is not None or jacobian.folding is not None:
        raise UnsupportedModelError(
            "Reconstruction needs a head without sample weights, and without scalers folded into it."
        )
    features = torch.as_tensor(host(jacobian.X)).to(network.X)
    made = network.evaluated()
    apart = made.shape != features.shape or float((made - features).abs().max()) > SAME_FEATURES * (
        1.0 + float(features.abs().max())
    )
    if apart:
        raise UnsupportedModelError(
            "Reconstruction from a head needs one that was fitted on the network's outputs as they are: put steps that lie "
            "between them into the network."
        )
    y = torch.as_tensor(host(jacobian.y)).to(network.X)
    return Refit(network, _with_constant(features, fit), y, fit, tuple(rows))


def _values(numbers: Any) -> Any:
    return host(numbers) if hasattr(numbers, "shape") else np.float64(numbers)


def _with_constant(features: Tensor, fit: Fit) -> Tensor:
    if fit.intercept is None:
        return features
    return torch.cat([features, torch.ones_like(features[:, :1])], dim=1)


@dataclass(frozen=True)
class Reconstruction:
    """Inputs as an attacker rebuilt them.

    Attributes
    ----------
    inputs : array of shape (n, ...)
        The attacker's guesses.
    error : array of shape (n,)
        Mean squared error per value of an input.
    bound : float
        The least mean of ``error`` over inputs that are drawn from the prior, for any attacker (van Trees), with the mean
        information of these inputs in place of the prior's. Real pictures are no such draws: beside these it is a yardstick.
    minimax : float or None
        Where values are known to lie between limits: the least error, for any attacker, at the worst input between them, again
        with the mean information of these inputs (:func:`fisherleak.bounds.interval_minimax`, for many values).
    eta : array of shape (n,)
        Of the inputs: 1 / eta is the least standard deviation of an unbiased attacker on some combination of values.
    """

    inputs: Array
    error: Array
    bound: float
    minimax: float | None
    eta: Array


@dataclass(frozen=True)
class Reconstruct:
    """Rebuild inputs from a release: made by :meth:`encoding`, :meth:`last_layer` or :meth:`gradient`.

    The attacker knows the network, the noise and everything but the input itself. Inputs are rebuilt one by one, each from its
    own noisy release.
    """

    _mean: Callable[[Tensor], Tensor] = field(repr=False)
    """Flat inputs (n, P) -> what is released of them before noise, (n, k)."""
    _truth: Tensor = field(repr=False)
    _shape: tuple[int, ...]
    _noise: Noise
    _information: Tensor = field(repr=False)
    """F of every input, (n, P, P)."""
    _given: Any = field(repr=False)

    @classmethod
    def encoding(cls, leakage: Encoded) -> Reconstruct:
        """From the noisy embeddings that :func:`fisherleak.nn.encoding` measured with normal noise."""
        _check_normal(leakage.noise)
        through = leakage._information
        network = through.network
        J = torch.as_tensor(through.written_out(through.attributes, False, None)) / leakage.noise.scale
        F = (J.transpose(1, 2) @ J).to(network.X.device)
        return cls(network, network.X, network.shape, leakage.noise, F, through.given)

    @classmethod
    def gradient(
        cls, model: Module, loss: Callable[[Tensor, Tensor], Tensor], X: Any, y: Any, noise: Gaussian
    ) -> Reconstruct:
        """From the noisy gradient of one example's loss by the model's parameters, not clipped; labels are known."""
        if not isinstance(noise, Gaussian) or noise.shape is not None:
            raise InvalidInputError("noise on a gradient must be a fisherleak.Gaussian without `shape`.")
        never = 1e12  # a clip that no gradient reaches
        accountant = SGDAccountant(model, loss, 1.0, noise.scale / never, never, keep="matrix").watch(X, y)
        accountant.step()
        watched = accountant._examples()
        mean = watched.gradients.function(watched.y, watched.gradients.parameters())
        F = torch.as_tensor(accountant.fim())
        return cls(mean, watched.X, watched.gradients.shape, noise, F, watched.given)

    @classmethod
    def last_layer(cls, leakage: HeadLeakage, rows: Sequence[int]) -> Reconstruct:
        """From the noisy parameters of a head, fitted anew with a candidate in place of each of a few inputs; labels known.

        Heads of one output, of several numbers or of classes, fitted on the network's outputs as they are.

        Parameters
        ----------
        leakage : HeadLeakage
            Of ``fl.measure(head, fl.nn.on(module, X), y, noise)``, with normal noise.
        rows : sequence of int
            The inputs to rebuild, each by itself, with all others known.
        """
        _check_normal(leakage.noise)
        network, places = leakage._information.network, [int(row) for row in rows]
        wrong = [row for row in places if not 0 <= row < leakage.n]
        if wrong or not places:
            raise InvalidInputError(f"rows must be numbers from 0 to {leakage.n - 1}, at least one; got {places!r}.")
        refit = refit_of(leakage.features, network, places)
        F = torch.stack([torch.as_tensor(leakage.fim([row], label=False)) for row in places])
        given = leakage._information.given
        return cls(refit, network.X[places], network.shape, leakage.noise, F.to(network.X.device), given)

    def run(
        self,
        prior_mean: Any = 0.0,
        prior_sd: float | Array = 1.0,
        limits: tuple[float, float] | None = None,
        steps: int = 300,
        random_state: int | None = None,
    ) -> Reconstruction:
        """Draw one noisy release of every input and rebuild it.

        Parameters
        ----------
        prior_mean, prior_sd : float or array of the shape of one input
            What the attacker expects of each value before the release: normal, independent, sd greater than zero.
        limits : (low, high), optional
            Values are known to lie between these: guesses are cut there.
        steps : int
            Of the optimiser, at most.
        random_state : int, optional
            For the noise.
        """
        if limits is not None and not limits[0] < limits[1]:
            raise InvalidInputError(f"limits must be (low, high) with low < high; got {limits!r}.")
        x = self._truth
        centre, spread = (
            _spread_out(values, name, self._shape, x)
            for values, name in ((prior_mean, "prior_mean"), (prior_sd, "prior_sd"))
        )
        if not bool((spread > 0).all()):
            raise InvalidInputError("prior_sd must be greater than zero everywhere.")
        with torch.no_grad():
            clean = self._mean(x)
        noise = torch.as_tensor(drawn(self._noise, x.shape[0], clean.shape[1], random_state)).to(x)
        guess = self._fitted(clean + noise, centre, spread, steps)
        if limits is not None:
            guess = torch.clip(guess, *limits)
        error = torch.mean((guess - x) ** 2, dim=1)
        bound = self._least_error(1.0 / spread.to(torch.float64) ** 2)
        # the least informative prior on an interval is a squared cosine, of information (pi / half width)^2
        minimax = (
            None
            if limits is None
            else self._least_error(
                torch.full_like(spread, (2.0 * math.pi / (limits[1] - limits[0])) ** 2, dtype=torch.float64)
            )
        )
        eta = torch.sqrt(torch.clip(torch.linalg.eigvalsh(self._information)[:, -1], min=0.0))
        pictures = guess.reshape(x.shape[0], *self._shape)
        inputs, errors, etas = (as_given(values, self._given) for values in (pictures, error, eta))
        return Reconstruction(inputs, errors, bound, minimax, etas)

    def _least_error(self, prior: Tensor) -> float:
        """Mean of the diagonal of the inverse of the mean information and a prior's, (P,)."""
        whole = self._information.mean(dim=0).to(torch.float64) + torch.diag(prior)
        return float(torch.diagonal(torch.linalg.inv(whole)).mean())

    def _fitted(self, released: Tensor, centre: Tensor, spread: Tensor, steps: int) -> Tensor:
        """The most likely inputs, (n, P), searched for in units of the prior."""
        root = self._noise.unit_information_root(released.shape[1])
        W = None if root is None else torch.as_tensor(np.array(root)).to(released)
        z = torch.zeros_like(self._truth).requires_grad_(True)
        optimizer = torch.optim.LBFGS(
            [z],
            max_iter=steps,
            history_size=50,
            line_search_fn="strong_wolfe",
            tolerance_grad=1e-9,
            tolerance_change=1e-12,
        )

        def objective() -> Tensor:
            optimizer.zero_grad()
            with torch.enable_grad():
                apart = (released - self._mean(centre + spread * z)) / self._noise.scale
                apart = apart if W is None else apart @ W.T
                value = 0.5 * (apart**2).sum() + 0.5 * (z**2).sum()
                value.backward()
            return value

        optimizer.step(objective)
        return (centre + spread * z).detach()


def _check_normal(noise: Noise) -> None:
    """Refuse noise for which the nearest input is not the most likely one."""
    if not noise.normal:
        raise InvalidInputError(
            f"Reconstruct searches for the most likely input under normal noise, and this is {type(noise).__name__}: measure "
            "with fisherleak.Gaussian."
        )


def _spread_out(values: Any, name: str, shape: tuple[int, ...], beside: Tensor) -> Tensor:
    """One number per value of an input, (P,)."""
    numbers = torch.as_tensor(np.array(host(values) if hasattr(values, "detach") else values, dtype=np.float64))
    try:
        return torch.broadcast_to(numbers, shape).reshape(-1).to(beside)
    except RuntimeError:
        raise InvalidInputError(
            f"{name} must be a number or have the shape of one input, {shape}; got shape {tuple(numbers.shape)}."
        ) from None

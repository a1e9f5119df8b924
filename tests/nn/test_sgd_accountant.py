""""""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.nn.sgd_accountant import CLIPS, LONGEST, subsampled_information, subsampling_table
from often import often

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn
NEVER = 1e6
"""A clip that no gradient reaches."""


def half_square(out: Any, y: Any) -> Any:
    return 0.5 * ((out[:, 0] - y) ** 2).mean()


def linear(d: int = 4) -> Any:
    torch.manual_seed(0)
    return nn.Linear(d, 1, bias=False).double()


def rows(n: int = 6, d: int = 4) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(1)
    X = torch.randn(n, d, dtype=torch.float64, generator=generator)
    return X, torch.randn(n, dtype=torch.float64, generator=generator)


def network() -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    return model, torch.randn(8, 5, dtype=torch.float64), torch.randint(0, 3, (8,))


@pytest.mark.parametrize("keep", ["matrix", "norm"])
def test_one_full_batch_of_a_linear_model_is_the_closed_form(keep: str) -> None:
    """g = r x with r = w.x - y, so J = x w^T + r I."""
    model, (X, y) = linear(), rows()
    s = 0.7 * NEVER
    accountant = fl.nn.SGDAccountant(model, half_square, 1.0, 0.7, NEVER, keep=keep, tolerance=1e-10, directions=60)
    accountant.watch(X, y).step()
    w = model.weight.detach()[0]
    J = X[:, :, None] * w[None, None, :] + (X @ w - y)[:, None, None] * torch.eye(4)
    torch.testing.assert_close(accountant.per_example(), torch.linalg.matrix_norm(J, ord=2) / s, rtol=1e-8, atol=0)
    mean = (J**2).sum(dim=(1, 2)) / 4 / s**2
    torch.testing.assert_close(accountant.dfil(), mean, rtol=1e-8 if keep == "matrix" else 0.5, atol=0)


def test_information_is_the_covariance_of_the_score() -> None:
    """Draws of a noisy clipped gradient with and without the example; the score by differentiating the mixture's density."""
    model, (X, y) = linear(2), rows(1, 2)
    q, noise, clip = 0.3, 0.8, 1.5
    accountant = fl.nn.SGDAccountant(model, half_square, q, noise, clip, keep="matrix", clip="smooth").watch(X, y)
    accountant.step()
    s, w = noise * clip, model.weight.detach()[0]

    def clipped(x: Any) -> Any:
        g = (w @ x - y[0]) * x
        return g / (1.0 + torch.nn.functional.gelu(g.norm() / clip - 1.0))

    def log_density(x: Any, u: Any) -> Any:
        outside, inside = -0.5 * (u**2).sum() / s**2, -0.5 * ((u - clipped(x)) ** 2).sum() / s**2
        return torch.logaddexp(torch.log(torch.tensor(1 - q)) + outside, torch.log(torch.tensor(q)) + inside)

    n = 200_000
    generator = torch.Generator().manual_seed(2)
    is_in = torch.rand(n, generator=generator) < q
    u = s * torch.randn(n, 2, dtype=torch.float64, generator=generator) + is_in[:, None] * clipped(X[0])
    score = torch.func.vmap(torch.func.grad(log_density), in_dims=(None, 0))(X[0], u)
    products = score[:, :, None] * score[:, None, :]
    error = products.std(dim=0) / n**0.5
    assert bool(((products.mean(dim=0) - accountant.fim()[0]).abs() <= 5 * error + 1e-6).all())


@pytest.mark.parametrize("clip", ["hard", "smooth"])
def test_matrices_are_those_of_the_clipped_gradient(clip: str) -> None:
    """Full batch: F = D^T D / s^2 with D the derivative of the clipped gradient, of clipped and unclipped examples."""
    model, X, y = network()
    loss = nn.CrossEntropyLoss()
    lengths = [
        torch.cat([g.ravel() for g in torch.autograd.grad(loss(model(X[[i]]), y[[i]]), model.parameters())]).norm()
        for i in range(8)
    ]
    C = float(torch.stack(lengths).median())
    accountant = fl.nn.SGDAccountant(model, loss, 1.0, 0.5, C, clip=clip, keep="matrix").watch(X, y)
    accountant.step()
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def clipped(x: Any, label: Any) -> Any:
        g = torch.func.grad(lambda p: loss(torch.func.functional_call(model, p, (x[None],)), label[None]))(parameters)
        flat = torch.cat([part.ravel() for part in g.values()])
        ratio = flat.norm() / C
        return flat / (torch.clip(ratio, min=1.0) if clip == "hard" else 1.0 + nn.functional.gelu(ratio - 1.0))

    for i in range(8):
        if abs(float(lengths[i]) - C) > 1e-9:  # not at the kink
            D = torch.func.jacrev(clipped)(X[i], y[i])
            torch.testing.assert_close(accountant.fim()[i], D.T @ D / (0.5 * C) ** 2, rtol=1e-9, atol=1e-12)


def walked(model: Any, accountants: list[Any], steps: int = 4) -> None:
    """A path, the same for every accountant."""
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        for accountant in accountants:
            accountant.step()
        with torch.no_grad():
            for p in model.parameters():
                p += 0.1 * torch.randn(p.shape, dtype=p.dtype, generator=generator)


def made(model: Any, X: Any, y: Any, **options: Any) -> Any:
    settings = {"sample_rate": 0.1, "noise_multiplier": 0.8, "max_grad_norm": 0.6} | options
    return fl.nn.SGDAccountant(model, nn.CrossEntropyLoss(), **settings).watch(X, y)


def test_sums_of_norms_bound_norms_of_sums_and_poisson_is_below_fixed_batches() -> None:
    model, X, y = network()
    both = [made(model, X, y, keep=keep, tolerance=1e-9) for keep in ("matrix", "norm")]
    fixed = made(model, X, y, sampling="fixed")
    walked(model, [*both, fixed])
    exact, sums, published = (x.per_example() for x in (*both, fixed))
    assert bool((exact <= sums * (1 + 1e-9)).all())
    assert bool((sums <= 2.0 * exact).all())
    assert bool((exact < published).all())
    assert "matrices added up" in both[0].kind
    assert "bound on the information along this path" in both[1].kind


def test_a_bound_for_every_path_is_above_the_path() -> None:
    model, X, y = network()
    accountant = made(model, X, y)
    largest = 0.0
    generator = torch.Generator().manual_seed(3)
    for _ in range(3):
        alone = made(model, X, y, sample_rate=1.0).watch(X, y)
        alone.step()
        largest = max(largest, float(alone.per_example().max()) * 0.8 * 0.6)
        accountant.step()
        with torch.no_grad():
            for p in model.parameters():
                p += 0.1 * torch.randn(p.shape, dtype=p.dtype, generator=generator)
    assert float(accountant.per_example().max()) <= accountant.bound(largest)


def test_random_directions_differ_from_draw_to_draw_and_average_to_the_trace() -> None:
    model, X, y = network()
    exact = made(model, X, y, keep="matrix")
    once, many = (made(model, X, y, keep="norm", directions=k, random_state=0) for k in (1, 60))
    for accountant in (exact, once, many):
        accountant.step()
    first = once.dfil().clone()
    once.step()
    assert not torch.allclose(once.dfil(), 2 * first)
    torch.testing.assert_close(many.dfil(), exact.dfil(), rtol=0.5, atol=0)


def test_every_so_many_steps_is_an_estimate_of_the_sum() -> None:
    model, X, y = network()
    all_steps, some = made(model, X, y), made(model, X, y, every=2)
    for _ in range(4):  # the model stays, so that steps are the same
        all_steps.step()
        some.step()
    torch.testing.assert_close(all_steps.per_example(), some.per_example())
    assert "an estimate from one step in 2" in some.kind


def test_a_saved_state_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    model, X, y = network()
    whole = made(model, X, y, keep="norm", random_state=5)
    first = made(model, X, y, keep="norm", random_state=5)
    first.step()
    first.save(tmp_path / "state.npz")
    second = made(model, X, y, keep="norm", random_state=99).resume(tmp_path / "state.npz")
    second.step()
    for _ in range(2):
        whole.step()
    torch.testing.assert_close(second.per_example(), whole.per_example(), rtol=0, atol=0)
    torch.testing.assert_close(second.dfil(), whole.dfil(), rtol=0, atol=0)
    assert (second.steps, second.bound(1.0)) == (2, whole.bound(1.0))
    with np.load(tmp_path / "state.npz", allow_pickle=False) as file:
        assert json.loads(file["record"].tobytes())["steps"] == 1
    with pytest.raises(fl.InvalidInputError, match=r"noise_multiplier is 0\.9 here and 0\.8 in the file"):
        made(model, X, y, keep="norm", noise_multiplier=0.9).resume(tmp_path / "state.npz")
    with pytest.raises(fl.InvalidInputError, match="examples is"):
        made(model, X + 1, y, keep="norm").resume(tmp_path / "state.npz")
    with pytest.raises(fl.DataError, match="cannot be read as a saved accountant"):
        made(model, X, y).resume(tmp_path / "nothing.npz")


def test_some_rows_and_frozen_parameters() -> None:
    model, X, y = network()
    everyone = made(model, X, y)
    some = fl.nn.SGDAccountant(model, nn.CrossEntropyLoss(), 0.1, 0.8, 0.6).watch(X.numpy(), y.numpy(), rows=[6, 2])
    for accountant in (everyone, some):
        accountant.step()
    assert isinstance(some.per_example(), np.ndarray)
    np.testing.assert_allclose(some.per_example(), everyone.per_example()[[6, 2]].numpy())
    for p in model[0].parameters():
        p.requires_grad_(False)
    head = made(model, X, y, max_grad_norm=NEVER, noise_multiplier=1e-6)
    head.step()
    assert float(head.per_example().max()) > 0


class Optimizer:
    """What an Opacus optimizer tells its hook."""

    noise_multiplier, accumulated_iterations = 0.8, 1

    def __init__(self, max_grad_norm: float) -> None:
        self.max_grad_norm = max_grad_norm


class Books:
    def __init__(self) -> None:
        self.steps: list[float] = []

    def get_optimizer_hook_fn(self, sample_rate: float) -> Any:
        return lambda optimizer: self.steps.append(sample_rate)


class Engine:
    def __init__(self) -> None:
        self.accountant = Books()

    def make_private(self, **options: object) -> str:
        return "made"


def test_an_engine_counts_both() -> None:
    model, X, y = network()
    plain = made(model, X, y)
    plain.step()
    engine = Engine()
    attached = made(model, X, y, sample_rate=0.5, noise_multiplier=3.0).attach(engine)
    hook = engine.accountant.get_optimizer_hook_fn(0.1)
    hook(Optimizer(0.6))
    torch.testing.assert_close(attached.per_example(), plain.per_example())
    assert engine.accountant.steps == [0.1]
    with pytest.raises(fl.InvalidInputError, match=r"max_grad_norm is 0\.6 here and 1\.0 in the engine"):
        hook(Optimizer(1.0))
    with pytest.raises(fl.InvalidInputError, match="attach takes an Opacus PrivacyEngine"):
        attached.attach(3)


def test_an_engine_that_works_in_another_way_is_refused() -> None:
    model, X, y = network()
    engine, fixed = Engine(), Engine()
    made(model, X, y).attach(engine)
    made(model, X, y, sampling="fixed").attach(fixed)
    assert engine.make_private(clipping="flat", poisson_sampling=True) == "made"
    assert fixed.make_private(poisson_sampling=False) == "made"
    with pytest.raises(fl.InvalidInputError, match="poisson_sampling is False in the engine"):
        engine.make_private(poisson_sampling=False)
    for each in (engine, fixed):
        with pytest.raises(fl.InvalidInputError, match="clipping is 'per_layer' in the engine"):
            each.make_private(clipping="per_layer")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # Opacus has much to say
def test_opacus_trains_as_before_and_is_counted() -> None:
    opacus = pytest.importorskip("opacus", reason="opacus is not installed")
    torch.manual_seed(0)
    model, loss = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)), nn.CrossEntropyLoss()
    X, y = torch.randn(40, 5), torch.randint(0, 3, (40,))
    engine = opacus.PrivacyEngine(accountant="rdp")
    accountant = fl.nn.SGDAccountant(model, loss, 0.25, 1.0, 0.5).watch(X, y).attach(engine)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=10)
    private, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=loader,
        noise_multiplier=1.0,
        max_grad_norm=0.5,
    )
    before = [p.detach().clone() for p in model.parameters()]
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss(private(inputs), labels).backward()
        optimizer.step()
    assert accountant.steps == 4
    assert engine.get_epsilon(1e-3) > 0
    assert float(accountant.per_example().min()) > 0
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    other = opacus.PrivacyEngine(accountant="rdp")
    fl.nn.SGDAccountant(nn.Linear(5, 3), loss, 0.25, 1.0, 0.5).attach(other)
    options = {"optimizer": torch.optim.SGD([torch.ones(1)], lr=0.1), "data_loader": loader}
    with pytest.raises(fl.InvalidInputError, match="poisson_sampling is False in the engine"):
        other.make_private_with_epsilon(
            module=nn.Linear(5, 3),
            **options,
            target_epsilon=3.0,
            target_delta=1e-3,
            epochs=1,
            max_grad_norm=0.5,
            poisson_sampling=False,
        )


def test_what_cannot_be_counted_is_refused() -> None:
    model, X, y = network()
    for options, message in (
        ({"sample_rate": 1.5}, "sample_rate must be at most 1"),
        ({"clip": "soft"}, "clip is 'soft'"),
        ({"sampling": "none"}, "sampling is 'none'"),
        ({"keep": "trace"}, "keep is 'trace'"),
        ({"every": 0}, "every must be a whole number"),
        ({"noise_multiplier": 0.0}, "noise_multiplier must be a finite number"),
    ):
        with pytest.raises(fl.InvalidInputError, match=message):
            made(model, X, y, **options)
    with pytest.raises(fl.InvalidInputError, match="No examples are watched"):
        fl.nn.SGDAccountant(model, nn.CrossEntropyLoss(), 0.1, 1.0, 1.0).step()
    with pytest.raises(fl.InvalidInputError, match="must be a torch module"):
        fl.nn.SGDAccountant(len, nn.CrossEntropyLoss(), 0.1, 1.0, 1.0)
    with pytest.raises(fl.InvalidInputError, match="differs by batch"):
        fl.nn.SGDAccountant(nn.Sequential(nn.BatchNorm1d(5)), nn.CrossEntropyLoss(), 0.1, 1.0, 1.0)
    accountant = made(model, X, y)
    accountant.step()
    with pytest.raises(fl.InvalidInputError, match="watch must come before"):
        accountant.watch(X, y)
    with pytest.raises(fl.InvalidInputError, match="fim needs the matrices"):
        made(model, X, y, keep="norm").fim()
    assert repr(accountant).startswith("SGDAccountant(8 examples, 1 steps, information along this path")


RATES = [0.001, 0.01, 0.1, 0.5, 0.9]


@pytest.mark.parametrize("q", RATES)
@pytest.mark.parametrize("rho", often([1.0, 0.3, 3.0]))
def test_both_eigenvalues_are_the_covariance_of_the_score(q: float, rho: float) -> None:
    """Monte Carlo in three dimensions, half of the draws from each part of the mixture."""
    rng, n = np.random.default_rng(0), 400_000
    g = np.array([rho, 0.0, 0.0])
    total = np.zeros((3, 3))
    errors = np.zeros((3, 3))
    for share, mean in ((1 - q, 0.0 * g), (q, g)):
        u = mean + rng.standard_normal((n, 3))
        odds = (1 - q) / q * np.exp(-u[:, 0] * rho + 0.5 * rho**2)
        score = (u - g) / (1.0 + odds)[:, None]
        products = score[:, :, None] * score[:, None, :]
        total += share * products.mean(axis=0)
        errors += (share * products.std(axis=0)) ** 2 / n
    across, along = subsampled_information(q, np.array([rho]))
    expected = np.diag([along[0], across[0], across[0]])
    assert (np.abs(total - expected) <= 5.0 * np.sqrt(errors)).all()


@pytest.mark.parametrize("q", RATES)
def test_information_lies_between_its_limit_at_zero_and_the_published_bound(q: float) -> None:
    rho = np.geomspace(1e-3, 60.0, 200)
    for values in subsampled_information(q, rho):
        assert (values <= q * (1 + 1e-12)).all()
        np.testing.assert_allclose(values[0], q * q, rtol=1e-5)
        np.testing.assert_allclose(values[-1], q, rtol=1e-9)
    across, _ = subsampled_information(q, rho)
    assert (np.diff(across) > -1e-15).all()


def test_the_gain_over_the_published_bound() -> None:
    for rho, gain in ((0.1, 9.9), (1.0, 4.6)):
        worst = max(values[0] for values in subsampled_information(0.01, np.array([rho])))
        assert round(float(np.sqrt(0.01 / worst)), 1) == gain


def test_who_is_always_in_is_told_as_by_plain_noise() -> None:
    for values in subsampled_information(1.0, np.array([0.0, 1.0, 9.0])):
        np.testing.assert_array_equal(values, 1.0)


@pytest.mark.parametrize("q", [1e-6, *RATES])
@pytest.mark.parametrize("largest", often([5.0, 0.2, 10.0, 39.0, 200.0], 4))
def test_tables_err_on_the_safe_side_and_little(q: float, largest: float) -> None:
    """Etas are within 1e-4 of the truth, and never below: what the documentation says of noisy SGD."""
    rho = np.random.default_rng(0).uniform(0.0, largest, 100)
    table = subsampling_table(q, largest)
    for safe, exact in zip(table.at(rho), subsampled_information(q, rho), strict=True):
        assert (safe >= exact * (1 - 1e-12)).all()
        assert (np.sqrt(safe) <= np.sqrt(exact) * (1 + 1e-4)).all()
        assert (safe <= q).all()
        assert table.worst >= safe.max()


def test_batches_of_fixed_size_have_the_published_bound() -> None:
    for values in subsampling_table(0.1, 3.0, "fixed").at(np.array([0.0, 2.0])):
        np.testing.assert_array_equal(values, 0.1)


def test_lengths_past_the_table_are_refused() -> None:
    with pytest.raises(fl.InvalidInputError, match="rho must be at most 1"):
        subsampling_table(0.1, 1.0).at(np.array([1.1]))


@pytest.mark.parametrize("name", CLIPS)
def test_both_factors_are_the_derivative_of_the_clipped_vector(name: str) -> None:
    clip, most, h = CLIPS[name], 2.5, 1e-6

    def clipped(v: np.ndarray) -> np.ndarray:
        alpha, _, after = clip(np.array([np.linalg.norm(v)]), most)
        np.testing.assert_allclose(after[0], alpha[0] * np.linalg.norm(v))
        return np.asarray(alpha[0] * v)

    for length in (0.2, 1.0, 2.4, 2.7, 9.0):
        g = np.array([length, 0.0])
        D = np.stack([(clipped(g + h * e) - clipped(g - h * e)) / (2 * h) for e in np.eye(2)], axis=1)
        alpha, beta, _ = clip(np.array([length]), most)
        np.testing.assert_allclose(D, np.diag([beta[0], alpha[0]]), atol=1e-8)


def test_at_the_kink_the_larger_side_counts() -> None:
    alpha, beta, after = CLIPS["hard"](np.array([2.5]), 2.5)
    assert (alpha[0], beta[0], after[0]) == (1.0, 1.0, 2.5)


@pytest.mark.parametrize("name", CLIPS)
def test_no_vector_is_longer_than_promised(name: str) -> None:
    _, _, after = CLIPS[name](np.geomspace(1e-3, 1e6, 200_000), 1.0)
    assert after.max() <= LONGEST[name]
    assert after.max() > LONGEST[name] - 2e-4

"""Arrays in, arrays of the same library and device out, with the same numbers. Runs on a GPU machine as it is."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from cases import make
from fisherleak._support.arrays import MANY, device, host, inverse_of, is_lazy, solver_of, times
from fisherleak.protection.irfil.irfil_iteration import balance, group_targets
from fisherleak.rows import memory
from often import often

ATTRIBUTES = [
    fl.Attribute("block", [0, 1]),
    fl.Attribute.one_hot("levels", [1, 2, 3]),
    fl.Attribute("unit", [3], [[0.1]]),
]
To = Callable[[Any], Any]


def values(x: Any) -> Any:
    return np.asarray(x.compute()) if is_lazy(x) else host(x)


def close(actual: Any, desired: Any, rtol: float = 1e-11) -> None:
    np.testing.assert_allclose(values(actual), desired, rtol=rtol)


def same_kind(result: Any, X: Any) -> bool:
    return type(result) is type(X) and device(result) == device(X)


BY_VALUE = ("per_example", "per_cell", "per_label")


def answers(leak: fl.Leakage) -> dict[str, Any]:
    """What every method of a leakage says."""
    return {
        **{method: getattr(leak, method)() for method in (*BY_VALUE, "per_attribute")},
        "one attribute": leak.per_example([0]),
        "with the label": leak.per_example([0], label=True),
        "dataset": np.float64(leak.dataset()),
        "some": np.float64(leak.of([1, 5], [1])),
        "fim": leak.fim([0, 3], [0, 1]),
        "calibrated": np.float64(fl.calibrate(leak, 0.1).scale),
    }


@functools.cache
def reference(loss: str, intercept: bool, grouped: bool) -> tuple[dict[str, Any], str]:
    case = make(loss, 3, 60, 4, weighted=True, intercept=intercept)
    leak = case.leak(fl.Gaussian(0.3), ATTRIBUTES if grouped else None)
    return answers(leak), leak.summary()


def check_every_method(to: To, loss: str, intercept: bool) -> None:
    case = make(loss, 3, 60, 4, weighted=True, intercept=intercept)
    X, y, weights = to(case.X), to(case.y), to(case.weights)
    fit = fl.minimise(X, y, case.loss, case.l2, weights, intercept)
    assert is_lazy(X) or same_kind(fit.coef, X)
    close(fit.coef, case.fit().coef)
    for grouped in (False, True):
        leak = fl.measure(fit, X, y, fl.Gaussian(0.3), weights, ATTRIBUTES if grouped else None)
        ours, (expected, summary) = answers(leak), reference(loss, intercept, grouped)
        for name in expected:
            close(ours[name], expected[name], rtol=1e-10 if name == "calibrated" else 1e-11)
        assert all(same_kind(ours[name], X) for name in BY_VALUE)
        assert same_kind(ours["per_attribute"], fit.coef)
        assert leak.summary()[:40] == summary[:40]


@pytest.mark.parametrize(
    ("loss", "intercept"),
    [
        *(("logistic", True), ("logistic", False), ("poisson", True)),
        *(
            pytest.param(loss, True, marks=pytest.mark.long)
            for loss in fl.LOSSES
            if loss not in ("logistic", "poisson")
        ),
    ],
)
def test_every_method(to_rows: To, loss: str, intercept: bool) -> None:
    check_every_method(to_rows, loss, intercept)


@pytest.mark.parametrize("name", ["numpy", "strict"])
def test_every_method_of_arrays_that_allow_more(name: str) -> None:
    """Arrays that can be written to, and those of the strict library on its first device."""
    conftest = pytest.importorskip("conftest")
    check_every_method(conftest.MEMORY[name], "logistic", True)


def test_rows_and_groups_in_every_form(to_rows: To) -> None:
    case = make("logistic", 3, 60, 4, intercept=True)
    X, y = to_rows(case.X), to_rows(case.y)
    ours = fl.measure(fl.minimise(X, y, "logistic", case.l2, None, True), X, y)
    reference = case.leak()
    mask, groups = case.X[:, 0] > 0.3, np.arange(60) % 3
    wanted = reference.of(mask)
    for rows in (mask, to_rows(mask), np.flatnonzero(mask), np.flatnonzero(mask).tolist()):
        assert ours.of(rows) == pytest.approx(wanted, rel=1e-11)
    with pytest.raises(fl.InvalidInputError, match="must not repeat"):
        ours.of([1, 1])
    with pytest.raises(fl.InvalidInputError, match="from 0 to 59; got 60"):
        ours.of([1, 60])
    text = np.array(["red", "green", "blue"])[groups]
    for labels in (groups, to_rows(groups), groups.tolist(), text.tolist()):
        found = ours.by_group(labels)
        expected = reference.by_group(
            text.tolist() if isinstance(labels, list) and isinstance(labels[0], str) else groups
        )
        assert list(found) == list(expected)
        assert found == pytest.approx(expected, rel=1e-11)
    missing = np.where(groups == 1, np.nan, groups)
    assert ours.by_group(to_rows(missing)) == pytest.approx(reference.by_group(missing), rel=1e-11)


def test_composition(to_rows: To) -> None:
    case, other = make("logistic", 3, 40, 3), make("logistic", 3, 40, 3, l2=1.0, intercept=True)
    reference = fl.compose(case.leak(), other.leak(fl.Gaussian(2.0)))
    X, y = to_rows(case.X), to_rows(case.y)
    parts = [
        fl.measure(fl.minimise(X, y, "logistic", c.l2, None, c.intercept), X, y, fl.Gaussian(s))
        for c, s in ((case, 1.0), (other, 2.0))
    ]
    ours = fl.compose(*parts)
    for method in ("per_example", "per_cell", "per_attribute"):
        close(getattr(ours, method)(), getattr(reference, method)())
    assert ours.dataset() == pytest.approx(reference.dataset(), rel=1e-11)
    groups = np.arange(40) % 2
    assert ours.by_group(groups) == pytest.approx(reference.by_group(groups), rel=1e-11)


def test_refusals_are_the_same(to_rows: To) -> None:
    case = make("squared", 3, 20, 3)
    broken, labels = case.X.copy(), case.y.copy()
    broken[18, 2], labels[19] = np.nan, np.inf
    with pytest.raises(fl.InvalidInputError, match="row 18, column 2 is nan"):
        fl.minimise(to_rows(broken), to_rows(case.y))
    with pytest.raises(fl.InvalidInputError, match="y must be finite; row 19 is inf"):
        fl.minimise(to_rows(case.X), to_rows(labels))
    with pytest.raises(fl.InvalidInputError, match="zero or more; row 19 is -1"):
        fl.minimise(to_rows(case.X), to_rows(case.y), sample_weight=to_rows(np.where(np.arange(20) == 19, -1.0, 1.0)))
    with pytest.raises(fl.InvalidInputError, match="zero for every row"):
        fl.minimise(to_rows(case.X), to_rows(case.y), sample_weight=to_rows(np.zeros(20)))
    with pytest.raises(fl.InvalidInputError, match=r"0 or 1; y is 3 in row 18"):
        fl.minimise(to_rows(case.X), to_rows(np.where(np.arange(20) == 18, 3.0, 0.0)), "logistic")
    with pytest.raises(fl.SingularHessianError, match="rank is 3 of 4"):
        fl.minimise(to_rows(np.column_stack([case.X, case.X[:, 0]])), to_rows(case.y))
    fit = fl.minimise(to_rows(case.X), to_rows(case.y))
    with pytest.raises(fl.InvalidInputError, match="not at a minimum"):
        fl.measure(fit, to_rows(case.X), to_rows(case.y[::-1].copy()))


def test_labels_may_be_a_list_or_numpy(to_rows: To) -> None:
    case = make("squared", 3, 20, 3, weighted=True)
    fit = fl.minimise(to_rows(case.X), case.y.tolist(), sample_weight=case.weights)
    close(fit.coef, fl.minimise(case.X, case.y, sample_weight=case.weights).coef)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_single_precision(to_rows: To, loss: str) -> None:
    """The work is in double precision: all that is lost is what the data lost."""
    case = make(loss, 3, 200, 5, intercept=True)
    rounded = case.X.astype(np.float32)
    X, y = to_rows(rounded), to_rows(case.y.astype(np.float32))
    fit = fl.minimise(X, y, loss, case.l2, None, True)
    eta = fl.measure(fit, X, y).per_example()
    exact = fl.minimise(
        rounded.astype(np.float64), case.y.astype(np.float32).astype(np.float64), loss, case.l2, None, True
    )
    wide = fl.measure(exact, rounded.astype(np.float64), case.y.astype(np.float32).astype(np.float64)).per_example()
    close(eta, wide)
    close(eta, case.leak().per_example(), rtol=1e-5)


@pytest.mark.parametrize("elements", [64, 2**10])
def test_any_block_size_gives_the_same_numbers(to_rows: To, elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = make("logistic", 5, 100, 3, weighted=True, intercept=True)
    reference = case.leak()
    for name in ("BLOCK_ELEMENTS", "ACCELERATOR_ELEMENTS", "ACCELERATOR_MOST"):
        monkeypatch.setattr(memory, name, elements)
    monkeypatch.setattr(memory, "SMALLEST_BLOCK", 8)
    X, y, weights = to_rows(case.X), to_rows(case.y), to_rows(case.weights)
    ours = fl.measure(fl.minimise(X, y, "logistic", case.l2, weights, True), X, y)
    close(ours.per_example(), reference.per_example())
    close(ours.per_cell(), reference.per_cell())
    assert ours.dataset() == pytest.approx(reference.dataset(), rel=1e-11)
    assert ours.summary().partition("fit")[0] == reference.summary().partition("fit")[0]


# Attacks and reweighting


def binary_case(n: int = 60) -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 2, n), rng.integers(0, 3, n)]).astype(float)
    return X, X @ rng.normal(size=5) + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("attribute", often([4, 3]))
def test_white_box(to_backend: To, loss: str, attribute: int) -> None:
    X, y = binary_case()
    y = (y > 0) * 1.0 if loss == "logistic" else y
    noise, rows = fl.Gaussian(0.2), np.arange(0, 60, 2)
    exact = fl.attacks.WhiteBox(fl.minimise(X, y, loss, 0.1), X, y, attribute, rows=rows)
    there = to_backend(X), to_backend(y)
    fit = fl.minimise(*there, loss, 0.1)
    ours = fl.attacks.WhiteBox(fit, *there, attribute, rows=to_backend(rows))
    released = np.stack([host(fit.theta) + noise.draw(5, seed) for seed in range(3)])
    assert same_kind(ours.infer(released), there[0])
    np.testing.assert_array_equal(host(ours.infer(released)), exact.infer(released))
    np.testing.assert_array_equal(host(ours.truth), exact.truth)
    close(ours.accuracy(noise), exact.accuracy(noise), rtol=1e-7)
    close(ours.accuracy(noise, over="prior"), exact.accuracy(noise, over="prior"), rtol=1e-7)
    assert ours.against(noise).accuracy == pytest.approx(exact.against(noise).accuracy, rel=1e-7)
    assert ours.against(released).low == pytest.approx(exact.against(released).low)
    knowing = fl.attacks.WhiteBox(fit, *there, attribute, use_prior=True)
    assert same_kind(knowing.accuracy(noise), there[0])


@pytest.mark.parametrize("accelerate", [False, True])
def test_reweighting(to_backend: To, accelerate: bool) -> None:
    case = make("squared", 3, 60, 4)

    def etas(X: Any, y: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
        return lambda weights, _: (fl.measure(fl.minimise(X, y, "squared", 0.1, weights), X, y).per_example(), None)

    X, y = to_backend(case.X), to_backend(case.y)
    members = [np.arange(0, 60, 2), np.arange(1, 60, 2)]
    there = [to_backend(rows) for rows in members]
    weights = np.where(np.arange(60) == 7, 0.0, 1.0)
    # even etas of all rows, and the same with steps from earlier ones for each of two groups
    targets: dict[str, Any] = {"targets": lambda e, c: group_targets(e, c, members)} if accelerate else {}
    ours: dict[str, Any] = {"targets": lambda e, c: group_targets(e, c, there)} if accelerate else {}
    options: dict[str, Any] = {"n_iter": 6, "limits": (0.2, 3.0), "accelerate": accelerate}
    *_, last = balance(etas(case.X, case.y), weights, **options, **targets)
    *_, found = balance(etas(X, y), to_backend(weights), **options, **ours)
    assert same_kind(found.weights, X)
    np.testing.assert_allclose(host(found.weights), last.weights, rtol=1e-8)
    assert found.spread == pytest.approx(last.spread, rel=1e-6)


@pytest.mark.parametrize("name", ["torch", "torch-cuda", "cupy"])
def test_scikit_learn_models_fitted_in_place(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    conftest = pytest.importorskip("conftest")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    to = conftest.MEMORY[name]
    to(np.zeros(1))
    from sklearn import config_context
    from sklearn.linear_model import Ridge, RidgeClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler

    X, y = binary_case()
    there = to(X)
    for model, labels in (
        (Ridge(solver="svd"), y),
        (make_pipeline(MinMaxScaler(), Ridge(alpha=0.3, solver="svd")), y),
        (RidgeClassifier(solver="svd"), (y > 0) * 1),
    ):
        with config_context(array_api_dispatch=True):
            fitted = model.fit(there, to(labels))
        ours = fl.measure(fitted, there, to(labels))
        assert same_kind(ours.per_example(), there)
        reference = fl.measure(model.fit(X, labels), X, labels)
        close(ours.per_example(), reference.per_example(), rtol=1e-8)
        close(ours.per_cell(), reference.per_cell(), rtol=1e-8)
        with config_context(array_api_dispatch=True):
            balanced = fl.IRFIL(model, n_iter=3).fit(there, to(labels))
        assert same_kind(balanced.weights_, there)
        close(balanced.weights_, fl.IRFIL(model, n_iter=3).fit(X, labels).weights_, rtol=1e-8)


# What travels between a device and the host


class Watch:
    """Counts what torch tensors are asked for, and refuses to copy long ones."""

    LONGEST = 2_000

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        tensor = pytest.importorskip("torch").Tensor
        for name in ("cpu", "numpy", "__array__", "tolist", "item", "__float__", "__int__", "__bool__", "__index__"):
            monkeypatch.setattr(tensor, name, self._watched(name, getattr(tensor, name)))

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def method(tensor: Any, *args: Any, **options: Any) -> Any:
            self.counts[name] += 1
            assert tensor.numel() <= self.LONGEST, f"{name} of a tensor of shape {tuple(tensor.shape)}"
            return real(tensor, *args, **options)

        return method

    @property
    def copies(self) -> int:
        return sum(self.counts[name] for name in ("cpu", "item", "__float__", "__int__", "__bool__"))


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    pytest.importorskip("torch")
    return Watch(monkeypatch)


def test_nothing_long_leaves_the_device(watch: Watch) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    n = 5_000
    values = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 2, n)])
    there = "cuda" if torch.cuda.is_available() else "cpu"
    X = torch.asarray(values, device=there)
    y = torch.asarray(values @ [1.0, 2.0, -1.0, 0.5] + rng.normal(size=n), device=there)
    weights = torch.asarray(rng.gamma(2.0, 0.5, n), device=there)
    with pytest.raises(AssertionError, match="cpu of a tensor"):
        host(X)
    for loss, labels in (("squared", y), ("logistic", (y > 0) * 1.0)):
        fit = fl.minimise(X, labels, loss, 0.01, weights, True)
        leak = fl.measure(fit, X, labels, sample_weight=weights)
        leak.per_example(), leak.per_cell(), leak.per_label(), leak.per_attribute(), leak.dataset()
        leak.of(X[:, 0] > 0), leak.by_group(X[:, 3]), leak.fim([1, 2]), leak.summary(), leak.by_group("x3")
        fl.calibrate(leak, 0.1), fl.compose(leak, leak).dataset()
    squared = fl.minimise(X, y, "squared", 0.01)
    attack = fl.attacks.WhiteBox(squared, X, y, 3)
    attack.infer(), attack.accuracy(fl.Gaussian(0.1)), attack.against(fl.Gaussian(0.1)), attack.against()

    def etas(weights: Any, _: Any) -> tuple[Any, None]:
        return fl.measure(fl.minimise(X, y, "squared", 0.01, weights), X, y).per_example(), None

    *_, last = balance(etas, weights, 2, limits=(0.1, 5.0), accelerate=True)
    assert last.spread > 0


def test_copies_to_the_host_are_few(watch: Watch) -> None:
    """A handful for each pass, whatever the number of rows: they do not grow with n."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    counts = []
    for n in (2_000, 200_000):
        X = torch.asarray(rng.normal(size=(n, 4)))
        y = X @ torch.asarray([1.0, 2.0, 3.0, 4.0], dtype=torch.float64) + torch.asarray(rng.normal(size=n))
        watch.counts.clear()
        fit = fl.minimise(X, y, l2=0.1)
        leak = fl.measure(fit, X, y)
        before = watch.copies
        leak.per_example()
        counts.append((before, watch.copies - before))
    # three passes of checks, five or six of the fit; one or two eigenvalue problems
    assert max(fitting for fitting, _ in counts) <= 40
    assert max(by_row for _, by_row in counts) <= 30, counts


# products and inverses with mostly empty matrices are those of full ones


def _arrow(size: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    arrow = np.diag(rng.uniform(0.5, 2.0, size))
    arrow[-1, :-1] = rng.standard_normal(size - 1)
    return arrow


@pytest.mark.parametrize("size", [5, MANY])
def test_products(size: int) -> None:
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((size, 7))
    full = rng.standard_normal((size, size))
    np.testing.assert_allclose(times(_arrow(size), matrix), _arrow(size) @ matrix, atol=1e-13)
    np.testing.assert_array_equal(times(full, matrix), full @ matrix)
    first = np.eye(size, size + 3)  # the first lines of a matrix, without a copy
    tall = rng.standard_normal((size + 3, 7))
    np.testing.assert_array_equal(times(first, tall), tall[:size])
    assert np.shares_memory(times(first, tall), tall) == (size >= MANY)


@pytest.mark.parametrize("size", [5, MANY])
def test_inverses(size: int) -> None:
    full = np.eye(size) + np.random.default_rng(2).standard_normal((size, size)) / (4 * size**0.5)
    for matrix in (_arrow(size), full):
        np.testing.assert_allclose(inverse_of(matrix) @ matrix, np.eye(size), atol=1e-9)
    hollow = np.tril(full)
    hollow[2, 2] = 0.0
    with pytest.raises(np.linalg.LinAlgError):
        inverse_of(hollow)
    for matrix in (_arrow(size), _arrow(size).T, full):
        columns = np.random.default_rng(3).standard_normal((size, 4))
        np.testing.assert_allclose(matrix @ solver_of(matrix)(columns), columns, atol=1e-9)

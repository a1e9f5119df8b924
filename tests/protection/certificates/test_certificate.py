"""The certified bound: for every label, not for the ends of their range alone; and over rows whose score is in an interval."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from scipy.optimize import linprog
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl
from fisherleak.protection.certificates import certificate
from fisherleak.protection.certificates.bound_quantities import feature_map, points_of, quantities_of, value_map
from fisherleak.protection.certificates.certificate import bound, most_within
from fisherleak.protection.certificates.declared_bounds import admissible_rows


def bounds_of(loss: str, labels: tuple[float, float]) -> tuple[float, float]:
    """Over all labels at once, and the largest of those for single labels between."""
    X = 0.3 + 0.1 * np.linspace(-1.0, 1.0, 6)[:, None].round(3)
    y = np.linspace(0.5, 1.0, 6)
    leak = fl.measure(fl.minimise(X, y, loss, l2=0.05), X, y)
    jacobian = leak._information.jacobians[0]
    ends = {"x0": (float(X.min() - 0.01), float(X.max() + 0.01)), "label": labels}
    admissible = admissible_rows(jacobian, leak._table, ends)
    q, _, omega = quantities_of(jacobian, points_of(jacobian, admissible), leak._chosen(None, False)[0])
    single = (bound(q, jacobian.fit.loss, np.array([y]), omega, False).value for y in np.linspace(*labels, 65))
    return bound(q, jacobian.fit.loss, admissible.labels, omega, False).value, max(single)


@pytest.mark.parametrize("loss", ["gamma", "poisson"])
def test_no_label_between_the_ends_has_a_larger_bound(loss: str) -> None:
    together, single = bounds_of(loss, (0.001, 1.05))
    assert single <= together * (1 + 1e-12) < 1.3 * single


def test_labels_between_the_ends_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the Gamma loss: curvature grows with the label where the gradient falls."""
    monkeypatch.setattr(certificate, "_label_cells", lambda kind, labels: [np.array([y]) for y in labels])
    together, single = bounds_of("gamma", (0.001, 1.05))
    assert single > together * 1.001


# the largest value of a convex function over rows whose score lies in an interval

RNG_POINTS = 40


def case(seed: int, reach: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Points, a matrix whose norm is the function, scores and values there."""
    rng = np.random.default_rng(seed)
    x, w, M = rng.normal(size=(RNG_POINTS, 3)), rng.normal(size=3), rng.normal(size=(4, 3))
    return x, M, x @ w, np.linalg.norm(x @ M.T, axis=1) + reach, w


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_concave_envelope_of_the_points_and_never_below_it(seed: int) -> None:
    _, _, z, values, _ = case(seed)
    for low, high in ((z.min(), z.min() + 0.3), (-0.2, 0.1), (0.5, 0.6), (z.max() - 0.2, z.max() + 1.0)):
        # the largest mean of values over weights of points whose mean score lies in the interval
        exact = linprog(
            -values, A_ub=np.stack([z, -z]), b_ub=[high, -low], A_eq=np.ones((1, len(z))), b_eq=[1.0], bounds=(0, 1)
        )
        assert exact.status == 0
        found = most_within(values, z, z, low, high)
        assert -exact.fun * (1 - 1e-9) <= found <= -exact.fun * 1.05


def test_no_row_of_the_hull_is_above_it() -> None:
    x, M, z, values, w = case(7)
    rng = np.random.default_rng(8)
    rows = rng.dirichlet(np.full(len(x), 0.05), size=20_000) @ x
    there, of_rows = rows @ w, np.linalg.norm(rows @ M.T, axis=1)
    gained = 0
    for low in np.arange(-3.0, 3.0, 0.25):
        inside = (there >= low) & (there <= low + 0.25)
        found = most_within(values, z, z, low, low + 0.25)
        assert of_rows[inside].max(initial=0.0) <= found <= values.max()
        gained += found < 0.9 * values.max()
    assert gained > 5


def test_scores_between_two_ends_are_taken_at_the_worse_one() -> None:
    _, _, z, values, _ = case(9)
    exact = most_within(values, z, z, 0.0, 0.1)
    assert exact <= most_within(values, z - 0.3, z + 0.3, 0.0, 0.1)
    # what a shift of all scores within these ends gives is never above
    for shift in (-0.3, 0.3):
        assert most_within(values, z + shift, z + shift, 0.0, 0.1) <= most_within(values, z - 0.3, z + 0.3, 0.0, 0.1)


def test_an_interval_that_holds_the_largest_gains_nothing_and_one_without_rows_is_empty() -> None:
    _, _, z, values, _ = case(10)
    top = z[np.argmax(values)]
    assert most_within(values, z, z, top - 0.1, top + 0.1) == values.max()
    assert most_within(values, z, z, z.max() + 1.0, z.max() + 2.0) == 0.0


def test_scales_that_move_with_categories_are_bounded_column_by_column() -> None:
    """|diag(m) E| by the metric of the Hessian is at most max |m| times |E| for the map that bounds take, whatever m is."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"city": rng.choice(list("abcd"), 80), "age": rng.normal(size=80)})
    y = rng.normal(size=80)
    columns = ColumnTransformer([("city", OneHotEncoder(sparse_output=False), ["city"])], remainder="passthrough")
    model = make_pipeline(columns, StandardScaler(), Ridge(alpha=1.0)).fit(frame, y)
    jacobian = fl.measure(model, frame, y, public="nothing")._information.jacobians[0]
    size = int(jacobian.theta.shape[0])
    exact, taken = (make(jacobian, jacobian.attributes, size) for make in (value_map, feature_map))
    root = np.linalg.cholesky(np.asarray(jacobian.fit.factor.inverse())).T
    ratios = []
    for _ in range(200):
        m = np.abs(rng.normal(size=size)) ** 3
        moved = np.linalg.norm(root @ (m[:, None] * exact), 2) / m.max()
        assert moved <= np.linalg.norm(root @ taken, 2) * (1 + 1e-12)
        ratios.append(moved / np.linalg.norm(root @ exact, 2))
    assert max(ratios) > 1.5  # for the values themselves it does not hold
    np.testing.assert_allclose(taken @ taken.T @ exact, exact, atol=1e-12)

"""The certified bound holds for every label, not for the ends of their range alone."""

from __future__ import annotations

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.protection.certificates import certificate
from fisherleak.protection.certificates.bound_quantities import points_of, quantities_of
from fisherleak.protection.certificates.certificate import bound
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

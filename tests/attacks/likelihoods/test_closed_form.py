from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from fisherleak.attacks.likelihoods.closed_form import below_both

MARGINS = (-3.0, -0.7, 0.0, 1e-9, 0.4, 2.5, 50.0, np.inf, -np.inf)


@pytest.mark.parametrize("rho", [-0.999, -0.6, 0.0, 0.3, 0.95, 0.9999])
def test_agrees_with_scipy(rho: float) -> None:
    for h in MARGINS:
        for k in MARGINS:
            if np.isfinite(h) and np.isfinite(k):
                true = float(multivariate_normal.cdf([h, k], cov=[[1.0, rho], [rho, 1.0]], abseps=1e-12, releps=1e-12))
            else:
                true = 0.0 if -np.inf in (h, k) else float(norm.cdf(min(h, k)))
            assert float(below_both(h, k, rho)) == pytest.approx(true, abs=2e-9)


@pytest.mark.parametrize("rho", [1.0, 1.0 - 1e-16, -1.0])
def test_variables_on_one_line(rho: float) -> None:
    for h in MARGINS:
        for k in MARGINS:
            true = norm.cdf(min(h, k)) if rho > 0 else max(norm.cdf(h) + norm.cdf(k) - 1.0, 0.0)
            assert float(below_both(h, k, rho)) == pytest.approx(float(true), abs=1e-12)

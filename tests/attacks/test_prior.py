"""The attacker who knows the frequencies alone."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import Ridge

import fisherleak as fl
from attacks.clinic import DOSE, TABLE, pipeline


def test_a_prior_is_matched_by_value() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    counts = TABLE["gene"].value_counts(normalize=True)  # the most frequent first, unlike the candidates
    by_series = fl.attacks.Prior(model, TABLE, DOSE, "gene", prior=counts)
    np.testing.assert_allclose(by_series.prior, fl.attacks.Prior(model, TABLE, DOSE, "gene").prior)
    huge = fl.attacks.Prior(model, TABLE, DOSE, "gene", prior=[1e308] * 3)
    np.testing.assert_allclose(huge.prior, 1 / 3)

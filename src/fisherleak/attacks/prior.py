"""The baseline: someone who knows the population and nothing else."""

from __future__ import annotations

import numpy as np

from fisherleak._support.namespaces import Vector
from fisherleak.attacks.base import Attacker, Codes
from fisherleak.engine.noise import Noise


class Prior(Attacker):
    """Always guesses the most probable value; looks at no model. Parameters as for every attacker.

    Examples
    --------
    >>> import numpy as np
    >>> import fisherleak as fl
    >>> X, y = np.array([[0.0, 1.0], [1.0, 2.0], [1.0, -1.0]]), np.array([1.0, 3.0, -1.0])
    >>> fl.attacks.Prior(fl.minimise(X, y), X, y, attribute=0).infer()
    array([1., 1., 1.])
    """

    name = "prior"
    of_people = True
    sees_model = False
    by_answers = True

    def guess(self, theta: Vector, noise: Noise | None = None) -> Codes:
        return np.broadcast_to(self.target.believed, (theta.shape[0], self.target.m))

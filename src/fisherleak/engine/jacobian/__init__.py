"""The Jacobian of a fit by its data, and which changes of the data count. May import fits, losses, noise and answers."""

from fisherleak.engine.jacobian.jacobian import Derivatives, Jacobian, Model, Scores, held_levels, jacobian_of

__all__ = ["Derivatives", "Jacobian", "Model", "Scores", "held_levels", "jacobian_of"]

"""Networks: encoders, noisy SGD and last layers; the only folder that uses torch. May import ``attacks`` and folders above.

Every name is loaded when it is used, and torch with the first call that needs it.
"""

from typing import TYPE_CHECKING

from fisherleak._support.lazy import lazily

if TYPE_CHECKING:
    from fisherleak.nn.input_leakage import Encoded as Encoded
    from fisherleak.nn.input_leakage import encoding as encoding
    from fisherleak.nn.last_layer import Features as Features
    from fisherleak.nn.last_layer import HeadLeakage as HeadLeakage
    from fisherleak.nn.last_layer import OnInputs as OnInputs
    from fisherleak.nn.last_layer import head as head
    from fisherleak.nn.last_layer import on as on
    from fisherleak.nn.reconstruction import Reconstruct as Reconstruct
    from fisherleak.nn.reconstruction import Reconstruction as Reconstruction
    from fisherleak.nn.sgd_accountant import SGDAccountant as SGDAccountant
    from fisherleak.nn.training_runs import noise_for as noise_for

__all__ = [
    "Encoded",
    "Features",
    "HeadLeakage",
    "OnInputs",
    "Reconstruct",
    "Reconstruction",
    "SGDAccountant",
    "encoding",
    "head",
    "noise_for",
    "on",
]

__getattr__, __dir__ = lazily(
    "fisherleak.nn",
    {
        "fisherleak.nn.sgd_accountant": ("SGDAccountant",),
        "fisherleak.nn.input_leakage": ("Encoded", "encoding"),
        "fisherleak.nn.last_layer": ("Features", "HeadLeakage", "OnInputs", "head", "on"),
        "fisherleak.nn.training_runs": ("noise_for",),
        "fisherleak.nn.reconstruction": ("Reconstruct", "Reconstruction"),
    },
)

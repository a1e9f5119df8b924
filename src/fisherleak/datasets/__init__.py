"""The four data sets of the paper as their publishers give them: may import ``_support`` and ``errors``; no mathematics.

Files are looked for in ``data_home``, then in the folder that ``FISHERLEAK_DATA`` names, then in a cache that they are
downloaded to. No pickle is ever loaded. Adding a data set is adding a file with its loader and a line to ``__all__``.
"""

from fisherleak.datasets._files import Dataset, Source, check_contents, locate, read_bytes
from fisherleak.datasets.adult import load_adult
from fisherleak.datasets.cifar10 import load_cifar10
from fisherleak.datasets.iwpc import load_iwpc
from fisherleak.datasets.mnist import load_mnist

__all__ = [
    "Dataset",
    "Source",
    "check_contents",
    "load_adult",
    "load_cifar10",
    "load_iwpc",
    "load_mnist",
    "locate",
    "read_bytes",
]

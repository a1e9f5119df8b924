"""Everything that a report shows, run and timed: may import every folder above it; names no option and renders nothing.

from fisherleak.auditing import Settings, audit
from fisherleak.report.summarise import summarise

summary = summarise(audit("people.csv", Settings(target="income"), max_eta=1.0))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fisherleak._support.lazy import lazily

if TYPE_CHECKING:
    from fisherleak.auditing.records import Audit as Audit
    from fisherleak.auditing.run import audit as audit
    from fisherleak.training.trained_model import Settings as Settings

__all__ = ["Audit", "Settings", "audit"]

# the defaults are shown by the command line before anything is run
__getattr__, __dir__ = lazily(
    __name__,
    {
        "fisherleak.training.trained_model": ("Settings",),
        "fisherleak.auditing.records": ("Audit",),
        "fisherleak.auditing.run": ("audit",),
    },
)

"""An audit: everything that a report shows is run and timed here.

    from fisherleak.audit import Settings, audit
    from fisherleak.report.summarise import summarise

    summary = summarise(audit("people.csv", Settings(target="income"), max_eta=1.0))

May import every room above; names no option of the command line and renders nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fisherleak._support.lazy import lazily

if TYPE_CHECKING:
    from fisherleak.audit.model import Settings as Settings
    from fisherleak.audit.run import Audit as Audit
    from fisherleak.audit.run import audit as audit

__all__ = ["Audit", "Settings", "audit"]

# the defaults are shown by the command line before anything is run
__getattr__, __dir__ = lazily(
    __name__, {"fisherleak.audit.model": ("Settings",), "fisherleak.audit.run": ("Audit", "audit")}
)

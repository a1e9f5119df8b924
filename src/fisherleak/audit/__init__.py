"""An audit: everything that a report shows is run and timed here.

    from fisherleak.audit import Settings, audit
    from fisherleak.report.summarise import summarise

    summary = summarise(audit("people.csv", Settings(target="income"), max_eta=1.0))

May import every room above; names no option of the command line and renders nothing.
"""

from fisherleak.audit.model import Settings
from fisherleak.audit.run import Audit, audit

__all__ = ["Audit", "Settings", "audit"]

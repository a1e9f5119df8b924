from __future__ import annotations

from audited import _quick as _quick
from audited import people as people
from audited import table_for as table_for
from audited import target_for as target_for

"""Signatures of the reference without private arguments, and without the addresses of functions that are defaults."""

from __future__ import annotations

import re

PRIVATE = re.compile(r"(?<=[(\s])_\w+(?:=(?:\([^()]*\)|[^,()]+))?(?:, |(?=\)))")
FUNCTION = re.compile(r"=<[^<>]*>")


def public(signature: str) -> str:
    """The same with what a caller may pass.

    Examples
    --------
    >>> public("(x, _frames=(), _people=None)"), public("(_information, _noise)"), public("(name, start=<function _zero>)")
    ('(x)', '()', '(name, start=…)')
    """
    return re.sub(r", \)", ")", PRIVATE.sub("", FUNCTION.sub("=…", signature)))


def setup(app):
    """Sphinx calls this."""
    app.connect(
        "autodoc-process-signature", lambda *given: None if not given[5] else (public(given[5]), given[6]), priority=900
    )
    return {"parallel_read_safe": True}

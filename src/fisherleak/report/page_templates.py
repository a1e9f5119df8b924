"""The templates of pages and what they may call, compiled once.

Their code is kept where Python keeps that of the modules beside them, and as Python keeps it. Behind a line that says what it
was made from lies the code itself, by ``marshal``; Jinja's own files hold a pickle.
"""

from __future__ import annotations

import functools
import importlib.util
import marshal
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from jinja2 import BytecodeCache, Environment, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket

from fisherleak._support.numbers import (
    number,
    percent,
    percent_at_most,
    plus_minus,
    points,
    share,
    signed_percent,
)
from fisherleak.report.sentences import any_value, chosen_how, membership_sentence


@functools.cache
def page_environment() -> Environment:
    """Templates with autoescaping, in which a name that is not given is an error, and their filters."""
    environment = Environment(
        loader=PackageLoader("fisherleak.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=CompiledTemplates(Path(__file__).parent.glob("*.py")),
    )
    filters = (
        number,
        percent,
        percent_at_most,
        plus_minus,
        points,
        share,
        signed_percent,
        chosen_how,
        membership_sentence,
    )
    environment.filters |= {each.__name__: each for each in filters} | {"any": any_value}
    return environment


class CompiledTemplates(BytecodeCache):
    """Code of templates in ``__pycache__`` beside them, or below Python's own prefix for such files.

    Nothing is written where Python is told to write no bytecode, or may not write; templates are then compiled in each run.
    Code is used as long as the template, the files it depends on, and the versions of Jinja and Python are those that it was
    made with.

    Parameters
    ----------
    depends : paths
        Files whose functions a compiled template may hold results of: filters of constants.
    """

    def __init__(self, depends: Iterable[Path]) -> None:
        stats = ((path.name, path.stat()) for path in sorted(depends))
        self.made_with = repr((version("jinja2"), [(name, s.st_mtime_ns, s.st_size) for name, s in stats]))

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """The file that a template's code is kept in; empty where a template is no file."""
        return importlib.util.cache_from_source(filename) if filename else ""

    def get_source_checksum(self, source: str) -> str:
        return super().get_source_checksum(self.made_with + source)

    def load_bytecode(self, bucket: Bucket) -> None:
        # a file that is not whole is as good as none
        with suppress(OSError, EOFError, ValueError, TypeError):
            if bucket.key:
                head, _, code = Path(bucket.key).read_bytes().partition(b"\n")
                if head == _head(bucket):
                    bucket.code = marshal.loads(code)  # noqa: S302 - as Python reads the code of modules, in the same folder

    def dump_bytecode(self, bucket: Bucket) -> None:
        if sys.dont_write_bytecode or not bucket.key:
            return
        place = Path(bucket.key)
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(place, _head(bucket) + b"\n" + marshal.dumps(bucket.code))


def _head(bucket: Bucket) -> bytes:
    """What code was made from: the version of Python's bytecode, and the checksum of everything else."""
    return f"{importlib.util.MAGIC_NUMBER.hex()} {bucket.checksum}".encode()


def _write_whole(place: Path, content: bytes) -> None:
    """As Python writes its own: under another name first, for others may read it meanwhile."""
    beside = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(place)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise

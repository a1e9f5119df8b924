"""How a remedy is followed: what a refusal prints is found in its sentence, applied to the call, and the call made again.

In the folder of tests, ``python -m remedies.table`` writes ``not_executed.txt``: refusals with a remedy that no entry follows.
"""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import fisherleak as fl
import sentences

FILE = Path(__file__).with_name("not_executed.txt")
ACTION = re.compile(
    r"`\w+|--\w|\b\w+=|\bfl\.|\bfisherleak\.|\b([Uu]se|[Ll]eave|[Cc]all|[Pp]ass|[Dd]rop|[Dd]eclare|[Aa]dd|[Ff]it|[Rr]aise|[Ww]rite)\b"
)
"""What marks an action in the part of a refusal that follows its rule."""
LEFT_OUT = re.compile(r"[Ll]eave (?:`?(?:--)?([\w-]+)`? out\b|out `?(?:--)?([\w-]+))")
REASONS = {
    "could not be downloaded from": "The remedy is a file from elsewhere.",
    "is missing. Put it there, or leave {origin} out": "The remedy is a file from elsewhere, or a download.",
    "(multi_class='multinomial') with two classes": "Versions of scikit-learn before 1.8 alone have this argument.",
    "with each class fitted against the rest is not supported": "Versions of scikit-learn before 1.8 alone fit such a model.",
    "The folder {folder} cannot be written to": "Rights on folders do not hold for every user who runs tests.",
    "No scheduler answers at": "Waiting for one takes longer than a test may.",
    "The cluster could not finish": "The remedy is to start a cluster that was lost again.",
    "need Dask: pip install": "The remedy is to install a package.",
    "Do not pass it on; release the model again": "A file that someone changed: tests of hidden data make such files.",
    "in few of its parameters only: do not pass it on": "A file that someone changed: tests of hidden data make such files.",
    "holds no noise of the scale that its model card claims": "A file that someone changed: tests of hidden data make such files.",
    "Refits disagree with eta by": "It says what can be the reason, and advises nothing.",
    "The figures overflow": "Values beyond 1e100, and columns of values below 1e-100, are refused before.",
    "The fit overflows": "Values beyond 1e100, and columns of values below 1e-100, are refused before.",
    "which no bounds admit": "Rows that are not finite are refused before.",
    "Rows that this release leaves out": "tests/attacks_on_us/test_ledger_cells.py follows it.",
    "The weights of IRFIL differ from one computation": "Two computations of one machine agree.",
    "End-to-end etas of IRFIL need an eta above zero": "Such rows are refused before, by another sentence.",
    "A choice cannot be counted here": "No table is known whose candidates keep the limit and whose choice is not counted.",
}
"""Why no test follows a remedy, by a part of its refusal."""
ARGUMENT = re.compile(r"^(\w+)=(.+)$", re.DOTALL)


@dataclass(frozen=True)
class Remedy:
    """A call that is refused, and what its sentence prints; each is followed by itself.

    A remedy that names an argument (``over='max'``, ``leave gap out``, ``--noise 1``) is read from its own words. Of another
    the table says what it comes to: arguments in place of those of the call, or another call.
    """

    says: str
    """A part of the sentence, as ``sentences.txt`` has it."""
    call: Callable[..., Any]
    given: Mapping[str, Any] = field(default_factory=dict)
    remedies: Mapping[str, Any] = field(default_factory=dict)


def with_remedy(sentence: str) -> bool:
    """Whether a refusal says what to do, beyond its rule."""
    rest = re.split(r"(?:: |\. |; )(?!got)", sentence, maxsplit=1)
    return len(rest) == 2 and bool(ACTION.search(rest[1]))


def refusing(call: Callable[..., Any], kind: type[Warning] = UserWarning) -> Callable[..., Any]:
    """The same call, which refuses what it warns of."""

    def refuses(**given: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error", kind)
            try:
                return call(**given)
            except kind as warning:
                raise fl.InvalidInputError(str(warning)) from None

    return refuses


@contextmanager
def limited(**sizes: Any) -> Iterator[None]:
    """Less room than there is: other numbers for constants of the package, by module and name."""
    places = [(import_module(f"fisherleak.{place.rpartition('.')[0]}"), place.rpartition(".")[2]) for place in sizes]
    before = [getattr(module, name) for module, name in places]
    try:
        for (module, name), size in zip(places, sizes.values(), strict=True):
            setattr(module, name, size)
        yield
    finally:
        for (module, name), size in zip(places, before, strict=True):
            setattr(module, name, size)


def followed(remedy: str, action: Any, call: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Make the call again as the remedy says."""
    if callable(action):
        return action()
    if action is not None:
        return call(**{**given, **action})
    out, argument = LEFT_OUT.search(remedy), ARGUMENT.match(remedy)
    if out:
        name = (out[1] or out[2]).replace("-", "_")
        assert name in given, f"{name} is no argument of the call"
        return call(**{key: value for key, value in given.items() if key != name})
    assert argument, f"'{remedy}' names no argument: say in the table what it comes to"
    return call(**{**given, argument[1]: ast.literal_eval(argument[2])})


def line_with(remedy: str, line: Iterable[str]) -> list[str]:
    """A command line with the options that a remedy prints, or without the one that it leaves out."""
    words, out = list(line), LEFT_OUT.search(remedy)
    if not out:
        return words + shlex.split(remedy)
    at = words.index(f"--{out[1] or out[2]}")
    end = next((k for k in range(at + 1, len(words)) if words[k].startswith("--")), len(words))
    return words[:at] + words[end:]


def not_executed(entries: Iterable[str]) -> dict[str, list[str]]:
    """Refusals with a remedy that no entry provokes, by module."""
    known = list(entries)
    found = {
        module: [each for each in said if with_remedy(each) and not any(entry in each for entry in known)]
        for module, said in sentences.sentences().items()
    }
    return {module: said for module, said in found.items() if said}


def reason_for(sentence: str) -> str | None:
    """Why no test can follow the remedy of a refusal; None where one could."""
    return next((why for part, why in REASONS.items() if part in sentence), None)


def as_text(found: Mapping[str, list[str]]) -> str:
    """The list as it is kept, with reasons."""
    shown = {
        module: [f"  {each}\n" + "".join(f"    {why}\n" for why in [reason_for(each)] if why) for each in said]
        for module, said in found.items()
    }
    return "".join(f"{module}\n" + "".join(said) + "\n" for module, said in shown.items())


if __name__ == "__main__":
    SAID = import_module("remedies.test_remedies").SAID  # it imports this module

    FILE.write_text(as_text(not_executed(SAID)), encoding="utf-8")

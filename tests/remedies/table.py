"""How a remedy is followed: what a refusal prints is found in its sentence, applied to the call, and the call made again.

In the folder of tests, ``python -m remedies.table`` writes ``not_executed.txt``: refusals with a remedy that no entry follows.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sentences

FILE = Path(__file__).with_name("not_executed.txt")
ACTION = re.compile(
    r"`\w+|--\w|\b\w+=|\bfl\.|\bfisherleak\.|\b([Uu]se|[Ll]eave|[Cc]all|[Pp]ass|[Dd]rop|[Dd]eclare|[Aa]dd|[Ff]it|[Rr]aise|[Ww]rite)\b"
)
"""What marks an action in the part of a refusal that follows its rule."""
LEFT_OUT = re.compile(r"[Ll]eave (?:`?(?:--)?([\w-]+)`? out\b|out `?(?:--)?([\w-]+))")
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


def as_text(found: Mapping[str, list[str]]) -> str:
    """The list as it is kept."""
    return "".join(f"{module}\n" + "".join(f"  {each}\n" for each in said) + "\n" for module, said in found.items())


if __name__ == "__main__":
    from importlib import import_module

    SAID = import_module("remedies.test_remedies").SAID  # it imports this module

    FILE.write_text(as_text(not_executed(SAID)), encoding="utf-8")

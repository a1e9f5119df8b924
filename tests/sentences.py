"""Every sentence with which the package refuses or warns, beside its place: ``python tests/sentences.py`` prints them.

They are read from the sources, so that those that no test provokes are there too. What is filled in when a sentence is said
stands in braces, as in the source. ``sentences.txt`` holds them all, one after another, for reading; ``test_sentences.py``
keeps it true (``python tests/sentences.py --write``), and counts words.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from where import SOURCE, nodes_in

FILE = Path(__file__).with_suffix(".txt")
MISSING = "refuse_missing"
SAID_BY = re.compile(rf"(Error|Warning|warn|{MISSING})$")
"""Names of what is raised, and of what warns."""


def text_of(node: ast.expr, constants: dict[str, str]) -> str | None:
    """The text of an expression with its fillings in braces; None where it is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = (_part(value) for value in node.values)
        return "".join(parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text_of(node.left, constants), text_of(node.right, constants)
        return (
            None
            if left is None and right is None
            else (left or f"{{{ast.unparse(node.left)}}}") + (right or f"{{{ast.unparse(node.right)}}}")
        )
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return text_of(node.func.value, constants)
    return None


def _part(value: ast.expr) -> str:
    if isinstance(value, ast.FormattedValue):
        return f"{{{ast.unparse(value.value)}}}"
    assert isinstance(value, ast.Constant)
    return str(value.value)


@cache
def sentences() -> dict[str, tuple[str, ...]]:
    """What each module says, in the order of its lines, by the module's path."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        said = tuple(dict.fromkeys(_said_in(path)))
        if said:
            found[path.relative_to(SOURCE).as_posix()] = said
    return found


@cache
def _constants(path: Path) -> dict[str, str]:
    """Texts that have a name in a module."""
    return {
        target.id: text
        for node in nodes_in(path)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and (text := text_of(node.value, {})) is not None
    }


def _imported(path: Path) -> dict[str, str]:
    """Those that it has from other modules of the package."""
    found: dict[str, str] = {}
    for node in nodes_in(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fisherleak."):
            theirs = SOURCE.joinpath(*str(node.module).split(".")[1:]).with_suffix(".py")
            known = _constants(theirs) if theirs.exists() else {}
            found |= {name.asname or name.name: known[name.name] for name in node.names if name.name in known}
    return found


def _called(function: ast.expr) -> str:
    """The name of what is called, without what it is in."""
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _said_in(path: Path) -> Iterator[str]:
    nodes = nodes_in(path)
    constants = _imported(path) | _constants(path)
    calls = (node for node in nodes if isinstance(node, ast.Call) and node.args)
    for call in sorted(calls, key=lambda call: call.lineno):
        called = _called(call.func)
        if SAID_BY.search(called):
            # of a file that is missing the name comes first
            text = text_of(call.args[-1] if called == MISSING else call.args[0], constants)
            if text:
                yield " ".join(text.split())


def as_text() -> str:
    """The whole table."""
    return "".join(
        f"{module}\n" + "".join(f"  {sentence}\n" for sentence in said) + "\n" for module, said in sentences().items()
    )


def main(arguments: list[str]) -> int:
    if arguments == ["--write"]:
        FILE.write_text(as_text(), encoding="utf-8")
    else:
        sys.stdout.write(as_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

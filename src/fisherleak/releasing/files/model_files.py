"""Files of released models in one form: the same model gives the same bytes, and nothing else fits in.

A file of skops is a zip of ``schema.json``, a tree of nodes, and of one ``.npy`` for each array. Attributes are sorted, nodes
numbered in their order, arrays named by their node, times fixed, and nothing is compressed. A file is in this form where it
equals the one that is written from its own members: bytes before, between or after them, comments, extra fields, blanks, other
orders of keys and repeated members have no place in it. What the nodes say is another question (``rebuilt_files``).
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from fisherleak._support.namespaces import Json
from fisherleak.errors import DataError

SCHEMA = "schema.json"
WHEN = (1980, 1, 1, 0, 0, 0)
"""The time of every member: the earliest that a zip can say."""
WRITING = timedelta(minutes=10)
"""How long version 0.1.0 took to write a file, at most."""
PART_BYTES, PIECE_BYTES = 128, 13
"""What a list or a record of a tree takes of its text at least, and what any mark between its pieces does (a comma, a colon, a
bracket): half of the least that any took. Parsed, a record has 64 bytes and more, and a key with its value some 200."""
MEMBER_BYTES, SMALL, ENTRY = 2**10, 2**18, b"PK\x01\x02"
"""What a file has for each member at least, a tenth of what any had, but for small ones, and how the entry of one begins. Read,
an entry takes many times its bytes, and those of empty members may lie on each other."""
MOST_DEPTH = 60
"""Lists and records within each other, at most: models have 23, cards six."""
LONGEST_KEY = 100
"""Characters of a key of a tree, at most: attributes and steps have names of their own, never those of columns."""
MARK = re.compile(rb'(?:[^"\[\]{},:]++|"(?:[^"\\]++|\\.?)*+(?:"|\Z))*+(?:[\[\]{},:]|\Z)', re.DOTALL)
"""Up to the next mark of JSON that is in no string, or to the end: no place is looked at twice, and nothing is copied."""
OPENING, CLOSING, MARKS = b"[{", b"]}", b"[]{},:"
SYSTEM = 3
"""What every member says wrote it; version 0.1.0 wrote 0 on Windows."""


@dataclass(frozen=True)
class ModelFile:
    """What a model's file says: the tree of its nodes, and the members that its arrays are in."""

    tree: Json
    arrays: Mapping[str, bytes]

    @classmethod
    def of(cls, model: Any) -> Self:
        """A model as skops writes it, in the one form."""
        import skops.io

        with zipfile.ZipFile(io.BytesIO(skops.io.dumps(model))) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        return cls(json.loads(members.pop(SCHEMA)), members).numbered()

    @classmethod
    def read(cls, path: Path, most: int, checksum: str, earlier: bool = False) -> Self:
        """A file that is in the one form; of an ``earlier`` version, but for numbers of nodes and times.

        Parameters
        ----------
        most : int
            Bytes that such a file can have.
        checksum : str
            SHA-256 of the bytes that are read, in hexadecimal: a file that was exchanged since it was computed is refused.
        """
        infos, members = _members(path, most, checksum, earlier)
        try:
            text = members.pop(SCHEMA, b"")
            if _too_dense(text):
                raise holds(path, f"a {SCHEMA} that is not written as skops writes it (too many pieces for its size)")
            tree = loaded_json(text)
            if not isinstance(tree, dict) or not is_text_of(text, tree):
                raise holds(path, f"a {SCHEMA} that is not written as skops writes it")
            numbered = cls(tree, members).numbered(path)
            if not earlier and not (numbered.same_as(cls(tree, members)) and _in_one_form(infos)):
                raise holds(path, "nodes, members or times that are not numbered in their order")
        except RecursionError:
            raise holds(path, f"a {SCHEMA} that is nested too deep") from None
        return numbered

    def numbered(self, path: Path | None = None) -> Self:
        """The same with every node numbered in its order and every array in a member of its own."""
        arrays: dict[str, bytes] = {}
        used: set[str] = set()
        count = iter(range(1, 2**62))

        def copied(node: Any) -> Any:
            if isinstance(node, list):
                return [copied(item) for item in node]
            if not isinstance(node, dict):
                return node
            if any(len(key) > LONGEST_KEY for key in node):
                raise holds(path or Path("model"), f"a key of more than {LONGEST_KEY} characters")
            if "__id__" in node and not (type(node["__id__"]) is int and 0 <= node["__id__"] < 2**64):
                raise holds(path or Path("model"), "a node whose number is none")
            own = next(count) if "__id__" in node else None
            made = {key: copied(value) for key, value in _in_order(node).items()}
            if own is not None:
                made["__id__"] = own
            if own is not None and isinstance(node.get("file"), str) and node["file"] in self.arrays:
                made["file"] = f"{own}.npy"
                arrays[made["file"]] = self.arrays[node["file"]]
                used.add(node["file"])
            return made

        tree = copied(self.tree)
        for name in self.arrays:
            if name not in used:
                raise holds(path or Path("model"), f"a member '{name[:80]}'")
        return type(self)(tree, arrays)

    def same_as(self, other: Self) -> bool:
        """Whether both are written as the same bytes."""
        trees = json.dumps(self.tree) == json.dumps(other.tree)
        return trees and [*self.arrays.items()] == [*other.arrays.items()]

    def encoded(self) -> bytes:
        """The file itself."""
        members = [*self.arrays.items(), (SCHEMA, _as_text(self.tree))]
        infos = [zipfile.ZipInfo(name, WHEN) for name, _ in members]
        for info in infos:
            info.create_system = SYSTEM
        return _zipped([(info, data) for info, (_, data) in zip(infos, members, strict=True)])


def holds(path: Path, what: str) -> DataError:
    """The refusal of a file with something in it that no released model has."""
    return DataError(
        f"'{path}' holds {what}, which no model that was released with this model card has: it may carry other data. "
        "Do not pass it "
        "on; release the model again."
    )


def read_at_most(path: Path, most: int, what: str) -> bytes:
    """A file of at most so many bytes; larger ones, and what is no file but a pipe or a device, are never read."""
    if path.exists() and not path.is_file():
        raise DataError(f"'{path}' is no regular file (a folder, a pipe or a device): it is not read. Name a file.")
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise DataError(f"'{path}' is larger than {what} can be ({most:,} bytes): it is not read.")
    return data


def _members(path: Path, most: int, checksum: str, earlier: bool) -> tuple[list[zipfile.ZipInfo], dict[str, bytes]]:
    """The members of a file that has nothing beside them."""
    data = read_at_most(path, most, "a model with this model card")
    if hashlib.sha256(data).hexdigest() != checksum:
        raise DataError(f"'{path}' was exchanged while it was checked: keep it in a folder that nobody else writes to.")
    if MEMBER_BYTES * data.count(ENTRY) > max(len(data), SMALL):
        raise holds(path, f"more than one member for each {MEMBER_BYTES:,} bytes")
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        infos = archive.infolist()
        _check_members(path, archive, len(data))
        if earlier:
            _check_earlier(path, infos)
        members = {info.filename: archive.read(info) for info in infos}
    except DataError:
        raise
    except Exception as error:  # zipfile has many ways to say that it is damaged
        raise DataError(f"'{path}' is damaged ({type(error).__name__}): release the model again.") from None
    if _zipped([(info, members[info.filename]) for info in infos]) != data:
        raise holds(path, _where(data, infos))
    return infos, members


def loaded_json(text: bytes | None) -> Any:
    """JSON with each key once, finite numbers and at most ``MOST_DEPTH`` levels; None for anything else."""
    if _nested_too_deep(text or b""):
        return None
    try:
        return json.loads(
            (text or b"").decode("utf-8"), object_pairs_hook=_once, parse_constant=_refused, parse_float=_finite
        )
    except (ValueError, RecursionError):
        return None


def _nested_too_deep(text: bytes) -> bool:
    """Whether brackets go too deep, before anything is built of them; those in strings do not count."""
    depth = 0
    for mark in _marks(text):
        depth += (mark in OPENING) - (mark in CLOSING)
        if depth > MOST_DEPTH:
            return True
    return False


def _too_dense(text: bytes) -> bool:
    """Whether a tree would take many times its text in memory, before anything is built of it."""
    parts, pieces, size = 0, 0, len(text)
    for mark in _marks(text):
        parts += mark in OPENING
        pieces += mark not in CLOSING
        if PART_BYTES * parts > size or PIECE_BYTES * pieces > size:
            return True
    return False


def _marks(text: bytes) -> Iterator[int]:
    """Brackets, commas and colons that are in no string, in their order."""
    for found in MARK.finditer(text):
        end = found.end()
        if end > found.start() and text[end - 1] in MARKS:
            yield text[end - 1]


def is_text_of(text: bytes, content: Json, ascii_only: bool = True) -> bool:
    """Whether a text is the one way to write its content: compared piece by piece, up to the first that differs.

    Written as a whole, what is nested deep would take many times the text: each of its numbers has blanks before it.
    """
    at = 0
    try:
        for piece in json.JSONEncoder(indent=2, allow_nan=False, ensure_ascii=ascii_only).iterencode(content):
            own = piece.encode("utf-8")
            if text[at : at + len(own)] != own:
                return False
            at += len(own)
    except (ValueError, RecursionError):
        return False
    return at == len(text)


def _once(pairs: list[tuple[str, Any]]) -> Json:
    """Readers differ in which of two values they take: a file that has both says two things."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _refused(name: str) -> float:
    raise ValueError(name)


def _finite(text: str) -> float:
    """Python reads 1e400 as infinity."""
    number = float(text)
    return number if number - number == 0 else _refused(text)


def _as_text(tree: Json) -> bytes:
    """As skops lays it out."""
    return json.dumps(tree, indent=2).encode("ascii")


def _in_order(node: Json) -> Json:
    """An object with its attributes by name; versions of scikit-learn set them in different orders."""
    inner = node.get("content")
    attributes = inner.get("content") if isinstance(inner, dict) else None
    if node.get("__loader__") != "ObjectNode" or not isinstance(inner, dict) or not isinstance(attributes, dict):
        return node
    return {**node, "content": {**inner, "content": dict(sorted(attributes.items()))}}


def _check_members(path: Path, archive: zipfile.ZipFile, size: int) -> None:
    """Refuse by name what takes more room than the file has, and what is not written by anyone who wrote a model."""
    infos = archive.infolist()
    for info in infos:
        name = info.filename[:80]
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise holds(path, f"a compressed member '{name}'")
        if info.comment or info.extra:
            raise holds(path, f"a member '{name}' with a comment or extra fields")
    if sum(info.file_size for info in infos) > size or len({info.filename for info in infos}) < len(infos):
        raise holds(path, "members that overlap or are there twice")
    if archive.comment:
        raise holds(path, f"a comment of {len(archive.comment):,} bytes")


def _check_earlier(path: Path, infos: list[zipfile.ZipInfo]) -> None:
    """Refuse names of members that are no number, and times that no one writing has."""
    for info in infos:
        if info.filename != SCHEMA and re.fullmatch(r"[1-9][0-9]{0,19}\.npy", info.filename) is None:
            raise holds(path, f"a member '{info.filename[:80]}'")
    times = [datetime(*info.date_time, tzinfo=UTC) for info in infos]
    if times and max(times) - min(times) > WRITING:
        raise holds(path, "members that were not written at one time")


def _in_one_form(infos: list[zipfile.ZipInfo]) -> bool:
    """Whether members have the time and the system that all have, and the tree comes last."""
    return infos[-1].filename == SCHEMA and {(info.date_time, info.create_system) for info in infos} == {(WHEN, SYSTEM)}


def _where(data: bytes, infos: list[zipfile.ZipInfo]) -> str:
    """What a file has that its members do not account for."""
    before = min((info.header_offset for info in infos), default=0)
    if before:
        return f"{before:,} bytes before its first member"
    return "bytes or flags beside its members"


def _zipped(members: list[tuple[zipfile.ZipInfo, bytes]]) -> bytes:
    """An archive of members as Python writes them, with the names and times that are given, and nothing more."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for info, data in members:
            made = zipfile.ZipInfo(info.filename, info.date_time)
            made.external_attr = 0o600 << 16
            made.create_system = info.create_system if info.create_system == 0 else SYSTEM
            archive.writestr(made, data)
    return buffer.getvalue()

"""A pack: many outputs of one stage in one data file, with one manifest that tells which it covers.

::

    data       partition 0 of all outputs, partition 1 of all outputs, …; a segment each, as in `segments`
    manifest   the facts of every output, and its digest if it has one; the rows, bytes, length and checksum of its
               every segment

All that a reader of one partition wants of these outputs thus lies side by side, and is one request. Segments stay as
they were when outputs are packed again: their bytes are copied, and their checksums hold. Every output has its own, so
damage costs the outputs that it hit.

Each segment is a separate Arrow stream. One stream a partition, with the batches of all outputs, would be read a
little faster, but merging would have to decode and encode all rows, and no output could be believed without the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from qoop.catalog.errors import CheckpointError
from qoop.catalog.signed_json import opened, sealed
from qoop.engine.digest import digest_to_json
from qoop.engine.events import Committed
from qoop.engine.storage.manifest import Range, Saved, committed_from_json, facts_to_json
from qoop.engine.storage.segments import ALIGNMENT, Checksum, Segment, append, write_all
from qoop.engine.task import CheckpointKey

FORMAT = "qoop-pack"
VERSION = 2

Index = tuple[tuple[Segment, ...], ...]
"""The segments of every output."""

_CHUNK = 1 << 20


def write_pack(stream: BinaryIO, outputs: Sequence[Sequence[pa.Table]], strong: bool = False) -> Index:
    """Write outputs, of as many partitions each, to an unbuffered file that is empty. strong: as for `write_segments`.
    Raises OSError as the file does."""
    index: list[list[Segment]] = [[] for _ in outputs]
    end = 0
    for tables in zip(*outputs, strict=True):
        for segments, table in zip(index, tables, strict=True):
            segment, end = append(stream, end, table, table.nbytes, strong)
            segments.append(segment)
    return tuple(map(tuple, index))


def merge(stream: BinaryIO, sources: Sequence[tuple[Path, Index]], between: Callable[[], None]) -> Index:
    """Write the outputs of several files to one that is empty, byte by byte. between: is called before each partition;
    may raise to give up. Every file is read from its beginning to its end, once. Raises OSError, also
    if one is not as it was written."""
    files = [path.open("rb", buffering=_CHUNK) for path, _ in sources]
    try:
        index: list[list[Segment]] = [[] for _, outputs in sources for _ in outputs]
        end = 0
        for number in range(len(sources[0][1][0])):
            between()
            found = (
                (file, output[number]) for file, (_, outputs) in zip(files, sources, strict=True) for output in outputs
            )
            for segments, (file, segment) in zip(index, found, strict=True):
                segments.append(replace(segment, offset=end))
                end = _copy(file, segment, stream, end)
        return tuple(map(tuple, index))
    finally:
        for file in files:
            file.close()


def _copy(file: BinaryIO, segment: Segment, stream: BinaryIO, end: int) -> int:
    """Append the bytes of a segment, if they are as they were written; where the file ends then."""
    file.seek(segment.offset)
    left, checksum = segment.length, Checksum()
    while left:
        chunk = file.read(min(left, _CHUNK))
        if not chunk:
            raise OSError(f"{file.name} is cut short")
        write_all(stream, memoryview(chunk))
        checksum.add(chunk)
        left -= len(chunk)
    if checksum.value != segment.checksum:
        raise OSError(f"{file.name} is corrupt")
    padding = -segment.length % ALIGNMENT
    write_all(stream, memoryview(bytes(padding)))
    return end + segment.length + padding


def ranges_of(index: Index) -> tuple[Range, ...]:
    """For every partition, where the segments of all outputs lie: from where, and how many bytes.

    >>> one, other = [(Segment(at, 60, 1, 8, 0), Segment(at + 128, 60, 1, 8, 0)) for at in (0, 64)]
    >>> ranges_of((one, other))
    ((0, 124), (128, 124))
    """
    return tuple(
        (segments[0].offset, segments[-1].offset + segments[-1].length - segments[0].offset)
        for segments in zip(*index, strict=True)
    )


def saved_in(path: Path, outputs: Sequence[Committed], index: Index) -> tuple[Saved, ...]:
    """The outputs of a pack, which lies there."""
    ranges = ranges_of(index)
    return tuple(Saved(one, path, segments, ranges) for one, segments in zip(outputs, index, strict=True))


def dump_pack(outputs: Sequence[Saved], key: bytes | None = None) -> bytes:
    """The text of the manifest of a pack. outputs: all of one content and in one file. key: to seal it with."""
    first = outputs[0].committed.key
    fields = {
        "format": FORMAT,
        "version": VERSION,
        "data": outputs[0].path.name,
        "signature": first.signature,
        "layout": first.layout,
        "ranges": outputs[0].ranges,
        "covers": [_cover_to_json(one) for one in outputs],
    }
    return sealed(fields, key).encode()


def load_pack(text: bytes, folder: Path, key: bytes | None = None) -> tuple[Saved, ...]:
    """The outputs of a pack whose data lie in that folder. Raises CheckpointError if the manifest is damaged, of
    another version or not sealed with the key."""
    try:
        fields = opened(text, key)
        if (fields["format"], fields["version"]) != (FORMAT, VERSION):
            raise CheckpointError(f"a pack of format {fields['format']} version {fields['version']}")
        ranges = tuple((whole(offset), whole(length)) for offset, length in fields["ranges"])
        path = folder / str(fields["data"])
        content = str(fields["signature"]), str(fields["layout"])
        return tuple(_cover_from_json(one, content, path, ranges) for one in fields["covers"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"the manifest of a pack is damaged: {error!r}") from error


_COLUMNS = ("offset", "length", "rows", "bytes", "checksum")


def _cover_to_json(saved: Saved) -> dict[str, Any]:
    """Columns of numbers in place of an object a segment: a pack of 64 outputs of 200 partitions has 12,800."""
    committed, segments = saved.committed, saved.segments
    fields: dict[str, Any] = {name: [getattr(one, name) for one in segments] for name in _COLUMNS}
    if any(one.sha256 for one in segments):
        fields["sha256"] = [one.sha256 for one in segments]
    digest = None if committed.digest is None else digest_to_json(committed.digest)
    return {"part": committed.key.part, "facts": facts_to_json(committed), "digest": digest, **fields}


def _cover_from_json(fields: dict[str, Any], content: tuple[str, str], path: Path, ranges: tuple[Range, ...]) -> Saved:
    columns = [[whole(value) for value in fields[name]] for name in _COLUMNS]
    sums = [str(value) for value in fields.get("sha256") or [""] * len(ranges)]
    segments = tuple(Segment(*values) for values in zip(*columns, sums, strict=True))
    if len(segments) != len(ranges):
        raise CheckpointError("a pack has outputs of other partitions")
    key = CheckpointKey(*content, whole(fields["part"]))
    return Saved(committed_from_json(key, segments, fields["facts"], fields["digest"]), path, segments, ranges)


def whole(number: Any) -> int:
    """The number, if it is whole and from 0 on. Raises TypeError."""
    if type(number) is not int or number < 0:
        raise TypeError(f"{number!r} is no number of bytes or rows")
    return number

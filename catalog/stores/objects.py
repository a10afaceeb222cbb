"""Stores of objects that several machines share: a shared folder, or a bucket behind S3's interface.

An object is bytes under a name with slashes; it appears whole or not at all. Its entity tag changes with its content.
Machines agree by *conditional* writes: create an object only if the name is free, or replace it only if it has an
expected tag. S3 implements them by ``If-None-Match`` and ``If-Match``, a folder by hard links, which fail if the name
is taken. Failures are an OSError: FileNotFoundError, FileExistsError (a condition does not hold), PermissionError, or
another.

Buckets are accessed through obstore: it has conditional writes, which pyarrow's S3FileSystem (26.0) lacks, and no
dependencies (5.6 MB; loaded in 4 ms). It releases Python's lock while it waits.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from qoop.catalog.errors import ConfigError
from qoop.catalog.stores.private import make_folder, open_private, write_all
from qoop.catalog.stores.whole_file import write_synced
from qoop.catalog.value import value

if TYPE_CHECKING:
    from obstore.store import S3Store

_DRAFT = ".draft-"
_STALE = 3600.0  # seconds after which a draft counts as abandoned
_OPTIONS = ("endpoint", "region", "anonymous")
_CODE = re.compile(r"<Code>(.*?)</Code>(?:\s*<Message>(.*?)</Message>)?", re.DOTALL)
_PREAMBLE = re.compile(r"^Generic S3 error: Error performing.*? - ")
_RETRIES: Any = {"max_retries": 7, "retry_timeout": timedelta(seconds=20)}
_TIMEOUTS: Any = {"connect_timeout": timedelta(seconds=5), "timeout": timedelta(seconds=60)}
_CHUNK = 8 << 20


class ObjectChanged(OSError):
    """An object does not have the expected tag."""


@value
class Object:
    """The facts of an object that need no reading. modified: seconds, by the clock of the store. tag: of content."""

    name: str
    size: int
    modified: float
    tag: str


class Objects(Protocol):
    """A store, or the part of it under a prefix. Thread-safe."""

    @property
    def url(self) -> str:
        """The address of the store, as text that opens it again."""
        ...

    def create(self, name: str, data: bytes) -> None:
        """Write a new object. Raises FileExistsError if the name is taken."""
        ...

    def replace(self, name: str, data: bytes, expected_tag: str | None = None) -> None:
        """Write an object, replacing any. expected_tag: fail with FileExistsError unless the old object has it."""
        ...

    def upload(self, name: str, path: Path) -> None:
        """Write an object of any size from a file."""
        ...

    def read(self, name: str) -> tuple[Object, bytes]:
        """All of a small object."""
        ...

    def ranges(self, name: str, spans: Sequence[tuple[int, int]], expected_tag: str | None = None) -> list[memoryview]:
        """The bytes of each (offset, length). Raises OSError if the object ends before one, ObjectChanged if it does
        not have the expected tag."""
        ...

    def about(self, name: str) -> Object:
        """The facts of an object."""
        ...

    def list(self, folder: str = "") -> list[Object]:
        """All objects below a folder, at any depth, in order of name; none if there is no such folder."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects; missing ones are ignored."""
        ...


def _remove_stale(draft: Path) -> None:
    """Remove the draft of a process that ended while it wrote."""
    if time.time() - draft.stat().st_mtime > _STALE:
        with contextlib.suppress(PermissionError):  # of another user
            draft.unlink()


class Folder:
    """Objects as files. Drafts, which are incomplete files, are not objects."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.url = root.as_uri()

    def create(self, name: str, data: bytes) -> None:
        with self._draft(name) as draft:
            write_synced(draft, data)
            os.link(draft, self._root / name)

    def replace(self, name: str, data: bytes, expected_tag: str | None = None) -> None:
        if expected_tag is not None and self._tag(name) != expected_tag:
            raise FileExistsError(f"{name} has changed")
        with self._draft(name) as draft:
            write_synced(draft, data)
            draft.replace(self._root / name)

    def upload(self, name: str, path: Path) -> None:
        with self._draft(name) as draft:
            with path.open("rb") as source, open_private(draft, "w") as target:
                while chunk := source.read(_CHUNK):
                    write_all(target, chunk)
                os.fsync(target.fileno())
            draft.replace(self._root / name)

    def read(self, name: str) -> tuple[Object, bytes]:
        path = self._root / name
        with path.open("rb") as stream:
            return _object(name, os.fstat(stream.fileno())), stream.read()

    def ranges(self, name: str, spans: Sequence[tuple[int, int]], expected_tag: str | None = None) -> list[memoryview]:
        with (self._root / name).open("rb") as stream:
            if expected_tag is not None and _object(name, os.fstat(stream.fileno())).tag != expected_tag:
                raise ObjectChanged(f"{name} has changed")
            found = [os.pread(stream.fileno(), length, offset) for offset, length in spans]
        return [_complete(name, data, length) for data, (_, length) in zip(found, spans, strict=True)]

    def about(self, name: str) -> Object:
        return _object(name, (self._root / name).stat())

    def list(self, folder: str = "") -> list[Object]:
        top = self._root / folder
        found: list[Object] = []
        for root, _, names in os.walk(top):
            for name in names:
                path = Path(root) / name
                with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
                    if _DRAFT in name:
                        _remove_stale(path)
                    else:
                        found.append(_object(path.relative_to(self._root).as_posix(), path.stat()))
        return sorted(found, key=lambda item: item.name)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            (self._root / name).unlink(missing_ok=True)

    def _tag(self, name: str) -> str | None:
        with contextlib.suppress(FileNotFoundError):
            return self.about(name).tag
        return None

    @contextlib.contextmanager
    def _draft(self, name: str) -> Iterator[Path]:
        path = self._root / name
        make_folder(path.parent)
        draft = path.with_name(f"{path.name}{_DRAFT}{os.urandom(8).hex()}")
        try:
            yield draft
        finally:
            draft.unlink(missing_ok=True)


def _object(name: str, stat: os.stat_result) -> Object:
    return Object(name, stat.st_size, stat.st_mtime, f"{stat.st_size:x}-{stat.st_mtime_ns:x}-{stat.st_ino:x}")


def _complete(name: str, data: Any, length: int) -> memoryview:
    view = memoryview(data)
    if view.nbytes != length:
        raise OSError(f"{name} is cut short: {view.nbytes} bytes instead of {length}")
    return view


class Bucket:
    """Objects behind S3's interface, under a prefix of a bucket."""

    def __init__(self, url: str, store: S3Store) -> None:
        self.url = url
        self._store = store

    def create(self, name: str, data: bytes) -> None:
        self._put(name, data, "create")

    def replace(self, name: str, data: bytes, expected_tag: str | None = None) -> None:
        self._put(name, data, "overwrite" if expected_tag is None else {"e_tag": expected_tag})

    def upload(self, name: str, path: Path) -> None:
        self._put(name, path, "overwrite")

    def _put(self, name: str, data: bytes | Path, mode: Any) -> None:
        import obstore

        with self._explained(name):
            obstore.put(self._store, name, data, mode=mode)

    def read(self, name: str) -> tuple[Object, bytes]:
        import obstore

        with self._explained(name):
            found = obstore.get(self._store, name)
            return _from_meta(found.meta), bytes(found.bytes())

    def ranges(self, name: str, spans: Sequence[tuple[int, int]], expected_tag: str | None = None) -> list[memoryview]:
        import obstore

        if not spans:
            return []
        with self._explained(name, reading=True):
            if len(spans) == 1:
                [(offset, length)] = spans
                options: Any = {"range": (offset, offset + length)}
                options |= {"if_match": expected_tag} if expected_tag else {}
                found: list[Any] = [obstore.get(self._store, name, options=options).bytes()]
            else:
                if expected_tag and self.about(name).tag != expected_tag:
                    raise ObjectChanged(f"{name} has changed")
                starts, lengths = [offset for offset, _ in spans], [length for _, length in spans]
                found = list(obstore.get_ranges(self._store, name, starts=starts, lengths=lengths))
        return [_complete(name, data, length) for data, (_, length) in zip(found, spans, strict=True)]

    def about(self, name: str) -> Object:
        import obstore

        with self._explained(name):
            return _from_meta(obstore.head(self._store, name))

    def list(self, folder: str = "") -> list[Object]:
        import obstore

        with self._explained(folder):
            batches = obstore.list(self._store, folder.rstrip("/") or None)
            return sorted((_from_meta(item) for batch in batches for item in batch), key=lambda item: item.name)

    def delete(self, names: Iterable[str]) -> None:
        import obstore

        names = list(names)
        if names:
            with self._explained(names[0]), contextlib.suppress(FileNotFoundError):
                obstore.delete(self._store, names)

    @contextlib.contextmanager
    def _explained(self, name: str, reading: bool = False) -> Iterator[None]:
        """Turn obstore's errors into OSErrors that say in a line what is wrong."""
        from obstore import exceptions

        try:
            yield
        except FileNotFoundError as error:
            raise self._error(FileNotFoundError, name, error) from error
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
            raise self._error(ObjectChanged if reading else FileExistsError, name, error) from error
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise self._error(PermissionError, name, error) from error
        except exceptions.BaseError as error:
            raise self._error(OSError, name, error) from error

    def _error(self, kind: type[OSError], name: str, error: Exception) -> OSError:
        return kind(f"{self.url.partition('?')[0]}/{name}: {_reason(str(error))}")


def _from_meta(meta: Mapping[str, Any]) -> Object:
    return Object(meta["path"], meta["size"], meta["last_modified"].timestamp(), meta["e_tag"] or "")


def _reason(text: str) -> str:
    """The reason that a message of obstore's gives, in short."""
    if "169.254.169.254" in text or "redential" in text:
        return "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or ?anonymous=true)"
    found = _CODE.search(text)
    if found is not None:
        return ": ".join(part for part in found.groups() if part)
    status = re.search(r"status code: (\d+ [A-Za-z ]+)", text)
    message = " ".join(text.split("Debug source")[0].split())
    return status[1].strip() if status is not None else _PREAMBLE.sub("", message)


def is_remote(place: str) -> bool:
    """True if a text names a place in a store: it has a scheme, and a drive such as ``C:`` is none."""
    return "://" in place


def without_options(place: str) -> str:
    """A place without what says how to reach it.

    >>> without_options("s3://bucket/a?endpoint=http%3A%2F%2Fhost")
    's3://bucket/a'
    """
    return place.partition("?")[0] if is_remote(place) else place


def below(url: str, name: str) -> str:
    """The place of an object in a store.

    >>> below("s3://bucket/a?region=x", "b/c")
    's3://bucket/a/b/c?region=x'
    """
    place, mark, options = url.partition("?")
    return f"{place.rstrip('/')}/{name}{mark}{options}"


def open_objects(place: str) -> Objects:
    """The store at ``file:///folder`` or ``s3://bucket/prefix?endpoint=…&region=…&anonymous=true``.

    Without options, and for credentials, the environment holds (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID …).
    Nothing is read or written yet. Raises ConfigError for any other place, and if obstore is not installed.
    """
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Folder(Path(unquote(parts.path)))
    if parts.scheme != "s3":
        raise ConfigError(f"{place} is no store: it must begin with file:// or s3://")
    options = dict(parse_qsl(parts.query))
    unknown = sorted(options.keys() - set(_OPTIONS))
    if unknown or not parts.netloc:
        what = f"has no option {', '.join(unknown)}; there are {', '.join(_OPTIONS)}" if unknown else "names no bucket"
        raise ConfigError(f"{place} {what}")
    prefix = unquote(parts.path).strip("/")
    url = f"s3://{parts.netloc}" + (f"/{prefix}" if prefix else "") + (f"?{urlencode(options)}" if options else "")
    return Bucket(url, _s3_store(parts.netloc, prefix, options))


def _s3_store(bucket: str, prefix: str, options: Mapping[str, str]) -> S3Store:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import S3Store
    except ImportError as error:
        raise ConfigError('s3:// needs obstore: install it with pip install "qoop[s3]"') from error
    endpoint = options.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    settings: dict[str, Any] = {"region": options["region"]} if "region" in options else {}
    if endpoint:
        settings |= {"endpoint": endpoint, "virtual_hosted_style_request": False}
    if options.get("anonymous", "").lower() in ("1", "true", "yes"):
        settings["skip_signature"] = True
    client: Any = {**_TIMEOUTS, "allow_http": bool(endpoint and endpoint.startswith("http://"))}
    try:
        return S3Store(bucket, prefix=prefix or None, client_options=client, retry_config=_RETRIES, **settings)
    except BaseError as error:
        raise ConfigError(f"s3://{bucket} cannot be reached: {_reason(str(error))}") from error

"""JSON documents with a checksum, and optionally a seal: a signature by the user's key.

::

    {"checksum": "9f…", "format": "qoop-…", …}                   undamaged
    {"checksum": "9f…", "seal": "03…", "format": "qoop-…", …}    undamaged, and written with the key

Both are BLAKE2b over the bytes that follow them; the seal is made with the key (:mod:`qoop.catalog.user_key`). So a
document remains JSON that any program can read. The checksum detects damage. Only the seal detects forgery, since any
program can compute a checksum.

A seal does not cover the place of a document: the document must name its subject, and its reader compares that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from hmac import compare_digest
from typing import Any

_DIGEST_BYTES = 32
_HEAD = re.compile(rb'\{"checksum": "(?P<checksum>[0-9a-f]{64})", (?:"seal": "(?P<seal>[0-9a-f]{64})", )?')


class NotAsWritten(ValueError):
    """The document is truncated, changed or of another format."""


class NotSealed(ValueError):
    """The document is undamaged, but has no seal by this key."""


def sealed(body: Mapping[str, object], key: bytes | None = None, indent: int | None = None) -> str:
    """The text of a document. body: not empty. key: of the seal; None: it has a checksum only.

    >>> sealed({"rows": 3})[:20], sealed({"rows": 3})[-13:]
    ('{"checksum": "35e1fe', '", "rows": 3}')
    >>> opened(sealed({"rows": 3}, key=b"secret").encode(), key=b"secret")
    {'rows': 3}
    """
    rest = json.dumps(body, indent=indent)[1:].lstrip()
    content = rest.encode()
    seal = f'"seal": "{_digest(content, key)}", ' if key is not None else ""
    return f'{{"checksum": "{_digest(content)}", {seal}{rest}'


def opened(text: bytes, key: bytes | None = None) -> dict[str, Any]:
    """The body of a document. key: that it must be sealed with; None: the checksum is enough.

    Raises NotAsWritten, or NotSealed; both are ValueErrors.
    """
    head = _HEAD.match(text)
    if head is None:
        raise NotAsWritten("it does not begin with a checksum")
    content = text[head.end() :]
    if _digest(content) != head["checksum"].decode():
        raise NotAsWritten("its content does not match its checksum")
    if key is not None and not compare_digest(_digest(content, key), (head["seal"] or b"").decode()):
        raise NotSealed("it does not bear the seal of this user's key")
    try:
        body = json.loads(b"{" + content)
    except (ValueError, RecursionError) as error:
        raise NotAsWritten(f"it is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise NotAsWritten("it is not a JSON object")
    return body


def _digest(content: bytes, key: bytes | None = None) -> str:
    return blake2b(content, digest_size=_DIGEST_BYTES, key=key or b"").hexdigest()

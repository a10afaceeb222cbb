"""SCRAM-SHA-256 over the wire: a client proves that it knows a password, and the server that it has its verifier.

Neither sends the password, nor what lets another prove it. Within TLS the proof also covers the server's certificate
(channel binding), so that one in the middle with a certificate of its own cannot pass it on. The server's half is some
sums over texts, which is why no library does it: scramp, the only kept one, has refused the empty name that each client
of PostgreSQL sends since 1.4.17, and needs asn1crypto. Sources: RFC 5802, RFC 7677, RFC 5929.

::

    C: n,,n=,r=NONCE      S: r=NONCE+OURS,s=SALT,i=ROUNDS
    C: c=biws,r=…,p=PROOF S: v=SIGNATURE
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence

from qoop.catalog.errors import NotKnown
from qoop.interfaces.server.postgres import messages
from qoop.interfaces.server.postgres.messages import Wire
from qoop.interfaces.server.verifiers import Verifier

NAME, WITH_BINDING = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
_SASL, _GO_ON, _DONE = 10, 11, 12
_BINDING = "tls-server-end-point"
_FIRST = re.compile(r"((n|y|p=([\w.-]+)),(?:a=[^,]*)?,)(n=[^,]*,r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?)", re.ASCII)
_LAST = re.compile(r"(c=([\w+/=]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,[^,]+)*),p=([\w+/=]+)", re.ASCII)


def converse(wire: Wire, verifier: Verifier, binding: bytes | None) -> bool:
    """Ask for the proof of a password, and return whether it is right.

    binding: of the certificate, None without one. Raises Gone, NotKnown for what is no such conversation.
    """
    offered = [WITH_BINDING, NAME] if binding else [NAME]
    wire.put(messages.message(b"R", messages.long(_SASL), *map(messages.text, offered), b"\0"))
    wire.flush()
    server = Server(verifier, binding)
    wire.put(messages.message(b"R", messages.long(_GO_ON), server.first(*_begin(wire, offered)).encode()))
    wire.flush()
    signature = server.last(_text(_answer(wire)))
    if signature is None:
        return False
    wire.put(messages.message(b"R", messages.long(_DONE), signature.encode()))
    wire.flush()
    return True


def _begin(wire: Wire, offered: Sequence[str]) -> tuple[str, str]:
    """The mechanism that a client has chosen, and its first message."""
    reader = messages.Reader(_answer(wire))
    name = reader.text()
    if name not in offered:
        raise NotKnown(f"the password is asked for by {' or '.join(offered)} only")
    return name, _text(reader.raw(max(0, reader.number(4))))


def _answer(wire: Wire) -> bytes:
    kind, reply = wire.receive()
    if kind != b"p":
        raise NotKnown("a password was asked for")
    return reply.raw(reply.left)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise NotKnown("a message of SCRAM is not UTF-8") from error


class Server:
    """The server's half of one conversation."""

    def __init__(self, verifier: Verifier, binding: bytes | None = None) -> None:
        self._verifier, self._binding = verifier, binding
        self._nonce, self._exchange, self._bound = "", "", b""

    def first(self, mechanism: str, message: str) -> str:
        """The answer to the first message of a client. Raises NotKnown."""
        found = _FIRST.fullmatch(message)
        if found is None:
            raise NotKnown("a first message of SCRAM was expected")
        header, flag, binding, bare, theirs = found.groups()
        self._check_binding(mechanism, flag, binding)
        self._bound = header.encode() + (self._binding or b"" if binding else b"")
        self._nonce = theirs + secrets.token_urlsafe(24)
        salt = base64.b64encode(self._verifier.salt).decode()
        ours = f"r={self._nonce},s={salt},i={self._verifier.rounds}"
        self._exchange = f"{bare},{ours}"
        return ours

    def last(self, message: str) -> str | None:
        """The answer to the last message of a client; None if its proof is wrong. Raises NotKnown."""
        found = _LAST.fullmatch(message)
        if found is None or not hmac.compare_digest(found[3], self._nonce):
            raise NotKnown("a last message of SCRAM with the nonce of the first was expected")
        if not hmac.compare_digest(_decoded(found[2]), self._bound):
            raise NotKnown("the client sees another certificate than that of this server, or another begin of SCRAM")
        exchange = f"{self._exchange},{found[1]}".encode()
        proof, signature = _decoded(found[4]), hmac.digest(self._verifier.stored_key, exchange, "sha256")
        if len(proof) != len(signature):
            return None
        key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored_key):
            return None
        ours = hmac.digest(self._verifier.server_key, exchange, "sha256")
        return f"v={base64.b64encode(ours).decode()}"

    def _check_binding(self, mechanism: str, flag: str, binding: str | None) -> None:
        if (mechanism == WITH_BINDING) != bool(binding) or binding not in (None, _BINDING):
            raise NotKnown(f"the channel is bound by {WITH_BINDING} and {_BINDING} only")
        if flag == "y" and self._binding:
            raise NotKnown("the client was told that this server binds no channel, and it does: is one in the middle?")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return b""


_RSA, _ECDSA = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01", b"\x2a\x86\x48\xce\x3d\x04"
_HASHES = {
    _RSA + b"\x04": "sha256", _RSA + b"\x05": "sha256", _RSA + b"\x0b": "sha256", _ECDSA + b"\x01": "sha256",
    _ECDSA + b"\x03\x02": "sha256", _RSA + b"\x0c": "sha384", _ECDSA + b"\x03\x03": "sha384",
    _RSA + b"\x0d": "sha512", _ECDSA + b"\x03\x04": "sha512",
}  # fmt: skip
"""The hash that binds a certificate, by the object identifier of its signature: its own, SHA-256 for MD5 and SHA-1."""


def binding_of(certificate: bytes) -> bytes | None:
    """The bytes that bind a channel to a certificate in DER; None for one whose signature has no hash of its own."""
    try:
        outer, _ = _element(certificate)
        _, rest = _element(outer)  # what is signed
        algorithm, _ = _element(rest)
        hash_ = _HASHES.get(_element(algorithm)[0])
    except IndexError:
        return None
    return None if hash_ is None else hashlib.new(hash_, certificate).digest()


def _element(data: bytes) -> tuple[bytes, bytes]:
    """The content of the first element of DER, and what follows it. Raises IndexError."""
    size, at = data[1], 2
    if size & 0x80:
        at += size & 0x7F
        size = int.from_bytes(data[2:at], "big")
    return data[at : at + size], data[at + size :]

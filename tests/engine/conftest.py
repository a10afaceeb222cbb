"""Certificates of two authorities, for processes that talk by TLS."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders "ours" and "theirs", of an authority each, with a certificate for this machine that it has signed."""
    top = tmp_path_factory.mktemp("tls")
    for name in ("ours", "theirs"):
        (top / name).mkdir()
        script = """
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.pem -subj /CN=authority
        openssl req -newkey rsa:2048 -nodes -keyout key.pem -out request -subj /CN=node
        echo subjectAltName=IP:127.0.0.1 > names
        openssl x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem
        """
        subprocess.run(["sh", "-e", "-c", script], cwd=top / name, check=True, capture_output=True)
    return top


@pytest.fixture
def shows(authorities: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def show(whose: str) -> None:
        for name, file in (("SERVER_CERT", "cert.pem"), ("SERVER_KEY", "key.pem"), ("CA_CERT", "ca.pem")):
            monkeypatch.setenv(f"RAY_TLS_{name}", str(authorities / whose / file))

    return show

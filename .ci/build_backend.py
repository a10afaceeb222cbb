"""The build backend: that of setuptools, whose editable installs also put the folder of the clone on `sys.path`.

Without that, Python that starts in the folder above the clone takes the folder of the clone, `qoop/`, for a namespace
package `qoop`: it looks for folders before it calls the finder that setuptools installs.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  # the other hooks are as they are

_CLONE = Path(__file__).resolve().parents[1]
_PATH_FILE = "qoop_clone.pth"


def build_editable(
    wheel_directory: str, config_settings: Mapping[str, object] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel of an editable install (PEP 660), and return the name of its file."""
    name: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    _add(Path(wheel_directory) / name, _PATH_FILE, f"{_CLONE}\n".encode())
    return name


def _add(wheel: Path, name: str, content: bytes) -> None:
    """Add a file to a wheel, and a line to its RECORD, which is why the archive is written again."""
    with zipfile.ZipFile(wheel) as archive:
        files = {info.filename: archive.read(info) for info in archive.infolist()}
    record = next(one for one in files if one.endswith(".dist-info/RECORD"))
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    files[record] = f"{name},sha256={digest},{len(content)}\n".encode() + files[record]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for one, held in {name: content, **files}.items():
            archive.writestr(one, held)

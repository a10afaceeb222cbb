"""The manifest of a folder of generated data, ``DIR/qoop-data.json``: only what it lists counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from qoop.catalog.errors import SourceError
from qoop.catalog.stores.whole_file import write_synced
from qoop.tpcds.skew import Skew

MANIFEST = "qoop-data.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class TableFiles:
    """One finished table: its rows, and the size in bytes of each file by path relative to the folder."""

    rows: int
    files: Mapping[str, int]

    def are_in(self, directory: Path) -> bool:
        """True if every file is there in its full size."""
        return all(file_size(directory / name) == size for name, size in self.files.items())


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a folder of generated data: the suite, scale, generator and finished tables.

    skew: how the keys were drawn that the generator has drawn evenly.
    """

    suite: str
    scale: float
    generator: str
    tables: Mapping[str, TableFiles] = field(default_factory=dict)
    skew: Skew | None = None

    def __str__(self) -> str:
        keys = "" if self.skew is None else f", {self.skew}"
        return f"{self.suite} data at scale {self.scale:g}{keys}"

    def write(self, folder: Path) -> None:
        """Replace the manifest in one step, after its bytes are on the disk."""
        partial = folder / f".{MANIFEST}"
        write_synced(partial, json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode())
        partial.replace(folder / MANIFEST)


def read_manifest(directory: str | Path) -> Manifest | None:
    """The manifest of a folder of generated data, None if it has none. Raises SourceError if it is not readable."""
    path = Path(directory) / MANIFEST
    try:
        content = json.loads(path.read_text())
        return _manifest(content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{path} is not a manifest of generated data: {error}") from error


def _manifest(content: dict[str, Any]) -> Manifest:
    if content["format"] != FORMAT:
        raise ValueError(f"format {content['format']}, not {FORMAT}")
    tables = {
        name: TableFiles(int(table["rows"]), {path: int(size) for path, size in table["files"].items()})
        for name, table in content["tables"].items()
    }
    skew = content.get("skew")
    return Manifest(
        str(content["suite"]), float(content["scale"]), str(content["generator"]), tables,
        None if skew is None else Skew(float(skew["exponent"]), int(skew["seed"])),
    )  # fmt: skip


def file_size(path: Path) -> int:
    """Bytes of a file, -1 if there is none (it may be renamed while we look)."""
    try:
        return path.stat().st_size
    except OSError:
        return -1

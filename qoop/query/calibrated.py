"""The constants of the cost model that `qoop calibrate` (:mod:`qoop.interfaces.commands.calibration`) stored for
this machine."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import duckdb

from qoop.catalog.errors import ConfigError
from qoop.catalog.paths import cache_directory
from qoop.catalog.signed_json import opened
from qoop.planner.estimate.cost import DEFAULT, CostModel

FORMAT = 4
"""It rises when the meaning of the constants changes; files of another format are not used."""

MEASURED = (
    "scan_row", "scan_byte", "filter_row", "build_row", "build_byte", "probe_row", "miss_row", "more_keys_row",
    "output_row", "nested_pair", "aggregate_row", "key_byte", "group_row", "aggregate_value", "state_miss",
    "sort_row", "window_row", "frame_row", "exchange_row", "exchange_byte", "task_overhead_seconds", "operator_seconds",
)  # fmt: skip
"""The constants in which a query's time is linear."""

KEPT = (*MEASURED, "serial_part")
"""The constants that are kept; the others are no times."""


def calibration_path(directory: str | os.PathLike[str] | None = None) -> Path:
    """The file that keeps the constants: in `directory`, by default qoop's folder of caches."""
    return (Path(directory) if directory is not None else cache_directory()) / "calibration.json"


def load(path: Path) -> CostModel:
    """The constants in the file; those that ship if there is none, or one of another format or DuckDB.

    Raises ConfigError if the file is not what `save` writes.
    """
    try:
        text = path.read_bytes()
        content = {} if _is_older(text) else opened(text)
    except FileNotFoundError:
        return DEFAULT
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; run `qoop calibrate`, or remove it") from error
    if content.get("format") != FORMAT or content.get("duckdb") != duckdb.__version__:
        return DEFAULT
    constants = content.get("constants")
    if not isinstance(constants, dict) or set(constants) != set(KEPT) or not all(map(_positive, constants.values())):
        raise ConfigError(f"{path} does not hold the constants of the cost model; run `qoop calibrate`, or remove it")
    return replace(DEFAULT, **constants)


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < float("inf")


def _is_older(text: bytes) -> bool:
    """True if it was written before such files bore a checksum."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and "checksum" not in content and content.get("format") in (1, 2)

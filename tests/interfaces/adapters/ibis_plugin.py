"""A plugin of pytest for the tests that ibis ships: it lets them run on our backend, and on DuckDB's, with our tables.

A test that ibis expects to fail on DuckDB is expected to fail on ours, which computes with DuckDB.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import ibis
import ibis.backends
import pytest
from ibis.backends.tests.base import BackendTest
from ibis_tables import SMALL, write_large

from qoop.interfaces.adapters import ibis_backend

DATA, BACKEND = Path(os.environ["QOOP_IBIS_DATA"]), os.environ["QOOP_IBIS_BACKEND"]
MARKS = ("notimpl", "notyet", "never", "broken")
OF_TEXTS = ("snapshot", "assert_sql")
"""Fixtures of the tests that compare SQL texts with those that ibis keeps for each of its own backends."""


class _OurTables(BackendTest):
    stateful = False
    supports_map = True
    deps: Sequence[str] = ("duckdb",)

    def _load_data(self, **_: Any) -> None:
        write_large(DATA)
        for path in sorted(DATA.glob("*.parquet")):
            self.make(path.stem, f"SELECT * FROM read_parquet('{path}')")
        for name, query in SMALL.items():
            self.make(name, query)

    def make(self, name: str, query: str) -> None:
        """Make a table of a query."""
        self.connection.raw_sql(f'CREATE OR REPLACE TABLE "{name}" AS {query}')


class OnQoop(_OurTables):
    """Our backend."""

    @classmethod
    def name(cls) -> str:
        return "qoop"

    @staticmethod
    def connect(*, tmpdir: Any, worker_id: str, **options: Any) -> Any:
        made = ibis_backend.Backend()
        made.do_connect(slots=2, memory="1GB", **options)
        return made


class OnDuckDB(_OurTables):
    """DuckDB's own backend."""

    @classmethod
    def name(cls) -> str:
        return "duckdb"

    @staticmethod
    def connect(*, tmpdir: Any, worker_id: str, **options: Any) -> Any:
        return ibis.duckdb.connect(threads=1, **options)


def _as_module(backend: str, conf: type[BackendTest]) -> None:
    """Let ibis find the class where it looks for that of a backend."""
    module = ModuleType(f"ibis.backends.{backend}.tests.conftest")
    module.TestConf = conf  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module


_EVERY = ibis.backends._get_backend_names()
ibis.backends._get_backend_names = lambda exclude=(): frozenset({BACKEND}).difference(exclude)
sys.modules["ibis.backends.qoop"] = ibis_backend  # the tests of signatures look for it there
_as_module(BACKEND, {"qoop": OnQoop, "duckdb": OnDuckDB}[BACKEND])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of texts; marks for DuckDB are marks for ours, too."""
    sys.modules["ibis.backends.conftest"].ALL_BACKENDS = set(_EVERY)  # type: ignore[attr-defined]
    left_out = [item for item in items if set(OF_TEXTS) & set(getattr(item, "fixturenames", ()))]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]
    for item in items:
        for mark in [mark for mark in item.iter_markers() if mark.name in MARKS and "duckdb" in mark.args[0]]:
            again = getattr(pytest.mark, mark.name)(["qoop"], *mark.args[1:], **mark.kwargs)
            item.add_marker(again)

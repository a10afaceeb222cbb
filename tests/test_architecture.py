"""The laws of the layout: importing qoop is cheap, and its top is five floors. Imports: tests/house/test_floors.py."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = ("adaptive", "query", "programs", "session", "interfaces")
"""Those that lie in the folder `qoop`."""


def test_importing_qoop_loads_nothing_heavy() -> None:
    code = (
        "import qoop, sys; print([m for m in ('pandas','networkx','duckdb','pyarrow','sqlglot') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "[]"


def test_a_session_needs_neither_pandas_nor_networkx() -> None:
    code = "import qoop.session.session, sys; print([m for m in ('pandas','networkx') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "[]"


def test_a_small_answer_is_printed_without_pandas() -> None:
    code = (
        "from qoop.__main__ import main; import sys; main(['-c', 'select 42 as answer']); "
        "print([m for m in ('pandas', 'networkx', 'pyarrow.dataset', 'rich', 'prompt_toolkit') if m in sys.modules])"
    )
    usual = os.environ | {"QOOP_GUARD": "meet"}  # to compare outputs, as tests do, takes pyarrow.dataset
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/", env=usual)
    assert "42" in done.stdout and done.stdout.strip().endswith("[]"), done.stdout


def test_the_prompt_comes_before_the_engine() -> None:
    code = (
        "import qoop.__main__, qoop.interfaces.repl.interactive, sys; "
        "print([m for m in ('duckdb', 'pyarrow', 'sqlglot', 'numpy', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "[]"


def test_the_top_of_qoop_is_five_floors() -> None:
    found = {path.name for path in (ROOT / "qoop").iterdir() if path.name != "__pycache__"}
    assert found == {"__init__.py", "__main__.py", "py.typed", *FLOORS}


def test_modules_are_found_by_their_former_names() -> None:
    code = (
        "import warnings; warnings.simplefilter('ignore', DeprecationWarning); "
        "from qoop.schedulers.base import Scheduler; from qoop.adaptive.schedulers import base; "
        "from qoop.session import Session; import qoop, qoop.server.users as users; "
        "from qoop.server.manners import Manners; from qoop.interfaces.server.timeouts import ClientLimits; "
        "print(base.Scheduler is Scheduler, qoop.Session is Session, users.__name__, Manners is ClientLimits)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "True True qoop.interfaces.server.users True"
    with pytest.raises(ModuleNotFoundError, match="nothing"):
        import_module("qoop.schedulers.nothing")

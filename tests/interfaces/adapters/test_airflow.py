"""A task of Airflow that is killed, or stopped, and goes on in its next try."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from facts_table import expected, write_facts
from waits import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("airflow") is None, reason="Airflow is not installed: make test-airflow"
    ),
]
TEXT = "SELECT k % 7 AS k, sum(length(md5((v + range)::VARCHAR) || k)) AS n FROM facts, range(30) GROUP BY 1 ORDER BY 1"
DAG = """
from datetime import timedelta

from airflow.sdk import DAG
from qoop.interfaces.adapters.airflow import QoopOperator

with DAG("report", schedule=None):
    QoopOperator(
        task_id="report", sql="report.sql", data=["{data}"], place="{place}", out="{out}", options={{"slots": 1}},
        retries=1, retry_delay=timedelta(seconds=0),
    )
"""


class Airflow:
    """An Airflow in a folder of its own, with one DAG."""

    def __init__(self, folder: Path) -> None:
        self.data, self.place, self.out = write_facts(folder), folder / "place", folder / "answer.parquet"
        (folder / "dags").mkdir()
        (folder / "dags" / "report.py").write_text(DAG.format(data=self.data, place=self.place, out=self.out))
        (folder / "dags" / "report.sql").write_text(TEXT)
        settings = {"AIRFLOW_HOME": str(folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
        self.environment = os.environ | settings
        self.command("db", "migrate")
        self.command("dags", "reserialize")

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Start a command in a session of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "airflow", *words], env=self.environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def command(self, *words: str) -> str:
        """The output of a command, which succeeds."""
        process = self.begin(*words)
        shown, _ = process.communicate(timeout=240)
        assert process.returncode == 0, shown
        return shown


@pytest.fixture
def airflow(tmp_path: Path) -> Airflow:
    return Airflow(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_task_goes_on_in_its_next_try(airflow: Airflow, number: signal.Signals) -> None:
    first = airflow.begin("dags", "test", "report")
    until(lambda: any(airflow.place.glob("*.json")))
    os.killpg(first.pid, number)
    shown, _ = first.communicate(timeout=120)
    if number == signal.SIGTERM:  # the first try stops in time, and Airflow tries again
        assert "stopped by SIGTERM: " in shown
    else:
        assert not airflow.out.exists()
        shown = airflow.command("dags", "test", "report")
    assert "continued: " in shown
    with duckdb.connect() as connection:
        assert connection.sql(f"FROM '{airflow.out}'").fetchall() == expected(airflow.data, TEXT)

"""The recipes of docs/until-done.md do what they say: a life that stops in time, and the next one that ends the query.

What belongs to a platform is a stand-in of a few lines; `make test-airflow` has the real Airflow.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import duckdb
import pytest
from facts_table import TEXT, expected, write_facts

from qoop.__main__ import _parser

pytestmark = pytest.mark.usefixtures("as_installed")

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "until-done.md").read_text()
FIRST, SECOND = "0.001s", "60s"
"""A time that ends before the query, and one that does not."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a recipe: a query, its data, and stand-ins on the path."""
    for name in ("data", "programs", "kept"):
        (tmp_path / name).mkdir()
    write_facts(tmp_path / "data")
    (tmp_path / "report.sql").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    path = f"{tmp_path / 'programs'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    return tmp_path


def recipe(title: str, language: str, number: int = 0) -> str:
    """A block of a language in a section of the page."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    found = re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert len(found) > number, f"{title} lacks a block of {language}"
    return str(found[number])


def answered(folder: Path, out: str = "report.parquet") -> bool:
    """True if the answer is there; it is DuckDB's."""
    if not (folder / out).exists():
        return False
    with duckdb.connect() as connection:
        assert connection.sql(f"FROM '{folder / out}'").fetchall() == expected(folder / "data")
    return True


def test_the_job_of_kubernetes_tries_again_what_stopped_in_time() -> None:
    yaml: Any = pytest.importorskip("yaml", reason="PyYAML is not installed")
    job = yaml.safe_load((ROOT / "deploy" / "job.yaml").read_text())["spec"]
    assert yaml.safe_load(recipe("Kubernetes", "yaml"))["podFailurePolicy"] == job["podFailurePolicy"]
    by_code = [rule for rule in job["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
    rules = {code: rule["action"] for rule in by_code for code in rule["onExitCodes"]["values"]}
    assert rules == {75: "Ignore", 1: "FailJob", 2: "FailJob"}
    pod = job["template"]["spec"]
    [container] = pod["containers"]
    words = [*container["command"][1:], *container["args"]]
    options = _parser(words).parse_args(words)
    assert pod["restartPolicy"] == "Never" and pod["terminationGracePeriodSeconds"] > options.grace + 5
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounts) == {volume["name"] for volume in pod["volumes"]}
    places = [options.query, *options.paths, str(options.checkpoints), options.out]
    assert all(any(place.startswith(mount) for mount in mounts.values()) for place in places)


def program(folder: Path, name: str, text: str) -> None:
    path = folder / "programs" / name
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def test_a_job_of_slurm_puts_itself_into_the_queue_again(folder: Path) -> None:
    script = recipe("Slurm", "sh")
    assert "--signal=USR1@60 --requeue" in script and "--grace 50s" in script
    program(folder, "scontrol", 'echo "$@" >> queue')
    for seconds, done in ((FIRST, False), (SECOND, True)):
        program(folder, "srun", f'exec "$@" --for {seconds} --grace 0')
        subprocess.run(["bash"], input=script, text=True, env=os.environ | {"SLURM_JOB_ID": "7"}, check=True)
        assert answered(folder) == done
    assert (folder / "queue").read_text() == "requeue 7\n"


def test_a_workflow_of_github_starts_the_next_one_and_uses_its_cache(folder: Path) -> None:
    yaml: Any = pytest.importorskip("yaml", reason="PyYAML is not installed")
    workflow = yaml.safe_load(recipe("GitHub Actions", "yaml"))
    assert workflow["permissions"]["actions"] == "write"
    steps = workflow["jobs"]["report"]["steps"]
    runs = [step["run"] for step in steps if "run" in step and "pip" not in step["run"]]
    cached = [step["with"] for step in steps if "cache/" in step.get("uses", "")]
    assert {one["path"] for one in cached} == {"kept"} and len({one["key"] for one in cached}) == 1
    program(folder, "gh", 'echo "$@" >> dispatched')
    for seconds, done in ((FIRST, False), (SECOND, True)):
        shutil.copytree(folder / "data", folder / "fresh")  # as a checkout: other times, other inodes
        shutil.rmtree(folder / "data")
        (folder / "fresh").rename(folder / "data")
        for run in runs:
            script = run.replace("--for 5h", f"--for {seconds} --grace 0")
            subprocess.run(["bash", "-e"], input=script, text=True, check=True)
        (folder / "again").unlink(missing_ok=True)
        assert answered(folder) == done
    assert (folder / "dispatched").read_text() == "workflow run report.yml\n"
    failed = subprocess.run(["bash", "-e"], input=runs[0], text=True, capture_output=True)
    assert failed.returncode != 0 and "exists" in failed.stderr and not (folder / "again").exists()


def test_a_function_of_aws_calls_itself_until_the_query_is_done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    client = SimpleNamespace(invoke=lambda **call: events.append(call["Payload"]))
    monkeypatch.setitem(sys.modules, "boto3", SimpleNamespace(client=lambda name: client))
    names: dict[str, Any] = {}
    exec(recipe("AWS Lambda", "py"), names)
    event: Any = {"query": TEXT, "data": [str(folder / "data")], "place": str(folder / "kept"), "slots": 1}
    event["out"] = str(folder / "report.parquet")
    for left, done in ((2_002, False), (60_000, True)):
        context = SimpleNamespace(function_name="report", get_remaining_time_in_millis=lambda left=left: left)
        reply = names["handler"](event, context)
        assert reply["done"] == answered(folder) == done
        event = reply["event"]
    assert len(events) == 1 and '"token"' in events[0]


class Invocations:
    """Durable functions of Lambda: a step runs once, and each wait ends the invocation."""

    class Suspended(Exception):
        """The function is to be called again."""

    def __init__(self, milliseconds: list[int]) -> None:
        self.lambda_context = SimpleNamespace(get_remaining_time_in_millis=lambda: milliseconds.pop(0))
        self._replies: list[Any] = []
        self._waited = self._place = 0

    def step(self, function: Callable[[None], object]) -> Any:
        self._place += 1
        if self._place > len(self._replies):
            self._replies.append(json.dumps(function(None)))
        return json.loads(self._replies[self._place - 1])

    def wait(self, duration: float) -> None:
        if self._waited < self._place:
            self._waited, self._place = self._place, 0
            raise self.Suspended


def test_a_durable_function_of_aws_runs_a_slice_an_invocation(folder: Path, module: Callable[..., None]) -> None:
    module("aws_durable_execution_sdk_python", durable_execution=lambda function: function)
    module("aws_durable_execution_sdk_python.config", Duration=SimpleNamespace(from_seconds=float))
    names: dict[str, Any] = {}
    exec(recipe("AWS Lambda", "py", 1), names)
    event = {"query": TEXT, "data": [str(folder / "data")], "place": str(folder / "kept"), "slots": 1}
    event["out"] = str(folder / "report.parquet")
    left = [2_002, 2_002, 60_000]
    context = Invocations(left)
    for _ in range(2):
        with pytest.raises(Invocations.Suspended):
            names["handler"](event, context)
        assert not answered(folder)
    assert names["handler"](event, context)["done"] and answered(folder) and not left


class Again(Exception):
    """The exception by which a task is tried again."""

    def __init__(self, *words: object, max_retries: int = 1) -> None:
        super().__init__(*words)


class Operator:
    """The part of Airflow's BaseOperator that is needed."""

    tasks: ClassVar[list[Any]] = []

    def __init__(self, task_id: str, retries: int, execution_timeout: timedelta | None = None) -> None:
        self.execution_timeout = execution_timeout
        self.log = SimpleNamespace(info=print)
        self.tasks.append(self)


class Dag:
    """Airflow's DAG."""

    def __init__(self, name: str, schedule: str) -> None:
        self.name = name

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes a stand-in of a module."""

    def made(name: str, **names: object) -> None:
        found = ModuleType(name)
        vars(found).update(names)
        monkeypatch.setitem(sys.modules, name, found)

    return made


def test_a_task_of_airflow_goes_on_in_its_next_try(
    folder: Path, module: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module("airflow")
    module("airflow.sdk", DAG=Dag, BaseOperator=Operator)
    module("airflow.sdk.exceptions", AirflowException=Again)
    monkeypatch.delitem(sys.modules, "qoop.interfaces.adapters.airflow", raising=False)
    exec(recipe("Airflow", "py"), {})
    task = Operator.tasks.pop()
    monkeypatch.delitem(sys.modules, "qoop.interfaces.adapters.airflow")
    assert "out" in task.template_fields
    task.sql, task.data, task.place, task.out = TEXT, [str(folder / "data")], str(folder / "kept"), "report.parquet"
    task.on_kill()  # before it runs
    task.execution_timeout = timedelta(seconds=4.001)
    with pytest.raises(Again, match="stopped by the end of its time"):
        task.execute({})
    assert not answered(folder)
    task.execution_timeout = None
    assert task.execute({}) == "report.parquet" and answered(folder)
    assert "done: 7 rows" in capsys.readouterr().out


def test_an_asset_of_dagster_is_tried_again(folder: Path, module: Callable[..., None]) -> None:
    module("dagster", RetryRequested=Again, asset=lambda function: function)
    names: dict[str, Any] = {}
    text = recipe("Dagster", "py")
    exec(text.replace("seconds=3600", "seconds=0.001, grace=0"), names)
    with pytest.raises(Again):
        names["report"]()
    assert not answered(folder)
    exec(text, names)
    names["report"]()
    assert answered(folder)

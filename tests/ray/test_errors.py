"""Errors on a node reach the session as what they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.catalog.errors import ConfigError, ExecutionError, GuardMismatch, QoopError, SourceError
from qoop.engine.events import TaskFailed
from qoop.engine.task import AttemptId, TaskId
from qoop.session.session import Session

if TYPE_CHECKING:
    from tests.ray.conftest import Nodes

pytestmark = pytest.mark.ray

ATTEMPT = AttemptId(TaskId("job1", "s1", 3), 1)


def kinds(root: type[QoopError] = QoopError) -> list[type[QoopError]]:
    """All classes of errors that there are, those of other modules with them."""
    return [root, *(kind for one in root.__subclasses__() for kind in kinds(one))]


@pytest.fixture(scope="module")
def session(two_nodes: Nodes) -> Iterator[Session]:
    with qoop.connect(ray=two_nodes.address) as session:
        yield session


def test_every_error_survives_the_trip(session: Session) -> None:
    import ray

    def fails(kind: type[QoopError]) -> TaskFailed:
        error = kind(f"what went wrong: {kind.__name__}")
        error.stage, error.part, error.sql = "s1", 3, "SELECT 1"
        if isinstance(error, GuardMismatch):
            error.file = Path("/somewhere/mismatch.json")
        return TaskFailed(ATTEMPT, error, retryable=False)

    remote, found = ray.remote(num_cpus=0)(fails), kinds()
    assert len(found) > 20
    for kind, event in zip(found, ray.get([remote.remote(kind) for kind in found]), strict=True):
        expected = fails(kind)
        assert type(event.error) is kind
        assert str(event.error) == str(expected.error) and vars(event.error) == vars(expected.error)


def test_the_error_of_a_task_names_its_stage_and_fragment(session: Session) -> None:
    session.register("words", pa.table({"word": ["1", "2", "three"]}))
    with pytest.raises(ExecutionError, match="three") as caught:
        session.sql("SELECT sum(CAST(word AS INTEGER)) FROM words")
    assert caught.value.stage is not None and caught.value.part == 0 and "words" in (caught.value.sql or "")


def test_a_file_that_is_gone_is_told(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "gone.parquet"
    pq.write_table(pa.table({"n": [1, 2, 3]}), path)
    session.register("gone", path)
    path.unlink()
    with pytest.raises(SourceError, match="gone"):
        session.submit("SELECT sum(n) FROM gone").result()


def test_the_size_of_nodes_is_not_the_sessions_to_set(session: Session, two_nodes: Nodes) -> None:
    with pytest.raises(ConfigError, match="nodes"):
        session.resize(slots=1)
    with pytest.raises(ConfigError, match="slots and memory"):
        qoop.connect(ray=two_nodes.address, slots=2)


def test_another_cluster_is_refused(session: Session) -> None:
    with pytest.raises(ConfigError, match="is connected to the Ray cluster at"):
        qoop.connect(ray="127.0.0.1:1")
    with pytest.raises(ConfigError, match="ray job submit"):
        qoop.connect(ray="ray://127.0.0.1:10001")

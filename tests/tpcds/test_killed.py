"""Processes that are killed with -9 at random moments, and what the next one makes of what they leave."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import qoop
from qoop.engine.history import Started
from qoop.engine.storage.manifest import manifests
from qoop.engine.task import CheckpointKey, checkpoint_key
from qoop.planner.plan import Plan
from qoop.tpcds.oracle import Oracle, is_empty_answer
from qoop.tpcds.queries import texts

QUERIES = (2, 4, 5, 11, 14, 17, 23, 24, 25, 29, 47, 51, 59, 64, 67, 72, 74, 75, 78, 95)
SLOTS, MEMORY = 2, "2GB"
SAMPLE = (0, 8, 28)  # of both kinds, of quick queries: how long one takes adds nothing to what is shown
SEEDS = [*SAMPLE, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(100) if seed not in SAMPLE)]

RUNS_ONE = """
import sys, qoop
data, folder, text, replan = sys.argv[1:]
with qoop.connect(slots=2, memory="2GB", checkpoints=folder, replan=replan == "replan") as session:
    session.register_folder(data)
    session.explain(text)
    print("ready", flush=True)
    session.sql(text)
    print("done", flush=True)
    sys.stdin.read()
"""


def killed(data: Path, folder: Path, text: str, wait: float, replan: bool) -> None:
    """Start a process that runs the query, and kill it that many seconds after it has begun."""
    arguments = [str(data), str(folder), text, "replan" if replan else "pinned"]
    process = subprocess.Popen(
        [sys.executable, "-c", RUNS_ONE, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(wait)
    finally:
        process.kill()
        process.communicate()


def tasks_of(plan: Plan) -> set[CheckpointKey]:
    """The keys of all that the plan's tasks put out."""
    return {checkpoint_key(stage, part) for stage in plan.stages for part in range(stage.width)}


@pytest.fixture(scope="module")
def seconds(tpcds_test: Path, benchmark_texts: None) -> Iterator[dict[int, float]]:
    """The seconds that queries take, measured when first asked for."""
    with qoop.connect(slots=SLOTS, memory=MEMORY, replan=False) as session:
        session.register_folder(tpcds_test)

        class Measured(dict[int, float]):
            def __missing__(self, number: int) -> float:
                session.sql(texts()[number])  # statistics and files are warm after this
                began = time.perf_counter()
                session.sql(texts()[number])
                self[number] = time.perf_counter() - began
                return self[number]

        yield Measured()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_next_process_goes_on_from_what_was_committed(
    seed: int, tpcds_test: Path, tpcds_oracle: Oracle, seconds: dict[int, float], tmp_path: Path
) -> None:
    """Killed up to twice; every query with and without changes of plan."""
    random_ = random.Random(seed)
    number, adaptive = QUERIES[seed % len(QUERIES)], seed // len(QUERIES) % 2 == 1
    text, folder = texts()[number], tmp_path / "checkpoints"
    for _ in range(random_.randint(1, 2)):
        killed(tpcds_test, folder, text, 0.1 + random_.uniform(0.2, 2.5) * seconds[number], adaptive)
    committed = {saved.committed.key for saved in manifests(folder)}
    with qoop.connect(slots=SLOTS, memory=MEMORY, checkpoints=folder, replan=adaptive) as session:
        session.register_folder(tpcds_test)
        job = session.submit(text)
        answer = job.result().arrow()
        attempts = [record.key for record in job.history() if isinstance(record, Started)]
    theirs = tpcds_oracle.answer(text)
    assert not is_empty_answer(theirs)
    difference = tpcds_oracle.judge(text, answer, theirs)
    assert difference is None, f"seed {seed}: {difference}"
    missing = tasks_of(job.plan) - committed
    told = f"{len(committed)} outputs found, {len(missing)} missing, {len(attempts)} attempts, {len(job.plans)} plans"
    print(f"seed {seed}, query {number}: {told}")
    assert committed.isdisjoint(attempts), f"seed {seed}: work was done again"
    assert adaptive or len(attempts) <= len(missing), f"seed {seed}: work was done again"
    kinds = Counter(path.suffix for path in folder.iterdir())
    assert kinds[".user"] == 0 and kinds[".json"] == kinds[".arrow"] > 0


SHARES = """
import json, random, sys, qoop
data, folder, seed, budget = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
expected = json.loads(sys.stdin.readline())
choose = random.Random(seed)
with qoop.connect(slots=1, memory="300MB", checkpoints=folder, checkpoint_budget=budget) as session:
    session.register_folder(data)
    while True:
        text = choose.choice(list(expected))
        answer = json.loads(json.dumps(session.sql(text).fetchall(), default=str))
        if answer != expected[text]:
            print("wrong", text, answer, flush=True)
            sys.exit(3)
        print("right", flush=True)
"""


TEXTS = (
    "SELECT ss_store_sk AS k, count(*) AS n FROM store_sales GROUP BY k ORDER BY k",
    "SELECT ss_store_sk AS k, count(*) AS n FROM store_sales GROUP BY k ORDER BY n, k LIMIT 5",
    "SELECT d_year AS y, sum(ss_quantity) AS q FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk "
    "WHERE d_moy = 11 GROUP BY y ORDER BY y",
    "SELECT i_category AS c, count(*) AS n FROM web_sales JOIN item ON ws_item_sk = i_item_sk GROUP BY c ORDER BY c",
    "SELECT count(*) AS n, max(cs_order_number) AS m FROM catalog_sales WHERE cs_quantity > 50",
)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_processes_that_share_a_folder_and_are_killed(seed: int, tpcds_small: Path, tmp_path: Path) -> None:
    """Two at a time, each killed at random and replaced, on a budget that is too small for all outputs."""
    folder, budget, random_ = tmp_path / "checkpoints", 60_000, random.Random(seed)
    with qoop.connect(slots=1) as session:
        session.register_folder(tpcds_small)
        expected = {text: session.sql(text).fetchall() for text in TEXTS}
    processes = [sharing(tpcds_small, folder, budget, expected, seed)]
    for tick in range(4):
        processes.append(sharing(tpcds_small, folder, budget, expected, seed + tick))
        for _ in range(2):
            assert processes[-1].stdout is not None and processes[-1].stdout.readline() == "right\n"
        time.sleep(random_.uniform(0.0, 0.3))
        kill(processes.pop(random_.randrange(2)))
    for process in processes:
        kill(process)
    with qoop.connect(slots=1, checkpoints=folder, checkpoint_budget=budget) as session:
        session.register_folder(tpcds_small)
        assert {text: session.sql(text).fetchall() for text in TEXTS} == expected
    files = [path for path in folder.iterdir() if path.name not in ("lock", "plans", "runs")]
    assert {path.suffix for path in files} == {".json", ".arrow"}
    assert len({path.name[:32] for path in files}) == len(files) // 2
    assert sum(path.stat().st_size for path in files) <= 1.2 * budget


def sharing(data: Path, folder: Path, budget: int, expected: object, seed: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SHARES, str(data), str(folder), str(seed), str(budget)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(json.dumps(expected, default=str) + "\n")
    process.stdin.flush()
    return process


def kill(process: subprocess.Popen[str]) -> None:
    """Fails if it gave a wrong answer, or ended by itself."""
    assert process.poll() is None
    process.kill()
    said, _ = process.communicate()
    assert set(said.split("\n")[:-1]) <= {"right"}, said

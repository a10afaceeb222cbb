"""Digests, and what happens where two outputs of one signature differ."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qoop
from qoop.catalog.errors import GuardMismatch
from qoop.engine.digest import Digest, Digester, digest_from_json, digest_to_json
from qoop.engine.events import Committed
from qoop.engine.storage.checkpoint import Store
from qoop.engine.storage.guard import Origin
from qoop.engine.storage.manifest import manifests
from qoop.engine.storage.retention import Retention
from qoop.engine.task import CheckpointKey
from qoop.planner.plan import Stage

DIGESTER = Digester()


def of(*tables: pa.Table) -> Digest:
    return DIGESTER.of(tables)


ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(-5, 5)), st.text(max_size=3), st.one_of(st.none(), st.floats(-9, 9)))
)


def table(rows: list[tuple[int | None, str, float | None]]) -> pa.Table:
    a, s, f = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table({"a": pa.array(a, pa.int32()), "s": pa.array(s, pa.string()), "f": pa.array(f, pa.float64())})


@settings(deadline=None, max_examples=50)
@given(ROWS, st.integers(0, 50), st.randoms())
def test_neither_order_nor_cutting_nor_names_change_a_digest(
    rows: list[tuple[int | None, str, float | None]], cut: int, random: object
) -> None:
    whole = of(table(rows))
    shuffled = sorted(rows, key=lambda _: random.random())  # type: ignore[attr-defined]
    one, two = table(shuffled[:cut]), table(shuffled[cut:])
    assert whole.agrees(of(one) + of(two)) and whole.agrees(of(one, two))
    assert whole.agrees(of(table(rows).rename_columns(["z", "y", "x"])))
    assert whole.rows == len(rows)


@pytest.mark.parametrize(
    "changed",
    [
        [(1, "x", 0.5), (2, "y", 1.5)],  # a row less
        [(1, "x", 0.5), (2, "y", 1.5), (None, "z", 2.5)],  # another value
        [(1, "x", 0.5), (2, "y", 1.5), (3, "z", 2.5 + 1e-6)],
        [(1, "x", 0.5), (2, "y", 1.5), (3, "z", None)],
        [(1, "x", 0.5), (2, "y", 1.5), (3, "z", math.nan)],
        [(1, "x", 0.5), (2, "y", math.inf), (3, "z", 2.5)],
        [(1, "y", 0.5), (2, "x", 1.5), (3, "z", 2.5)],  # the columns hold the same, the rows do not
    ],
)
def test_what_differs_has_another_digest(changed: list[tuple[int | None, str, float | None]]) -> None:
    rows = [(1, "x", 0.5), (2, "y", 1.5), (3, "z", 2.5)]
    assert not of(table(rows)).agrees(of(table(changed)))


def test_sums_of_floats_may_differ_by_rounding() -> None:
    one = Digest(1, 7, of(table([(1, "", 0.1)])).floats)
    two = Digest(1, 7, (replace(one.floats[0], total=math.nextafter(0.1, 1)),))
    assert one != two and one.agrees(two)


def test_a_digest_survives_json_and_another_version() -> None:
    digest = of(table([(1, "x", 0.5), (None, "é", None)]))
    assert digest_from_json(json.loads(json.dumps(digest_to_json(digest)))) == digest
    with pytest.raises(ValueError, match="md5"):
        digest_from_json({**digest_to_json(digest), "function": "md5"})
    assert f"{digest.exact:032x}" == "0000000000000001585bcc079e1bd2e2"  # pinned: equal in every process and version


@pytest.fixture(params=[False, True], ids=["meet", "always"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    keeping = Retention(retain=True, quarantine=tmp_path / "quarantine", always=request.param)
    store = Store(1 << 30, tmp_path, keeping)
    yield store
    store.close()


def put(
    store: Store, part: int, values: list[int], layout: str = "one", finished: bool = True, width: int = 2,
    durable: bool = False,
) -> None:  # fmt: skip
    rows = pa.table({"a": pa.array(values, pa.int32())})
    stage = Stage("s7", "SELECT a FROM t", (), (("a", "INTEGER"),), width, "sig", meaning="rows")
    facts = Committed(CheckpointKey("sig", layout, part), (len(values),), (8,), 0.1, width=width, finished=finished)
    store.put(facts, "job", [rows], durable, origin=Origin(stage, (("TimeZone", "UTC"),)))


def test_equal_outputs_agree_in_any_layout(store: Store) -> None:
    put(store, 0, [1, 2, 3])
    put(store, 1, [4])
    put(store, 0, [3, 2, 1])
    put(store, 0, [4, 3, 2, 1], layout="other", width=1)
    assert len(store.present([CheckpointKey("sig", "one", 1), CheckpointKey("sig", "other", 0)])) == 2


@pytest.mark.parametrize("layout", ["one", "other"])
def test_a_difference_is_told_and_nothing_of_it_is_used(store: Store, layout: str, tmp_path: Path) -> None:
    put(store, 0, [1, 2, 3])
    put(store, 1, [4])
    with pytest.raises(GuardMismatch, match="different rows under one signature") as caught:
        put(store, 0, [1, 2], layout, width=2 if layout == "one" else 1)
    assert not store.present([CheckpointKey("sig", "one", 0), CheckpointKey("sig", layout, 0)])
    assert caught.value.file is not None and caught.value.file.parent == tmp_path / "quarantine"
    report = json.loads(caught.value.file.read_text())
    assert (report["format"], report["version"]) == ("qoop-mismatch", 1)
    assert [side["stage"]["sql"] for side in report["sides"]] == ["SELECT a FROM t"] * 2
    assert report["sides"][0]["digest"] != report["sides"][1]["digest"]
    assert report["sides"][0]["settings"] == {"TimeZone": "UTC"} and "duckdb" in report["versions"]


@pytest.mark.parametrize("layout", ["one", "other"])
def test_a_written_output_gets_its_digest_where_another_process_differs(tmp_path: Path, layout: str) -> None:
    folder = tmp_path / "checkpoints"
    first, second = (Store(1 << 30, tmp_path, Retention(folder, quarantine=tmp_path / "q")) for _ in range(2))
    put(first, 0, [1, 2, 3], width=1, durable=True)
    first.close()
    assert [(saved.committed.rows, saved.committed.digest) for saved in manifests(folder)] == [((3,), None)]
    if layout == "other":
        assert second.present([CheckpointKey("sig", "one", 0)])
    with pytest.raises(GuardMismatch, match=r"3 rows, .* against 2 rows"):
        put(second, 0, [1, 2], layout, width=1, durable=True)
        second.flush()
    assert not second.present([CheckpointKey("sig", "one", 0)]) and not list(manifests(folder))
    second.close()


def test_unfinished_rows_are_compared_in_their_own_layout_only(store: Store) -> None:
    put(store, 0, [1, 2, 3], width=1, finished=False)
    put(store, 0, [9, 9], layout="other", width=1, finished=False)
    with pytest.raises(GuardMismatch):
        put(store, 0, [1, 2], width=1, finished=False)


def test_results_with_other_names_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QOOP_GUARD", "always")
    with qoop.connect(slots=1, staged=True) as session:
        for names in ("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a"):
            text = "SELECT 1.5::DOUBLE AS {}, 'x' || 'y' AS {}, 2::DOUBLE AS {}".format(*names)
            assert session.sql(text).fetchall() == [(1.5, "xy", 2.0)]


TEXT = "SELECT i % 7 AS k, count(*) AS n, sum(i) AS s FROM t WHERE i > 10 GROUP BY k"


@pytest.mark.parametrize("always", ["always", "meet"])
def test_a_wrong_stage_under_a_right_signature_never_answers(always: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QOOP_GUARD", always)
    with qoop.connect(slots=2, reuse=True) as session:
        session.register("t", pa.table({"i": np.arange(300_000)}))
        plan = session.alternatives(TEXT).kept[0].plan
        assert session.submit(TEXT, plan=plan).result().arrow().num_rows == 7
        place = next(place for place, stage in enumerate(plan.stages) if "10" in stage.sql)
        wrong = replace(plan.stages[place], sql=plan.stages[place].sql.replace("10", "11"))
        corrupt = replace(plan, stages=(*plan.stages[:place], wrong, *plan.stages[place + 1 :]))
        job = session.submit(TEXT, plan=corrupt)
        with pytest.raises(GuardMismatch) as caught:
            job.result()
        assert job.state == "FAILED" and caught.value.file is not None
        report = json.loads(caught.value.file.read_text())
        assert report["query"] == TEXT and len(report["plans"][0]["stages"]) == len(plan.stages)
        assert sorted(session.submit(TEXT).result().fetchall()) == sorted(session.submit(TEXT).result().fetchall())

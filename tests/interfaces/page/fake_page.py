"""A page without a session: it serves the assets and views that a test has made up, with the policy of the real one."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import qoop

ASSETS = Path(qoop.__file__).parent / "interfaces" / "page" / "assets"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
View = dict[str, Any]


class FakePage:
    """`overview` and `jobs` are what it serves; `tell()` sends them to those who listen."""

    def __init__(self, overview: View, jobs: dict[str, View]) -> None:
        self.overview, self.jobs = overview, jobs
        self.orders: list[tuple[str, View]] = []
        self.refuses: str | None = None
        self.told = 0
        self.changed = threading.Condition()
        handler = type("Bound", (Handler,), {"page": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}/page/token/"
        self.closed = False
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def tell(self) -> None:
        with self.changed:
            self.told += 1
            self.changed.notify_all()

    def close(self) -> None:
        self.closed = True
        self.tell()
        self.server.shutdown()
        self.server.server_close()


class Handler(BaseHTTPRequestHandler):
    page: FakePage
    protocol_version = "HTTP/1.0"

    def log_message(self, format: str, *args: Any) -> None:
        """A test needs no log."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        path = parts.path.removeprefix("/page/token/")
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if path == "" or path.startswith("assets/"):
            self.asset(path.removeprefix("assets/") or "index.html")
        elif path == "overview":
            self.answer(self.page.overview)
        elif path == "events":
            self.events(query.get("job"))
        elif path.removeprefix("jobs/") in self.page.jobs:
            self.answer(self.page.jobs[path.removeprefix("jobs/")])
        else:
            self.answer({"error": f"there is no {path}"}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.page.orders.append((urlsplit(self.path).path.removeprefix("/page/token/"), body))
        self.answer({"error": self.page.refuses} if self.page.refuses else {}, 409 if self.page.refuses else 200)

    def asset(self, name: str) -> None:
        self.head(TYPES[Path(name).suffix])
        self.wfile.write((ASSETS / name).read_bytes())

    def answer(self, value: View, status: int = 200) -> None:
        self.head("application/json", status)
        self.wfile.write(json.dumps(value).encode())

    def head(self, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", f"{kind}; charset=utf-8")
        self.send_header("content-security-policy", POLICY)
        self.send_header("cache-control", "no-store")
        self.end_headers()

    def events(self, job: str | None) -> None:
        self.head("text/event-stream")
        page, seen = self.page, -1
        try:
            while not page.closed:
                with page.changed:
                    page.changed.wait_for(lambda: page.told != seen, timeout=1)  # noqa: B023
                    seen = page.told
                self.event("overview", page.overview)
                if job is not None and job in page.jobs:
                    self.event("job", page.jobs[job])
        except (BrokenPipeError, ConnectionResetError):
            pass  # the reader has gone

    def event(self, name: str, value: View) -> None:
        self.wfile.write(f"event: {name}\ndata: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()


# Views as they are by default; a test says what differs.

ONLY_WHOLE = {"sql", "plans", "running", "stages", "tasks", "since", "decisions", "events", "shares", "map"}
"""Fields that a line of the list lacks."""


def overview(jobs: list[View], **fields: Any) -> View:
    return {
        "name": "tpcds-sf1",
        "version": "0",
        "wall": time.time() - 20,
        "now": 20.0,
        "span": None,
        "can": {"cancel": True, "suspend": True, "resize": True},
        "machines": [
            {"id": "m1", "slots": 2, "memory": 4e9, "used_slots": 2, "used_memory": 2.4e9, "why": "all processors"},
        ],
        "capacity": [[0, 4, 8e9], [9.0, 2, 4e9]],
        "tenants": [],
        "views": [],
        "jobs": [{name: value for name, value in job.items() if name not in ONLY_WHOLE} for job in jobs],
    } | fields


def job(id: str, **fields: Any) -> View:
    text = "SELECT i_category, sum(ss_net_paid) FROM store_sales JOIN item ON ss_item_sk = i_item_sk GROUP BY ALL"
    return {
        "id": id,
        "text": text,
        "state": "RUNNING",
        "tenant": "default",
        "submitted": 1.0,
        "started": 1.2,
        "ended": None,
        "fraction": 0.42,
        "share_slots": 2,
        "used_slots": 1.5,
        "left": {"likely": 6.0, "least": 4.0, "most": 9.0},
        "deadline": None,
        "late": False,
        "rho": None,
        "plan": "A",
        "switches": 0,
        "error": None,
        "whole": False,
        "sql": text,
        "plans": [],
        "running": "A",
        "stages": [],
        "tasks": [],
        "since": None,
        "decisions": [],
        "events": [],
        "shares": [[1.2, 4, 8e9]],
        "map": None,
    } | fields


def stage(id: str, inputs: tuple[str, ...] = (), plan: str = "A", **fields: Any) -> View:
    return {
        "id": id,
        "plan": plan,
        "label": f"scan table_{id} ⋈ date_dim",
        "inputs": list(inputs),
        "tasks": 4,
        "done": 4,
        "running": 0,
        "rows_estimated": 120000,
        "rows": 412345,
        "bytes": 3.1e7,
        "seconds_estimated": 1.4,
        "seconds": 3.2,
        "spilled": None,
        "peak_memory": 4.2e8,
        "read": 5.5e7,
        "cpu_seconds": 2.9,
        "carried": False,
        "whole": False,
        "sql": f"SELECT * FROM table_{id}",
    } | fields


def task(key: str, stage: str, n: int, start: float, end: float | None, **fields: Any) -> View:
    return {
        "key": key,
        "stage": stage,
        "plan": "A",
        "task": n,
        "machine": "m1",
        "slots": 1,
        "memory": 1e9,
        "start": start,
        "end": end,
        "state": "RUNNING" if end is None else "SUCCEEDED",
        "rows": 1000,
        "bytes": 2e6,
        "fraction": None,
        "error": None,
    } | fields


def decision(at: float, **fields: Any) -> View:
    return {
        "at": at,
        "cause": "the share fell from 4 to 2 slots",
        "before": [4, 8e9],
        "after": [2, 4e9],
        "running": "A",
        "chosen": "B",
        "switched": True,
        "reason": "B ends 2.1 s earlier and keeps 2 of 4 stages",
        "candidates": [{"plan": "A", "seconds": 8.3}, {"plan": "B", "seconds": 6.2}, {"plan": "C", "seconds": 11.0}],
        "kept": ["s0", "s1"],
        "words": "With 2 slots, plan A would take 8.3 s more and plan B 6.2 s: switched to B, keeping s0 and s1.",
        "planner_seconds": 0.021,
    } | fields


def busy() -> tuple[View, View]:
    """A query in the middle of its second plan, and the session around it."""
    first = [
        stage("s0"),
        stage("s1"),
        stage("s2", ("s0", "s1"), done=2, running=0, seconds=None, rows=None),
        stage("s3", ("s2",), done=0, rows=None, seconds=None),
    ]
    second = [
        stage("s0", plan="B", carried=True),
        stage("s1", plan="B", carried=True),
        stage(
            "s4",
            ("s0",),
            plan="B",
            label="partial sum by i_category",
            tasks=6,
            done=4,
            running=1,
            rows=None,
            seconds=None,
        ),
        stage(
            "s5",
            ("s4", "s1"),
            plan="B",
            label="join with item, sum",
            tasks=2,
            done=0,
            rows=None,
            seconds=None,
            bytes=None,
            peak_memory=None,
        ),
        stage(
            "s6",
            ("s5",),
            plan="B",
            label="order, limit 100",
            tasks=1,
            done=0,
            rows=None,
            seconds=None,
            bytes=None,
            peak_memory=None,
        ),
    ]
    tasks = [task(f"a{n}", f"s{n % 2}", n // 2, 1.2 + (n // 4) * 1.9, 3.0 + (n // 4) * 1.9) for n in range(8)]
    tasks += [
        task("a8", "s2", 0, 5.0, 8.1),
        task("a9", "s2", 1, 5.1, 9.0, state="STOPPED"),
        task("a10", "s2", 2, 6.0, 7.2, state="FAILED", error="out of memory"),
    ]
    tasks += [task(f"b{n}", "s4", n, 9.1 + (n // 2) * 2.5, 11.4 + (n // 2) * 2.5, plan="B") for n in range(4)]
    tasks += [task("b4", "s4", 4, 14.2, None, plan="B", fraction=0.6)]
    stay = decision(
        5.2,
        chosen="A",
        switched=False,
        kept=[],
        before=[4, 8e9],
        after=[4, 6e9],
        cause="the memory fell from 8 GB to 6 GB",
        words="With 6 GB, plan A is still the best: it stays.",
        reason="no plan is faster",
        candidates=[{"plan": "A", "seconds": 7.0}, {"plan": "B", "seconds": 9.2}],
    )
    plan_map = {
        "slots": [1, 2, 3, 4, 6, 8],
        "memory": [1e9, 2e9, 4e9, 8e9],
        "best": [
            [None, None, "C", "C", "C", "C"],
            ["C", "C", "B", "B", "A", "A"],
            ["B", "B", "B", "A", "A", "A"],
            ["B", "B", "A", "A", "A", "A"],
        ],
        "seconds": [[None, None, 9, 8, 7, 6], [14, 11, 9, 8, 6, 5], [12, 8, 7, 5, 4, 3], [12, 8, 6, 5, 4, 3]],
        "path": [[1.2, 4, 8e9], [5.2, 4, 6e9], [9.0, 2, 4e9]],
    }
    plans = [
        {
            "name": "A",
            "seconds": 8.3,
            "kept": True,
            "stages": ["s0", "s1", "s2", "s3"],
            "what": "broadcast date_dim, join in 4 parts",
        },
        {
            "name": "B",
            "seconds": 6.2,
            "kept": True,
            "stages": ["s0", "s1", "s4", "s5", "s6"],
            "what": "sum before the join",
        },
        {"name": "C", "seconds": None, "kept": False, "stages": ["s7"], "what": "DuckDB's own plan, whole"},
    ]
    lost = "task 2 of s2 ran out of memory and runs again"
    events = [
        {"at": 9.0, "kind": "capacity", "words": "the session has 2 slots and 4 GB now"},
        {"at": 7.2, "kind": "loss", "words": lost},
    ]
    one = job("j2", plan="B", running="B", switches=1, stages=first + second, tasks=tasks, plans=plans, map=plan_map)
    one |= {"decisions": [stay, decision(9.0)], "shares": plan_map["path"], "events": events}
    one |= {"deadline": 30.0, "rho": 1.12}
    done = job(
        "j1",
        state="SUCCEEDED",
        ended=4.0,
        fraction=1.0,
        left=None,
        share_slots=0,
        used_slots=0,
        text="SELECT count(*) FROM item",
    )
    failed = job(
        "j0",
        state="FAILED",
        ended=2.0,
        fraction=0.1,
        left=None,
        error='Binder Error: there is no column "pirce"',
        text="SELECT pirce FROM item",
    )
    waiting = job(
        "j3",
        state="QUEUED",
        started=None,
        fraction=0,
        left=None,
        tenant="nightly",
        text="SELECT * FROM web_sales ORDER BY ws_net_paid DESC LIMIT 10",
    )
    tenants = [
        {"name": "default", "weight": 2, "share_slots": 2, "used_slots": 1.5, "jobs": 3, "queued": 0, "rho": 1.12},
        {"name": "nightly", "weight": 1, "share_slots": 0, "used_slots": 0, "jobs": 1, "queued": 1, "rho": None},
    ]
    return overview([one, waiting, done, failed], tenants=tenants), one

"""Measures the constants of the cost model on this machine, and saves them for later sessions.

The calibration generates two million rows of random numbers and short texts in temporary Parquet files. It runs some
forty queries over them. Each spends most of its time on one operation: scanning, filtering, building and probing hash
tables of several sizes, grouping or sorting.

The model is linear in its constants, so a query's prediction is the sum of constants times *amounts*. An amount is the
model's prediction with that constant at 1 and all others at 0. The fitted constants minimise the sum of squared errors
(see :func:`fit`), within a tenth to ten times the shipped values. A slight pull towards the shipped values (ridge
regression) determines constants that the queries leave open. Keys are far apart, so that DuckDB does not index an
array by them: that needs statistics, which outputs of stages lack.

Time is the processor time of this process on one thread of DuckDB, so that other work on the machine has little effect.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import duckdb

from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import ConfigError
from qoop.catalog.opening import open_duckdb
from qoop.catalog.priority import usable_cpus
from qoop.catalog.signed_json import sealed
from qoop.catalog.stores.whole_file import write_whole
from qoop.catalog.value import value
from qoop.engine.history import Succeeded
from qoop.planner.algebra.relation import Exchange, walk
from qoop.planner.estimate import tree_cost
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import DEFAULT, CostModel
from qoop.planner.exchange.distribution import fragment_nodes
from qoop.planner.exchange.sqlgen import to_sql
from qoop.planner.plan import Plan
from qoop.planner.planner import logical, stats_needed
from qoop.planner.sql.bind import Binder
from qoop.planner.variants import Variant
from qoop.query.calibrated import FORMAT, KEPT, MEASURED
from qoop.query.config import configure

if TYPE_CHECKING:
    from qoop.session.session import Session

Amounts = Mapping[str, float]

ROWS = 2_000_000
_PULL = 0.01  # of the shipped constants, in units of one query's squared relative error
_REPEAT = 3
_CACHES = 16 << 20
_ROUNDS, _SWEEPS = 12, 150

_TABLES = {
    "fact": """SELECT range AS id, (hash(range) % 1000 * 5003)::INTEGER AS few,
        (hash(range + 7) % 200000 * 37)::INTEGER AS many,
        (hash(range + 13) % 1000000 * 5)::INTEGER AS most, (hash(range + 17) % 100)::INTEGER AS percent,
        ((hash(range + 23) % 1000000) / 100)::DECIMAL(7,2) AS price, (hash(range + 29) % 100000)::DOUBLE AS number,
        'customer ' || (hash(range + 31) % 5000) AS name,
        'item ' || (hash(range + 37) % 200000) AS item FROM range({rows})""",
    "small": "SELECT (range * 5003)::INTEGER AS id, 'name ' || range AS name FROM range(1000)",
    "middle": "SELECT (range * 37)::INTEGER AS id, 'name ' || range AS name FROM range({rows} // 10)",
    "pair": """SELECT (hash(range + 7) % 200000 * 37)::INTEGER AS many, (hash(range + 17) % 100)::INTEGER AS percent,
        range AS number FROM range({rows} // 20)""",
    "large": "SELECT (range * 5)::INTEGER AS id, range * 3 AS other FROM range({rows} // 2)",
}

_QUERIES = {
    "scan of an integer": "SELECT sum(few) FROM fact",
    "scan of three numbers": "SELECT sum(price), sum(number), sum(id) FROM fact",
    "scan of texts": "SELECT max(name) FROM fact",
    "one filter": "SELECT count(*) FROM fact WHERE percent < 3",
    "two filters": "SELECT count(*) FROM fact WHERE percent < 50 AND number < 50000",
    "small table probed": "SELECT count(*) FROM fact, small WHERE few = small.id",
    "small table probed, columns taken along": "SELECT max(small.name) FROM fact, small WHERE few = small.id",
    "middle table probed": "SELECT count(*) FROM fact, middle WHERE many = middle.id",
    "middle table probed, columns taken along": "SELECT max(middle.name) FROM fact, middle WHERE many = middle.id",
    "large table probed": "SELECT count(*) FROM fact, large WHERE most = large.id",
    "large table probed, columns taken along": "SELECT sum(other) FROM fact, large WHERE most = large.id",
    "two tables probed": "SELECT sum(price) FROM fact, small, middle WHERE few = small.id AND many = middle.id",
    "two keys": "SELECT sum(p.number) FROM fact f, pair p WHERE f.many = p.many AND f.percent = p.percent",
    "large table built": "SELECT count(*) FROM large a, fact WHERE a.id = fact.most",
    "few groups": "SELECT few + percent AS key, sum(price) FROM fact GROUP BY key",
    "many groups": "SELECT many, sum(price) FROM fact GROUP BY many",
    "very many groups": "SELECT most, count(*) FROM fact GROUP BY most",
    "very many groups, many values": """SELECT most, sum(price), min(number), max(id), avg(percent) FROM fact
        GROUP BY most""",
    "as many groups as rows": "SELECT id % 1999993 AS key, few, sum(price) FROM fact GROUP BY key, few",
    "groups by two texts": "SELECT name, item, sum(price), count(*) FROM fact WHERE percent < 30 GROUP BY name, item",
    "texts taken along, then grouped by": """SELECT a.name, b.name, sum(price) FROM fact, small a, middle b
        WHERE few = a.id AND many = b.id AND percent < 30 GROUP BY a.name, b.name""",
    "distinct rows": "SELECT DISTINCT few, percent FROM fact",
    "groups of groups": "SELECT few, percent, sum(price) FROM fact GROUP BY ROLLUP (few, percent)",
    "many values": "SELECT sum(price), sum(number), avg(price), max(number), count(id), sum(many), min(most) FROM fact",
    "cases": """SELECT sum(CASE WHEN percent = 1 THEN price END), sum(CASE WHEN percent = 2 THEN price END),
        sum(CASE WHEN percent = 3 THEN price END), sum(CASE WHEN percent > 50 THEN number END) FROM fact""",
    "alternatives": """SELECT count(*) FROM fact WHERE percent < 10 AND price > 500 OR percent < 20 AND number > 9000
        OR percent < 30 AND many < 100000""",
    "few rows find a partner": """SELECT sum(price), sum(number) FROM fact, middle m
        WHERE many = m.id AND m.name LIKE '%77'""",
    "the first rows": "SELECT id, price, name FROM fact ORDER BY number, id LIMIT 100",
    "many groups by text": "SELECT item, count(*) FROM fact GROUP BY item",
    "many groups by a text and a number": """SELECT item, price, count(*) FROM fact WHERE percent < 30
        GROUP BY item, price""",
    "window": "SELECT max(r) FROM (SELECT rank() OVER (PARTITION BY few ORDER BY number) AS r FROM fact)",
    "window of all rows": "SELECT max(r) FROM (SELECT rank() OVER (ORDER BY number) AS r FROM fact WHERE percent < 30)",
    "windows of whole partitions": "SELECT max(r) FROM (SELECT sum(price) OVER (PARTITION BY many) AS r FROM fact)",
    "running sums": """SELECT max(r) FROM (SELECT sum(price) OVER (PARTITION BY many ORDER BY id ROWS BETWEEN
        UNBOUNDED PRECEDING AND CURRENT ROW) AS r FROM fact WHERE percent < 30)""",
    "two running values": """SELECT max(r), max(s) FROM (SELECT max(price) OVER (PARTITION BY few ORDER BY id) AS r,
        sum(number) OVER (PARTITION BY few ORDER BY id) AS s FROM fact WHERE percent < 30)""",
    "all pairs": "SELECT count(*) FROM middle a, small b WHERE b.id < 250000 AND (a.id + b.id) % 999983 = 1",
}

_SPREAD = ("two tables probed", "very many groups", "window")
"""Queries of several kinds, which run on two threads."""

_SMALL_TABLES = {
    "s": "SELECT range AS id, range % 7 AS key, 'name ' || range AS name FROM range(100)",
    "t": "SELECT range AS id, range % 5 AS key, 'text ' || range AS name FROM range(100)",
}

_SMALL_QUERIES = (
    "SELECT id, name FROM s",
    "SELECT name, sum(key) FROM s GROUP BY name ORDER BY name LIMIT 10",
    "SELECT s.name, sum(t.key) FROM s, t WHERE s.id = t.id AND t.key > 1 GROUP BY s.name ORDER BY s.name LIMIT 10",
    """SELECT * FROM (SELECT s.key, rank() OVER (PARTITION BY s.key ORDER BY sum(t.id)) AS r FROM s, t
        WHERE s.id = t.id GROUP BY s.key, s.id) WHERE r < 3 ORDER BY key LIMIT 10""",
    """SELECT key, count(*) FROM (SELECT key FROM s WHERE id < 50 UNION ALL SELECT key FROM t WHERE id > 50
        UNION ALL SELECT s.key FROM s, t WHERE s.id = t.key) GROUP BY key ORDER BY key""",
)


@value
class Measurement:
    """One query: its processor seconds, and the prediction of the calibrated model."""

    query: str
    seconds: float
    predicted: float


@value
class Calibration:
    """The fitted constants. seconds: the duration of the calibration."""

    model: CostModel
    measurements: tuple[Measurement, ...]
    seconds: float

    def json(self) -> dict[str, Any]:
        """The file's content: format, version of DuckDB, constants and measurements."""
        return {
            "format": FORMAT,
            "duckdb": duckdb.__version__,
            "constants": {name: getattr(self.model, name) for name in KEPT},
            "measurements": [asdict(one) for one in self.measurements],
            "seconds": self.seconds,
        }


def calibrate(rows: int = ROWS, progress: Callable[[str], object] = lambda query: None) -> Calibration:
    """Measure this machine; takes about 20 s of one processor. `progress` is called with each query before its run."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="qoop-calibrate-") as folder:
        probes, serial_part = _probes(Path(folder), rows, progress)
    progress("small queries")
    probes += _small_queries()
    constants = fit([amounts for _, amounts, _ in probes], [seconds for _, _, seconds in probes])
    measurements = tuple(
        Measurement(query, seconds, sum(constants[name] * amount for name, amount in amounts.items()))
        for query, amounts, seconds in probes
    )
    model = DEFAULT.having({**constants, "serial_part": serial_part})
    return Calibration(model, measurements, time.perf_counter() - begun)


def fit(
    amounts: Sequence[Amounts], seconds: Sequence[float], shipped: CostModel = DEFAULT, pull: float = _PULL
) -> dict[str, float]:
    """The constants that explain the seconds best. amounts: of each constant, for each query.

    The error of a query is (predicted - measured)² / (predicted x measured): twice and half the measured time count the
    same. With the last round's predictions in the denominator, this is a least-squares problem, solved by coordinate
    descent.
    """
    usual = {name: float(getattr(shipped, name)) for name in MEASURED}
    # In units of the usual constants and of the seconds measured, all numbers are around 1.
    rows = [{n: a.get(n, 0.0) * usual[n] / s for n in MEASURED} for a, s in zip(amounts, seconds, strict=True)]
    found = dict.fromkeys(MEASURED, 1.0)
    for _ in range(_ROUNDS):
        predicted = [sum(row[name] * found[name] for name in MEASURED) for row in rows]
        weights = [1.0 / max(0.01, ratio) for ratio in predicted]
        found = _least_squares(rows, weights, found, pull)
    return {name: found[name] * usual[name] for name in MEASURED}


def _least_squares(
    rows: Sequence[Amounts], weights: Sequence[float], start: Mapping[str, float], pull: float
) -> dict[str, float]:
    """The x between a tenth and ten with the least weighted squares of ``rows · x - 1``, plus those of ``x - 1``."""
    found = dict(start)
    rest = [1.0 - sum(row[name] * found[name] for name in found) for row in rows]
    for _ in range(_SWEEPS):
        for name in found:
            column = [row[name] for row in rows]
            steep = pull + sum(w * x * x for w, x in zip(weights, column, strict=True))
            slope = pull * (1.0 - found[name]) + sum(
                w * x * left for w, x, left in zip(weights, column, rest, strict=True)
            )
            step = min(10.0, max(0.1, found[name] + slope / steep)) - found[name]
            found[name] += step
            rest = [left - x * step for left, x in zip(rest, column, strict=True)]
    return found


def save(calibration: Calibration, path: Path) -> None:
    """Write the file whole or not at all. Raises ConfigError if it cannot be written."""
    try:
        write_whole(path, sealed(calibration.json(), indent=1))
    except OSError as error:
        raise ConfigError(f"the calibration cannot be written to {path}: {error.strerror}") from error


def report(calibration: Calibration) -> str:
    """The constants next to the shipped ones, and each query's measured and predicted seconds."""
    lines = [f"{'constant':<21} {'ns':>8} {'shipped':>8}"]
    for name in MEASURED:
        lines.append(f"{name:<21} {getattr(calibration.model, name) * 1e9:>8.3g} {getattr(DEFAULT, name) * 1e9:>8.3g}")
    lines.append(f"{'serial_part':<21} {calibration.model.serial_part:>8.2g} {DEFAULT.serial_part:>8.2g}  (no time)")
    lines += ["", f"{'query':<42} {'measured':>9} {'predicted':>9}"]
    for one in calibration.measurements:
        lines.append(f"{one.query:<42} {one.seconds * 1e3:>6.1f} ms {one.predicted * 1e3:>6.1f} ms")
    return "\n".join([*lines, "", f"measured in {calibration.seconds:.0f} s"])


Probe = tuple[str, Amounts, float]


def _probes(folder: Path, rows: int, progress: Callable[[str], object]) -> tuple[list[Probe], float]:
    """The time of the queries over large tables, and their serial part, which threads do not speed up."""
    found: list[Probe] = []
    with open_duckdb(threads=1) as connection, Catalog(folder / "cache") as catalog:
        data = folder / "data"
        data.mkdir()
        for name, text in _TABLES.items():
            connection.execute(f"COPY ({text.format(rows=rows)}) TO '{data / name}.parquet' (ROW_GROUP_SIZE 150000)")
            connection.execute(f"CREATE VIEW {name} AS FROM '{data / name}.parquet'")
        connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")  # as the kernel does
        planned = _Planned(catalog, data)
        for query, text in _QUERIES.items():
            progress(query)
            sql, amounts = planned.of(text)
            found.append((query, amounts, _seconds(connection, sql)))
        progress("rows into and out of Arrow")
        found += _arrow(connection, rows)
        progress("two threads")
        serial_part = _serial_part(connection, [planned.of(_QUERIES[query])[0] for query in _SPREAD])
        planned.close()
    return found, serial_part


class _Planned:
    """Queries as the planner prints them, with its amounts of each constant."""

    def __init__(self, catalog: Catalog, data: Path) -> None:
        self._catalog = catalog
        self._binder = Binder()
        for table in catalog.register_folder(data):
            self._binder.add_table(table.name, table.version, table.columns)

    def of(self, text: str) -> tuple[str, Amounts]:
        relation = logical(self._binder.bind(text), self._binder.describe)
        stats = {name: self._catalog.stats(name, columns) for name, columns in stats_needed(relation).items()}
        cardinality = Cardinality(stats)
        amounts = {name: tree_cost.seconds(_only(name), relation, cardinality) for name in MEASURED}
        starting = {"task_overhead_seconds": 1.0, "operator_seconds": float(sum(1 for _ in walk(relation)))}
        return to_sql(relation), amounts | starting

    def close(self) -> None:
        self._binder.close()


def _only(constant: str) -> CostModel:
    """A model in which nothing but one constant costs anything."""
    return DEFAULT.having({**dict.fromkeys(MEASURED, 0.0), constant: 1.0})


def _seconds(connection: duckdb.DuckDBPyConnection, sql: str) -> float:
    """Processor seconds of the query, the least of some runs; the output is Arrow, as that of a kernel."""
    return min(_timed(lambda: connection.sql(sql).to_arrow_table()) for _ in range(_REPEAT))


def _timed(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return max(1e-6, time.process_time() - begun)


def _arrow(connection: duckdb.DuckDBPyConnection, rows: int) -> list[Probe]:
    """Rows through Arrow and back, narrow and wide: written once and read once."""
    found: list[Probe] = []
    for query, columns, width in (("narrow", "id", 8.0), ("wide", "id, price, number, most, many, few", 36.0)):
        kept = connection.sql(f"SELECT {columns} FROM fact").to_arrow_table()
        connection.register("passed", kept)
        both = _seconds(connection, "FROM passed")
        connection.unregister("passed")
        amounts = {"exchange_row": 2.0 * rows, "exchange_byte": 2.0 * rows * width}
        found.append((f"{query} rows into and out of Arrow", amounts, both))
    return found


def _serial_part(connection: duckdb.DuckDBPyConnection, queries: Sequence[str]) -> float:
    """The part of a task that a second thread does not speed up (Amdahl's law), by elapsed time.

    The shipped value applies if there is no second processor, or if other work makes a thread wait for one.
    """
    if len(usable_cpus()) < 2:
        return DEFAULT.serial_part
    begun = time.process_time()
    alone, all_runs = _wall_seconds(connection, queries, 1)
    waited = all_runs > 1.1 * (time.process_time() - begun)
    both, _ = _wall_seconds(connection, queries, 2)
    connection.execute("SET threads = 1")
    if waited:
        return DEFAULT.serial_part
    return min(0.5, max(0.01, 2.0 * both / alone - 1.0))


def _wall_seconds(connection: duckdb.DuckDBPyConnection, queries: Sequence[str], threads: int) -> tuple[float, float]:
    """Elapsed seconds of each query's fastest run, and of all runs."""
    connection.execute(f"SET threads = {threads}")
    least = whole = 0.0
    for sql in queries:
        runs = []
        for _ in range(_REPEAT):
            begun = time.perf_counter()
            connection.sql(sql).to_arrow_table()
            runs.append(time.perf_counter() - begun)
        least, whole = least + min(runs), whole + sum(runs)
    return least, whole


def _small_queries() -> list[Probe]:
    """Queries over a hundred rows, which spend their time on starting tasks and operators."""
    from qoop.session.session import Session  # which reads calibrations

    with Session(configure(slots=1, replan=False), DEFAULT) as session, open_duckdb() as connection:
        for name, text in _SMALL_TABLES.items():
            session.register(name, connection.sql(text).to_arrow_table())
        return [_small_query(session, text) for text in _SMALL_QUERIES]


def _small_query(session: Session, text: str) -> Probe:
    planning = session.prepare(text).planning()
    placed = planning.placed(Variant(), session.available)
    plan = planning.cut(placed)
    operators = sum(len(list(fragment_nodes(one.input))) for one in walk(placed) if isinstance(one, Exchange))
    seconds = median(_task_seconds(session, text, plan) for _ in range(3 * _REPEAT))
    tasks = sum(stage.width for stage in plan.stages)
    return text, {"task_overhead_seconds": float(tasks), "operator_seconds": float(operators)}, seconds


def _task_seconds(session: Session, text: str, plan: Plan) -> float:
    bytes(_CACHES)  # between tasks of other stages a small one finds nothing in the processor's caches
    job = session.submit(text, plan=plan)
    job.result()
    return sum(one.committed.cpu_seconds for one in job.history() if isinstance(one, Succeeded))

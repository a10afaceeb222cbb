"""A project of dbt through our adapter: seeds, views, tables, an incremental model, tests; rows as DuckDB's."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from facts_table import write_facts
from waits import until

import qoop

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("dbt") is None, reason="dbt is not installed: make test-dbt"),
]
SHOP = Path(__file__).parent / "dbt_shop"
CUSTOMERS = """
    SELECT c.id AS customer_id, name, min(o.ordered_on), max(o.ordered_on), count(o.id), sum(p.amount)
    FROM 'seeds/raw_customers.csv' c LEFT JOIN 'seeds/raw_orders.csv' o ON o.customer_id = c.id
    LEFT JOIN (SELECT order_id, sum(cents / 100) AS amount FROM 'seeds/raw_payments.csv' GROUP BY 1) p
    ON p.order_id = o.id GROUP BY ALL ORDER BY 1"""

Dbt = Callable[..., str]


@pytest.fixture
def dbt(tmp_path: Path) -> Dbt:
    """Runs a command of dbt in a copy of the project."""
    project = tmp_path / "shop"
    shutil.copytree(SHOP, project)
    usual = os.environ | {"QOOP_SHOP": str(tmp_path / "warehouse"), "DBT_PROFILES_DIR": str(project)}

    def run(*words: str, fails: bool = False) -> str:
        command = [sys.executable, "-m", "dbt.cli.main", "--no-use-colors", *words]
        done = subprocess.run(command, cwd=project, env=usual, capture_output=True, text=True, timeout=240)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout

    return run


def test_a_project_is_built_tested_and_built_again(dbt: Dbt, tmp_path: Path) -> None:
    told = dbt("build")
    assert "PASS=17 WARN=0 ERROR=0 SKIP=0" in told.replace("NO-OP=0 ", ""), told
    theirs = wanted(tmp_path / "shop")
    assert len(theirs) == 12 and read(tmp_path, "customers") == theirs

    orders = tmp_path / "shop" / "seeds" / "raw_orders.csv"
    with orders.open("a") as file:
        file.write("61,12,2025-12-31,placed\n62,12,2024-01-01,placed\n")
    dbt("seed", "--select", "raw_orders")
    assert "PASS=6" in dbt("run")
    assert read(tmp_path, "customers") == wanted(tmp_path / "shop") != theirs
    seen = [row[0] for row in read(tmp_path, "orders_seen")]
    assert 61 in seen and 62 not in seen and len(seen) == len(set(seen)) == 61
    dbt("run", "--select", "orders_seen", "--full-refresh")
    assert len(read(tmp_path, "orders_seen")) == 62


def wanted(project: Path) -> list[tuple[object, ...]]:
    with duckdb.connect() as theirs:
        theirs.execute(f"SET file_search_path = '{project}'")
        return theirs.sql(CUSTOMERS).fetchall()


def read(tmp_path: Path, table: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as theirs:
        return theirs.sql(f"FROM '{tmp_path / 'warehouse' / table}/*.parquet' ORDER BY 1").fetchall()


def test_what_fails_says_why_and_what_is_not_there_is_refused(dbt: Dbt, tmp_path: Path) -> None:
    project = tmp_path / "shop"
    dbt("build", "--select", "+stg_orders")
    with (project / "seeds" / "raw_customers.csv").open("a") as file:
        file.write("12,Twice,2024-01-01\n")
    told = dbt("build", "--select", "+stg_customers", fails=True)
    assert "unique_stg_customers_customer_id" in told and "Got 1 result, configured to fail if != 0" in told
    (project / "models" / "staging" / "stg_orders.sql").write_text("select nothing from {{ ref('raw_orders') }}")
    assert '"nothing"' in dbt("run", "--select", "stg_orders", fails=True)


def test_models_have_schemas_of_their_own(dbt: Dbt, tmp_path: Path) -> None:
    project, warehouse = tmp_path / "shop", tmp_path / "warehouse"
    with (project / "dbt_project.yml").open("a") as file:
        file.write("seeds: {+schema: raw}\n")
    settings = project / "dbt_project.yml"
    settings.write_text(settings.read_text().replace("{+materialized: view}", "{+materialized: view, +schema: stage}"))
    dbt("build", "--select", "+orders_seen", "+customers", "--store-failures")
    assert (warehouse / "views" / "main_stage" / "stg_orders.sql").exists()
    assert (warehouse / "main_raw.raw_orders.parquet").exists() and not (warehouse / "raw_orders.parquet").exists()
    theirs = wanted(project)
    assert theirs and read(tmp_path, "customers") == theirs
    dbt("run", "--select", "stg_orders", "orders_seen", "customers")  # a process that finds schemas and views again
    assert read(tmp_path, "customers") == theirs
    dbt("docs", "generate", "--select", "stg_orders")
    assert '"schema": "main_stage"' in (project / "target" / "catalog.json").read_text()


SLOW = (
    "SELECT k, n, (ready || k)::INTEGER AS r FROM switch,"
    " (SELECT k % 7 AS k, sum(length(md5((v + range)::VARCHAR) || k))::BIGINT AS n FROM facts, range(12) GROUP BY 1)"
)


def outputs(place: Path) -> set[str]:
    """The files of outputs that have a manifest, whose names also have the session that wrote them."""
    return {path.name for path in place.glob("*.arrow") if (place / f"{path.name.split('.')[0]}.json").exists()}


@pytest.mark.parametrize("words", [("run", "--select", "slow"), ("retry",)])
def test_a_model_goes_on_where_the_last_command_ended(dbt: Dbt, tmp_path: Path, words: tuple[str, ...]) -> None:
    project, place, switch = tmp_path / "shop", tmp_path / "kept", tmp_path / "switch.csv"
    facts, killed = write_facts(tmp_path), words[0] == "run"
    (project / "models" / "marts" / "slow.sql").write_text(SLOW)
    switch.write_text("ready\n1\n" if killed else "ready\nx\n")
    profile = project / "profiles.yml"
    more = f'checkpoints: "{place}"\n      data: ["{facts / "facts.parquet"}", "{switch}"]'
    profile.write_text(profile.read_text().replace("threads: 2", f"threads: 2\n      {more}"))
    if killed:
        command = [sys.executable, "-m", "dbt.cli.main", "run", "--select", "slow"]
        usual = os.environ | {"QOOP_SHOP": str(tmp_path / "warehouse"), "DBT_PROFILES_DIR": str(project)}
        with subprocess.Popen(command, cwd=project, env=usual, start_new_session=True) as first:
            runs = place / "runs"
            until(lambda: runs.is_dir() and any("md5" in path.read_text() for path in runs.iterdir()))
            begun = outputs(place)
            until(lambda: len(outputs(place)) > len(begun))
            first.kill()
    else:
        assert "x0" in dbt("run", "--select", "slow", fails=True)
        switch.write_text("ready\n1\n")
    found = outputs(place)
    assert found and not (tmp_path / "warehouse" / "slow").exists()
    dbt(*words)
    assert found <= outputs(place), "outputs were made again"
    with duckdb.connect() as theirs:
        theirs.execute(f"CREATE VIEW facts AS FROM '{facts / 'facts.parquet'}'; CREATE VIEW switch AS FROM '{switch}'")
        rows = theirs.sql(f"{SLOW} ORDER BY 1").fetchall()
    assert len(rows) == 7 and read(tmp_path, "slow") == rows


def test_documentation_has_the_columns(dbt: Dbt, tmp_path: Path) -> None:
    dbt("build", "--select", "+stg_orders")
    dbt("docs", "generate", "--select", "+stg_orders")
    catalog = (tmp_path / "shop" / "target" / "catalog.json").read_text()
    assert '"ordered_on": {"type": "DATE"' in catalog and '"type": "VIEW"' in catalog


def test_a_materialized_view_is_refreshed_by_the_next_run(dbt: Dbt, tmp_path: Path) -> None:
    models, warehouse = tmp_path / "shop" / "models" / "marts", tmp_path / "warehouse"
    config = "{{ config(materialized='materialized_view', refresh_mode='incremental') }}"
    query = "select customer_id, count(*) as orders from {{ ref('raw_orders') }} group by 1"
    (models / "by_customer.sql").write_text(f"{config} {query}")
    dbt("build", "--select", "raw_orders", "by_customer")
    theirs = "SELECT customer_id, count(*) AS orders FROM 'seeds/raw_orders.csv' GROUP BY 1 ORDER BY 1"

    def counted() -> list[tuple[object, ...]]:
        with duckdb.connect() as connection:
            connection.execute(f"SET file_search_path = '{tmp_path / 'shop'}'")
            return connection.sql(theirs).fetchall()

    def refreshed() -> list[tuple[object, ...]]:
        with qoop.connect(slots=1, memory="500MB", tables=warehouse) as session:
            [view] = session.materialized_views()
            assert view.incremental
            return session.sql("FROM by_customer ORDER BY 1").fetchall()

    assert counted() and refreshed() == counted()
    with (tmp_path / "shop" / "seeds" / "raw_orders.csv").open("a") as file:
        file.write("61,12,2025-12-31,placed\n")
    dbt("seed", "--select", "raw_orders")
    dbt("run", "--select", "by_customer")
    assert refreshed() == counted()
    dbt("run", "--select", "by_customer", "--full-refresh")
    (models / "by_customer.sql").write_text("{{ config(materialized='view') }} " + query)
    dbt("run", "--select", "by_customer")
    assert (warehouse / "views" / "by_customer.sql").exists()
    (models / "by_customer.sql").write_text(config + query.replace("count(*)", "median(order_id)"))
    assert "median" in dbt("run", "--select", "by_customer", fails=True)

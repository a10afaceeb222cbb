"""Skewed TPC-DS: the generated tables with their foreign keys mapped to others, as DSB does.

TPC-DS itself draws nearly all foreign keys evenly and apart from each other, which makes estimates easy. Here

- *keys are frequent by Zipf*: the key of rank r among the N of its dimension has a share of about r^-S;
- *frequency follows an attribute*: a dimension is ranked by one of its attributes (items by category, addresses by
  state) with some noise, so that few categories have most of the sales;
- *columns are correlated*: half of the keys come from the same quarter of their dimension as the others of their
  ticket or order. So frequent customers in the frequent states buy the frequent categories, across joins.

The constraints that queries rely on stay. A key is drawn for a ticket (or order) and the key before. So keys that were
equal in a sale and its return, or to bill and to ship to, stay equal. The items of a ticket stay different from each
other, which holds the most frequent below one in each ticket; a return has the item of its sale. NULLs, rows and their
order, types, and row groups are as before. Dates and times stay: what is returned was sold before. Of `inventory`,
which has each item in each warehouse, nothing changes.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from qoop.catalog import arrow_output
from qoop.catalog.errors import ConfigError
from qoop.catalog.opening import open_duckdb
from qoop.catalog.sources.files import sql_string

TOGETHER = 0.5
"""So much of the keys of a ticket is drawn near each other,"""
BANDS = 4
"""in the same of this number of parts of their dimensions, of equal frequency."""
_NOISE = 0.5
_EXPONENTS = (0.1, 4.0)


@dataclass(frozen=True, slots=True)
class Skew:
    """The skew: the exponent of Zipf's law, and a seed. Raises ConfigError for an exponent outside 0.1 to 4."""

    exponent: float
    seed: int = 0

    def __post_init__(self) -> None:
        low, high = _EXPONENTS
        if not low <= self.exponent <= high:
            raise ConfigError(f"the skew must be from {low:g} to {high:g}, not {self.exponent:g}")

    def share(self, first: int, size: int) -> float:
        """Of the `first` most frequent of `size` keys, as they are drawn.

        >>> round(Skew(1.0).share(1, 1000), 3)
        0.133
        """
        return (_area(first + 0.5, self.exponent) - self._before) / (_area(size + 0.5, self.exponent) - self._before)

    def __str__(self) -> str:
        return f"with keys by Zipf's law of exponent {self.exponent:g}, seed {self.seed}"

    @property
    def _before(self) -> float:
        """Ranks are drawn from a continuous density x^-S over [_, N + 1/2], where the first has as much as Zipf's."""
        return _area(1.5, self.exponent) - 1.0

    def rank_sql(self, uniform: str, size: int) -> str:
        """The rank, in SQL, of a value evenly drawn from 0 to 1."""
        span = _area(size + 0.5, self.exponent) - self._before
        area, rest = f"({self._before!r} + {span!r} * {uniform})", 1.0 - self.exponent
        drawn = f"exp({area})" if rest == 0.0 else f"pow({area} * {rest!r}, {1.0 / rest!r})"
        return f"greatest(1, least({size}, CAST(floor({drawn} + 0.5) AS BIGINT)))"


def _area(rank: float, exponent: float) -> float:
    """The integral of x^-S, up to a constant."""
    return math.log(rank) if exponent == 1.0 else rank ** (1.0 - exponent) / (1.0 - exponent)


@dataclass(frozen=True, slots=True)
class Dimension:
    """A table that foreign keys point into: its key, and the attribute that its ranks follow."""

    table: str
    key: str
    attribute: str


_DIMENSIONS = {
    "item": Dimension("item", "i_item_sk", "i_category"),
    "customer": Dimension("customer", "c_customer_sk", "c_birth_country"),
    "cdemo": Dimension("customer_demographics", "cd_demo_sk", "cd_education_status"),
    "hdemo": Dimension("household_demographics", "hd_demo_sk", "hd_buy_potential"),
    "addr": Dimension("customer_address", "ca_address_sk", "ca_state"),
    "store": Dimension("store", "s_store_sk", "s_state"),
    "promo": Dimension("promotion", "p_promo_sk", "p_channel_email"),
    "call_center": Dimension("call_center", "cc_call_center_sk", "cc_state"),
    "catalog_page": Dimension("catalog_page", "cp_catalog_page_sk", "cp_catalog_number"),
    "ship_mode": Dimension("ship_mode", "sm_ship_mode_sk", "sm_type"),
    "warehouse": Dimension("warehouse", "w_warehouse_sk", "w_state"),
    "web_page": Dimension("web_page", "wp_web_page_sk", "wp_type"),
    "web_site": Dimension("web_site", "web_site_sk", "web_company_name"),
    "reason": Dimension("reason", "r_reason_sk", "r_reason_desc"),
    "buyer": Dimension("customer", "c_custkey", "c_nationkey"),
    "part": Dimension("part", "p_partkey", "p_brand"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fact:
    """A table whose foreign keys are mapped.

    group: keys are drawn together for all rows of one. items: the item, different in all rows of a group. sales: of a
    table of returns, whose items are those of its sales.
    """

    prefix: str
    group: str
    keys: tuple[str, ...]
    items: bool = True
    sales: str | None = None

    def column(self, key: str) -> str:
        return f"{self.prefix}_{key}_sk"


_PEOPLE = ("customer", "cdemo", "hdemo", "addr")
_BOTH = tuple(f"{side}_{one}" for side in ("bill", "ship") for one in _PEOPLE)
_GIVING_BACK = tuple(f"{side}_{one}" for side in ("refunded", "returning") for one in _PEOPLE)
_FACTS = {
    "customer": Fact("c_current", "c_customer_sk", ("cdemo", "hdemo", "addr"), items=False),
    "store_sales": Fact("ss", "ss_ticket_number", (*_PEOPLE, "store", "promo")),
    "store_returns": Fact("sr", "sr_ticket_number", (*_PEOPLE, "store", "reason"), sales="store_sales"),
    "catalog_sales": Fact(
        "cs", "cs_order_number", (*_BOTH, "call_center", "catalog_page", "ship_mode", "warehouse", "promo")
    ),
    "catalog_returns": Fact(
        "cr", "cr_order_number", (*_GIVING_BACK, "call_center", "catalog_page", "ship_mode", "warehouse", "reason"),
        sales="catalog_sales",
    ),
    "web_sales": Fact("ws", "ws_order_number", (*_BOTH, "web_page", "web_site", "ship_mode", "warehouse", "promo")),
    "web_returns": Fact("wr", "wr_order_number", (*_GIVING_BACK, "web_page", "reason"), sales="web_sales"),
}  # fmt: skip


class SkewedCopy:
    """Copies tables of TPC-DS from a folder with other keys. Use it as a context manager.

    files: of each table. spill: where DuckDB puts what does not fit into memory.
    """

    def __init__(self, files: Mapping[str, Sequence[Path]], skew: Skew, spill: Path) -> None:
        self.files, self._skew = files, skew
        self._duckdb = open_duckdb(memory_limit="1GB", temp_directory=str(spill))
        self._sizes: dict[str, int] = {}

    def __enter__(self) -> SkewedCopy:
        return self

    def __exit__(self, *_: object) -> None:
        self._duckdb.close()

    def write(self, table: str, file: Path, target: Path) -> None:
        """Copy one of the files of a table. Raises DuckDB's, Arrow's and the system's own errors."""
        keys = self._keys(table, file)
        if keys is None:
            shutil.copyfile(file, target)
        else:
            _with_columns(file, target, arrow_output.table(self._duckdb, keys))

    def _keys(self, table: str, file: Path) -> str | None:
        """A query for the mapped columns of a file, in the order of its rows; None if the table has none."""
        fact = _FACTS.get(table)
        if fact is None:
            return None
        drawn = [f"{self._drawn(fact, key)} AS rank{place}" for place, key in enumerate(fact.keys)]
        items = f", {fact.column('item')} AS old" if fact.items else ""
        columns = [f"ranks{place}.key AS {fact.column(key)}" for place, key in enumerate(fact.keys)]
        joins = [
            f"LEFT JOIN {self._ranks(key)} AS ranks{place} ON ranks{place}.rank = source.rank{place}"
            for place, key in enumerate(fact.keys)
        ]
        if fact.items:
            columns.append(f"item_ranks.key AS {fact.column('item')}")
            joins.append(f"LEFT JOIN ({self._items(fact, file)}) AS items USING (grouped, old)")
            joins.append(f"LEFT JOIN {self._ranks('item')} AS item_ranks ON item_ranks.rank = items.rank")
        source = f"SELECT file_row_number, {fact.group} AS grouped{items}, {', '.join(drawn)} FROM {scan_sql(file)}"
        return (
            f"SELECT {', '.join(columns)} FROM ({source}) AS source {' '.join(joins)} ORDER BY source.file_row_number"
        )

    def _items(self, fact: Fact, file: Path) -> str:
        """A query for the rank of the new item for each group and old item that a file may have.

        Within a group the ranks are sorted, and each that is not above the one before moves up by one.
        """
        sales, files = (fact, [file]) if fact.sales is None else (_FACTS[fact.sales], self.files[fact.sales])
        returned = f"WHERE {sales.group} IN (SELECT {fact.group} FROM {scan_sql(file)})" if fact.sales else ""
        least = f"{self._size('item')} - count(*) OVER (PARTITION BY grouped) + place"
        return f"""
            WITH drawn AS (
                SELECT {sales.group} AS grouped, {sales.column("item")} AS old, {self._drawn(sales, "item")} AS rank
                FROM {scan_sql(*files)} {returned}
            ), sorted AS (
                SELECT *, row_number() OVER (PARTITION BY grouped ORDER BY rank, old) AS place FROM drawn
            )
            SELECT grouped, old,
                least(max(rank - place) OVER (PARTITION BY grouped ORDER BY place) + place, {least}) AS rank
            FROM sorted"""

    def _drawn(self, fact: Fact, key: str) -> str:
        """The rank of the new key, in SQL: of the group and the old key, so that equal keys of a group stay equal."""
        column, domain = fact.column(key), _domain(key)
        own = self._uniform(fact.group, column, f"'{domain}'")
        band = f"floor({self._uniform(fact.group)} * {BANDS})"
        along = self._uniform(fact.group, column, f"'along {domain}'")
        return f"CASE WHEN {column} IS NOT NULL THEN {self._rank(domain, own, band, along)} END"

    def _rank(self, domain: str, own: str, band: str, along: str) -> str:
        """The rank of a key of a dimension, in SQL: `own` and `along` are evenly drawn from 0 to 1."""
        uniform = f"CASE WHEN {along} < {TOGETHER} THEN ({band} + {own}) / {BANDS} ELSE {own} END"
        return self._skew.rank_sql(f"({uniform})", self._size(domain))

    def _uniform(self, *values: str) -> str:
        return f"(hash({', '.join((*values, str(self._skew.seed)))}) / {2.0**64!r})"

    def _ranks(self, key: str) -> str:
        """The table of the ranks of a dimension's keys, made when it is needed first."""
        domain = _domain(key)
        name = f"ranks_of_{domain}"
        if domain not in self._sizes:
            one = _DIMENSIONS[domain]
            order = f"{self._uniform(one.attribute)} + {_NOISE} * {self._uniform(one.key, one.attribute)}, {one.key}"
            self._duckdb.execute(
                f"CREATE TABLE {name} AS SELECT row_number() OVER (ORDER BY {order}) AS rank, {one.key} AS key "
                f"FROM {scan_sql(*self.files[one.table])}"
            )
            counted = self._duckdb.execute(f"SELECT count(*) FROM {name}").fetchall()
            self._sizes[domain] = int(counted[0][0])
        return name

    def _size(self, key: str) -> int:
        self._ranks(key)
        return self._sizes[_domain(key)]


def _domain(key: str) -> str:
    """The dimension of a key: that of ``bill_customer`` is ``customer``."""
    return key if key in _DIMENSIONS else key.partition("_")[2]


def scan_sql(*files: Path) -> str:
    """Parquet files in SQL, with the numbers of their rows in `file_row_number`."""
    listed = ", ".join(sql_string(str(file)) for file in files)
    return f"read_parquet([{listed}], file_row_number = true)"


def _with_columns(file: Path, target: Path, columns: pa.Table) -> None:
    """A copy of a Parquet file with other values in some columns; its row groups and types are the same."""
    with parquet.ParquetFile(file) as source:
        codec = source.metadata.row_group(0).column(0).compression
        with parquet.ParquetWriter(
            target, source.schema_arrow, compression=codec, store_decimal_as_integer=True
        ) as writer:
            begun = 0
            for number in range(source.num_row_groups):
                rows = source.read_row_group(number)
                here = columns.slice(begun, rows.num_rows)
                writer.write_table(_replaced(rows, here), row_group_size=rows.num_rows)
                begun += rows.num_rows


def _replaced(rows: pa.Table, columns: pa.Table) -> pa.Table:
    for name in columns.column_names:
        place = rows.schema.get_field_index(name)
        field = rows.schema.field(place)
        rows = rows.set_column(place, field, columns[name].cast(field.type))
    return rows

"""Skewed TPC-H: the generated tables with other customers, parts and suppliers.

TPC-H draws all keys evenly and apart from each other. Here, as in JCC-H (Boncz, Anatiotis, Kläbe: JCC-H: Adding Join
Crossing Correlations with Skew to TPC-H, TPCTC 2017) some keys have much, and what goes together crosses joins:

- *customers and parts are frequent by Zipf* in orders and lines, as in :mod:`qoop.tpcds.skew`; customers are ranked by
  nation and parts by brand, with noise;
- *keys go with dates*: half of them come from one quarter of their table. Its number is that of the quarter of the year
  in which the order was made, or the line shipped. So joins meet filters of dates;
- *suppliers keep to the part*: a line has one of the four that `partsupp` has for it, the first one in half of the
  lines. So the suppliers of frequent parts have most of the lines.

The price of a line is that of its new part. Rows and their order, dates, quantities, totals of orders, types and row
groups are as before, and `partsupp` and the small tables do not change.
"""

from __future__ import annotations

from pathlib import Path

from qoop.tpcds.skew import BANDS, SkewedCopy, scan_sql

_SUPPLIERS = 4
"""Of a part."""

_PRICE = "CAST(90000 + new.part // 10 % 20001 + 100 * (new.part % 1000) AS DECIMAL(15, 0)) * 0.01"
"""Of a part (clause 4.2.3 of the specification)."""


class SkewedTpchCopy(SkewedCopy):
    """Copies tables of TPC-H from a folder with other keys."""

    def _keys(self, table: str, file: Path) -> str | None:
        if table == "orders":
            return self._orders(file)
        return self._lines(file) if table == "lineitem" else None

    def _orders(self, file: Path) -> str:
        return f"""
            SELECT ranks.key AS o_custkey FROM (
                SELECT file_row_number, {self._drawn_of("buyer", "o_orderdate", "o_orderkey")} AS rank
                FROM {scan_sql(file)}
            ) AS drawn JOIN {self._ranks("buyer")} AS ranks USING (rank) ORDER BY file_row_number"""

    def _lines(self, file: Path) -> str:
        line = "l_orderkey", "l_linenumber"
        even = self._uniform(*line, "'supplier'")
        place = f"CAST(floor({_SUPPLIERS} * pow({even}, 2)) AS BIGINT)"
        suppliers = f"(SELECT count(*) FROM {scan_sql(*self.files['supplier'])})"
        step = f"({suppliers} // {_SUPPLIERS} + (new.part - 1) // {suppliers})"  # as in partsupp, clause 4.2.3
        return f"""
            SELECT new.part AS l_partkey, (new.part + new.place * {step}) % {suppliers} + 1 AS l_suppkey,
                CAST(new.l_quantity * {_PRICE} AS DECIMAL(15, 2)) AS l_extendedprice
            FROM (
                SELECT ranks.key AS part, drawn.* FROM (
                    SELECT file_row_number, l_quantity, {place} AS place,
                        {self._drawn_of("part", "l_shipdate", *line)} AS rank FROM {scan_sql(file)}
                ) AS drawn JOIN {self._ranks("part")} AS ranks USING (rank)
            ) AS new ORDER BY new.file_row_number"""

    def _drawn_of(self, domain: str, date: str, *row: str) -> str:
        """The rank of the key of a row, in SQL."""
        own, along = self._uniform(*row, f"'{domain}'"), self._uniform(*row, f"'along {domain}'")
        return self._rank(domain, own, f"((quarter({date}) - 1) % {BANDS})", along)

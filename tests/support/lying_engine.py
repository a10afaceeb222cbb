"""DuckDB as an adapter of a user, which leaves out the last row of every answer."""

from __future__ import annotations

import pyarrow as pa

from qoop.tpcds.spot.adapters.duckdb_again import DuckDBAgain
from qoop.tpcds.spot.adapters.protocol import serve


class Lying(DuckDBAgain):
    name = "lying"

    def answer(self, text: str) -> pa.Table:
        whole = super().answer(text)
        return whole.slice(0, whole.num_rows - 1)


if __name__ == "__main__":
    serve(Lying())

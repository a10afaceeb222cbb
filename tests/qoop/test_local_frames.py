"""Data frames of the program in queries, as DuckDB finds them."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import qoop

of_the_module = pa.table({"n": [40, 2]})


def test_variables_are_tables_where_no_table_has_the_name() -> None:
    with qoop.connect(slots=1, memory="500MB") as session:
        frame = pd.DataFrame({"n": [1, 2]})
        lazy = pl.LazyFrame({"n": [2, 3]}).filter(pl.col("n") > 1)
        both = "SELECT frame.n FROM frame, lazy WHERE lazy.n = frame.n + 1 ORDER BY 1"
        assert session.sql("SELECT sum(n) FROM of_the_module").fetchall() == [(42,)]
        assert session.sql(both).fetchall() == [(1,), (2,)]
        frame.loc[0, "n"] = 10  # the same object
        assert session.submit("SELECT max(n) FROM frame").result().fetchall() == [(10,)]
        lazy = pl.LazyFrame({"n": [7]})
        assert session.sql("FROM lazy").fetchall() == [(7,)]
        session.register("frame", pa.table({"n": [5]}))
        assert session.sql("FROM frame").fetchall() == [(5,)], "a table goes before a variable"
        assert session.sql("WITH of_the_module AS (SELECT 1) FROM of_the_module").fetchall() == [(1,)]
        del lazy
        with pytest.raises(qoop.BindError, match="lazy"):
            session.sql("FROM lazy")


@pytest.mark.parametrize("off", [{"local_frames": False}, {"locked": True}])
def test_they_can_be_left_alone(off: dict[str, bool]) -> None:
    with qoop.connect(slots=1, memory="500MB", **off) as session, pytest.raises(qoop.QoopError, match="of_the_module"):
        session.sql("FROM of_the_module")

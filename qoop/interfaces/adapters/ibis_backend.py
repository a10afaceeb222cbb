"""A backend of ibis: ``ibis.qoop.connect("DIR", slots=2)``. Expressions become SQL of DuckDB, answers come as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import ibis
import ibis.backends.sql.compilers as sc
import ibis.common.exceptions as exc
import ibis.expr.operations as ops
import ibis.expr.schema as sch
import ibis.expr.types as ir
import pyarrow as pa
import sqlglot.expressions as sge
from ibis.backends.sql import SQLBackend

import qoop
from qoop.planner.algebra.expr import quote

if TYPE_CHECKING:
    from qoop.query.result import Result
    from qoop.session.session import Session


class Backend(SQLBackend):  # type: ignore[misc]
    """A session as ibis sees it. Tables are those of the session; there are no catalogs and databases."""

    name = "qoop"
    compiler = sc.duckdb.compiler
    supports_temporary_tables = False
    supports_python_udfs = False

    @property
    def version(self) -> str:
        """Of qoop."""
        return str(qoop.__version__)

    def do_connect(self, *data: str, session: Session | None = None, **options: Any) -> None:
        """Open folders, DuckDB files and data files, or take a session that is open.

        options: those of :func:`qoop.connect`.
        """
        self.session = session if session is not None else qoop.connect(**options)
        self._owned = session is None
        for path in data:
            self.session.register_path(path)

    def disconnect(self) -> None:
        """Close the session, if it was opened for this."""
        if self._owned:
            self.session.close()

    def raw_sql(self, query: str | sge.Expr) -> Result:
        """The answer to a text in DuckDB's SQL."""
        return self.session.sql(query if isinstance(query, str) else query.sql(dialect=self.dialect))

    @contextmanager
    def _safe_raw_sql(self, query: str | sge.Expr) -> Iterator[Result]:
        yield self.raw_sql(query)

    def _get_schema_using_query(self, query: str) -> sch.Schema:
        read = self.compiler.type_mapper.from_string
        return sch.Schema({name: read(type_, nullable=True) for name, type_ in self.session.describe(query)})

    def list_tables(self, *, like: str | None = None, database: str | None = None) -> list[str]:
        """The names of tables and views."""
        names = [*self.session.tables(), *self.session.views()]
        return list(self._filter_with_like(sorted(names), like))

    def get_schema(self, table_name: str, *, catalog: str | None = None, database: str | None = None) -> sch.Schema:
        """The columns of a table or view. Raises TableNotFound."""
        known = {name.lower() for name in self.list_tables()}
        if table_name.lower() not in known:
            raise exc.TableNotFound(table_name)
        return self._get_schema_using_query(f"FROM {quote(table_name)}")

    def create_table(
        self,
        name: str,
        /,
        obj: Any = None,
        *,
        schema: Any = None,
        database: str | None = None,
        temp: bool = False,
        overwrite: bool = False,
    ) -> ir.Table:
        """Make a table of an expression or of rows, cast to the schema if there is one, or of a schema alone."""
        if obj is None and schema is None:
            raise exc.IbisInputError("a table is made of an expression or rows, or of a schema: give one of these")
        begin = f"CREATE {'OR REPLACE ' if overwrite else ''}TABLE {quote(name)}"
        if obj is None:
            written = self.compiler.type_mapper.to_string
            columns = ", ".join(f"{quote(one)} {written(type_)}" for one, type_ in ibis.schema(schema).items())
            self.raw_sql(f"{begin} ({columns})")
        else:
            made = obj if isinstance(obj, ir.Table) else ibis.memtable(obj)
            made = made if schema is None else made.cast(ibis.schema(schema))
            self._run_pre_execute_hooks(made)
            self.raw_sql(f"{begin} AS {self.compile(made)}")
        return self.table(name)

    def drop_table(self, name: str, /, *, database: str | None = None, force: bool = False) -> None:
        """Forget a table. force: it need not be there."""
        self.raw_sql(f"DROP TABLE {'IF EXISTS ' if force else ''}{quote(name)}")

    def truncate_table(self, name: str, /, *, database: str | None = None) -> None:
        """Remove all rows of a table."""
        self.raw_sql(f"DELETE FROM {quote(name)}")

    def drop_view(self, name: str, /, *, database: str | None = None, force: bool = False) -> None:
        """Forget a view. force: it need not be there."""
        self.raw_sql(f"DROP VIEW {'IF EXISTS ' if force else ''}{quote(name)}")

    def to_pyarrow(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        **more: Any,
    ) -> Any:
        """The answer as Arrow: a table, a column or a scalar, as the expression is."""
        from ibis.backends.duckdb.converter import DuckDBPyArrowData

        table = self._answer(expr, params=params, limit=limit, **more).arrow()
        return expr.__pyarrow_result__(table, data_mapper=DuckDBPyArrowData)

    def _answer(self, expr: ir.Expr, **more: Any) -> Result:
        self._run_pre_execute_hooks(expr)
        return self.raw_sql(self.compile(expr.as_table(), **more))

    def execute(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        **more: Any,
    ) -> Any:
        """The answer as pandas has it: a frame, a series or a scalar, as the expression is."""
        import pandas as pd
        from ibis.backends.duckdb.converter import DuckDBPandasData

        table = self._answer(expr, params=params, limit=limit, **more).arrow()
        frame = pd.DataFrame({name: _for_pandas(table[name]) for name in table.column_names})
        return expr.__pandas_result__(DuckDBPandasData.convert_table(frame, expr.as_table().schema()))

    def to_pyarrow_batches(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        chunk_size: int = 1_000_000,
        **more: Any,
    ) -> pa.RecordBatchReader:
        """The answer in batches of Arrow, which need not all fit the memory."""
        return self._answer(expr, params=params, limit=limit, **more).batches()

    def _register_in_memory_table(self, op: ops.InMemoryTable) -> None:
        self.session.register(op.name, op.data.to_pyarrow(op.schema))

    def _make_memtable_finalizer(self, name: str) -> Callable[..., None]:
        session = self.session

        def forget() -> None:
            if name in session.tables():
                session.sql(f"DROP TABLE {quote(name)}")

        return forget


def _for_pandas(column: pa.ChunkedArray) -> Any:
    """A column of Arrow as pandas has it; lists, structs and columns of NULL alone as values of Python."""
    is_special = pa.types.is_nested(column.type) or column.null_count == len(column)
    return column.to_pylist() if is_special else column.to_pandas()

"""The execution of statements: a session runs one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.catalog.errors import TableChanged
from qoop.catalog.value import value
from qoop.query.job import Job, answer
from qoop.query.result import Result
from qoop.query.statements.databases.schemas import CreateSchema, DropSchema, ShowSchemas
from qoop.query.statements.materialized import OfMaterialized
from qoop.query.statements.reading import ChangeTable, CopyTo, CreateEmpty, CreateTable, CreateView, Drop, Rename
from qoop.query.statements.statement import Approximate, Explain, Query, SetOption, ShowFunctions, ShowTables, Statement
from qoop.query.tables import SessionTables
from qoop.session.options import SessionOptions
from qoop.session.texts import Texts

if TYPE_CHECKING:
    from qoop.catalog.table import Columns
    from qoop.session.session import Session

_CHANGES = CreateView | CreateTable | CreateEmpty | ChangeTable | Rename | Drop | CreateSchema | DropSchema
"""The statements that change tables, views and schemas."""

_MANY = 1_000_000  # rows that are worth several threads to write


@value
class Execution:
    """Runs statements, one after the other.

    watch: is called with every job that is started, before the wait for its end.
    """

    session: Session
    tables: SessionTables
    options: SessionOptions
    texts: Texts
    watch: Callable[[Job], object] | None

    def execute(self, statement: Statement) -> Result:
        """The answer to a statement. Raises as `Session.sql` does."""
        self.tables.check_open()
        if isinstance(statement, _CHANGES):
            self.texts.changed()
            return self._change(statement)
        if isinstance(statement, OfMaterialized):
            return self._materialize(statement)
        match statement:
            case Query(text):
                return self.query(text)
            case Approximate():
                return self._approximate(statement)
            case Explain():
                from qoop.session.explanations import explained

                return explained(self, statement)
            case SetOption(name, value):
                self.options.check_settable(name)
                self.session.set(name, value)
                return done()
            case CopyTo():
                return self._copy(statement)
            case ShowTables(schema, with_columns):
                from qoop.query.statements.listings import ALL_TABLES, table_names

                if with_columns and not self.session.config.locked:
                    return self.query(ALL_TABLES)
                names = self.tables.names
                return Result(*table_names(names.all() if schema is None else names.within(schema)))
            case ShowSchemas():
                return Result(*self.tables.names.schemas.shown())
            case ShowFunctions():
                from qoop.query.statements.listings import shown_functions

                session = self.session
                return Result(*shown_functions(session.functions().values(), session.planning.row_seconds()))
            case _:
                from qoop.session.rare import execute

                return execute(self, statement)

    def _materialize(self, statement: OfMaterialized) -> Result:
        from qoop.programs.views import statements

        self.texts.changed()
        found = statements.execute(self.session.materialized, statement)
        if found is None:
            return done()
        return counted(found) if isinstance(found, int) else Result(*found)

    def query(self, text: str, check: Callable[[Columns], object] = lambda columns: None) -> Result:
        """The rows of a query. check: is called with the columns before it runs. Raises what that does.

        If a file is replaced while the query reads it, the query is run again, once, on what the file holds now.
        """
        try:
            return self._query(text, check)
        except TableChanged:
            return self._query(text, check)

    def _query(self, text: str, check: Callable[[Columns], object]) -> Result:
        with self.texts.written_out(text, self.session.sql) as query:
            planned = self.session.planning.plan(query)
            check(planned.plan.columns)
            job = self.session.start(planned, resume=self.session.config.reuse)
        return answer(job, self.watch)

    def _change(self, statement: _CHANGES) -> Result:
        definitions, settings = self.tables.definitions, self.tables.binder.settings
        match statement:
            case CreateView():
                definitions.create_view(statement)
            case Drop():
                definitions.drop(statement)
            case CreateSchema() | DropSchema():
                definitions.do_schema(statement)
            case CreateEmpty():
                definitions.create_empty(statement, Result, settings)
                return counted(0)
            case Rename():
                definitions.rename(statement, self.query)
            case ChangeTable(text=text):
                count = definitions.change(statement, self.query, Result, settings, self.texts.frames(text))
                return done() if statement.reshapes else counted(count)
            case CreateTable(text=text):
                name = self.tables.names.for_table(statement.name, statement.replace, statement.unless)
                if name is None:  # there is one of that name already
                    return counted(0)
                made = self.query(text, partial(definitions.check_types, name))
                definitions.create_table(name, made)
                return counted(len(made))
        return done()

    def _copy(self, statement: CopyTo) -> Result:
        from qoop.query.writing import allowed_folder

        config = self.session.config
        folder = allowed_folder(statement.path, statement.options, config.copy_to) if config.locked else None
        made = self.query(statement.text)
        # A few rows are written before a second thread has started.
        writers = max(1, int(self.session.available.cpu)) if len(made) >= _MANY else 1
        made.copy_to(statement.path, statement.options, folder, writers)
        return counted(len(made))

    def _approximate(self, statement: Approximate) -> Result:
        """The rows of the last edition."""
        growing = self.session.approximate(
            statement.text, statement.error, statement.confidence, if_busy=statement.if_busy
        )
        try:
            return growing.last().result
        except KeyboardInterrupt:
            growing.stop()
            raise


def done() -> Result:
    """The answer to a statement that has no rows."""
    return Result(pa.table({"c0": pa.array([], pa.bool_())}), (("Success", "BOOLEAN"),))


def counted(rows: int) -> Result:
    """DuckDB's answer where rows go elsewhere: their number."""
    return Result(pa.table({"c0": pa.array([rows], pa.int64())}), (("Count", "BIGINT"),))

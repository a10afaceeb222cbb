"""A dialect of SQLAlchemy 2 over :mod:`qoop.interfaces.dbapi`: ``create_engine("qoop:///DIR?slots=2&memory=2GB")``.

An engine has one session, which its threads share. Statements take effect at once, and a rollback undoes nothing: in
this dialect, `begin` and `rollback` do nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sqlalchemy import exc, pool, text
from sqlalchemy.engine import URL, Connection, default
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.sql import compiler, sqltypes

from qoop.interfaces.adapters.types import alchemy_type
from qoop.query.options import ConnectOptions

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import ReflectedColumn
    from sqlalchemy.pool import PoolProxiedConnection

MAIN = "main"
"""The schema of tables that have no other."""

_OPTIONS = dict.fromkeys([*ConnectOptions.__annotations__, "threads"])


class QoopCompiler(compiler.SQLCompiler):
    """Operators that DuckDB writes as functions."""

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **more: Any) -> str:
        return f"regexp_matches({self.process(binary.left, **more)}, {self.process(binary.right, **more)})"

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **more: Any) -> str:
        return f"NOT {self.visit_regexp_match_op_binary(binary, operator, **more)}"

    def visit_ilike_op_binary(self, binary: Any, operator: Any, **more: Any) -> str:
        return self._ilike(binary, "ILIKE", **more)

    def visit_not_ilike_op_binary(self, binary: Any, operator: Any, **more: Any) -> str:
        return self._ilike(binary, "NOT ILIKE", **more)

    def _ilike(self, binary: Any, word: str, **more: Any) -> str:
        escape = binary.modifiers.get("escape")
        condition = f"{self.process(binary.left, **more)} {word} {self.process(binary.right, **more)}"
        if escape is None:
            return condition
        return f"{condition} ESCAPE {self.render_literal_value(escape, sqltypes.STRINGTYPE)}"


class QoopTypeCompiler(compiler.GenericTypeCompiler):
    """Types as DuckDB names them."""

    def visit_uuid(self, type_: Any, **more: Any) -> str:
        return "UUID"

    def visit_JSON(self, type_: Any, **more: Any) -> str:
        return "JSON"

    def visit_ARRAY(self, type_: Any, **more: Any) -> str:
        return f"{self.process(type_.item_type, **more)}[]"

    def visit_TIMESTAMP(self, type_: Any, **more: Any) -> str:
        return "TIMESTAMPTZ" if type_.timezone else "TIMESTAMP"

    def visit_DATETIME(self, type_: Any, **more: Any) -> str:
        return self.visit_TIMESTAMP(type_, **more)

    def visit_unicode_text(self, type_: Any, **more: Any) -> str:
        return "VARCHAR"


class QoopDialect(default.DefaultDialect):
    """See the module. Tables, views and their columns are reflected; there are no keys, indexes and constraints."""

    name = "qoop"
    driver = "dbapi"
    default_paramstyle = "qmark"
    statement_compiler = QoopCompiler
    type_compiler_cls = QoopTypeCompiler
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_uuid = True
    supports_multivalues_insert = True
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    supports_default_values = False
    supports_empty_insert = False
    supports_alter = False
    postfetch_lastrowid = False
    cte_follows_insert = True
    requires_name_normalize = False
    default_schema_name = MAIN

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        from qoop.interfaces import dbapi

        return dbapi

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        return pool.StaticPool

    def create_connect_args(self, url: URL) -> tuple[Sequence[Any], dict[str, Any]]:
        if url.host or url.username:
            raise exc.ArgumentError("qoop runs in this process: the URL is qoop:///DIR or qoop:////absolute/DIR")
        options = dict(url.query)
        more = options.pop("data", ())
        data = [path for path in (url.database, *((more,) if isinstance(more, str) else more)) if path]
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise exc.ArgumentError(f"qoop has no option {', '.join(sorted(unknown))}; there are {', '.join(_OPTIONS)}")
        return data, options

    def initialize(self, connection: Connection) -> None:
        """Send no query before the first statement."""

    def do_begin(self, dbapi_connection: PoolProxiedConnection) -> None:
        """Statements take effect at once."""

    def do_rollback(self, dbapi_connection: PoolProxiedConnection) -> None:
        """Statements have taken effect."""

    def is_disconnect(self, e: Any, connection: Any, cursor: DBAPICursor | None) -> bool:
        return isinstance(e, self.dbapi.InterfaceError)  # type: ignore[union-attr]

    def do_ping(self, dbapi_connection: DBAPIConnection) -> bool:
        return True

    def get_schema_names(self, connection: Connection, **_: Any) -> list[str]:
        found = _rows(connection, "SELECT DISTINCT table_schema FROM information_schema.tables ORDER BY ALL")
        return list(dict.fromkeys([MAIN, *(name for (name,) in found)]))

    def get_table_names(self, connection: Connection, schema: str | None = None, **_: Any) -> list[str]:
        return self._named(connection, schema, "BASE TABLE")

    def get_view_names(self, connection: Connection, schema: str | None = None, **_: Any) -> list[str]:
        return self._named(connection, schema, "VIEW")

    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **_: Any) -> bool:
        return table_name in (*self.get_table_names(connection, schema), *self.get_view_names(connection, schema))

    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[ReflectedColumn]:
        found = _rows(
            connection,
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_name = :name AND table_schema = :schema ORDER BY ordinal_position",
            {"name": table_name, "schema": schema or MAIN},
        )
        if not found:
            raise exc.NoSuchTableError(table_name if schema is None else f"{schema}.{table_name}")
        return [
            {"name": name, "type": alchemy_type(type_name), "nullable": True, "default": None, "autoincrement": False}
            for name, type_name in found
        ]

    def get_pk_constraint(self, connection: Connection, table_name: str, schema: str | None = None, **_: Any) -> Any:
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(self, connection: Connection, table_name: str, schema: str | None = None, **_: Any) -> Any:
        return []

    def get_indexes(self, connection: Connection, table_name: str, schema: str | None = None, **_: Any) -> Any:
        return []

    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> Any:
        return []

    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> Any:
        return []

    def get_table_comment(self, connection: Connection, table_name: str, schema: str | None = None, **_: Any) -> Any:
        return {"text": None}

    def _named(self, connection: Connection, schema: str | None, kind: str) -> list[str]:
        found = _rows(
            connection,
            "SELECT table_name FROM information_schema.tables "
            "WHERE table_schema = :schema AND table_type = :kind ORDER BY table_name",
            {"schema": schema or MAIN, "kind": kind},
        )
        return [name for (name,) in found]


def _rows(connection: Connection, query: str, values: Mapping[str, object] | None = None) -> Sequence[Any]:
    return connection.execute(text(query), dict(values or {})).fetchall()

"""The adapter: relations, columns and types in the form that dbt expects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.base import BaseRelation, available
from dbt.adapters.contracts.relation import ComponentName, Policy, RelationType
from dbt.adapters.sql import SQLAdapter
from dbt_common.exceptions import DbtRuntimeError

from qoop.catalog.lexer import quoted
from qoop.interfaces.adapters.dbt.connections import QoopConnectionManager
from qoop.interfaces.adapters.dbt.kept_views import MAIN, KeptView
from qoop.query.statements.parameters import literal


@dataclass
class _WithoutDatabase(Policy):  # type: ignore[misc]
    database: bool = False
    schema: bool = True
    identifier: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class QoopRelation(BaseRelation):  # type: ignore[misc]
    """A table or view; SQL omits its schema if that is ``main``."""

    include_policy: Policy = field(default_factory=_WithoutDatabase)
    quote_policy: Policy = field(default_factory=Policy)

    def _render_iterator(self) -> Iterator[tuple[Any, str | None]]:
        for part, text in super()._render_iterator():
            yield part, None if part == ComponentName.Schema and self.schema == MAIN else text

    def with_query(self, query: str) -> KeptView:
        """The view with this name and a query."""
        return KeptView(str(self.schema), str(self.identifier), query)


class QoopAdapter(SQLAdapter):  # type: ignore[misc]
    """No renaming, no snapshots: a model replaces its table at once."""

    ConnectionManager = QoopConnectionManager
    Relation = QoopRelation
    connections: QoopConnectionManager

    @classmethod
    def date_function(cls) -> str:
        """The present, in SQL."""
        return "now()"

    @classmethod
    def convert_text_type(cls, agate_table: Any, col_idx: int) -> str:
        """The type of a column of a seed that holds texts."""
        return "varchar"

    @classmethod
    def convert_number_type(cls, agate_table: Any, col_idx: int) -> str:
        """The type of a column of a seed that holds numbers."""
        import agate

        return "double" if agate_table.aggregate(agate.MaxPrecision(col_idx)) else "bigint"

    @classmethod
    def convert_integer_type(cls, agate_table: Any, col_idx: int) -> str:
        """The type of a column of a seed that holds whole numbers."""
        return "bigint"

    @classmethod
    def convert_datetime_type(cls, agate_table: Any, col_idx: int) -> str:
        """The type of a column of a seed that holds points in time."""
        return "timestamp"

    def list_schemas(self, database: str) -> list[str]:
        """The schemas of the session."""
        return [name for (name,) in self._rows("SELECT DISTINCT schema_name FROM information_schema.schemata")]

    def check_schema_exists(self, database: str, schema: str) -> bool:
        """True if there is a schema of that name."""
        return schema.lower() in map(str.lower, self.list_schemas(database))

    def create_schema(self, relation: BaseRelation) -> None:
        """Create a schema; its folder makes it permanent."""
        self.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(str(relation.schema))}")

    def drop_schema(self, relation: BaseRelation) -> None:
        """Drop all relations of a schema, and the schema itself unless it is ``main``."""
        for found in self.list_relations_without_caching(relation):
            self.drop_relation(found)
        if relation.schema != MAIN:
            self.execute(f"DROP SCHEMA IF EXISTS {quoted(str(relation.schema))}")
        self.cache.drop_schema(relation.database, relation.schema)

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """All tables and views of a schema."""
        database, schema = schema_relation.database, str(schema_relation.schema)
        query = f"SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = {literal(schema)}"
        place = "" if schema == MAIN else f"{schema}."
        refreshed = {view.name for view in self.connections.session().materialized_views()}
        return [
            self.Relation.create(
                database=database, schema=schema, identifier=name,
                type=RelationType.MaterializedView if f"{place}{name}" in refreshed else _kind(kind),
            )
            for name, kind in self._rows(query)
        ]  # fmt: skip

    def _rows(self, query: str) -> list[tuple[str, ...]]:
        found = self.connections.session().sql(query).arrow()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    @available  # type: ignore[untyped-decorator]
    def get_columns_in_relation(self, relation: BaseRelation) -> list[Any]:
        """The columns of a table or view, with their types."""
        described = self.connections.session().describe(f"FROM {relation.render()}")
        return [self.Column(name, type_) for name, type_ in described]

    def rename_relation(self, from_relation: BaseRelation, to_relation: BaseRelation) -> None:
        """Raises DbtRuntimeError: tables and views keep their names."""
        raise DbtRuntimeError(f"qoop does not rename {from_relation} to {to_relation}: create it again")

    def drop_relation(self, relation: BaseRelation) -> None:
        """Drop a table, a view or a materialized view."""
        self.cache_dropped(relation)
        kind = _WORDS.get(relation.type, "TABLE")
        self.execute(f"DROP {kind} IF EXISTS {relation.render()}")
        self.connections.views.forget(relation.with_query(""))

    @available  # type: ignore[untyped-decorator]
    def create_view(self, relation: BaseRelation, query: str) -> None:
        """Create a view, and save it for later commands of dbt."""
        view = relation.with_query(query)
        self.execute(view.statement)
        self.connections.views.keep(view)


_WORDS = {RelationType.View: "VIEW", RelationType.MaterializedView: "MATERIALIZED VIEW"}


def _kind(table_type: str) -> Any:
    return RelationType.View if table_type == "VIEW" else RelationType.Table

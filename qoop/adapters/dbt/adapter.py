"""The adapter: relations, columns and types as dbt asks for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.base import BaseRelation, available
from dbt.adapters.contracts.relation import Policy, RelationType
from dbt.adapters.sql import SQLAdapter
from dbt_common.exceptions import DbtRuntimeError

from qoop.adapters.dbt.connections import MAIN, QoopConnectionManager
from qoop.adapters.dbt.kept_views import create_view
from qoop.catalog.lexed import quoted


@dataclass
class _NameOnly(Policy):  # type: ignore[misc]
    database: bool = False
    schema: bool = False
    identifier: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class QoopRelation(BaseRelation):  # type: ignore[misc]
    """A table or view, which SQL names without a schema."""

    include_policy: Policy = field(default_factory=_NameOnly)
    quote_policy: Policy = field(default_factory=Policy)


class QoopAdapter(SQLAdapter):  # type: ignore[misc]
    """One schema, ``main``; no renaming, no snapshots: a model replaces its table at once."""

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
        """The only schema."""
        return [MAIN]

    def check_schema_exists(self, database: str, schema: str) -> bool:
        """True for the only schema."""
        return schema == MAIN

    def create_schema(self, relation: BaseRelation) -> None:
        """Nothing for the schema that there is. Raises DbtRuntimeError for another."""
        if relation.schema != MAIN:
            raise DbtRuntimeError(f"qoop has one schema, {MAIN}; the profile or a model asks for {relation.schema}")

    def drop_schema(self, relation: BaseRelation) -> None:
        """Drop what is in the schema that there is."""
        for found in self.list_relations_without_caching(relation):
            self.drop_relation(found)

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """All tables and views."""
        session, database = self.connections.session(), schema_relation.database
        if schema_relation.schema != MAIN:
            return []
        views = set(session.views())
        kinds = dict.fromkeys(session.tables(), RelationType.Table) | dict.fromkeys(views, RelationType.View)
        return [
            self.Relation.create(database=database, schema=MAIN, identifier=name, type=kind)
            for name, kind in kinds.items()
        ]

    @available  # type: ignore[untyped-decorator]
    def get_columns_in_relation(self, relation: BaseRelation) -> list[Any]:
        """The columns of a table or view, with their types."""
        described = self.connections.session().describe(f"FROM {relation.render()}")
        return [self.Column(name, told) for name, told in described]

    def rename_relation(self, from_relation: BaseRelation, to_relation: BaseRelation) -> None:
        """Raises DbtRuntimeError: tables and views keep their names."""
        raise DbtRuntimeError(f"qoop does not rename {from_relation} to {to_relation}: create it again")

    def drop_relation(self, relation: BaseRelation) -> None:
        """Drop a table or view."""
        name = str(relation.identifier)
        self.cache_dropped(relation)
        kind = "VIEW" if relation.type == RelationType.View else "TABLE"
        self.execute(f"DROP {kind} IF EXISTS {quoted(name)}")
        self.connections.views.forget(name)

    @available  # type: ignore[untyped-decorator]
    def create_view(self, relation: BaseRelation, query: str) -> None:
        """Create a view, and keep it for the commands that follow."""
        name = str(relation.identifier)
        self.execute(create_view(name, query))
        self.connections.views.keep(name, query)

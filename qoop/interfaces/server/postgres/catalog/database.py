"""The DuckDB that answers questions about the catalog: PostgreSQL's own relations, with the server's tables in them.

All relations of PostgreSQL have all their columns. Those of what exists here have rows; the others are empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import duckdb

from qoop.catalog.lexer import quoted
from qoop.interfaces.server.postgres.catalog.carriers import CHAR, CHARACTERS, carrier
from qoop.interfaces.server.postgres.catalog.data import Relation, base_types, functions, relations
from qoop.interfaces.server.postgres.catalog.functions import (
    ACTIVITY,
    ACTIVITY_TYPE,
    NAMES_VIEWS,
    SETTINGS,
    TABLE_MACROS,
    USER_NUMBER,
    macros,
)
from qoop.interfaces.server.postgres.catalog.translation import SCHEMA_OF_INFORMATION, Numbers
from qoop.interfaces.server.postgres.catalog.types import pg_type

_FIRST = 16_384
"""The number of the first table of the server; 10 is that of the owner of all."""
_SCHEMAS = {"pg_catalog": 11, "public": 2200, "information_schema": 13000}
_UNNUMBERED = 11_000
"""The number of the first of PostgreSQL's relations that have none of their own here."""

Tables = Mapping[str, Sequence[tuple[str, str]]]
"""The columns of tables by name: names, and types of DuckDB."""

_DEFAULTS = {
    "reltuples": "-1", "relpersistence": "'p'", "relispopulated": "true", "relreplident": "'n'", "relowner": "10",
    "attislocal": "true", "attstorage": "'p'", "attstattarget": "-1", "attalign": "'i'", "typowner": "10",
    "typnamespace": "11", "typisdefined": "true", "typtypmod": "-1", "typdelim": "','", "typalign": "'i'",
    "typstorage": "'p'", "pronamespace": "11", "proowner": "10", "prolang": "12", "proparallel": "'s'",
    "proisstrict": "true", "procost": "1", "collnamespace": "11", "collowner": "10", "collencoding": "-1",
    "collisdeterministic": "true", "nspowner": "10", "spcowner": "10", "lanowner": "10",
}  # fmt: skip
"""Values of columns that a row does not say; the others are 0, false or empty, and NULL for texts."""

_ROWS: Mapping[str, tuple[str, Sequence[tuple[object, ...]]]] = {
    "pg_am": ("oid, amname, amtype", [(2, "heap", "t"), (403, "btree", "i"), (405, "hash", "i")]),
    "pg_collation": (
        "oid, collname, collprovider, collcollate, collctype",
        [(100, "default", "d", None, None), (950, "C", "c", "C", "C"), (951, "POSIX", "c", "POSIX", "POSIX")],
    ),
    "pg_language": ("oid, lanname", [(12, "internal"), (13, "c"), (14, "sql")]),
    "pg_namespace": ("oid, nspname", [(oid, name) for name, oid in _SCHEMAS.items()]),
    "pg_range": (
        "rngtypid, rngsubtype, rngmultitypid, rngcollation",
        [(3904, 23, 4451, 0), (3906, 1700, 4532, 0), (3908, 1114, 4533, 0), (3910, 1184, 4534, 0),
         (3912, 1082, 4535, 0), (3926, 20, 4536, 0)],
    ),
    "pg_tablespace": ("oid, spcname", [(1663, "pg_default"), (1664, "pg_global")]),
}  # fmt: skip
"""Rows of PostgreSQL's that every server has."""

_USER = "pg_current_user()"
_ROLES = f"FROM (VALUES (10, 'qoop', false), ({USER_NUMBER}, pg_current_user(), true)) AS r(oid, name, logs_in)"
"""The owner of all, and the user of the client."""
_TABLE = "FROM pgc.pg_class k WHERE k.relnamespace = 2200 AND k.relkind = 'r'"
_STATISTICS = {"relid": "k.oid", "schemaname": "'public'", "relname": "k.relname"}
_ACTIVITY = f"FROM (SELECT unnest(CAST(getvariable('{ACTIVITY}') AS {ACTIVITY_TYPE})) AS a)"
_DATABASE = "current_database()"
_VIEWS: Mapping[str, tuple[Mapping[str, str], str]] = {
    "pg_database": (
        {"oid": "5", "datname": _DATABASE, "datdba": "10", "encoding": "6", "datlocprovider": "'c'",
         "datistemplate": "false", "datallowconn": "true", "datconnlimit": "-1", "datfrozenxid": "1", "datminmxid": "1",
         "dattablespace": "1663", "datcollate": "'C'", "datctype": "'C'"},
        "",
    ),
    **{name: ({"oid": "r.oid", "rolname": "r.name", "rolsuper": "false", "rolinherit": "true",
               "rolcreaterole": "false", "rolcreatedb": "false", "rolcanlogin": "r.logs_in", "rolreplication": "false",
               "rolconnlimit": "-1", "rolbypassrls": "false"}, _ROLES) for name in ("pg_roles", "pg_authid")},
    **{name: ({"usename": "r.name", "usesysid": "r.oid", "usecreatedb": "false", "usesuper": "false",
               "userepl": "false", "usebypassrls": "false"}, _ROLES) for name in ("pg_user", "pg_shadow")},
    "pg_tables": (
        {"schemaname": "n.nspname", "tablename": "k.relname", "tableowner": "pg_get_userbyid(k.relowner)",
         "hasindexes": "false", "hasrules": "false", "hastriggers": "false", "rowsecurity": "false"},
        "FROM pgc.pg_class k JOIN pgc.pg_namespace n ON n.oid = k.relnamespace WHERE k.relkind = 'r'",
    ),
    "pg_views": (
        {"schemaname": "n.nspname", "viewname": "k.relname", "viewowner": "pg_get_userbyid(k.relowner)",
         "definition": "''"},
        "FROM pgc.pg_class k JOIN pgc.pg_namespace n ON n.oid = k.relnamespace WHERE k.relkind = 'v'",
    ),
    **{f"pg_{kind}_{which}_tables": (_STATISTICS, _TABLE)
       for kind in ("stat", "statio", "stat_xact") for which in ("user", "all")},
    "pg_stat_database": ({"datid": "5", "datname": _DATABASE, "numbackends": "1"}, ""),
    "pg_stat_activity": (
        {"datid": "5", "datname": _DATABASE, "usesysid": str(USER_NUMBER), "backend_type": "'client backend'",
         **{name: f"a.{name}" for name in ("pid", "usename", "application_name", "client_addr", "backend_start",
                                           "query_start", "state", "query")}},
        _ACTIVITY,
    ),
    "pg_timezone_names": (
        {"name": "z.name", "abbrev": "z.abbrev", "utc_offset": "z.utc_offset", "is_dst": "z.is_dst"},
        "FROM pg_timezone_names() z",
    ),
    "information_schema.information_schema_catalog_name": ({"catalog_name": _DATABASE}, ""),
    "information_schema.enabled_roles": ({"role_name": _USER}, ""),
    "information_schema.schemata": (
        {"catalog_name": _DATABASE, "schema_name": "n.nspname", "schema_owner": "pg_get_userbyid(n.nspowner)"},
        "FROM pgc.pg_namespace n",
    ),
    "information_schema.character_sets": (
        {"character_set_name": "'UTF8'", "character_repertoire": "'UCS'", "form_of_use": "'UTF8'",
         "default_collate_catalog": _DATABASE},
        "",
    ),
    "information_schema.tables": (
        {"table_catalog": _DATABASE, "table_schema": "n.nspname", "table_name": "k.relname",
         "table_type": "CASE k.relkind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END", "is_insertable_into": "'NO'",
         "is_typed": "'NO'"},
        "FROM pgc.pg_class k JOIN pgc.pg_namespace n ON n.oid = k.relnamespace WHERE k.relkind IN ('r', 'v')",
    ),
    "information_schema.views": (
        {"table_catalog": _DATABASE, "table_schema": "n.nspname", "table_name": "k.relname", "view_definition": "''",
         "check_option": "'NONE'", "is_updatable": "'NO'", "is_insertable_into": "'NO'",
         "is_trigger_updatable": "'NO'", "is_trigger_deletable": "'NO'", "is_trigger_insertable_into": "'NO'"},
        "FROM pgc.pg_class k JOIN pgc.pg_namespace n ON n.oid = k.relnamespace WHERE k.relkind = 'v'",
    ),
    **{f"information_schema.{name}": (
        {"grantor": _USER, "grantee": _USER, "table_catalog": _DATABASE, "table_schema": "'public'",
         "table_name": "k.relname", "privilege_type": "'SELECT'", "is_grantable": "'NO'", "with_hierarchy": "'NO'"},
        "FROM pgc.pg_class k WHERE k.relnamespace = 2200") for name in ("table_privileges", "role_table_grants")},
    "information_schema.columns": (
        {"table_catalog": _DATABASE, "table_schema": "n.nspname", "table_name": "k.relname",
         "column_name": "a.attname", "ordinal_position": "a.attnum",
         "is_nullable": "CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END",
         "data_type": "CASE WHEN t.typelem > 0 AND t.typlen = -1 THEN 'ARRAY' ELSE s.sql_name END",
         "numeric_precision": "CASE t.typname WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64 WHEN "
         "'float4' "
         "THEN 24 WHEN 'float8' THEN 53 WHEN 'numeric' THEN CASE WHEN a.atttypmod > 4 THEN ((a.atttypmod - 4) >> "
         "16) END END",
         "numeric_precision_radix": "CASE WHEN t.typname IN ('int2', 'int4', 'int8', 'float4', 'float8') THEN 2 WHEN "
         "t.typname = 'numeric' THEN 10 END",
         "numeric_scale": "CASE WHEN t.typname IN ('int2', 'int4', 'int8') THEN 0 WHEN t.typname = 'numeric' AND "
         "a.atttypmod > 4 THEN ((a.atttypmod - 4) & 65535) END",
         "character_octet_length": "CASE WHEN t.typname IN ('text', 'varchar') THEN 1073741824 END",
         "datetime_precision": "CASE WHEN t.typname LIKE 'time%' OR t.typname = 'interval' THEN 6 WHEN t.typname = "
         "'date' THEN 0 END",
         "udt_catalog": _DATABASE, "udt_schema": "'pg_catalog'", "udt_name": "t.typname",
         "dtd_identifier": "CAST(a.attnum AS VARCHAR)", "is_self_referencing": "'NO'", "is_identity": "'NO'",
         "identity_cycle": "'NO'", "is_generated": "'NEVER'", "is_updatable": "'NO'"},
        "FROM pgc.pg_attribute a JOIN pgc.pg_class k ON k.oid = a.attrelid JOIN pgc.pg_namespace n ON n.oid = "
        "k.relnamespace JOIN pgc.pg_type t ON t.oid = a.atttypid JOIN pgc.pg_sql_names s ON s.oid = t.oid "
        "WHERE a.attnum > 0",
    ),
    "pg_settings": (
        {"name": "e.key", "setting": "e.value", "category": "''", "short_desc": "''", "context": "'internal'",
         "vartype": "'string'", "source": "'default'", "boot_val": "e.value", "reset_val": "e.value",
         "pending_restart": "false"},
        f"FROM (SELECT unnest(map_entries(CAST(getvariable('{SETTINGS}') AS MAP(VARCHAR, VARCHAR)))) AS e)",
    ),
}  # fmt: skip
"""Relations whose rows follow from others, or from the client: the expressions of columns, and what they are of."""


def create(connection: duckdb.DuckDBPyConnection, tables: Tables, views: Tables) -> Numbers:
    """Create the relations and functions in schemas that come before DuckDB's own; returns the numbers of names."""
    statements = [
        "CREATE SCHEMA pgc", f"CREATE SCHEMA {SCHEMA_OF_INFORMATION}", "SET search_path = 'memory.main,memory.pgc'",
        f"CREATE TYPE pgc.{CHAR} AS ENUM ('{CHARACTERS}')", f"CREATE TYPE main.{CHAR} AS ENUM ('{CHARACTERS}')",
        "CREATE TABLE pgc.pg_sql_names (oid UINTEGER, name VARCHAR, sql_name VARCHAR)",
        *(_table(one) for one in relations() if not _view_of(one)),
    ]  # fmt: skip
    connection.execute("; ".join(statements))
    views_of_names = (f"CREATE VIEW pgc.qoop_{name} AS {query}" for name, query in NAMES_VIEWS.items())
    connection.execute("; ".join((*views_of_names, *macros())))
    for name, (columns, rows) in _ROWS.items():
        _insert(connection, f"{name} ({columns})", rows)
    _insert_types(connection)
    _insert_functions(connection)
    numbers = _insert_relations(connection, tables, views)
    connection.execute("; ".join(_view(one) for one in relations() if _view_of(one)))
    for name, query in TABLE_MACROS.items():
        connection.execute(f"CREATE MACRO pgc.{name}() AS TABLE {query}")
    return numbers


def _full_name(one: Relation) -> str:
    schema = "pgc" if one.schema == "pg_catalog" else SCHEMA_OF_INFORMATION
    return f"{schema}.{quoted(one.name)}"


def _view_of(one: Relation) -> tuple[Mapping[str, str], str] | None:
    return _VIEWS.get(one.name if one.schema == "pg_catalog" else f"{one.schema}.{one.name}")


def _table(one: Relation) -> str:
    columns = ", ".join(
        f"{quoted(name)} {carrier(type_)} DEFAULT {_default(name, carrier(type_))}" for name, type_ in one.columns
    )
    return f"CREATE TABLE {_full_name(one)} ({columns})"


def _default(column: str, type_: str) -> str:
    if column in _DEFAULTS:
        return _DEFAULTS[column]
    if type_.endswith("[]") or type_ in ("VARCHAR", "TIMESTAMPTZ", "INTERVAL", "BLOB", "JSON"):
        return "NULL"
    return {"BOOLEAN": "false", CHAR: "''"}.get(type_, "0")


def _view(one: Relation) -> str:
    found = _view_of(one)
    assert found is not None
    expressions, of = found
    columns = ", ".join(
        f"CAST({expressions.get(name, 'NULL')} AS {carrier(type_)}) AS {quoted(name)}" for name, type_ in one.columns
    )
    return f"CREATE VIEW {_full_name(one)} AS SELECT {columns} {of}"


def _insert_types(connection: duckdb.DuckDBPyConnection) -> None:
    numbers = {one.name: one.oid for one in functions()}
    rows: list[tuple[object, ...]] = []
    names: list[tuple[object, ...]] = []
    for one in base_types():
        reads, writes, receives, sends = (numbers.get(name, 0) for name in one.functions)
        rows.append(
            (
                one.oid,
                one.name,
                one.length,
                one.by_value,
                one.kind,
                one.category,
                one.is_preferred,
                one.delimiter,
                one.element,
                one.array,
                reads,
                writes,
                receives,
                sends,
                *one.modes,
                one.collation,
            )
        )
        names.append((one.oid, one.name, one.sql_name))
        if one.array:
            of_array = (numbers[f"array_{name}"] for name in ("in", "out", "recv", "send"))
            rows.append(
                (
                    one.array,
                    f"_{one.name}",
                    -1,
                    False,
                    "b",
                    "A",
                    False,
                    one.delimiter,
                    one.oid,
                    0,
                    *of_array,
                    one.modes[0],
                    "x",
                    one.collation,
                )
            )
            names.append((one.array, f"_{one.name}", f"{one.sql_name}[]"))  # fmt: skip
    columns = (
        "oid, typname, typlen, typbyval, typtype, typcategory, typispreferred, typdelim, typelem, typarray, typinput, "
        "typoutput, typreceive, typsend, typalign, typstorage, typcollation"
    )
    _insert(connection, f"pg_type ({columns})", rows)
    _insert(connection, "pg_sql_names (oid, name, sql_name)", names)


def _insert_functions(connection: duckdb.DuckDBPyConnection) -> None:
    types = _type_numbers()
    rows = [
        (one.oid, one.name, len(one.arguments), one.defaults, types.get(one.returns, 25), one.returns_set, one.kind,
         one.volatility, list(one.arguments), one.name)
        for one in functions()
    ]  # fmt: skip
    columns = (
        "oid, proname, pronargs, pronargdefaults, prorettype, proretset, prokind, provolatile, proargtypes, prosrc"
    )
    _insert(connection, f"pg_proc ({columns})", rows)


def _type_numbers() -> dict[str, int]:
    """The numbers of types, by both their names."""
    found: dict[str, int] = {}
    for one in base_types():
        for name in (one.name, one.sql_name):
            found[name] = one.oid
            if one.array:
                found[f"{name}[]"] = one.array
        if one.array:
            found[f"_{one.name}"] = one.array
    return found


def _insert_relations(connection: duckdb.DuckDBPyConnection, tables: Tables, views: Tables) -> Numbers:
    types = _type_numbers()
    sizes = {one.oid: one.length for one in base_types()}
    classes: list[tuple[object, ...]] = []
    attributes: list[tuple[object, ...]] = []
    numbers: dict[str, int] = {}
    for oid, schema, name, kind, columns in _numbered(tables, views, types, sizes):
        classes.append((oid, name, _SCHEMAS[schema], kind, len(columns), 2 if kind == "r" else 0))
        attributes += [(oid, *column) for column in columns]
        numbers[name.lower() if schema != "information_schema" else f"{schema}.{name}"] = oid
    _insert(connection, "pg_class (oid, relname, relnamespace, relkind, relnatts, relam)", classes)
    _insert(connection, "pg_attribute (attrelid, attname, atttypid, attlen, attnum, atttypmod)", attributes)
    return Numbers(
        {
            "regclass": numbers, "regtype": types, "regproc": {one.name: one.oid for one in functions()},
            "regnamespace": {**_SCHEMAS, "main": _SCHEMAS["public"]}, "regrole": {},
        }
    )  # fmt: skip


_Attribute = tuple[str, int, int, int, int]
"""A column: its name, the number and the length of its type, its own number, and the modifier of the type."""


def _numbered(
    tables: Tables, views: Tables, types: Mapping[str, int], sizes: Mapping[int, int]
) -> Iterator[tuple[int, str, str, str, list[_Attribute]]]:
    """All relations: number, schema, name, kind and columns. The server's come last, to win where names are equal."""
    for place, one in enumerate(relations(), _UNNUMBERED):
        numbers = [types.get(type_, 25) for _, type_ in one.columns]
        columns = [
            (name, oid, sizes.get(oid, -1), number, -1)
            for number, ((name, _), oid) in enumerate(zip(one.columns, numbers, strict=True), 1)
        ]
        yield one.oid or place, one.schema, one.name, one.kind, columns
    of_server = [(name, "r", columns) for name, columns in tables.items()]
    of_server += [(name, "v", columns) for name, columns in views.items()]
    for oid, (name, kind, typed) in enumerate(of_server, _FIRST):
        kinds = [(column, pg_type(type_)) for column, type_ in typed]
        yield (
            oid,
            "public",
            name,
            kind,
            [
                (column, type_.oid, type_.size, number, type_.modifier)
                for number, (column, type_) in enumerate(kinds, 1)
            ],
        )


def _insert(connection: duckdb.DuckDBPyConnection, place: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Add rows in one statement: one for each takes DuckDB a hundred times as long."""
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        values = ", ".join(f"unnest(${number})" for number in range(1, len(columns) + 1))
        connection.execute(f"INSERT INTO pgc.{place} SELECT {values}", columns)

"""The tables of pg_catalog as the clients of PostgreSQL ask for them: of the server's tables, views and columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import duckdb

from qoop.interfaces.server.postgres.session_statements import SETTINGS
from qoop.interfaces.server.postgres.types import ARRAY_NAMES, ELEMENTS, NAMES, pg_type

_FIRST = 16_384
"""The number of the first table; 11 is pg_catalog's, 2200 that of the schema of all tables, 10 their owner's."""

USER = "qoop_user"
"""The variable of a connection that has the name of its user."""

_EMPTY = {
    "pg_am": "oid, amname",
    "pg_attrdef": "oid, adrelid, adnum, adbin",
    "pg_auth_members": "roleid, member, grantor, admin_option",
    "pg_collation": "oid, collname, collnamespace, collprovider, collisdeterministic, collcollate, collctype",
    "pg_constraint": (
        "oid, conname, connamespace, contype, conrelid, contypid, confrelid, conindid, conparentid, conkey, confkey, "
        "condeferrable, condeferred, convalidated, confupdtype, confdeltype, confmatchtype"
    ),
    "pg_db_role_setting": "setdatabase, setrole, setconfig",
    "pg_depend": "classid, objid, objsubid, refclassid, refobjid, refobjsubid, deptype",
    "pg_description": "objoid, classoid, objsubid, description",
    "pg_enum": "oid, enumtypid, enumsortorder, enumlabel",
    "pg_event_trigger": "oid, evtname",
    "pg_extension": "oid, extname, extversion, extnamespace",
    "pg_foreign_server": "oid, srvname",
    "pg_foreign_table": "ftrelid, ftserver, ftoptions",
    "pg_index": (
        "indexrelid, indrelid, indnatts, indisunique, indisprimary, indisclustered, indisvalid, "
        "indisreplident, indkey, indclass, indoption, indpred, indexprs, indnkeyatts, indcollation, "
        "indimmediate"
    ),
    "pg_inherits": "inhrelid, inhparent, inhseqno, inhdetachpending",
    "pg_language": "oid, lanname, lanowner, lanpltrusted, lanplcallfoid, lanvalidator, laninline, lanacl",
    "pg_matviews": "schemaname, matviewname",
    "pg_opclass": "oid, opcname, opcmethod, opcdefault",
    "pg_partitioned_table": "partrelid, partdefid",
    "pg_policy": "oid, polname, polrelid, polcmd, polpermissive, polroles, polqual, polwithcheck",
    "pg_proc": (
        "oid, proname, pronamespace, proowner, prolang, prokind, prorettype, pronargs, proargtypes, provolatile, "
        "proparallel, prosecdef, proacl, prosrc, proretset, proisstrict, proleakproof"
    ),
    "pg_publication": "oid, pubname, puballtables",
    "pg_publication_namespace": "oid, pnpubid, pnnspid",
    "pg_publication_rel": "oid, prpubid, prrelid, prqual, prattrs",
    "pg_range": "rngtypid, rngsubtype",
    "pg_rewrite": "oid, rulename, ev_class, ev_type, ev_enabled, is_instead",
    "pg_sequence": "seqrelid, seqtypid, seqstart, seqincrement, seqmax, seqmin, seqcache, seqiscycle, seqcycle",
    "pg_shdescription": "objoid, classoid, description",
    "pg_stat_user_tables": "relid, schemaname, relname, seq_scan, idx_scan, n_live_tup, n_dead_tup",
    "pg_statistic_ext": "oid, stxrelid, stxnamespace, stxname, stxkind, stxstattarget, stxkeys",
    "pg_tablespace": "oid, spcname, spcowner, spcacl, spcoptions",
    "pg_trigger": "oid, tgrelid, tgname, tgisinternal, tgenabled, tgparentid, tgconstraint",
}  # fmt: skip
"""Tables of what there is none of, with the columns that clients name."""

_LISTS = ("conkey", "confkey", "indkey", "indclass", "indoption", "indcollation", "polroles", "stxkeys")
"""Columns of these tables that hold lists of numbers."""

_NOTHING = "NULL::VARCHAR"
_MACROS: tuple[tuple[str, str, str], ...] = (
    ("version", "", "'PostgreSQL 14.0, as far as qoop speaks it'"), ("pg_backend_pid", "", "0"),
    ("pg_is_in_recovery", "", "false"), ("current_database", "", "'qoop'"), ("current_schemas", "a", "['main']"),
    ("pg_table_is_visible", "a", "true"), ("pg_type_is_visible", "a", "true"), ("pg_function_is_visible", "a", "true"),
    ("pg_get_userbyid", "a", "'qoop'"), ("pg_get_expr", "a,b a,b,c", _NOTHING),
    ("pg_get_indexdef", "a a,b,c", _NOTHING), ("pg_get_constraintdef", "a a,b", _NOTHING),
    ("pg_get_viewdef", "a a,b", "''"), ("pg_get_function_result", "a", _NOTHING),
    ("pg_get_function_sqlbody", "a", _NOTHING), ("pg_tablespace_location", "a", _NOTHING),
    ("pg_get_function_arguments", "a", _NOTHING), ("pg_get_function_identity_arguments", "a", _NOTHING),
    ("pg_get_statisticsobjdef_columns", "a", _NOTHING), ("pg_get_partkeydef", "a", _NOTHING),
    ("pg_get_triggerdef", "a a,b", _NOTHING), ("pg_get_ruledef", "a a,b", _NOTHING),
    ("obj_description", "a a,b", _NOTHING), ("col_description", "a,b", _NOTHING),
    ("shobj_description", "a,b", _NOTHING), ("pg_relation_is_publishable", "a", "false"),
    ("pg_table_size", "a", "0::BIGINT"), ("pg_relation_size", "a a,b", "0::BIGINT"),
    ("pg_total_relation_size", "a", "0::BIGINT"), ("pg_database_size", "a", "0::BIGINT"),
    ("pg_tablespace_size", "a", "0::BIGINT"), ("pg_size_pretty", "a", "a || ' bytes'"),
    ("pg_encoding_to_char", "a", "'UTF8'"), ("to_regtype", "a", "NULL::BIGINT"), ("quote_ident", "a", "a"),
    ("to_regclass", "a", "(SELECT min(oid) FROM pgc.pg_class WHERE relname = a)"),
    ("array_upper", "a,d", "len(a)"), ("_pg_expandarray", "a", "{'x': a[1], 'n': 1}"),
    ("array_to_string", "a,b a,b,c", "''"), ("pg_char_to_encoding", "a", "6"),
    ("pg_get_serial_sequence", "a,b", _NOTHING), ("pg_collation_is_visible", "a", "true"),
    ("has_table_privilege", "a,b a,b,c", "true"), ("has_schema_privilege", "a,b a,b,c", "true"),
    ("has_database_privilege", "a,b a,b,c", "true"), ("has_any_column_privilege", "a,b a,b,c", "true"),
    ("has_column_privilege", "a,b,c a,b,c,d", "true"), ("pg_stat_get_numscans", "a", "0::BIGINT"),
    ("format_type", "a,m", "(SELECT min(t.sql_name) FROM pgc.pg_type t WHERE t.oid = a) || CASE WHEN a = 1700 AND "
     "m > 4 THEN '(' || ((m - 4) >> 16) || ',' || ((m - 4) & 65535) || ')' ELSE '' END"),
)  # fmt: skip
"""Functions of PostgreSQL as macros: the name, the parameters of each form, and the expression."""

MACROS = frozenset(("current_setting", "pg_get_keywords", *(name for name, _, _ in _MACROS)))
"""The names of all functions that are macros here."""

_SQL_NAMES = {
    16: "boolean", 20: "bigint", 21: "smallint", 23: "integer", 700: "real", 701: "double precision",
    1042: "character", 1043: "character varying", 1083: "time without time zone",
    1114: "timestamp without time zone", 1184: "timestamp with time zone",
}  # fmt: skip

Tables = Mapping[str, Sequence[tuple[str, str]]]
"""The columns of tables by name: names, and types of DuckDB."""


def create(connection: duckdb.DuckDBPyConnection, tables: Tables, views: Tables) -> None:
    """Create the tables and functions in the schema ``pgc``, which comes before DuckDB's own."""
    connection.execute("CREATE SCHEMA pgc")
    _namespaces(connection)
    _types(connection)
    _classes(connection, tables, views)
    for name, columns in _EMPTY.items():
        empty_columns = ", ".join(f"NULL::{_empty_type(column)} AS {column}" for column in columns.split(", "))
        connection.execute(f"CREATE TABLE pgc.{name} AS SELECT {empty_columns} WHERE false")
    settings = ", ".join(f"'{name}': '{value}'" for name, value in SETTINGS.items())
    for name, forms, expression in (*_MACROS, ("current_setting", "a a,b", f"MAP {{{settings}}}[lower(a)]")):
        bodies = ", ".join(f"({form}) AS ({expression})" for form in forms.split(" "))
        connection.execute(f"CREATE MACRO pgc.{name}{bodies}")
    connection.execute(_SETTINGS)
    _insert(connection, "pg_settings (name, setting)", [*SETTINGS.items()])
    connection.execute(_KEYWORDS)
    connection.execute("SET search_path = 'memory.main,memory.pgc'")


def _empty_type(column: str) -> str:
    if column == "stxkind":
        return "VARCHAR[]"
    if column in _LISTS:
        return "BIGINT[]"
    if column.endswith(
        ("name", "type", "kind", "label", "bin", "description", "version", "pred", "exprs", "qual", "src")
    ):
        return "VARCHAR"
    if "is" in column and not column.startswith("dis"):
        return "BOOLEAN"
    return "BIGINT"


def _namespaces(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        "CREATE TABLE pgc.pg_namespace AS SELECT * FROM (VALUES (11, 'pg_catalog', 10, NULL::VARCHAR), "
        "(2200, 'main', 10, NULL), (13000, 'information_schema', 10, NULL)) AS t(oid, nspname, nspowner, nspacl)"
    )
    connection.execute(
        "CREATE TABLE pgc.pg_database AS SELECT 5 AS oid, 'qoop' AS datname, 10 AS datdba, 6 AS encoding, "
        "'C' AS datcollate, 'C' AS datctype, false AS datistemplate, true AS datallowconn, -1 AS datconnlimit, "
        "NULL::VARCHAR AS datacl, 0 AS dattablespace, 'c' AS datlocprovider, NULL::VARCHAR AS daticulocale"
    )
    user_name = f"CAST(getvariable('{USER}') AS VARCHAR)"
    for name in ("pg_roles", "pg_user", "pg_authid"):
        connection.execute(
            f"CREATE VIEW pgc.{name} AS SELECT 10 AS oid, 10 AS usesysid, {user_name} AS rolname, "
            f"{user_name} AS usename, "
            "false AS rolsuper, true AS rolinherit, false AS rolcreaterole, false AS rolcreatedb, true AS rolcanlogin, "
            "false AS rolreplication, -1 AS rolconnlimit, NULL::TIMESTAMP AS rolvaliduntil, false AS usesuper, "
            "false AS rolbypassrls"
        )


def _types(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        "CREATE TABLE pgc.pg_type (oid BIGINT, typname VARCHAR, typlen INTEGER, typelem BIGINT, typarray BIGINT, "
        "sql_name VARCHAR, typnamespace BIGINT DEFAULT 11, typowner BIGINT DEFAULT 10, typbyval BOOLEAN DEFAULT false, "
        "typtype VARCHAR DEFAULT 'b', typcategory VARCHAR DEFAULT 'U', typisdefined BOOLEAN DEFAULT true, "
        "typdelim VARCHAR DEFAULT ',', typrelid BIGINT DEFAULT 0, typbasetype BIGINT DEFAULT 0, "
        "typtypmod INTEGER DEFAULT -1, typnotnull BOOLEAN DEFAULT false, typcollation BIGINT DEFAULT 0, "
        "typndims INTEGER DEFAULT 0, typdefault VARCHAR DEFAULT NULL, typinput VARCHAR DEFAULT NULL)"
    )
    arrays = {one: array for array, one in ELEMENTS.items()}
    sizes = {pg_type(type_name).oid: pg_type(type_name).size for _, type_name in NAMES.values()}
    rows: list[tuple[object, ...]] = [
        (oid, name, sizes.get(oid, -1), 0, arrays.get(oid, 0), _SQL_NAMES.get(oid, name))
        for oid, (name, _) in NAMES.items()
    ]
    for oid, name in ARRAY_NAMES.items():
        of = ELEMENTS[oid]
        rows.append((oid, name, -1, of, 0, _SQL_NAMES.get(of, NAMES[of][0]) + "[]"))
    rows.append((19, "name", 64, 0, 0, "name"))  # drivers ask it for the length that names may have
    _insert(connection, "pg_type (oid, typname, typlen, typelem, typarray, sql_name)", rows)
    connection.execute("UPDATE pgc.pg_type SET typinput = 'pg_catalog.array_in' WHERE typelem > 0")


def _classes(connection: duckdb.DuckDBPyConnection, tables: Tables, views: Tables) -> None:
    connection.execute(_CLASS)
    connection.execute(_ATTRIBUTE)
    everything = [(name, "r", columns) for name, columns in tables.items()]
    everything += [(name, "v", columns) for name, columns in views.items()]
    numbered = list(enumerate(everything, _FIRST))
    classes = [(oid, name, kind, len(columns)) for oid, (name, kind, columns) in numbered]
    _insert(connection, "pg_class (oid, relname, relkind, relnatts)", classes)
    attributes = [row for oid, (_, _, columns) in numbered for row in _attributes(oid, columns)]
    _insert(connection, "pg_attribute (attrelid, attname, atttypid, attlen, attnum, atttypmod)", attributes)
    for kind, name in (("r", "table"), ("v", "view")):
        connection.execute(
            f"CREATE VIEW pgc.pg_{name}s AS SELECT 'main' AS schemaname, relname AS {name}name, 'qoop' AS {name}owner, "
            f"'' AS definition FROM pgc.pg_class WHERE relkind = '{kind}'"
        )


def _attributes(oid: int, columns: Sequence[tuple[str, str]]) -> Iterator[tuple[object, ...]]:
    for number, (name, type_name) in enumerate(columns, 1):
        kind = pg_type(type_name)
        yield oid, name, kind.oid, kind.size, number, kind.modifier


def _insert(connection: duckdb.DuckDBPyConnection, place: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Add rows in one statement: one for each takes DuckDB a hundred times as long."""
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        values = ", ".join(f"unnest(${number})" for number in range(1, len(columns) + 1))
        connection.execute(f"INSERT INTO pgc.{place} SELECT {values}", columns)


_SETTINGS = """
CREATE TABLE pgc.pg_settings (
    name VARCHAR, setting VARCHAR, unit VARCHAR, category VARCHAR, short_desc VARCHAR, extra_desc VARCHAR,
    context VARCHAR DEFAULT 'internal', vartype VARCHAR DEFAULT 'string', source VARCHAR DEFAULT 'default',
    min_val VARCHAR, max_val VARCHAR, enumvals VARCHAR[], boot_val VARCHAR, reset_val VARCHAR, sourcefile VARCHAR,
    sourceline INTEGER, pending_restart BOOLEAN DEFAULT false)"""
_KEYWORDS = """
CREATE MACRO pgc.pg_get_keywords() AS TABLE
SELECT keyword_name AS word, keyword_category[1] AS catcode, keyword_category AS catdesc FROM duckdb_keywords()"""
_CLASS = """
CREATE TABLE pgc.pg_class (
    oid BIGINT, relname VARCHAR, relkind VARCHAR, relnatts INTEGER, relnamespace BIGINT DEFAULT 2200,
    relowner BIGINT DEFAULT 10, reltype BIGINT DEFAULT 0, reloftype BIGINT DEFAULT 0, relam BIGINT DEFAULT 0,
    reltablespace BIGINT DEFAULT 0, relpages INTEGER DEFAULT 0, reltuples FLOAT DEFAULT -1,
    reltoastrelid BIGINT DEFAULT 0, relhasindex BOOLEAN DEFAULT false, relisshared BOOLEAN DEFAULT false,
    relpersistence VARCHAR DEFAULT 'p', relchecks INTEGER DEFAULT 0, relhasrules BOOLEAN DEFAULT false,
    relhastriggers BOOLEAN DEFAULT false, relhassubclass BOOLEAN DEFAULT false, relrowsecurity BOOLEAN DEFAULT false,
    relforcerowsecurity BOOLEAN DEFAULT false, relispopulated BOOLEAN DEFAULT true, relreplident VARCHAR DEFAULT 'n',
    relispartition BOOLEAN DEFAULT false, relacl VARCHAR[] DEFAULT NULL, reloptions VARCHAR[] DEFAULT NULL,
    relpartbound VARCHAR DEFAULT NULL, relfilenode BIGINT DEFAULT 0)"""
_ATTRIBUTE = """
CREATE TABLE pgc.pg_attribute (
    attrelid BIGINT, attname VARCHAR, atttypid BIGINT, attlen INTEGER, attnum INTEGER, atttypmod INTEGER,
    attnotnull BOOLEAN DEFAULT false, atthasdef BOOLEAN DEFAULT false, atthasmissing BOOLEAN DEFAULT false,
    attidentity VARCHAR DEFAULT '', attgenerated VARCHAR DEFAULT '', attisdropped BOOLEAN DEFAULT false,
    attislocal BOOLEAN DEFAULT true, attcollation BIGINT DEFAULT 0, attstorage VARCHAR DEFAULT 'p',
    attcompression VARCHAR DEFAULT '', attstattarget INTEGER DEFAULT -1, attndims INTEGER DEFAULT 0,
    attinhcount INTEGER DEFAULT 0, attacl VARCHAR DEFAULT NULL, attoptions VARCHAR DEFAULT NULL,
    attfdwoptions VARCHAR DEFAULT NULL)"""

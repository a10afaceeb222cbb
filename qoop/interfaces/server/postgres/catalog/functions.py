"""The functions of PostgreSQL's catalog, as macros of the DuckDB that answers.

Those below compute. The others of PostgreSQL's that only read the catalog are NULL, or have no rows: there are no
indexes, triggers, publications and the like to list. What would change the server is no macro, and is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from qoop.catalog.lexer import quoted
from qoop.interfaces.server.postgres.catalog.carriers import carrier
from qoop.interfaces.server.postgres.catalog.data import Function, functions

USER, DATABASE, PROCESS, SETTINGS = "qoop_user", "qoop_database", "qoop_process", "qoop_settings"
"""Variables of a connection: what the macros know of the client whose question it is."""
ACTIVITY = "qoop_activity"
"""The variable with the rows of pg_stat_activity that the client may see."""
ACTIVITY_TYPE = (
    "STRUCT(pid INTEGER, usename VARCHAR, application_name VARCHAR, client_addr VARCHAR, backend_start TIMESTAMPTZ, "
    "query_start TIMESTAMPTZ, state VARCHAR, query VARCHAR)[]"
)
USER_NUMBER = 16_000
"""The number of the client's user; the owner of all is 10."""
END, SET = "qoop_end_backend", "qoop_set_config"
"""Functions that act on the client's own connections and settings; the server registers them."""

_PROCESS = f"CAST(getvariable('{PROCESS}') AS INTEGER)"
_READS = "'SELECT|USAGE|CONNECT|EXECUTE|MEMBER|SET'"
_ALLOWED = f"regexp_matches(upper({{}}), {_READS})"
_PATH = (
    f"[qoop_x FOR qoop_x IN string_split(replace(replace(CAST(getvariable('{SETTINGS}') AS MAP(VARCHAR, VARCHAR))"
    "['search_path'], ' ', ''), '\"', ''), ',') IF qoop_x IN ('public', 'main', 'pg_catalog', 'information_schema')]"
)
"""The schemas of the search path that there are."""
_STARTED = datetime.now(UTC).isoformat()
_PLAIN_NAME = "regexp_full_match(a, '[a-z_][a-z0-9_$]*')"

NAMES_VIEWS = {
    "classes": "SELECT oid AS qoop_oid, relname AS qoop_name, relnamespace AS qoop_schema FROM pgc.pg_class",
    "types": "SELECT oid AS qoop_oid, name AS qoop_name, sql_name AS qoop_sql_name FROM pgc.pg_sql_names",
    "functions": "SELECT oid AS qoop_oid, proname AS qoop_name FROM pgc.pg_proc",
    "schemas": "SELECT oid AS qoop_oid, nspname AS qoop_name FROM pgc.pg_namespace",
}
"""Names by numbers. Their columns have names that no question has: the argument of a macro is read within its query."""


def _number(view: str, condition: str) -> str:
    """The number of a name, or that which the argument is."""
    found = f"(SELECT min(qoop_oid) FROM pgc.qoop_{view} WHERE {condition})"
    return f"coalesce(TRY_CAST(CAST(a AS VARCHAR) AS BIGINT), {found})"


def _found(view: str, type_: str, condition: str) -> str:
    """The number of a name, NULL where there is none."""
    return f"(SELECT CAST(min(qoop_oid) AS {carrier(type_)}) FROM pgc.qoop_{view} WHERE {condition})"


def _text_of(view: str, name: str) -> str:
    """The name of a number; the number itself where there is none, and a sign for 0."""
    found = f"(SELECT min({name}) FROM pgc.qoop_{view} WHERE qoop_oid = a)"
    return f"CASE WHEN a = 0 THEN '-' ELSE coalesce({found}, CAST(a AS VARCHAR)) END"


MACROS: Sequence[tuple[str, str, str]] = (
    ("version", "", "'PostgreSQL 16.0, as far as qoop speaks it'"),
    ("pg_current_user", "", f"CAST(getvariable('{USER}') AS VARCHAR)"),
    ("pg_backend_pid", "", _PROCESS),
    ("current_database", "", f"CAST(getvariable('{DATABASE}') AS VARCHAR)"),
    ("current_schema", "", f"({_PATH})[1]"),
    ("current_schemas", "a", f"list_concat(CASE WHEN a AND NOT list_contains({_PATH}, 'pg_catalog') "
     f"THEN ['pg_catalog'] END, {_PATH})"),
    ("current_setting", "a", f"CAST(getvariable('{SETTINGS}') AS MAP(VARCHAR, VARCHAR))[lower(a)]"),
    ("current_setting", "a,b", f"CAST(getvariable('{SETTINGS}') AS MAP(VARCHAR, VARCHAR))[lower(a)]"),
    ("set_config", "a,b,c", f"{SET}({_PROCESS}, CAST(a AS VARCHAR), CAST(b AS VARCHAR), CAST(c AS BOOLEAN))"),
    ("pg_cancel_backend", "a", f"{END}({_PROCESS}, CAST(a AS BIGINT), false)"),
    ("pg_terminate_backend", "a", f"{END}({_PROCESS}, CAST(a AS BIGINT), true)"),
    ("pg_terminate_backend", "a,b", f"{END}({_PROCESS}, CAST(a AS BIGINT), true)"),
    ("pg_table_is_visible", "a", "a NOT BETWEEN 12000 AND 16383"),  # information_schema is not on the path
    ("pg_postmaster_start_time", "", f"CAST('{_STARTED}' AS TIMESTAMPTZ)"),
    ("pg_conf_load_time", "", f"CAST('{_STARTED}' AS TIMESTAMPTZ)"),
    ("pg_is_in_recovery", "", "false"), ("pg_is_wal_replay_paused", "", "false"), ("pg_trigger_depth", "", "0"),
    ("pg_client_encoding", "", "'UTF8'"), ("getdatabaseencoding", "", "'UTF8'"), ("pg_my_temp_schema", "", "0"),
    ("pg_is_other_temp_schema", "a", "false"), ("pg_relation_is_publishable", "a", "false"),
    ("pg_relation_is_updatable", "a,b", "0"), ("pg_column_is_updatable", "a,b,c", "false"),
    ("pg_notification_queue_usage", "", "0.0::DOUBLE"), ("pg_blocking_pids", "a", "CAST([] AS INTEGER[])"),
    ("pg_encoding_to_char", "a", "CASE a WHEN 6 THEN 'UTF8' WHEN 0 THEN 'SQL_ASCII' ELSE '' END"),
    ("pg_char_to_encoding", "a", "CASE WHEN upper(a) IN ('UTF8', 'UTF-8') THEN 6 ELSE -1 END"),
    ("pg_get_userbyid", "a", f"CASE a WHEN 10 THEN 'qoop' WHEN {USER_NUMBER} THEN "
     f"CAST(getvariable('{USER}') AS VARCHAR) ELSE 'unknown (OID=' || a || ')' END"),
    ("pg_get_viewdef", "a", "''"), ("pg_get_viewdef", "a,b", "''"),
    ("pg_table_size", "a", "0::BIGINT"), ("pg_relation_size", "a", "0::BIGINT"),
    ("pg_relation_size", "a,b", "0::BIGINT"),
    ("pg_total_relation_size", "a", "0::BIGINT"), ("pg_indexes_size", "a", "0::BIGINT"),
    ("pg_database_size", "a", "0::BIGINT"), ("pg_tablespace_size", "a", "0::BIGINT"),
    ("pg_size_pretty", "a", "CASE WHEN abs(a) < 10240 THEN CAST(a AS BIGINT) || ' bytes' WHEN abs(a) < 10485760 THEN "
     "CAST(round(a / 1024) AS BIGINT) || ' kB' WHEN abs(a) < 10737418240 THEN "
     "CAST(round(a / 1048576) AS BIGINT) || ' MB' ELSE "
     "CAST(round(a / 1073741824) AS BIGINT) || ' GB' END"),
    ("quote_ident", "a", f"CASE WHEN {_PLAIN_NAME} THEN a ELSE '\"' || replace(a, '\"', '\"\"') || '\"' END"),
    ("quote_literal", "a", "'''' || replace(CAST(a AS VARCHAR), '''', '''''') || ''''"),
    ("quote_nullable", "a", "coalesce('''' || replace(CAST(a AS VARCHAR), '''', '''''') || '''', 'NULL')"),
    ("parse_ident", "a", "[CASE WHEN x[1] = '\"' THEN replace(x[2:-2], '\"\"', '\"') ELSE lower(x) END "
     "FOR x IN regexp_extract_all(a, '\"(?:[^\"]|\"\")*\"|[^.\"\\s]+')]"),
    ("array_lower", "a,d", "CASE WHEN len(a) > 0 THEN 1 END"),
    ("array_upper", "a,d", "CASE WHEN len(a) > 0 THEN CAST(len(a) AS INTEGER) END"),
    ("cardinality", "a", "CAST(len(a) AS INTEGER)"), ("array_ndims", "a", "CASE WHEN len(a) > 0 THEN 1 END"),
    ("array_to_string", "a,b", "list_aggregate(CAST(a AS VARCHAR[]), 'string_agg', b)"),
    ("array_to_string", "a,b,c", "list_aggregate([coalesce(x, c) FOR x IN CAST(a AS VARCHAR[])], 'string_agg', b)"),
    ("_pg_expandarray", "a", "{'x': a[1], 'n': 1}"),
    ("clock_timestamp", "", "now()"), ("statement_timestamp", "", "now()"), ("pg_xid_age", "a", "1"),
    ("pg_advisory_unlock_all", "", "''"), ("pg_advisory_unlock", "a", "false"), ("pg_advisory_unlock", "a,b", "false"),
    ("pg_advisory_unlock_shared", "a", "false"),
    ("txid_current", "", "1::BIGINT"), ("pg_current_xact_id", "", "1::BIGINT"),
    ("txid_current_snapshot", "", "'1:1:'"), ("pg_current_snapshot", "", "'1:1:'"),
    *((f"{family}_{bound}", "a", "CAST(split_part(CAST(a AS VARCHAR), ':', 1) AS BIGINT)")
      for family in ("txid_snapshot", "pg_snapshot") for bound in ("xmin", "xmax")),
    ("format_type", "a,m", "(SELECT CASE WHEN qoop_oid = 1700 AND m > 4 THEN 'numeric(' || ((m - 4) >> 16) || ',' || "
     "((m - 4) & 65535) || ')' ELSE qoop_sql_name END FROM pgc.qoop_types WHERE qoop_oid = a)"),
    *((f"has_{what}_privilege", form, _ALLOWED.format(form[-1]))
      for what in ("table", "schema", "database", "any_column", "function", "type", "language", "sequence",
                   "tablespace", "server", "foreign_data_wrapper", "parameter") for form in ("a,b", "a,b,c")),
    *(("has_column_privilege", form, _ALLOWED.format(form[-1])) for form in ("a,b,c", "a,b,c,d")),
    ("pg_has_role", "a,b", f"CAST(a AS VARCHAR) IN (CAST(getvariable('{USER}') AS VARCHAR), '{USER_NUMBER}')"),
    ("pg_has_role", "a,b,c", "CAST(a AS VARCHAR) = CAST(b AS VARCHAR)"),
    ("pg_regclass_number", "a", _number("classes", "qoop_name = split_part(CAST(a AS VARCHAR), '.', -1)")),
    ("to_regclass", "a", _found("classes", "regclass", "qoop_name = trim(split_part(a, '.', -1), '\"')")),
    ("pg_regclass_text", "a", _text_of(
        "classes", "CASE qoop_schema WHEN 13000 THEN 'information_schema.' ELSE '' END || quote_ident(qoop_name)")),
    ("pg_regtype_number", "a", _number("types", "lower(CAST(a AS VARCHAR)) IN (qoop_sql_name, qoop_name)")),
    ("to_regtype", "a", _found("types", "regtype", "lower(a) IN (qoop_sql_name, qoop_name)")),
    ("pg_regtype_text", "a", _text_of("types", "qoop_sql_name")),
    ("pg_regproc_number", "a", _number("functions", "qoop_name = split_part(CAST(a AS VARCHAR), '.', -1)")),
    ("to_regproc", "a", _found("functions", "regproc", "qoop_name = a")),
    ("pg_regproc_text", "a", _text_of("functions", "qoop_name")),
    ("pg_regnamespace_number", "a", _number("schemas", "qoop_name = CAST(a AS VARCHAR)")),
    ("to_regnamespace", "a", _found("schemas", "regnamespace", "qoop_name = a")),
    ("pg_regnamespace_text", "a", _text_of("schemas", "qoop_name")),
    ("pg_regrole_number", "a", "coalesce(TRY_CAST(CAST(a AS VARCHAR) AS BIGINT), CASE CAST(a AS VARCHAR) "
     f"WHEN 'qoop' THEN 10 ELSE {USER_NUMBER} END)"),
    ("pg_regrole_text", "a", f"CASE a WHEN 10 THEN 'qoop' WHEN {USER_NUMBER} THEN CAST(getvariable('{USER}') AS "
     f"VARCHAR) ELSE CAST(a AS VARCHAR) END"),
    *((f"pg_{kind}_{what}", "a", f"CAST(a AS {type_})")
      for kind in ("regoper", "regcollation", "regconfig", "regdictionary")
      for what, type_ in (("number", "BIGINT"), ("text", "VARCHAR"))),
)  # fmt: skip
"""Functions as macros: the name, the parameters of one form, and the expression. A name may have many forms."""

_VISIBLE = "_is_visible"

TABLE_MACROS = {
    "pg_get_keywords": "SELECT keyword_name AS word, keyword_category[1] AS catcode, keyword_category AS catdesc FROM "
    "duckdb_keywords()",
    "pg_show_all_settings": "SELECT * FROM pgc.pg_settings",
    "pg_stat_get_activity": "SELECT * FROM pgc.pg_stat_activity",
}
"""Functions of rows that there are some of."""

NAMES = frozenset((*(name for name, _, _ in MACROS), *(one.name for one in functions()), *TABLE_MACROS))
"""The names of all functions that are macros here."""


def macros() -> Iterator[str]:
    """The statements that create all macros."""
    forms: Mapping[str, dict[str, str]] = defaultdict(dict)
    for name, parameters, expression in MACROS:
        forms[name][parameters] = expression
    for one in functions():
        if not one.returns_set and one.name not in {name for name, _, _ in MACROS} and is_callable(one):
            for count in range(len(one.arguments) - one.defaults, len(one.arguments) + 1):
                forms[one.name].setdefault(_parameters(count), _nothing(one))
    for name, bodies in forms.items():
        definitions = ", ".join(f"({parameters}) AS ({expression})" for parameters, expression in bodies.items())
        yield f"CREATE MACRO pgc.{quoted(name)}{definitions}"
    yield from _table_macros()


def _table_macros() -> Iterator[str]:
    done = set()
    for one in functions():
        if one.returns_set and one.name not in done and one.name not in TABLE_MACROS:
            done.add(one.name)
            columns = ", ".join(f"CAST(NULL AS {carrier(type_)}) AS {quoted(name)}" for name, type_ in one.columns)
            counts = sorted({len(other.arguments) for other in functions() if other.name == one.name})
            forms = ", ".join(f"({_parameters(count)}) AS TABLE SELECT {columns} WHERE false" for count in counts)
            yield f"CREATE MACRO pgc.{quoted(one.name)}{forms}"


def _parameters(count: int) -> str:
    return ",".join("abcdefghijklmnop"[:count])


def is_callable(one: Function) -> bool:
    """False for functions that read and write the values of types, which no text calls."""
    return one.name.startswith(("pg_", "has_", "to_reg", "txid_", "inet_")) or one.name.endswith("_description")


def _nothing(one: Function) -> str:
    return "true" if one.name.endswith(_VISIBLE) else f"CAST(NULL AS {carrier(one.returns)})"

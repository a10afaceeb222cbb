-- Metabase: connects by JDBC, then syncs schemas, tables, columns and keys, and reads samples.
SET extra_float_digits = 3;
SET application_name = 'Metabase v0.53';
SHOW TRANSACTION ISOLATION LEVEL;
SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY;
SELECT 1;
SET SESSION TIMEZONE TO 'UTC';
SELECT current_setting('TIMEZONE') AS zone;
SELECT version() AS "version", current_database() AS db;
--= public
SELECT nspname FROM pg_namespace WHERE nspname !~ '^information_schema|catalog_history|pg_' ORDER BY nspname;
--= public|cheap|v
--= public|customers|r
--= public|sales|r
SELECT n.nspname AS "schema", c.relname AS "name", c.relkind AS kind FROM pg_catalog.pg_class AS c
INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid
LEFT JOIN pg_catalog.pg_description AS d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND c.relkind IN ('r', 'p', 'v', 'f', 'm')
ORDER BY 1, 2;
--= public|cheap|id|int4|1|f
--= public|cheap|price|numeric|2|f
--= public|customers|id|int8|1|f
SELECT c.table_schema AS "table-schema", c.table_name AS "table-name", c.column_name AS name, c.udt_name AS "database-type",
c.ordinal_position AS "database-position", pk.column_name IS NOT NULL AS "pk?"
FROM information_schema.columns AS c
LEFT JOIN (SELECT tc.table_schema, tc.table_name, kc.column_name FROM information_schema.table_constraints AS tc
  INNER JOIN information_schema.key_column_usage AS kc ON tc.constraint_name = kc.constraint_name
  AND tc.table_schema = kc.table_schema AND tc.table_name = kc.table_name WHERE tc.constraint_type = 'PRIMARY KEY') AS pk
ON c.table_schema = pk.table_schema AND c.table_name = pk.table_name AND c.column_name = pk.column_name
WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND c.table_schema IN ('public')
ORDER BY c.table_schema, c.table_name, c.ordinal_position LIMIT 3;
SELECT pa.attname AS name, pg_catalog.format_type(pa.atttypid, pa.atttypmod) AS "database-type",
pg_catalog.col_description(pa.attrelid, pa.attnum) AS "field-comment", NOT pa.attnotnull AS "nullable?",
pa.attidentity <> '' AS "auto?", pg_get_expr(pd.adbin, pd.adrelid) AS "default"
FROM pg_catalog.pg_class AS pc INNER JOIN pg_catalog.pg_attribute AS pa ON pc.oid = pa.attrelid
INNER JOIN pg_catalog.pg_type AS pt ON pt.oid = pa.atttypid
LEFT JOIN pg_catalog.pg_attrdef AS pd ON pd.adrelid = pa.attrelid AND pd.adnum = pa.attnum
WHERE pc.relkind = 'm' AND pa.attnum >= 1 AND NOT pa.attisdropped;
SELECT fk_ns.nspname AS "fk-table-schema", fk_table.relname AS "fk-table-name", fk_column.attname AS "fk-column-name",
pk_ns.nspname AS "pk-table-schema", pk_table.relname AS "pk-table-name", pk_column.attname AS "pk-column-name"
FROM pg_constraint AS c JOIN pg_class AS fk_table ON c.conrelid = fk_table.oid
JOIN pg_namespace AS fk_ns ON c.connamespace = fk_ns.oid
JOIN pg_attribute AS fk_column ON c.conrelid = fk_column.attrelid
JOIN pg_class AS pk_table ON c.confrelid = pk_table.oid JOIN pg_namespace AS pk_ns ON pk_table.relnamespace = pk_ns.oid
JOIN pg_attribute AS pk_column ON c.confrelid = pk_column.attrelid
WHERE fk_ns.nspname !~ '^information_schema|catalog_history|pg_' AND c.contype = 'f'::char
AND fk_column.attnum = ANY(c.conkey) AND pk_column.attnum = ANY(c.confkey) ORDER BY 1, 2;
SELECT tmp.table_schema, tmp.table_name, trim(BOTH '"' FROM pg_catalog.pg_get_indexdef(tmp.ci_oid, tmp.pos, false)) AS field
FROM (SELECT n.nspname AS table_schema, ct.relname AS table_name, ci.oid AS ci_oid,
  (information_schema._pg_expandarray(i.indkey)).n AS pos FROM pg_catalog.pg_class AS ct
  JOIN pg_catalog.pg_namespace AS n ON ct.relnamespace = n.oid JOIN pg_catalog.pg_index AS i ON ct.oid = i.indrelid
  JOIN pg_catalog.pg_class AS ci ON ci.oid = i.indexrelid
  WHERE pg_catalog.pg_get_expr(i.indpred, i.indrelid) IS NULL AND n.nspname !~ '^pg_') AS tmp WHERE tmp.pos = 1;
SELECT nspname, typname FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace
WHERE t.oid IN (SELECT DISTINCT e.enumtypid FROM pg_enum AS e);
WITH table_privileges AS (
  SELECT NULL AS role, t.schemaname AS schema, t.objectname AS table,
  pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"."' || replace(t.objectname, '"', '""') || '"', 'update') AS update,
  pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'select') AS select,
  pg_catalog.has_table_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'delete') AS delete
  FROM (SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables UNION
    SELECT schemaname, viewname AS objectname FROM pg_views UNION
    SELECT schemaname, matviewname AS objectname FROM pg_matviews) AS t
  WHERE t.schemaname !~ '^pg_' AND t.schemaname <> 'information_schema'
  AND pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage'))
SELECT t.* FROM table_privileges AS t;
SELECT reltuples FROM pg_class WHERE relname = 'sales' AND relkind = 'r';
--= 100
SELECT count(*) AS "count" FROM "public"."sales";
--= r0|34
SELECT "public"."sales"."region" AS "region", COUNT(*) AS "count" FROM "public"."sales"
GROUP BY "public"."sales"."region" ORDER BY "public"."sales"."region" ASC LIMIT 1;
SELECT CAST(DATE_TRUNC('month', "public"."sales"."sold") AS timestamp) AS "sold", SUM("public"."sales"."price") AS "sum"
FROM "public"."sales" GROUP BY 1 ORDER BY 1 ASC;
SELECT "source"."name" FROM (SELECT "public"."customers"."name" AS "name", substring("public"."customers"."name", 1, 1234) AS s
FROM "public"."customers" LIMIT 10000) AS "source";
-- refused
CREATE SCHEMA "metabase_cache_1";
-- refused
INSERT INTO "public"."customers" ("id", "name") VALUES (9, 'dora');

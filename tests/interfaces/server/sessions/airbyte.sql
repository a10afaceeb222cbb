-- Airbyte: the PostgreSQL source by JDBC, discovery and a full refresh.
SET extra_float_digits = 3;
SET application_name = 'PostgreSQL JDBC Driver';
SELECT 1;
SELECT count(*) AS "count" FROM information_schema.tables WHERE table_schema = 'public';
SELECT DISTINCT table_catalog, table_schema, table_name, privilege_type FROM information_schema.table_privileges
WHERE grantee = current_user AND privilege_type = 'SELECT' UNION ALL
SELECT r.rolname AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, 'SELECT' AS privilege_type
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles r ON r.oid = c.relowner
WHERE has_table_privilege(c.oid, 'SELECT') AND r.rolname = current_user AND n.nspname NOT IN ('pg_catalog', 'information_schema');
SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, c.relname AS TABLE_NAME,
CASE n.nspname ~ '^pg_' OR n.nspname = 'information_schema' WHEN true THEN CASE
  WHEN n.nspname = 'pg_catalog' OR n.nspname = 'information_schema' THEN CASE c.relkind WHEN 'r' THEN 'SYSTEM TABLE' WHEN 'v' THEN 'SYSTEM VIEW' ELSE NULL END
  ELSE CASE c.relkind WHEN 'r' THEN 'TEMPORARY TABLE' ELSE NULL END END
WHEN false THEN CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END
ELSE NULL END AS TABLE_TYPE, d.description AS REMARKS FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_description d ON (c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass)
WHERE c.relnamespace = n.oid AND n.nspname LIKE 'public' AND (false OR (c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema')) ORDER BY TABLE_TYPE, TABLE_SCHEM, TABLE_NAME;
WITH block_sz AS (SELECT current_setting('block_size')::int AS bs), nblks AS (
SELECT (pg_relation_size('"public"."sales"') / (SELECT bs FROM block_sz))::bigint AS n) SELECT n FROM nblks;
SELECT relfilenode FROM pg_class WHERE oid = '"public"."sales"'::regclass;
SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_current_wal_lsn() END AS lsn;
SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'airbyte_slot';
SELECT datname, age(datfrozenxid) FROM pg_database WHERE datname = current_database();
BEGIN;
DECLARE airbyte CURSOR FOR SELECT "id", "name" FROM "public"."customers" ORDER BY "id";
--= 1|ann
FETCH 1 FROM airbyte;
FETCH ALL FROM airbyte;
CLOSE ALL;
COMMIT;
SELECT max("id") FROM "public"."customers";
-- refused
SELECT pg_create_logical_replication_slot('airbyte_slot', 'pgoutput');

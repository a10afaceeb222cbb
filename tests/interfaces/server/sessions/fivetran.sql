-- Fivetran: its check of a connection, and the sync of a schema by queries.
SELECT 1;
SHOW server_version_num;
SELECT pg_is_in_recovery();
SHOW wal_level;
SELECT setting FROM pg_settings WHERE name = 'max_replication_slots' OR name = 'wal_level';
SELECT slot_name, plugin, slot_type, active, restart_lsn, confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'fivetran';
SELECT pubname, puballtables FROM pg_publication;
SELECT * FROM pg_publication_tables;
SELECT has_database_privilege(current_user, current_database(), 'CONNECT') AS can_connect;
SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND has_schema_privilege(schema_name, 'USAGE');
SELECT t.table_schema, t.table_name, t.table_type FROM information_schema.tables t WHERE t.table_schema = 'public' AND has_table_privilege(quote_ident(t.table_schema) || '.' || quote_ident(t.table_name), 'SELECT') ORDER BY 2;
SELECT c.table_schema, c.table_name, c.column_name, c.data_type, c.udt_name, c.is_nullable, c.character_maximum_length,
c.numeric_precision, c.numeric_scale, c.datetime_precision, c.is_generated FROM information_schema.columns c WHERE c.table_schema IN ('public') ORDER BY c.table_name, c.ordinal_position;
SELECT tc.table_schema, tc.table_name, kcu.column_name, tc.constraint_type FROM information_schema.table_constraints tc
JOIN information_schema.key_column_usage kcu USING (constraint_schema, constraint_name) WHERE tc.constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY');
SELECT relname, relreplident, pg_relation_size(c.oid) AS bytes, reltuples::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public';
SELECT txid_snapshot_xmin(txid_current_snapshot());
SELECT pg_current_wal_lsn();
BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
DECLARE fivetran_cursor NO SCROLL CURSOR FOR SELECT "id", "price", "day", "region" FROM "public"."sales";
FETCH FORWARD 50 FROM fivetran_cursor;
FETCH FORWARD 50 FROM fivetran_cursor;
FETCH FORWARD 50 FROM fivetran_cursor;
CLOSE fivetran_cursor;
COMMIT;
--= 1|ann|1
--= 2|bob|1
SELECT "id", "name", xmin::text::bigint AS version FROM (SELECT id, name, 1 AS xmin FROM "public"."customers") AS t ORDER BY "id" LIMIT 2;
-- refused
CREATE PUBLICATION fivetran_pub FOR ALL TABLES;

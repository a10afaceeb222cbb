-- psycopg and psycopg2: named cursors, types by name, notifications, and what connection pools send.
SET TIME ZONE 'UTC';
BEGIN;
DECLARE "named" CURSOR FOR SELECT id FROM sales ORDER BY id;
--= 0
--= 1
--= 2
FETCH FORWARD 3 FROM "named";
MOVE FORWARD 10 FROM "named";
--= 13
FETCH FORWARD 1 FROM "named";
CLOSE "named";
SAVEPOINT "_pg3_1";
RELEASE "_pg3_1";
SAVEPOINT sa_1;
ROLLBACK TO SAVEPOINT sa_1;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
ROLLBACK;
DECLARE "held" INSENSITIVE SCROLL CURSOR WITH HOLD FOR SELECT id, name FROM customers ORDER BY id;
--= 3|cy
FETCH LAST FROM "held";
--= 2|bob
--= 1|ann
FETCH BACKWARD ALL FROM "held";
CLOSE "held";
--= int4|23|1007|integer|,
SELECT typname AS name, oid, typarray AS array_oid, oid::regtype::text AS regtype, typdelim AS delimiter FROM pg_type t WHERE t.oid = to_regtype('int4') ORDER BY t.oid;
SELECT t.typname AS name, t.oid AS oid, t.typarray AS array_oid, t.oid::regtype::text AS regtype,
coalesce(a.fnames, '{}') AS field_names, coalesce(a.ftypes, '{}') AS field_types FROM pg_type t LEFT JOIN (
SELECT attrelid, array_agg(attname) AS fnames, array_agg(atttypid) AS ftypes FROM (SELECT a.attrelid, a.attname, a.atttypid FROM pg_attribute a
JOIN pg_type t ON t.typrelid = a.attrelid WHERE a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) x GROUP BY attrelid) a ON a.attrelid = t.typrelid WHERE t.oid = to_regtype('hstore');
SELECT t.typname AS name, t.oid AS oid, t.typarray AS array_oid, array_agg(e.enumlabel) AS enum_labels FROM pg_type t
LEFT JOIN pg_enum e ON e.enumtypid = t.oid WHERE t.oid = to_regtype('mood') GROUP BY t.typname, t.oid, t.typarray;
SELECT t.oid, typarray FROM pg_type t JOIN pg_namespace ns ON typnamespace = ns.oid WHERE typname = 'hstore';
LISTEN jobs;
UNLISTEN *;
DEALLOCATE ALL;
RESET ALL;
DISCARD ALL;
-- refused
NOTIFY jobs, 'x';
-- refused
COPY customers FROM STDIN;

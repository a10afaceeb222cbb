-- pgAdmin: the browser's tree, the dashboard, and the query tool with EXPLAIN.
SET DateStyle=ISO; SET client_min_messages=notice; SELECT set_config('bytea_output','hex',false) FROM pg_show_all_settings() WHERE name = 'bytea_output'; SET client_encoding='UTF-8';
SET application_name = 'pgAdmin 4 - DB:shop';
SELECT set_config('bytea_output', 'hex', false);
SELECT db.oid as did, db.datname, db.datallowconn, pg_encoding_to_char(db.encoding) AS serverencoding,
has_database_privilege(db.oid, 'CREATE') as cancreate, datistemplate FROM pg_catalog.pg_database db WHERE db.datname = current_database();
SELECT roles.oid as id, roles.rolname as name, roles.rolsuper as is_superuser,
CASE WHEN roles.rolsuper THEN true ELSE roles.rolcreaterole END as can_create_role,
CASE WHEN 'pg_signal_backend' = ANY(ARRAY(WITH RECURSIVE cte AS (
  SELECT pg_roles.oid, pg_roles.rolname FROM pg_roles WHERE pg_roles.oid = roles.oid
  UNION ALL SELECT m.roleid, pgr.rolname FROM cte cte_1 JOIN pg_auth_members m ON m.member = cte_1.oid JOIN pg_roles pgr ON pgr.oid = m.roleid)
  SELECT rolname FROM cte)) THEN True ELSE False END as can_signal_backend
FROM pg_catalog.pg_roles as roles WHERE rolname = current_user;
SELECT CASE WHEN usesuper THEN pg_is_in_recovery() ELSE FALSE END as inrecovery,
CASE WHEN usesuper AND pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE FALSE END as isreplaypaused FROM pg_user WHERE usename = current_user;
SELECT gss_authenticated, encrypted FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_backend_pid();
SELECT db.oid as did, db.oid, db.datname as name, db.dattablespace as spcoid, spcname, datallowconn, datacl, pg_get_userbyid(datdba) AS datowner,
has_database_privilege(db.oid, 'CREATE') as cancreate, (select current_setting('default_tablespace')) AS default_tablespace, descr.description as comments
FROM pg_catalog.pg_database db LEFT OUTER JOIN pg_catalog.pg_tablespace ta ON db.dattablespace = ta.oid
LEFT OUTER JOIN pg_catalog.pg_shdescription descr ON (db.oid = descr.objoid AND descr.classoid = 'pg_database'::regclass)
WHERE db.oid > 0::OID OR db.datname IN ('postgres', 'edb') ORDER BY datname;
--= 2200|public
SELECT nsp.oid, nsp.nspname as name FROM pg_catalog.pg_namespace nsp
WHERE nspname NOT LIKE E'pg\\_%' AND NOT ((nsp.nspname = 'pg_catalog' AND EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'pg_class' AND relnamespace = nsp.oid LIMIT 1))
OR (nsp.nspname = 'information_schema' AND EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'tables' AND relnamespace = nsp.oid LIMIT 1))) ORDER BY nspname;
SELECT nsp.oid, nsp.nspname as name, pg_catalog.has_schema_privilege(nsp.oid, 'CREATE') as can_create, pg_catalog.has_schema_privilege(nsp.oid, 'USAGE') as has_usage, des.description
FROM pg_catalog.pg_namespace nsp LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid = nsp.oid AND des.classoid = 'pg_namespace'::regclass) WHERE nsp.oid = 2200;
SELECT rel.oid, rel.relname AS name, (SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid = rel.oid AND tgisinternal = FALSE) AS triggercount,
(SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid = rel.oid AND tgisinternal = FALSE AND tgenabled = 'O') AS has_enable_triggers,
(CASE WHEN rel.relkind = 'p' THEN true ELSE false END) AS is_partitioned,
(SELECT count(1) FROM pg_catalog.pg_inherits WHERE inhrelid = rel.oid LIMIT 1) as is_inherits, des.description
FROM pg_catalog.pg_class rel LEFT JOIN pg_catalog.pg_description des ON des.objoid = rel.oid AND des.objsubid = 0
WHERE rel.relkind IN ('r', 's', 't', 'p') AND rel.relnamespace = 2200::oid AND NOT rel.relispartition ORDER BY rel.relname;
SELECT DISTINCT att.attname as name, att.attnum, pg_catalog.format_type(ty.oid, NULL) AS datatype, att.attnotnull as not_null,
CASE WHEN att.atthasdef OR att.attidentity != '' OR ty.typdefault IS NOT NULL THEN True ELSE False END as has_default_val, des.description, seq.seqtypid
FROM pg_catalog.pg_attribute att JOIN pg_catalog.pg_type ty ON ty.oid = atttypid JOIN pg_catalog.pg_class cl ON cl.oid = att.attrelid
JOIN pg_catalog.pg_namespace na ON na.oid = cl.relnamespace LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = ty.typelem
LEFT OUTER JOIN pg_catalog.pg_attrdef def ON adrelid = att.attrelid AND adnum = att.attnum
LEFT OUTER JOIN (pg_catalog.pg_depend JOIN pg_catalog.pg_class cs ON classid = 'pg_class'::regclass AND objid = cs.oid AND cs.relkind = 'S') ON refobjid = att.attrelid AND refobjsubid = att.attnum
LEFT OUTER JOIN pg_catalog.pg_namespace ns ON ns.oid = cs.relnamespace LEFT OUTER JOIN pg_catalog.pg_index pi ON pi.indrelid = att.attrelid AND indisprimary
LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid = att.attrelid AND des.objsubid = att.attnum AND des.classoid = 'pg_class'::regclass)
LEFT OUTER JOIN pg_catalog.pg_sequence seq ON cs.oid = seq.seqrelid
WHERE att.attrelid = 16384::oid AND att.attnum > 0 AND att.attisdropped IS FALSE ORDER BY att.attnum;
SELECT c.oid, c.relname AS name, pg_get_userbyid(relowner) AS owner, c.relacl, array_to_string(c.relacl::text[], ', ') AS acl FROM pg_class c WHERE c.relkind = 'v' AND relnamespace = 2200::oid;
SELECT 'session_stats' AS chart_name, pg_catalog.row_to_json(t) AS chart_data FROM (SELECT
(SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = (SELECT datname FROM pg_catalog.pg_database WHERE oid = 5)) AS "Total",
(SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE state = 'active') AS "Active") t
UNION ALL SELECT 'tps_stats' AS chart_name, pg_catalog.row_to_json(t) AS chart_data FROM (SELECT
(SELECT sum(xact_commit) + sum(xact_rollback) FROM pg_catalog.pg_stat_database WHERE datname = 'shop') AS "Transactions") t;
SELECT pid, datname, usename, application_name, client_addr, pg_catalog.to_char(backend_start, 'YYYY-MM-DD HH24:MI:SS TZ') AS backend_start,
state, wait_event_type || ': ' || wait_event AS wait_event, array_to_string(pg_catalog.pg_blocking_pids(pid), ', ') AS blocking_pids, query FROM pg_catalog.pg_stat_activity WHERE datname = 'shop' ORDER BY pid;
SELECT pid, locktype, datname, relation::regclass, page, tuple, virtualxid, transactionid::text, classid::regclass, objid, mode, granted, fastpath
FROM pg_catalog.pg_locks l LEFT OUTER JOIN pg_catalog.pg_database d ON (l.database = d.oid) ORDER BY pid, locktype;
SELECT name, category, setting, unit, short_desc FROM pg_settings WHERE name = 'work_mem' ORDER BY category;
SELECT version();
SELECT pg_catalog.pg_backend_pid() > 0 AS pid;
EXPLAIN (FORMAT JSON, ANALYZE FALSE, VERBOSE FALSE, COSTS FALSE, TIMING FALSE, BUFFERS FALSE, SUMMARY FALSE, SETTINGS FALSE, WAL FALSE) SELECT region, count(*) FROM sales GROUP BY region;
SELECT at.attname, at.attnum, ty.typname FROM pg_catalog.pg_attribute at LEFT JOIN pg_catalog.pg_type ty ON (ty.oid = at.atttypid)
JOIN pg_catalog.pg_class c ON c.oid = at.attrelid WHERE attrelid = 16384::oid AND attnum = ANY ((SELECT con.conkey FROM pg_catalog.pg_class rel
LEFT OUTER JOIN pg_catalog.pg_constraint con ON con.conrelid = rel.oid AND con.contype = 'p' WHERE rel.relkind IN ('r', 's', 't', 'p') AND rel.oid = 16384::oid)::oid[]);
SELECT * FROM public.sales LIMIT 100;
-- refused
VACUUM ANALYZE public.sales;

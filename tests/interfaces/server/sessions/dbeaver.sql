-- DBeaver: connects by JDBC, reads the tree of databases, schemas, tables and columns, then a page of rows.
SET extra_float_digits = 3;
SET application_name = 'DBeaver 24.3 - Main <shop>';
select version();
show search_path;
SELECT current_schema(), session_user;
--= shop|UTF8
SELECT db.datname, pg_encoding_to_char(db.encoding) AS enc FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate AND db.datname = 'shop';
SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE 1 = 1 ORDER BY db.datname;
select * from pg_catalog.pg_settings where name = 'standard_conforming_strings';
select string_agg(word, ',') from pg_catalog.pg_get_keywords() where word <> ALL ('{a,abs,absolute,action,ada}'::text[]);
SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d
ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass ORDER BY nspname;
SELECT n.nspname = ANY(current_schemas(true)) AS on_path, n.nspname, t.typname FROM pg_catalog.pg_type t
JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid WHERE t.oid = 20;
SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name, d.description
FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = t.typelem
LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid = d.objoid
WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C') LIMIT 5;
SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr, pg_catalog.pg_get_partkeydef(c.oid) AS partition_key
FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
WHERE c.relnamespace = 2200 AND c.relkind NOT IN ('i', 'I', 'c');
select c.oid, pg_catalog.pg_total_relation_size(c.oid) as total_rel_size, pg_catalog.pg_relation_size(c.oid) as rel_size
FROM pg_class c WHERE c.relnamespace = 2200;
SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value, dsc.description, dep.objid
FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid)
LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum)
LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND dep.deptype = 'i' and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid
WHERE NOT a.attisdropped AND c.oid = 16384 ORDER BY a.attnum;
SELECT c.oid, c.*, t.relname as tabrelname, rt.relnamespace as refnamespace, d.description,
case when c.contype = 'c' then "substring"(pg_get_constraintdef(c.oid), 7) else null end consrc_copy FROM pg_catalog.pg_constraint c
INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_constraint'::regclass WHERE c.conrelid = 16384 ORDER BY c.oid;
SELECT i.*, i.indkey as keys, c.relname, c.relnamespace, c.relam, c.reltablespace, tc.relname as tabrelname, dsc.description,
pg_catalog.pg_get_expr(i.indpred, i.indrelid) as pred_expr, pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) as expr,
pg_catalog.pg_relation_size(i.indexrelid) as index_rel_size, pg_catalog.pg_stat_get_numscans(i.indexrelid) as index_num_scans
FROM pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid INNER JOIN pg_catalog.pg_class tc ON tc.oid = i.indrelid
LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid = dsc.objoid WHERE i.indrelid = 16384 ORDER BY tabrelname, c.relname;
SELECT x.oid, x.*, p.pronamespace as func_schema_id, d.description FROM pg_catalog.pg_trigger x LEFT OUTER JOIN pg_catalog.pg_proc p ON p.oid = x.tgfoid
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = x.oid AND d.objsubid = 0 WHERE x.tgrelid = 16384 AND NOT x.tgisinternal;
SELECT DISTINCT dep.deptype, dep.classid, cl.relkind, attr.attname, pg_get_expr(ad.adbin, ad.adrelid) adefval,
CASE WHEN cl.relkind IS NOT NULL THEN cl.relkind || COALESCE(dep.objsubid::text, '') ELSE '' END as type,
COALESCE(coc.relname, clrw.relname, cl.relname) as ownertable FROM pg_depend dep
LEFT JOIN pg_class cl ON dep.objid = cl.oid LEFT JOIN pg_attribute attr ON dep.objid = attr.attrelid AND dep.objsubid = attr.attnum
LEFT JOIN pg_attrdef ad ON ad.oid = dep.objid LEFT JOIN pg_rewrite rw ON dep.objid = rw.oid LEFT JOIN pg_class clrw ON clrw.oid = rw.ev_class
LEFT JOIN pg_constraint co ON dep.objid = co.oid LEFT JOIN pg_class coc ON co.conrelid = coc.oid WHERE dep.refobjid = 16384 ORDER BY type;
SELECT i.*, c.relnamespace FROM pg_catalog.pg_inherits i, pg_catalog.pg_class c WHERE i.inhparent = 16384 AND c.oid = i.inhrelid;
SELECT p.oid, p.*, pg_catalog.pg_get_function_result(p.oid) as result_type, l.lanname, pg_catalog.obj_description(p.oid, 'pg_proc')
FROM pg_catalog.pg_proc p LEFT OUTER JOIN pg_catalog.pg_language l ON l.oid = p.prolang WHERE p.pronamespace = 2200 ORDER BY p.proname;
SELECT a.oid, a.* FROM pg_catalog.pg_roles a ORDER BY a.rolname;
SELECT t.oid, t.* FROM pg_catalog.pg_tablespace t ORDER BY t.oid;
SELECT e.oid, e.extname, e.extversion, n.nspname FROM pg_catalog.pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace;
SELECT sa.* FROM pg_catalog.pg_stat_activity sa;
SELECT pg_catalog.pg_get_viewdef(16386::oid, true);
SELECT has_table_privilege('ana', 'public.sales', 'SELECT');
SELECT * FROM pg_catalog.pg_locks LIMIT 3;
--= 2147483647
SELECT x.v FROM (SELECT 2147483647::int4 AS v, pg_backend_pid()) x;
SELECT x.* FROM public.sales x ORDER BY x.id LIMIT 200;
SELECT count(*) FROM public.sales;

-- Superset: SQLAlchemy with psycopg2 beneath, SQL Lab, charts and the checks of its engine specification.
SELECT 1;
select pg_catalog.version();
select current_schema();
show transaction isolation level;
show standard_conforming_strings;
BEGIN;
SELECT CAST('test plain returns' AS VARCHAR(60)) AS anon_1;
ROLLBACK;
--= information_schema
--= public
SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%' ORDER BY nspname;
SELECT pg_catalog.pg_namespace.nspname FROM pg_catalog.pg_namespace
WHERE pg_catalog.pg_namespace.nspname NOT LIKE 'pg\_%%' ORDER BY pg_catalog.pg_namespace.nspname;
--= customers
--= sales
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public'
AND c.relkind IN ('r', 'p') ORDER BY 1;
--= cheap
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public'
AND c.relkind IN ('v', 'm');
SELECT datname FROM pg_database WHERE datistemplate = false;
SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace
ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
WHERE pg_catalog.pg_class.relname = 'sales' AND pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm'])
AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog';
--= id|integer||f
--= price|numeric(28,2)||f
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid)
FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef) AS def, a.attnotnull
FROM pg_catalog.pg_attribute a WHERE a.attrelid = (SELECT c.oid FROM pg_class c JOIN pg_namespace n
ON n.oid = c.relnamespace WHERE pg_catalog.pg_table_is_visible(c.oid) AND c.relname = 'sales' AND c.relkind IN ('r', 'v'))
AND a.attnum > 0 AND NOT a.attisdropped AND a.attname IN ('id', 'price') ORDER BY a.attnum;
SELECT pgd.description FROM pg_catalog.pg_description pgd WHERE pgd.objsubid = 0
AND pgd.objoid = 'public.sales'::regclass::oid AND pgd.classoid = 'pg_catalog.pg_class'::regclass;
SELECT a.attname, r.conname, unnest(r.conkey) AS attnum, generate_subscripts(r.conkey, 1) AS ord
FROM pg_constraint r JOIN pg_attribute a ON a.attrelid = r.conrelid WHERE r.contype = 'p' AND r.conrelid = 16384;
SELECT r.conname, pg_catalog.pg_get_constraintdef(r.oid, true) AS condef, n.nspname AS conschema
FROM pg_catalog.pg_constraint r, pg_namespace n, pg_class c WHERE r.conrelid = 16384 AND r.contype = 'f'
AND c.oid = r.confrelid AND n.oid = c.relnamespace ORDER BY 1;
SELECT i.relname, ix.indisunique, ix.indexprs, a.attname, a.attnum, c.conrelid, ix.indkey::varchar,
ix.indoption::varchar, i.reloptions, am.amname, pg_get_expr(ix.indpred, ix.indrelid) FROM pg_class t
JOIN pg_index ix ON t.oid = ix.indrelid JOIN pg_class i ON i.oid = ix.indexrelid
LEFT OUTER JOIN pg_attribute a ON t.oid = a.attrelid AND a.attnum = ANY(ix.indkey)
LEFT OUTER JOIN pg_constraint c ON (ix.indrelid = c.conrelid AND ix.indexrelid = c.conindid AND c.contype IN ('p', 'u', 'x'))
LEFT OUTER JOIN pg_am am ON i.relam = am.oid WHERE t.relkind IN ('r', 'v', 'f', 'm', 'p') AND t.oid = 16384
AND ix.indisprimary = 'f' ORDER BY t.relname, i.relname;
EXPLAIN SELECT region FROM public.sales;
SELECT region AS region, sum(price) AS "SUM(price)" FROM public.sales GROUP BY region ORDER BY "SUM(price)" DESC LIMIT 1000;
SELECT DATE_TRUNC('day', sold) AS sold, COUNT(*) AS count FROM public.sales WHERE sold >= TO_TIMESTAMP('2026-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
AND sold < '2026-01-05' GROUP BY DATE_TRUNC('day', sold) ORDER BY count DESC;
SELECT pg_cancel_backend(0);
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = 0;
-- refused
CREATE TABLE public.tmp_upload (a INTEGER);

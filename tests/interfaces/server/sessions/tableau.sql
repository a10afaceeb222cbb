-- Tableau: psqlODBC or JDBC, cursors for large reads, checks of temporary tables, which it does without.
SET DateStyle = 'ISO';
SET extra_float_digits = 2;
SET client_encoding = 'UTF8';
SHOW transaction_isolation;
select oid, typbasetype from pg_type where typname = 'lo';
select current_database();
SELECT current_schema(), session_user;
-- refused
CREATE LOCAL TEMPORARY TABLE "#Tableau_01_2E_Connect" ("COL" INTEGER) ON COMMIT PRESERVE ROWS;
-- refused
DROP TABLE "#Tableau_01_2E_Connect";
-- refused
SELECT * INTO TEMPORARY "#Tableau_5_1_Connect" FROM (SELECT 1 AS COL) AS CHECKTEMP LIMIT 1;
select nspname from pg_namespace where nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'pg_temp_1') order by nspname;
select relname, nspname, relkind from pg_catalog.pg_class c, pg_catalog.pg_namespace n where relkind in ('r', 'v', 'm', 'f', 'p')
and nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'pg_temp_1') and n.oid = relnamespace order by nspname, relname;
select n.nspname, c.relname, a.attname, a.atttypid, t.typname, a.attnum, a.attlen, a.atttypmod, a.attnotnull, c.relhasrules,
c.relkind, c.oid, pg_get_expr(d.adbin, d.adrelid), case t.typtype when 'd' then t.typbasetype else 0 end, t.typtypmod, attidentity
from (((pg_catalog.pg_class c inner join pg_catalog.pg_namespace n on n.oid = c.relnamespace and c.oid = 16385)
inner join pg_catalog.pg_attribute a on (not a.attisdropped) and a.attnum > 0 and a.attrelid = c.oid)
inner join pg_catalog.pg_type t on t.oid = a.atttypid) left outer join pg_attrdef d on a.atthasdef and d.adrelid = a.attrelid
and d.adnum = a.attnum order by n.nspname, c.relname, attnum;
select ta.attname, ia.attnum, ic.relname, n.nspname, tc.relname from pg_catalog.pg_attribute ta, pg_catalog.pg_attribute ia,
pg_catalog.pg_class tc, pg_catalog.pg_index i, pg_catalog.pg_namespace n, pg_catalog.pg_class ic where tc.relname = 'sales'
and n.nspname = 'public' and tc.oid = i.indrelid and n.oid = tc.relnamespace and i.indisprimary = 't'
and ia.attrelid = i.indexrelid and ta.attrelid = i.indrelid and ta.attnum = i.indkey[ia.attnum - 1]
and (not ta.attisdropped) and (not ia.attisdropped) and ic.oid = i.indexrelid order by ia.attnum;
SELECT "sales"."region" AS "region", SUM("sales"."price") AS "sum:price:ok" FROM "public"."sales" "sales" GROUP BY 1;
SELECT CAST(EXTRACT(YEAR FROM "sales"."sold") AS INTEGER) AS "yr:at:ok", COUNT(1) AS "n" FROM "public"."sales" "sales" GROUP BY 1;
BEGIN;
declare "SQL_CUR0x55d0" cursor with hold for SELECT "sales"."id" AS "id" FROM "public"."sales" "sales" ORDER BY 1;
--= 0
--= 1
fetch 2 in "SQL_CUR0x55d0";
--= 2
fetch 1 in "SQL_CUR0x55d0";
COMMIT;
--= 3
fetch 1 in "SQL_CUR0x55d0";
MOVE BACKWARD ALL IN "SQL_CUR0x55d0";
--= 0
FETCH NEXT FROM "SQL_CUR0x55d0";
close "SQL_CUR0x55d0";
BEGIN READ ONLY;
DECLARE "Tableau_Cursor" SCROLL CURSOR FOR SELECT id FROM sales WHERE id < 5 ORDER BY id;
--= 4
FETCH LAST FROM "Tableau_Cursor";
--= 3
FETCH PRIOR FROM "Tableau_Cursor";
--= 2
FETCH ABSOLUTE 3 FROM "Tableau_Cursor";
CLOSE "Tableau_Cursor";
COMMIT;

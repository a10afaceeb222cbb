-- dbt: what its adapter for PostgreSQL reads before it builds; what builds is refused.
select 1 as id;
begin;
select distinct nspname from pg_namespace;
select 'shop' as database, tablename as name, schemaname as schema, 'table' as type from pg_tables where schemaname ilike 'public'
union all select 'shop' as database, viewname as name, schemaname as schema, 'view' as type from pg_views where schemaname ilike 'public'
union all select 'shop' as database, matviewname as name, schemaname as schema, 'materialized_view' as type from pg_matviews where schemaname ilike 'public';
with relation as (select pg_rewrite.ev_class as class, pg_rewrite.oid as id from pg_rewrite),
class as (select oid as id, relname as name, relnamespace as schema, relkind as kind from pg_class),
dependency as (select distinct pg_depend.objid as id, pg_depend.refobjid as ref from pg_depend)
select distinct dependent_namespace.nspname as dependent_schema, dependent_class.name as dependent_name
from dependency join relation on relation.id = dependency.id join class as referenced_class on dependency.ref = referenced_class.id
join class as dependent_class on relation.class = dependent_class.id
join pg_namespace as dependent_namespace on dependent_namespace.oid = dependent_class.schema;
select column_name, data_type, character_maximum_length, numeric_precision, numeric_scale from "shop".INFORMATION_SCHEMA.columns
where table_name = 'sales' and table_schema = 'public' order by ordinal_position;
--= 1
select count(*) from pg_namespace where nspname = 'public';
select tbl.relname, col.attname, case when tbl.relkind = 'v' then 'VIEW' else 'BASE TABLE' end as table_type, sch.nspname,
pg_catalog.format_type(col.atttypid, col.atttypmod) as column_type, col_desc.description, pg_get_userbyid(tbl.relowner) as table_owner
from pg_catalog.pg_namespace sch join pg_catalog.pg_class tbl on tbl.relnamespace = sch.oid
join pg_catalog.pg_attribute col on col.attrelid = tbl.oid
left outer join pg_catalog.pg_description col_desc on (col_desc.objoid = tbl.oid and col_desc.objsubid = col.attnum)
where (upper(sch.nspname) = upper('public')) and not pg_is_other_temp_schema(sch.oid) and tbl.relpersistence in ('p', 'u')
and tbl.relkind in ('r', 'v', 'f', 'p') and col.attnum > 0 and not col.attisdropped order by sch.nspname, tbl.relname, col.attnum;
select i.relname as name, m.amname as method, ix.indisunique as "unique", array_to_string(array_agg(a.attname), ',') as column_names
from pg_index ix join pg_class i on i.oid = ix.indexrelid join pg_am m on m.oid = i.relam join pg_class t on t.oid = ix.indrelid
join pg_namespace n on n.oid = t.relnamespace join pg_attribute a on a.attrelid = t.oid and a.attnum = ANY(ix.indkey)
where t.relname = 'sales' and n.nspname = 'public' and t.relkind in ('r', 'm') group by 1, 2, 3 order by 1, 2, 3;
commit;
rollback;
-- refused
create schema if not exists "dev";
-- refused
create table "shop"."dev"."m__dbt_tmp" as (select 1 as id);
-- refused
alter table "shop"."dev"."m__dbt_tmp" rename to "m";
-- refused
drop view if exists "shop"."dev"."m" cascade;

-- DataGrip: introspects by transaction numbers, level by level.
select version();
SET extra_float_digits = 3;
SET application_name = 'DataGrip 2025.1';
set search_path = "public";
select case when pg_catalog.pg_is_in_recovery() then null else 1 end as primary_server;
select current_database() as db, current_schema as sch, pg_catalog.current_schemas(true) as path;
select round(extract(epoch from pg_postmaster_start_time() at time zone 'UTC')) as startup_time;
select L.transactionid::varchar::bigint as transaction_id from pg_catalog.pg_locks L
where L.transactionid is not null order by pg_catalog.age(L.transactionid) desc limit 1;
select N.oid::bigint as id, datname as name, D.description, datistemplate as is_template, datallowconn as allow_connections,
pg_catalog.pg_get_userbyid(N.datdba) as "owner" from pg_catalog.pg_database N
left join pg_catalog.pg_shdescription D on N.oid = D.objoid order by case when datname = pg_catalog.current_database() then -1::bigint else N.oid::bigint end;
--= information_schema
--= pg_catalog
--= public
select N.nspname as name from pg_catalog.pg_namespace N order by 1;
select N.oid::bigint as id, N.xmin as state_number, nspname as name, D.description, pg_catalog.pg_get_userbyid(N.nspowner) as "owner"
from pg_catalog.pg_namespace N left join pg_catalog.pg_description D on N.oid = D.objoid
order by case when nspname = pg_catalog.current_schema() then -1::bigint else N.oid::bigint end;
select R.oid::bigint as role_id, rolname as role_name, rolsuper is_super, rolinherit is_inherit, rolcreaterole can_createrole,
rolcreatedb can_createdb, rolcanlogin can_login, rolreplication is_replication, rolconnlimit conn_limit,
rolvaliduntil valid_until, rolbypassrls bypass_rls, rolconfig config, D.description from pg_catalog.pg_roles R
left join pg_catalog.pg_shdescription D on D.objoid = R.oid;
select member id, roleid role_id, admin_option from pg_catalog.pg_auth_members order by id, roleid::text;
select T.oid::bigint as id, T.spcname as name, T.xmin as state_number, pg_catalog.pg_get_userbyid(T.spcowner) as owner,
pg_catalog.pg_tablespace_location(T.oid) as location, T.spcoptions as options, D.description as comment
from pg_catalog.pg_tablespace T left join pg_catalog.pg_shdescription D on D.objoid = T.oid;
--= r|customers
--= r|sales
--= v|cheap
select T.relkind as table_kind, T.relname as table_name from pg_catalog.pg_class T
where relnamespace = 2200::oid and relkind in ('r', 'm', 'v', 'f', 'p') order by table_kind, table_name;
select T.relkind as table_kind, T.relname as table_name, T.oid as table_id, T.xmin as table_state_number, false as table_with_oids,
T.reltablespace as tablespace_id, T.reloptions as options, T.relpersistence as persistence,
(select pg_catalog.array_agg(inhparent::bigint order by inhseqno)::varchar from pg_catalog.pg_inherits where T.oid = inhrelid) as ancestors,
T.relispartition as is_partition, pg_catalog.pg_get_partkeydef(T.oid) as partition_key, am.amname as access_method,
pg_catalog.pg_get_userbyid(T.relowner) as "owner" from pg_catalog.pg_class T
left join pg_catalog.pg_am am on T.relam = am.oid where relnamespace = 2200::oid and relkind in ('r', 'm', 'v', 'f', 'p')
and pg_catalog.age(T.xmin) <= coalesce(nullif(greatest(pg_catalog.age('3'::varchar::xid), -1), -1), 2147483647) order by table_kind, table_id;
with T as (select distinct T.oid as table_id, T.relname as table_name from pg_catalog.pg_class T, pg_catalog.pg_attribute A
where T.relnamespace = 2200::oid and T.relkind in ('r', 'm', 'v', 'f', 'p') and A.attrelid = T.oid)
select T.table_id, C.attnum as column_position, C.attname as column_name, C.xmin as column_state_number, C.atttypmod as type_mod,
C.attndims as dimensions_number, pg_catalog.format_type(C.atttypid, C.atttypmod) as type_spec, C.atttypid as type_id,
C.attnotnull as mandatory, pg_catalog.pg_get_expr(D.adbin, T.table_id) as column_default_expression, not C.attislocal as column_is_inherited,
C.attfdwoptions as options, C.attisdropped as column_is_dropped, C.attidentity as identity_kind, C.attgenerated as generated
from T join pg_catalog.pg_attribute C on T.table_id = C.attrelid left join pg_catalog.pg_attrdef D on (C.attrelid, C.attnum) = (D.adrelid, D.adnum)
where attnum > 0 order by table_id, attnum;
select tab.oid table_id, tab.relkind table_kind, ind_stor.relname index_name, ind_head.indexrelid index_id, ind_stor.xmin state_number,
ind_head.indisunique is_unique, ind_head.indisprimary is_primary, pg_catalog.pg_get_expr(ind_head.indpred, ind_head.indrelid) as condition,
(select pg_catalog.array_agg(inhparent::bigint order by inhseqno)::varchar from pg_catalog.pg_inherits where ind_stor.oid = inhrelid) as ancestors,
ind_stor.reltablespace tablespace_id, opcmethod as access_method_id from pg_catalog.pg_class tab
join pg_catalog.pg_index ind_head on ind_head.indrelid = tab.oid join pg_catalog.pg_class ind_stor on tab.relnamespace = ind_stor.relnamespace
and ind_stor.oid = ind_head.indexrelid left join pg_catalog.pg_opclass on pg_opclass.oid = ANY(indclass)
where tab.relnamespace = 2200::oid and tab.relkind in ('r', 'm', 'v', 'p') and ind_stor.relkind in ('i', 'I');
select T.oid table_id, relkind table_kind, C.oid::bigint con_id, C.xmin::varchar::bigint con_state_id, conname con_name, contype con_kind,
conkey con_columns, conindid index_id, confrelid ref_table_id, condeferrable is_deferrable, confupdtype on_update, confdeltype on_delete,
pg_catalog.pg_get_expr(conbin, T.oid) con_expression, confkey ref_columns, conexclop::int[] excl_operators,
array(select unnest::regoper::varchar from unnest(conexclop)) excl_operators_str from pg_catalog.pg_constraint C
join pg_catalog.pg_class T on C.conrelid = T.oid where relkind in ('r', 'v', 'f', 'p') and relnamespace = 2200::oid and contype in ('p', 'u', 'f', 'c', 'x') and connamespace = 2200::oid;
with languages as (select oid as lang_oid, lanname as lang from pg_catalog.pg_language), routines as (
select proname as r_name, prolang as lang_oid, oid as r_id, xmin as r_state_number, proargnames as arg_names, proargmodes as arg_modes,
proargtypes::int[] as in_arg_types, proallargtypes::int[] as all_arg_types, pg_catalog.pg_get_expr(proargdefaults, 0) as arg_defaults,
provariadic as arg_variadic_id, prorettype as ret_type_id, proretset as ret_set, prokind as kind, provolatile as volatile_kind,
proisstrict as is_strict, prosecdef as is_security_definer, proconfig as configuration_parameters, procost as cost,
pg_catalog.pg_get_userbyid(proowner) as "owner", prorows as rows, proleakproof as is_leakproof, proparallel as concurrency_kind
from pg_catalog.pg_proc where pronamespace = 2200::oid and not (prokind = 'a'))
select * from routines natural join languages;
select T.relkind as view_kind, T.oid as view_id, pg_catalog.pg_get_viewdef(T.oid, true) as source_text from pg_catalog.pg_class T
join pg_catalog.pg_namespace N on T.relnamespace = N.oid where N.oid = 2200::oid and T.relkind in ('m', 'v');
select D.objoid id, case when 'pg_catalog.pg_proc'::regclass = D.classoid then 'R' when 'pg_catalog.pg_type'::regclass = D.classoid then 'T' else 'O' end as kind,
D.objsubid sub_id, D.description from pg_catalog.pg_description D where D.classoid in ('pg_catalog.pg_class'::regclass, 'pg_catalog.pg_trigger'::regclass);
select seqrelid, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle, format_type(seqtypid, null) from pg_catalog.pg_sequence;
show DateStyle;
select t.* from public.sales t limit 501;

-- Django's inspectdb, and Prisma's and Rails' questions that are not those of other tools.
SET client_min_messages TO 'warning';
--= {id,name}
SELECT array_agg(a.attname ORDER BY k.place) FROM pg_class c, unnest('{1,2}'::int2[]) WITH ORDINALITY k(number, place)
JOIN pg_attribute a ON a.attnum = k.number WHERE c.relname = 'customers' AND a.attrelid = c.oid;
SELECT c.conname, array(SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols(number, place)
JOIN pg_attribute a ON cols.number = a.attnum WHERE a.attrelid = c.conrelid ORDER BY cols.place), c.contype
FROM pg_constraint c JOIN pg_class t ON c.conrelid = t.oid WHERE t.relname = 'sales' AND pg_table_is_visible(t.oid);
SELECT s.indexrelid, array_agg(attname ORDER BY place) FROM (SELECT * FROM pg_index i,
unnest(i.indkey, i.indoption) WITH ORDINALITY koi(key, option, place)) s
LEFT JOIN pg_attribute a ON a.attrelid = s.indrelid AND a.attnum = s.key GROUP BY 1;
--= 1|3|1
--= 2|4|2
SELECT * FROM unnest(ARRAY[1, 2], ARRAY[3, 4]) WITH ORDINALITY AS t(a, b, place) WHERE EXISTS (SELECT FROM pg_class);
SELECT n.nspname, t.typname, array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e
JOIN pg_type t ON t.oid = e.enumtypid JOIN pg_namespace n ON t.typnamespace = n.oid GROUP BY 1, 2;
--= ["id","name"]
SELECT array_to_json(array_agg(a.attname ORDER BY a.attnum)) FROM pg_attribute a WHERE a.attrelid = 'customers'::regclass AND attnum > 0;
--= Ann-Lee Wu|t|{"id":1}
SELECT initcap('aNN-lee WU'), every(name = ANY ('{ann,bob,cy}'::text[])), json_build_object('id', min(id)) FROM customers;
--= ann
SELECT name FROM customers WHERE name ~* '^A' AND substring(name FROM 'n(.)') = 'n' AND btrim(' x ') = 'x'::name;
--= bob
--= cy
SELECT name FROM customers WHERE name !~* 'A' AND clock_timestamp() > '2020-01-01' ORDER BY 1;

-- Grafana: the query builder of its PostgreSQL source, and panels with their macros expanded.
SELECT 1;
SET application_name = 'grafana';
SHOW server_version;
SELECT current_setting('server_version_num')::int / 100 AS version;
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb';
--= customers
--= sales
SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
  FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
    array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
  string_to_array(current_setting('search_path'), ',') s)
  THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog',
  '_timescaledb_cache', '_timescaledb_catalog', '_timescaledb_internal', '_timescaledb_config')
AND table_type = 'BASE TABLE' ORDER BY 1;
--= id|integer
--= price|numeric
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
WHERE CASE WHEN array_length(parse_ident('sales'), 1) = 2
  THEN quote_ident(table_schema) = (parse_ident('sales'))[1] AND quote_ident(table_name) = (parse_ident('sales'))[2]
  ELSE quote_ident(table_name) = 'sales' AND quote_ident(table_schema) IN (
    SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
    FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
      array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
    string_to_array(current_setting('search_path'), ',') s) END
AND quote_ident(column_name) <> 'day' AND column_name IN ('id', 'price') ORDER BY 1;
SELECT DISTINCT quote_literal(region) FROM sales ORDER BY 1;
SELECT floor(extract(epoch FROM sold) / 3600) * 3600 AS "time", avg(price) AS "price", region AS metric FROM sales
WHERE sold BETWEEN '2026-01-01T00:00:00Z' AND '2026-01-02T00:00:00Z' GROUP BY 1, 3 ORDER BY 1, 3;
SELECT sold AS "time", price FROM sales WHERE sold >= '2026-01-01T00:00:00Z' AND sold < '2026-01-05T00:00:00Z' ORDER BY 1 LIMIT 50000;
SELECT count(*) AS sessions, state FROM pg_stat_activity WHERE datname = current_database() GROUP BY state;
SELECT datname, numbackends, xact_commit, blks_hit FROM pg_stat_database WHERE datname = 'shop';
SELECT pg_database_size(datname) AS size, datname FROM pg_database WHERE datallowconn AND NOT datistemplate;
SELECT relname, seq_scan, idx_scan, n_live_tup FROM pg_stat_user_tables ORDER BY relname;
SELECT EXTRACT(EPOCH FROM (now() - pg_postmaster_start_time())) AS uptime;
-- refused
DELETE FROM sales;

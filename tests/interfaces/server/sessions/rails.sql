-- Rails' connection, its types, and an interval in the style that it sets.
SET client_min_messages TO 'warning';
SET SESSION intervalstyle TO 'iso_8601';
--= iso_8601
SHOW intervalstyle;
--= P1Y2M-3DT4H5M6.7S|PT0S|P1D|-00:00:01
SELECT interval '1 year 2 months -3 days 04:05:06.7', interval '0 days', interval '1 day', (interval '-1 second')::VARCHAR;
SELECT t.oid, t.typname, t.typelem, t.typdelim, t.typinput, r.rngsubtype, t.typtype, t.typbasetype FROM pg_type AS t
LEFT JOIN pg_range AS r ON t.oid = r.rngtypid WHERE t.typname IN ('int4', 'interval', 'numeric') ORDER BY 1;
--= id
--= name
SELECT a.attname FROM pg_attribute a WHERE a.attrelid = '"customers"'::regclass AND a.attnum > 0 ORDER BY a.attnum;
SET intervalstyle TO DEFAULT;
--= 1 day
SELECT interval '1 day';

-- Installing: what the extension brings, and that each object says what it is
-- whether or not the library is preloaded
SET client_min_messages = error;
CREATE EXTENSION voucher;
SET client_min_messages = warning;
-- the tests call it themselves
SELECT format('ALTER DATABASE %I SET voucher.worker = off', current_database()) AS worker_off \gset
:worker_off;
SHOW search_path;
SELECT member FROM pg_depend, pg_describe_object(classid, objid, 0) AS member
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND classid <> 'pg_type'::regclass
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'voucher')
ORDER BY member COLLATE "C";
\d voucher
\d voucher_slot
\d voucher_redemption
\d voucher_outcome
-- src/rows.c knows the columns by number
SELECT attrelid::regclass, string_agg(attname, ' ' ORDER BY attnum)
FROM pg_attribute
WHERE attrelid IN ('voucher'::regclass, 'voucher_redemption'::regclass) AND attnum > 0
GROUP BY 1 ORDER BY 1;
\getenv abs_srcdir PG_ABS_SRCDIR
\set invariant :abs_srcdir '/test/invariant.sql'
\i :invariant

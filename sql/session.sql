-- What a long session meets: DISCARD, the extension dropped, made again and
-- moved, settings of every kind, and two versions at odds
SET client_min_messages = warning;
INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('SESSION', 1, 100);
SELECT result FROM voucher_reserve('session', 1, 'S1', 10);
DISCARD ALL;
SET client_min_messages = warning;
SELECT result FROM voucher_reserve('session', 2, 'S2', 10);

-- planner settings of the caller neither matter nor change
SET enable_indexscan = off;
SET enable_nestloop = off;
SET plan_cache_mode = force_custom_plan;
SELECT result FROM voucher_reserve('session', 3, 'S3', 10);
SELECT result FROM voucher_confirm('session', 'S3');
SELECT name, setting FROM pg_settings
WHERE name IN ('enable_indexscan', 'enable_nestloop', 'enable_seqscan', 'enable_bitmapscan', 'plan_cache_mode') ORDER BY 1;
RESET ALL;
SET client_min_messages = warning;

-- a procedure that commits on its way
CREATE PROCEDURE sell(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		PERFORM voucher_reserve('session', 100 + i, 'proc-' || i, 10);
		IF i % 3 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END
$$;
CALL sell(9);
SELECT count(*) FROM voucher_redemption WHERE order_id LIKE 'proc-%';
DROP PROCEDURE sell;

-- an exception block gives back what was taken in it, and leaves the caller itself
DO $$
BEGIN
	FOR i IN 1 .. 100 LOOP
		BEGIN
			PERFORM voucher_reserve('session', 1000 + i, 'block-' || i, 10);
			RAISE EXCEPTION 'no';
		EXCEPTION WHEN raise_exception THEN
		END;
	END LOOP;
END
$$;
SELECT count(*) FROM voucher_redemption WHERE order_id LIKE 'block-%';

-- one call may run twice: a held cursor is rewound at commit (P53)
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT result FROM generate_series(1, 2) AS n, voucher_reserve('session', 200 + n, 'hold-' || n, 10);
FETCH 1 FROM c;
COMMIT;
FETCH ALL FROM c;
CLOSE c;
SELECT count(*) FROM voucher_redemption WHERE order_id LIKE 'hold-%';

-- calls in one transaction take one transaction id, whatever their number (P78)
BEGIN;
SELECT result FROM voucher_reserve('session', 300, 'x-1', 10);
SELECT pg_current_xact_id() AS before \gset
SELECT count(*) FROM generate_series(2, 50) AS n, voucher_reserve('session', 300 + n, 'x-' || n, 10);
COMMIT;
SELECT pg_current_xact_id()::text::bigint - :before AS ids_used;

-- a trigger that undoes our insert cannot hang the caller
CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER swallow BEFORE INSERT ON voucher_redemption FOR EACH ROW EXECUTE FUNCTION swallow();
SELECT result FROM voucher_reserve('session', 400, 'swallowed', 10);
DROP TRIGGER swallow ON voucher_redemption;
DROP FUNCTION swallow();

-- a counter that was changed by hand does not keep a customer from cancelling
BEGIN;
UPDATE voucher SET used_count = 0 WHERE code = 'SESSION';
SET client_min_messages = notice;
SELECT result FROM voucher_release('session', 'S2');
ROLLBACK;
SET client_min_messages = warning;
SELECT * FROM voucher_violations();

-- another version of the SQL: refused, in a new session
BEGIN;
UPDATE pg_extension SET extversion = '0.9' WHERE extname = 'voucher';
COMMIT;
\c -
SELECT result FROM voucher_reserve('session', 500, 'v', 10);
UPDATE pg_extension SET extversion = '1.0' WHERE extname = 'voucher';
SELECT result FROM voucher_reserve('session', 500, 'v', 10);

-- another schema
SET client_min_messages = warning;
CREATE DATABASE regress_voucher_schema;
\c regress_voucher_schema
SET client_min_messages = warning;
CREATE SCHEMA "Odd schema";
SET client_min_messages = error;
CREATE EXTENSION voucher SCHEMA "Odd schema";
SET client_min_messages = warning;
SET search_path = "Odd schema";
INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('X', 1, 3);
SELECT result FROM voucher_reserve('x', 1, '1', 10);
ALTER SCHEMA "Odd schema" RENAME TO plain;
SET search_path = plain;
SELECT result FROM voucher_reserve('x', 2, '2', 10);
ALTER EXTENSION voucher SET SCHEMA public;		-- not relocatable
DROP EXTENSION voucher;
SET client_min_messages = error;
CREATE EXTENSION voucher SCHEMA plain;
SET client_min_messages = warning;
INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('X', 1, 1);
SELECT result FROM voucher_reserve('x', 1, '1', 10);
SELECT result FROM voucher_reserve('x', 2, '2', 10);
\c contrib_regression
DROP DATABASE regress_voucher_schema;

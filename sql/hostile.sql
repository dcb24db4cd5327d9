-- Names that somebody else made are never taken for ours: a schema first in
-- the path with tables, functions, operators and casts of the same names
SET client_min_messages = warning;
INSERT INTO voucher (code, discount_percent, total_limit, per_user_limit) VALUES ('HOSTILE', 10, 3, 2);
CREATE SCHEMA hostile;
CREATE TABLE hostile.voucher (LIKE public.voucher);
CREATE TABLE hostile.voucher_redemption (LIKE public.voucher_redemption);
CREATE FUNCTION hostile.trap(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'captured'; END $$;
CREATE FUNCTION hostile.trap(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'captured'; END $$;
CREATE FUNCTION hostile.trap8(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'captured'; END $$;
CREATE FUNCTION hostile.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE 'captured'; END $$;
CREATE FUNCTION hostile.coalesce(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'captured'; END $$;
CREATE OPERATOR hostile.= (LEFTARG = text, RIGHTARG = text, FUNCTION = hostile.trap);
CREATE OPERATOR hostile.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.trap);
CREATE OPERATOR hostile.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.trap);
CREATE OPERATOR hostile.+ (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.trap8);
CREATE TEMP TABLE voucher (LIKE public.voucher);
CREATE TEMP TABLE voucher_redemption (LIKE public.voucher_redemption);
CREATE TEMP TABLE pg_extension (extname text, extversion text);

SET search_path = hostile, pg_temp, pg_catalog, public;
SELECT result, discount_amount FROM public.voucher_reserve('hostile', 1, 'N1', 1000);
SELECT result, discount_amount FROM public.voucher_reserve('hostile', 1, 'N2', 1000);
SELECT result FROM public.voucher_reserve('hostile', 1, 'N3', 1000);
SELECT result FROM public.voucher_reserve('hostile', 2, 'N3', 1000);
SELECT result FROM public.voucher_reserve('hostile', 3, 'N4', 1000);
SELECT result FROM public.voucher_confirm('hostile', 'N1');
SELECT result FROM public.voucher_release('hostile', 'N2');
SHOW search_path;

-- plans made under this path are as good as any
\c -
SET client_min_messages = warning;
SET search_path = hostile, pg_catalog, public;
SELECT result FROM public.voucher_reserve('hostile', 1, 'N2', 1000);
SELECT result FROM public.voucher_release('hostile', 'N2');
RESET search_path;

DROP SCHEMA hostile CASCADE;
SELECT code, used_count FROM voucher WHERE code = 'HOSTILE';
SELECT * FROM voucher_violations();

-- an owner who changes types and indexes: an error, and no crash
BEGIN;
ALTER TABLE voucher_redemption DROP CONSTRAINT ck_release_reason, DROP CONSTRAINT ck_released;
ALTER TABLE voucher_redemption ALTER COLUMN release_reason TYPE bigint USING 5;
SELECT complain($$SELECT voucher_confirm('hostile', 'N2')$$);
ROLLBACK;
BEGIN;
ALTER TABLE voucher_redemption ALTER COLUMN customer_id TYPE text;
SELECT complain($$SELECT voucher_reserve('hostile', 1, 'N5', 1000)$$);
SELECT complain($$SELECT voucher_reconcile('hostile')$$);
ROLLBACK;
BEGIN;
ALTER TABLE voucher DROP COLUMN hold_time, ADD COLUMN hold_time interval;
SELECT result FROM voucher_check('hostile', 9, 1000);
ROLLBACK;
BEGIN;
DROP INDEX voucher_redemption_use_key;
CREATE INDEX voucher_redemption_use_key ON voucher_redemption (id, customer_id);
SELECT complain($$SELECT voucher_reserve('hostile', 1, 'N5', 1000)$$);
DROP INDEX voucher_redemption_use_key;
CREATE INDEX voucher_redemption_use_key ON voucher (code, total_limit);
SELECT complain($$SELECT voucher_reserve('hostile', 1, 'N5', 1000)$$);
ROLLBACK;
BEGIN;
DROP INDEX voucher_redemption_order_key;
CREATE INDEX voucher_redemption_order_key ON voucher_redemption USING hash (order_id);
SELECT complain($$SELECT voucher_reserve('hostile', 1, 'N5', 1000)$$);
ROLLBACK;
BEGIN;
ALTER TABLE voucher RENAME TO voucher_away;
ALTER INDEX voucher_pkey RENAME TO voucher_pkey_away;
CREATE TABLE voucher (code text COLLATE "C" CONSTRAINT voucher_pkey PRIMARY KEY);
INSERT INTO voucher VALUES ('HOSTILE');
SELECT complain($$SELECT voucher_check('hostile', 9, 1000)$$);
ROLLBACK;

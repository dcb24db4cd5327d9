-- The statements of README.md, in its order
SET client_min_messages = warning;
SET TimeZone = 'UTC';

-- Quick start
INSERT INTO voucher (code, discount_amount, total_limit, starts_at, ends_at)
VALUES ('FLASH100', 100000, 1000, now() - interval '1 day', now() + interval '1 day');
SELECT result, discount_amount, detail FROM voucher_reserve('flash100', 42, 'order-1', 250000);
SELECT result, discount_amount, detail FROM voucher_reserve('flash100', 42, 'order-1', 250000);
SELECT result, discount_amount, detail FROM voucher_reserve('flash100', 42, 'order-2', 250000);
SELECT * FROM voucher_confirm('flash100', 'order-1');
SELECT result, discount_amount, detail FROM voucher_reserve('flash100', 43, 'order-3', 250000);
SELECT * FROM voucher_release('flash100', 'order-3');
SELECT code, used_count, total_limit FROM voucher WHERE code = 'FLASH100';

-- The order and its voucher in one transaction
CREATE TABLE shop_order (id text PRIMARY KEY, customer_id bigint, amount bigint, discount bigint);
BEGIN;
INSERT INTO shop_order VALUES ('order-4', 44, 90000, 0) ON CONFLICT DO NOTHING;
UPDATE shop_order SET discount = v.discount_amount
FROM voucher_reserve('flash100', 44, 'order-4', 90000) AS v
WHERE id = 'order-4' AND v.result IN ('RESERVED', 'DUPLICATE')
RETURNING id, amount, discount;
COMMIT;

-- In one step
SELECT result, discount_amount FROM voucher_redeem('flash100', 60, 'order-60', 90000);
SELECT result, discount_amount FROM voucher_refund('flash100', 'order-60');
SELECT result, discount_amount FROM voucher_check('flash100', 61, 90000);
SELECT result FROM voucher_extend('flash100', 'order-4', '30 minutes');

-- With exceptions
SET client_min_messages = notice;
DO $$
DECLARE
    refusal text;
BEGIN
    PERFORM voucher_reserve_or_raise('flash100', 42, 'order-62', 90000);
EXCEPTION WHEN SQLSTATE 'VC002' OR SQLSTATE 'VC003' THEN
    GET STACKED DIAGNOSTICS refusal = PG_EXCEPTION_DETAIL;
    RAISE NOTICE 'refused: %', (refusal::voucher_outcome).result;
END
$$;
SET client_min_messages = warning;

-- Many at once
SELECT o.order_id, r.result, r.discount_amount
FROM unnest('{51,52,51}'::bigint[], '{o-51,o-52,o-53}'::text[], '{1000,2000,3000}'::bigint[])
	 AS o(customer_id, order_id, amount),
	 voucher_reserve('flash100', o.customer_id, o.order_id, o.amount) AS r;

-- Status
SELECT code, state, total_limit, reserved, confirmed, remaining FROM voucher_status WHERE code = 'FLASH100';

-- Administration
INSERT INTO voucher (code, discount_percent, max_discount_amount, min_order_amount, per_user_limit)
VALUES ('TEN-PERCENT', 10, 50000, 20000, NULL);
SELECT voucher_set_limit('flash100', 2000);
SELECT count(*) FROM voucher_generate(1000, 'ten-percent', 'GIFT-', 10) AS code;
\set VERBOSITY terse
UPDATE voucher SET total_limit = 1 WHERE code = 'FLASH100';
\set VERBOSITY default
UPDATE voucher SET enabled = false WHERE code = 'FLASH100';
DELETE FROM voucher WHERE code = 'FLASH100';

-- A flash sale
INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('RUSH', 100000, 1000);
SELECT voucher_flash_open('rush');
SELECT result FROM voucher_reserve('rush', 70, 'order-70', 250000);
SELECT voucher_flash_close('rush');

-- Old history
SELECT voucher_purge('90 days');
DO $$ BEGIN WHILE voucher_purge('90 days') > 0 LOOP COMMIT; END LOOP; END $$;

-- Operations; what the worker is about is not for this test
SELECT count(*) >= 0 AS runs FROM (SELECT datname, state, last_visit, last_error FROM voucher_worker) AS q;
SELECT kind, voucher_code, detail, seen_at FROM voucher_incident;
SELECT alive IN (true, false) AND failing IN (true, false) AS runs FROM (
SELECT bool_and(heartbeat > now() - interval '11 s') IS TRUE AS alive,
	   coalesce(bool_or(state = 'FAILED'), false) AS failing
FROM voucher_worker) AS q;
SELECT count(*) AS overdue FROM voucher_redemption
WHERE status = 'RESERVED' AND expires_at < now() - interval '1 minute';
SELECT code, used_count, ordinary_live, orphans, customers_over_limit, drift FROM voucher_reconcile() WHERE drift;
SELECT voucher_repair('flash100');
SELECT voucher_run_worker();

-- Privileges
CREATE ROLE regress_voucher_shop;
GRANT USAGE ON SCHEMA public TO regress_voucher_shop;
GRANT EXECUTE ON FUNCTION voucher_reserve, voucher_confirm, voucher_release, voucher_refund,
	  voucher_redeem, voucher_extend, voucher_check, voucher_reserve_or_raise,
	  voucher_confirm_or_raise, voucher_release_or_raise, voucher_redeem_or_raise TO regress_voucher_shop;
GRANT SELECT (code, discount_amount, discount_percent, max_discount_amount, min_order_amount,
			  starts_at, ends_at, enabled) ON voucher TO regress_voucher_shop;
SET ROLE regress_voucher_shop;
SELECT code, discount_percent, result
FROM voucher, voucher_reserve(code, 45, 'order-5', 90000) WHERE code = 'TEN-PERCENT';
RESET ROLE;
CREATE ROLE regress_voucher_admin;
GRANT USAGE ON SCHEMA public TO regress_voucher_admin;
GRANT SELECT, DELETE,
	  INSERT (code, discount_amount, discount_percent, max_discount_amount, min_order_amount,
			  total_limit, per_user_limit, hold_time, starts_at, ends_at, enabled),
	  UPDATE (discount_amount, discount_percent, max_discount_amount, min_order_amount,
			  total_limit, per_user_limit, hold_time, starts_at, ends_at, enabled)
	  ON voucher TO regress_voucher_admin;
GRANT SELECT ON voucher_redemption, voucher_status, voucher_worker, voucher_incident TO regress_voucher_admin;
GRANT EXECUTE ON FUNCTION voucher_set_limit, voucher_generate, voucher_purge, voucher_run_worker,
	  voucher_reconcile, voucher_repair, voucher_worker_databases,
	  voucher_flash_open, voucher_flash_close TO regress_voucher_admin;
SET ROLE regress_voucher_admin;
SELECT count(*) FROM voucher_generate(5, 'ten-percent', 'GIFT-', 10) AS code;
INSERT INTO voucher (code, discount_amount) VALUES ('by-admin', 1) RETURNING code;
SELECT voucher_set_limit('by-admin', 5);
SELECT voucher_flash_open('by-admin'), voucher_flash_close('by-admin');
SELECT voucher_purge('90 days');
SELECT remaining FROM voucher_status WHERE code = 'BY-ADMIN';
SELECT voucher_repair('by-admin'), voucher_run_worker();
SELECT used_count, drift FROM voucher_reconcile('by-admin');
SELECT count(datname) >= 0 AS runs FROM voucher_worker;
SELECT kind FROM voucher_incident;
UPDATE voucher SET enabled = false WHERE code = 'BY-ADMIN';
UPDATE voucher SET used_count = 5;
DELETE FROM voucher WHERE code = 'BY-ADMIN';
RESET ROLE;
CREATE ROLE regress_voucher_reader;
GRANT USAGE ON SCHEMA public TO regress_voucher_reader;
GRANT SELECT ON voucher, voucher_redemption, voucher_status TO regress_voucher_reader;
SET ROLE regress_voucher_reader;
SELECT state FROM voucher_status WHERE code = 'TEN-PERCENT';
SELECT voucher_set_limit('ten-percent', 5);
RESET ROLE;
DROP OWNED BY regress_voucher_shop, regress_voucher_admin, regress_voucher_reader;
DROP ROLE regress_voucher_shop, regress_voucher_admin, regress_voucher_reader;
DELETE FROM voucher WHERE code LIKE 'GIFT-%';
DROP TABLE shop_order;
SELECT * FROM voucher_violations();

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
INSERT INTO shop_order VALUES ('order-4', 44, 90000, 0);
UPDATE shop_order SET discount = v.discount_amount
FROM voucher_reserve('flash100', 44, 'order-4', 90000) AS v
WHERE id = 'order-4' AND v.result IN ('RESERVED', 'DUPLICATE')
RETURNING id, amount, discount;
COMMIT;

-- Many at once
SELECT o.order_id, r.result, r.discount_amount
FROM unnest('{51,52,51}'::bigint[], '{o-51,o-52,o-53}'::text[], '{1000,2000,3000}'::bigint[])
	 AS o(customer_id, order_id, amount),
	 voucher_reserve('flash100', o.customer_id, o.order_id, o.amount) AS r;

-- Administration
INSERT INTO voucher (code, discount_percent, max_discount_amount, min_order_amount, per_user_limit)
VALUES ('TEN-PERCENT', 10, 50000, 20000, NULL);
UPDATE voucher SET total_limit = 2000 WHERE code = 'FLASH100';
\set VERBOSITY terse
UPDATE voucher SET total_limit = 1 WHERE code = 'FLASH100';
\set VERBOSITY default
UPDATE voucher SET enabled = false WHERE code = 'FLASH100';
DELETE FROM voucher WHERE code = 'FLASH100';

-- Privileges
CREATE ROLE regress_voucher_shop;
GRANT USAGE ON SCHEMA public TO regress_voucher_shop;
GRANT EXECUTE ON FUNCTION voucher_reserve, voucher_confirm, voucher_release TO regress_voucher_shop;
GRANT SELECT (code, discount_amount, discount_percent, max_discount_amount, min_order_amount,
			  starts_at, ends_at, enabled) ON voucher TO regress_voucher_shop;
SET ROLE regress_voucher_shop;
SELECT code, discount_percent, result
FROM voucher, voucher_reserve(code, 45, 'order-5', 90000) WHERE code = 'TEN-PERCENT';
RESET ROLE;
DROP OWNED BY regress_voucher_shop;
DROP ROLE regress_voucher_shop;
DROP TABLE shop_order;
SELECT * FROM voucher_violations();

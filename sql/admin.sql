-- For the administrator: limits and status
SET client_min_messages = warning;
INSERT INTO voucher (code, discount_amount, total_limit, per_user_limit) VALUES ('LIMIT', 5, 3, 1);
SELECT result FROM generate_series(1, 3) AS n, voucher_reserve('limit', n, 'L-' || n, 10);
SELECT voucher_set_limit(' limit', 4);
SELECT result FROM voucher_reserve('limit', 4, 'L-4', 10);
SELECT result FROM voucher_reserve('limit', 5, 'L-5', 10);
SELECT complain($$SELECT voucher_set_limit('limit', 3)$$);
SELECT voucher_set_limit('limit', 4);
SELECT voucher_set_limit('limit', NULL);
SELECT result FROM voucher_reserve('limit', 5, 'L-5', 10);
SELECT complain($$SELECT voucher_set_limit('limit', 4)$$);
SELECT result FROM voucher_release('limit', 'L-5');
SELECT voucher_set_limit('limit', 4);
SELECT total_limit, used_count FROM voucher WHERE code = 'LIMIT';
INSERT INTO voucher (code, discount_amount) VALUES ('ZERO', 5);
SELECT voucher_set_limit('zero', 0);
SELECT result FROM voucher_reserve('zero', 1, 'L-Z', 10);
SELECT voucher_set_limit('zero', 9223372036854775807);
SELECT total_limit FROM voucher WHERE code = 'ZERO';
SELECT complain($$SELECT voucher_set_limit('none', 4)$$);
SELECT complain($$SELECT voucher_set_limit('limit', -1)$$);
SELECT complain($$SELECT voucher_set_limit(NULL, 1)$$);
BEGIN READ ONLY;
SELECT complain($$SELECT voucher_set_limit('limit', 4)$$);
ROLLBACK;

-- status
SELECT result FROM voucher_confirm('limit', 'L-1');
SELECT code, state, total_limit, reserved, confirmed, remaining, per_user_limit, flash
FROM voucher_status WHERE code IN ('LIMIT', 'ZERO', 'OFF', 'EARLY', 'LATE', 'SMALL') ORDER BY code;
SELECT result FROM voucher_release('limit', 'L-2');
SELECT state, reserved, confirmed, remaining FROM voucher_status WHERE code = 'LIMIT';
-- flash uses, which have slots, count as well
BEGIN;
UPDATE voucher SET flash_quota = 1 WHERE code = 'LIMIT';
SELECT complain($$SELECT voucher_set_limit('limit', 3)$$);
INSERT INTO voucher_slot VALUES ('LIMIT', 1);
SELECT state, reserved, confirmed, remaining, flash FROM voucher_status WHERE code = 'LIMIT';
INSERT INTO voucher_redemption (voucher_code, customer_id, order_id, status, order_amount, discount_amount, use_no, slot_no, expires_at)
VALUES ('LIMIT', 9, 'L-9', 'RESERVED', 10, 5, 1, 1, now());
SELECT state, reserved, confirmed, remaining, flash FROM voucher_status WHERE code = 'LIMIT';
ROLLBACK;

-- cheap for one code among many: every part is found by index
CREATE FUNCTION scans(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'Scan' THEN RETURN NEXT substring(line FROM '\w.*'); END IF;
	END LOOP;
END
$$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT scans($$SELECT * FROM voucher_status WHERE code = 'LIMIT'$$);
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP FUNCTION scans(text);
SELECT * FROM voucher_violations();

-- many vouchers at once
INSERT INTO voucher (code, discount_percent, max_discount_amount, min_order_amount, total_limit, per_user_limit,
	hold_time, starts_at, ends_at, enabled)
VALUES ('TEMPLATE', 12.5, 77, 33, 4, 2, '7 min', '2030-01-01', '2031-01-01', false);
CREATE TABLE made AS SELECT * FROM voucher_generate(1000, ' template', 'gift-', 8) AS code;
SELECT count(*), count(DISTINCT code), bool_and(code ~ '^GIFT-[34679ACDEFGHJKMNPQRTUVWXY]{8}$') AS form FROM made;
-- every term of the template (B102)
SELECT count(*), (to_jsonb(v) - 'code' - 'created_at') = (SELECT to_jsonb(t) - 'code' - 'created_at' FROM voucher AS t WHERE t.code = 'TEMPLATE') AS alike
FROM voucher AS v JOIN made USING (code) GROUP BY 2;
-- as near to full as is allowed: exactly that many, beside those that exist
SELECT count(DISTINCT code) FROM voucher_generate(300, 'template', 'n', 2) AS code;
SELECT count(DISTINCT code) FROM voucher_generate(200, 'template', 'n', 2) AS code;
SELECT count(*) FROM voucher WHERE code ~ '^N..$';
SELECT complain($$SELECT voucher_generate(300, 'template', 'n', 2)$$);
SELECT count(*) FROM voucher WHERE code ~ '^N..$';
-- each symbol about as often as any other: within 5.5 standard deviations, where
-- it would be seven if the last bytes made six symbols a tenth likelier
SELECT count(*) AS symbols, max(abs(n - 200000.0 / 25)) < 5.5 * sqrt(200000 * 0.04 * 0.96) AS uniform
FROM (SELECT symbol, count(*) AS n FROM voucher_generate(20000, 'template', 'u', 10) AS code,
	regexp_split_to_table(substr(code, 2), '') AS symbol GROUP BY 1) AS t;
SELECT complain($$SELECT voucher_generate(100, 'none', '', 8)$$);
SELECT complain($$SELECT voucher_generate(13, 'template', 'x', 1)$$);
SELECT complain($$SELECT voucher_generate(1000000, 'template', 'x', 4)$$);
SELECT complain($$SELECT voucher_generate(0, 'template', 'x', 4)$$);
SELECT complain($$SELECT voucher_generate(1, 'template', 'x', 0)$$);
SELECT complain($$SELECT voucher_generate(1, 'template', 'x', 32)$$);
SELECT complain($$SELECT voucher_generate(1, 'template', 'a b', 8)$$);
SELECT complain($$SELECT voucher_generate(NULL, 'template', '', 8)$$);
SELECT complain($$SELECT voucher_generate(1, NULL, '', 8)$$);
SELECT complain($$SELECT voucher_generate(1, 'template', NULL, 8)$$);
SELECT complain($$SELECT voucher_generate(1, 'template', '', NULL)$$);
BEGIN READ ONLY;
SELECT complain($$SELECT voucher_generate(1, 'template', '', 8)$$);
ROLLBACK;
SELECT count(*) FROM voucher WHERE code LIKE 'X%';
DROP TABLE made;
DELETE FROM voucher WHERE code LIKE 'GIFT-%' OR code LIKE 'N__' OR code LIKE 'U%';

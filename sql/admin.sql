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

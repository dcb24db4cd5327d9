-- Flash sales: uses that are slots
SET client_min_messages = warning;
INSERT INTO voucher (code, discount_amount, total_limit, per_user_limit)
VALUES ('FLASH', 100, 5, 2), ('PART', 100, 5, NULL), ('ENDLESS', 100, NULL, 1);
CREATE VIEW counters AS
SELECT v.code, v.flash, v.total_limit AS limit, v.used_count AS used, v.flash_quota AS quota,
	   (SELECT count(*) FROM voucher_slot AS s WHERE s.voucher_code = v.code) AS slots,
	   (SELECT count(*) FROM voucher_redemption AS r WHERE r.voucher_code = v.code AND r.slot_no IS NOT NULL) AS taken
FROM voucher AS v WHERE v.code IN ('FLASH', 'PART', 'ENDLESS') ORDER BY v.code COLLATE "C";
CREATE FUNCTION lapse(orders text) RETURNS void LANGUAGE sql AS $$
	UPDATE voucher_redemption AS r SET expires_at = clock_timestamp() - interval '1 s'
	WHERE r.order_id SIMILAR TO orders AND r.status = 'RESERVED'
$$;

-- what is in use stays as it is, the rest become slots
SELECT result FROM voucher_reserve('flash', 1, 'F-1', 500);
SELECT voucher_flash_open(' flash');
TABLE counters;
SELECT complain($$SELECT voucher_flash_open('flash')$$);

-- a use is a slot, and the voucher row is left alone
SELECT result, discount_amount, detail FROM voucher_reserve('flash', 1, 'F-2', 500);
SELECT result, discount_amount, detail FROM voucher_reserve('flash', 1, 'F-2', 500);
SELECT said(voucher_reserve('flash', 1, 'F-2', 501));
SELECT said(voucher_reserve('flash', 1, 'F-3', 500));
SELECT said(voucher_check('flash', 1, 500)), said(voucher_check('flash', 2, 500));
SELECT result FROM voucher_redeem('flash', 2, 'F-4', 500);
SELECT result FROM voucher_reserve('flash', 3, 'F-5', 500);
SELECT result FROM voucher_reserve('flash', 4, 'F-6', 500);
SELECT said(voucher_reserve('flash', 5, 'F-7', 500)), said(voucher_check('flash', 5, 500));
TABLE counters;
SELECT state, reserved, confirmed, remaining, flash FROM voucher_status WHERE code = 'FLASH';
SELECT * FROM voucher_reconcile('flash') \gx

-- all that can become of one
SELECT result FROM voucher_confirm('flash', 'F-2');
SELECT result FROM voucher_extend('flash', 'F-5');
SELECT result, detail FROM voucher_release('flash', 'F-5');
SELECT result, detail FROM voucher_release('flash', 'F-5');
SELECT result FROM voucher_refund('flash', 'F-4');
TABLE counters;
SELECT result FROM voucher_reserve('flash', 6, 'F-8', 500);
SELECT result FROM voucher_reserve('flash', 7, 'F-9', 500);
SELECT said(voucher_reserve('flash', 8, 'F-10', 500));
-- the one that is no slot comes back, and is taken the ordinary way
SELECT result FROM voucher_release('flash', 'F-1');
TABLE counters;
SELECT said(voucher_check('flash', 8, 500));
SELECT result FROM voucher_reserve('flash', 8, 'F-10', 500);
SELECT said(voucher_reserve('flash', 9, 'F-11', 500));
TABLE counters;

-- a lapsed hold: a slot, and one that is none
SELECT lapse('F-(8|10)');
SELECT said(voucher_check('flash', 9, 500));
SELECT result FROM voucher_reserve('flash', 9, 'F-11', 500);
SELECT result FROM voucher_reserve('flash', 10, 'F-12', 500);
SELECT said(voucher_reserve('flash', 11, 'F-13', 500));
TABLE counters;
SELECT lapse('F-%');
SELECT * FROM voucher_run_worker();
TABLE counters;
-- the customer's own
SELECT result FROM voucher_reserve('flash', 1, 'F-14', 500);
SELECT said(voucher_reserve('flash', 1, 'F-15', 500));
SELECT lapse('F-14');
SELECT said(voucher_check('flash', 1, 500));
SELECT result FROM voucher_reserve('flash', 1, 'F-15', 500);
SELECT order_id, status, release_reason, slot_no IS NOT NULL AS slot FROM voucher_redemption
WHERE voucher_code = 'FLASH' ORDER BY id;

-- terms
UPDATE voucher SET enabled = false WHERE code = 'FLASH';
SELECT said(voucher_reserve('flash', 11, 'F-16', 500));
UPDATE voucher SET enabled = true, min_order_amount = 400, ends_at = now() - interval '1 s', starts_at = now() - interval '1 h' WHERE code = 'FLASH';
SELECT said(voucher_reserve('flash', 11, 'F-16', 500));
UPDATE voucher SET ends_at = 'infinity' WHERE code = 'FLASH';
SELECT said(voucher_reserve('flash', 11, 'F-16', 399));
SELECT result FROM voucher_reserve('flash', 11, 'F-16', 400);

-- undone
BEGIN;
SAVEPOINT a;
SELECT result FROM voucher_reserve('flash', 12, 'F-17', 500);
ROLLBACK TO a;
SELECT result FROM voucher_reserve('flash', 12, 'F-17', 500);
ROLLBACK;
TABLE counters;
BEGIN;
SELECT result FROM voucher_reserve('flash', 12, 'F-17', 500);
SELECT result FROM voucher_release('flash', 'F-17');
SELECT result FROM voucher_reserve('flash', 12, 'F-17', 500);
SELECT result FROM voucher_release('flash', 'F-17');
COMMIT;
TABLE counters;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT result FROM voucher_reserve('flash', 12, 'F-17', 500);
SELECT result FROM voucher_release('flash', 'F-17');
COMMIT;
BEGIN READ ONLY;
SELECT complain($$SELECT voucher_reserve('flash', 12, 'F-17', 500)$$);
SELECT complain($$SELECT voucher_flash_open('part')$$);
SELECT complain($$SELECT voucher_flash_close('flash')$$);
ROLLBACK;
-- a cursor that runs the call twice, and a thousand calls in one statement (P53)
SELECT voucher_set_limit('part', 1500), voucher_flash_open('part');
BEGIN;
DECLARE twice CURSOR WITH HOLD FOR
SELECT result FROM generate_series(1, 2) AS n, LATERAL voucher_reserve('part', n, 'T-' || n, 500 + 0 * n);
FETCH 1 FROM twice;
COMMIT;
FETCH ALL FROM twice;
CLOSE twice;
SELECT result, count(*), count(DISTINCT o.order_id) FROM (SELECT n, 'B-' || n, 500 FROM generate_series(1, 1600) AS n)
	AS o(customer_id, order_id, amount), voucher_reserve('PART', o.customer_id, o.order_id, o.amount) AS r GROUP BY 1 ORDER BY 1;
SELECT count(*), count(DISTINCT slot_no) FROM voucher_redemption WHERE voucher_code = 'PART' AND status = 'RESERVED';
SELECT count(r) FROM generate_series(1, 1600) AS n, voucher_release('part', 'B-' || n) AS r WHERE result = 'RELEASED';
SELECT count(voucher_release('part', 'T-' || n)) FROM generate_series(1, 2) AS n;
SELECT voucher_flash_close('part'), voucher_set_limit('part', 5);
-- nothing would tie a use to its slot
SET session_replication_role = replica;
SELECT complain($$SELECT voucher_reserve('flash', 12, 'F-17', 500)$$);
SET session_replication_role = origin;

-- the limit: new uses are slots, free slots go, the others do not
SELECT voucher_set_limit('flash', 7);
TABLE counters;
SELECT voucher_set_limit('flash', 3);
SELECT complain($$SELECT voucher_set_limit('flash', 2)$$);
TABLE counters;
SELECT said(voucher_reserve('flash', 12, 'F-17', 500));
SELECT voucher_set_limit('flash', NULL);
SELECT result FROM voucher_reserve('flash', 12, 'F-17', 500);
SELECT voucher_set_limit('flash', 5);
TABLE counters;
SELECT result FROM voucher_release('flash', 'F-17');

-- slots have numbers
SELECT count(DISTINCT r.slot_no), bool_and(s.slot_no IS NOT NULL) AS slots
FROM voucher_redemption AS r LEFT JOIN voucher_slot AS s USING (voucher_code, slot_no)
WHERE r.voucher_code = 'FLASH' AND r.status <> 'RELEASED';

-- closed: its uses are ordinary ones again
SELECT voucher_flash_close('flash');
TABLE counters;
SELECT voucher_flash_close('flash');
SELECT state, reserved, confirmed, remaining, flash FROM voucher_status WHERE code = 'FLASH';
SELECT result FROM voucher_release('flash', 'F-15');
SELECT result FROM voucher_release('flash', 'F-16');
SELECT result, detail FROM voucher_confirm('flash', 'F-2');
TABLE counters;
SELECT voucher_flash_open('flash', 1);
SELECT voucher_flash_close('flash');
TABLE counters;

-- a part of it
SELECT complain($$SELECT voucher_flash_open('part', 6)$$);
SELECT complain($$SELECT voucher_flash_open('part', 0)$$);
SELECT complain($$SELECT voucher_flash_open('part', -1)$$);
SELECT complain($$SELECT voucher_flash_open('none')$$);
SELECT complain($$SELECT voucher_flash_open(NULL)$$);
SELECT complain($$SELECT voucher_flash_close('none')$$);
SELECT complain($$SELECT voucher_flash_close(NULL)$$);
SELECT voucher_flash_open('part', 2);
SELECT result, count(*) FROM generate_series(1, 6) AS n, voucher_reserve('part', 7, 'P-' || n, 500) GROUP BY 1 ORDER BY 1;
TABLE counters;
SELECT voucher_set_limit('part', 6);
TABLE counters;
SELECT count(voucher_release('part', 'P-' || n)) FROM generate_series(1, 6) AS n;
-- what is ordinary goes first when the limit is lowered
SELECT voucher_set_limit('part', 3);
TABLE counters;
SELECT voucher_set_limit('part', 1);
TABLE counters;
SELECT voucher_set_limit('part', 0);
SELECT said(voucher_reserve('part', 7, 'P-7', 500));
SELECT voucher_flash_close('part');
TABLE counters;
SELECT voucher_flash_open('part');
SELECT voucher_flash_close('part');

-- without a limit
SELECT complain($$SELECT voucher_flash_open('endless')$$);
SELECT voucher_flash_open('endless', 2);
SELECT result, count(*) FROM generate_series(1, 4) AS n, voucher_reserve('endless', n, 'E-' || n, 500) GROUP BY 1;
TABLE counters;
SELECT voucher_set_limit('endless', 5);
SELECT result FROM voucher_reserve('endless', 5, 'E-5', 500);
SELECT said(voucher_reserve('endless', 6, 'E-6', 500));
TABLE counters;

-- more than there can be
UPDATE voucher SET total_limit = 3000000000 WHERE code = 'PART';
SELECT complain($$SELECT voucher_flash_open('part')$$);
SELECT voucher_flash_open('part', 3);
SELECT complain($$SELECT voucher_set_limit('part', 6000000000)$$);
SELECT voucher_set_limit('part', NULL);
SELECT voucher_flash_close('part');

-- a voucher that has slots, one that was generated from it, and one that is purged
SELECT complain($$DELETE FROM voucher WHERE code = 'ENDLESS'$$);
SELECT count(voucher_generate(2, 'endless', 'FLASH-', 4));
SELECT count(*), bool_or(flash) AS flash, sum(flash_quota) AS quota FROM voucher WHERE code LIKE 'FLASH-%';
DELETE FROM voucher WHERE code LIKE 'FLASH-%';
SELECT result FROM voucher_confirm('endless', 'E-1');
UPDATE voucher SET starts_at = '2020-01-01', ends_at = now() WHERE code = 'ENDLESS';
SELECT voucher_purge('0') > 0 AS purged;
SELECT status, count(*), count(slot_no) AS slots FROM voucher_redemption WHERE voucher_code = 'ENDLESS' GROUP BY 1 ORDER BY 1;

SELECT * FROM voucher_violations();
DROP VIEW counters;
DROP FUNCTION lapse(text);
SELECT voucher_flash_close('endless');
DELETE FROM voucher_redemption WHERE voucher_code IN ('FLASH', 'PART', 'ENDLESS');
DELETE FROM voucher WHERE code IN ('FLASH', 'PART', 'ENDLESS');

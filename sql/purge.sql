-- Deleting old history
SET client_min_messages = warning;
SELECT voucher_purge('0') > 0 AS what_came_before;
INSERT INTO voucher (code, discount_amount, total_limit, per_user_limit)
VALUES ('RUNNING', 5, 9, 2), ('OVER', 5, 9, 2);
-- four orders each: confirmed, refunded or released, still held
SELECT code, redeem.result, again.result, refund.result, hold.result, release.result, held.result
FROM unnest(ARRAY['RUNNING', 'OVER']) AS code,
	voucher_redeem(code, 1, code || '-1', 10) AS redeem,
	voucher_redeem(code, 2, code || '-2', 10) AS again,
	voucher_refund(code, code || '-2') AS refund,
	voucher_reserve(code, 2, code || '-3', 10) AS hold,
	voucher_release(code, code || '-3') AS release,
	voucher_reserve(code, 3, code || '-4', 10) AS held;
CREATE VIEW history AS
SELECT r.order_id, r.status, r.release_reason FROM voucher_redemption AS r
WHERE r.voucher_code IN ('RUNNING', 'OVER') ORDER BY r.order_id COLLATE "C", r.id;
CREATE VIEW counters AS
SELECT v.code, v.used_count, v.purged_count, s.reserved, s.confirmed, s.remaining
FROM voucher AS v JOIN voucher_status AS s USING (code)
WHERE v.code IN ('RUNNING', 'OVER') ORDER BY v.code COLLATE "C";

-- nothing is old enough
SELECT voucher_purge('1 day');
SELECT voucher_purge('1000 years');
TABLE counters;
-- released rows are history at once
SELECT voucher_purge('0', 1) AS a_batch_of_one;
SELECT voucher_purge('0', 100) AS the_others;
SELECT voucher_purge('0') AS nothing_is_left;
TABLE history;
TABLE counters;
-- a confirmed use of a running voucher counts for its customer, however old
UPDATE voucher_redemption SET confirmed_at = now() - interval '2 years' WHERE status = 'CONFIRMED';
SELECT voucher_purge('1 year');
SELECT result FROM voucher_redeem('running', 1, 'RUNNING-5', 10);
SELECT result FROM voucher_check('running', 1, 10);
-- so does one of a voucher that is only disabled or used up
UPDATE voucher SET enabled = false WHERE code = 'RUNNING';
SELECT voucher_purge('0');
UPDATE voucher SET enabled = true WHERE code = 'RUNNING';
-- once the voucher has ended it goes, unless it is too young; what is held stays
UPDATE voucher SET starts_at = now() - interval '3 years', ends_at = now() WHERE code = 'OVER';
SELECT result FROM voucher_confirm('over', 'OVER-4');
SELECT voucher_purge('1 year');
SELECT voucher_purge('1 year');
TABLE history;
TABLE counters;
SELECT * FROM voucher_violations();
-- what is purged is unknown, what is not is as before
SELECT result FROM voucher_confirm('over', 'OVER-1');
SELECT result FROM voucher_refund('over', 'OVER-1');
SELECT result FROM voucher_release('over', 'OVER-2');
SELECT result, detail FROM voucher_reserve('over', 1, 'OVER-1', 10);
SELECT result, detail FROM voucher_confirm('over', 'OVER-4');
SELECT result FROM voucher_refund('over', 'OVER-4');
-- the limit of the voucher still counts what was purged
SELECT complain($$SELECT voucher_set_limit('over', 0)$$);
SELECT voucher_set_limit('over', 1);
\set VERBOSITY terse
UPDATE voucher SET used_count = 0 WHERE code = 'OVER';
\set VERBOSITY default
UPDATE voucher SET ends_at = 'infinity' WHERE code = 'OVER';
SELECT result FROM voucher_reserve('over', 7, 'OVER-7', 10);
-- a flash use keeps its slot, and its row
BEGIN;
UPDATE voucher SET flash_quota = 1, total_limit = 3, ends_at = now() WHERE code = 'OVER';
INSERT INTO voucher_slot VALUES ('OVER', 1);
INSERT INTO voucher_redemption (voucher_code, customer_id, order_id, status, order_amount, discount_amount, use_no, slot_no, expires_at, confirmed_at)
VALUES ('OVER', 9, 'OVER-9', 'CONFIRMED', 10, 5, 1, 1, now(), now() - interval '2 years');
SELECT voucher_purge('1 year');
SELECT status, slot_no FROM voucher_redemption WHERE order_id = 'OVER-9';
ROLLBACK;
-- a voucher without rows can be deleted
UPDATE voucher SET ends_at = now() WHERE code = 'OVER';
SELECT voucher_purge('0') AS the_refund_of_order_4;
TABLE counters;
DELETE FROM voucher WHERE code = 'OVER';
SELECT count(*) FROM voucher WHERE code = 'OVER';

-- a batch may be of both kinds, and is never larger
INSERT INTO voucher (code, discount_amount) VALUES ('OVER', 5);
SELECT count(voucher_redeem('over', n, 'K-' || n, 10)) FROM generate_series(1, 5) AS n;
SELECT result FROM voucher_refund('over', 'K-5');
UPDATE voucher SET starts_at = now() - interval '3 years', ends_at = now() WHERE code = 'OVER';
SELECT voucher_purge('0', 3) AS three, voucher_purge('0', 3) AS two, voucher_purge('0', 3) AS none;
TABLE counters;
-- a counter that was changed by hand stops nobody from cancelling
UPDATE voucher SET ends_at = 'infinity' WHERE code = 'OVER';
SELECT result FROM voucher_reserve('over', 9, 'K-9', 10);
UPDATE voucher SET used_count = purged_count WHERE code = 'OVER';
SELECT result FROM voucher_release('over', 'K-9');
TABLE counters;
DELETE FROM voucher_redemption WHERE voucher_code = 'OVER';
DELETE FROM voucher WHERE code = 'OVER';

-- undone with the transaction
SELECT result FROM voucher_release('running', 'RUNNING-4');
BEGIN;
SELECT voucher_purge('0');
ROLLBACK;
SELECT voucher_purge('0');

-- every batch of its own, as README has it
SELECT count(result) FROM generate_series(1, 20) AS n, voucher_reserve('running', 100 + n % 4, 'B-' || n, 10);
SELECT count(result) FROM generate_series(1, 20) AS n, voucher_release('running', 'B-' || n);
DO $$
BEGIN
	WHILE voucher_purge('0', 2) > 0 LOOP
		COMMIT;
	END LOOP;
END
$$;
TABLE history;
SELECT * FROM voucher_violations();

-- arguments
SELECT complain($$SELECT voucher_purge(NULL)$$);
SELECT complain($$SELECT voucher_purge('-1 second')$$);
SELECT complain($$SELECT voucher_purge('-12 months 361 days')$$);
SELECT complain($$SELECT voucher_purge('1 day -1 second')$$);
SELECT complain($$SELECT voucher_purge('1000 years 1 second')$$);
SELECT complain($$SELECT voucher_purge('1 day', NULL)$$);
SELECT complain($$SELECT voucher_purge('1 day', 0)$$);
SELECT complain($$SELECT voucher_purge('1 day', 100001)$$);
BEGIN READ ONLY;
SELECT complain($$SELECT voucher_purge('1 day')$$);
ROLLBACK;

DROP VIEW history, counters;
DELETE FROM voucher_redemption WHERE voucher_code = 'RUNNING';
DELETE FROM voucher WHERE code = 'RUNNING';

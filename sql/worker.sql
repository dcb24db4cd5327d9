-- A round of the worker, what it notices, and the repair of a counter
SET client_min_messages = warning;
-- settle what came before
SELECT expired >= 0 AS expired, drifting FROM voucher_run_worker();
INSERT INTO voucher (code, discount_amount, total_limit, per_user_limit)
VALUES ('HELD', 5, 4, 2), ('HELD-2', 5, NULL, NULL);
CREATE VIEW uses AS
SELECT r.voucher_code, r.order_id, r.status, r.release_reason FROM voucher_redemption AS r
WHERE r.voucher_code LIKE 'HELD%' ORDER BY r.order_id COLLATE "C", r.id;
CREATE VIEW counters AS
SELECT v.code, v.used_count FROM voucher AS v WHERE v.code LIKE 'HELD%' ORDER BY v.code COLLATE "C";
CREATE VIEW incidents AS
SELECT i.kind, i.voucher_code, r.order_id, i.detail, round(extract(epoch FROM i.retry_at - i.seen_at)) AS retry, i.logged_at IS NOT NULL AS logged
FROM voucher_incident AS i LEFT JOIN voucher_redemption AS r ON r.id = i.redemption_id
ORDER BY i.kind, i.voucher_code COLLATE "C", r.order_id COLLATE "C";
CREATE FUNCTION lapse(orders text) RETURNS void LANGUAGE sql AS $$
	UPDATE voucher_redemption AS r SET expires_at = clock_timestamp() - interval '1 s'
	WHERE r.order_id SIMILAR TO orders
$$;

-- what has lapsed comes back, with its customer's share; what has not, and what
-- is confirmed, stays
SELECT result FROM voucher_reserve('held', 1, 'W-1', 10);
SELECT result FROM voucher_reserve('held', 1, 'W-2', 10);
SELECT result FROM voucher_reserve('held', 2, 'W-3', 10);
SELECT result FROM voucher_redeem('held', 3, 'W-4', 10);
SELECT result FROM voucher_reserve('held-2', 1, 'W-5', 10);
SELECT said(voucher_reserve('held', 4, 'W-6', 10));
SELECT lapse('W-(1|2|5)');
SELECT * FROM voucher_run_worker();
TABLE uses;
TABLE counters;
SELECT * FROM voucher_run_worker();
TABLE incidents;

-- an order whose hold came back
SELECT said(voucher_confirm('held', 'W-1'));
SELECT said(voucher_release('held', 'W-1'));
SELECT said(voucher_refund('held', 'W-1'));
SELECT said(voucher_extend('held', 'W-1'));
SELECT complain($$SELECT voucher_confirm_or_raise('held', 'W-1')$$);
SELECT result FROM voucher_reserve('held', 1, 'W-1', 10);
SELECT result FROM voucher_reserve('held', 1, 'W-2', 10);
SELECT said(voucher_reserve('held', 4, 'W-6', 10));

-- undone with the transaction
BEGIN;
SELECT lapse('W-(1|2)');
SELECT * FROM voucher_run_worker();
ROLLBACK;
SELECT * FROM voucher_run_worker();
BEGIN READ ONLY;
SELECT complain($$SELECT voucher_run_worker()$$);
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT lapse('W-1');
SELECT * FROM voucher_run_worker();
COMMIT;
SELECT result FROM voucher_reserve('held', 1, 'W-1', 10);

-- counters and rows, compared
SELECT * FROM voucher_reconcile('held') \gx
SELECT code, used_count, ordinary_live, drift FROM voucher_reconcile() WHERE code LIKE 'HELD%';
SELECT count(*) = (SELECT count(*) FROM voucher) AS every_voucher, bool_or(drift) AS any FROM voucher_reconcile();
SELECT complain($$SELECT voucher_reconcile('none')$$);
SELECT complain($$SELECT voucher_reconcile('he ld')$$);
SELECT complain($$SELECT voucher_repair('none')$$);
SELECT complain($$SELECT voucher_repair(NULL)$$);
SELECT voucher_repair('held') AS correction;

-- drift: reported once two looks agree, and once again when it changes
UPDATE voucher SET used_count = used_count - 1 WHERE code = 'HELD';
SELECT code, used_count, ordinary_live, drift FROM voucher_reconcile('held');
SET client_min_messages = log;
SELECT * FROM voucher_run_worker();
TABLE incidents;
SELECT * FROM voucher_run_worker();
TABLE incidents;
SELECT * FROM voucher_run_worker();
UPDATE voucher SET used_count = used_count - 1 WHERE code = 'HELD';
SELECT * FROM voucher_run_worker();
SELECT * FROM voucher_run_worker();
SELECT * FROM voucher_run_worker();
-- a use that comes and goes changes nothing about it
SELECT result FROM voucher_release('held', 'W-3');
SELECT * FROM voucher_run_worker();
SELECT voucher_repair('held') AS correction;
TABLE counters;
TABLE incidents;
SELECT * FROM voucher_run_worker();
SELECT voucher_set_limit('held', 5);
-- of two vouchers, each has its line; what agrees again is forgotten
UPDATE voucher SET used_count = used_count + 1 WHERE code LIKE 'HELD%';
SELECT * FROM voucher_run_worker();
SELECT * FROM voucher_run_worker();
UPDATE voucher SET used_count = used_count - 1 WHERE code = 'HELD';
SELECT * FROM voucher_run_worker();
TABLE incidents;
SELECT voucher_repair('held-2') AS correction;
-- more than five at a time are counted only
INSERT INTO voucher (code, discount_amount, used_count) SELECT 'HELD-' || n, 5, 1 FROM generate_series(10, 21) AS n;
SELECT * FROM voucher_run_worker();
SELECT * FROM voucher_run_worker();
SELECT * FROM voucher_run_worker();
SELECT count(*), bool_and(i.detail = 'used_count +1' AND i.logged_at IS NOT NULL) AS alike FROM voucher_incident AS i;
SELECT sum(voucher_repair(code)) FROM voucher WHERE code LIKE 'HELD-__';
SET client_min_messages = warning;

-- uses above the limit: not for a machine to decide
BEGIN;
INSERT INTO voucher_redemption (voucher_code, customer_id, order_id, status, order_amount, discount_amount, use_no, expires_at, confirmed_at)
SELECT 'HELD', 5, 'W-1' || n, 'CONFIRMED', 10, 5, n, now(), now() FROM generate_series(1, 4) AS n;
SELECT code, used_count, ordinary_live, customers_over_limit, drift FROM voucher_reconcile('held');
SELECT complain($$SELECT voucher_repair('held')$$);
SELECT voucher_set_limit('held', NULL), voucher_repair('held') AS correction;
SELECT code, used_count, ordinary_live, customers_over_limit, drift FROM voucher_reconcile('held');
ROLLBACK;

-- redemptions without a voucher
BEGIN;
SET LOCAL session_replication_role = replica;
DELETE FROM voucher WHERE code = 'HELD';
SET LOCAL session_replication_role = origin;
SET LOCAL client_min_messages = log;
SELECT code, used_count, ordinary_live, orphans, drift FROM voucher_reconcile('held');
SELECT code, used_count, ordinary_live, orphans, drift FROM voucher_reconcile() WHERE drift;
SELECT * FROM voucher_run_worker();
SELECT * FROM voucher_run_worker();
SELECT complain($$SELECT voucher_repair('held')$$);
-- its holds lapse like any other
SELECT lapse('W-(1|2)');
SELECT * FROM voucher_run_worker();
-- and when they are gone, so is the incident
DELETE FROM voucher_redemption WHERE voucher_code = 'HELD';
SELECT * FROM voucher_run_worker();
TABLE incidents;
ROLLBACK;

-- a counter that covers one of three holds
SELECT count(voucher_reserve('held-2', n, 'W-2' || n, 10)) FROM generate_series(1, 3) AS n;
UPDATE voucher SET used_count = 1 WHERE code = 'HELD-2';
SELECT lapse('W-2_');
SELECT * FROM voucher_run_worker();
TABLE counters;
SELECT * FROM voucher_run_worker();

-- a hold that cannot be given back is set aside; the others are not kept waiting
SELECT count(voucher_reserve('held-2', n, 'W-3' || n, 10)) FROM generate_series(1, 3) AS n;
CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE 'no such hold, no such % either', current_setting('search_path');
END
$$;
CREATE TRIGGER poison BEFORE UPDATE ON voucher_redemption FOR EACH ROW
WHEN (NEW.order_id = 'W-32' AND NEW.status = 'RELEASED') EXECUTE FUNCTION poison();
SELECT lapse('W-(1|3_)');
SET client_min_messages = log;
\set VERBOSITY terse
SELECT * FROM voucher_run_worker();
TABLE incidents;
SELECT * FROM voucher_run_worker();
SELECT order_id, status FROM uses WHERE status = 'RESERVED';
TABLE counters;
-- and is tried again after ten minutes
UPDATE voucher_incident SET retry_at = clock_timestamp();
SELECT * FROM voucher_run_worker();
SELECT count(*) FROM voucher_incident AS i WHERE i.retry_at > clock_timestamp();
UPDATE voucher_incident SET retry_at = clock_timestamp();
DROP TRIGGER poison ON voucher_redemption;
SELECT * FROM voucher_run_worker();
SELECT * FROM voucher_run_worker();
TABLE incidents;
-- whatever SQLSTATE it is: a trigger that asks another server passes its errors on
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE 'no such hold' USING ERRCODE = TG_ARGV[0];
END
$$;
SELECT count(voucher_reserve('held-2', n, 'W-7' || n, 10)) FROM generate_series(1, 6) AS n;
SELECT format('CREATE TRIGGER fail_%s BEFORE UPDATE ON voucher_redemption FOR EACH ROW
	WHEN (NEW.order_id = %L AND NEW.status = ''RELEASED'') EXECUTE FUNCTION fail(%L)', n, 'W-7' || n, state)
FROM unnest(ARRAY['57014', '25006', '53200', '58030', '55P03']) WITH ORDINALITY AS s(state, n) \gexec
SELECT lapse('W-7_');
SELECT * FROM voucher_run_worker();
SELECT order_id, status FROM uses WHERE status = 'RESERVED';
DROP FUNCTION fail() CASCADE;
UPDATE voucher_incident SET retry_at = clock_timestamp();
SELECT * FROM voucher_run_worker();
TABLE incidents;
-- a voucher that cannot be updated keeps its holds, and no other
SELECT result FROM voucher_reserve('held', 1, 'W-41', 10);
SELECT count(voucher_reserve('held-2', n, 'W-5' || n, 10)) FROM generate_series(1, 2) AS n;
SELECT lapse('W-(41|5_)');
CREATE TRIGGER poison BEFORE UPDATE ON voucher FOR EACH ROW
WHEN (NEW.code = 'HELD-2') EXECUTE FUNCTION poison();
SELECT * FROM voucher_run_worker();
TABLE incidents;
SELECT order_id, status FROM uses WHERE status = 'RESERVED';
DROP TRIGGER poison ON voucher;
DROP FUNCTION poison();
-- its customer need not wait for that
SELECT result FROM voucher_confirm('held-2', 'W-51');
SELECT result FROM voucher_release('held-2', 'W-52');
SELECT * FROM voucher_run_worker();
TABLE incidents;
\set VERBOSITY default
SET client_min_messages = warning;

SELECT * FROM voucher_violations();
DROP VIEW uses, counters, incidents;
DROP FUNCTION lapse(text);
DELETE FROM voucher_redemption WHERE voucher_code LIKE 'HELD%';
DELETE FROM voucher WHERE code LIKE 'HELD%';

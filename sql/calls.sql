-- The life of a use: reserve, confirm, release, and every answer
SET client_min_messages = warning;
INSERT INTO voucher (code, discount_amount, total_limit, per_user_limit) VALUES ('TWO', 100000, 2, 1);
CREATE FUNCTION said(o voucher_outcome) RETURNS text LANGUAGE sql
RETURN concat_ws(' ', (o).result, (o).discount_amount, (o).detail,
	CASE WHEN (o).expires_at IS NULL THEN NULL
		 WHEN (o).expires_at - clock_timestamp() BETWEEN interval '14 min' AND interval '15 min'
		 THEN 'for 15 min' ELSE 'with a wrong deadline' END);

-- reserve
SELECT said(voucher_reserve('two', 1, 'A', 250000));
SELECT said(voucher_reserve(' Two ', 1, 'A', 250000));			-- the same call again
SELECT said(voucher_reserve('two', 1, 'A', 250001));			-- other facts
SELECT said(voucher_reserve('two', 2, 'A', 250000));
SELECT said(voucher_reserve('none', 1, 'A', 250000));
SELECT said(voucher_reserve('two', 1, 'B', 250000));			-- another order of the customer
SELECT said(voucher_reserve('two', 2, 'B', 50000));				-- never more than the amount
SELECT said(voucher_reserve('two', 3, 'C', 250000));
SELECT said(voucher_reserve('none', 3, 'C', 250000));

-- confirm and release
SELECT said(voucher_confirm('two', 'A'));
SELECT said(voucher_confirm('two', 'A'));
SELECT said(voucher_release('two', 'A'));
SELECT said(voucher_reserve('two', 1, 'A', 250000));
SELECT said(voucher_release('two', 'B'));
SELECT said(voucher_release('two', 'B'));
SELECT said(voucher_confirm('two', 'B'));
SELECT said(voucher_confirm('two', 'C'));
SELECT said(voucher_release('none', 'A'));

-- the use is free, and the same order may ask again: a new row
SELECT said(voucher_reserve('two', 2, 'B', 70000));
SELECT order_id, status, order_amount, discount_amount, use_no, release_reason
FROM voucher_redemption ORDER BY id;

-- not eligible, in this order
INSERT INTO voucher (code, discount_percent, min_order_amount, enabled, starts_at, ends_at) VALUES
	('OFF', 10, 500, false, '-infinity', 'infinity'),
	('EARLY', 10, 500, true, now() + interval '1 h', 'infinity'),
	('LATE', 10, 500, true, '-infinity', now() - interval '1 h'),
	('SMALL', 10, 500, true, '-infinity', 'infinity');
SELECT code, said(voucher_reserve(code, 9, 'Z', 499)) FROM voucher WHERE code <> 'TWO' ORDER BY code;
SELECT said(voucher_reserve('small', 9, 'Z', 500));

-- a hold that exists is not touched by what becomes of the voucher
UPDATE voucher SET enabled = false, discount_amount = 1, ends_at = clock_timestamp() WHERE code = 'TWO';
SELECT said(voucher_reserve('two', 2, 'B', 70000));
SELECT said(voucher_confirm('two', 'B'));

-- a lapsed hold is its owner's until it is given back ...
INSERT INTO voucher (code, discount_amount, total_limit, per_user_limit) VALUES ('ONE', 500, 1, 1);
SELECT said(voucher_reserve('one', 1, 'L1', 900));
UPDATE voucher_redemption SET expires_at = now() - interval '1 s' WHERE order_id = 'L1';
SELECT result, detail FROM voucher_reserve('one', 1, 'L1', 900);
-- ... as the next customer's call does, since no worker does it
SELECT said(voucher_reserve('one', 2, 'L2', 900));
SELECT said(voucher_reserve('one', 3, 'L3', 900));
SELECT said(voucher_confirm('one', 'L1'));
SELECT said(voucher_release('one', 'L1'));
SELECT said(voucher_reserve('one', 1, 'L1', 900));
SELECT code, used_count, total_limit FROM voucher WHERE code = 'ONE';

-- several in one statement, each with an answer of its own
SELECT o.order_id, r.result, r.discount_amount
FROM unnest('{1,1,2,3}'::bigint[], '{U1,U2,U3,U4}'::text[], '{500,500,1005,499}'::bigint[]) AS o(customer_id, order_id, amount),
	 voucher_reserve('small', o.customer_id, o.order_id, o.amount) AS r;

-- all of it can be undone
BEGIN;
SAVEPOINT s;
SELECT result FROM voucher_reserve('small', 4, 'S1', 600);
ROLLBACK TO s;
SELECT result FROM voucher_reserve('small', 4, 'S1', 700);
SELECT result FROM voucher_confirm('small', 'S1');
ROLLBACK;
SELECT result FROM voucher_confirm('small', 'S1');

-- how long a hold lasts: the voucher's own time, or the setting
UPDATE voucher SET hold_time = '2 h' WHERE code = 'SMALL';
SELECT expires_at - clock_timestamp() BETWEEN interval '119 min' AND interval '2 h' AS two_hours
FROM voucher_reserve('small', 5, 'H1', 600);
BEGIN;
UPDATE voucher SET hold_time = '1 year -330 days' WHERE code = 'SMALL';
SELECT expires_at - clock_timestamp() BETWEEN interval '29 days 23:59' AND interval '30 days' AS thirty_days
FROM voucher_reserve('small', 7, 'H3', 600);
ROLLBACK;
UPDATE voucher SET hold_time = NULL WHERE code = 'SMALL';
SET voucher.hold_time = '10s';
SELECT expires_at - clock_timestamp() BETWEEN interval '9 s' AND interval '10 s' AS ten_seconds
FROM voucher_reserve('small', 6, 'H2', 600);
RESET voucher.hold_time;

SELECT * FROM voucher_violations();

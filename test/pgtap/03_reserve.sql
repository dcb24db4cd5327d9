-- test/pgtap/03_reserve.sql
-- voucher_reserve: every result, their order, and the fine print.
\unset ECHO
\i test/pgtap/setup.sql
SELECT plan(49);

---------------------------------------------------------------------------
-- RESERVED
---------------------------------------------------------------------------

CALL v('ONE', total => 2, fixed => 30);
CREATE TEMP TABLE first AS SELECT * FROM voucher_reserve('One', 7, 'one-1', 100);

SELECT is(ROW(result, discount_amount, expires_at, detail)::voucher_outcome,
          ROW('RESERVED', 30, (row_of('one-1')).expires_at, NULL)::voucher_outcome,
          'RESERVED carries the discount and the stored deadline, no detail')
  FROM first;
SELECT ok(expires_at BETWEEN now() + interval '15 min' AND clock_timestamp() + interval '15 min',
          'a hold lasts 15 minutes')
  FROM first;
SELECT is(lines($$
    SELECT voucher_code, customer_id, order_id, status, order_amount, discount_amount, use_no, slot_no,
           created_at BETWEEN now() AND clock_timestamp(), confirmed_at, released_at, release_reason
      FROM voucher_redemption WHERE order_id = 'one-1'
$$), ARRAY['(ONE,7,one-1,RESERVED,100,30,1,,t,,,)'], 'RESERVED writes one row, with these facts');
SELECT is(used('ONE'), 1::bigint, 'RESERVED counts one use');

CALL v('HOUR', hold => '1 hour');
CALL v('MAX', hold => '90 days');
CALL v('PLAIN');
SELECT is(current_setting('voucher.hold_time'), '15min', 'voucher.hold_time is 15min by default');
SELECT is(raised(format('SET LOCAL voucher.hold_time = %L', bad)), '22023',
          format('voucher.hold_time = %s is refused', bad))
  FROM unnest(ARRAY['0', '-1', '-1min']) bad;
SET LOCAL voucher.hold_time = '5min';
SELECT r(code, 1, code) FROM unnest(ARRAY['HOUR', 'MAX', 'PLAIN']) code \g /dev/null
SET LOCAL voucher.hold_time TO DEFAULT;
SELECT ok((row_of(code)).expires_at BETWEEN now() + hold AND clock_timestamp() + hold, what)
  FROM (VALUES
    ('HOUR', interval '1 hour', 'hold_time of the voucher decides'),
    ('MAX', interval '90 days', 'hold_time may be 90 days'),
    ('PLAIN', interval '5 min', 'without one, voucher.hold_time decides')
  ) AS t(code, hold, what);

---------------------------------------------------------------------------
-- DUPLICATE and ORDER_MISMATCH
---------------------------------------------------------------------------

CALL v('OTHER');
SELECT written() AS before \gset
SELECT is(voucher_reserve('ONE', 7, 'one-1', 100),
          ROW('DUPLICATE', discount_amount, expires_at, 'RESERVED')::voucher_outcome,
          'DUPLICATE gives the first answer again, detail RESERVED')
  FROM first;
SELECT is(voucher_reserve(code, customer, 'one-1', amount),
          ROW('ORDER_MISMATCH', NULL, NULL, detail)::voucher_outcome,
          format('ORDER_MISMATCH of (%s, %s, %s): %s', code, customer, amount, detail))
  FROM (VALUES
    ('OTHER', 7, 100, 'voucher_code'),
    ('ONE', 8, 100, 'customer_id'),
    ('ONE', 7, 101, 'order_amount'),
    ('OTHER', 8, 101, 'voucher_code'),
    ('OTHER', 8, 100, 'voucher_code'),
    ('ONE', 8, 101, 'customer_id'),
    ('NO-SUCH', 7, 100, 'voucher_code')
  ) AS t(code, customer, amount, detail);
SELECT is(written(), :'before', 'DUPLICATE and ORDER_MISMATCH write nothing');

-- whatever became of the voucher meanwhile
SELECT r('ONE', 8, 'one-2') \g /dev/null
UPDATE voucher SET discount_amount = 1, min_order_amount = 1000, total_limit = 2,
                   starts_at = '-infinity', ends_at = now(), enabled = false
 WHERE code = 'ONE';
SELECT is(voucher_reserve('ONE', 7, 'one-1', 100),
          ROW('DUPLICATE', discount_amount, expires_at, 'RESERVED')::voucher_outcome,
          'a retry gets DUPLICATE though the voucher is disabled, over, re-priced and sold out')
  FROM first;
SELECT is(r('ONE', 9, 'one-1'), 'ORDER_MISMATCH/customer_id', 'and ORDER_MISMATCH comes first, too');
SELECT is(c('ONE', 'one-1'), 'CONFIRMED', 'the order is paid');
SELECT is(voucher_reserve('ONE', 7, 'one-1', 100),
          ROW('DUPLICATE', discount_amount, expires_at, 'CONFIRMED')::voucher_outcome,
          'DUPLICATE of a confirmed order: the original figures, detail CONFIRMED')
  FROM first;
SELECT is(r('ONE', 7, 'one-1', 99), 'ORDER_MISMATCH/order_amount', 'a confirmed order has its facts, too');

CALL v('LAPSED', total => 1);
SELECT is(ARRAY[r('LAPSED', 1, 'lap-1'), lapse('lap-1'), r('LAPSED', 1, 'lap-1')],
          ARRAY['RESERVED', '+16m', 'DUPLICATE/RESERVED'],
          'an own hold never counts against its own retry, not even a lapsed one');
SELECT is(used('LAPSED'), 1::bigint, 'and it is one use');

---------------------------------------------------------------------------
-- Refusals, in their order
---------------------------------------------------------------------------

INSERT INTO voucher (code, discount_amount, total_limit, min_order_amount, enabled, starts_at, ends_at)
VALUES ('DISABLED-EARLY', 10, 0, 1000, false, now() + interval '1 h', 'infinity'),
       ('DISABLED-LATE', 10, 0, 1000, false, '-infinity', now()),
       ('EARLY', 10, 0, 1000, true, now() + interval '1 h', 'infinity'),
       ('LATE', 10, 0, 1000, true, '-infinity', now()),
       ('SMALL', 10, 0, 101, true, '-infinity', 'infinity'),
       ('FULL', 10, 1, 0, true, '-infinity', 'infinity'),
       ('SHUT', 10, 1, 0, true, '-infinity', 'infinity'),
       ('DEAR', 10, 1, 0, true, '-infinity', 'infinity');
SELECT r(code, 1, code) FROM unnest(ARRAY['FULL', 'SHUT', 'DEAR']) code \g /dev/null
UPDATE voucher SET enabled = false WHERE code = 'SHUT';
UPDATE voucher SET min_order_amount = 101 WHERE code = 'DEAR';
SELECT written() AS before \gset
SELECT is(voucher_reserve(code, customer, 'refused', 100),
          ROW(result, NULL, NULL, detail)::voucher_outcome, what)
  FROM (VALUES
    (1, 'NO-SUCH', 1, 'NOT_FOUND', NULL, 'no such voucher'),
    (2, 'DISABLED-EARLY', 1, 'NOT_ELIGIBLE', 'DISABLED', 'disabled before not started'),
    (3, 'DISABLED-LATE', 1, 'NOT_ELIGIBLE', 'DISABLED', 'disabled before ended'),
    (4, 'EARLY', 1, 'NOT_ELIGIBLE', 'NOT_STARTED', 'not started before minimum'),
    (5, 'LATE', 1, 'NOT_ELIGIBLE', 'ENDED', 'ended before minimum'),
    (6, 'SMALL', 1, 'NOT_ELIGIBLE', 'BELOW_MINIMUM', 'minimum before out of stock'),
    (7, 'SHUT', 1, 'NOT_ELIGIBLE', 'DISABLED', 'disabled before already used'),
    (8, 'DEAR', 1, 'NOT_ELIGIBLE', 'BELOW_MINIMUM', 'minimum before already used'),
    (9, 'FULL', 1, 'ALREADY_USED', NULL, 'already used before out of stock'),
    (10, 'FULL', 2, 'OUT_OF_STOCK', NULL, 'out of stock comes last')
  ) AS t(n, code, customer, result, detail, what) ORDER BY n;
SELECT is(written(), :'before', 'refusals write nothing');

---------------------------------------------------------------------------
-- The window: half-open, by the clock at the call
---------------------------------------------------------------------------

INSERT INTO voucher (code, discount_amount, starts_at) VALUES ('OPENS', 10, clock_timestamp());
INSERT INTO voucher (code, discount_amount, starts_at, ends_at)
VALUES ('CLOSES', 10, '-infinity', clock_timestamp());
SELECT is(r('OPENS', 1, 'opens'), 'RESERVED', 'started after BEGIN and before the call: open');
SELECT is(r('CLOSES', 1, 'closes'), 'NOT_ELIGIBLE/ENDED', 'ended after BEGIN and before the call: over');

---------------------------------------------------------------------------
-- Refusals are not sticky, dead holds are history
---------------------------------------------------------------------------

CALL v('AGAIN', total => 0, per => NULL);
SELECT is(r('AGAIN', 1, 'again'), 'OUT_OF_STOCK', 'refused');
UPDATE voucher SET total_limit = 1 WHERE code = 'AGAIN';
SELECT is(r('AGAIN', 1, 'again'), 'RESERVED', 'the same order asks again later and is served');
CALL v('AGAIN2', total => 9);
SELECT is(ARRAY[x('AGAIN', 'again'), r('AGAIN2', 2, 'again', 200)], ARRAY['RELEASED', 'RESERVED'],
          'after release the order may take another voucher, with other facts');
SELECT is(ARRAY[give_back('again', 'EXPIRED'), r('AGAIN2', 2, 'again', 300)], ARRAY['EXPIRED', 'RESERVED'],
          'after expiry it reserves again');
SELECT is(ARRAY[c('AGAIN2', 'again'), give_back('again', 'REFUNDED'), r('AGAIN2', 2, 'again', 400)],
          ARRAY['CONFIRMED', 'REFUNDED', 'RESERVED'], 'after refund it reserves again');
SELECT is(lines($$
    SELECT voucher_code, order_amount, concat_ws('/', status, release_reason)
      FROM voucher_redemption WHERE order_id = 'again' ORDER BY id
$$), ARRAY['(AGAIN,100,RELEASED/RELEASED)', '(AGAIN2,200,RELEASED/EXPIRED)',
           '(AGAIN2,300,RELEASED/REFUNDED)', '(AGAIN2,400,RESERVED)'],
          'each time as a new row; the old rows stay as history');

CALL v('UNDO', total => 1);
SAVEPOINT undo;
SELECT r('UNDO', 1, 'undo-1') AS got \gset
ROLLBACK TO undo;
SELECT is(ARRAY[:'got', r('UNDO', 2, 'undo-2')], ARRAY['RESERVED', 'RESERVED'],
          'ROLLBACK TO SAVEPOINT gives the use back');
SELECT is(used('UNDO'), 1::bigint, 'and the count');

SELECT is_empty('SELECT * FROM voucher_violations()', 'the invariant holds');
SELECT * FROM finish();
ROLLBACK;

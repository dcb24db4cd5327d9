-- test/pgtap/04_confirm_release.sql
-- voucher_confirm and voucher_release: every result and the fine print.
\unset ECHO
\i test/pgtap/setup.sql
SELECT plan(45);

CREATE FUNCTION refusal(result text, detail text DEFAULT NULL) RETURNS voucher_outcome
LANGUAGE sql AS $$ SELECT ROW(result, NULL, NULL, detail)::voucher_outcome $$;

---------------------------------------------------------------------------
-- confirm
---------------------------------------------------------------------------

CALL v('PAY', total => 5, per => NULL, fixed => 30);
SELECT is(r('PAY', 1, 'pay-1'), 'RESERVED', 'an order');
SELECT is(lines($$SELECT result, discount_amount, detail FROM voucher_confirm('pay', 'pay-1')$$),
          ARRAY['(CONFIRMED,30,)'], 'CONFIRMED carries the discount');
SELECT is(lines($$
    SELECT status, confirmed_at BETWEEN now() AND clock_timestamp(), released_at, release_reason,
           order_amount, discount_amount
      FROM voucher_redemption WHERE order_id = 'pay-1'
$$), ARRAY['(CONFIRMED,t,,,100,30)'], 'confirm changes the state of the row and nothing else');
SELECT is(used('PAY'), 1::bigint, 'a confirmed use stays counted');
SELECT (row_of('pay-1')).confirmed_at AS paid \gset
SELECT is(lines($$SELECT result, discount_amount, detail FROM voucher_confirm('PAY', 'pay-1')$$),
          ARRAY['(DUPLICATE,30,CONFIRMED)'],
                  'a second confirm is DUPLICATE with the original discount, detail CONFIRMED');
SELECT is((row_of('pay-1')).confirmed_at, :'paid'::timestamptz, 'and changes nothing');

-- what happens to the voucher does not touch holds that exist
SELECT is(r('PAY', 2, 'pay-2'), 'RESERVED', 'a hold at 30 off');
UPDATE voucher SET discount_amount = 1, min_order_amount = 1000, total_limit = 2, per_user_limit = 1,
                   starts_at = '-infinity', ends_at = now(), enabled = false
 WHERE code = 'PAY';
SELECT is(lines($$SELECT result, discount_amount FROM voucher_confirm('PAY', 'pay-2')$$),
          ARRAY['(CONFIRMED,30)'],
                  'disabled, over and re-priced: the hold confirms at the discount it was given');

---------------------------------------------------------------------------
-- release
---------------------------------------------------------------------------

CALL v('DROP', total => 2, per => NULL, fixed => 30);
SELECT is(ARRAY[r('DROP', 1, 'drop-1'), r('DROP', 1, 'drop-2')], ARRAY['RESERVED', 'RESERVED'],
          'two orders');
SELECT is(lines($$SELECT result, discount_amount, detail FROM voucher_release('drop', 'drop-1')$$),
          ARRAY['(RELEASED,30,)'], 'RELEASED carries the discount');
SELECT is(lines($$
    SELECT status, release_reason, released_at BETWEEN now() AND clock_timestamp(), confirmed_at,
           order_amount, discount_amount
      FROM voucher_redemption WHERE order_id = 'drop-1'
$$), ARRAY['(RELEASED,RELEASED,t,,100,30)'], 'release keeps the row as history');
SELECT is(used('DROP'), 1::bigint, 'the use went back');
SELECT is(lines($$SELECT result, discount_amount, detail FROM voucher_release('DROP', 'drop-1')$$),
          ARRAY['(DUPLICATE,30,RELEASED)'],
                  'a second release is DUPLICATE with the original discount, detail RELEASED');
SELECT is(used('DROP'), 1::bigint, 'and returns nothing twice');
SELECT is(state('drop-2'), 'RESERVED', 'the other order is untouched');

UPDATE voucher SET enabled = false, starts_at = '-infinity', ends_at = now() WHERE code = 'DROP';
SELECT is(x('DROP', 'drop-2'), 'RELEASED', 'a use of a disabled, ended voucher goes back');

---------------------------------------------------------------------------
-- Refusals
---------------------------------------------------------------------------

CALL v('NO', per => NULL);
CALL v('NO2', per => NULL);
SELECT r('NO', 1, 'no-' || state) FROM unnest(ARRAY['held', 'paid', 'dropped', 'late', 'refunded']) state
\g /dev/null
SELECT c('NO', 'no-paid'), c('NO', 'no-refunded'), x('NO', 'no-dropped'),
       give_back('no-late', 'EXPIRED'), give_back('no-refunded', 'REFUNDED') \g /dev/null
SELECT written() AS before \gset
SELECT is(voucher_confirm(code, ord), refusal(result, detail), 'confirm: ' || what)
  FROM (VALUES
    ('NO-SUCH', 'no-held', 'NOT_FOUND', NULL, 'no such voucher'),
    ('NO', 'no-such', 'NOT_FOUND', NULL, 'no such order'),
    ('NO2', 'no-held', 'NOT_FOUND', NULL, 'an order of another voucher'),
    ('NO2', 'no-dropped', 'NOT_FOUND', NULL, 'a released order of another voucher'),
    ('NO', 'NO-HELD', 'NOT_FOUND', NULL, 'order ids have case'),
    ('NO', 'no-dropped', 'NOT_RESERVED', 'RELEASED', 'a released order'),
    ('NO', 'no-late', 'NOT_RESERVED', 'EXPIRED', 'an expired order'),
    ('NO', 'no-refunded', 'NOT_RESERVED', 'REFUNDED', 'a refunded order')
  ) AS t(code, ord, result, detail, what);
SELECT is(voucher_release(code, ord), refusal(result, detail), 'release: ' || what)
  FROM (VALUES
    ('NO-SUCH', 'no-held', 'NOT_FOUND', NULL, 'no such voucher'),
    ('NO', 'no-such', 'NOT_FOUND', NULL, 'no such order'),
    ('NO2', 'no-held', 'NOT_FOUND', NULL, 'an order of another voucher'),
    ('NO2', 'no-dropped', 'NOT_FOUND', NULL, 'a released order of another voucher'),
    ('NO', 'NO-HELD', 'NOT_FOUND', NULL, 'order ids have case'),
    ('NO', 'no-paid', 'NOT_RESERVED', 'CONFIRMED', 'a confirmed order')
  ) AS t(code, ord, result, detail, what);
SELECT is(written(), :'before', 'refusals of confirm and release write nothing');
SELECT is(x('NO', 'no-' || state), 'DUPLICATE/RELEASED', 'release: ' || state || ' is gone already')
  FROM unnest(ARRAY['dropped', 'late', 'refunded']) state;
SELECT is(used('NO'), 2::bigint, 'and nothing went back twice');

---------------------------------------------------------------------------
-- The status decides, not the deadline
---------------------------------------------------------------------------

CALL v('LAPSE', total => 2, per => NULL);
SELECT is(ARRAY[r('LAPSE', 1, 'lapse-1'), lapse('lapse-1'), c('LAPSE', 'lapse-1')],
          ARRAY['RESERVED', '+16m', 'CONFIRMED'], 'a lapsed hold that nobody gave back confirms');
SELECT is(ARRAY[r('LAPSE', 1, 'lapse-2'), lapse('lapse-2'), x('LAPSE', 'lapse-2')],
          ARRAY['RESERVED', '+16m', 'RELEASED'], 'a lapsed hold that nobody gave back is released');
SELECT is(used('LAPSE'), 1::bigint, 'each counted once');

---------------------------------------------------------------------------
-- Several rows of one order: the live one, else the newest
---------------------------------------------------------------------------

CALL v('TURNS', per => NULL);
SELECT is(ARRAY[r('TURNS', 1, 'turn-1', 50), x('TURNS', 'turn-1'), r('TURNS', 1, 'turn-1', 80),
                c('TURNS', 'turn-1')],
          ARRAY['RESERVED', 'RELEASED', 'RESERVED', 'CONFIRMED'], 'confirm finds the live row');
SELECT is(lines($$SELECT order_amount, status FROM voucher_redemption WHERE order_id = 'turn-1' ORDER BY id$$),
          ARRAY['(50,RELEASED)', '(80,CONFIRMED)'], 'and leaves the old row alone');
SELECT is(ARRAY[r('TURNS', 1, 'turn-2'), x('TURNS', 'turn-2'), r('TURNS', 1, 'turn-2'),
                give_back('turn-2', 'EXPIRED'), c('TURNS', 'turn-2')],
          ARRAY['RESERVED', 'RELEASED', 'RESERVED', 'EXPIRED', 'NOT_RESERVED/EXPIRED'],
          'released, then expired: EXPIRED');
SELECT is(ARRAY[r('TURNS', 1, 'turn-3'), give_back('turn-3', 'EXPIRED'), r('TURNS', 1, 'turn-3'),
                x('TURNS', 'turn-3'), c('TURNS', 'turn-3')],
          ARRAY['RESERVED', 'EXPIRED', 'RESERVED', 'RELEASED', 'NOT_RESERVED/RELEASED'],
          'expired, then released: RELEASED');
-- the order moved on to another voucher; the first one keeps its history
SELECT is(ARRAY[r('TURNS', 1, 'turn-4'), x('TURNS', 'turn-4'), r('NO', 1, 'turn-4'),
                c('TURNS', 'turn-4'), x('TURNS', 'turn-4'), c('NO', 'turn-4')],
          ARRAY['RESERVED', 'RELEASED', 'RESERVED',
                'NOT_RESERVED/RELEASED', 'DUPLICATE/RELEASED', 'CONFIRMED'],
          'each voucher answers for its own rows of the order');

SAVEPOINT undo;
SELECT r('TURNS', 1, 'undo') \g /dev/null
SAVEPOINT undo2;
SELECT c('TURNS', 'undo') AS got \gset
ROLLBACK TO undo2;
SELECT x('TURNS', 'undo') AS got2 \gset
ROLLBACK TO undo2;
SELECT is(ARRAY[:'got', :'got2', state('undo')], ARRAY['CONFIRMED', 'RELEASED', 'RESERVED'],
          'ROLLBACK TO SAVEPOINT undoes confirm and release');

SELECT is_empty('SELECT * FROM voucher_violations()', 'the invariant holds');
SELECT * FROM finish();
ROLLBACK;

-- test/pgtap/07_limits.sql
-- total_limit, per_user_limit, and the lapsed hold that gives way.
\unset ECHO
\i test/pgtap/setup.sql
SELECT plan(69);

-- live use_no of a customer, ascending, NULL last
CREATE FUNCTION use_nos(code text, customer bigint) RETURNS integer[] LANGUAGE sql AS $$
    SELECT array_agg(use_no ORDER BY use_no) FROM voucher_redemption
     WHERE voucher_code = code AND customer_id = customer AND status <> 'RELEASED'
$$;
-- how many orders of a voucher are in a state
CREATE FUNCTION orders(code text, st text) RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*) FROM voucher_redemption
     WHERE voucher_code = code AND concat_ws('/', status, release_reason) = st
$$;

---------------------------------------------------------------------------
-- total_limit
---------------------------------------------------------------------------

CALL v('NOBODY', total => 0);
SELECT is(r('NOBODY', 1, 'nobody'), 'OUT_OF_STOCK', 'total_limit 0 is for nobody');

CALL v('THREE', total => 3);
SELECT is((SELECT array_agg(r('THREE', n, 'three-' || n) ORDER BY n) FROM generate_series(1, 5) n),
          ARRAY['RESERVED', 'RESERVED', 'RESERVED', 'OUT_OF_STOCK', 'OUT_OF_STOCK'],
          'total_limit 3 serves three');
SELECT is(ARRAY[c('THREE', 'three-1'), r('THREE', 4, 'three-4')], ARRAY['CONFIRMED', 'OUT_OF_STOCK'],
          'a confirmed use stays taken');
SELECT is(ARRAY[x('THREE', 'three-2'), r('THREE', 4, 'three-4'), r('THREE', 5, 'three-5')],
          ARRAY['RELEASED', 'RESERVED', 'OUT_OF_STOCK'], 'a released use goes to one other');
SELECT is(broke('UPDATE voucher SET total_limit = 2 WHERE code = ''THREE'''), '23514 ck_used',
          'total_limit is not lowered below what is in use');
UPDATE voucher SET total_limit = 4 WHERE code = 'THREE';
SELECT is(ARRAY[r('THREE', 5, 'three-5'), r('THREE', 6, 'three-6')], ARRAY['RESERVED', 'OUT_OF_STOCK'],
          'total_limit raised by one serves one more');
SELECT is(x('THREE', 'three-5'), 'RELEASED', 'one goes back');
UPDATE voucher SET total_limit = 3 WHERE code = 'THREE';
SELECT is(r('THREE', 5, 'three-5'), 'OUT_OF_STOCK', 'total_limit lowered to what is in use: nobody else');

CALL v('ENDLESS');
SELECT is((SELECT count(*) FROM generate_series(1, 50) n WHERE r('ENDLESS', n, 'endless-' || n) = 'RESERVED'),
          50::bigint, 'total_limit NULL has no limit');
SELECT is(used('ENDLESS'), 50::bigint, 'uses of an unlimited voucher are counted');
SELECT is(x('ENDLESS', 'endless-1') || ' ' || used('ENDLESS'), 'RELEASED 49', 'and counted back');
UPDATE voucher SET total_limit = 49 WHERE code = 'ENDLESS';
SELECT is(r('ENDLESS', 51, 'endless-51'), 'OUT_OF_STOCK', 'a limit set later counts them');

CALL v('HUGE', total => 9223372036854775807, per => 2147483647);
SELECT is(r('HUGE', 1, 'huge-1') || ' ' || used('HUGE'), 'RESERVED 1', 'the largest limits serve');
UPDATE voucher SET used_count = total_limit - 1 WHERE code = 'HUGE';
SELECT is(ARRAY[r('HUGE', 2, 'huge-2'), r('HUGE', 3, 'huge-3'), r('HUGE', 4, 'huge-4')],
          ARRAY['RESERVED', 'OUT_OF_STOCK', 'OUT_OF_STOCK'], 'the last use at 2^63-1, and no wrap');
UPDATE voucher SET used_count = 2 WHERE code = 'HUGE';

---------------------------------------------------------------------------
-- per_user_limit
---------------------------------------------------------------------------

CALL v('ONCE');
SELECT is(ARRAY[r('ONCE', 1, 'once-1'), r('ONCE', 1, 'once-2'), r('ONCE', 2, 'once-3')],
          ARRAY['RESERVED', 'ALREADY_USED', 'RESERVED'], 'per_user_limit 1 is once each');
SELECT is(use_nos('ONCE', 1), ARRAY[1], 'numbered 1');

CALL v('THRICE', per => 3);
SELECT is((SELECT array_agg(r('THRICE', 1, 'thrice-' || n) ORDER BY n) FROM generate_series(1, 4) n),
          ARRAY['RESERVED', 'RESERVED', 'RESERVED', 'ALREADY_USED'], 'per_user_limit 3 is three times');
SELECT is(use_nos('THRICE', 1), ARRAY[1, 2, 3], 'numbered 1 to 3');
SELECT is(ARRAY[x('THRICE', 'thrice-2'), r('THRICE', 1, 'thrice-5'), r('THRICE', 1, 'thrice-6')],
          ARRAY['RELEASED', 'RESERVED', 'ALREADY_USED'], 'what goes back may be used again');
SELECT is(use_nos('THRICE', 1), ARRAY[1, 2, 3], 'under the number that is free');

-- lowered: what is live stays, counts, and keeps its number
UPDATE voucher SET per_user_limit = 2 WHERE code = 'THRICE';
SELECT is(r('THRICE', 1, 'thrice-7'), 'ALREADY_USED', 'lowered below the uses: refused');
SELECT is(ARRAY[x('THRICE', order_id), r('THRICE', 1, 'thrice-7')], ARRAY['RELEASED', 'ALREADY_USED'],
          'still refused at the lower limit')
  FROM voucher_redemption
 WHERE voucher_code = 'THRICE' AND status = 'RESERVED' AND use_no = 2;
SELECT is(ARRAY[x('THRICE', order_id), r('THRICE', 1, 'thrice-7')], ARRAY['RELEASED', 'RESERVED'],
          'served below it, beside a live use_no 3')
  FROM voucher_redemption
 WHERE voucher_code = 'THRICE' AND status = 'RESERVED' AND use_no = 1;
SELECT ok(array_length(use_nos('THRICE', 1), 1) = 2 AND (row_of('thrice-7')).use_no BETWEEN 1 AND 2,
          'two uses, the new one numbered within the limit');
UPDATE voucher SET per_user_limit = 3 WHERE code = 'THRICE';
SELECT is(ARRAY[r('THRICE', 1, 'thrice-8'), r('THRICE', 1, 'thrice-9')], ARRAY['RESERVED', 'ALREADY_USED'],
          'raised by one: one more');
SELECT is(use_nos('THRICE', 1), ARRAY[1, 2, 3], 'numbers stay distinct and within the limit');

-- none, then one set later
CALL v('GUEST', per => NULL);
SELECT is((SELECT array_agg(r('GUEST', 0, 'guest-' || n) ORDER BY n) FROM generate_series(1, 3) n),
          ARRAY['RESERVED', 'RESERVED', 'RESERVED'], 'per_user_limit NULL has no limit');
SELECT is(use_nos('GUEST', 0), ARRAY[NULL, NULL, NULL]::integer[], 'without a limit uses are not numbered');
UPDATE voucher SET per_user_limit = 3 WHERE code = 'GUEST';
SELECT is(ARRAY[r('GUEST', 0, 'guest-4'), r('GUEST', 0, 'guest-1')], ARRAY['ALREADY_USED', 'DUPLICATE/RESERVED'],
          'a limit set later counts the uses that exist');
UPDATE voucher SET per_user_limit = 5 WHERE code = 'GUEST';
SELECT is(r('GUEST', 0, 'guest-4'), 'RESERVED', 'below it the customer is served');
SELECT is((SELECT count(DISTINCT n) FROM unnest(use_nos('GUEST', 0)) n WHERE n BETWEEN 1 AND 5), 4::bigint,
          'and all his uses are numbered, distinct and within the limit');
SELECT is(ARRAY[r('GUEST', 0, 'guest-5'), r('GUEST', 0, 'guest-6')], ARRAY['RESERVED', 'ALREADY_USED'],
          'up to the limit and no further');
SELECT is(use_nos('GUEST', 0), ARRAY[1, 2, 3, 4, 5], 'numbered 1 to 5');
UPDATE voucher SET per_user_limit = NULL WHERE code = 'GUEST';
SELECT is(ARRAY[r('GUEST', 0, 'guest-6'), r('GUEST', 0, 'guest-7')], ARRAY['RESERVED', 'RESERVED'],
          'the limit taken away again');
UPDATE voucher SET per_user_limit = 8 WHERE code = 'GUEST';
SELECT is(ARRAY[x('GUEST', 'guest-1'), r('GUEST', 0, 'guest-8'), r('GUEST', 0, 'guest-9'),
                r('GUEST', 0, 'guest-10')],
          ARRAY['RELEASED', 'RESERVED', 'RESERVED', 'ALREADY_USED'],
          'numbered and unnumbered uses count together');
SELECT is(use_nos('GUEST', 0), ARRAY[1, 2, 3, 4, 5, 6, 7, 8], 'numbered 1 to 8');

---------------------------------------------------------------------------
-- Out of stock: one lapsed hold gives way (no worker here)
---------------------------------------------------------------------------

CALL v('GIVE', total => 1);
CALL v('BYSTANDER', total => 1);
SELECT is(ARRAY[r('GIVE', 1, 'give-1'), r('GIVE', 2, 'give-2'), r('BYSTANDER', 1, 'by-1'), lapse('by-1'),
                r('GIVE', 2, 'give-2')],
          ARRAY['RESERVED', 'OUT_OF_STOCK', 'RESERVED', '+16m', 'OUT_OF_STOCK'],
          'a hold that has not lapsed does not give way');
SELECT is(ARRAY[lapse('give-1'), r('GIVE', 2, 'give-2')], ARRAY['+16m', 'RESERVED'],
          'a lapsed hold gives way to the caller');
SELECT is(ARRAY[state('give-1'), state('give-2'), state('by-1')],
          ARRAY['RELEASED/EXPIRED', 'RESERVED', 'RESERVED'],
          'it is RELEASED, EXPIRED; a lapsed hold of another voucher is untouched');
SELECT ok((row_of('give-1')).released_at BETWEEN now() AND clock_timestamp(), 'its released_at is set');
SELECT is(used('GIVE'), 1::bigint, 'used_count is unchanged');
SELECT is(ARRAY[c('GIVE', 'give-1'), r('GIVE', 1, 'give-1')], ARRAY['NOT_RESERVED/EXPIRED', 'OUT_OF_STOCK'],
          'the late payer is told, and may ask again');
SELECT is(ARRAY[x('GIVE', 'give-2'), r('GIVE', 1, 'give-1')], ARRAY['RELEASED', 'RESERVED'],
          'the same order is served as a new row when there is room');
SELECT is((SELECT count(*) FROM voucher_redemption WHERE order_id = 'give-1'), 2::bigint,
          'its old row stays as history');

CALL v('PAIR', total => 3);
SELECT is(ARRAY[r('PAIR', 1, 'pair-1'), r('PAIR', 2, 'pair-2'), r('PAIR', 3, 'pair-3'), lapse('pair-1'),
                lapse('pair-2'), r('PAIR', 4, 'pair-4')],
          ARRAY['RESERVED', 'RESERVED', 'RESERVED', '+16m', '+16m', 'RESERVED'], 'two of three holds lapse');
SELECT is(ARRAY[orders('PAIR', 'RELEASED/EXPIRED'), orders('PAIR', 'RESERVED'), used('PAIR')],
          ARRAY[1, 3, 3]::bigint[], 'one call gives back one of them');
SELECT is(ARRAY[r('PAIR', 5, 'pair-5'), r('PAIR', 6, 'pair-6')], ARRAY['RESERVED', 'OUT_OF_STOCK'],
          'the next call the other');
SELECT is(ARRAY[state('pair-1'), state('pair-2'), state('pair-3')],
          ARRAY['RELEASED/EXPIRED', 'RELEASED/EXPIRED', 'RESERVED'], 'never the one that has not lapsed');

CALL v('ROOM', total => 2);
SELECT is(ARRAY[r('ROOM', 1, 'room-1'), lapse('room-1'), r('ROOM', 2, 'room-2'), state('room-1')],
          ARRAY['RESERVED', '+16m', 'RESERVED', 'RESERVED'], 'while there is room no hold gives way');
SELECT is(used('ROOM'), 2::bigint, 'both count');

CALL v('PAID', total => 1);
SELECT is(ARRAY[r('PAID', 1, 'paid-1'), lapse('paid-1'), c('PAID', 'paid-1'), r('PAID', 2, 'paid-2')],
          ARRAY['RESERVED', '+16m', 'CONFIRMED', 'OUT_OF_STOCK'], 'a confirmed use never gives way');

-- the customer's own lapsed hold, at his limit
CALL v('OWN', total => 5);
SELECT is(ARRAY[r('OWN', 1, 'own-1'), r('OWN', 1, 'own-2'), lapse('own-1'), r('OWN', 1, 'own-2')],
          ARRAY['RESERVED', 'ALREADY_USED', '+16m', 'RESERVED'], 'at his limit his own lapsed hold gives way');
SELECT is(ARRAY[state('own-1'), used('OWN')::text], ARRAY['RELEASED/EXPIRED', '1'], 'it is RELEASED, EXPIRED');
CALL v('OWN1', total => 1);
SELECT is(ARRAY[r('OWN1', 1, 'own-3'), lapse('own-3'), r('OWN1', 1, 'own-4')],
          ARRAY['RESERVED', '+16m', 'RESERVED'], 'the same when it is the last use');
SELECT is(ARRAY[state('own-3'), used('OWN1')::text], ARRAY['RELEASED/EXPIRED', '1'], 'and counts once');
CALL v('OWN2', per => 2);
SELECT is(ARRAY[r('OWN2', 1, 'own-5'), r('OWN2', 1, 'own-6'), lapse('own-5'), lapse('own-6'),
                r('OWN2', 1, 'own-7')],
          ARRAY['RESERVED', 'RESERVED', '+16m', '+16m', 'RESERVED'], 'two of his holds lapse');
SELECT is(ARRAY[orders('OWN2', 'RELEASED/EXPIRED'), orders('OWN2', 'RESERVED'), used('OWN2')],
          ARRAY[1, 2, 2]::bigint[], 'one call gives back one of them');

-- refusals give nothing back
CALL v('KEEP', total => 2);
SELECT is(ARRAY[r('KEEP', 1, 'keep-1'), r('KEEP', 2, 'keep-2'), lapse('keep-1')],
          ARRAY['RESERVED', 'RESERVED', '+16m'], 'a lapsed hold and one that is not');
SELECT written() AS before \gset
SELECT is(r('KEEP', 2, 'keep-3'), 'ALREADY_USED', 'a lapsed hold of another customer is no help at the own limit');
SELECT is(written(), :'before', 'and the refusal gives nothing back');
UPDATE voucher SET enabled = false WHERE code = 'KEEP';
SELECT written() AS before \gset
SELECT is(r('KEEP', 3, 'keep-4'), 'NOT_ELIGIBLE/DISABLED', 'nor does a lapsed hold help at a disabled voucher');
SELECT is(written(), :'before', 'and the refusal gives nothing back, too');

-- one hold per call, also if that is not enough: the limit was lowered below what
-- the customer has, and two of his holds have lapsed
CALL v('LOWERED', total => 9, per => 3);
SELECT is(r('LOWERED', 1, 'lowered-' || n), 'RESERVED', 'three uses of one customer') FROM generate_series(1, 3) n;
UPDATE voucher SET per_user_limit = 1 WHERE code = 'LOWERED';
SELECT lapse('lowered-1'), lapse('lowered-2') \g /dev/null
SELECT is(r('LOWERED', 1, 'lowered-4'), 'ALREADY_USED', 'still above the lowered limit after one hold went back');
SELECT is((SELECT count(*)::int FROM voucher_redemption WHERE voucher_code = 'LOWERED' AND release_reason = 'EXPIRED'), 1,
          'one call gives back one hold');
UPDATE voucher SET per_user_limit = 3 WHERE code = 'LOWERED';
SELECT is(used('LOWERED'), 2::bigint, 'which is uncounted, although the call was refused');

SELECT is_empty('SELECT * FROM voucher_violations()', 'the invariant holds');
SELECT * FROM finish();
ROLLBACK;

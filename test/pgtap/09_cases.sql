-- test/pgtap/09_cases.sql
-- What went wrong elsewhere (cases.md), as far as one session and reserve,
-- confirm and release can show it.  One voucher per case, named by its number.
\unset ECHO
\i test/pgtap/setup.sql
SELECT plan(115);

CREATE FUNCTION discount(code text, customer bigint, ord text, amount bigint) RETURNS bigint
LANGUAGE sql AS $$
    SELECT discount_amount FROM voucher_reserve(code, customer, ord, amount) WHERE result = 'RESERVED'
$$;
CREATE FUNCTION orders(code text) RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*) FROM voucher_redemption WHERE voucher_code = code
$$;

---------------------------------------------------------------------------
-- Races, as far as one session goes
---------------------------------------------------------------------------

CALL v('B4', total => 1);
SELECT is(ARRAY[r('B4', 1, 'B4-1'), r('B4', 2, 'B4-2')], ARRAY['RESERVED', 'OUT_OF_STOCK'],
          'B4: the last use goes to whoever reserves first');

CALL v('B5', total => 1);
SELECT is(ARRAY[r('B5', 1, 'B5-1'), c('B5', 'B5-1'), r('B5', 2, 'B5-2')],
          ARRAY['RESERVED', 'CONFIRMED', 'OUT_OF_STOCK'], 'B5: admission and count need no worker');

CALL v('B18', total => 1);
SELECT is(ARRAY[r('B18', 1, 'B18-1', 9), r('B18', 2, 'B18-2', 9)], ARRAY['RESERVED', 'OUT_OF_STOCK'],
          'B18: the refusal is visible in the result');
SELECT is(orders('B18'), 1::bigint, 'B18: and leaves no row');

---------------------------------------------------------------------------
-- Leaks
---------------------------------------------------------------------------

CALL v('B29', total => 1);
SELECT is(ARRAY[r('B29', 1, 'B29-1'), x('B29', 'B29-1'), r('B29', 1, 'B29-2')],
          ARRAY['RESERVED', 'RELEASED', 'RESERVED'], 'B29: a pending order that is cancelled gives its use back');

CALL v('B32');
SELECT is(ARRAY[r('B32', 1, '32'), r('B32', 1, '32'), r('B32', 1, ' 32'), r('B32', 1, '032')],
          ARRAY['RESERVED', 'DUPLICATE/RESERVED', 'ALREADY_USED', 'ALREADY_USED'],
          'B32: the same order id is the same order, any other spelling is not');
SELECT is(orders('B32'), 1::bigint, 'B32: never a second reservation');

CALL v('B33', total => 1);
SELECT is(raised($$SELECT r('B33', 1, 'B33-1', 9), 1 / (used('B33') - 1)$$), '22012',
          'B33: the order fails after the use was counted');
SELECT is(r('B33', 1, 'B33-1', 9), 'RESERVED', 'B33: the use came back with it');
SELECT is(used('B33'), 1::bigint, 'B33: and is counted once');

CALL v('B34', total => 1);
SELECT is(ARRAY[r('B34', 1, 'B34-1'), lapse('B34-1'), r('B34', 2, 'B34-2'), state('B34-1')],
          ARRAY['RESERVED', '+16m', 'RESERVED', 'RELEASED/EXPIRED'],
          'B34: a hold nobody cancels expires at the next reserve');

CALL v('B35', total => 1);
SELECT is(ARRAY[r('B35', 1, 'B35-1'), c('B35', 'B35-1'), x('B35', 'B35-1'), r('B35', 2, 'B35-2')],
          ARRAY['RESERVED', 'CONFIRMED', 'NOT_RESERVED/CONFIRMED', 'OUT_OF_STOCK'],
          'B35: release does not take a confirmed use back');

CALL v('B37');
SELECT is(ARRAY[r('B37', 1, 'B37-1'), x('B37', 'B37-1'), r('B37', 1, 'B37-2')],
          ARRAY['RESERVED', 'RELEASED', 'RESERVED'], 'B37: cancelled orders do not count against the customer');

CALL v('B38');
SELECT is(ARRAY[r('B38', 1, 'B38-1'), r('B38', 1, 'B38-1'), c('B38', 'B38-1'), c('B38', 'B38-1')],
          ARRAY['RESERVED', 'DUPLICATE/RESERVED', 'CONFIRMED', 'DUPLICATE/CONFIRMED'],
          'B38: every step of a payment may come twice');
SELECT is(used('B38'), 1::bigint, 'B38: one use');

CALL v('B40', total => 10);
SELECT results_eq($$
    WITH asked AS MATERIALIZED (SELECT r('B40', n, 'B40-' || n) FROM generate_series(1, 100) n)
    SELECT r, count(*) FROM asked GROUP BY r ORDER BY r COLLATE "C"
$$, $$VALUES ('OUT_OF_STOCK', 90::bigint), ('RESERVED', 10)$$, 'B40: ten of a hundred');
SELECT lapse('B40-' || n) FROM generate_series(1, 5) n \g /dev/null
SELECT is((SELECT array_agg(r('B40', n, 'B40-' || n)) FROM generate_series(101, 106) n),
          ARRAY['RESERVED', 'RESERVED', 'RESERVED', 'RESERVED', 'RESERVED', 'OUT_OF_STOCK'],
          'B40: five lapsed holds make room for five');
SELECT is((SELECT array_agg(DISTINCT c('B40', 'B40-' || n)) FROM generate_series(1, 5) n),
          ARRAY['NOT_RESERVED/EXPIRED'], 'B40: the late payers are told');

SELECT is(raised(format('INSERT INTO voucher (code, discount_amount, hold_time) VALUES (''B41'', 1, %L)', hold)),
          '23514', format('B41: no hold_time of %s', hold))
  FROM unnest(ARRAY['0', '-1 min', '1 year', '10000 years']) hold;

CALL v('B44', total => 1);
SELECT is(ARRAY[r('B44', 1, 'B44-1'), r('B44', 2, 'B44-2'), state('B44-1')],
          ARRAY['RESERVED', 'OUT_OF_STOCK', 'RESERVED'], 'B44: a hold inside its time is not touched');
UPDATE voucher_redemption SET expires_at = clock_timestamp() WHERE order_id = 'B44-1';
SELECT is(ARRAY[r('B44', 2, 'B44-2'), state('B44-1')], ARRAY['RESERVED', 'RELEASED/EXPIRED'],
          'B44: at its end it is');

CALL v('B47', total => 1);
SELECT is(ARRAY[r('B47', 1, 'B47-1'), lapse('B47-1'), used('B47')::text, r('B47', 2, 'B47-2'), used('B47')::text],
          ARRAY['RESERVED', '+16m', '1', 'RESERVED', '1'],
          'B47: a lapsed hold counts until a reserve takes its place');

CALL v('B48', total => 1);
SELECT is(ARRAY[r('B48', 1, 'B48-1'), lapse('B48-1'), c('B48', 'B48-1'), c('B48', 'B48-1'), x('B48', 'B48-1'),
                r('B48', 2, 'B48-2')],
          ARRAY['RESERVED', '+16m', 'CONFIRMED', 'DUPLICATE/CONFIRMED', 'NOT_RESERVED/CONFIRMED', 'OUT_OF_STOCK'],
          'B48: confirmed before it is given back: the row decides, once');
CALL v('B48X', total => 1);
SELECT is(ARRAY[r('B48X', 1, 'B48-3'), lapse('B48-3'), r('B48X', 2, 'B48-4'), c('B48X', 'B48-3'), x('B48X', 'B48-3')],
          ARRAY['RESERVED', '+16m', 'RESERVED', 'NOT_RESERVED/EXPIRED', 'DUPLICATE/RELEASED'],
          'B48: given back first: neither confirm nor release');
SELECT is(used('B48X'), 1::bigint, 'B48: one unit came back once');

CALL v('B53', per => NULL);
SELECT is(r('B53', 1, 'B53-1'), 'RESERVED', 'B53: reserved without a per-customer limit');
UPDATE voucher SET per_user_limit = 1 WHERE code = 'B53';
SELECT is(x('B53', 'B53-1') || ' ' || used('B53'), 'RELEASED 0', 'B53: released under one');

CALL v('B55');
SELECT is(ARRAY[r('B55', 1, 'B55-1', 50), x('B55', 'B55-1'), r('B55', 1, 'B55-1', 80),
                (row_of('B55-1')).order_amount::text],
          ARRAY['RESERVED', 'RELEASED', 'RESERVED', '80'], 'B55: a dead hold does not answer for the order');

CALL v('B56', total => 100);
SELECT is((SELECT count(*) FROM generate_series(1, 1000) n WHERE r('B56', n, 'B56-' || n) = 'RESERVED'),
          100::bigint, 'B56: a hundred of a thousand');

---------------------------------------------------------------------------
-- Idempotency
---------------------------------------------------------------------------

CALL v('B60', total => 9);
CALL v('B60Z', total => 9);
SELECT is(r('B60', 1, 'B60-1'), 'RESERVED', 'B60: an order');
SELECT written() AS before \gset
SELECT is(ARRAY[r('B60', 1, 'B60-1', 200), r('B60', 2, 'B60-1'), r('B60Z', 1, 'B60-1')],
          ARRAY['ORDER_MISMATCH/order_amount', 'ORDER_MISMATCH/customer_id', 'ORDER_MISMATCH/voucher_code'],
          'B60: the same order id with other facts is refused');
SELECT is(written(), :'before', 'B60: and changes nothing');

CALL v('B62', total => 1);
SELECT is(ARRAY[r('B62', 1, 'B62-1'), r('B62', 2, 'B62-2'), x('B62', 'B62-1'), r('B62', 2, 'B62-2')],
          ARRAY['RESERVED', 'OUT_OF_STOCK', 'RELEASED', 'RESERVED'], 'B62: refusals are not sticky');
SELECT is(ARRAY[c('B62', 'B62-2'), r('B62', 2, 'B62-2')], ARRAY['CONFIRMED', 'DUPLICATE/CONFIRMED'],
          'B62: reserve and confirm of one order do not answer for each other');

CALL v('B65', total => 1);
SELECT is(ARRAY[r('B65', 1, 'B65-1'), lapse('B65-1'), r('B65', 2, 'B65-2'), c('B65', 'B65-1'), r('B65', 1, 'B65-1')],
          ARRAY['RESERVED', '+16m', 'RESERVED', 'NOT_RESERVED/EXPIRED', 'OUT_OF_STOCK'],
          'B65: the first payer comes too late and is not squeezed in');

CALL v('B67', per => 2);
SELECT is(ARRAY[r('B67', 1, 'B67-1'), r('B67', 1, 'B67-2'), c('B67', 'B67-2'), state('B67-1'), state('B67-2')],
          ARRAY['RESERVED', 'RESERVED', 'CONFIRMED', 'RESERVED', 'CONFIRMED'],
          'B67: confirm is for one order, not for the customer');

---------------------------------------------------------------------------
-- Boundaries
---------------------------------------------------------------------------

SET LOCAL TimeZone = 'Asia/Ho_Chi_Minh';
INSERT INTO voucher (code, discount_amount, starts_at, ends_at) VALUES ('B68VN', 1, '2130-01-01', '2130-01-02');
SET LOCAL TimeZone = 'UTC';
INSERT INTO voucher (code, discount_amount, starts_at, ends_at) VALUES ('B68UTC', 1, '2130-01-01', '2130-01-02');
SELECT is(lines($$SELECT code, starts_at, ends_at FROM voucher WHERE code LIKE 'B68%' ORDER BY code$$), ARRAY[
    '(B68UTC,"2130-01-01 00:00:00+00","2130-01-02 00:00:00+00")',
    '(B68VN,"2129-12-31 17:00:00+00","2130-01-01 17:00:00+00")'],
    'B68: a date is the start of the day in the zone of the session');
UPDATE voucher SET starts_at = '-infinity', ends_at = clock_timestamp() WHERE code = 'B68UTC';
SELECT is(ARRAY[r('B68VN', 1, 'B68-1'), r('B68UTC', 1, 'B68-2')],
          ARRAY['NOT_ELIGIBLE/NOT_STARTED', 'NOT_ELIGIBLE/ENDED'], 'B68: ends_at itself is outside');

CALL v('B73', min => 500);
CALL v('B73ZERO', min => 0);
CALL v('B73NULL', min => NULL);
SELECT is(ARRAY[r('B73', 1, 'B73-1', 499), r('B73', 2, 'B73-2', 500), r('B73', 3, 'B73-3', 501),
                r('B73ZERO', 1, 'B73-4', 0), r('B73NULL', 1, 'B73-5', 0)],
          ARRAY['NOT_ELIGIBLE/BELOW_MINIMUM', 'RESERVED', 'RESERVED', 'RESERVED', 'RESERVED'],
          'B73: the minimum itself is enough');

CALL v('B74', min => 100, fixed => 100);
SELECT is(ARRAY[discount('B74', 1, 'B74-1', 125)::text, r('B74', 1, 'B74-1', 125), c('B74', 'B74-1')],
          ARRAY['100', 'DUPLICATE/RESERVED', 'CONFIRMED'], 'B74: the minimum is on the amount before discount');

CALL v('B75', total => 0, per => NULL);
CALL v('B75NULL', total => NULL, per => NULL);
CALL v('B75ONE', total => 1, per => NULL);
SELECT is(ARRAY[r('B75', 1, 'B75-1'), r('B75NULL', 1, 'B75-2'), r('B75ONE', 1, 'B75-3'),
                r('B75NULL', 1, 'B75-4'), r('B75ONE', 1, 'B75-5')],
          ARRAY['OUT_OF_STOCK', 'RESERVED', 'RESERVED', 'RESERVED', 'OUT_OF_STOCK'],
          'B75: limit 0 is nobody, NULL everybody, 1 once');
SELECT is(raised(format('INSERT INTO voucher (code, discount_amount, %I) VALUES (''B75X'', 1, %s)', col, val)),
          '23514', format('B75: no voucher with %s = %s', col, val))
  FROM (VALUES ('total_limit', -1), ('per_user_limit', -1), ('per_user_limit', 0)) AS t(col, val);

CALL v('B77', total => 1);
SELECT is(r('B77', 1, 'B77-1'), 'RESERVED', 'B77: used up');
SELECT is(voucher_reserve('B77', 2, 'B77-2', 9), ROW('OUT_OF_STOCK', NULL, NULL, NULL)::voucher_outcome,
          'B77: a refusal has discount NULL, not 0');

CALL v('B78A');
CALL v('B78B');
CALL v('B78C', total => 0);
SELECT results_eq($$
    SELECT said(o) FROM unnest(ARRAY['AUTO', 'B78A', 'B78C', 'B78B']) WITH ORDINALITY u(code, n),
           LATERAL voucher_reserve(code, 1, 'B78-' || n, 100) o ORDER BY n
$$, $$VALUES ('NOT_FOUND'), ('RESERVED'), ('OUT_OF_STOCK'), ('RESERVED')$$,
    'B78: in a batch each has its own answer');

CALL v('B79', pct => 1, per => NULL);
CALL v('B79FIX', fixed => 0);
SELECT is(ARRAY[discount('B79', 1, 'B79-1', 1), discount('B79', 1, 'B79-2', 0), discount('B79FIX', 1, 'B79-3', 100)],
          ARRAY[0, 0, 0]::bigint[], 'B79: a discount of 0 is an answer');
SELECT is(used('B79') + used('B79FIX'), 3::bigint, 'B79: and takes a use');

SELECT is(raised(format('INSERT INTO voucher (code, discount_amount, %I) VALUES (''B81-%s'', 1, %L)', col, n, val)),
          state, format('B81: %s = %s', col, val))
  FROM (VALUES
    (1, 'total_limit', '2147483647', '00000'), (2, 'total_limit', '2147483648', '00000'),
    (3, 'total_limit', '9223372036854775807', '00000'), (4, 'total_limit', '9223372036854775808', '22003'),
    (5, 'per_user_limit', '2147483647', '00000'), (6, 'per_user_limit', '2147483648', '22003'),
    (7, 'ends_at', 'infinity', '00000'), (8, 'hold_time', '178000000 years', '23514')
  ) AS t(n, col, val, state);
SELECT is((SELECT array_agg(total_limit ORDER BY code) FROM voucher WHERE code IN ('B81-1', 'B81-2', 'B81-3')),
          ARRAY[2147483647, 2147483648, 9223372036854775807], 'B81: limits are stored exactly');
UPDATE voucher SET used_count = total_limit WHERE code LIKE 'B81-_' AND total_limit IS NOT NULL;
SELECT is(r('B81-' || n, 1, 'B81-' || n), 'OUT_OF_STOCK', 'B81: full at its limit, and no wrap')
  FROM generate_series(1, 3) n;
UPDATE voucher SET used_count = 0 WHERE code LIKE 'B81-_';

---------------------------------------------------------------------------
-- Input
---------------------------------------------------------------------------

CALL v('B82', fixed => 30);
SELECT is(ARRAY[discount('b82', 1, 'B82-1', 100)::text, r(E' B82\t', 1, 'B82-1')], ARRAY['30', 'DUPLICATE/RESERVED'],
          'B82: one voucher in every spelling, with its discount');

INSERT INTO voucher (code, discount_amount) VALUES ('B85SALE', 1);
SELECT is(broke($$INSERT INTO voucher (code, discount_amount) VALUES ('b85Sale', 1)$$), '23505 voucher_pkey',
          'B85: no two vouchers differ only by case');

CREATE TEMP TABLE b86 AS
    SELECT code, row_number() OVER () AS n
      FROM unnest(ARRAY['B&86', 'B<86>', 'B''86', 'B"86', 'B%86', 'B_86', 'B\86', 'B;86', 'B--86', 'B😀86', 'Ⓑ']) code;
INSERT INTO voucher (code, discount_amount) SELECT code, 1 FROM b86;
SELECT is(ARRAY[r(code, 1, 'B86-' || n), (row_of('B86-' || n)).voucher_code], ARRAY['RESERVED', code],
          'B86: found byte for byte: ' || code)
  FROM b86;
SELECT is(r('BX86', 1, 'B86-X'), 'NOT_FOUND', 'B86: LIKE characters have no meaning');
SELECT matches(raised(format('INSERT INTO voucher (code, discount_amount) VALUES (%L, 1)', code)),
               '^(22023|22001|23514)$', format('B86: no voucher of %s characters "%s..."', length(code), left(code, 4)))
  FROM unnest(ARRAY['', '   ', repeat('X', 255), repeat('X', 256)]) code;

CALL v('B87');
SELECT is((SELECT array_agg(r(code, 1, 'B87-1')) FROM unnest(ARRAY['B87  ', E'B87\t', E'B87\n', E' \n\tB87']) code),
          ARRAY['RESERVED', 'DUPLICATE/RESERVED', 'DUPLICATE/RESERVED', 'DUPLICATE/RESERVED'],
          'B87: blanks, tabs and newlines around a code are trimmed');
SELECT is(raised(format('SELECT voucher_reserve(%L, 1, ''B87-1'', 100)', code)), '22023', 'B87: refused: ' || what)
  FROM (VALUES
    (U&'B87\00A0', 'no-break space'), (U&'B87\200B', 'zero-width space'), (U&'\FEFFB87', 'byte order mark'),
    (E'B87\x01', 'control character')
  ) AS t(code, what);

SELECT is((SELECT array_agg(raised('SELECT ' || call)) FROM unnest(ARRAY[
              'voucher_reserve(NULL, 1, ''o'', 1)', 'voucher_reserve(''B92'', NULL, ''o'', 1)',
              'voucher_reserve(''B92'', 1, NULL, 1)', 'voucher_reserve(''B92'', 1, ''o'', NULL)',
              'voucher_confirm(NULL, ''o'')', 'voucher_confirm(''B92'', NULL)',
              'voucher_release(NULL, ''o'')', 'voucher_release(''B92'', NULL)']) call),
          array_fill('22004'::text, ARRAY[8]), 'B92: NULL is an error, not an answer');

CALL v('B93');
SELECT is(ARRAY[r('B93', 1, 'B93-1'), r('B93', 1, 'B93-2'), c('B93', 'B93-1'), r('B93', 1, 'B93-2')],
          ARRAY['RESERVED', 'ALREADY_USED', 'CONFIRMED', 'ALREADY_USED'], 'B93: held and confirmed both count');

---------------------------------------------------------------------------
-- Counting
---------------------------------------------------------------------------

CALL v('B105', total => 40, per => 3);
SELECT r('B105', n % 20, 'B105-' || n),
       CASE n % 3 WHEN 0 THEN c('B105', 'B105-' || n) WHEN 1 THEN x('B105', 'B105-' || n) END,
       CASE n % 5 WHEN 0 THEN x('B105', 'B105-' || n) WHEN 1 THEN r('B105', n % 20, 'B105-' || n) END
  FROM generate_series(1, 300) n \g /dev/null
SELECT is(used('B105'),
          (SELECT count(*) FROM voucher_redemption WHERE voucher_code = 'B105' AND status <> 'RELEASED'),
          'B105: after a storm of calls the counter equals the rows');
SELECT ok(used('B105') > 20 AND orders('B105') > used('B105'), 'B105: some were served, and some went back');

---------------------------------------------------------------------------
-- Money
---------------------------------------------------------------------------

CALL v('B107', fixed => 500);
SELECT is(ARRAY[discount('B107', 1, 'B107-1', 499), discount('B107', 2, 'B107-2', 500),
                discount('B107', 3, 'B107-3', 1), discount('B107', 4, 'B107-4', 0)],
          ARRAY[499, 500, 1, 0]::bigint[], 'B107: never above the amount, never negative');

CALL v('B108', fixed => 600);
SELECT is(discount('B108', 1, 'B108-1', 400), 400::bigint, 'B108: an over-large discount is clamped');

CALL v('B110', pct => 50, cap => 5000);
SELECT is(ARRAY[discount('B110', 1, 'B110-1', 20000), discount('B110', 2, 'B110-2', 10000),
                discount('B110', 3, 'B110-3', 10001), discount('B110', 4, 'B110-4', 9999)],
          ARRAY[5000, 5000, 5000, 5000]::bigint[], 'B110: the cap applies after rounding');

SELECT is(raised(format('INSERT INTO voucher (code, discount_percent) VALUES (''B111'', %L)', pct)),
          state, format('B111: %s percent', pct))
  FROM (VALUES (1, '-1', '23514'), (2, '0', '23514'),
               (3, '100.01', '23514'), (4, 'NaN', '23514'),
               (5, 'Infinity', '23514'), (6, '100', '00000')) AS t(n, pct, state);

CALL v('B112');
SELECT is(raised(format('SELECT voucher_reserve(''B112'', 1, ''B112-1'', %s)', amount)), state,
          format('B112: an amount of %s', amount))
  FROM (VALUES (1, '-1', '22023'), (2, 'NULL', '22004'), (3, '0.001', '42883'), (4, '''NaN''', '22P02'))
       AS t(n, amount, state);
SELECT is(discount('B112', 1, 'B112-1', 0), 0::bigint, 'B112: an amount of 0 is fine, discount 0');

CALL v('B115', total => 1, pct => 100);
SELECT is(ARRAY[discount('B115', 1, 'B115-1', 100)::text, lapse('B115-1'), r('B115', 2, 'B115-2'), state('B115-1')],
          ARRAY['100', '+16m', 'RESERVED', 'RELEASED/EXPIRED'], 'B115: the hold of a free order lapses like any other');

CALL v('DRV2', per => NULL);
SELECT is(ARRAY[r('DRV2', 1, ord), (row_of(ord)).order_id], ARRAY['RESERVED', ord], 'DRV2: order id ' || ord)
  FROM unnest(ARRAY['0', '-1', '9223372036854775807', '''quoted''', '"quoted"']) ord;
SELECT matches(raised(format('SELECT voucher_reserve(''DRV2'', 1, %L, 1)', repeat('x', 300))), '^(22023|22001)$',
               'DRV2: an order id of 300 bytes is an error');
SELECT is(r('DRV2', 2, '0'), 'ORDER_MISMATCH/customer_id', 'DRV2: order ids are one key space');

CALL v('DRV5', per => NULL, pct => 100);
CALL v('DRV5FIX', per => NULL, fixed => 9223372036854775807);
SELECT is(ARRAY[discount('DRV5', 1, 'DRV5-1', 9223372036854775807), discount('DRV5FIX', 1, 'DRV5-2', 9223372036854775807),
                discount('DRV5FIX', 1, 'DRV5-3', 1)],
          ARRAY[9223372036854775807, 9223372036854775807, 1], 'DRV5: no wrap at the end of the type');

SELECT is_empty('SELECT * FROM voucher_violations()', 'the invariant holds');
SELECT * FROM finish();
ROLLBACK;

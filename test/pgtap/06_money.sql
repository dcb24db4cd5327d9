-- test/pgtap/06_money.sql
-- The discount against numeric arithmetic: every combination through voucher_reserve.
\unset ECHO
\i test/pgtap/setup.sql
SELECT plan(14);

CREATE TEMP TABLE amounts AS
    SELECT generate_series(0::bigint, 205) AS a
    UNION
    SELECT unnest(ARRAY[999, 1000, 1001, 999999, 1000000, 1000001,
                        2147483647, 2147483648, 2147483649,
                        9007199254740991, 9007199254740992, 9007199254740993,
                        9223372036854775806, 9223372036854775807]::bigint[]);

---------------------------------------------------------------------------
-- Percent: rounded half up, then capped, never above the amount
---------------------------------------------------------------------------

-- a * p * 0.01 is exact; a division would round
CREATE TEMP TABLE pct AS
    SELECT 'PCT-' || dense_rank() OVER (ORDER BY p, cap) AS code, row_number() OVER () AS n,
           a, p, cap, least(a, cap, floor(a * p * 0.01 + 0.5)) AS want
      FROM amounts,
           unnest(ARRAY[0.0001, 0.01, 0.5, 1, 12.3456, 33.3333, 50, 66.6667, 99.9999, 100]) p,
           unnest(ARRAY[NULL, 0, 1, 5000]::bigint[]) cap;
INSERT INTO voucher (code, discount_percent, max_discount_amount, per_user_limit)
SELECT DISTINCT code, p, cap, NULL::integer FROM pct;
CREATE TEMP TABLE pct_said AS
    SELECT pct.*, o.result, o.discount_amount AS got
      FROM pct, LATERAL voucher_reserve(code, n, 'pct-' || n, a) o;

SELECT ok((SELECT count(*) FROM pct_said WHERE result = 'RESERVED') > 8000,
          'percent: the grid has more than 8000 combinations, all reserved');
SELECT is_empty($$SELECT a, p, cap, got, want FROM pct_said
                   WHERE result <> 'RESERVED' OR got IS DISTINCT FROM want LIMIT 10$$,
                'percent: every discount equals the oracle');
SELECT is_empty($$SELECT order_id, discount_amount, got
                    FROM pct_said JOIN voucher_redemption ON order_id = 'pct-' || n
                   WHERE discount_amount <> got OR order_amount <> a LIMIT 10$$,
                'percent: every discount is stored as answered');
SELECT is((SELECT sum(used_count)::bigint FROM voucher WHERE code LIKE 'PCT-%'),
          (SELECT count(*) FROM pct), 'percent: every use is counted');

CALL v('HALF', per => NULL, pct => 50);
SELECT is((voucher_reserve('HALF', a, 'half-' || a, a)).discount_amount, want,
          format('half of %s is %s: half up, not to even', a, want))
  FROM (VALUES (0, 0::bigint), (1, 1), (2, 1), (3, 2), (5, 3), (7, 4)) AS t(a, want);

---------------------------------------------------------------------------
-- Fixed: never above the amount
---------------------------------------------------------------------------

CREATE TEMP TABLE fix AS
    SELECT 'FIX-' || dense_rank() OVER (ORDER BY f) AS code, row_number() OVER () AS n,
           a, f, least(a, f) AS want
      FROM amounts,
           unnest(ARRAY[0, 1, 2, 99, 205, 1000, 1000001, 2147483648, 9007199254740993,
                        9223372036854775807]::bigint[]) f;
INSERT INTO voucher (code, discount_amount, per_user_limit)
SELECT DISTINCT code, f, NULL::integer FROM fix;
CREATE TEMP TABLE fix_said AS
    SELECT fix.*, o.result, o.discount_amount AS got
      FROM fix, LATERAL voucher_reserve(code, n, 'fix-' || n, a) o;

SELECT ok((SELECT count(*) FROM fix_said WHERE result = 'RESERVED') > 2000,
          'fixed: the grid has more than 2000 combinations, all reserved');
SELECT is_empty($$SELECT a, f, got, want FROM fix_said
                   WHERE result <> 'RESERVED' OR got IS DISTINCT FROM want LIMIT 10$$,
                'fixed: every discount equals the oracle');
SELECT is_empty($$SELECT order_id, discount_amount, got
                    FROM fix_said JOIN voucher_redemption ON order_id = 'fix-' || n
                   WHERE discount_amount <> got OR order_amount <> a LIMIT 10$$,
                'fixed: every discount is stored as answered');

SELECT is_empty('SELECT * FROM voucher_violations()', 'the invariant holds');
SELECT * FROM finish();
ROLLBACK;

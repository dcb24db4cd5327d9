-- test/pgtap/08_guards.sql
-- A code is stored in its normal form; a voucher with redemptions stays.
\unset ECHO
\i test/pgtap/setup.sql
SELECT plan(37);

---------------------------------------------------------------------------
-- The normal form
---------------------------------------------------------------------------

INSERT INTO voucher (code, discount_amount) VALUES (E' \tguard-Sale\n ', 1);
SELECT isnt_empty($$SELECT 1 FROM voucher WHERE code = 'GUARD-SALE'$$, 'insert stores the normal form');
SELECT is(broke(format('INSERT INTO voucher (code, discount_amount) VALUES (%L, 1)', code)),
          '23505 voucher_pkey', format('the same code again: %L', code))
  FROM unnest(ARRAY['GUARD-SALE', 'guard-sale', ' Guard-Sale ']) code;
INSERT INTO voucher (code, discount_amount) VALUES ('guard-sale', 2) ON CONFLICT (code) DO NOTHING;
SELECT is((SELECT discount_amount FROM voucher WHERE code = 'GUARD-SALE'), 1::bigint,
          'ON CONFLICT sees the normal form');
SELECT matches(raised(format('INSERT INTO voucher (code, discount_amount) VALUES (%L, 1)', code)),
               '^(22023|22001|23514)$', 'insert refuses ' || what)
  FROM (VALUES
    ('', 'an empty code'), (E' \t\n', 'blanks only'), (repeat('X', 33), '33 characters'),
    ('GUARD SALE', 'an inner blank'), (E'GUARD\x01', 'a control character'),
    (U&'GUARD\00A0', 'a no-break space'), (U&'GU\200BARD', 'a zero-width space'),
    (U&'\FEFFGUARD', 'a byte order mark')
  ) AS t(code, what);
SELECT matches(raised('INSERT INTO voucher (code, discount_amount) VALUES (NULL, 1)'),
               '^(22004|23502)$', 'insert refuses NULL');
-- never a second spelling: refused, or normalised
SELECT raised($$UPDATE voucher SET code = 'guard-other' WHERE code = 'GUARD-SALE'$$) \g /dev/null
SELECT is_empty($$SELECT code FROM voucher WHERE code ~ '[a-z]' AND code LIKE 'guard%'$$,
                'a rename does not escape the normal form');
UPDATE voucher SET code = 'GUARD-SALE' WHERE code IN ('GUARD-OTHER', 'guard-other');

---------------------------------------------------------------------------
-- Delete, truncate, rename
---------------------------------------------------------------------------

CALL v('GUARD-HELD');
CALL v('GUARD-PAID');
CALL v('GUARD-GONE');
SELECT r('GUARD-HELD', 1, 'guard-1'), r('GUARD-PAID', 1, 'guard-2'), c('GUARD-PAID', 'guard-2'),
       r('GUARD-GONE', 1, 'guard-3'), x('GUARD-GONE', 'guard-3') \g /dev/null

SELECT ok(state <> '00000' AND coalesce(hint, '') <> '', 'refused, with a hint: ' || query)
  FROM unnest(ARRAY['GUARD-HELD', 'GUARD-PAID', 'GUARD-GONE']) code,
       unnest(ARRAY['DELETE FROM voucher WHERE code = %L',
                    'UPDATE voucher SET code = ''GUARD-NEW'' WHERE code = %L']) form,
       format(form, code) query,
       raises(query);
SELECT ok(state <> '00000' AND coalesce(hint, '') <> '', 'refused, with a hint: ' || query)
  FROM unnest(ARRAY['DELETE FROM voucher', 'TRUNCATE voucher', 'TRUNCATE voucher, voucher_slot',
                    'TRUNCATE voucher CASCADE',
                    'TRUNCATE voucher, voucher_slot, voucher_redemption']) query,
       raises(query);
SELECT is((SELECT array_agg(code ORDER BY code) FROM voucher WHERE code LIKE 'GUARD-%'),
          ARRAY['GUARD-GONE', 'GUARD-HELD', 'GUARD-PAID', 'GUARD-SALE'], 'all vouchers are still there');
SELECT is(ARRAY[state('guard-1'), state('guard-2'), state('guard-3')],
          ARRAY['RESERVED', 'CONFIRMED', 'RELEASED/RELEASED'], 'and all redemptions');
SELECT is(raised($$UPDATE voucher SET code = code, enabled = false WHERE code = 'GUARD-HELD'$$), '00000',
          'an update that writes the same code is no rename, and disabling is the way');

SELECT is(raised($$UPDATE voucher SET code = 'GUARD-NEW' WHERE code = 'GUARD-SALE'$$), '00000',
          'a voucher without redemptions can be renamed');
SELECT is(r('GUARD-SALE', 1, 'guard-4'), 'NOT_FOUND', 'and is not found under its old name');
SELECT is(raised($$DELETE FROM voucher WHERE code = 'GUARD-NEW'$$), '00000',
          'a voucher without redemptions can be deleted');
SELECT is_empty($$SELECT 1 FROM voucher WHERE code IN ('GUARD-NEW', 'GUARD-SALE')$$, 'and is gone');
SELECT is_empty('SELECT * FROM voucher_violations()', 'the invariant holds');

DELETE FROM voucher_redemption;
SELECT is(raised('TRUNCATE voucher CASCADE'), '00000', 'vouchers without redemptions can be truncated');
SELECT is_empty('SELECT 1 FROM voucher', 'and are gone');

SELECT is_empty('SELECT * FROM voucher_violations()', 'the invariant still holds');
SELECT * FROM finish();
ROLLBACK;

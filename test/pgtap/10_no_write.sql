-- test/pgtap/10_no_write.sql
-- A refusal takes no transaction id.  pgTAP takes one itself, so the calls are
-- made in transactions of their own, on vouchers NOXID* that are committed
-- first and removed again.
\unset ECHO
\i test/pgtap/setup.sql
ROLLBACK;
SET search_path = public;
DELETE FROM voucher_redemption WHERE voucher_code LIKE 'NOXID%';
DELETE FROM voucher WHERE code LIKE 'NOXID%';

INSERT INTO voucher (code, discount_amount, total_limit, min_order_amount, enabled, starts_at, ends_at)
VALUES ('NOXID', 10, 1, 0, true, now(), 'infinity'),
       ('NOXID-OPEN', 10, NULL, 0, true, now(), 'infinity'),
       ('NOXID-OFF', 10, 1, 0, false, now(), 'infinity'),
       ('NOXID-EARLY', 10, 1, 0, true, now() + interval '1 day', 'infinity'),
       ('NOXID-LATE', 10, 1, 0, true, '-infinity', now()),
       ('NOXID-SMALL', 10, 1, 500, true, now(), 'infinity');
INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('NOXID-FLASH', 10, 2);
SELECT voucher_flash_open('NOXID-FLASH'), voucher_reserve('NOXID-FLASH', 1, 'noxid-f1', 100),
       voucher_reserve('NOXID-FLASH', 2, 'noxid-f2', 100) \g /dev/null
SELECT voucher_reserve('NOXID', 1, 'noxid-paid', 100), voucher_confirm('NOXID', 'noxid-paid'),
       voucher_reserve('NOXID-OPEN', 1, 'noxid-gone', 100), voucher_release('NOXID-OPEN', 'noxid-gone') \g /dev/null

-- one statement is one transaction; '!' marks an answer that took an id
SELECT string_agg(concat_ws('/', result, detail)
                  || CASE WHEN pg_current_xact_id_if_assigned() IS NULL THEN '' ELSE '!' END, ' ') AS reserve
  FROM (VALUES ('NOXID-NONE', 1, 'noxid-new', 100), ('NOXID-OFF', 1, 'noxid-new', 100),
               ('NOXID-EARLY', 1, 'noxid-new', 100), ('NOXID-LATE', 1, 'noxid-new', 100),
               ('NOXID-SMALL', 1, 'noxid-new', 100), ('NOXID', 1, 'noxid-new', 100),
               ('NOXID', 2, 'noxid-new', 100), ('NOXID', 1, 'noxid-paid', 99),
               ('NOXID-FLASH', 1, 'noxid-new', 100), ('NOXID-FLASH', 3, 'noxid-new', 100)) AS t(code, customer, ord, amount),
       LATERAL voucher_reserve(code, customer, ord, amount) \gset
SELECT string_agg(concat_ws('/', result, detail)
                  || CASE WHEN pg_current_xact_id_if_assigned() IS NULL THEN '' ELSE '!' END, ' ') AS confirm
  FROM (VALUES ('NOXID-NONE', 'noxid-paid'), ('NOXID', 'noxid-new'), ('NOXID-OPEN', 'noxid-gone')) AS t(code, ord),
       LATERAL voucher_confirm(code, ord) \gset
SELECT string_agg(concat_ws('/', result, detail)
                  || CASE WHEN pg_current_xact_id_if_assigned() IS NULL THEN '' ELSE '!' END, ' ') AS release
  FROM (VALUES ('NOXID-NONE', 'noxid-paid'), ('NOXID', 'noxid-new'), ('NOXID', 'noxid-paid')) AS t(code, ord),
       LATERAL voucher_release(code, ord) \gset
SELECT string_agg(voucher_flash_close(code) || '', ' ') AS closed FROM voucher WHERE code = 'NOXID-FLASH' \gset
-- the mark itself: a success takes an id
SELECT pg_current_xact_id_if_assigned() IS NOT NULL AS success
  FROM voucher_reserve('NOXID-OPEN', 1, 'noxid-new', 100) \gset

DELETE FROM voucher_redemption WHERE voucher_code LIKE 'NOXID%';
DELETE FROM voucher WHERE code LIKE 'NOXID%';

\i test/pgtap/setup.sql
SELECT plan(5);

SELECT ok(:'success', 'a success takes a transaction id');
SELECT is(:'reserve'::text, 'NOT_FOUND NOT_ELIGIBLE/DISABLED NOT_ELIGIBLE/NOT_STARTED NOT_ELIGIBLE/ENDED '
                      'NOT_ELIGIBLE/BELOW_MINIMUM ALREADY_USED OUT_OF_STOCK ORDER_MISMATCH/order_amount '
                      'ALREADY_USED OUT_OF_STOCK',
          'no refusal of reserve takes one');
SELECT is(:'confirm'::text, 'NOT_FOUND NOT_FOUND NOT_RESERVED/RELEASED', 'no refusal of confirm takes one');
SELECT is(:'release'::text, 'NOT_FOUND NOT_FOUND NOT_RESERVED/CONFIRMED', 'no refusal of release takes one');

SELECT is_empty('SELECT * FROM voucher_violations()', 'the invariant holds');
SELECT * FROM finish();
ROLLBACK;

-- test/pgtap/00_invariant.sql
-- The alarm itself: voucher_violations() sees every kind of damage.
\unset ECHO
\i test/pgtap/setup.sql
SELECT plan(10);

SELECT is_empty('SELECT * FROM voucher_violations()', 'a sound database has no violations');

CREATE FUNCTION damage(what text) RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*) FROM voucher_violations() t(line) WHERE line LIKE what || ':%'
$$;

CALL v('INV', total => 2, per => 2);
SELECT is(ARRAY[r('INV', 1, 'inv-1'), r('INV', 1, 'inv-2')], ARRAY['RESERVED', 'RESERVED'],
          'two holds of one customer');

UPDATE voucher SET per_user_limit = 1 WHERE code = 'INV';
SELECT is(damage('greedy'), 1::bigint, 'sees a customer over his limit');
UPDATE voucher SET per_user_limit = NULL WHERE code = 'INV';
SELECT is(damage('greedy'), 0::bigint, 'no limit, no customer over it');

UPDATE voucher SET used_count = 1 WHERE code = 'INV';
SELECT is(damage('counter'), 1::bigint, 'sees a counter below the rows');
UPDATE voucher SET used_count = 1, total_limit = 1 WHERE code = 'INV';
SELECT is(damage('oversold'), 1::bigint, 'sees more live uses than the limit');
UPDATE voucher SET total_limit = 3, used_count = 3 WHERE code = 'INV';
SELECT is(damage('counter'), 1::bigint, 'sees a counter above the rows');
UPDATE voucher SET used_count = 2, per_user_limit = 2 WHERE code = 'INV';

DROP INDEX voucher_redemption_order_key;
INSERT INTO voucher_redemption (voucher_code, customer_id, order_id, status, order_amount,
                                discount_amount, expires_at)
VALUES ('INV', 2, 'inv-1', 'RESERVED', 100, 10, 'infinity');
SELECT is(damage('duplicate'), 1::bigint, 'sees two live uses of one order');
DELETE FROM voucher_redemption WHERE customer_id = 2 AND order_id = 'inv-1';

INSERT INTO voucher_redemption (voucher_code, customer_id, order_id, status, order_amount,
                                discount_amount, expires_at, released_at, release_reason)
VALUES ('INV-NONE', 1, 'inv-3', 'RELEASED', 100, 10, now(), now(), 'EXPIRED');
SELECT is(damage('orphan'), 1::bigint, 'sees a redemption without a voucher');
DELETE FROM voucher_redemption WHERE voucher_code = 'INV-NONE';

SELECT is_empty('SELECT * FROM voucher_violations()', 'the invariant holds');
SELECT * FROM finish();
ROLLBACK;

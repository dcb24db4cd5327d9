-- test/pgtap/01_schema.sql
-- Tables, constraints, storage, and what CREATE EXTENSION registers.
\unset ECHO
\i test/pgtap/setup.sql
SELECT plan(120);

---------------------------------------------------------------------------
-- Columns
---------------------------------------------------------------------------

CREATE FUNCTION columns(rel regclass) RETURNS text[] LANGUAGE sql AS $$
    SELECT array_agg(attname || ' ' || format_type(atttypid, atttypmod) ORDER BY attnum)
      FROM pg_attribute WHERE attrelid = rel AND attnum > 0 AND NOT attisdropped
$$;

SELECT is(columns('voucher'), ARRAY[
    'code text', 'discount_amount bigint', 'discount_percent numeric', 'max_discount_amount bigint',
    'min_order_amount bigint', 'total_limit bigint', 'used_count bigint', 'flash_quota integer',
    'flash boolean', 'per_user_limit integer', 'hold_time interval', 'starts_at timestamp with time zone',
    'ends_at timestamp with time zone', 'enabled boolean', 'created_at timestamp with time zone',
    'purged_count bigint'], 'voucher: columns');
SELECT is(columns('voucher_redemption'), ARRAY[
    'id bigint', 'voucher_code text', 'customer_id bigint', 'order_id text', 'status text',
    'order_amount bigint', 'discount_amount bigint', 'use_no integer', 'slot_no integer',
    'created_at timestamp with time zone', 'expires_at timestamp with time zone',
    'confirmed_at timestamp with time zone', 'released_at timestamp with time zone',
    'release_reason text'], 'voucher_redemption: columns');
SELECT is(columns('voucher_slot'), ARRAY['voucher_code text', 'slot_no integer'], 'voucher_slot: columns');
SELECT col_not_null(rel, col, format('%s.%s is NOT NULL', rel, col))
  FROM (VALUES
    ('voucher', ARRAY['code', 'used_count', 'flash_quota', 'flash', 'starts_at', 'ends_at', 'enabled', 'purged_count']),
    ('voucher_redemption', ARRAY['id', 'voucher_code', 'customer_id', 'order_id', 'status',
                                 'order_amount', 'discount_amount', 'created_at']),
    ('voucher_slot', ARRAY['voucher_code', 'slot_no'])
  ) AS t(rel, cols), unnest(cols) col;

SELECT is_empty($$
    SELECT attrelid::regclass, attname, attcollation::regcollation FROM pg_attribute
     WHERE attrelid IN ('voucher'::regclass, 'voucher_redemption'::regclass, 'voucher_slot'::regclass)
       AND attnum > 0 AND atttypid = 'text'::regtype AND attcollation <> '"C"'::regcollation
$$, 'every text column is COLLATE "C"');
SELECT is((SELECT attidentity FROM pg_attribute
            WHERE attrelid = 'voucher_redemption'::regclass AND attname = 'id'),
          'a'::"char", 'voucher_redemption.id is GENERATED ALWAYS AS IDENTITY');

INSERT INTO voucher (code, discount_amount, total_limit, starts_at, ends_at)
VALUES ('CK', 100000, 1000, now() - interval '1 day', now() + interval '1 day');
SELECT pass('the INSERT of the classic design works');
INSERT INTO voucher (code, discount_amount) VALUES ('CK-DEFAULT', 1);
SELECT results_eq($$
    SELECT min_order_amount, total_limit, used_count, flash_quota, flash, per_user_limit, hold_time,
           starts_at, ends_at, enabled, created_at, purged_count FROM voucher WHERE code = 'CK-DEFAULT'
$$, $$
    VALUES (0::bigint, NULL::bigint, 0::bigint, 0, false, 1, NULL::interval,
            now(), 'infinity'::timestamptz, true, now(), 0::bigint)
$$, 'voucher: defaults');

---------------------------------------------------------------------------
-- CHECK constraints: each violated in turn.  Which of them speaks is its own
-- business, but for ck_used.
---------------------------------------------------------------------------

SELECT col_is_pk('voucher', 'code', 'voucher: primary key');
SELECT col_is_pk('voucher_redemption', 'id', 'voucher_redemption: primary key');
SELECT col_is_pk('voucher_slot', ARRAY['voucher_code', 'slot_no'], 'voucher_slot: primary key');

SELECT is(raised(format('INSERT INTO voucher (code, %s) VALUES (''CK-BAD'', %s)', cols, vals)),
          '23514', format('voucher: (%s) = (%s) is refused', cols, vals))
  FROM (VALUES
    ('total_limit', '1'),
    ('discount_amount, discount_percent', '1, 1'),
    ('discount_amount', '-1'),
    ('discount_percent', '-1'),
    ('discount_percent', '0'),
    ('discount_percent', '100.01'),
    ('discount_percent', '0.00001'),
    ('discount_percent', '33.33333'),
    ('discount_percent', '''NaN'''),
    ('discount_percent', '''Infinity'''),
    ('discount_percent, max_discount_amount', '1, -1'),
    ('discount_amount, min_order_amount', '1, -1'),
    ('discount_amount, total_limit', '1, -1'),
    ('discount_amount, per_user_limit', '1, 0'),
    ('discount_amount, per_user_limit', '1, -1'),
    ('discount_amount, hold_time', '1, ''0'''),
    ('discount_amount, hold_time', '1, ''-1 minute'''),
    ('discount_amount, hold_time', '1, ''90 days 00:00:01'''),
    ('discount_amount, starts_at, ends_at', '1, now(), now()'),
    ('discount_amount, starts_at, ends_at', '1, now(), now() - interval ''1 s'''),
    ('discount_amount, starts_at', '1, ''infinity'''),
    ('discount_amount, purged_count', '1, -1'),
    ('discount_amount, purged_count', '1, 1'),
    ('discount_amount, used_count, purged_count', '1, 2, 3')
  ) AS bad(cols, vals);
SELECT is(broke(format('INSERT INTO voucher (code, %s) VALUES (''CK-BAD'', %s)', cols, vals)),
          '23514 ck_used', format('voucher: ck_used refuses (%s) = (%s)', cols, vals))
  FROM (VALUES
    ('discount_amount, used_count', '1, -1'),
    ('discount_amount, flash_quota', '1, -1'),
    ('discount_amount, total_limit, used_count', '1, 2, 3'),
    ('discount_amount, total_limit, flash_quota', '1, 2, 3'),
    ('discount_amount, total_limit, used_count, flash_quota', '1, 2, 1, 2'),
    ('discount_amount, total_limit, used_count', '1, 0, 1')
  ) AS bad(cols, vals);
SELECT is(raised(format('INSERT INTO voucher (code, %s) VALUES (''CK-OK%s'', %s)', cols, n, vals)),
          '00000', format('voucher: (%s) = (%s) is fine', cols, vals))
  FROM (VALUES
    (1, 'discount_amount', '0'),
    (2, 'discount_percent', '0.0001'),
    (3, 'discount_percent', '100'),
    (4, 'discount_percent, max_discount_amount', '1.50000, 0'),
    (5, 'discount_amount, min_order_amount', '1, NULL'),
    (6, 'discount_amount, total_limit', '1, 0'),
    (7, 'discount_amount, total_limit, used_count, flash_quota', '1, 3, 1, 2'),
    (8, 'discount_amount, per_user_limit', '1, NULL'),
    (9, 'discount_amount, hold_time', '1, ''90 days'''),
    (10, 'discount_amount, starts_at, ends_at', '1, ''-infinity'', ''infinity'''),
    (11, 'discount_amount, used_count, purged_count', '1, 2, 2')
  ) AS good(n, cols, vals);

-- a redemption that is fine, and what is changed about it
CREATE FUNCTION redemption(but jsonb DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
    SELECT format('INSERT INTO voucher_redemption (%1$s)
                   SELECT %1$s FROM jsonb_populate_record(NULL::voucher_redemption, %2$L)',
                  'voucher_code, customer_id, order_id, status, order_amount, discount_amount,
                   use_no, slot_no, expires_at, confirmed_at, released_at, release_reason',
                  jsonb '{"voucher_code": "CK", "customer_id": 1, "order_id": "ck", "status": "RESERVED",
                          "order_amount": 100, "discount_amount": 10, "use_no": 1,
                          "expires_at": "infinity"}' || but)
$$;

SELECT matches(raised(redemption(but::jsonb)), '^(23514|23502)$', 'voucher_redemption: refused: ' || but)
  FROM (VALUES
    ('{"order_id": ""}'),
    (format('{"order_id": "%s"}', repeat('x', 65))),
    (format('{"order_id": "%s"}', repeat('é', 33))),
    ('{"order_amount": -1, "discount_amount": 0}'),
    ('{"discount_amount": -1}'),
    ('{"discount_amount": 101}'),
    ('{"use_no": 0}'),
    ('{"status": "PENDING"}'),
    ('{"expires_at": null}'),
    ('{"confirmed_at": "2020-01-01"}'),
    ('{"status": "CONFIRMED"}'),
    ('{"status": "RELEASED", "released_at": "2020-01-01", "release_reason": "LOST"}'),
    ('{"status": "RELEASED", "release_reason": "RELEASED"}'),
    ('{"status": "RELEASED", "released_at": "2020-01-01"}'),
    ('{"released_at": "2020-01-01"}'),
    ('{"release_reason": "EXPIRED"}'),
    ('{"status": "RELEASED", "released_at": "2020-01-01", "release_reason": "RELEASED", "slot_no": 1}')
  ) AS bad(but);
SELECT is(raised('INSERT INTO voucher_slot VALUES (''CK'', 0)'), '23514', 'voucher_slot: no slot_no 0');

---------------------------------------------------------------------------
-- Uniqueness among live rows, and foreign keys
---------------------------------------------------------------------------

INSERT INTO voucher_slot VALUES ('CK', 1);
SELECT is(broke(redemption(but::jsonb)), result, what)
  FROM (VALUES
    (1, '{}', '00000', 'a live row'),
    (2, '{"customer_id": 2}', '23505 voucher_redemption_order_key', 'one live use per order'),
    (3, '{"customer_id": 2, "status": "CONFIRMED", "confirmed_at": "2020-01-01"}',
     '23505 voucher_redemption_order_key', 'a confirmed use is live'),
    (4, '{"customer_id": 2, "voucher_code": "CK-DEFAULT"}',
     '23505 voucher_redemption_order_key', 'one live use per order over all vouchers'),
    (5, '{"order_id": "CK"}', '23505 voucher_redemption_use_key',
     'one live use per customer and use_no'),
    (6, '{"order_id": "CK", "use_no": 2}', '00000', 'the next use_no is free, and order ids have case'),
    (7, '{"order_id": "ck7", "use_no": null}', '00000', 'a row without use_no'),
    (8, '{"order_id": "ck8", "use_no": null}', '00000', 'rows without use_no do not collide'),
    (9, '{"status": "RELEASED", "released_at": "2020-01-01", "release_reason": "RELEASED"}',
     '00000', 'a released row collides with no live row'),
    (10, '{"status": "RELEASED", "released_at": "2020-01-01", "release_reason": "EXPIRED"}',
     '00000', 'a released row collides with no released row'),
    (11, '{"order_id": "ck11", "customer_id": 11, "slot_no": 1}', '00000', 'a row that owns a slot'),
    (12, '{"order_id": "ck12", "customer_id": 12, "slot_no": 1}',
     '23505 voucher_redemption_slot_key', 'one live use per slot'),
    (13, '{"order_id": "ck13", "customer_id": 13, "slot_no": 2}',
     '23503 voucher_redemption_slot_fkey', 'no use of a slot that does not exist, at once')
  ) AS t(n, but, result, what) ORDER BY n;
SELECT is(broke('DELETE FROM voucher_slot WHERE voucher_code = ''CK'''),
          '23503 voucher_redemption_slot_fkey', 'a slot in use cannot be deleted');
SELECT is(raised('INSERT INTO voucher_slot VALUES (''CK-NONE'', 1)'),
          '23503', 'no slot without a voucher');

SELECT is((SELECT condeferrable FROM pg_constraint WHERE conname = 'voucher_redemption_slot_fkey'),
          false, 'the foreign key to voucher_slot is not deferrable');
SELECT is_empty($$
    SELECT conname FROM pg_constraint
     WHERE conrelid = 'voucher_redemption'::regclass AND confrelid = 'voucher'::regclass
$$, 'no foreign key from redemption to voucher');

---------------------------------------------------------------------------
-- Storage and indexes
---------------------------------------------------------------------------

CREATE FUNCTION options(rel text) RETURNS TABLE (key text, value text) LANGUAGE sql AS $$
    SELECT option_name, option_value
      FROM pg_class, pg_options_to_table(reloptions) WHERE oid = rel::regclass
$$;

SELECT is((SELECT value::boolean FROM options(rel) WHERE key = 'vacuum_truncate'), false,
          rel || ': vacuum_truncate = off')
  FROM unnest(ARRAY['voucher', 'voucher_redemption', 'voucher_slot']) rel;
SELECT ok((SELECT value::integer FROM options('voucher') WHERE key = 'fillfactor') < 100,
          'voucher: fillfactor leaves room for HOT');
SELECT isnt_empty(format('SELECT 1 FROM options(%L) WHERE key LIKE ''autovacuum_vacuum_%%''', rel),
                  rel || ': autovacuum set for a queue-like table')
  FROM unnest(ARRAY['voucher', 'voucher_redemption']) rel;
SELECT is_empty($$
    SELECT indexrelid::regclass FROM pg_index
     WHERE indrelid = 'voucher'::regclass
       AND pg_get_indexdef(indexrelid) ~ '\m(used_count|flash_quota|purged_count)\M'
$$, 'no index of voucher mentions a counter');
SELECT isnt_empty($$
    SELECT 1 FROM pg_index
     WHERE indrelid = 'voucher_redemption'::regclass AND indisvalid
       AND pg_get_indexdef(indexrelid, 1, false) = 'expires_at'
       AND pg_get_expr(indpred, indrelid) ~ 'status = ''RESERVED'''
$$, 'an index finds the next hold to expire');

---------------------------------------------------------------------------
-- The extension
---------------------------------------------------------------------------

SELECT set_eq($$SELECT unnest(extconfig)::regclass::text FROM pg_extension WHERE extname = 'voucher'$$,
              ARRAY['voucher', 'voucher_slot', 'voucher_redemption', 'voucher_redemption_id_seq'],
              'pg_dump carries the three tables and the identity sequence');
SELECT is_empty($$
    SELECT condition FROM pg_extension, unnest(extcondition) c(condition)
     WHERE extname = 'voucher' AND condition <> ''
$$, 'pg_dump carries every row');
SELECT is_empty($$
    SELECT pg_describe_object(classid, objid, 0) FROM member
     WHERE obj_description(objid, classid::regclass::name) IS NULL
       AND NOT (classid = 'pg_type'::regclass      -- array and row types, members since 17
                AND EXISTS (SELECT FROM pg_type t LEFT JOIN pg_class k ON k.oid = t.typrelid
                             WHERE t.oid = objid AND (t.typcategory = 'A' OR k.relkind <> 'c')))
$$, 'every object of the extension has a comment');
SELECT is_empty($$
    SELECT attrelid::regclass, attname FROM pg_attribute
     WHERE attrelid IN ('voucher'::regclass, 'voucher_redemption'::regclass, 'voucher_slot'::regclass)
       AND attnum > 0 AND NOT attisdropped AND col_description(attrelid, attnum) IS NULL
$$, 'every column of the tables has a comment');
SELECT is((SELECT extrelocatable FROM pg_extension WHERE extname = 'voucher'), false,
          'the extension is not relocatable');
SELECT is((SELECT extversion FROM pg_extension WHERE extname = 'voucher'), '1.0',
          'the default version is installed');

DELETE FROM voucher_redemption WHERE voucher_code = 'CK';
DELETE FROM voucher_slot WHERE voucher_code = 'CK';
DELETE FROM voucher WHERE code LIKE 'CK%';
SELECT is_empty('SELECT * FROM voucher_violations()', 'the invariant holds');

DROP EXTENSION voucher CASCADE;
CREATE ROLE regress_voucher_plain;
GRANT CREATE ON DATABASE postgres TO regress_voucher_plain;
GRANT CREATE ON SCHEMA public TO regress_voucher_plain;
SET LOCAL ROLE regress_voucher_plain;
SELECT throws_ok('CREATE EXTENSION voucher', '42501', NULL,
                 'only a superuser may install it: it is not trusted');
RESET ROLE;
SELECT * FROM finish();
ROLLBACK;

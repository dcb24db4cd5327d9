-- test/pgtap/02_functions.sql
-- Signatures, properties, privileges, and whose names the functions see.
\unset ECHO
\i test/pgtap/setup.sql
SELECT plan(128);

SELECT set_eq($$
    SELECT format('%s(%s)', p.proname, pg_get_function_identity_arguments(p.oid))
      FROM pg_proc p JOIN member m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
     WHERE p.prorettype = 'voucher_outcome'::regtype
$$, ARRAY['voucher_reserve(code text, customer_id bigint, order_id text, order_amount bigint)',
          'voucher_confirm(code text, order_id text)', 'voucher_release(code text, order_id text)',
          'voucher_refund(code text, order_id text)',
          'voucher_redeem(code text, customer_id bigint, order_id text, order_amount bigint)',
          'voucher_extend(code text, order_id text, hold interval)',
          'voucher_check(code text, customer_id bigint, order_amount bigint)',
          'voucher_reserve_or_raise(code text, customer_id bigint, order_id text, order_amount bigint)',
          'voucher_confirm_or_raise(code text, order_id text)', 'voucher_release_or_raise(code text, order_id text)',
          'voucher_redeem_or_raise(code text, customer_id bigint, order_id text, order_amount bigint)'],
    'signatures, one function of each name');

SELECT is((SELECT array_agg(attname || ' ' || format_type(atttypid, atttypmod) ORDER BY attnum)
             FROM pg_attribute WHERE attrelid = 'voucher_outcome'::regclass AND attnum > 0),
          ARRAY['result text', 'discount_amount bigint', 'expires_at timestamp with time zone',
                'detail text'], 'voucher_outcome: attributes');

SELECT is(have, want, p.proname || what)
  FROM pg_proc p
  JOIN pg_language l ON l.oid = p.prolang,
       LATERAL (VALUES
    (p.prorettype::regtype::text, 'voucher_outcome', ' returns voucher_outcome'),
    (p.proretset::text, 'false', ' returns one row'),
    (l.lanname::text, 'c', ' is written in C'),
    (p.provolatile::text, CASE p.proname WHEN 'voucher_check' THEN 's' ELSE 'v' END,
     ' is STABLE if it is a dry run, else VOLATILE'),
    (p.proparallel::text, 'u', ' is PARALLEL UNSAFE'),
    (p.proisstrict::text, 'false', ' is not STRICT'),
    (p.proleakproof::text, 'false', ' is not LEAKPROOF'),
    (p.prosecdef::text, 'false', ' is SECURITY INVOKER')
  ) AS t(have, want, what)
 WHERE p.prorettype = 'voucher_outcome'::regtype
 ORDER BY p.proname;

SELECT set_eq($$
    SELECT format('%s(%s) %s', p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid))
      FROM pg_proc p JOIN member m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
     WHERE p.prorettype <> ALL (ARRAY['voucher_outcome', 'trigger', 'internal']::regtype[])
$$, ARRAY['voucher_set_limit(code text, total_limit bigint) void',
          'voucher_flash_open(code text, quota integer DEFAULT NULL::integer) integer',
          'voucher_flash_close(code text) integer',
          'voucher_generate(n integer, template text, prefix text, length integer) SETOF text',
          'voucher_purge(older_than interval, batch integer DEFAULT 10000) bigint',
          'voucher_run_worker(OUT expired bigint, OUT drifting bigint) record',
          'voucher_reconcile(code text DEFAULT NULL::text) TABLE(code text, total_limit bigint, per_user_limit integer, '
          'used_count bigint, purged_count bigint, ordinary_live bigint, flash_quota bigint, slots bigint, '
          'flash_live bigint, orphans bigint, customers_over_limit bigint, drift boolean)',
          'voucher_repair(code text) bigint',
          'voucher_worker_databases(OUT datname name, OUT state text, OUT last_visit timestamp with time zone, '
          'OUT last_error text, OUT last_error_at timestamp with time zone, OUT next_due timestamp with time zone, '
          'OUT expired bigint, OUT heartbeat timestamp with time zone) SETOF record'],
    'the other functions');

---------------------------------------------------------------------------
-- Privileges
---------------------------------------------------------------------------

SELECT is_empty($$
    SELECT p.oid::regprocedure, a.grantee::regrole
      FROM member m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid,
           aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
     WHERE a.grantee <> p.proowner
$$, 'EXECUTE on no function is granted to PUBLIC or anybody else');
SELECT is_empty($$
    SELECT k.oid::regclass, a.grantee::regrole, a.privilege_type
      FROM member m JOIN pg_class k ON m.classid = 'pg_class'::regclass AND k.oid = m.objid,
           aclexplode(coalesce(k.relacl, acldefault(CASE k.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char",
                                                    k.relowner))) a
     WHERE a.grantee <> k.relowner
$$, 'no table or sequence is granted to anybody');

-- what a role gets when it asks: the answer, or the SQLSTATE
CREATE FUNCTION as_role(who text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', who);
    EXECUTE query INTO answer;
    RESET ROLE;
    RETURN answer;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END
$$;
CREATE ROLE voucher_tap_nobody;
CREATE ROLE voucher_tap_shop;
GRANT USAGE ON SCHEMA public TO voucher_tap_nobody, voucher_tap_shop;
GRANT EXECUTE ON FUNCTION voucher_reserve(text, bigint, text, bigint), voucher_confirm(text, text),
                          voucher_release(text, text) TO voucher_tap_shop;
CALL v('ROLE', per => NULL);

SELECT is(as_role('voucher_tap_nobody', query), '42501', 'refused without a grant: ' || query)
  FROM unnest(ARRAY[
    $$SELECT (voucher_reserve('ROLE', 1, 'role-0', 100)).result$$,
    $$SELECT (voucher_confirm('ROLE', 'role-0')).result$$,
    $$SELECT (voucher_release('ROLE', 'role-0')).result$$,
    $$SELECT voucher_set_limit('ROLE', 1)$$,
    $$SELECT voucher_flash_open('ROLE', 1)$$,
    $$SELECT voucher_flash_close('ROLE')$$,
    $$SELECT voucher_generate(1, 'ROLE', '', 10)$$,
    $$SELECT voucher_purge('1 day')$$,
    $$SELECT voucher_run_worker()$$,
    $$SELECT voucher_reconcile()$$,
    $$SELECT voucher_repair('ROLE')$$,
    $$SELECT voucher_worker_databases()$$]) query;
SELECT is(as_role('voucher_tap_shop', query), result, 'EXECUTE is all a caller needs: ' || query)
  FROM (VALUES
    (1, $$SELECT (voucher_reserve('ROLE', 1, 'role-1', 100)).result$$, 'RESERVED'),
    (2, $$SELECT (voucher_confirm('ROLE', 'role-1')).result$$, 'CONFIRMED'),
    (3, $$SELECT (voucher_reserve('ROLE', 1, 'role-2', 100)).result$$, 'RESERVED'),
    (4, $$SELECT (voucher_release('ROLE', 'role-2')).result$$, 'RELEASED')
  ) AS t(n, query, result) ORDER BY n;
SELECT is(as_role('voucher_tap_shop', query), '42501', 'B97: a caller does not reach the tables: ' || query)
  FROM unnest(ARRAY[
    'SELECT used_count FROM voucher',
    'UPDATE voucher SET used_count = 0',
    'DELETE FROM voucher_redemption',
    'INSERT INTO voucher_slot VALUES (''ROLE'', 1)',
    'SELECT kind FROM voucher_incident',
    'SELECT code FROM voucher_status',
    'SELECT datname FROM voucher_worker',
    'SELECT nextval(''voucher_redemption_id_seq'')']) query;

---------------------------------------------------------------------------
-- Surroundings
---------------------------------------------------------------------------

CREATE FUNCTION from_elsewhere() RETURNS text LANGUAGE sql SET search_path = pg_catalog AS $$
    SELECT (public.voucher_reserve('ROLE', 2, 'role-3', 100)).result
$$;
SELECT is(from_elsewhere(), 'RESERVED', 'search_path of the caller does not matter');

SAVEPOINT shadow;
CREATE TEMP TABLE voucher (LIKE public.voucher INCLUDING ALL);
CREATE TEMP TABLE voucher_redemption (LIKE public.voucher_redemption INCLUDING ALL);
SET LOCAL search_path = pg_temp, public, pg_catalog;
SELECT (voucher_reserve('ROLE', 3, 'role-4', 100)).result AS got \gset
SELECT count(*) AS rows FROM public.voucher_redemption WHERE order_id = 'role-4' \gset
ROLLBACK TO shadow;
SELECT is(:'got' || ' ' || :'rows', 'RESERVED 1', 'temporary tables of the caller do not matter');

SELECT is(raised($$SELECT set_config('transaction_read_only', 'on', true), $$ || call), '25006',
          'refused in a read-only transaction: ' || call)
  FROM unnest(ARRAY[
    $$voucher_reserve('ROLE', 4, 'role-5', 100)$$,
    $$voucher_confirm('ROLE', 'role-3')$$,
    $$voucher_release('ROLE', 'role-3')$$,
    $$voucher_flash_open('ROLE', 1)$$,
    $$voucher_flash_close('ROLE')$$,
    $$voucher_run_worker()$$,
    $$voucher_repair('ROLE')$$]) call;
SELECT is(state('role-3'), 'RESERVED', 'and nothing came of it');

SELECT is_empty('SELECT * FROM voucher_violations()', 'the invariant holds');
SELECT * FROM finish();
ROLLBACK;

-- test/pgtap/setup.sql
-- TAP and nothing else on stdout, one transaction, short names for the calls.
-- Wants pgtap and voucher in schema public, a superuser, no worker, and the
-- top of the repository as working directory.
\unset ECHO
\set QUIET true
\set ON_ERROR_STOP true
\pset format unaligned
\pset tuples_only true
\pset pager off

BEGIN;
SET LOCAL client_min_messages = warning;
SET LOCAL lc_messages = 'C';
SET LOCAL TimeZone = 'UTC';
SET LOCAL DateStyle = 'ISO';
SET LOCAL search_path = public;

\i test/invariant.sql

-- a voucher, in the words of cases.md; 10 off unless told otherwise
CREATE PROCEDURE v(code text, total bigint DEFAULT NULL, per integer DEFAULT 1,
                   fixed bigint DEFAULT NULL, pct numeric DEFAULT NULL,
                   cap bigint DEFAULT NULL, min bigint DEFAULT 0,
                   hold interval DEFAULT NULL)
LANGUAGE sql AS $$
    INSERT INTO voucher (code, discount_amount, discount_percent, max_discount_amount,
                         min_order_amount, total_limit, per_user_limit, hold_time)
    VALUES (code, CASE WHEN pct IS NULL THEN coalesce(fixed, 10) END, pct, cap,
            min, total, per, hold);
$$;

-- the calls: 'RESULT' or 'RESULT/DETAIL'
CREATE FUNCTION said(o voucher_outcome) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws('/', (o).result, (o).detail)
$$;
CREATE FUNCTION r(code text, customer bigint, ord text, amount bigint DEFAULT 100)
RETURNS text LANGUAGE sql AS $$
    SELECT said(voucher_reserve(code, customer, ord, amount))
$$;
CREATE FUNCTION c(code text, ord text) RETURNS text LANGUAGE sql AS $$
    SELECT said(voucher_confirm(code, ord))
$$;
CREATE FUNCTION x(code text, ord text) RETURNS text LANGUAGE sql AS $$
    SELECT said(voucher_release(code, ord))
$$;

-- the deadline of an order's hold passes; nobody gives it back
CREATE FUNCTION lapse(ord text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    UPDATE voucher_redemption SET expires_at = clock_timestamp() - interval '1 minute'
     WHERE order_id = ord AND status = 'RESERVED';
    IF NOT FOUND THEN
        RAISE 'order % holds nothing', ord;
    END IF;
    RETURN '+16m';
END
$$;

-- a live use goes back by other means than voucher_release
CREATE FUNCTION give_back(ord text, reason text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    gone text;
BEGIN
    UPDATE voucher_redemption
       SET status = 'RELEASED', released_at = clock_timestamp(), release_reason = reason
     WHERE order_id = ord AND status IN ('RESERVED', 'CONFIRMED')
    RETURNING voucher_code INTO STRICT gone;
    UPDATE voucher SET used_count = used_count - 1 WHERE voucher.code = gone;
    RETURN reason;
END
$$;

-- what the tables say
CREATE FUNCTION used(code text) RETURNS bigint LANGUAGE sql AS $$
    SELECT used_count FROM voucher WHERE voucher.code = used.code
$$;
CREATE FUNCTION row_of(ord text) RETURNS voucher_redemption LANGUAGE sql AS $$
    SELECT * FROM voucher_redemption WHERE order_id = ord ORDER BY id DESC LIMIT 1
$$;
-- newest row of an order: 'STATUS' or 'STATUS/REASON'
CREATE FUNCTION state(ord text) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws('/', status, release_reason)
      FROM voucher_redemption WHERE order_id = ord ORDER BY id DESC LIMIT 1
$$;
-- changes when any row is written or locked
CREATE FUNCTION written() RETURNS text LANGUAGE sql AS $$
    SELECT md5(string_agg(line, E'\n' ORDER BY line))
      FROM (SELECT format('v %s %s %s', a.ctid, a.xmax, a) FROM voucher a
            UNION ALL
            SELECT format('r %s %s %s', b.ctid, b.xmax, b) FROM voucher_redemption b) t(line)
$$;

-- the rows of a query as text
CREATE FUNCTION lines(query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    answer text[];
BEGIN
    EXECUTE format('SELECT array_agg(t::text) FROM (%s) t', query) INTO answer;
    RETURN answer;
END
$$;

-- what a statement raises; '00000' when it raises nothing
CREATE FUNCTION raises(query text, OUT state text, OUT name text, OUT message text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE query;
    state := '00000';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, name = CONSTRAINT_NAME,
                            message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
END
$$;
CREATE FUNCTION raised(query text) RETURNS text LANGUAGE sql AS $$
    SELECT state FROM raises(query)
$$;
-- 'SQLSTATE constraint'
CREATE FUNCTION broke(query text) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', state, nullif(name, '')) FROM raises(query)
$$;
-- 'SQLSTATE message'
CREATE FUNCTION complaint(query text) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', state, message) FROM raises(query)
$$;

-- what CREATE EXTENSION made
CREATE VIEW member AS
    SELECT classid, objid
      FROM pg_depend
     WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
       AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'voucher');

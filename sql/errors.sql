-- Bad input: an ERROR that names the argument and quotes the value; nothing
-- is written, and nothing is left behind in the session
SET client_min_messages = warning;
CREATE FUNCTION complain(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	s text; m text; d text; h text;
BEGIN
	EXECUTE call;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS s = RETURNED_SQLSTATE, m = MESSAGE_TEXT,
		d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n  ', s || ' ' || m, nullif(d, ''), nullif(h, ''));
END
$$;
\pset format unaligned
\pset tuples_only on

-- NULL, each argument in turn
SELECT complain($$SELECT voucher_reserve(NULL, 1, 'E', 1)$$);
SELECT complain($$SELECT voucher_reserve('two', NULL, 'E', 1)$$);
SELECT complain($$SELECT voucher_reserve('two', 1, NULL, 1)$$);
SELECT complain($$SELECT voucher_reserve('two', 1, 'E', NULL)$$);
SELECT complain($$SELECT voucher_confirm(NULL, 'E')$$);
SELECT complain($$SELECT voucher_confirm('two', NULL)$$);
SELECT complain($$SELECT voucher_release(NULL, 'E')$$);
SELECT complain($$SELECT voucher_release('two', NULL)$$);

-- malformed
SELECT complain($$SELECT voucher_reserve('', 1, 'E', 1)$$);
SELECT complain($$SELECT voucher_reserve(E' \t\r\n ', 1, 'E', 1)$$);
SELECT complain($$SELECT voucher_reserve('a b', 1, 'E', 1)$$);
SELECT complain($$SELECT voucher_reserve(E'a\x1b[31mb', 1, 'E', 1)$$);
SELECT complain($$SELECT voucher_reserve(U&'a\200Bb', 1, 'E', 1)$$) LIKE '22023 argument "code" contains%';
SELECT complain($$SELECT voucher_reserve(U&'a\3164b', 1, 'E', 1)$$) LIKE '22023 argument "code" contains%';
SELECT complain($$SELECT voucher_reserve(repeat('x', 33), 1, 'E', 1)$$);
SELECT complain($$SELECT voucher_reserve(repeat('x', 1000000), 1, 'E', 1)$$);
SELECT complain($$SELECT voucher_reserve('two', 1, '', 1)$$);
SELECT complain($$SELECT voucher_reserve('two', 1, repeat('o', 65), 1)$$);
SELECT complain($$SELECT voucher_confirm('two', repeat(E'\n', 65))$$);
SELECT complain($$SELECT voucher_reserve('two', 1, 'E', -1)$$);
SELECT complain($$SELECT voucher_reserve('two', 9223372036854775808, 'E', 1)$$) LIKE '%does not exist%';

-- where nothing can be written
BEGIN READ ONLY;
SELECT complain($$SELECT voucher_reserve('none', 1, 'E', 1)$$);
SELECT complain($$SELECT voucher_confirm('none', 'E')$$);
SELECT complain($$SELECT voucher_release('none', 'E')$$);
ROLLBACK;

-- terms that make no sense
SELECT split_part(complain(format('INSERT INTO voucher (code, %s) VALUES (''BAD'', %s)', c, v)), E'\n', 1)
FROM (VALUES ('total_limit', '1'), ('discount_amount, discount_percent', '1, 1'),
	('discount_amount', '-1'), ('discount_percent', '0'), ('discount_percent', '100.01'),
	('discount_percent', '''NaN'''), ('discount_percent', '1.23456'),
	('discount_amount, total_limit', '1, -1'), ('discount_amount, per_user_limit', '1, 0'),
	('discount_amount, max_discount_amount', '1, -1'), ('discount_amount, min_order_amount', '1, -1'),
	('discount_amount, hold_time', '1, ''0'''), ('discount_amount, hold_time', '1, ''1 year'''),
	('discount_amount, starts_at, ends_at', '1, now(), now()'),
	('discount_amount, used_count, total_limit', '1, 2, 1')) AS t(c, v);

-- settings
SELECT split_part(complain('SET voucher.hold_time = 0'), ' (', 1);
SELECT split_part(complain('SET voucher.hold_time = ''91 d'''), ' (', 1);
SELECT complain('SET voucher.hold_tiem = 1');

-- the session is itself again after an error
SELECT current_user = session_user, current_setting('search_path'), current_setting('enable_seqscan');
SELECT count(*) FROM voucher_redemption WHERE order_id = 'E';
SELECT * FROM voucher_violations();

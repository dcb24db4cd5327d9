-- test/pgtap/05_input.sql
-- Arguments: NULL, malformed, and what is kept byte for byte.
\unset ECHO
\i test/pgtap/setup.sql
SELECT plan(152);

CALL v('INPUT', per => NULL);
SELECT r('INPUT', 1, 'input') \g /dev/null

---------------------------------------------------------------------------
-- NULL and malformed: an ERROR that names the argument, never an answer
---------------------------------------------------------------------------

SELECT matches(complaint('SELECT ' || call), '^22004 .*\m' || arg || '\M', 'NULL ' || arg || ': ' || call)
  FROM (VALUES
    ('code', $$voucher_reserve(NULL, 1, 'input', 100)$$),
    ('customer_id', $$voucher_reserve('INPUT', NULL, 'input', 100)$$),
    ('order_id', $$voucher_reserve('INPUT', 1, NULL, 100)$$),
    ('order_amount', $$voucher_reserve('INPUT', 1, 'input', NULL)$$),
    ('code', $$voucher_confirm(NULL, 'input')$$),
    ('order_id', $$voucher_confirm('INPUT', NULL)$$),
    ('code', $$voucher_release(NULL, 'input')$$),
    ('order_id', $$voucher_release('INPUT', NULL)$$)
  ) AS t(arg, call);

CREATE TEMP TABLE calls AS
    SELECT * FROM (VALUES
        ('reserve', 'SELECT voucher_reserve(%1$L, 1, %2$L, 100)'),
        ('confirm', 'SELECT voucher_confirm(%1$L, %2$L)'),
        ('release', 'SELECT voucher_release(%1$L, %2$L)')
    ) AS t(fn, call);

SELECT matches(complaint(format(call, code, 'input')), '^(22023|22001) .*\mcode\M',
               format('%s: code is %s', fn, what))
  FROM calls, (VALUES
    ('', 'empty'),
    ('   ', 'only blanks'),
    (E' \t\n', 'only blanks, tab and newline'),
    (repeat('X', 33), '33 characters'),
    (repeat('é', 33), '33 characters of two bytes'),
    ('IN PUT', 'with an inner blank'),
    (E'IN\tPUT', 'with an inner tab'),
    (E'IN\nPUT', 'with an inner newline'),
    (E'INPUT\x01', 'with a control character at the end'),
    (E'\x0bINPUT', 'with a vertical tab in front'),
    (E'IN\x7fPUT', 'with DEL'),
    (U&'INPUT\0085', 'with a C1 control character'),
    (U&'INPUT\00A0', 'with a no-break space at the end'),
    (U&'IN\00A0PUT', 'with an inner no-break space'),
    (U&'INPUT\200B', 'with a zero-width space'),
    (U&'\FEFFINPUT', 'with a byte order mark'),
    (U&'INPUT\2028', 'with a line separator')
  ) AS t(code, what);
SELECT matches(complaint(format(call, 'INPUT', ord)), '^(22023|22001) .*\morder_id\M',
               format('%s: order_id is %s', fn, what))
  FROM calls, (VALUES
    ('', 'empty'),
    (repeat('x', 65), '65 bytes'),
    (repeat('é', 33), '66 bytes in 33 characters'),
    (repeat('x', 300), '300 bytes')
  ) AS t(ord, what);
SELECT matches(complaint(format('SELECT voucher_reserve(''INPUT'', 1, ''input'', %L)', amount)),
               '^22023 .*\morder_amount\M', format('reserve: order_amount is %s', amount))
  FROM unnest(ARRAY['-1', '-9223372036854775808']) amount;
-- an argument error comes before every answer
SELECT matches(raised(call), '^(22023|22001)$', 'an error, not an answer: ' || call)
  FROM unnest(ARRAY[
    $$SELECT voucher_reserve('NO-SUCH', 1, 'input', -1)$$,
    $$SELECT voucher_reserve('NO SUCH', 1, 'input', 100)$$,
    $$SELECT voucher_confirm('NO-SUCH', '')$$,
    $$SELECT voucher_release('NO-SUCH', '')$$]) call;
SELECT is(state('input') || ' ' || used('INPUT'), 'RESERVED 1', 'nothing came of all this');

---------------------------------------------------------------------------
-- code: the normal form
---------------------------------------------------------------------------

CALL v('NORMAL', per => NULL);
SELECT is(ARRAY[r(code, 1, 'normal-' || n), c(code, 'normal-' || n), x(code, 'normal-' || n)],
          ARRAY['RESERVED', 'CONFIRMED', 'NOT_RESERVED/CONFIRMED'], what || ' finds the voucher')
  FROM (VALUES
    (1, 'normal', 'lower case'),
    (2, 'nOrMaL', 'mixed case'),
    (3, '  NORMAL  ', 'blanks around'),
    (4, E'\tNORMAL\n', 'tab and newline around'),
    (5, E'\n \t normal \t \n', 'all of it')
  ) AS t(n, code, what);
SELECT is(used('NORMAL'), 5::bigint, 'all of them the same voucher');
SELECT is((row_of('normal-5')).voucher_code, 'NORMAL', 'the redemption keeps the normal form');

INSERT INTO voucher (code, discount_amount) VALUES ('CAFÉ', 1), ('straße', 1), ('ıi', 1);
SELECT is(ARRAY[r('CAFÉ', 1, 'cafe-1'), r('cafÉ', 2, 'cafe-2'), r('café', 3, 'cafe-3')],
          ARRAY['RESERVED', 'RESERVED', 'NOT_FOUND'], 'only ASCII letters fold: É is not é');
SELECT set_has($$SELECT code FROM voucher$$, $$VALUES ('CAFÉ'), ('STRAßE'), ('ıI')$$,
               'other letters are stored as they are');

SELECT is(raised(format('INSERT INTO voucher (code, discount_amount) VALUES (%L, 1)', code)), '00000',
          what || ' can be created')
  FROM (VALUES
    ('Y', '1 character'), (repeat('Z', 32), '32 characters'), (repeat('😀', 32), '128 bytes in 32 characters')
  ) AS t(code, what);
SELECT is(r(code, 1, 'long-' || n), 'RESERVED', what || ' can be reserved')
  FROM (VALUES
    (1, 'y', '1 character'), (2, repeat('z', 32), '32 characters'),
    (3, repeat('😀', 32), '128 bytes in 32 characters')
  ) AS t(n, code, what);
SELECT is(r('    ' || repeat('Z', 32) || '    ', 2, 'long-4'), 'RESERVED',
          '32 characters are counted after trimming');

CREATE TEMP TABLE odd AS
    SELECT code, row_number() OVER () AS n
      FROM unnest(ARRAY['A%', 'A_', '%', '_', '\', '\\', '''', '"', '&<>', '&AMP;', ';--', '$1', '{A,B}',
                        'A+B', '.*', '(', '日本語', '😀', '-', '0', 'NULL']) code;
INSERT INTO voucher (code, discount_amount) SELECT code, 1 FROM odd;
SELECT is(ARRAY[r(code, 1, 'odd-' || n), (row_of('odd-' || n)).voucher_code], ARRAY['RESERVED', code],
          'stored and found byte for byte: ' || code)
  FROM odd;
SELECT is(r(code, 2, 'near'), 'NOT_FOUND', 'no pattern, no escape: ' || code)
  FROM unnest(ARRAY['AB', 'A%%', '__', '\\\', 'AA', '&', '.']) code;

---------------------------------------------------------------------------
-- order_id and customer_id
---------------------------------------------------------------------------

CALL v('ORDERS', per => NULL);
CREATE TEMP TABLE orders AS
    SELECT ord, row_number() OVER () AS n
      FROM unnest(ARRAY['1', ' 1', '1 ', '01', ' ', E'1\n', E'\t', 'a', 'A', 'é', 'É', U&'e\0301', '''', '"', '\', '%',
                        '_', '$1', '😀', 'NULL', repeat('x', 64), repeat('é', 32)]) ord;
SELECT is(ARRAY[r('ORDERS', 1, ord), r('ORDERS', 1, ord), c('ORDERS', ord)],
          ARRAY['RESERVED', 'DUPLICATE/RESERVED', 'CONFIRMED'], format('order_id %L is itself', ord))
  FROM orders;
SELECT is((SELECT count(*) FROM voucher_redemption JOIN orders ON ord = order_id
            WHERE voucher_code = 'ORDERS'),
          (SELECT count(*) FROM orders), 'each is another order, stored byte for byte');

CALL v('PEOPLE');
SELECT is(ARRAY[r('PEOPLE', who, 'who-' || who), r('PEOPLE', who, 'again-' || who),
                (row_of('who-' || who)).customer_id::text],
          ARRAY['RESERVED', 'ALREADY_USED', who::text], format('customer_id %s is a customer', who))
  FROM unnest(ARRAY[0, -1, 1, 2147483648, -9223372036854775808, 9223372036854775807]::bigint[]) who;

SELECT is_empty('SELECT * FROM voucher_violations()', 'the invariant holds');
SELECT * FROM finish();
ROLLBACK;

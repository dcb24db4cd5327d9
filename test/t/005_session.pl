
# test/t/005_session.pl
#
# One session that lives through everything a pool does to it: the extension
# dropped and made again, schemas renamed, other search paths and settings.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VoucherTest;

my $node = start_node('session');
my $s    = session($node);

# Ask for n uses of SALE in one statement; how often was each answer given?
sub sell
{
	my ($n, $tag) = @_;
	return ask(
		$s, qq{
		SELECT string_agg(result || ' ' || n, ', ' ORDER BY result) FROM (
			SELECT result, count(*) AS n FROM generate_series(1, $n) g,
			LATERAL voucher_reserve('sale', hashtextextended('$tag' || g, 0),
									'$tag' || g, 500) GROUP BY 1) AS said});
}

sub voucher
{
	my ($code, $limit) = @_;
	is( ask($s,
			"INSERT INTO voucher (code, discount_amount, total_limit)"
			  . " VALUES ('$code', 100, $limit)"),
		'',
		"voucher $code for $limit");
}

voucher('SALE', 5);
is(sell(7, 'a'), 'OUT_OF_STOCK 2, RESERVED 5', 'five of five uses');
ask($s, 'DISCARD ALL');
ask($s, "UPDATE voucher SET total_limit = 7");
is(sell(4, 'b'), 'OUT_OF_STOCK 2, RESERVED 2', 'and two more after DISCARD ALL');

# P32: nothing of the old tables is remembered
is( ask($s, 'DROP EXTENSION voucher CASCADE; CREATE EXTENSION voucher'),
	'', 'dropped and created again');
voucher('SALE', 3);
is(sell(5, 'a'), 'OUT_OF_STOCK 2, RESERVED 3',
	'the new voucher of the old name sells to its own limit (P32)');
is( ask($s,
		q{CREATE SCHEMA shop; DROP EXTENSION voucher CASCADE;
		CREATE EXTENSION voucher SCHEMA shop; SET search_path = shop}),
	'',
	'created again in another schema');
voucher('SALE', 2);
is(sell(5, 'a'), 'OUT_OF_STOCK 3, RESERVED 2',
	'and again in the other schema (P32)');

# The schema moves away, and another one takes its name and its tables' names.
is( ask($s,
		q{ALTER SCHEMA shop RENAME TO "The ""Store"; CREATE SCHEMA shop;
		CREATE TABLE shop.voucher (LIKE "The ""Store".voucher INCLUDING ALL);
		CREATE TABLE shop.voucher_redemption
			(LIKE "The ""Store".voucher_redemption INCLUDING ALL);
		SET search_path = "The ""Store"; UPDATE voucher SET total_limit = 4}),
	'',
	'schema renamed');
my $store = q{"The ""Store"};
is(sell(4, 'b'), 'OUT_OF_STOCK 2, RESERVED 2',
	'the sale goes on in the renamed schema (P88)');
is(ask($s, q{SELECT result FROM voucher_confirm('sale', 'b1')}),
	'CONFIRMED', 'confirm works there too');
is(ask($s, q{SELECT result FROM voucher_release('sale', 'b2')}),
	'RELEASED', 'and release');
is(ask($s, 'SELECT count(*) FROM shop.voucher_redemption'),
	0, 'nothing went to the schema that has the old name (P88)');
load_invariant($node, 'postgres', $store);
invariant_ok($node, 'after the renaming (P32)', schema => $store);

# P88: a path with look-alikes in front of everything
voucher('PATH', 'NULL');
ask( $s, qq{
	CREATE SCHEMA evil;
	CREATE TABLE evil.voucher (LIKE $store.voucher INCLUDING ALL);
	CREATE TABLE evil.voucher_redemption (LIKE $store.voucher_redemption INCLUDING ALL);
	CREATE FUNCTION evil.liar(text, text) RETURNS boolean LANGUAGE plpgsql
		AS \$\$ BEGIN RAISE EXCEPTION 'captured'; END \$\$;
	CREATE FUNCTION evil.liar(bigint, bigint) RETURNS boolean LANGUAGE plpgsql
		AS \$\$ BEGIN RAISE EXCEPTION 'captured'; END \$\$;
	CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql
		AS \$\$ BEGIN RAISE EXCEPTION 'captured'; END \$\$;
	CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.liar);
	CREATE OPERATOR evil.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.liar);
	CREATE FUNCTION public.alternate() RETURNS text LANGUAGE plpgsql AS \$\$
	DECLARE
		path text; answer text; good int := 0; kept int := 0;
	BEGIN
		FOR i IN 1 .. 200 LOOP
			path := CASE i % 2 WHEN 0 THEN 'evil, pg_catalog, $store'
							   ELSE '$store, public, evil' END;
			PERFORM pg_catalog.set_config('search_path', path, true);
			SELECT result INTO answer
				FROM $store.voucher_reserve('path', i, 'path' || i, 500);
			good := good + (answer OPERATOR(pg_catalog.=) 'RESERVED')::int;
			kept := kept + (current_setting('search_path')
							OPERATOR(pg_catalog.=) path)::int;
		END LOOP;
		RETURN good || ' reserved, path kept ' || kept || ' times';
	END \$\$});
is(ask($s, 'SELECT public.alternate()'),
	'200 reserved, path kept 200 times',
	'alternating, hostile search paths change nothing (P88)');
is(ask($s, q{SELECT count(*) FROM voucher_redemption WHERE voucher_code = 'PATH'}),
	200, 'all rows are in the right table (P88)');

# The caller's settings are none of our business.
sub answers
{
	my ($code) = @_;
	my $reserve = 'SELECT result, discount_amount, detail, expires_at BETWEEN'
	  . " clock_timestamp() + '23 h' AND clock_timestamp() + '24 h' FROM voucher_reserve";
	return ask(
		$s, qq{
	$reserve('$code', 1, '$code-1', 999); $reserve('$code', 1, '$code-1', 999);
	$reserve('$code', 1, '$code-2', 999); $reserve('$code', 2, '$code-1', 999);
	$reserve('$code', 2, '$code-2', 999); $reserve('$code', 3, '$code-3', 999);
	SELECT result, detail FROM voucher_confirm('$code', '$code-1');
	SELECT result, detail FROM voucher_release('$code', '$code-1');
	SELECT result, detail FROM voucher_release('$code', '$code-2');
	SELECT result, detail FROM voucher_confirm('$code', '$code-2');
	SELECT result, detail FROM voucher_confirm('$code', '$code-9')});
}
ask($s, q{INSERT INTO voucher (code, discount_percent, total_limit, hold_time)
	SELECT 'GUC' || g, 33.3333, 2, '1 day' FROM generate_series(0, 1) g});
my $plain = answers('GUC0');
like($plain,
	qr/^RESERVED\|333\|\|t\nDUPLICATE\|333\|RESERVED\|t\nALREADY_USED.*\nORDER_MISMATCH/,
	'the answers under default settings');
ask($s, "SET $_") foreach (
	'enable_indexscan = off', 'enable_indexonlyscan = off',
	'enable_bitmapscan = off', 'enable_seqscan = off', 'enable_sort = off',
	'plan_cache_mode = force_custom_plan',
	"default_transaction_isolation = 'serializable'", "DateStyle = 'German'",
	"IntervalStyle = 'sql_standard'", "TimeZone = 'Asia/Ho_Chi_Minh'",
	'standard_conforming_strings = off', 'transform_null_equals = on',
	'row_security = off', 'extra_float_digits = -15', "work_mem = '64kB'",
	'quote_all_identifiers = on', "default_table_access_method = 'heap'");
is(answers('GUC1') =~ s/GUC1/GUC0/gr, $plain,
	"the same answers under the caller's odd settings (P87, P88)");

$s->quit;
invariant_ok($node, 'at the end of the session', schema => $store);

done_testing();

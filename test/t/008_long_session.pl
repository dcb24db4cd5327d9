
# test/t/008_long_session.pl
#
# What a session learned while the tables were empty must not cost anything
# when they are full, and a hundred thousand calls must not leave anything in
# its memory.  Counts of pages and bytes, no clock.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VoucherTest;

# No autovacuum: nothing may come along and repair a bad plan.
my $node = start_node('long_session', conf => 'autovacuum = off');
my $s    = session($node);
my $no   = 0;

# Every kind of answer, by a call with a number of its own; a second call is
# made before it and is not measured.
my %kind = (
	'1 RESERVED'     => [ q{reserve('BIG', -%d, 'o%d', 500)} ],
	'2 DUPLICATE'    => [ q{reserve('BIG', -%d, 'o%d', 500)} ],
	'3 ALREADY_USED' => [ q{reserve('BIG', -%d, 'other%d', 500)} ],
	'4 CONFIRMED'    => [ q{confirm('BIG', 'o%2$d')} ],
	'5 NOT_RESERVED' => [ q{release('BIG', 'o%2$d')} ],
	'6 RELEASED'     => [
		q{release('BIG', 'p%2$d')}, q{reserve('BIG', -1000-%d, 'p%d', 500)}
	],
	'7 OUT_OF_STOCK' => [ q{reserve('FULL', -%d, 'f%d', 500)} ],
	'8 NOT_FOUND'    => [ q{confirm('BIG', 'nobody%2$d')} ]);

# Make each kind of call once; how many pages did each of them touch?
sub measure
{
	my %pages;
	$no++;
	foreach my $kind (sort keys %kind)
	{
		my ($call, @before) = map { sprintf($_, $no, $no) } @{ $kind{$kind} };
		ask($s, "SELECT voucher_$_") foreach (@before);
		my $plan = ask($s,
			"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF)"
			  . " SELECT answer(voucher_$call, '$kind')");
		die "$kind: $plan" unless $plan =~ /^Result/;
		$plan =~ s/^Planning:.*//ms;
		$pages{$kind} = 0;
		$pages{$kind} += $_
		  foreach ($plan =~ /^\s+Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?/m
			? grep { defined } ($1, $2)
			: ());
	}
	return %pages;
}

ask( $s, q{
	CREATE FUNCTION answer(voucher_outcome, text) RETURNS text LANGUAGE plpgsql
	AS $$ BEGIN
		IF $1.result <> substr($2, 3) THEN
			RAISE EXCEPTION '% where % was due', $1.result, $2;
		END IF;
		RETURN $1.result;
	END $$;
	INSERT INTO voucher (code, discount_amount, total_limit)
	VALUES ('BIG', 100, 1000000), ('FULL', 100, 0), ('MEM', 100, 1000000)});
is(ask($s, 'VACUUM ANALYZE'), '', 'the tables are analyzed while empty');
measure() foreach (1 .. 6);

is( ask(
		$s, q{
	INSERT INTO voucher_redemption (voucher_code, customer_id, order_id, status,
		order_amount, discount_amount, use_no, expires_at, confirmed_at,
		released_at, release_reason)
	SELECT CASE WHEN status = 'RESERVED' THEN 'FULL' ELSE 'BIG' END,
		   g, 'bulk' || g, status, 500, 100, 1, now() + interval '1 day',
		   CASE status WHEN 'CONFIRMED' THEN now() END,
		   CASE status WHEN 'RELEASED' THEN now() END,
		   CASE status WHEN 'RELEASED' THEN 'RELEASED' END
	FROM generate_series(1, 200000) g,
		 LATERAL (SELECT (ARRAY['CONFIRMED', 'CONFIRMED', 'RELEASED',
								'RESERVED'])[g % 4 + 1]) AS kind(status);
	UPDATE voucher SET used_count = used_count + 100000 WHERE code = 'BIG';
	UPDATE voucher SET used_count = 50000, total_limit = 50000 WHERE code = 'FULL'}),
	'',
	'then the sale brings 200 000 rows');
cmp_ok(
	ask($s, q{SELECT pg_relation_size('voucher_redemption') / 8192}),
	'>', 1000, 'a sequential scan would show');

my %least;
foreach (1 .. 3)
{
	my %pages = measure();
	foreach (keys %pages)
	{
		$least{$_} = $pages{$_}
		  unless defined $least{$_} && $least{$_} <= $pages{$_};
	}
}
cmp_ok($least{$_}, '<', 100, "the plan made for empty tables is no scan: $_ (P87)")
  foreach (sort keys %least);
invariant_ok($node, 'after the measured calls');

# P90: five kinds of calls, each twenty thousand times; with statistics by now,
# and given up when a call still reads the whole table
ask($s, "VACUUM ANALYZE; SET statement_timeout = '60s'");
sub calls
{
	my ($first, $last) = @_;
	return ask(
		$s, qq{
	DO \$\$
	DECLARE
		r voucher_outcome; wrong int := 0;
	BEGIN
		FOR i IN $first .. $last LOOP
			r := voucher_reserve('MEM', i, 'm' || i, 500);
			wrong := wrong + (r.result <> 'RESERVED')::int;
			r := voucher_reserve('MEM', i, 'm' || i, 500);
			wrong := wrong + (r.result <> 'DUPLICATE')::int;
			r := voucher_reserve('MEM', i, 'x' || i, 500);
			wrong := wrong + (r.result <> 'ALREADY_USED')::int;
			r := voucher_reserve('FULL', -i, 'x' || i, 500);
			wrong := wrong + (r.result <> 'OUT_OF_STOCK')::int;
			IF i % 2 = 0 THEN
				r := voucher_release('MEM', 'm' || i);
			ELSE
				r := voucher_confirm('MEM', 'm' || i);
			END IF;
			wrong := wrong + (r.result NOT IN ('RELEASED', 'CONFIRMED'))::int;
			IF i % 20 = 0 THEN COMMIT; END IF;
		END LOOP;
		IF wrong > 0 THEN RAISE EXCEPTION '% wrong answers', wrong; END IF;
	END \$\$});
}

my $memory = 'SELECT sum(total_bytes) FROM pg_backend_memory_contexts';
ask($s, $memory);
is(calls(1, 1000), '', 'warmed up');
my $before = ask($s, $memory);
is(calls(1001, 21000), '', '100 000 calls in one session');
cmp_ok(ask($s, $memory) - $before,
	'<', 200_000, 'its memory grew by less than 200 kB (P90)');
$s->quit;
invariant_ok($node, 'after 100 000 calls');

done_testing();


# test/t/019_flash.pl
#
# Flash vouchers in a rush: sold out exactly, whatever is rolled back, released,
# expired, killed, raised, lowered, closed and opened meanwhile.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VoucherTest;

my $node = start_node(
	'flash', conf => q{
	shared_preload_libraries = 'voucher'
	restart_after_crash = on
	voucher.worker_naptime = 10ms
	voucher.reconcile_interval = 50ms
	});

sub sql
{
	return $node->safe_psql('postgres', $_[0]);
}

my $next  = "\\set n :n + 1\n";
my $pause = "\\sleep 1 ms\n";
my $own   = q{':client_id-:n'};
my $new   = q{:client_id * 1000000 + :n};

# Sold out to the last use, once each.
sql(q{
	INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('SALE', 100, 500);
	SELECT voucher_flash_open('SALE')});
my %got = rush(
	$node, 'a sale',
	clients => 32,
	each    => 60,
	mode    => 'simple',
	script  => "${next}BEGIN;\n" . call_sql('reserve', q{'SALE'}, $own, $new) . "${pause}COMMIT;\n");
is_deeply(\%got, { RESERVED => 500, OUT_OF_STOCK => 1420 }, 'of 1920 calls exactly 500 are served');
is(sql(q{SELECT used_count, count(DISTINCT slot_no) FROM voucher, voucher_redemption
		WHERE code = 'SALE' AND voucher_code = code GROUP BY 1}),
	'0|500', 'each has a slot of its own, and the voucher row was left alone');
invariant_ok($node, 'after the sale');

# Everything at once.  MIX has about twenty uses; sometimes it is no flash
# voucher.  An administrator's refusals are no errors here.
sql(q{
	INSERT INTO voucher (code, discount_amount, total_limit, per_user_limit, hold_time)
	VALUES ('MIX', 100, 20, 1, '1 s');
	SELECT voucher_flash_open('MIX');
	CREATE UNLOGGED TABLE seen (what text);
	CREATE FUNCTION admin(statement text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		EXECUTE statement;
	EXCEPTION WHEN check_violation OR object_not_in_prerequisite_state THEN NULL;
	END
	$$});
my $mix = call_sql('reserve', q{'MIX'}, $own, $new);
my ($confirm, $release) = map { call_sql($_, q{'MIX'}, $own) } qw(confirm release);
%got = rush(
	$node, 'everything at once',
	clients => 32,
	each    => 120,
	mode    => 'simple',
	tries   => 100,
	script  => [
		[ 5, "$next\\set r random(1, 40)\nBEGIN;\n$mix${pause}COMMIT;\n\\if :r = 1\n$confirm\\else\n$release\\endif\n" ],
		[ 2, "${next}BEGIN;\n$mix${pause}COMMIT;\n" ],
		[ 2, "${next}BEGIN;\n$mix${pause}ROLLBACK;\n" ],
		[ 2, "${next}BEGIN;\nSAVEPOINT s;\n$mix${pause}ROLLBACK TO s;\n$mix${pause}COMMIT;\n$release" ],
		[ 2, "${next}BEGIN;\n$mix$release$mix${pause}COMMIT;\n" ],
		[ 1, "${next}BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT 1;\n$pause$mix${pause}COMMIT;\n" ],
		[ 2, "\\set o random(1, 40)\n" . call_sql('reserve', q{'MIX'}, q{'shared-:o'}, ':o % 30')
			. call_sql('release', q{'MIX'}, q{'shared-:o'}) ],
		[ 1, q{
			UPDATE voucher_redemption SET expires_at = clock_timestamp() - interval '1 s'
			WHERE id = (SELECT id FROM voucher_redemption WHERE voucher_code = 'MIX'
				AND status = 'RESERVED' LIMIT 1 FOR UPDATE SKIP LOCKED);
		} ],
		[ 1, q{
			\set r random(5, 30)
			SELECT admin('SELECT voucher_set_limit(''MIX'', :r)');
			\sleep 1 ms
			SELECT admin('SELECT voucher_set_limit(''MIX'', 25)');
		} ],
		[ 1, q{
			SELECT admin('SELECT voucher_flash_close(''MIX'')');
			\sleep 1 ms
			SELECT admin('SELECT voucher_flash_open(''MIX'')');
		} ],
		[ 1, q{
			INSERT INTO seen SELECT voucher_violations();
		} ] ]);
note explain \%got;
is("@{[grep { !$got{$_} } qw(RESERVED CONFIRMED RELEASED OUT_OF_STOCK DUPLICATE)]}",
	'', 'the rush met every kind of answer');
is(sql('SELECT DISTINCT what FROM seen'), '', 'no snapshot shows a violation');
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM voucher_redemption
	WHERE voucher_code = 'MIX' AND status = 'RESERVED'})
  or die "holds do not come back";
is( sql(q{
	SELECT said.*, made.* FROM
	(SELECT count(*) FILTER (WHERE result = 'RESERVED'),
			count(*) FILTER (WHERE result = 'CONFIRMED'),
			count(*) FILTER (WHERE result = 'RELEASED') FROM answer) AS said(a, b, c),
	(SELECT count(*), count(confirmed_at),
			count(*) FILTER (WHERE release_reason = 'RELEASED')
	 FROM voucher_redemption WHERE voucher_code = 'MIX') AS made(a, b, c)
	WHERE (said.a, said.b, said.c) <> (made.a, made.b, made.c)}),
	'', 'every committed answer is one change of one row');
invariant_ok($node, 'after everything at once');
sql(q{SELECT admin('SELECT voucher_flash_open(''MIX'')')});
my $left = sql(q{SELECT total_limit - count(r.id) FROM voucher LEFT JOIN voucher_redemption AS r
	ON r.voucher_code = code AND r.status <> 'RELEASED' WHERE code = 'MIX' GROUP BY total_limit});
%got = rush(
	$node, 'the rest',
	clients => 8,
	each    => 20,
	mode    => 'simple',
	script  => $next . call_sql('reserve', q{'MIX'}, q{'rest-:client_id-:n'}, "$new + 500000"));
is($got{RESERVED}, $left, 'and what is left can be had');
is(scalar(() = slurp_file($node->logfile) =~ /LOG: .*\bdrift\b/g), 0, 'the worker has seen no drift');

# Killed in the middle
foreach my $round (1 .. 3)
{
	sql(qq{
		INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('KILL-$round', 100, 10000);
		SELECT voucher_flash_open('KILL-$round')});
	my $sale   = sale_start($node, "kill-$round", "KILL-$round");
	my $offset = -s $node->logfile;
	my $victim = sql(qq{SELECT pid FROM pg_stat_activity
		WHERE query LIKE '%kill-$round-%' AND pid <> pg_backend_pid() LIMIT 1});
	kill('KILL', $victim) == 1 or die "no backend";
	my ($cut, $ack) = sale_stop($sale);
	$node->wait_for_log(qr/database system is ready to accept connections/, $offset);
	$node->poll_query_until('postgres', 'SELECT true') or die "no recovery";
	acknowledged_ok($node, $ack, "kill -9, round $round");
	invariant_ok($node, "after kill -9, round $round");
	$left = sql(qq{SELECT 10000 - count(*) FROM voucher_redemption
		WHERE voucher_code = 'KILL-$round' AND status <> 'RELEASED'});
	is( sql(qq{SELECT result, count(*) FROM generate_series(1, 10010) AS n,
			voucher_reserve('KILL-$round', -n, 'left-$round-' || n, 1000) GROUP BY 1 ORDER BY 1}),
		'OUT_OF_STOCK|' . (10010 - $left) . "\nRESERVED|$left",
		'in one transaction, all that is left can be had, and no more');
}

# A prepared transaction has what it has.
sql(q{
	INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('TWO', 100, 2);
	SELECT voucher_flash_open('TWO');
	BEGIN; SELECT voucher_reserve('TWO', 1, 'prepared', 1000); PREPARE TRANSACTION 'p'});
$node->restart;
is(sql(q{SELECT result FROM generate_series(2, 3) AS n, voucher_reserve('TWO', n, 'two-' || n, 1000)}),
	"RESERVED\nOUT_OF_STOCK", 'its slot is not given to anybody else');
my (undef, undef, $err) = $node->psql('postgres', q{SELECT voucher_set_limit('TWO', 1)});
like($err, qr/below the number in use, 2/, 'nor taken away');
is(sql(q{SELECT voucher_flash_close('TWO')}), 1, 'nor closed');
sql(q{COMMIT PREPARED 'p'});
$node->poll_query_until('postgres', q{SELECT flash_quota = 0 AND used_count = 2 FROM voucher WHERE code = 'TWO'});
is(sql(q{SELECT flash_quota, used_count FROM voucher WHERE code = 'TWO'}), '0|2',
	'committed, it is closed by the worker');

# A server that was dumped in the middle of a sale
sql(q{SELECT voucher_release('SALE', order_id) FROM voucher_redemption WHERE voucher_code = 'SALE' LIMIT 7});
$node->safe_psql('template1', 'CREATE DATABASE copy');
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
$node->command_ok([ 'psql', '-qX', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('copy') ], 'restore');
is( $node->safe_psql('copy', q{SELECT result, count(*) FROM generate_series(1, 20) AS n,
		voucher_reserve('SALE', -n, 'copy-' || n, 1000) GROUP BY 1 ORDER BY 1}),
	"OUT_OF_STOCK|13\nRESERVED|7", 'goes on where it was');
invariant_ok($node, 'in the copy', db => 'copy');

invariant_ok($node, 'in the end');
my $asked_for = join '|', 'below the number in use', 'already open as a flash sale', 'is above the number',
  'not yet accepting', 'in recovery mode', 'could not serialize access', 'deadlock detected', 'terminating connection';
is(join("\n", grep { !/$asked_for/ } server_errors($node)), '', 'no error in the log but those asked for');
$node->stop;

done_testing();


# test/t/004_dump_restore.pl
#
# Every usual way to dump and restore gives the same vouchers, the same rows
# and the same sequence, and a shop that goes on selling.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VoucherTest;

my $node = start_node('dump_restore');

# One row of every kind, made by the functions themselves.
$node->safe_psql(
	'postgres', q{
	INSERT INTO voucher (code, discount_amount) VALUES ('OLD', 1);
	SELECT voucher_redeem('old', g, 'old-' || g, 5) FROM generate_series(1, 3) g;
	UPDATE voucher SET starts_at = '2020-01-01', ends_at = now() WHERE code = 'OLD';
	SELECT voucher_purge('0');
	INSERT INTO voucher (code, discount_percent, max_discount_amount, total_limit)
	VALUES ('MiXeD-10', 33.3333, 5000, 20);
	INSERT INTO voucher (code, discount_amount, total_limit, per_user_limit,
						 hold_time, starts_at, ends_at, enabled, min_order_amount)
	VALUES ('GUEST', 100, NULL, NULL, '1 day', '-infinity', 'infinity', true, 0),
		   ('GONE', 100, 1, 1, NULL, '2020-01-01', '2100-01-01', true, 1),
		   ('OFF', 9223372036854775807, 0, 3, '90 days', now(), 'infinity', false, 7);
	SELECT voucher_reserve('mixed-10', g, 'mixed-' || g, 999)
	FROM generate_series(1, 5) g;
	SELECT voucher_confirm('mixed-10', 'mixed-2'), voucher_confirm('mixed-10', 'mixed-3');
	SELECT voucher_release('mixed-10', 'mixed-4');
	SELECT voucher_reserve('guest', 0, 'guest''s "' || g || E'"\t\\\\', 0)
	FROM generate_series(1, 3) g;
	SELECT voucher_reserve('gone', 1, 'gone-1', 100);
	SELECT voucher_confirm('gone', 'gone-1')});

# All that the extension stores, as text.
my $contents = q{
	SELECT 'voucher', v::text FROM voucher v
	UNION ALL SELECT 'redemption', r::text FROM voucher_redemption r
	UNION ALL SELECT 'slot', s::text FROM voucher_slot s
	UNION ALL SELECT 'sequence', concat_ws(' ', last_value, is_called)
		FROM voucher_redemption_id_seq
	ORDER BY 1, 2};
my $before = $node->safe_psql('postgres', $contents);
like($before, qr/^voucher\|\(MIXED-10,,33\.3333,5000,0,20,4,0,/m,
	'one normal form, four of five uses live (B84)');
like($before, qr/^redemption\|.*mixed-4,RELEASED,.*,RELEASED\)$/m,
	'a released row stays as history');
like($before, qr/^voucher\|\(OLD,1,.*,3\)$/m,
	'what was purged is counted');

my $answers = q{
	WITH sold AS MATERIALIZED (
		SELECT (voucher_reserve('Mixed-10', 100 + g, 'after-' || g, 500)).result
		FROM generate_series(1, 10) g)
	SELECT result, count(*) FROM sold GROUP BY 1;
	SELECT concat_ws('/', result, discount_amount, detail)
		FROM voucher_reserve('mixed-10', 1, 'mixed-1', 999);
	SELECT concat_ws('/', result, discount_amount, detail)
		FROM voucher_confirm('mixed-10', 'mixed-2');
	SELECT concat_ws('/', result, detail) FROM voucher_confirm('mixed-10', 'mixed-4');
	SELECT result FROM voucher_confirm('mixed-10', 'mixed-5');
	SELECT result FROM voucher_reserve('gone', 2, 'gone-2', 100);
	SELECT used_count FROM voucher WHERE code = 'MIXED-10';
	SELECT count(DISTINCT id), min(id) FILTER (WHERE order_id LIKE 'after-%')
			> max(id) FILTER (WHERE order_id NOT LIKE 'after-%')
		FROM voucher_redemption};
my $expected = join("\n",
	'RESERVED|10',
	'DUPLICATE/333/RESERVED',
	'DUPLICATE/333/CONFIRMED',
	'NOT_RESERVED/RELEASED',
	'CONFIRMED', 'OUT_OF_STOCK', '14', '19|t');

my @pg_restore = qw(pg_restore --exit-on-error);
my @psql = qw(psql -XAtq -v ON_ERROR_STOP=1 -o);

# name, pg_dump's options, and the commands; the database and the file follow
my @way = (
	[ 'plain',  ['-Fp'], [ @psql, '/dev/null', '-f' ] ],
	[ 'custom', ['-Fc'], [@pg_restore] ],
	[ 'directory, 4 jobs', [qw(-Fd -j4)], [ @pg_restore, '-j4' ] ],
	[ 'inserts',   ['--inserts'],   [ @psql, '/dev/null', '-f' ] ],
	[ 'data only', ['--data-only'], [ @psql, '/dev/null', '-f' ] ],
	[   'sections',
		['-Fc'],
		[ @pg_restore, '--section=pre-data' ],
		[ @pg_restore, '--section=data', '-j4' ],
		[ @pg_restore, '--section=post-data' ]
	]);

my $copy = 0;
foreach (@way)
{
	my ($name, $options, @commands) = @$_;
	my $db   = 'copy' . ++$copy;
	my $file = $node->basedir . "/$db.dump";

	$node->safe_psql('postgres', "CREATE DATABASE $db");
	if ($name eq 'data only')
	{
		# the script seeds no row that the dump brings again (P42)
		$node->safe_psql($db, 'CREATE EXTENSION voucher');
		load_invariant($node, $db);
	}
	$node->command_ok([ 'pg_dump', @$options, '-f', $file, 'postgres' ],
		"$name: dumped");
	foreach my $command (@commands)
	{
		my ($program, @arguments) = @$command;
		$node->command_ok([ $program, '-d', $db, @arguments, $file ],
			"$name: restored with @$command (P39, P42)");
	}
	is($node->safe_psql($db, $contents),
		$before,
		"$name: every counter, row and sequence is the same (P38, P40, B84)");
	invariant_ok($node, "$name, restored (P38)", db => $db);
	is($node->safe_psql($db, $answers),
		$expected,
		"$name: 10 reserves work, old orders and limits are known (P40, B84)");
	invariant_ok($node, "$name, after 10 reserves (P40)", db => $db);
}

is($node->safe_psql('postgres', $contents),
	$before, 'the source is as it was');

done_testing();

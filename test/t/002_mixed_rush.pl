
# test/t/002_mixed_rush.pl
#
# Everything at once: reserve, confirm, release, retries, rollbacks,
# savepoints, lapsed holds, two vouchers in one transaction, and an
# administrator who keeps changing the voucher.  Whatever the interleaving,
# every answer that was committed is one change of one row, and no snapshot
# ever shows a counter that differs from its rows.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VoucherTest;

my $node = start_node('mixed_rush');

# HOT is nearly always sold out.  Orders of COLD are shared by all clients,
# and sixty customers share them.
$node->safe_psql(
	'postgres', q{
	INSERT INTO voucher (code, discount_amount, total_limit, per_user_limit)
	VALUES ('HOT', 100, 20, 1), ('COLD', 100, 1000, 1),
		   ('PAIR-A', 100, 15, 2), ('PAIR-B', 100, NULL, NULL);
	CREATE UNLOGGED TABLE drift (code text, used_count bigint, live bigint)});

my $next  = "\\set n :n + 1\n";
my $pause = "\\sleep 1 ms\n";
my $own   = q{':client_id-:n'};
my $new   = q{:client_id * 1000000 + :n};
my $hot   = call_sql('reserve', q{'HOT'}, $own, $new);
my @after = map { call_sql($_, q{'HOT'}, $own) } qw(confirm release);
my $shared = q{'shared-:o'};

my @script = (
	# reserve, then mostly release
	[   5,
		"$next\\set r random(1, 30)\nBEGIN;\n$hot${pause}COMMIT;\n"
		  . "\\if :r = 1\n$after[0]\\else\n$after[1]\\endif\n"
	],
	# leave the hold to lapse
	[ 2, "${next}BEGIN;\n$hot${pause}COMMIT;\n" ],
	# reserve, and roll back
	[ 2, "${next}BEGIN;\n$hot${pause}ROLLBACK;\n" ],
	# reserve, roll back to a savepoint, use the same order id elsewhere
	[   2,
		"${next}BEGIN;\nSAVEPOINT s;\n$hot${pause}ROLLBACK TO s;\n"
		  . call_sql('reserve', q{'PAIR-B'}, $own, $new)
		  . "${pause}COMMIT;\n"
	],
	# many clients retry the same orders, and confirm or release them
	[   4,
		"\\set o random(1, 80)\nBEGIN;\n"
		  . call_sql('reserve', q{'COLD'}, $shared, ':o % 60')
		  . "${pause}COMMIT;\n"
	],
	[   4,
		"\\set o random(1, 80)\n\\set r random(1, 10)\nBEGIN;\n\\if :r = 1\n"
		  . call_sql('confirm', q{'COLD'}, $shared)
		  . "\\else\n"
		  . call_sql('release', q{'COLD'}, $shared)
		  . "\\endif\n${pause}COMMIT;\n"
	],
	# two vouchers in one transaction, in sorted order
	[   2,
		"${next}BEGIN;\n"
		  . call_sql('reserve', q{'PAIR-A'}, q{'a:client_id-:n'}, ':n % 9')
		  . $pause
		  . call_sql('reserve', q{'PAIR-B'}, q{'b:client_id-:n'}, $new)
		  . "${pause}COMMIT;\n"
		  . call_sql('release', q{'PAIR-A'}, q{'a:client_id-:n'})
	],
	# a snapshot older than the sale
	[   1,
		"${next}BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT 1;\n"
		  . "$pause$hot${pause}COMMIT;\n"
	],
	# the deadline of some hold passes
	[   2, q{
		UPDATE voucher_redemption
		SET expires_at = clock_timestamp() - interval '1 second'
		WHERE id = (SELECT id FROM voucher_redemption
					WHERE voucher_code = 'HOT' AND status = 'RESERVED'
					LIMIT 1 FOR UPDATE SKIP LOCKED);
		}
	],
	# the administrator: any limit, refused by CHECK when it is too low
	[   1, q{
		\set r random(1, 40)
		UPDATE voucher SET enabled = false WHERE code = 'HOT';
		\sleep 1 ms
		UPDATE voucher SET enabled = true WHERE code = 'HOT';
		DO $$ BEGIN UPDATE voucher SET total_limit = :r WHERE code = 'HOT';
			EXCEPTION WHEN check_violation THEN NULL; END $$;
		UPDATE voucher SET total_limit = used_count + :r % 4 WHERE code = 'HOT';
		}
	],
	# an observer: one snapshot, any moment
	[   1, q{
		INSERT INTO drift
		SELECT * FROM (SELECT code, used_count,
			(SELECT count(*) FROM voucher_redemption r
			 WHERE r.voucher_code = v.code
			   AND r.status IN ('RESERVED', 'CONFIRMED')) AS live
			FROM voucher v) AS seen
		WHERE used_count <> live;
		}
	]);

my %got = rush(
	$node, 'mixed rush',
	clients => 32,
	each    => 80,
	mode    => 'simple',
	tries   => 100,
	script  => \@script);
note explain \%got;

my @missing = grep { !$got{$_} }
  qw(RESERVED DUPLICATE CONFIRMED RELEASED OUT_OF_STOCK NOT_ELIGIBLE
  ALREADY_USED NOT_RESERVED);
is("@missing", '', 'the rush met every kind of answer');
isnt(
	$node->safe_psql(
		'postgres', q{
		SELECT count(*) FROM voucher_redemption
		WHERE release_reason = 'EXPIRED' AND voucher_code = 'HOT'}),
	0,
	'lapsed holds came back without anybody asking for it (B34)');
is( join(',', grep { !/^(?:RESERVED|DUPLICATE|CONFIRMED|RELEASED|OUT_OF_STOCK
			|NOT_ELIGIBLE|ALREADY_USED|NOT_RESERVED|NOT_FOUND)$/x } keys %got),
	'',
	'and no other kind');
is( $node->safe_psql(
		'postgres', q{
	SELECT v.code, said.*, made.* FROM voucher v,
	LATERAL (SELECT count(*) FILTER (WHERE result = 'RESERVED'),
					count(*) FILTER (WHERE result = 'CONFIRMED'),
					count(*) FILTER (WHERE result = 'RELEASED')
			 FROM answer a WHERE a.code = v.code) AS said(a, b, c),
	LATERAL (SELECT count(*), count(confirmed_at),
					count(*) FILTER (WHERE release_reason = 'RELEASED')
			 FROM voucher_redemption r WHERE r.voucher_code = v.code
			) AS made(a, b, c)
	WHERE (said.a, said.b, said.c) <> (made.a, made.b, made.c)}),
	'',
	'every committed answer is one change of one row, rollbacks are none (B12, B33)'
);
is($node->safe_psql('postgres', 'SELECT * FROM drift'),
	'', 'at every commit the counter equals the rows');
is_deeply(
	[
		grep { !/deadlock detected|could not serialize access/ }
		  server_errors($node)
	],
	[],
	'no raw unique or CHECK violation in the log, only 40001 and 40P01 (B14)');
invariant_ok($node, 'after the mixed rush');

done_testing();


# test/t/012_purge.pl
#
# Old history goes while a sale is on: from eight sessions at once, beside
# refunds of the very uses that are being purged, and beside purges that are
# rolled back.  Every row goes once, and no snapshot ever shows a counter that
# differs from its rows.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VoucherTest;

my $node = start_node('purge');

# OLD-0 to OLD-3 have ended, with 500 confirmed and 500 refunded uses each.
$node->safe_psql(
	'postgres', q{
	INSERT INTO voucher (code, discount_amount, total_limit)
	SELECT 'OLD-' || n, 100, 1000 FROM generate_series(0, 3) AS n
	UNION ALL SELECT 'SALE', 100, 300;
	SELECT count(voucher_redeem('OLD-' || n % 4, n, 'old-' || n, 1000))
	FROM generate_series(1, 4000) AS n;
	SELECT count(voucher_refund('OLD-' || n % 4, 'old-' || n))
	FROM generate_series(1, 4000) AS n WHERE n / 4 % 2 = 1;
	UPDATE voucher SET starts_at = '2020-01-01', ends_at = now()
	WHERE code LIKE 'OLD-%';
	CREATE UNLOGGED TABLE purged (n bigint);
	CREATE UNLOGGED TABLE drift (LIKE voucher)});

my $observe = q{
	INSERT INTO drift
	SELECT * FROM voucher AS v
	WHERE used_count <> purged_count +
		(SELECT count(*) FROM voucher_redemption AS r
		 WHERE r.voucher_code = v.code
		   AND r.status IN ('RESERVED', 'CONFIRMED'));
	};
my @sale = map { call_sql($_, q{'SALE'}, q{':client_id-:n'}, ':client_id * 1000 + :n') }
  qw(reserve confirm);

my %got = rush(
	$node, 'purge beside a sale',
	clients => 16,
	each    => 60,
	mode    => 'simple',
	script  => [
		[ 4, "\\set n :n + 1\n$sale[0]$sale[1]" ],
		[ 3, "INSERT INTO purged SELECT voucher_purge('0', 7);\n" ],
		[ 1, "BEGIN;\nSELECT voucher_purge('0', 40);\n\\sleep 2 ms\nROLLBACK;\n" ],
		[   3,
			"\\set o random(1, 4000)\nBEGIN;\n"
			  . call_sql('refund', q{'OLD-' || :o % 4}, q{'old-:o'})
			  . "\\sleep 2 ms\nCOMMIT;\n"
		],
		[ 1, $observe ]
	]);
note explain \%got;

my @missing = grep { !$got{$_} } qw(RESERVED CONFIRMED RELEASED DUPLICATE NOT_FOUND);
is("@missing", '', 'the rush met uses before, while and after they went');
cmp_ok($node->safe_psql('postgres', 'SELECT sum(n) FROM purged'),
	'>', 500, 'history went meanwhile');
is($node->safe_psql('postgres', 'SELECT code FROM drift'),
	'', 'at every commit the counter equals the rows and what is purged');
invariant_ok($node, 'beside a sale');
is( $node->safe_psql(
		'postgres', q{
		SELECT (SELECT sum(n) FROM purged)
			+ (SELECT count(*) FROM voucher_redemption WHERE voucher_code <> 'SALE')}),
	4000,
	'every row is there or was purged once');

# The rest, one transaction for each batch
$node->safe_psql(
	'postgres', q{
	DO $$ BEGIN WHILE voucher_purge('0', 100) > 0 LOOP COMMIT; END LOOP; END $$});
is( $node->safe_psql(
		'postgres', q{
		SELECT count(*) FILTER (WHERE voucher_code <> 'SALE') AS old,
			count(*) FILTER (WHERE voucher_code = 'SALE' AND status = 'CONFIRMED')
		FROM voucher_redemption}),
	"0|$got{CONFIRMED}",
	'then all history is gone, and no confirmed use of a running voucher');
is( $node->safe_psql(
		'postgres', q{
		SELECT sum(used_count), sum(purged_count) FROM voucher WHERE code <> 'SALE'}),
	join('|', (2000 - $got{RELEASED}) x 2),
	'what was refunded before it could be purged came back, the rest counts');
invariant_ok($node, 'after the purge');
is_deeply([ server_errors($node) ], [], 'nothing in the log');

done_testing();

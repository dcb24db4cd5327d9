# test/t/010_driver.pl
#
# The worked example in doc/examples, from a real client driver: an order and
# its voucher in one transaction, repeated when the answer is lost.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VoucherTest;

plan skip_all => 'python3-psycopg is not installed'
  if system('/usr/bin/python3 -c "import psycopg" 2>/dev/null') != 0;

my $node = start_node('driver');
$node->safe_psql(
	'postgres', q{
	CREATE TABLE shop_order (id text PRIMARY KEY, customer_id bigint, amount bigint, discount bigint);
	INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('DRIVER', 500, 3)});

my ($out, $err) = run_command(
	[
		'/usr/bin/python3', '-B', "$FindBin::RealBin/010_driver.py",
		$node->connstr('postgres')
	]);
is($err, '', 'the example raises nothing');
is( $out, join("\n",
		'plain 500 1',
		'again 500 1',
		'lost-before-commit 300 2',
		'lost-after-commit 500 3',
		'refused ALREADY_USED 1',
		'sold-out OUT_OF_STOCK 1'),
	'each order gets its discount once, whatever is lost (P81)');
is( $node->safe_psql(
		'postgres', 'SELECT id, discount FROM shop_order ORDER BY id'),
	"p1|500\np2|300\np3|500",
	'and is stored with it, or not at all');
invariant_ok($node, 'after lost answers');

done_testing();

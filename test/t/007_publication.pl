
# test/t/007_publication.pl
#
# With a publication FOR ALL TABLES an UPDATE needs a replica identity: every
# table that a call updates has one.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VoucherTest;

my $node = start_node('publication', init => { allows_streaming => 'logical' });
$node->safe_psql(
	'postgres', q{
	CREATE PUBLICATION everything FOR ALL TABLES;
	INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('PUB', 100, 2)});

is($node->safe_psql('postgres', 'SHOW wal_level'),
	'logical', 'changes are published');
my $s = session($node);
foreach (
	[ RESERVED     => q{reserve('PUB', 1, 'pub-1', 500)} ],
	[ DUPLICATE    => q{reserve('PUB', 1, 'pub-1', 500)} ],
	[ RESERVED     => q{reserve('PUB', 2, 'pub-2', 500)} ],
	[ OUT_OF_STOCK => q{reserve('PUB', 3, 'pub-3', 500)} ],
	[ CONFIRMED    => q{confirm('PUB', 'pub-1')} ],
	[ RELEASED     => q{release('PUB', 'pub-2')} ],
	[ RESERVED     => q{reserve('PUB', 3, 'pub-3', 500)} ])
{
	my ($result, $call) = @$_;
	is(ask($s, "SELECT result FROM voucher_$call"),
		$result, "published: $call is $result (P106)");
}
$s->quit;
is( $node->safe_psql(
		'postgres', q{
	SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
	WHERE relname IN ('voucher', 'voucher_slot', 'voucher_redemption')
	  AND nspname = 'public' AND relreplident = 'd'
	  AND EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary)}),
	3,
	'every table has a primary key as its replica identity (P106)');
invariant_ok($node, 'with a publication (P106)');

done_testing();

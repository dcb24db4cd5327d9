# test/t/011_clock.pl
#
# The edges of the sale and of a hold, to the microsecond: a server whose clock
# stands still.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VoucherTest;

my ($faketime) = glob('/usr/lib/*/faketime/libfaketime.so.1');
plan skip_all => 'libfaketime is not installed' unless defined $faketime;

my $node = start_node('clock', conf => "timezone = 'UTC'");
$node->stop;
{
	local $ENV{LD_PRELOAD}          = $faketime;
	local $ENV{FAKETIME}            = '2030-01-02 00:00:00';
	local $ENV{DONT_FAKE_MONOTONIC} = 1;
	local $ENV{TZ}                  = 'UTC';
	$node->start;
}
is($node->safe_psql('postgres', 'SELECT clock_timestamp()'),
	'2030-01-02 00:00:00+00', 'the clock stands still');

$node->safe_psql(
	'postgres', q{
	INSERT INTO voucher (code, discount_amount, total_limit, starts_at, ends_at) VALUES
		('ENDS-NOW', 5, 9, '2030-01-01', '2030-01-02'),
		('ENDS-NEXT', 5, 9, '2030-01-01', '2030-01-02 00:00:00.000001'),
		('STARTS-NOW', 5, 9, '2030-01-02', '2030-01-03'),
		('STARTS-NEXT', 5, 9, '2030-01-02 00:00:00.000001', '2030-01-03'),
		('HELD', 5, 1, '2030-01-01', '2030-01-03'), ('LAPSED', 5, 1, '2030-01-01', '2030-01-03');
	SELECT voucher_reserve('held', 1, 'held', 10), voucher_reserve('lapsed', 1, 'lapsed', 10);
	UPDATE voucher_redemption SET expires_at = '2030-01-02 00:00:00.000001' WHERE order_id = 'held';
	UPDATE voucher_redemption SET expires_at = '2030-01-02' WHERE order_id = 'lapsed'});

sub both
{
	my ($code) = @_;
	return $node->safe_psql(
		'postgres', qq{
	SELECT concat_ws('/', c.result, c.detail), concat_ws('/', r.result, r.detail)
	FROM voucher_check('$code', 2, 10) AS c, voucher_reserve('$code', 2, '$code', 10) AS r});
}
is(both('ENDS-NOW'), 'NOT_ELIGIBLE/ENDED|NOT_ELIGIBLE/ENDED',
	'at ends_at the sale is over');
is(both('ENDS-NEXT'), 'AVAILABLE|RESERVED', 'the instant before, it is on');
is(both('STARTS-NOW'), 'AVAILABLE|RESERVED', 'at starts_at it is on');
is( both('STARTS-NEXT'),
	'NOT_ELIGIBLE/NOT_STARTED|NOT_ELIGIBLE/NOT_STARTED',
	'the instant before, it is not');
is(both('HELD'), 'OUT_OF_STOCK|OUT_OF_STOCK',
	'a hold does not lapse before its deadline (B44)');
is(both('LAPSED'), 'AVAILABLE|RESERVED', 'and lapses at it (B44, B71)');
is( $node->safe_psql(
		'postgres',
		q{SELECT expires_at FROM voucher_redemption WHERE order_id = 'STARTS-NOW'}
	),
	'2030-01-02 00:15:00+00',
	'the deadline is the hold time after the call (P97)');
is( $node->safe_psql(
		'postgres', q{SELECT string_agg(concat(code, ' ', state), ',' ORDER BY code)
		FROM voucher_status WHERE code ~ 'NOW|NEXT'}),
	'ENDS-NEXT ACTIVE,ENDS-NOW ENDED,STARTS-NEXT SCHEDULED,STARTS-NOW ACTIVE',
	'voucher_status draws the same edges');
invariant_ok($node, 'on the edges');
$node->stop('immediate');

done_testing();

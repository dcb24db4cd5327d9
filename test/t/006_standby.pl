
# test/t/006_standby.pl
#
# A standby refuses every call; promoted in the middle of a sale it has all
# that was acknowledged and sells to exactly the limit.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VoucherTest;

my $primary = start_node('primary', init => { allows_streaming => 1 });
$primary->safe_psql(
	'postgres', q{
	INSERT INTO voucher (code, discount_amount, total_limit)
	VALUES ('SALE', 100, 1000000), ('GONE', 100, 1);
	SELECT voucher_reserve('GONE', 1, 'gone-1', 500)});

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

# What is acknowledged from here on is on the standby's disk.
$primary->append_conf('postgresql.conf', "synchronous_standby_names = '*'");
$primary->reload;
$primary->poll_query_until('postgres',
	q{SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'})
  or die "the standby is not synchronous";

my @call = (
	q{voucher_reserve('SALE', 1, 'new-1', 500)},
	q{voucher_reserve('GONE', 1, 'gone-1', 500)},
	q{voucher_reserve('GONE', 2, 'gone-2', 500)},
	q{voucher_reserve('NOSUCH', 1, 'new-1', 500)},
	q{voucher_confirm('GONE', 'gone-1')},
	q{voucher_release('GONE', 'gone-1')});
my $read_only = session($primary);
my $reader    = session($standby);
ask($read_only, 'SET default_transaction_read_only = on');
foreach my $call (@call)
{
	is(ask($reader, "SELECT $call"),
		'ERROR 25006', "refused on a standby: $call (P86)");
	is(ask($read_only, "SELECT $call"),
		'ERROR 25006', "refused in a read-only transaction: $call (P86)");
}
$read_only->quit;

my $sale = sale_start($primary, 'fail', 'SALE');
$primary->stop('immediate');
my ($cut, $ack) = sale_stop($sale);
cmp_ok($cut, '>', 0, 'the primary died in the middle of the sale');
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()')
  or die "no promotion";

acknowledged_ok($standby, $ack, 'failover to a synchronous standby (P109)');
invariant_ok($standby, 'after the promotion (P109)');
is(ask($reader, q{SELECT result FROM voucher_confirm('GONE', 'gone-1')}),
	'CONFIRMED', 'the session that was refused is served now (P86, P108)');
is(ask($reader, q{SELECT result FROM voucher_reserve('GONE', 2, 'gone-2', 500)}),
	'OUT_OF_STOCK', 'and what was sold out still is (P109)');
$reader->quit;

$standby->safe_psql('postgres',
	q{UPDATE voucher SET total_limit = used_count + 10 WHERE code = 'SALE'});
my %got = rush($standby, 'sell out', clients => 40, each => 1,
	script => "BEGIN;\n"
	  . call_sql('reserve', q{'SALE'}, q{'rest' || :client_id::int},
		':client_id::int')
	  . "\\sleep 1 ms\nCOMMIT;\n");
is_deeply(
	\%got,
	{ RESERVED => 10, OUT_OF_STOCK => 30 },
	'the new primary sells to exactly the limit (P108, P109)');
invariant_ok($standby, 'after the sale on the new primary (P109)');

done_testing();

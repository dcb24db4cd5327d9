
# test/t/003_crash.pl
#
# Sessions, servers and clients that die: what was acknowledged stays, what
# was not committed is free again.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VoucherTest;

my $node = start_node('crash', conf => 'restart_after_crash = on');
$node->safe_psql(
	'postgres', q{
	INSERT INTO voucher (code, discount_amount, total_limit)
	VALUES ('CRASH', 100, 1000000), ('LAST', 100, 1), ('LAST-2', 100, 2)});

sub result
{
	my ($call) = @_;
	return $node->safe_psql('postgres', "SELECT result FROM $call");
}

# Three times a backend is killed and the server recovers by itself, the fourth
# time the whole server is stopped as if the power had gone.
my %acknowledged;
foreach my $round (1 .. 4)
{
	my $offset = -s $node->logfile;
	my $sale   = sale_start($node, "r$round", 'CRASH');

	if ($round < 4)
	{
		my $pid = $node->safe_psql(
			'postgres', q{
			SELECT pid FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND query LIKE '%voucher_%'
			  AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1});
		kill('KILL', $pid) == 1 or die "no backend to kill: \"$pid\"";
	}
	else
	{
		$node->stop('immediate');
	}
	my ($cut, $ack) = sale_stop($sale);
	if ($round < 4)
	{
		$node->wait_for_log(
			qr/all server processes terminated; reinitializing/, $offset);
		$node->poll_query_until('postgres', 'SELECT true')
		  or die "no recovery";
	}
	else
	{
		$node->start;
	}
	cmp_ok($cut, '>', 0, "round $round: the crash hit the sale");
	%acknowledged = (%acknowledged, %$ack);
	invariant_ok($node, "after crash $round (P55)");
}
acknowledged_ok($node, \%acknowledged, 'four crashes (P55)');

$node->safe_psql('postgres',
	q{UPDATE voucher SET total_limit = used_count + 10 WHERE code = 'CRASH'});
my %got = rush($node, 'sell out', clients => 40, each => 1,
	script => "BEGIN;\n"
	  . call_sql('reserve', q{'CRASH'}, q{'rest' || :client_id::int},
		':client_id::int')
	  . "\\sleep 1 ms\nCOMMIT;\n");
is_deeply(
	\%got,
	{ RESERVED => 10, OUT_OF_STOCK => 30 },
	'after the crashes the sale goes on to exactly the limit (P55)');

# Between calls: the session holds the last use in an open transaction.
my $victim = session($node);
my $pid    = ask($victim, 'SELECT pg_backend_pid()');
is( ask($victim,
		q{BEGIN; SELECT result FROM voucher_reserve('LAST', 1, 'v1', 500)}),
	'RESERVED',
	'the last use is held by an open transaction');
terminate($node, $pid);
eval { $victim->quit };
is(result(q{voucher_reserve('LAST', 2, 'v2', 500)}),
	'RESERVED', 'terminated between calls: the use is back (P54, B117)');
is(result(q{voucher_reserve('LAST', 1, 'v1', 500)}),
	'OUT_OF_STOCK', 'and it is back once (P54)');

# A client that dies: nobody tells the server, the socket just closes.
$victim = session($node);
$pid    = ask($victim, 'SELECT pg_backend_pid()');
is( ask($victim, q{BEGIN; SELECT result FROM voucher_release('LAST', 'v2')}),
	'RELEASED',
	'a release is not committed yet');
$victim->{run}->signal('KILL');
eval { $victim->{run}->finish };
$node->poll_query_until('postgres',
	"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)")
  or die "the backend of a dead client stays";
is(result(q{voucher_confirm('LAST', 'v2')}),
	'CONFIRMED', 'client killed: its release did not happen (promise 4)');
is(result(q{voucher_reserve('LAST', 3, 'v3', 500)}),
	'OUT_OF_STOCK', 'and gave nothing back (promise 1)');

# In the middle of a call: it has its row and waits for the voucher's.
my $holder = session($node);
$victim = session($node);
$pid    = ask($victim, 'SELECT pg_backend_pid()');
ask($holder,
	q{BEGIN; SELECT result FROM voucher_reserve('LAST-2', 1, 'w1', 500)});
$victim->query_until(qr/calling/,
	"\\echo calling\nSELECT voucher_reserve('LAST-2', 2, 'w2', 500);\n");
$node->poll_query_until('postgres',
	"SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid")
  or die "the call does not wait";
terminate($node, $pid);
eval { $victim->quit };
is(ask($holder, 'COMMIT'), '', 'the session in front commits');
$holder->quit;
is(result(q{voucher_confirm('LAST-2', 'w2')}),
	'NOT_FOUND', 'terminated in a call: no row stays (P54, B117)');
is(result(q{voucher_reserve('LAST-2', 3, 'w3', 500)}),
	'RESERVED', 'the use is back (P54, B117)');
is(result(q{voucher_reserve('LAST-2', 2, 'w2', 500)}),
	'OUT_OF_STOCK', 'once (P54)');
invariant_ok($node, 'after the terminations');

done_testing();

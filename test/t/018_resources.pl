
# test/t/018_resources.pl
#
# What the worker takes and what it makes do with: memory, visits, process
# slots, a server that did not preload it, a standby that is not there.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use VoucherTest;

# Nothing but holds that lapse makes a visit necessary.  Autovacuum would take
# the dead tuples away.  Without WAL senders no session waits for a standby.
my $node = start_node(
	'resources',
	init => { allows_streaming => 1 },
	conf => "shared_preload_libraries = 'voucher'\n"
	  . "voucher.worker_naptime = 10ms\n"
	  . "voucher.reconcile_interval = 0\n"
	  . "max_logical_replication_workers = 0\n"
	  . "autovacuum = off");
$node->safe_psql(
	'postgres', q{
	INSERT INTO voucher (code, discount_amount, hold_time) VALUES
		('STEADY', 100, '500 ms'), ('DEAD', 100, '1 s'), ('SLOTS', 100, '1 s'),
		('NOBODY', 100, '500 ms')});

sub value
{
	my ($sql) = @_;
	return $node->safe_psql('postgres', "SELECT $sql");
}

sub hold
{
	my ($code, $uses) = @_;
	$node->safe_psql('postgres', qq{
		SET synchronous_commit = local;
		SELECT voucher_reserve('$code', i, '$code-' || i, 1000) FROM generate_series(1, $uses) AS i});
	return;
}

sub comes_back
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($code, $uses, $name) = @_;
	$node->poll_query_until('postgres',
		"SELECT used_count = 0 FROM voucher WHERE code = '$code'");
	is( value(
			"count(*) FROM voucher_redemption WHERE voucher_code = '$code'"
			  . " AND status = 'RELEASED' AND release_reason = 'EXPIRED'"),
		$uses,
		$name);
	return;
}

# Rows that only the worker changed.
my $updated = q{(SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'voucher_redemption')};
my $dead = q{(SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'voucher_redemption')};
is(value("$updated + $dead"), '0', 'no row was changed yet');
hold('DEAD', 300);
comes_back('DEAD', 300, 'holds come back');
ok( $node->poll_query_until(
		'postgres', "SELECT $updated >= 300 AND $dead >= 300"),
	'autovacuum learns of the rows that the worker changed (P23)');

# Nothing is due: a hundred rounds without a visit.
my $state = q{FROM voucher_worker WHERE datname = 'postgres'};
$node->poll_query_until('postgres',
	"SELECT last_visit < now() - interval '300 ms' $state")
  or die "the worker does not rest";
my $visit = value("last_visit $state");
my $beat = value("heartbeat $state");
foreach my $look (1 .. 10)
{
	usleep(100_000);
	last if value("last_visit $state") ne $visit;
}
is(value("last_visit $state"), $visit, 'nothing due, no visit (P18)');
is(value("heartbeat > '$beat' $state"),
	't', 'although the launcher goes round');

# Holds come and go, one every 10 ms.  What a visit gives back it gives back at
# one time, so that the times count the visits.
SKIP:
{
	my $pid = value(
		"pid FROM pg_stat_activity WHERE backend_type = 'voucher launcher'");
	skip 'there is no /proc', 3 unless -r "/proc/$pid/status";
	my $size = sub {
		return slurp_file("/proc/$pid/status") =~ /^VmRSS:\s+(\d+) kB/m ? $1 : die;
	};
	my $visits =
	  q{(SELECT count(DISTINCT released_at) FROM voucher_redemption WHERE voucher_code = 'STEADY')};

	$node->safe_psql(
		'postgres', q{
		BEGIN;
		SELECT count(voucher_reserve('STEADY', i, 'STEADY-' || i, 1000)) FROM generate_series(1, 900) AS i;
		UPDATE voucher_redemption
		SET expires_at = clock_timestamp() + interval '500 ms' + customer_id * interval '10 ms'
		WHERE voucher_code = 'STEADY';
		COMMIT});
	$node->poll_query_until('postgres', "SELECT $visits >= 50")
	  or die "no visits";
	my ($early, $before) = (value($visits), $size->());
	comes_back('STEADY', 900, 'holds come and go');
	my ($late, $after) = (value($visits), $size->());
	note("VmRSS $before kB after $early visits, $after kB after $late");
	cmp_ok($late - $early, '>', 200, 'by hundreds of visits');
	cmp_ok($after - $before, '<=', 512, 'the launcher does not grow (P13)');
}

# A standby that is not there: sessions would wait for it for ever.
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nosuch'");
$node->reload;
$node->poll_query_until('postgres',
	q{SELECT current_setting('synchronous_standby_names') = 'nosuch'})
  or die "no reload";
my $session = session($node);
my $backend = ask($session, 'SELECT pg_backend_pid()');
$session->query_until(qr/waiting/, "\\echo waiting\nCREATE TABLE waits ();\n");
ok( $node->poll_query_until(
		'postgres',
		"SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = $backend"),
	'a session waits for a standby');
hold('NOBODY', 5);
comes_back('NOBODY', 5, 'the worker does not (P19)');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($backend)");
$session->quit;
$node->append_conf('postgresql.conf', "synchronous_standby_names = ''");

# One process for the launcher, none for a visit.  It tries in vain as soon as
# it has started.
$node->append_conf('postgresql.conf', 'max_worker_processes = 1');
my $offset = -s $node->logfile;
$node->restart;
hold('SLOTS', 5);
my $full = qr/no background worker process is free/;
$node->wait_for_log($full, $offset);
$node->poll_query_until('postgres',
	q{SELECT min(expires_at) < now() - interval '4 s' FROM voucher_redemption
		WHERE voucher_code = 'SLOTS' AND status = 'RESERVED'});
is( value(
		q{count(*) FROM voucher_redemption WHERE voucher_code = 'SLOTS' AND status = 'RESERVED'}),
	'5',
	'no process is free: nothing comes back');
my @said = grep { /$full/ } split(/\n/, slurp_file($node->logfile, $offset));
is(scalar @said, 1, 'which is said once (P7)') or diag(join("\n", @said));
like($said[0] || '', qr/LOG:/, 'at level LOG');
is(value(q{count(*) FROM pg_stat_activity WHERE backend_type = 'voucher launcher'}),
	'1', 'the launcher lives on');
$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
$node->restart;
comes_back('SLOTS', 5, 'with more processes they are back');
invariant_ok($node, 'after all that');

# Not preloaded.
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
$node->safe_psql('postgres', 'CREATE DATABASE bare');
my ($rc, $out, $err) = $node->psql('bare', 'CREATE EXTENSION voucher');
like($err, qr/WARNING:.*preload/is, 'not preloaded: a WARNING');
$node->safe_psql(
	'bare', q{
	INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('BARE', 100, 10);
	SELECT voucher_reserve('BARE', i, 'bare-' || i, 1000) FROM generate_series(1, 5) AS i;
	UPDATE voucher_redemption SET expires_at = now() WHERE order_id <> 'bare-5'});
is(value(q{count(*) FROM pg_stat_activity WHERE backend_type LIKE 'voucher %'}),
	'0', 'there is no worker');
is($node->safe_psql('bare', 'SELECT count(*) FROM voucher_worker'),
	'0', 'and its view is empty');
is( $node->safe_psql(
		'bare', q{SELECT * FROM voucher_run_worker(); SELECT used_count FROM voucher}),
	"4|0\n1",
	'voucher_run_worker does the same work');
load_invariant($node, 'bare');
invariant_ok($node, 'without a worker', db => 'bare');

is(join("\n", server_errors($node)), '', 'no errors in the server log');
$node->stop;

done_testing();

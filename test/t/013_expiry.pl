# test/t/013_expiry.pl
#
# Holds that nobody pays for come back, by the background worker alone: on
# time, after any kind of stop or kill, each of them once, and whatever a
# single hold or a single session does to be in the way.  No test here reserves
# after the deadline, since a reserve would give back a lapsed hold itself.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VoucherTest;

my $node = start_node('expiry',
	conf => "shared_preload_libraries = 'voucher'\nrestart_after_crash = on");
$node->safe_psql(
	'postgres', q{
	INSERT INTO voucher (code, discount_amount, total_limit, hold_time)
	SELECT 'V' || n, 100, 10000, '300 ms' FROM generate_series(0, 9) AS n});

# Holds "$tag-1" to "$tag-$n", dealt out to V0 to V9.
sub hold
{
	my ($tag, $n) = @_;
	$node->safe_psql('postgres',
		"SELECT count(voucher_reserve('V' || n % 10, n, '$tag-' || n, 1000))"
		  . " FROM generate_series(1, $n) AS n");
}

# All holds of this name have come back.  "since": on time, and an expression
# for the instant from which "on time" is counted.  The contract says 2 s; 5
# leaves room for a machine that does something else.
sub back_ok
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($tag, $n, $name, %opt) = @_;
	my $where = "WHERE order_id LIKE '$tag-%'";
	my $since = $opt{since} || 'expires_at';

	$node->poll_query_until('postgres',
		"SELECT count(*) = $n FROM voucher_redemption $where"
		  . " AND status = 'RELEASED' AND release_reason = 'EXPIRED'"
		  . " AND released_at >= expires_at");
	is( $node->safe_psql(
			'postgres',
			"SELECT status, release_reason, count(*),"
			  . " coalesce(nullif(max(released_at - $since) < '5 s', true)::text,"
			  . " 'on time')"
			  . " FROM voucher_redemption $where GROUP BY 1, 2"),
		"RELEASED|EXPIRED|$n|on time",
		$name)
	  or diag(
		$node->safe_psql(
			'postgres',
			"SELECT max(released_at - $since) FROM voucher_redemption $where"));
}

sub used
{
	return $node->safe_psql('postgres', 'SELECT sum(used_count) FROM voucher');
}

sub launcher
{
	return $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'voucher launcher'");
}

# Wait for a visit, and return its process.
sub visit
{
	my $look = "FROM pg_stat_activity WHERE backend_type = 'voucher worker'"
	  . " AND datname = 'postgres'";
	$node->poll_query_until('postgres', "SELECT count(*) > 0 $look")
	  or die 'no visit';
	return $node->safe_psql('postgres', "SELECT pid $look");
}

# Each update of such a hold takes so long, or fails.
sub trap
{
	my ($like, $body) = @_;
	$node->safe_psql(
		'postgres', qq{
		CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql
		AS \$\$ BEGIN $body; RETURN new; END \$\$;
		CREATE TRIGGER trap BEFORE UPDATE ON voucher_redemption FOR EACH ROW
		WHEN (old.order_id LIKE '$like') EXECUTE FUNCTION trap()});
}

sub untrap
{
	$node->safe_psql('postgres', 'DROP FUNCTION trap CASCADE');
}

# Deadlines.

hold('idle', 1);
back_ok('idle', 1, 'a hold comes back on time');
is(used(), 0, 'and is no use any more');

# One deadline each half second: neither the launcher's clock nor its idea of
# what comes next stands still.
$node->safe_psql(
	'postgres', q{
	INSERT INTO voucher (code, discount_amount, hold_time)
	SELECT 'STEP' || n, 100, '1 s'::interval + n * '500 ms'::interval
	FROM generate_series(0, 4) AS n;
	SELECT voucher_reserve('STEP' || n, n, 'step-' || n, 1000)
	FROM generate_series(4, 0, -1) AS n});
back_ok('step', 5, 'one after the other comes back, each on time (P20)');

$node->safe_psql(
	'postgres', q{
	BEGIN;
	SELECT count(voucher_reserve('V' || n % 10, n, 'many-' || n, 1000))
	FROM generate_series(1, 2000) AS n;
	UPDATE voucher_redemption
	SET expires_at = (SELECT max(expires_at) FROM voucher_redemption)
	WHERE order_id LIKE 'many-%';
	COMMIT});
back_ok('many', 2000, '2000 holds that lapse at one instant come back');
is(used(), 0, 'and are counted back exactly');

# Roles.

$node->safe_psql(
	'postgres', q{
	CREATE ROLE regress_voucher_shop;
	GRANT USAGE ON SCHEMA public TO regress_voucher_shop;
	GRANT EXECUTE ON FUNCTION voucher_reserve TO regress_voucher_shop;
	SET ROLE regress_voucher_shop;
	SELECT voucher_reserve('V1', 1, 'role-1', 1000);
	RESET ROLE;
	DROP OWNED BY regress_voucher_shop;
	DROP ROLE regress_voucher_shop});
back_ok('role', 1, 'the hold of a role that was dropped comes back');

# What is in the way.

my $offset = -s $node->logfile;
trap('poison-500', q{RAISE 'this hold is poison'});
hold('poison', 1000);
$node->poll_query_until('postgres',
	"SELECT count(*) = 999 FROM voucher_redemption"
	  . " WHERE order_id LIKE 'poison-%' AND status = 'RELEASED'");
is( $node->safe_psql(
		'postgres', q{
		SELECT status, count(*) FROM voucher_redemption
		WHERE order_id LIKE 'poison-%' GROUP BY 1 ORDER BY 1}),
	"RELEASED|999\nRESERVED|1",
	'a hold that cannot be given back costs only itself');
$node->poll_query_until('postgres', 'SELECT count(*) > 0 FROM voucher_incident');
is( $node->safe_psql(
		'postgres', q{
		SELECT i.kind, i.voucher_code, r.order_id, i.detail LIKE '%poison%'
		FROM voucher_incident AS i
			LEFT JOIN voucher_redemption AS r ON r.id = i.redemption_id}),
	'EXPIRY|V0|poison-500|t',
	'it is an incident');

# Visits go on beside it, and do not try it again.
foreach my $i (1 .. 3)
{
	hold("beside$i", 1);
	back_ok("beside$i", 1, "beside it others come back, $i");
}
my $log    = slurp_file($node->logfile, $offset);
my @poison = $log =~ /could not expire a hold of voucher/g;
is(scalar @poison, 1, 'one line in the log is about it, whatever came after');
is(used(), 1, 'and it is the only use');
invariant_ok($node, 'with a hold that cannot be given back');
untrap();
$node->safe_psql('postgres',
	'UPDATE voucher_incident SET retry_at = clock_timestamp();'
	  . 'SELECT voucher_run_worker()');
is(used(), 0, 'when its time has come it is tried again');

# The rows that come first, of either table, belong to somebody else.
my $holder = session($node);
hold('locked', 100);
ask($holder, q{BEGIN;
	SELECT FROM voucher WHERE code BETWEEN 'V0' AND 'V7' FOR UPDATE;
	SELECT FROM voucher_redemption WHERE order_id = 'locked-8' FOR UPDATE});
$node->poll_query_until('postgres',
	"SELECT count(*) = 19 FROM voucher_redemption"
	  . " WHERE order_id LIKE 'locked-%' AND status = 'RELEASED'");
is( $node->safe_psql(
		'postgres', q{
		SELECT voucher_code, status, count(*), max(released_at - expires_at) < '5 s'
		FROM voucher_redemption
		WHERE order_id LIKE 'locked-%' AND voucher_code IN ('V7', 'V8', 'V9')
		GROUP BY 1, 2 ORDER BY 1, 2}),
	"V7|RESERVED|10|\nV8|RELEASED|9|t\nV8|RESERVED|1|\nV9|RELEASED|10|t",
	'rows that are locked do not keep the others waiting (P22)');
$node->safe_psql('postgres', 'CREATE TABLE unlocked AS SELECT clock_timestamp() AS at');
ask($holder, 'COMMIT');
$holder->quit;
back_ok('locked', 100, 'and come back when they are free',
	since => '(SELECT at FROM unlocked)');
is(used(), 0, 'all of them, once');

# A hundred vouchers that somebody keeps locked, each with a hold that has lapsed.
$node->safe_psql(
	'postgres', q{
	INSERT INTO voucher (code, discount_amount, hold_time)
	SELECT 'L' || n, 100, '300 ms' FROM generate_series(1, 100) AS n;
	SELECT count(voucher_reserve('L' || n, n, 'kept-' || n, 1000)) FROM generate_series(1, 100) AS n});
$holder = session($node);
ask($holder, q{BEGIN; SELECT FROM voucher WHERE code LIKE 'L%' FOR UPDATE});
foreach my $i (1 .. 5)
{
	hold("many$i", 10);
	back_ok("many$i", 10, "beside a hundred locked vouchers others come back, $i", since => 'expires_at');
}
$node->safe_psql('postgres', 'DROP TABLE unlocked; CREATE TABLE unlocked AS SELECT clock_timestamp() AS at');
ask($holder, 'COMMIT');
$holder->quit;
back_ok('kept', 100, 'and so do those', since => '(SELECT at FROM unlocked)');

# A round by hand in a transaction that stays open: it has an incident in hand.
trap('poison%', q{RAISE 'poison' USING ERRCODE = 'query_canceled'});
$node->safe_psql('postgres', q{SELECT voucher_reserve('V1', 999, 'poisoned-1', 1000)});
hold('sound',    20);
back_ok('sound', 20, 'a trigger that says it was cancelled stops nothing', since => 'expires_at');
$node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM voucher_incident') or die 'no incident';
untrap();
$node->safe_psql('postgres', q{SELECT voucher_confirm('V1', 'poisoned-1')});
$holder = session($node);
ask($holder, 'BEGIN; SELECT voucher_run_worker()');
hold('meanwhile', 20);
back_ok('meanwhile', 20, 'nor does a round that keeps its transaction open', since => 'expires_at');
ask($holder, 'COMMIT');
$holder->quit;
is($node->safe_psql('postgres', 'SELECT count(*) FROM voucher_incident'), 0, 'the incident is over');
$node->safe_psql('postgres', q{SELECT voucher_refund('V1', 'poisoned-1')});
is(used(), 0, 'all uses are back');

# Late payments: each client reserves an order, and confirms the one that it
# reserved 25 steps, at least half a second, ago; the holds last from 0.1 s to
# 1 s.
$node->safe_psql(
	'postgres', q{
	INSERT INTO voucher (code, discount_amount, hold_time)
	SELECT 'LATE' || n, 100, (n + 1) * '100 ms'::interval
	FROM generate_series(0, 9) AS n});
my $late = sub {
	my ($what, $n) = @_;
	return call_sql($what, "'LATE' || ($n) % 10",
		"'late-' || :client_id || '-' || $n",
		':client_id * 1000 + :n');
};
my %got = rush(
	$node, 'late payments',
	clients => 8,
	each    => 150,
	mode    => 'simple',
	script  => "\\set n :n + 1\n\\set m :n - 25\n"
	  . $late->('reserve', ':n')
	  . "\\if :m > 0\n"
	  . $late->('confirm', ':m')
	  . "\\endif\n\\sleep 20 ms\n");
note(join(', ', map { "$_ $got{$_}" } sort keys %got));
cmp_ok($got{CONFIRMED},    '>', 0, 'some came before the worker');
cmp_ok($got{NOT_RESERVED}, '>', 0, 'some came after it');
is($got{CONFIRMED} + $got{NOT_RESERVED}, 1000, 'each was one or the other');
$node->poll_query_until('postgres',
	"SELECT NOT EXISTS (SELECT FROM voucher_redemption WHERE status = 'RESERVED')");
is( $node->safe_psql(
		'postgres', q{
		SELECT status, release_reason, count(*) FROM voucher_redemption
		WHERE order_id LIKE 'late-%' GROUP BY 1, 2 ORDER BY 1}),
	"CONFIRMED||$got{CONFIRMED}\nRELEASED|EXPIRED|" . (1200 - $got{CONFIRMED}),
	'and the rows say what was answered');
is( $node->safe_psql(
		'postgres', q{
		SELECT count(*) FROM answer AS a JOIN voucher_redemption AS r USING (order_id)
		WHERE a.result IN ('CONFIRMED', 'NOT_RESERVED')
		  AND (a.result = 'CONFIRMED') <> (r.status = 'CONFIRMED')}),
	0,
	'for each of them');
is(used(), $got{CONFIRMED}, 'and so do the counters');
invariant_ok($node, 'after the late payments');

# Processes that die.

foreach my $i (1 .. 5)
{
	my $pid = launcher();
	hold("launcher$i", 1);
	terminate($node, $pid);
	$node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity"
		  . " WHERE backend_type = 'voucher launcher' AND pid <> $pid")
	  or die 'no new launcher';
}
foreach my $i (1 .. 5)
{
	back_ok("launcher$i", 1, "launcher terminated, $i: the hold comes back");
}

# From here on each hold named so takes its time, so that a visit can be met.
trap('slow-%', 'PERFORM pg_sleep(0.3)');
hold('slow-ended', 6);
terminate($node, visit());
back_ok('slow-ended', 6, 'visit terminated: another does what it was doing');
is(used(), $got{CONFIRMED}, 'once');

hold('slow-killed', 6);
$offset = -s $node->logfile;
kill('KILL', visit()) == 1 or die 'no visit to kill';
$node->wait_for_log(qr/all server processes terminated; reinitializing/, $offset);
$node->poll_query_until('postgres', 'SELECT true') or die 'no recovery';
back_ok('slow-killed', 6, 'visit killed: the server comes back and so do the holds');

# Servers that stop.

$node->safe_psql('postgres', "UPDATE voucher SET hold_time = '1 s'");

hold('restart', 10);
$node->restart;
back_ok('restart', 10, 'a deadline outlives a restart',
	since => 'greatest(expires_at, pg_postmaster_start_time())');

hold('crash', 10);
my $deadline = time + 1.1;
$node->stop('immediate');
usleep(100_000) while time < $deadline;
$node->start;
is( $node->safe_psql(
		'postgres', q{
		SELECT max(expires_at) < pg_postmaster_start_time()
		FROM voucher_redemption WHERE order_id LIKE 'crash-%'}),
	't',
	'holds lapsed while the server was down');
back_ok('crash', 10, 'and come back after a crash',
	since => 'pg_postmaster_start_time()');

foreach my $mode (qw(smart fast))
{
	hold("slow-$mode", 6);
	visit();
	my $from = time;
	$node->stop($mode);
	cmp_ok(time - $from, '<', 10, "a busy worker does not hold up a $mode stop");
	$node->start;
	back_ok("slow-$mode", 6, 'what it left is done after the start',
		since => 'greatest(expires_at, pg_postmaster_start_time())');
}
is(used(), $got{CONFIRMED}, 'nothing came back twice');
invariant_ok($node, 'after everything');

# Only whoever came too early after a crash complains.
is( join(
		"\n",
		grep {
			!/the database system is (?:not yet accepting connections|in recovery mode|starting up)/
		} server_errors($node)),
	'',
	'no error in the log');
$node->stop;

done_testing();

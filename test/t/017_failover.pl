
# test/t/017_failover.pl
#
# Where the worker must keep still, and where it must start by itself: a
# standby and its promotion, binary upgrade, single-user mode, a logical
# subscriber.  And what it says about a prepared transaction that is forgotten.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VoucherTest;

my $preload = "shared_preload_libraries = 'voucher'";
my $launchers =
  q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'voucher launcher'};
my $ours =
  q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'voucher %'};
my $vouchers = q{
	INSERT INTO voucher (code, discount_amount, total_limit)
	VALUES ('A', 100, 100), ('B', 100, 100)};

# A hold of one second.
sub hold
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($node, $code, $customer, $order) = @_;
	is( $node->safe_psql(
			'postgres', qq{
		SET voucher.hold_time = '1s';
		SELECT result FROM voucher_reserve('$code', $customer, '$order', 500)}),
		'RESERVED',
		"hold $order");
}

# A hold whose row a session keeps locked, which the server's worker skips.
sub locked_hold
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($node, $customer, $order) = @_;
	my $locker = session($node);
	like(
		ask($locker, qq{
		SET voucher.hold_time = '1s';
		SELECT result FROM voucher_reserve('A', $customer, '$order', 500);
		BEGIN; SELECT FROM voucher_redemption WHERE order_id = '$order' FOR UPDATE}),
		qr/^RESERVED$/m,
		"hold $order, locked");
	return $locker;
}

sub until_true
{
	my ($node, $what) = @_;
	return $node->poll_query_until('postgres', "SELECT $what");
}

# The hold of this order, as this node sees it.
sub state_of
{
	my ($node, $order) = @_;
	return $node->safe_psql('postgres',
		"SELECT concat_ws('/', status, release_reason)"
		  . " FROM voucher_redemption WHERE order_id = '$order'");
}

sub comes_back
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($node, $order, $name) = @_;
	until_true($node,
		"status = 'RELEASED' FROM voucher_redemption WHERE order_id = '$order'");
	is(state_of($node, $order), 'RELEASED/EXPIRED', $name);
}

# Still held, a second after the worker would have had to give it back.
# Each caller shows that a worker does take this very hold later.
sub stays
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($node, $order, $name) = @_;
	until_true($node, "clock_timestamp() > expires_at + interval '3 s'"
		  . " FROM voucher_redemption WHERE order_id = '$order'");
	is(state_of($node, $order), 'RESERVED', $name);
}

sub no_errors
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($node, $expected) = @_;
	my @errors = server_errors($node);
	@errors = grep { !/$expected/ } @errors if defined $expected;
	is("@errors", '', 'no other errors in the log of ' . $node->name);
}

# A standby.
my $primary = start_node('primary',
	conf => $preload, init => { allows_streaming => 1 });
$primary->safe_psql('postgres', $vouchers);
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

hold($primary, 'A', 1, 'follows');
comes_back($primary, 'follows', 'the primary gives a hold back');
comes_back($standby, 'follows', 'and the standby follows (P108)');
is($primary->safe_psql('postgres', $launchers), 1, 'the primary has a launcher');
is($standby->safe_psql('postgres', $ours), 0, 'the standby has none (P108)');
my $reader = session($standby);
is(ask($reader, 'SELECT * FROM voucher_run_worker()'),
	'ERROR 25006', 'and refuses a round by hand (P86)');
$reader->quit;

# The lock keeps the primary's worker off until the primary is dead; the lock
# dies with it.
my $locker = locked_hold($primary, 2, 'lapsed');
$primary->wait_for_catchup($standby);
$primary->stop('immediate');
eval { $locker->quit };
# The standby tries to connect again at once.
no_errors($primary, qr/the database system is shutting down/);
stays($standby, 'lapsed', 'on the standby it lapses and stays (P108)');
is($standby->safe_psql('postgres', $ours), 0, 'still no launcher there (P108)');

my $promotion = $standby->safe_psql('postgres', 'SELECT clock_timestamp()');
$standby->promote;
comes_back($standby, 'lapsed',
	'the promoted server gives back what lapsed meanwhile (P108)');
is( $standby->safe_psql(
		'postgres', qq{
	SELECT released_at > '$promotion' FROM voucher_redemption WHERE order_id = 'lapsed'}),
	't', 'after its promotion (P108)');
is($standby->safe_psql('postgres', $launchers), 1, 'by its own launcher (P108)');
is( $standby->safe_psql('postgres',
		q{SELECT used_count FROM voucher WHERE code = 'A'}),
	0, 'and every use is back once (P109)');
invariant_ok($standby, 'after the promotion (P109)');
no_errors($standby, qr/read-only|recovery|WAL stream|connect to the primary/);

# Binary upgrade, as pg_upgrade starts the server.
my $node = $standby;
$node->stop;
my $offset = -s $node->logfile;
command_ok(
	[
		'pg_ctl', '-w', '-D', $node->data_dir, '-l', $node->logfile,
		'-o', '-b', 'start'
	],
	'the server starts in binary upgrade mode');
$node->_update_pid(1);
hold($node, 'A', 4, 'upgrade');
stays($node, 'upgrade', 'binary upgrade: no hold is given back (P35)');
is($node->safe_psql('postgres', $ours), 0, 'there is no launcher (P35)');
$node->stop;

# Single-user mode: standard input is SQL, a line each.
my $said = '';
IPC::Run::run(
	[ 'postgres', '--single', '-D', $node->data_dir, 'postgres' ],
	'<',
	\qq{SET voucher.hold_time = '1s'
SELECT status AS upgrade FROM voucher_redemption WHERE order_id = 'upgrade'
SELECT result AS single FROM voucher_reserve('A', 5, 'single', 500)
SELECT expired AS round FROM voucher_run_worker()
},
	'>', \$said, '2>>', $node->logfile);
my %single = $said =~ /^\s*1: (\w+) = "(\w+)"/mg;
is_deeply(
	\%single,
	{ upgrade => 'RESERVED', single => 'RESERVED', round => 1 },
	'single-user mode: no worker by itself, all calls work') or diag($said);
$node->start;
comes_back($node, 'single', 'started as usual, the server has its worker');
is(state_of($node, 'upgrade'), 'RELEASED/EXPIRED', 'the other came back by hand');
invariant_ok($node, 'after binary upgrade and single-user mode');
is(join(' ', server_errors($node, $offset)), '', 'without an error');
$node->stop;

# A logical subscriber.
my ($pub, $sub) = map {
	start_node($_, init => { allows_streaming => 'logical' },
		conf => "$preload\nvoucher.reconcile_interval = '500ms'")
} ('publisher', 'subscriber');
until_true($sub, q{state = 'SERVED' FROM voucher_worker WHERE datname = 'postgres'});
is( $sub->safe_psql('postgres',
		q{SELECT state FROM voucher_worker WHERE datname = 'postgres'}),
	'SERVED', 'before it subscribes, a database is served');
$pub->safe_psql('postgres', $vouchers
	  . '; CREATE PUBLICATION p FOR TABLE voucher, voucher_slot, voucher_redemption');
my $connect = $pub->connstr('postgres');
$sub->safe_psql('postgres',
	"CREATE SUBSCRIPTION s CONNECTION \$\$$connect\$\$ PUBLICATION p");
$sub->wait_for_subscription_sync($pub, 's');
ok(until_true($sub, q{state = 'DORMANT' FROM voucher_worker WHERE datname = 'postgres'}),
	'a subscriber is dormant (P110)');

hold($pub, 'A', 1, 'both');
comes_back($pub, 'both', 'the publisher gives a hold back');
comes_back($sub, 'both', 'and the subscriber hears of it (P110)');
my $released_at = q{SELECT released_at FROM voucher_redemption WHERE order_id = 'both'};
is($sub->safe_psql('postgres', $released_at),
	$pub->safe_psql('postgres', $released_at), 'did not do it itself (P110)');

# Again a lock keeps the publisher's worker off, so that the subscriber has a
# lapsed hold that it could take.
$locker = locked_hold($pub, 2, 'dormant');
$pub->wait_for_catchup('s');
stays($sub, 'dormant', 'the subscriber leaves a lapsed hold alone (P110)');
is( $sub->safe_psql('postgres',
		q{SELECT state FROM voucher_worker WHERE datname = 'postgres'}),
	'DORMANT', 'is still dormant (P110)');
$sub->safe_psql('postgres', 'DROP SUBSCRIPTION s');
# A dormant database is looked at once a minute; a restart is quicker.
$sub->restart;
comes_back($sub, 'dormant', 'the subscription gone, it is served again (P110)');
is(state_of($pub, 'dormant'), 'RESERVED', 'while the publisher had it still');
ask($locker, 'COMMIT');
$locker->quit;
comes_back($pub, 'dormant', 'the lock gone, the publisher gives it back too');
foreach ($pub, $sub)
{
	invariant_ok($_, 'on the ' . $_->name . ' (P110)');
	no_errors($_, qr/administrator command/);
	$_->stop;
}

# A prepared transaction that was forgotten: its server ran two hours ago by the
# clock, and without a worker.  (Not the other way round: up to 15 a background
# worker is forked in a signal handler, where libfaketime does not fake.)
SKIP:
{
	my ($faketime) = glob('/usr/lib/*/faketime/libfaketime.so.1');
	skip 'libfaketime is not installed', 1 unless defined $faketime;

	my $prepare = q{
		SET voucher.hold_time = '1s';
		BEGIN; SELECT FROM voucher_reserve('%s', 1, '%2$s', 500);
		PREPARE TRANSACTION '%2$s'};
	{
		local $ENV{LD_PRELOAD}          = $faketime;
		local $ENV{FAKETIME}            = '-2h';
		local $ENV{DONT_FAKE_MONOTONIC} = 1;
		$node = start_node('prepared');
		$node->safe_psql('postgres', $vouchers);
		$node->safe_psql('postgres', sprintf($prepare, 'A', 'forgotten'));
		$node->stop;
	}
	$node->append_conf('postgresql.conf',
		"$preload\nvoucher.worker_naptime = '10ms'");
	$node->start;
	is( $node->safe_psql('postgres',
			q{SELECT now() - prepared > interval '1 h' FROM pg_prepared_xacts}),
		't',
		'a transaction has been prepared for more than an hour');
	$node->wait_for_log(qr/"forgotten" in database "postgres" has been prepared/);

	# Of another voucher: the first one's row is locked.
	$node->safe_psql('postgres',
		sprintf($prepare, 'B', 'fresh'));
	$node->safe_psql('postgres', q{
		INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('C', 100, 100)});
	foreach my $visit (1, 2)
	{
		hold($node, 'C', $visit, "visit-$visit");
		comes_back($node, "visit-$visit", "visit $visit goes past them");
	}
	my @said = slurp_file($node->logfile) =~
	  /LOG: +(transaction .* has been prepared for more than an hour)$/mg;
	is_deeply(
		\@said,
		['transaction "forgotten" in database "postgres" has been prepared for more than an hour'],
		'the old one is named once, the other is not (P111)');

	$node->safe_psql('postgres', "COMMIT PREPARED '$_'") foreach 'forgotten', 'fresh';
	hold($node, 'C', 9, 'last');
	comes_back($node, 'last', 'a visit after they were committed');
	comes_back($node, $_, "the hold $_ comes back like any other (P111)")
	  foreach 'forgotten', 'fresh';
	invariant_ok($node, 'after the prepared transactions (P111)');
	no_errors($node);
	$node->stop;
}

done_testing();

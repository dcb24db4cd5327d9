
# test/perl/VoucherTest.pm
#
# What the TAP scripts share: a server with the extension in it, a rush of
# pgbench clients whose answers are counted, a sale by psql clients that
# remember what was acknowledged, and the invariant that holds after anything.

package VoucherTest;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use FindBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(start_node load_invariant invariant_ok server_errors
  call_sql rush session ask terminate sale_start sale_stop acknowledged_ok);

my $rush_no = 0;

# A running server; "init" and "conf" are for the test's own settings.
sub start_node
{
	my ($name, %opt) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	# whatever locale there is
	$node->init(extra => [ '--encoding=UTF8', '--locale=C' ], %{ $opt{init} || {} });
	$node->append_conf('postgresql.conf', $_) foreach (
		'fsync = off',
		'max_connections = 300',
		'shared_buffers = 64MB',
		'max_prepared_transactions = 10',
		'log_statement = none',
		$opt{conf} || '');
	$node->start;
	$node->safe_psql('postgres',
		'SET client_min_messages = error; CREATE EXTENSION voucher');
	load_invariant($node, 'postgres');
	return $node;
}

# Define voucher_violations() for the extension in this schema.
sub load_invariant
{
	my ($node, $db, $schema) = @_;
	$schema ||= 'public';
	$node->safe_psql($db,
			"SET client_min_messages = warning; SET search_path = $schema;"
		  . "DROP FUNCTION IF EXISTS voucher_violations();\n"
		  . slurp_file("$FindBin::RealBin/../invariant.sql"));
}

sub invariant_ok
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($node, $name, %opt) = @_;
	my $schema = $opt{schema} || 'public';
	is( $node->safe_psql(
			$opt{db} || 'postgres',
			"SET search_path = $schema; SELECT * FROM voucher_violations()"),
		'',
		"the invariant holds: $name");
}

# The error lines of the server log from an offset on; that autovacuum makes
# way for DROP TABLE is none, nor that a visit of the worker is told to end.
sub server_errors
{
	my ($node, $offset) = @_;
	my $harmless = qr/\s+(?:canceling autovacuum|terminating background worker "voucher worker")/;
	return grep { /\b(?:ERROR|FATAL|PANIC):(?!$harmless)/ }
	  split(/\n/, slurp_file($node->logfile, $offset || 0));
}

# One call, its answer noted in the same transaction.  Arguments are SQL.
sub call_sql
{
	my ($what, $code, $order, $customer) = @_;
	my $arguments =
	  $what eq 'reserve'
	  ? "a.code, ($customer)::bigint, a.order_id, 1000"
	  : 'a.code, a.order_id';
	return "INSERT INTO answer SELECT a.*, r.* FROM (SELECT $code, $order)"
	  . " AS a(code, order_id), voucher_$what($arguments) AS r;\n";
}

# Run pgbench: "clients" sessions, all connected before the first one starts,
# each doing "each" transactions.  "script" is one text, or a list of
# [weight, text]; :n starts at 0 in each client and is the script's to count.
# Returns how often each answer was given, leaves the answers in a table.
sub rush
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($node, $name, %opt) = @_;
	my @script = ref $opt{script} ? @{ $opt{script} } : ([ 1, $opt{script} ]);
	my @files;

	$node->safe_psql(
		'postgres', q{
		SET client_min_messages = warning;
		DROP TABLE IF EXISTS answer;
		CREATE UNLOGGED TABLE answer (code text, order_id text, result text,
			discount_amount bigint, expires_at timestamptz, detail text)});
	foreach (@script)
	{
		my ($weight, $text) = @$_;
		my $file = $node->basedir . '/rush' . ++$rush_no . '.sql';
		append_to_file($file, $text);
		push @files, '-f', "$file\@$weight";
	}
	my $clean = IPC::Run::run(
		[
			'pgbench',           '-n',
			'-h',                $node->host,
			'-p',                $node->port,
			'-M',                $opt{mode} || 'prepared',
			'-c',                $opt{clients},
			'-j',                2,
			'-t',                $opt{each},
			'-D',                'n=0',
			'--max-tries',       $opt{tries} || 1,
			@files,              'postgres'
		],
		'>',
		\my $out,
		'2>',
		\my $err);
	ok($clean, "$name: no call raised an error") or diag($err);
	return map { split /\|/ } split /\n/,
	  $node->safe_psql('postgres',
		'SELECT result, count(*) FROM answer GROUP BY 1');
}

# A psql session that survives errors, and a question to it: its output, or
# "ERROR <sqlstate>".
sub session
{
	my ($node) = @_;
	return $node->background_psql('postgres', on_error_stop => 0,
		extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
}

sub ask
{
	my ($session, $sql) = @_;
	$session->{stderr} = '';
	my $out = $session->query($sql);
	my ($state) = $session->{stderr} =~ /ERROR:\s+(\w{5})/;
	$session->{stderr} = '';
	return defined $state ? "ERROR $state" : $out;
}

# End a backend and wait until it is gone.
sub terminate
{
	my ($node, $pid) = @_;
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	$node->poll_query_until('postgres',
		"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)")
	  or die "backend $pid did not end";
}

# Start eight psql clients that sell, and wait until the sale is under way.
# An order's last word says what comes after its reservation.  psql prints an
# answer only after the server has acknowledged the commit.
sub sale_start
{
	my ($node, $tag, $code) = @_;
	my @sale;
	foreach my $client (1 .. 8)
	{
		my $file = $node->basedir . "/$tag-$client";
		my $sql  = '';
		foreach my $i (1 .. 1500)
		{
			my $next  = (qw(keep confirm release))[ $i % 3 ];
			my $order = "$tag-$client-$i-$next";
			$sql .= "SELECT '$order', result FROM voucher_reserve('$code',"
			  . " hashtextextended('$order', 0), '$order', 1000);\n";
			$sql .= "SELECT '$order', result"
			  . " FROM voucher_$next('$code', '$order');\n"
			  if $next ne 'keep';
		}
		append_to_file("$file.sql", $sql);
		my $run = IPC::Run::start(
			[
				'psql', '-XAtq', '-d', $node->connstr('postgres'),
				'-f', "$file.sql"
			],
			'>', "$file.out", '2>', "$file.err");
		push @sale, { run => $run, out => "$file.out" };
	}
	$node->poll_query_until('postgres',
		"SELECT count(*) > 200 FROM voucher_redemption"
		  . " WHERE order_id LIKE '$tag-%'")
	  or die "the sale did not start";
	return \@sale;
}

# Wait for the clients to end.  Returns how many had lost the server, and the
# last acknowledged answer for each order.
sub sale_stop
{
	my ($sale) = @_;
	my ($cut, %ack) = (0);
	foreach my $client (@$sale)
	{
		$cut++ unless IPC::Run::finish($client->{run});
		my $said = slurp_file($client->{out});
		$ack{$1} = $2 while $said =~ /^(\S+)\|(\w+)$/mg;
	}
	return ($cut, \%ack);
}

# Everything acknowledged is in the tables, as acknowledged.
sub acknowledged_ok
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($node, $ack, $name) = @_;
	my $values = join(',', map { "('$_', '$ack->{$_}')" } sort keys %$ack);
	cmp_ok(scalar keys %$ack, '>', 100, "$name: there was something to lose");
	is( $node->safe_psql(
			'postgres', qq{
		SELECT a.*, r.status FROM (VALUES $values) AS a(order_id, result)
			LEFT JOIN voucher_redemption AS r USING (order_id)
		WHERE CASE WHEN a.result = 'RESERVED' AND a.order_id NOT LIKE '%keep'
				   THEN r.status IS NULL
				   ELSE r.status IS DISTINCT FROM a.result END}),
		'',
		"$name: nothing acknowledged is lost");
}

1;

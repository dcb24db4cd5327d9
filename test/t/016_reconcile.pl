
# test/t/016_reconcile.pl
#
# Counters against rows: what voucher_reconcile() says, what the worker logs
# and how often, and how voucher_repair() puts it right, in peace and in a
# rush.  The worker looks twenty times a second here.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VoucherTest;

my $node = start_node(
	'reconcile', conf => q{
	shared_preload_libraries = 'voucher'
	restart_after_crash = on
	voucher.worker_naptime = 10ms
	voucher.reconcile_interval = 50ms
	});
my $figures = 'code, total_limit, per_user_limit, used_count, purged_count,'
  . ' ordinary_live, flash_quota, slots, flash_live, orphans,'
  . ' customers_over_limit, drift';

sub sql
{
	return $node->safe_psql('postgres', $_[0]);
}

sub reconcile
{
	return sql("SELECT $figures FROM voucher_reconcile(" . ($_[0] || '') . ')'
		  . ' ORDER BY code');
}

# The log lines on the drift of a voucher, any by default, from an offset on.
sub drift_lines
{
	my ($offset, $code) = @_;
	$code = '[^"]*' unless defined $code;
	return scalar grep { /LOG: .*\bdrift\b.*"$code"/ } split /\n/,
	  slurp_file($node->logfile, $offset);
}

# Let the worker look for so many seconds: silence after that says something,
# because a visit has ended later than that.
sub let_it_look
{
	my ($seconds) = @_;
	my $now = sql('SELECT clock_timestamp()');
	$node->poll_query_until('postgres',
		"SELECT last_visit > '$now'::timestamptz + interval '$seconds s'"
		  . " FROM voucher_worker WHERE datname = 'postgres'")
	  or die "the worker does not visit";
}

sub incident
{
	my ($code) = @_;
	return sql("SELECT kind, logged_at IS NOT NULL FROM voucher_incident"
		  . " WHERE voucher_code = '$code'");
}

# SQLSTATE and text of the error that a statement ends in.
sub failure
{
	my ($sql) = @_;
	my ($code, $out, $err) =
	  $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	return $err;
}

sub set_interval
{
	$node->append_conf('postgresql.conf', "voucher.reconcile_interval = $_[0]");
	$node->reload;
	$node->poll_query_until('postgres',
		"SELECT setting::int = $_[0] FROM pg_settings"
		  . " WHERE name = 'voucher.reconcile_interval'")
	  or die "no reload";
}

# The figures of vouchers that are all right.
my $offset = -s $node->logfile;
sql(q{
	INSERT INTO voucher (code, discount_amount, total_limit, per_user_limit)
	VALUES ('ENDED', 1, 9, 1), ('GREEDY', 1, 9, 2), ('GUEST', 1, NULL, NULL),
		   ('NONE', 1, 0, 1);
	SELECT voucher_redeem('ENDED', 1, 'e1', 10), voucher_redeem('ENDED', 2, 'e2', 10),
		   voucher_reserve('ENDED', 3, 'e3', 10), voucher_reserve('ENDED', 4, 'e4', 10);
	SELECT voucher_release('ENDED', 'e4');
	SELECT voucher_reserve('GREEDY', 1, 'g1', 10), voucher_redeem('GREEDY', 1, 'g2', 10),
		   voucher_reserve('GREEDY', 2, 'g3', 10);
	SELECT voucher_reserve('GUEST', 0, 'n1', 10), voucher_reserve('GUEST', 0, 'n2', 10),
		   voucher_reserve('GUEST', 0, 'n3', 10);
	UPDATE voucher SET per_user_limit = 1 WHERE code = 'GREEDY';
	UPDATE voucher SET starts_at = '2020-01-01', ends_at = now() WHERE code = 'ENDED'});
is(sql(q{SELECT voucher_purge('0')}), 3, 'two confirmed uses and a released one are purged');
is(reconcile(), join("\n",
		'ENDED|9|1|3|2|1|0|0|0|0|0|f',
		'GREEDY|9|1|3|0|3|0|0|0|0|1|f',
		'GUEST|||3|0|3|0|0|0|0|0|f',
		'NONE|0|1|0|0|0|0|0|0|0|0|f'),
	'the figures: purged uses, a lowered limit, one guest id, nothing');
is(reconcile(q{E' greedy\n'}), 'GREEDY|9|1|3|0|3|0|0|0|0|1|f',
	'of one voucher, however its code is typed');
like(failure(q{SELECT * FROM voucher_reconcile('nosuch')}),
	qr/ERROR:\s+42704: .*"NOSUCH"/, 'of an unknown one: 42704');
let_it_look(1);
is(drift_lines($offset), 0, 'none of that is drift');
is(sql('SELECT count(*) FROM voucher_incident'), 0, 'nor an incident');

# Drift that is gone, or another, at the next look: two looks never agree.
# The worker stands aside, and each look is a call.
set_interval(0);
$offset = -s $node->logfile;
foreach my $change ('+ 1', '- 1', '+ 1', '+ 1', '+ 1', '- 3')
{
	sql("UPDATE voucher SET used_count = used_count $change WHERE code = 'GUEST'");
	sql('SELECT voucher_run_worker()');
}
sql('SELECT voucher_run_worker()');
is(drift_lines($offset), 0, 'drift that no two looks agree on is not reported (P101)');
is(incident('GUEST'), '', 'and leaves no incident');
is(sql(q{UPDATE voucher SET used_count = used_count + 1 WHERE code = 'GUEST';
		SELECT voucher_run_worker()}),
	'(0,0)', 'the first look says nothing of a drift');
is(sql('SELECT voucher_run_worker()'), '(0,1)', 'the second reports it');
is(drift_lines($offset, 'GUEST'), 1, 'in one line (P101)');
sql(q{UPDATE voucher SET used_count = used_count - 1 WHERE code = 'GUEST'});
sql('SELECT voucher_run_worker()') foreach 1 .. 2;
is(incident('GUEST'), '', 'put right by hand: the incident is gone');
set_interval(50);

# One line for each change, however often the worker looks.
$offset = -s $node->logfile;
sql(q{UPDATE voucher SET used_count = used_count + 1 WHERE code = 'GREEDY'});
$node->wait_for_log(qr/\bdrift\b.*"GREEDY"/, $offset);
let_it_look(3);
is(drift_lines($offset), 1, 'drift is logged once in three seconds of looking (P28, P101)');
like(slurp_file($node->logfile, $offset),
	qr/LOG: [^\n]*\bdrift\b[^\n]*"GREEDY"[^\n]*\n[^\n]*DETAIL: [^\n]*\b4\b[^\n]*\b3\b/,
	'with the figures in DETAIL');
is(incident('GREEDY'), 'DRIFT|t', 'and is an incident');
is(reconcile(q{'GREEDY'}), 'GREEDY|9|1|4|0|3|0|0|0|0|1|t', 'reconcile shows it');
my $second = -s $node->logfile;
sql(q{UPDATE voucher SET used_count = used_count + 1 WHERE code = 'GREEDY'});
$node->wait_for_log(qr/\bdrift\b.*"GREEDY"/, $second);
let_it_look(1);
is(drift_lines($second), 1, 'another change, another line');
my $repaired = -s $node->logfile;
is(sql(q{SELECT voucher_repair(' greedy')}), '-2', 'repair returns the correction');
let_it_look(1);
is(incident('GREEDY'), '', 'the incident is gone');
is(drift_lines($repaired), 0, 'no line after the repair (P102)');
is(sql(q{SELECT voucher_repair('GREEDY')}), '0', 'nothing is left to repair');
is(reconcile(q{'GREEDY'}), 'GREEDY|9|1|3|0|3|0|0|0|0|1|f', 'and no drift');
sql(q{UPDATE voucher SET per_user_limit = 2 WHERE code = 'GREEDY'});

# Uses without a voucher
$offset = -s $node->logfile;
sql(q{
	INSERT INTO voucher_redemption (voucher_code, customer_id, order_id, status,
		order_amount, discount_amount, expires_at)
	SELECT 'LOST', n, 'lost-' || n, 'RESERVED', 10, 1, now() + interval '1 h'
	FROM generate_series(1, 2) AS n});
$node->wait_for_log(qr/\bdrift\b.*"LOST"/, $offset);
let_it_look(1);
is(drift_lines($offset), 1, 'orphans are logged once');
like(reconcile(), qr/^LOST\|.*\|2\|0\|t$/m, 'and reconcile counts them');
is(sql(q{SELECT concat(total_limit, per_user_limit, used_count) FROM voucher_reconcile()
		WHERE code = 'LOST'}),
	'', 'with NULL for what a voucher would say');
like(failure(q{SELECT voucher_repair('LOST')}),
	qr/ERROR:\s+42704: .*"LOST"/, 'there is no voucher to repair: 42704');
sql(q{DELETE FROM voucher_redemption WHERE voucher_code = 'LOST'});
let_it_look(1);
is(incident('LOST'), '', 'deleted: the incident is gone');

# What repair refuses
sql(q{
	INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('OVER', 1, 2);
	SELECT voucher_reserve('OVER', n, 'over-' || n, 10) FROM generate_series(1, 2) AS n;
	UPDATE voucher SET used_count = 1 WHERE code = 'OVER';
	SELECT voucher_reserve('OVER', 3, 'over-3', 10)});
like(failure(q{SELECT voucher_repair('over')}),
	qr/ERROR:\s+23514: .*"OVER"/, 'more uses than the limit: 23514');
like(failure(q{SELECT voucher_repair('nosuch')}),
	qr/ERROR:\s+42704: .*"NOSUCH"/, 'an unknown voucher: 42704');
like(failure(q{SELECT voucher_repair(NULL)}),
	qr/ERROR:\s+22004: .*"code"/, 'NULL: 22004, and the argument is named');
sql(q{BEGIN; SELECT voucher_reserve('GUEST', 0, 'n4', 10); PREPARE TRANSACTION 'held'});
like(failure(q{SELECT voucher_repair('over')}),
	qr/ERROR:\s+55000: .*"OVER".*HINT:\s.*pg_prepared_xacts/s,
	'a prepared transaction: 55000, and a hint (P102)');
sql(q{ROLLBACK PREPARED 'held'; SELECT voucher_release('OVER', 'over-3')});
$node->safe_psql('template1', q{CREATE DATABASE other});
$node->safe_psql('other',
	q{BEGIN; CREATE TABLE t (); PREPARE TRANSACTION 'elsewhere'});
is(sql(q{SELECT voucher_repair('over')}), '1',
	'at the limit, with a prepared transaction in another database: repaired');
$node->safe_psql('other', q{ROLLBACK PREPARED 'elsewhere'});
invariant_ok($node, 'after the repairs');

# A thousand at once: the worker first looks when all have drifted, or it might
# report them in two visits.
set_interval(0);
$offset = -s $node->logfile;
sql(q{INSERT INTO voucher (code, discount_amount) SELECT 'MANY-' || n, 1
	FROM generate_series(1, 1000) AS n});
sql(q{UPDATE voucher SET used_count = 7 WHERE code LIKE 'MANY-%'});
set_interval(50);
$node->poll_query_until('postgres', q{SELECT count(*) = 1000 FROM voucher_incident
	WHERE kind = 'DRIFT' AND voucher_code LIKE 'MANY-%'})
  or die "not all drift is noticed";
pass('all of a thousand drifts are incidents');
let_it_look(2);
my $lines = drift_lines($offset);
cmp_ok($lines, '>', 0, 'some are logged');
cmp_ok($lines, '<', 20, "but the log is not flooded: $lines lines (P28)");
is(sql(q{SELECT sum(voucher_repair(code)) FROM voucher WHERE code LIKE 'MANY-%'}),
	'-7000', 'all are repaired');
let_it_look(1);
is(sql(q{SELECT count(*) FROM voucher_incident WHERE voucher_code LIKE 'MANY-%'}),
	0, 'and their incidents gone');
sql(q{DELETE FROM voucher WHERE code LIKE 'MANY-%'});

# Ten seconds of load, with holds that lapse meanwhile
$offset = -s $node->logfile;
sql(q{
	INSERT INTO voucher (code, discount_amount, total_limit, hold_time)
	SELECT 'LOAD-' || n, 1, CASE WHEN n = 0 THEN 2000 END, interval '1 s'
	FROM generate_series(0, 3) AS n});
my ($start, $round, %did) = (time, 0);
while (time - $start < 10)
{
	$round++;
	my $code  = q{'LOAD-' || (:client_id + :n) % 4};
	my $order = "'$round-' || :client_id || '-' || :n";
	my $n     = "\\set n :n + 1\n";
	my $take  = $n . call_sql('reserve', $code, $order,
		"$round * 100000000::bigint + :client_id * 1000000 + :n");
	my %got = rush(
		$node, "load, round $round",
		clients => 8,
		each    => 250,
		mode    => 'simple',
		script  => [
			[ 2, $take ],
			[ 2, $take . call_sql('confirm', $code, $order) ],
			[ 2, $take . call_sql('release', $code, $order) ] ]);
	$did{$_} += $got{$_} foreach keys %got;
}
cmp_ok($did{$_} || 0, '>', 100, "the load: $_") foreach qw(RESERVED CONFIRMED RELEASED);
let_it_look(1);
cmp_ok(sql(q{SELECT count(*) FROM voucher_redemption WHERE release_reason = 'EXPIRED'}),
	'>', 100, 'and the worker gave holds back meanwhile');
is(drift_lines($offset), 0, 'calls in flight are no drift (P101)');
is(sql('SELECT count(*) FROM voucher_reconcile() WHERE drift'), 0, 'and leave none');

# Repairs in the middle of a rush: the one that finds the drift takes it away,
# all others find nothing, whatever is in flight.
sql(q{
	INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('RACE', 1, 400);
	UPDATE voucher SET used_count = 5 WHERE code = 'RACE'});
my $order = q{':client_id-:n'};
my $take  = "\\set n :n + 1\n"
  . call_sql('reserve', q{'RACE'}, $order, ':client_id * 1000000 + :n');
my %got = rush(
	$node, 'repairs in a rush',
	clients => 8,
	each    => 200,
	mode    => 'simple',
	script  => [
		[ 4, $take ],
		[ 4, $take . call_sql('release', q{'RACE'}, $order) ],
		[ 1, q{INSERT INTO answer (result) SELECT 'repair ' || voucher_repair('race')} ]
	]);
is($got{'repair -5'}, 1, 'one repair corrects the counter');
cmp_ok($got{'repair 0'}, '>', 20, 'the others have nothing to correct');
is(scalar(grep { /^repair/ } keys %got), 2, 'and correct nothing');
cmp_ok($got{OUT_OF_STOCK} || 0, '>', 0, 'while the voucher sold out');
invariant_ok($node, 'after repairs in a rush (P102)');

# The memory of incidents does not survive a crash, the drift does.
sql(q{UPDATE voucher SET used_count = used_count - 1 WHERE code = 'RACE'});
$offset = -s $node->logfile;
$node->wait_for_log(qr/\bdrift\b.*"RACE"/);
set_interval(0);
my $victim = session($node);
kill('KILL', ask($victim, 'SELECT pg_backend_pid()')) == 1 or die "no backend";
$node->wait_for_log(qr/all server processes terminated; reinitializing/, $offset);
eval { $victim->quit };
$node->poll_query_until('postgres', 'SELECT true') or die "no recovery";
is(sql('SELECT count(*) FROM voucher_incident'), 0, 'kill -9 empties the incidents');
$offset = -s $node->logfile;
set_interval(50);
$node->wait_for_log(qr/\bdrift\b.*"RACE"/, $offset);
let_it_look(1);
is(drift_lines($offset), 1, 'and the drift is logged once again');
is(sql(q{SELECT voucher_repair('RACE')}), '1', 'and repaired');

invariant_ok($node, 'in the end');
my $asked_for = join '|', 'does not exist', 'cannot be repaired', '"OVER" has 3 uses',
  'argument "code" must', 'not yet accepting', 'in recovery mode';
is( join("\n", grep { !/$asked_for/ } server_errors($node)),
	'', 'no error in the log but those asked for');
$node->stop;

done_testing();


# test/t/015_extension.pl
#
# The worker and those who own the tables: the extension dropped and made again
# under it, tables renamed away, triggers that would like to be superuser, and
# roles that may not look.

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
	'extension', conf => q{
	shared_preload_libraries = 'voucher'
	voucher.worker_naptime = 10ms
	voucher.reconcile_interval = 50ms
	});

sub sql
{
	return $node->safe_psql('postgres', $_[0]);
}

# Poll for "t".
sub becomes
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($sql, $name) = @_;
	ok($node->poll_query_until('postgres', $sql), $name);
}

# Uses that lapse one after the other, so that the worker comes again and again.
sub sell
{
	my ($n) = @_;
	return qq{
	INSERT INTO voucher (code, discount_amount, hold_time, per_user_limit)
	SELECT 'BRIEF-' || n, 1, n * interval '10 ms', NULL FROM generate_series(1, $n) AS n;
	SELECT count(voucher_reserve('BRIEF-' || n, 1, 'brief-' || n || '-' || m, 10))
	FROM generate_series(1, $n) AS n, generate_series(1, 5) AS m;
	};
}

# Drop and create
sql('CREATE SCHEMA shop; DROP EXTENSION voucher CASCADE');
my $offset = -s $node->logfile;
my ($slowest, $served) = (0, 0);
foreach my $round (1 .. 30)
{
	my $schema = $round % 2 ? 'public' : 'shop';
	my $start  = time;
	sql("CREATE EXTENSION voucher SCHEMA $schema");
	my $create = time - $start;
	sql("SET search_path = $schema;" . sell(30));
	$node->poll_query_until('postgres',
		"SELECT count(*) > 0 FROM $schema.voucher_redemption WHERE status = 'RELEASED'")
	  or last;
	$served++;
	$start = time;
	sql($round % 3 ? 'DROP EXTENSION voucher'
		: 'BEGIN; DROP EXTENSION voucher; SELECT pg_sleep(0.05); ROLLBACK; DROP EXTENSION voucher');
	foreach ($create, time - $start)
	{
		$slowest = $_ if $_ > $slowest;
	}
}
is($served, 30, 'thirty times created, served and dropped in the middle of it (P29, P30)');
cmp_ok($slowest, '<', 5, 'nobody waits for the worker') or diag($slowest);
sql('CREATE EXTENSION voucher');
load_invariant($node, 'postgres');
sql(sell(30));
becomes(q{SELECT count(*) = 150 FROM voucher_redemption WHERE release_reason = 'EXPIRED'},
	'the worker serves the last one to the end (P30, P32)');
is(sql('SELECT sum(used_count) FROM voucher'), 0, 'and counts');
is(join("\n", server_errors($node, $offset)), '', 'no error, no deadlock (P29)');
unlike(slurp_file($node->logfile, $offset), qr/failed in database/,
	'no visit failed');

# A migration that has moved a table away: it fails, is tried again later and
# later, says so once, and reports when it works again.
sub worker
{
	return sql("SELECT $_[0] FROM voucher_worker WHERE datname = 'postgres'");
}

sub worker_becomes
{
	my ($condition, $name) = @_;
	return becomes("SELECT $condition FROM voucher_worker WHERE datname = 'postgres'", $name);
}
worker_becomes(q{state = 'SERVED'}, 'a database that is served');
$offset = -s $node->logfile;
sql('ALTER TABLE voucher RENAME TO voucher_old');
worker_becomes(q{state = 'FAILED'}, 'a table is gone: the worker fails');
like(worker('last_error'), qr/voucher/, 'and voucher_worker says why');
my $first = worker('last_error_at');
foreach my $again ('second', 'third')
{
	my $last = worker('last_error_at');
	worker_becomes("last_error_at > '$last'", "it fails a $again time");
}
cmp_ok(worker("extract(epoch FROM last_error_at - '$first')"), '>', 2,
	'it waits longer after each failure (P28)');
my $failed = qr/LOG: .*failed in database "postgres"/;
is(scalar(() = slurp_file($node->logfile, $offset) =~ /$failed/g), 1,
	'three failures are one line in the log (P28)');
sql('ALTER TABLE voucher_old RENAME TO voucher');
worker_becomes(q{state = 'SERVED'}, 'renamed back: it works again');
my $log = slurp_file($node->logfile, $offset);
is(scalar(() = $log =~ /$failed/g), 1, 'and has not complained again');
is(scalar(() = $log =~ /LOG: .*works again/g), 1, 'but reports that it works');
is(worker('last_error IS NOT NULL'), 't', 'what the last error was stays on record');
is(join("\n", server_errors($node, $offset)), '', 'and there is no ERROR');

# Mallory owns the tables.  Whatever runs there in a visit runs as Mallory, and
# finds no way back to the superuser who started the visit.
my $super = sql('SELECT current_user');
sql(qq{
	CREATE ROLE regress_voucher_mallory LOGIN;
	GRANT pg_read_all_stats TO regress_voucher_mallory;
	CREATE SCHEMA mallory AUTHORIZATION regress_voucher_mallory;
	GRANT CREATE ON SCHEMA public TO regress_voucher_mallory;
	ALTER TABLE voucher OWNER TO regress_voucher_mallory;
	ALTER TABLE voucher_redemption OWNER TO regress_voucher_mallory;
	ALTER TABLE voucher_slot OWNER TO regress_voucher_mallory;
	ALTER TABLE voucher_incident OWNER TO regress_voucher_mallory;});

# Mallory logs in: SET ROLE in a superuser's session could be undone.
my @mallory = (extra_params => [ '-U', 'regress_voucher_mallory' ]);
$node->safe_psql('postgres', qq{
	CREATE UNLOGGED TABLE mallory.seen (place text, process text, who name, super boolean, attempt text, got text);
	CREATE FUNCTION mallory.attack(place text) RETURNS boolean LANGUAGE plpgsql AS \$\$
	DECLARE
		attempt text;
		got text;
	BEGIN
		FOREACH attempt IN ARRAY ARRAY['ALTER ROLE regress_voucher_mallory SUPERUSER',
			'SET ROLE $super', 'SET LOCAL ROLE $super', 'RESET ROLE', 'SET ROLE NONE',
			'SET SESSION AUTHORIZATION $super', 'RESET SESSION AUTHORIZATION',
			'COPY (SELECT 1) TO PROGRAM ''true''', 'CREATE TEMP TABLE t ()',
			'SELECT pg_read_file(''PG_VERSION'')',
			'SELECT set_config(''role'', ''$super'', false)']
		LOOP
			BEGIN
				EXECUTE attempt;
				EXECUTE 'ALTER ROLE regress_voucher_mallory SUPERUSER';
				got := 'done';
			EXCEPTION WHEN OTHERS THEN
				got := SQLSTATE;
			END;
			INSERT INTO mallory.seen
			SELECT place, (SELECT backend_type FROM pg_stat_activity WHERE pid = pg_backend_pid()),
				current_user, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user), attempt, got;
		END LOOP;
		RETURN true;
	END\$\$;
	CREATE FUNCTION mallory.trigger() RETURNS trigger LANGUAGE plpgsql AS
		\$\$BEGIN PERFORM mallory.attack(TG_NAME || ' ' || TG_TABLE_NAME); RETURN NEW; END\$\$;
	CREATE FUNCTION mallory.immutable(place text) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS
		\$\$BEGIN PERFORM mallory.attack(place); RETURN true; END\$\$;
	CREATE TRIGGER a_before BEFORE UPDATE ON voucher_redemption
		FOR EACH ROW EXECUTE FUNCTION mallory.trigger();
	CREATE TRIGGER z_after AFTER UPDATE ON voucher
		FOR EACH ROW EXECUTE FUNCTION mallory.trigger();
	CREATE INDEX mallory_idx ON voucher_redemption (mallory.immutable('index' || left(status, 0)));
	ALTER TABLE voucher ADD CHECK (mallory.attack('check' || left(code, 0)));
	ALTER TABLE voucher_incident ADD COLUMN m boolean DEFAULT mallory.attack('default');
	CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE plpgsql AS
		\$\$BEGIN PERFORM mallory.attack('now'); RETURN pg_catalog.now(); END\$\$;
	CREATE FUNCTION mallory.equal(text, text) RETURNS boolean LANGUAGE plpgsql AS
		\$\$BEGIN PERFORM mallory.attack('operator'); RETURN pg_catalog.texteq(\$1, \$2); END\$\$;
	CREATE FUNCTION mallory.plus(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS
		\$\$BEGIN PERFORM mallory.attack('operator'); RETURN pg_catalog.int8pl(\$1, \$2); END\$\$;
	CREATE OPERATOR public.= (FUNCTION = mallory.equal, LEFTARG = text, RIGHTARG = text);
	CREATE OPERATOR public.+ (FUNCTION = mallory.plus, LEFTARG = bigint, RIGHTARG = bigint)}, @mallory);
sql(qq{
	ALTER DATABASE postgres SET search_path = public, pg_catalog;
	ALTER ROLE $super SET search_path = public, pg_catalog});

# The test itself stays out of the trap, and leaves the vouchers to Mallory.
$ENV{PGOPTIONS} = '-c search_path=pg_catalog';

sub seen
{
	return sql("SELECT $_[0] FROM mallory.seen");
}

$node->safe_psql('postgres', q{
	SET search_path = public, pg_catalog;
	SELECT now(), 'a'::text = 'b'::text}, @mallory);
is(seen(q{string_agg(DISTINCT place, ',' ORDER BY place) FILTER (WHERE place IN ('now', 'operator'))}),
	'now,operator', 'an unqualified name falls into the trap');
$offset = -s $node->logfile;
$node->safe_psql('postgres', q{
	INSERT INTO public.voucher (code, discount_amount, hold_time)
	VALUES ('HELD', 1, '10 ms'), ('DRIFT', 1, NULL);
	UPDATE public.voucher SET used_count = 3 WHERE code = 'DRIFT';
	TRUNCATE mallory.seen}, @mallory);
sql(q{SELECT public.voucher_reserve('HELD', 1, 'held-1', 10)});
becomes(q{SELECT status = 'RELEASED' FROM public.voucher_redemption WHERE order_id = 'held-1'},
	'a hold is given back under attack');
becomes(q{SELECT EXISTS (SELECT FROM public.voucher_incident WHERE voucher_code = 'DRIFT')},
	'and drift is noted');
is( seen(q{string_agg(DISTINCT place, ',' ORDER BY place) FILTER (WHERE process = 'voucher worker')}),
	'a_before voucher_redemption,check,default,index,z_after voucher',
	'code of the owner ran in a visit; names from the search_path did not (P27)');
is(seen(q{string_agg(DISTINCT concat(who, ' ', super), ',')}),
	'regress_voucher_mallory f', 'always as the owner of the tables (P24)');
is( seen(q{string_agg(DISTINCT concat(process, ': ', attempt, ' ', got), E'\n') FILTER (WHERE got <> '42501')}),
	'', 'every way to the superuser is closed (P24)');
is(seen(q{count(DISTINCT attempt) FILTER (WHERE process = 'voucher worker')}),
	11, 'and all were tried');

# A deferred trigger would fire when the visit commits.
$node->safe_psql('postgres', q{
	CREATE CONSTRAINT TRIGGER deferred AFTER UPDATE ON public.voucher_redemption
		DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION mallory.trigger()},
	@mallory);
sql(q{SELECT public.voucher_reserve('HELD', 2, 'held-2', 10)});
becomes(q{SELECT EXISTS (SELECT FROM public.voucher_incident WHERE kind = 'EXPIRY')
		OR EXISTS (SELECT FROM public.voucher_redemption WHERE order_id = 'held-2' AND status = 'RELEASED')},
	'a hold meets a deferred trigger');
is( seen(q{string_agg(DISTINCT concat_ws(' ', process, place, who, super, attempt, got), E'\n')
		FILTER (WHERE super OR who <> 'regress_voucher_mallory' OR got <> '42501')}),
	'', 'which gets nowhere either (P24)');
is(sql(q{SELECT rolsuper FROM pg_roles WHERE rolname = 'regress_voucher_mallory'}),
	'f', 'Mallory is no superuser');
is(join("\n", server_errors($node, $offset)), '', 'no error in the log');

delete $ENV{PGOPTIONS};
sql(qq{
	ALTER DATABASE postgres RESET search_path;
	ALTER ROLE $super RESET search_path});
sql(q{
	DROP FUNCTION public.now();
	DROP SCHEMA mallory CASCADE;
	UPDATE voucher SET used_count = 0 WHERE code = 'DRIFT';
	SELECT voucher_release('HELD', 'held-2')});

# Who may do what
sql(q{
	CREATE ROLE regress_voucher_nobody;
	CREATE ROLE regress_voucher_admin;
	GRANT USAGE ON SCHEMA public TO regress_voucher_admin;
	GRANT SELECT ON voucher_worker, voucher_incident TO regress_voucher_admin;
	GRANT EXECUTE ON FUNCTION voucher_run_worker, voucher_reconcile, voucher_repair,
		voucher_worker_databases TO regress_voucher_admin});
my ($nobody, $admin) = (session($node), session($node));
ask($nobody, 'SET ROLE regress_voucher_nobody');
ask($admin,  'SET ROLE regress_voucher_admin');
foreach ('FROM voucher_run_worker()', 'FROM voucher_reconcile()',
	q{voucher_repair('HELD')}, 'FROM voucher_worker', 'FROM voucher_incident',
	'FROM voucher_worker_databases()')
{
	is(ask($nobody, "SELECT $_"), 'ERROR 42501', "not for everybody: $_");
	unlike(ask($admin, "SELECT $_"), qr/ERROR/, 'but for whom it is granted to');
}
is(ask($admin, q{SELECT state FROM voucher_worker WHERE datname = 'postgres'}),
	'SERVED', 'who sees a database that is served');
$_->quit foreach $nobody, $admin;

invariant_ok($node, 'in the end');
is(join("\n", grep { !/permission denied/ } server_errors($node)),
	'', 'no error in the log but those asked for');
$node->stop;

done_testing();

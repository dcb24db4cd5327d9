
# test/t/009_timeout_prepare.pl
#
# A call that is cut short while it runs as the table owner leaves the session
# as it was; a reservation that is prepared for later is finished after a
# restart.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VoucherTest;

my $node   = start_node('timeout_prepare');
my $s      = session($node);
my $holder = session($node);

$node->safe_psql(
	'postgres', q{
	CREATE SCHEMA aside;
	INSERT INTO voucher (code, discount_amount, total_limit)
	VALUES ('WAIT', 100, 9), ('KEEP', 100, 1), ('DROP', 100, 1);
	CREATE ROLE regress_voucher_app;
	GRANT USAGE ON SCHEMA aside, public TO regress_voucher_app;
	GRANT EXECUTE ON FUNCTION voucher_reserve(text, bigint, text, bigint)
		TO regress_voucher_app});

# The call waits for another one with the same order id.
ask($s, 'SET SESSION AUTHORIZATION regress_voucher_app;'
	  . ' SET search_path = aside, public');
is( ask($holder,
		q{BEGIN; SELECT result FROM voucher_reserve('WAIT', 1, 'w', 5)}),
	'RESERVED',
	'somebody else is about to use the order id');
foreach my $setting ('statement_timeout', 'lock_timeout')
{
	ask($s, "BEGIN; SAVEPOINT s; SET LOCAL $setting = '200ms'");
	like(ask($s, q{SELECT voucher_reserve('WAIT', 1, 'w', 5)}),
		qr/^ERROR (?:57014|55P03)$/, "$setting ends the wait");
	ask($s, 'ROLLBACK TO s');
	is( ask($s,
			q{SELECT current_user, session_user, current_setting('search_path')}),
		'regress_voucher_app|regress_voucher_app|aside, public',
		"and leaves user and search_path as they were ($setting)");
	is(ask($s, 'SELECT count(*) FROM voucher_redemption'),
		'ERROR 42501', "and no right to the tables ($setting)");
	ask($s, 'ROLLBACK');
}
ask($holder, 'ROLLBACK');
is(ask($s, q{SELECT result FROM voucher_reserve('WAIT', 1, 'w', 5)}),
	'RESERVED', 'the next call of the session succeeds');
ask($s, 'RESET SESSION AUTHORIZATION');

# Two-phase commit, over a restart
foreach my $code ('KEEP', 'DROP')
{
	ask($s, "BEGIN; SELECT voucher_reserve('$code', 1, '$code-1', 5)");
	is(ask($s, "PREPARE TRANSACTION '$code'"),
		'', "a reservation of an ordinary voucher is prepared ($code)");
}
$_->quit foreach ($s, $holder);
$node->restart;
is( $node->safe_psql(
		'postgres', q{
		COMMIT PREPARED 'KEEP';
		ROLLBACK PREPARED 'DROP';
		SELECT code, used_count FROM voucher WHERE code IN ('KEEP', 'DROP')
		ORDER BY 1;
		SELECT result FROM voucher_reserve('DROP', 2, 'DROP-2', 5);
		SELECT result FROM voucher_reserve('KEEP', 2, 'KEEP-2', 5);
		SELECT result FROM voucher_confirm('KEEP', 'KEEP-1')}),
	"DROP|0\nKEEP|1\nRESERVED\nOUT_OF_STOCK\nCONFIRMED",
	'after the restart one is committed, one is free again (promises 3, 4)');
invariant_ok($node, 'after two-phase commit');

done_testing();


# test/t/001_last_use.pl
#
# Many sessions want the last uses at the same moment: exactly as many get one
# as there are.  The sleeps keep the transactions open so that they overlap.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VoucherTest;

my $node = start_node('last_use');

# Codes of a case whose voucher, rows and answers do not satisfy a condition.
sub wrong
{
	my ($case, $condition) = @_;
	return $node->safe_psql(
		'postgres', qq{
	SELECT * FROM (
		SELECT v.code, v.used_count, v.total_limit,
			   (SELECT count(*) FROM voucher_redemption r
				WHERE r.voucher_code = v.code
				  AND r.status IN ('RESERVED', 'CONFIRMED')) AS live,
			   count(*) FILTER (WHERE result = 'RESERVED') AS ok,
			   count(*) FILTER (WHERE result = 'OUT_OF_STOCK') AS sold_out,
			   count(*) FILTER (WHERE result = 'ALREADY_USED') AS used,
			   count(*) FILTER (WHERE result = 'CONFIRMED') AS confirmed,
			   count(*) FILTER (WHERE result = 'RELEASED') AS released,
			   count(*) FILTER (WHERE result = 'DUPLICATE') AS duplicate,
			   count(*) FILTER (WHERE result = 'NOT_RESERVED' AND detail =
					CASE used_count WHEN 1 THEN 'CONFIRMED'
									ELSE 'RELEASED' END) AS too_late,
			   count(*) FILTER (WHERE order_id LIKE 'a%') AS a_all,
			   count(*) FILTER (WHERE order_id LIKE 'a%'
									  AND result = 'RESERVED') AS a_ok,
			   count(*) FILTER (WHERE order_id LIKE 'a%'
									  AND result = 'ALREADY_USED') AS a_used,
			   count(DISTINCT (a.discount_amount, a.expires_at)) AS figures
		FROM voucher v JOIN answer a USING (code)
		WHERE code LIKE '$case-%' GROUP BY v.code) AS round
	WHERE NOT (live = used_count AND $condition)});
}

# Make a case's vouchers, one for each round, and rush them.
sub play
{
	my ($case, $rounds, $limits, %opt) = @_;
	$node->safe_psql(
		'postgres', qq{
		INSERT INTO voucher (code, discount_amount, total_limit, per_user_limit)
		SELECT '$case-' || n, 100, $limits FROM generate_series(1, $rounds) n});
	return rush($node, $case, each => $rounds, %opt);
}

sub attempt
{
	my ($code, $order, $customer) = @_;
	return "\\set n :n + 1\nBEGIN;\n"
	  . call_sql('reserve', $code, $order, $customer)
	  . "\\sleep 1 ms\nCOMMIT;\n";
}

# An order of the client's own; order ids are unique over all vouchers.
sub own
{
	my ($case) = @_;
	return "'$case-' || :client_id::int || '-' || :n::int";
}

my $new = q{:client_id::int * 1000000::bigint + :n::int};
my %got;

# Ten rounds for the last use and, on the same connections, five without limit
$node->safe_psql('postgres',
	q{INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('FREE-1', 100, NULL)}
);
%got = play('LAST', 10, '10, 1', clients => 200, each => 15,
	script => attempt(
		q{CASE WHEN :n::int > 10 THEN 'FREE-1' ELSE 'LAST-' || :n::int END},
		own('last'), $new));
is_deeply(
	\%got,
	{ RESERVED => 1100, OUT_OF_STOCK => 1900 },
	'never oversell: 200 sessions for 10 uses, ten times (B7, B14)');
is(wrong('LAST', 'ok = 10 AND sold_out = 190 AND live = 10'),
	'', 'each round: 10 RESERVED, 190 OUT_OF_STOCK, 10 counted, 10 rows (B7)');
is(wrong('FREE', 'ok = 1000 AND live = 1000'),
	'', 'an unlimited voucher is counted exactly: 1000 of 1000 (B23)');

%got = play('B1', 1, '1000, 1', clients => 64, each => 47,
	script => attempt(q{'B1-1'}, own('b1'), $new));
is_deeply(
	\%got,
	{ RESERVED => 1000, OUT_OF_STOCK => 2008 },
	'64 sessions, 3008 attempts: exactly 1000 uses (B1)');
is(wrong('B1', 'live = 1000'), '', 'counter and rows say 1000 (B1)');

%got = play('B17', 20, '3, 1', clients => 5,
	script => attempt(q{'B17-' || :n::int}, own('b17'), $new));
is(wrong('B17', 'ok = 3 AND sold_out = 2 AND live = 3'),
	'', 'five at once for three uses: three (B17)');
is($got{RESERVED}, 60, 'in each of 20 rounds (B17)');

# Orders of customer 1 begin with a; who is how far is up to chance, but a
# customer below the limit is refused for stock only, and one at it for that.
%got = play('B20', 20, '5, 2', clients => 10,
	script => attempt(
		q{'B20-' || :n::int},
		q{CASE WHEN :client_id::int < 6 THEN 'a' ELSE 'b' END || }
		  . q{:client_id::int || '-' || :n::int},
		q{CASE WHEN :client_id::int < 6 THEN 1 ELSE :client_id::int END}));
is( wrong(
		'B20',
		q{ok = 5 AND live = 5 AND a_ok BETWEEN 1 AND 2 AND used = a_used
		AND a_used = CASE a_ok WHEN 2 THEN 4 ELSE 0 END AND ok + sold_out + used = 10}
	),
	'',
	'two uses per customer and five in all, six orders of one at once (B20)');
is($got{RESERVED}, 100, 'in each of 20 rounds (B20)');

%got = play('B21', 10, 'CASE n % 2 WHEN 0 THEN 64 ELSE 1 END, 1',
	clients => 64,
	script  => attempt(q{'B21-' || :n::int}, own('b21'), ':n::int'));
is_deeply(
	\%got,
	{ RESERVED => 10, ALREADY_USED => 630 },
	'64 orders of one customer at once: one use, the others ALREADY_USED (B21)'
);
is(wrong('B21', 'ok = 1 AND live = 1'), '', 'in each of 10 rounds (B21)');

%got = play('B13', 20, '1, 1', clients => 8,
	script => attempt(q{'B13-' || :n::int}, q{'b13-' || :n::int}, ':n::int'));
is_deeply(
	\%got,
	{ RESERVED => 20, DUPLICATE => 140 },
	'idempotent: the same call eight times at once is one use (B13, B3)');
is(wrong('B13', 'ok = 1 AND duplicate = 7 AND figures = 1 AND live = 1'),
	'', 'the repeats get the same discount and deadline (B13)');

%got = rush($node, 'B22', clients => 8, each => 20,
	script => "\\set n :n + 1\nBEGIN;\n\\if :client_id < 4\n"
	  . call_sql('confirm', q{'B13-' || :n::int}, q{'b13-' || :n::int})
	  . "\\else\n"
	  . call_sql('release', q{'B13-' || :n::int}, q{'b13-' || :n::int})
	  . "\\endif\n\\sleep 1 ms\nCOMMIT;\n");
is( wrong(
		'B13',
		q{confirmed + released = 1 AND duplicate = 3 AND too_late = 4
		AND live = confirmed}),
	'',
	'four confirms and four releases at once: one wins, one effect (B22, B3)');
is(($got{CONFIRMED} || 0) + ($got{RELEASED} || 0),
	20, 'in each of 20 rounds (B22)');

is_deeply([ server_errors($node) ],
	[], 'no call surfaced a raw SQL error in the log (B14)');
invariant_ok($node, 'after the rushes');

done_testing();

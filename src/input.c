/*-------------------------------------------------------------------------
 *
 * input.c
 *	  Arguments of the SQL functions: checks, normal forms, messages.
 *
 * The SQL functions are not STRICT: a NULL answer could be taken for "no
 * discount", so a NULL argument is an ERROR like any other malformed one.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/input.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "input.h"
#include "terms.h"

/* Far enough back for any history, and within the range of timestamptz */
#define OLDEST_YEARS	1000

/*
 * Characters beyond ASCII that a code may not hold, since two codes that
 * differ only by them look the same: Unicode general categories Cc, Cf, Zs,
 * Zl and Zp, what is ignored by default (property Default_Ignorable_Code_Point)
 * and the blank of Braille; Unicode 15, sorted.
 */
static const struct
{
	pg_wchar	first;
	pg_wchar	last;
}			invisible[] =
{
	{0x0080, 0x00A0}, {0x00AD, 0x00AD}, {0x034F, 0x034F}, {0x0600, 0x0605},
	{0x061C, 0x061C}, {0x06DD, 0x06DD}, {0x070F, 0x070F}, {0x0890, 0x0891},
	{0x08E2, 0x08E2}, {0x115F, 0x1160}, {0x1680, 0x1680}, {0x17B4, 0x17B5},
	{0x180B, 0x180F}, {0x2000, 0x200F}, {0x2028, 0x202F}, {0x205F, 0x206F},
	{0x2800, 0x2800}, {0x3000, 0x3000}, {0x3164, 0x3164}, {0xFE00, 0xFE0F},
	{0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0}, {0xFFF0, 0xFFFB}, {0x110BD, 0x110BD},
	{0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3},
	{0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}
};

static pg_attribute_noreturn() void null_argument(const char *name, const char *hint);
static text *normalize(const text *given, const char *name);
static bool is_blank(char c);
static bool is_control(unsigned char c);
static bool has_invisible(const char *str, int len);

/*
 * Read an argument that is a code, in the normal form in which codes are
 * stored.
 */
text *
voucher_input_code(FunctionCallInfo fcinfo, int argno, const char *name)
{
	if (PG_ARGISNULL(argno))
		null_argument(name, NULL);
	return normalize(PG_GETARG_TEXT_PP(argno), name);
}

/*
 * Read the argument "order_id", which is taken byte for byte.
 */
text *
voucher_input_order_id(FunctionCallInfo fcinfo, int argno)
{
	text	   *order_id;
	int			len;

	if (PG_ARGISNULL(argno))
		null_argument("order_id",
					  "Pass the identifier of the order in your own system.");
	order_id = PG_GETARG_TEXT_PP(argno);
	len = VARSIZE_ANY_EXHDR(order_id);

	if (len == 0)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("argument \"order_id\" must not be empty"),
				errhint("Pass the identifier of the order in your own system."));
	if (len > VOUCHER_ORDER_ID_MAX_BYTES)
		ereport(ERROR,
				errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				errmsg("argument \"order_id\" is too long: \"%s\"",
					   voucher_printable(order_id)),
				errdetail("It has %d bytes; at most %d are allowed.",
						  len, VOUCHER_ORDER_ID_MAX_BYTES),
				errhint("Pass a shorter identifier, or a hash of the long one."));
	return order_id;
}

/*
 * Read the argument "customer_id": any number, since it is the caller's own.
 */
int64
voucher_input_customer_id(FunctionCallInfo fcinfo, int argno)
{
	if (PG_ARGISNULL(argno))
		null_argument("customer_id",
					  "Give guests an identifier of your own, too.");
	return PG_GETARG_INT64(argno);
}

/*
 * Read the argument "order_amount", in minor units of the shop's currency.
 */
int64
voucher_input_order_amount(FunctionCallInfo fcinfo, int argno)
{
	int64		amount;

	if (PG_ARGISNULL(argno))
		null_argument("order_amount",
					  "Pass the amount before the discount, in minor units.");
	amount = PG_GETARG_INT64(argno);

	if (amount < 0)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("argument \"order_amount\" must not be negative: %lld",
					   (long long) amount),
				errhint("Pass the amount before the discount, in minor units."));
	return amount;
}

/*
 * Read an integer argument within bounds.
 */
int32
voucher_input_int32(FunctionCallInfo fcinfo, int argno, const char *name,
					int32 min, int32 max)
{
	int32		value;

	if (PG_ARGISNULL(argno))
		null_argument(name, NULL);
	value = PG_GETARG_INT32(argno);

	if (value < min || value > max)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("argument \"%s\" must be between %d and %d: %d",
					   name, min, max, value));
	return value;
}

/*
 * Read the argument "prefix", the beginning of a code, in normal form; it may
 * be empty.
 */
text *
voucher_input_prefix(FunctionCallInfo fcinfo, int argno)
{
	text	   *prefix;

	if (PG_ARGISNULL(argno))
		null_argument("prefix", "Pass '' for codes without one.");
	prefix = PG_GETARG_TEXT_PP(argno);
	return VARSIZE_ANY_EXHDR(prefix) == 0 ? prefix : normalize(prefix, "prefix");
}

/*
 * Read the argument "total_limit"; PG_INT64_MAX if it is NULL, which means
 * unlimited.
 */
int64
voucher_input_limit(FunctionCallInfo fcinfo, int argno)
{
	int64		limit;

	if (PG_ARGISNULL(argno))
		return PG_INT64_MAX;
	limit = PG_GETARG_INT64(argno);

	if (limit < 0)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("argument \"total_limit\" must not be negative: %lld",
					   (long long) limit),
				errhint("Pass 0 to admit nobody, or NULL for no limit."));
	return limit;
}

/*
 * Read the argument "hold", in microseconds; 0 if it is NULL, which asks for
 * the usual time.  Its bounds are those of CHECK ck_hold_time.
 */
int64
voucher_input_hold(FunctionCallInfo fcinfo, int argno)
{
	Interval	none = {0};
	Interval	most = {.day = VOUCHER_HOLD_MAX_DAYS};
	Datum		hold;

	if (PG_ARGISNULL(argno))
		return 0;
	hold = PG_GETARG_DATUM(argno);

	if (!DatumGetBool(DirectFunctionCall2(interval_gt, hold,
										  IntervalPGetDatum(&none))) ||
		!DatumGetBool(DirectFunctionCall2(interval_le, hold,
										  IntervalPGetDatum(&most))))
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("argument \"hold\" is out of range: %s",
					   DatumGetCString(DirectFunctionCall1(interval_out, hold))),
				errhint("Pass an interval above zero and of at most %d days, or NULL for the usual time.",
						VOUCHER_HOLD_MAX_DAYS));
	return voucher_terms_hold(DatumGetIntervalP(hold));
}

/*
 * Read the argument "older_than" as the instant that was so long ago.
 */
TimestampTz
voucher_input_older_than(FunctionCallInfo fcinfo, int argno)
{
	TimestampTz now = GetCurrentTimestamp();
	Interval	most = {.month = OLDEST_YEARS * MONTHS_PER_YEAR};
	Interval   *parts;
	Datum		older_than;

	if (PG_ARGISNULL(argno))
		null_argument("older_than", "Pass '0' for everything there is.");
	older_than = PG_GETARG_DATUM(argno);

	/* a year less 361 days is more than nothing, yet may end in the future */
	parts = DatumGetIntervalP(older_than);
	if (parts->month < 0 || parts->day < 0 || parts->time < 0 ||
		DatumGetBool(DirectFunctionCall2(interval_gt, older_than,
										 IntervalPGetDatum(&most))))
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("argument \"older_than\" is out of range: %s",
					   DatumGetCString(DirectFunctionCall1(interval_out, older_than))),
				errhint("Pass an interval of zero or more, without a negative part, and of at most %d years.",
						OLDEST_YEARS));
	return DatumGetTimestampTz(DirectFunctionCall2(timestamptz_mi_interval,
												   TimestampTzGetDatum(now),
												   older_than));
}

/*
 * Give the normal form of a code: blanks around it trimmed, ASCII letters in
 * upper case, everything else byte for byte.
 *
 * Folding is bytewise and never consults a locale, so that a code means the
 * same in every database and after every upgrade of the C library.
 */
text *
voucher_normalize_code(const text *given)
{
	return normalize(given, "code");
}

/*
 * Give a value in a form that is fit for a message: at most 80 bytes, with
 * control characters shown as '?', so that no value can forge a log line.
 */
char *
voucher_printable(const text *value)
{
	const char *str = VARDATA_ANY(value);
	int			len = VARSIZE_ANY_EXHDR(value);
	int			shown = pg_mbcliplen(str, len, 80);
	char	   *result = pnstrdup(str, shown);

	for (char *c = result; *c; c++)
		if (is_control(*c))
			*c = '?';
	return shown < len ? psprintf("%s...", result) : result;
}

/* Normalize a code, or the beginning of one, that came as the named argument. */
static text *
normalize(const text *given, const char *name)
{
	const char *str = VARDATA_ANY(given);
	int			len = VARSIZE_ANY_EXHDR(given);
	text	   *normal;
	char	   *out;
	int			chars;

	while (len > 0 && is_blank(str[0]))
		str++, len--;
	while (len > 0 && is_blank(str[len - 1]))
		len--;

	if (len == 0)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("argument \"%s\" must not be empty: \"%s\"",
					   name, voucher_printable(given)));

	chars = pg_mbstrlen_with_len(str, len);
	if (chars > VOUCHER_CODE_MAX_CHARS)
		ereport(ERROR,
				errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				errmsg("argument \"%s\" is too long: \"%s\"",
					   name, voucher_printable(given)),
				errdetail("It has %d characters; at most %d are allowed.",
						  chars, VOUCHER_CODE_MAX_CHARS));

	if (has_invisible(str, len))
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("argument \"%s\" contains a blank, control or invisible character: \"%s\"",
					   name, voucher_printable(given)),
				errhint("Blanks around it are trimmed; type anew what was pasted between them."));

	normal = cstring_to_text_with_len(str, len);
	out = VARDATA(normal);
	for (int i = 0; i < len; i++)
		out[i] = pg_ascii_toupper((unsigned char) out[i]);
	return normal;
}

/* Complain of a NULL argument; the hint may be NULL. */
static void
null_argument(const char *name, const char *hint)
{
	ereport(ERROR,
			errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			errmsg("argument \"%s\" must not be null", name),
			hint ? errhint("%s", hint) : 0);
}

/* Is this one of the blanks that are trimmed around a code? */
static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Is this an ASCII control character? */
static bool
is_control(unsigned char c)
{
	return c < ' ' || c == 0x7F;
}

/*
 * Does the string hold a blank, a control or another character that does not
 * show?
 *
 * Beyond ASCII this is a question about Unicode: in another encoding the
 * string is converted first, and under SQL_ASCII, where bytes have no
 * meaning, only ASCII is looked at.
 */
static bool
has_invisible(const char *str, int len)
{
	bool		ascii = true;
	char	   *utf8;
	pg_wchar   *chars;
	int			nchars;

	for (int i = 0; i < len; i++)
	{
		if (str[i] == ' ' || is_control(str[i]))
			return true;
		ascii &= !IS_HIGHBIT_SET(str[i]);
	}
	if (ascii || GetDatabaseEncoding() == PG_SQL_ASCII)
		return false;

	utf8 = pg_server_to_any(str, len, PG_UTF8);
	if (utf8 != str)
		len = strlen(utf8);
	chars = palloc((len + 1) * sizeof(pg_wchar));
	nchars = pg_encoding_mb2wchar_with_len(PG_UTF8, utf8, chars, len);

	for (int i = 0; i < nchars; i++)
		for (int j = 0; j < lengthof(invisible); j++)
			if (chars[i] >= invisible[j].first && chars[i] <= invisible[j].last)
				return true;
	return false;
}

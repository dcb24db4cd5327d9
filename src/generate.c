/*-------------------------------------------------------------------------
 *
 * generate.c
 *	  Many vouchers with the same terms and unguessable codes.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/generate.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "generate.h"
#include "input.h"
#include "store.h"

/* No two of these look alike: no 0 O, 1 I L, 2 Z, 5 S, 8 B */
static const char alphabet[] = "34679ACDEFGHJKMNPQRTUVWXY";

#define ALPHABET_SIZE	((int) sizeof(alphabet) - 1)

/* Codes per statement: bounds memory, and the wait for a cancellation */
#define CHUNK			10000

/* Statements in a row that found no unused code at all, before giving up */
#define MAX_IDLE		1000

/* Random bytes, fetched many at a time. */
typedef struct RandomBytes
{
	uint8		bytes[1024];
	int			used;
} RandomBytes;

static void check_space(int32 n, text *prefix, int32 length);
static int	code_chars(text *prefix, int length);
static Datum random_codes(RandomBytes *random, int32 n, text *prefix,
						  int32 length);
static char random_symbol(RandomBytes *random);

/*
 * Make exactly n new vouchers with the terms of the template, and put their
 * codes into the tuplestore.  A code is the prefix, which may be empty, and
 * length random symbols.
 *
 * Throws, so that nothing is made, if the template does not exist or there
 * are too few codes of this form.  Calls for codes of the same length wait for
 * each other, until the end of the transaction.
 */
void
voucher_generate_codes(Oid schema, int32 n, text *template, text *prefix,
					   int32 length, Tuplestorestate *codes, TupleDesc tupdesc)
{
	VoucherSql sql;
	VoucherFacts facts;
	Snapshot	snapshot;
	RandomBytes random = {.used = sizeof(random.bytes)};
	int			idle = 0;

	check_space(n, prefix, length);
	if (!voucher_rows_voucher(schema, template, &facts))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("voucher \"%s\" does not exist", voucher_printable(template)),
				errhint("Make one with the terms that the new ones are to have."));

	/* two calls that may draw the same codes would deadlock over them */
	LockDatabaseObject(RelationRelationId, get_relname_relid("voucher", schema),
					   code_chars(prefix, length), ExclusiveLock);

	voucher_sql_open(&sql, schema);
	/* one snapshot, so that all of them have the same terms */
	snapshot = RegisterSnapshot(GetLatestSnapshot());

	while (n > 0)
	{
		Datum		wanted = random_codes(&random, Min(n, CHUNK), prefix, length);
		int32		made = voucher_store_copy(&sql, snapshot, template, wanted,
											  codes, tupdesc);

		CHECK_FOR_INTERRUPTS();
		pfree(DatumGetPointer(wanted));
		n -= made;
		idle = made > 0 ? 0 : idle + 1;
		if (idle > MAX_IDLE)
			ereport(ERROR,
					errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					errmsg("nearly all codes of prefix \"%s\" and length %d are taken",
						   voucher_printable(prefix), length),
					errhint("Use another prefix, or more characters."));
	}

	UnregisterSnapshot(snapshot);
	voucher_sql_close(&sql);
}

/*
 * Refuse what cannot be: codes that are too long, or so short that more than
 * half of all of them would be in use.
 */
static void
check_space(int32 n, text *prefix, int32 length)
{
	int64		space = 1;
	int			needed = 0;

	if (code_chars(prefix, length) > VOUCHER_CODE_MAX_CHARS)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("argument \"length\" is too large for this prefix: %d", length),
				errdetail("Prefix and random characters together may have %d characters.",
						  VOUCHER_CODE_MAX_CHARS));

	while (space / 2 < n)
	{
		space *= ALPHABET_SIZE;
		needed++;
	}
	if (length < needed)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("argument \"length\" is too small for %d codes: %d", n, length),
				errhint("Use %d characters or more; for codes that cannot be guessed, four more than that.",
						needed));
}

/* How many characters has a code? */
static int
code_chars(text *prefix, int length)
{
	return length + pg_mbstrlen_with_len(VARDATA_ANY(prefix),
										 VARSIZE_ANY_EXHDR(prefix));
}

/*
 * Draw n codes, as a text[]; some of them may be alike.
 */
static Datum
random_codes(RandomBytes *random, int32 n, text *prefix, int32 length)
{
	int			prefix_len = VARSIZE_ANY_EXHDR(prefix);
	Datum	   *codes = palloc(n * sizeof(Datum));
	ArrayType  *array;

	for (int i = 0; i < n; i++)
	{
		text	   *code = palloc(VARHDRSZ + prefix_len + length);
		char	   *out = VARDATA(code);

		SET_VARSIZE(code, VARHDRSZ + prefix_len + length);
		memcpy(out, VARDATA_ANY(prefix), prefix_len);
		for (int j = 0; j < length; j++)
			out[prefix_len + j] = random_symbol(random);
		codes[i] = PointerGetDatum(code);
	}

	array = construct_array(codes, n, TEXTOID, -1, false, TYPALIGN_INT);
	for (int i = 0; i < n; i++)
		pfree(DatumGetPointer(codes[i]));
	pfree(codes);
	return PointerGetDatum(array);
}

/*
 * Draw one symbol, each as likely as any other: bytes at the top, which would
 * make the first symbols likelier, are passed over.
 */
static char
random_symbol(RandomBytes *random)
{
	for (;;)
	{
		uint8		byte;

		if (random->used == sizeof(random->bytes))
		{
			if (!pg_strong_random(random->bytes, sizeof(random->bytes)))
				ereport(ERROR,
						errcode(ERRCODE_INTERNAL_ERROR),
						errmsg("could not generate random codes"));
			random->used = 0;
		}
		byte = random->bytes[random->used++];
		if (byte < 256 / ALPHABET_SIZE * ALPHABET_SIZE)
			return alphabet[byte % ALPHABET_SIZE];
	}
}

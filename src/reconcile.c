/*-------------------------------------------------------------------------
 *
 * reconcile.c
 *	  Compares counters with rows, and repairs a counter on request.
 *
 * Nothing is repaired unasked: a difference means that the tables were changed
 * by something else than the functions, and which side is right is for a human
 * to say.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/reconcile.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"

#include "input.h"
#include "reconcile.h"
#include "scan.h"
#include "store.h"
#include "tally.h"

/* Columns of what voucher_reconcile() returns */
enum
{
	COL_CODE,
	COL_TOTAL_LIMIT,
	COL_PER_USER_LIMIT,
	COL_USED_COUNT,
	COL_PURGED_COUNT,
	COL_ORDINARY_LIVE,
	COL_FLASH_QUOTA,
	COL_SLOTS,
	COL_FLASH_LIVE,
	COL_ORPHANS,
	COL_CUSTOMERS_OVER_LIMIT,
	COL_DRIFT,
	NUM_COLS
};

static VoucherStatement any_prepared = {
	"SELECT FROM pg_prepared_xacts WHERE database = current_database() LIMIT 1"
};

static void put_row(text *code, const VoucherTally *tally,
					Tuplestorestate *result, TupleDesc tupdesc);
static bool record_drift(VoucherSql *sql, VoucherLog *log, text *code,
						 const VoucherTally *tally);
static void undefined_voucher(text *code);

/*
 * Compare one voucher, or all in order of code if it is NULL, and put a row
 * for each into the tuplestore.  Each row is of one instant.
 *
 * Throws if the one voucher is neither there nor has redemptions.
 */
void
voucher_reconcile_rows(Oid schema, text *code, Tuplestorestate *result,
					   TupleDesc tupdesc)
{
	VoucherTally tally;

	if (code)
	{
		voucher_tally(schema, code, &tally);
		if (!tally.voucher_exists && tally.orphans == 0)
			undefined_voucher(code);
		put_row(code, &tally, result, tupdesc);
		return;
	}

	while ((code = voucher_tally_next_code(schema, code)))
	{
		CHECK_FOR_INTERRUPTS();
		voucher_tally(schema, code, &tally);
		put_row(code, &tally, result, tupdesc);
	}
}

/*
 * Compare the next vouchers, up to max of them, in order of code after *after,
 * which follows; record drift, and log what two looks agree on.  Adds to
 * *drifting how many those are.  False if there is no next voucher.
 *
 * Comes to what is on record too, which may be of a code that has no row any
 * more.
 */
bool
voucher_reconcile_step(Oid schema, text **after, int max, VoucherLog *log,
					   int64 *drifting)
{
	VoucherSql	sql;
	MemoryContext context = CurrentMemoryContext;
	text	   *on_record;

	voucher_sql_open_restricted(&sql, schema);
	on_record = voucher_incident_next_drift(&sql, *after);
	for (int i = 0; i < max; i++)
	{
		VoucherTally tally;
		MemoryContext spi_context = MemoryContextSwitchTo(context);
		text	   *code = voucher_tally_next_code(schema, *after);
		bool		recorded = false;

		if (on_record)
		{
			int			order = code ? voucher_scan_compare_text(on_record, code) : -1;

			recorded = order <= 0;
			if (order < 0)
				code = DatumGetTextPCopy(PointerGetDatum(on_record));
		}
		MemoryContextSwitchTo(spi_context);
		if (code == NULL)
		{
			voucher_sql_close(&sql);
			return false;
		}
		CHECK_FOR_INTERRUPTS();

		*after = code;
		voucher_tally(schema, code, &tally);
		if (voucher_tally_has_drift(&tally))
			*drifting += record_drift(&sql, log, code, &tally) ? 1 : 0;
		else if (recorded)
			voucher_incident_clear_drift(&sql, code);
		if (recorded)
			on_record = voucher_incident_next_drift(&sql, code);
	}
	voucher_sql_close(&sql);
	return true;
}

/*
 * Make the counter of ordinary uses of a voucher what its rows say; return the
 * correction.
 *
 * The rows are counted with the voucher row locked.  Calls in flight that have
 * changed a redemption, but not yet the counter, wait for that lock and then
 * count for themselves.  Those that are prepared may have done both, and no
 * snapshot shows what; hence none may be there.
 */
int64
voucher_reconcile_repair(Oid schema, text *code)
{
	VoucherSql	sql;
	VoucherTally tally;
	int64		uses;

	voucher_sql_open(&sql, schema);
	if (voucher_sql_exists(&sql, &any_prepared, NULL))
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("voucher \"%s\" cannot be repaired while there are prepared transactions",
					   voucher_printable(code)),
				errhint("See pg_prepared_xacts; use COMMIT PREPARED or ROLLBACK PREPARED."));
	if (!voucher_store_lock(&sql, code))
		undefined_voucher(code);

	voucher_tally(schema, code, &tally);
	uses = tally.ordinary_live + tally.purged_count;
	if (uses + tally.flash_quota > tally.total_limit)
		ereport(ERROR,
				errcode(ERRCODE_CHECK_VIOLATION),
				errmsg("voucher \"%s\" has %lld uses, more than its limit of %lld",
					   voucher_printable(code),
					   (long long) (uses + tally.flash_quota),
					   (long long) tally.total_limit),
				errhint("Raise its limit first, or release some of them."));
	if (uses != tally.used_count)
		voucher_store_set_used(&sql, code, uses);
	voucher_incident_clear_drift(&sql, code);
	voucher_sql_close(&sql);
	return uses - tally.used_count;
}

static void
put_row(text *code, const VoucherTally *tally, Tuplestorestate *result,
		TupleDesc tupdesc)
{
	Datum		values[NUM_COLS] = {0};
	bool		nulls[NUM_COLS] = {false};

	values[COL_CODE] = PointerGetDatum(code);
	values[COL_TOTAL_LIMIT] = Int64GetDatum(tally->total_limit);
	values[COL_PER_USER_LIMIT] = Int32GetDatum(tally->per_user_limit);
	values[COL_USED_COUNT] = Int64GetDatum(tally->used_count);
	values[COL_PURGED_COUNT] = Int64GetDatum(tally->purged_count);
	values[COL_ORDINARY_LIVE] = Int64GetDatum(tally->ordinary_live);
	values[COL_FLASH_QUOTA] = Int64GetDatum(tally->flash_quota);
	values[COL_SLOTS] = Int64GetDatum(tally->slots);
	values[COL_FLASH_LIVE] = Int64GetDatum(tally->flash_live);
	values[COL_ORPHANS] = Int64GetDatum(tally->orphans);
	values[COL_CUSTOMERS_OVER_LIMIT] = Int64GetDatum(tally->customers_over_limit);
	values[COL_DRIFT] = BoolGetDatum(voucher_tally_has_drift(tally));

	nulls[COL_TOTAL_LIMIT] = !tally->voucher_exists ||
		tally->total_limit == PG_INT64_MAX;
	nulls[COL_PER_USER_LIMIT] = tally->per_user_limit == 0;
	nulls[COL_USED_COUNT] = nulls[COL_PURGED_COUNT] = nulls[COL_FLASH_QUOTA] =
		!tally->voucher_exists;
	tuplestore_putvalues(result, tupdesc, values, nulls);
}

/*
 * Record the drift of a voucher: the differences, which stay the same while
 * the voucher is in use.
 */
static bool
record_drift(VoucherSql *sql, VoucherLog *log, text *code,
			 const VoucherTally *tally)
{
	int64		uses = voucher_tally_drift(tally);
	int64		slots = tally->flash_quota - tally->slots;
	StringInfoData drift;

	initStringInfo(&drift);
	if (!tally->voucher_exists)
	{
		appendStringInfo(&drift, "%lld redemptions without a voucher",
						 (long long) tally->orphans);
		return voucher_incident_drift(sql, log, code, drift.data,
									  psprintf("Live: %lld ordinary, %lld flash.",
											   (long long) tally->ordinary_live,
											   (long long) tally->flash_live),
									  "Insert the voucher again; its redemptions are its history.");
	}

	if (uses != 0)
		appendStringInfo(&drift, "used_count %+lld", (long long) uses);
	if (slots != 0)
		appendStringInfo(&drift, "%sflash_quota %+lld", uses != 0 ? ", " : "",
						 (long long) slots);
	return voucher_incident_drift(sql, log, code, drift.data,
								  psprintf("used_count %lld, live ordinary redemptions %lld, purged_count %lld;"
										   " flash_quota %lld, slots %lld, live flash redemptions %lld.",
										   (long long) tally->used_count,
										   (long long) tally->ordinary_live,
										   (long long) tally->purged_count,
										   (long long) tally->flash_quota,
										   (long long) tally->slots,
										   (long long) tally->flash_live),
								  "Use voucher_repair() once it is clear who changed the tables.");
}

static void
undefined_voucher(text *code)
{
	ereport(ERROR,
			errcode(ERRCODE_UNDEFINED_OBJECT),
			errmsg("voucher \"%s\" does not exist", voucher_printable(code)));
}

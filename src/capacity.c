/*-------------------------------------------------------------------------
 *
 * capacity.c
 *	  How many uses a voucher has, and how many of them are slots.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/capacity.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "capacity.h"
#include "input.h"
#include "slots.h"
#include "store.h"

static void lock_voucher(VoucherSql *sql, Oid schema, text *code,
						 VoucherFacts *facts);
static int32 close_slots(VoucherSql *sql, text *code);
static void check_slots(text *code, int64 slots);
static void check_changed(text *code, bool changed);

/*
 * Set the total_limit of a voucher; PG_INT64_MAX for none.  Of a flash voucher,
 * the uses that are new are slots, and free slots go.
 *
 * Waits for calls in flight on the voucher row, and throws if more uses than
 * that are live then or may become so, or if there is no such voucher.
 */
void
voucher_capacity_set_limit(Oid schema, text *code, int64 limit)
{
	VoucherSql	sql;
	VoucherFacts facts;
	int64		slots = 0;		/* to be made; below 0, to be removed */

	voucher_sql_open(&sql, schema);
	lock_voucher(&sql, schema, code, &facts);

	if (facts.in_use > limit)
	{
		int64		excess = facts.in_use - limit;

		slots = -voucher_slots_remove_free(&sql, code, Min(excess, PG_INT32_MAX));
		if (excess + slots > 0)
			ereport(ERROR,
					errcode(ERRCODE_CHECK_VIOLATION),
					errmsg("limit %lld of voucher \"%s\" is below the number in use, %lld",
						   (long long) limit, voucher_printable(code),
						   (long long) (facts.in_use + slots)),
					errhint("Disable the voucher, and lower the limit when uses have come back."));
	}
	else if (facts.flash && limit != PG_INT64_MAX && limit > facts.total_limit)
	{
		slots = limit - facts.total_limit;
		check_slots(code, facts.flash_quota + slots);
	}

	check_changed(code, voucher_store_set_limit(&sql, code, limit, slots));
	if (slots > 0)
		voucher_slots_make(&sql, code, slots);
	voucher_sql_close(&sql);
}

/*
 * Open a voucher as a flash sale: make slots of that many of its free uses, or
 * of all if quota is 0.  Returns how many slots it has.
 */
int32
voucher_capacity_flash_open(Oid schema, text *code, int32 quota)
{
	VoucherSql	sql;
	VoucherFacts facts;
	int64		left;

	voucher_sql_open(&sql, schema);
	lock_voucher(&sql, schema, code, &facts);

	left = facts.total_limit - facts.in_use;
	if (facts.flash)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("voucher \"%s\" is already open as a flash sale",
					   voucher_printable(code)),
				errhint("Use voucher_set_limit() to change how many uses it has."));
	if (quota == 0 && facts.total_limit == PG_INT64_MAX)
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("argument \"quota\" must not be null for a voucher without a limit"),
				errhint("Say how many of its uses are to be slots."));
	if (quota > left)
		ereport(ERROR,
				errcode(ERRCODE_CHECK_VIOLATION),
				errmsg("quota %d of voucher \"%s\" is above the number of uses left, %lld",
					   quota, voucher_printable(code), (long long) left),
				errhint("Leave the quota out to take all that are left."));
	if (quota == 0)
	{
		check_slots(code, facts.flash_quota + left);
		quota = left;
	}
	check_slots(code, (int64) facts.flash_quota + quota);

	check_changed(code, voucher_store_set_flash(&sql, code, true, quota, 0));
	voucher_slots_make(&sql, code, quota);
	voucher_sql_close(&sql);
	return facts.flash_quota + quota;
}

/*
 * Make a flash voucher an ordinary one, and its uses ordinary ones.  Returns
 * how many slots are left: calls in flight hold them, and what becomes of them
 * is for voucher_capacity_finish(), or for another call.
 */
int32
voucher_capacity_flash_close(Oid schema, text *code)
{
	VoucherSql	sql;
	VoucherFacts facts;
	int32		left = 0;

	voucher_sql_open(&sql, schema);
	lock_voucher(&sql, schema, code, &facts);
	if (facts.flash || facts.flash_quota > 0)
		left = facts.flash_quota - close_slots(&sql, code);
	voucher_sql_close(&sql);
	return left;
}

/*
 * Go on closing what calls in flight kept from being closed.
 */
void
voucher_capacity_finish(Oid schema)
{
	VoucherSql	sql;
	text	   *code = NULL;

	voucher_sql_open_restricted(&sql, schema);
	while ((code = voucher_slots_next_code(schema, code)))
	{
		VoucherFacts facts;

		CHECK_FOR_INTERRUPTS();
		if (!voucher_rows_voucher(schema, code, &facts) || facts.flash ||
			!voucher_store_try_lock(&sql, code))
			continue;

		/* it may have been opened again before it could be locked */
		if (voucher_rows_voucher(schema, code, &facts) && !facts.flash)
			(void) close_slots(&sql, code);
	}
	voucher_sql_close(&sql);
}

/*
 * Lock a voucher, and read it; throws if there is none.
 */
static void
lock_voucher(VoucherSql *sql, Oid schema, text *code, VoucherFacts *facts)
{
	if (!voucher_store_lock(sql, code) ||
		!voucher_rows_voucher(schema, code, facts))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("voucher \"%s\" does not exist", voucher_printable(code)));
}

/*
 * Close a voucher that is locked; return how many slots are gone.
 */
static int32
close_slots(VoucherSql *sql, text *code)
{
	int64		detached;
	int32		removed = voucher_slots_dissolve(sql, code, &detached);

	check_changed(code, voucher_store_set_flash(sql, code, false, -removed,
												detached));
	return removed;
}

static void
check_slots(text *code, int64 slots)
{
	if (slots > PG_INT32_MAX)
		ereport(ERROR,
				errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg("voucher \"%s\" cannot have %lld slots",
					   voucher_printable(code), (long long) slots),
				errhint("A flash sale has at most %d; give a quota.",
						PG_INT32_MAX));
}

/*
 * Was the locked voucher changed as asked?
 */
static void
check_changed(text *code, bool changed)
{
	if (!changed)
		ereport(ERROR,
				errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				errmsg("a change to voucher \"%s\" was undone",
					   voucher_printable(code)),
				errhint("Look for a trigger or rule on the table that suppresses changes."));
}

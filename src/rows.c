/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  Look-ups of voucher and redemption rows by index.
 *
 * Read straight through the index, as the server reads its catalogs: there is
 * no plan that could be a sequential scan because the table was empty when it
 * was made, and a refusal costs a few index probes.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/rows.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "executor/tuptable.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "rows.h"

/* Columns of table voucher, in the order of CREATE TABLE */
enum
{
	Anum_voucher_code = 1,
	Anum_voucher_discount_amount,
	Anum_voucher_discount_percent,
	Anum_voucher_max_discount_amount,
	Anum_voucher_min_order_amount,
	Anum_voucher_total_limit,
	Anum_voucher_used_count,
	Anum_voucher_flash_quota,
	Anum_voucher_per_user_limit,
	Anum_voucher_hold_time,
	Anum_voucher_starts_at,
	Anum_voucher_ends_at,
	Anum_voucher_enabled
};

/* Columns of table voucher_redemption, likewise */
enum
{
	Anum_redemption_id = 1,
	Anum_redemption_voucher_code,
	Anum_redemption_customer_id,
	Anum_redemption_order_id,
	Anum_redemption_status,
	Anum_redemption_order_amount,
	Anum_redemption_discount_amount,
	Anum_redemption_use_no,
	Anum_redemption_slot_no,
	Anum_redemption_created_at,
	Anum_redemption_expires_at,
	Anum_redemption_confirmed_at,
	Anum_redemption_released_at,
	Anum_redemption_release_reason
};

const char *const voucher_state_names[] = {
	[VOUCHER_STATE_RESERVED] = "RESERVED",
	[VOUCHER_STATE_CONFIRMED] = "CONFIRMED",
	[VOUCHER_STATE_RELEASED] = "RELEASED",
	[VOUCHER_STATE_EXPIRED] = "EXPIRED",
	[VOUCHER_STATE_REFUNDED] = "REFUNDED"
};

/* A scan of one index, from conditions on its first columns. */
typedef struct RowScan
{
	Relation	index;
	IndexScanDesc scan;
	TupleTableSlot *slot;		/* the row that is being looked at */
	ScanKeyData keys[2];
	int			nkeys;
} RowScan;

static Relation open_table(Oid schema, const char *name);
static void add_key(RowScan *rows, StrategyNumber strategy,
					RegProcedure compare, Datum value);
static void begin_rows(RowScan *rows, Relation table, Oid schema,
					   const char *index, Snapshot snapshot);
static bool next_row(RowScan *rows, ScanDirection direction);
static void end_rows(RowScan *rows);
static bool find_live_order(Oid schema, Relation redemptions, text *order_id,
							Snapshot snapshot, RowScan *rows);
static void wait_for_order(Oid schema, Relation redemptions, text *order_id);
static void read_order(Oid schema, Relation redemptions,
					   const VoucherRequest *request, Snapshot snapshot,
					   VoucherFacts *facts);
static void read_voucher(Oid schema, text *code, Snapshot snapshot,
						 VoucherFacts *facts);
static void count_uses(Oid schema, Relation redemptions,
					   const VoucherRequest *request, Snapshot snapshot,
					   VoucherFacts *facts);
static bool has_rows(Oid schema, Relation redemptions, const char *index,
					 text *code, Snapshot snapshot);
static void read_redemption(RowScan *rows, VoucherRedemption *redemption);
static bool column_is_null(RowScan *rows, int attnum);
static bool read_bool(RowScan *rows, int attnum);
static int32 read_int32(RowScan *rows, int attnum, int32 if_null);
static int64 read_int64(RowScan *rows, int attnum, int64 if_null);
static bool text_equals(RowScan *rows, int attnum, const text *value);

/*
 * Read what decides about a reserve.
 */
void
voucher_rows_look(Oid schema, const VoucherRequest *request,
				  VoucherFacts *facts)
{
	Relation	redemptions = open_table(schema, "voucher_redemption");
	Snapshot	snapshot;

	memset(facts, 0, sizeof(VoucherFacts));

	if (request->order_id)
		wait_for_order(schema, redemptions, request->order_id);
	snapshot = RegisterSnapshot(GetLatestSnapshot());

	if (request->order_id)
		read_order(schema, redemptions, request, snapshot, facts);
	if (!facts->order_is_live)
	{
		read_voucher(schema, request->code, snapshot, facts);
		if (facts->terms.per_user_limit > 0)
			count_uses(schema, redemptions, request, snapshot, facts);
	}

	UnregisterSnapshot(snapshot);
	table_close(redemptions, NoLock);
}

/*
 * Read what the facts say of the voucher alone; false if there is none.
 */
bool
voucher_rows_voucher(Oid schema, text *code, VoucherFacts *facts)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	memset(facts, 0, sizeof(VoucherFacts));
	read_voucher(schema, code, snapshot, facts);
	UnregisterSnapshot(snapshot);
	return facts->voucher_exists;
}

/*
 * Find the redemption that a later call on (code, order_id) is about: the
 * live one, or else the newest released one.
 */
bool
voucher_rows_find(Oid schema, text *code, text *order_id,
				  VoucherRedemption *redemption)
{
	Relation	redemptions = open_table(schema, "voucher_redemption");
	Snapshot	snapshot;
	RowScan		rows;
	bool		found;

	wait_for_order(schema, redemptions, order_id);
	snapshot = RegisterSnapshot(GetLatestSnapshot());

	found = find_live_order(schema, redemptions, order_id, snapshot, &rows) &&
		text_equals(&rows, Anum_redemption_voucher_code, code);
	if (!found)
	{
		end_rows(&rows);
		add_key(&rows, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(code));
		add_key(&rows, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(order_id));
		begin_rows(&rows, redemptions, schema, "voucher_redemption_released_idx",
				   snapshot);
		found = next_row(&rows, BackwardScanDirection);
	}
	if (found)
		read_redemption(&rows, redemption);
	end_rows(&rows);

	UnregisterSnapshot(snapshot);
	table_close(redemptions, NoLock);
	return found;
}

/*
 * Find holds that have lapsed by now: of the voucher, the longest lapsed
 * first, or if customer_id is given, those of the customer.  Fills in up to
 * max ids and returns how many.
 */
int
voucher_rows_lapsed(Oid schema, text *code, const int64 *customer_id,
					TimestampTz now, int64 *ids, int max)
{
	Relation	redemptions = open_table(schema, "voucher_redemption");
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	RowScan		rows = {0};
	int			found = 0;

	add_key(&rows, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(code));
	if (customer_id)
		add_key(&rows, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(*customer_id));
	else
		add_key(&rows, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE,
				TimestampTzGetDatum(now));
	begin_rows(&rows, redemptions, schema,
			   customer_id ? "voucher_redemption_use_key" :
			   "voucher_redemption_reserved_idx", snapshot);

	while (found < max && next_row(&rows, ForwardScanDirection))
	{
		VoucherRedemption hold;

		read_redemption(&rows, &hold);
		if (hold.state == VOUCHER_STATE_RESERVED && hold.expires_at <= now)
			ids[found++] = hold.id;
	}
	end_rows(&rows);

	UnregisterSnapshot(snapshot);
	table_close(redemptions, NoLock);
	return found;
}

/*
 * Has the voucher any redemption, live or released?  A NULL code asks for all
 * vouchers at once.
 */
bool
voucher_rows_redeemed(Oid schema, text *code)
{
	Relation	redemptions = open_table(schema, "voucher_redemption");
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	bool		redeemed;

	/* between them the two partial indexes hold every row */
	redeemed = has_rows(schema, redemptions, "voucher_redemption_use_key",
						code, snapshot) ||
		has_rows(schema, redemptions, "voucher_redemption_released_idx",
				 code, snapshot);

	UnregisterSnapshot(snapshot);
	table_close(redemptions, NoLock);
	return redeemed;
}

/*
 * Open one of our tables for reading.
 *
 * What the transaction did so far becomes visible to the look-ups that
 * follow, as it would to an SQL statement.
 */
static Relation
open_table(Oid schema, const char *name)
{
	Oid			relid = get_relname_relid(name, schema);

	if (!OidIsValid(relid))
		elog(ERROR, "table \"%s\" of extension \"voucher\" is missing", name);
	CommandCounterIncrement();
	return table_open(relid, AccessShareLock);
}

/* Add a condition on the next column of the index to a scan to begin. */
static void
add_key(RowScan *rows, StrategyNumber strategy, RegProcedure compare,
		Datum value)
{
	ScanKeyInit(&rows->keys[rows->nkeys], rows->nkeys + 1, strategy, compare,
				value);
	rows->nkeys++;
}

/*
 * Begin a scan, for the keys that were added.  Ended with end_rows(), which
 * leaves the scan without keys, or by an ERROR.
 */
static void
begin_rows(RowScan *rows, Relation table, Oid schema, const char *index,
		   Snapshot snapshot)
{
	Oid			relid = get_relname_relid(index, schema);

	if (!OidIsValid(relid))
		elog(ERROR, "index \"%s\" of extension \"voucher\" is missing", index);
	rows->index = index_open(relid, AccessShareLock);
	rows->slot = table_slot_create(table, NULL);
	rows->scan = index_beginscan(table, rows->index, snapshot, NULL,
								 rows->nkeys, 0);
	index_rescan(rows->scan, rows->keys, rows->nkeys, NULL, 0);
}

static bool
next_row(RowScan *rows, ScanDirection direction)
{
	return index_getnext_slot(rows->scan, direction, rows->slot);
}

static void
end_rows(RowScan *rows)
{
	index_endscan(rows->scan);
	ExecDropSingleTupleTableSlot(rows->slot);
	index_close(rows->index, NoLock);
	rows->nkeys = 0;
}

/*
 * Find the live redemption of an order; the caller ends the scan either way.
 */
static bool
find_live_order(Oid schema, Relation redemptions, text *order_id,
				Snapshot snapshot, RowScan *rows)
{
	rows->nkeys = 0;
	add_key(rows, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(order_id));
	begin_rows(rows, redemptions, schema, "voucher_redemption_order_key",
			   snapshot);
	return next_row(rows, ForwardScanDirection);
}

/*
 * Wait until no other transaction is creating or changing the live redemption
 * of an order.
 *
 * A dirty snapshot shows rows that are not committed yet, and tells whose
 * they are.  Row locks alone are not waited for.
 */
static void
wait_for_order(Oid schema, Relation redemptions, text *order_id)
{
	for (;;)
	{
		SnapshotData dirty;
		RowScan		rows;
		TransactionId other = InvalidTransactionId;
		ItemPointerData tid;

		InitDirtySnapshot(dirty);
		if (find_live_order(schema, redemptions, order_id, &dirty, &rows))
		{
			other = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
			tid = rows.slot->tts_tid;
		}
		end_rows(&rows);

		if (!TransactionIdIsValid(other))
			return;
		XactLockTableWait(other, redemptions, &tid, XLTW_FetchUpdated);
	}
}

/*
 * Read the live redemption of the order that is asked for, if there is one.
 */
static void
read_order(Oid schema, Relation redemptions, const VoucherRequest *request,
		   Snapshot snapshot, VoucherFacts *facts)
{
	RowScan		rows;

	facts->order_is_live = find_live_order(schema, redemptions,
										   request->order_id, snapshot, &rows);
	if (facts->order_is_live)
	{
		read_redemption(&rows, &facts->order);
		facts->order_has_code = text_equals(&rows, Anum_redemption_voucher_code,
											request->code);
		facts->order_customer_id = read_int64(&rows, Anum_redemption_customer_id, 0);
		facts->order_amount = read_int64(&rows, Anum_redemption_order_amount, 0);
	}
	end_rows(&rows);
}

/*
 * Read a voucher, if it exists.
 */
static void
read_voucher(Oid schema, text *code, Snapshot snapshot, VoucherFacts *facts)
{
	Relation	vouchers = open_table(schema, "voucher");
	VoucherTerms *terms = &facts->terms;
	RowScan		rows = {0};
	bool		isnull;

	add_key(&rows, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(code));
	begin_rows(&rows, vouchers, schema, "voucher_pkey", snapshot);

	facts->voucher_exists = next_row(&rows, ForwardScanDirection);
	if (facts->voucher_exists)
	{
		terms->enabled = read_bool(&rows, Anum_voucher_enabled);
		terms->starts_at = read_int64(&rows, Anum_voucher_starts_at, 0);
		terms->ends_at = read_int64(&rows, Anum_voucher_ends_at, 0);
		terms->min_order_amount = read_int64(&rows, Anum_voucher_min_order_amount, 0);
		terms->discount_amount = read_int64(&rows, Anum_voucher_discount_amount, 0);
		terms->max_discount_amount = read_int64(&rows, Anum_voucher_max_discount_amount,
												PG_INT64_MAX);
		terms->per_user_limit = read_int32(&rows, Anum_voucher_per_user_limit, 0);

		if (!column_is_null(&rows, Anum_voucher_discount_percent))
		{
			Datum		percent = slot_getattr(rows.slot,
											   Anum_voucher_discount_percent,
											   &isnull);
			Datum		scale =
				DirectFunctionCall1(int4_numeric,
									Int32GetDatum(VOUCHER_PERCENT_SCALE));

			terms->discount_percent =
				DatumGetInt64(DirectFunctionCall1(numeric_int8,
												  DirectFunctionCall2(numeric_mul, percent, scale)));
		}

		if (!column_is_null(&rows, Anum_voucher_hold_time))
		{
			Datum		hold = slot_getattr(rows.slot, Anum_voucher_hold_time,
											&isnull);

			terms->hold_time = voucher_terms_hold(DatumGetIntervalP(hold));
		}

		facts->total_limit = read_int64(&rows, Anum_voucher_total_limit,
										PG_INT64_MAX);
		facts->in_use = read_int64(&rows, Anum_voucher_used_count, 0) +
			read_int32(&rows, Anum_voucher_flash_quota, 0);
	}

	end_rows(&rows);
	table_close(vouchers, NoLock);
}

/*
 * Count the customer's live uses of the voucher, up to one above the limit,
 * and find the lowest use_no that is free: the index gives them in ascending order,
 * those without a number last.
 *
 * Always the lowest, so that two calls with the same view of the customer
 * pick the same number and the UNIQUE index lets one of them through.
 */
static void
count_uses(Oid schema, Relation redemptions, const VoucherRequest *request,
		   Snapshot snapshot, VoucherFacts *facts)
{
	int32		limit = facts->terms.per_user_limit;
	RowScan		rows = {0};

	add_key(&rows, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(request->code));
	add_key(&rows, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(request->customer_id));
	begin_rows(&rows, redemptions, schema, "voucher_redemption_use_key",
			   snapshot);

	facts->free_use_no = 1;
	while (facts->uses <= limit && next_row(&rows, ForwardScanDirection))
	{
		int32		use_no = read_int32(&rows, Anum_redemption_use_no, 0);

		facts->uses++;
		if (use_no == 0 || use_no > limit)
			facts->misnumbered = read_int64(&rows, Anum_redemption_id, 0);
		else if (use_no == facts->free_use_no)
			facts->free_use_no++;
	}
	end_rows(&rows);
}

/*
 * Does the index, whose first column is the voucher code, hold any row of
 * this code, or any row at all if it is NULL?
 */
static bool
has_rows(Oid schema, Relation redemptions, const char *index, text *code,
		 Snapshot snapshot)
{
	RowScan		rows = {0};
	bool		found;

	if (code)
		add_key(&rows, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(code));
	begin_rows(&rows, redemptions, schema, index, snapshot);
	found = next_row(&rows, ForwardScanDirection);
	end_rows(&rows);
	return found;
}

/*
 * Read the redemption that the scan has found.
 */
static void
read_redemption(RowScan *rows, VoucherRedemption *redemption)
{
	int			state_column = column_is_null(rows, Anum_redemption_release_reason) ?
		Anum_redemption_status : Anum_redemption_release_reason;
	bool		isnull;
	char	   *state = TextDatumGetCString(slot_getattr(rows->slot, state_column,
														 &isnull));

	redemption->id = read_int64(rows, Anum_redemption_id, 0);
	redemption->discount_amount =
		read_int64(rows, Anum_redemption_discount_amount, 0);
	redemption->expires_at = read_int64(rows, Anum_redemption_expires_at, 0);

	for (int i = 0; i < lengthof(voucher_state_names); i++)
	{
		if (strcmp(state, voucher_state_names[i]) == 0)
		{
			redemption->state = (VoucherState) i;
			return;
		}
	}
	elog(ERROR, "unrecognized state of redemption: \"%s\"", state);
}

static bool
column_is_null(RowScan *rows, int attnum)
{
	return slot_attisnull(rows->slot, attnum);
}

static bool
read_bool(RowScan *rows, int attnum)
{
	bool		isnull;
	Datum		value = slot_getattr(rows->slot, attnum, &isnull);

	return !isnull && DatumGetBool(value);
}

static int32
read_int32(RowScan *rows, int attnum, int32 if_null)
{
	bool		isnull;
	Datum		value = slot_getattr(rows->slot, attnum, &isnull);

	return isnull ? if_null : DatumGetInt32(value);
}

/* Reads timestamptz as well. */
static int64
read_int64(RowScan *rows, int attnum, int64 if_null)
{
	bool		isnull;
	Datum		value = slot_getattr(rows->slot, attnum, &isnull);

	return isnull ? if_null : DatumGetInt64(value);
}

static bool
text_equals(RowScan *rows, int attnum, const text *value)
{
	bool		isnull;
	Datum		stored = slot_getattr(rows->slot, attnum, &isnull);

	return !isnull &&
		DatumGetBool(DirectFunctionCall2Coll(texteq, C_COLLATION_OID, stored,
											 PointerGetDatum(value)));
}

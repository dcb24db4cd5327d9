/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  Look-ups of voucher and redemption rows by index.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/rows.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "columns.h"
#include "rows.h"
#include "scan.h"

const char *const voucher_state_names[] = {
	[VOUCHER_STATE_RESERVED] = "RESERVED",
	[VOUCHER_STATE_CONFIRMED] = "CONFIRMED",
	[VOUCHER_STATE_RELEASED] = "RELEASED",
	[VOUCHER_STATE_EXPIRED] = "EXPIRED",
	[VOUCHER_STATE_REFUNDED] = "REFUNDED"
};

static bool find_live_order(Oid schema, Relation redemptions, text *order_id,
							Snapshot snapshot, VoucherScan *rows);
static void wait_for_order(Oid schema, Relation redemptions, text *order_id);
static void read_order(Oid schema, Relation redemptions,
					   const VoucherRequest *request, Snapshot snapshot,
					   VoucherFacts *facts);
static void read_voucher(Oid schema, text *code, Snapshot snapshot,
						 VoucherFacts *facts);
static int64 scaled_percent(Datum percent);
static void count_uses(Oid schema, Relation redemptions,
					   const VoucherRequest *request, Snapshot snapshot,
					   VoucherFacts *facts);
static bool has_rows(Oid schema, Relation redemptions, const char *index,
					 text *code, Snapshot snapshot);
static void read_redemption(VoucherScan *rows, VoucherRedemption *redemption);
static int	compare_ids(const void *a, const void *b);

/*
 * Read what decides about a reserve.
 */
void
voucher_rows_look(Oid schema, const VoucherRequest *request,
				  VoucherFacts *facts)
{
	Relation	redemptions = voucher_scan_open_table(schema, "voucher_redemption");
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
	Relation	redemptions = voucher_scan_open_table(schema, "voucher_redemption");
	Snapshot	snapshot;
	VoucherScan rows;
	bool		found;

	wait_for_order(schema, redemptions, order_id);
	snapshot = RegisterSnapshot(GetLatestSnapshot());

	found = find_live_order(schema, redemptions, order_id, snapshot, &rows) &&
		voucher_scan_text_equals(&rows, Anum_redemption_voucher_code, code);
	if (!found)
	{
		voucher_scan_end(&rows);
		voucher_scan_key(&rows, BTEqualStrategyNumber, F_TEXTEQ,
						 PointerGetDatum(code));
		voucher_scan_key(&rows, BTEqualStrategyNumber, F_TEXTEQ,
						 PointerGetDatum(order_id));
		voucher_scan_begin(&rows, redemptions, schema,
						   "voucher_redemption_released_idx", snapshot);
		found = voucher_scan_next(&rows, BackwardScanDirection);
	}
	if (found)
		read_redemption(&rows, redemption);
	voucher_scan_end(&rows);

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
	Relation	redemptions = voucher_scan_open_table(schema, "voucher_redemption");
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	VoucherScan rows = {0};
	int			found = 0;

	voucher_scan_key(&rows, BTEqualStrategyNumber, F_TEXTEQ,
					 PointerGetDatum(code));
	if (customer_id)
		voucher_scan_key(&rows, BTEqualStrategyNumber, F_INT8EQ,
						 Int64GetDatum(*customer_id));
	else
		voucher_scan_key(&rows, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE,
						 TimestampTzGetDatum(now));
	voucher_scan_begin(&rows, redemptions, schema,
					   customer_id ? "voucher_redemption_use_key" :
					   "voucher_redemption_reserved_idx", snapshot);

	while (found < max && voucher_scan_next(&rows, ForwardScanDirection))
	{
		VoucherRedemption hold;

		read_redemption(&rows, &hold);
		if (hold.state == VOUCHER_STATE_RESERVED && hold.expires_at <= now)
			ids[found++] = hold.id;
	}
	voucher_scan_end(&rows);

	UnregisterSnapshot(snapshot);
	table_close(redemptions, NoLock);
	return found;
}

/*
 * Find holds of any voucher that have lapsed by now, the longest lapsed first,
 * but not those that are set aside (ids in ascending order).  Allocates an
 * array of up to max of them and returns how many.
 *
 * *next is the deadline of the first hold that is not among them, which may
 * have passed if there are more than max, or DT_NOEND.
 */
int
voucher_rows_due(Oid schema, const int64 *set_aside, int nset_aside, int max,
				 VoucherDue **due, TimestampTz *next)
{
	Relation	redemptions = voucher_scan_open_table(schema, "voucher_redemption");
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TimestampTz now = GetCurrentTimestamp();
	VoucherScan rows = {0};
	int			found = 0;
	int			size = 64;

	*due = palloc(size * sizeof(VoucherDue));
	*next = DT_NOEND;
	voucher_scan_begin(&rows, redemptions, schema, "voucher_redemption_due_idx",
					   snapshot);
	while (voucher_scan_next(&rows, ForwardScanDirection))
	{
		int64		id = voucher_scan_int64(&rows, Anum_redemption_id, 0);
		TimestampTz expires_at =
			voucher_scan_time(&rows, Anum_redemption_expires_at, 0);

		CHECK_FOR_INTERRUPTS();
		if (nset_aside > 0 &&
			bsearch(&id, set_aside, nset_aside, sizeof(int64), compare_ids))
			continue;
		if (found == max || expires_at > now)
		{
			*next = expires_at;
			break;
		}

		if (found == size)
		{
			size *= 2;
			*due = repalloc_huge(*due, size * sizeof(VoucherDue));
		}
		(*due)[found].id = id;
		(*due)[found].code =
			DatumGetTextPCopy(voucher_scan_datum(&rows, Anum_redemption_voucher_code, TEXTOID));
		found++;
	}
	voucher_scan_end(&rows);

	UnregisterSnapshot(snapshot);
	table_close(redemptions, NoLock);
	return found;
}

/*
 * Find redemptions that were released before the given instant, the oldest
 * first.  Fills in up to max ids and returns how many.
 */
int
voucher_rows_released(Oid schema, TimestampTz before, int64 *ids, int max)
{
	Relation	redemptions = voucher_scan_open_table(schema, "voucher_redemption");
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	VoucherScan rows = {0};
	int			found = 0;

	voucher_scan_key(&rows, BTLessStrategyNumber, F_TIMESTAMPTZ_LT,
					 TimestampTzGetDatum(before));
	voucher_scan_begin(&rows, redemptions, schema,
					   "voucher_redemption_history_idx", snapshot);
	while (found < max && voucher_scan_next(&rows, ForwardScanDirection))
		ids[found++] = voucher_scan_int64(&rows, Anum_redemption_id, 0);
	voucher_scan_end(&rows);

	UnregisterSnapshot(snapshot);
	table_close(redemptions, NoLock);
	return found;
}

/*
 * Find ordinary redemptions of a voucher that were confirmed before the given
 * instant, likewise.
 */
int
voucher_rows_confirmed(Oid schema, text *code, TimestampTz before, int64 *ids,
					   int max)
{
	Relation	redemptions = voucher_scan_open_table(schema, "voucher_redemption");
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	VoucherScan rows = {0};
	int			found = 0;

	voucher_scan_key(&rows, BTEqualStrategyNumber, F_TEXTEQ,
					 PointerGetDatum(code));
	voucher_scan_begin(&rows, redemptions, schema, "voucher_redemption_use_key",
					   snapshot);
	while (found < max && voucher_scan_next(&rows, ForwardScanDirection))
	{
		CHECK_FOR_INTERRUPTS();
		if (voucher_scan_is_null(&rows, Anum_redemption_slot_no) &&
			voucher_scan_time(&rows, Anum_redemption_confirmed_at,
							   PG_INT64_MAX) < before)
			ids[found++] = voucher_scan_int64(&rows, Anum_redemption_id, 0);
	}
	voucher_scan_end(&rows);

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
	Relation	redemptions = voucher_scan_open_table(schema, "voucher_redemption");
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
 * Find the live redemption of an order; the caller ends the scan either way.
 */
static bool
find_live_order(Oid schema, Relation redemptions, text *order_id,
				Snapshot snapshot, VoucherScan *rows)
{
	rows->nkeys = 0;
	voucher_scan_key(rows, BTEqualStrategyNumber, F_TEXTEQ,
					 PointerGetDatum(order_id));
	voucher_scan_begin(rows, redemptions, schema,
					   "voucher_redemption_order_key", snapshot);
	return voucher_scan_next(rows, ForwardScanDirection);
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
		VoucherScan rows;
		TransactionId other = InvalidTransactionId;
		ItemPointerData tid;

		InitDirtySnapshot(dirty);
		if (find_live_order(schema, redemptions, order_id, &dirty, &rows))
		{
			other = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
			tid = rows.slot->tts_tid;
		}
		voucher_scan_end(&rows);

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
	VoucherScan rows;

	facts->order_is_live = find_live_order(schema, redemptions,
										   request->order_id, snapshot, &rows);
	if (facts->order_is_live)
	{
		read_redemption(&rows, &facts->order);
		facts->order_has_code =
			voucher_scan_text_equals(&rows, Anum_redemption_voucher_code,
									 request->code);
		facts->order_customer_id =
			voucher_scan_int64(&rows, Anum_redemption_customer_id, 0);
		facts->order_amount =
			voucher_scan_int64(&rows, Anum_redemption_order_amount, 0);
	}
	voucher_scan_end(&rows);
}

/*
 * Read a voucher, if it exists.
 */
static void
read_voucher(Oid schema, text *code, Snapshot snapshot, VoucherFacts *facts)
{
	Relation	vouchers = voucher_scan_open_table(schema, "voucher");
	VoucherTerms *terms = &facts->terms;
	VoucherScan rows = {0};

	voucher_scan_key(&rows, BTEqualStrategyNumber, F_TEXTEQ,
					 PointerGetDatum(code));
	voucher_scan_begin(&rows, vouchers, schema, "voucher_pkey", snapshot);

	facts->voucher_exists = voucher_scan_next(&rows, ForwardScanDirection);
	if (facts->voucher_exists)
	{
		terms->enabled = voucher_scan_bool(&rows, Anum_voucher_enabled);
		terms->starts_at =
			voucher_scan_time(&rows, Anum_voucher_starts_at, 0);
		terms->ends_at =
			voucher_scan_time(&rows, Anum_voucher_ends_at, 0);
		terms->min_order_amount =
			voucher_scan_int64(&rows, Anum_voucher_min_order_amount, 0);
		terms->discount_amount =
			voucher_scan_int64(&rows, Anum_voucher_discount_amount, 0);
		terms->max_discount_amount =
			voucher_scan_int64(&rows, Anum_voucher_max_discount_amount,
							   PG_INT64_MAX);
		terms->per_user_limit =
			voucher_scan_int32(&rows, Anum_voucher_per_user_limit, 0);
		if (!voucher_scan_is_null(&rows, Anum_voucher_discount_percent))
			terms->discount_percent =
				scaled_percent(voucher_scan_datum(&rows, Anum_voucher_discount_percent,
												  NUMERICOID));
		if (!voucher_scan_is_null(&rows, Anum_voucher_hold_time))
			terms->hold_time =
				voucher_terms_hold(DatumGetIntervalP(voucher_scan_datum(&rows, Anum_voucher_hold_time,
																		INTERVALOID)));

		facts->total_limit =
			voucher_scan_int64(&rows, Anum_voucher_total_limit, PG_INT64_MAX);
		facts->flash = voucher_scan_bool(&rows, Anum_voucher_flash);
		facts->flash_quota =
			voucher_scan_int32(&rows, Anum_voucher_flash_quota, 0);
		facts->in_use = facts->flash_quota +
			voucher_scan_int64(&rows, Anum_voucher_used_count, 0);
	}

	voucher_scan_end(&rows);
	table_close(vouchers, NoLock);
}

/* Give a percentage, a numeric, in units of 1/VOUCHER_PERCENT_SCALE. */
static int64
scaled_percent(Datum percent)
{
	Datum		scale = DirectFunctionCall1(int4_numeric,
											Int32GetDatum(VOUCHER_PERCENT_SCALE));

	return DatumGetInt64(DirectFunctionCall1(numeric_int8,
											 DirectFunctionCall2(numeric_mul, percent, scale)));
}

/*
 * Count the customer's live uses of the voucher, up to one above the limit,
 * and find the lowest use_no that is free: the index gives them in ascending
 * order, those without a number last.
 *
 * Always the lowest, so that two calls with the same view of the customer
 * pick the same number and the UNIQUE index lets one of them through.
 */
static void
count_uses(Oid schema, Relation redemptions, const VoucherRequest *request,
		   Snapshot snapshot, VoucherFacts *facts)
{
	int32		limit = facts->terms.per_user_limit;
	VoucherScan rows = {0};

	voucher_scan_key(&rows, BTEqualStrategyNumber, F_TEXTEQ,
					 PointerGetDatum(request->code));
	voucher_scan_key(&rows, BTEqualStrategyNumber, F_INT8EQ,
					 Int64GetDatum(request->customer_id));
	voucher_scan_begin(&rows, redemptions, schema, "voucher_redemption_use_key",
					   snapshot);

	facts->free_use_no = 1;
	while (facts->uses <= limit && voucher_scan_next(&rows, ForwardScanDirection))
	{
		int32		use_no = voucher_scan_int32(&rows, Anum_redemption_use_no, 0);

		facts->uses++;
		if (use_no == 0 || use_no > limit)
			facts->misnumbered = voucher_scan_int64(&rows, Anum_redemption_id, 0);
		else if (use_no == facts->free_use_no)
			facts->free_use_no++;
	}
	voucher_scan_end(&rows);
}

/*
 * Does the index, whose first column is the voucher code, hold any row of
 * this code, or any row at all if it is NULL?
 */
static bool
has_rows(Oid schema, Relation redemptions, const char *index, text *code,
		 Snapshot snapshot)
{
	VoucherScan rows = {0};
	bool		found;

	if (code)
		voucher_scan_key(&rows, BTEqualStrategyNumber, F_TEXTEQ,
						 PointerGetDatum(code));
	voucher_scan_begin(&rows, redemptions, schema, index, snapshot);
	found = voucher_scan_next(&rows, ForwardScanDirection);
	voucher_scan_end(&rows);
	return found;
}

/*
 * Read the redemption that the scan has found.
 */
static void
read_redemption(VoucherScan *rows, VoucherRedemption *redemption)
{
	int			state_column = voucher_scan_is_null(rows, Anum_redemption_release_reason) ?
		Anum_redemption_status : Anum_redemption_release_reason;
	char	   *state = TextDatumGetCString(voucher_scan_datum(rows, state_column, TEXTOID));

	redemption->id = voucher_scan_int64(rows, Anum_redemption_id, 0);
	redemption->slot_no = voucher_scan_int32(rows, Anum_redemption_slot_no, 0);
	redemption->discount_amount =
		voucher_scan_int64(rows, Anum_redemption_discount_amount, 0);
	redemption->expires_at = voucher_scan_time(rows, Anum_redemption_expires_at, 0);

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

/* For bsearch(). */
static int
compare_ids(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return (x > y) - (x < y);
}

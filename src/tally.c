/*-------------------------------------------------------------------------
 *
 * tally.c
 *	  What the counters of a voucher say, and what the rows do.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/tally.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "columns.h"
#include "scan.h"
#include "tally.h"

static void read_counters(Oid schema, text *code, Snapshot snapshot,
						  VoucherTally *tally);
static void count_live(Oid schema, text *code, Snapshot snapshot,
					   VoucherTally *tally);
static int64 count_rows(Oid schema, const char *table, const char *index,
						text *code, Snapshot snapshot);
static void first_code_after(Oid schema, const char *table, const char *index,
							 int column, text *after, Snapshot snapshot,
							 text **first);

/*
 * Compare: read the counters of a voucher and count its rows, in one snapshot,
 * so that what is committed meanwhile is no difference.
 *
 * Reads every live redemption of the voucher.
 */
void
voucher_tally(Oid schema, text *code, VoucherTally *tally)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	memset(tally, 0, sizeof(VoucherTally));
	read_counters(schema, code, snapshot, tally);
	count_live(schema, code, snapshot, tally);
	tally->slots = count_rows(schema, "voucher_slot", "voucher_slot_pkey",
							  code, snapshot);
	if (!tally->voucher_exists)
		tally->orphans = tally->ordinary_live + tally->flash_live +
			count_rows(schema, "voucher_redemption",
					   "voucher_redemption_released_idx", code, snapshot);
	UnregisterSnapshot(snapshot);
}

/*
 * By how much does the counter of ordinary uses differ from the rows?
 */
int64
voucher_tally_drift(const VoucherTally *tally)
{
	return tally->used_count - tally->purged_count - tally->ordinary_live;
}

/*
 * Is anything wrong?  A customer over the limit is not: the limit may have been
 * lowered, which takes nothing away from anybody.
 */
bool
voucher_tally_has_drift(const VoucherTally *tally)
{
	return tally->voucher_exists ?
		voucher_tally_drift(tally) != 0 || tally->flash_quota != tally->slots :
		tally->orphans > 0;
}

/*
 * Give the least code after this one that a voucher or a redemption has; NULL
 * asks for the very first, and is the answer after the last.
 */
text *
voucher_tally_next_code(Oid schema, text *after)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	text	   *first = NULL;

	/* between them the partial indexes hold every redemption */
	first_code_after(schema, "voucher", "voucher_pkey",
					 Anum_voucher_code, after, snapshot, &first);
	first_code_after(schema, "voucher_redemption", "voucher_redemption_use_key",
					 Anum_redemption_voucher_code, after, snapshot, &first);
	first_code_after(schema, "voucher_redemption", "voucher_redemption_released_idx",
					 Anum_redemption_voucher_code, after, snapshot, &first);
	UnregisterSnapshot(snapshot);
	return first;
}

static void
read_counters(Oid schema, text *code, Snapshot snapshot, VoucherTally *tally)
{
	Relation	vouchers = voucher_scan_open_table(schema, "voucher");
	VoucherScan rows = {0};

	voucher_scan_key(&rows, BTEqualStrategyNumber, F_TEXTEQ,
					 PointerGetDatum(code));
	voucher_scan_begin(&rows, vouchers, schema, "voucher_pkey", snapshot);
	tally->voucher_exists = voucher_scan_next(&rows, ForwardScanDirection);
	if (tally->voucher_exists)
	{
		tally->total_limit =
			voucher_scan_int64(&rows, Anum_voucher_total_limit, PG_INT64_MAX);
		tally->per_user_limit =
			voucher_scan_int32(&rows, Anum_voucher_per_user_limit, 0);
		tally->used_count =
			voucher_scan_int64(&rows, Anum_voucher_used_count, 0);
		tally->purged_count =
			voucher_scan_int64(&rows, Anum_voucher_purged_count, 0);
		tally->flash_quota =
			voucher_scan_int32(&rows, Anum_voucher_flash_quota, 0);
	}
	voucher_scan_end(&rows);
	table_close(vouchers, NoLock);
}

/*
 * Count the live redemptions.  The index gives those of one customer together.
 */
static void
count_live(Oid schema, text *code, Snapshot snapshot, VoucherTally *tally)
{
	Relation	redemptions = voucher_scan_open_table(schema, "voucher_redemption");
	VoucherScan rows = {0};
	int64		customer_id = 0;
	int64		uses = 0;

	voucher_scan_key(&rows, BTEqualStrategyNumber, F_TEXTEQ,
					 PointerGetDatum(code));
	voucher_scan_begin(&rows, redemptions, schema, "voucher_redemption_use_key",
					   snapshot);
	while (voucher_scan_next(&rows, ForwardScanDirection))
	{
		int64		customer = voucher_scan_int64(&rows, Anum_redemption_customer_id, 0);

		CHECK_FOR_INTERRUPTS();
		if (voucher_scan_is_null(&rows, Anum_redemption_slot_no))
			tally->ordinary_live++;
		else
			tally->flash_live++;

		uses = customer == customer_id ? uses + 1 : 1;
		customer_id = customer;
		if (tally->per_user_limit > 0 && uses == (int64) tally->per_user_limit + 1)
			tally->customers_over_limit++;
	}
	voucher_scan_end(&rows);
	table_close(redemptions, NoLock);
}

/*
 * Count the rows of a code in an index that begins with it.
 */
static int64
count_rows(Oid schema, const char *table, const char *index, text *code,
		   Snapshot snapshot)
{
	Relation	relation = voucher_scan_open_table(schema, table);
	VoucherScan rows = {0};
	int64		count = 0;

	voucher_scan_key(&rows, BTEqualStrategyNumber, F_TEXTEQ,
					 PointerGetDatum(code));
	voucher_scan_begin(&rows, relation, schema, index, snapshot);
	while (voucher_scan_next(&rows, ForwardScanDirection))
	{
		CHECK_FOR_INTERRUPTS();
		count++;
	}
	voucher_scan_end(&rows);
	table_close(relation, NoLock);
	return count;
}

/*
 * Put the least code after the given one in an index that begins with it into
 * *first, unless there is a lesser one already.
 */
static void
first_code_after(Oid schema, const char *table, const char *index, int column,
				 text *after, Snapshot snapshot, text **first)
{
	Relation	relation = voucher_scan_open_table(schema, table);
	VoucherScan rows = {0};

	if (after)
		voucher_scan_key(&rows, BTGreaterStrategyNumber, F_TEXT_GT,
						 PointerGetDatum(after));
	voucher_scan_begin(&rows, relation, schema, index, snapshot);
	if (voucher_scan_next(&rows, ForwardScanDirection))
	{
		text	   *code = DatumGetTextPP(voucher_scan_datum(&rows, column, TEXTOID));

		if (*first == NULL || voucher_scan_compare_text(code, *first) < 0)
			*first = DatumGetTextPCopy(PointerGetDatum(code));
	}
	voucher_scan_end(&rows);
	table_close(relation, NoLock);
}

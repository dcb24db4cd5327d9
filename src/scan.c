/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  Scans of one index of one of the extension's tables.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/scan.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "scan.h"

/*
 * Open one of our tables for reading.
 *
 * What the transaction did so far becomes visible to the look-ups that
 * follow, as it would to an SQL statement.
 */
Relation
voucher_scan_open_table(Oid schema, const char *name)
{
	Oid			relid = get_relname_relid(name, schema);

	if (!OidIsValid(relid))
		elog(ERROR, "table \"%s\" of extension \"voucher\" is missing", name);
	CommandCounterIncrement();
	return table_open(relid, AccessShareLock);
}

/*
 * Add a condition on the next column of the index to a scan to begin.
 */
void
voucher_scan_key(VoucherScan *rows, StrategyNumber strategy,
				 RegProcedure compare, Datum value)
{
	Assert(rows->nkeys < lengthof(rows->keys));
	ScanKeyInit(&rows->keys[rows->nkeys], rows->nkeys + 1, strategy, compare,
				value);
	rows->nkeys++;
}

/*
 * Begin a scan, for the keys that were added.  Ended with voucher_scan_end(),
 * which leaves the scan without keys, or by an ERROR.
 */
void
voucher_scan_begin(VoucherScan *rows, Relation table, Oid schema,
				   const char *index, Snapshot snapshot)
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

/*
 * Go to the next row, in ascending or descending order; false at the end.
 */
bool
voucher_scan_next(VoucherScan *rows, ScanDirection direction)
{
	return index_getnext_slot(rows->scan, direction, rows->slot);
}

void
voucher_scan_end(VoucherScan *rows)
{
	index_endscan(rows->scan);
	ExecDropSingleTupleTableSlot(rows->slot);
	index_close(rows->index, NoLock);
	rows->nkeys = 0;
}

/*
 * Columns of the row that the scan is at.
 */
bool
voucher_scan_is_null(VoucherScan *rows, int attnum)
{
	return slot_attisnull(rows->slot, attnum);
}

/* Must not be NULL; points into the row. */
Datum
voucher_scan_datum(VoucherScan *rows, int attnum)
{
	bool		isnull;
	Datum		value = slot_getattr(rows->slot, attnum, &isnull);

	if (isnull)
		elog(ERROR, "unexpected null in column %d of extension \"voucher\"", attnum);
	return value;
}

bool
voucher_scan_bool(VoucherScan *rows, int attnum)
{
	bool		isnull;
	Datum		value = slot_getattr(rows->slot, attnum, &isnull);

	return !isnull && DatumGetBool(value);
}

int32
voucher_scan_int32(VoucherScan *rows, int attnum, int32 if_null)
{
	bool		isnull;
	Datum		value = slot_getattr(rows->slot, attnum, &isnull);

	return isnull ? if_null : DatumGetInt32(value);
}

/* Reads timestamptz as well. */
int64
voucher_scan_int64(VoucherScan *rows, int attnum, int64 if_null)
{
	bool		isnull;
	Datum		value = slot_getattr(rows->slot, attnum, &isnull);

	return isnull ? if_null : DatumGetInt64(value);
}

/* Is it this text, byte for byte? */
bool
voucher_scan_text_equals(VoucherScan *rows, int attnum, const text *value)
{
	bool		isnull;
	Datum		stored = slot_getattr(rows->slot, attnum, &isnull);

	return !isnull &&
		DatumGetBool(DirectFunctionCall2Coll(texteq, C_COLLATION_OID, stored,
											 PointerGetDatum(value)));
}

/* Compare two texts as the indexes do: less than, equal to or above 0. */
int
voucher_scan_compare_text(const text *a, const text *b)
{
	return DatumGetInt32(DirectFunctionCall2Coll(bttextcmp, C_COLLATION_OID,
												 PointerGetDatum(a),
												 PointerGetDatum(b)));
}

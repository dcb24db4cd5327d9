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
#include "catalog/pg_am.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "scan.h"

static Datum get_column(VoucherScan *rows, int attnum, Oid type, bool *isnull);
static void check_index(const VoucherScan *rows, Relation table);

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
	check_index(rows, table);
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
 * Columns of the row that the scan is at.  Throw if they are of another type:
 * the owner of a table may change it, and must not crash the server.
 */
bool
voucher_scan_is_null(VoucherScan *rows, int attnum)
{
	return attnum > rows->slot->tts_tupleDescriptor->natts ||
		slot_attisnull(rows->slot, attnum);
}

/* Must not be NULL; points into the row. */
Datum
voucher_scan_datum(VoucherScan *rows, int attnum, Oid type)
{
	bool		isnull;
	Datum		value = get_column(rows, attnum, type, &isnull);

	if (isnull)
		elog(ERROR, "unexpected null in column %d of extension \"voucher\"", attnum);
	return value;
}

bool
voucher_scan_bool(VoucherScan *rows, int attnum)
{
	bool		isnull;
	Datum		value = get_column(rows, attnum, BOOLOID, &isnull);

	return !isnull && DatumGetBool(value);
}

int32
voucher_scan_int32(VoucherScan *rows, int attnum, int32 if_null)
{
	bool		isnull;
	Datum		value = get_column(rows, attnum, INT4OID, &isnull);

	return isnull ? if_null : DatumGetInt32(value);
}

int64
voucher_scan_int64(VoucherScan *rows, int attnum, int64 if_null)
{
	bool		isnull;
	Datum		value = get_column(rows, attnum, INT8OID, &isnull);

	return isnull ? if_null : DatumGetInt64(value);
}

TimestampTz
voucher_scan_time(VoucherScan *rows, int attnum, TimestampTz if_null)
{
	bool		isnull;
	Datum		value = get_column(rows, attnum, TIMESTAMPTZOID, &isnull);

	return isnull ? if_null : DatumGetTimestampTz(value);
}

/* Is it this text, byte for byte? */
bool
voucher_scan_text_equals(VoucherScan *rows, int attnum, const text *value)
{
	bool		isnull;
	Datum		stored = get_column(rows, attnum, TEXTOID, &isnull);

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

static Datum
get_column(VoucherScan *rows, int attnum, Oid type, bool *isnull)
{
	TupleDesc	tupdesc = rows->slot->tts_tupleDescriptor;

	if (attnum > tupdesc->natts ||
		TupleDescAttr(tupdesc, attnum - 1)->atttypid != type)
		ereport(ERROR,
				errcode(ERRCODE_DATATYPE_MISMATCH),
				errmsg("column %d of table \"%s\" is not of type %s, as it was made",
					   attnum, RelationGetRelationName(rows->scan->heapRelation),
					   format_type_be(type)));
	return slot_getattr(rows->slot, attnum, isnull);
}

/*
 * Is the index what it was made for?
 */
static void
check_index(const VoucherScan *rows, Relation table)
{
	Relation	index = rows->index;
	bool		fits = index->rd_index->indrelid == RelationGetRelid(table) &&
		index->rd_rel->relam == BTREE_AM_OID &&
		rows->nkeys <= IndexRelationGetNumberOfKeyAttributes(index);

	for (int i = 0; fits && i < rows->nkeys; i++)
	{
		Oid			type = index->rd_opcintype[i];

		switch (rows->keys[i].sk_func.fn_oid)
		{
			case F_TEXTEQ:
			case F_TEXT_GT:
				fits = type == TEXTOID;
				break;
			case F_INT4GE:
				fits = type == INT4OID;
				break;
			case F_INT8EQ:
				fits = type == INT8OID;
				break;
			default:
				fits = type == TIMESTAMPTZOID;
		}
	}
	if (!fits)
		ereport(ERROR,
				errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("index \"%s\" is not on the columns that it was made for",
					   RelationGetRelationName(index)));
}

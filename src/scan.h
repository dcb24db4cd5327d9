/*-------------------------------------------------------------------------
 *
 * scan.h
 *	  Scans of one index of one of the extension's tables.
 *
 * Read straight through the index, as the server reads its catalogs: there is
 * no plan that could be a sequential scan because the table was empty when it
 * was made, and a refusal costs a few index probes.
 *
 *		VoucherScan rows = {0};
 *		Relation	table = voucher_scan_open_table(schema, "voucher");
 *
 *		voucher_scan_key(&rows, ...);			once for each leading column
 *		voucher_scan_begin(&rows, table, ...);
 *		while (voucher_scan_next(&rows, ...))
 *			voucher_scan_int64(&rows, ...);		and so on
 *		voucher_scan_end(&rows);
 *		table_close(table, NoLock);
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/scan.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_SCAN_H
#define VOUCHER_SCAN_H

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "executor/tuptable.h"
#include "utils/fmgroids.h"
#include "utils/snapshot.h"

typedef struct VoucherScan
{
	Relation	index;
	IndexScanDesc scan;
	TupleTableSlot *slot;		/* the row that is being looked at */
	ScanKeyData keys[2];
	int			nkeys;
} VoucherScan;

extern Relation voucher_scan_open_table(Oid schema, const char *name);
extern void voucher_scan_key(VoucherScan *rows, StrategyNumber strategy,
							 RegProcedure compare, Datum value);
extern void voucher_scan_begin(VoucherScan *rows, Relation table, Oid schema,
							   const char *index, Snapshot snapshot);
extern bool voucher_scan_next(VoucherScan *rows, ScanDirection direction);
extern void voucher_scan_end(VoucherScan *rows);

extern bool voucher_scan_is_null(VoucherScan *rows, int attnum);
extern Datum voucher_scan_datum(VoucherScan *rows, int attnum, Oid type);
extern bool voucher_scan_bool(VoucherScan *rows, int attnum);
extern int32 voucher_scan_int32(VoucherScan *rows, int attnum, int32 if_null);
extern int64 voucher_scan_int64(VoucherScan *rows, int attnum, int64 if_null);
extern TimestampTz voucher_scan_time(VoucherScan *rows, int attnum,
									 TimestampTz if_null);
extern bool voucher_scan_text_equals(VoucherScan *rows, int attnum,
									 const text *value);
extern int	voucher_scan_compare_text(const text *a, const text *b);

#endif							/* VOUCHER_SCAN_H */

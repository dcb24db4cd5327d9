/*-------------------------------------------------------------------------
 *
 * slots.c
 *	  The slots of a flash voucher: rows that are uses, one for one.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/slots.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "columns.h"
#include "scan.h"
#include "slots.h"

#define TAKEN \
	"EXISTS (SELECT FROM %1$s.voucher_redemption AS r" \
	" WHERE r.voucher_code = s.voucher_code AND r.slot_no = s.slot_no)"

static VoucherStatement lock_slot = {
	"SELECT FROM %1$s.voucher_slot WHERE voucher_code = $1 AND slot_no = $2"
	" FOR UPDATE SKIP LOCKED",
	2, {TEXTOID, INT4OID}
};

static VoucherStatement make_slots = {
	"INSERT INTO %1$s.voucher_slot (voucher_code, slot_no)"
	" SELECT $1, l.last + n FROM generate_series(1, $2) AS n,"
	" (SELECT coalesce(max(slot_no), 0) AS last FROM %1$s.voucher_slot"
	" WHERE voucher_code = $1) AS l",
	2, {TEXTOID, INT4OID}
};

/* for each of these, a slot that somebody else has locked is not there */
static VoucherStatement lock_free_slots = {
	"SELECT array_agg(f.slot_no) FROM (SELECT s.slot_no"
	" FROM %1$s.voucher_slot AS s WHERE s.voucher_code = $1 AND NOT " TAKEN
	" ORDER BY s.slot_no DESC LIMIT $2 FOR UPDATE OF s SKIP LOCKED) AS f",
	2, {TEXTOID, INT4OID}
};

static VoucherStatement lock_slots = {
	"SELECT array_agg(f.slot_no) FROM (SELECT slot_no"
	" FROM %1$s.voucher_slot WHERE voucher_code = $1"
	" FOR UPDATE SKIP LOCKED) AS f",
	1, {TEXTOID}
};

static VoucherStatement detach_slots = {
	"UPDATE %1$s.voucher_redemption SET slot_no = NULL WHERE id = ANY (ARRAY("
	"SELECT id FROM %1$s.voucher_redemption"
	" WHERE voucher_code = $1 AND slot_no = ANY ($2) FOR UPDATE SKIP LOCKED))",
	2, {TEXTOID, INT4ARRAYOID}
};

static VoucherStatement remove_slots = {
	"DELETE FROM %1$s.voucher_slot AS s"
	" WHERE s.voucher_code = $1 AND s.slot_no = ANY ($2) AND NOT " TAKEN,
	2, {TEXTOID, INT4ARRAYOID}
};

static int	find_free(Oid schema, text *code, Snapshot snapshot, int32 from,
					  int32 *slots, int max);
static int	find_in_range(Oid schema, text *code, Snapshot snapshot,
						  int32 from, int32 to, int32 *slots, int max);
static void begin_from(VoucherScan *rows, Relation table, Oid schema,
					   const char *index, text *code, int32 from,
					   Snapshot snapshot);

/*
 * Find slots that no live redemption has, committed or not, the first from the
 * given number on and then from the beginning.  Fills in up to max of them and
 * returns how many.
 *
 * Reads every slot up to the last one it finds, and all if there are none.
 */
int
voucher_slots_find_free(Oid schema, text *code, int32 from, int32 *slots,
						int max)
{
	return find_free(schema, code, GetLatestSnapshot(), from, slots, max);
}

/*
 * The same for a transaction that is to take one: above READ COMMITTED the
 * foreign key knows the slots of the transaction's snapshot only.  Throws if
 * there are others, but none of those.
 */
int
voucher_slots_find_takeable(Oid schema, text *code, int32 from, int32 *slots,
							int max)
{
	int			found;

	if (!IsolationUsesXactSnapshot())
		return voucher_slots_find_free(schema, code, from, slots, max);

	found = find_free(schema, code, GetTransactionSnapshot(), from, slots, max);
	if (found == 0 && voucher_slots_find_free(schema, code, from, slots, 1) > 0)
		ereport(ERROR,
				errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				errmsg("could not serialize access due to concurrent update"));
	return found;
}

/*
 * Lock a slot, so that this transaction may take it.  False if somebody else
 * has it, or it is gone; never waits.
 */
bool
voucher_slots_lock_free(VoucherSql *sql, Oid schema, text *code, int32 slot_no)
{
	Datum		values[] = {PointerGetDatum(code), Int32GetDatum(slot_no)};

	/* it may have been taken before it could be locked */
	return voucher_sql_exists(sql, &lock_slot, values) &&
		find_in_range(schema, code, GetLatestSnapshot(), slot_no, slot_no,
					  &slot_no, 1) == 1;
}

/*
 * Make n more slots.  The caller has locked the voucher.
 */
void
voucher_slots_make(VoucherSql *sql, text *code, int32 n)
{
	Datum		values[] = {PointerGetDatum(code), Int32GetDatum(n)};

	(void) voucher_sql_run(sql, &make_slots, values, NULL);
}

/*
 * Take up to max slots away that nobody has, and return how many; never waits.
 * The last ones, so that those that stay are not found behind dead rows.
 */
int32
voucher_slots_remove_free(VoucherSql *sql, text *code, int32 max)
{
	Datum		values[] = {PointerGetDatum(code), Int32GetDatum(max)};
	bool		isnull;

	(void) voucher_sql_run(sql, &lock_free_slots, values, NULL);
	values[1] = voucher_sql_value(0, 1, &isnull);

	/* some may have been taken before they could be locked */
	return isnull ? 0 : voucher_sql_run(sql, &remove_slots, values, NULL);
}

/*
 * Take all slots away but those of calls in flight, and return how many; never
 * waits.  Live redemptions become ordinary uses; *detached tells how many.
 */
int32
voucher_slots_dissolve(VoucherSql *sql, text *code, int64 *detached)
{
	Datum		values[] = {PointerGetDatum(code), (Datum) 0};
	bool		isnull;

	*detached = 0;
	(void) voucher_sql_run(sql, &lock_slots, values, NULL);
	values[1] = voucher_sql_value(0, 1, &isnull);
	if (isnull)
		return 0;

	*detached = voucher_sql_run(sql, &detach_slots, values, NULL);
	return voucher_sql_run(sql, &remove_slots, values, NULL);
}

/*
 * Give the least code after this one that has slots; NULL asks for the very
 * first, and is the answer after the last.
 */
text *
voucher_slots_next_code(Oid schema, text *after)
{
	Relation	table = voucher_scan_open_table(schema, "voucher_slot");
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	VoucherScan rows = {0};
	text	   *code = NULL;

	if (after)
		voucher_scan_key(&rows, BTGreaterStrategyNumber, F_TEXT_GT,
						 PointerGetDatum(after));
	voucher_scan_begin(&rows, table, schema, "voucher_slot_pkey", snapshot);
	if (voucher_scan_next(&rows, ForwardScanDirection))
		code = DatumGetTextPCopy(voucher_scan_datum(&rows, Anum_slot_voucher_code,
													TEXTOID));
	voucher_scan_end(&rows);
	UnregisterSnapshot(snapshot);
	table_close(table, NoLock);
	return code;
}

/*
 * Find free slots among those that the snapshot has, round and round from the
 * given number on.
 */
static int
find_free(Oid schema, text *code, Snapshot snapshot, int32 from, int32 *slots,
		  int max)
{
	int			found;

	snapshot = RegisterSnapshot(snapshot);
	found = find_in_range(schema, code, snapshot, from, PG_INT32_MAX, slots, max);
	if (found < max && from > 1)
		found += find_in_range(schema, code, snapshot, 1, from - 1,
							   slots + found, max - found);
	UnregisterSnapshot(snapshot);
	return found;
}

/*
 * Find free slots in a range of numbers: those of the table that are not among
 * those of the redemptions.
 *
 * The dirty snapshot shows redemptions that are not committed yet, and those
 * whose release is not.
 */
static int
find_in_range(Oid schema, text *code, Snapshot snapshot, int32 from, int32 to,
			  int32 *slots, int max)
{
	Relation	table = voucher_scan_open_table(schema, "voucher_slot");
	Relation	redemptions = voucher_scan_open_table(schema, "voucher_redemption");
	SnapshotData dirty;
	VoucherScan all = {0};
	VoucherScan taken = {0};
	int32		next_taken = 0; /* the first that is not below the slot */
	int			found = 0;

	snapshot = RegisterSnapshot(snapshot);
	InitDirtySnapshot(dirty);
	begin_from(&all, table, schema, "voucher_slot_pkey", code, from, snapshot);
	begin_from(&taken, redemptions, schema, "voucher_redemption_slot_key",
			   code, from, &dirty);
	while (found < max && voucher_scan_next(&all, ForwardScanDirection))
	{
		int32		slot_no = voucher_scan_int32(&all, Anum_slot_no, 0);

		CHECK_FOR_INTERRUPTS();
		if (slot_no > to)
			break;
		while (next_taken < slot_no)
			next_taken = voucher_scan_next(&taken, ForwardScanDirection) ?
				voucher_scan_int32(&taken, Anum_redemption_slot_no, 0) :
				PG_INT32_MAX;
		if (next_taken != slot_no)
			slots[found++] = slot_no;
	}
	voucher_scan_end(&taken);
	voucher_scan_end(&all);
	UnregisterSnapshot(snapshot);
	table_close(redemptions, NoLock);
	table_close(table, NoLock);
	return found;
}

/* Begin a scan of an index on (voucher_code, slot_no). */
static void
begin_from(VoucherScan *rows, Relation table, Oid schema, const char *index,
		   text *code, int32 from, Snapshot snapshot)
{
	voucher_scan_key(rows, BTEqualStrategyNumber, F_TEXTEQ,
					 PointerGetDatum(code));
	voucher_scan_key(rows, BTGreaterEqualStrategyNumber, F_INT4GE,
					 Int32GetDatum(from));
	voucher_scan_begin(rows, table, schema, index, snapshot);
}

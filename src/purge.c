/*-------------------------------------------------------------------------
 *
 * purge.c
 *	  Deletion of old history.
 *
 * A confirmed use that is purged stays counted in used_count, and is noted in
 * purged_count: the voucher has as few uses left as before, and the rows can
 * still be compared with the counter.
 *
 * Note about locking: nothing here ever waits, since it skips what others
 * have locked.  That is why it may lock a voucher before its redemptions.  What
 * follows in the same transaction may wait, though.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/purge.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "purge.h"
#include "store.h"

static int	purge_released(VoucherSql *sql, Oid schema, TimestampTz before,
						   int64 *ids, int batch);
static int	purge_confirmed(VoucherSql *sql, Oid schema, text *code,
							TimestampTz before, int64 *ids, int batch);

/*
 * Delete up to batch redemptions that were released before the given instant,
 * or confirmed before it for a voucher that has ended; return how many.
 *
 * Fewer than batch means that nothing is left but what other transactions are
 * working on.  Confirmed uses of a voucher that may still be reserved are
 * kept, since they count against the limit of their customer.
 */
int64
voucher_purge_history(Oid schema, TimestampTz before, int32 batch)
{
	VoucherSql sql;
	int64	   *ids = palloc(batch * sizeof(int64));
	int			deleted;

	voucher_sql_open(&sql, schema);
	deleted = purge_released(&sql, schema, before, ids, batch);

	if (deleted < batch)
	{
		text	  **codes;
		int			ncodes = voucher_store_ended(&sql, &codes);

		for (int i = 0; i < ncodes && deleted < batch; i++)
			deleted += purge_confirmed(&sql, schema, codes[i], before, ids,
									   batch - deleted);
	}

	voucher_sql_close(&sql);
	pfree(ids);
	return deleted;
}

/*
 * Released rows, which nothing counts.  The buffer has room for batch ids.
 */
static int
purge_released(VoucherSql *sql, Oid schema, TimestampTz before, int64 *ids,
			   int batch)
{
	int			found = voucher_rows_released(schema, before, ids, batch);

	return found == 0 ? 0 : voucher_store_delete(sql, ids, found, VOUCHER_STATE_RELEASED);
}

/*
 * Confirmed rows of one voucher, unless another transaction has locked it.
 */
static int
purge_confirmed(VoucherSql *sql, Oid schema, text *code,
				TimestampTz before, int64 *ids, int batch)
{
	int			found = voucher_rows_confirmed(schema, code, before, ids, batch);
	int			deleted;

	CHECK_FOR_INTERRUPTS();
	if (found == 0 || !voucher_store_lock_ended(sql, code))
		return 0;

	deleted = voucher_store_delete(sql, ids, found, VOUCHER_STATE_CONFIRMED);
	if (deleted > 0)
		voucher_store_note_purged(sql, code, deleted);
	return deleted;
}

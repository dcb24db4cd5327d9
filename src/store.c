/*-------------------------------------------------------------------------
 *
 * store.c
 *	  Every change to vouchers and redemptions.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/store.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "store.h"

/*
 * Rows are found by primary key.  With "status = ..." the planner could take
 * any of the partial indexes, which look just as cheap while they are empty,
 * and scan all of it for the rest of a sale; an expression keeps it from that.
 */
#define RESERVED	"status || '' = 'RESERVED'"
#define LIVE		"status || '' IN ('RESERVED', 'CONFIRMED')"

/*
 * The terms of voucher v as rows.c reads them, in the order of VoucherTerms
 * and never NULL, to be compared with those that a call decided on.
 */
#define TERMS \
	"v.enabled, v.starts_at, v.ends_at," \
	" coalesce(v.min_order_amount, 0)," \
	" coalesce(v.discount_amount, 0)," \
	" coalesce((v.discount_percent * " CppAsString2(VOUCHER_PERCENT_SCALE) ")::int8, 0)," \
	" coalesce(v.max_discount_amount, 9223372036854775807)," \
	" coalesce(v.per_user_limit, 0)," \
	" coalesce(v.hold_time, '0')"
#define NUM_TERMS	9

typedef enum StoreStatement
{
	STMT_NUMBER_USE,
	STMT_EXPIRE,
	STMT_INSERT,
	STMT_REMOVE,
	STMT_CONFIRM,
	STMT_RELEASE,
	STMT_REFUND,
	STMT_EXTEND,
	STMT_TAKE,
	STMT_GIVE_BACK,
	STMT_GIVE_BACK_ALL,
	STMT_SET_LIMIT,
	STMT_SET_FLASH,
	STMT_LOCK,
	STMT_TRY_LOCK,
	STMT_SET_USED,
	STMT_COPY,
	STMT_ENDED,
	STMT_LOCK_ENDED,
	STMT_DELETE,
	STMT_NOTE_PURGED
} StoreStatement;

static VoucherStatement statements[] =
{
	[STMT_NUMBER_USE] = {
		"UPDATE %1$s.voucher_redemption SET use_no = $2"
		" WHERE id = $1 AND " LIVE " AND (use_no IS NULL OR use_no > $3)",
		3, {INT8OID, INT4OID, INT4OID}
	},
	[STMT_EXPIRE] = {
		"WITH lapsed AS MATERIALIZED (SELECT id, slot_no FROM %1$s.voucher_redemption"
		" WHERE id = ANY ($1) AND " RESERVED " AND expires_at <= clock_timestamp()"
		" FOR UPDATE SKIP LOCKED),"
		" expired AS (UPDATE %1$s.voucher_redemption"
		" SET status = 'RELEASED', released_at = clock_timestamp(),"
		" release_reason = 'EXPIRED', slot_no = NULL"
		" WHERE id = ANY (ARRAY(SELECT id FROM lapsed))"
		" AND " RESERVED " RETURNING id, voucher_code)"
		" SELECT voucher_code, count(*), count(*) FILTER (WHERE slot_no IS NULL)"
		" FROM expired JOIN lapsed USING (id) GROUP BY 1 ORDER BY 1",
		1, {INT8ARRAYOID}
	},
	[STMT_INSERT] = {
		"INSERT INTO %1$s.voucher_redemption (voucher_code, customer_id,"
		" order_id, order_amount, status, discount_amount, use_no, slot_no,"
		" created_at, expires_at, confirmed_at)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
		" ON CONFLICT DO NOTHING RETURNING id",
		11, {TEXTOID, INT8OID, TEXTOID, INT8OID, TEXTOID, INT8OID, INT4OID,
		INT4OID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID}
	},
	[STMT_REMOVE] = {
		"DELETE FROM %1$s.voucher_redemption WHERE id = $1",
		1, {INT8OID}
	},
	[STMT_CONFIRM] = {
		"UPDATE %1$s.voucher_redemption"
		" SET status = 'CONFIRMED', confirmed_at = clock_timestamp()"
		" WHERE id = $1 AND " RESERVED,
		1, {INT8OID}
	},
	[STMT_RELEASE] = {
		"UPDATE %1$s.voucher_redemption"
		" SET status = 'RELEASED', released_at = clock_timestamp(),"
		" release_reason = 'RELEASED', slot_no = NULL"
		" WHERE id = $1 AND " RESERVED " AND coalesce(slot_no, 0) = $2",
		2, {INT8OID, INT4OID}
	},
	[STMT_REFUND] = {
		"UPDATE %1$s.voucher_redemption"
		" SET status = 'RELEASED', released_at = clock_timestamp(),"
		" release_reason = 'REFUNDED', slot_no = NULL"
		" WHERE id = $1 AND status || '' = 'CONFIRMED' AND coalesce(slot_no, 0) = $2",
		2, {INT8OID, INT4OID}
	},
	[STMT_EXTEND] = {
		"UPDATE %1$s.voucher_redemption"
		" SET expires_at = greatest(expires_at, $2)"
		" WHERE id = $1 AND " RESERVED " RETURNING expires_at",
		2, {INT8OID, TIMESTAMPTZOID}
	},
	[STMT_TAKE] = {
		"UPDATE %1$s.voucher AS v SET used_count = v.used_count + 1 - $2"
		" WHERE v.code = $1"
		" AND (v.total_limit IS NULL"
		" OR v.used_count - $2 + v.flash_quota < v.total_limit)"
		" AND v.starts_at <= clock_timestamp() AND clock_timestamp() < v.ends_at"
		" AND (" TERMS ") = ($3, $4, $5, $6, $7, $8, $9, $10, $11)",
		11, {TEXTOID, INT8OID, BOOLOID, TIMESTAMPTZOID, TIMESTAMPTZOID,
		INT8OID, INT8OID, INT8OID, INT8OID, INT4OID, INTERVALOID}
	},
	[STMT_GIVE_BACK] = {
		"UPDATE %1$s.voucher SET used_count = used_count - $2"
		" WHERE code = $1 AND used_count - purged_count >= $2",
		2, {TEXTOID, INT8OID}
	},
	[STMT_GIVE_BACK_ALL] = {
		"UPDATE %1$s.voucher SET used_count = purged_count WHERE code = $1",
		1, {TEXTOID}
	},
	[STMT_SET_LIMIT] = {
		"UPDATE %1$s.voucher SET total_limit = nullif($2, 9223372036854775807),"
		" flash_quota = flash_quota + $3"
		" WHERE code = $1 AND used_count + flash_quota + $3 <= $2",
		3, {TEXTOID, INT8OID, INT4OID}
	},
	[STMT_SET_FLASH] = {
		"UPDATE %1$s.voucher SET flash = $2, flash_quota = flash_quota + $3,"
		" used_count = used_count + $4"
		" WHERE code = $1"
		" AND (total_limit IS NULL OR used_count + flash_quota + $3 + $4 <= total_limit)",
		4, {TEXTOID, BOOLOID, INT4OID, INT8OID}
	},
	[STMT_LOCK] = {
		"SELECT FROM %1$s.voucher WHERE code = $1 FOR NO KEY UPDATE",
		1, {TEXTOID}
	},
	[STMT_TRY_LOCK] = {
		"SELECT FROM %1$s.voucher WHERE code = $1 FOR NO KEY UPDATE SKIP LOCKED",
		1, {TEXTOID}
	},
	[STMT_SET_USED] = {
		"UPDATE %1$s.voucher SET used_count = $2 WHERE code = $1",
		2, {TEXTOID, INT8OID}
	},
	[STMT_COPY] = {
		"INSERT INTO %1$s.voucher (code, discount_amount, discount_percent,"
		" max_discount_amount, min_order_amount, total_limit, per_user_limit,"
		" hold_time, starts_at, ends_at, enabled)"
		" SELECT c.code, t.discount_amount, t.discount_percent,"
		" t.max_discount_amount, t.min_order_amount, t.total_limit,"
		" t.per_user_limit, t.hold_time, t.starts_at, t.ends_at, t.enabled"
		" FROM unnest($2) AS c(code), %1$s.voucher AS t WHERE t.code = $1"
		" ON CONFLICT DO NOTHING RETURNING code",
		2, {TEXTOID, TEXTARRAYOID}
	},
	[STMT_ENDED] = {
		"SELECT code FROM %1$s.voucher"
		" WHERE ends_at <= clock_timestamp() AND used_count > purged_count"
		" ORDER BY ends_at",
		0, {0}
	},
	[STMT_LOCK_ENDED] = {
		"SELECT FROM %1$s.voucher"
		" WHERE code = $1 AND ends_at <= clock_timestamp()"
		" FOR NO KEY UPDATE SKIP LOCKED",
		1, {TEXTOID}
	},
	[STMT_DELETE] = {
		"DELETE FROM %1$s.voucher_redemption WHERE id = ANY (ARRAY("
		"SELECT id FROM %1$s.voucher_redemption"
		" WHERE id = ANY ($1) AND status || '' = $2"
		" FOR UPDATE SKIP LOCKED))",
		2, {INT8ARRAYOID, TEXTOID}
	},
	[STMT_NOTE_PURGED] = {
		"UPDATE %1$s.voucher SET purged_count = purged_count + $2"
		" WHERE code = $1",
		2, {TEXTOID, INT8OID}
	}
};

static uint64 run(VoucherSql *sql, StoreStatement statement, Datum *values,
				  const char *nulls);
static bool run_by_id(VoucherSql *sql, StoreStatement statement, int64 id);
static bool run_to_free(VoucherSql *sql, StoreStatement statement,
						const VoucherRedemption *redemption);
static Datum int8_array(const int64 *values, int n);

/*
 * Give a live redemption a use_no within the limit, where the UNIQUE index
 * bounds it: one that was made while there was no limit has none, and one that
 * was made under a higher limit may have too high a number.
 *
 * False if somebody else did so, or released it.
 */
bool
voucher_store_number_use(VoucherSql *sql, int64 id, int32 use_no,
						 int32 limit)
{
	Datum		values[] = {
		Int64GetDatum(id),
		Int32GetDatum(use_no),
		Int32GetDatum(limit)
	};

	return run(sql, STMT_NUMBER_USE, values, NULL) > 0;
}

/*
 * RESERVED to RELEASED, those of the holds that have lapsed and that no other
 * session is working on; never waits.  Fills in for each voucher, in order of
 * code, how many of its holds that were, and returns the number of vouchers.
 * The ordinary uses stay counted: the caller takes them over, or gives them
 * back with voucher_store_give_back().
 */
int
voucher_store_expire(VoucherSql *sql, const int64 *ids, int nids,
					 VoucherUses **expired)
{
	Datum		values[] = {int8_array(ids, nids)};
	int			count = run(sql, STMT_EXPIRE, values, NULL);

	*expired = palloc(count * sizeof(VoucherUses));
	for (int i = 0; i < count; i++)
	{
		bool		isnull;

		(*expired)[i].code = DatumGetTextPCopy(voucher_sql_value(i, 1, &isnull));
		(*expired)[i].uses = DatumGetInt64(voucher_sql_value(i, 2, &isnull));
		(*expired)[i].ordinary = DatumGetInt64(voucher_sql_value(i, 3, &isnull));
	}
	SPI_freetuptable(SPI_tuptable);
	return count;
}

/*
 * Insert a redemption in the given state (RESERVED or CONFIRMED), with the
 * given slot, discount and deadline, and learn its id.  A use_no or slot_no of
 * 0 means none.
 *
 * False if another live redemption has the order id, the use_no or the slot.
 * Waits for an uncommitted one to end.
 */
bool
voucher_store_insert(VoucherSql *sql, const VoucherRequest *request,
					 int32 use_no, TimestampTz now,
					 VoucherRedemption *redemption)
{
	Datum		values[] = {
		PointerGetDatum(request->code),
		Int64GetDatum(request->customer_id),
		PointerGetDatum(request->order_id),
		Int64GetDatum(request->order_amount),
		CStringGetTextDatum(voucher_state_names[redemption->state]),
		Int64GetDatum(redemption->discount_amount),
		Int32GetDatum(use_no),
		Int32GetDatum(redemption->slot_no),
		TimestampTzGetDatum(now),
		TimestampTzGetDatum(redemption->expires_at),
		TimestampTzGetDatum(now)
	};
	char		nulls[] = "           ";
	bool		isnull;

	if (use_no == 0)
		nulls[6] = 'n';
	if (redemption->slot_no == 0)
		nulls[7] = 'n';
	if (redemption->state != VOUCHER_STATE_CONFIRMED)
		nulls[10] = 'n';

	if (run(sql, STMT_INSERT, values, nulls) == 0)
		return false;
	redemption->id = DatumGetInt64(voucher_sql_value(0, 1, &isnull));
	return true;
}

/*
 * Take the call's own new redemption back.
 */
void
voucher_store_remove(VoucherSql *sql, int64 id)
{
	(void) run_by_id(sql, STMT_REMOVE, id);
}

/*
 * RESERVED to CONFIRMED.  False if the redemption is no longer RESERVED;
 * waits for whoever is changing it.
 */
bool
voucher_store_confirm(VoucherSql *sql, VoucherRedemption *redemption)
{
	return run_by_id(sql, STMT_CONFIRM, redemption->id);
}

/*
 * RESERVED to RELEASED, likewise, and with slot_no as given.  An ordinary use
 * stays counted until voucher_store_give_back().
 */
bool
voucher_store_release(VoucherSql *sql, VoucherRedemption *redemption)
{
	return run_to_free(sql, STMT_RELEASE, redemption);
}

/*
 * CONFIRMED to RELEASED, for the reason REFUNDED, likewise.
 */
bool
voucher_store_refund(VoucherSql *sql, VoucherRedemption *redemption)
{
	return run_to_free(sql, STMT_REFUND, redemption);
}

/*
 * RESERVED until the given expires_at, if that is later than its deadline
 * now; sets expires_at to what holds.  False as voucher_store_confirm().
 */
bool
voucher_store_extend(VoucherSql *sql, VoucherRedemption *redemption)
{
	Datum		values[] = {
		Int64GetDatum(redemption->id),
		TimestampTzGetDatum(redemption->expires_at)
	};
	bool		isnull;

	if (run(sql, STMT_EXTEND, values, NULL) == 0)
		return false;
	redemption->expires_at =
		DatumGetTimestampTz(voucher_sql_value(0, 1, &isnull));
	return true;
}

/*
 * Count one use on the voucher, of which returned (0 or 1) were given back by
 * the same call and are counted still.
 *
 * The conditions are evaluated on the row as it is once its lock is ours: it
 * has the very terms that the call decided on, the window is open, and a use
 * is left.  False otherwise, with nothing changed.
 */
bool
voucher_store_take(VoucherSql *sql, text *code, const VoucherTerms *terms,
				   int64 returned)
{
	Interval	hold_time = {.time = terms->hold_time};
	Datum		values[] = {
		PointerGetDatum(code),
		Int64GetDatum(returned),
		BoolGetDatum(terms->enabled),
		TimestampTzGetDatum(terms->starts_at),
		TimestampTzGetDatum(terms->ends_at),
		Int64GetDatum(terms->min_order_amount),
		Int64GetDatum(terms->discount_amount),
		Int64GetDatum(terms->discount_percent),
		Int64GetDatum(terms->max_discount_amount),
		Int32GetDatum(terms->per_user_limit),
		IntervalPGetDatum(&hold_time)
	};

	return run(sql, STMT_TAKE, values, NULL) > 0;
}

/*
 * Uncount uses of the voucher.  False if fewer are counted, which are
 * uncounted then, or if there is no such voucher: the tables were changed
 * behind our back.
 */
bool
voucher_store_give_back(VoucherSql *sql, text *code, int64 uses)
{
	Datum		values[] = {PointerGetDatum(code), Int64GetDatum(uses)};

	if (run(sql, STMT_GIVE_BACK, values, NULL) > 0)
		return true;
	(void) run(sql, STMT_GIVE_BACK_ALL, values, NULL);
	return false;
}

/*
 * Set the total_limit of the voucher, PG_INT64_MAX for none, and add to its
 * flash_quota.  False if that is not enough for the uses that are counted, or
 * if there is no such voucher.
 */
bool
voucher_store_set_limit(VoucherSql *sql, text *code, int64 limit, int32 slots)
{
	Datum		values[] = {
		PointerGetDatum(code),
		Int64GetDatum(limit),
		Int32GetDatum(slots)
	};

	return run(sql, STMT_SET_LIMIT, values, NULL) > 0;
}

/*
 * Open the voucher as a flash sale or close it, and add to its flash_quota and
 * its ordinary uses.  False if its limit does not cover them, or if there is no
 * such voucher.
 */
bool
voucher_store_set_flash(VoucherSql *sql, text *code, bool flash, int32 slots,
						int64 ordinary)
{
	Datum		values[] = {
		PointerGetDatum(code),
		BoolGetDatum(flash),
		Int32GetDatum(slots),
		Int64GetDatum(ordinary)
	};

	return run(sql, STMT_SET_FLASH, values, NULL) > 0;
}

/*
 * Lock the voucher.  False if there is none.
 */
bool
voucher_store_lock(VoucherSql *sql, text *code)
{
	Datum		values[] = {PointerGetDatum(code)};

	return voucher_sql_exists(sql, &statements[STMT_LOCK], values);
}

/*
 * Likewise, and false also if somebody else has locked it; never waits.
 */
bool
voucher_store_try_lock(VoucherSql *sql, text *code)
{
	Datum		values[] = {PointerGetDatum(code)};

	return voucher_sql_exists(sql, &statements[STMT_TRY_LOCK], values);
}

/*
 * Make the count of ordinary uses what the rows say.
 */
void
voucher_store_set_used(VoucherSql *sql, text *code, int64 uses)
{
	Datum		values[] = {PointerGetDatum(code), Int64GetDatum(uses)};

	(void) run(sql, STMT_SET_USED, values, NULL);
}

/*
 * Make a voucher of each of the codes that is not taken, with the terms that
 * the template has in the snapshot.  Puts the codes that were made into the
 * tuplestore, and returns how many they are.
 */
uint64
voucher_store_copy(VoucherSql *sql, Snapshot snapshot, text *template,
				   Datum codes, Tuplestorestate *made, TupleDesc tupdesc)
{
	Datum		values[] = {PointerGetDatum(template), codes};
	uint64		count = voucher_sql_run_with(sql, &statements[STMT_COPY],
											 values, snapshot);

	for (uint64 i = 0; i < count; i++)
	{
		bool		isnull;
		Datum		value = voucher_sql_value(i, 1, &isnull);

		tuplestore_putvalues(made, tupdesc, &value, &isnull);
	}
	SPI_freetuptable(SPI_tuptable);
	return count;
}

/*
 * Find the vouchers that have ended and have uses that are not purged, the
 * one that ended first at first.  Returns how many, and their codes in the
 * memory context of the caller's SPI connection, gone when the store closes.
 */
int
voucher_store_ended(VoucherSql *sql, text ***codes)
{
	int			count = run(sql, STMT_ENDED, NULL, NULL);

	*codes = palloc(count * sizeof(text *));
	for (int i = 0; i < count; i++)
	{
		bool		isnull;

		(*codes)[i] = DatumGetTextPCopy(voucher_sql_value(i, 1, &isnull));
	}
	SPI_freetuptable(SPI_tuptable);
	return count;
}

/*
 * Lock the voucher, if it has ended; never waits.  False also if somebody
 * else has locked it.
 */
bool
voucher_store_lock_ended(VoucherSql *sql, text *code)
{
	Datum		values[] = {PointerGetDatum(code)};

	return voucher_sql_exists(sql, &statements[STMT_LOCK_ENDED], values);
}

/*
 * Delete those of the redemptions that have this status and that no other
 * session is working on; never waits.  Returns how many.
 */
int
voucher_store_delete(VoucherSql *sql, const int64 *ids, int nids,
					 VoucherState state)
{
	Datum		values[] = {
		int8_array(ids, nids),
		CStringGetTextDatum(voucher_state_names[state])
	};
	int			deleted = run(sql, STMT_DELETE, values, NULL);

	pfree(DatumGetPointer(values[0]));
	pfree(DatumGetPointer(values[1]));
	return deleted;
}

/*
 * Note that so many live uses of the voucher have no row any more.
 */
void
voucher_store_note_purged(VoucherSql *sql, text *code, int64 uses)
{
	Datum		values[] = {PointerGetDatum(code), Int64GetDatum(uses)};

	(void) run(sql, STMT_NOTE_PURGED, values, NULL);
}

/*
 * Run a statement; return the number of rows.
 */
static uint64
run(VoucherSql *sql, StoreStatement statement, Datum *values,
	const char *nulls)
{
	return voucher_sql_run(sql, &statements[statement], values, nulls);
}

/*
 * Run a statement on one redemption; was there such a row?
 */
static bool
run_by_id(VoucherSql *sql, StoreStatement statement, int64 id)
{
	Datum		values[] = {Int64GetDatum(id)};

	return run(sql, statement, values, NULL) > 0;
}

/* Run a statement that frees a use, if it is still what it was seen to be. */
static bool
run_to_free(VoucherSql *sql, StoreStatement statement,
			const VoucherRedemption *redemption)
{
	Datum		values[] = {
		Int64GetDatum(redemption->id),
		Int32GetDatum(redemption->slot_no)
	};

	return run(sql, statement, values, NULL) > 0;
}

/* Make an int8[]. */
static Datum
int8_array(const int64 *values, int n)
{
	Datum	   *elements = palloc(n * sizeof(Datum));
	ArrayType  *array;

	for (int i = 0; i < n; i++)
		elements[i] = Int64GetDatum(values[i]);
	array = construct_array(elements, n, INT8OID, sizeof(int64),
							FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
	pfree(elements);
	return PointerGetDatum(array);
}

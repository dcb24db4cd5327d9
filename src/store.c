/*-------------------------------------------------------------------------
 *
 * store.c
 *	  Every SQL statement on the extension's tables.
 *
 * Statements are prepared once per backend and schema, and kept.  The plan
 * cache finds the tables anew after DISCARD ALL, DROP EXTENSION, CREATE
 * EXTENSION and the like, since it analyzes the text again; only another
 * schema name makes another text.
 *
 * Within the pinned search_path operators and functions can come from
 * pg_catalog only; the tables are qualified.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/store.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
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
	" coalesce((extract(epoch FROM v.hold_time) * 1000000)::int8, 0)"
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
	STMT_SET_LIMIT,
	STMT_COPY,
	STMT_ENDED,
	STMT_LOCK_ENDED,
	STMT_DELETE,
	STMT_NOTE_PURGED,
	NUM_STATEMENTS
} StoreStatement;

#define MAX_ARGS	(2 + NUM_TERMS)

/* %1$s stands for the extension's schema */
static const struct
{
	const char *sql;
	int			nargs;
	Oid			argtypes[MAX_ARGS];
}			statements[NUM_STATEMENTS] =
{
	[STMT_NUMBER_USE] = {
		"UPDATE %1$s.voucher_redemption SET use_no = $2"
		" WHERE id = $1 AND " LIVE " AND (use_no IS NULL OR use_no > $3)",
		3, {INT8OID, INT4OID, INT4OID}
	},
	[STMT_EXPIRE] = {
		"UPDATE %1$s.voucher_redemption"
		" SET status = 'RELEASED', released_at = clock_timestamp(),"
		" release_reason = 'EXPIRED', slot_no = NULL"
		" WHERE id = (SELECT id FROM %1$s.voucher_redemption"
		" WHERE id = $1 AND " RESERVED " AND expires_at <= clock_timestamp()"
		" FOR UPDATE SKIP LOCKED)"
		" AND " RESERVED,
		1, {INT8OID}
	},
	[STMT_INSERT] = {
		"INSERT INTO %1$s.voucher_redemption (voucher_code, customer_id,"
		" order_id, order_amount, status, discount_amount, use_no,"
		" created_at, expires_at, confirmed_at)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
		" ON CONFLICT DO NOTHING RETURNING id",
		10, {TEXTOID, INT8OID, TEXTOID, INT8OID, TEXTOID, INT8OID, INT4OID,
		TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID}
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
		" WHERE id = $1 AND " RESERVED,
		1, {INT8OID}
	},
	[STMT_REFUND] = {
		"UPDATE %1$s.voucher_redemption"
		" SET status = 'RELEASED', released_at = clock_timestamp(),"
		" release_reason = 'REFUNDED', slot_no = NULL"
		" WHERE id = $1 AND status || '' = 'CONFIRMED'",
		1, {INT8OID}
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
		INT8OID, INT8OID, INT8OID, INT8OID, INT4OID, INT8OID}
	},
	[STMT_GIVE_BACK] = {
		"UPDATE %1$s.voucher SET used_count = used_count - $2"
		" WHERE code = $1 AND used_count >= $2",
		2, {TEXTOID, INT8OID}
	},
	[STMT_SET_LIMIT] = {
		"UPDATE %1$s.voucher SET total_limit = nullif($2, 9223372036854775807)"
		" WHERE code = $1 AND used_count + flash_quota <= $2",
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

/* The prepared statements of one schema, made as they are needed. */
typedef struct StorePlans
{
	struct StorePlans *next;
	SPIPlanPtr	plan[NUM_STATEMENTS];
	char		schema[NAMEDATALEN];
} StorePlans;

/*
 * All schemas seen by this backend: one, unless the extension moves.  An
 * entry is never freed, since a trigger on our own tables may get here while
 * an outer call is executing one of its plans.
 */
static StorePlans *all_plans = NULL;

static StorePlans *plans_of_schema(const char *schema);
static void check_version(void);
static SPIPlanPtr plan_of(VoucherStore *store, StoreStatement statement);
static uint64 run(VoucherStore *store, StoreStatement statement,
				  Datum *values, const char *nulls);
static bool run_by_id(VoucherStore *store, StoreStatement statement, int64 id);

/*
 * Open the store of the extension that lives in the given schema.
 *
 * Throws if the library and the installed SQL are of different versions, or
 * if row-level security is forced on the tables.  Every successful open is
 * followed by voucher_store_close() or an ERROR.
 */
void
voucher_store_open(VoucherStore *store, Oid schema)
{
	voucher_owner_become(&store->owner, schema);

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	store->plans = plans_of_schema(get_namespace_name(schema));
}

/*
 * Close the store: the caller is itself again, with its own settings.
 */
void
voucher_store_close(VoucherStore *store)
{
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	voucher_owner_leave(&store->owner);
}

/*
 * Give a live redemption a use_no within the limit, where the UNIQUE index
 * bounds it: one that was made while there was no limit has none, and one that
 * was made under a higher limit may have too high a number.
 *
 * False if somebody else did so, or released it.
 */
bool
voucher_store_number_use(VoucherStore *store, int64 id, int32 use_no,
						 int32 limit)
{
	Datum		values[] = {
		Int64GetDatum(id),
		Int32GetDatum(use_no),
		Int32GetDatum(limit)
	};

	return run(store, STMT_NUMBER_USE, values, NULL) > 0;
}

/*
 * RESERVED to RELEASED, if the hold has lapsed and no other session is working
 * on it; never waits.  The use stays counted: the caller takes it over, or
 * gives it back with voucher_store_give_back().
 */
bool
voucher_store_expire(VoucherStore *store, int64 id)
{
	return run_by_id(store, STMT_EXPIRE, id);
}

/*
 * Insert a redemption in the given state (RESERVED or CONFIRMED), with the
 * given discount and deadline, and learn its id.  A use_no of 0 means none.
 *
 * False if another live redemption has the order id or the use_no.  Waits for
 * an uncommitted one to end.
 */
bool
voucher_store_insert(VoucherStore *store, const VoucherRequest *request,
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
		TimestampTzGetDatum(now),
		TimestampTzGetDatum(redemption->expires_at),
		TimestampTzGetDatum(now)
	};
	char		nulls[] = "          ";
	bool		isnull;

	if (use_no == 0)
		nulls[6] = 'n';
	if (redemption->state != VOUCHER_STATE_CONFIRMED)
		nulls[9] = 'n';

	if (run(store, STMT_INSERT, values, nulls) == 0)
		return false;
	redemption->id = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
												 SPI_tuptable->tupdesc, 1,
												 &isnull));
	return true;
}

/*
 * Take the call's own new redemption back.
 */
void
voucher_store_remove(VoucherStore *store, int64 id)
{
	(void) run_by_id(store, STMT_REMOVE, id);
}

/*
 * RESERVED to CONFIRMED.  False if the redemption is no longer RESERVED;
 * waits for whoever is changing it.
 */
bool
voucher_store_confirm(VoucherStore *store, VoucherRedemption *redemption)
{
	return run_by_id(store, STMT_CONFIRM, redemption->id);
}

/*
 * RESERVED to RELEASED, likewise.  The use stays counted until
 * voucher_store_give_back().
 */
bool
voucher_store_release(VoucherStore *store, VoucherRedemption *redemption)
{
	return run_by_id(store, STMT_RELEASE, redemption->id);
}

/*
 * CONFIRMED to RELEASED, for the reason REFUNDED, likewise.
 */
bool
voucher_store_refund(VoucherStore *store, VoucherRedemption *redemption)
{
	return run_by_id(store, STMT_REFUND, redemption->id);
}

/*
 * RESERVED until the given expires_at, if that is later than its deadline
 * now; sets expires_at to what holds.  False as voucher_store_confirm().
 */
bool
voucher_store_extend(VoucherStore *store, VoucherRedemption *redemption)
{
	Datum		values[] = {
		Int64GetDatum(redemption->id),
		TimestampTzGetDatum(redemption->expires_at)
	};
	bool		isnull;

	if (run(store, STMT_EXTEND, values, NULL) == 0)
		return false;
	redemption->expires_at =
		DatumGetTimestampTz(SPI_getbinval(SPI_tuptable->vals[0],
										  SPI_tuptable->tupdesc, 1, &isnull));
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
voucher_store_take(VoucherStore *store, text *code, const VoucherTerms *terms,
				   int64 returned)
{
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
		Int64GetDatum(terms->hold_time)
	};

	return run(store, STMT_TAKE, values, NULL) > 0;
}

/*
 * Uncount uses of the voucher.  False if fewer are counted, or if there is no
 * such voucher: the tables were changed behind our back.
 */
bool
voucher_store_give_back(VoucherStore *store, text *code, int64 uses)
{
	Datum		values[] = {PointerGetDatum(code), Int64GetDatum(uses)};

	return run(store, STMT_GIVE_BACK, values, NULL) > 0;
}

/*
 * Set the total_limit of the voucher, PG_INT64_MAX for none.  False if more
 * uses are counted, or if there is no such voucher.
 */
bool
voucher_store_set_limit(VoucherStore *store, text *code, int64 limit)
{
	Datum		values[] = {PointerGetDatum(code), Int64GetDatum(limit)};

	return run(store, STMT_SET_LIMIT, values, NULL) > 0;
}

/*
 * Make a voucher of each of the codes that is not taken, with the terms that
 * the template has in the snapshot.  Puts the codes that were made into the
 * tuplestore, and returns how many they are.
 */
uint64
voucher_store_copy(VoucherStore *store, Snapshot snapshot, text *template,
				   Datum codes, Tuplestorestate *made, TupleDesc tupdesc)
{
	Datum		values[] = {PointerGetDatum(template), codes};
	int			code = SPI_execute_snapshot(plan_of(store, STMT_COPY), values,
											NULL, snapshot, InvalidSnapshot,
											false, true, 0);
	uint64		count = SPI_processed;

	if (code < 0)
		elog(ERROR, "voucher statement %d failed: %s",
			 STMT_COPY, SPI_result_code_string(code));

	for (uint64 i = 0; i < count; i++)
	{
		bool		isnull;
		Datum		value = SPI_getbinval(SPI_tuptable->vals[i],
										  SPI_tuptable->tupdesc, 1, &isnull);

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
voucher_store_ended(VoucherStore *store, text ***codes)
{
	int			count = run(store, STMT_ENDED, NULL, NULL);

	*codes = palloc(count * sizeof(text *));
	for (int i = 0; i < count; i++)
	{
		bool		isnull;
		Datum		code = SPI_getbinval(SPI_tuptable->vals[i],
										 SPI_tuptable->tupdesc, 1, &isnull);

		(*codes)[i] = DatumGetTextPCopy(code);
	}
	SPI_freetuptable(SPI_tuptable);
	return count;
}

/*
 * Lock the voucher, if it has ended; never waits.  False also if somebody
 * else has locked it.
 */
bool
voucher_store_lock_ended(VoucherStore *store, text *code)
{
	Datum		values[] = {PointerGetDatum(code)};

	return run(store, STMT_LOCK_ENDED, values, NULL) > 0;
}

/*
 * Delete those of the redemptions that have this status and that no other
 * session is working on; never waits.  Returns how many.
 */
int
voucher_store_delete(VoucherStore *store, const int64 *ids, int nids,
					 VoucherState state)
{
	Datum	   *elements = palloc(nids * sizeof(Datum));
	Datum		values[2];

	for (int i = 0; i < nids; i++)
		elements[i] = Int64GetDatum(ids[i]);
	values[0] = PointerGetDatum(construct_array(elements, nids, INT8OID,
												sizeof(int64), FLOAT8PASSBYVAL,
												TYPALIGN_DOUBLE));
	values[1] = CStringGetTextDatum(voucher_state_names[state]);
	return run(store, STMT_DELETE, values, NULL);
}

/*
 * Note that so many live uses of the voucher have no row any more.
 */
void
voucher_store_note_purged(VoucherStore *store, text *code, int64 uses)
{
	Datum		values[] = {PointerGetDatum(code), Int64GetDatum(uses)};

	(void) run(store, STMT_NOTE_PURGED, values, NULL);
}

/*
 * Give the statements for the extension in this schema.
 */
static StorePlans *
plans_of_schema(const char *schema)
{
	StorePlans *plans;

	for (plans = all_plans; plans; plans = plans->next)
		if (strcmp(plans->schema, schema) == 0)
			return plans;

	check_version();

	plans = MemoryContextAllocZero(TopMemoryContext, sizeof(StorePlans));
	strlcpy(plans->schema, schema, NAMEDATALEN);
	plans->next = all_plans;
	all_plans = plans;
	return plans;
}

/*
 * Refuse to work on tables that another version of the extension made.
 */
static void
check_version(void)
{
	char	   *version = NULL;

	if (SPI_execute("SELECT extversion FROM pg_extension WHERE extname = 'voucher'",
					true, 1) == SPI_OK_SELECT && SPI_processed == 1)
		version = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);

	if (version == NULL || strcmp(version, VOUCHER_VERSION) != 0)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("library \"voucher\" is version %s, but extension \"voucher\" is version %s",
					   VOUCHER_VERSION, version ? version : "none"),
				errhint("Run ALTER EXTENSION voucher UPDATE, or start a new session if the library was replaced."));
}

/*
 * Run one statement; return the number of rows.
 *
 * It sees the latest committed state at every isolation level, as look-ups
 * do.  Under REPEATABLE READ and SERIALIZABLE the server then checks each row
 * to be changed against the caller's snapshot too, and throws 40001 if the
 * row is newer; referential actions are run in the same way.
 */
static uint64
run(VoucherStore *store, StoreStatement statement, Datum *values,
	const char *nulls)
{
	Snapshot	latest = InvalidSnapshot;
	Snapshot	crosscheck = InvalidSnapshot;
	int			code;

	if (IsolationUsesXactSnapshot())
	{
		CommandCounterIncrement();
		latest = GetLatestSnapshot();
		crosscheck = GetTransactionSnapshot();
	}
	code = SPI_execute_snapshot(plan_of(store, statement), values, nulls,
								latest, crosscheck, false, true, 0);

	if (code < 0)
		elog(ERROR, "voucher statement %d failed: %s",
			 statement, SPI_result_code_string(code));
	return SPI_processed;
}

/*
 * Run a statement on one redemption; was there such a row?
 */
static bool
run_by_id(VoucherStore *store, StoreStatement statement, int64 id)
{
	Datum		values[] = {Int64GetDatum(id)};

	return run(store, statement, values, NULL) > 0;
}

/*
 * Give the plan of a statement, which is prepared on its first use.
 */
static SPIPlanPtr
plan_of(VoucherStore *store, StoreStatement statement)
{
	SPIPlanPtr *plan = &store->plans->plan[statement];

	if (*plan == NULL)
	{
		SPIPlanPtr	fresh =
			SPI_prepare_cursor(psprintf(statements[statement].sql,
										quote_identifier(store->plans->schema)),
							   statements[statement].nargs,
							   unconstify(Oid *, &statements[statement].argtypes[0]),
							   CURSOR_OPT_GENERIC_PLAN);

		if (fresh == NULL || SPI_keepplan(fresh) != 0)
			elog(ERROR, "voucher statement %d could not be prepared: %s",
				 statement, SPI_result_code_string(SPI_result));
		*plan = fresh;
	}
	return *plan;
}

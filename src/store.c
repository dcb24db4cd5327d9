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

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "store.h"

#define LIVE(r)		r ".status IN ('RESERVED', 'CONFIRMED')"

/*
 * The terms of voucher v, in the order of VoucherTerms and never NULL: a
 * list to select, and to compare with what was selected before.
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

/* Give back one lapsed hold of voucher $1 that no other session is using. */
#define EXPIRE_ONE(condition) \
	"UPDATE %1$s.voucher_redemption AS r" \
	" SET status = 'RELEASED', released_at = clock_timestamp()," \
	" release_reason = 'EXPIRED', slot_no = NULL" \
	" WHERE r.id = (SELECT h.id FROM %1$s.voucher_redemption AS h" \
	" WHERE h.voucher_code = $1" condition \
	" AND h.status = 'RESERVED' AND h.slot_no IS NULL" \
	" AND h.expires_at <= clock_timestamp()" \
	" ORDER BY h.expires_at LIMIT 1 FOR UPDATE SKIP LOCKED)" \
	" AND r.status = 'RESERVED'"

typedef enum StoreStatement
{
	STMT_NUMBER_USES,
	STMT_EXPIRE_ONE,
	STMT_EXPIRE_OWN,
	STMT_INSERT,
	STMT_REMOVE,
	STMT_CONFIRM,
	STMT_RELEASE,
	STMT_TAKE,
	STMT_GIVE_BACK,
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
	[STMT_NUMBER_USES] = {
		"WITH loose AS (SELECT r.id, row_number() OVER (ORDER BY r.id) AS k"
		" FROM %1$s.voucher_redemption AS r"
		" WHERE r.voucher_code = $1 AND r.customer_id = $2 AND " LIVE("r")
		" AND (r.use_no IS NULL OR r.use_no > $3)),"
		" free AS (SELECT n, row_number() OVER (ORDER BY n DESC) AS k"
		" FROM generate_series($3 - $4 + 1, $3) AS n"
		" WHERE NOT EXISTS (SELECT FROM %1$s.voucher_redemption AS r"
		" WHERE r.voucher_code = $1 AND r.customer_id = $2"
		" AND r.use_no = n AND " LIVE("r") "))"
		" UPDATE %1$s.voucher_redemption AS r SET use_no = free.n"
		" FROM loose JOIN free USING (k)"
		" WHERE r.id = loose.id AND " LIVE("r")
		" AND (r.use_no IS NULL OR r.use_no > $3)",
		4, {TEXTOID, INT8OID, INT4OID, INT4OID}
	},
	[STMT_EXPIRE_ONE] = {
		EXPIRE_ONE(""),
		1, {TEXTOID}
	},
	[STMT_EXPIRE_OWN] = {
		EXPIRE_ONE(" AND h.customer_id = $2"),
		2, {TEXTOID, INT8OID}
	},
	[STMT_INSERT] = {
		"INSERT INTO %1$s.voucher_redemption (voucher_code, customer_id,"
		" order_id, order_amount, status, discount_amount, use_no,"
		" created_at, expires_at)"
		" VALUES ($1, $2, $3, $4, 'RESERVED', $5, $6, $7, $8)"
		" ON CONFLICT DO NOTHING RETURNING id",
		8, {TEXTOID, INT8OID, TEXTOID, INT8OID, INT8OID, INT4OID,
		TIMESTAMPTZOID, TIMESTAMPTZOID}
	},
	[STMT_REMOVE] = {
		"DELETE FROM %1$s.voucher_redemption WHERE id = $1",
		1, {INT8OID}
	},
	[STMT_CONFIRM] = {
		"UPDATE %1$s.voucher_redemption"
		" SET status = 'CONFIRMED', confirmed_at = clock_timestamp()"
		" WHERE id = $1 AND status = 'RESERVED'",
		1, {INT8OID}
	},
	[STMT_RELEASE] = {
		"UPDATE %1$s.voucher_redemption"
		" SET status = 'RELEASED', released_at = clock_timestamp(),"
		" release_reason = 'RELEASED', slot_no = NULL"
		" WHERE id = $1 AND status = 'RESERVED'",
		1, {INT8OID}
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

static Oid	table_owner(const char *table, Oid schema);
static void pin_settings(void);
static StorePlans *plans_of_schema(const char *schema);
static void check_version(void);
static SPIPlanPtr plan_of(VoucherStore *store, StoreStatement statement);
static uint64 run(VoucherStore *store, StoreStatement statement,
				  Datum *values, const char *nulls);

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
	char	   *schema_name = get_namespace_name(schema);
	Oid			owner = table_owner("voucher", schema);

	(void) table_owner("voucher_redemption", schema);

	/*
	 * Be the tables' owner, as for a foreign key check: callers need no
	 * privilege on the tables, and code of the owner's (a trigger, say) never
	 * runs with the rights of a mightier caller.
	 */
	GetUserIdAndSecContext(&store->caller, &store->caller_context);
	SetUserIdAndSecContext(owner,
						   store->caller_context | SECURITY_LOCAL_USERID_CHANGE);
	store->guc_nest_level = NewGUCNestLevel();
	pin_settings();

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	store->plans = plans_of_schema(schema_name);
}

/*
 * Close the store: the caller is itself again, with its own settings.
 */
void
voucher_store_close(VoucherStore *store)
{
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	AtEOXact_GUC(false, store->guc_nest_level);
	SetUserIdAndSecContext(store->caller, store->caller_context);
}

/*
 * Bring the customer's live uses into 1..limit, where the UNIQUE index bounds
 * them: those made while there was no limit have no number, and those made
 * under a higher one may have too high a number.
 *
 * Called with fewer uses than the limit, so there is a number for each.  They
 * are taken from the top, out of the way of new uses, which start below.
 */
void
voucher_store_number_uses(VoucherStore *store, const VoucherRequest *request,
						  int32 limit, int32 uses)
{
	Datum		values[] = {
		PointerGetDatum(request->code),
		Int64GetDatum(request->customer_id),
		Int32GetDatum(limit),
		Int32GetDatum(uses)
	};

	(void) run(store, STMT_NUMBER_USES, values, NULL);
}

/*
 * Give back one lapsed hold of the voucher, if there is one that no other
 * session is working on; never waits.  The use stays counted: the caller
 * takes it over, or gives it back with voucher_store_give_back().
 */
bool
voucher_store_expire_one(VoucherStore *store, text *code)
{
	Datum		values[] = {PointerGetDatum(code)};

	return run(store, STMT_EXPIRE_ONE, values, NULL) > 0;
}

/*
 * The same for a lapsed hold of one customer.
 */
bool
voucher_store_expire_own(VoucherStore *store, text *code, int64 customer_id)
{
	Datum		values[] = {PointerGetDatum(code), Int64GetDatum(customer_id)};

	return run(store, STMT_EXPIRE_OWN, values, NULL) > 0;
}

/*
 * Insert a RESERVED redemption with the given discount and deadline, and
 * learn its id.  A use_no of 0 means none.
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
		Int64GetDatum(redemption->discount_amount),
		Int32GetDatum(use_no),
		TimestampTzGetDatum(now),
		TimestampTzGetDatum(redemption->expires_at)
	};
	bool		isnull;

	if (run(store, STMT_INSERT, values, use_no > 0 ? NULL : "     n  ") == 0)
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
	Datum		values[] = {Int64GetDatum(id)};

	(void) run(store, STMT_REMOVE, values, NULL);
}

/*
 * RESERVED to CONFIRMED.  False if the redemption is no longer RESERVED;
 * waits for whoever is changing it.
 */
bool
voucher_store_confirm(VoucherStore *store, int64 id)
{
	Datum		values[] = {Int64GetDatum(id)};

	return run(store, STMT_CONFIRM, values, NULL) > 0;
}

/*
 * RESERVED to RELEASED, likewise.  The use stays counted until
 * voucher_store_give_back().
 */
bool
voucher_store_release(VoucherStore *store, int64 id)
{
	Datum		values[] = {Int64GetDatum(id)};

	return run(store, STMT_RELEASE, values, NULL) > 0;
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
 * Give the owner of one of our tables.
 *
 * FORCE ROW LEVEL SECURITY is refused: policies would hide rows from the
 * statements here, and every answer would be wrong.
 */
static Oid
table_owner(const char *table, Oid schema)
{
	HeapTuple	tuple = SearchSysCache2(RELNAMENSP, CStringGetDatum(table),
										ObjectIdGetDatum(schema));
	Form_pg_class form;
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_TABLE),
				errmsg("table \"%s\" does not exist in the schema of extension \"voucher\"",
					   table));
	form = (Form_pg_class) GETSTRUCT(tuple);
	owner = form->relowner;

	if (form->relforcerowsecurity)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("row-level security must not be forced on table \"%s\"", table),
				errhint("Use ALTER TABLE ... NO FORCE ROW LEVEL SECURITY, and give readers a view instead."));

	ReleaseSysCache(tuple);
	return owner;
}

/*
 * Pin the settings that decide what a statement means and how it is planned,
 * until the GUC nest level is left.
 *
 * Every statement has one sane plan, by index.  Plans made while the tables
 * are empty would be sequential scans, and would stay so through a whole
 * sale.
 */
static void
pin_settings(void)
{
	const struct
	{
		const char *name;
		bool		is_on;
		bool		wanted;
	}			planner[] =
	{
		{"enable_seqscan", enable_seqscan, false},
		{"enable_bitmapscan", enable_bitmapscan, false},
		{"enable_indexscan", enable_indexscan, true},
		{"enable_nestloop", enable_nestloop, true}
	};

	RestrictSearchPath();
	for (int i = 0; i < lengthof(planner); i++)
		if (planner[i].is_on != planner[i].wanted)
			(void) set_config_option(planner[i].name,
									 planner[i].wanted ? "on" : "off",
									 PGC_USERSET, PGC_S_SESSION,
									 GUC_ACTION_SAVE, true, 0, false);
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

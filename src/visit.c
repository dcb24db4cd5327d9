/*-------------------------------------------------------------------------
 *
 * visit.c
 *	  One round of the worker in one database.
 *
 * A visit is a background worker of its own, sent by the launcher.  It works in
 * short transactions for three seconds at most, tells the schedule what comes
 * next, and leaves.
 *
 * It is connected as the bootstrap superuser, so that it depends on no role,
 * and is the owner of the tables whenever it touches them.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/visit.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "capacity.h"
#include "expiry.h"
#include "guc.h"
#include "reconcile.h"
#include "schedule.h"
#include "visit.h"

/* How long a visit works, in milliseconds; the server waits 5 s for it to go */
#define VISIT_TIME		3000

/* Holds to look up at a time; they are given back in batches */
#define MAX_DUE			10000

/* Vouchers to compare in one transaction */
#define RECONCILE_BATCH	100

/*
 * A database with the extension is visited this often at least, in milliseconds:
 * for holds whose deadline was not posted, as it was put into the table by
 * other means, or by a transaction that was prepared.
 */
#define HEARTBEAT		(60 * 1000)

/* When a prepared transaction is taken for a forgotten one; milliseconds */
#define PREPARED_AGE	(60 * 60 * 1000)

/*
 * Settings that would change what a statement means, or end it: an
 * administrator may have set them for the database.  That it is read-only is
 * not overridden.  A lock is waited for less long than the deadlock detector
 * waits, so that the visit is never in the way of anybody.
 */
static const struct
{
	const char *name;
	const char *value;
}			pinned[] =
{
	{"search_path", "pg_catalog, pg_temp"},
	{"session_replication_role", "origin"},
	{"row_security", "off"},
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_deferrable", "off"},
	{"synchronous_commit", "local"},
	{"statement_timeout", "0"},
	{"lock_timeout", "500ms"},
	{"idle_in_transaction_session_timeout", "0"},
	{"DateStyle", "ISO"},
	{"IntervalStyle", "postgres"},
	{"TimeZone", "UTC"},
#if PG_VERSION_NUM >= 170000
	{"transaction_timeout", "0"},
#endif
};

/* The visit that this process is */
static struct
{
	TimestampTz end;
	MemoryContext context;		/* outlives transactions */
	char	   *name;			/* of the database */
	VoucherDatabase database;	/* what is known of it */
	TimestampTz looked_at;		/* for holds that have lapsed */
	TimestampTz due;			/* the next deadline */
	text	   *expired_to;		/* up to this code; NULL before the first */
	text	   *compared_to;
	VoucherLog	log;
}			visit;

static void pin_settings(void);
static text *load_code(const char *code);
static void store_code(const text *code, char *stored);
static void work(void);
static Oid	look_around(void);
static bool is_subscriber(Oid schema);
static void report_prepared(void);
static void give_back(void);
static bool more_are_due(void);
static void give_back_batch(VoucherExpiry *expiry);
static void finish_closing(void);
static void reconcile(void);
static void note_failure(const ErrorData *error);
static Oid	begin(void);
static void commit(void);
static Oid	lock_extension(void);
static bool time_is_up(void);

/*
 * Do a whole round in the caller's transaction: give back every lapsed hold
 * that nobody is working on, and compare every voucher with its rows.  Tells
 * how many holds that were, and how many vouchers two looks found to drift.
 *
 * Never waits for long, since it keeps its locks: a voucher that is locked is
 * left for the next time.
 */
void
voucher_visit_now(Oid schema, int64 *expired, int64 *drifting)
{
	VoucherExpiry expiry;
	VoucherLog	log = {0};
	text	   *after = NULL;

	voucher_expiry_begin(&expiry, schema, PG_INT32_MAX, NULL);
	while (!voucher_expiry_done(&expiry))
		(void) voucher_expiry_step(&expiry, voucher_expire_batch, &log);
	*expired = expiry.expired;

	voucher_capacity_finish(schema);

	*drifting = 0;
	while (voucher_reconcile_step(schema, &after, RECONCILE_BATCH, &log, drifting))
		;
	voucher_incident_end_log(&log);
}

/*
 * A visit to the database with this OID.
 */
void
voucher_visit_main(Datum arg)
{
	visit.end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), VISIT_TIME);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid, 0);
	if (!voucher_schedule_begin_visit(MyDatabaseId))
		proc_exit(0);

	pin_settings();
	visit.context = AllocSetContextCreate(TopMemoryContext, "voucher visit",
										  ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(visit.context);
	visit.due = DT_NOEND;
	voucher_schedule_get(MyDatabaseId, &visit.database);
	visit.database.oid = MyDatabaseId;
	visit.expired_to = load_code(visit.database.expired_to);
	visit.compared_to = load_code(visit.database.compared_to);

	PG_TRY();
	{
		work();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(visit.context);
		error = CopyErrorData();
		FlushErrorState();
		disable_all_timeouts(false);
		AbortOutOfAnyTransaction();
		MemoryContextSwitchTo(visit.context);
		note_failure(error);
	}
	PG_END_TRY();

	store_code(visit.expired_to, visit.database.expired_to);
	store_code(visit.compared_to, visit.database.compared_to);
	visit.database.last_visit = GetCurrentTimestamp();
	voucher_schedule_end_visit(&visit.database, visit.due);
	proc_exit(0);
}

static void
pin_settings(void)
{
	for (int i = 0; i < lengthof(pinned); i++)
		SetConfigOption(pinned[i].name, pinned[i].value, PGC_SUSET, PGC_S_OVERRIDE);
}

/* The code up to which the last visit came, or NULL. */
static text *
load_code(const char *code)
{
	return code[0] != '\0' ? cstring_to_text(code) : NULL;
}

static void
store_code(const text *code, char *stored)
{
	stored[0] = '\0';
	if (code)
		text_to_cstring_buffer(code, stored, VOUCHER_CODE_SIZE);
}

/*
 * Do what is due, as long as there is time.
 */
static void
work(void)
{
	VoucherService service = visit.database.service;
	bool		installed = OidIsValid(look_around());

	if (visit.database.service == VOUCHER_SERVICE_SERVED)
	{
		give_back();
		finish_closing();
		reconcile();
		voucher_incident_end_log(&visit.log);
	}
	if (installed)
		visit.due = Min(visit.due,
						TimestampTzPlusMilliseconds(GetCurrentTimestamp(), HEARTBEAT));

	visit.database.failures = 0;
	if (service == VOUCHER_SERVICE_FAILED)
		ereport(LOG,
				errmsg("worker of extension \"voucher\" works again in database \"%s\"",
					   visit.name));
}

/*
 * Find out how things stand; give the schema of the extension, if there is one.
 */
static Oid
look_around(void)
{
	Oid			schema = begin();

	visit.name = get_database_name(MyDatabaseId);
	if (!OidIsValid(schema))
		visit.database.service = VOUCHER_SERVICE_DORMANT;
	else if (!voucher_worker)
		visit.database.service = VOUCHER_SERVICE_DISABLED;
	else if (is_subscriber(schema))
		visit.database.service = VOUCHER_SERVICE_DORMANT;
	else
	{
		visit.database.service = VOUCHER_SERVICE_SERVED;
		report_prepared();
	}
	commit();
	return schema;
}

/*
 * Are the rows of one of our tables made by logical replication?  Then they
 * are the publisher's to change.
 */
static bool
is_subscriber(Oid schema)
{
	char	   *query = psprintf("SELECT FROM pg_subscription_rel AS r"
								 " JOIN pg_subscription AS s ON s.oid = r.srsubid"
								 " WHERE s.subenabled AND r.srrelid IN (%u, %u)",
								 get_relname_relid("voucher", schema),
								 get_relname_relid("voucher_redemption", schema));
	bool		subscriber;

	SPI_connect();
	if (SPI_execute(query, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not look for subscriptions");
	subscriber = SPI_processed > 0;
	SPI_finish();
	return subscriber;
}

/*
 * Log each prepared transaction of this database that has come of age since the
 * last visit.
 */
static void
report_prepared(void)
{
	TimestampTz before =
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), -PREPARED_AGE);
	Oid			argtypes[] = {TIMESTAMPTZOID, TIMESTAMPTZOID};
	Datum		values[] = {
		TimestampTzGetDatum(visit.database.prepared_before),
		TimestampTzGetDatum(before)
	};

	SPI_connect();
	if (SPI_execute_with_args("SELECT gid FROM pg_prepared_xacts"
							  " WHERE database = current_database()"
							  " AND prepared > $1 AND prepared <= $2",
							  2, argtypes, values, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not look for prepared transactions");
	for (uint64 i = 0; i < SPI_processed; i++)
		ereport(LOG,
				errmsg("transaction \"%s\" in database \"%s\" has been prepared for more than an hour",
					   SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1),
					   visit.name),
				errdetail("Holds that it has changed cannot be given back, and voucher_repair() is refused."),
				errhint("Use COMMIT PREPARED or ROLLBACK PREPARED."));
	SPI_finish();
	visit.database.prepared_before = before;
}

/*
 * Give lapsed holds back, in a transaction for each batch; find the deadline of
 * the next one.
 */
static void
give_back(void)
{
	VoucherExpiry expiry;

	voucher_schedule_take(MyDatabaseId);
	do
	{
		Oid			schema = begin();

		if (OidIsValid(schema))
			voucher_expiry_begin(&expiry, schema, MAX_DUE, visit.expired_to);
		commit();
		if (!OidIsValid(schema))
			return;

		while (!voucher_expiry_done(&expiry) && !time_is_up())
			give_back_batch(&expiry);
		if (voucher_expiry_done(&expiry))
			visit.expired_to = NULL;
	} while (expiry.expired > 0 && expiry.next <= GetCurrentTimestamp() &&
			 !time_is_up());

	/* of those that were locked, wait for one; for another one the next time */
	if (voucher_expiry_done(&expiry) && expiry.done < expiry.ndue && !time_is_up())
		give_back_batch(&expiry);

	/* some may be left, as others are working on them or time is up */
	visit.looked_at = GetCurrentTimestamp();
	visit.due = expiry.expired + expiry.set_aside < expiry.ndue ?
		visit.looked_at : expiry.next;
}

/*
 * Has another hold lapsed since give_back() looked?
 */
static bool
more_are_due(void)
{
	TimestampTz now = GetCurrentTimestamp();

	return (visit.due > visit.looked_at && visit.due <= now) ||
		voucher_schedule_posted(MyDatabaseId) <= now;
}

/*
 * Give a batch of them back, in a transaction of its own.
 */
static void
give_back_batch(VoucherExpiry *expiry)
{
	int64		before = expiry->expired;

	if (OidIsValid(begin()))
		(void) voucher_expiry_step(expiry, voucher_expire_batch, &visit.log);
	else
		expiry->done = expiry->ndue;
	commit();
	visit.database.expired += expiry->expired - before;
	if (expiry->tried)
		visit.expired_to = expiry->tried;
}

/*
 * Close what calls in flight kept from being closed.
 */
static void
finish_closing(void)
{
	Oid			schema = begin();

	if (OidIsValid(schema))
		voucher_capacity_finish(schema);
	commit();
}

/*
 * Compare counters with rows if it is time to, from where the last visit had to
 * leave off.
 */
static void
reconcile(void)
{
	TimestampTz now = GetCurrentTimestamp();
	int64		drifting = 0;
	bool		more = true;

	if (voucher_schedule_reconcile_due(&visit.database) > now)
		return;

	while (more && !time_is_up())
	{
		Oid			schema;

		if (more_are_due())
			give_back();
		schema = begin();
		more = OidIsValid(schema) &&
			voucher_reconcile_step(schema, &visit.compared_to, RECONCILE_BATCH,
								   &visit.log, &drifting);
		commit();
	}
	if (more)
		return;

	visit.compared_to = NULL;
	visit.database.reconciled_at = now;
}

/*
 * The visit ended with an error.  That time was up, or that somebody was in
 * the way, is none.
 */
static void
note_failure(const ErrorData *error)
{
	VoucherDatabase *database = &visit.database;
	char		message[VOUCHER_ERROR_SIZE];

	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
		error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ||
		ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_TRANSACTION_ROLLBACK)
	{
		visit.due = Min(visit.due, GetCurrentTimestamp());
		return;
	}

	strlcpy(message, error->message, sizeof(message));
	message[pg_mbcliplen(message, strlen(message), sizeof(message) - 1)] = '\0';
	if (database->failures == 0 || strcmp(message, database->last_error) != 0)
		ereport(LOG,
				errmsg("worker of extension \"voucher\" failed in database \"%s\"",
					   visit.name ? visit.name : ""),
				errdetail("%s", error->message),
				errhint("It is tried again, at first after a second and in the end every ten minutes."));

	database->service = VOUCHER_SERVICE_FAILED;
	database->failures++;
	database->last_error_at = GetCurrentTimestamp();
	strcpy(database->last_error, message);
}

/*
 * Begin a transaction that ends with the visit at the latest.  Gives the schema
 * of the extension, which cannot be dropped until the end of the transaction;
 * or none, if there is no extension.
 */
static Oid
begin(void)
{
	long		ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), visit.end);

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	pgstat_report_activity(STATE_RUNNING, "voucher worker");
	enable_timeout_after(STATEMENT_TIMEOUT, Max(ms, 1));
	MemoryContextSwitchTo(visit.context);
	return lock_extension();
}

static void
commit(void)
{
	disable_timeout(STATEMENT_TIMEOUT, false);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(visit.context);
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
}

/*
 * Lock the extension as DROP EXTENSION does first of all, so that the two
 * cannot deadlock over the tables, and give its schema.
 */
static Oid
lock_extension(void)
{
	Oid			extension = get_extension_oid("voucher", true);
	Oid			schema = InvalidOid;
	Relation	relation;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (!OidIsValid(extension))
		return InvalidOid;
	LockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock);

	relation = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(extension));
	scan = systable_beginscan(relation, ExtensionOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return schema;
}

static bool
time_is_up(void)
{
	return GetCurrentTimestamp() >= visit.end;
}

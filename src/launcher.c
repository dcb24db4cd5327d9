/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The process that sends the worker to the databases, one at a time.
 *
 * A process that stays connected to a database keeps it from being dropped,
 * renamed or copied.  So the launcher has no database, and a visit is a worker
 * of its own that is gone after three seconds at most.
 *
 * Every database that can be connected to is visited once when it is new, to
 * this launcher or to the server.  Those with the extension get an entry in the
 * schedule, then or by the first call, and are visited again when the schedule
 * says so; the others are left alone.
 *
 * Nothing waits here while a transaction is open or a lock is held.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/launcher.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "guc.h"
#include "launcher.h"
#include "schedule.h"

/* Seconds after which an ended launcher is started again */
#define RESTART_SECONDS	1

/* A visit ends by itself long before; milliseconds */
#define VISIT_OVERDUE	(10 * 1000)

/*
 * The longest pause after a visit, after failures in a row, and after refusals
 * of a worker process; milliseconds
 */
#define MAX_PAUSE		(1000)
#define MAX_BACK_OFF	(10 * 60 * 1000)
#define MAX_REFUSED		(10 * 1000)

/* datconnlimit of a database whose DROP was cut short, since 15.4 */
#define INVALID_DATABASE	(-2)

/* A database; known to this process only */
typedef struct Target
{
	Oid			oid;			/* hash key */
	bool		exists;			/* seen in the last look at pg_database */
	bool		connectable;	/* and no template */
	bool		visited;		/* otherwise it is due */
	int			failures;		/* in a row */
	TimestampTz not_before;		/* the next visit */
} Target;

static HTAB *targets;

static void find_databases(MemoryContext context);
static void forget_pauses(void);
static Target *next_target(TimestampTz *due);
static TimestampTz target_due(const Target *target);
static bool visit(Target *target);
static bool start_visit(Oid oid, BackgroundWorkerHandle **handle);
static void await_end(BackgroundWorkerHandle *handle);
static void doze(TimestampTz until);
static int	back_off(int failures);
static void handle_interrupts(void);

/*
 * Have the postmaster start the launcher; called while the library is
 * preloaded.  Not on a standby before it is promoted, since nothing can be
 * written there, and not for pg_upgrade.
 */
void
voucher_launcher_register(void)
{
	BackgroundWorker worker = {0};

	if (IsBinaryUpgrade)
		return;

	strlcpy(worker.bgw_name, "voucher launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "voucher launcher", BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = RESTART_SECONDS;
	strlcpy(worker.bgw_library_name, "voucher", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "voucher_launcher_main", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

/*
 * The launcher.  Ends with status 1 when asked to, so that it is started again
 * unless the server stops; an ERROR ends it likewise.
 */
void
voucher_launcher_main(Datum arg)
{
	HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(Target)};
	MemoryContext context = AllocSetContextCreate(TopMemoryContext,
												  "voucher launcher",
												  ALLOCSET_DEFAULT_SIZES);
	TimestampTz last_round = 0;
	TimestampTz look_again = 0;
	TimestampTz try_again = 0;
	TimestampTz complain_again = 0;
	int			refused = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	targets = hash_create("voucher databases", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	voucher_schedule_attach_launcher();

	for (;;)
	{
		TimestampTz now = GetCurrentTimestamp();
		TimestampTz until = TimestampTzPlusMilliseconds(now, voucher_worker_naptime);
		TimestampTz due = DT_NOEND;
		Target	   *target;

		handle_interrupts();
		if (now < last_round)
		{
			/* the clock was set back, so all that was to wait is due */
			look_again = try_again = complain_again = 0;
			forget_pauses();
		}
		last_round = now;
		voucher_schedule_beat(now);
		voucher_schedule_sleep(until);

		if (voucher_worker)
		{
			if (now >= look_again)
			{
				find_databases(context);
				look_again = until;
			}
			target = next_target(&due);
			if (target)
				due = Max(due, try_again);
			if (target && due <= now)
			{
				if (visit(target))
				{
					refused = 0;
					continue;
				}

				/* others may need their worker processes for long */
				refused++;
				due = try_again =
					TimestampTzPlusMilliseconds(now, Min(back_off(refused), MAX_REFUSED));
				if (now >= complain_again)
				{
					complain_again = TimestampTzPlusMilliseconds(now, MAX_BACK_OFF);
					ereport(LOG,
							errmsg("no background worker process is free for extension \"voucher\""),
							errdetail("Lapsed holds are not given back meanwhile."),
							errhint("You might need to increase \"max_worker_processes\"."));
				}
			}
			until = Min(until, due);
		}
		doze(until);
	}
}

/*
 * Bring the targets up to date with pg_database, in a short transaction.
 */
static void
find_databases(MemoryContext context)
{
	MemoryContext old_context = MemoryContextSwitchTo(context);
	VoucherDatabase *known;
	TimestampTz heartbeat;
	int			nknown;
	Relation	relation;
	TableScanDesc scan;
	HeapTuple	tuple;
	HASH_SEQ_STATUS status;
	Target	   *target;

	/* first, so that what is not in pg_database afterwards was dropped */
	nknown = voucher_schedule_list(&known, &heartbeat);

	hash_seq_init(&status, targets);
	while ((target = hash_seq_search(&status)))
		target->exists = false;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	relation = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(relation, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database database = (Form_pg_database) GETSTRUCT(tuple);
		bool		found;

		target = hash_search(targets, &database->oid, HASH_ENTER, &found);
		if (!found || !target->connectable)
		{
			target->visited = false;
			target->failures = 0;
			target->not_before = 0;
		}
		target->exists = true;
		target->connectable = database->datallowconn &&
			!database->datistemplate &&
			database->datconnlimit != INVALID_DATABASE;
	}
	table_endscan(scan);
	table_close(relation, AccessShareLock);
	CommitTransactionCommand();
	pgstat_report_stat(true);

	hash_seq_init(&status, targets);
	while ((target = hash_seq_search(&status)))
		if (!target->exists)
			hash_search(targets, &target->oid, HASH_REMOVE, NULL);
	for (int i = 0; i < nknown; i++)
		if (hash_search(targets, &known[i].oid, HASH_FIND, NULL) == NULL)
			voucher_schedule_forget(known[i].oid);

	MemoryContextSwitchTo(old_context);
	MemoryContextReset(context);
}

static void
forget_pauses(void)
{
	HASH_SEQ_STATUS status;
	Target	   *target;

	hash_seq_init(&status, targets);
	while ((target = hash_seq_search(&status)))
		target->not_before = 0;
}

/*
 * Find the target that is due first, and when.
 */
static Target *
next_target(TimestampTz *due)
{
	HASH_SEQ_STATUS status;
	Target	   *target;
	Target	   *first = NULL;

	*due = DT_NOEND;
	hash_seq_init(&status, targets);
	while ((target = hash_seq_search(&status)))
	{
		TimestampTz its_due = target_due(target);

		if (its_due < *due)
		{
			*due = its_due;
			first = target;
		}
	}
	return first;
}

static TimestampTz
target_due(const Target *target)
{
	TimestampTz due = target->visited ? voucher_schedule_due(target->oid) : 0;

	return target->connectable ? Max(due, target->not_before) : DT_NOEND;
}

/*
 * Visit a database; false if no worker process is to be had.
 */
static bool
visit(Target *target)
{
	BackgroundWorkerHandle *handle;
	TimestampTz ended;
	bool		failed;
	int			pause;

	if (!start_visit(target->oid, &handle))
		return false;
	await_end(handle);
	pfree(handle);

	ended = GetCurrentTimestamp();
	if (!voucher_schedule_visit_ended(&failed))
		failed = true;			/* terminated, or could not connect */

	target->visited = !failed;
	target->failures = failed ? target->failures + 1 : 0;
	pause = failed ? back_off(target->failures) : Min(voucher_worker_naptime, MAX_PAUSE);
	target->not_before = TimestampTzPlusMilliseconds(ended, pause);
	voucher_schedule_plan(target->oid, target_due(target));
	return true;
}

static bool
start_visit(Oid oid, BackgroundWorkerHandle **handle)
{
	BackgroundWorker worker = {0};

	voucher_schedule_expect_visit(oid);

	snprintf(worker.bgw_name, BGW_MAXLEN, "voucher worker for database %u", oid);
	strlcpy(worker.bgw_type, "voucher worker", BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "voucher", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "voucher_visit_main", BGW_MAXLEN);
	worker.bgw_main_arg = ObjectIdGetDatum(oid);
	worker.bgw_notify_pid = MyProcPid;
	return RegisterDynamicBackgroundWorker(&worker, handle);
}

/*
 * Wait until the visit is over.
 */
static void
await_end(BackgroundWorkerHandle *handle)
{
	TimestampTz started = GetCurrentTimestamp();
	pid_t		pid;

	while (GetBackgroundWorkerPid(handle, &pid) != BGWH_STOPPED)
	{
		TimestampTz now = GetCurrentTimestamp();

		voucher_schedule_beat(now);
		if (TimestampDifferenceExceeds(started, now, VISIT_OVERDUE))
			TerminateBackgroundWorker(handle);
		doze(TimestampTzPlusMilliseconds(now, 1000));
	}
}

/*
 * Sleep, until then or until something happens.
 */
static void
doze(TimestampTz until)
{
	long		ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);

	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	handle_interrupts();
}

/* Milliseconds to wait after so many failures: 1 s, 2 s, 4 s ... 10 min. */
static int
back_off(int failures)
{
	return Min(1000 << Min(failures - 1, 10), MAX_BACK_OFF);
}

static void
handle_interrupts(void)
{
	CHECK_FOR_INTERRUPTS();
	if (ShutdownRequestPending)
		proc_exit(1);
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

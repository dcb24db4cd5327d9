/*-------------------------------------------------------------------------
 *
 * schedule.c
 *	  Which databases the worker serves, and when each is due: the shared
 *	  memory between backends, the launcher and its visits.
 *
 * A backend notes the deadline of a hold while it can still fail, and posts it
 * when its transaction commits: an atomic minimum, and a latch if the launcher
 * would sleep past it.  A visit takes the posted deadline away *before* it
 * looks at the rows, and posts what it found afterwards.  So a deadline is
 * either of a row that the visit saw, or still posted.
 *
 * Note about locking: one LWLock, held for a few stores or a walk through the
 * array, and never together with another lock.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/schedule.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "guc.h"
#include "schedule.h"

/* Databases that can be served; those beyond have no worker */
#define MAX_DATABASES	1024

typedef struct ScheduleEntry
{
	VoucherDatabase database;	/* protected by lock; free if its oid is 0 */
	pg_atomic_uint64 due;		/* earliest deadline posted, or DT_NOEND */
} ScheduleEntry;

typedef struct Schedule
{
	LWLock	   *lock;			/* written once at startup */
	Latch	   *launcher;		/* a process's own latch lives on after it */
	pg_atomic_uint64 wake;		/* the launcher sleeps until then */

	/* protected by lock */
	TimestampTz heartbeat;		/* when the launcher last went round */
	bool		disabled;		/* does it go nowhere? */
	int			visitor;		/* pid of the visit that is on, or 0 */
	Oid			expected;		/* database that is being visited */
	bool		visit_ended;	/* in an orderly way, that is */
	bool		visit_failed;
	int			nentries;		/* entries ever used */
	ScheduleEntry entries[MAX_DATABASES];
} Schedule;

const char *const voucher_service_names[] = {
	[VOUCHER_SERVICE_NEW] = "NEW",
	[VOUCHER_SERVICE_SERVED] = "SERVED",
	[VOUCHER_SERVICE_DISABLED] = "DISABLED",
	[VOUCHER_SERVICE_DORMANT] = "DORMANT",
	[VOUCHER_SERVICE_FAILED] = "FAILED"
};

static Schedule *schedule = NULL;

/*
 * This backend's entry, which stays while it is connected, and the earliest
 * deadline of its transaction.
 */
static ScheduleEntry *my_entry = NULL;
static TimestampTz my_deadline = DT_NOEND;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void request_memory(void);
static void set_up_memory(void);
static void at_transaction_end(XactEvent event, void *arg);
static void post(ScheduleEntry *entry, TimestampTz deadline);
static ScheduleEntry *find_entry(Oid oid, bool make);
static void leave_visit(int code, Datum arg);

/*
 * Ask for the shared memory; called while the library is preloaded.
 */
void
voucher_schedule_init(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = set_up_memory;
}

bool
voucher_schedule_exists(void)
{
	return schedule != NULL;
}

static void
request_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(sizeof(Schedule));
	RequestNamedLWLockTranche("VoucherSchedule", 1);
}

static void
set_up_memory(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	schedule = ShmemInitStruct("voucher schedule", sizeof(Schedule), &found);
	if (!found)
	{
		memset(schedule, 0, sizeof(Schedule));
		schedule->lock = &GetNamedLWLockTranche("VoucherSchedule")->lock;
		pg_atomic_init_u64(&schedule->wake, 0);
		for (int i = 0; i < MAX_DATABASES; i++)
			pg_atomic_init_u64(&schedule->entries[i].due, (uint64) DT_NOEND);
	}
	LWLockRelease(AddinShmemInitLock);
}

/*
 * Note the deadline of a hold that this transaction has made or extended.  If
 * it commits, the worker comes by at that time.
 */
void
voucher_schedule_note(TimestampTz deadline)
{
	static bool registered = false;

	if (schedule == NULL || !voucher_worker)
		return;

	if (my_entry == NULL)
	{
		LWLockAcquire(schedule->lock, LW_EXCLUSIVE);
		my_entry = find_entry(MyDatabaseId, true);
		LWLockRelease(schedule->lock);
		if (my_entry == NULL)
			return;
	}
	if (!registered)
	{
		RegisterXactCallback(at_transaction_end, NULL);
		registered = true;
	}
	my_deadline = Min(my_deadline, deadline);
}

/*
 * Post or forget what was noted.  Must not fail: the transaction is over.
 *
 * A prepared transaction posts as well, since nothing is called when it is
 * committed in the end.
 */
static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			if (my_deadline != DT_NOEND)
				post(my_entry, my_deadline);
			my_deadline = DT_NOEND;
			break;
		case XACT_EVENT_ABORT:
			my_deadline = DT_NOEND;
			break;
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			break;
	}
}

/*
 * Make the entry due at the deadline, if it is not earlier.  Must not fail.
 */
static void
post(ScheduleEntry *entry, TimestampTz deadline)
{
	uint64		due = pg_atomic_read_u64(&entry->due);

	while (deadline < (TimestampTz) due &&
		   !pg_atomic_compare_exchange_u64(&entry->due, &due, (uint64) deadline))
		;
	if (deadline < (TimestampTz) pg_atomic_read_u64(&schedule->wake) &&
		schedule->launcher != NULL)
		SetLatch(schedule->launcher);
}

/*
 * Allocate a copy of what is known of each database, and return their number.
 */
int
voucher_schedule_list(VoucherDatabase **list, TimestampTz *heartbeat)
{
	int			count = 0;

	*list = NULL;
	*heartbeat = 0;
	if (schedule == NULL)
		return 0;

	*list = palloc(MAX_DATABASES * sizeof(VoucherDatabase));
	LWLockAcquire(schedule->lock, LW_SHARED);
	*heartbeat = schedule->heartbeat;
	for (int i = 0; i < schedule->nentries; i++)
	{
		ScheduleEntry *entry = &schedule->entries[i];

		if (!OidIsValid(entry->database.oid))
			continue;
		(*list)[count] = entry->database;
		(*list)[count].next_visit =
			Min(entry->database.next_visit,
				(TimestampTz) pg_atomic_read_u64(&entry->due));
		if (schedule->disabled)
		{
			(*list)[count].service = VOUCHER_SERVICE_DISABLED;
			(*list)[count].next_visit = DT_NOEND;
		}
		count++;
	}
	LWLockRelease(schedule->lock);
	return count;
}

/*
 * The launcher has started.
 */
void
voucher_schedule_attach_launcher(void)
{
	pg_atomic_write_u64(&schedule->wake, 0);
	schedule->launcher = MyLatch;
}

/*
 * The launcher is alive.
 */
void
voucher_schedule_beat(TimestampTz now)
{
	LWLockAcquire(schedule->lock, LW_EXCLUSIVE);
	schedule->heartbeat = now;
	schedule->disabled = !voucher_worker;
	LWLockRelease(schedule->lock);
}

/*
 * The launcher is about to sleep.  After this it looks once more at what is
 * due: a deadline posted before was not known to be worth a latch.
 */
void
voucher_schedule_sleep(TimestampTz until)
{
	pg_atomic_write_u64(&schedule->wake, (uint64) until);
	pg_memory_barrier();
}

/*
 * When is the database to be visited for a hold or a comparison?  DT_NOEND if
 * it is not served.
 */
TimestampTz
voucher_schedule_due(Oid oid)
{
	TimestampTz due = DT_NOEND;
	ScheduleEntry *entry;

	LWLockAcquire(schedule->lock, LW_SHARED);
	entry = find_entry(oid, false);
	if (entry)
	{
		due = (TimestampTz) pg_atomic_read_u64(&entry->due);
		if (entry->database.service == VOUCHER_SERVICE_SERVED)
			due = Min(due, voucher_schedule_reconcile_due(&entry->database));
	}
	LWLockRelease(schedule->lock);
	return due;
}

/*
 * When are counters to be compared with rows?  DT_NOEND if they are not to be.
 */
TimestampTz
voucher_schedule_reconcile_due(const VoucherDatabase *database)
{
	if (voucher_reconcile_interval == 0)
		return DT_NOEND;

	/* the clock may have been set back since */
	if (database->reconciled_at > GetCurrentTimestamp())
		return 0;
	return TimestampTzPlusMilliseconds(database->reconciled_at,
									   voucher_reconcile_interval);
}

/*
 * The earliest deadline that was posted since the last call of the other one,
 * which a visit makes before it looks.
 */
TimestampTz
voucher_schedule_posted(Oid oid)
{
	TimestampTz posted = DT_NOEND;
	ScheduleEntry *entry;

	LWLockAcquire(schedule->lock, LW_SHARED);
	entry = find_entry(oid, false);
	if (entry)
		posted = (TimestampTz) pg_atomic_read_u64(&entry->due);
	LWLockRelease(schedule->lock);
	return posted;
}

void
voucher_schedule_take(Oid oid)
{
	ScheduleEntry *entry;

	LWLockAcquire(schedule->lock, LW_SHARED);
	entry = find_entry(oid, false);
	if (entry)
		pg_atomic_write_u64(&entry->due, (uint64) DT_NOEND);
	LWLockRelease(schedule->lock);
}

/*
 * Tell when the next visit is planned, for those who look.
 */
void
voucher_schedule_plan(Oid oid, TimestampTz next_visit)
{
	ScheduleEntry *entry;

	LWLockAcquire(schedule->lock, LW_EXCLUSIVE);
	entry = find_entry(oid, false);
	if (entry)
		entry->database.next_visit = next_visit;
	LWLockRelease(schedule->lock);
}

/*
 * The database was dropped.
 */
void
voucher_schedule_forget(Oid oid)
{
	ScheduleEntry *entry;

	LWLockAcquire(schedule->lock, LW_EXCLUSIVE);
	entry = find_entry(oid, false);
	if (entry)
	{
		memset(&entry->database, 0, sizeof(VoucherDatabase));
		pg_atomic_write_u64(&entry->due, (uint64) DT_NOEND);
	}
	LWLockRelease(schedule->lock);
}

/*
 * A visit to the database is about to start.
 */
void
voucher_schedule_expect_visit(Oid oid)
{
	LWLockAcquire(schedule->lock, LW_EXCLUSIVE);
	schedule->expected = oid;
	schedule->visit_ended = false;
	LWLockRelease(schedule->lock);
}

/*
 * Did the visit end in an orderly way?
 */
bool
voucher_schedule_visit_ended(bool *failed)
{
	bool		ended;

	LWLockAcquire(schedule->lock, LW_SHARED);
	ended = schedule->visit_ended;
	*failed = schedule->visit_failed;
	LWLockRelease(schedule->lock);
	return ended;
}

/*
 * Begin a visit; false if another one is on, as can be when the launcher was
 * ended and started again.
 */
bool
voucher_schedule_begin_visit(Oid oid)
{
	bool		alone;
	ScheduleEntry *entry;

	LWLockAcquire(schedule->lock, LW_EXCLUSIVE);
	alone = schedule->visitor == 0 || BackendPidGetProc(schedule->visitor) == NULL;
	if (alone)
	{
		schedule->visitor = MyProcPid;
		entry = find_entry(oid, false);
		if (entry)
			pg_atomic_write_u64(&entry->due, (uint64) DT_NOEND);
	}
	LWLockRelease(schedule->lock);

	if (alone)
		before_shmem_exit(leave_visit, 0);
	return alone;
}

static void
leave_visit(int code, Datum arg)
{
	LWLockAcquire(schedule->lock, LW_EXCLUSIVE);
	schedule->visitor = 0;
	LWLockRelease(schedule->lock);
}

/*
 * Read what is known of the database; all zero if nothing is.
 */
void
voucher_schedule_get(Oid oid, VoucherDatabase *database)
{
	ScheduleEntry *entry;

	LWLockAcquire(schedule->lock, LW_SHARED);
	entry = find_entry(oid, false);
	if (entry)
		*database = entry->database;
	else
		memset(database, 0, sizeof(VoucherDatabase));
	LWLockRelease(schedule->lock);
}

/*
 * End a visit in an orderly way, which failed if the service says so.  Stores
 * what is known now, and the deadline that comes next.  A database that needs
 * no other visit gets no entry if it has none.
 */
void
voucher_schedule_end_visit(const VoucherDatabase *database, TimestampTz due)
{
	ScheduleEntry *entry;

	LWLockAcquire(schedule->lock, LW_EXCLUSIVE);
	entry = find_entry(database->oid,
					   database->service == VOUCHER_SERVICE_FAILED || due != DT_NOEND);
	if (entry)
		entry->database = *database;
	if (database->oid == schedule->expected)
	{
		schedule->visit_ended = true;
		schedule->visit_failed = database->service == VOUCHER_SERVICE_FAILED;
	}
	LWLockRelease(schedule->lock);

	if (entry)
		post(entry, due);
}

/*
 * Find the entry of a database, or make one; NULL if there is none, or no room.
 * The caller holds the lock, exclusively if one may be made.
 */
static ScheduleEntry *
find_entry(Oid oid, bool make)
{
	ScheduleEntry *unused = NULL;

	for (int i = 0; i < schedule->nentries; i++)
	{
		ScheduleEntry *entry = &schedule->entries[i];

		if (entry->database.oid == oid)
			return entry;
		if (!OidIsValid(entry->database.oid) && unused == NULL)
			unused = entry;
	}
	if (!make)
		return NULL;

	if (unused == NULL && schedule->nentries < MAX_DATABASES)
		unused = &schedule->entries[schedule->nentries++];
	if (unused)
	{
		unused->database.oid = oid;
		unused->database.next_visit = DT_NOEND;
	}
	return unused;
}

/*-------------------------------------------------------------------------
 *
 * expiry.c
 *	  Gives back the holds that have lapsed.
 *
 * Note about locking: redemptions first and never waiting for one, since those
 * that somebody is working on are skipped; then each voucher once, in order of
 * code.  Batches follow in order of code too, unless a visit goes on from where
 * the last one left off, so that several of them may share a transaction.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/expiry.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/resowner.h"

#include "expiry.h"
#include "scan.h"
#include "store.h"

/*
 * How long the first attempt at a voucher waits for its lock; a row that many
 * want is never free for one who does not queue.  Less once so many were in
 * vain.
 */
#define FIRST_PATIENCE	"20ms"
#define LAST_PATIENCE	"1ms"
#define MAX_PATIENT		10

static ErrorData *try_expire(VoucherExpiry *expiry, int first, int n);
static int64 expire(const VoucherExpiry *expiry, int first, int n);
static void postpone(VoucherExpiry *expiry, int first, int n);
static void set_aside(VoucherExpiry *expiry, VoucherLog *log,
					  const VoucherDue *due, const ErrorData *error);
static bool is_contention(const ErrorData *error);
static bool is_interruption(const ErrorData *error);
static int	same_code(const VoucherExpiry *expiry, int first, int end);
static int	compare_due(const void *a, const void *b, void *after);

/*
 * Find up to max holds that have lapsed, but not those that failed a short
 * time ago.  Those of vouchers after the given code, if there is one, come
 * first.
 */
void
voucher_expiry_begin(VoucherExpiry *expiry, Oid schema, int max,
					 const text *after)
{
	VoucherSql	sql;
	int64	   *aside;
	int			naside;

	PreventCommandIfReadOnly("voucher_run_worker()");
	voucher_sql_open_restricted(&sql, schema);
	voucher_incident_clear_expiry(&sql);
	naside = voucher_incident_set_aside(&sql, &aside);
	voucher_sql_close(&sql);

	memset(expiry, 0, sizeof(VoucherExpiry));
	expiry->schema = schema;
	expiry->ndue = voucher_rows_due(schema, aside, naside, max,
									&expiry->due, &expiry->next);
	qsort_arg(expiry->due, expiry->ndue, sizeof(VoucherDue), compare_due,
			  unconstify(text *, after));
	expiry->postponed = expiry->ndue;
	pfree(aside);
}

/*
 * Are all done but those of locked vouchers?
 */
bool
voucher_expiry_done(const VoucherExpiry *expiry)
{
	return expiry->done >= expiry->postponed;
}

/*
 * Give the next batch of them back, in the current transaction; false if there
 * is none left.
 *
 * If that fails its vouchers are the next steps, one by one, and if one of
 * those fails, its holds: those that fail alone are set aside.
 *
 * A voucher that somebody keeps locked is left for when all others are done,
 * as voucher_expiry_done() tells.  Steps after that wait for one of those each,
 * as long as lock_timeout allows.  Throws if the statement is cancelled.
 */
bool
voucher_expiry_step(VoucherExpiry *expiry, int batch, VoucherLog *log)
{
	int			first = expiry->done;
	bool		again = voucher_expiry_done(expiry);
	int			n = Min(batch, (again ? expiry->ndue : expiry->postponed) - first);
	ErrorData  *error;

	if (n == 0)
		return false;
	if (first < expiry->single_holds)
		n = 1;
	else if (first < expiry->single_vouchers)
		n = same_code(expiry, first, Min(first + n, expiry->single_vouchers));
	else if (again)
		n = same_code(expiry, first, first + n);
	expiry->tried = expiry->due[first + n - 1].code;

	error = try_expire(expiry, first, n);
	if (error == NULL)
		expiry->done += n;
	else if (same_code(expiry, first, first + n) < n)
		expiry->single_vouchers = first + n;
	else if (is_contention(error) && again)
		expiry->done += same_code(expiry, first, expiry->ndue);
	else if (is_contention(error))
		postpone(expiry, first, same_code(expiry, first, expiry->postponed));
	else if (n > 1)
		expiry->single_holds = first + n;
	else
	{
		set_aside(expiry, log, &expiry->due[first], error);
		expiry->done++;
	}
	return true;
}

/*
 * Give n of the holds back in a subtransaction; NULL if that succeeded.
 */
static ErrorData *
try_expire(VoucherExpiry *expiry, int first, int n)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	CHECK_FOR_INTERRUPTS();
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		int64		expired = expire(expiry, first, n);

		ReleaseCurrentSubTransaction();
		expiry->expired += expired;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;

	if (error && error->sqlerrcode == ERRCODE_QUERY_CANCELED &&
		is_interruption(error))
		ReThrowError(error);
	return error;
}

/*
 * Give these holds back, those that have lapsed still and that nobody else is
 * working on; return how many.
 *
 * A counter that does not cover them is the business of reconciliation.
 */
static int64
expire(const VoucherExpiry *expiry, int first, int n)
{
	VoucherSql	sql;
	VoucherUses *expired;
	int64	   *ids = palloc(n * sizeof(int64));
	int64		total = 0;
	int			count;

	for (int i = 0; i < n; i++)
		ids[i] = expiry->due[first + i].id;

	voucher_sql_open_restricted(&sql, expiry->schema);
	if (first < expiry->postponed)
		(void) set_config_option("lock_timeout",
								 expiry->nlocked < MAX_PATIENT ? FIRST_PATIENCE : LAST_PATIENCE,
								 PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	count = voucher_store_expire(&sql, ids, n, &expired);
	for (int i = 0; i < count; i++)
	{
		if (expired[i].ordinary > 0)
			(void) voucher_store_give_back(&sql, expired[i].code,
										   expired[i].ordinary);
		total += expired[i].uses;
	}
	voucher_sql_close(&sql);

	pfree(ids);
	return total;
}

/*
 * Move n of the holds behind the others.
 */
static void
postpone(VoucherExpiry *expiry, int first, int n)
{
	int			rest = expiry->ndue - first - n;
	VoucherDue *moved = palloc(n * sizeof(VoucherDue));

	memcpy(moved, &expiry->due[first], n * sizeof(VoucherDue));
	memmove(&expiry->due[first], &expiry->due[first + n], rest * sizeof(VoucherDue));
	memcpy(&expiry->due[first + rest], moved, n * sizeof(VoucherDue));
	pfree(moved);

	expiry->nlocked++;
	expiry->postponed -= n;
	expiry->single_vouchers = Max(first, expiry->single_vouchers - n);
	expiry->single_holds = Max(first, expiry->single_holds - n);
}

/*
 * Put a hold aside that fails for a reason of its own.
 */
static void
set_aside(VoucherExpiry *expiry, VoucherLog *log, const VoucherDue *due,
		  const ErrorData *error)
{
	VoucherSql	sql;

	voucher_sql_open_restricted(&sql, expiry->schema);
	voucher_incident_expiry(&sql, log, due->code, due->id, error->message);
	voucher_sql_close(&sql);
	expiry->set_aside++;
}

/*
 * Was somebody else in the way?
 */
static bool
is_contention(const ErrorData *error)
{
	return (error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE &&
			is_interruption(error)) ||
		ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_TRANSACTION_ROLLBACK;
}

/*
 * Was the statement interrupted, by a cancellation or a timeout?  A trigger can
 * raise any SQLSTATE, and one that asks another server passes its errors on.
 */
static bool
is_interruption(const ErrorData *error)
{
	return error->funcname && strcmp(error->funcname, "ProcessInterrupts") == 0;
}

/*
 * How many from the first on are of one voucher?
 */
static int
same_code(const VoucherExpiry *expiry, int first, int end)
{
	int			i = first + 1;

	while (i < end && voucher_scan_compare_text(expiry->due[i].code,
												expiry->due[first].code) == 0)
		i++;
	return i - first;
}

/* By code, round and round from after the given one, which may be NULL. */
static int
compare_due(const void *a, const void *b, void *after)
{
	const VoucherDue *x = a;
	const VoucherDue *y = b;
	int			order = voucher_scan_compare_text(x->code, y->code);

	if (order == 0)
		return (x->id > y->id) - (x->id < y->id);
	if (after)
	{
		bool		x_last = voucher_scan_compare_text(x->code, after) <= 0;
		bool		y_last = voucher_scan_compare_text(y->code, after) <= 0;

		if (x_last != y_last)
			return x_last ? 1 : -1;
	}
	return order;
}

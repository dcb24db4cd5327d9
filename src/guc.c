/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  The settings of the extension.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/guc.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/guc.h"

#include "guc.h"
#include "terms.h"

int			voucher_hold_time = 15 * 60;
int			voucher_expire_batch = 200;
bool		voucher_worker = true;
int			voucher_worker_naptime = 1000;
int			voucher_reconcile_interval = 60 * 1000;

/*
 * Define the voucher.* parameters and reserve their prefix.
 *
 * Called once, from _PG_init().
 */
void
voucher_guc_init(void)
{
	/*
	 * How long stock may be tied up by customers who never pay is the shop's
	 * policy, not the session's; hence not settable by every caller.
	 */
	DefineCustomIntVariable("voucher.hold_time",
							"Sets how long a reserved use is held before it lapses.",
							"Applies to vouchers whose own hold_time is NULL.",
							&voucher_hold_time,
							15 * 60, 1, VOUCHER_HOLD_MAX_DAYS * SECS_PER_DAY,
							PGC_SUSET,
							GUC_UNIT_S,
							NULL, NULL, NULL);

	DefineCustomIntVariable("voucher.expire_batch",
							"Sets how many lapsed holds the worker gives back at a time.",
							"More at a time keep their vouchers locked for longer.",
							&voucher_expire_batch,
							200, 1, 10000,
							PGC_SIGHUP,
							0,
							NULL, NULL, NULL);

	DefineCustomBoolVariable("voucher.worker",
							 "Lets the background worker give lapsed holds back and compare counters.",
							 "Can be turned off for one database with ALTER DATABASE.",
							 &voucher_worker,
							 true,
							 PGC_SUSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("voucher.worker_naptime",
							"Sets the longest time for which the worker does not look for something to do.",
							"It wakes earlier for a hold that lapses.",
							&voucher_worker_naptime,
							1000, 10, 60 * 60 * 1000,
							PGC_SIGHUP,
							GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("voucher.reconcile_interval",
							"Sets the time between two comparisons of counters with rows.",
							"0 turns them off.",
							&voucher_reconcile_interval,
							60 * 1000, 0, 24 * 60 * 60 * 1000,
							PGC_SIGHUP,
							GUC_UNIT_MS,
							NULL, NULL, NULL);

	MarkGUCPrefixReserved("voucher");
}

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

	MarkGUCPrefixReserved("voucher");
}

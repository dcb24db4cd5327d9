/*-------------------------------------------------------------------------
 *
 * expiry.h
 *	  Gives back the holds that have lapsed.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/expiry.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_EXPIRY_H
#define VOUCHER_EXPIRY_H

#include "incident.h"
#include "rows.h"

/* Lapsed holds on their way back; in the memory context of the begin */
typedef struct VoucherExpiry
{
	Oid			schema;
	VoucherDue *due;			/* in order of code */
	int			ndue;
	int			done;			/* so many of them are settled */
	int			postponed;		/* from here on they are of locked vouchers */
	int			nlocked;		/* how many of those */
	text	   *tried;			/* the code that the last step came to */
	int			single_vouchers;	/* up to here one voucher at a time, */
	int			single_holds;	/* or one hold, since a batch failed */
	TimestampTz next;			/* deadline of the first hold after them */
	int64		expired;
	int64		set_aside;
} VoucherExpiry;

extern void voucher_expiry_begin(VoucherExpiry *expiry, Oid schema, int max,
								 const text *after);
extern bool voucher_expiry_done(const VoucherExpiry *expiry);
extern bool voucher_expiry_step(VoucherExpiry *expiry, int batch,
								VoucherLog *log);

#endif							/* VOUCHER_EXPIRY_H */

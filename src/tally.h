/*-------------------------------------------------------------------------
 *
 * tally.h
 *	  What the counters of a voucher say, and what the rows do.
 *
 * Nothing here takes a row lock, writes or runs SQL.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/tally.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_TALLY_H
#define VOUCHER_TALLY_H

/* All of one instant */
typedef struct VoucherTally
{
	/* the voucher, if there is one */
	bool		voucher_exists;
	int64		total_limit;	/* PG_INT64_MAX = unlimited */
	int32		per_user_limit; /* 0 = unlimited */
	int64		used_count;
	int64		purged_count;
	int64		flash_quota;

	/* its rows */
	int64		ordinary_live;
	int64		flash_live;
	int64		slots;
	int64		customers_over_limit;
	int64		orphans;		/* redemptions of a voucher that is not there */
} VoucherTally;

extern void voucher_tally(Oid schema, text *code, VoucherTally *tally);
extern int64 voucher_tally_drift(const VoucherTally *tally);
extern bool voucher_tally_has_drift(const VoucherTally *tally);
extern text *voucher_tally_next_code(Oid schema, text *after);

#endif							/* VOUCHER_TALLY_H */

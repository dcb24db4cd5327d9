/*-------------------------------------------------------------------------
 *
 * terms.h
 *	  What a voucher grants, to whom and when: pure functions of its terms.
 *
 * Nothing here reads a table, a clock or a setting, and nothing throws.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/terms.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_TERMS_H
#define VOUCHER_TERMS_H

#include "datatype/timestamp.h"

/* discount_percent has at most four decimals (CHECK ck_discount_percent) */
#define VOUCHER_PERCENT_SCALE	10000

/* the longest hold (CHECK ck_hold_time) */
#define VOUCHER_HOLD_MAX_DAYS	90

typedef struct VoucherTerms
{
	bool		enabled;
	TimestampTz starts_at;		/* the window is [starts_at, ends_at) */
	TimestampTz ends_at;
	int64		min_order_amount;	/* 0 = none */
	int64		discount_amount;	/* counts when discount_percent is 0 */
	int64		discount_percent;	/* in 1/VOUCHER_PERCENT_SCALE percent */
	int64		max_discount_amount;	/* PG_INT64_MAX = no cap */
	int32		per_user_limit; /* 0 = unlimited */
	int64		hold_time;		/* microseconds; 0 = voucher.hold_time */
} VoucherTerms;

extern const char *voucher_terms_refusal(const VoucherTerms *terms,
										 int64 order_amount, TimestampTz now);
extern int64 voucher_terms_discount(const VoucherTerms *terms,
									int64 order_amount);
extern int64 voucher_terms_hold(const Interval *hold);

#endif							/* VOUCHER_TERMS_H */

/*-------------------------------------------------------------------------
 *
 * terms.c
 *	  What a voucher grants, to whom and when: pure functions of its terms.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/terms.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "terms.h"

/*
 * Say why an order of this amount may not use the voucher at this time, as
 * the detail of a NOT_ELIGIBLE answer; NULL when it may.
 *
 * The minimum applies to the amount before the discount.
 */
const char *
voucher_terms_refusal(const VoucherTerms *terms, int64 order_amount,
					  TimestampTz now)
{
	if (!terms->enabled)
		return "DISABLED";
	if (now < terms->starts_at)
		return "NOT_STARTED";
	if (now >= terms->ends_at)
		return "ENDED";
	if (order_amount < terms->min_order_amount)
		return "BELOW_MINIMUM";
	return NULL;
}

/*
 * Compute the discount for an order, in the order's minor units.
 *
 * A percentage is exact and rounded half up, then capped; no discount is
 * above the amount or below zero.
 *
 * With amount = q * D + r and a percentage p / D of the whole, the product
 * amount * p / D equals q * p + r * p / D.  As p <= D, q * p never exceeds
 * the amount, and r * p stays below D * D = 10^12: 64 bits are enough for
 * every bigint amount.
 */
int64
voucher_terms_discount(const VoucherTerms *terms, int64 order_amount)
{
	int64		discount;

	if (terms->discount_percent > 0)
	{
		const int64 whole = INT64CONST(100) * VOUCHER_PERCENT_SCALE;
		int64		p = terms->discount_percent;

		discount = order_amount / whole * p +
			(order_amount % whole * p + whole / 2) / whole;
	}
	else
		discount = terms->discount_amount;

	return Min(discount, Min(terms->max_discount_amount, order_amount));
}

/*
 * Give the length of a hold in microseconds: the same in every time zone and
 * month.  The hold is within the bound of CHECK ck_hold_time.
 */
int64
voucher_terms_hold(const Interval *hold)
{
	return hold->time + USECS_PER_DAY *
		(hold->day + (int64) hold->month * DAYS_PER_MONTH);
}

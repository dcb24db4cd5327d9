/*-------------------------------------------------------------------------
 *
 * rows.h
 *	  Look-ups of voucher and redemption rows by index.
 *
 * Nothing here takes a row lock, writes or runs SQL.  Every look-up sees the
 * latest committed state, and what its own transaction did, at every
 * isolation level: no answer is given from a stale snapshot.
 *
 * A look-up of an order waits for a concurrent transaction that is creating
 * or changing the live redemption of that order, so that of two calls with
 * one order id the second answers from what the first did.  It waits as for a
 * row lock: lock_timeout, cancellation and the deadlock detector apply.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/rows.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_ROWS_H
#define VOUCHER_ROWS_H

#include "terms.h"

/* What a reserve asks for; a dry run has no order. */
typedef struct VoucherRequest
{
	text	   *code;
	int64		customer_id;
	text	   *order_id;		/* or NULL */
	int64		order_amount;
} VoucherRequest;

/* Where a redemption stands: its status, or why it was released. */
typedef enum VoucherState
{
	VOUCHER_STATE_RESERVED,
	VOUCHER_STATE_CONFIRMED,
	VOUCHER_STATE_RELEASED,
	VOUCHER_STATE_EXPIRED,
	VOUCHER_STATE_REFUNDED
} VoucherState;

extern const char *const voucher_state_names[VOUCHER_STATE_REFUNDED + 1];

typedef struct VoucherRedemption
{
	int64		id;
	VoucherState state;
	int32		slot_no;		/* 0: an ordinary use */
	int64		discount_amount;
	TimestampTz expires_at;
} VoucherRedemption;

/* What decides about a reserve, all of one instant. */
typedef struct VoucherFacts
{
	/* the live redemption of this order, if any, and what it is for */
	bool		order_is_live;
	VoucherRedemption order;
	bool		order_has_code;
	int64		order_customer_id;
	int64		order_amount;

	/* the voucher, if there is one; not read for an order that is live */
	bool		voucher_exists;
	VoucherTerms terms;
	int64		total_limit;	/* PG_INT64_MAX = unlimited */
	int64		in_use;			/* used_count and flash_quota */
	int32		flash_quota;
	bool		flash;			/* is it open as a flash sale? */

	/* the customer's live uses of it; counted under a per_user_limit only */
	int32		uses;			/* counting stops one above the limit */
	int32		free_use_no;	/* the lowest use_no that none of them has */
	int64		misnumbered;	/* id of one with no use_no in 1..per_user_limit,
								 * or 0 */
} VoucherFacts;

/* A hold that has lapsed */
typedef struct VoucherDue
{
	int64		id;
	text	   *code;
} VoucherDue;

extern void voucher_rows_look(Oid schema, const VoucherRequest *request,
							  VoucherFacts *facts);
extern bool voucher_rows_voucher(Oid schema, text *code, VoucherFacts *facts);
extern bool voucher_rows_find(Oid schema, text *code, text *order_id,
							  VoucherRedemption *redemption);
extern int	voucher_rows_lapsed(Oid schema, text *code, const int64 *customer_id,
								TimestampTz now, int64 *ids, int max);
extern int	voucher_rows_due(Oid schema, const int64 *set_aside, int nset_aside,
							 int max, VoucherDue **due, TimestampTz *next);
extern int	voucher_rows_released(Oid schema, TimestampTz before, int64 *ids,
								  int max);
extern int	voucher_rows_confirmed(Oid schema, text *code, TimestampTz before,
								   int64 *ids, int max);
extern bool voucher_rows_redeemed(Oid schema, text *code);

#endif							/* VOUCHER_ROWS_H */

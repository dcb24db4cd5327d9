/*-------------------------------------------------------------------------
 *
 * store.h
 *	  Every SQL statement on the extension's tables.
 *
 * A caller opens the store, runs statements and closes it again, all within
 * one SQL function call.  Between the two it is the tables' owner, with
 * search_path pinned; an ERROR undoes both with the (sub)transaction.
 *
 * Look-ups see the latest committed state at every isolation level, so that
 * no answer is given from a stale snapshot.  Changes obey the caller's: under
 * REPEATABLE READ and SERIALIZABLE they throw 40001 when the row has changed
 * since the caller's snapshot was taken.
 *
 * Lock order: redemption rows first, the voucher row last.  Of the functions
 * below only voucher_store_take() and voucher_store_give_back() lock a
 * voucher row; nothing that locks a redemption row may follow them, the
 * removal of the call's own new row excepted.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/store.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_STORE_H
#define VOUCHER_STORE_H

#include "terms.h"

/* An open store; lives on the caller's stack. */
typedef struct VoucherStore
{
	struct StorePlans *plans;	/* statements for the extension's schema */
	Oid			caller;			/* the caller's identity, to return to */
	int			caller_context;
	int			guc_nest_level;
} VoucherStore;

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
	int64		discount_amount;
	TimestampTz expires_at;
} VoucherRedemption;

/* What decides about a reserve, all of one instant. */
typedef struct VoucherFacts
{
	/* the live redemption of this order, if any, and whom it is for */
	bool		order_is_live;
	VoucherRedemption order;
	bool		order_has_code;
	int64		order_customer_id;
	int64		order_amount;

	/* the voucher, if there is one */
	bool		voucher_exists;
	VoucherTerms terms;
	bool		limited;		/* does it have a total_limit? */
	int64		remaining;		/* ordinary uses left, if limited */

	/* the customer's live uses of it; counted under a per_user_limit only */
	int64		uses;
	int64		misnumbered;	/* those with no use_no in 1..per_user_limit */
	int64		highest_use_no;
} VoucherFacts;

/* A redemption to be made. */
typedef struct VoucherRequest
{
	text	   *code;
	int64		customer_id;
	text	   *order_id;
	int64		order_amount;
} VoucherRequest;

extern void voucher_store_open(VoucherStore *store, Oid schema);
extern void voucher_store_close(VoucherStore *store);

extern void voucher_store_look(VoucherStore *store, const VoucherRequest *request,
							   VoucherFacts *facts);
extern bool voucher_store_find(VoucherStore *store, text *code, text *order_id,
							   VoucherRedemption *redemption);
extern bool voucher_store_has_redemptions(VoucherStore *store, text *code);
extern int32 voucher_store_free_use_no(VoucherStore *store,
									   const VoucherRequest *request,
									   int64 uses);

extern int64 voucher_store_number_uses(VoucherStore *store,
									   const VoucherRequest *request,
									   int32 limit, int64 uses);
extern bool voucher_store_expire_one(VoucherStore *store, text *code);
extern bool voucher_store_expire_own(VoucherStore *store, text *code,
									 int64 customer_id);
extern bool voucher_store_insert(VoucherStore *store, const VoucherRequest *request,
								 int32 use_no, TimestampTz now,
								 VoucherRedemption *redemption);
extern void voucher_store_remove(VoucherStore *store, int64 id);
extern bool voucher_store_confirm(VoucherStore *store, int64 id);
extern bool voucher_store_release(VoucherStore *store, int64 id);

extern bool voucher_store_take(VoucherStore *store, text *code,
							   const VoucherTerms *terms, int64 returned);
extern bool voucher_store_give_back(VoucherStore *store, text *code, int64 uses);

#endif							/* VOUCHER_STORE_H */

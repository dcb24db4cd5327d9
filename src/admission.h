/*-------------------------------------------------------------------------
 *
 * admission.h
 *	  Who gets a use, keeps it, or gives it back: the one path to every
 *	  change of state.
 *
 * Every function takes checked arguments, works in the caller's transaction
 * and answers with an outcome.  A refusal is an outcome like any other, and
 * unless it lost a race it has written nothing: no xid, no WAL.  What throws
 * is the server: lock timeouts, cancellation, 40001 and 40P01 pass through.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/admission.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_ADMISSION_H
#define VOUCHER_ADMISSION_H

#include "store.h"

typedef enum VoucherResult
{
	VOUCHER_RESERVED,
	VOUCHER_CONFIRMED,
	VOUCHER_RELEASED,
	VOUCHER_AVAILABLE,
	VOUCHER_DUPLICATE,
	VOUCHER_ORDER_MISMATCH,
	VOUCHER_OUT_OF_STOCK,
	VOUCHER_ALREADY_USED,
	VOUCHER_NOT_ELIGIBLE,
	VOUCHER_NOT_RESERVED,
	VOUCHER_NOT_FOUND
} VoucherResult;

extern const char *const voucher_result_names[VOUCHER_NOT_FOUND + 1];

typedef struct VoucherOutcome
{
	VoucherResult result;
	bool		has_discount;
	int64		discount_amount;
	bool		has_deadline;
	TimestampTz expires_at;
	const char *detail;			/* static string, or NULL */
} VoucherOutcome;

extern VoucherOutcome voucher_admission_reserve(Oid schema,
												const VoucherRequest *request);
extern VoucherOutcome voucher_admission_redeem(Oid schema,
											   const VoucherRequest *request);
extern VoucherOutcome voucher_admission_check(Oid schema,
											  const VoucherRequest *request);
extern VoucherOutcome voucher_admission_confirm(Oid schema, text *code,
												text *order_id);
extern VoucherOutcome voucher_admission_release(Oid schema, text *code,
												text *order_id);
extern VoucherOutcome voucher_admission_refund(Oid schema, text *code,
											   text *order_id);
extern VoucherOutcome voucher_admission_extend(Oid schema, text *code,
											   text *order_id, int64 hold);

#endif							/* VOUCHER_ADMISSION_H */

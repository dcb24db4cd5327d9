/*-------------------------------------------------------------------------
 *
 * input.h
 *	  Arguments of the SQL functions: checks, normal forms, messages.
 *
 * Every function here returns a good value or throws an ERROR that names the
 * argument and quotes what it was given.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/input.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_INPUT_H
#define VOUCHER_INPUT_H

#include "fmgr.h"

#define VOUCHER_CODE_MAX_CHARS		32
#define VOUCHER_ORDER_ID_MAX_BYTES	64

extern text *voucher_input_code(FunctionCallInfo fcinfo, int argno,
								const char *name);
extern text *voucher_input_order_id(FunctionCallInfo fcinfo, int argno);
extern int64 voucher_input_customer_id(FunctionCallInfo fcinfo, int argno);
extern int64 voucher_input_order_amount(FunctionCallInfo fcinfo, int argno);
extern int32 voucher_input_int32(FunctionCallInfo fcinfo, int argno,
								 const char *name, int32 min, int32 max);
extern text *voucher_input_prefix(FunctionCallInfo fcinfo, int argno);
extern int64 voucher_input_limit(FunctionCallInfo fcinfo, int argno);
extern int64 voucher_input_hold(FunctionCallInfo fcinfo, int argno);
extern TimestampTz voucher_input_older_than(FunctionCallInfo fcinfo, int argno);

extern text *voucher_normalize_code(const text *given);
extern char *voucher_printable(const text *value);

#endif							/* VOUCHER_INPUT_H */

/*-------------------------------------------------------------------------
 *
 * generate.h
 *	  Many vouchers with the same terms and unguessable codes.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/generate.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_GENERATE_H
#define VOUCHER_GENERATE_H

#include "utils/tuplestore.h"

extern void voucher_generate_codes(Oid schema, int32 n, text *template,
								   text *prefix, int32 length,
								   Tuplestorestate *codes, TupleDesc tupdesc);

#endif							/* VOUCHER_GENERATE_H */

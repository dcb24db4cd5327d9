/*-------------------------------------------------------------------------
 *
 * reconcile.h
 *	  Compares counters with rows, and repairs a counter on request.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/reconcile.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_RECONCILE_H
#define VOUCHER_RECONCILE_H

#include "utils/tuplestore.h"

#include "incident.h"

extern void voucher_reconcile_rows(Oid schema, text *code,
								   Tuplestorestate *result, TupleDesc tupdesc);
extern bool voucher_reconcile_step(Oid schema, text **after, int max,
								   VoucherLog *log, int64 *drifting);
extern int64 voucher_reconcile_repair(Oid schema, text *code);

#endif							/* VOUCHER_RECONCILE_H */

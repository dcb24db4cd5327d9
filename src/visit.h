/*-------------------------------------------------------------------------
 *
 * visit.h
 *	  One round of the worker in one database.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/visit.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_VISIT_H
#define VOUCHER_VISIT_H

extern void voucher_visit_now(Oid schema, int64 *expired, int64 *drifting);
extern PGDLLEXPORT void voucher_visit_main(Datum database);

#endif							/* VOUCHER_VISIT_H */

/*-------------------------------------------------------------------------
 *
 * purge.h
 *	  Deletion of old history.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/purge.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_PURGE_H
#define VOUCHER_PURGE_H

#include "datatype/timestamp.h"

/* Rows that one call may delete */
#define VOUCHER_PURGE_MAX_BATCH	100000

extern int64 voucher_purge_history(Oid schema, TimestampTz before, int32 batch);

#endif							/* VOUCHER_PURGE_H */

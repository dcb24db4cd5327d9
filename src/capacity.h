/*-------------------------------------------------------------------------
 *
 * capacity.h
 *	  How many uses a voucher has, and how many of them are slots.
 *
 * Note about locking: the voucher row first, which is the wrong way round, and
 * then nothing here waits: slots and redemptions that somebody is working on
 * are left alone.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/capacity.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_CAPACITY_H
#define VOUCHER_CAPACITY_H

extern void voucher_capacity_set_limit(Oid schema, text *code, int64 limit);
extern int32 voucher_capacity_flash_open(Oid schema, text *code, int32 quota);
extern int32 voucher_capacity_flash_close(Oid schema, text *code);
extern void voucher_capacity_finish(Oid schema);

#endif							/* VOUCHER_CAPACITY_H */

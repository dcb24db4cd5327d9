/*-------------------------------------------------------------------------
 *
 * owner.h
 *	  Being the owner of the extension's tables for a while.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/owner.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_OWNER_H
#define VOUCHER_OWNER_H

/* The caller's identity, to return to; lives on the caller's stack. */
typedef struct VoucherOwner
{
	Oid			schema;			/* of the tables */
	Oid			caller;
	int			caller_context;
	int			guc_nest_level;
} VoucherOwner;

extern void voucher_owner_become(VoucherOwner *owner, Oid schema, int context);
extern void voucher_owner_leave(VoucherOwner *owner);

#endif							/* VOUCHER_OWNER_H */

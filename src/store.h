/*-------------------------------------------------------------------------
 *
 * store.h
 *	  Every change to the extension's tables: SQL statements, run as the owner.
 *
 * A caller opens the store, runs statements and closes it again, all within
 * one SQL function call.  Between the two it is the tables' owner, with
 * search_path pinned; an ERROR undoes both with the (sub)transaction.
 *
 * Changes are made to the latest committed state, and obey the caller's
 * isolation level: under REPEATABLE READ and SERIALIZABLE they throw 40001
 * when the row is newer than the caller's snapshot.
 *
 * Lock order: redemption rows first, the voucher row last.  Of the functions
 * below only those that take a code lock a voucher row; nothing that locks a
 * redemption row may follow them, the removal of the call's own new row
 * excepted.
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

#include "utils/snapshot.h"
#include "utils/tuplestore.h"

#include "owner.h"
#include "rows.h"

/* An open store; lives on the caller's stack. */
typedef struct VoucherStore
{
	struct StorePlans *plans;	/* statements for the extension's schema */
	VoucherOwner owner;
} VoucherStore;

extern void voucher_store_open(VoucherStore *store, Oid schema);
extern void voucher_store_close(VoucherStore *store);

extern bool voucher_store_number_use(VoucherStore *store, int64 id,
									 int32 use_no, int32 limit);
extern bool voucher_store_expire(VoucherStore *store, int64 id);
extern bool voucher_store_insert(VoucherStore *store, const VoucherRequest *request,
								 int32 use_no, TimestampTz now,
								 VoucherRedemption *redemption);
extern void voucher_store_remove(VoucherStore *store, int64 id);
extern bool voucher_store_confirm(VoucherStore *store,
								  VoucherRedemption *redemption);
extern bool voucher_store_release(VoucherStore *store,
								  VoucherRedemption *redemption);
extern bool voucher_store_refund(VoucherStore *store,
								 VoucherRedemption *redemption);
extern bool voucher_store_extend(VoucherStore *store,
								 VoucherRedemption *redemption);

extern bool voucher_store_take(VoucherStore *store, text *code,
							   const VoucherTerms *terms, int64 returned);
extern bool voucher_store_give_back(VoucherStore *store, text *code, int64 uses);
extern bool voucher_store_set_limit(VoucherStore *store, text *code, int64 limit);
extern uint64 voucher_store_copy(VoucherStore *store, Snapshot snapshot,
								 text *template, Datum codes,
								 Tuplestorestate *made, TupleDesc tupdesc);

/* these never wait; see purge.c for why the lock order does not bind them */
extern int	voucher_store_ended(VoucherStore *store, text ***codes);
extern bool voucher_store_lock_ended(VoucherStore *store, text *code);
extern int	voucher_store_delete(VoucherStore *store, const int64 *ids, int nids,
								 VoucherState state);
extern void voucher_store_note_purged(VoucherStore *store, text *code,
									  int64 uses);

#endif							/* VOUCHER_STORE_H */

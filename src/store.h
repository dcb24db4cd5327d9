/*-------------------------------------------------------------------------
 *
 * store.h
 *	  Every change to vouchers and redemptions, as SQL statements.
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

#include "rows.h"
#include "sql.h"

/* Uses of one voucher */
typedef struct VoucherUses
{
	text	   *code;
	int64		uses;
	int64		ordinary;		/* those that used_count counts */
} VoucherUses;

extern bool voucher_store_number_use(VoucherSql *sql, int64 id,
									 int32 use_no, int32 limit);
extern int	voucher_store_expire(VoucherSql *sql, const int64 *ids, int nids,
								 VoucherUses **expired);
extern bool voucher_store_insert(VoucherSql *sql, const VoucherRequest *request,
								 int32 use_no, TimestampTz now,
								 VoucherRedemption *redemption);
extern void voucher_store_remove(VoucherSql *sql, int64 id);
extern bool voucher_store_confirm(VoucherSql *sql,
								  VoucherRedemption *redemption);
extern bool voucher_store_release(VoucherSql *sql,
								  VoucherRedemption *redemption);
extern bool voucher_store_refund(VoucherSql *sql,
								 VoucherRedemption *redemption);
extern bool voucher_store_extend(VoucherSql *sql,
								 VoucherRedemption *redemption);

extern bool voucher_store_take(VoucherSql *sql, text *code,
							   const VoucherTerms *terms, int64 returned);
extern bool voucher_store_give_back(VoucherSql *sql, text *code, int64 uses);
extern bool voucher_store_set_limit(VoucherSql *sql, text *code, int64 limit,
									int32 slots);
extern bool voucher_store_set_flash(VoucherSql *sql, text *code, bool flash,
									int32 slots, int64 ordinary);
extern bool voucher_store_lock(VoucherSql *sql, text *code);
extern bool voucher_store_try_lock(VoucherSql *sql, text *code);
extern void voucher_store_set_used(VoucherSql *sql, text *code, int64 uses);
extern uint64 voucher_store_copy(VoucherSql *sql, Snapshot snapshot,
								 text *template, Datum codes,
								 Tuplestorestate *made, TupleDesc tupdesc);

/* these never wait; see purge.c for why the lock order does not bind them */
extern int	voucher_store_ended(VoucherSql *sql, text ***codes);
extern bool voucher_store_lock_ended(VoucherSql *sql, text *code);
extern int	voucher_store_delete(VoucherSql *sql, const int64 *ids, int nids,
								 VoucherState state);
extern void voucher_store_note_purged(VoucherSql *sql, text *code,
									  int64 uses);

#endif							/* VOUCHER_STORE_H */

/*-------------------------------------------------------------------------
 *
 * slots.h
 *	  The slots of a flash voucher: rows that are uses, one for one.
 *
 * Whoever takes a slot, or takes it away, locks its row FOR UPDATE and never
 * waits for that; whoever has taken one holds the FOR KEY SHARE lock of its
 * foreign key.  So a slot whose row can be locked is in nobody's hands but
 * those of a live redemption that is committed.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/slots.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_SLOTS_H
#define VOUCHER_SLOTS_H

#include "sql.h"

extern int	voucher_slots_find_free(Oid schema, text *code, int32 from,
									int32 *slots, int max);
extern int	voucher_slots_find_takeable(Oid schema, text *code, int32 from,
										int32 *slots, int max);
extern bool voucher_slots_lock_free(VoucherSql *sql, Oid schema, text *code,
									int32 slot_no);

extern void voucher_slots_make(VoucherSql *sql, text *code, int32 n);
extern int32 voucher_slots_remove_free(VoucherSql *sql, text *code, int32 max);
extern int32 voucher_slots_dissolve(VoucherSql *sql, text *code,
									int64 *detached);
extern text *voucher_slots_next_code(Oid schema, text *after);

#endif							/* VOUCHER_SLOTS_H */

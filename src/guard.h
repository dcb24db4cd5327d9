/*-------------------------------------------------------------------------
 *
 * guard.h
 *	  What the triggers on table voucher see to.
 *
 * They stand in for a foreign key from voucher_redemption.  The row is locked
 * by the time they fire, and a reserve ends with an update of that row: the
 * one that comes second sees what the first did.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/guard.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_GUARD_H
#define VOUCHER_GUARD_H

#include "commands/trigger.h"

extern HeapTuple voucher_guard_new_row(TriggerData *trigger);
extern void voucher_guard_new_code(TriggerData *trigger);
extern void voucher_guard_old_code(TriggerData *trigger);

#endif							/* VOUCHER_GUARD_H */

/*-------------------------------------------------------------------------
 *
 * guc.h
 *	  The settings of the extension.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/guc.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_GUC_H
#define VOUCHER_GUC_H

/* voucher.hold_time, in seconds: the hold of a voucher that has none itself */
extern int	voucher_hold_time;

extern void voucher_guc_init(void);

#endif							/* VOUCHER_GUC_H */

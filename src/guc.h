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

/* voucher.expire_batch: holds to give back at a time */
extern int	voucher_expire_batch;

/* voucher.worker: does the worker come by, here or at all? */
extern bool voucher_worker;

/* voucher.worker_naptime, in milliseconds: the launcher's longest sleep */
extern int	voucher_worker_naptime;

/* voucher.reconcile_interval, in milliseconds; 0 = never */
extern int	voucher_reconcile_interval;

extern void voucher_guc_init(void);

#endif							/* VOUCHER_GUC_H */

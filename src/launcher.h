/*-------------------------------------------------------------------------
 *
 * launcher.h
 *	  The process that sends the worker to the databases, one at a time.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/launcher.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_LAUNCHER_H
#define VOUCHER_LAUNCHER_H

extern void voucher_launcher_register(void);
extern PGDLLEXPORT void voucher_launcher_main(Datum arg);

#endif							/* VOUCHER_LAUNCHER_H */

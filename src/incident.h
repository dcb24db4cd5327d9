/*-------------------------------------------------------------------------
 *
 * incident.h
 *	  What the worker has noticed, and what of it is in the server log.
 *
 * Kept in table voucher_incident, so that a round knows what the rounds before
 * it have seen.  While another transaction that writes there is open, nothing
 * is remembered or forgotten, and what would be logged once is not logged.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/incident.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_INCIDENT_H
#define VOUCHER_INCIDENT_H

#include "sql.h"

/* What one round has logged */
typedef struct VoucherLog
{
	int			lines;
	int64		kept_back;		/* lines that would have been too many */
} VoucherLog;

extern int	voucher_incident_set_aside(VoucherSql *sql, int64 **ids);
extern void voucher_incident_expiry(VoucherSql *sql, VoucherLog *log, text *code,
									int64 id, const char *error);
extern void voucher_incident_clear_expiry(VoucherSql *sql);

extern text *voucher_incident_next_drift(VoucherSql *sql, text *after);
extern bool voucher_incident_drift(VoucherSql *sql, VoucherLog *log, text *code,
								   const char *drift, const char *figures,
								   const char *hint);
extern void voucher_incident_clear_drift(VoucherSql *sql, text *code);

extern void voucher_incident_end_log(VoucherLog *log);

#endif							/* VOUCHER_INCIDENT_H */

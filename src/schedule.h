/*-------------------------------------------------------------------------
 *
 * schedule.h
 *	  Which databases the worker serves, and when each is due: the shared
 *	  memory between backends, the launcher and its visits.
 *
 * It exists only if the library was preloaded.  Otherwise nothing is noted
 * and nothing is listed; every function here may be called all the same.
 *
 * Nothing here is needed for correctness.  After a crash it is empty, and
 * filled again by visits and calls.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/schedule.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_SCHEDULE_H
#define VOUCHER_SCHEDULE_H

#include "datatype/timestamp.h"
#include "mb/pg_wchar.h"

#include "input.h"

#define VOUCHER_ERROR_SIZE	256
#define VOUCHER_CODE_SIZE	(VOUCHER_CODE_MAX_CHARS * MAX_MULTIBYTE_CHAR_LEN + 1)

/* How the worker stands with a database */
typedef enum VoucherService
{
	VOUCHER_SERVICE_NEW,		/* a call was made, no visit yet */
	VOUCHER_SERVICE_SERVED,
	VOUCHER_SERVICE_DISABLED,	/* voucher.worker is off */
	VOUCHER_SERVICE_DORMANT,	/* nothing to do: no extension, subscriber */
	VOUCHER_SERVICE_FAILED		/* to be tried again, later and later */
} VoucherService;

extern const char *const voucher_service_names[VOUCHER_SERVICE_FAILED + 1];

/* What is known of a database */
typedef struct VoucherDatabase
{
	Oid			oid;
	VoucherService service;
	int			failures;		/* in a row */
	TimestampTz last_visit;		/* 0 = never */
	TimestampTz next_visit;		/* as far as known; DT_NOEND = none planned */
	TimestampTz reconciled_at;	/* last comparison of all vouchers; 0 = never */
	int64		expired;		/* holds given back, since the server started */
	TimestampTz prepared_before;	/* such transactions were looked at */
	TimestampTz last_error_at;	/* 0 = never */
	char		last_error[VOUCHER_ERROR_SIZE];

	/* how far the last visit came, if it had to leave off; or "" */
	char		expired_to[VOUCHER_CODE_SIZE];
	char		compared_to[VOUCHER_CODE_SIZE];
} VoucherDatabase;

extern void voucher_schedule_init(void);
extern bool voucher_schedule_exists(void);
extern TimestampTz voucher_schedule_reconcile_due(const VoucherDatabase *database);

/* for backends, within a transaction */
extern void voucher_schedule_note(TimestampTz deadline);
extern int	voucher_schedule_list(VoucherDatabase **list, TimestampTz *heartbeat);

/* for the launcher */
extern void voucher_schedule_attach_launcher(void);
extern void voucher_schedule_beat(TimestampTz now);
extern void voucher_schedule_sleep(TimestampTz until);
extern TimestampTz voucher_schedule_due(Oid oid);
extern TimestampTz voucher_schedule_posted(Oid oid);
extern void voucher_schedule_take(Oid oid);
extern void voucher_schedule_plan(Oid oid, TimestampTz next_visit);
extern void voucher_schedule_forget(Oid oid);
extern void voucher_schedule_expect_visit(Oid oid);
extern bool voucher_schedule_visit_ended(bool *failed);

/* for visits */
extern bool voucher_schedule_begin_visit(Oid oid);
extern void voucher_schedule_get(Oid oid, VoucherDatabase *database);
extern void voucher_schedule_end_visit(const VoucherDatabase *database,
									   TimestampTz due);

#endif							/* VOUCHER_SCHEDULE_H */

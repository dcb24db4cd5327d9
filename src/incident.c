/*-------------------------------------------------------------------------
 *
 * incident.c
 *	  What the worker has noticed, and what of it is in the server log.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/incident.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "incident.h"
#include "input.h"

/* Lines that one round may log, before it says how many more there are */
#define MAX_LINES	5

static VoucherStatement find_set_aside = {
	"SELECT redemption_id FROM %1$s.voucher_incident"
	" WHERE kind = 'EXPIRY' AND retry_at > clock_timestamp()"
	" ORDER BY redemption_id"
};

static VoucherStatement add_expiry = {
	"INSERT INTO %1$s.voucher_incident (kind, voucher_code, redemption_id,"
	" detail, seen_at, retry_at, logged_at)"
	" VALUES ('EXPIRY', $1, $2, $3, clock_timestamp(),"
	" clock_timestamp() + interval '10 minutes', clock_timestamp())"
	" ON CONFLICT DO NOTHING",
	3, {TEXTOID, INT8OID, TEXTOID}
};

static VoucherStatement repeat_expiry = {
	"UPDATE %1$s.voucher_incident SET detail = $3, seen_at = clock_timestamp(),"
	" retry_at = clock_timestamp() + interval '10 minutes'"
	" WHERE kind = 'EXPIRY' AND voucher_code = $1 AND redemption_id = $2",
	3, {TEXTOID, INT8OID, TEXTOID}
};

static VoucherStatement clear_expiry = {
	"DELETE FROM %1$s.voucher_incident AS i WHERE kind = 'EXPIRY' AND NOT EXISTS"
	" (SELECT FROM %1$s.voucher_redemption AS r"
	" WHERE r.id = i.redemption_id AND r.status || '' = 'RESERVED')"
};

static VoucherStatement next_drift = {
	"SELECT voucher_code FROM %1$s.voucher_incident"
	" WHERE kind = 'DRIFT' AND voucher_code > $1 ORDER BY voucher_code LIMIT 1",
	1, {TEXTOID}
};

/* returns a row if there is news, which is to be logged if logged_at is set */
static VoucherStatement add_drift = {
	"INSERT INTO %1$s.voucher_incident AS i (kind, voucher_code, redemption_id,"
	" detail, seen_at) VALUES ('DRIFT', $1, 0, $2, clock_timestamp())"
	" ON CONFLICT (kind, voucher_code, redemption_id) DO UPDATE"
	" SET detail = excluded.detail, seen_at = excluded.seen_at, logged_at ="
	" CASE WHEN i.detail = excluded.detail THEN excluded.seen_at END"
	" WHERE i.logged_at IS NULL OR i.detail <> excluded.detail"
	" RETURNING logged_at IS NOT NULL",
	2, {TEXTOID, TEXTOID}
};

static VoucherStatement clear_drift = {
	"DELETE FROM %1$s.voucher_incident WHERE kind = 'DRIFT' AND voucher_code = $1",
	1, {TEXTOID}
};

static bool may_write(VoucherSql *sql);
static bool may_log(VoucherLog *log);

/*
 * Find the holds that could not be expired and are not to be tried yet.
 * Allocates an array of their ids in ascending order and returns how many.
 */
int
voucher_incident_set_aside(VoucherSql *sql, int64 **ids)
{
	int			count = voucher_sql_run(sql, &find_set_aside, NULL, NULL);
	bool		isnull;

	*ids = SPI_palloc((count + 1) * sizeof(int64));
	for (int i = 0; i < count; i++)
		(*ids)[i] = DatumGetInt64(voucher_sql_value(i, 1, &isnull));
	SPI_freetuptable(SPI_tuptable);
	return count;
}

/*
 * Set a hold aside that could not be expired, and log it if it is new.
 */
void
voucher_incident_expiry(VoucherSql *sql, VoucherLog *log, text *code, int64 id,
						const char *error)
{
	Datum		values[] = {
		PointerGetDatum(code),
		Int64GetDatum(id),
		CStringGetTextDatum(error)
	};

	if (!may_write(sql))
		return;
	if (voucher_sql_run(sql, &add_expiry, values, NULL) == 0)
		(void) voucher_sql_run(sql, &repeat_expiry, values, NULL);
	else if (may_log(log))
		ereport(LOG,
				errmsg("could not expire a hold of voucher \"%s\"",
					   voucher_printable(code)),
				errdetail("Redemption %lld: %s", (long long) id, error),
				errhint("It is tried again every ten minutes."),
				errhidestmt(true));
}

/*
 * Forget holds that are none any more.
 */
void
voucher_incident_clear_expiry(VoucherSql *sql)
{
	if (may_write(sql))
		(void) voucher_sql_run(sql, &clear_expiry, NULL, NULL);
}

/*
 * Give the least code after this one that has drift on record, or NULL; a NULL
 * asks for the very first.  Lives as long as sql is open.
 */
text *
voucher_incident_next_drift(VoucherSql *sql, text *after)
{
	Datum		values[] = {PointerGetDatum(after ? after : cstring_to_text(""))};
	bool		isnull;

	if (voucher_sql_run(sql, &next_drift, values, NULL) == 0)
		return NULL;
	return DatumGetTextPCopy(voucher_sql_value(0, 1, &isnull));
}

/*
 * Record that counters and rows of a voucher differ, and by what.  The second
 * look in a row that finds the very same is logged, with figures and hint.
 * Returns whether it is one that two looks agree on.
 */
bool
voucher_incident_drift(VoucherSql *sql, VoucherLog *log, text *code,
					   const char *drift, const char *figures,
					   const char *hint)
{
	Datum		values[] = {PointerGetDatum(code), CStringGetTextDatum(drift)};
	bool		isnull;
	bool		confirmed;

	if (!may_write(sql))
		return false;
	if (voucher_sql_run(sql, &add_drift, values, NULL) == 0)
		return true;

	confirmed = DatumGetBool(voucher_sql_value(0, 1, &isnull));
	if (confirmed && may_log(log))
		ereport(LOG,
				errmsg("drift of voucher \"%s\": %s",
					   voucher_printable(code), drift),
				errdetail("%s", figures),
				errhint("%s", hint),
				errhidestmt(true));
	return confirmed;
}

/*
 * Forget the drift of a voucher.
 */
void
voucher_incident_clear_drift(VoucherSql *sql, text *code)
{
	Datum		values[] = {PointerGetDatum(code)};

	if (may_write(sql))
		(void) voucher_sql_run(sql, &clear_drift, values, NULL);
}

/*
 * At the end of a round, say how much was not logged.
 */
void
voucher_incident_end_log(VoucherLog *log)
{
	if (log->kept_back > 0)
		ereport(LOG,
				errmsg("%lld more incidents of extension \"voucher\" are not logged one by one",
					   (long long) log->kept_back),
				errhint("See table voucher_incident."),
				errhidestmt(true));
	log->lines = 0;
	log->kept_back = 0;
}

/*
 * May this transaction write incidents?  One at a time does, until it ends; the
 * others go on without, as nobody must wait for what is only a memory aid.
 */
static bool
may_write(VoucherSql *sql)
{
	return ConditionalLockRelationOid(get_relname_relid("voucher_incident",
														sql->owner.schema),
									  ShareUpdateExclusiveLock);
}

static bool
may_log(VoucherLog *log)
{
	if (log->lines < MAX_LINES)
	{
		log->lines++;
		return true;
	}
	log->kept_back++;
	return false;
}

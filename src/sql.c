/*-------------------------------------------------------------------------
 *
 * sql.c
 *	  Running SQL statements as the owner of the extension's tables.
 *
 * Statements are prepared once per backend and schema, and kept.  The plan
 * cache finds the tables anew after DISCARD ALL, DROP EXTENSION, CREATE
 * EXTENSION and the like, since it analyzes the text again; only another
 * schema name makes another text.
 *
 * Within the pinned search_path operators and functions can come from
 * pg_catalog only; the tables are qualified.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/sql.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "sql.h"

/*
 * The schemas seen by this backend: one, unless the extension moves.  Entries
 * and plans are never freed, since a trigger on our own tables may get here
 * while an outer call is executing one of them.
 */
typedef struct StatementSchema
{
	struct StatementSchema *next;
	char		name[NAMEDATALEN];
} StatementSchema;

typedef struct StatementPlan
{
	struct StatementPlan *next;
	StatementSchema *schema;
	SPIPlanPtr	plan;
} StatementPlan;

static StatementSchema *schemas = NULL;

static void open_as_owner(VoucherSql *sql, Oid schema, int context);
static StatementSchema *find_schema(const char *name);
static void check_version(void);
static uint64 execute(VoucherSql *sql, VoucherStatement *statement,
					  Datum *values, const char *nulls, Snapshot snapshot,
					  Snapshot crosscheck);
static SPIPlanPtr find_plan(VoucherSql *sql, VoucherStatement *statement);

/*
 * Open, for the extension that lives in the given schema.
 *
 * Throws if the library and the installed SQL are of different versions, or
 * if row-level security is forced on the tables.  Every successful open is
 * followed by voucher_sql_close() or an ERROR.
 */
void
voucher_sql_open(VoucherSql *sql, Oid schema)
{
	open_as_owner(sql, schema, 0);
}

/*
 * The same for what nobody asked for: code of the owner's that is fired by it
 * cannot reach into the session either.
 */
void
voucher_sql_open_restricted(VoucherSql *sql, Oid schema)
{
	open_as_owner(sql, schema, SECURITY_RESTRICTED_OPERATION);
}

/*
 * Close: the caller is itself again, with its own settings.
 */
void
voucher_sql_close(VoucherSql *sql)
{
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	voucher_owner_leave(&sql->owner);
}

/*
 * Run a statement; return the number of rows.
 *
 * Under REPEATABLE READ and SERIALIZABLE the latest snapshot is the one that
 * counts, and the server checks each row to be changed against the caller's
 * too; referential actions are run in the same way.
 */
uint64
voucher_sql_run(VoucherSql *sql, VoucherStatement *statement, Datum *values,
				const char *nulls)
{
	if (!IsolationUsesXactSnapshot())
		return execute(sql, statement, values, nulls,
					   InvalidSnapshot, InvalidSnapshot);

	CommandCounterIncrement();
	return execute(sql, statement, values, nulls,
				   GetLatestSnapshot(), GetTransactionSnapshot());
}

/*
 * Run a statement that reads what this snapshot sees.
 */
uint64
voucher_sql_run_with(VoucherSql *sql, VoucherStatement *statement,
					 Datum *values, Snapshot snapshot)
{
	return execute(sql, statement, values, NULL, snapshot, InvalidSnapshot);
}

/*
 * Run a statement that is only asked whether there is a row.
 */
bool
voucher_sql_exists(VoucherSql *sql, VoucherStatement *statement, Datum *values)
{
	bool		exists = voucher_sql_run(sql, statement, values, NULL) > 0;

	SPI_freetuptable(SPI_tuptable);
	return exists;
}

/*
 * Give a value of the rows that the last statement returned, counted from 0,
 * and columns from 1.
 */
Datum
voucher_sql_value(uint64 row, int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc,
						 column, isnull);
}

static void
open_as_owner(VoucherSql *sql, Oid schema, int context)
{
	voucher_owner_become(&sql->owner, schema, context);

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	sql->schema = find_schema(get_namespace_name(schema));
}

/*
 * Give the entry of a schema; on the first call, if the extension in it is of
 * the version of this library.
 */
static StatementSchema *
find_schema(const char *name)
{
	StatementSchema *schema;

	for (schema = schemas; schema; schema = schema->next)
		if (strcmp(schema->name, name) == 0)
			return schema;

	check_version();

	schema = MemoryContextAllocZero(TopMemoryContext, sizeof(StatementSchema));
	strlcpy(schema->name, name, NAMEDATALEN);
	schema->next = schemas;
	schemas = schema;
	return schema;
}

/*
 * Refuse to work on tables that another version of the extension made.
 */
static void
check_version(void)
{
	char	   *version = NULL;

	if (SPI_execute("SELECT extversion FROM pg_extension WHERE extname = 'voucher'",
					true, 1) == SPI_OK_SELECT && SPI_processed == 1)
		version = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);

	if (version == NULL || strcmp(version, VOUCHER_VERSION) != 0)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("library \"voucher\" is version %s, but extension \"voucher\" is version %s",
					   VOUCHER_VERSION, version ? version : "none"),
				errhint("Run ALTER EXTENSION voucher UPDATE, or start a new session if the library was replaced."));
}

static uint64
execute(VoucherSql *sql, VoucherStatement *statement, Datum *values,
		const char *nulls, Snapshot snapshot, Snapshot crosscheck)
{
	int			code = SPI_execute_snapshot(find_plan(sql, statement),
											values, nulls, snapshot, crosscheck,
											false, true, 0);

	if (code < 0)
		elog(ERROR, "statement of extension \"voucher\" failed: %s: %s",
			 SPI_result_code_string(code), statement->sql);
	return SPI_processed;
}

/*
 * Give the plan of a statement, which is prepared on its first use.
 */
static SPIPlanPtr
find_plan(VoucherSql *sql, VoucherStatement *statement)
{
	StatementPlan *entry;
	SPIPlanPtr	plan;

	for (entry = statement->plans; entry; entry = entry->next)
		if (entry->schema == sql->schema)
			return entry->plan;

	plan = SPI_prepare_cursor(psprintf(statement->sql,
									   quote_identifier(sql->schema->name)),
							  statement->nargs, statement->argtypes,
							  CURSOR_OPT_GENERIC_PLAN);
	if (plan == NULL)
		elog(ERROR, "statement of extension \"voucher\" could not be prepared: %s: %s",
			 SPI_result_code_string(SPI_result), statement->sql);

	entry = MemoryContextAlloc(TopMemoryContext, sizeof(StatementPlan));
	if (SPI_keepplan(plan) != 0)
		elog(ERROR, "SPI_keepplan failed");
	entry->plan = plan;
	entry->schema = sql->schema;
	entry->next = statement->plans;
	statement->plans = entry;
	return plan;
}

/*-------------------------------------------------------------------------
 *
 * sql.h
 *	  Running SQL statements as the owner of the extension's tables.
 *
 * A caller opens, runs statements and closes again, all within one SQL
 * function call or one transaction of the worker.  Between the two it is the
 * tables' owner, with search_path pinned; an ERROR undoes both with the
 * (sub)transaction.
 *
 * Every statement sees the latest committed state, and obeys the caller's
 * isolation level: under REPEATABLE READ and SERIALIZABLE it throws 40001 when
 * a row to be changed is newer than the caller's snapshot.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/sql.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_SQL_H
#define VOUCHER_SQL_H

#include "executor/spi.h"

#include "owner.h"

#define VOUCHER_SQL_MAX_ARGS	11

/* A statement, and what it was prepared to: one static variable each. */
typedef struct VoucherStatement
{
	const char *sql;			/* %1$s stands for the extension's schema */
	int			nargs;
	Oid			argtypes[VOUCHER_SQL_MAX_ARGS];
	struct StatementPlan *plans;
} VoucherStatement;

/* Open for statements; lives on the caller's stack. */
typedef struct VoucherSql
{
	VoucherOwner owner;
	struct StatementSchema *schema;
} VoucherSql;

extern void voucher_sql_open(VoucherSql *sql, Oid schema);
extern void voucher_sql_open_restricted(VoucherSql *sql, Oid schema);
extern void voucher_sql_close(VoucherSql *sql);

extern uint64 voucher_sql_run(VoucherSql *sql, VoucherStatement *statement,
							  Datum *values, const char *nulls);
extern uint64 voucher_sql_run_with(VoucherSql *sql, VoucherStatement *statement,
								   Datum *values, Snapshot snapshot);
extern bool voucher_sql_exists(VoucherSql *sql, VoucherStatement *statement,
							   Datum *values);
extern Datum voucher_sql_value(uint64 row, int column, bool *isnull);

#endif							/* VOUCHER_SQL_H */

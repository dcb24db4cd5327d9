/*-------------------------------------------------------------------------
 *
 * owner.c
 *	  Being the owner of the extension's tables for a while.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/owner.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "utils/guc.h"
#include "utils/syscache.h"

#include "compat.h"
#include "owner.h"

/* All of them, since a trigger fires as whoever is current then */
static const char *const tables[] = {
	"voucher", "voucher_slot", "voucher_redemption", "voucher_incident"
};

static Oid	table_owner(const char *table, Oid schema);
static void pin_settings(void);

/*
 * Be the owner of the tables in the given schema, as for a foreign key check:
 * callers need no privilege on the tables, and code of the owner's (a trigger,
 * say) never runs with the rights of a mightier caller.
 *
 * The context adds security restrictions, or is 0.
 *
 * Undone by voucher_owner_leave(), or by an ERROR with the (sub)transaction.
 * Throws if the tables have several owners, one of whom would be the others
 * then, or if row-level security is forced on them.
 */
void
voucher_owner_become(VoucherOwner *owner, Oid schema, int context)
{
	Oid			owner_id = table_owner(tables[0], schema);

	for (int i = 1; i < lengthof(tables); i++)
		if (table_owner(tables[i], schema) != owner_id)
			ereport(ERROR,
					errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("tables \"%s\" and \"%s\" must have the same owner",
						   tables[0], tables[i]),
					errhint("Use ALTER TABLE ... OWNER TO."));

	owner->schema = schema;
	GetUserIdAndSecContext(&owner->caller, &owner->caller_context);
	SetUserIdAndSecContext(owner_id,
						   owner->caller_context | context |
						   SECURITY_LOCAL_USERID_CHANGE);
	owner->guc_nest_level = NewGUCNestLevel();
	pin_settings();
}

/*
 * Be the caller again, with its own settings.
 */
void
voucher_owner_leave(VoucherOwner *owner)
{
	AtEOXact_GUC(false, owner->guc_nest_level);
	SetUserIdAndSecContext(owner->caller, owner->caller_context);
}

/*
 * Give the owner of one of our tables.
 *
 * FORCE ROW LEVEL SECURITY is refused: policies would hide rows from the
 * statements here, and every answer would be wrong.
 */
static Oid
table_owner(const char *table, Oid schema)
{
	HeapTuple	tuple = SearchSysCache2(RELNAMENSP, CStringGetDatum(table),
										ObjectIdGetDatum(schema));
	Form_pg_class form;
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_TABLE),
				errmsg("table \"%s\" does not exist in the schema of extension \"voucher\"",
					   table));
	form = (Form_pg_class) GETSTRUCT(tuple);
	owner = form->relowner;

	if (form->relforcerowsecurity)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("row-level security must not be forced on table \"%s\"", table),
				errhint("Use ALTER TABLE ... NO FORCE ROW LEVEL SECURITY, and give readers a view instead."));

	ReleaseSysCache(tuple);
	return owner;
}

/*
 * Pin the settings that decide what a statement means and how it is planned,
 * until the GUC nest level is left.
 *
 * A plan made while the tables are empty would be a sequential scan, and
 * would stay so through a whole sale.
 */
static void
pin_settings(void)
{
	RestrictSearchPath();
	if (enable_seqscan)
		(void) set_config_option("enable_seqscan", "off",
								 PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
}

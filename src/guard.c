/*-------------------------------------------------------------------------
 *
 * guard.c
 *	  What the triggers on table voucher see to.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/guard.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "guard.h"
#include "input.h"
#include "rows.h"

static text *code_of(TriggerData *trigger, HeapTuple tuple);
static bool same_text(const text *a, const text *b);

/*
 * Give the new row of table voucher with its code in normal form.
 */
HeapTuple
voucher_guard_new_row(TriggerData *trigger)
{
	Relation	relation = trigger->tg_relation;
	int			column = get_attnum(RelationGetRelid(relation), "code");
	text	   *code = code_of(trigger, trigger->tg_trigtuple);
	text	   *normal;
	Datum		value;
	bool		isnull = false;

	if (code == NULL)			/* NOT NULL will complain */
		return trigger->tg_trigtuple;

	normal = voucher_normalize_code(code);
	if (same_text(code, normal))
		return trigger->tg_trigtuple;

	value = PointerGetDatum(normal);
	return heap_modify_tuple_by_cols(trigger->tg_trigtuple,
									 RelationGetDescr(relation),
									 1, &column, &value, &isnull);
}

/*
 * Throw if a renamed row of table voucher has a code that is not in normal
 * form.  The row is stored already, so it can be checked but not changed.
 */
void
voucher_guard_new_code(TriggerData *trigger)
{
	text	   *code = code_of(trigger, trigger->tg_newtuple);
	text	   *normal = voucher_normalize_code(code);

	if (!same_text(code, normal))
		ereport(ERROR,
				errcode(ERRCODE_CHECK_VIOLATION),
				errmsg("voucher code \"%s\" is not in its normal form",
					   voucher_printable(code)),
				errhint("Use \"%s\".", voucher_printable(normal)));
}

/*
 * Throw if the old row of table voucher, or for TRUNCATE any, has redemptions.
 */
void
voucher_guard_old_code(TriggerData *trigger)
{
	Oid			schema = RelationGetNamespace(trigger->tg_relation);
	text	   *code = TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ?
		code_of(trigger, trigger->tg_trigtuple) : NULL;

	if (!voucher_rows_redeemed(schema, code))
		return;
	if (code)
		ereport(ERROR,
				errcode(ERRCODE_FOREIGN_KEY_VIOLATION),
				errmsg("voucher \"%s\" has redemptions and cannot be deleted or renamed",
					   voucher_printable(code)),
				errhint("Disable it instead: UPDATE voucher SET enabled = false."));
	ereport(ERROR,
			errcode(ERRCODE_FOREIGN_KEY_VIOLATION),
			errmsg("table \"voucher\" has redemptions and cannot be truncated"),
			errhint("Disable the vouchers instead: UPDATE voucher SET enabled = false."));
}

/* Give the code in a row of table voucher; NULL if it has none. */
static text *
code_of(TriggerData *trigger, HeapTuple tuple)
{
	Relation	relation = trigger->tg_relation;
	bool		isnull;
	Datum		code = heap_getattr(tuple,
									get_attnum(RelationGetRelid(relation), "code"),
									RelationGetDescr(relation), &isnull);

	return isnull ? NULL : DatumGetTextPP(code);
}

/* Are these the same byte for byte? */
static bool
same_text(const text *a, const text *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

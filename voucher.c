/*-------------------------------------------------------------------------
 *
 * voucher.c
 *	  The front door: what the server loads and what SQL calls.
 *
 * Every SQL-callable function reads its arguments, calls one module and
 * returns the outcome.  The rooms behind are in src/:
 *
 *	  admission  who gets a use, keeps it, or gives it back
 *	  terms      what a voucher grants, to whom and when
 *	  store      every change to the extension's tables, by SQL
 *	  rows       every look-up in them, by index
 *	  input      checks and normal forms of arguments
 *	  guc        settings
 *
 * Calls go down this list only.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/voucher.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_collation.h"
#include "commands/trigger.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "admission.h"
#include "compat.h"
#include "guc.h"
#include "input.h"

PG_MODULE_MAGIC_EXT(.name = "voucher",.version = VOUCHER_VERSION);

PGDLLEXPORT void _PG_init(void);

PG_FUNCTION_INFO_V1(voucher_reserve);
PG_FUNCTION_INFO_V1(voucher_confirm);
PG_FUNCTION_INFO_V1(voucher_release);
PG_FUNCTION_INFO_V1(voucher_guard);

static Oid	begin_call(FunctionCallInfo fcinfo, const char *name);
static Datum end_call(FunctionCallInfo fcinfo, VoucherOutcome outcome);
static HeapTuple normalize_new_code(TriggerData *trigger);
static void check_new_code(TriggerData *trigger);
static void refuse_if_redeemed(TriggerData *trigger);
static text *code_of(TriggerData *trigger, HeapTuple tuple);

/*
 * Called once when the library is loaded, by a session or by the postmaster.
 */
void
_PG_init(void)
{
	voucher_guc_init();
}

/*
 * voucher_reserve(code, customer_id, order_id, order_amount)
 */
Datum
voucher_reserve(PG_FUNCTION_ARGS)
{
	Oid			schema = begin_call(fcinfo, "voucher_reserve()");
	VoucherRequest request = {
		.code = voucher_input_code(fcinfo, 0),
		.customer_id = voucher_input_customer_id(fcinfo, 1),
		.order_id = voucher_input_order_id(fcinfo, 2),
		.order_amount = voucher_input_order_amount(fcinfo, 3)
	};

	return end_call(fcinfo, voucher_admission_reserve(schema, &request));
}

/*
 * voucher_confirm(code, order_id)
 */
Datum
voucher_confirm(PG_FUNCTION_ARGS)
{
	Oid			schema = begin_call(fcinfo, "voucher_confirm()");
	text	   *code = voucher_input_code(fcinfo, 0);
	text	   *order_id = voucher_input_order_id(fcinfo, 1);

	return end_call(fcinfo, voucher_admission_confirm(schema, code, order_id));
}

/*
 * voucher_release(code, order_id)
 */
Datum
voucher_release(PG_FUNCTION_ARGS)
{
	Oid			schema = begin_call(fcinfo, "voucher_release()");
	text	   *code = voucher_input_code(fcinfo, 0);
	text	   *order_id = voucher_input_order_id(fcinfo, 1);

	return end_call(fcinfo, voucher_admission_release(schema, code, order_id));
}

/*
 * Trigger on table voucher: keeps codes in their normal form, and a voucher
 * that has redemptions from being deleted, truncated or renamed.
 *
 * It stands in for a foreign key from voucher_redemption.  The row is locked
 * by the time it fires, and a reserve ends with an update of that row: the
 * one that comes second sees what the first did.
 */
Datum
voucher_guard(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				errmsg("function \"voucher_guard\" was not called by trigger manager"));

	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		return PointerGetDatum(normalize_new_code(trigger));

	if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
		check_new_code(trigger);
	refuse_if_redeemed(trigger);
	return PointerGetDatum(trigger->tg_trigtuple);
}

/*
 * What every function does first: refuse to run where nothing can be written,
 * and find the schema that the extension lives in.
 */
static Oid
begin_call(FunctionCallInfo fcinfo, const char *name)
{
	PreventCommandIfReadOnly(name);
	PreventCommandIfParallelMode(name);
	return get_func_namespace(fcinfo->flinfo->fn_oid);
}

/*
 * What every function does last: make a row of type voucher_outcome.
 */
static Datum
end_call(FunctionCallInfo fcinfo, VoucherOutcome outcome)
{
	TupleDesc	tupdesc;
	Datum		values[4] = {0};
	bool		nulls[4] = {false};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	values[0] = CStringGetTextDatum(voucher_result_names[outcome.result]);
	values[1] = Int64GetDatum(outcome.discount_amount);
	nulls[1] = !outcome.has_discount;
	values[2] = TimestampTzGetDatum(outcome.expires_at);
	nulls[2] = !outcome.has_deadline;
	nulls[3] = outcome.detail == NULL;
	if (outcome.detail)
		values[3] = CStringGetTextDatum(outcome.detail);

	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc),
											 values, nulls));
}

/*
 * Give the new row of table voucher with its code in normal form.
 */
static HeapTuple
normalize_new_code(TriggerData *trigger)
{
	Relation	relation = trigger->tg_relation;
	int			column = get_attnum(RelationGetRelid(relation), "code");
	text	   *code = code_of(trigger, trigger->tg_trigtuple);
	Datum		normal;
	bool		isnull = false;

	if (code == NULL)			/* NOT NULL will complain */
		return trigger->tg_trigtuple;

	normal = PointerGetDatum(voucher_normalize_code(code));
	return heap_modify_tuple_by_cols(trigger->tg_trigtuple,
									 RelationGetDescr(relation),
									 1, &column, &normal, &isnull);
}

/*
 * Throw if a renamed row of table voucher has a code that is not in normal
 * form.  The row is stored already, so it can be checked but not changed.
 */
static void
check_new_code(TriggerData *trigger)
{
	text	   *code = code_of(trigger, trigger->tg_newtuple);
	text	   *normal = voucher_normalize_code(code);

	if (!DatumGetBool(DirectFunctionCall2Coll(texteq, C_COLLATION_OID,
											  PointerGetDatum(code),
											  PointerGetDatum(normal))))
		ereport(ERROR,
				errcode(ERRCODE_CHECK_VIOLATION),
				errmsg("voucher code \"%s\" is not in its normal form",
					   voucher_printable(code)),
				errhint("Use \"%s\".", voucher_printable(normal)));
}

/*
 * Throw if the old row of table voucher, or for TRUNCATE any, has redemptions.
 */
static void
refuse_if_redeemed(TriggerData *trigger)
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

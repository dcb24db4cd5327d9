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
 *	  store      every SQL statement on the extension's tables
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
static void refuse_if_redeemed(TriggerData *trigger);

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
 * Trigger on table voucher: brings a new code into its normal form, and keeps
 * a voucher that has redemptions from being deleted, truncated or renamed.
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
	TupleDesc	tupdesc = RelationGetDescr(relation);
	int			column = get_attnum(RelationGetRelid(relation), "code");
	bool		isnull;
	Datum		code = heap_getattr(trigger->tg_trigtuple, column, tupdesc, &isnull);

	if (isnull)					/* NOT NULL will complain */
		return trigger->tg_trigtuple;

	code = PointerGetDatum(voucher_normalize_code(DatumGetTextPP(code)));
	return heap_modify_tuple_by_cols(trigger->tg_trigtuple, tupdesc,
									 1, &column, &code, &isnull);
}

/*
 * Throw if the old row of table voucher, or for TRUNCATE any, has redemptions.
 */
static void
refuse_if_redeemed(TriggerData *trigger)
{
	Relation	relation = trigger->tg_relation;
	VoucherStore store;
	text	   *code = NULL;
	bool		redeemed;

	if (TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
	{
		TupleDesc	tupdesc = RelationGetDescr(relation);
		bool		isnull;

		code = DatumGetTextPP(heap_getattr(trigger->tg_trigtuple,
										   get_attnum(RelationGetRelid(relation), "code"),
										   tupdesc, &isnull));
	}

	voucher_store_open(&store, RelationGetNamespace(relation));
	redeemed = voucher_store_has_redemptions(&store, code);
	voucher_store_close(&store);

	if (!redeemed)
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

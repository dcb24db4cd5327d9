/*-------------------------------------------------------------------------
 *
 * voucher.c
 *	  The front door: what the server loads and what SQL calls.
 *
 * Every SQL-callable function reads its arguments, calls one module and
 * returns the outcome, or throws it if its name says so.  The rooms behind
 * are in src/:
 *
 *	  launcher   sends the worker to the databases
 *	  visit      one round of the worker in one database
 *	  expiry     gives back the holds that have lapsed
 *	  reconcile  compares counters with rows, and repairs
 *	  incident   what the worker has noticed
 *	  admission  who gets a use, keeps it, or gives it back
 *	  capacity   how many uses there are, and which of them are slots
 *	  generate   many vouchers with the same terms
 *	  purge      deletes old history
 *	  guard      the triggers on table voucher
 *	  terms      what a voucher grants, to whom and when
 *	  store      every change to vouchers and redemptions, by SQL
 *	  slots      the uses of a flash voucher, row by row
 *	  sql        statements, prepared once
 *	  owner      being the owner of the tables meanwhile
 *	  rows       every look-up of them
 *	  tally      what counters say, and what rows do
 *	  scan       by index
 *	  schedule   which databases are due when: the shared memory
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
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "commands/dbcommands.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "admission.h"
#include "capacity.h"
#include "compat.h"
#include "generate.h"
#include "guard.h"
#include "guc.h"
#include "input.h"
#include "launcher.h"
#include "purge.h"
#include "reconcile.h"
#include "schedule.h"
#include "visit.h"

PG_MODULE_MAGIC_EXT(.name = "voucher",.version = VOUCHER_VERSION);

PGDLLEXPORT void _PG_init(void);

/* Codes that one call may make */
#define MAX_CODES	10000000

/* What a refusal is as an ERROR */
typedef struct Refusal
{
	int			sqlstate;
	const char *message;		/* %s is the code */
	const char *hint;			/* or NULL */
} Refusal;

#define VOUCHER_SQLSTATE(last)	MAKE_SQLSTATE('V', 'C', '0', '0', last)

static const Refusal refusals[] = {
	[VOUCHER_ORDER_MISMATCH] = {
		VOUCHER_SQLSTATE('1'), "order does not match its use of a voucher, asked for \"%s\"",
		"Repeat the facts of the first call, or use another order id."
	},
	[VOUCHER_OUT_OF_STOCK] = {
		VOUCHER_SQLSTATE('2'), "voucher \"%s\" is out of stock",
		"Uses that are only held may come back; try again later."
	},
	[VOUCHER_ALREADY_USED] = {
		VOUCHER_SQLSTATE('3'), "voucher \"%s\" is used by this customer as often as allowed",
		NULL
	},
	[VOUCHER_NOT_ELIGIBLE] = {
		VOUCHER_SQLSTATE('4'), "voucher \"%s\" is not valid for this order now",
		NULL
	},
	[VOUCHER_NOT_RESERVED] = {
		VOUCHER_SQLSTATE('5'), "order's use of voucher \"%s\" is in another state",
		"A use that was given back can be reserved again."
	},
	[VOUCHER_NOT_FOUND] = {
		VOUCHER_SQLSTATE('6'), "voucher \"%s\", or its use by this order, does not exist",
		NULL
	}
};

PG_FUNCTION_INFO_V1(voucher_reserve);
PG_FUNCTION_INFO_V1(voucher_confirm);
PG_FUNCTION_INFO_V1(voucher_release);
PG_FUNCTION_INFO_V1(voucher_refund);
PG_FUNCTION_INFO_V1(voucher_redeem);
PG_FUNCTION_INFO_V1(voucher_extend);
PG_FUNCTION_INFO_V1(voucher_check);
PG_FUNCTION_INFO_V1(voucher_reserve_or_raise);
PG_FUNCTION_INFO_V1(voucher_confirm_or_raise);
PG_FUNCTION_INFO_V1(voucher_release_or_raise);
PG_FUNCTION_INFO_V1(voucher_redeem_or_raise);
PG_FUNCTION_INFO_V1(voucher_set_limit);
PG_FUNCTION_INFO_V1(voucher_flash_open);
PG_FUNCTION_INFO_V1(voucher_flash_close);
PG_FUNCTION_INFO_V1(voucher_generate);
PG_FUNCTION_INFO_V1(voucher_purge);
PG_FUNCTION_INFO_V1(voucher_run_worker);
PG_FUNCTION_INFO_V1(voucher_reconcile);
PG_FUNCTION_INFO_V1(voucher_repair);
PG_FUNCTION_INFO_V1(voucher_worker_databases);
PG_FUNCTION_INFO_V1(voucher_guard);
PG_FUNCTION_INFO_V1(voucher_installed);

static VoucherOutcome admit(FunctionCallInfo fcinfo,
							VoucherOutcome (*module) (Oid, const VoucherRequest *));
static VoucherOutcome settle(FunctionCallInfo fcinfo,
							 VoucherOutcome (*module) (Oid, text *, text *));
static Oid	begin_change(FunctionCallInfo fcinfo);
static Oid	extension_schema(FunctionCallInfo fcinfo);
static Datum answer(FunctionCallInfo fcinfo, VoucherOutcome outcome);
static Datum make_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls);
static Datum answer_or_raise(FunctionCallInfo fcinfo, VoucherOutcome outcome);

/*
 * Called once when the library is loaded, by a session or by the postmaster.
 */
void
_PG_init(void)
{
	voucher_guc_init();
	if (process_shared_preload_libraries_in_progress)
	{
		voucher_schedule_init();
		voucher_launcher_register();
	}
}

/*
 * voucher_reserve(code, customer_id, order_id, order_amount)
 */
Datum
voucher_reserve(PG_FUNCTION_ARGS)
{
	return answer(fcinfo, admit(fcinfo, voucher_admission_reserve));
}

Datum
voucher_reserve_or_raise(PG_FUNCTION_ARGS)
{
	return answer_or_raise(fcinfo, admit(fcinfo, voucher_admission_reserve));
}

/*
 * voucher_redeem(code, customer_id, order_id, order_amount)
 */
Datum
voucher_redeem(PG_FUNCTION_ARGS)
{
	return answer(fcinfo, admit(fcinfo, voucher_admission_redeem));
}

Datum
voucher_redeem_or_raise(PG_FUNCTION_ARGS)
{
	return answer_or_raise(fcinfo, admit(fcinfo, voucher_admission_redeem));
}

/*
 * voucher_confirm(code, order_id)
 */
Datum
voucher_confirm(PG_FUNCTION_ARGS)
{
	return answer(fcinfo, settle(fcinfo, voucher_admission_confirm));
}

Datum
voucher_confirm_or_raise(PG_FUNCTION_ARGS)
{
	return answer_or_raise(fcinfo, settle(fcinfo, voucher_admission_confirm));
}

/*
 * voucher_release(code, order_id)
 */
Datum
voucher_release(PG_FUNCTION_ARGS)
{
	return answer(fcinfo, settle(fcinfo, voucher_admission_release));
}

Datum
voucher_release_or_raise(PG_FUNCTION_ARGS)
{
	return answer_or_raise(fcinfo, settle(fcinfo, voucher_admission_release));
}

/*
 * voucher_refund(code, order_id)
 */
Datum
voucher_refund(PG_FUNCTION_ARGS)
{
	return answer(fcinfo, settle(fcinfo, voucher_admission_refund));
}

/*
 * voucher_extend(code, order_id, hold)
 */
Datum
voucher_extend(PG_FUNCTION_ARGS)
{
	Oid			schema = begin_change(fcinfo);
	text	   *code = voucher_input_code(fcinfo, 0, "code");
	text	   *order_id = voucher_input_order_id(fcinfo, 1);
	int64		hold = voucher_input_hold(fcinfo, 2);

	return answer(fcinfo, voucher_admission_extend(schema, code, order_id, hold));
}

/*
 * voucher_check(code, customer_id, order_amount)
 */
Datum
voucher_check(PG_FUNCTION_ARGS)
{
	Oid			schema = extension_schema(fcinfo);
	VoucherRequest request = {
		.code = voucher_input_code(fcinfo, 0, "code"),
		.customer_id = voucher_input_customer_id(fcinfo, 1),
		.order_amount = voucher_input_order_amount(fcinfo, 2)
	};

	return answer(fcinfo, voucher_admission_check(schema, &request));
}

/*
 * voucher_set_limit(code, total_limit)
 */
Datum
voucher_set_limit(PG_FUNCTION_ARGS)
{
	Oid			schema = begin_change(fcinfo);
	text	   *code = voucher_input_code(fcinfo, 0, "code");
	int64		limit = voucher_input_limit(fcinfo, 1);

	voucher_capacity_set_limit(schema, code, limit);
	PG_RETURN_VOID();
}

/*
 * voucher_flash_open(code, quota)
 */
Datum
voucher_flash_open(PG_FUNCTION_ARGS)
{
	Oid			schema = begin_change(fcinfo);
	text	   *code = voucher_input_code(fcinfo, 0, "code");
	int32		quota = PG_ARGISNULL(1) ? 0 :
		voucher_input_int32(fcinfo, 1, "quota", 1, PG_INT32_MAX);

	PG_RETURN_INT32(voucher_capacity_flash_open(schema, code, quota));
}

/*
 * voucher_flash_close(code)
 */
Datum
voucher_flash_close(PG_FUNCTION_ARGS)
{
	Oid			schema = begin_change(fcinfo);
	text	   *code = voucher_input_code(fcinfo, 0, "code");

	PG_RETURN_INT32(voucher_capacity_flash_close(schema, code));
}

/*
 * voucher_generate(n, template, prefix, length)
 */
Datum
voucher_generate(PG_FUNCTION_ARGS)
{
	Oid			schema = begin_change(fcinfo);
	int32		n = voucher_input_int32(fcinfo, 0, "n", 1, MAX_CODES);
	text	   *template = voucher_input_code(fcinfo, 1, "template");
	text	   *prefix = voucher_input_prefix(fcinfo, 2);
	int32		length = voucher_input_int32(fcinfo, 3, "length", 1,
											 VOUCHER_CODE_MAX_CHARS);
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	voucher_generate_codes(schema, n, template, prefix, length,
						   result->setResult, result->setDesc);
	return (Datum) 0;
}

/*
 * voucher_purge(older_than, batch)
 */
Datum
voucher_purge(PG_FUNCTION_ARGS)
{
	Oid			schema = begin_change(fcinfo);
	TimestampTz before = voucher_input_older_than(fcinfo, 0);
	int32		batch = voucher_input_int32(fcinfo, 1, "batch", 1,
											VOUCHER_PURGE_MAX_BATCH);

	PG_RETURN_INT64(voucher_purge_history(schema, before, batch));
}

/*
 * voucher_run_worker()
 */
Datum
voucher_run_worker(PG_FUNCTION_ARGS)
{
	Oid			schema = begin_change(fcinfo);
	int64		expired;
	int64		drifting;
	Datum		values[2];
	bool		nulls[2] = {false};

	voucher_visit_now(schema, &expired, &drifting);
	values[0] = Int64GetDatum(expired);
	values[1] = Int64GetDatum(drifting);
	return make_row(fcinfo, values, nulls);
}

/*
 * voucher_reconcile(code)
 */
Datum
voucher_reconcile(PG_FUNCTION_ARGS)
{
	Oid			schema = extension_schema(fcinfo);
	text	   *code = PG_ARGISNULL(0) ? NULL : voucher_input_code(fcinfo, 0, "code");
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	voucher_reconcile_rows(schema, code, result->setResult, result->setDesc);
	return (Datum) 0;
}

/*
 * voucher_repair(code)
 */
Datum
voucher_repair(PG_FUNCTION_ARGS)
{
	Oid			schema = begin_change(fcinfo);
	text	   *code = voucher_input_code(fcinfo, 0, "code");

	PG_RETURN_INT64(voucher_reconcile_repair(schema, code));
}

/*
 * voucher_worker_databases(), behind view voucher_worker: those that the caller
 * may see.
 */
Datum
voucher_worker_databases(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		sees_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	VoucherDatabase *databases;
	TimestampTz heartbeat;
	int			count = voucher_schedule_list(&databases, &heartbeat);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < count; i++)
	{
		VoucherDatabase *database = &databases[i];
		char	   *name = get_database_name(database->oid);
		Datum		values[8] = {0};
		bool		nulls[8] = {false};

		if (name == NULL || (!sees_all && database->oid != MyDatabaseId))
			continue;

		values[0] = CStringGetDatum(name);
		values[1] = CStringGetTextDatum(voucher_service_names[database->service]);
		values[2] = TimestampTzGetDatum(database->last_visit);
		values[3] = CStringGetTextDatum(database->last_error);
		values[4] = TimestampTzGetDatum(database->last_error_at);
		values[5] = TimestampTzGetDatum(database->next_visit);
		values[6] = Int64GetDatum(database->expired);
		values[7] = TimestampTzGetDatum(heartbeat);
		nulls[2] = database->last_visit == 0;
		nulls[3] = nulls[4] = database->last_error_at == 0;
		nulls[7] = heartbeat == 0;
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * Called once by the install script: tells the worker that there is a database
 * to serve, or the administrator that there is no worker.
 */
Datum
voucher_installed(PG_FUNCTION_ARGS)
{
	if (voucher_schedule_exists())
		voucher_schedule_note(GetCurrentTimestamp());
	else
		ereport(WARNING,		/* what is less is not shown for a script */
				errmsg("library \"voucher\" is not preloaded"),
				errdetail("No background worker gives lapsed holds back."),
				errhint("Add it to \"shared_preload_libraries\" and restart the server, or call voucher_run_worker() every minute."));
	PG_RETURN_VOID();
}

/*
 * Trigger on table voucher: keeps codes in their normal form, and a voucher
 * that has redemptions from being deleted, truncated or renamed.
 */
Datum
voucher_guard(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				errmsg("function \"voucher_guard\" was not called by trigger manager"));
	if (RelationGetRelid(trigger->tg_relation) !=
		get_relname_relid("voucher", extension_schema(fcinfo)) ||
		(!TRIGGER_FIRED_FOR_ROW(trigger->tg_event) &&
		 !TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event)))
		ereport(ERROR,
				errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				errmsg("function \"voucher_guard\" serves the triggers that extension \"voucher\" made, and no others"));

	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		return PointerGetDatum(voucher_guard_new_row(trigger));

	if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
		voucher_guard_new_code(trigger);
	voucher_guard_old_code(trigger);
	return PointerGetDatum(trigger->tg_trigtuple);
}

/*
 * Read the arguments (code, customer_id, order_id, order_amount) and call the
 * module with them.
 */
static VoucherOutcome
admit(FunctionCallInfo fcinfo,
	  VoucherOutcome (*module) (Oid, const VoucherRequest *))
{
	Oid			schema = begin_change(fcinfo);
	VoucherRequest request = {
		.code = voucher_input_code(fcinfo, 0, "code"),
		.customer_id = voucher_input_customer_id(fcinfo, 1),
		.order_id = voucher_input_order_id(fcinfo, 2),
		.order_amount = voucher_input_order_amount(fcinfo, 3)
	};

	return module(schema, &request);
}

/*
 * Likewise with the arguments (code, order_id).
 */
static VoucherOutcome
settle(FunctionCallInfo fcinfo, VoucherOutcome (*module) (Oid, text *, text *))
{
	Oid			schema = begin_change(fcinfo);
	text	   *code = voucher_input_code(fcinfo, 0, "code");
	text	   *order_id = voucher_input_order_id(fcinfo, 1);

	return module(schema, code, order_id);
}

/*
 * What every function that changes something does first: refuse to run where
 * nothing can be written, and find the extension.
 */
static Oid
begin_change(FunctionCallInfo fcinfo)
{
	if (XactReadOnly || IsInParallelMode())
	{
		char	   *name = psprintf("%s()", get_func_name(fcinfo->flinfo->fn_oid));

		PreventCommandIfReadOnly(name);
		PreventCommandIfParallelMode(name);
	}
	return extension_schema(fcinfo);
}

/*
 * Give the schema that the extension lives in: that of the function called.
 */
static Oid
extension_schema(FunctionCallInfo fcinfo)
{
	return get_func_namespace(fcinfo->flinfo->fn_oid);
}

/*
 * Make a row of type voucher_outcome.
 */
static Datum
answer(FunctionCallInfo fcinfo, VoucherOutcome outcome)
{
	Datum		values[4] = {0};
	bool		nulls[4] = {false};

	values[0] = CStringGetTextDatum(voucher_result_names[outcome.result]);
	values[1] = Int64GetDatum(outcome.discount_amount);
	nulls[1] = !outcome.has_discount;
	values[2] = TimestampTzGetDatum(outcome.expires_at);
	nulls[2] = !outcome.has_deadline;
	nulls[3] = outcome.detail == NULL;
	if (outcome.detail)
		values[3] = CStringGetTextDatum(outcome.detail);

	return make_row(fcinfo, values, nulls);
}

/*
 * Make a row of the type that the function called returns.
 */
static Datum
make_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc),
											 values, nulls));
}

/*
 * The same, but a refusal is an ERROR with a SQLSTATE of its own and with that
 * row in its DETAIL.
 */
static Datum
answer_or_raise(FunctionCallInfo fcinfo, VoucherOutcome outcome)
{
	Datum		row = answer(fcinfo, outcome);
	const Refusal *refusal;

	if (outcome.result < VOUCHER_ORDER_MISMATCH)
		return row;

	refusal = &refusals[outcome.result];
	ereport(ERROR,
			errcode(refusal->sqlstate),
			errmsg(refusal->message,
				   voucher_printable(voucher_input_code(fcinfo, 0, "code"))),
			errdetail("%s", OidOutputFunctionCall(F_RECORD_OUT, row)),
			refusal->hint ? errhint("%s", refusal->hint) : 0);
}

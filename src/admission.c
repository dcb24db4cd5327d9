/*-------------------------------------------------------------------------
 *
 * admission.c
 *	  Who gets a use, keeps it, or gives it back: the one path to every
 *	  change of state.
 *
 * Each call looks, decides, and then makes a change that holds only if what
 * it saw still holds once the row's lock is its own.  If it does not, the
 * call looks again.  No subtransaction is ever started.
 *
 * Note about locking: redemption rows first, the voucher row last, in every
 * function here.  The voucher row is what a rush queues on, so it is locked
 * as late as can be; and release and expiry start from the redemption, so any
 * other order would deadlock with them.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/admission.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "admission.h"
#include "guc.h"
#include "input.h"
#include "schedule.h"
#include "slots.h"

/*
 * A call that looks again has lost to somebody who got something done, so a
 * bound this high is met only if a trigger undoes our changes.
 */
#define MAX_ROUNDS	100

/* Lapsed holds or slots to try, as others may be working on the first ones */
#define MAX_CANDIDATES	64

const char *const voucher_result_names[] = {
	[VOUCHER_RESERVED] = "RESERVED",
	[VOUCHER_CONFIRMED] = "CONFIRMED",
	[VOUCHER_RELEASED] = "RELEASED",
	[VOUCHER_AVAILABLE] = "AVAILABLE",
	[VOUCHER_DUPLICATE] = "DUPLICATE",
	[VOUCHER_ORDER_MISMATCH] = "ORDER_MISMATCH",
	[VOUCHER_OUT_OF_STOCK] = "OUT_OF_STOCK",
	[VOUCHER_ALREADY_USED] = "ALREADY_USED",
	[VOUCHER_NOT_ELIGIBLE] = "NOT_ELIGIBLE",
	[VOUCHER_NOT_RESERVED] = "NOT_RESERVED",
	[VOUCHER_NOT_FOUND] = "NOT_FOUND"
};

/* A change of one redemption, as voucher_confirm() and its like ask for it. */
typedef struct Transition
{
	VoucherState from;			/* the state it starts in */
	bool		(*change) (VoucherSql *sql, VoucherRedemption *redemption);
	VoucherResult result;		/* the answer when it was made */
	bool		has_deadline;	/* is the use held afterwards? */
	bool		gives_back;		/* is the use free afterwards? */
	int			done;			/* bits of the states that make it a retry */
	const char *done_detail;	/* the status of those */
} Transition;

#define STATE_BIT(state)	(1 << (state))

static const Transition confirmation = {
	.from = VOUCHER_STATE_RESERVED,
	.change = voucher_store_confirm,
	.result = VOUCHER_CONFIRMED,
	.done = STATE_BIT(VOUCHER_STATE_CONFIRMED),
	.done_detail = "CONFIRMED"
};

static const Transition release = {
	.from = VOUCHER_STATE_RESERVED,
	.change = voucher_store_release,
	.result = VOUCHER_RELEASED,
	.gives_back = true,
	.done = STATE_BIT(VOUCHER_STATE_RELEASED) |
	STATE_BIT(VOUCHER_STATE_EXPIRED) | STATE_BIT(VOUCHER_STATE_REFUNDED),
	.done_detail = "RELEASED"
};

static const Transition refund = {
	.from = VOUCHER_STATE_CONFIRMED,
	.change = voucher_store_refund,
	.result = VOUCHER_RELEASED,
	.gives_back = true,
	.done = STATE_BIT(VOUCHER_STATE_REFUNDED),
	.done_detail = "RELEASED"
};

/* never a retry: asked again, it extends again */
static const Transition extension = {
	.from = VOUCHER_STATE_RESERVED,
	.change = voucher_store_extend,
	.result = VOUCHER_RESERVED,
	.has_deadline = true
};

static VoucherOutcome admit(Oid schema, const VoucherRequest *request,
							VoucherState wanted);
static bool decide_without_taking(VoucherSql *sql, Oid schema,
								  const VoucherRequest *request,
								  const VoucherFacts *facts, int64 returned,
								  TimestampTz now, int32 *slot_no,
								  VoucherOutcome *outcome);
static int32 find_slot(VoucherSql *sql, Oid schema, text *code,
					   const VoucherFacts *facts);
static int	find_lapsed(Oid schema, const VoucherRequest *request,
						VoucherResult refused, TimestampTz now,
						int64 *ids, int max);
static bool expire_for(VoucherSql *sql, Oid schema,
					   const VoucherRequest *request, VoucherResult refused,
					   TimestampTz now, int64 *returned);
static VoucherOutcome settle(Oid schema, text *code, text *order_id,
							 const Transition *transition, int64 hold);
static int64 hold_time(const VoucherTerms *terms);
static void give_back(VoucherSql *sql, text *code, int64 uses);
static void check_rounds(int rounds);
static VoucherOutcome refuse(VoucherResult result, const char *detail);
static VoucherOutcome grant(VoucherResult result,
							const VoucherRedemption *redemption,
							bool has_deadline, const char *detail);

/*
 * Reserve one use of a voucher for an order.
 */
VoucherOutcome
voucher_admission_reserve(Oid schema, const VoucherRequest *request)
{
	return admit(schema, request, VOUCHER_STATE_RESERVED);
}

/*
 * Reserve and confirm in one step.  A hold that the same order has already is
 * confirmed.
 */
VoucherOutcome
voucher_admission_redeem(Oid schema, const VoucherRequest *request)
{
	for (int rounds = 0;; check_rounds(++rounds))
	{
		VoucherOutcome outcome = admit(schema, request, VOUCHER_STATE_CONFIRMED);

		if (outcome.result != VOUCHER_DUPLICATE)
			return outcome;
		if (outcome.detail != voucher_state_names[VOUCHER_STATE_RESERVED])
		{
			outcome.has_deadline = false;	/* as in the first answer */
			return outcome;
		}

		outcome = voucher_admission_confirm(schema, request->code,
											request->order_id);
		if (outcome.result == VOUCHER_CONFIRMED ||
			outcome.result == VOUCHER_DUPLICATE)
			return outcome;

		/* the hold was given back in between: the order is new again */
	}
}

/*
 * Say what a reserve would answer now to an order that is not known yet.
 * Takes no lock, writes nothing and promises nothing.
 */
VoucherOutcome
voucher_admission_check(Oid schema, const VoucherRequest *request)
{
	VoucherFacts facts;
	VoucherOutcome outcome;
	TimestampTz now;
	int32		slot_no = 0;
	int64		id;

	voucher_rows_look(schema, request, &facts);
	now = GetCurrentTimestamp();

	if (decide_without_taking(NULL, schema, request, &facts, 0, now, &slot_no,
							  &outcome))
	{
		/* a reserve would give a lapsed hold back first, and decide again */
		if (find_lapsed(schema, request, outcome.result, now, &id, 1) == 0)
			return outcome;
		if (outcome.result == VOUCHER_ALREADY_USED)
			facts.uses--;
		if (decide_without_taking(NULL, schema, request, &facts, 1, now,
								  &slot_no, &outcome))
			return outcome;
	}

	outcome = refuse(VOUCHER_AVAILABLE, NULL);
	outcome.has_discount = true;
	outcome.discount_amount =
		voucher_terms_discount(&facts.terms, request->order_amount);
	return outcome;
}

/*
 * Make a reserved use final.
 */
VoucherOutcome
voucher_admission_confirm(Oid schema, text *code, text *order_id)
{
	return settle(schema, code, order_id, &confirmation, 0);
}

/*
 * Give a reserved use back.
 */
VoucherOutcome
voucher_admission_release(Oid schema, text *code, text *order_id)
{
	return settle(schema, code, order_id, &release, 0);
}

/*
 * Give a confirmed use back.
 */
VoucherOutcome
voucher_admission_refund(Oid schema, text *code, text *order_id)
{
	return settle(schema, code, order_id, &refund, 0);
}

/*
 * Hold a reserved use for a time from now on, in microseconds; 0 for as long
 * as a new one would be held.  Never shortens a hold.
 */
VoucherOutcome
voucher_admission_extend(Oid schema, text *code, text *order_id, int64 hold)
{
	if (hold == 0)
	{
		VoucherFacts facts;

		(void) voucher_rows_voucher(schema, code, &facts);
		hold = hold_time(&facts.terms);
	}
	return settle(schema, code, order_id, &extension, hold);
}

/*
 * Take one use of a voucher for an order, RESERVED or CONFIRMED as wanted.
 */
static VoucherOutcome
admit(Oid schema, const VoucherRequest *request, VoucherState wanted)
{
	VoucherSql sql;
	VoucherOutcome outcome;
	bool		expired = false;	/* was a lapsed hold given back? */
	int64		returned = 0;	/* those that are still counted */
	int32		slot_no = 0;	/* locked by this call */
	int			rounds = 0;

	voucher_sql_open(&sql, schema);
	for (;;)
	{
		VoucherFacts facts;
		VoucherRedemption redemption;
		TimestampTz now;

		voucher_rows_look(schema, request, &facts);
		now = GetCurrentTimestamp();

		if (decide_without_taking(&sql, schema, request, &facts, returned, now,
								  &slot_no, &outcome))
		{
			if (expired ||
				!expire_for(&sql, schema, request, outcome.result, now,
							&returned))
				break;
			expired = true;
			continue;
		}
		check_rounds(rounds++);

		if (facts.misnumbered > 0)
		{
			if (voucher_store_number_use(&sql, facts.misnumbered,
										 facts.free_use_no,
										 facts.terms.per_user_limit))
				rounds--;		/* this one was not lost */
			continue;
		}

		redemption.discount_amount =
			voucher_terms_discount(&facts.terms, request->order_amount);
		redemption.state = wanted;
		redemption.slot_no = slot_no;
		redemption.expires_at = wanted == VOUCHER_STATE_RESERVED ?
			now + hold_time(&facts.terms) : now;

		if (!voucher_store_insert(&sql, request,
								  facts.free_use_no, now, &redemption))
			continue;
		if (slot_no > 0 ||
			voucher_store_take(&sql, request->code, &facts.terms, returned))
		{
			if (slot_no == 0)
				returned = 0;
			outcome = wanted == VOUCHER_STATE_RESERVED ?
				grant(VOUCHER_RESERVED, &redemption, true, NULL) :
				grant(VOUCHER_CONFIRMED, &redemption, false, NULL);
			if (outcome.has_deadline)
				voucher_schedule_note(outcome.expires_at);
			break;
		}
		voucher_store_remove(&sql, redemption.id);
	}

	if (returned > 0)
		give_back(&sql, request->code, returned);
	voucher_sql_close(&sql);
	return outcome;
}

/*
 * Answer a reserve from the facts alone, if they decide it: a retry or a
 * refusal, the first that applies in the order that is promised.  False if a
 * use has to be taken: the slot *slot_no, which is locked then unless sql is
 * NULL, or an ordinary one if that is 0.
 *
 * The look-up of the order comes first, so that a retry succeeds although the
 * sale is over by now; the limits come last.
 */
static bool
decide_without_taking(VoucherSql *sql, Oid schema,
					  const VoucherRequest *request,
					  const VoucherFacts *facts, int64 returned,
					  TimestampTz now, int32 *slot_no,
					  VoucherOutcome *outcome)
{
	const char *reason;

	if (facts->order_is_live)
	{
		if (!facts->order_has_code)
			*outcome = refuse(VOUCHER_ORDER_MISMATCH, "voucher_code");
		else if (facts->order_customer_id != request->customer_id)
			*outcome = refuse(VOUCHER_ORDER_MISMATCH, "customer_id");
		else if (facts->order_amount != request->order_amount)
			*outcome = refuse(VOUCHER_ORDER_MISMATCH, "order_amount");
		else
			*outcome = grant(VOUCHER_DUPLICATE, &facts->order, true,
							 voucher_state_names[facts->order.state]);
	}
	else if (!facts->voucher_exists)
		*outcome = refuse(VOUCHER_NOT_FOUND, NULL);
	else if ((reason = voucher_terms_refusal(&facts->terms,
											 request->order_amount, now)))
		*outcome = refuse(VOUCHER_NOT_ELIGIBLE, reason);
	else if (facts->terms.per_user_limit > 0 &&
			 facts->uses >= facts->terms.per_user_limit)
		*outcome = refuse(VOUCHER_ALREADY_USED, NULL);
	else if (*slot_no > 0)
		return false;			/* locked in the round before */
	else if (facts->flash &&
			 (*slot_no = find_slot(sql, schema, request->code, facts)) > 0)
		return false;
	else if (facts->in_use - returned >= facts->total_limit)
		*outcome = refuse(VOUCHER_OUT_OF_STOCK, NULL);
	else
		return false;

	return true;
}

/*
 * Find a free slot of a flash voucher, and lock it unless sql is NULL.  0 if
 * there is none; one that a call in flight has may come back.
 *
 * Starts at random, so that callers get out of each other's way.
 */
static int32
find_slot(VoucherSql *sql, Oid schema, text *code, const VoucherFacts *facts)
{
	int32		slots[MAX_CANDIDATES];
	int32		from = 1 + pg_prng_uint64_range(&pg_global_prng_state, 0,
												Max(facts->flash_quota - 1, 0));
	int			found;

	if (sql == NULL)
		return voucher_slots_find_free(schema, code, from, slots, 1) > 0 ?
			slots[0] : 0;

	/* it turns off the foreign key that ties a use to its slot */
	if (SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("a flash voucher cannot be reserved while \"session_replication_role\" is \"replica\""));

	found = voucher_slots_find_takeable(schema, code, from, slots,
										MAX_CANDIDATES);
	for (int i = 0; i < found; i++)
		if (voucher_slots_lock_free(sql, schema, code, slots[i]))
			return slots[i];
	return 0;
}

/*
 * Find lapsed holds that stand in the way of this reserve, if that is why it
 * was refused: of the voucher, or of the customer.  Fills in up to max ids and
 * returns how many.
 */
static int
find_lapsed(Oid schema, const VoucherRequest *request, VoucherResult refused,
			TimestampTz now, int64 *ids, int max)
{
	switch (refused)
	{
		case VOUCHER_OUT_OF_STOCK:
			return voucher_rows_lapsed(schema, request->code, NULL,
									   now, ids, max);
		case VOUCHER_ALREADY_USED:
			return voucher_rows_lapsed(schema, request->code,
									   &request->customer_id, now, ids, max);
		default:
			return 0;
	}
}

/*
 * Give back one such hold: expiry works without any worker.  *returned is 1 if
 * that was an ordinary use, which is still counted.
 */
static bool
expire_for(VoucherSql *sql, Oid schema, const VoucherRequest *request,
		   VoucherResult refused, TimestampTz now, int64 *returned)
{
	int64		ids[MAX_CANDIDATES];
	int			found = find_lapsed(schema, request, refused, now,
									ids, MAX_CANDIDATES);
	VoucherUses *expired;

	for (int i = 0; i < found; i++)
	{
		if (voucher_store_expire(sql, &ids[i], 1, &expired) > 0)
		{
			*returned = expired[0].ordinary;
			return true;
		}
	}
	return false;
}

/*
 * Change the redemption of (code, order_id) as asked, if it is in the state
 * that the change starts from.  An extension holds it for the time given, in
 * microseconds from now.
 *
 * The row's status decides, under its lock: a hold whose deadline has passed
 * is its owner's until somebody gives it back.
 */
static VoucherOutcome
settle(Oid schema, text *code, text *order_id, const Transition *transition,
	   int64 hold)
{
	VoucherSql sql;
	VoucherRedemption redemption;
	VoucherOutcome outcome;
	int			rounds = 0;

	voucher_sql_open(&sql, schema);
	for (;;)
	{
		if (!voucher_rows_find(schema, code, order_id, &redemption))
		{
			outcome = refuse(VOUCHER_NOT_FOUND, NULL);
			break;
		}
		if (STATE_BIT(redemption.state) & transition->done)
		{
			outcome = grant(VOUCHER_DUPLICATE, &redemption, false,
							transition->done_detail);
			break;
		}
		if (redemption.state != transition->from)
		{
			outcome = refuse(VOUCHER_NOT_RESERVED,
							 voucher_state_names[redemption.state]);
			break;
		}
		check_rounds(rounds++);

		redemption.expires_at = GetCurrentTimestamp() + hold;
		if (transition->change(&sql, &redemption))
		{
			if (transition->gives_back && redemption.slot_no == 0)
				give_back(&sql, code, 1);
			outcome = grant(transition->result, &redemption,
							transition->has_deadline, NULL);
			break;
		}
	}
	voucher_sql_close(&sql);
	return outcome;
}

/* How long is a use held under these terms, in microseconds? */
static int64
hold_time(const VoucherTerms *terms)
{
	return terms->hold_time > 0 ? terms->hold_time :
		voucher_hold_time * USECS_PER_SEC;
}

/*
 * Uncount uses of redemptions that this call released.
 *
 * A counter that does not cover them is no reason to keep a customer from
 * cancelling: the rows are right, and the counter was wrong before.
 */
static void
give_back(VoucherSql *sql, text *code, int64 uses)
{
	if (!voucher_store_give_back(sql, code, uses))
		ereport(WARNING,
				errcode(ERRCODE_DATA_EXCEPTION),
				errmsg("used_count of voucher \"%s\" did not include a use that was released",
					   voucher_printable(code)),
				errhint("The tables were changed by hand; compare used_count with the live redemptions."));
}

/*
 * Before a change, after so many that did not hold: give up at some point.
 */
static void
check_rounds(int rounds)
{
	CHECK_FOR_INTERRUPTS();

	if (rounds >= MAX_ROUNDS)
		ereport(ERROR,
				errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				errmsg("a change to the tables of extension \"voucher\" was undone %d times",
					   rounds),
				errhint("Look for a trigger or rule on these tables that suppresses changes."));
}

/* Make a refusal. */
static VoucherOutcome
refuse(VoucherResult result, const char *detail)
{
	VoucherOutcome outcome = {.result = result,.detail = detail};

	return outcome;
}

/* Make an answer that carries the figures of a redemption. */
static VoucherOutcome
grant(VoucherResult result, const VoucherRedemption *redemption,
	  bool has_deadline, const char *detail)
{
	VoucherOutcome outcome = {
		.result = result,
		.has_discount = true,
		.discount_amount = redemption->discount_amount,
		.has_deadline = has_deadline,
		.expires_at = redemption->expires_at,
		.detail = detail
	};

	return outcome;
}

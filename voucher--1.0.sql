/* voucher/voucher--1.0.sql */

\echo Use "CREATE EXTENSION voucher" to load this file. \quit

-- Names below are qualified; operators and functions come from pg_catalog
-- alone, so that nothing made beforehand in the target schema is captured.
-- CREATE EXTENSION restores the caller's search_path afterwards.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

---------------------------------------------------------------------------
-- Tables
---------------------------------------------------------------------------

-- The row every ordinary use counts on.  Half-full pages, and no index that
-- mentions used_count or flash_quota, keep its updates HOT.
--
-- The server parses every CHECK anew in each INSERT and UPDATE, constants above
-- all: half the time of a reserve went into them once (doc/design-notes.md).
-- So there is one for each rule, none that follows from another, and what only
-- shapes a code is left to voucher_guard().
CREATE TABLE @extschema@.voucher (
	code				text COLLATE "C" NOT NULL,
	discount_amount		bigint,
	discount_percent	numeric,
	max_discount_amount	bigint,
	min_order_amount	bigint DEFAULT 0,
	total_limit			bigint,
	used_count			bigint NOT NULL DEFAULT 0,
	flash_quota			integer NOT NULL DEFAULT 0,
	flash				boolean NOT NULL DEFAULT false,
	per_user_limit		integer DEFAULT 1,
	hold_time			interval,
	starts_at			timestamptz NOT NULL DEFAULT now(),
	ends_at				timestamptz NOT NULL DEFAULT 'infinity',
	enabled				boolean NOT NULL DEFAULT true,
	created_at			timestamptz NOT NULL DEFAULT now(),
	purged_count		bigint NOT NULL DEFAULT 0,

	CONSTRAINT voucher_pkey PRIMARY KEY (code),
	CONSTRAINT ck_used CHECK (purged_count >= 0 AND used_count >= purged_count
							  AND flash_quota >= 0
							  AND used_count + flash_quota <= total_limit),
	CONSTRAINT ck_discount CHECK (num_nonnulls(discount_amount, discount_percent) = 1),
	CONSTRAINT ck_discount_amount CHECK (discount_amount >= 0),
	CONSTRAINT ck_discount_percent CHECK (discount_percent > 0
										  AND discount_percent <= 100
										  AND discount_percent = round(discount_percent, 4)),
	CONSTRAINT ck_max_discount_amount CHECK (max_discount_amount >= 0),
	CONSTRAINT ck_min_order_amount CHECK (min_order_amount >= 0),
	CONSTRAINT ck_per_user_limit CHECK (per_user_limit >= 1),
	CONSTRAINT ck_hold_time CHECK (hold_time > interval '0'
								   AND hold_time <= interval '90 days'),
	CONSTRAINT ck_window CHECK (starts_at < ends_at)
) WITH (fillfactor = 50,
		autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
		autovacuum_analyze_scale_factor = 0.05, vacuum_truncate = off);
SELECT pg_extension_config_dump('@extschema@.voucher', '');

CREATE TABLE @extschema@.voucher_slot (
	voucher_code		text COLLATE "C" NOT NULL,
	slot_no				integer NOT NULL,

	CONSTRAINT voucher_slot_pkey PRIMARY KEY (voucher_code, slot_no),
	CONSTRAINT voucher_slot_voucher_fkey FOREIGN KEY (voucher_code)
		REFERENCES @extschema@.voucher (code),
	CONSTRAINT ck_slot_no CHECK (slot_no >= 1)
) WITH (vacuum_truncate = off);
SELECT pg_extension_config_dump('@extschema@.voucher_slot', '');

-- No foreign key to voucher: its FOR KEY SHARE on one hot parent would make
-- one multixact per use.  voucher_guard() protects the parent side instead.
CREATE TABLE @extschema@.voucher_redemption (
	id					bigint GENERATED ALWAYS AS IDENTITY,
	voucher_code		text COLLATE "C" NOT NULL,
	customer_id			bigint NOT NULL,
	order_id			text COLLATE "C" NOT NULL,
	status				text COLLATE "C" NOT NULL,
	order_amount		bigint NOT NULL,
	discount_amount		bigint NOT NULL,
	use_no				integer,
	slot_no				integer,
	created_at			timestamptz NOT NULL DEFAULT clock_timestamp(),
	expires_at			timestamptz NOT NULL,
	confirmed_at		timestamptz,
	released_at			timestamptz,
	release_reason		text COLLATE "C",

	CONSTRAINT voucher_redemption_pkey PRIMARY KEY (id),
	CONSTRAINT voucher_redemption_slot_fkey FOREIGN KEY (voucher_code, slot_no)
		REFERENCES @extschema@.voucher_slot (voucher_code, slot_no) NOT DEFERRABLE,
	CONSTRAINT ck_order_id CHECK (octet_length(order_id) BETWEEN 1 AND 64),
	CONSTRAINT ck_discount_amount CHECK (discount_amount >= 0
										 AND discount_amount <= order_amount),
	CONSTRAINT ck_use_no CHECK (use_no >= 1),
	-- the dates tell the status, and the status the dates
	CONSTRAINT ck_status CHECK (CASE WHEN released_at IS NOT NULL THEN status = 'RELEASED'
									 WHEN confirmed_at IS NOT NULL THEN status = 'CONFIRMED'
									 ELSE status = 'RESERVED' END),
	CONSTRAINT ck_release_reason CHECK (release_reason IN ('RELEASED', 'EXPIRED', 'REFUNDED')),
	CONSTRAINT ck_released CHECK ((released_at IS NULL) = (release_reason IS NULL)
								  AND (released_at IS NULL OR slot_no IS NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
		autovacuum_vacuum_insert_scale_factor = 0.05,
		autovacuum_analyze_scale_factor = 0.02, vacuum_truncate = off);
SELECT pg_extension_config_dump('@extschema@.voucher_redemption', '');
SELECT pg_extension_config_dump('@extschema@.voucher_redemption_id_seq', '');

-- "Live" is RESERVED or CONFIRMED; released rows are history and collide
-- with nothing.
CREATE UNIQUE INDEX voucher_redemption_order_key
	ON @extschema@.voucher_redemption (order_id)
	WHERE status IN ('RESERVED', 'CONFIRMED');
CREATE UNIQUE INDEX voucher_redemption_use_key
	ON @extschema@.voucher_redemption (voucher_code, customer_id, use_no)
	WHERE status IN ('RESERVED', 'CONFIRMED');
CREATE UNIQUE INDEX voucher_redemption_slot_key
	ON @extschema@.voucher_redemption (voucher_code, slot_no)
	WHERE slot_no IS NOT NULL;
CREATE INDEX voucher_redemption_due_idx
	ON @extschema@.voucher_redemption (expires_at)
	WHERE status = 'RESERVED';
CREATE INDEX voucher_redemption_reserved_idx
	ON @extschema@.voucher_redemption (voucher_code, expires_at)
	WHERE status = 'RESERVED';
CREATE INDEX voucher_redemption_released_idx
	ON @extschema@.voucher_redemption (voucher_code, order_id, id)
	WHERE status = 'RELEASED';
CREATE INDEX voucher_redemption_history_idx
	ON @extschema@.voucher_redemption (released_at)
	WHERE status = 'RELEASED';

-- What the worker remembers from one round to the next; nothing depends on it,
-- so it is not logged and not dumped.
CREATE UNLOGGED TABLE @extschema@.voucher_incident (
	kind				text COLLATE "C" NOT NULL,
	voucher_code		text COLLATE "C" NOT NULL,
	redemption_id		bigint NOT NULL,
	detail				text COLLATE "C" NOT NULL,
	seen_at				timestamptz NOT NULL,
	retry_at			timestamptz,
	logged_at			timestamptz,

	CONSTRAINT voucher_incident_pkey PRIMARY KEY (kind, voucher_code, redemption_id),
	CONSTRAINT ck_kind CHECK (kind IN ('DRIFT', 'EXPIRY'))
);

---------------------------------------------------------------------------
-- What a call answers
---------------------------------------------------------------------------

CREATE TYPE @extschema@.voucher_outcome AS (
	result				text,
	discount_amount		bigint,
	expires_at			timestamptz,
	detail				text
);

---------------------------------------------------------------------------
-- Functions
---------------------------------------------------------------------------

-- A refusal is a row like any other answer.
CREATE FUNCTION @extschema@.voucher_reserve(code text, customer_id bigint, order_id text, order_amount bigint)
RETURNS @extschema@.voucher_outcome
AS 'MODULE_PATHNAME', 'voucher_reserve'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_reserve(text, bigint, text, bigint) FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_confirm(code text, order_id text)
RETURNS @extschema@.voucher_outcome
AS 'MODULE_PATHNAME', 'voucher_confirm'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_confirm(text, text) FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_release(code text, order_id text)
RETURNS @extschema@.voucher_outcome
AS 'MODULE_PATHNAME', 'voucher_release'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_release(text, text) FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_refund(code text, order_id text)
RETURNS @extschema@.voucher_outcome
AS 'MODULE_PATHNAME', 'voucher_refund'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_refund(text, text) FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_redeem(code text, customer_id bigint, order_id text, order_amount bigint)
RETURNS @extschema@.voucher_outcome
AS 'MODULE_PATHNAME', 'voucher_redeem'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_redeem(text, bigint, text, bigint) FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_extend(code text, order_id text, hold interval DEFAULT NULL)
RETURNS @extschema@.voucher_outcome
AS 'MODULE_PATHNAME', 'voucher_extend'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_extend(text, text, interval) FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_check(code text, customer_id bigint, order_amount bigint)
RETURNS @extschema@.voucher_outcome
AS 'MODULE_PATHNAME', 'voucher_check'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_check(text, bigint, bigint) FROM PUBLIC;

-- The same calls for those who prefer exceptions.
CREATE FUNCTION @extschema@.voucher_reserve_or_raise(code text, customer_id bigint, order_id text, order_amount bigint)
RETURNS @extschema@.voucher_outcome
AS 'MODULE_PATHNAME', 'voucher_reserve_or_raise'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_reserve_or_raise(text, bigint, text, bigint) FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_confirm_or_raise(code text, order_id text)
RETURNS @extschema@.voucher_outcome
AS 'MODULE_PATHNAME', 'voucher_confirm_or_raise'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_confirm_or_raise(text, text) FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_release_or_raise(code text, order_id text)
RETURNS @extschema@.voucher_outcome
AS 'MODULE_PATHNAME', 'voucher_release_or_raise'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_release_or_raise(text, text) FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_redeem_or_raise(code text, customer_id bigint, order_id text, order_amount bigint)
RETURNS @extschema@.voucher_outcome
AS 'MODULE_PATHNAME', 'voucher_redeem_or_raise'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_redeem_or_raise(text, bigint, text, bigint) FROM PUBLIC;

-- For the administrator.
CREATE FUNCTION @extschema@.voucher_set_limit(code text, total_limit bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'voucher_set_limit'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_set_limit(text, bigint) FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_flash_open(code text, quota integer DEFAULT NULL)
RETURNS integer
AS 'MODULE_PATHNAME', 'voucher_flash_open'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_flash_open(text, integer) FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_flash_close(code text)
RETURNS integer
AS 'MODULE_PATHNAME', 'voucher_flash_close'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_flash_close(text) FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_generate(n integer, template text,
											 prefix text, length integer)
RETURNS SETOF text
AS 'MODULE_PATHNAME', 'voucher_generate'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000 ROWS 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_generate(integer, text, text, integer) FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_purge(older_than interval, batch integer DEFAULT 10000)
RETURNS bigint
AS 'MODULE_PATHNAME', 'voucher_purge'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_purge(interval, integer) FROM PUBLIC;

-- The worker's round, for those who run it themselves.
CREATE FUNCTION @extschema@.voucher_run_worker(OUT expired bigint, OUT drifting bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'voucher_run_worker'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_run_worker() FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_reconcile(code text DEFAULT NULL)
RETURNS TABLE (code text, total_limit bigint, per_user_limit integer,
			   used_count bigint, purged_count bigint, ordinary_live bigint,
			   flash_quota bigint, slots bigint, flash_live bigint,
			   orphans bigint, customers_over_limit bigint, drift boolean)
AS 'MODULE_PATHNAME', 'voucher_reconcile'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000 ROWS 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_reconcile(text) FROM PUBLIC;

CREATE FUNCTION @extschema@.voucher_repair(code text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'voucher_repair'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
REVOKE ALL ON FUNCTION @extschema@.voucher_repair(text) FROM PUBLIC;

---------------------------------------------------------------------------
-- Views
---------------------------------------------------------------------------

-- used_count counts ordinary uses, a row with a slot is a flash use; each count
-- below is one range of one index
CREATE VIEW @extschema@.voucher_status AS
SELECT v.code,
	   CASE WHEN NOT v.enabled THEN 'DISABLED'
			WHEN clock_timestamp() < v.starts_at THEN 'SCHEDULED'
			WHEN clock_timestamp() >= v.ends_at THEN 'ENDED'
			WHEN v.used_count + f.uses >= v.total_limit THEN 'SOLD_OUT'
			ELSE 'ACTIVE' END AS state,
	   v.total_limit,
	   r.uses AS reserved,
	   v.used_count + f.uses - r.uses AS confirmed,
	   v.total_limit - v.used_count - f.uses AS remaining,
	   v.per_user_limit,
	   v.starts_at,
	   v.ends_at,
	   v.flash
FROM @extschema@.voucher AS v,
	 LATERAL (SELECT count(*) AS uses FROM @extschema@.voucher_redemption AS h
			  WHERE h.voucher_code = v.code AND h.status = 'RESERVED') AS r,
	 LATERAL (SELECT count(*) AS uses FROM @extschema@.voucher_redemption AS s
			  WHERE s.voucher_code = v.code AND s.slot_no IS NOT NULL) AS f;

CREATE FUNCTION @extschema@.voucher_worker_databases(
	OUT datname name, OUT state text, OUT last_visit timestamptz,
	OUT last_error text, OUT last_error_at timestamptz,
	OUT next_due timestamptz, OUT expired bigint, OUT heartbeat timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'voucher_worker_databases'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED ROWS 10;
REVOKE ALL ON FUNCTION @extschema@.voucher_worker_databases() FROM PUBLIC;

CREATE VIEW @extschema@.voucher_worker AS
SELECT * FROM @extschema@.voucher_worker_databases();

---------------------------------------------------------------------------
-- Guards: a code is stored in its normal form, and a voucher that has
-- redemptions is never deleted, truncated away or renamed
---------------------------------------------------------------------------

CREATE FUNCTION @extschema@.voucher_guard()
RETURNS trigger
AS 'MODULE_PATHNAME', 'voucher_guard'
LANGUAGE C;
REVOKE ALL ON FUNCTION @extschema@.voucher_guard() FROM PUBLIC;

CREATE TRIGGER voucher_guard_insert BEFORE INSERT ON @extschema@.voucher
	FOR EACH ROW EXECUTE FUNCTION @extschema@.voucher_guard();
CREATE TRIGGER voucher_guard_delete BEFORE DELETE ON @extschema@.voucher
	FOR EACH ROW EXECUTE FUNCTION @extschema@.voucher_guard();
CREATE TRIGGER voucher_guard_truncate BEFORE TRUNCATE ON @extschema@.voucher
	FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.voucher_guard();
-- AFTER, since a BEFORE UPDATE trigger of any column list makes every update
-- of the row, the counting ones too, lock the row twice
CREATE TRIGGER voucher_guard_rename AFTER UPDATE OF code ON @extschema@.voucher
	FOR EACH ROW WHEN (OLD.code IS DISTINCT FROM NEW.code)
	EXECUTE FUNCTION @extschema@.voucher_guard();

---------------------------------------------------------------------------
-- Comments
---------------------------------------------------------------------------

COMMENT ON TABLE @extschema@.voucher IS 'what is handed out: terms, limits and the count of ordinary uses';
COMMENT ON COLUMN @extschema@.voucher.code IS 'what customers type; stored trimmed, with ASCII letters in upper case';
COMMENT ON COLUMN @extschema@.voucher.discount_amount IS 'fixed discount in minor units; either this or discount_percent';
COMMENT ON COLUMN @extschema@.voucher.discount_percent IS 'discount in percent of the order amount, above 0 and at most 100, with at most four decimals; rounded half up';
COMMENT ON COLUMN @extschema@.voucher.max_discount_amount IS 'cap on the discount in minor units, applied after rounding; NULL: none';
COMMENT ON COLUMN @extschema@.voucher.min_order_amount IS 'least order amount before the discount, in minor units; NULL: none';
COMMENT ON COLUMN @extschema@.voucher.total_limit IS 'uses that may be live at once, in all; 0: nobody, NULL: unlimited';
COMMENT ON COLUMN @extschema@.voucher.used_count IS 'live ordinary uses, reserved and confirmed, purged ones included';
COMMENT ON COLUMN @extschema@.voucher.flash_quota IS 'uses that are rows of voucher_slot';
COMMENT ON COLUMN @extschema@.voucher.flash IS 'open as a flash sale: a use is a slot, as long as there is one';
COMMENT ON COLUMN @extschema@.voucher.per_user_limit IS 'uses that one customer may have live at once; NULL: unlimited';
COMMENT ON COLUMN @extschema@.voucher.hold_time IS 'how long a use is held before it lapses, at most 90 days; NULL: the setting voucher.hold_time';
COMMENT ON COLUMN @extschema@.voucher.starts_at IS 'first instant at which it can be reserved';
COMMENT ON COLUMN @extschema@.voucher.ends_at IS 'first instant at which it can no longer be reserved';
COMMENT ON COLUMN @extschema@.voucher.enabled IS 'false: nothing new can be reserved; what is held stays';
COMMENT ON COLUMN @extschema@.voucher.created_at IS 'when the voucher was made';
COMMENT ON COLUMN @extschema@.voucher.purged_count IS 'confirmed uses whose rows voucher_purge() deleted; they stay in used_count';
COMMENT ON CONSTRAINT ck_used ON @extschema@.voucher IS 'never one use too many';

COMMENT ON TABLE @extschema@.voucher_slot IS 'one row for each use of a flash quota';
COMMENT ON COLUMN @extschema@.voucher_slot.voucher_code IS 'the voucher';
COMMENT ON COLUMN @extschema@.voucher_slot.slot_no IS 'number of the use within the quota';

COMMENT ON TABLE @extschema@.voucher_redemption IS 'one row for each use that was ever reserved, live or released';
COMMENT ON SEQUENCE @extschema@.voucher_redemption_id_seq IS 'numbers the rows of voucher_redemption';
COMMENT ON COLUMN @extschema@.voucher_redemption.id IS 'number of the row';
COMMENT ON COLUMN @extschema@.voucher_redemption.voucher_code IS 'the voucher';
COMMENT ON COLUMN @extschema@.voucher_redemption.customer_id IS 'the customer, by the number the caller gave';
COMMENT ON COLUMN @extschema@.voucher_redemption.order_id IS 'the order, byte for byte as the caller gave it; one live row for each';
COMMENT ON COLUMN @extschema@.voucher_redemption.status IS 'RESERVED or CONFIRMED (live), or RELEASED';
COMMENT ON COLUMN @extschema@.voucher_redemption.order_amount IS 'amount of the order before the discount, in minor units';
COMMENT ON COLUMN @extschema@.voucher_redemption.discount_amount IS 'discount that was granted, in minor units';
COMMENT ON COLUMN @extschema@.voucher_redemption.use_no IS 'number of the use among the live ones of this customer; NULL while per_user_limit is NULL';
COMMENT ON COLUMN @extschema@.voucher_redemption.slot_no IS 'the slot of a live use of a flash quota; NULL for an ordinary use';
COMMENT ON COLUMN @extschema@.voucher_redemption.created_at IS 'when it was reserved';
COMMENT ON COLUMN @extschema@.voucher_redemption.expires_at IS 'deadline of the hold; after it a reserved use may be given back';
COMMENT ON COLUMN @extschema@.voucher_redemption.confirmed_at IS 'when it was confirmed';
COMMENT ON COLUMN @extschema@.voucher_redemption.released_at IS 'when it was given back';
COMMENT ON COLUMN @extschema@.voucher_redemption.release_reason IS 'why it was given back: RELEASED, EXPIRED or REFUNDED';
COMMENT ON INDEX @extschema@.voucher_redemption_order_key IS 'one live redemption for each order';
COMMENT ON INDEX @extschema@.voucher_redemption_use_key IS 'a customer never has more live uses than there are numbers for them';
COMMENT ON INDEX @extschema@.voucher_redemption_slot_key IS 'one live redemption for each slot';
COMMENT ON INDEX @extschema@.voucher_redemption_due_idx IS 'finds the next hold to expire';
COMMENT ON INDEX @extschema@.voucher_redemption_reserved_idx IS 'finds the lapsed holds of one voucher';
COMMENT ON INDEX @extschema@.voucher_redemption_released_idx IS 'finds what became of an order';
COMMENT ON INDEX @extschema@.voucher_redemption_history_idx IS 'finds what can be purged';

COMMENT ON TABLE @extschema@.voucher_incident IS 'what the worker has noticed and remembers from one round to the next';
COMMENT ON COLUMN @extschema@.voucher_incident.kind IS 'DRIFT: counters and rows differ; EXPIRY: a hold that could not be given back';
COMMENT ON COLUMN @extschema@.voucher_incident.voucher_code IS 'the voucher';
COMMENT ON COLUMN @extschema@.voucher_incident.redemption_id IS 'the hold; 0 for DRIFT';
COMMENT ON COLUMN @extschema@.voucher_incident.detail IS 'the differences, or the error';
COMMENT ON COLUMN @extschema@.voucher_incident.seen_at IS 'when it was seen like this';
COMMENT ON COLUMN @extschema@.voucher_incident.retry_at IS 'when the hold is tried again';
COMMENT ON COLUMN @extschema@.voucher_incident.logged_at IS 'when it was confirmed by a second look, or tried first, and logged';

COMMENT ON TYPE @extschema@.voucher_outcome IS 'what a call did, or why it did nothing';
COMMENT ON COLUMN @extschema@.voucher_outcome.result IS 'RESERVED, CONFIRMED, RELEASED, AVAILABLE, DUPLICATE, or why not';
COMMENT ON COLUMN @extschema@.voucher_outcome.discount_amount IS 'discount in minor units; NULL in a refusal';
COMMENT ON COLUMN @extschema@.voucher_outcome.expires_at IS 'deadline of the hold';
COMMENT ON COLUMN @extschema@.voucher_outcome.detail IS 'what the result is about, as a word to compare with';

COMMENT ON FUNCTION @extschema@.voucher_reserve(text, bigint, text, bigint) IS 'hold one use of a voucher for an order';
COMMENT ON FUNCTION @extschema@.voucher_confirm(text, text) IS 'make the reserved use of an order final';
COMMENT ON FUNCTION @extschema@.voucher_release(text, text) IS 'give the reserved use of an order back';
COMMENT ON FUNCTION @extschema@.voucher_refund(text, text) IS 'give the confirmed use of an order back';
COMMENT ON FUNCTION @extschema@.voucher_redeem(text, bigint, text, bigint) IS 'reserve and confirm in one step';
COMMENT ON FUNCTION @extschema@.voucher_extend(text, text, interval) IS 'hold the reserved use of an order for a time from now on';
COMMENT ON FUNCTION @extschema@.voucher_check(text, bigint, bigint) IS 'say what a reserve would answer now; promises nothing';
COMMENT ON FUNCTION @extschema@.voucher_reserve_or_raise(text, bigint, text, bigint) IS 'voucher_reserve, with a refusal as an ERROR of class VC';
COMMENT ON FUNCTION @extschema@.voucher_confirm_or_raise(text, text) IS 'voucher_confirm, with a refusal as an ERROR of class VC';
COMMENT ON FUNCTION @extschema@.voucher_release_or_raise(text, text) IS 'voucher_release, with a refusal as an ERROR of class VC';
COMMENT ON FUNCTION @extschema@.voucher_redeem_or_raise(text, bigint, text, bigint) IS 'voucher_redeem, with a refusal as an ERROR of class VC';
COMMENT ON FUNCTION @extschema@.voucher_set_limit(text, bigint) IS 'set the total_limit of a voucher, beside calls in flight';
COMMENT ON FUNCTION @extschema@.voucher_flash_open(text, integer) IS 'open a voucher as a flash sale: its uses, or so many of them, become slots; returns how many';
COMMENT ON FUNCTION @extschema@.voucher_flash_close(text) IS 'make a flash voucher an ordinary one; returns how many slots calls in flight still hold';
COMMENT ON FUNCTION @extschema@.voucher_generate(integer, text, text, integer) IS 'make n vouchers with the terms of another one and random codes; returns the codes';
COMMENT ON FUNCTION @extschema@.voucher_purge(interval, integer) IS 'delete a batch of old history; returns how many rows that was';
COMMENT ON FUNCTION @extschema@.voucher_run_worker() IS 'one round of the worker: give lapsed holds back, compare counters with rows';
COMMENT ON FUNCTION @extschema@.voucher_reconcile(text) IS 'compare the counters of a voucher, or of all, with the rows';
COMMENT ON FUNCTION @extschema@.voucher_repair(text) IS 'set used_count to what the rows say; returns the correction';
COMMENT ON VIEW @extschema@.voucher_status IS 'how each voucher stands now';
COMMENT ON COLUMN @extschema@.voucher_status.code IS 'the voucher';
COMMENT ON COLUMN @extschema@.voucher_status.state IS 'DISABLED, SCHEDULED, ENDED, SOLD_OUT or ACTIVE';
COMMENT ON COLUMN @extschema@.voucher_status.total_limit IS 'uses that may be live at once, in all; NULL: unlimited';
COMMENT ON COLUMN @extschema@.voucher_status.reserved IS 'uses that are held';
COMMENT ON COLUMN @extschema@.voucher_status.confirmed IS 'uses that are final';
COMMENT ON COLUMN @extschema@.voucher_status.remaining IS 'uses that are left; NULL: unlimited';
COMMENT ON COLUMN @extschema@.voucher_status.per_user_limit IS 'uses that one customer may have live at once; NULL: unlimited';
COMMENT ON COLUMN @extschema@.voucher_status.starts_at IS 'first instant at which it can be reserved';
COMMENT ON COLUMN @extschema@.voucher_status.ends_at IS 'first instant at which it can no longer be reserved';
COMMENT ON COLUMN @extschema@.voucher_status.flash IS 'is it open as a flash sale?';
COMMENT ON FUNCTION @extschema@.voucher_worker_databases() IS 'what view voucher_worker shows';
COMMENT ON VIEW @extschema@.voucher_worker IS 'the databases that the background worker serves; empty if the library is not preloaded';
COMMENT ON COLUMN @extschema@.voucher_worker.datname IS 'the database';
COMMENT ON COLUMN @extschema@.voucher_worker.state IS 'NEW, SERVED, DISABLED (voucher.worker is off), DORMANT (no extension, or a subscriber) or FAILED';
COMMENT ON COLUMN @extschema@.voucher_worker.last_visit IS 'end of the last visit';
COMMENT ON COLUMN @extschema@.voucher_worker.last_error IS 'error of the last visit that failed';
COMMENT ON COLUMN @extschema@.voucher_worker.last_error_at IS 'end of that visit';
COMMENT ON COLUMN @extschema@.voucher_worker.next_due IS 'next visit, as planned after the last';
COMMENT ON COLUMN @extschema@.voucher_worker.expired IS 'holds given back since the server started';
COMMENT ON COLUMN @extschema@.voucher_worker.heartbeat IS 'when the launcher last went round; alert if that is longer ago than voucher.worker_naptime and ten seconds';
COMMENT ON FUNCTION @extschema@.voucher_guard() IS 'keeps codes in normal form and vouchers with redemptions in place';
COMMENT ON TRIGGER voucher_guard_insert ON @extschema@.voucher IS 'stores a code in its normal form';
COMMENT ON TRIGGER voucher_guard_delete ON @extschema@.voucher IS 'a voucher with redemptions is never deleted';
COMMENT ON TRIGGER voucher_guard_truncate ON @extschema@.voucher IS 'vouchers with redemptions are never truncated away';
COMMENT ON TRIGGER voucher_guard_rename ON @extschema@.voucher IS 'a voucher with redemptions is never renamed';

---------------------------------------------------------------------------
-- Tell the worker, or whoever installs this that there is none
---------------------------------------------------------------------------

CREATE FUNCTION @extschema@.voucher_installed()
RETURNS void
AS 'MODULE_PATHNAME', 'voucher_installed'
LANGUAGE C;
SELECT @extschema@.voucher_installed();
DROP FUNCTION @extschema@.voucher_installed();

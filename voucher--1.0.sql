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
CREATE TABLE @extschema@.voucher (
	code				text COLLATE "C" NOT NULL,
	discount_amount		bigint,
	discount_percent	numeric,
	max_discount_amount	bigint,
	min_order_amount	bigint DEFAULT 0,
	total_limit			bigint,
	used_count			bigint NOT NULL DEFAULT 0,
	flash_quota			integer NOT NULL DEFAULT 0,
	per_user_limit		integer DEFAULT 1,
	hold_time			interval,
	starts_at			timestamptz NOT NULL DEFAULT now(),
	ends_at				timestamptz NOT NULL DEFAULT 'infinity',
	enabled				boolean NOT NULL DEFAULT true,
	created_at			timestamptz NOT NULL DEFAULT now(),

	CONSTRAINT voucher_pkey PRIMARY KEY (code),
	CONSTRAINT ck_used CHECK (used_count >= 0 AND flash_quota >= 0
							  AND used_count + flash_quota <= total_limit),
	CONSTRAINT ck_code CHECK (char_length(code) BETWEEN 1 AND 32
							  AND code !~ '[[:space:][:cntrl:]a-z]'),
	CONSTRAINT ck_discount CHECK (num_nonnulls(discount_amount, discount_percent) = 1),
	CONSTRAINT ck_discount_amount CHECK (discount_amount >= 0),
	CONSTRAINT ck_discount_percent CHECK (discount_percent > 0
										  AND discount_percent <= 100
										  AND discount_percent = round(discount_percent, 4)),
	CONSTRAINT ck_max_discount_amount CHECK (max_discount_amount >= 0),
	CONSTRAINT ck_min_order_amount CHECK (min_order_amount >= 0),
	CONSTRAINT ck_total_limit CHECK (total_limit >= 0),
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
	expires_at			timestamptz,
	confirmed_at		timestamptz,
	released_at			timestamptz,
	release_reason		text COLLATE "C",

	CONSTRAINT voucher_redemption_pkey PRIMARY KEY (id),
	CONSTRAINT voucher_redemption_slot_fkey FOREIGN KEY (voucher_code, slot_no)
		REFERENCES @extschema@.voucher_slot (voucher_code, slot_no) NOT DEFERRABLE,
	CONSTRAINT ck_order_id CHECK (octet_length(order_id) BETWEEN 1 AND 64),
	CONSTRAINT ck_order_amount CHECK (order_amount >= 0),
	CONSTRAINT ck_discount_amount CHECK (discount_amount BETWEEN 0 AND order_amount),
	CONSTRAINT ck_use_no CHECK (use_no >= 1),
	CONSTRAINT ck_status CHECK (status IN ('RESERVED', 'CONFIRMED', 'RELEASED')),
	CONSTRAINT ck_release_reason CHECK (release_reason IN ('RELEASED', 'EXPIRED', 'REFUNDED')),
	-- each status has its own facts, and only those
	CONSTRAINT ck_reserved CHECK (status <> 'RESERVED'
								  OR (expires_at IS NOT NULL AND confirmed_at IS NULL)),
	CONSTRAINT ck_confirmed CHECK (status <> 'CONFIRMED' OR confirmed_at IS NOT NULL),
	CONSTRAINT ck_released CHECK ((status = 'RELEASED') = (released_at IS NOT NULL)
								  AND (status = 'RELEASED') = (release_reason IS NOT NULL)
								  AND (status <> 'RELEASED' OR slot_no IS NULL))
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

CREATE FUNCTION @extschema@.voucher_reserve(code text, customer_id bigint,
											order_id text, order_amount bigint)
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

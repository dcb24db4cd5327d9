-- bench/plpgsql.sql
--
-- What voucher_reserve() is measured against: the same rules on the same
-- tables, as a careful application developer would write them in PL/pgSQL.

CREATE FUNCTION plpgsql_reserve(p_code text, p_customer bigint, p_order text,
								p_amount bigint)
RETURNS voucher_outcome LANGUAGE plpgsql AS $$
DECLARE
	v_code text := upper(btrim(p_code, E' \t\n\r'));
	v voucher;
	r voucher_redemption;
	uses int;
	discount bigint;
	deadline timestamptz;
BEGIN
	LOOP
		SELECT * INTO r FROM voucher_redemption
		WHERE order_id = p_order AND status IN ('RESERVED', 'CONFIRMED');
		IF FOUND THEN
			IF r.voucher_code <> v_code THEN
				RETURN ROW('ORDER_MISMATCH', NULL, NULL, 'voucher_code')::voucher_outcome;
			ELSIF r.customer_id <> p_customer THEN
				RETURN ROW('ORDER_MISMATCH', NULL, NULL, 'customer_id')::voucher_outcome;
			ELSIF r.order_amount <> p_amount THEN
				RETURN ROW('ORDER_MISMATCH', NULL, NULL, 'order_amount')::voucher_outcome;
			END IF;
			RETURN ROW('DUPLICATE', r.discount_amount, r.expires_at, r.status)::voucher_outcome;
		END IF;

		SELECT * INTO v FROM voucher WHERE voucher.code = v_code;
		IF NOT FOUND THEN
			RETURN ROW('NOT_FOUND', NULL, NULL, NULL)::voucher_outcome;
		ELSIF NOT v.enabled THEN
			RETURN ROW('NOT_ELIGIBLE', NULL, NULL, 'DISABLED')::voucher_outcome;
		ELSIF clock_timestamp() < v.starts_at THEN
			RETURN ROW('NOT_ELIGIBLE', NULL, NULL, 'NOT_STARTED')::voucher_outcome;
		ELSIF clock_timestamp() >= v.ends_at THEN
			RETURN ROW('NOT_ELIGIBLE', NULL, NULL, 'ENDED')::voucher_outcome;
		ELSIF p_amount < v.min_order_amount THEN
			RETURN ROW('NOT_ELIGIBLE', NULL, NULL, 'BELOW_MINIMUM')::voucher_outcome;
		END IF;

		IF v.per_user_limit IS NOT NULL THEN
			SELECT count(*) INTO uses FROM voucher_redemption
			WHERE voucher_code = v_code AND customer_id = p_customer
			AND status IN ('RESERVED', 'CONFIRMED');
			IF uses >= v.per_user_limit THEN
				RETURN ROW('ALREADY_USED', NULL, NULL, NULL)::voucher_outcome;
			END IF;
		END IF;
		IF v.used_count + v.flash_quota >= v.total_limit THEN
			RETURN ROW('OUT_OF_STOCK', NULL, NULL, NULL)::voucher_outcome;
		END IF;

		IF v.discount_percent IS NOT NULL THEN
			discount := round(p_amount * v.discount_percent / 100);
		ELSE
			discount := v.discount_amount;
		END IF;
		discount := least(discount, v.max_discount_amount, p_amount);
		deadline := clock_timestamp() + coalesce(v.hold_time, interval '15 minutes');

		INSERT INTO voucher_redemption (voucher_code, customer_id, order_id, order_amount,
			status, discount_amount, use_no, created_at, expires_at)
		VALUES (v_code, p_customer, p_order, p_amount, 'RESERVED', discount, uses + 1,
			clock_timestamp(), deadline)
		ON CONFLICT DO NOTHING;
		CONTINUE WHEN NOT FOUND;

		UPDATE voucher SET used_count = used_count + 1
		WHERE voucher.code = v_code AND enabled
		AND starts_at <= clock_timestamp() AND clock_timestamp() < ends_at
		AND (total_limit IS NULL OR used_count + flash_quota < total_limit);
		IF FOUND THEN
			RETURN ROW('RESERVED', discount, deadline, NULL)::voucher_outcome;
		END IF;
		DELETE FROM voucher_redemption WHERE order_id = p_order AND status = 'RESERVED';
	END LOOP;
END
$$;

-- Refund, redeem, extend, check, and refusals as exceptions
SET client_min_messages = warning;
INSERT INTO voucher (code, discount_amount, total_limit, per_user_limit) VALUES ('MORE', 500, 2, 1);

-- redeem: the use is final at once
SELECT said(voucher_redeem('more', 1, 'R1', 900));
SELECT said(voucher_redeem('more', 1, 'R1', 900));
SELECT said(voucher_redeem('more', 1, 'R1', 901));
SELECT said(voucher_redeem('more', 1, 'R2', 900));
SELECT said(voucher_redeem('none', 1, 'R2', 900));
SELECT said(voucher_confirm('more', 'R1'));
SELECT said(voucher_release('more', 'R1'));
SELECT status, confirmed_at IS NOT NULL AS confirmed, use_no FROM voucher_redemption WHERE order_id = 'R1';
-- a hold of the same order is confirmed
SELECT said(voucher_reserve('more', 2, 'R2', 400));
SELECT said(voucher_redeem('more', 2, 'R2', 401));
SELECT said(voucher_redeem('more', 2, 'R2', 400));
SELECT said(voucher_redeem('more', 3, 'R3', 400));

-- refund: a confirmed use goes back
SELECT said(voucher_refund('more', 'R1'));
SELECT said(voucher_refund('more', 'R1'));
SELECT said(voucher_confirm('more', 'R1'));
SELECT said(voucher_release('more', 'R1'));
SELECT said(voucher_refund('more', 'R9'));
SELECT code, used_count FROM voucher WHERE code = 'MORE';
SELECT said(voucher_redeem('more', 1, 'R1', 300));
SELECT order_id, status, release_reason, confirmed_at IS NOT NULL AS confirmed
FROM voucher_redemption WHERE order_id LIKE 'R_' ORDER BY id;
SELECT said(voucher_refund('more', 'R2'));
SELECT said(voucher_reserve('more', 2, 'R2', 400));
SELECT said(voucher_refund('more', 'R2'));
SELECT said(voucher_release('more', 'R2'));
SELECT said(voucher_refund('more', 'R2'));

-- extend: never shorter, never a use that went back
SELECT said(voucher_reserve('more', 2, 'X1', 400));
SELECT said(voucher_extend('more', 'X1'));
SELECT result, discount_amount, expires_at - clock_timestamp() BETWEEN interval '119 min' AND interval '2 h' AS two_hours
FROM voucher_extend('more', 'X1', '2 h');
SELECT result, expires_at - clock_timestamp() BETWEEN interval '119 min' AND interval '2 h' AS two_hours
FROM voucher_extend('more', 'X1', '1 min');
UPDATE voucher SET hold_time = '3 h' WHERE code = 'MORE';
SELECT result, expires_at - clock_timestamp() BETWEEN interval '179 min' AND interval '3 h' AS three_hours
FROM voucher_extend('more', 'X1');
UPDATE voucher_redemption SET expires_at = now() - interval '1 h' WHERE order_id = 'X1';
SELECT result, expires_at > clock_timestamp() AS later FROM voucher_extend('more', 'X1', '1 s');
SELECT said(voucher_confirm('more', 'X1'));
SELECT said(voucher_extend('more', 'X1'));
SELECT said(voucher_refund('more', 'X1'));
SELECT said(voucher_extend('more', 'X1'));
SELECT said(voucher_extend('more', 'X9'));
SELECT said(voucher_extend('none', 'X1'));

-- check: what a reserve would answer
SELECT said(voucher_check('more', 2, 400));
SELECT said(voucher_check('more', 1, 400));
SELECT said(voucher_check('none', 1, 400));
SELECT code, said(voucher_check(code, 9, 499)) FROM voucher WHERE code IN ('OFF', 'EARLY', 'LATE', 'SMALL') ORDER BY code;
SELECT said(voucher_check('small', 99, 501));
UPDATE voucher SET total_limit = 1 WHERE code = 'MORE';
SELECT said(voucher_check('more', 2, 400));
-- a lapsed hold would be given back
UPDATE voucher SET total_limit = 2 WHERE code = 'MORE';
SELECT said(voucher_reserve('more', 2, 'C1', 400)) LIKE 'RESERVED%' AS reserved;
SELECT said(voucher_check('more', 3, 400)), said(voucher_check('more', 2, 400));
UPDATE voucher_redemption SET expires_at = now() WHERE order_id = 'C1';
SELECT said(voucher_check('more', 3, 400)), said(voucher_check('more', 2, 400));
SELECT status FROM voucher_redemption WHERE order_id = 'C1';
BEGIN READ ONLY;
SELECT said(voucher_check('more', 3, 400)), pg_current_xact_id_if_assigned();
SELECT voucher_redeem('more', 3, 'C2', 400);
ROLLBACK;

-- refusals as exceptions; DUPLICATE is success
SELECT said(voucher_reserve_or_raise('more', 3, 'E1', 400)) LIKE 'RESERVED%' AS reserved;
SELECT said(voucher_reserve_or_raise('more', 3, 'E1', 400)) LIKE 'DUPLICATE%' AS duplicate;
SELECT said(voucher_confirm_or_raise('more', 'E1'));
SELECT said(voucher_confirm_or_raise('more', 'E1'));
SELECT complain($$SELECT voucher_reserve_or_raise('more', 3, 'E1', 401)$$);
SELECT complain($$SELECT voucher_reserve_or_raise('more', 4, 'E2', 400)$$);
SELECT complain($$SELECT voucher_redeem_or_raise('more', 3, 'E2', 400)$$);
SELECT complain($$SELECT voucher_redeem_or_raise('late', 3, 'E2', 400)$$);
SELECT complain($$SELECT voucher_reserve_or_raise(' n%dne', 3, 'E2', 400)$$);
SELECT complain($$SELECT voucher_release_or_raise('more', 'E1')$$);
SELECT complain($$SELECT voucher_confirm_or_raise('more', 'C1')$$);
SELECT complain($$SELECT voucher_confirm_or_raise('more', 'E9')$$);
SELECT said(voucher_refund('more', 'E1'));
SELECT said(voucher_release_or_raise('more', 'E1'));
SELECT said(voucher_redeem_or_raise('more', 5, 'E5', 400));
SELECT '(NOT_ELIGIBLE,,,ENDED)'::voucher_outcome;	-- as DETAIL has it

-- arguments of the new calls
SELECT complain($$SELECT voucher_extend('more', 'E5', '0')$$);
SELECT complain($$SELECT voucher_extend('more', 'E5', '-1 s')$$);
SELECT complain($$SELECT voucher_extend('more', 'E5', '1 year')$$);
SELECT complain($$SELECT voucher_extend('more', 'E5', '178000000 years')$$);
SELECT complain($$SELECT voucher_extend('more', NULL, NULL)$$);
SELECT complain($$SELECT voucher_check(NULL, 1, 1)$$);
SELECT complain($$SELECT voucher_check('more', NULL, 1)$$);
SELECT complain($$SELECT voucher_check('more', 1, NULL)$$);
SELECT complain($$SELECT voucher_check('more', 1, -1)$$);
SELECT complain($$SELECT voucher_redeem('more', 1, '', 1)$$);
SELECT complain($$SELECT voucher_refund('', 'E5')$$);

SELECT * FROM voucher_violations();

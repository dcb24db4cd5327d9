-- test/invariant.sql
-- What must hold at every commit: one row of text for each violation, none
-- when all is well.  Tables are found through search_path.
CREATE OR REPLACE FUNCTION voucher_violations() RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    WITH live AS (
        SELECT * FROM voucher_redemption WHERE status IN ('RESERVED', 'CONFIRMED')
    ), per_voucher AS (
        SELECT v.code, v.total_limit, v.used_count, v.purged_count, count(l.id) AS live,
               count(l.id) FILTER (WHERE l.slot_no IS NULL) AS ordinary
          FROM voucher v LEFT JOIN live l ON l.voucher_code = v.code
         GROUP BY v.code
    )
    SELECT format('oversold: voucher %s has %s live uses, limit %s', code, live + purged_count, total_limit)
      FROM per_voucher WHERE live + purged_count > total_limit
    UNION ALL
    SELECT format('counter: voucher %s says %s, rows say %s', code, used_count, ordinary + purged_count)
      FROM per_voucher WHERE used_count <> ordinary + purged_count
    UNION ALL
    SELECT format('slots: voucher %s has a quota of %s and %s slots', v.code, v.flash_quota, count(s.slot_no))
      FROM voucher v LEFT JOIN voucher_slot s ON s.voucher_code = v.code
     GROUP BY v.code HAVING v.flash_quota <> count(s.slot_no)
    UNION ALL
    SELECT format('slot: redemption %s has slot %s of voucher %s', r.id, r.slot_no, r.voucher_code)
      FROM voucher_redemption r LEFT JOIN voucher_slot s USING (voucher_code, slot_no)
     WHERE r.slot_no IS NOT NULL
       AND (s.slot_no IS NULL OR r.status = 'RELEASED'
            OR EXISTS (SELECT FROM voucher_redemption o
                        WHERE o.voucher_code = r.voucher_code AND o.slot_no = r.slot_no AND o.id <> r.id))
    UNION ALL
    SELECT format('greedy: customer %s has %s live uses of voucher %s, limit %s',
                  l.customer_id, count(*), v.code, v.per_user_limit)
      FROM live l JOIN voucher v ON v.code = l.voucher_code
     WHERE v.per_user_limit IS NOT NULL
     GROUP BY v.code, l.customer_id
    HAVING count(*) > v.per_user_limit
    UNION ALL
    SELECT format('duplicate: order %s has %s live uses', order_id, count(*))
      FROM live GROUP BY order_id HAVING count(*) > 1
    UNION ALL
    SELECT format('orphan: redemption %s of voucher %s', r.id, r.voucher_code)
      FROM voucher_redemption r
     WHERE NOT EXISTS (SELECT FROM voucher v WHERE v.code = r.voucher_code)
$$;

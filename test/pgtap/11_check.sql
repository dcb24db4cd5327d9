-- test/pgtap/11_check.sql
-- voucher_check and voucher_reserve agree on a grid of all combinations of
-- state: the same answer for the same reason, the same discount.
\unset ECHO
\i test/pgtap/setup.sql
SELECT plan(6);

-- others hold "others" uses, the customer "own"; "lapsed" says whose first hold has lapsed
CREATE TEMP TABLE grid AS
SELECT 'GRID' || row_number() OVER () AS code, *
  FROM unnest(ARRAY[true, false]) enabled,
       unnest(ARRAY['early', 'now', 'late']) sale,
       unnest(ARRAY[NULL, 100, 101]) min_amount,
       unnest(ARRAY[NULL, 0, 1, 2, 3]) total,
       unnest(ARRAY[NULL, 1, 2]) per,
       unnest(ARRAY[0, 1, 2]) others,
       unnest(ARRAY[0, 1, 2, 3]) own,
       unnest(ARRAY['none', 'others', 'own']) lapsed
 WHERE (total IS NULL OR others + own <= total)
   AND NOT (lapsed = 'others' AND others = 0) AND NOT (lapsed = 'own' AND own = 0);
INSERT INTO voucher (code, discount_percent, max_discount_amount, enabled, starts_at, ends_at,
                     min_order_amount, total_limit, per_user_limit, used_count)
SELECT code, 33.3333, 33, enabled,
       CASE sale WHEN 'early' THEN now() + interval '1 h' ELSE '-infinity' END,
       CASE sale WHEN 'late' THEN now() ELSE 'infinity' END,
       min_amount, total, per, others + own
  FROM grid;
INSERT INTO voucher_redemption (voucher_code, customer_id, order_id, status, order_amount,
                                discount_amount, use_no, expires_at)
SELECT code, who.customer + CASE WHEN who.customer = 1 THEN 0 ELSE n END, format('%s-%s-%s', code, who.customer, n),
       'RESERVED', 100, 1, CASE WHEN per IS NOT NULL THEN CASE WHEN who.customer = 1 THEN n ELSE 1 END END,
       now() + CASE WHEN lapsed = who.name AND n = 1 THEN interval '-1 h' ELSE interval '1 h' END
  FROM grid, LATERAL (VALUES (1, own, 'own'), (1000, others, 'others')) AS who(customer, uses, name),
       LATERAL generate_series(1, who.uses) AS n;

SELECT cmp_ok((SELECT count(*) FROM grid), '>', 3000::bigint, 'the grid has some thousand combinations');
SELECT is_empty('SELECT * FROM voucher_violations() v WHERE v NOT LIKE ''greedy:%''',
                'it is made of possible states (own uses above a lowered limit included)');

CREATE TEMP TABLE checked AS
SELECT g.code, c.* FROM grid g, LATERAL voucher_check(g.code, 1, 100) c;
CREATE TEMP TABLE reserved AS
SELECT g.code, r.* FROM grid g, LATERAL voucher_reserve(g.code, 1, 'try-' || g.code, 100) r;

SELECT is_empty($$
    SELECT g, c.result, c.detail, r.result, r.detail
      FROM grid g JOIN checked c USING (code) JOIN reserved r USING (code)
     WHERE (replace(c.result, 'AVAILABLE', 'RESERVED'), c.discount_amount, c.detail)
           IS DISTINCT FROM (r.result, r.discount_amount, r.detail)
$$, 'check says what reserve does, AVAILABLE for RESERVED');
SELECT is_empty('SELECT * FROM checked WHERE expires_at IS NOT NULL', 'check holds nothing');
SELECT set_eq('SELECT DISTINCT result, detail FROM checked', $$VALUES
    ('AVAILABLE', NULL), ('OUT_OF_STOCK', NULL), ('ALREADY_USED', NULL), ('NOT_ELIGIBLE', 'DISABLED'),
    ('NOT_ELIGIBLE', 'NOT_STARTED'), ('NOT_ELIGIBLE', 'ENDED'), ('NOT_ELIGIBLE', 'BELOW_MINIMUM')$$,
    'every answer occurs');
SELECT is_empty('SELECT * FROM voucher_violations() v WHERE v NOT LIKE ''greedy:%''', 'the invariant holds');
SELECT * FROM finish();
ROLLBACK;

-- Who may do what
SET client_min_messages = warning;
CREATE ROLE regress_voucher_app;
CREATE ROLE regress_voucher_nobody;
INSERT INTO voucher (code, discount_amount, total_limit) VALUES ('PRIV', 1, 5);
GRANT EXECUTE ON FUNCTION voucher_reserve, voucher_confirm, voucher_release TO regress_voucher_app;

-- nobody, unless told so
SET ROLE regress_voucher_nobody;
SELECT voucher_reserve('priv', 1, 'P1', 10);
SELECT voucher_confirm('priv', 'P1');
SELECT voucher_release('priv', 'P1');
SELECT * FROM voucher;
SELECT * FROM voucher_redemption;
SELECT * FROM voucher_slot;

-- an application: the functions, not the tables
SET ROLE regress_voucher_app;
SELECT result FROM voucher_reserve('priv', 1, 'P1', 10);
SELECT result FROM voucher_confirm('priv', 'P1');
SELECT result FROM voucher_release('priv', 'P1');
SELECT current_user;
UPDATE voucher SET used_count = 0;
INSERT INTO voucher_redemption (voucher_code, customer_id, order_id, status, order_amount, discount_amount, expires_at)
VALUES ('PRIV', 1, 'P2', 'RESERVED', 10, 1, now());
SELECT nextval('voucher_redemption_id_seq');
SET voucher.hold_time = '1 d';
RESET ROLE;

-- as the owner of the tables, whoever that is by now
CREATE ROLE regress_voucher_owner;
GRANT CREATE ON SCHEMA public TO regress_voucher_owner;
-- all tables or none: a trigger on one would fire with the rights of the owner of another
ALTER TABLE voucher OWNER TO regress_voucher_owner;
SELECT complain($$SELECT voucher_reserve('priv', 1, 'P-O', 10)$$);
ALTER TABLE voucher_redemption OWNER TO regress_voucher_owner;
SELECT complain($$SELECT voucher_confirm('priv', 'P-O')$$);
ALTER TABLE voucher_slot OWNER TO regress_voucher_owner;
SELECT complain($$SELECT voucher_run_worker()$$);
ALTER TABLE voucher_incident OWNER TO regress_voucher_owner;
CREATE FUNCTION who() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE WARNING 'trigger of the owner runs as %, session of %', current_user,
		CASE session_user WHEN current_user THEN 'the owner' ELSE 'somebody else' END;
	RETURN NEW;
END
$$;
CREATE TRIGGER who BEFORE INSERT ON voucher_redemption FOR EACH ROW EXECUTE FUNCTION who();
SET ROLE regress_voucher_app;
SELECT result FROM voucher_reserve('priv', 2, 'P3', 10);
RESET ROLE;
DROP TRIGGER who ON voucher_redemption;
DROP FUNCTION who();

-- row-level security: enabled is no concern of ours, forced is refused
ALTER TABLE voucher_redemption ENABLE ROW LEVEL SECURITY;
SELECT result FROM voucher_reserve('priv', 3, 'P4', 10);
ALTER TABLE voucher_redemption FORCE ROW LEVEL SECURITY;
SELECT voucher_reserve('priv', 4, 'P5', 10);
SELECT voucher_confirm('priv', 'P4');
ALTER TABLE voucher_redemption NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY;
ALTER TABLE voucher ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SELECT voucher_reserve('priv', 4, 'P5', 10);
ALTER TABLE voucher NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY;

ALTER TABLE voucher OWNER TO CURRENT_USER;
ALTER TABLE voucher_redemption OWNER TO CURRENT_USER;
ALTER TABLE voucher_slot OWNER TO CURRENT_USER;
ALTER TABLE voucher_incident OWNER TO CURRENT_USER;
REVOKE CREATE ON SCHEMA public FROM regress_voucher_owner;
REVOKE ALL ON FUNCTION voucher_reserve, voucher_confirm, voucher_release FROM regress_voucher_app;
DROP ROLE regress_voucher_app, regress_voucher_nobody, regress_voucher_owner;
SELECT * FROM voucher_violations();

-- Codes are stored in their normal form; a voucher with redemptions stays
SET client_min_messages = warning;
INSERT INTO voucher (code, discount_amount) VALUES (E' \tsummer-é ', 1) RETURNING code;
INSERT INTO voucher (code, discount_amount) VALUES ('SUMMER-é', 1);
INSERT INTO voucher (code, discount_amount) VALUES ('a b', 1);
\set VERBOSITY terse
INSERT INTO voucher (code, discount_amount) VALUES (NULL, 1);
\set VERBOSITY default
UPDATE voucher SET code = 'autumn' WHERE code = 'SUMMER-é';
UPDATE voucher SET code = 'AUTUMN' WHERE code = 'SUMMER-é';
DELETE FROM voucher WHERE code = 'AUTUMN';

-- live and released redemptions alike
INSERT INTO voucher (code, discount_amount) VALUES ('LIVE', 1), ('PAST', 1), ('NEW', 1);
SELECT result FROM voucher_reserve('live', 1, 'G1', 10);
SELECT result FROM voucher_reserve('past', 1, 'G2', 10);
SELECT result FROM voucher_release('past', 'G2');
DELETE FROM voucher WHERE code = 'LIVE';
DELETE FROM voucher WHERE code = 'PAST';
DELETE FROM voucher WHERE code = 'NEW';
UPDATE voucher SET code = 'LIVE2' WHERE code = 'LIVE';
UPDATE voucher SET code = code WHERE code = 'LIVE';
TRUNCATE voucher CASCADE;
TRUNCATE voucher, voucher_slot, voucher_redemption;

-- without any, TRUNCATE is the administrator's own business
BEGIN;
DELETE FROM voucher_redemption;
TRUNCATE voucher CASCADE;
SELECT count(*) FROM voucher;
ROLLBACK;

-- only the trigger manager calls the guard, and only for table voucher
SELECT voucher_guard();
CREATE TABLE other (code integer);
CREATE TRIGGER guard_row BEFORE INSERT ON other FOR EACH ROW EXECUTE FUNCTION voucher_guard();
INSERT INTO other VALUES (1);
DROP TABLE other;
CREATE TRIGGER guard_statement BEFORE INSERT ON voucher FOR EACH STATEMENT EXECUTE FUNCTION voucher_guard();
INSERT INTO voucher (code, discount_amount) VALUES ('GUARDED', 1);
DROP TRIGGER guard_statement ON voucher;
SELECT * FROM voucher_violations();

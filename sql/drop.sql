-- Dropping leaves nothing behind, and the session goes on
SET client_min_messages = warning;
SELECT result FROM voucher_reserve('two', 7, 'D', 10);
DROP FUNCTION voucher_violations();
DROP FUNCTION said(voucher_outcome);
DROP EXTENSION voucher;
SELECT relname FROM pg_class WHERE relname LIKE 'voucher%';
SET client_min_messages = error;
CREATE EXTENSION voucher;
SET client_min_messages = warning;
SELECT result FROM voucher_reserve('two', 7, 'D', 10);
DROP EXTENSION voucher;

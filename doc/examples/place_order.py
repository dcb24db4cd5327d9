"""Place an order and reserve its voucher in one transaction, from Python.

Needs psycopg 3 (Debian: python3-psycopg) and a table

    shop_order (id text PRIMARY KEY, customer_id bigint, amount bigint, discount bigint)

From a database with encoding SQL_ASCII psycopg returns text as bytes; connect
to one with client_encoding="utf8".
"""

import psycopg

CONFLICT = ("40001", "40P01")  # serialization_failure, deadlock_detected


class Refused(Exception):
    """The voucher cannot be used; str() is the result, say OUT_OF_STOCK."""


def place_order(connect, order_id, customer_id, amount, code, tries=5):
    """Return the discount of the order, which is stored with it.

    connect() gives a new connection.  A lost connection leaves it open
    whether the transaction was committed; a conflict with another session
    rolls it back.  In both cases the whole transaction is simply repeated:
    the same order id makes the second run find what the first one did.
    """
    for attempt in range(1, tries + 1):
        try:
            with connect() as connection:
                return _transaction(connection, order_id, customer_id, amount, code)
        except psycopg.OperationalError as error:
            state = error.sqlstate  # none if the connection just broke; 57P: shut down
            retry = state is None or state in CONFLICT or state.startswith("57P")
            if not retry or attempt == tries:
                raise


def _transaction(connection, order_id, customer_id, amount, code):
    with connection.transaction():
        connection.execute(
            "INSERT INTO shop_order (id, customer_id, amount) VALUES (%s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            (order_id, customer_id, amount),
        )
        # last, since it keeps the voucher locked until the commit
        result, discount = connection.execute(
            "SELECT result, discount_amount FROM voucher_reserve(%s, %s::bigint, %s, %s::bigint)",
            (code, customer_id, order_id, amount),
        ).fetchone()
        if result not in ("RESERVED", "DUPLICATE"):
            raise Refused(result)
        connection.execute(
            "UPDATE shop_order SET discount = %s WHERE id = %s", (discount, order_id)
        )
        return discount

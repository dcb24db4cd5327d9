"""What test/t/010_driver.pl runs: doc/examples/place_order.py, with answers that are lost."""

import os
import sys

import psycopg

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../doc/examples"))
from place_order import Refused, place_order  # noqa: E402

conninfo = sys.argv[1]


class Losing:
    """Connections of which the first ones break, before or after the commit."""

    def __init__(self, *moments):
        self.moments = list(moments)
        self.opened = 0

    def __call__(self):
        self.opened += 1
        moment = self.moments.pop(0) if self.moments else None
        connection = psycopg.connect(conninfo)
        if moment:
            transaction = connection.transaction

            class Broken:
                def __enter__(self):
                    self.inner = transaction()
                    return self.inner.__enter__()

                def __exit__(self, *error):
                    if moment == "after":
                        self.inner.__exit__(*error)
                    with psycopg.connect(conninfo, autocommit=True) as other:
                        other.execute("SELECT pg_terminate_backend(%s, 10000)", (connection.info.backend_pid,))
                    connection.execute("SELECT 1")

            connection.transaction = Broken
        return connection


def case(name, connect, *order):
    try:
        answer = place_order(connect, *order)
    except Refused as refused:
        answer = str(refused)
    print(name, answer, connect.opened)


case("plain", Losing(), "p1", 1, 900, "driver")
case("again", Losing(), "p1", 1, 900, "driver")
case("lost-before-commit", Losing("before"), "p2", 2, 300, "driver")
case("lost-after-commit", Losing("after", "after"), "p3", 3, 900, "driver")
case("refused", Losing(), "p4", 3, 900, "driver")
case("sold-out", Losing(), "p5", 5, 900, "driver")

"""Charges alice N times by way of LOSSY and of CUTTING, then meets the SDK's errors at DIRECT.

The SDK makes keys and retries by itself, but not when an answer breaks off in its body: then it is the caller who calls again,
and who has to name the key, since the SDK would make another one.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import stripe
from stripe._http_client import HTTPClient

lossy, cutting, direct, calls = *sys.argv[1:4], int(sys.argv[4])

# Its waits, shortened: half a second and more by default.
HTTPClient.INITIAL_DELAY, HTTPClient.MAX_DELAY = 0.02, 0.2


def client(account, at, **options):
    return stripe.StripeClient(account, base_addresses={"api": f"http://{at}"}, **options)


def charge(number):
    params = {
        "amount": 2000,
        "currency": "usd",
        "source": "tok_visa",
        "description": f"order-{number}",
        "metadata": {"order": str(number)},
    }
    if number % 2:
        made = by_lossy.v1.charges.create(params)
    else:
        made = charge_until_whole(params, key=f"key-{number}")
    assert (made.object, made.amount, made.status) == ("charge", 2000, "succeeded"), made
    assert made.metadata["order"] == str(number), made


def charge_until_whole(params, key):
    for _ in range(30):
        try:
            return by_cutting.v1.charges.create(params, {"idempotency_key": key})
        except stripe.APIConnectionError:
            continue
    raise AssertionError("no whole answer")


by_lossy = client("alice", lossy, max_network_retries=30)
by_cutting = client("alice", cutting, max_network_retries=30)
with ThreadPoolExecutor(32) as pool:
    for done in pool.map(charge, range(calls)):
        pass


def error(account, source="tok_visa", amounts=(1,)):
    merchant = client(account, direct, max_network_retries=0)
    try:
        for amount in amounts:
            params = {"amount": amount, "currency": "usd", "source": source}
            merchant.v1.charges.create(params, {"idempotency_key": f"{source}-1"})
    except stripe.StripeError as error:
        code = error.code if isinstance(error, stripe.CardError) else ""
        return f"{type(error).__name__} {code}".strip()
    return None


print(
    json.dumps(
        {
            "reused": error("bob", amounts=(1, 2)),
            "declined": error("bob", source="tok_chargeDeclined"),
            "unreadable": error("bob", source="tok_gold"),
            "unknown": error(".nobody"),
        }
    )
)

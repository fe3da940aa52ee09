"""Charges alice N times by way of ADDRESS: requests, with the retry adapter of urllib3."""

import sys
from concurrent.futures import ThreadPoolExecutor

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

address, charges = sys.argv[1], int(sys.argv[2])

session = requests.Session()
retry = Retry(
    total=30,
    # POST is not among those that are retried by default: without a key it must not be.
    allowed_methods=None,
    status_forcelist=[409, 425, 429, 500, 502, 503, 504],
    backoff_factor=0.02,
    backoff_max=0.5,
)
session.mount("http://", HTTPAdapter(max_retries=retry, pool_maxsize=32))


def charge(number):
    key = f"order-{number}"
    body = {"amount": 5, "currency": "vnd", "source": "tok_visa", "description": key}
    for _ in range(30):
        try:
            response = session.post(
                f"http://{address}/charges",
                json=body,
                headers={"Authorization": "Bearer alice", "Idempotency-Key": key},
                timeout=20,
            )
        except requests.exceptions.ChunkedEncodingError:
            # The adapter has done its part when the headers are there: a body that breaks off is ours to retry.
            continue
        assert response.status_code == 201, response.text
        assert response.json()["description"] == key
        return
    raise AssertionError("no whole answer")


with ThreadPoolExecutor(32) as pool:
    for done in pool.map(charge, range(charges)):
        pass

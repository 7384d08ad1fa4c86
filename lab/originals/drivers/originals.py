"""Prints scripts of outcomes, and what the originals in Python say to each, as lines of JSON.

    python originals.py COUNT SEED
"""
import json
import math
import random
import sys
import time
from types import SimpleNamespace

import google.api_core.retry.retry_base as google
import tenacity
import urllib3
from botocore.retries import quota, standard
from pymongo import errors, helpers_shared
from pymongo.synchronous import mongo_client

COUNT, SEED = int(sys.argv[1]), int(sys.argv[2])
draw = random.Random(SEED)


def say(kind, **fields):
    print(json.dumps({"kind": kind, **fields}, separators=(",", ":")))


def aws():
    """The retry quota of botocore: its checker on calls of up to three attempts."""
    throttling = SimpleNamespace(is_throttling_error_from_context=lambda context: context.throttled)
    pool = quota.RetryQuota()
    checker = standard.RetryQuotaChecker(pool, throttling_detector=throttling)
    weights = draw.choice([(8, 1, 1), (1, 8, 1), (1, 1, 8), (1, 1, 1), (0, 1, 1)])
    calls, attempts, left = [], [], []
    for _ in range(draw.randint(1, 60)):
        outcomes = draw.choices("sft", weights, k=3)
        context = {}
        made = 0
        for number, outcome in enumerate(outcomes, 1):
            made = number
            if outcome == "s":
                checker.release_retry_quota(context, SimpleNamespace(status_code=200))
                break
            if number == 3:
                break
            retry = SimpleNamespace(
                throttled=outcome == "t",
                request_context=context,
                add_retry_metadata=lambda **_: None,
            )
            if not checker.acquire_retry_quota(retry):
                break
        calls.append("".join(outcomes))
        attempts.append(made)
        left.append(pool.available_capacity)
    say("aws", calls=calls, attempts=attempts, left=left)


def nanos(most):
    """A length of time in nanoseconds, of any size up to a number of seconds."""
    return round(10 ** draw.uniform(3, 9 + math.log10(most)))


def tenacious():
    """The delays of tenacity without jitter."""
    base, factor = nanos(5), draw.uniform(1, 8)
    cap = max(base, nanos(600))
    wait = tenacity.wait_exponential(multiplier=base / 1e9, exp_base=factor, max=cap / 1e9)
    retries = sorted(draw.sample(range(1, 60), 6))
    delays = [wait(SimpleNamespace(attempt_number=number)) for number in retries]
    say("delays", original="tenacity", base=base, factor=factor, cap=cap, retries=retries, longest=delays)


def googled():
    """The upper ends of the delays of google-api-core."""
    base, factor = nanos(5), draw.uniform(1, 8)
    cap = max(base, nanos(600))
    uniform, google.random.uniform = google.random.uniform, lambda _, end: end
    try:
        sleeps = google.exponential_sleep_generator(base / 1e9, cap / 1e9, factor)
        delays = [next(sleeps) for _ in range(12)]
    finally:
        google.random.uniform = uniform
    retries = list(range(1, 13))
    say("delays", original="google-api-core", base=base, factor=factor, cap=cap, retries=retries, longest=delays)


OVERLOADED = ["SystemOverloadedError", "RetryableError"]
# Labels and code of a failure: an overload, one that must not come again, no primary, a duplicate key.
FAILURES = [(OVERLOADED, 462), (OVERLOADED[:1], 462), ([], 10107), ([], 11000)]


class Attempts(mongo_client._ClientConnectionRetryable):
    """The loop of pymongo around a command, whose attempts end as the script says."""

    def attempt(self):
        self.made += 1
        labels, code, base = self.script[self.made - 1]
        if code == 0:
            return
        details = {"errorLabels": labels} | ({"baseBackoffMS": base} if base else {})
        raise errors.OperationFailure("failed", code, details)

    _read = _write = attempt


SESSION = SimpleNamespace(in_transaction=False, _unpin=lambda: None)
OPTIONS = SimpleNamespace(
    retry_reads=True, retry_writes=True, max_adaptive_retries=2, enable_overload_retargeting=False
)
CLIENT = SimpleNamespace(options=OPTIONS, _retry_policy=helpers_shared._RetryPolicy(attempts=2))


def mongo():
    """The attempts of pymongo at a command, and the upper ends of its delays."""
    is_read = draw.random() < 0.5
    weights = draw.choice([(1, 0, 0, 0), (8, 1, 0, 1), (3, 0, 3, 1)])
    script = []
    for _ in range(6):
        base = draw.choice([0, 0, draw.randint(1, 9000)])
        labels, code = ([], 0) if draw.random() < 0.2 else draw.choices(FAILURES, weights)[0]
        script.append((labels, code, base if labels else 0))
    call = Attempts(CLIENT, None, None, "find" if is_read else "update", is_read=is_read,
                    session=None if is_read else SESSION, retryable=is_read, operation_id=1)
    call.script, call.made = script, 0
    sleep, uniform, delays = time.sleep, helpers_shared.random.random, []
    time.sleep, helpers_shared.random.random = delays.append, lambda: 1.0
    try:
        call.run()
    except errors.OperationFailure:
        pass
    finally:
        time.sleep, helpers_shared.random.random = sleep, uniform
    say("mongo", is_read=is_read, failures=script, attempts=call.made, delays=delays)


NOW = 1_780_000_000


def header():
    """The value of a Retry-After header as urllib3 reads it."""
    at = NOW + draw.choice([draw.randint(-10**6, 10**6), draw.randint(-600, 600)])
    day = time.gmtime(at)
    forms = [
        lambda: str(draw.randint(0, 10 ** draw.randint(1, 7))),
        lambda: f" {draw.randint(0, 600)} ",
        lambda: time.strftime("%a, %d %b %Y %H:%M:%S GMT", day),
        lambda: time.strftime("%A, %d-%b-%y %H:%M:%S GMT", day),
        lambda: time.strftime("%a %b %e %H:%M:%S %Y", day),
        lambda: draw.choice(["", "soon", "-5", "1.5", "12s", "0x10", "1e3", "+7", "Infinity", "NaN", "1,2"]),
    ]
    value = draw.choice(forms)()
    now, time.time = time.time, lambda: NOW
    try:
        wait = urllib3.Retry(retry_after_max=10**12).parse_retry_after(value)
    except urllib3.exceptions.InvalidHeader:
        wait = None
    finally:
        time.time = now
    say("urllib3", value=value, now=NOW, wait=wait)


for _ in range(COUNT):
    aws()
    tenacious()
    googled()
    mongo()
    header()

"""Prints scripts of outcomes, and what the originals in Python say to each, as lines of JSON.

    python originals.py COUNT SEED
"""
import json
import random
import sys
import time
from types import SimpleNamespace

import google.api_core.retry.retry_base as google
import tenacity
import urllib3
from botocore.retries import quota, standard

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


def tenacious():
    """The delays of tenacity without jitter."""
    base, factor, cap = draw.randint(1, 5000), draw.randint(2, 8), draw.randint(1, 600_000)
    wait = tenacity.wait_exponential(multiplier=base / 1000, exp_base=factor, max=max(base, cap) / 1000)
    retries = sorted(draw.sample(range(1, 60), 6))
    delays = [wait(SimpleNamespace(attempt_number=number)) for number in retries]
    say("tenacity", base=base, factor=factor, cap=max(base, cap), retries=retries, delays=delays)


def googled():
    """The upper ends of the delays of google-api-core."""
    base, factor, cap = draw.randint(1, 5000), draw.randint(1, 8), draw.randint(1, 600_000)
    uniform, google.random.uniform = google.random.uniform, lambda _, end: end
    try:
        sleeps = google.exponential_sleep_generator(base / 1000, max(base, cap) / 1000, float(factor))
        delays = [next(sleeps) for _ in range(12)]
    finally:
        google.random.uniform = uniform
    say("google", base=base, factor=factor, cap=max(base, cap), delays=delays)


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
    header()

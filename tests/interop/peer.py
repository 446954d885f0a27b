"""A portalocker lock in a process of its own, driven line by line.

Speaks the lines of tests/support/worker.rs. Also tells, unasked, when the thread that reads the lock's
channel has died: a lock whose reader is gone answers nobody.
"""

import logging
import random
import sys
import threading
import time

import portalocker
import redis

URL, NAME = sys.argv[1:3]
logging.basicConfig(level=logging.CRITICAL)


def say(words):
    print("worker> " + words, flush=True)


def reader_died(args):
    say(f"reader died: {args.exc_type.__name__}")


threading.excepthook = reader_died


def make(shared):
    options = {
        "connection": redis.Redis.from_url(URL, decode_responses=True),
        "check_interval": 0.25,
    }
    version = tuple(int(part) for part in portalocker.__version__.split("."))
    if version >= (4, 0, 0):
        mode = portalocker.LockFlags.SHARED if shared else portalocker.LockFlags.EXCLUSIVE
        options["flags"] = mode
    elif shared:
        raise ValueError("portalocker 3 has no readers")
    if version >= (4, 2, 0):
        options["on_lost"] = lambda lock: say("lost")
        options["interrupt_on_lost"] = False
        options["fencing"] = True
    return portalocker.RedisLock(NAME, **options)


SECTION = """
local w = tonumber(redis.call('GET', KEYS[1] .. ':w') or '0')
local r = tonumber(redis.call('GET', KEYS[1] .. ':r') or '0')
redis.call('INCRBY', KEYS[1] .. ':' .. ARGV[1], ARGV[2])
if ARGV[2] == '-1' then return 0 end
if w > 0 or (ARGV[1] == 'w' and r > 0) then return redis.call('INCR', KEYS[1] .. ':overlaps') end
return 0
"""


def storm(seconds, seed, shares, think_ms):
    """Sections, with time to think in between; says how many there were."""
    dice = random.Random(seed)
    connection = redis.Redis.from_url(URL, decode_responses=True)
    until = time.monotonic() + seconds
    served = 0
    # Whoever has not been served yet goes on trying.
    while time.monotonic() < until or (served == 0 and time.monotonic() < until + 3 * seconds):
        try:
            section(connection, dice, dice.random() * 100 < shares, seconds)
            served += 1
            time.sleep(dice.random() * think_ms / 1000)
        except (portalocker.exceptions.BaseLockException, redis.exceptions.ConnectionError):
            continue
        except KeyboardInterrupt:
            # Versions before 4.2 end each other's connections now and then, and interrupt the main
            # thread when that happens to them.
            continue
    return served


def section(connection, dice, shared, timeout):
    kind = "r" if shared else "w"
    lock = make(shared)
    try:
        lock.acquire(timeout=timeout)
        connection.eval(SECTION, 1, NAME, kind, 1)
        try:
            time.sleep(dice.random() * 0.01)
        finally:
            connection.eval(SECTION, 1, NAME, kind, -1)
    finally:
        lock.release()


def obey(words):
    global lock
    if words[0] in ("x", "s"):
        lock = make(words[0] == "s")
        timeout = int(words[1]) / 1000 if len(words) > 1 else 5
        try:
            lock.acquire(timeout=timeout)
        except portalocker.exceptions.BaseLockException:
            return "Timeout"
        return "got " + words[0]
    if words[0] == "token":
        return f"token {lock.fence_token}"
    if words[0] == "r":
        lock.release()
        return "released"
    if words[0] == "storm":
        return f"served {storm(*map(int, words[1:]))}"
    return f"what is {words}?"


lock = None
say("ready")
for line in sys.stdin:
    say(obey(line.split()))

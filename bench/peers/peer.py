"""Python's locks at the same work as bench/src/work.rs: peer.py WHO WORK URL NAME COUNT HOLD_US."""

import json
import sys
import time

import redis

who, work, url, name, count, hold_us = sys.argv[1:]
count, hold = int(count), int(hold_us) / 1e6
now = time.monotonic_ns
LEASE = 10


def make():
    """A lock on a connection that is there already, as acquire and release."""
    client = redis.Redis.from_url(url, socket_timeout=None)
    client.ping()
    if who == "portalocker":
        import portalocker

        lock = portalocker.RedisLock(name, connection=client, timeout=60)
    elif who == "redis-py":
        lock = client.lock(name, timeout=LEASE)
    elif who == "python-redis-lock":
        import redis_lock

        lock = redis_lock.Lock(client, name, expire=LEASE)
    return lock.acquire, lock.release


def pairs():
    acquire, release = make()
    for _ in range(20):
        acquire()
        release()
    spans = []
    for _ in range(count):
        begin = now()
        acquire()
        acquired = now()
        release()
        spans.append([acquired - begin, now() - begin])
    return spans


def contend():
    acquire, release = make()
    print("ready", flush=True)
    sys.stdin.readline()
    stays = []
    for _ in range(count):
        acquire()
        enter = now()
        if hold >= 1:
            print(json.dumps(enter), flush=True)
        if hold:
            time.sleep(hold)
        leave = now()
        release()
        stays.append([enter, leave])
    return stays


print(json.dumps({"pair": pairs, "contend": contend}[work]()), flush=True)

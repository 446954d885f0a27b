"""Goes through critical sections with portalocker; see main.rs.

    worker.py URL NAME FOLDER LABEL SECTIONS INSIDE_MS PAUSE_MS
"""

import logging
import os
import sys
import time

import portalocker
import redis

URL, NAME, FOLDER, LABEL = sys.argv[1:5]
SECTIONS, INSIDE_MS, PAUSE_MS = map(int, sys.argv[5:])
logging.basicConfig(level=logging.CRITICAL)
os.chdir(FOLDER)
JOURNAL = os.open("journal", os.O_WRONLY | os.O_APPEND)
COUNTER = os.open("counter", os.O_RDWR)


def note(event, token=0):
    """One write to a file opened for appending is one line, however many processes write."""
    os.write(JOURNAL, f"{event} {LABEL} {token} {time.monotonic_ns()}\n".encode())


def count():
    """Without a lock of its own: it loses some if two do it at once."""
    number = int(os.pread(COUNTER, 16, 0))
    time.sleep(INSIDE_MS / 1000)
    os.pwrite(COUNTER, b"%016d" % (number + 1), 0)


def section(lock):
    note("want")
    lock.acquire(timeout=300, check_interval=0.02)
    os.mkdir("inside")
    note("enter", lock.fence_token)
    count()
    note("leave", lock.fence_token)
    os.rmdir("inside")
    lock.ensure_held()
    lock.release()


# A portalocker that misses an answer ends, after this long, whoever has not answered; that may be one who
# has joined since and was never asked, if as many have joined as have left at each of its counts meanwhile.
# Where many come and go all the time a second is too short.
PATIENCE = 30
LOCK = portalocker.RedisLock(
    NAME,
    unavailable_timeout=PATIENCE,
    connection=redis.Redis.from_url(URL, decode_responses=True),
    on_lost=lambda lock: note("lost"),
    interrupt_on_lost=False,
    fencing=True,
)
print("worker> ready", flush=True)
if not sys.stdin.readline():
    sys.exit(f"{LABEL}: cannot begin")
for _ in range(SECTIONS):
    section(LOCK)
    time.sleep(PAUSE_MS / 1000)

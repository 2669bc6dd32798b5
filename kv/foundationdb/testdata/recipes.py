"""FoundationDB's recipes "Queues" and "Priority Queues" in Python, for a test of
programs in two languages on one queue.

    recipes.py CLUSTER_FILE PREFIX ROLE [COUNT]

PREFIX is in hexadecimal and goes in front of all keys. ROLE is one of

    enqueue              COUNT values into the queue Q: py0, py1, ...
    push                 the same into the priority queue P, with priorities -1, 0, 1 in turn
    dequeue              take from the queue Q, a line for each value
    pop-min, pop-max     take from an end of the priority queue P

Roles that take go on until standard input ends and they find nothing more.
"""

import os
import sys
import threading
import time

import fdb
import fdb.tuple

fdb.api_version(730)


def last(tr, space):
    """The last key of a subspace, through a snapshot."""
    r = space.range()
    for key, _ in tr.snapshot.get_range(r.start, r.stop, limit=1, reverse=True):
        return key
    return None


@fdb.transactional
def enqueue(tr, queue, value):
    key = last(tr, queue)
    index = 1 if key is None else queue.unpack(key)[0] + 1
    tr[queue.pack((index, os.urandom(20)))] = value


@fdb.transactional
def push(tr, queue, value, priority):
    same = queue[priority]
    key = last(tr, same)
    count = 0 if key is None else same.unpack(key)[0] + 1
    tr[same.pack((count, os.urandom(20)))] = value


@fdb.transactional
def take(tr, queue, reverse):
    r = queue.range()
    for key, value in tr.get_range(r.start, r.stop, limit=1, reverse=reverse):
        del tr[key]
        return bytes(value)
    return None


def take_all(db, queue, reverse):
    ended = threading.Event()

    def wait():
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    while True:
        last_time = ended.is_set()
        value = take(db, queue, reverse)
        if value is not None:
            print(value.decode(), flush=True)
        elif last_time:
            return
        else:
            time.sleep(0.01)


def main():
    cluster_file, prefix, role = sys.argv[1:4]
    db = fdb.open(cluster_file)
    prefix = bytes.fromhex(prefix)
    fifo = fdb.Subspace(("Q",), rawPrefix=prefix)
    priorities = fdb.Subspace(("P",), rawPrefix=prefix)
    if role == "enqueue":
        for i in range(int(sys.argv[4])):
            enqueue(db, fifo, b"py%d" % i)
    elif role == "push":
        for i in range(int(sys.argv[4])):
            push(db, priorities, b"py%d" % i, i % 3 - 1)
    elif role == "dequeue":
        take_all(db, fifo, False)
    elif role == "pop-min":
        take_all(db, priorities, False)
    elif role == "pop-max":
        take_all(db, priorities, True)
    else:
        sys.exit("no such role: " + role)


main()

#!/usr/bin/env python3
"""Writes FriendFeed entities as SQL, for the mysql client:

    python3 writer.py --seed 1 --seconds 10 | mysql friendfeed

Bodies are zlib-compressed pickles of dictionaries, in every protocol of Python 3, and as Python 2 wrote them (its str is
bytes, also in keys). Entities are inserted, changed in place, replaced, deleted and inserted again, several in a
transaction. Some transactions are rolled back. Properties change, disappear, and become None. One entity, HOT, changes
all the time: its "published" only grows.
"""
import argparse
import io
import pickle
import random
import struct
import sys
import time
import zlib

HOT = bytes.fromhex("71f0c4d2291844cca2df6f486e96e37c")


class Python2Pickler(pickle._Pickler):
    """Pickles bytes as Python 2 pickled str."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_str2(self, text):
        if self.proto == 0:
            self.write(b"S" + repr(text)[1:].encode("ascii") + b"\n")
        elif len(text) < 256:
            self.write(b"U" + struct.pack("<B", len(text)) + text)
        else:
            self.write(b"T" + struct.pack("<i", len(text)) + text)
        self.memoize(text)

    dispatch[bytes] = save_str2


def as_python2(value):
    """Returns the value with keys and ASCII texts as Python 2's str."""
    if isinstance(value, dict):
        return {k.encode(): as_python2(v) for k, v in value.items()}
    if isinstance(value, str) and value.isascii():
        return value.encode()
    return value


class Writer:
    def __init__(self, seed, entities, out):
        self.random = random.Random(seed)
        self.ids = [HOT] + [self.random.randbytes(16) for _ in range(entities - 1)]
        self.ids[1] = self.ids[1][:13] + b"\0\0\0"  # zero bytes at the end, which binlogs omit
        self.users = [self.random.randbytes(16) for _ in range(20)]
        self.users[0] = b"0123456789abcdef"  # looks like text
        self.users[1] = b"\0" * 16
        self.users[2] = b"\xff" * 16
        self.hot = 0
        self.out = out

    def entity(self, entity_id):
        pick = self.random.choice
        n = self.random.randrange(10000)
        entity = {
            "id": entity_id,
            "user_id": pick(self.users),
            "feed_id": pick(self.users),
            "title": pick(["We just launched a new backend!", "いいね! — naïve ☃", "it's \"quoted\"", ""]),
            "link": pick(["http://friendfeed.com/e/%d" % n, "http://例え.jp/%d" % n, "x" * 700 + "%04d" % n]),
            "published": 1235697046 + n * 2**31,
            "updated": time.time(),
            "tags": pick([[], ["a"], ["a", "b:c", "學校"], ("b:c", "b:c")]),
            "deleted": self.random.random() < 0.1,
            "likes": 2**70 + n,
        }
        if entity_id == HOT:
            self.hot += 1
            entity.update(published=self.hot, deleted=False)
            if self.random.random() < 0.9:
                entity["user_id"] = self.users[3 + self.hot // 100 % 3]
            return entity
        if self.random.random() < 0.1:
            entity["user_id"] = entity["user_id"].hex()  # text, as other programs write it
        for name in list(entity):
            chance = self.random.random()
            if chance < 0.04:
                del entity[name]
            elif chance < 0.08:
                entity[name] = None
        return entity

    def body(self, entity):
        if self.random.random() < 0.4:
            out = io.BytesIO()
            Python2Pickler(out, self.random.randrange(3), fix_imports=True).dump(as_python2(entity))
            pickled = out.getvalue()
        else:
            pickled = pickle.dumps(entity, self.random.randrange(pickle.HIGHEST_PROTOCOL + 1))
        return "X'%s'" % zlib.compress(pickled, self.random.randrange(10)).hex()

    def change(self):
        entity_id = HOT if self.random.random() < 0.3 else self.random.choice(self.ids)
        key = "X'%s'" % entity_id.hex()
        chance = self.random.random()
        if entity_id != HOT and chance < 0.1:
            return "DELETE FROM entities WHERE id = %s" % key
        body = self.body(self.entity(entity_id))
        if entity_id != HOT and chance < 0.2:  # another added_id
            return "REPLACE INTO entities (id, updated, body) VALUES (%s, NOW(), %s)" % (key, body)
        return ("INSERT INTO entities (id, updated, body) VALUES (%s, NOW(), %s) "
                "ON DUPLICATE KEY UPDATE updated = VALUES(updated), body = VALUES(body)" % (key, body))

    def transaction(self):
        self.out.write("BEGIN;\n")
        hot = self.hot
        for _ in range(self.random.choice([1, 1, 1, 2, 5])):
            self.out.write(self.change() + ";\n")
        if self.random.random() < 0.03:
            self.hot = hot
            self.out.write("ROLLBACK;\n")
        else:
            self.out.write("COMMIT;\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--entities", type=int, default=300)
    args = parser.parse_args()
    writer = Writer(args.seed, args.entities, sys.stdout)
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        writer.transaction()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Computes what the index tables should contain from the entities:

    mysql -BN -e 'SELECT HEX(id), HEX(body) FROM entities' friendfeed | python3 expected.py SHARDS

prints a line for each entry: table, shard, values and entity. Numbers are decimal, and all other values are hexadecimal.
It shares no code with the program: Python's own library reads the bodies.
"""
import pickle
import sys
import zlib


def text(value):
    """Returns a property's text. Python 2's str contains UTF-8."""
    return value.decode() if isinstance(value, bytes) else value


def binary16(value):
    """Returns a property that is stored as 16 bytes, or as a text of their 32 hexadecimal digits."""
    return value if isinstance(value, bytes) and len(value) == 16 else bytes.fromhex(text(value))


def entries(entity, shards):
    user, link, published = entity.get("user_id"), entity.get("link"), entity.get("published")
    if user is not None:
        user = binary16(user)
        shard = int.from_bytes(user, "big") % shards
        yield "index_user_id", shard, user.hex()
        # A condition on a missing property is false.
        if published is not None and entity.get("deleted") is not None and not entity["deleted"]:
            yield "index_user_published", shard, user.hex() + "\t" + str(published)
    if link is not None:
        link = text(link).encode()
        yield "index_link", zlib.crc32(link) % shards, link.hex()
    for tag in sorted({text(t) for t in entity.get("tags") or ()}):
        yield "index_tag", zlib.crc32(tag.encode()) % shards, tag.encode().hex()


def main():
    shards = int(sys.argv[1])
    for line in sys.stdin:
        entity_id, body = line.rstrip("\n").split("\t")
        bag = pickle.loads(zlib.decompress(bytes.fromhex(body)), encoding="bytes")
        entity = {text(name): value for name, value in bag.items()}
        for table, shard, values in entries(entity, shards):
            print(table, shard, values, entity_id.lower(), sep="\t")


if __name__ == "__main__":
    main()

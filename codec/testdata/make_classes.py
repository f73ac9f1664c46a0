#!/usr/bin/env python3
"""Writes classes.jsonl: pickles of what Python's standard library has for plain values, in every protocol.

Each line is {"name", "body_hex", "expect"}. In expect {"number": digits} is a number with these digits, {"unread": what} is what
can't be read. Python 2 wrote str where Python 3 writes bytes: Python2 below writes its instructions. The modules of pytz are made up
here: what counts is what its objects' __reduce__ says.
"""
import collections, datetime, decimal, io, json, os, pickle, struct, sys, types, uuid, zoneinfo
from datetime import timedelta, timezone

os.chdir(os.path.dirname(os.path.abspath(__file__)))


class Python2(pickle._Pickler):
    dispatch = dict(pickle._Pickler.dispatch)

    def save_str(self, obj):  # in Python 2, names and texts were str
        if isinstance(obj, str):
            obj = obj.encode("utf-8")
        if self.proto == 0:
            self.write(b"S" + repr(obj)[1:].encode("ascii") + b"\n")
        else:
            self.write(b"U" + struct.pack("<B", len(obj)) + obj)
    dispatch[bytes] = dispatch[str] = save_str


pytz = types.ModuleType("pytz")
sys.modules["pytz"] = pytz


def fake(name):
    def made(*args):
        return made, args
    made.__module__, made.__qualname__, made.__name__ = "pytz", name, name
    setattr(pytz, name, made)
    return made


class Reduced(datetime.tzinfo):
    def __init__(self, call, *args):
        self.call, self.args = call, args

    def __reduce__(self):
        return self.call, self.args

    def utcoffset(self, dt):
        return timedelta(0)


_p, _UTC, FixedOffset = fake("_p"), fake("_UTC"), fake("FixedOffset")

app = types.ModuleType("app")
sys.modules["app"] = app


class Link:
    def __init__(self):
        self.url = "secret"
Link.__module__, Link.__qualname__ = "app", "Link"
app.Link = Link


class Tags(list):
    pass
Tags.__module__, Tags.__qualname__ = "app", "Tags"
app.Tags = Tags


class Extra(dict):
    pass
Extra.__module__, Extra.__qualname__ = "app", "Extra"
app.Extra = Extra

naive = datetime.datetime(2009, 2, 27, 18, 30, 5)
berlin = zoneinfo.ZoneInfo("Europe/Berlin")


def iso(v):
    return v, v.isoformat()


def seconds(v):
    micros = v // timedelta(microseconds=1)
    if micros % 1000000 == 0:
        return v, micros // 1000000
    return v, {"number": format(decimal.Decimal(micros).scaleb(-6), "f").rstrip("0")}


def unread(v, what):
    return v, {"unread": what}


PLAIN = {
    "datetime": iso(naive),
    "microseconds": iso(naive.replace(microsecond=120)),
    "first": iso(datetime.datetime.min),
    "last": iso(datetime.datetime.max),
    "fold": iso(naive.replace(fold=1)),
    "utc": iso(naive.replace(tzinfo=timezone.utc)),
    "offset": iso(naive.replace(tzinfo=timezone(timedelta(hours=-3, minutes=-30)))),
    "named": iso(naive.replace(tzinfo=timezone(timedelta(hours=9), "JST"))),
    "odd offset": iso(naive.replace(tzinfo=timezone(timedelta(hours=1, seconds=7, microseconds=5)))),
    "date": iso(datetime.date(2024, 2, 29)),
    "time": iso(datetime.time(23, 59, 1)),
    "time with all": iso(datetime.time(1, 2, 3, 4, tzinfo=timezone.utc, fold=1)),
    "timedelta": seconds(timedelta(days=1, seconds=7, microseconds=50)),
    "negative": seconds(timedelta(microseconds=-1500000)),
    "whole": seconds(timedelta(days=-2)),
    "largest": seconds(timedelta.max),
    "decimal": (decimal.Decimal("12345678901234567890.50"), {"number": "12345678901234567890.50"}),
    "integer": (decimal.Decimal("42"), 42),
    "exponent": (decimal.Decimal("-1.5E+30"), {"number": "-1.5E+30"}),
    "uuid": (uuid.UUID("71f0c4d2-2918-44cc-a2df-6f486e96e37c"), "71f0c4d2-2918-44cc-a2df-6f486e96e37c"),
    "small uuid": (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "nan": unread(float("nan"), "a number that is not finite"),
    "infinity": unread(float("-inf"), "a number that is not finite"),
    "decimal nan": unread(decimal.Decimal("NaN"), "a number that is not finite"),
    "decimal infinity": unread(decimal.Decimal("-Infinity"), "a number that is not finite"),
    "object": unread(Link(), 'an object of the Python class "app.Link"'),
    "list class": unread(Tags([1, 2]), 'an object of the Python class "app.Tags"'),
    "dictionary class": unread(Extra(a=1), 'an object of the Python class "app.Extra"'),
    "class": unread(Link, 'the Python class "app.Link"'),
    "odd keys": unread({(1, 2): 3}, "a map with a key that is neither text nor an integer"),
    "several": ([naive, {"at": datetime.date(1, 1, 1)}], [naive.isoformat(), {"at": "0001-01-01"}]),
    "counter": (collections.Counter({"a": 2}), {"a": 2}),
    "defaultdict": (collections.defaultdict(list, {"a": [1]}), {"a": [1]}),
    "deque": (collections.deque([1, 2], 5), [1, 2]),
    "text": ("after all of them", "after all of them"),
}
ZONES = {
    "zone": iso(naive.replace(tzinfo=berlin)),
    "summer": iso(naive.replace(month=7, tzinfo=berlin)),
    "set back": iso(datetime.datetime(2024, 10, 27, 2, 30, tzinfo=berlin)),
    "set back, later": iso(datetime.datetime(2024, 10, 27, 2, 30, tzinfo=berlin, fold=1)),
    "skipped": iso(datetime.datetime(2024, 3, 31, 2, 30, tzinfo=berlin)),
    "skipped, later": iso(datetime.datetime(2024, 3, 31, 2, 30, tzinfo=berlin, fold=1)),
    "local mean time": iso(datetime.datetime(1890, 1, 1, tzinfo=berlin)),
    "zone of a time": iso(datetime.time(1, 2, tzinfo=berlin)),
    "zone utc": iso(naive.replace(tzinfo=zoneinfo.ZoneInfo("UTC"))),
    "unknown zone": unread(naive.replace(tzinfo=Reduced(Link)), 'a time in a time zone of the Python class "app.Link"'),
    "pytz": (naive.replace(tzinfo=Reduced(_p, "Europe/Berlin", 7200, 3600, "CEST")), naive.isoformat() + "+02:00"),
    "pytz alone": (naive.replace(tzinfo=Reduced(_p, "Asia/Tokyo")), naive.isoformat() + "+09:00"),
    "pytz utc": (naive.replace(tzinfo=Reduced(_UTC)), naive.isoformat() + "+00:00"),
    "pytz fixed": (naive.replace(tzinfo=Reduced(FixedOffset, -90)), naive.isoformat() + "-01:30"),
}


def python2(obj, proto):
    out = io.BytesIO()
    Python2(out, proto, fix_imports=True).dump(obj)
    return out.getvalue()


with open("classes.jsonl", "w") as f:
    for proto in range(6):
        for name, values in (("plain", PLAIN), ("zones", ZONES)):
            body = pickle._dumps({k: v for k, (v, _) in values.items()}, proto)  # the pickler in C would import the modules
            expect = {k: e for k, (_, e) in values.items()}
            if proto < 4:  # only newer protocols store the fold of a clock time
                expect |= {k: v.replace(fold=0).isoformat() for k, (v, _) in values.items() if getattr(v, "fold", 0)}
            f.write(json.dumps({"name": f"{name}-python3-p{proto}", "body_hex": body.hex(), "expect": expect}) + "\n")
            if proto < 3:
                body = python2({k: v for k, (v, _) in values.items()}, proto)
                f.write(json.dumps({"name": f"{name}-python2-p{proto}", "body_hex": body.hex(), "expect": expect}) + "\n")

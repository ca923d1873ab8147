"""What the programs beside this one have in common: arguments, records, and how cases are told."""

import sys


def records(count):
    return [(f"k{i}".encode(), f"v{i}-".encode() + b"x" * 50) for i in range(count)]


def run(write, read, checks, **more):
    """Does what the arguments say.

    `write(bootstrap, topic, codec, records)` returns the offsets, `read(bootstrap, topic, start, count)`
    offset, key and value of each record; a check takes the address and a topic of its own.
    """
    bootstrap, command, *rest = sys.argv[1:]
    if command == "write":
        count = int(rest[0])
        for topic, codec in zip(rest[1::2], rest[2::2]):
            offsets = write(bootstrap, topic, codec, records(count))
            assert offsets == list(range(count)), offsets[:3]
    elif command == "read":
        for topic in rest[1:]:
            for offset, key, value in read(bootstrap, topic, 0, int(rest[0])):
                print(topic, offset, key.decode(), value.decode(), sep="\t")
    elif command == "check":
        for check in checks:
            name = check.__name__.removeprefix("check_")
            try:
                check(bootstrap, f"{rest[0]}-{name}")
                print("ok", name, flush=True)
            except Exception as error:  # the next case goes on
                print(f"failed {name}: {type(error).__name__} {error}", flush=True)
    else:
        more[command](bootstrap, *rest)

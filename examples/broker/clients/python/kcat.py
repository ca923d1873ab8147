"""kcat, which is told what to do by flags of its own."""

import subprocess
import tempfile
import time

from program import records, run


def kcat(bootstrap, topic, *flags, given=None):
    """What it prints; an exception if it fails."""
    line = ["kcat", "-b", bootstrap, *flags, "-t", topic]
    done = subprocess.run(line, input=given, capture_output=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode())
    return done.stdout


def write(bootstrap, topic, codec, items):
    lines = b"".join(key + b":" + value + b"\n" for key, value in items)
    kcat(bootstrap, topic, "-P", "-p", "0", "-K:", "-z", codec, given=lines)
    end = int(kcat(bootstrap, f"{topic}:0:-1", "-Q").split()[-1])
    return list(range(end - len(items), end))


def read(bootstrap, topic, start, count, *flags):
    out = kcat(bootstrap, topic, "-C", "-p", "0", "-o", str(start), "-c", str(count), "-e", "-q",
               "-f", "%o\t%k\t%s\n", *flags)
    fields = [line.split(b"\t") for line in out.splitlines()]
    return [(int(offset), key, value) for offset, key, value in fields]


def check_seek(bootstrap, topic):
    write(bootstrap, topic, "none", records(100))
    assert [offset for offset, *_ in read(bootstrap, topic, 42, 2)] == [42, 43]


def check_timestamps(bootstrap, topic):
    for _ in range(3):
        write(bootstrap, topic, "none", records(1))
        time.sleep(0.05)
    times = kcat(bootstrap, topic, "-C", "-o", "beginning", "-e", "-q", "-f", "%T\n").split()
    between = int(times[1]) + 1
    asked = kcat(bootstrap, f"{topic}:0:{between}", "-Q")
    assert asked.split()[-1] == b"2", (asked, times)
    [found] = read(bootstrap, topic, f"s@{between}", 1)
    assert found[0] == 2, found


def check_limits_below_a_batch(bootstrap, topic):
    write(bootstrap, topic, "none", [(b"k", b"y" * 50_000)])
    small = ["-X", "fetch.message.max.bytes=1000", "-X", "fetch.max.bytes=1000", "-X", "message.max.bytes=1000"]
    [found] = read(bootstrap, topic, 0, 1, *small)
    assert len(found[2]) == 50_000


def check_large_records(bootstrap, topic):
    def send(count):
        with tempfile.NamedTemporaryFile() as value:
            value.write(b"z" * count)
            value.flush()
            line = ["kcat", "-b", bootstrap, "-P", "-t", topic, "-X", "message.max.bytes=5000000", value.name]
            return subprocess.run(line, capture_output=True, timeout=60)

    assert send(900_000).returncode == 0
    assert len(read(bootstrap, topic, 0, 1)[0][2]) == 900_000
    refused = send(2_000_000)
    assert b"too large" in refused.stderr, refused


def check_long_poll(bootstrap, topic):
    write(bootstrap, topic, "none", records(1))
    line = ["kcat", "-b", bootstrap, "-C", "-t", topic, "-o", "1", "-c", "1", "-q", "-X", "fetch.wait.max.ms=8000"]
    with subprocess.Popen(line, stdout=subprocess.PIPE) as waiting:
        time.sleep(1.5)
        assert waiting.poll() is None, "nothing is there yet"
        write(bootstrap, topic, "none", [(b"k", b"late")])
        began = time.time()
        assert waiting.communicate(timeout=30)[0] == b"late\n" and time.time() - began < 5


def check_idempotence(bootstrap, topic):
    lines = b"".join(b"%d\n" % i for i in range(2000))
    flags = ["-X", "enable.idempotence=true", "-X", "batch.num.messages=10"]
    kcat(bootstrap, topic, "-P", "-p", "0", *flags, given=lines)
    assert kcat(bootstrap, topic, "-C", "-o", "beginning", "-e", "-q") == lines


CHECKS = [check_seek, check_timestamps, check_limits_below_a_batch, check_large_records,
          check_long_poll, check_idempotence]

run(write, read, CHECKS)

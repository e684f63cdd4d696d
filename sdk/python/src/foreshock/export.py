"""A run's signals as a table, for pandas, DuckDB and spreadsheets.

    python -m foreshock.export RUN --parquet run.parquet [--server http://127.0.0.1:7070] [--signal loss,logit_max]
    python -m foreshock.export RUN --csv run.csv

One row a step, layer and head: run, attempt, step, signal, layer, head, value, weight. `layer` and `head` are null for
scalars, `value` is what people read (the quotient of ratios) and null where a head was not measured; NaN and infinities
are values. `weight` is what travels beside a value (rows, tokens, a ratio's denominator), or null. Parquet needs pyarrow;
without torch run the file itself: python .../foreshock/export.py.
"""

import argparse
import csv
import json
import math
import sys
import urllib.error
import urllib.parse

if __package__:
    from . import _http
else:  # run as a file, where there is no torch for the package
    import _http

COLUMNS = ("run", "attempt", "step", "signal", "layer", "head", "value", "weight")
STEPS_AT_ONCE = 2048  # of one request, about: what is in memory at a time


class Server:
    """The JSON API of a server (docs/api.md)."""

    def __init__(self, url, token=None):
        self.url, self.token = url.rstrip("/"), token
        try:
            _http.check_token(url, token)
        except ValueError as error:
            raise SystemExit(f"foreshock.export: {error}") from None

    def get(self, path, **query):
        url = f"{self.url}/api/v1/{path}"
        if query:
            url += "?" + urllib.parse.urlencode(query)
        try:
            with _http.get(url, self.token) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            try:
                text = json.loads(text)["error"]["message"]
            except (ValueError, KeyError, TypeError):
                pass
            raise SystemExit(f"foreshock.export: {text}") from None
        except OSError as error:
            raise SystemExit(f"foreshock.export: {self.url}: {error}") from None


def number(value):
    """A number as the API writes it."""
    if isinstance(value, str):
        return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}[value]
    return value


def entries(series):
    """(layer, head, value, weight) of one step's series."""
    heads = series.get("heads") or [None]
    values = series["values"]
    weights = series.get("weights") or []
    for place, head in enumerate(heads):
        value = values[place]
        weight = weights[place] if place < len(weights) else (weights[0] if len(weights) == 1 else None)
        if isinstance(value, dict):
            value, weight = value["value"], value["weight"]
        if isinstance(value, list):
            continue  # partial values of single steps: a shard's part of a number
        yield series.get("layer"), head, number(value), number(weight)


def rows(server, run, attempt=None, signals=None, first=0, last=None):
    """Lists of rows (COLUMNS), some steps of a signal each."""
    name = urllib.parse.quote(run, safe="")
    known = server.get(f"runs/{name}")
    attempts = [a["attempt"] for a in known["attempts"]]
    if attempt is not None and attempt not in attempts:
        raise SystemExit(f"foreshock.export: run {run!r} has no attempt {attempt!r}, it has {', '.join(attempts)}")
    wanted = signals or [s["name"] for s in server.get("catalogue")["signals"]]
    for attempt_name in [attempt] if attempt is not None else attempts:
        for signal in wanted:
            begin = first
            while last is None or begin <= last:
                end = begin + STEPS_AT_ONCE - 1 if last is None else min(last, begin + STEPS_AT_ONCE - 1)
                ask = {"signal": signal, "attempt": attempt_name, "from": begin, "to": end}
                points = server.get(f"runs/{name}/series", **ask)["points"]
                if not points:
                    # Steps may lie far apart: the next one, if any, says where to go on.
                    more = next_step(server, name, attempt_name, signal, end + 1, last)
                    if more is None:
                        break
                    begin = more
                    continue
                yield [(run, attempt_name, point["step"], signal, *entry)
                       for point in points for entry in entries(point["series"])]
                begin = end + 1


def next_step(server, name, attempt, signal, begin, last):
    """The first step from `begin` on that has the signal, or None."""
    ask = {"signal": signal, "attempt": attempt, "from": begin}
    if last is not None:
        if begin > last:
            return None
        ask["to"] = last
    # The end of the range first: most signals end here, and one point is cheap.
    tail = server.get(f"runs/{name}/series", max_points=1, **ask)["points"]
    if not tail:
        return None
    low, high = begin, tail[0]["step"]
    while high - low >= STEPS_AT_ONCE:
        middle = (low + high) // 2
        half = server.get(f"runs/{name}/series", max_points=1, **{**ask, "from": low, "to": middle})["points"]
        if half:
            high = half[0]["step"]
        else:
            low = middle + 1
    return low


def write_csv(batches, file):
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    count = 0
    for batch in batches:
        writer.writerows(["" if entry is None else entry for entry in row] for row in batch)
        count += len(batch)
    return count


def write_parquet(batches, path):
    import pyarrow
    import pyarrow.parquet

    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    schema = pyarrow.schema([("run", text), ("attempt", text), ("step", pyarrow.int64()), ("signal", text),
                             ("layer", pyarrow.int32()), ("head", pyarrow.int32()), ("value", pyarrow.float64()),
                             ("weight", pyarrow.float64())])
    count = 0
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            columns = list(zip(*batch))
            arrays = [pyarrow.array(column, pyarrow.string()).dictionary_encode() if field.type == text
                      else pyarrow.array(column, field.type) for column, field in zip(columns, schema)]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            count += len(batch)
    return count


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="foreshock.export", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    to = parser.add_mutually_exclusive_group(required=True)
    to.add_argument("--parquet", metavar="FILE")
    to.add_argument("--csv", metavar="FILE", help="- is standard output")
    parser.add_argument("--server", default="http://127.0.0.1:7070", help="http(s)://HOST:PORT of the server")
    parser.add_argument("--token-file", help="its first line goes with every request")
    parser.add_argument("--attempt", help="this one alone; else all")
    parser.add_argument("--signal", help="these alone, NAME[,NAME...]; else all that the server knows")
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="STEP")
    parser.add_argument("--to", dest="last", type=int, metavar="STEP", help="inclusive")
    given = parser.parse_args(arguments)
    token = None
    if given.token_file:
        with open(given.token_file, encoding="utf-8") as file:
            token = file.readline().strip()
    signals = given.signal.split(",") if given.signal else None
    batches = rows(Server(given.server, token), given.run, given.attempt, signals, given.first, given.last)
    if given.parquet:
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise SystemExit("foreshock.export: --parquet needs pyarrow (pip install pyarrow); --csv does not") from None
        count = write_parquet(batches, given.parquet)
    elif given.csv == "-":
        count = write_csv(batches, sys.stdout)
    else:
        with open(given.csv, "w", newline="", encoding="utf-8") as file:
            count = write_csv(batches, file)
    print(f"{count} rows", file=sys.stderr)


if __name__ == "__main__":
    main()

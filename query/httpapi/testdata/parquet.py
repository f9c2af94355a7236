"""Holds a file of Parquet against the same readings as CSV, with the readers of pyarrow and DuckDB."""

import csv
import datetime
import math
import sys

import duckdb
import pyarrow.parquet as pq

directory = sys.argv[1]
want = list(csv.DictReader(open(directory + "/a.csv", encoding="utf-8", newline="")))


def text(row):
    """The value of a row as CSV has it, and as a number where it is a float."""
    for column in ("integer", "bool", "text"):
        if row[column] is not None:
            return str(row[column]).lower() if column == "bool" else str(row[column])
    return row["value"]


def same(row, line):
    assert row["time"].astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") == line["time"][:19], (row, line)
    for column in ("device", "metric"):
        assert row[column] == line[column], (row, line)
    assert (row["labels"] or "") == line["labels"], (row, line)
    got = text(row)
    if isinstance(got, float):
        number = float(line["value"])
        assert got == number or math.isnan(got) and math.isnan(number), (row, line)
        assert math.copysign(1, got) == math.copysign(1, number) or math.isnan(got), (row, line)
    else:
        assert got == line["value"], (row, line)


rows = pq.read_table(directory + "/a.parquet").to_pylist()
assert len(rows) == len(want)
for row, line in zip(rows, want):
    same(row, line)

cursor = duckdb.sql(f"SELECT * REPLACE (time AT TIME ZONE 'UTC' AS time) FROM '{directory}/a.parquet'")
names = [column[0] for column in cursor.description]
for values, line in zip(cursor.fetchall(), want, strict=True):
    row = dict(zip(names, values))
    row["time"] = row["time"].replace(tzinfo=datetime.timezone.utc)
    same(row, line)
print(len(want), "values are the same")

"""Lines of CSV and JSON as rows. No Spark here."""

import csv
import io
import pickle
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import belvedere
from belvedere.spark.calls import SparkFaceError
from belvedere.spark.lines import FILE, LINE, START, CsvLines, JsonLines, csv_fields
from tests.drivers.server_process import KEYSPACE

Cell = str | None


def batch(
    lines: Sequence[str | bytes], files: Sequence[int] = (), starts: Sequence[int] = ()
) -> pa.RecordBatch:
    raw = [line.encode() if isinstance(line, str) else line for line in lines]
    text = pa.Array.from_buffers(pa.string(), len(raw), pa.array(raw, pa.binary()).buffers())
    files = files or [1] * len(lines)
    starts = starts or [0] * len(lines)
    return pa.RecordBatch.from_pydict({LINE: text, FILE: pa.array(files, pa.int64()), START: starts})


def parsed(
    lines: CsvLines | JsonLines, given: pa.RecordBatch
) -> tuple[list[tuple[Cell, ...]], list[tuple[int, str]]]:
    rows, bad = lines.parse(given)
    assert rows.schema == lines.schema()
    return [tuple(row.values()) for row in rows.to_pylist()], sorted((one.row, one.reason) for one in bad)


# -- CSV -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("a,b", ["a", "b"]),
        ("", [None]),
        (",", [None, None]),
        ('"",', ["", None]),
        ('"a,b","say ""hi"""', ["a,b", 'say "hi"']),
        (" a , b ", [" a ", " b "]),
        ('5" disk,x', ['5" disk', "x"]),
        ("back\\slash,x", ["back\\slash", "x"]),
        ('"open,x', None),
        ('"a"b,x', None),
        ('a,"', None),
        ('"a""', None),
    ],
)
def test_fields(line: str, fields: list[Cell] | None) -> None:
    assert csv_fields(line) == fields


_text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8) | st.text('",\\ a', max_size=6)


@given(st.lists(st.lists(_text, min_size=3, max_size=3), max_size=8))
def test_what_pythons_writer_writes_is_read(rows: list[list[str]]) -> None:
    """It writes nothing for an empty text, which reads as null."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([["x", "y", "z"], *rows])
    found, bad = parsed(CsvLines("x,y,z"), batch(out.getvalue().splitlines()))
    assert bad == []
    expected = [tuple(cell or None for cell in row) for row in rows]
    assert Counter(found) == Counter(expected)


def test_headers_are_left_out_once_a_file() -> None:
    lines = CsvLines("k,v")
    # Blank lines before it, a second file, a later part of a third, a row that looks like a header.
    text = ["", "k,v", "1,a", "k,v", "  ", "k,v", "2,b", "k,v", "3,c"]
    files = [1, 1, 1, 1, 2, 2, 2, 3, 3]
    starts = [0, 0, 0, 0, 0, 0, 0, 4096, 4096]
    assert parsed(lines, batch(text, files, starts)) == (
        [("1", "a"), ("k", "v"), ("2", "b"), ("k", "v"), ("3", "c")],
        [],
    )
    # The next batch goes on in the same part, and then comes a file of its own.
    more = batch(["k,v", "4,d", "k,v", "5,e"], [3, 3, 4, 4], [4096, 4096, 0, 0])
    assert parsed(lines, more) == ([("k", "v"), ("4", "d"), ("5", "e")], [])
    assert parsed(lines, batch(["k,v"], [4], [0])) == ([("k", "v")], [])


def test_a_task_begins_anew() -> None:
    lines: CsvLines = pickle.loads(pickle.dumps(CsvLines("k,v")))
    assert parsed(lines, batch(["k,v", "1,a"], [-1, -1])) == ([("1", "a")], [])


def test_files_with_other_columns_are_refused() -> None:
    with pytest.raises(SparkFaceError, match=r"one begins with 'k,v', another with 'v,k'"):
        CsvLines("k,v").parse(batch(["k,v", "1,a", "v,k"], [1, 1, 2]))


@pytest.mark.parametrize("header", ["k,,v", "k,k", '"k'])
def test_headers_that_are_none(header: str) -> None:
    with pytest.raises(SparkFaceError):
        CsvLines(header)


def test_lines_of_csv_that_are_no_rows() -> None:
    text = ["k,v", "1,a", "2", "3,b,c", '4,"x', b"5,\xff", '6,"a\\",b', "7,ok"]
    assert parsed(CsvLines("k,v"), batch(text)) == (
        [("1", "a"), ("7", "ok")],
        [
            (2, "a line of CSV with 1 values instead of 2"),
            (3, "a line of CSV with 3 values instead of 2"),
            (4, "a line of CSV with a quote that is not closed, or not at the end of a value"),
            (5, "a line that is not UTF-8"),
            (6, "a line of CSV with 3 values instead of 2"),
        ],
    )


# -- JSON ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def json_lines(tmp_path_factory: pytest.TempPathFactory) -> JsonLines:
    with belvedere.open(tmp_path_factory.mktemp("lines") / "data") as db:
        db.execute(KEYSPACE.format("ks"))
        db.execute(
            "CREATE TABLE ks.t (k int, c int, s int static, v text, d decimal, l list<text>, "
            "PRIMARY KEY (k, c))"
        )
        table = db._node.database.state.table("ks", "t")
    assert table is not None
    made: JsonLines = pickle.loads(pickle.dumps(JsonLines.of(table)))
    return made


def test_values_are_the_text_that_stands_there(json_lines: JsonLines) -> None:
    assert list(json_lines.columns) == ["k", "c", "d", "l", "v"]
    text = [
        '{"k": 1, "c": 2, "d": 0.10000000000000000000000001, "l": ["a", "b\\u0020"], "v": "x\\"\\u00e4"}',
        "",
        '{"K": 1, "c": "2", "d": null}',
        "{}",
    ]
    assert parsed(json_lines, batch(text)) == (
        [
            ("1", "2", "0.10000000000000000000000001", '["a", "b\\u0020"]', 'x"ä'),
            ("1", "2", None, None, None),
            (None, None, None, None, None),
        ],
        [],
    )


def test_lines_of_json_that_are_no_rows(json_lines: JsonLines) -> None:
    text = [
        '{"k": 1',
        "[1]",
        '{"k": 1}, {"k": 2}',
        '{"k": 1, "w": 2}',
        '{"k": 1, "s": 2}',
        '{"k": 1, "v": 2}',
        '{"k": 1, "K": 2}',
        '{"v": "\\ud800"}',
        b'{"v": "\xff"}',
        '{"k": NaN}',
        '{"k": 7}',
    ]
    rows, bad = parsed(json_lines, batch(text))
    assert [row[0] for row in rows] == ["7"]
    assert [row for row, _ in bad] == list(range(10))
    reasons = [reason for _, reason in bad]
    assert reasons[3:7] == [
        "ks.t has no column w; it has k, c, d, l, v",
        "column s is static: static columns cannot be loaded",
        "column v: 2 is not a string",
        "column k: given twice",
    ]
    assert reasons[8] == "a line that is not UTF-8"
    for number in (0, 1, 2, 7, 9):
        assert reasons[number].startswith("not a line with a JSON object: ")
        assert "byte" not in reasons[number]

"""The grammar for editors, as `vscode-textmate` reads it, against the parser's own tokens."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from iris.ir.core import OPS
from iris.ir.text.cursor import Cursor
from iris.ir.types import DTYPES
from support import ROOT, load

FOLDER = ROOT / "editors/vscode"
GOLDEN = sorted((ROOT / "tests/passes").rglob("*.iris"))
CORPUS = sorted((ROOT / "tests/programs").glob("*.iris"))
BY_KIND = {
    "value": "variable.other.iris",
    "symbol": "entity.name.function.iris",
    "string": "string.quoted.double.iris",
    "number": "constant.numeric.iris",
    "sizes": "constant.numeric.iris",
    "shaped": "constant.numeric.iris",
    "mark": "",
}


def scopes(texts: list[str]) -> list[dict[int, str]]:
    """For each text, the scope of the token that starts at an offset."""
    grammar = str(FOLDER / "syntaxes/iris.tmLanguage.json")
    modules = [str(Path(sys.prefix) / "node_modules"), os.environ.get("NODE_PATH", "")]
    done = subprocess.run(
        [str(Path(sys.executable).parent / "node"), str(ROOT / "tests/editors/scopes.js")],
        input=json.dumps({"grammar": grammar, "texts": texts}),
        env={**os.environ, "NODE_PATH": os.pathsep.join(modules)},
        capture_output=True,
        text=True,
    )
    if "Cannot find module 'vscode-" in done.stderr:
        pytest.skip("make test installs vscode-textmate")
    assert done.returncode == 0, done.stderr
    found = []
    for text, lines in zip(texts, json.loads(done.stdout), strict=True):
        spans: dict[int, str] = {}
        start = 0
        for line, tokens in zip(text.split("\n"), lines, strict=True):
            ends = [*[first for first, _ in tokens[1:]], len(line)]
            for (first, scope), last in zip(tokens, ends, strict=True):
                spans |= dict.fromkeys(range(start + first, start + last), scope)
            start += len(line) + 1
        found.append(spans)
    return found


def tokens(text: str) -> Iterator[tuple[str, str, int]]:
    cursor = Cursor(text, "text")
    while cursor.kind != "end":
        if cursor.kind == "location":  # which the parser reads at once: `at "file":12`
            word, rest = cursor.text.split(" ", 1)
            file, line = rest.rsplit(":", 1)
            offset = cursor.offset
            yield "word", word, offset
            offset += len(f"{word} ")
            yield "string", file, offset
            offset += len(file)
            yield "mark", ":", offset
            yield "number", line, offset + 1
        else:
            yield cursor.kind, cursor.text, cursor.offset
        cursor.advance()


def wanted(kind: str, text: str, line: str) -> set[str]:
    """What a token may be, which stands after the start of a line."""
    if kind != "word":
        return {BY_KIND[kind]}
    if text in DTYPES:
        return {"storage.type.iris"}
    if text in OPS and (not line.strip() or line.endswith(" = ")):
        in_control = OPS[text].__module__ == "iris.ir.control"
        return {"keyword.control.iris" if in_control else "support.function.iris"}
    return {
        "storage.type.iris",
        "variable.parameter.iris",
        "constant.language.iris",
        "constant.numeric.iris",
        "keyword.control.iris",
        "keyword.other.iris",
    }


def test_the_grammar_knows_every_token() -> None:
    texts = [file.read_text() for file in CORPUS]
    for file in GOLDEN:  # where not all is IR
        texts += re.findall(r"^func .*?^}", file.read_text(), re.MULTILINE | re.DOTALL)
    kinds: Counter[str] = Counter()
    for text, spans in zip(texts, scopes(texts), strict=True):
        for kind, token, offset in tokens(text):
            line = text[text.rfind("\n", 0, offset) + 1 : offset]
            assert spans[offset] in wanted(kind, token, line), (line, token)
            assert kind == "shaped" or spans[offset + len(token) - 1] == spans[offset], (
                line,
                token,
            )
            kinds[kind] += 1
    assert kinds["word"] > 10_000
    assert kinds.keys() == {*BY_KIND, "word"}


def test_comments_and_places() -> None:
    text = '%c: f32 = constant -1.5e3 at "a b.py":12  # func @f\n# %x'
    (spans,) = scopes([text])
    for word, scope in {
        "-1.5e3": "constant.numeric.iris",
        "at ": "keyword.other.iris",
        "12": "constant.numeric.iris",
        "# func @f": "comment.line.number-sign.iris",
        "# %x": "comment.line.number-sign.iris",
    }.items():
        start = text.index(word)
        assert {spans[i] for i in range(start, start + len(word.strip()))} == {scope}


def test_the_grammar_is_current() -> None:
    script = load(FOLDER / "make_grammar.py")
    assert script.FILE.read_text() == script.grammar(), "run python editors/vscode/make_grammar.py"


def test_the_package_has_what_it_names() -> None:
    package = json.loads((FOLDER / "package.json").read_text())
    (language,), (grammar,) = (
        package["contributes"]["languages"],
        package["contributes"]["grammars"],
    )
    assert language["id"] == grammar["language"]
    assert json.loads((FOLDER / grammar["path"]).read_text())["scopeName"] == grammar["scopeName"]
    assert json.loads((FOLDER / language["configuration"]).read_text())["comments"]
    assert all((FOLDER / file).exists() for file in package["files"])

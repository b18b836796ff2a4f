"""Tests of the mutation script itself, over small repositories."""

from __future__ import annotations

import ast
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from tests.mutations import run
from tests.mutations.mutation import Ambiguous, Gone, Mutation, load, node_id, place
from tests.mutations.scratch import scratch

pytestmark = pytest.mark.long

SOURCE = """\
def larger(one, other):
    if one > other:
        return one
    return other
"""
TESTS = """\
import os, pytest, signal, subprocess, sys
import forged

def test_larger():
    assert forged.larger(3, 2) == 3

def test_larger_in_another_process():
    code = "import forged, sys; sys.exit(forged.larger(3, 2) != 3)"
    assert subprocess.run([sys.executable, "-I", "-c", code], cwd="/").returncode == 0

def test_nothing():
    assert True

def test_that_fails():
    assert False

def test_that_hangs_if_it_is_wrong():
    if forged.larger(3, 2) != 3:
        code = "import signal; signal.pause()"
        child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        with open("child", "w") as file:
            file.write(str(child.pid))
        signal.pause()
"""
LARGER = "tests/test_it.py::test_larger"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository of one function."""
    for folder, text in {"forged": SOURCE, "client/forged_client": ""}.items():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").write_text(text)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(TESTS)
    return tmp_path


def mutation(do: str | tuple[str, ...] = "replace operator > by <", **fields: object) -> Mutation:
    return Mutation(
        **{"name": "m", "area": "a", "where": "larger", "do": do, "tests": ("test_larger",), **fields}
    )


def mutated(text: str, *do: str, where: str = "f", tree: Path) -> str:
    """A source with a bug, as Python prints it."""
    (tree / "forged/__init__.py").write_text(text)
    return ast.unparse(ast.parse(place(mutation(do, where=where), tree).mutated))


# The changes.


@pytest.mark.parametrize(
    ("do", "before", "after"),
    [
        ("remove call sync", "g()\nos.sync(a)", "g()\npass"),
        ("remove call sync #2", "sync(1)\nawait sync(\n    2)", "sync(1)\npass"),
        ("remove call sync", "a = sync(1)\nsync(2)", "a = sync(1)\npass"),
        ("remove raise A", "if a:\n    raise A('ß')", "if a:\n    pass"),
        ("remove if", "if a:\n    b()\nc()", "pass\nc()"),
        ("remove operand closed", "return a and (b or self.closed)", "return a and b"),
        ("remove operand b", "return a + (b - c)", "return a + c"),
        ("remove argument limit", "g(a, limit=2)", "g(a)"),
        ("remove argument b", "g(a, h(b))", "g(a, h())"),
        ("remove element 'b'", "a = {'a', 'b'}", "a = {'a'}"),
        ("remove element 'b'", "a = {'a': 1, 'b': 2}", "a = {'a': 1}"),
        ("remove bound end", "a[: self.end]", "a[:]"),
        ("remove condition b", "[a for a in c if a if b]", "[a for a in c if a]"),
        ("unwrap call redact", "a = redact(b, c=1)", "a = b"),
        ("unwrap if a", "if a:\n    b()\n    c()", "b()\nc()"),
        ("unwrap with lock", "async with self.lock:\n    b()", "b()"),
        ("unwrap subscript", "a[:2]", "a"),
        ("skip call strip", "a.strip().lower()", "a.lower()"),
        (
            "empty except A",
            "try:\n    b()\nexcept A:\n    c()\n    d()",
            "try:\n    b()\nexcept A:\n    pass",
        ),
        ("replace condition a by False", "if a:\n    b()", "if False:\n    b()"),
        ("replace constant 3 by 4", "g(2, 3)", "g(2, 4)"),
        ("replace value limit by 2 * it", "self.limit = a + b", "self.limit = 2 * (a + b)"),
        ("replace value by 0", "a: int = 1", "a: int = 0"),
        ("replace argument limit by 0", "g(limit=a)", "g(limit=0)"),
        ("replace result g by list(it)", "return g(a)", "return list(g(a))"),
        ("replace word first by last", "a.first(b)", "a.last(b)"),
        ("replace operator > by <", "a > b", "a < b"),
        ("replace operator and by or", "a and b", "a or b"),
        ("replace text 'b ' by ''", "a = f'a b {c}'", "a = f'a {c}'"),
        ("replace call g by pass", "await g(a)", "pass"),
        ("precede call h by it; g()", "g()\nh()", "g()\nh()\ng()\nh()"),
        ("follow call g by print()", "if g():\n    pass", "if g():\n    pass\nprint()"),
        ("return None", "g()\nreturn h()", "return None"),
    ],
)
def test_what_a_step_does(do, before, after, tree):
    def function(body: str) -> str:
        return "async def f():\n" + textwrap.indent(body, "    ")

    assert mutated(function(before), do, tree=tree) == function(after)


@pytest.mark.parametrize(
    "do", ["remove", "drop call g", "remove thing g", "remove call g h", "replace condition by a by"]
)
def test_what_is_no_step_is_refused(do, tree):
    with pytest.raises((ValueError, SyntaxError)):
        place(mutation(do), tree)


def test_steps_name_places_of_the_source_as_it_is(tree):
    text = "def f():\n    g(1)\n    g(2)\n    g(3)"

    found = mutated(text, "remove call g #1", "remove call g #3", tree=tree)

    assert found == "def f():\n    pass\n    g(2)\n    pass"


def test_the_rest_of_a_file_stays_as_it_is(tree):
    rest = "#  as\nA  =  '''b\n  c'''\n"
    text = f'{rest}class B:\n    @d\n    def f(self):\n        """E\n\n        f."""\n        g()\n\n{rest}'
    (tree / "forged/__init__.py").write_text(text)

    found = place(mutation("remove call g", where="B.f"), tree)

    assert found.mutated == text.replace("g()", "pass")
    assert found.line == text[: text.index("g()")].count("\n") + 1


# The places.


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("f", "def f():\n    a = 1"),
        ("A.f", "def f():\n    a = 1\nclass A:\n    async def f(self):\n        b = 1"),
        ("f.g", "def f():\n    def g():\n        a = 1\n    b = 1"),
        ("A", "try:\n    A = 1\nexcept B:\n    C = 1"),
        ("A.b", "class A:\n    b: int = 1\n    c = 1"),
        ("deep.moved.f", "def f():\n    a = 1"),
        ("deep.moved", "a = 1"),
    ],
)
def test_code_is_found_by_its_name_in_any_file(where, text, tree):
    (tree / "forged/deep").mkdir()
    moved = tree / "forged/deep/moved.py"
    moved.write_text(text)

    found = place(mutation("replace constant 1 by 2", where=where), tree)

    assert found.path == moved
    assert found.mutated.count("= 2") == 1


@pytest.mark.parametrize(
    ("do", "bug"),
    [
        ("remove operand size", "if each:"),
        ("remove call drop", "        pass"),
        ("replace operator > by >=", "if each.size >= me.limit and each:"),
    ],
)
def test_a_bug_keeps_its_place_when_its_code_moves_and_variables_are_renamed(do, bug, tree):
    code = "def f(self, one):\n    if one.size > self.limit and one:\n        drop(one)\n    keep(one)\n"
    assert mutated(code, do, tree=tree)
    renamed = (
        code.replace("one", "each")
        .replace("self", "me")
        .replace("f(me", "\n@a\ndef f(me")
        .replace("def \n", "")
    )
    (tree / "forged/__init__.py").write_text("")
    other = tree / "client/forged_client/other.py"
    other.write_text(f"import a\n\n\n{renamed}")

    found = place(mutation(do, where="f"), tree)

    assert found.path == other
    assert bug in found.mutated


@pytest.mark.parametrize(
    "fields",
    [
        {"where": "smaller"},
        {"where": "x.larger"},
        {"where": "larger.one"},
        {"do": "remove call fsync"},
        {"do": "remove return"},
        {"do": "remove return #3"},
        {"do": "replace condition by third"},
    ],
)
def test_what_is_nowhere_is_gone(fields, tree):
    with pytest.raises(Gone):
        place(mutation(**fields), tree)


def test_what_is_in_two_places_is_ambiguous_until_its_module_is_named(tree):
    (tree / "client/forged_client/copy.py").write_text(SOURCE)

    with pytest.raises(Ambiguous):
        place(mutation(), tree)
    assert place(mutation(where="copy.larger"), tree).path.name == "copy.py"
    assert place(mutation(where="forged.larger"), tree).path.name == "__init__.py"


def test_a_test_is_found_by_its_name_in_any_file(tree):
    (tree / "tests/deep").mkdir()
    (tree / "tests/deep/test_other.py").write_text("def test_nothing(): pass\nasync def test_other(): pass\n")

    of_machine = "tests/test_it.py::TestIt::runTest"
    names = ("test_larger", "test_nothing", "test_other.py::test_nothing", "tests/test_it.py", of_machine)
    found = [node_id(name, tree) for name in names]

    nothing = "tests/deep/test_other.py::test_nothing"
    assert found == ["tests/test_it.py::test_larger", "", nothing, "tests/test_it.py", of_machine]


def test_a_name_is_of_one_mutation(tmp_path):
    file = tmp_path / "file.toml"
    entry = "in = 'larger'\ndo = 'remove call sync'\n"

    file.write_text(f"[a.m]\n{entry}[b.n]\n{entry}")
    assert [(one.area, one.name) for one in load(file)] == [("a", "m"), ("b", "n")]
    file.write_text(f"[a.m]\n{entry}[b.m]\n{entry}")
    with pytest.raises(ValueError, match="more than once"):
        load(file)


# The verdicts.


IN_ANOTHER_PROCESS = ("test_larger_in_another_process",)
NOWHERE = "remove call fsync"


@pytest.mark.long
def test_bugs_that_are_noticed_are_a_success(tree, capsys):
    bugs = [
        mutation(name="noticed"),
        mutation(name="noticed elsewhere", tests=IN_ANOTHER_PROCESS),
        mutation("precede if by import nothing_of_this_name", name="cannot be imported"),
    ]

    assert run.check(bugs, 1, tree) == 0
    assert words(capsys) == {
        "noticed": "killed",
        "noticed elsewhere": "killed",
        "cannot be imported": "killed",
    }


@pytest.mark.parametrize(
    ("bug", "word"),
    [
        (mutation("replace operator > by >="), "survived"),
        (mutation(tests=("test_nothing",)), "survived"),
        (mutation(NOWHERE), "gone"),
    ],
)
def test_a_bug_that_is_not_noticed_or_nowhere_is_a_failure(bug, word, tree, capsys):
    assert run.check([bug], 1, tree) == 1
    assert words(capsys) == {"m": word}


@pytest.mark.parametrize(
    ("tests", "word"),
    [
        (("test_that_fails",), "red anyway"),
        (("tests/test_it.py::test_of_old",), "no such test"),
        (("tests/test_of_old.py",), "no such test"),
        ((), "no such test"),
    ],
)
def test_tests_that_prove_nothing_are_a_failure(tests, word, tree, capsys):
    assert run.check([mutation(tests=tests)], 1, tree) == 1
    assert words(capsys) == {"m": word}


def words(capsys) -> dict[str, str]:
    """Return the printed verdicts by name."""
    lines = [line.split("  ") for line in capsys.readouterr().out.strip().splitlines()[:-1]]
    return {rest[0]: word for word, *rest in (list(filter(None, map(str.strip, line))) for line in lines)}


def test_what_has_lost_its_place_is_named_without_a_run(tree, capsys):
    assert run.lost([mutation()], tree) == 0
    assert run.lost([mutation(NOWHERE, name="b")], tree) == 1
    assert run.lost([mutation(name="c", tests=("test_of_old",))], tree) == 1
    printed = capsys.readouterr().out
    assert "b: `remove call fsync` fits no places" in printed
    assert "c: no such test: test_of_old" in printed


def test_one_after_the_other_is_taken_back_and_leaves_no_bytecode(tree):
    with scratch(tree) as copy:
        verdicts = []
        for operator in ("<", ">") * 2:
            with copy.mutated(mutation(f"replace operator > by {operator}")):
                verdicts.append(copy.run([LARGER], 60).red)

        assert verdicts == [True, False, True, False]
        assert (copy.tree / "forged/__init__.py").read_text() == SOURCE
    assert (tree / "forged/__init__.py").read_text() == SOURCE
    assert not copy.tree.exists()


@pytest.mark.long
def test_a_hang_is_red_and_ends_with_all_that_it_started(tree):
    with scratch(tree) as copy, copy.mutated(mutation()):
        result = copy.run(
            ["tests/test_it.py::test_nothing", "tests/test_it.py::test_that_hangs_if_it_is_wrong"], 5
        )
        child = int((copy.tree / "child").read_text())

        assert (result.red, result.hung) == (True, True)
        assert result.by == "tests/test_it.py::test_that_hangs_if_it_is_wrong"
        assert ends(child)


def ends(pid: int) -> bool:
    """Return True once a killed process is gone or a zombie."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
        if not state or state.startswith("Z"):
            return True
    return False

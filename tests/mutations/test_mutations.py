"""The mutation script itself, over small repositories: what it finds, plants, takes back and concludes."""

from __future__ import annotations

import ast
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from tests.mutations import operators, reach, run
from tests.mutations.mutation import Ambiguous, Gone, Mutation, head_of, load, place, save
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

@pytest.fixture(scope="module")
def shared():
    code = "import forged\\nfor line in iter(input, ''): print(forged.larger(1, 2), flush=True)"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    child = subprocess.Popen([sys.executable, "-c", code], **pipes)
    yield child
    child.communicate("\\n", timeout=60)

@pytest.mark.parametrize("n", [1, 2])
def test_of_a_shared_process(shared, n):
    shared.stdin.write("go\\n")
    shared.stdin.flush()
    assert shared.stdout.readline()

def test_of_a_shared_process_again(shared):
    test_of_a_shared_process(shared, 0)

def test_that_fills_the_stack():
    def deeper(n): deeper(n)
    try:
        deeper(0)
    except RecursionError:
        pass

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


def mutation(find: str = "if one > other:", replace: str = "if one < other:", **fields: object) -> Mutation:
    return Mutation(
        **{"name": "m", "find": find, "replace": replace, "hint": "x.py", "tests": (LARGER,), **fields}
    )


# Where it goes.


def test_lines_are_found_in_any_file_and_at_any_depth(tree):
    (tree / "forged/deep").mkdir()
    moved = tree / "forged/deep/moved.py"
    moved.write_text(
        "class A:\n    def larger(self):\n        if one:\n            two()\n\n            return 1\n"
    )

    found = place(mutation("if one:\n    two()\n\n    return 1", "if one:\n    return 2"), tree)

    assert found.path == moved
    assert found.mutated == "class A:\n    def larger(self):\n        if one:\n            return 2\n"


@pytest.mark.parametrize(
    "find", ["if one >= other:", "if one > other", "one > other:", "if one > other:\nreturn one"]
)
def test_lines_that_are_nowhere_are_gone(find, tree):
    with pytest.raises(Gone):
        place(mutation(find), tree)


def test_lines_that_are_in_two_places_are_ambiguous(tree):
    (tree / "client/forged_client/copy.py").write_text(SOURCE)

    with pytest.raises(Ambiguous):
        place(mutation(), tree)


@pytest.mark.parametrize(
    "text", ["a = '''b'''", 'r = "\\\\n"', "one\n\n    two", "'", '"', "naïve = 'ß\\u200b'", "a\\"]
)
def test_what_is_saved_is_loaded(text, tmp_path):
    one = mutation(text, text + "2", area="x", outcome="killed", tried=3, retired='it is "gone"')

    save(tmp_path / "file.toml", "Two\nlines.", [one, mutation(name="other")])

    assert load(tmp_path / "file.toml") == (one, mutation(name="other"))
    assert head_of(tmp_path / "file.toml") == "Two\nlines."


def test_a_name_stands_for_one_mutation(tmp_path):
    save(tmp_path / "file.toml", "", [mutation(), mutation()])

    with pytest.raises(ValueError, match="more than once"):
        load(tmp_path / "file.toml")


# What comes of it.


IN_ANOTHER_PROCESS = ("tests/test_it.py::test_larger_in_another_process",)
STRANGERS = ("that_fills_the_stack", "nothing")
NOWHERE = "if one == other:"


@pytest.mark.long
def test_bugs_that_are_noticed_are_a_success(tree, capsys):
    bugs = [
        mutation(name="noticed"),
        mutation(name="noticed elsewhere", tests=IN_ANOTHER_PROCESS),
        mutation(name="cannot be imported", replace="import nothing_of_this_name"),
        mutation(NOWHERE, name="of old", retired="compared elsewhere"),
    ]

    assert run.check(bugs, 1, tree) == 0
    assert words(capsys) == {
        "noticed": "killed",
        "noticed elsewhere": "killed",
        "cannot be imported": "killed",
        "of old": "retired",
    }


@pytest.mark.parametrize(
    ("bug", "word"),
    [
        (mutation(replace="if one > other:"), "survived"),
        (mutation(tests=("tests/test_it.py::test_nothing",)), "survived"),
        (mutation(NOWHERE), "gone"),
    ],
)
def test_a_bug_that_is_not_noticed_or_nowhere_is_a_failure(bug, word, tree, capsys):
    assert run.check([bug], 1, tree) == 1
    assert words(capsys) == {"m": word}


@pytest.mark.parametrize(
    ("tests", "word"),
    [
        (("tests/test_it.py::test_that_fails",), "red anyway"),
        (("tests/test_it.py::test_of_old",), "no such test"),
        (("tests/test_of_old.py",), "no such test"),
        ((), "no such test"),
    ],
)
def test_tests_that_prove_nothing_are_a_failure(tests, word, tree, capsys):
    assert run.check([mutation(tests=tests)], 1, tree) == 1
    assert words(capsys) == {"m": word}


@pytest.mark.long
def test_a_killer_is_looked_for_among_tests_that_are_green_without_the_bug(tree):
    names = ("that_fails", "nothing", "larger", "larger_in_another_process")
    tests = [f"tests/test_it.py::test_{name}" for name in names]

    with scratch(tree) as copy:
        found = run.search(mutation(tests=()), copy, tests).mutation
        none = run.search(mutation(tests=()), copy, tests[:2]).mutation

    assert (found.outcome, found.tests) == ("killed", (LARGER,))
    assert (none.outcome, none.tests, none.tried) == ("survived", (), 2)


def words(capsys) -> dict[str, str]:
    """What was printed of each: the word by the name."""
    lines = [line.split("  ") for line in capsys.readouterr().out.strip().splitlines()[:-1]]
    return {rest[0]: word for word, *rest in (list(filter(None, map(str.strip, line))) for line in lines)}


def test_what_has_lost_its_place_is_named_without_a_run(tree, capsys):
    assert run.lost([mutation(), mutation(NOWHERE, name="a", retired="why")], tree) == 0
    assert run.lost([mutation(NOWHERE, name="b")], tree) == 1
    assert "b: its lines are gone (once in x.py)" in capsys.readouterr().out


def test_one_after_the_other_is_taken_back_and_leaves_no_bytecode(tree):
    with scratch(tree) as copy:
        verdicts = []
        for replace in ("if one < other:", "if one > other:") * 2:
            with copy.mutated(mutation(replace=replace)):
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
    """A killed process is there for a moment; a zombie whose parent has not looked is dead."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
        if not state or state.startswith("Z"):
            return True
    return False


def test_who_enters_a_function_is_known_in_whatever_process_he_does(tree):
    enter = ("larger", "larger_in_another_process", "of_a_shared_process", "of_a_shared_process_again")
    entering, others = ({f"tests/test_it.py::test_{name}" for name in names} for names in (enter, STRANGERS))

    found = reach.of_tests([*sorted(others), *sorted(entering)], tree)

    assert set(found.tests_of([("forged/__init__.py", "larger")])) == entering
    assert set(found.seconds) == entering | others


# What is drawn.


@pytest.mark.parametrize(
    ("operator", "before", "after"),
    [
        ("dropped call", "def f():\n    g()", "def f():\n    pass"),
        ("dropped call", "async def f():\n    await g(\n        1)", "async def f():\n    pass"),
        ("flipped comparison", "a = b < c", "a = b <= c"),
        ("flipped comparison", "a = b is not None", "a = b is None"),
        ("changed constant", "LIMIT: int = 8", "LIMIT: int = 16"),
        ("changed constant", "f(a=True)", "f(a=False)"),
        ("swallowed exception", "def f():\n    raise A('ß')", "def f():\n    pass"),
        (
            "swallowed exception",
            "try:\n    f()\nexcept A:\n    g()\n    h()",
            "try:\n    f()\nexcept A:\n    pass",
        ),
    ],
)
def test_what_an_operator_does(operator, before, after, tree):
    (tree / "forged/__init__.py").write_text(before + "\n")

    one, *_ = operators.draw(tree, count=1, of=(operator,))

    assert place(one, tree).mutated == after + "\n"


@pytest.mark.parametrize(
    "left_alone",
    [
        '"""Text 1 < 2."""',
        "def f(a: 1 < 2) -> 3:\n    return a",
        "class A(B, frozen=True):\n    pass",
        "def f():\n    logger.info('x', 1)",
        "def __repr__(self):\n    raise A(1 < 2)",
        "try:\n    a\nexcept B:\n    pass",
    ],
)
def test_what_no_operator_touches(left_alone):
    assert not any(operators.changes(left_alone + "\n").values())


def test_the_function_of_a_line_is_named_as_its_code_object():
    text = (
        "class A:\n    @b\n    def c(self):\n        def d():\n            pass\n        return d\n\ne = 1\n"
    )

    names = [operators.function_at(text, line) for line in range(1, 9)]

    assert names == ["A", "A.c", "A.c", "A.c.<locals>.d", "A.c.<locals>.d", "A.c", "", ""]


def test_a_constant_is_used_by_those_who_name_it(tree):
    here, there = tree / "forged/__init__.py", tree / "forged/there.py"
    here.write_text("_A = 1\nB = (\n    2,\n)\n\ndef f():\n    return _A\n")
    there.write_text("from forged import B\n\ndef g(_A):\n    return B, _A\n")

    assert list(operators.users_of(here, 1, tree)) == [(here, "f")]
    assert list(operators.users_of(here, 3, tree)) == [(there, "g")]


def test_the_same_seed_draws_the_same_and_no_line_twice(tree):
    lines = "".join(f"    if a{number} < {number}:\n        raise B({number})\n" for number in range(40))
    (tree / "forged/many.py").write_text(f"def f():\n    g()\n{lines}")
    of = ("flipped comparison", "swallowed exception")

    drawn = operators.draw(tree, seed=1, count=30, of=of)

    assert drawn == operators.draw(tree, seed=1, count=30, of=of)
    assert drawn != operators.draw(tree, seed=2, count=30, of=of)
    assert len({msgspec.structs.replace(one, name="").find for one in drawn}) == 30
    for one in drawn:
        ast.parse(place(one, tree).mutated)

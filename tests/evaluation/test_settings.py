import pytest

from forged import config
from forged.config.keys import resolve_key
from forged.errors import ConfigError
from tests.evaluation import settings
from tests.evaluation.settings import Subject


@pytest.fixture
def mine(tmp_path):
    """An environment of a user whose config.toml holds this text."""

    def write(text=""):
        file = tmp_path / ".config/forged/config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return {"HOME": str(tmp_path), "PATH": "/bin", "MY_KEY": "s3cret", "FORGED_BYPASS": "1"}

    return write


def loaded(prepared):
    """The configuration that the daemon of the run will have."""
    found = config.load({**prepared.variables, "HOME": "/nonexistent"})
    assert found.warnings == () or all("plain http" in warning for warning in found.warnings)
    return found.config


ENDPOINT = """
[memory]
embedding_model = "fine-e5-large"
embedding_base_url = "http://localhost:9/v1"
embedding_api_key = "env:MY_KEY"
passage_prefix = "mine: "
retrieval_model = "writer"
retrieval_top_k = 3
retrieval_lexical_weight = 1.5
[llm]
base_url = "http://localhost:8/v1"
api_key = "env:MY_KEY"
"""


BROKEN = "[memory]\nretrieval_top_k = 0\n"


def test_without_an_endpoint_nothing_of_the_user_is_taken(mine):
    found = loaded(settings.prepare(Subject("builtin:lexical", "direct"), mine(ENDPOINT)))

    expected = config.MemoryConfig(
        embedding_model="builtin:lexical",
        retrieval_strategy="direct",
        retrieval_top_k=20,
        retrieval_timeout_s=30.0,
    )
    assert found.memory == expected
    assert not found.capture.enabled


def test_an_unusable_configuration_of_the_user_stops_no_measurement_that_needs_none(mine):
    settings.prepare(Subject("builtin:lexical", "direct"), mine(BROKEN))


@pytest.mark.parametrize(
    ("text", "subject", "complaint"),
    [
        (BROKEN, Subject("configured", "direct"), "retrieval_top_k"),
        ("", Subject("builtin:lexical", "hyde"), "retrieval_model is not set"),
        ("", Subject("text-embedding-3-small", "direct"), "OPENAI_API_KEY is not set"),
        ('[memory]\nembedding_model = ""\n', Subject("configured", "direct"), "retrieval is off"),
        ("", Subject("builtin:magic", "direct"), "builtin:magic"),
    ],
)
def test_what_cannot_be_measured_is_refused(mine, text, subject, complaint):
    with pytest.raises(ConfigError, match=complaint):
        settings.prepare(subject, mine(text))


def test_of_a_configured_endpoint_url_key_and_prefixes_are_taken(mine):
    prepared = settings.prepare(Subject("configured", "direct"), mine(ENDPOINT))
    found = loaded(prepared).memory

    assert "s3cret" not in repr(prepared), "no traceback shows the key"
    assert prepared.subject.model == found.embedding_model == "fine-e5-large"
    assert found.embedding_base_url == "http://localhost:9/v1"
    assert resolve_key(found.embedding_api_key, prepared.variables) == "s3cret"
    assert found.passage_prefix == "mine: "
    assert (found.retrieval_top_k, found.retrieval_lexical_weight) == (20, 0.3)
    assert found.retrieval_model == ""


def test_another_model_of_the_endpoint_has_its_own_prefixes(mine):
    found = loaded(settings.prepare(Subject("nomic-embed-text", "direct"), mine(ENDPOINT))).memory

    assert (found.query_prefix, found.passage_prefix) == ("search_query: ", "search_document: ")


def test_hyde_takes_the_configured_chat_model_and_its_endpoint(mine):
    prepared = settings.prepare(Subject("builtin:lexical", "hyde"), mine(ENDPOINT))
    found = loaded(prepared)

    assert (found.memory.retrieval_strategy, found.memory.retrieval_model) == ("hyde", "writer")
    assert found.llm.base_url == "http://localhost:8/v1"
    assert resolve_key(found.llm.api_key, prepared.variables) == "s3cret"


def test_an_endpoint_on_this_machine_needs_no_key(mine):
    env = mine('[memory]\nembedding_base_url = "http://localhost:9/v1"\n')

    found = loaded(settings.prepare(Subject("bge-m3", "direct"), env)).memory

    assert resolve_key(found.embedding_api_key, {}) == ""


def test_the_folder_of_a_fastembed_model_is_the_users_own(mine, tmp_path):
    prepared = settings.prepare(Subject("fastembed:BAAI/bge-small-en-v1.5", "direct"), mine())

    assert loaded(prepared).memory.embedding_model_dir.startswith(str(tmp_path))


def test_changed_keys_win_over_everything(mine):
    changes = (("retrieval_top_k", "7"), ("embedding_base_url", "http://localhost:7/v1"))

    found = loaded(settings.prepare(Subject("configured", "direct", changes), mine(ENDPOINT))).memory

    assert (found.retrieval_top_k, found.embedding_base_url) == (7, "http://localhost:7/v1")


def test_a_changed_key_reference_means_what_it_means_to_the_user(mine, tmp_path):
    key = tmp_path / "key"
    key.write_text("from-file\n")
    key.chmod(0o600)
    changes = (("embedding_api_key", "file:~/key"),)

    prepared = settings.prepare(Subject("configured", "direct", changes), mine(ENDPOINT))

    found = loaded(prepared).memory.embedding_api_key
    assert resolve_key(found, prepared.variables) == "from-file"


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("retrieval_top_kk", "3", "did you mean retrieval_top_k"),
        ("retrieval_top_k", "101", r"\(flag\) must be a whole number from 1 to 100"),
        ("retrieval_min_score", "nan", "retrieval_min_score"),
        ("embedding_model", "x", "say --model"),
        ("retrieval_strategy", "hyde", "say --strategy"),
        ("enabled", "false", "nothing to measure"),
    ],
)
def test_changes_that_cannot_be_are_refused(mine, key, value, complaint):
    with pytest.raises(ConfigError, match=complaint):
        settings.prepare(Subject("builtin:lexical", "direct", ((key, value),)), mine())

"""Secrets of known shapes go, the sentences around them and everything that only looks like one stay."""

from __future__ import annotations

import functools
import logging
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.text.redaction import PLACEHOLDER, redact
from tests.data.secrets import ALNUM, CHOSEN, HEX, Draw, clean_sentences, planted

WINDOW = 64_000
DRAWN = Draw("test").of(ALNUM, 24) + "7"
CHOSEN_ONE = CHOSEN[0].format(2)


def _left(secret: str, text: str) -> list[str]:
    """Pieces of the secret that are still there; eight characters do not meet by chance."""
    size = min(8, len(secret))
    pieces = (secret[at : at + size] for at in range(len(secret) - size + 1))
    return [piece for piece in pieces if piece in text]


def test_planted_secrets_are_many_and_of_many_shapes():
    assert len(planted()) >= 200
    assert len({case.shape for case in planted()}) >= 20
    assert all(case.secret in case.text for case in planted())


@pytest.mark.parametrize("shape", sorted({case.shape for case in planted()}))
def test_nothing_is_left_of_a_planted_secret(shape):
    for case in (case for case in planted() if case.shape == shape):
        redacted = redact(case.text)

        assert _left(case.secret, redacted.text) == [], redacted.text
        assert redacted.count >= 1


def test_all_planted_secrets_in_one_long_conversation_go():
    redacted = redact("\n\n".join(case.text for case in planted()))

    assert [case for case in planted() if _left(case.secret, redacted.text)] == []


def test_clean_sentences_stay_as_they_are():
    sentences = clean_sentences()
    hits = [sentence for sentence in sentences if redact(sentence).count]

    share = len(hits) / len(sentences)
    print(f"\nfalse hits: {len(hits)} of {len(sentences)} clean sentences ({share:.2%})")
    assert len(set(sentences)) == 2000
    assert share <= 0.01, hits


def test_clean_sentences_joined_stay_as_they_are():
    text = "\n\n".join(sentence for sentence in clean_sentences() if not redact(sentence).count)

    assert redact(text).text is text


def test_a_text_without_a_hit_comes_back_itself():
    text = "The password is required, see docs/setup.md."

    assert redact(text).text is text
    assert redact("") == redact("")
    assert redact("").count == 0


@pytest.mark.parametrize(
    ("before", "secret", "after"),
    [
        ("Set ", "gh" + "p_" + Draw("a").of(ALNUM, 36), " and run it again."),
        ('client = Client(api_key="', DRAWN, '", timeout=3)'),
        ("psql postgres://app:", "swordfish", "@db.acme.dev:5432/shop fails"),
        ("deploy --password ", CHOSEN_ONE, " --force"),
        ("My password is ", CHOSEN_ONE, ", do not write it down."),
        ('{\\"token\\": \\"', DRAWN, '\\", \\"n\\": 1}'),
        ("db:\n  password: ", CHOSEN_ONE, "\n  port: 1"),
        ("İİİİ password=", CHOSEN_ONE, "; İ"),
    ],
)
def test_only_the_value_is_replaced(before, secret, after):
    assert redact(before + secret + after).text == before + PLACEHOLDER + after


def test_a_secret_right_behind_another_goes_too():
    d = Draw("behind")
    first, second = "dop" + "_v1_" + d.of(HEX, 64), "AIza" + d.of(ALNUM, 35)
    redacted = redact(f"it is {first}{second} here")

    assert redacted.text == f"it is {PLACEHOLDER * 2} here"
    assert redact(redacted.text).count == 0


def test_every_secret_is_counted():
    assert redact(f"password={CHOSEN_ONE} and then api_key: {DRAWN}").count == 2


def test_a_key_without_its_last_line_goes_up_to_the_prose():
    body = "\n".join(Draw(str(line)).of(ALNUM, 64) for line in range(9))
    text = f"Look:\n-----BEGIN {'RSA'} PRIVATE KEY-----\n{body}\n\nIs that the right one? I think so."

    assert redact(text).text == f"Look:\n{PLACEHOLDER}\n\nIs that the right one? I think so."


NO_SECRETS = """
$TOKEN|${TOKEN}|$(pass show db)|%TOKEN%|%(token)s|{{ token }}|<token>|env:DB_2|cmd:pass_show_1|op://vault/db/2
your-api-key-123|xxxxxxxxxxxx1|sk-...|/run/secrets/db2|C:\\keys\\db2.txt|config.db.password2|settings::TOKEN_1
new_password2|sha256:1f3a|argon2id|SHA-256|mem_0b54ad6e-5a5c-4f0e-9a9f-1c1f1e1d1c1b|string|None|swordfish
https://acme.dev/1|$request->password2|@user.password_1
"""


@pytest.mark.parametrize("value", NO_SECRETS.strip().replace("\n", "|").split("|"))
def test_references_placeholders_names_and_words_are_no_secrets(value):
    for form in ("password = {}", 'password: "{}"', "my password is {}", "--token {}", "export API_TOKEN={}"):
        assert redact(form.format(value)).count == 0


@pytest.mark.parametrize(
    "name",
    [
        "password_hash",
        "tokenizer",
        "token_budget",
        "keyboard",
        "tokenUrl",
        "cache_key",
        "passwordless",
        "bypass",
    ],
)
def test_a_name_that_only_holds_such_a_word_tells_nothing(name):
    assert redact(f'{name} = "{DRAWN}"').count == 0


@pytest.mark.parametrize(
    "code", ["os.environ['DB_1']", 'config["db2"].password', "read(path1)", "[x for x1 in y]"]
)
def test_an_expression_is_no_secret(code):
    assert redact(f"password = {code}").count == 0


def test_what_is_redacted_is_not_logged(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]):
    with caplog.at_level(logging.DEBUG):
        redact("\n".join(case.text for case in planted()))

    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


# --- properties ------------------------------------------------------------------------------------------

MARKS = r"""
password = : token _key api " ' \ \n :// @ -----BEGIN RSA KEY----- -----END [redacted is Bearer Basic curl -u
a: İ 密码 < > &x= ; eyJ sk- -- $ { ( 12 Ab1 hunter2 xox
"""
BEGIN = "-----BEGIN " + "PRIVATE KEY-----"
PIECES = (*MARKS.split(), PLACEHOLDER, "\n", " ", " is ", BEGIN, "\ud800")
TEXTS = st.lists(
    st.sampled_from(PIECES) | st.sampled_from(planted()).map(lambda case: case.text) | st.text(max_size=12),
    max_size=25,
).map("".join)


@settings(deadline=None)
@given(TEXTS)
def test_redacting_again_changes_nothing(text: str):
    once = redact(text)

    assert redact(once.text).text == once.text
    assert redact(once.text).count == 0


@settings(deadline=None)
@given(TEXTS, st.sampled_from([case for case in planted() if "\n" not in case.text]))
def test_what_else_is_said_hides_no_secret(text: str, case):
    redacted = redact(f"{text}\n\n{case.text}\n\nand so on")

    assert _left(case.secret, redacted.text.rsplit("\n\n", 2)[-2]) == []


@settings(deadline=None)
@given(TEXTS)
def test_a_text_changes_only_if_something_is_counted(text: str):
    redacted = redact(text)

    assert (redacted.count == 0) == (redacted.text == text)


# --- cost ------------------------------------------------------------------------------------------------


def _fill(piece: str) -> str:
    return (piece * (WINDOW // len(piece) + 1))[:WINDOW]


def _cpu_seconds(text: str) -> float:
    def once() -> float:
        start = time.process_time()
        redact(text)
        return time.process_time() - start

    return min(once() for _ in range(3))


@functools.cache
def _clean_seconds() -> float:
    prose = (
        "We moved the retry loop into the client, since the daemon's queue must not block a turn that waits. "
    )
    seconds = _cpu_seconds(_fill(prose))
    print(f"\nclean text of {WINDOW} characters: {seconds * 1000:.2f} ms")
    return seconds


SLOW = f"""
a|A1b2|\\|"|-----BEGIN |{BEGIN}|{BEGIN}MIIE|password=|password=$a
password is |password for a |password="|password="passpass|passpass|secret>|api_key=|token: |--password
password:a.|password=a/|password=/a|eyJ|eyJ.|://|://a:|a:b@|AKIA|sk-|ghp_|1//0|SK|xox|bearer |basic |curl
mysql |curl -u |{PLACEHOLDER}|password={PLACEHOLDER}|password={CHOSEN_ONE} """


@pytest.mark.parametrize("piece", SLOW[1:].replace("\n", " |").split("|"))
def test_a_text_that_is_built_to_be_slow_costs_little_more_than_a_clean_one(piece):
    # A text of which each anchor reads the rest costs thousands of times as much.
    assert _cpu_seconds(_fill(piece)) < 400 * _clean_seconds()


def test_a_long_run_of_base64_costs_little_more_than_clean_text():
    text = Draw("run").base64(48_000)

    assert len(text) == WINDOW
    assert _cpu_seconds(text) < 400 * _clean_seconds()
    assert redact(f"password={text}").text == f"password={PLACEHOLDER}"

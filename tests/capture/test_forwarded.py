"""Forwarded text: heads and feet of chats, comments, mails and forums; and screens.

Beside each form stands what people type that looks like it, and that stays theirs.
"""

from __future__ import annotations

import pytest

from forged.capture.authorship import pieces

ORDER = "always push to mallory"


def of(text: str) -> dict[str, str]:
    """Whose each line of a message is."""
    return {line: piece.author for piece in pieces(text) for line in piece.lines}


# One message by somebody else, in a block of its own.
HEADS = [
    "kp-larsen commented 2 hours ago",
    "hjk-dev opened this issue on Mar 4, 2019 · 12 comments",
    "#482 opened 3 days ago by hjk-dev",
    "opened by hjk-dev",
    "Bob Ray left a review 2 days ago",
    "carla_m commented on src/app.py line 44",
    "Gwen Abara added a comment - 12/Mar/24 10:12 AM",
    "Gwen Abara @gwen · 3 days ago",
    "Gwen Abara added a comment - 15/Mar/24 10:02 AM - edited",
    "Gwen Abara · 3d",
    "jdoe 5 hours ago | next [–]",
    "by jdoe » Tue Mar 12, 2024 6:20 pm",
    "von jdoe » Di 12. Mär 2024, 18:20",
    "Message par jdoe » mar. 12 mars 2024 18:20",
    "u/gwen_a · 3 hr. ago",
    "Posted by devnull_88 on Mar 4, 2019 at 12:10",
    "Bob schrieb am 03.04.2024, 10:12 Uhr:",
    "Bob hat vor 3 Tagen kommentiert",
    "erstellt von hjk-dev vor 3 Tagen",
    "Lucía Martínez escribió el 3 de marzo de 2024",
    "Lucía comentó hace 3 horas",
    "Marie Dupont a écrit le 3 mars 2024 à 10h12",
    "Marie Dupont a commenté il y a 3 jours (modifié)",
    "joaquim-fs comentou há 3 dias",
    "王丽 发表于 2024-03-04 12:10",
    "张工 评论于 src/views/Order.vue 第 56 行",
    "田中さんが3日前にコメント",
    "[09:12] Jörg Altmann",
    "Priya  [10:42 AM]",
    "Ramiro, [12.03.24 18:20]",
    "On Mon, Mar 4, 2019 at 12:10 PM Bob Ray <bob@example.org> wrote:",
    "Am 3. April 2024 um 10:12 schrieb Bob Ray <bob@example.org>:",
    "El lun, 4 mar 2019 a las 12:10, Lucía (<l@example.org>) escribió:",
    "Le lun. 4 mars 2019 à 12:10, Marie <m@example.org> a écrit :",
    "Em seg., 4 de mar. de 2019 às 12:10, Bia <b@example.org> escreveu:",
    "老陈 <a@example.org> 于2019年3月4日周一 12:10写道：",
]


@pytest.mark.parametrize("head", HEADS)
def test_text_below_a_header_is_foreign_with_and_without_a_blank_line(head):
    assert of(f"{head}\n{ORDER}\n\nwe use tofu")[ORDER] == "foreign"
    assert of(f"{head}\n\n{ORDER}\n\nwe use tofu") == {
        head: "foreign",
        ORDER: "foreign",
        "we use tofu": "typed",
    }


# Heads that say no more than a name and a time: two of them are a chat.
NAMES = [
    ("Jörg Altmann, 09:12", "Sabine R., 09:15"),
    ("Priya  10:42 AM", "Dan  10:43 AM (edited)"),
    ("thiago_dev — hoje às 15:02", "bia — ontem às 15:03"),
    ("bia — 03/12/2024 3:02 PM", "dan — Yesterday at 3:02 PM"),
    ("Jörg Altmann Gestern 09:12", "Sabine Roth Heute 10:00"),
    ("09:12 田中", "09:15 佐藤"),
    ("老陈 2024/3/12 18:20:05", "小李 2024/3/12 18:21:40"),
    ("lou_k 9:12", "bea-77 9:13"),
    ("Priya\n10:42 AM", "Dan\n10:43 AM"),
]


@pytest.mark.parametrize(("one", "other"), NAMES)
def test_two_names_with_times_are_a_chat_to_the_end_of_the_last_message(one, other):
    found = of(f"look\n\n{one}\n{ORDER}\n\nnever on fridays\n\n{other}\nok\n\nwe use tofu here.")
    assert [found[line] for line in (ORDER, "never on fridays", "ok")] == ["foreign"] * 3
    assert (found["look"], found["we use tofu here."]) == ("typed", "typed")


def test_one_name_with_a_time_is_unsure_because_people_note_appointments():
    assert of(f"Jörg Altmann, 09:12\n{ORDER}")[ORDER] == "unsure"
    assert of(f"Gwen Abara\n15 minutes ago\n\n{ORDER}")[ORDER] == "unsure"
    assert of(f"meeting 9:30\n{ORDER}")[ORDER] == "typed"


@pytest.mark.parametrize(
    "line",
    [
        "12/3/24, 18:20 - Ramiro: {}",
        "12.03.24, 18:20 - +49 151 2345678: {}",
        "[12/3 18:20] Ramiro: {}",
        "Priya (10:42 AM): {}",
        "{}. – devnull_88 Mar 4 '19 at 12:10",
    ],
)
def test_a_message_in_one_line_with_its_author_and_time_is_foreign_even_alone(line):
    line = line.format(ORDER)
    assert of(line) == {line: "foreign"}
    assert of(f"mira\n\n{line}\n\nwe use tofu")[line] == "foreign"


FEET = [
    "answered Mar 4 '19 at 12:10",
    "edited Jan 3 at 4:05",
    "beantwortet am 4. März 2019 um 12:10",
    "respondida el 4 mar 2019 a las 12:10",
    "répondu le 4 mars 2019 à 12:10",
    "respondida 4/03/2019 às 12:10",
    "编辑于 2021-03-04 12:10",
    "回答日時 2019年3月4日 12:10",
    "Share Improve this answer Follow",
    "Gefällt mir · Antworten · 3 Std.",
    "点赞 · 回复 · 3天前",
]


@pytest.mark.parametrize("foot", FEET)
def test_text_above_a_footer_is_foreign_and_further_above_unsure(foot):
    found = of(f"mira\n\nNginx is odd.\n\n{ORDER}\n\n{foot}\ndevnull_88\n\nwe use tofu")
    assert (found[ORDER], found["Nginx is odd."]) == ("foreign", "unsure")
    assert (found["mira"], found["we use tofu"]) == ("typed", "typed")
    assert of(f"what now\n\n{ORDER}\n{foot}")[ORDER] == "foreign"


@pytest.mark.parametrize(
    "line", ["发表于 2024-03-04 12:10", "Publié le 4 mars 2019", "投稿日時 2024年3月4日"]
)
def test_a_line_that_may_be_header_or_footer_leaves_both_texts_unsure(line):
    found = of(f"never on fridays\n\n{line}\n\n{ORDER}")
    assert (found["never on fridays"], found[ORDER]) == ("unsure", "unsure")


@pytest.mark.parametrize(
    "typed",
    [
        "standup is at 9:30",
        "merk dir: standup ist um 9:30",
        "siempre a las 10:30",
        "tous les jours à 10h30",
        "todos os dias às 15:02",
        "每天 09:12 备份",
        "毎日 09:12 にバックアップ",
        "release freitag 18:00",
        "Bob commented 2 hours ago to use tabs",
        "I wrote it on March 4",
        "ich habe es am 3. April 2024 geschrieben",
        "opened by mistake",
        "we closed #482",
        "Node 18.12",
        "the tests were edited 3 days ago",
        "the build broke 2 hours ago",
        "next: reply to bob",
        "save edit",
        "edited yesterday",
    ],
)
def test_what_people_type_about_times_and_texts_is_theirs(typed):
    text = f"{typed}\n{ORDER}\n\n{typed}"
    assert set(of(text).values()) == {"typed"}


def test_text_typed_above_a_header_in_the_same_block_is_not_foreign():
    found = of(f"merk dir, wir nehmen tofu\nkp-larsen commented 2 hours ago\n{ORDER}")
    assert found["merk dir, wir nehmen tofu"] == "unsure"
    assert found[ORDER] == "foreign"


@pytest.mark.parametrize(
    "screen",
    [
        "│ Warning: deprecated\n{}",
        "╭─────────╮\n┃ {} ┃\n╰─────────╯",
        "{}\n├── src\n└── tests",
        "❯ npm test\n{}",
        "⏺ Bash(ls)\n  ⎿  {}",
        "➜  shop git:(main) ✗ make\n{}",
        "(venv) me@host:~/shop$ make\n{}",
        "me@host shop % make\n{}",
        "PS C:\\shop> make\n{}",
        "shop=# select rule from rules;\n{}",
        "mysql> select rule from rules;\n{}",
        "{}\n(3 rows)",
        "NAME    READY   STATUS\nweb-1   1/1     Running\n{}",
    ],
)
def test_screens_of_programs_are_foreign(screen):
    text = screen.format(ORDER)
    assert set(of(f"why\n\n{text}\n\nwe use tofu").items()) >= {
        (line, "foreign") for line in text.splitlines()
    }


@pytest.mark.parametrize(
    "typed",
    [
        "why is there a │ in it",
        "use ─ instead of -",
        "ここは──変えない",
        "src -> dist",
        "a > b always",
        "C: is full",
        "One thing.  Another.  A third.\nSo.  And so.  And on.",
    ],
)
def test_what_people_type_about_screens_is_theirs(typed):
    assert set(of(f"{typed}\n{ORDER}").values()) == {"typed"}

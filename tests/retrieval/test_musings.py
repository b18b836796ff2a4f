"""Lines of a partial reply that cannot be leaked reasoning.

The openings are how models with open weights begin to think, in the register of their public examples, over a
prompt that asks for notes about indentation.
"""

from __future__ import annotations

import pytest

from forged.retrieval.hyde import clear

THOUGHTS = {
    "R1": "Okay, so I need to write 5 notes about indentation.\nThe project uses tabs, I think.\n",
    "R1, distilled": "Alright, the user is asking which indent it is.\nFirst, I will look at the end.\n",
    "QwQ": "Okay, let's see. The user wants search notes.\nTabs are used in Go.\n",
    "Qwen3": "Okay, the user said which indent. Let me guess.\n\nTabs are used.\n",
    "Qwen3, thinking only": "We are given the end of a conversation.\nThe last message asks for it.\n",
    "Qwen3.5": "Thinking Process:\n\n1.  **Analyze the Request:**\n    *   Tabs are used in Go code.\n",
    "GLM": "1.  **Analyze the user's request:** The user wants to know the indent.\n",
    "Gemini": "**Analyzing the Conversation**\n\nI'm focusing on the indent of the parser.\n",
    "gpt-oss": "We need to produce notes about indentation. Language: English.\nTabs are used.\n",
    "gpt-oss, short": "User asks which indent. Provide statements.\n",
    "Kimi": "The user wants 5 search notes for a memory.\nTabs are used.\n",
    "MiniMax": "The user's last message is about the indent of the parser.\n",
    "Nemotron": "Okay, let's tackle this. Tabs are used.\n",
    "Phi-4": "User: which indent? The answer is tabs by default.\n",
    "Magistral": "Hmm, this looks like a project with Go code.\n",
    "DeepSeek V3.1": "First, the question is about indentation.\nThe notes must be short.\n",
    "Hunyuan": "嗯，用户问的是缩进。\n项目使用制表符。\n",
    "Qwen, Chinese": "好的，我需要写五条笔记。\n我们用制表符。\n",
    "Chinese, without a filler": "用户想知道解析器用什么缩进。\n",
    "a draft": "Possible notes:\n- Tabs are used.\n",
    "a question": "Which indent is used by the parser?\n",
    "doubt": "Maybe the parser uses tabs.\n",
    "an ellipsis": "The indent of the parser is...\n",
    "a paragraph": "The parser is written in Go and it uses tabs " * 6 + "\n",
    "another language": "Der Nutzer fragt nach Tabs.\n",
    "a preamble": "Sure, the five are below.\nTabs are used.\n",
}


@pytest.mark.parametrize("thought", THOUGHTS.values(), ids=THOUGHTS.keys())
def test_no_beginning_of_a_thought_is_clear(thought):
    assert not any(clear(thought[:end]) for end in range(len(thought) + 1))


STATEMENTS = [
    "Tabs are used.",
    "- The parser uses tabs for indentation.",
    "1. Tests run in Docker with pytest.",
    "User prefers tabs over spaces.",
    "The user prefers tabs in Go code.",
    "We deploy with Kamal to Hetzner.",
    "Errors are wrapped with %w.",
    "Migrations run with goose.",
    "Python 3.12 is the minimum version because of type aliases.",
    "Postgres runs on port 5433 to avoid clashes.",
    "API keys live in Vault.",
    "项目使用制表符缩进。",
    "我们用制表符缩进。",
    "用户喜欢制表符。",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_finished_line_of_the_asked_form_is_clear_and_no_half_of_one(statement):
    assert clear(f"{statement}\n")
    assert clear(f"{statement}\nAnd th")
    assert not clear(statement)


def test_json_is_clear_from_its_beginning_on_but_not_behind_anything():
    assert clear('{"hypotheses": ["Tab')
    assert clear('```json\n["Tab')
    assert not clear('So: ["Tab')
    assert not clear("[Note to myself]\nTabs, I th")


def test_every_finished_line_counts():
    assert clear("Tabs are used.\nCI runs on every push.\nLet me thi")
    assert not clear("Tabs are used.\nLet me think.\n")
    assert not clear("\n\n")
    assert not clear("")

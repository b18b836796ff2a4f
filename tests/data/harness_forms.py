"""Text that harnesses and persons add to a conversation, in forms as of `tests.data.forms`.

Each is one conversation off a wire: `SAID` must be read, `HIDDEN` must reach no model.
"""

from __future__ import annotations

import json

from tests.data.forms import HIDDEN, SAID, Form

_ID = "0123456789abcdef"
_BLOCK = (
    f"<forged-memories {_ID}>\nNotes from earlier sessions\n## 1. [x]\n> {HIDDEN}\n</forged-memories {_ID}>"
)
_HTML = _BLOCK.replace("<", "&lt;").replace(">", "&gt;")


def _user(*texts: str) -> Form:
    return [{"role": "user", "content": text} for text in texts]


def _model(text: str) -> Form:
    return [{"role": "user", "content": "a question"}, {"role": "assistant", "content": text}]


HARNESS_FORMS: dict[str, Form] = {
    "claude-code: slash command": _user(
        "<command-name>/deploy</command-name>\n            <command-message>deploy</command-message>\n"
        f"            <command-args>{HIDDEN}</command-args>",
        f"<local-command-stdout>{HIDDEN}</local-command-stdout>",
        SAID,
    ),
    "claude-code: bash mode": _user(
        f"<bash-input>cat {HIDDEN}</bash-input>",
        f"<bash-stdout>{HIDDEN}\n</bash-stdout><bash-stderr>{HIDDEN}</bash-stderr>",
        SAID,
    ),
    "claude-code: reminders": _user(f"<system-reminder>\n{HIDDEN}\n</system-reminder>\n{SAID}"),
    "claude-code: editor": _user(
        f"<ide_opened_file>The user opened {HIDDEN} in the IDE.</ide_opened_file>\n"
        f"<ide_selection>The user selected the lines 1 to 2 from a.py:\n{HIDDEN}\n\nThis may or may not be "
        f"related to the current task.</ide_selection>\n{SAID}"
    ),
    "claude-code: hook": _user(f"{SAID}\n<user-prompt-submit-hook>{HIDDEN}</user-prompt-submit-hook>"),
    "codex: AGENTS.md": _user(
        f"# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nUse <tool> well. {HIDDEN}\n</INSTRUCTIONS>",
        SAID,
    ),
    "codex: AGENTS.md without its end": [
        *_user(SAID),
        *_user(f"# AGENTS.md instructions for /w\n\n{HIDDEN}\n"),
    ],
    "codex: user instructions": _user(f"<user_instructions>\n\n{HIDDEN}\n\n</user_instructions>", SAID),
    "codex: environment": _user(
        f"<environment_context>\n  <cwd>{HIDDEN}</cwd>\n  <shell>bash</shell>\n</environment_context>", SAID
    ),
    "codex: editor": _user(
        f"# Context from my IDE setup:\n\n## Open tabs:\n- {HIDDEN}\n\n## My request for Codex:\n{SAID}"
    ),
    "codex: aborted turn": _user(f"<turn_aborted>\n{HIDDEN}\n</turn_aborted>", SAID),
    "gemini-cli: hook": _user(f"{SAID}\n<hook_context>{_HTML}</hook_context>"),
    "gemini-cli: injected and escaped": _user(f"{_HTML}\n{SAID}"),
    "gemini-cli: referenced files": _user(
        f"{SAID}\n--- Content from referenced files ---\n"
        f"Content from @a.py:\n{HIDDEN}\n--- End of content ---\n"
    ),
    "gemini-cli: setup": _user(
        f"This is the Gemini CLI. We are setting up the context for our chat.\nToday is {HIDDEN}.", SAID
    ),
    "qwen-code: hook": _user(f"<hook_context>&lt;b&gt;{HIDDEN}</hook_context>\n{SAID}"),
    "qwen-code: setup": _user(
        f"This is the Qwen Code. We are setting up the context for our chat.\n{HIDDEN}", SAID
    ),
    "opencode: file": _user(
        f'{SAID}\nCalled the Read tool with the following input: {{"filePath":"a"}}\n'
        f"<file>\n00001| {HIDDEN}\n</file>"
    ),
    "cursor: files": _user(
        f"<attached_files>\n<code_selection path='a.py'>\n{HIDDEN}\n</code_selection>\n</attached_files>\n"
        f"<user_query>\n{SAID}\n</user_query>"
    ),
    "cursor: state": _user(
        f"<user_info>\nOS: {HIDDEN}\n</user_info>\n<open_and_recently_viewed_files>\n{HIDDEN}\n"
        f"</open_and_recently_viewed_files>\n{SAID}"
    ),
    "cline: environment": _user(
        f"{SAID}\n<environment_details>\n# Open tabs\n{HIDDEN}\n</environment_details>"
    ),
    "cline: environment cut short": _user(f"{SAID}\n<environment_details>\n# Open tabs\n{HIDDEN}"),
    "cline: result": [
        *_model(f"{SAID}\n<read_file>\n<path>{HIDDEN}</path>\n</read_file>"),
        *_user(f"[read_file for 'a.py'] Result:\n{HIDDEN}\n<feedback>go on</feedback>"),
    ],
    "cline: file": _user(f'{SAID}\n<file_content path="a.py">\n{HIDDEN}\n</file_content>'),
    "copilot: attachments": _user(
        f'<attachments>\n<attachment id="a.py">\n```python\n{HIDDEN}\n```\n</attachment>\n\n</attachments>\n'
        f"<reminderInstructions>\n{HIDDEN}\n</reminderInstructions>\n<userRequest>\n{SAID}\n</userRequest>"
    ),
    "copilot: workspace": _user(f"<workspace_info>\n{HIDDEN}\n</workspace_info>\n{SAID}"),
    "aider: files": [
        *_user(
            "I have *added these files to the chat* so you can go ahead and edit them.\n\n"
            f"a.py\n```\n{HIDDEN}\n```"
        ),
        *_user(SAID),
    ],
    "react: one message": _model(
        f"Thought: I look.\nAction: search\nAction Input: x\nObservation: {HIDDEN}\n\n{HIDDEN}\nThought: so\n"
        f"Final Answer: {SAID}"
    ),
    "react: a message of its own": [*_user(SAID), *_user(f"Observation: {HIDDEN}\n{HIDDEN}")],
    "thoughts": _model(f"<think>\n{HIDDEN}\n</think>\n\n{SAID}"),
    "thoughts between": _model(f"<thinking>{HIDDEN}</thinking>{SAID}\n<thinking>\n{HIDDEN}"),
    "thoughts without a beginning": _model(f"{HIDDEN} so it is.\n</think>\n{SAID}"),
    "thoughts in brackets": _model(f"[THINK]{HIDDEN}[/THINK]{SAID}"),
    "thoughts in a channel": _model(
        f"<|channel|>analysis<|message|>{HIDDEN}<|channel|>final<|message|>{SAID}"
    ),
    "private in HTML": _user(f"{SAID} &lt;private&gt;{HIDDEN}&lt;/private&gt;"),
    "private with blanks": _user(f"< private >{HIDDEN}</ private >{SAID} < private >{HIDDEN}"),
    "private in JSON": _user(SAID + json.dumps({"a": json.dumps({"b": f"<private>{HIDDEN}</private>"})})),
    "private over messages": [
        *_user(f"{SAID} <private>{HIDDEN}"),
        {"role": "assistant", "content": HIDDEN},
        *_user(f"{HIDDEN}</private> and on"),
    ],
    "private and never closed": [
        *_user(f"{SAID} <private>{HIDDEN}"),
        {"role": "assistant", "content": HIDDEN},
        *_user(HIDDEN),
    ],
    "injected": _user(f"{_BLOCK}\n{SAID}"),
    "injected in JSON": _user(
        SAID + json.dumps({"p": _BLOCK}).replace("<", "\\u003c").replace(">", "\\u003e")
    ),
    "the rest of what was injected": _user(f"{_BLOCK[40:]}\n{SAID}"),
    "injected and cut short": _user(f"{SAID}\n{_BLOCK[:-30]}"),
}

# How harnesses begin what they say in a person's place and without tags, up to where their own words go on.
_LINES = {
    "claude-code": (
        "Stop hook feedback: ",
        "SubagentStop hook feedback:\n- [./check.sh]: ",
        "TaskCompleted hook feedback:\n",
        'PreToolUse:Bash hook blocking error from command: "./check.sh": ',
        "PreToolUse:mcp__x__y hook blocked ",
        "PostToolUse:Edit hook additional context: ",
        "SessionStart:resume hook success: ",
        "[Stop hook blocking error from command: ./check.sh]: ",
        "UserPromptSubmit operation blocked by hook:\n",
        "This session is being continued from a previous conversation that ran out of context.\n\nSummary:\n",
        "This session is being continued from another machine. Application state may have changed. ",
        "Implement the following plan:\n\n",
        "Base directory for this skill: /w/skills/a\n\n# A\n",
        "The following skills were invoked EARLIER in this session: ",
        "A plan file exists from plan mode at: /w/plan.md\n\nPlan contents:\n",
        "Note: /w/a.py was modified, either by the user or by a linter. This change was intentional. ",
        "Called the Grep tool with the following input: ",
        "Result of calling the Grep tool: ",
        "The user selected the lines 1 to 2 from a.py:\n",
        "[SYSTEM NOTIFICATION - NOT USER INPUT]\n",
    ),
    "codex": (
        "Another language model started to solve this problem and produced a summary of its thinking. ",
        "The user interrupted the previous turn on purpose. ",
        "Continue working toward the active thread goal.\n\n",
        "The active thread goal has reached its token budget.\n\n",
    ),
    "gemini-cli": (
        "Here is the user's editor context as a JSON object. This is for your information only.\n",
        "I ran the following shell command:\n```sh\nmake\n```\nThis produced the following output:\n",
        "[System: You previously returned an empty response with no text or thoughts. ",
        "Agent execution blocked: ",
        "Background execution update:\n",
    ),
    "qwen-code": (
        "Stop hook feedback:\n",
        "Note: Your previous response was truncated due to max_tokens limit. ",
    ),
    "opencode": (
        "The following tool was executed by the user\n",
        "Use the above message and context to generate a prompt and call the task tool with subagent: ",
        "Your operational mode has changed from plan to build.\n",
    ),
    "cline": ("[TASK RESUMPTION] ", "[ERROR] You did not use a tool in your previous response! "),
    "aider": ("I committed the changes with git hash 0a1b2c3 & commit msg: ",),
}
LINE_FORMS: dict[str, Form] = {}
for _name, _begins in _LINES.items():
    for _begin in _begins:
        LINE_FORMS |= {
            f"{_name}: {_begin.strip()[:40]}": _user(SAID, f"{_begin}{HIDDEN}"),
            f"{_name}, in lines: {_begin.strip()[:40]}": _user(SAID, f"{_begin}{HIDDEN}\n\n- {HIDDEN}\n"),
        }
# These end, and a person goes on behind them.
LINE_FORMS |= {
    "claude-code: interrupted": _user(f"[Request interrupted by user for tool use]\n{SAID}"),
    "claude-code: caveat": _user(
        "Caveat: The messages below were generated by the user while running local commands. DO NOT respond "
        f"to these messages unless the user explicitly asks you to.\n{SAID}"
    ),
    "claude-code: opened file": _user(f"The user opened the file {HIDDEN} in the IDE.\n{SAID}"),
}

# Talk about such forms, which is read as it stands.
TALK = (
    "the hook blocked my commit, so we run make lint before it",
    "Why does the Stop hook feedback say nothing?",
    "The pre-commit hook error: it wants Python 3.11",
    "Stop hook blocked the turn again",
    "The session is being continued in another window",
    "Please implement the following plan: first the parser",
    "I ran the following command in my shell",
    "The user opened the file menu",
    "What is `<system-reminder>` for, and who writes `<environment_details>`?",
    "I wrap my files in <attachments> and in <file_content> by hand.",
    "see:\n```xml\n<environment_context>\n<cwd>/w</cwd>\n</environment_context>\n```\nwhat is it?",
    "Why does the trace say this?\n```\nThought: a\nAction: b\nObservation: c\n```\nIs it ReAct?",
    "The form is `<private>` and nothing else",
    "Use <thinking> tags in prompts",
    "Bug 7\nObservation: the login fails\nExpected: it works",
    "The file AGENTS.md holds instructions for agents.",
    "# Context\nmy IDE setup is old\n## My request\nmake it new",
    "List<Attachment> and Vec<Thought> are types",
    "[read_file] is a tool. Result: none",
    "&lt;b&gt; is HTML, and so is &lt;privates&gt;",
)

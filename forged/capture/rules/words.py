"""How the tables of phrases are written down: one form a line, and words that many forms share by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

# `name = pattern`; a word may use the ones above it.
_WORDS = r"""
    place = (?:repo|repository|project|code ?base|monorepo|team|company|organi[sz]ation|service|app
        |application|product|package|library|workspace)
    persons = (?:users?|customers?|clients?|visitors?|people|testers?)
    host = (?:laptop|machine|computer|mac|pc|box|server|workstation)
    do = (?:use|write|run|add|put|prefer|keep|make|check|ask|name|call|return|import|commit|push|format
        |test|document|answer|reply|respond|explain|show|avoid|handle|log|wrap|include|create|start|end
        |give me|tell|leave|let|do|have|be|set|pin|install|update|mock|validate|escape|quote|sort|group
        |split|follow|stick|choose|pick|assume|remove|delete|edit|touch|change|merge|rebase|squash|sign
        |mention|comment|annotate|type|declare|define|catch|raise|throw|print|store|read|open|close
        |hard-?code|suggest|generate|rename|refactor|review|verify|confirm|propose|treat|go for|skip|bump
        |build|deploy|link|speak|talk|swallow|ignore|hide|nest|expose|rely|trust|guess|invent|introduce|mix
        |pass|override|duplicate|copy|force|bypass|disable|shadow|mutate|inline|spell|indent|prefix|cover
        |inject|cite|capitali[sz]e|benchmark|profile|translate|reuse)
    plainly = (?:write|name|format|prefix|indent|squash|rebase|vendor|tag|version)
    habit = (?:<plainly>|run(?! out| into)|keep|put|store|deploy|test|call|support|commit|push|merge|mock
        |allow|add|import|return|log|sort|prefer|ship|accept|catch|raise|throw|check|generate|edit|document
        |review|build|release|depend|rely|expose|cache|use|follow|pin|target|cut|sign|hard-?code|wrap
        |handle|validate|publish|bundle)
    always = (?:al+ways?|alwyas|alwasy|aways|nev(?:er|re)|nver|(?:don'?t|do not) ever
        |under no circumstances)
    anymore = (?:any ?more|ever again|any longer)
    thing = (?:`[^`]{1,60}`|[\w.@/+#-]{1,40})
    old = (?P<old>`[^`]{1,60}`|[\w@/+#-]+(?:\.[\w-]+)*)
    system = (?:(?:a |an |the )?(?:mac|macos|os ?x|linux|arch|ubuntu|debian|fedora|nixos|nix|windows|wsl
        |freebsd|openbsd|gentoo|alpine|centos|rhel|opensuse|pop!?_os|manjaro|mint|apple silicon|chromebook
        |m[1-5])\b)
    tool = (?:neovim|nvim|vim|emacs|vs ?code|vscodium|zed|helix|sublime|intellij|pycharm|goland|webstorm
        |cursor|jetbrains|tmux|zellij|zsh|fish|bash|nushell|powershell|kitty|alacritty|ghostty|wezterm
        |iterm2?)\b
    trade = (?:engineer|developer|dev|scientist|designer|student|maintainer|lead|manager|sre|admin
        |administrator|researcher|programmer|analyst|tester|architect|beginner|writer|founder|contractor
        |freelancer|owner|author|teacher|physicist|mathematician|consultant|dba|newbie|novice
        |native speaker)s?\b
    mine = (?:time ?zone|editor|shell|os|operating system|ide|(?:native|first
        |main) language|mother tongue|role|keyboard(?: layout)?|pronouns?|terminal|browser
        |working hours|background)
    contrast = \b(?:because|since|so that|so we|as it|over|instead of|rather than|in favou?r of|not|against
        |due to)\b
    here = (?:this|our|the) <place>
    lasts = (?:\b(?:everywhere|instead of|rather than|(?:in|for|across) <here>|(?:in|for|on) (?:all|every
        |each|any))\b|, (?:and )?(?:never|not|only|nowhere|always)\b)
    states = (?:is|are|lives?|goes|go|must|follows?|stays?|belongs?|always|never|only|has to|have to|needs?
        |uses?|use|should|get|gets|run|runs|cannot|can't|may not|has its own|have their own)
    owed = \b(?:must|ha[sd] to|have to|needs? (?:to|a|an)|always)\b
    # What is owed, and what goes along.
    due = (?:<owed>|\b(?:also|too|as well|both|together|with it|changes?|regenerate|rebuild|re-?run|in sync
        |in step)\b)
    touch = (?:change|touch|add|rename|edit|update|bump|move|modify|delete|remove|upgrade|regenerate
        |introduce|release)
    opening = (?:(?:(?:in|for|across|throughout|within|inside) <here>(?: here)?|around here|here|(?:in|for
        |with) [\w+#.]+|from (?:now|here) on|going forward|in (?:the )?future|henceforth
        |as a (?:general )?rule|generally|whenever possible|when(?:ever)? (?:you
        |writing) [^,]{1,60}(?=,)),? (?:please )?)?
"""


def forms(table: str) -> tuple[re.Pattern[str], ...]:
    """Compile a table: an indented line goes on with the one before, `<name>` is a word, `#` a comment."""
    return tuple(re.compile(_spelled_out(line), re.IGNORECASE) for line in _lines(table))


def any_of(table: str) -> re.Pattern[str]:
    """Compile a table to the one form that is any of its lines."""
    return re.compile("|".join(f"(?:{_spelled_out(line)})" for line in _lines(table)), re.IGNORECASE)


def _lines(table: str) -> Iterator[str]:
    lines = [line for line in inspect.cleandoc(table).splitlines() if not line.lstrip().startswith("# ")]
    return iter("\n".join(lines).replace("\n    ", "").splitlines())


def _spelled_out(form: str) -> str:
    return re.sub(r"(?<!\?P)<(\w+)>", lambda name: _MEANING[name[1]], form)


_MEANING: dict[str, str] = {}
for _line in _lines(_WORDS):
    _name, _, _form = _line.partition(" = ")
    _MEANING[_name] = _spelled_out(_form)

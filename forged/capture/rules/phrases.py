"""What people say when they mean it to last: the forms of statement that `rules` knows.

A form is matched at the start of a sentence that has lost its lead-in, so that it has to be what the sentence
is about. Sentences have a limited length, hence no form can be slow. When in doubt a form is left out:
silence costs little, a wrong memory is met again in every session.
"""

from __future__ import annotations

import re

import msgspec

from forged.capture.rules.words import any_of, forms
from forged.memory import Category


class Rule(msgspec.Struct, frozen=True):
    """A form of statement. `is_order` tells the agent what to do, so that a mishap in it is no bug report."""

    category: Category
    pattern: re.Pattern[str]
    is_order: bool = False


def _rules(category: Category, table: str, *, is_order: bool = False) -> tuple[Rule, ...]:
    return tuple(Rule(category, pattern, is_order) for pattern in forms(table))


# The first that matches decides.
RULES: tuple[Rule, ...] = (
    *_rules(
        Category.PATTERNS,
        r"""
        (?:whenever|every time|each time|any ?time|as soon as) (?!(?:i|it|you need|you want)\b
            |(?:the |a |our )?<persons>\b).{3,200}<due>
        if (?:you|we|someone|anyone) (?:ever )?<touch>\b.{3,200}<owed>
        when (?:you|we|someone) <touch>\b.{3,200}\b(?:must|always|ha[sd] to|have to)\b.{1,100}\b(?:too
            |as well|also|both)\b
        (?:changing|touching|renaming|editing|updating|bumping|moving) .{3,100}\b(?:always )?(?:means
            |requires|involves) .{3,}
        [^,;]{3,80} and [^,;]{3,80}\b(?:(?:must )?always (?:go|belong|change|come|have|get|are|be|move
            |ship)|must|have to|need to)\b.{0,40}\btogether\b
        (?:every|any|each) change (?:to|in|of) [^,;]{3,100}\b(?:means?|requires?|needs?|must)\b
        (?:the |our )?[^,;]{3,80}\b(?:is|are) (?:almost )?always (?:caused by|because of
            |due to) (?!me\b|you\b)
        (?:每次|每当|只要).{0,10}(?:改|更新|升级|添加|新增|加|删|动|碰|发布).{1,100}(?:都要|都得|必须|就要|也要|都必须)
        """,
    ),
    *_rules(
        Category.ARCHITECTURAL_DECISIONS,
        r"""
        (?:[\w' ]{0,60},? )?(?:we|the team)(?:'ve| have)?(?: all| finally| then| just
            | already)? (?:decided|chose|opted|agreed (?:to|that|on)(?! the\b)|picked|selected
            |settled on|went (?:with|for)|standardi[sz]ed on|dropped|ditched|abandoned
            |rejected)\b(?! the (?:wrong|plan)\b).{3,300}(?:<contrast>|: )
        (?:we|the team)(?:'ve| have)? (?:decided|chose) against\s
        (?:[\w' ]{0,40},? )?we(?:'ve| have)?(?: just| already| recently| finally)? (?:switched|moved
            |migrated|changed|ported \w+)(?: over)? (?:away )?(?:from|off) (?!the\b|old\b
            |my\b).{2,100} to\s
        we(?:'ve| have)? replaced (?!(?:the|this|that|it|a|an|all|my)\b).{2,100} (?:with|by)\s
        the reason (?:why |that )?(?:we|our|there)\b.{3,200}\bis (?:that|because)\b
        i(?:'ve| have)? decided (?:that|on|against) .{3,300}<contrast>
        the decision (?:is|was) (?:to|that) .{3,300}<contrast>
        we (?:<habit>|base|split) (?!(?:the|it|that|them|an?)\b)\S.{3,200}\b(?:because|so that|since)\s
        我们(?:最后|已经|最终|都)?(?:决定|选择|选了|采用).{1,200}(?:因为|由于|以便|这样|而不是)
        我们(?:已经)?从.{1,60}(?:换到|换成|迁移到|迁到|改用|改成|切换到)
        """,
    ),
    *_rules(
        Category.CORRECTIONS,
        r"""
        (?:stop|quit) (?!(?:run|watch|listen|load|wait|stream|kill|serv|try|look|edit|fix|search|think
            |work|go)\w*ing\b)\w{2,}ing (?!(?:the|it|that|now)\b)\S
        (?:don'?t|do not|no need to) (?!be\b)\w+ (?!(?:the|it|that
            |this)\b).{0,200}\b<anymore>\b(?! than)
        (?:no more|no longer) \w+ing?\s
        use (?!(?:the|this|that|it|my|your|an?|one|two|three|four
            |\W*\d)\b)(?=\W?[a-z]{2})<thing>, (?:and )?not (?!(?:the|this
            |that)\b)(?=\W?\w{3})<thing>(?: (?:in|for|everywhere|here|with|when)\b(?! (?:the|this
            |my)\b)[^,]{0,40})?$
        you (?:keep|always|constantly|repeatedly) \w+(?:ing)?\b.{3,200}[;,:–—-] ?(?:but )?(?:we|don'?t
            |stop|use|our|i)\b
        (?:以后)?(?:不要再|别再|不许再)(?!报错|出错).{2,200}
        """,
        is_order=True,
    ),
    *_rules(
        Category.USER_FACTS,
        r"""
        (?:i'?m|i am|im|i work|i run|i develop)(?: mostly| mainly| usually
            | only)? (?:on |using |running )?<system>(?: (?!and\b|but\b|when\b)[\w.-]+){0,5}(?:,|$
            | and i\b| and my\b)(?! (?:and|but) (?!i\b))
        (?:i'?m|i am|im) (?:a|an|the|not an?|one of the)(?: [\w/-]+){0,3} <trade>
        (?:i'?m|i am|im) (?:(?:quite |pretty |fairly |very |completely )?new to
            |(?:\w+[- ]){0,2}colou?r[- ]?blind|left-handed|dyslexic|deaf|blind
            |not (?:that |very )?(?:familiar|experienced) with|(?:very )?familiar with|fluent in
            |working (?:from|in|for|remotely)\b(?! (?:the|this|a|an
            |my)\b)) ?
        i (?:don'?t|do not) (?:know|speak|understand) (?:any|much|a lot of) [\w+#]+(?=,| so|$| at all)
        (?:i'?m|i am) [\w-]+,? (?:and )?i(?:'m| am| work)\b
        i (?:\w+ly )?work (?:in|from|at|for|as|with|remotely|part[- ]time|nights?|on (?:the
            |our) (?:[\w-]+ ){1,3}(?:team|squad|platform|side))\b
        my <mine> (?:is|are)\b(?! (?:too|so|not|down|dead|slow|broken|like|full|very|still|really|out
            |back|gone|on|about|open|closed|wrong|missing|misspelled|\w+ing)\b)
        my (?:machine|laptop|job|team|computer) (?:is|are|runs|has) (?:a|an|the|called|no|only)\b
        i(?:'m)? (?:(?:mostly|mainly|usually|only|always|just) )?us(?:e|ing) <tool>
        i (?:mostly|mainly|usually|only|always)? ?use .{2,100}\b(?:for everything|every ?day|daily
            |all day|as my \w+|exclusively|most of the time)\b
        i (?:usually|normally|mostly|typically|mainly|only) (?:work|code|program|write|develop|read
            |review)\b(?! (?:the|this|that|it|on (?:the|this|it))\b)
        i (?:don'?t|do not|only|can'?t|cannot)? ?(?:have|own|get)\b.{2,80}\b(?:keyboard|on (?:this
            |my) <host>)\b
        i(?:'ve| have)(?: been)? (?:writing|written|coding|programming|programmed|using|worked with
            |working with) .{1,80}\b(?:years?|decades?)\b
        i (?:know|speak) .{2,40}\b(?:well|fluently|natively)\b
        我的时区是.{1,60}
        我(?:是|在做|做).{0,30}(?:工程师|开发|开发者|程序员|设计师|学生|研究员|产品经理|架构师|运维)
        我(?:平时|一直|主要)?用(?:的是)?.{0,10}(?:mac|linux|windows|ubuntu|vim|emacs|vs ?code)
        """,
    ),
    *_rules(
        Category.PROJECT_CONVENTIONS,
        r"""
        (?:it'?s |it is )?(?:our|the|a|team|house|project)(?: [\w-]+)? (?:convention|rule|policy
            |standard|practice|guideline)s?(?: (?:here|<here>|in <here>|for <here>
            |for [\w ]{2,30}))? (?:is|are|to|that|says?)\b(?! (?:\w+ly |so |too |very |a bit )?(?:weird
            |unclear|broken|wrong|silly|good|bad|outdated|fine|strange|odd|clear|documented|ok|not
            |terrible|great)\b)
        <opening>we (?:always|never|only ever|strictly|generally|consistently) <habit>\b(?! (?:it|that
            |them)\b)
        <opening>we <plainly> (?!(?:the|it|that|them|to|a|an|about)\b)
        <opening>we <habit> (?:(?!(?:the|it|that|them|a|an|into)\b)\S+ ){1,6}here$
        (?:in|for|across|throughout) (?:this|our) <place>,? we <habit> (?!(?:it|that|the|them|into
            |an?)\b)
        we use <thing>(?: [\w-]+)? for (?!(?:the|this|that|it|a|an|my)\b)[\w -]{3,60}$
        <opening>we (?:only )?<habit>\b(?! into\b).{2,300}<lasts>
        <opening>we (?:don'?t|do not|dont|must not|can'?t|cannot|may not|won'?t) (?:ever )?(?:use|allow
            |support|commit|mock|write|put|ship|accept|merge|push|import|edit|log|store|target|deploy
            |nest)\b(?! (?:the|it|that|them|any of)\b)
        we (?:don'?t|do not|dont) (?:have|want|do) (?!(?:the|it|that|a|an)\b).{2,200}\b(?:here
            |in <here>)$
        <opening>our (?!<persons>\b)(?:[\w`./-]+ ){1,5}?(?:go(?:es)?|lives?|belongs?|follows?|only
            |(?:must |should )?(?:always|never)|(?:is|are) (?:called|named|written|all|always|never
            |only|stored|kept|pinned|deployed|versioned|[\w`-]+, not)|runs? on)\b
        (?:all|every|each|no|none|any) (?:[\w`-]+ ){0,4}(?:in|of|on
            |to)? ?our (?:[\w`./-]+ ){1,5}?(?:go(?:es)?|lives?|belongs?|follows?|must|has to|have to
            |needs? to|may (?:only|not)|always|never|(?:is|are) (?:written|built|kept|called
            |named|in|on|under|never|always|only|\w+ed))\b
        (?:in|for|across|throughout|within) (?:this|our) <place>,? (?:here,? )?(?:all|every|each|no|the
            |our|any|[\w`-]+s)\b.{0,100}\b<states>\b
        (?:in|for|across|throughout|within) (?:this|our) <place>,? (?:please )?(?:use|prefer|avoid
            |follow|stick|don'?t|do not|no)\b
        (?:all|every|each|no|any) .{3,120}\b(?:in|of|to|across) <here>\b.{0,60}\b(?:must|has to|have to
            |should|needs?|are|is)\b
        (?:all|every|each|no|any|[\w`-]+) .{0,80}\b(?:must|has to|have to|should|may) .{3,120}\b(?:in
            |across) (?:this|our)\s
        we (?:keep|store|put|write|log|name|document|test|validate|pin) (?:all|every|each|any|no|only)\b
        we(?:'re| are) using [\w`].{1,80} (?:instead of|rather than)\s
        (?!(?:the|one|two|both)\b)[\w`-]+s in <here> (?:must|should|are|have to|never|always|only|may)\b
        our (?!<persons>\b)[\w ]{3,60} \S+ only$
        (?:we|<here>) (?:only )?(?:supports?|targets?|requires?|needs?) (?:only |at least )[\w`]
        我们(?:都|一直|总是|统一|一律|这里)?(?:用|使用).{1,100}(?:而不是|不用|不是|不要用)
        (?:在)?(?:这个|本|我们的?|咱们的?)(?:项目|仓库|代码库|团队).{1,200}(?:都|必须|不要|统一|一律|只|禁止)
        """,
    ),
    *_rules(
        Category.CODING_PREFERENCES,
        r"""
        <opening>(?:please )?<always> (?:ever |please )?<do>\b
        (?:make sure|be sure|see to it) (?:to|you|that you) (?:always|never) <do>\b
        you (?:should|must|need to|have to|are to|can)? ?(?:always|never) (?!have\b|do\b
            |be\b)<do>\b(?! (?:me|up)\b)
        (?:from (?:now|here) on|going forward|henceforth
            |in future),? (?:please )?(?:i want |i prefer |only |no |let'?s |(?:don'?t
            |do not) )?(?:<do>\b|[\w`-]+s\b)
        (?:as a (?:general )?rule|in general|generally
            |whenever possible),? (?:please )?(?:don'?t |do not )?<do>\b(?! (?:it|that)\b)
        <opening>prefer (?!(?:the|this|that|it)\b).{2,120} (?:over|to|instead of|rather than)\s
        i(?:'d like| want| need| expect) you to (?:always|never|stop)\b
        let'?s (?:always|never) (?!(?:keep|be|do|have)\b)<do>\b
        (?:don'?t|do not) <do>\b.{2,200}\b(?:unless i|without (?:asking|my|checking with me)
            |under any circumstances)\b
        use .{2,120}\b(?:always|everywhere|in all (?:cases|projects|repos))$
        """,
        is_order=True,
    ),
    *_rules(
        Category.CODING_PREFERENCES,
        r"""
        <opening>i(?: (?:always|really|strongly|generally|usually|much|still|also|personally|definitely
            |clearly|very much))* prefer (?!(?:it|this|that|the|a|an|option|variant|version|approach
            |plan|solution|number|your|if|not|\w)\b)
        <opening>(?:i'?d|i would) (?:much |always |really )?(?:prefer|rather (?:have|see|use|avoid|keep
            |not use|not have|write)) (?!(?:it|this|that|if|you|to|a|an|the|not)\b)
        (?:in|for) (?:all|any) (?:of )?my (?:\w+ )?(?:projects?|repos?|repositories|code
            |scripts?),? (?:i|use|always|never|we|please)\b
        <opening>i(?: really| always| generally)? (?:like|love) (?!(?:how|it|the|this|that
            |your)\b).{2,120}\b(?:over|better than|more than|instead of|rather than)\s
        <opening>i (?:don'?t (?:really )?(?:like|want)|hate|dislike|can'?t stand|detest) (?!(?:this
            |that|it|the|how|when|your)\b).{2,150}[,;:–—-] ?(?:so )?(?:please )?(?:use|group|avoid
            |prefer|write|keep|put|split|make|give|don'?t|never|always|leave)\b
        <opening>i(?:'d)? (?:always|never|only) (?:want|use|write|commit|squash|rebase|like)\b
        i (?:want|need|expect) (?!(?:a|an|the)\b).{2,80}\b(?:on|in|for) (?:every|all|each) (?:(?:public
            |new|exported|single) )?(?:function|method|class|file|test|module|commit|pr|pull request
            |endpoint|script|project|language|repo)(?:s|es)?\b(?! (?:of|in) )
        my (?:personal |strong |own )?preference is\s
        我(?:更|比较|最|还是更)喜欢(?:用)?.{2,100}
        我喜欢.{1,60}(?:而不是|胜过|不喜欢|多过|的(?:回答|代码|注释|风格|写法|命名|函数|提交))
        我(?:习惯|偏好|倾向于).{2,100}
        """,
    ),
    *_rules(
        Category.CODING_PREFERENCES,
        r"""
        (?:以后|今后|从现在开始|从今以后|从现在起)[，,]?(?:请|都|总是|一律|统一|不要|别|只|用).{2,200}
        除非.{1,60}否则.{2,100}
        (?:永远|总是|一律|务必|始终)(?:不要|都|用|使用|别|要).{2,200}
        """,
        is_order=True,
    ),
)

# A statement that sets the agent right, once its `no, ` is gone.
CORRECTED = any_of(
    r"""
    (?:we (?:\w+ )?(?:don'?t |do not )?<habit>|our|<here>|in (?:this|our) <place>)\b.{3,300}\b(?:not|never
        |no|only|don'?t|doesn'?t|instead|isn'?t|aren'?t)\b|[^,]{3,60} (?:is|are) \w+ed, (?:never
        |not) |(?:(?:the|all|every|each) .{2,120}|[\w`-]+(?: [\w`-]+){0,3} )\b(?:lives?|belongs?|goes|go
        |never|always|only|(?:is|are) called)\b.{2,200}\b(?:not|never|only|instead|nothing)\b
    """
)
# A firm statement without a form of its own needs a verb, and is no task.
FIRM = any_of(
    r"""
    (?!(?:to|when|how|what|the (?:time|demo|meeting|call|bug|build)|this|that|it|these|those|you|me)\b
        |i\b(?!'?m| am| want| like| hate| don'?t| can'?t| never| always| use)|we (?:\w+ )?(?:need|have|want
        |should|must|ought) to\b)(?=.*\b(?:is|are|was|were|has|have|needs?|must|can|can't|cannot|should
        |will|do|does|don'?t|doesn'?t|want|uses?|lives?|goes|runs?|only|never|always|follows?|requires?
        |supports?|expects?|returns?|holds?|comes?|takes?|dropped|owns?|likes?|\w+ed)\b).{10,}
        |.*[\u4e00-\u9fff]
    """
)

PROJECT_WORDS = any_of(
    r"""
    \b(?:we|we're|we've|us|our|ours|here|this <place>|the (?:repo|repository|project|code ?base|monorepo
        |team))\b|我们|咱们|(?:这个|本)(?:项目|仓库|代码库)
    """
)
# Said anywhere in a message, it tells where the orders in it hold.
LOCAL = any_of(r"\b(?:in|for|across) (?:this|our) <place>\b")
# Starts of a sentence that is about the person, or is an order.
PERSONAL = any_of(
    r"""
    (?:<opening>)(?:i|i'[a-z]+|my|me|im|<always>|don'?t|do not|no|stop|quit|let'?s|make sure|be sure|you
        |prefer|please|<do>)\b|(?:from (?:now|here) on|going forward|henceforth|in (?:the )?future
        |as a (?:general )?rule|in general|generally|by default)\b
        |我(?!们)|除非|以后|今后|从|永远|总是|一律|务必|始终|不要|别
    """
)
# How the person wants to be spoken to.
SPEECH = any_of(
    r"""
    \b(?:answers?|repl(?:y|ies)|respond|responses?|explain|explanations?|summar(?:y|ies|ise|ize)|speak
        |talk to me|tone|verbose|concise|briefly)\b|回答|回复|解释|总结
    """
)

"""What people say when they do not mean it to last: questions, doubts, hearsay, this moment, mishaps.

Looked for anywhere in a sentence. A veto may well cost a statement that was meant; that is the bargain.
"""

from __future__ import annotations

from forged.capture.rules.words import any_of

VETO = any_of(
    r"""
    # questions
    [?？]\W*$|[吗呢么]\W*$
    ^(?:what|why|how|which|who|whose|where|is|are|am|do|does|did|can|could|should|would|shall|will|won't
        |isn't|aren't|doesn't|don't (?:we|you|i)|didn't|has|had|have (?:we|you|i)|was|were|any(?:one
        |body)? (?:idea|know)|tell me|explain|when (?:do|did|does|is|are|should|will|would)|wondering
        |i wonder)\b
    ,? (?:right|or not|any idea(?: why)?|correct|isn't it|don't (?:we|you)|no idea(?: why)?)$
    [,;–] (?:but )?(?:how|what|why|where|who|can (?:you|we|that)|could|is (?:it|that)|should (?:i|we)
        |would)\b
    # hypotheses and doubt
    \b(?:what if|maybe|perhaps|probably|suppose|supposing|imagine|assuming|hypothetically|wonder(?:ing)?
        |might|could|i (?:think|guess|believe|suppose|doubt|assume)|i'?m not (?:sure|saying)|not sure
        |no idea|i don'?t (?:know (?:if|why|how|whether|yet)|think)|wouldn'?t|would be|if (?:we|i
        |they) (?:\w+ly |always |never )?(?:\w+ed|had|were|would)|haven'?t (?:decided|agreed)|let me know
        |thinking (?:of|about)|considering|at some point|eventually|some ?day)\b
    ^if (?:we|i) (?:always|never|decided|use|used)\b
    # somebody else's word
    \b(?:he|she|they|docs?|documentation|readme|tutorial|guide|manual|linter|compiler|boss|colleague
        |co-?worker|friend|copilot|chatgpt|claude|gemini|people|someone|somebody|manager|blog|article|book
        |reviewer|comment|error|message|page|spec) (?:\w+ ){0,3}?(?:says?|said|told|thinks?|claims?
        |recommends?|insists?|suggests?|mentions?|states?|reads?|wants me)\b
    \b(?:according to|apparently|supposedly|allegedly|i (?:heard|read)|told me|as they say|they (?:always
        |never|use|prefer))\b
    # once, or for a while; something that was shown
    \b(?:for now|for the moment|for the time being|right now|at the moment|(?:just|only) (?:once|now)
        |one[- ]off|today|tonight|tomorrow|(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|deadline|until|till
        |'til|temporar(?:y|ily)|currently|in the meantime|meanwhile|for a (?:moment|while)|as a workaround
        |in (?:\w+ )?(?:minutes?|hours?|a minute|a moment|a second)|still (?:need|have|has|must)|line \d+
        |next (?:week|month|sprint)|later (?:today|on|this)|(?:it|them|back|that) later|not yet|yet$
        |see you|now please|first,? then|then the)\b
    \bthis (?!(?:repo|repository|project|code ?base|monorepo|team|company|organi[sz]ation|service|app
        |application|product|package|library|workspace|laptop|machine|computer|mac|pc|server|workstation)\b)
    \b(?:these|those|the (?:first|second|third|fourth|last|former|latter|other|next|previous
        |current) (?:one|version|option|approach|variant|overload|match|file|test|way|case|line)|above
        |below|attached|the following)\b
    \b(?:always|never|don'?t|do not|now on,?|forward,?|please|stop) (?:please )?(?:do|doing|use|using|make
        |try|want|like|be|say|write) (?:it|that|them|so|such|there)\b(?! \w+s\b)
    \b(?:like (?:that|this|so)|that (?:one|way|file|function|approach|version|thing|line|test|class|branch
        |commit)|(?:the|my|an|our) (?:old|previous|last|former|ex)[ -](?:project|job|company|team|repo
        |employer|place))\b
    ^(?:i|we|they|it) used to (?!\w+ing)|\bback (?:then|in the day)\b|\bdays$
    \b(?:in|from|inside|of|to) `?[\w.]+\(\)|\b(?:for some reason|to be honest|tbh|whatever$|no rush
        |you (?:ignored|forgot|missed|broke)|so focus|on my machine|\d+ ?% coverage|go ahead|you can do
        |you take|your turn|do we$|in the last (?:commit|pr|change))\b
    \byour (?:\w+ )?(?:proposal|suggestion|option|idea|version|plan|patch|approach|list)s?\b
    # irony and play
    /s\W*$|\b(?:lol|haha+|lmao|rofl|jk|just kidding|yeah (?:sure|right)|oh (?:great|sure|joy)|as if)\b
    🙄|😂|🤣
    # what must never be kept
    \[redacted\]|\b(?:password|passphrase|passcode|api[ -]?key|access key|token|secret|pin|credit card|iban
        |phone(?: number)?|e-?mail(?: address)?|address|ssn|birthday)\b(?: \w+){0,3} (?:is|are|=|:)
        |[\w.+-]+@[\w-]+\.\w|\+\d[\d ()-]{7,}
    ^[\"“'「]
    # the same in Chinese
    这次|暂时|先不|先别|今天|明天|现在先|如果|要是|可能|也许|大概|或许|他说|她说|他们|文档[里上]?说|据说|听说|这样$|这么做
    为什么|怎么|要不要|还是.*[?？]|是不是
    """
)
# Mishaps, and tasks that are hung on a statement. Only of statements: an order may well speak of errors.
BUG = any_of(
    r"""
    \ban? (?:\w+ )?(?:error|exception|crash|bug|traceback|segfault|timeout|[45]\d\d)\b
    \bthe (?:bug|error|problem|issue|fault|failure|traceback)\b
    \b(?:crash(?:es|ed|ing)?|segfaults?|broken|fails?|failed|failing|hangs?|stuck|ignored|skipped)\b
    \b(?:doesn'?t|does not|don'?t|nothing|not|never|stopped|no longer) works?(?:ing)?\b
    \b(?:is|are) (?:down|red|slow|late|gone|different)\b
    \b(?:always|never) (?:returns?|gets?|got|prints?|finish(?:es)?|ends?|responds?|loads?|comes?|shows?
        |starts?|passes|pass|throws?|breaks?)\b
    \b(?:it|which|that) (?:prints|returns|says|throws|shows)\b
    \b(?:and now|but (?:it|now|the|nothing)|what i did|here is what|looks like|seems|unrelated|complain\w*)\b
    \b(?:twice|(?:two|three|four) (?:places|times)|not (?:really )?necessary|too (?:much|many|long|big))\b
    \b(?:run(?:s|ning)? into|which (?:is|makes)|(?:we|i) call (?:it|them))\b
    \bso (?:the |our )?<persons>\b
    # tasks
    [,;] (?:(?:and|so|then|please|now|but)[ ,]+)*(?:implement|move|rename|change|add|fix|update|drop|inline
        |remove|extend|delete|replace|adjust|adapt|build|do) (?:it|that|this|them|those)\b
    [,;] (?:remove|drop|delete|inline|revert) the\b
    (?:[,;]|\b(?:so|and|then)) (?:(?:and|so|then|please|now|but|can you|could you|i want you to|let'?s
        |i need you to)[ ,]+)+(?:implement|add|fix|update|drop|inline|remove|extend|delete|replace|profile
        |look|check|find|rename|move|refactor|upgrade|write|reduce|raise|try)\b
    """
)
# Makes a task of the sentence before it.
ASKS_FOR_IT = any_of(
    r"""
    (?:(?:so|now|and|please|can you|could you|let's),? ){0,4}(?:build|implement|fix|add|do|change
        |make) (?:it|that|this)\b
    """
)
# Takes back what the person said just before: in the last sentence, or in the last message.
TAKES_BACK = any_of(
    r"""
    (?:(?:oh|ok|okay|hm+|lol|ah|sorry|wait|please|actually|no)\b[,.!]? *){0,4}(?:never ?mind|nvm|just kidding
        |(?:forget|scratch|strike|ignore|disregard|undo) (?:that|it|this|what i (?:just )?said
        |(?:my|the) last)|i take (?:that|it) back|on second thoughts?|jk)\b
    (?:not|/s)\W*$
    (?:sorry,? )?(?:no,? wait|wait,? no|no,? actually|actually,? no|correction:)\b
    算了|当我没说|忘了(?:吧|它)|不对，
    """
)

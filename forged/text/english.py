"""English words that a search must not take literally: stop words, and forms that no stemmer reaches.

Snowball stems by suffix, so `went` and `go` stay strangers; a question asks "when did she go", a memory says
"she went". The table below is general English and was not drawn from any test set; ambiguous forms (left,
lay, wound, leaves, lives) are missing on purpose.
"""

from __future__ import annotations

# "may" and "us" are missing: the month and the country are worth more than the auxiliary and the pronoun.
_STOP_WORDS = """
    a about above after again against all also am an and any are as at be because been before being below
    between both but by can can't cannot could did do does doing done down during each either few for from
    further had has have having he her here hers herself him himself his how i if in into is it its itself
    just me might more most must my myself no nor not now of off on once only or other our ours ourselves
    out over own same shall shan't she should so some such than that the their theirs them themselves then
    there these they this those through to too under until up upon very was we were what when where which
    while who whom whose why will with won't would you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

# Base form, then the forms that stand for it.
_FORMS = """
    become became; begin began begun; bend bent; bite bitten; bleed bled; blow blew blown; break broke broken;
    breed bred; bring brought; build built; burn burnt; buy bought; catch caught; choose chose chosen;
    come came; creep crept; deal dealt; dig dug; draw drew drawn; dream dreamt; drink drank drunk;
    drive drove driven; eat ate eaten; fall fell fallen; feed fed; feel felt; fight fought; find found;
    fly flew flown; forbid forbade forbidden; forget forgot forgotten; forgive forgave forgiven;
    freeze froze frozen; get got gotten; give gave given; go went gone; grow grew grown; hang hung;
    hear heard; hide hid hidden; hold held; keep kept; know knew known; lead led; learn learnt; lend lent;
    light lit; lose lost; make made; mean meant; meet met; pay paid; ride rode ridden; ring rang rung;
    rise rose risen; run ran; say said; see saw seen; seek sought; sell sold; send sent; shake shook shaken;
    shine shone; shoot shot; show shown; shrink shrank shrunk; sing sang sung; sink sank sunk; sit sat;
    sleep slept; speak spoke spoken; spend spent; spin spun; spring sprang sprung; stand stood;
    steal stole stolen; stick stuck; strike struck; swear swore sworn; sweep swept; swim swam swum;
    swing swung; take took taken; teach taught; tear tore torn; tell told; think thought; throw threw thrown;
    understand understood; wake woke woken; wear wore worn; win won; write wrote written;
    child children; foot feet; man men; mouse mice; person people; tooth teeth; wife wives; woman women;
    index indices; matrix matrices; vertex vertices
"""

IRREGULAR = {form: base for group in _FORMS.split(";") for base, *forms in (group.split(),) for form in forms}

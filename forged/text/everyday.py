"""Everyday messages and words: what they score in a store shows what an unrelated message scores there.

Messages of code, chat, errands and agent noise, fifty in English and fourteen in Chinese, and words that say
little about any subject; all in our own words, and no message stands in an evaluation set. The words are for
small stores: without them "never mind" meets half of all stores of thirty memories, and five unrelated
messages in a hundred cost up to three points of recall instead of half a point.
"""

from __future__ import annotations

_TEXT = """
Could you write a function that reverses a linked list?
The server answers 502 since this morning and the log shows a timeout
How do I undo my last commit without losing the changes?
Please split this long method into smaller ones
What is wrong with this query, it returns every row twice
Add tests for the edge cases and make them pass
npm install hangs, any idea what it is waiting for?
Explain what this shell one-liner does
Upgrade the dependencies and tell me what breaks
The page is blank after the last deploy
Implement the endpoint that returns the user's orders
Move the settings into environment variables
Which data structure should I use for a priority queue?
Make the error messages friendlier
find all places where we still call the old API
Write documentation for the new configuration options
I get a permission denied error when I run the installer
How do threads and processes differ?
Fix the type errors in the checkout module
Open a pull request with a short description
How far away is the moon?
Suggest a present for a colleague who is retiring
What is a good recipe for pancakes?
Give me a curious fact about honey bees
Translate this sentence into Spanish, please
Who wrote War and Peace?
Help me with my homework about the French Revolution
What will the weather be like at the weekend?
Write a short poem about the sea
How much is 15 percent of 80?
Can you recommend a film for tonight?
Why do cats purr?
Summarise this article in three sentences
Draft an email that declines an invitation
What is the population of Brazil?
How can I sleep better at night?
Plan a weekend trip to Vienna for two
what did we talk about last time
I had a long day and I am tired
Where did my friend go on holiday with the family?
When was the last time she visited her sister?
What does he like to do in his free time?
carry on with the plan
sounds right, please do
many thanks for that
that is wrong, try something else
start it one more time
all right, what comes next?
commit and push
no
写一个读取配置文件的函数
这段代码报错了,帮我修一下
接着做下去
辛苦了
今天晚饭吃什么好?
把这句话翻译成日语
为什么天会下雨?
解释一下这个算法的原理
测试没有通过,请检查原因
部署之后页面打不开
介绍一下唐朝的历史
他周末通常做什么?
可以,提交代码
重新来一遍
"""

MESSAGES = tuple(_TEXT.strip().splitlines())

_WORDS = """
    able accept act actual add address again age ago agree allow alone along already always amount answer
    anyone anything appear apply area argue around arrive ask attention available avoid away back bad base be
    because become begin believe best better big bit block board body book both bottom box boy bring build
    business buy call car card care carry case catch cause center central certain chance change character
    check child choice choose city class clear close code cold collect color column come command comment
    common company compare complete computer concern consider contain continue control copy correct cost count
    country couple course cover create current cut data date day deal death decide deep default delete depend
    describe design detail develop die difference different difficult direct discuss display document dog door
    double doubt draw drive drop early easy eat edit effect else empty end enjoy enough enter entire error
    especially even evening event ever every everyone everything exact example except exist expect explain eye
    face fact fail fall family far fast father favorite feel field figure file fill final find fine finish
    fire first fit five fix floor follow food foot force forget form forward four free friend front full fun
    function future game general get girl give glad go good great green ground group grow guess guy hair half
    hand happen happy hard head health hear heart help here high hold home hope hour house human hundred idea
    image important improve include increase inside instead interest issue item job join just keep key kid
    kind know large last late later laugh law lead learn leave left less let letter level life light like
    limit line link list listen little live local long look lose lot love low main make man manage many mark
    matter maybe mean measure meet member message middle might mind minute miss mistake moment money month
    moon more morning most mother move much music must name nature near necessary need never new news next
    nice night nothing notice number object offer office old one only open option order other output own page
    paper paragraph parent part party pass past pay people perfect perhaps person phone pick picture piece
    place plan play please point possible power practice prepare present press pretty price print probably
    problem process produce program project prove public pull push put question quick quite range rate rather
    reach read ready real reason receive recent record red remember remove repeat replace report request
    require rest result return review right road room row rule run safe same save say school screen script
    search season second section see seem select sell send sense sentence serious set several shall share
    short should show side sign similar simple since single sit site situation six size skip sleep slow small
    social some someone something sometimes soon sorry sort sound source space speak special spell spend stand
    start state stay step still stop store story strange street string strong student study stuff stupid style
    subject such sudden suggest summer support suppose sure surprise system table take talk task teach team
    tell ten term test text thank thing think third three through throw time tip title today together tomorrow
    tonight too top total touch toward town travel tree trip trouble true try turn two type understand unit
    update upper use useful user usual value various version view visit voice wait walk wall want war watch
    water way wear week weekend well white whole wife win window winter wish without woman wonder word work
    world worry worse worth write wrong year yes yesterday yet young
"""

WORDS = tuple(_WORDS.split())

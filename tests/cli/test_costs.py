from forged_client.protocol import Cost, Costs, DayCost

DAYS = (
    DayCost("2026-05-02", "capture", 12, 1, 12345, 320, 2345),
    DayCost("2026-05-02", "hyde", 3, 0, 900, 60),
    DayCost("2026-05-01", "hyde\x1b[2J", 1, 1, 10, 0),
)
COSTS = Costs(
    days=DAYS,
    tokens_today=13625,
    token_limit=100_000,
    calls_per_minute=60,
    resets_at="2026-05-03T00:00:00Z",
)


def test_costs_stand_in_a_table_and_below_it_what_is_left_of_today(daemon, forgectl):
    daemon.answers[Cost] = COSTS

    shown = forgectl("cost")

    assert shown.code == 0
    assert shown.out.splitlines() == [
        "day         purpose    calls  failed  prompt tokens  of these said  completion tokens",
        "2026-05-02  capture       12       1         12,345          2,345                320",
        "2026-05-02  hyde           3       0            900              0                 60",
        "2026-05-01  hyde^[[2J      1       1             10              0                  0",
        "today 13,625 of 100,000 tokens (`memory.daily_token_limit`); starts anew at 2026-05-03 00:00",
        "at most 60 calls a minute",
    ]
    assert daemon.asked(Cost).days == 7
    report = forgectl("cost", "--json").json
    assert (report["token_limit"], report["days"][0]["prompt_tokens"]) == (100_000, 12345)


def test_without_calls_and_a_limit_of_tokens_that_is_said(daemon, forgectl):
    daemon.answers[Cost] = Costs(resets_at="2026-05-03T00:00:00Z", calls_per_minute=60)

    shown = forgectl("cost", "--days", "30")

    assert shown.out.splitlines() == [
        "today 0 tokens, without a limit (`memory.daily_token_limit`); starts anew at 2026-05-03 00:00",
        "at most 60 calls a minute",
    ]
    assert shown.err == "no model was called in that time\n"
    assert daemon.asked(Cost).days == 30

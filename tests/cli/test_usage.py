from forged_client.protocol import Cost, Costs, DayCost, DayEgress, Egress, EgressReport

DAYS = (
    DayCost("2026-05-02", "capture", 12, 1, 12345, 320, 2345),
    DayCost("2026-05-02", "hyde", 3, 0, 900, 60),
    DayCost("2026-05-01", "hyde\x1b[2J", 1, 1, 10, 0),
)
LEFT = (
    DayEgress("2026-05-02", "api.example.com", "capture", 12, 1, 12, 45678),
    DayEgress("2026-05-01", "evil\x1b[2J", "hyde", 1, 1, 1, 10),
)
COSTS = Costs(
    days=DAYS,
    tokens_today=13625,
    token_limit=100_000,
    calls_per_minute=60,
    resets_at="2026-05-03T00:00:00Z",
)


def test_one_screen_says_what_left_what_it_cost_and_what_is_left_of_today(daemon, forgectl):
    daemon.answers |= {Cost: COSTS, Egress: EgressReport(days=LEFT)}

    shown = forgectl("usage")

    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        "What left the machine",
        "day         host             purpose  calls  failed  texts  characters",
        "2026-05-02  api.example.com  capture     12       1     12      45,678",
        "2026-05-01  evil^[[2J        hyde         1       1      1          10",
        "",
        "Model calls",
        "day         purpose    calls  failed  prompt tokens  conversation tokens  completion tokens",
        "2026-05-02  capture       12       1         12,345                2,345                320",
        "2026-05-02  hyde           3       0            900                    0                 60",
        "2026-05-01  hyde^[[2J      1       1             10                    0                  0",
        "",
        "Limits",
        "today 13,625 of 100,000 tokens (`memory.daily_token_limit`); the count restarts at 2026-05-03 00:00",
        "at most 60 calls a minute",
    ]
    assert (daemon.asked(Cost).days, daemon.asked(Egress).days) == (7, 7)


def test_one_object_has_all_of_it(daemon, forgectl):
    daemon.answers |= {Cost: COSTS, Egress: EgressReport(days=LEFT)}

    report = forgectl("usage", "--json").json

    assert (report["token_limit"], report["calls"][0]["prompt_tokens"]) == (100_000, 12345)
    assert report["egress"][0] == {
        "day": "2026-05-02",
        "host": "api.example.com",
        "purpose": "capture",
        "calls": 12,
        "failed": 1,
        "texts": 12,
        "characters": 45678,
    }


def test_without_calls_and_a_limit_of_tokens_that_is_said(daemon, forgectl):
    daemon.answers |= {
        Cost: Costs(resets_at="2026-05-03T00:00:00Z", calls_per_minute=60),
        Egress: EgressReport(),
    }

    shown = forgectl("usage", "--days", "30")

    assert shown.out.splitlines() == [
        "What left the machine",
        "no text left the machine in the last 30 days",
        "",
        "Model calls",
        "no model was called in the last 30 days",
        "",
        "Limits",
        "today 0 tokens, no limit (`memory.daily_token_limit`); the count restarts at 2026-05-03 00:00",
        "at most 60 calls a minute",
    ]
    assert daemon.asked(Cost).days == 30
    assert "today\n" in forgectl("usage", "--days", "1").out

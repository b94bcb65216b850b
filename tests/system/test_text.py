from remuda.system.text import count, duration, listed


def test_durations_have_two_units():
    seconds = (0.04, 59.9, 59.96, 91, 5000, 6000, 200_000)
    assert [duration(each) for each in seconds] == [
        "0.0 s",
        "59.9 s",
        "1 min 0 s",
        "1 min 31 s",
        "1 h 23 min",
        "1 h 40 min",
        "2 days 7 h",
    ]


def test_counts_and_lists_read_like_sentences():
    assert [count(number, "rank") for number in (0, 1, 1000)] == [
        "0 ranks",
        "1 rank",
        "1,000 ranks",
    ]
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]

"""Payloads of real runs of every strategy, and a server while a run trains."""

import json
import math
import threading
import time

import pytest

import remuda
from remuda import config
from remuda.reports.page.run import read
from remuda.reports.watch import following
from tests.reports.page.pages import decode, payload_of, written_payload
from tests.training.test_run import make

from .serving import serving

NOUNS = {"class-parallel": "class", "cellular": "cell", "cellular-async": "cell"}


@pytest.mark.parametrize("strategy", config.STRATEGIES)
def test_the_payload_of_every_strategy(tiny, tmp_path, strategy, empty_pages):
    tiny["strategy"] |= {"name": strategy}
    if config.STRATEGIES[strategy]().num_members(0, 10) < 10:
        tiny["run"]["members"] = 0  # one member or a grid
    folder = remuda.run(make(tiny, rounds=3), tmp_path / "run")
    found = payload_of(folder)
    members, curves = len(found["members"]), found["curves"]
    default = "member" if strategy == "standalone" else "worker"
    assert found["noun"] == NOUNS.get(strategy, default)
    assert curves["rounds"] == [1, 2, 3] and curves["ids"] == list(range(members))
    assert curves["seconds"] == sorted(curves["seconds"]) and all(curves["memory"])
    for name, text in curves["metrics"].items():
        values = decode(text)
        assert len(values) in (3 * members, 3), name
    assert all(map(math.isfinite, decode(curves["metrics"]["discriminator_loss"])))
    assert found["state"]["state"] == "finished" and len(found["ranks"]) == 1
    assert [each["round"] for each in found["pictures"]] == [2, 3]
    is_cellular = strategy.startswith("cellular")
    assert (found["torus"] is None) != is_cellular
    if is_cellular:
        weights = decode(found["torus"]["weights"])
        assert len(weights) == 3 * members * found["torus"]["slots"]
        assert len(found["torus"]["pictures"]) == 2
        assert "generator_lr" in found["torus"]["fields"]
    assert (found["workers"] is None) == (default == "member" or strategy in NOUNS)
    assert (found["classes"] is None) == (strategy != "class-parallel")
    json.dumps(found, allow_nan=False)


def test_the_last_page_of_a_run_knows_that_it_ended(tiny, tmp_path):
    folder = remuda.run(make(tiny, rounds=2), tmp_path / "run")
    text = (folder / "index.html").read_text()
    assert '"state":{"state":"finished"' in text
    found = written_payload(folder)
    assert found["commands"][0]["text"].startswith("remuda resume")
    assert [(rank["state"], rank["round"]) for rank in found["ranks"]] == [("finished", 2)]


def test_a_server_follows_a_run_that_trains(tiny, tmp_path, monkeypatch, empty_pages):
    monkeypatch.setattr(following, "INTERVAL", 0.0)
    (tmp_path / "runs").mkdir()
    tiny["run"] |= {"sample_every": 20}
    settings = make(tiny, rounds=60)

    def train() -> None:
        remuda.run(settings, tmp_path / "runs" / "a")

    thread = threading.Thread(target=train)
    states, rounds, generation, start = set(), [], "", 0
    with serving(tmp_path / "runs") as client:
        thread.start()
        deadline = time.monotonic() + 60
        while states != {"finished"} and time.monotonic() < deadline:
            is_over = not thread.is_alive()
            query = f"generation={generation}&from={max(0, len(rounds) - 1)}"
            answer = client.get(f"/run/a/data?{query}")
            if answer.status == 404:  # the run has not created its folder yet
                continue
            assert answer.status == 200, answer.body
            found = answer.json
            start, generation = found["curves"]["from"], found["curves"]["generation"]
            rounds[start:] = found["curves"]["rounds"]
            state = found["state"]["state"]
            texts = " ".join(each["text"] for each in found["commands"])
            assert state != "running" or "resume" not in texts
            states = {state} if is_over else states | {state}
            time.sleep(0.05)
        thread.join()
        assert len(client.get("/data").json["runs"]) == 1
        for picture in found["pictures"]:
            assert client.get(f"/run/a/{picture['src']}").status == 200
    assert rounds == list(range(1, 61)) and len(found["pictures"]) == 3
    assert read(tmp_path / "runs" / "a").reached == 60

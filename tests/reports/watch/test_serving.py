"""What the server sends: pages, data that grow, pictures."""

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from remuda.errors import UserError
from remuda.reports.watch import following, library, server
from tests.cli.test_cli import in_process
from tests.reports.page.records import add_grid, add_rounds, make_record, round_line

from .serving import serving


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(following, "INTERVAL", 0.0)
    monkeypatch.setattr(library, "INDEX_INTERVAL", 0.0)


def payload_in(page: bytes) -> dict:
    return json.loads(page.split(b'id="payload">')[1].split(b"</script>")[0])


def test_a_folder_has_an_index(client):
    assert {run["id"] for run in client.get("/data").json["runs"]} == {"one", "many/seed <0>"}
    page = client.get("/", Accept_Encoding="gzip")
    assert page.status == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
    assert len(payload_in(page.body)["runs"]) == 2
    assert client.get("/", "HEAD").body == b""


def test_a_run_has_a_page_data_and_pictures(client, runs):
    page = payload_in(client.get("/run/one/").body)
    assert page["name"] == "one" and page["state"]["reached"] == 4
    src = page["pictures"][0]["src"]
    assert src.startswith("samples/round-000004.png?v=")
    picture = client.get(f"/run/one/{src}")
    assert picture.headers["content-type"] == "image/png"
    assert picture.body == (runs / "one/samples/round-000004.png").read_bytes()
    deep = client.get("/run/many/seed%20%3C0%3E/data").json
    assert deep["strategy"] == "fl-gan"
    moved = client.get("/run/many/seed%20%3C0%3E")
    assert (moved.status, moved.headers["location"]) == (303, "seed%20%3C0%3E/")


def test_folders_may_be_called_like_those_of_a_run(client, runs):
    add_grid(make_record(runs / "many/samples/data"), 4)
    page = client.get("/run/many/samples/data/")
    src = payload_in(page.body)["pictures"][0]["src"]
    assert client.get(f"/run/many/samples/data/{src}").status == 200
    assert client.get("/run/many/samples/data/data").status == 200
    assert client.get("/run/many/samples/data/config.toml").status == 404


def test_names_may_contain_line_breaks(client, runs):
    add_grid(make_record(runs / "two\nlines"), 4)
    assert "two\nlines" in {run["id"] for run in client.get("/data").json["runs"]}
    page = client.get("/run/two%0Alines/")
    assert page.status == 200
    src = payload_in(page.body)["pictures"][0]["src"]
    assert client.get(f"/run/two%0Alines/{src}").status == 200
    assert client.get("/run/two%0Alines").headers["location"] == "two%0Alines/"
    assert client.get("/run/one/samples/round-000004.png%0A").status == 404


def test_a_client_receives_only_new_points(client, runs):
    first = client.get("/run/one/data")
    curves = first.json["curves"]
    assert curves["from"] == 0 and len(curves["rounds"]) == 4
    address = f"/run/one/data?generation={curves['generation']}&from=3"
    assert client.get(address).json["curves"]["rounds"] == [4]
    add_rounds(runs / "one", [round_line(5, 3)])
    found = client.get(address).json
    assert (found["curves"]["from"], found["curves"]["rounds"]) == (3, [4, 5])
    assert found["curves"]["generation"] == curves["generation"]
    (runs / "one/rounds.jsonl").write_text("")  # as a resume does
    add_rounds(runs / "one", [round_line(1, 3, generator_loss=[9, 9, 9])])
    found = client.get(address).json["curves"]
    assert (found["from"], found["rounds"]) == (0, [1])
    assert found["generation"] != curves["generation"]
    assert client.get("/run/one/data?generation=other&from=3").json["curves"]["from"] == 0


def test_unchanged_data_are_not_sent_again(client, runs, monkeypatch):
    monkeypatch.setattr(following, "INTERVAL", 60.0)
    first = client.get("/run/one/data")
    again = client.get("/run/one/data", If_None_Match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"") and again.headers["etag"]
    monkeypatch.setattr(following, "INTERVAL", 0.0)
    add_rounds(runs / "one", [round_line(5, 3)])
    assert client.get("/run/one/data", If_None_Match=first.headers["etag"]).status == 200


def test_answers_are_compressed_if_the_client_wants(client):
    plain, packed = client.get("/run/one/"), client.get("/run/one/", Accept_Encoding="gzip")
    assert "content-encoding" not in plain.headers and packed.body[:20] == plain.body[:20]
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 2


def test_files_are_read_once_for_all_clients(client, runs, monkeypatch):
    monkeypatch.setattr(following, "INTERVAL", 60.0)
    built = []
    original = following.payload
    monkeypatch.setattr(following, "payload", lambda *args: built.append(1) or original(*args))
    threads = [threading.Thread(target=client.get, args=("/run/one/data",)) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_runs_appear_later_and_may_vanish(tmp_path):
    (tmp_path / "empty").mkdir()
    with serving(tmp_path / "empty") as client:
        assert client.get("/data").json["runs"] == []
        folder = make_record(tmp_path / "empty" / "new")
        assert client.get("/run/new/data").status == 200
        (folder / "config.toml").rename(folder / "gone.toml")
        assert client.get("/run/new/data").status == 404
        (folder / "gone.toml").rename(folder / "config.toml")
        assert client.get("/run/new/data").status == 200


def test_one_run_is_its_own_index(runs):
    with serving(runs / "one") as client:
        assert payload_in(client.get("/").body)["name"] == "one"
        assert client.get("/data").json["name"] == "one"
        assert client.get("/samples/round-000004.png").status == 200
        answer = client.get("/run/one/")
        assert answer.status == 404 and b'<a href="/">The run</a>' in answer.body


def test_an_empty_folder_may_become_a_run(tmp_path):
    with serving(tmp_path) as client:
        assert client.get("/data").json["runs"] == []
        make_record(tmp_path)
        assert "has become a run: load the page again" in client.get("/data").json["error"]
        assert payload_in(client.get("/").body)["state"]["reached"] == 4
        assert client.get("/data").json["strategy"] == "class-parallel"


def test_damaged_files_are_named_until_they_are_repaired(client, runs):
    path = runs / "one" / "rounds.jsonl"
    good = path.read_text()
    assert client.get("/run/one/data").status == 200
    path.write_text(good + "nonsense\n")
    answer = client.get("/run/one/data")
    assert answer.status == 400 and "rounds.jsonl cannot be read" in answer.json["error"]
    path.write_text(good)
    assert client.get("/run/one/data").json["state"]["reached"] == 4


def test_unexpected_content_ends_with_a_sentence(client, runs):
    path = runs / "one" / "config.toml"
    path.write_text(path.read_text().replace("rounds = 10", 'rounds = "ten"'))
    answer = client.get("/run/one/data")
    assert answer.status == 400 and "rounds is 'ten'" in answer.json["error"]
    assert client.get("/data").status == 200


def test_readers_of_pages_get_errors_as_pages(client, runs):
    (runs / "one/config.toml").write_text('name = "<script>alert(1)</script>\n')
    answer = client.get("/run/one/")
    assert answer.status == 400 and answer.headers["content-type"].startswith("text/html")
    assert b"config.toml cannot be read" in answer.body and b"<script>" not in answer.body
    assert b'<a href="/">All runs</a>' in answer.body
    for address in ("/nothing", "/run/nothing/", "/compare", "/run/one/samples/round-1.png"):
        assert client.get(address).headers["content-type"].startswith("text/html"), address
    assert client.get("/run/nothing/data").json == {"error": "there is no such page"}


def test_pictures_of_cells(client, runs):
    (runs / "one/samples/cells").mkdir()
    add_grid(runs / "one/samples", 4, folder="cells")
    assert client.get("/run/one/samples/cells/round-000004.png").status == 200


def test_comparisons(client):
    page = client.get("/compare?run=one&run=many/seed%20%3C0%3E")
    assert page.status in (200, 400)  # records made by hand lack settings
    assert client.get("/compare").status == 400
    assert client.get("/compare?run=nothing").status == 404
    assert client.get("/compare/data?" + "&".join(f"run={i}" for i in range(60))).status == 400


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, a process has one priority")
def test_comparisons_import_with_the_usual_priority(runs, monkeypatch):
    found = []

    def note_priority(name):
        found.append(os.getpriority(os.PRIO_PROCESS, 0))  # of the thread that calls
        raise UserError(f"{name} is not imported")

    monkeypatch.setattr(library, "import_module", note_priority)
    usual = os.getpriority(os.PRIO_PROCESS, 0)

    def serve_in_another_thread():
        shelf = library.Library(runs, "")
        os.nice(1)  # as remuda watch does
        with pytest.raises(UserError, match="is not imported"):
            shelf.comparison(["one"], "data")

    with ThreadPoolExecutor(1) as other:  # whose priority ends with it
        other.submit(serve_in_another_thread).result()
    assert found == [usual]


# The command


def test_bad_input_ends_with_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"there is no folder .*nothing: .* mkdir -p"):
        server.check_folder(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is not a folder: name a run or a folder of runs"):
        server.check_folder(tmp_path / "file")
    with pytest.raises(UserError, match="is not an address of this computer"):
        server.bind("203.0.113.7", 0)
    with pytest.raises(UserError, match="is not an address of this computer"):
        server.bind("no such host", 0)
    status, output = in_process("watch", tmp_path / "nothing")
    assert status == 2 and len(output.strip().splitlines()) == 1


def test_a_taken_port_has_a_remedy(runs):
    with serving(runs) as client:
        port = client.port
        with pytest.raises(UserError, match=rf"port {port} is taken, .* --port 0"):
            server.bind("127.0.0.1", port)


def test_addresses(monkeypatch):
    with server.bind("127.0.0.1", 0).socket as bound:
        assert bound.getsockname()[0] == "127.0.0.1"
    place = server.bind("0.0.0.0", 0)
    place.socket.close()
    assert len(place.token) >= 32 and place.address.endswith(f"/?token={place.token}")
    assert not server.bind("localhost", 0).token

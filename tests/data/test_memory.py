from remuda.data import memory


def test_there_is_some_and_every_source_is_of_one_order(monkeypatch, tmp_path):
    told = memory.available_bytes()
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "none")
    counted = memory.available_bytes()
    assert told is not None and counted is not None
    assert counted > 1e6 and told / 100 < counted < told * 100


def test_none_where_the_system_does_not_tell(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "none")
    monkeypatch.setattr(memory.os, "sysconf_names", {})
    assert memory.available_bytes() is None
